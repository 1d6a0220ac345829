//! A server that keeps the tables too, as `glidepath serve` does: what becomes of the commits that wait at one table?
//!
//! One of those that wait commits for up to [`TOGETHER`] of them: it decides each as if those before it were committed,
//! writes one table metadata file, and commits all to the catalog at once. An append that met another commit
//! is put on top of it: the server reads the manifest list and the manifest file that the client wrote, and writes
//! another list. An overwrite that met one conflicts; then other commits to the table wait for its next try, for
//! [`HOLD`] at most. Where another server moved the table first, what was not committed is decided again on its newest
//! version. A commit over several tables waits for no other, and nothing of it is put on top. The steps are those of
//! `glidepath_service`, with sizes instead of files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Backoff, BulkStore, Cause, Denial, Env, Exponential, JitterRange, Purpose, Transfer, together};
use glidepath_model::{Changes, Edit, MetadataId, Overlap, Span, TableId, TableState};
use glidepath_protocols::group::{Grouped, HOLD, Priority};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_queue::{Queue, Seat, Taken};
use glidepath_sim::SimStore;
use glidepath_workload::Kind;

use super::Served;

/// The most commits in one version of a table.
const TOGETHER: usize = 64;

/// How often a commit is tried that other servers overtake: the server's default.
const ATTEMPTS: u32 = 30;

/// The server's wait between these tries.
const BACKOFF: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(5),
    factor: 2.0,
    longest: Span::from_millis(500),
    jitter: JitterRange { low: 0.0, high: 1.0 },
});

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

    /// Commits changes, at the server.
    pub(super) async fn commit(&self, client: &Served<C>, changes: &Changes) -> Answer<C> {
        let [change] = changes.edits() else { return self.commit_several(client, changes).await };
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

    async fn commit_together(&self, client: &Served<C>, table: TableId, mut members: Vec<Member<C>>) {
        let mut known = client.newest_known();
        for attempt in 1..=ATTEMPTS {
            let fresh = known.is_none();
            let state = match client.states(known.take(), &[table]).await {
                Ok(mut states) => states.remove(0),
                Err(cause) => return refuse_all::<C>(members, &cause),
            };
            let Decided { verdicts, rebased } =
                decide::<C>(state, &members, || MetadataId(client.env.draw(Purpose::Names)));
            if !fresh && verdicts.iter().any(Option::is_none) {
                // A version that is out of date may refuse what the newest would not.
                continue;
            }
            let fitting: Vec<&Changes> = verdicts.iter().flatten().collect();
            if !fitting.is_empty()
                && let Err(cause) = self.make(&client.tables, 1, rebased).await
            {
                return refuse_all::<C>(members, &cause);
            }
            let answer = match fitting.is_empty() {
                true => None,
                false => Some(client.send(fitting).await),
            };
            let mut overtaken = Vec::new();
            for (member, verdict) in members.into_iter().zip(verdicts) {
                match answer.as_ref().filter(|_| verdict.is_some()) {
                    None => member.answer(Outcome::Conflict(None)),
                    Some(Outcome::Conflict(_)) => overtaken.push(member),
                    Some(answer) => member.answer(answer.clone()),
                }
            }
            if overtaken.is_empty() {
                return;
            }
            members = overtaken;
            let wait = BACKOFF.wait(attempt, || client.env.draw(Purpose::Backoff));
            client.env.sleep_until(client.env.now() + wait).await;
        }
        refuse_all::<C>(members, &Cause::words("other servers moved the table first every time"));
    }

    /// Commits changes of several tables.
    async fn commit_several(&self, client: &Served<C>, changes: &Changes) -> Answer<C> {
        let ids: Vec<TableId> = changes.edits().iter().map(|change| change.table).collect();
        let holds = ids.iter().filter_map(|id| {
            let cell = self.of(*id);
            cell.priority.before(client.env.now(), |_| true).map(|hold| (cell, hold))
        });
        for (cell, hold) in holds.collect::<Vec<_>>() {
            let late = client.env.sleep_until(hold.until());
            cell.priority.over(hold, late).await;
        }
        for attempt in 0..ATTEMPTS {
            let states = match client.states(client.newest(), &ids).await {
                Ok(states) => states,
                Err(cause) => return Outcome::Refused(Denial::certain(cause)),
            };
            let state = |id: TableId| ids.iter().zip(&states).find(|(of, _)| **of == id).map(|(_, state)| state);
            if changes.overlap_with(state) != Overlap::None {
                return Outcome::Conflict(None);
            }
            if let Err(cause) = self.make(&client.tables, ids.len(), 0).await {
                return Outcome::Refused(Denial::certain(cause));
            }
            match client.send([changes]).await {
                Outcome::Conflict(_) => {
                    let wait = Span::from_millis(5 << attempt.min(6));
                    client.env.sleep_until(client.env.now() + wait).await;
                }
                answer => return answer,
            }
        }
        Outcome::Refused(Denial::certain(Cause::words("other commits moved one of the tables first every time")))
    }

    /// Reads what is put on top, and writes the files of the new versions of this many tables.
    async fn make(&self, store: &SimStore, tables: usize, rebased: u64) -> Result<(), Cause> {
        let Sizes { metadata, list, manifest } = self.sizes;
        if rebased > 0 {
            for size in [list, manifest] {
                let read = Transfer::ReadMany { count: rebased, size, parallel: TOGETHER as u32 };
                store.bulk(&[read]).await.map_err(|error| error.0)?;
            }
        }
        let writes = std::iter::repeat_n(metadata, tables).chain((0..rebased).map(|_| list));
        let writes = writes.map(|size| async move { store.bulk(&[Transfer::Write(size)]).await });
        for written in together(TOGETHER + 1, writes).await {
            written.map_err(|error| error.0)?;
        }
        Ok(())
    }
}

type Member<C> = Taken<Rc<Request>, Answer<C>>;

fn refuse_all<C: Grouped>(members: Vec<Member<C>>, cause: &Cause) {
    members.into_iter().for_each(|member| member.answer(Outcome::Refused(Denial::certain(cause.clone()))));
}

/// The decisions on commits that wait.
struct Decided {
    /// Of each: changes that fit after those before it, or `None` if it is refused.
    verdicts: Vec<Option<Changes>>,
    /// How many of those that fit were put on top of another commit.
    rebased: u64,
}

fn decide<C: Grouped>(
    mut state: TableState,
    members: &[Member<C>],
    mut metadata: impl FnMut() -> MetadataId,
) -> Decided {
    let mut decided = Decided { verdicts: Vec::new(), rebased: 0 };
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
            decided.verdicts.push(None);
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
        decided.verdicts.push(Some(changes));
    }
    decided
}
