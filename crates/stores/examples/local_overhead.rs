//! Measures the cost of a durable put-if-match on local disk against the bare steps that every such write needs: write,
//! fsync, rename, and fsync of the folder, of the same bytes.
//!
//! ```sh
//! cargo run -p glidepath-stores --example local_overhead [directory]
//! ```
//!
//! The two alternate within one run, so that other load on the machine affects both.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload};
use glidepath_stores::local::{Durability, LocalStore};

const ROUNDS: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let below = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(below)?;
    println!("medians of {ROUNDS} in turn, in {}", directory.path().display());
    for size in [200, 4 << 10, 100 << 10, 1 << 20] {
        compare(directory.path(), size).await?;
    }
    Ok(())
}

async fn compare(directory: &Path, size: usize) -> Result<(), Box<dyn Error>> {
    let store = LocalStore::new(directory.join("store"), Durability::Fsync)?;
    let bare = directory.join("bare");
    fs::create_dir_all(&bare)?;
    let body = Bytes::from(vec![b'x'; size]);
    let key = Key::new(&format!("object-{size}"));
    let payload = || Payload::from(body.clone());
    let mut tag = store.put(&key, payload(), Guard::None).await?;

    let (mut bare_times, mut store_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        write_bare(&bare, &body)?;
        bare_times.push(began.elapsed());
        let began = Instant::now();
        tag = store.put(&key, payload(), Guard::Matches(tag)).await?;
        store_times.push(began.elapsed());
    }
    let (bare, ours) = (median(bare_times), median(store_times));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("{size:>8} bytes: bare {bare:>9.1?}, put-if-match {ours:>9.1?}, ratio {ratio:.2}");
    Ok(())
}

/// Only the steps, as fast as possible.
fn write_bare(directory: &Path, body: &[u8]) -> std::io::Result<()> {
    let (unfinished, place) = (directory.join("unfinished"), directory.join("object"));
    let mut file = File::options().write(true).create_new(true).open(&unfinished)?;
    file.write_all(body)?;
    file.sync_data()?;
    fs::rename(unfinished, place)?;
    File::open(directory)?.sync_all()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
