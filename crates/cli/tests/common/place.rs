//! A catalog in a temporary folder, for tests of `glidepath catalog`.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use crate::common::{glidepath, output, refused};

/// A folder with a store in it.
pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    /// With no catalog yet.
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a catalog that was created with these arguments.
    pub(crate) fn with(how: &str) -> Self {
        let place = Self::empty();
        place.does(&format!("create STORE {how}"));
        place
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// Runs `glidepath catalog`; STORE stands for the store's URL.
    pub(crate) fn run(&self, arguments: &str) -> Output {
        let url = format!("file://{}?durability=none", self.store().display());
        glidepath(self.0.path(), &format!("catalog {}", arguments.replace("STORE", &url)))
    }

    pub(crate) fn does(&self, arguments: &str) -> String {
        output(self.run(arguments))
    }

    pub(crate) fn fails(&self, arguments: &str, code: i32, words: &str) {
        let error = refused(self.run(arguments), code);
        assert!(error.contains(words), "{arguments}: {error}");
    }

    pub(crate) fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.does(arguments)).unwrap()
    }

    pub(crate) fn lines(&self, arguments: &str) -> Vec<Value> {
        self.does(arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The exit code and the JSON of fsck.
    pub(crate) fn fsck(&self, more: &str) -> (i32, Value) {
        let output = self.run(&format!("fsck STORE --json {more}"));
        let json = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), json.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
    }

    /// The file of an object.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.store().join(format!("objects/{key}%o"))
    }

    /// Makes the versions of a manifest chain older, by the clock of their writer and by that of the file system.
    pub(crate) fn age(&self, by_writer: Duration, by_file_system: Duration) {
        for entry in std::fs::read_dir(self.store().join("objects/versions")).unwrap() {
            let path = entry.unwrap().path();
            let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
            self.spoil(&path, |object| {
                let length = u32::from_le_bytes(object[8..12].try_into().unwrap()) as usize;
                // Behind the head: version, commit, commit before, oldest version, time.
                let written_ms = u64::from_le_bytes(object[44..52].try_into().unwrap()) - by_writer.as_millis() as u64;
                object[44..52].copy_from_slice(&written_ms.to_le_bytes());
                let sum = crc32fast::hash(&object[..length - 4]);
                object[length - 4..length].copy_from_slice(&sum.to_le_bytes());
            });
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(modified - by_file_system).unwrap();
        }
    }

    /// Changes the bytes of an object behind the store's back.
    pub(crate) fn spoil(&self, file: &PathBuf, change: impl FnOnce(&mut [u8])) {
        let mut bytes = std::fs::read(file).unwrap();
        // The store's own head comes first.
        change(&mut bytes[1024..]);
        std::fs::write(file, bytes).unwrap();
    }
}
