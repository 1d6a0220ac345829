//! A server that keeps the tables too, as `glidepath serve` does: what becomes of the commits that wait at one table?
//!
//! One of those that wait commits for up to [`TOGETHER`] of them: it decides each as if those before it were committed,
//! writes one table metadata file, and sends all to the group of the catalog at once. An append that met another commit
//! is put on top of it: the server reads the manifest list and the manifest file that the client wrote, and writes
//! another list. An overwrite that met one conflicts; then other commits to the table wait for its next try, for
//! [`HOLD`] at most. The steps are those of `glidepath_service`, with sizes instead of files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{BulkStore, Cause, Denial, Env, Transfer, together};
use glidepath_model::{Changes, Edit, MetadataId, Overlap, TableId, TableState};
use glidepath_protocols::group::{Grouped, HOLD, Priority};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_queue::{Queue, Seat, Taken};
use glidepath_sim::SimStore;
use glidepath_workload::Kind;

use super::Served;

/// The most commits in one version of a table.
const TOGETHER: usize = 64;

/// Commits that may wait at a table: more than any run has at a time.
const MOST_WAITING: usize = 1 << 24;

/// The sizes of what a server reads and writes for a table.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) metadata: glidepath_model::ByteSize,
    pub(crate) list: glidepath_model::ByteSize,
    pub(crate) manifest: glidepath_model::ByteSize,
}

/// A commit that waits.
struct Request {
    changes: Changes,
    kind: Kind,
}

/// Whether it was committed, conflicted, or what happened.
type Answer<C> = Outcome<<C as Catalog>::Snapshot>;

/// The tables of a server.
pub(crate) struct Tables<C: Grouped> {
    cells: RefCell<BTreeMap<TableId, Rc<Cell<C>>>>,
    sizes: Sizes,
}

struct Cell<C: Grouped> {
    queue: Arc<Queue<Rc<Request>, Answer<C>>>,
    /// By process.
    priority: Priority<u32>,
}

impl<C: Grouped> Tables<C> {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self { cells: RefCell::default(), sizes }
    }

    fn of(&self, table: TableId) -> Rc<Cell<C>> {
        let fresh = || Rc::new(Cell { queue: Arc::new(Queue::new(MOST_WAITING)), priority: Priority::default() });
        Rc::clone(self.cells.borrow_mut().entry(table).or_insert_with(fresh))
    }

    /// Commits changes of one table, at the server.
    pub(super) async fn commit(&self, client: &Served<C>, changes: &Changes) -> Answer<C> {
        let [change] = changes.edits() else { unreachable!("transactions over several tables are not rebased") };
        let (cell, process) = (self.of(change.table), client.env.process());
        // A commit waits once at most.
        if let Some(hold) = cell.priority.before(client.env.now(), |holder| *holder != process) {
            let late = client.env.sleep_until(hold.until());
            cell.priority.over(hold, late).await;
        }
        let request = Rc::new(Request { changes: changes.clone(), kind: client.kind });
        let answer = loop {
            let seat = cell.queue.seat();
            let Ok(ticket) = cell.queue.enqueue(Rc::clone(&request)) else { continue };
            if let Some(seat) = seat {
                self.lead(client, change.table, seat, &request).await;
            }
            if let Ok(answer) = ticket.await {
                break answer;
            }
        };
        let now = client.env.now();
        match (&answer, request.kind) {
            (Outcome::Committed(_), _) => cell.priority.landed(now, |holder| *holder == process),
            (Outcome::Conflict(_), Kind::ValidatedOverwrite) => cell.priority.lost(now, process, HOLD),
            _ => false,
        };
        answer
    }

    /// Commits what waits until this one is answered.
    async fn lead(&self, client: &Served<C>, table: TableId, seat: Seat<Rc<Request>, Answer<C>>, own: &Rc<Request>) {
        loop {
            let members = seat.take(TOGETHER);
            let last = members.is_empty() || members.iter().any(|member| Rc::ptr_eq(member.request(), own));
            if !members.is_empty() {
                self.commit_together(client, table, members).await;
            }
            if last {
                // Those that came meanwhile stay together.
                return seat.hand_over();
            }
        }
    }

    async fn commit_together(&self, client: &Served<C>, table: TableId, members: Vec<Taken<Rc<Request>, Answer<C>>>) {
        let catalog = client.committer.catalog();
        let known = match catalog.newest_known() {
            Some(known) => Ok(known),
            None => catalog.load().await,
        };
        let failed = |error: &dyn std::fmt::Display| Outcome::Refused(Denial::certain(Cause::words(error.to_string())));
        let at = match known {
            Ok(at) => at,
            Err(error) => return members.into_iter().for_each(|member| member.answer(failed(&error))),
        };
        let state = catalog.tables(&at, &[table]).await.map(|states| states[0].as_deref().cloned());
        let Ok(Some(state)) = state else {
            return members.into_iter().for_each(|member| member.answer(failed(&"the table cannot be read")));
        };
        let Decided::<C> { fitting, refused, rebased } =
            decide::<C>(state, members, || MetadataId(client.env.draw(glidepath_env::Purpose::Names)));
        if !refused.is_empty() {
            // A refusal may be out of date: the server looks again.
            let _ = catalog.load().await;
        }
        let answers = match fitting.is_empty() {
            true => Vec::new(),
            false => match self.make(&client.tables, rebased).await {
                Ok(()) => together(TOGETHER, fitting.iter().map(|(_, changes)| client.send(changes))).await,
                Err(cause) => fitting.iter().map(|_| Outcome::Refused(Denial::certain(cause.clone()))).collect(),
            },
        };
        for ((member, _), answer) in fitting.into_iter().zip(answers) {
            member.answer(answer);
        }
        refused.into_iter().for_each(|member| member.answer(Outcome::Conflict(None)));
    }

    /// Reads what is put on top, and writes the files of the new version.
    async fn make(&self, store: &SimStore, rebased: u64) -> Result<(), Cause> {
        let Sizes { metadata, list, manifest } = self.sizes;
        if rebased > 0 {
            for size in [list, manifest] {
                let read = Transfer::ReadMany { count: rebased, size, parallel: TOGETHER as u32 };
                store.bulk(&[read]).await.map_err(|error| error.0)?;
            }
        }
        let writes = std::iter::once(metadata).chain((0..rebased).map(|_| list));
        let writes = writes.map(|size| async move { store.bulk(&[Transfer::Write(size)]).await });
        for written in together(TOGETHER + 1, writes).await {
            written.map_err(|error| error.0)?;
        }
        Ok(())
    }
}

type Member<C> = Taken<Rc<Request>, Answer<C>>;

/// The decisions on commits that wait.
struct Decided<C: Grouped> {
    /// With changes that fit one after the other.
    fitting: Vec<(Member<C>, Changes)>,
    refused: Vec<Member<C>>,
    /// How many of those that fit were put on top of another commit.
    rebased: u64,
}

fn decide<C: Grouped>(
    mut state: TableState,
    members: Vec<Member<C>>,
    mut metadata: impl FnMut() -> MetadataId,
) -> Decided<C> {
    let mut decided = Decided { fitting: Vec::new(), refused: Vec::new(), rebased: 0 };
    for member in members {
        let mut changes = member.request().changes.clone();
        let fits = match (changes.overlap_with(|_| Some(&state)), member.request().kind) {
            (Overlap::None, _) => true,
            (Overlap::Partitions { .. }, Kind::FastAppend) => {
                decided.rebased += 1;
                changes.renew(|_| Some(&state), &mut metadata).is_some()
            }
            _ => false,
        };
        if !fits {
            decided.refused.push(member);
            continue;
        }
        for change in changes.edits() {
            if let Edit::Advance(advance) = &change.edit {
                state.version = state.version.next();
                for (partition, seen) in &advance.partitions {
                    state.partitions[partition.0 as usize] = seen.next();
                }
            }
        }
        decided.fitting.push((member, changes));
    }
    decided
}
