//! A disk whose power can be cut: an ext4 file system in a file.
//!
//! What the file system sends to its disk goes to the file, through the page cache of the machine, which keeps its
//! power. What it has not sent is lost: writes that were not synced, and what its journal had not committed. This
//! corresponds to a disk without a volatile cache, or with one that honours flushes; a disk that loses flushed data is
//! not tested. The journal commits by itself only after five minutes, so that no write becomes durable by waiting.

use std::path::{Path, PathBuf};
use std::process::Command;

/// ext4's `FS_IOC_SHUTDOWN` with "do not flush the journal": from this moment on, nothing is sent to the disk.
const SHUTDOWN: &str = "open(my $folder, '<', $ARGV[0]) or die $!; my $how = pack('I', 2);\
                        ioctl($folder, 0x8004587d, $how) or die $!;";

/// A mounted file system, in its own folder.
pub(crate) struct Disk {
    image: PathBuf,
    mounted: PathBuf,
}

/// Why the test cannot run here.
pub(crate) type Why = String;

fn run(command: &mut Command) -> Result<(), Why> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {words}")) }
}

impl Disk {
    /// An empty disk, if this user can mount a file as a file system and shut it down.
    pub(crate) fn new(folder: &Path) -> Result<Self, Why> {
        let (image, mounted) = (folder.join("disk.img"), folder.join("disk"));
        std::fs::create_dir(&mounted).unwrap();
        std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
        // Without deferred work of the kernel.
        let whole = "lazy_itable_init=0,lazy_journal_init=0";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", whole]).arg(&image))?;
        run(Command::new("perl").args(["-e", "1"]))?;
        let disk = Self { image, mounted };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), Why> {
        run(Command::new("mount").args(["-o", "loop,commit=300"]).arg(&self.image).arg(&self.mounted))
    }

    /// The folder of its files.
    pub(crate) fn path(&self) -> &Path {
        &self.mounted
    }

    /// Cuts the power: every later call fails.
    pub(crate) fn cut(&self) {
        run(Command::new("perl").args(["-e", SHUTDOWN]).arg(&self.mounted)).unwrap();
    }

    /// Restores the power. No process may have one of its files open.
    pub(crate) fn power_on(&self) {
        run(Command::new("umount").arg(&self.mounted)).unwrap();
        self.mount().unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Also after a failed test; lazily, because a file may still be open.
        let _ = Command::new("umount").arg("-l").arg(&self.mounted).output();
    }
}
