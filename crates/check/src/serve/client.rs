//! What does a client do, and how does it talk to servers? It behaves as Iceberg's client for Java does: it sends a
//! request again as far as that is safe, and deletes the files of a commit that it is told was not done.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_model::Span;
use glidepath_service::{Idempotency, Identifier, Kind, Loaded, TableCommit, Warehouse};
use glidepath_sim::{SimEnv, SimStore};
use glidepath_table::{FileError, Files};
use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

use super::book::{Book, Told};
use super::wire::{Answer, Ask, Done, Link, Net};
use super::{Focus, identifier};
use crate::scenario::Writers;
use crate::subject::Clients;

/// How often a request is sent again, if it is safe to do so.
pub(super) const SENDS: u32 = 5;

/// How often a file is written or read again.
const FILE_TRIES: u32 = 6;

/// Tables that are made and dropped, besides those of the scenario.
pub(super) const SPARE: u32 = 2;

pub(super) struct Client {
    pub(super) env: SimEnv,
    pub(super) number: u32,
    pub(super) net: Rc<Net>,
    pub(super) link: Link,
    pub(super) files: Warehouse<SimStore>,
    pub(super) book: Rc<RefCell<Book>>,
    pub(super) writers: Writers,
    /// Whether it asks for its appends to be rebased.
    pub(super) rebases: bool,
    pub(super) focus: Focus,
    /// Whether it only reads.
    pub(super) reads: bool,
    pub(super) kind: Clients,
    /// The key that it used last, with the request.
    pub(super) last_key: RefCell<Option<(String, String)>>,
}

fn adds_snapshots(commit: &TableCommit) -> bool {
    commit.updates.iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. }))
}

impl Client {
    /// Lives until it has done all, or dies between two steps.
    pub(super) async fn live(self, dies: f64) {
        let act = async {
            match self.kind {
                Clients::Iceberg => self.act().await,
                Clients::Lance => self.act_lance().await,
            }
        };
        let mut life = pin!(act);
        let died = poll_fn(|context| match life.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending if unit_interval(self.env.draw(Purpose::Validation)) < dies => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        })
        .await;
        if died {
            self.say(|| "dies".to_owned());
        }
        self.book.borrow_mut().reach(self.env.world_now());
        self.net.leave();
    }

    async fn act(&self) {
        let (appends, overwrites, names) = match self.focus {
            Focus::All | Focus::Doubts => (6, 3, 3),
            Focus::Names => (4, 1, 8),
            Focus::Overwrites => (6, 6, 1),
        };
        for _ in 0..self.writers.commits {
            self.pause().await;
            if self.reads {
                self.look_at_two().await;
                continue;
            }
            match self.draw() % 16 {
                one if one < appends => self.append(&self.any_table()).await,
                one if one < appends + overwrites => self.overwrite(&self.any_table()).await,
                one if one >= 16 - names => self.change_names().await,
                one => match one % 3 {
                    0 => self.set_property(&self.any_table()).await,
                    1 if self.chance(0.3) => self.change_namespace().await,
                    _ => self.commit_to_two().await,
                },
            }
            self.look(&self.any_table()).await;
        }
    }

    /// Sends a request that leaves a mark.
    pub(super) async fn ask_marked(&self, mark: &str, ask: &Ask, keyed: bool) {
        let made = match ask {
            Ask::Create(new, _) => Some(new.identifier.dotted()),
            _ => None,
        };
        self.book.borrow_mut().marks(mark, keyed);
        self.say(|| format!("asks for {mark}: {}", made.as_deref().unwrap_or("a change of properties")));
        let told = self.submit(ask, keyed).await;
        self.say(|| format!("is told of {mark}: {told:?}"));
        self.book.borrow_mut().marked(mark, told);
    }

    pub(super) async fn read(&self, location: &str) -> Option<bytes::Bytes> {
        for _ in 0..FILE_TRIES {
            match self.files.read(location).await {
                Ok(bytes) => return Some(bytes),
                Err(FileError::Failed { .. }) => {}
                Err(_) => return None,
            }
        }
        None
    }

    pub(super) async fn delete(&self, files: &[String]) {
        // Half of the clients delete manifest lists too: what is left behind harms nobody.
        let which = if self.chance(0.5) { ".avro" } else { "m0.avro" };
        for file in files.iter().filter(|file| file.ends_with(which)) {
            let _ = self.files.delete(file).await;
        }
    }

    /// The table as it is now; `None` if there is none, or no server says.
    pub(super) async fn load(&self, table: &Identifier) -> Option<Loaded<TableMetadata>> {
        for _ in 0..SENDS {
            match self.ask(&Ask::Load(table.clone())).await {
                Some(Ok(Done::Table(loaded))) => return Some(loaded),
                Some(Ok(_)) => return None,
                Some(Err(error)) if error.kind == Kind::NoTable => return None,
                Some(Err(_)) | None => self.back_off().await,
            }
        }
        None
    }

    /// Sends a request until it is answered, as far as that is safe: with a key always, without one after "not done".
    pub(super) async fn submit(&self, ask: &Ask, keyed: bool) -> Told {
        for _ in 0..SENDS {
            let answer = self.ask(ask).await;
            if let Some(Err(error)) = &answer {
                self.say(|| format!("is answered {error}"));
            }
            match answer {
                Some(Ok(Done::Removed(properties))) => {
                    self.book.borrow_mut().removed_properties(properties);
                    return Told::Done;
                }
                Some(Ok(_)) => return Told::Done,
                Some(Err(error)) => match error.kind {
                    // Another delivery of the request may come when the table has its name back. One with a snapshot
                    // that would be done then is not answered so.
                    Kind::NoTable if !keyed && matches!(ask, Ask::Commit(_, commit) if !adds_snapshots(commit)) => {
                        return Told::Open;
                    }
                    // A refusal is noted under its key, so no other delivery is done.
                    Kind::Exists | Kind::NotEmpty if keyed => return Told::Refused,
                    // The client deletes what it wrote.
                    Kind::Conflict | Kind::NoTable | Kind::NoFile | Kind::NoNamespace => return Told::Refused,
                    Kind::Unavailable => {}
                    Kind::Unknown if keyed => {}
                    // The metadata has been purged meanwhile.
                    Kind::Invalid if matches!(ask, Ask::Register(..)) => return Told::Open,
                    // Its folder is that of a table which was renamed, perhaps of one that an earlier delivery created.
                    Kind::Invalid if names_location(ask) && error.message.contains(OF_ANOTHER) => {
                        return if keyed { Told::Refused } else { Told::Open };
                    }
                    // None of our deliveries was done, or the key would be ours.
                    Kind::KeyReused if keyed => {
                        self.book.borrow_mut().met("keys of other requests");
                        return Told::Refused;
                    }
                    Kind::Invalid | Kind::KeyReused | Kind::Contradictory | Kind::Unsupported | Kind::Broken => {
                        self.book
                            .borrow_mut()
                            .violated(format!("an answer that no request deserves: {error}: {ask:?}"));
                        return Told::Open;
                    }
                    _ => return Told::Open,
                },
                None if keyed => {}
                None => return Told::Open,
            }
            self.back_off().await;
        }
        Told::Open
    }

    pub(super) async fn ask(&self, ask: &Ask) -> Option<Answer> {
        // Most requests of a client go to one server, as through a load balancer that remembers it.
        let server = if self.chance(0.7) { self.number as usize } else { self.draw() as usize } % self.net.hosts.len();
        self.link.send(&self.env, &self.net, server, ask).await
    }

    /// The key of a request. A few have the key of the one before, which no client should do.
    pub(super) fn key(&self, keyed: bool, request: String) -> Option<Idempotency> {
        let fresh = format!("{:016x}", self.draw());
        if !keyed {
            return None;
        }
        let last = self.last_key.take().filter(|(_, of)| *of != request && self.chance(0.05));
        let key = last.map_or(fresh, |(key, _)| key);
        self.last_key.replace(Some((key.clone(), request.clone())));
        Idempotency::new(&key, request).ok()
    }

    pub(super) fn any_table(&self) -> Identifier {
        let spare = self.focus == Focus::Names && self.chance(0.6);
        let first = if spare { self.writers.tables } else { 0 };
        let number = first + (self.draw() % u64::from(self.writers.tables + SPARE - first)) as u32;
        match number.checked_sub(self.writers.tables) {
            None => identifier(&format!("t{number}")),
            Some(spare) => identifier(&format!("w{spare}")),
        }
    }

    pub(super) async fn pause(&self) {
        // Some wait until a purge is due.
        let longest = if self.chance(0.1) { Span::from_secs(120) } else { self.writers.pause };
        self.sleep(longest).await;
    }

    pub(super) async fn back_off(&self) {
        self.sleep(Span::from_millis(500)).await;
    }

    /// Up to this long.
    pub(super) async fn sleep(&self, longest: Span) {
        let share = unit_interval(self.env.draw(Purpose::Backoff));
        self.env.sleep_until(self.env.now() + Span::from_nanos_f64(share * longest.as_nanos() as f64)).await;
    }

    /// A number that was never used before.
    pub(super) fn fresh(&self) -> i64 {
        self.book.borrow_mut().fresh()
    }

    pub(super) fn say(&self, words: impl FnOnce() -> String) {
        self.book.borrow_mut().line(self.env.world_now(), self.number, words);
    }

    pub(super) fn chance(&self, chance: f64) -> bool {
        unit_interval(self.env.draw(Purpose::Tables)) < chance
    }

    pub(super) fn draw(&self) -> u64 {
        self.env.draw(Purpose::Tables)
    }
}

/// What a server says of the folder of another table.
const OF_ANOTHER: &str = "another table or view has files in it or around it";

fn names_location(ask: &Ask) -> bool {
    let moves =
        |commit: &TableCommit| commit.updates.iter().any(|update| matches!(update, TableUpdate::SetLocation { .. }));
    match ask {
        Ask::Create(new, _) => new.location.is_some(),
        Ask::Commit(_, commit) => moves(commit),
        _ => false,
    }
}
