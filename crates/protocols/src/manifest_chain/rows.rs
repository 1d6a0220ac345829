//! Entries and the indices over them as keys and values of the tree.
//!
//! | key | value | |
//! |---|---|---|
//! | `o` parent 0 last | the entry | by name: what is directly in a namespace is adjacent |
//! | `t` kind parent 0 last | nothing | index by type |
//! | `b` base 0 parent 0 last | nothing | index by base object |
//!
//! Names contain no byte 0, so all keys differ.

use bytes::Bytes;
use glidepath_model::{Entry, Kind, Name};

use super::page::Key;
use super::tree::Edit;
use crate::entry::{encode, kind_byte};
use crate::mutant::{self, Mutant};

const BY_NAME: u8 = b'o';
const BY_KIND: u8 = b't';
const BY_BASE: u8 = b'b';

/// A range of keys, without its end.
pub(crate) struct Between {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Between {
    /// All keys with this prefix.
    fn prefix(prefix: Vec<u8>) -> Self {
        let mut to = prefix.clone();
        // No prefix ends in 255.
        if let Some(last) = to.last_mut() {
            *last += 1;
        }
        Self { from: prefix, to }
    }

    /// Only the keys after this one.
    pub(crate) fn after(mut self, key: &[u8]) -> Self {
        if key >= self.from.as_slice() {
            self.from = [key, &[0]].concat();
        }
        self
    }
}

fn place(parent: &str, last: &str) -> Vec<u8> {
    [parent.as_bytes(), &[0], last.as_bytes()].concat()
}

fn place_of(name: &Name) -> Vec<u8> {
    place(name.parent().as_ref().map_or("", Name::as_str), name.last())
}

/// The key of an entry.
pub(crate) fn by_name(name: &Name) -> Key {
    [&[BY_NAME][..], &place_of(name)].concat().into()
}

/// Whether a key with this first byte is an entry's, not an index key.
pub(crate) fn is_entry_key(first: u8) -> bool {
    first == BY_NAME
}

/// The entries directly in a namespace or in the root.
pub(crate) fn children(namespace: Option<&Name>) -> Between {
    Between::prefix([&[BY_NAME][..], &place(namespace.map_or("", Name::as_str), "")].concat())
}

/// Everything in a namespace, at all depths.
pub(crate) fn entries_within(namespace: &Name) -> [Between; 2] {
    within_behind(&[BY_NAME], namespace)
}

/// The ranges that contain the rows of everything in a namespace, including index rows. The ranges by base object
/// contain others too.
pub(crate) fn within(namespace: &Name) -> Vec<Between> {
    let by_kind = Kind::ALL.map(|kind| within_behind(&[BY_KIND, kind_byte(kind)], namespace));
    let mut places = vec![Between::prefix(vec![BY_BASE])];
    places.extend(entries_within(namespace).into_iter().chain(by_kind.into_iter().flatten()));
    places
}

/// The ranges with this prefix whose parent is the namespace, or is in it.
fn within_behind(prefix: &[u8], namespace: &Name) -> [Between; 2] {
    [b"\0", b"/"].map(|end| Between::prefix([prefix, namespace.as_str().as_bytes(), end].concat()))
}

/// Every entry.
pub(crate) fn all() -> Between {
    Between::prefix(vec![BY_NAME])
}

/// All entries of a kind.
pub(crate) fn of_kind(kind: Kind) -> Between {
    Between::prefix(vec![BY_KIND, kind_byte(kind)])
}

/// All entries made from this one.
pub(crate) fn with_base(base: &Name) -> Between {
    Between::prefix([&[BY_BASE][..], base.as_str().as_bytes(), &[0]].concat())
}

/// The name in a key of any of the three kinds; `None` if it is not a key.
pub(crate) fn name_in(key: &[u8]) -> Option<Name> {
    let place = match key.split_first()? {
        (&BY_NAME, place) => place,
        (&BY_KIND, rest) => rest.split_first()?.1,
        (&BY_BASE, rest) => rest.splitn(2, |byte| *byte == 0).nth(1)?,
        _ => return None,
    };
    let mut parts = std::str::from_utf8(place).ok()?.split('\0');
    let (parent, last) = (parts.next()?, parts.next()?);
    if parent.is_empty() { Name::parse(last).ok() } else { Name::parse(&format!("{parent}/{last}")).ok() }
}

/// The edits for an entry that changes from `before` to `now`.
pub(crate) fn edits(name: &Name, before: Option<&Entry>, now: Option<&Entry>, indexed: bool, edits: &mut Vec<Edit>) {
    edits.push((by_name(name), now.map(encode)));
    if !indexed {
        return;
    }
    let (old, new) = (before.map(|entry| index_keys(name, entry)), now.map(|entry| index_keys(name, entry)));
    let (mut old, mut new) = (old.unwrap_or_default(), new.unwrap_or_default());
    new.retain(|key| match key.first() {
        Some(&BY_KIND) => !mutant::is(Mutant::KindNotIndexed),
        Some(&BY_BASE) => !mutant::is(Mutant::BaseNotIndexed),
        _ => true,
    });
    if mutant::is(Mutant::IndexNotCleaned) {
        old.clear();
    }
    edits.extend(old.iter().filter(|key| !new.contains(key)).map(|key| (key.clone(), None)));
    edits.extend(new.iter().filter(|key| !old.contains(key)).map(|key| (key.clone(), Some(Bytes::new()))));
}

/// The index keys of an entry.
pub(crate) fn index_keys(name: &Name, entry: &Entry) -> Vec<Key> {
    let place = place_of(name);
    let mut keys = vec![Key::from([&[BY_KIND, kind_byte(entry.kind)][..], &place].concat())];
    for base in &entry.base_objects {
        let key = [&[BY_BASE][..], base.as_str().as_bytes(), &[0], &place].concat();
        keys.push(key.into());
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_say_their_names(parts in prop::collection::vec("[a-c/]{1,3}", 1..4), base in "[a-c/]{1,3}") {
            let name = Name::of_parts(parts.iter().map(String::as_str)).unwrap();
            let base = Name::of_parts([base.as_str()]).unwrap();
            let entry = Entry { base_objects: vec![base.clone()], ..Entry::namespace() };
            let key = by_name(&name);
            let between = children(name.parent().as_ref());
            prop_assert!(between.from.as_slice() <= &key[..] && &key[..] < between.to.as_slice());
            let mut found = vec![name_in(&key)];
            found.extend(index_keys(&name, &entry).iter().map(|key| name_in(key)));
            prop_assert_eq!(found, vec![Some(name.clone()); 3]);
            let bases = with_base(&base);
            let within = |key: &Key| bases.from.as_slice() <= &key[..] && &key[..] < bases.to.as_slice();
            prop_assert_eq!(index_keys(&name, &entry).iter().filter(|key| within(key)).count(), 1);
        }
    }
}
