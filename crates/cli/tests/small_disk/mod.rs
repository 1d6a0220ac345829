//! Small file systems. Only the superuser can mount them; otherwise tests report that they were skipped.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system, unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

impl SmallDisk {
    /// A file system in memory.
    pub(crate) fn in_memory(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let options = format!("size={size}");
        let mounted = run("mount", &["-t", "tmpfs", "-o", &options, "glidepath-test", at.to_str().unwrap()]);
        Self::of(at, mounted)
    }

    /// An ext4 file system in a file beside it, without blocks reserved for the superuser.
    pub(crate) fn ext4(at: &Path, bytes: u64) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let image = at.with_extension("img");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        let (image, folder) = (image.to_str().unwrap(), at.to_str().unwrap());
        let made = run("mkfs.ext4", &["-q", "-F", "-m", "0", image]);
        Self::of(at, made && run("mount", &["-o", "loop", image, folder]))
    }

    fn of(at: &Path, mounted: bool) -> Option<Self> {
        if !mounted {
            println!("skipped: mounting a file system is for the superuser; run as such, in a container, to try this");
        }
        mounted.then(|| Self(at.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn make_read_only(&self) {
        assert!(run("mount", &["-o", "remount,ro", self.0.to_str().unwrap()]));
    }

    /// Fills it completely, and returns the file that fills it.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        for piece in [64 << 10, 4 << 10, 512, 1] {
            let error = loop {
                if let Err(error) = file.write_all(&vec![1; piece]).and_then(|()| file.sync_all()) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}
