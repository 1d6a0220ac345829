//! A server that keeps the tables too, as `glidepath serve` does: what becomes of the commits that wait at one table?
//!
//! One of those that wait commits for up to [`TOGETHER`] of them: it decides each as if those before it were committed,
//! writes one table metadata file, and commits all to the catalog at once. An append that met another commit is put on
//! top of it: the server reads the manifest list and the manifest file that the client wrote, and writes another list;
//! those that wait read meanwhile, as far as others lead or read. An overwrite that met one conflicts; then other
//! commits to the table wait for its next try, for [`HOLD`] at most. Where another server moved the table first, what
//! was not committed is decided again on its newest version; a server that was overtaken waits in line for its turn
//! ([`line`]). A commit over several tables (`several`) leads at each of them. The steps are those of
//! `glidepath_service`, with sizes instead of files.

mod several;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{BulkStore, Cause, Denial, Env, Purpose, Transfer, together};
use glidepath_model::{
    Changes, Edit, Instant, MetadataId, Name, Overlap, Refusal, Span, TableChange, TableId, TableState,
};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_protocols::table_turn::line::{self, Turns};
use glidepath_protocols::table_turn::{ATTEMPTS, HOLD, LONGEST_READ, Priority, RETRY, Readers, TOGETHER};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_queue::{Queue, Seat, Taken, Turn};
use glidepath_sim::SimStore;
use glidepath_workload::Kind;

use super::{Served, outcome};

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
    /// Whether it is not to be taken: it is one over several tables, and waits to lead.
    leads: bool,
    /// How long it took to read the files of an append while others led, if it did.
    reading: Option<Span>,
}

impl Request {
    fn overwrites(&self) -> bool {
        self.kind == Kind::ValidatedOverwrite
    }
}

/// Whether it was committed, conflicted, or what happened.
type Answer<C> = Outcome<<C as Catalog>::Snapshot>;

/// The tables of a server.
pub(crate) struct Tables<C: Grouped> {
    table_queues: RefCell<BTreeMap<TableId, Rc<TableQueue<C>>>>,
    sizes: Sizes,
}

/// The commits that wait at one table.
type Waiting<C> = Queue<Rc<Request>, Answer<C>>;

struct TableQueue<C: Grouped> {
    commits: Arc<Waiting<C>>,
    /// By process.
    priority: Priority<u32>,
    readers: Readers,
    /// When another server was last seen to commit to it.
    shared: Cell<Option<Instant>>,
}

impl<C: Grouped> TableQueue<C> {
    fn is_shared(&self, now: Instant) -> bool {
        self.shared.get().is_some_and(|seen| now < seen + line::SHARED)
    }
}

/// What a commit begins with.
struct Begun<C: Grouped> {
    /// What the server knows, or has loaded in its turn.
    known: Option<C::Snapshot>,
    loaded: Option<TableState>,
    turn: Turns,
}

impl<C: Grouped> Tables<C> {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self { table_queues: RefCell::default(), sizes }
    }

    fn of(&self, table: TableId) -> Rc<TableQueue<C>> {
        let fresh = || {
            let commits = Arc::new(Queue::new(MOST_WAITING));
            let readers = Readers::new(TOGETHER);
            Rc::new(TableQueue { commits, priority: Priority::default(), readers, shared: Cell::default() })
        };
        Rc::clone(self.table_queues.borrow_mut().entry(table).or_insert_with(fresh))
    }

    /// Commits changes, at the server.
    pub(super) async fn commit(&self, client: &Served<C>, changes: &Changes) -> Answer<C> {
        let [change] = changes.edits() else { return self.commit_several(client, changes).await };
        let (table_queue, process) = (self.of(change.table), client.env.process());
        // A commit waits once at most.
        if let Some(hold) = table_queue.priority.before(client.env.now(), |holder| *holder != process) {
            let late = client.env.sleep_until(hold.until());
            table_queue.priority.over(hold, late).await;
        }
        let arrival = table_queue.commits.arrive();
        let next = table_queue.commits.is_free() && !table_queue.readers.any();
        let reading = if next { None } else { self.read_meanwhile(client, &table_queue).await };
        let request = Rc::new(Request { changes: changes.clone(), kind: client.kind, leads: false, reading });
        let Ok(mut ticket) = table_queue.commits.join(Rc::clone(&request), arrival) else {
            return Outcome::Refused(Denial::certain(Cause::words("too many wait at the table")));
        };
        let answer = loop {
            match ticket.turn().await {
                Turn::Lead(seat) => self.lead(client, (change.table, &table_queue), seat, &request).await,
                Turn::Answer(Ok(answer)) => break answer,
                Turn::Answer(Err(_)) => {
                    break Outcome::Refused(Denial::certain(Cause::words("the leader stopped")));
                }
            }
        };
        note_for_priority(&[table_queue], client, &answer);
        answer
    }

    /// Reads the files of an append that must wait for others anyway.
    async fn read_meanwhile(&self, client: &Served<C>, table_queue: &TableQueue<C>) -> Option<Span> {
        if client.kind != Kind::FastAppend {
            return None;
        }
        let (_reader, begun) = (table_queue.readers.enter()?, client.env.now());
        // Else they are read when it is committed.
        self.read(&client.tables, 1).await.ok()?;
        Some(client.env.now().since(begun))
    }

    /// Commits what waits until this one is answered.
    async fn lead(
        &self,
        client: &Served<C>,
        (table, table_queue): (TableId, &TableQueue<C>),
        seat: Seat<Rc<Request>, Answer<C>>,
        own: &Rc<Request>,
    ) {
        // Where as many wait as are committed together, it waits for no more.
        if let Some(reading) = own.reading.filter(|_| table_queue.commits.waiting() < TOGETHER) {
            table_queue.readers.gather(client.env.sleep_until(client.env.now() + reading.min(LONGEST_READ))).await;
        }
        loop {
            // Those that come while it waits for its turn are committed with the others.
            let turn = Turns::at([(Name::numbered(table), own.overwrites())]);
            let mut begun = Begun { known: None, loaded: None, turn };
            match table_queue.is_shared(client.env.now()) {
                true => begun.loaded = in_turn(client, &mut begun.turn).await.ok().and_then(|mut states| states.pop()),
                false => begun.known = client.newest_known(),
            }
            let members = seat.take_if(TOGETHER, |request| !request.leads);
            let last = members.is_empty() || members.iter().any(|member| Rc::ptr_eq(member.request(), own));
            if !members.is_empty() {
                self.commit_together(client, (table, table_queue), members, &mut begun).await;
            }
            begun.turn.leave(&client.committer).await;
            if last {
                // Those that came meanwhile stay together.
                return seat.hand_over();
            }
        }
    }

    async fn commit_together(
        &self,
        client: &Served<C>,
        (table, table_queue): (TableId, &TableQueue<C>),
        mut members: Vec<Member<C>>,
        Begun { known, loaded, turn }: &mut Begun<C>,
    ) {
        turn.set_free(members.iter().any(|member| member.request().overwrites()));
        for attempt in 1..=ATTEMPTS {
            let (known, loaded) = (known.take(), loaded.take());
            let fresh = known.is_none() && loaded.is_none();
            let states = match loaded {
                Some(state) => Ok(vec![state]),
                None if fresh && !client.alone => in_turn(client, turn).await,
                None => client.states(known, &[table]).await,
            };
            let state = match states {
                Ok(mut states) => states.remove(0),
                Err(cause) => return refuse_all::<C>(members, &cause),
            };
            let Decided { verdicts, rebased, to_read } =
                decide::<C>(state, &members, || MetadataId(client.env.draw(Purpose::Names)));
            if !fresh && verdicts.iter().any(Option::is_none) {
                // A version that is out of date may refuse what the newest would not.
                continue;
            }
            let fitting: Vec<&Changes> = verdicts.iter().flatten().collect();
            if !fitting.is_empty()
                && let Err(cause) = self.make(&client.tables, 1, (rebased, to_read)).await
            {
                return refuse_all::<C>(members, &cause);
            }
            let sent = match fitting.is_empty() {
                true => None,
                false => Some(send(client, table_queue, &fitting, turn).await),
            };
            let mut overtaken = Vec::new();
            for (member, verdict) in members.into_iter().zip(verdicts) {
                match sent.as_ref().filter(|_| verdict.is_some()) {
                    None => member.answer(Outcome::Conflict(None)),
                    Some(Sent { answer: Outcome::Conflict(_), .. }) => overtaken.push(member),
                    Some(Sent { answer, .. }) => member.answer(answer.clone()),
                }
            }
            if overtaken.is_empty() {
                return;
            }
            members = overtaken;
            if sent.is_some_and(|sent| sent.lost) {
                let wait = RETRY.wait(attempt, || client.env.draw(Purpose::Backoff));
                client.env.sleep_until(client.env.now() + wait).await;
            }
        }
        refuse_all::<C>(members, &Cause::words("other servers moved the table first every time"));
    }

    /// Reads what was not read yet of what is put on top, and writes the files of the new versions of this many tables.
    async fn make(&self, store: &SimStore, tables: usize, (rebased, to_read): (u64, u64)) -> Result<(), Cause> {
        let Sizes { metadata, list, .. } = self.sizes;
        self.read(store, to_read).await?;
        let writes = std::iter::repeat_n(metadata, tables).chain((0..rebased).map(|_| list));
        let writes = writes.map(|size| async move { store.bulk(&[Transfer::Write(size)]).await });
        for written in together(TOGETHER + 1, writes).await {
            written.map_err(|error| error.0)?;
        }
        Ok(())
    }

    /// Reads the lists and the manifests of so many appends.
    async fn read(&self, store: &SimStore, appends: u64) -> Result<(), Cause> {
        let Sizes { list, manifest, .. } = self.sizes;
        if appends > 0 {
            for size in [list, manifest] {
                let read = Transfer::ReadMany { count: appends, size, parallel: TOGETHER as u32 };
                store.bulk(&[read]).await.map_err(|error| error.0)?;
            }
        }
        Ok(())
    }
}

/// Ends the holds for what landed. After an overwrite that conflicted, holds begin at all of its tables or at none.
fn note_for_priority<C: Grouped>(table_queues: &[Rc<TableQueue<C>>], client: &Served<C>, answer: &Answer<C>) {
    let (now, process) = (client.env.now(), client.env.process());
    match (answer, client.kind) {
        (Outcome::Committed(_), _) => {
            for table_queue in table_queues {
                table_queue.priority.landed(now, |holder| *holder == process);
            }
        }
        (Outcome::Conflict(_), Kind::ValidatedOverwrite) => {
            Priority::lost_at(table_queues.iter().map(|table_queue| (&table_queue.priority, process)), now, HOLD);
        }
        _ => {}
    }
}

/// How a commit of several ended.
struct Sent<C: Grouped> {
    answer: Answer<C>,
    /// Whether another server moved the table first.
    lost: bool,
}

/// Commits these changes of a table, in this server's turn.
async fn send<C: Grouped>(
    client: &Served<C>,
    table_queue: &TableQueue<C>,
    changes: &[&Changes],
    turn: &mut Turns,
) -> Sent<C> {
    let mut actions: Vec<_> = changes.iter().flat_map(|changes| changes.actions()).collect();
    if !client.alone {
        actions.extend(turn.actions().flatten());
    }
    let answer = client.committer.commit(actions).await;
    let now = client.env.now();
    let lost = match &answer {
        Ok(_) => {
            turn.taken();
            false
        }
        Err(CommitError::Refused(Refusal::PropertyChanged { .. })) => {
            table_queue.shared.set(Some(now));
            false
        }
        Err(CommitError::Refused(_)) => {
            table_queue.shared.set(Some(now));
            if !client.alone {
                turn.lost(&client.env, &client.committer).await;
            }
            true
        }
        Err(_) => true,
    };
    Sent { answer: outcome(answer), lost }
}

/// The tables as they are when it is this server's turn at all of them.
async fn in_turn<C: Grouped>(client: &Served<C>, turns: &mut Turns) -> Result<Vec<TableState>, Cause> {
    let load = |name| async move { client.state_and_line(&name).await.map(Some) };
    let states = turns.wait((&client.env, &client.committer), false, load, |_| ()).await?;
    Ok(states.into_iter().flatten().collect())
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
    /// How many of these have files that were not read yet.
    to_read: u64,
}

fn decide<C: Grouped>(
    mut state: TableState,
    members: &[Member<C>],
    mut metadata: impl FnMut() -> MetadataId,
) -> Decided {
    let mut decided = Decided { verdicts: Vec::new(), rebased: 0, to_read: 0 };
    for member in members {
        let Request { changes, kind, reading, .. } = &**member.request();
        let Some((changes, rebased)) = fit(changes, *kind, |_| Some(&state), &mut metadata) else {
            decided.verdicts.push(None);
            continue;
        };
        decided.rebased += rebased;
        decided.to_read += if reading.is_some() { 0 } else { rebased };
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

/// Changes that fit these tables, and how many of them were put on top of other commits; `None` if they conflict.
fn fit<'a>(
    changes: &Changes,
    kind: Kind,
    state: impl Fn(TableId) -> Option<&'a TableState>,
    metadata: impl FnMut() -> MetadataId,
) -> Option<(Changes, u64)> {
    match (changes.overlap_with(&state), kind) {
        (Overlap::None, _) => Some((changes.clone(), 0)),
        (Overlap::Partitions { .. }, Kind::FastAppend) => {
            let moved = |change: &&TableChange| {
                Changes::of(change.table, change.edit.clone()).overlap_with(&state) != Overlap::None
            };
            let rebased = changes.edits().iter().filter(moved).count() as u64;
            let mut changes = changes.clone();
            changes.renew(&state, metadata)?;
            Some((changes, rebased))
        }
        _ => None,
    }
}
