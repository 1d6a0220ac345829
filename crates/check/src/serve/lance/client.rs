//! What does a client of Lance do?

use bytes::Bytes;
use glidepath_env::together;
use glidepath_service::{Identifier, Kind, LanceTable, LanceVersion, NewLanceVersion};
use glidepath_table::{FileError, Files};

use super::super::book::Told;
use super::super::client::{Client, SENDS, SPARE};
use super::super::wire::{self, Answer};
use super::super::{BASE, Focus, identifier};
use super::{Ask, Manifest, place, read, table_of, versions_of};

/// How often a commit that others came before is tried.
const TRIES: u32 = 6;

/// Versions that are kept when old ones are deleted.
const KEPT: u64 = 2;

/// What came of an attempt.
enum Tried {
    /// Another one came first: try again.
    Overtaken,
    /// It is not known. This is the version that it would be.
    Open(u64),
    Ended,
}

impl Client {
    pub(in super::super) async fn act_lance(&self) {
        let names = if self.focus == Focus::Names { 6 } else { 2 };
        for _ in 0..self.writers.commits {
            self.pause().await;
            let table = self.any_table();
            match self.draw() % 16 {
                _ if self.reads => {}
                one if one < names => self.change_lance_names().await,
                15 => self.delete_versions(&table).await,
                _ => self.commit_version(&table).await,
            }
            self.look_at_versions(&table).await;
        }
    }

    /// Commits once, on whichever version is the newest by then.
    async fn commit_version(&self, table: &Identifier) {
        let commit = self.fresh();
        for _ in 0..TRIES {
            let Some(there) = self.lance_table(table).await else { return self.declare(table).await };
            let Some(newest) = self.newest(table, &there.location).await else { return };
            match self.try_version(table, &there.location, commit, newest).await {
                Tried::Overtaken => self.back_off().await,
                // Some go on as if it had been done, without a look.
                Tried::Open(version) if self.chance(0.5) => {
                    self.try_version(table, &there.location, self.fresh(), (version, None)).await;
                    return;
                }
                Tried::Open(_) | Tried::Ended => return,
            }
        }
    }

    /// The newest version and the attempt that made it; zeros if there is none. `None`: it cannot be read, or another
    /// table has the name meanwhile.
    async fn newest(&self, table: &Identifier, location: &str) -> Option<(u64, Option<i64>)> {
        let newest = versions_of(self.ask_lance(table, Ask::Newest).await?.ok()?)?;
        let Some(newest) = newest.first() else { return Some((0, Some(0))) };
        let manifest = self.manifest(newest, location).await?;
        Some((newest.version, Some(manifest.attempt)))
    }

    /// The manifest of a version that a server told of; `None` if the table has another location.
    async fn manifest(&self, version: &LanceVersion, location: &str) -> Option<Manifest> {
        let file = format!("{BASE}/{}", version.path);
        if file != place(location, version.version) {
            return None;
        }
        let bytes = match self.files.read(&file).await {
            Err(FileError::NotFound(_)) => {
                self.book.borrow_mut().lance.missed.insert((location.to_owned(), version.version));
                return None;
            }
            bytes => bytes.ok()?,
        };
        read(&bytes).map_err(|words| self.book.borrow_mut().violated(format!("{file}: {words}"))).ok()
    }

    async fn try_version(
        &self,
        table: &Identifier,
        location: &str,
        commit: i64,
        (before, after): (u64, Option<i64>),
    ) -> Tried {
        let (version, attempt) = (before + 1, self.fresh());
        let manifest = Manifest { commit, attempt, version, after };
        let Ok(bytes) = serde_json::to_vec(&manifest) else { return Tried::Ended };
        let staged = format!("{}-{attempt}", place(location, version));
        let length = bytes.len() as u64;
        if self.files.write(&staged, Bytes::from(bytes)).await.is_err() {
            return Tried::Ended;
        }
        let new = NewLanceVersion {
            version,
            staged: staged.trim_start_matches(BASE).trim_start_matches('/').to_owned(),
            bytes: self.chance(0.5).then_some(length),
        };
        self.say(|| format!("asks for {manifest:?} of {location}"));
        self.book.borrow_mut().lance_attempt(attempt, location, version);
        let told = self.create(table, location, &new, after.is_some()).await;
        self.say(|| format!("is told of attempt {attempt}: {told:?}"));
        self.book.borrow_mut().lance_told(attempt, told);
        // After success the server does so.
        if told != Told::Done {
            let _ = self.files.delete(&staged).await;
        }
        match told {
            Told::Refused => Tried::Overtaken,
            Told::Open => Tried::Open(version),
            Told::Done => Tried::Ended,
        }
    }

    /// Asks for a version, some of two servers at once, and again where that is safe, or gives up.
    async fn create(&self, table: &Identifier, location: &str, new: &NewLanceVersion, looked: bool) -> Told {
        for _ in 0..SENDS {
            let times = if self.chance(0.3) { 2 } else { 1 };
            let send = |_| self.send_lance(table, Ask::Create(new.clone()));
            let answers = together(times, (0..times).map(send)).await.into_iter().flatten();
            let told: Vec<Told> =
                answers.filter_map(|answer| self.told_of(answer, (table, location), new, looked)).collect();
            match (told.contains(&Told::Done), told.contains(&Told::Refused)) {
                (true, true) => self.book.borrow_mut().violated(format!("{new:?} was done, and refused")),
                (true, false) => return Told::Done,
                (false, true) => return Told::Refused,
                (false, false) => {}
            }
            if !told.is_empty() || self.chance(0.3) {
                return Told::Open;
            }
            self.back_off().await;
        }
        Told::Open
    }

    /// What an answer says; `None`: send it again.
    fn told_of(
        &self,
        answer: Answer,
        (table, location): (&Identifier, &str),
        new: &NewLanceVersion,
        looked: bool,
    ) -> Option<Told> {
        let error = match answer {
            Ok(done) => {
                let created = versions_of(done).unwrap_or_default();
                let right = |one: &LanceVersion| format!("{BASE}/{}", one.path) == place(location, new.version);
                if !created.first().is_some_and(right) {
                    self.book.borrow_mut().violated(format!("{new:?} was answered with {created:?}"));
                }
                return Some(Told::Done);
            }
            Err(error) => error,
        };
        match error.kind {
            Kind::Conflict => Some(Told::Refused),
            // Another delivery may have been done before the table lost its name.
            Kind::NoTable | Kind::Invalid | Kind::Unsupported if self.comes_and_goes(table) => Some(Told::Open),
            // Or may be when there is the version before.
            Kind::Invalid if !looked => Some(Told::Open),
            Kind::Unavailable | Kind::Unknown => None,
            _ => {
                let words = format!("an answer that no request deserves: {error}: {new:?}");
                self.book.borrow_mut().violated(words);
                Some(Told::Open)
            }
        }
    }

    async fn change_lance_names(&self) {
        let number = self.draw() % u64::from(SPARE);
        let table = identifier(&format!("w{number}"));
        let Some(there) = self.lance_table(&table).await else { return self.declare(&table).await };
        let other = identifier(&format!("w{}", (number + 1) % u64::from(SPARE)));
        self.say(|| format!("is about to change the name of {}", there.location));
        match self.draw() % 8 {
            0 | 1 => drop(self.send_lance(&table, Ask::Rename(other)).await),
            2 => drop(self.send_lance(&table, Ask::Deregister).await),
            3 => {
                self.drop_lance(&table).await;
                self.declare(&table).await;
            }
            _ => self.drop_lance(&table).await,
        }
    }

    async fn declare(&self, table: &Identifier) {
        drop(self.send_lance(table, Ask::Declare).await);
    }

    async fn drop_lance(&self, table: &Identifier) {
        let told = self.send_lance(table, Ask::Drop).await;
        if let Some(dropped) = told.and_then(Result::ok).and_then(table_of) {
            self.say(|| format!("has dropped {}", dropped.location));
            self.book.borrow_mut().lance.dropped.push(dropped.location);
        }
    }

    /// Deletes old versions, of a table that keeps its name.
    async fn delete_versions(&self, table: &Identifier) {
        if self.comes_and_goes(table) {
            return;
        }
        let Some(there) = self.lance_table(table).await else { return };
        let Some((newest, _)) = self.newest(table, &there.location).await else { return };
        if newest > KEPT + 1 {
            let before = newest - KEPT;
            self.say(|| format!("deletes the versions of {} before {before}", there.location));
            self.book.borrow_mut().lance.deletes(&there.location, before);
            drop(self.send_lance(table, Ask::Delete(before)).await);
        }
    }

    /// Lists the versions of a table, and reads the newest.
    async fn look_at_versions(&self, table: &Identifier) {
        let acknowledged = self.book.borrow().lance.acknowledged.len();
        let Some(there) = self.lance_table(table).await else { return };
        let Some(versions) = self.ask_lance(table, Ask::Versions).await.and_then(Result::ok).and_then(versions_of)
        else {
            return;
        };
        if versions.windows(2).any(|two| two[0].version <= two[1].version) {
            self.book.borrow_mut().violated(format!("the versions of {} are not in order", there.location));
        }
        let newest = versions.first();
        let is_of_it = newest.is_none_or(|newest| format!("{BASE}/{}", newest.path).starts_with(&there.location));
        // Without versions, nobody knows whose they are.
        if !is_of_it || newest.is_none() && self.comes_and_goes(table) {
            return;
        }
        let number = newest.map_or(0, |newest| newest.version);
        self.book.borrow_mut().lance_looked(&there.location, number, acknowledged);
        if let Some(newest) = newest {
            self.manifest(newest, &there.location).await;
        }
    }

    async fn lance_table(&self, table: &Identifier) -> Option<LanceTable> {
        let dropped = self.book.borrow().lance.dropped.len();
        let there = table_of(self.ask_lance(table, Ask::Describe).await?.ok()?)?;
        let mut book = self.book.borrow_mut();
        if book.lance.dropped[..dropped].contains(&there.location) {
            book.violated(format!("{} is there, and was dropped before", there.location));
        }
        Some(there)
    }

    /// Whether others drop, rename and declare the table.
    fn comes_and_goes(&self, table: &Identifier) -> bool {
        table.name.starts_with('w')
    }

    /// Asks what changes nothing, until it is answered.
    async fn ask_lance(&self, table: &Identifier, ask: Ask) -> Option<Answer> {
        for _ in 0..SENDS {
            match self.send_lance(table, ask.clone()).await {
                Some(Err(error)) if matches!(error.kind, Kind::Unavailable | Kind::Unknown | Kind::NoFile) => {}
                None => {}
                answered => return answered,
            }
            self.back_off().await;
        }
        None
    }

    async fn send_lance(&self, table: &Identifier, ask: Ask) -> Option<Answer> {
        self.ask(&wire::Ask::Lance(table.clone(), ask)).await
    }
}
