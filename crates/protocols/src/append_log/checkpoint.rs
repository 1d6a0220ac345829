//! The objects besides the segments: checkpoints, and the hint that names the newest one.

use bytes::Bytes;
use glidepath_env::{Cause, Key};
use glidepath_model::{Root, Version};

use super::record::{VERSIONS, decode_header, header};
use crate::catalog_file;
use crate::mutant::{self, Mutant};

const CHECKPOINT: [u8; 4] = *b"GPLC";

/// The names of a log's objects.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Numbers have leading zeros, so that keys sort as numbers do.
    pub(super) fn segment(&self, number: u64) -> Key {
        Key::new(&format!("{}/log/{number:020}", self.prefix))
    }

    pub(super) fn checkpoint(&self, number: u64) -> Key {
        Key::new(&format!("{}/checkpoint/{number:020}", self.prefix))
    }

    pub(super) fn checkpoints(&self) -> Key {
        Key::new(&format!("{}/checkpoint/", self.prefix))
    }

    pub(super) fn segments(&self) -> Key {
        Key::new(&format!("{}/log/", self.prefix))
    }

    pub(super) fn hint(&self) -> Key {
        Key::new(&format!("{}/head", self.prefix))
    }

    /// The number of a checkpoint's key; `None` for any other.
    pub(super) fn checkpoint_number(&self, key: &Key) -> Option<u64> {
        numbered(key, self.checkpoints().as_str())
    }

    /// The number of a segment's key; `None` for any other.
    pub(super) fn segment_number(&self, key: &Key) -> Option<u64> {
        numbered(key, self.segments().as_str())
    }
}

fn numbered(key: &Key, prefix: &str) -> Option<u64> {
    let digits = key.as_str().strip_prefix(prefix)?;
    let exact = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    (exact || mutant::is(Mutant::SimilarIsOurs)).then(|| digits.parse().ok())?
}

/// The catalog at the beginning of a segment. The same log gives the same bytes, whichever process writes them.
pub(super) fn encode(number: u64, root: &Root) -> Bytes {
    [&header(CHECKPOINT, number)[..], &catalog_file::File::first(root.clone()).encode()].concat().into()
}

pub(super) fn decode(number: u64, object: &[u8]) -> Result<Root, Cause> {
    let content = decode_header(object, CHECKPOINT, "a checkpoint", number).map_err(Cause::from_error)?;
    let root = catalog_file::File::decode(content).map_err(Cause::from_error)?.root().clone();
    let small = |version: &Version| version.0 < VERSIONS;
    let named = root.entries().iter().filter_map(|(_, entry)| entry.state.as_ref());
    let states = root.tables().map(|(_, state)| state).chain(named);
    if small(&root.version) && states.flat_map(|state| state.partitions.iter().chain([&state.version])).all(small) {
        Ok(root)
    } else {
        Err(Cause::words("a version is too large"))
    }
}

/// The hint is text, so that people can read it too.
pub(super) fn encode_hint(number: u64) -> Bytes {
    format!("{number}\n").into()
}

/// A hint that cannot be decoded is ignored.
pub(super) fn decode_hint(object: &[u8]) -> Option<u64> {
    std::str::from_utf8(object).ok()?.strip_suffix('\n')?.parse().ok()
}
