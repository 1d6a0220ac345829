//! The keys of all objects, and names in them.

use glidepath_env::Key;
use glidepath_model::Name;

use super::object::TxnId;
use crate::mutant::{self, Mutant};

/// The maximum length of an encoded name in a key; longer ones are hashed. Two of them and the rest fit into the keys
/// of every store, and one into the name of a file.
const LONGEST: usize = 180;

/// The keys of a catalog.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

/// What is kept under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The object `format`.
    Format,
    /// A slot of the register whose slots have this prefix.
    Slot(String, u64),
    /// A slot of a roster.
    Roster(String, u64),
    /// The record of a transaction.
    Txn(TxnId),
}

impl Keys {
    /// Below this prefix (empty, or ending in `/`).
    pub(super) fn below(prefix: &str) -> Self {
        Self { prefix: format!("{prefix}tickets/") }
    }

    pub(super) fn format(&self) -> Key {
        self.key("format")
    }

    /// Everything that slots of names have in common.
    pub(super) fn names(&self) -> Key {
        self.key("names/")
    }

    /// Everything that slots of rosters have in common.
    pub(super) fn rosters(&self) -> Key {
        self.key("rosters/")
    }

    /// The prefix of the slots of a name.
    pub(super) fn register(&self, name: &Name) -> Key {
        let (parent, last) = name.place();
        let parent = if parent.is_empty() { "r".to_owned() } else { encoded(parent) };
        self.key(&format!("names/{parent}/{}/", encoded(last)))
    }

    pub(super) fn slot(&self, name: &Name, number: u64) -> Key {
        numbered(self.register(name).as_str(), number)
    }

    /// The prefix of the slots of the roster of a namespace, or of the root.
    pub(super) fn roster(&self, namespace: Option<&Name>) -> Key {
        let namespace = namespace.map_or("r".to_owned(), |name| encoded(name.as_str()));
        self.key(&format!("rosters/{namespace}/"))
    }

    pub(super) fn roster_slot(&self, namespace: Option<&Name>, number: u64) -> Key {
        numbered(self.roster(namespace).as_str(), number)
    }

    /// Everything that records have in common.
    pub(super) fn txns(&self) -> Key {
        self.key("txns/")
    }

    pub(super) fn txn(&self, id: TxnId) -> Key {
        self.key(&format!("txns/{:032x}", id.0))
    }

    /// What is kept under this key; `None` if it is none of ours.
    pub(super) fn place(&self, key: &Key) -> Option<Place> {
        let rest = key.as_str().strip_prefix(&self.prefix)?;
        if rest == "format" {
            return Some(Place::Format);
        }
        if let Some(id) = rest.strip_prefix("txns/") {
            return digits::<32>(id).map(|id| Place::Txn(TxnId(id)));
        }
        let end = key.as_str().rfind('/')? + 1;
        let (of, number) = (key.as_str()[..end].to_owned(), slot_number(key)?);
        match rest.split('/').collect::<Vec<_>>()[..] {
            ["names", namespace, name, _] if is_namespace(namespace) && is_name(name) => Some(Place::Slot(of, number)),
            ["rosters", namespace, _] if is_namespace(namespace) => Some(Place::Roster(of, number)),
            _ => None,
        }
    }

    fn key(&self, rest: &str) -> Key {
        Key::new(&format!("{}{rest}", self.prefix))
    }
}

/// The slot of this number of the register or roster whose slots have this prefix.
pub(super) fn numbered(prefix: &str, number: u64) -> Key {
    Key::new(&format!("{prefix}{:016x}", u64::MAX - number))
}

/// The number of the slot with this key; `None` if it is the key of no slot.
pub(super) fn slot_number(key: &Key) -> Option<u64> {
    let (_, last) = key.as_str().rsplit_once('/')?;
    let number = u64::MAX - u64::try_from(digits::<16>(last)?).ok()?;
    // There is one after each.
    (1..u64::MAX).contains(&number).then_some(number)
}

/// A number of so many hexadecimal digits, as it is written in a key.
fn digits<const COUNT: usize>(text: &str) -> Option<u128> {
    let written = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let exact = text.len() == COUNT && text.bytes().all(written);
    (exact || mutant::is(Mutant::SimilarIsOurs)).then(|| u128::from_str_radix(text, 16).ok())?
}

fn is_namespace(part: &str) -> bool {
    part == "r" || is_name(part)
}

/// Whether a part of a key is an encoded name.
fn is_name(part: &str) -> bool {
    let name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'=');
    match part.split_at_checked(1) {
        Some(("n", text)) => text.bytes().all(name),
        Some(("h", hash)) => digits::<32>(hash).is_some(),
        _ => false,
    }
}

/// Lower-case letters, digits, `-` and `_` stay; every other byte is `=` and two hexadecimal digits. So different names
/// have different keys, also where a store ignores case.
fn encoded(text: &str) -> String {
    let mut out = "n".to_owned();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
            _ => out.push_str(&format!("={byte:02x}")),
        }
    }
    if out.len() <= LONGEST { out } else { format!("h{:032x}", hash(text.as_bytes())) }
}

/// FNV-1a with 128 bits.
fn hash(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(start, |hash: u128, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_these_and_lead_back() {
        let keys = Keys::below("lake/");
        let name = Name::of_parts(["a b", "T/1"]).unwrap();
        let slot = keys.slot(&name, 3);
        assert_eq!(slot.as_str(), "lake/tickets/names/na=20b/n=54=252=46=31/fffffffffffffffc".replace("=31", "1"));
        assert_eq!(keys.place(&slot), Some(Place::Slot("lake/tickets/names/na=20b/n=54=252=461/".to_owned(), 3)));
        assert_eq!(keys.roster_slot(None, 1).as_str(), "lake/tickets/rosters/r/fffffffffffffffe");
        let id = TxnId(7);
        assert_eq!(keys.place(&keys.txn(id)), Some(Place::Txn(id)));
        assert_eq!(keys.place(&keys.format()), Some(Place::Format));
        assert_eq!(keys.place(&Key::new("lake/protocol")), None);
    }

    #[test]
    fn long_names_are_hashed() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        let long = Name::of_parts(["x".repeat(1000).as_str()]).unwrap();
        assert!(Keys::below("").slot(&long, 1).as_str().len() < 100);
    }
}
