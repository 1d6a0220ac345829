//! A disk that loses its power: an ext4 file system in a file.
//!
//! What the file system sends to its disk lands in the file, through the page cache of the machine, which does not lose its
//! power. What the file system had not sent is lost: writes that nobody synced, and what its journal had not committed. That is
//! a power cut of a disk without a volatile cache of its own, or with one that honours flushes; a disk that acknowledges a
//! flush and forgets is not tried. The journal commits by itself after five minutes only, so that nothing becomes durable by
//! waiting.

use std::path::{Path, PathBuf};
use std::process::Command;

/// ext4's `FS_IOC_SHUTDOWN` with "do not flush the journal": at once, in the middle of whatever is under way, nothing more is
/// sent to the disk.
const SHUTDOWN: &str = "open(my $folder, '<', $ARGV[0]) or die $!; my $how = pack('I', 2);\
                        ioctl($folder, 0x8004587d, $how) or die $!;";

/// A mounted file system, in a folder of its own.
pub(crate) struct Disk {
    image: PathBuf,
    mounted: PathBuf,
}

/// Why it cannot be tried here.
pub(crate) type Why = String;

fn run(command: &mut Command) -> Result<(), Why> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {words}")) }
}

impl Disk {
    /// An empty one, where this machine and this user can mount a file as a file system and cut it off.
    pub(crate) fn new(folder: &Path) -> Result<Self, Why> {
        let (image, mounted) = (folder.join("disk.img"), folder.join("disk"));
        std::fs::create_dir(&mounted).unwrap();
        std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
        // Without work that the kernel would do later by itself.
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

    /// Where its files are.
    pub(crate) fn path(&self) -> &Path {
        &self.mounted
    }

    /// From here on nothing reaches it, and every attempt is an error.
    pub(crate) fn cut(&self) {
        run(Command::new("perl").args(["-e", SHUTDOWN]).arg(&self.mounted)).unwrap();
    }

    /// Has its power again. Nobody may have a file of it open.
    pub(crate) fn power_on(&self) {
        run(Command::new("umount").arg(&self.mounted)).unwrap();
        self.mount().unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whatever the test has come to; lazily, should somebody still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.mounted).output();
    }
}
