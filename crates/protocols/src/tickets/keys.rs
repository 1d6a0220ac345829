//! The keys of all objects, and names in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::Key;
use glidepath_model::Name;
use sha2::{Digest as _, Sha256};

use super::object::TxnId;
use crate::mutant::{self, Mutant};

/// The maximum length of an encoded name in a key; longer ones are hashed. Two of them and the rest fit into the keys
/// of every store, and one into the name of a file.
const LONGEST: usize = 180;

/// How names that are too long for a key are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// With FNV-1a, of which anybody can find two names with the same hash in seconds: in catalogs from before there
    /// was another one.
    Fnv,
    Sha256,
}

/// The keys of a catalog.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
    /// Whether the catalog is from before there was another hash.
    fnv: Arc<AtomicBool>,
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
        Self { prefix: format!("{prefix}tickets/"), fnv: Arc::default() }
    }

    /// Before any key of a name is made.
    pub(super) fn hashed_with(&self, hash: Hash) {
        self.fnv.store(hash == Hash::Fnv, Ordering::Relaxed);
    }

    /// Lower-case letters, digits, `-` and `_` stay; every other byte is `=` and two hexadecimal digits. So different
    /// names have different keys, also where a store ignores case.
    fn encoded(&self, text: &str) -> String {
        let mut out = "n".to_owned();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
                _ => out.push_str(&format!("={byte:02x}")),
            }
        }
        match out.len() <= LONGEST {
            true => out,
            false if self.fnv.load(Ordering::Relaxed) => format!("h{:032x}", fnv(text.as_bytes())),
            false => {
                let digits = Sha256::digest(text).into_iter().map(|byte| format!("{byte:02x}"));
                std::iter::once("s".to_owned()).chain(digits).collect()
            }
        }
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
        let parent = if parent.is_empty() { "r".to_owned() } else { self.encoded(parent) };
        self.key(&format!("names/{parent}/{}/", self.encoded(last)))
    }

    pub(super) fn slot(&self, name: &Name, number: u64) -> Key {
        numbered(self.register(name).as_str(), number)
    }

    /// The prefix of the slots of the roster of a namespace, or of the root.
    pub(super) fn roster(&self, namespace: Option<&Name>) -> Key {
        let namespace = namespace.map_or("r".to_owned(), |name| self.encoded(name.as_str()));
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
    let exact = text.len() == COUNT && text.bytes().all(is_digit);
    (exact || mutant::is(Mutant::SimilarIsOurs)).then(|| u128::from_str_radix(text, 16).ok())?
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
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
        Some(("s", hash)) => hash.len() == 64 && hash.bytes().all(is_digit),
        _ => false,
    }
}

/// FNV-1a with 128 bits.
fn fnv(bytes: &[u8]) -> u128 {
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
        assert_eq!(fnv(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        let (keys, long) = (Keys::below(""), Name::of_parts(["x".repeat(1000).as_str()]).unwrap());
        let register = |keys: &Keys| keys.register(&long).as_str().to_owned();
        // As `head -c 1000 /dev/zero | tr '\0' x | sha256sum` says.
        assert_eq!(
            register(&keys),
            "tickets/names/r/s44f8354494a5ba03ba1792a8d3e9c534c47a9181980fde7a3f44b06ef2ae7c7f/"
        );
        assert_eq!(keys.place(&keys.slot(&long, 1)), Some(Place::Slot(register(&keys), 1)));
        keys.hashed_with(Hash::Fnv);
        assert_eq!(register(&keys), format!("tickets/names/r/h{:032x}/", fnv(&[b'x'; 1000])));
        assert_eq!(keys.place(&keys.slot(&long, 1)), Some(Place::Slot(register(&keys), 1)));
    }
}
