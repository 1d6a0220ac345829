//! How many durable puts a second does the embedded store take, and how many bytes on disk does an entry cost?
//!
//! ```sh
//! cargo run --release -p glidepath-kv --example embedded_speed [directory [threads columns]]
//! ```
//!
//! It prints, and asserts nothing: the figures are the machine's, and another program beside it costs it milliseconds a
//! sync.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::fs;
use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glidepath_env::{KvStore, Table};
use glidepath_kv::{Embedded, EmbeddedOptions};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SPAN: Duration = Duration::from_secs(3);
const ENTRIES: u64 = 1_000_000;

fn main() -> Result<()> {
    let below = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(below)?;
    println!("in {}; load {}", folder.path().display(), fs::read_to_string("/proc/loadavg")?.trim());
    sync_alone(folder.path())?;
    let speed = folder.path().join("speed");
    let store = Embedded::open(&speed, &EmbeddedOptions::default())?;
    let chosen: Vec<u64> = std::env::args().skip(2).filter_map(|number| number.parse().ok()).collect();
    if let [threads, columns] = chosen[..] {
        return measure(&store, threads, columns);
    }
    for (threads, columns) in [(1, 1), (16, 1), (64, 1), (1, 256), (16, 256)] {
        measure(&store, threads, columns)?;
    }
    drop(store);
    // Small, so that what is written goes from the journal to where it stays.
    let options = EmbeddedOptions { memtable_bytes: 1 << 20, ..EmbeddedOptions::default() };
    sizes(&folder.path().join("tickets"), &options, "tickets", |number| {
        (Bytes::from_static(b"8 bytes."), variable(number), Bytes::copy_from_slice(&(number as u16).to_be_bytes()))
    })?;
    sizes(&folder.path().join("original"), &options, "original", |number| {
        let row = Bytes::copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes()[4..]);
        let value = Bytes::copy_from_slice(&number.to_be_bytes()[3..]);
        (row, Bytes::from_static(b"t"), value)
    })
}

/// What the file system alone takes: the bound of one writer.
fn sync_alone(folder: &Path) -> Result<()> {
    use std::io::Write;
    let mut file = fs::File::create(folder.join("alone"))?;
    file.set_len(64 << 20)?;
    let (began, rounds) = (Instant::now(), 1000);
    for _ in 0..rounds {
        file.write_all(&[1; 600])?;
        file.sync_all()?;
    }
    let each = began.elapsed() / rounds;
    println!("600 bytes and an fsync: {each:?}");
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// No runtime: each thread waits for its own put.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Each thread has a row of its own, whose columns it puts in their order.
fn measure(store: &Embedded, threads: u64, columns: u64) -> Result<()> {
    let table = Table::new(&format!("t{threads}_{columns}")).ok_or("no name")?;
    wait(store.create_table(&table))?;
    let began = Instant::now();
    let run = |thread: u64| {
        let row = Bytes::from(format!("row {thread:04}"));
        let mut puts = 0;
        while began.elapsed() < SPAN {
            let cell = |number: u64| (variable(puts * columns + number), Bytes::from_static(b"vv"));
            let cells: Vec<_> = (0..columns).map(cell).collect();
            if let Err(error) = wait(store.put_unless_exists(&table, &row, &cells)) {
                eprintln!("thread {thread}: {error}");
                break;
            }
            puts += 1;
        }
        puts
    };
    let run = &run;
    let puts: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    });
    let seconds = began.elapsed().as_secs_f64();
    let (rate, entries) = (puts as f64 / seconds, (puts * columns) as f64 / seconds);
    println!("{threads:2} threads, {columns:3} columns a put: {rate:8.0} puts/s, {entries:9.0} entries/s");
    Ok(())
}

/// A number in as few bytes as hold it, in the order of the numbers.
fn variable(number: u64) -> Bytes {
    let bytes = number.to_be_bytes();
    let length = (8 - number.leading_zeros() as usize / 8).max(1);
    let mut column = vec![length as u8];
    column.extend_from_slice(&bytes[8 - length..]);
    // The length shares a byte with what fits beside it.
    if length > 1 || number < 128 { column.split_off(usize::from(number < 128)).into() } else { column.into() }
}

fn sizes(
    folder: &Path,
    options: &EmbeddedOptions,
    name: &str,
    entry: impl Fn(u64) -> (Bytes, Bytes, Bytes),
) -> Result<()> {
    let store = Embedded::open(folder, options)?;
    let table = Table::new(name).ok_or("no name")?;
    wait(store.create_table(&table))?;
    let began = Instant::now();
    let mut puts: Vec<(Bytes, Vec<(Bytes, Bytes)>)> = Vec::new();
    for (row, column, value) in (0..ENTRIES).map(entry) {
        match puts.last_mut() {
            Some((last, cells)) if *last == row && cells.len() < 1000 => cells.push((column, value)),
            _ => puts.push((row, vec![(column, value)])),
        }
    }
    for puts in puts.chunks(1000) {
        together(puts.iter().map(|(row, cells)| Box::pin(store.put_unless_exists(&table, row, cells))).collect())?;
    }
    drop(store);
    // Opening again empties the journal of what is in files already.
    drop(Embedded::open(folder, options)?);
    let (files, journal) = used(folder)?;
    let seconds = began.elapsed().as_secs_f64();
    let each = |bytes: u64| bytes as f64 / ENTRIES as f64;
    println!(
        "{ENTRIES} entries as {name}, {seconds:.1} s: {:.1} bytes each on disk, and {:.1} in the journal",
        each(files),
        each(journal)
    );
    Ok(())
}

/// All at the same time.
fn together<E: Error + 'static>(
    puts: Vec<std::pin::Pin<Box<impl Future<Output = std::result::Result<(), E>>>>>,
) -> Result<()> {
    let mut puts: Vec<_> = puts.into_iter().map(Some).collect();
    wait(std::future::poll_fn(|context| {
        let mut waiting = false;
        for slot in &mut puts {
            match slot.as_mut().map(|put| put.as_mut().poll(context)) {
                None => {}
                Some(Poll::Pending) => waiting = true,
                Some(Poll::Ready(Ok(()))) => *slot = None,
                Some(Poll::Ready(Err(error))) => return Poll::Ready(Err(error)),
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(Ok(())) }
    }))?;
    Ok(())
}

/// Bytes of disk that files of tables take, and journals.
fn used(folder: &Path) -> Result<(u64, u64)> {
    let (mut files, mut journal) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = fs::metadata(&path)?;
        if metadata.is_dir() {
            let below = used(&path)?;
            (files, journal) = (files + below.0, journal + below.1);
        } else if path.extension().is_some_and(|ending| ending == "jnl") {
            journal += metadata.blocks() * 512;
        } else {
            files += metadata.len();
        }
    }
    Ok((files, journal))
}
