//! Bulk traffic on a live store: real traffic of the requested size, whose content is never read.
//!
//! All of it is under [`SCRATCH`]: each write goes to a fresh key, and each size that is read has one object. The first
//! reader writes this object before its first read, and all readers share it. The store itself never removes these
//! objects: the program that requested the traffic removes what is under the prefix when it no longer needs it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use glidepath_env::{BulkError, BulkStore, Cause, Guard, Key, ObjectStore, Payload, PutError, ReadError, Transfer};
use glidepath_model::ByteSize;

use crate::store::Store;

/// The prefix of all keys of bulk traffic; no protocol may use it.
pub const SCRATCH: &str = "glidepath-scratch/";

impl BulkStore for Store {
    async fn bulk(&self, transfers: &[Transfer]) -> Result<(), BulkError> {
        for transfer in transfers {
            match *transfer {
                Transfer::Read(size) => read(self, size).await?,
                Transfer::Write(size) => write(self, size).await?,
                Transfer::ReadMany { count, size, parallel } => read_many(self, count, size, parallel).await?,
            }
        }
        Ok(())
    }
}

async fn write(store: &Store, size: ByteSize) -> Result<(), BulkError> {
    let key = Key::new(&format!("{SCRATCH}written/{:032x}", rand::random::<u128>()));
    // A fresh key needs no guard, and an unknown outcome does no harm: no other process can name the object.
    store.put(&key, filler(size), Guard::None).await.map(drop).map_err(failed_put)
}

async fn read(store: &Store, size: ByteSize) -> Result<(), BulkError> {
    let key = Key::new(&format!("{SCRATCH}read/{}", size.as_bytes()));
    let object = match store.get(&key).await {
        Err(ReadError::NotFound) => {
            // Others may do the same at the same time: they write the same bytes.
            store.put(&key, filler(size), Guard::None).await.map_err(failed_put)?;
            store.get(&key).await
        }
        read => read,
    };
    let found = object.map_err(|error| failed(error.to_string()))?.payload.size();
    match found == size {
        true => Ok(()),
        false => Err(failed(format!("{key} has {} bytes: another program writes there", found.as_bytes()))),
    }
}

/// Reads `count` times, at most `parallel` at a time.
async fn read_many(store: &Store, count: u64, size: ByteSize, parallel: u32) -> Result<(), BulkError> {
    let mut begun = 0;
    let mut reads = VecDeque::new();
    poll_fn(|context| {
        loop {
            while begun < count && reads.len() < parallel.max(1) as usize {
                reads.push_back(Box::pin(read(store, size)));
                begun += 1;
            }
            let before = reads.len();
            for _ in 0..before {
                let Some(mut read) = reads.pop_front() else { break };
                match read.as_mut().poll(context) {
                    Poll::Pending => reads.push_back(read),
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            if reads.is_empty() && begun == count {
                return Poll::Ready(Ok(()));
            }
            // If no read has ended, the maximum is in flight, and each read will wake this task.
            if reads.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await
}

fn filler(size: ByteSize) -> Payload {
    Payload { filler: size, ..Payload::default() }
}

fn failed(why: String) -> BulkError {
    BulkError(Cause::words(why))
}

fn failed_put(error: PutError) -> BulkError {
    failed(error.to_string())
}
