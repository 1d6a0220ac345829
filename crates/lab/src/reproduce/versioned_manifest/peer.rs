//! How does a client of the original commit? The sequence of its requests, as counted on the released library.
//!
//! 1. *Refresh*: ask for the version after the one known. If there is none, the known one is the newest. Otherwise ask
//!    again, list the versions, and read the newest manifest.
//! 2. *Look up* whether the name is free: with indices, in the index by object id; without, by reading the ids of all
//!    rows.
//! 3. Refresh, then read all rows.
//! 4. Put them, changed, as one new data file. With indices: build and put three of them.
//! 5. Put the manifest of the next version if there is none. Committed: refresh, and done.
//! 6. On any error of that put ask for the version, and read it. It names our data file: committed.
//! 7. Delete what was put (of each index: list it, delete it), refresh, and look up the name again.
//! 8. Wait 10 ms times the number of the try, and continue at 3; after 1 + 20 tries give up.
//!
//! Objects larger than 64 KiB are read in three rounds: their end, their tables of pages, their data in ranges side by
//! side. Objects from 5 MiB on are sent in parts while they are made, so the client waits only for the last part.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use glidepath_env::{BulkStore, Env, Guard, Key, ObjectStore, Payload, Purpose, Transfer};
use glidepath_model::{ByteSize, Span};
use glidepath_sim::{SimEnv, SimStore, StoreId};

use super::published::{Costs, Sizes};

/// The store that the catalog is in.
pub(super) const STORE: StoreId = StoreId(0);

const VERSIONS: &str = "versions/";

/// The size of a manifest; the counted ones have 828 to 1,269 bytes.
const MANIFEST: ByteSize = ByteSize::from_bytes(1024);

/// What all clients of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Catalog {
    pub(super) costs: Costs,
    pub(super) sizes: Sizes,
    pub(super) indexed: bool,
}

/// One process of the original.
pub(super) struct Peer {
    env: SimEnv,
    store: SimStore,
    catalog: Catalog,
    /// The newest version it knows.
    known: u64,
    /// Objects it has put so far; each has its own key.
    made: u64,
    requests: Rc<Cell<u64>>,
}

/// The manifest of a version. The newest comes first in a listing.
pub(super) fn version_key(version: u64) -> Key {
    Key::new(&format!("{VERSIONS}{:020}", u64::MAX - version))
}

/// A manifest: the number of the data file that it names, and filler.
pub(super) fn manifest(file: u64) -> Payload {
    Payload { bytes: Bytes::copy_from_slice(&file.to_le_bytes()), filler: MANIFEST }
}

impl Peer {
    /// Opens the catalog. `requests` counts what it sends.
    pub(super) async fn open(env: SimEnv, catalog: Catalog, requests: Rc<Cell<u64>>) -> Self {
        let store = env.store(STORE);
        let mut peer = Self { env, store, catalog, known: 0, made: 0, requests };
        peer.read_newest().await;
        peer
    }

    /// Creates a namespace with a unique name; returns whether that was committed.
    pub(super) async fn create_namespace(&mut self) -> bool {
        self.refresh().await;
        self.look_up().await;
        let Costs { retries, wait_per_try, .. } = self.catalog.costs;
        for attempt in 1..=retries + 1 {
            if self.attempt().await {
                self.refresh().await;
                return true;
            }
            self.clean_up().await;
            self.refresh().await;
            self.look_up().await;
            if attempt <= retries {
                self.pass(Span::from_nanos(wait_per_try.as_nanos() * attempt)).await;
            }
        }
        false
    }

    /// Steps 3 to 6.
    async fn attempt(&mut self) -> bool {
        self.refresh().await;
        self.read(self.catalog.sizes.data_bytes, 2, 1.0).await;
        let Costs { processor_per_commit, processor_per_row, .. } = self.catalog.costs;
        let rows = Span::from_nanos(processor_per_row.as_nanos() * self.catalog.sizes.rows);
        self.pass(processor_per_commit + rows).await;
        self.send(self.catalog.sizes.data_bytes).await;
        if self.catalog.indexed {
            self.put_indices().await;
        }
        let (next, file) = (version_key(self.known + 1), self.env.draw(Purpose::Names));
        self.count(1);
        if self.store.put(&next, manifest(file), Guard::Absent).await.is_ok() {
            return true;
        }
        self.count(2);
        let there = self.store.head(&next).await.is_ok();
        let found = self.store.get(&next).await;
        there && found.is_ok_and(|object| object.payload.bytes == manifest(file).bytes)
    }

    /// Step 1.
    async fn refresh(&mut self) {
        self.count(1);
        let next = version_key(self.known + 1);
        if self.store.head(&next).await.is_ok() {
            self.count(1);
            // The client asks twice; the second answer brings nothing new.
            let _ = self.store.head(&next).await;
            self.read_newest().await;
        }
    }

    async fn read_newest(&mut self) {
        self.count(2);
        let Ok(page) = self.store.list(&Key::new(VERSIONS), None, 1).await else { return };
        let Some(newest) = page.objects.first() else { return };
        if self.store.get(&newest.key).await.is_ok() {
            let place = newest.key.as_str().strip_prefix(VERSIONS).and_then(|digits| digits.parse::<u64>().ok());
            self.known = place.map_or(self.known, |place| u64::MAX - place);
        }
    }

    /// Step 2.
    async fn look_up(&mut self) {
        let Sizes { rows, data_bytes, index_bytes, lookup_bytes, .. } = self.catalog.sizes;
        if !self.catalog.indexed {
            // The ids are half of the data.
            return self.read(data_bytes, 1, 0.5).await;
        }
        self.fetch(1, lookup_bytes).await;
        if rows > 0 {
            // One page of the index is read, with its neighbours.
            let share = self.catalog.costs.whole_up_to_bytes as f64 / index_bytes.max(1) as f64;
            self.read(index_bytes, 2, share.min(1.0)).await;
        }
    }

    /// Reads this share of an object, and this number of its tables of pages.
    async fn read(&mut self, size: u64, tables: u64, share: f64) {
        let Costs { whole_up_to_bytes, range_bytes, .. } = self.catalog.costs;
        if size <= whole_up_to_bytes {
            return self.fetch(1, size).await;
        }
        self.fetch(1, whole_up_to_bytes).await;
        self.fetch(tables, 0).await;
        let wanted = (size as f64 * share) as u64;
        let ranges = wanted.div_ceil(range_bytes).max(1);
        self.fetch(ranges, wanted / ranges).await;
    }

    /// Parallel reads.
    async fn fetch(&mut self, count: u64, size: u64) {
        self.count(count);
        let size = ByteSize::from_bytes(size);
        let parallel = u32::try_from(count).unwrap_or(u32::MAX);
        // Without faults, bulk reads do not fail.
        let _ = self.store.bulk(&[Transfer::ReadMany { count, size, parallel }]).await;
    }

    /// Puts a new object.
    async fn send(&mut self, size: u64) {
        let part = self.catalog.costs.part_bytes;
        let (first, transfers) =
            (Transfer::Write(ByteSize::default()), Transfer::Write(ByteSize::from_bytes(size.min(part))));
        if size < part {
            self.count(1);
            let _ = self.store.bulk(&[transfers]).await;
        } else {
            // Begin, parts, complete.
            self.count(2 + size.div_ceil(part));
            let _ = self.store.bulk(&[first, transfers, first]).await;
        }
    }

    /// Step 4, the indices: three objects in parallel, then the table of pages of the first.
    async fn put_indices(&mut self) {
        let Sizes { rows, index_bytes, lookup_bytes, bitmap_bytes, .. } = self.catalog.sizes;
        self.pass(Span::from_nanos(self.catalog.costs.index_processor_per_row.as_nanos() * rows)).await;
        if index_bytes < self.catalog.costs.part_bytes {
            self.put_side_by_side(&[index_bytes, bitmap_bytes / 2, bitmap_bytes / 2]).await;
        } else {
            self.put_side_by_side(&[bitmap_bytes / 2, bitmap_bytes / 2]).await;
            self.send(index_bytes).await;
        }
        self.send(lookup_bytes).await;
    }

    async fn put_side_by_side(&mut self, sizes: &[u64]) {
        self.count(sizes.len() as u64);
        let store = &self.store;
        let puts = sizes.iter().map(|size| {
            self.made += 1;
            let key = Key::new(&format!("indices/{}-{}", self.env.process(), self.made));
            let body = Payload { bytes: Bytes::new(), filler: ByteSize::from_bytes(*size) };
            Box::pin(async move {
                // Without faults, unguarded puts do not fail.
                let _ = store.put(&key, body, Guard::None).await;
            })
        });
        all(puts.collect()).await;
    }

    /// Step 7, the deletes. What they delete need not exist here: data files have a size only.
    async fn clean_up(&mut self) {
        self.count(1);
        let key = Key::new("garbage");
        let _ = self.store.delete(&key).await;
        for _ in 0..if self.catalog.indexed { 3 } else { 0 } {
            self.count(2);
            let _ = self.store.list(&key, None, 1).await;
            let _ = self.store.delete(&key).await;
        }
    }

    async fn pass(&self, span: Span) {
        self.env.sleep_until(self.env.now() + span).await;
    }

    fn count(&self, requests: u64) {
        self.requests.set(self.requests.get() + requests);
    }
}

/// Waits for all of them.
async fn all<F: Future<Output = ()>>(mut futures: Vec<Pin<Box<F>>>) {
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
