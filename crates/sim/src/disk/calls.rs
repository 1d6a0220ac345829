//! What does each call to a simulated disk do, and how can it fail?

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use glidepath_env::{Access, Env, Files, Purpose, unit_interval};
use glidepath_model::{Instant, Span};

use super::kept::{Content, Kept};
use super::tree::Node;
use super::{CALLS, Disk, DiskFaults, Lock};
use crate::clock::SimEnv;
use crate::fault::Mishap;
use crate::luck::Stream;

/// The handle of one process on a simulated disk. Clones belong to the same process.
#[derive(Clone)]
pub struct SimFiles {
    disk: Disk,
    env: SimEnv,
    process: u64,
    luck: Rc<Cell<Stream>>,
    /// Whether the process has died: calls that it makes at the same time have no effect either, because its locks are
    /// released.
    pub(super) dead: Rc<Cell<bool>>,
}

/// An open file or folder.
pub struct DiskFile {
    disk: Disk,
    /// Unique among open files.
    number: u64,
    node: u64,
    /// The path by which it was opened.
    path: PathBuf,
    /// Failed syncs that this handle has reported, or that came before it was opened.
    heard: Cell<u64>,
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.disk.0.locks.borrow_mut().remove(&self.number);
    }
}

/// What kind of call it is, for the faults that it may meet and the time that it takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Look,
    Open,
    Change,
    Grow,
    Sync,
}

/// Error numbers of Linux.
const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

impl SimFiles {
    pub(super) fn new(disk: Disk, env: SimEnv, process: u64) -> Self {
        let luck = Rc::new(Cell::new(Stream::keyed(disk.0.seed, process, CALLS)));
        Self { disk, env, process, luck, dead: Rc::default() }
    }

    fn chance(&self, probability: f64) -> bool {
        // Draws also if the probability is 0, so that enabling one fault does not move the others.
        let mut luck = self.luck.get();
        let drawn = unit_interval(luck.draw());
        self.luck.set(luck);
        drawn < probability
    }

    /// Advances time by what the call takes, and fails if a fault is drawn.
    async fn call(&self, kind: Kind, words: &str, path: &Path) -> io::Result<()> {
        let faults = self.disk.0.faults.get();
        let takes = if kind == Kind::Sync { 300_000.0 } else { 10_000.0 };
        let takes = takes * (0.5 + unit_interval(self.env.draw(Purpose::Store)));
        self.env.sleep_until(self.env.now() + Span::from_nanos_f64(takes)).await;
        if self.chance(faults.paused) {
            self.fails(&format!("{words} {}: its process is paused before", path.display()));
            self.env.sleep_until(self.env.now() + faults.pause).await;
        }
        if self.dead.get() {
            std::future::pending::<()>().await;
        }
        if self.chance(faults.death) {
            self.dead.set(true);
            self.fails(&format!("{words} {}: its process dies before", path.display()));
            self.disk.0.locks.borrow_mut().retain(|_, lock| lock.process != self.process);
            std::future::pending::<()>().await;
        }
        if let Some(left) = self.disk.0.left.get() {
            self.disk.0.left.set(Some(left.saturating_sub(1)));
            if left <= 1 {
                std::future::pending::<()>().await;
            }
        }
        self.luck_of(kind, &faults).inspect_err(|error| self.fails(&format!("{words} {}: {error}", path.display())))
    }

    fn luck_of(&self, kind: Kind, faults: &DiskFaults) -> io::Result<()> {
        let fails = [
            (faults.io_error, EIO, true),
            (faults.full, ENOSPC, kind == Kind::Grow),
            (faults.many_files, EMFILE, kind == Kind::Open),
            (faults.failed_sync, EIO, kind == Kind::Sync),
        ];
        let mut failed = Ok(());
        for (probability, number, applies) in fails {
            if applies && self.chance(probability) && failed.is_ok() {
                failed = Err(io::Error::from_raw_os_error(number));
            }
        }
        failed
    }

    fn fails(&self, words: &str) {
        self.disk.0.failures.set(self.disk.0.failures.get() + 1);
        if let Some(mishaps) = self.disk.0.mishaps.borrow_mut().as_mut() {
            mishaps.push(Mishap { at: self.env.now(), process: self.env.process(), words: words.to_owned() });
        }
    }

    /// How many bytes of a read or write are transferred.
    fn cut_short(&self, length: usize) -> usize {
        match self.chance(self.disk.0.faults.get().short) && length > 1 {
            true => length / 2,
            false => length,
        }
    }

    fn opened(&self, path: &Path, node: u64, heard: u64) -> DiskFile {
        let number = self.disk.0.opened.get() + 1;
        self.disk.0.opened.set(number);
        let (disk, path) = (self.disk.clone(), path.to_path_buf());
        DiskFile { disk, number, node, path, heard: Cell::new(heard) }
    }

    async fn sync(&self, file: &DiskFile) -> io::Result<()> {
        let result = self.call(Kind::Sync, "sync", &file.path).await;
        let mut tree = self.disk.0.tree.borrow_mut();
        // An open file without a name can be synced too: it exists until the power fails.
        let failures = match tree.node(file.node)? {
            Node::File(content) => synced(content, result.is_ok()),
            Node::Folder(names) => synced(names, result.is_ok()),
        };
        let unheard = file.heard.replace(failures) < failures;
        match result {
            Ok(()) if unheard => Err(io::Error::from_raw_os_error(EIO)),
            result => result,
        }
    }

    /// The file was written now.
    fn date(&self, file: &DiskFile) {
        let now_ms = self.env.unix_ms() + self.disk.0.began.get().as_nanos() / 1_000_000;
        self.disk.0.written_ms.borrow_mut().insert(file.node, now_ms);
    }

    /// Every process that has the file open opened it under this path: files are renamed only before other processes
    /// know them.
    fn note_file(&self, file: &DiskFile) {
        if self.disk.0.tree.borrow().find(&file.path) == Some(file.node) {
            self.disk.note(&file.path);
        }
    }
}

fn synced<C: super::kept::Change>(kept: &mut Kept<C>, well: bool) -> u64 {
    if well {
        kept.sync();
    } else {
        kept.fail();
    }
    kept.failures
}

impl Files for SimFiles {
    type File = DiskFile;

    async fn open(&self, path: &Path, access: Access) -> io::Result<DiskFile> {
        self.call(Kind::Open, "open", path).await?;
        let mut tree = self.disk.0.tree.borrow_mut();
        let node = match (tree.find(path), access) {
            (Some(_), Access::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(node), _) => node,
            (None, Access::New | Access::Either) => tree.create(path, Node::File(Kept::default()))?,
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        let failures = match tree.node(node)? {
            Node::File(content) => content.failures,
            Node::Folder(names) => names.failures,
        };
        Ok(self.opened(path, node, failures))
    }

    /// The simulated disk has none.
    async fn is_link(&self, _: &Path) -> io::Result<bool> {
        Ok(false)
    }

    async fn read_at(&self, file: &DiskFile, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.call(Kind::Look, "read", &file.path).await?;
        let mut tree = self.disk.0.tree.borrow_mut();
        let content = tree.file(file.node)?.visible();
        let rest = content.get(at as usize..).unwrap_or_default();
        let length = self.cut_short(rest.len().min(buffer.len()));
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    async fn write_at(&self, file: &DiskFile, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.call(Kind::Grow, "write", &file.path).await?;
        let length = self.cut_short(bytes.len());
        let write = Content::Write { at, bytes: bytes[..length].to_vec() };
        self.disk.0.tree.borrow_mut().file(file.node)?.change(write);
        self.date(file);
        self.note_file(file);
        Ok(length)
    }

    async fn set_len(&self, file: &DiskFile, length_bytes: u64) -> io::Result<()> {
        self.call(Kind::Change, "set the length of", &file.path).await?;
        self.disk.0.tree.borrow_mut().file(file.node)?.change(Content::Length(length_bytes));
        self.date(file);
        self.note_file(file);
        Ok(())
    }

    async fn sync_file(&self, file: &DiskFile) -> io::Result<()> {
        self.sync(file).await
    }

    async fn sync_folder(&self, folder: &DiskFile) -> io::Result<()> {
        self.sync(folder).await
    }

    async fn length(&self, path: &Path) -> io::Result<u64> {
        self.call(Kind::Look, "look at", path).await?;
        let tree = self.disk.0.tree.borrow();
        let node = tree.need(path)?;
        Ok(tree.content(node).map_or(0, |content| content.len() as u64))
    }

    async fn written_ms(&self, file: &DiskFile) -> io::Result<u64> {
        self.call(Kind::Look, "look at", &file.path).await?;
        Ok(self.disk.0.written_ms.borrow().get(&file.node).copied().unwrap_or_default())
    }

    async fn leads_to(&self, path: &Path, file: &DiskFile) -> io::Result<bool> {
        self.call(Kind::Look, "look at", path).await?;
        Ok(self.disk.0.tree.borrow().find(path) == Some(file.node))
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Kind::Grow, "rename to", to).await?;
        self.disk.0.tree.borrow_mut().rename(from, to)?;
        self.disk.note(to);
        Ok(())
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.call(Kind::Change, "remove", path).await?;
        self.disk.0.tree.borrow_mut().remove_file(path)?;
        self.disk.note(path);
        Ok(())
    }

    async fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Kind::Grow, "create folder", path).await?;
        self.disk.0.tree.borrow_mut().create(path, Node::Folder(Kept::default())).map(drop)
    }

    async fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.call(Kind::Change, "remove folder", path).await?;
        self.disk.0.tree.borrow_mut().remove_folder(path)
    }

    async fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.call(Kind::Look, "list", folder).await?;
        let mut tree = self.disk.0.tree.borrow_mut();
        let folder = tree.need(folder)?;
        Ok(tree.folder(folder)?.visible().keys().cloned().collect())
    }

    async fn try_lock(&self, file: &DiskFile) -> io::Result<bool> {
        self.call(Kind::Look, "lock", &file.path).await?;
        let mut locks = self.disk.0.locks.borrow_mut();
        if locks.iter().any(|(number, lock)| lock.node == file.node && *number != file.number) {
            return Ok(false);
        }
        locks.insert(file.number, Lock { process: self.process, node: file.node });
        Ok(true)
    }

    fn now(&self) -> Instant {
        self.env.now()
    }

    async fn sleep_until(&self, at: Instant) {
        self.env.sleep_until(at).await;
    }

    fn draw(&self) -> u64 {
        self.env.draw(Purpose::Names)
    }
}
