//! Commits to one table.
//!
//! Commits that wait for one table at the same service are decided one after the other and written together: one
//! metadata file, one commit of the catalog, an answer for each. Steps (comments cite these numbers; faults and answers
//! are in `docs/protocols/server.md`):
//!
//! 1. Wait for an overwrite that lost, if there is one, for a moment (`priority.rs`). Enqueue the commit. One of those
//!    that wait is the leader and takes up to [`TOGETHER`]; it hands over when its own commit is answered.
//! 2. Decide each on the newest known version, as if those before it were committed. (`decide.rs`)
//! 3. If one does not fit and that version may be out of date, load the newest, and decide again.
//! 4. Write the new manifest lists and the metadata file, under fresh names.
//! 5. **The commit point**: move the table's pointer from the old file to the new, and create the keys of the requests,
//!    in one commit of the catalog. (`land.rs`)
//! 6. Overtaken: the pointer is elsewhere, or it is another server's turn. Nothing was done; load, and decide again.
//!    Overtaken twice: wait in line. (`turn.rs`)
//! 7. Unknown: read back. The pointer, and the log in the metadata that it points to, say what followed the old file;
//!    while the pointer has not moved, the same commit is sent again, which can take effect once only. (`settle.rs`)
//! 8. Answer each.
//! 9. A refusal is noted under the key of its request, if it has one, before anybody is told. (`keys.rs`)

mod ahead;
pub(crate) mod decide;
mod doubt;
mod land;
pub(crate) mod priority;
mod settle;
mod turn;
mod version;

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::{Hold, RETRY, TOGETHER};
use glidepath_queue::{Left, NotQueued, Seat, Taken, Turn};
use glidepath_table::Files;
use iceberg::spec::TableMetadata;
use iceberg::{TableRequirement, TableUpdate};

use crate::bodies::Loaded;
use crate::error::{Kind, Proof, ServiceError};
use crate::keys::{Idempotency, Operation};
use crate::locations::METADATA_PATH;
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::reading::no_table;
use crate::table_queues::{Answer, TableQueue, Told};
use crate::{ConflictOn, Counts, Inner, Service, sound};
pub(crate) use ahead::Request;
use decide::committable;
pub(crate) use decide::{Decided, Draft, Fitting, LOSES_DEFAULTS, NotDone};
use priority::{Priority, overwrites};
use settle::Settled;
use turn::Begun;
pub(crate) use version::{Lost, Next, deletes_log};

/// A commit of a client to one table.
#[derive(Clone, Debug)]
pub struct TableCommit {
    /// What must hold.
    pub requirements: Vec<TableRequirement>,
    /// What to change.
    pub updates: Vec<TableUpdate>,
    /// The key of the request.
    pub key: Option<Idempotency>,
}

type Member = Taken<Arc<Request>, Told>;

/// Why a commit does not wait for its turn.
pub(crate) fn not_queued(why: NotQueued) -> ServiceError {
    let words = match why {
        NotQueued::Full(waiting) => {
            format!("{waiting} commits wait for one of the tables already; not done: try again later")
        }
        NotQueued::Closed | NotQueued::NoLeader => "the server is stopping; not done".to_owned(),
    };
    ServiceError::new(Kind::Unavailable, words)
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Commits to a table.
    ///
    /// The future must not be dropped before it ends: it may be committing for others, who are then told that the
    /// outcome is unknown. A server runs it in a task of its own.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if a requirement does not hold; what the others prove is said by [`Kind::proof`].
    pub async fn commit_table(&self, table: &Identifier, commit: TableCommit) -> Answer {
        let Some(key) = commit.key.clone() else { return self.try_commit(table, commit).await };
        self.inner.once(Some(&key), async || self.try_commit(table, commit.clone()).await).await
    }

    pub(crate) async fn try_commit(&self, table: &Identifier, commit: TableCommit) -> Answer {
        sound::check(&commit)?;
        let creates = commit.requirements.iter().any(|one| matches!(one, TableRequirement::NotExist));
        if creates {
            return self.create_by_commit(table, commit).await;
        }
        let name = table.catalog_name()?;
        let _waiting = self.inner.counts.one_waits();
        let answer = self.inner.wait_for(table, &name, commit).await;
        if let Err(ServiceError { kind: Kind::Conflict, message }) = &answer {
            self.inner.counts.conflict(ConflictOn::of(message));
        }
        answer
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Step 1.
    async fn wait_for(&self, table: &Identifier, name: &Name, mut commit: TableCommit) -> Answer {
        if mutant::is(Mutant::UuidIgnored) {
            commit.requirements.retain(|one| !matches!(one, TableRequirement::UuidMatch { .. }));
        }
        let queue = self.table_queues.of(name);
        self.wait_out(self.hold(&queue, &commit).map(|hold| (&*queue, hold))).await;
        let arrival = queue.commits.arrive();
        let mut request = Request::of(commit);
        // Others that were committed together before are still reading. If this one led now, it would be committed
        // alone, and they after it. So it reads too.
        if !queue.commits.is_free() || queue.readers.any() {
            self.read_meanwhile((&queue, &queue.readers), &mut request).await;
        }
        let request = Arc::new(request);
        let mut ticket = queue.commits.join(Arc::clone(&request), arrival).map_err(not_queued)?;
        loop {
            match ticket.turn().await {
                Turn::Lead(seat) => self.lead(AtTable { identifier: table, name, queue: &queue }, seat, &request).await,
                Turn::Answer(Ok(told)) => {
                    let answer = match told {
                        Ok((table, Fitting::Before)) => self.there(name, &table, request.key.as_ref()).await,
                        Ok((table, _)) => Ok(table),
                        Err(not_done) => self.why_not_done(name, &request, not_done).await,
                    };
                    self.note_for_priority(&[(&*queue, &**request)], &answer);
                    return answer;
                }
                Turn::Answer(Err(Left::NotSent)) => {
                    ticket = queue.commits.join(Arc::clone(&request), arrival).map_err(not_queued)?;
                }
                Turn::Answer(Err(Left::Sent)) => {
                    return Err(ServiceError::new(Kind::Unknown, "the task that committed for this request stopped"));
                }
            }
        }
    }

    /// What holds this commit back for an overwrite that lost.
    pub(crate) fn hold(&self, table_queue: &TableQueue, commit: &TableCommit) -> Option<Hold> {
        table_queue.priority.before(self.env.now(), commit)
    }

    /// Waits until these have ended, which hold one commit back.
    pub(crate) async fn wait_out(&self, holds: impl IntoIterator<Item = (impl Deref<Target = TableQueue>, Hold)>) {
        let (began, holds) = (self.env.now(), holds.into_iter().collect::<Vec<_>>());
        Counts::add(&self.counts.held, u64::from(!holds.is_empty()));
        Counts::add(&self.counts.held_for_several, u64::from(holds.iter().any(|(_, hold)| hold.is_of_several())));
        for (table_queue, hold) in holds {
            table_queue.priority.over(hold, &self.env).await;
        }
        Counts::add(&self.counts.held_ms, self.env.now().since(began).as_nanos() / 1_000_000);
    }

    /// Ends the holds that were for parts of a commit that landed; begins some for one that conflicted.
    pub(crate) fn note_for_priority<T>(&self, parts: &[(&TableQueue, &TableCommit)], answer: &Result<T, ServiceError>) {
        let now = self.env.now();
        match answer {
            Ok(_) => {
                let used = parts.iter().filter(|(table_queue, part)| table_queue.priority.landed(now, part)).count();
                Counts::add(&self.counts.priorities_used, u64::from(used > 0));
            }
            Err(error) if error.kind == Kind::Conflict => {
                let parts: Vec<_> = parts.iter().map(|(table_queue, part)| (&table_queue.priority, *part)).collect();
                Counts::add(&self.counts.priorities, u64::from(Priority::lost(&parts, now, self.settings.priority)));
            }
            Err(_) => {}
        }
    }

    /// Commits what waits until `own` is answered.
    async fn lead(&self, at: AtTable<'_>, seat: Seat<Arc<Request>, Told>, own: &Arc<Request>) {
        // Where as many wait as are committed together, it waits for no more.
        if at.queue.commits.waiting() < TOGETHER {
            self.gather(at.queue, own).await;
        }
        loop {
            // Those that come while it waits for its turn are committed with the others.
            let mut begun = self.begin(at, own).await;
            let mut members = seat.take_if(TOGETHER, |request| !request.leads());
            let last = members.is_empty() || members.iter().any(|member| Arc::ptr_eq(member.request(), own));
            while !members.is_empty() {
                let later = repeats(&mut members);
                self.commit_together(at, members, std::mem::replace(&mut begun, Begun::at(at.name))).await;
                members = later;
            }
            self.withdraw(begun.turn).await;
            if last {
                // Those that came meanwhile stay together.
                return seat.hand_over();
            }
        }
    }

    /// Steps 2 to 8.
    async fn commit_together(&self, at: AtTable<'_>, members: Vec<Member>, mut begun: Begun) {
        // Where one gives another folder, the folder is claimed for one; and if no file can be written there, only that
        // one fails.
        let apart = members.len() > 1 && members.iter().any(|member| changes_folder(member.request()));
        let round = if apart { Round::Apart(members) } else { self.commit_in_turn(at, members, &mut begun).await };
        self.withdraw(begun.turn).await;
        let mut lost = begun.lost;
        if let Round::Apart(members) = round {
            for member in members {
                let mut begun = Begun { lost, ..Begun::at(at.name) };
                let round = self.commit_in_turn(at, vec![member], &mut begun).await;
                debug_assert!(matches!(round, Round::Answered), "one is not split");
                self.withdraw(begun.turn).await;
                lost = begun.lost;
            }
        }
        self.discard(lost).await;
    }

    /// Steps 2 to 8.
    async fn commit_in_turn(&self, at: AtTable<'_>, mut members: Vec<Member>, begun: &mut Begun) -> Round {
        begun.turn.set_free(members.iter().any(|member| overwrites(member.request())));
        let mut base = begun.base.take();
        for attempt in 1..=self.settings.attempts {
            if members.is_empty() {
                return Round::Answered;
            }
            let (on, fresh) = match base.take() {
                Some(known) => (known, false),
                None => match self.in_turn(&mut begun.turn).await.map(|mut tables| tables.pop().flatten()) {
                    Ok(Some(current)) => (current, true),
                    Ok(None) => return refuse_all(at.identifier, members),
                    Err(error) => return answer_all(members, &error),
                },
            };
            match self.attempt(at, (&on, fresh), begun, &mut members).await {
                Attempt::Done => return Round::Answered,
                // Step 3.
                Attempt::Stale => at.queue.learn(None),
                // Step 6.
                Attempt::NotItsTurn => {
                    at.queue.learn(None);
                    at.queue.share(self.env.now());
                }
                Attempt::Overtaken => {
                    Counts::add(&self.counts.overtaken, 1);
                    at.queue.learn(None);
                    at.queue.share(self.env.now());
                    self.lost(&mut begun.turn).await;
                    let wait = RETRY.wait(attempt, || self.env.draw(glidepath_env::Purpose::Backoff));
                    self.env.sleep_until(self.env.now() + wait).await;
                }
                Attempt::Gone => {
                    at.queue.learn(None);
                    return refuse_all(at.identifier, members);
                }
                // What one of them does may make the metadata wrong as a whole: then each is tried by itself.
                Attempt::Failed(ServiceError { kind: Kind::Invalid, .. }) | Attempt::NoFolder(_)
                    if members.len() > 1 =>
                {
                    return Round::Apart(members);
                }
                Attempt::Failed(error) | Attempt::NoFolder(error) => {
                    at.queue.learn(None);
                    if error.kind == Kind::Unknown {
                        Counts::add(&self.counts.unknown, members.len() as u64);
                    }
                    return answer_all(members, &error);
                }
            }
        }
        let words = "other servers moved the table first every time; not done: try again later";
        answer_all(members, &ServiceError::new(Kind::Unavailable, words))
    }

    /// Tries once on this version. Answers those that are answered by it; the others stay in `members`.
    async fn attempt(
        &self,
        AtTable { name, queue, .. }: AtTable<'_>,
        (on, fresh): (&Loaded<TableMetadata>, bool),
        Begun { turn, lost, .. }: &mut Begun,
        members: &mut Vec<Member>,
    ) -> Attempt {
        if let Err(error) = committable(on) {
            return Attempt::Failed(error);
        }
        // Step 2.
        let requests: Vec<_> = members.iter().map(|member| Arc::clone(member.request())).collect();
        let Decided { draft, verdicts } = self.decide(on, &requests).await;
        if !fresh && verdicts.iter().any(Result::is_err) {
            return Attempt::Stale;
        }
        let Some(draft) = draft else {
            // Nothing to write: each is refused, or was done before.
            for (member, verdict) in members.drain(..).zip(verdicts) {
                member.answer(verdict.map(|fitting| (Arc::clone(on), fitting)));
            }
            return Attempt::Done;
        };
        let next = match self.write(Some(on), draft).await {
            Ok(next) => next,
            Err(error) => return Attempt::Failed(error),
        };
        for (member, verdict) in members.iter_mut().zip(&verdicts) {
            member.sent |= verdict.is_ok();
        }
        let settled = match self.moving(name, on.metadata.location(), next.body.metadata.location()).await {
            Ok(moving) => self.move_pointer(name, (on, &next, turn), moving, (&requests, &verdicts)).await,
            Err(error) => Settled::Not(Attempt::NoFolder(error)),
        };
        match settled {
            Settled::Landed => turn.taken(),
            Settled::Not(attempt) => {
                for member in members.iter_mut() {
                    member.sent = false;
                }
                lost.add(name, on, next);
                return attempt;
            }
            Settled::Replayed(at) => {
                lost.add(name, on, next);
                self.answer_replayed(at, members).await;
                return Attempt::Stale;
            }
            Settled::Unknown(error) => return Attempt::Failed(error),
        }
        let current = Arc::clone(&next.body);
        self.bodies.tables.put(Arc::clone(&current));
        queue.learn(Some(&current));
        Counts::add(&self.counts.versions, 1);
        // Step 8.
        for (member, verdict) in members.drain(..).zip(verdicts) {
            if let Ok(kind) = &verdict {
                kind.count(&self.counts);
            }
            member.answer(verdict.map(|fitting| (Arc::clone(&current), fitting)));
        }
        self.clean_log(&next).await;
        Attempt::Done
    }

    /// The answer to a commit that was not done, unless an earlier delivery of it was. What refuses a request that has
    /// a key may be what that did: then the answer is what it noted.
    async fn why_not_done(&self, name: &Name, request: &Request, not_done: NotDone) -> Answer {
        let error = match not_done {
            // What one cannot look at now may have been done before, or refused.
            NotDone::Failed(error) if request.key.is_some() => match self.head().await {
                Ok(at) => match self.replayed(&at, request.key.as_ref()).await {
                    Ok(Some(noted)) => return self.done_before(name, &noted).await,
                    Err(noted) if error.kind.proof() == Proof::NotDone => return Err(noted),
                    _ => return Err(error),
                },
                Err(_) => return Err(error),
            },
            NotDone::Failed(error) => return Err(error),
            NotDone::Refused(error) => error,
            NotDone::Elsewhere(error) => self.unless_elsewhere(name, request, error).await,
        };
        match request.key.is_some() && !mutant::is(Mutant::RefusalTrusted) {
            true => self.or_earlier_delivery(name, request.key.as_ref(), error).await,
            false => Err(error),
        }
    }

    /// The answer to a commit of which all is in this version of the table already.
    pub(crate) async fn there(&self, name: &Name, on: &Loaded<TableMetadata>, key: Option<&Idempotency>) -> Answer {
        match self.note_done(key, &on.location).await? {
            Operation::Done => Ok(Arc::clone(on)),
            Operation::Before(noted) => self.done_before(name, &noted).await,
        }
    }

    /// This error, unless an earlier delivery of the request was done since it was looked for: that may be the reason.
    pub(crate) async fn or_earlier_delivery(
        &self,
        name: &Name,
        key: Option<&Idempotency>,
        error: ServiceError,
    ) -> Answer {
        let at = self.head().await?;
        match self.replayed(&at, key).await? {
            Some(noted) => self.done_before(name, &noted).await,
            None => Err(error),
        }
    }

    /// A fresh name for a metadata file after `earlier`.
    pub(crate) fn metadata_file(
        &self,
        location: &str,
        properties: &HashMap<String, String>,
        earlier: Option<&str>,
    ) -> Result<String, ServiceError> {
        let folder = self.settings.metadata_folder(location, properties)?;
        Ok(crate::locations::metadata_file(&folder, earlier, self.fresh_uuid()))
    }

    pub(crate) fn fresh_uuid(&self) -> uuid::Uuid {
        let draw = || u128::from(self.env.draw(glidepath_env::Purpose::Names));
        uuid::Builder::from_random_bytes(((draw() << 64) | draw()).to_be_bytes()).into_uuid()
    }
}

/// The table that commits wait for.
#[derive(Clone, Copy)]
struct AtTable<'a> {
    identifier: &'a Identifier,
    name: &'a Name,
    queue: &'a TableQueue,
}

/// What became of commits that were tried together.
enum Round {
    /// Each has its answer.
    Answered,
    /// These are to be tried one by one.
    Apart(Vec<Member>),
}

/// What became of an attempt.
pub(crate) enum Attempt {
    /// All are answered.
    Done,
    /// Decided on a version that may be out of date, and one does not fit; or one of several was answered.
    Stale,
    /// Another server moved the table.
    Overtaken,
    /// Servers wait for their turn there that this one did not know of, or it was passed over.
    NotItsTurn,
    /// The table is gone.
    Gone,
    /// For this reason, for all.
    Failed(ServiceError),
    /// The folder to which one of them moves the table cannot be had.
    NoFolder(ServiceError),
}

/// Whether a commit gives the table or its metadata another folder: perhaps one in which no file can be written.
fn changes_folder(commit: &TableCommit) -> bool {
    commit.updates.iter().any(|update| match update {
        TableUpdate::SetLocation { .. } => true,
        TableUpdate::SetProperties { updates } => updates.contains_key(METADATA_PATH),
        TableUpdate::RemoveProperties { removals } => removals.iter().any(|key| key == METADATA_PATH),
        _ => false,
    })
}

/// Takes out the members whose key an earlier one has. They are decided after it: what it did answers them.
fn repeats(members: &mut Vec<Member>) -> Vec<Member> {
    let mut keys = BTreeSet::new();
    let (firsts, later) = std::mem::take(members)
        .into_iter()
        .partition(|member| member.request().key.as_ref().is_none_or(|key| keys.insert(key.key.clone())));
    *members = firsts;
    later
}

/// The table is not there.
fn refuse_all(table: &Identifier, members: Vec<Member>) -> Round {
    for member in members {
        member.answer(Err(NotDone::Elsewhere(no_table(table))));
    }
    Round::Answered
}

/// Answers all of them with this error.
fn answer_all(members: Vec<Member>, error: &ServiceError) -> Round {
    for member in members {
        member.answer(Err(NotDone::Failed(error.clone())));
    }
    Round::Answered
}
