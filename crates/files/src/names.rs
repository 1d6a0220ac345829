//! File names of objects. Every key has a path, and every path that the store created gives its key back.
//!
//! A part of a key (between slashes) becomes a name in which every byte other than `a-z 0-9 - _ =` and a dot that does
//! not come first is written `%` and two digits. So names also differ on a file system that does not distinguish
//! capital and small letters. Other characters after `%` give the kind of the name:
//!
//! | name | what it is |
//! |---|---|
//! | `part` | folder: keys that continue after `part/` |
//! | `%_` | the same, for an empty part |
//! | `part%o` | object |
//! | `part%+` | folder: the first [`PIECE`] bytes of a part that is at least that long; the rest is inside |
//! | `%moved-` and a number | a folder in doubt being moved; nothing in it was acknowledged or read |

use std::path::{Path, PathBuf};

/// Three times this and a mark fit into 255 bytes, the maximum length of a name.
const PIECE: usize = 80;

/// The maximum length of keys on most object stores; the path stays below 4096 bytes.
pub(crate) const LONGEST_KEY: usize = 1024;

/// The meaning of a name in the store's folder of objects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An object, whose key ends with these bytes.
    Object(Vec<u8>),
    /// A folder, whose keys continue with these bytes: a whole part and its slash, or the first piece of a part.
    Folder(Vec<u8>),
}

/// The path of a key's object.
pub(crate) fn path(objects: &Path, key: &str) -> PathBuf {
    let mut path = objects.to_path_buf();
    let mut parts = key.split('/').peekable();
    while let Some(part) = parts.next() {
        let mut rest = part.as_bytes();
        while let Some((piece, behind)) = rest.split_at_checked(PIECE) {
            path.push(escape(piece) + "%+");
            rest = behind;
        }
        match parts.peek() {
            None => path.push(escape(rest) + "%o"),
            Some(_) if rest.is_empty() => path.push("%_"),
            Some(_) => path.push(escape(rest)),
        }
    }
    path
}

/// The folder of all keys with this prefix, and the part of the prefix that it stands for.
pub(crate) fn folder<'a>(objects: &Path, prefix: &'a str) -> (PathBuf, &'a str) {
    let (whole, _) = prefix.split_at(prefix.rfind('/').map_or(0, |at| at + 1));
    let mut place = path(objects, whole);
    place.pop();
    (place, whole)
}

/// The name that a folder has while it is moved away and back.
pub(crate) fn moved_away(number: u64) -> String {
    format!("%moved-{number:016x}")
}

/// The meaning of a name; `None` if no object's path contains it.
pub(crate) fn entry(name: &str) -> Option<Entry> {
    if let Some(part) = name.strip_suffix("%o") {
        return unescape(part).map(Entry::Object);
    }
    if let Some(piece) = name.strip_suffix("%+") {
        return unescape(piece).map(Entry::Folder);
    }
    let mut part = if name == "%_" { Vec::new() } else { unescape(name)? };
    part.push(b'/');
    Some(Entry::Folder(part))
}

/// The key of a path below the folder of objects.
pub(crate) fn key(path: &Path) -> Option<String> {
    let mut key = Vec::new();
    for component in path.components() {
        match entry(component.as_os_str().to_str()?)? {
            Entry::Folder(bytes) => key.extend(bytes),
            Entry::Object(bytes) => {
                key.extend(bytes);
                return String::from_utf8(key).ok();
            }
        }
    }
    None
}

fn escape(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = String::with_capacity(bytes.len() + 16);
    for (at, &byte) in bytes.iter().enumerate() {
        let plain = byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_=".contains(&byte);
        if plain || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            name.push('%');
            name.push(char::from(DIGITS[usize::from(byte >> 4)]));
            name.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    name
}

fn unescape(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        bytes.push(digit(digits[0])? << 4 | digit(digits[1])?);
        rest = behind;
    }
    // Another spelling of a name is no path of a key: what is there cannot be read.
    (escape(&bytes) == name).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Entry, LONGEST_KEY, entry, path};
    use std::path::Path;

    fn keys() -> impl Strategy<Value = String> {
        // Often slashes, dots and percent signs, sometimes long parts, and any characters.
        let piece = prop_oneof![
            4 => "[/.%a-cA-C+ _o]{0,6}",
            2 => "\\PC{0,20}",
            1 => (70..170_usize).prop_map(|length| "x".repeat(length)),
            1 => (20..60_usize).prop_map(|length| "ü".repeat(length)),
        ];
        prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_path_gives_its_key_back(key in keys()) {
            let path = path(Path::new(""), &key);
            prop_assert_eq!(super::key(&path), Some(key));
            for component in path.components() {
                let name = component.as_os_str().to_str().expect("names are ASCII");
                prop_assert!(name.len() <= 255 && name.is_ascii());
                prop_assert!(!name.bytes().any(|byte| byte.is_ascii_uppercase()));
                prop_assert!(!name.starts_with('.'));
            }
        }

        /// Every key with a prefix is in the prefix's folder, and what is there begins as the folder says.
        #[test]
        fn a_folder_has_all_keys_of_its_prefix(key in keys(), at in 0..80_usize) {
            let at = (0..=at.min(key.len())).rev().find(|at| key.is_char_boundary(*at)).unwrap_or(0);
            let (folder, whole) = super::folder(Path::new("objects"), &key[..at]);
            prop_assert!(path(Path::new("objects"), &key).starts_with(&folder));
            prop_assert!(key.starts_with(whole) && !key[whole.len()..at].contains('/'));
        }

        /// No object's file is a folder in the path of another object.
        #[test]
        fn paths_do_not_collide(keys in prop::collection::btree_set(keys(), 2..20)) {
            let paths: BTreeSet<_> = keys.iter().map(|key| path(Path::new(""), key)).collect();
            prop_assert_eq!(paths.len(), keys.len());
            for path in &paths {
                for folder in path.ancestors().skip(1) {
                    prop_assert!(!paths.contains(folder));
                }
            }
        }

        /// The keys of a folder are adjacent in the byte order of all keys: sorting each folder by the key parts of its
        /// entries sorts the whole listing.
        #[test]
        fn folders_keep_the_order(keys in prop::collection::btree_set(keys(), 2..40)) {
            let spelled = |path: &Path| -> Vec<Vec<u8>> {
                let names = path.components().filter_map(|component| component.as_os_str().to_str()?.parse().ok());
                names.filter_map(|name: String| entry(&name)).map(|entry| match entry {
                    Entry::Object(bytes) | Entry::Folder(bytes) => bytes,
                }).collect()
            };
            let mut by_folder: Vec<_> = keys.iter().map(|key| (spelled(&path(Path::new(""), key)), key)).collect();
            by_folder.sort();
            prop_assert!(by_folder.iter().map(|(_, key)| *key).eq(&keys));
        }
    }

    #[test]
    fn the_longest_key_has_a_path_that_systems_take() {
        let key = "Ä".repeat(LONGEST_KEY / 2);
        assert!(path(Path::new("/a/folder"), &key).as_os_str().len() < 3600);
        let slashes = "/".repeat(LONGEST_KEY);
        assert!(path(Path::new("/a/folder"), &slashes).as_os_str().len() < 3600);
    }

    #[test]
    fn foreign_names_are_nobodys() {
        for name in ["50%", "%zz", "a%o%o", "%", &super::moved_away(7), "A", "+1%o", "%66%o", ".hidden", "%2E"] {
            assert_eq!(entry(name), None, "{name}");
        }
    }
}
