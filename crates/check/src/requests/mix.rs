//! What do writers ask for? Requests of every kind about few names, so that they conflict.

use std::collections::BTreeMap;

use glidepath_model::{
    Action, Advance, Assertion, Entry, Instant, Kind, MetadataId, Name, PartitionId, TableId, TableState, Version,
};
use glidepath_protocols::registry::Design;
use glidepath_protocols::{Catalog, LoadError};

use super::asking::{Asker, answer};
use super::names::{MARK, POINTER, Query};
use crate::process::misleads;

/// Namespaces in which all writers create and drop entries.
const BUSY: [&str; 6] = ["a", "b", "a/x", "a/y", "b/x", "a/x/m"];

/// Names of tables in them.
const TABLES: [&str; 3] = ["t0", "t1", "t2"];

/// Namespaces of the first version, and tables in each, so that trees have several levels.
pub(crate) const FILLED: u64 = 12;
const IN_EACH: u64 = 16;

/// Catalogs that each commit rewrites have fewer.
pub(crate) const FILLED_WHOLE: u64 = 6;

/// Numbered tables that are created and dropped, besides those of the scenario.
const PASSING: u32 = 5;

fn name(text: &str) -> Name {
    Name::parse(text).expect("letters, digits and slashes are a name")
}

fn table_at(partitions: usize, mark: u64) -> Entry {
    let state = TableState { metadata: MetadataId(mark), ..TableState::new(partitions) };
    Entry::table(Some(format!("there/{mark}")), state)
}

fn pointer_of(mark: u64) -> String {
    format!("{POINTER}{mark}")
}

fn marked(mark: u64, entry: Entry) -> Entry {
    Entry { properties: BTreeMap::from([(MARK.to_owned(), mark.to_string())]), ..entry }
}

/// What a catalog begins with.
pub(crate) fn filling(namespaces: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    for namespace in 0..namespaces {
        let parent = format!("s{namespace:02}");
        actions.push(Action::Create { name: name(&parent), entry: Entry::namespace() });
        for table in 0..IN_EACH {
            let entry = table_at(1 + table as usize % 4, 0);
            actions.push(Action::Create { name: name(&format!("{parent}/f{table:02}")), entry });
        }
    }
    for (busy, table) in ["a", "b", "a/x"].into_iter().zip(TABLES) {
        actions.push(Action::Create { name: name(busy), entry: Entry::namespace() });
        actions.push(Action::Create { name: name(&format!("{busy}/{table}")), entry: table_at(2, 0) });
    }
    actions.push(Action::Create { name: name("a/v"), entry: Entry { pointer: Some(pointer_of(0)), ..Entry::view() } });
    actions
}

impl<D: Design> Asker<'_, D> {
    /// Some actions.
    pub(crate) async fn request(&self, mark: u64) -> Option<Vec<Action>> {
        if self.pick(4) == 0 {
            self.look_around().await?;
        }
        let mut request = Vec::new();
        for _ in 0..self.one_of(&[1, 1, 1, 1, 1, 1, 2, 3]) {
            request.push(self.action(mark).await?);
        }
        Some(request)
    }

    fn namespace(&self) -> Name {
        match self.pick(12) {
            0 => self.filled(),
            _ => name(self.one_of(&BUSY)),
        }
    }

    fn filled(&self) -> Name {
        name(&format!("s{:02}", self.pick(FILLED_WHOLE)))
    }

    /// With probability 1/2, a name that exists.
    fn table(&self) -> Name {
        self.table_among(IN_EACH)
    }

    /// With probability 1/2, a name that does not exist.
    fn new_table(&self) -> Name {
        self.table_among(3 * IN_EACH)
    }

    fn table_among(&self, in_each: u64) -> Name {
        if self.pick(3) == 0 {
            return Name::numbered(TableId(self.pick(u64::from(self.tables + PASSING)) as u32));
        }
        let namespace = if self.pick(4) > 0 { self.filled() } else { self.namespace() };
        match namespace.as_str().starts_with('s') {
            true => name(&format!("{namespace}/f{:02}", self.pick(in_each))),
            false if self.pick(12) == 0 => name(self.one_of(&TABLES)),
            false => name(&format!("{namespace}/{}", self.one_of(&TABLES))),
        }
    }

    /// The current entry of a name.
    async fn entry(&self, name: &Name) -> Option<Option<Entry>> {
        let (at, loaded) = self.head().await?;
        let entry = self.read(self.catalog.entry(&at, name).await)?;
        let found = entry.iter().map(|entry| (name.as_str().to_owned(), Some(entry.clone()))).collect();
        self.looked(loaded, self.catalog.version(&at), Query::Entry(name.clone()), found);
        Some(entry)
    }

    /// What was read, if the store answered. The catalog is there, and whole.
    fn read<T>(&self, read: Result<T, LoadError>) -> Option<T> {
        if let Some(error) = read.as_ref().err().filter(|error| misleads(error)) {
            self.book.borrow_mut().misled.push((self.env.world_now(), format!("a reader was told: {error}")));
        }
        read.ok()
    }

    async fn head(&self) -> Option<(D::Snapshot, (Instant, Instant))> {
        let began = self.env.world_now();
        let at = match self.loads {
            Some(loads) => loads.load(self.catalog).await,
            None => self.catalog.load().await,
        };
        let at = self.read(at)?;
        Some((at, (began, self.env.world_now())))
    }

    /// Looks up something that the request does not need.
    async fn look_around(&self) -> Option<()> {
        let (at, loaded) = self.head().await?;
        let query = match self.pick(8) {
            0 | 4 => Query::OfKind(self.one_of(&Kind::ALL)),
            1 | 5 => Query::WithBase(self.table()),
            2 => Query::Children(None),
            3 => Query::Children(Some(self.namespace())),
            6 => Query::List(None),
            _ => Query::List(Some(self.namespace())),
        };
        let found = self.read(answer(self.catalog, &at, &query).await)?;
        self.looked(loaded, self.catalog.version(&at), query, found);
        Some(())
    }

    /// Any action, marked if it writes.
    async fn action(&self, mark: u64) -> Option<Action> {
        Some(match self.pick(132) {
            0..28 => self.create_table(mark),
            28..36 => Action::Create { name: self.namespace(), entry: marked(mark, Entry::namespace()) },
            36..43 => Action::Drop { name: self.table(), kind: Kind::Table, expected: None },
            43..50 => {
                let name = self.table();
                let state = self.entry(&name).await?.and_then(|entry| entry.state);
                let expected = Some(state.map_or(Version(0), |state| state.version));
                Action::Drop { name, kind: Kind::Table, expected }
            }
            50..55 => {
                let kind = if self.pick(9) == 0 { Kind::Table } else { Kind::Namespace };
                Action::Drop { name: self.namespace(), kind, expected: None }
            }
            55..59 => Action::DropAll { name: self.namespace() },
            59..69 => Action::Rename { from: self.table(), to: self.new_table() },
            69..82 => self.properties(mark),
            82..100 => self.advance(mark).await?,
            100..108 => self.create_view(mark),
            108..111 => Action::Drop { name: self.table(), kind: Kind::View, expected: None },
            111..121 => self.point(mark).await?,
            _ => self.assert().await?,
        })
    }

    fn create_table(&self, mark: u64) -> Action {
        let mut entry = marked(mark, table_at(1 + self.pick(4) as usize, mark));
        entry.base_objects = (0..self.pick(3)).map(|_| self.table()).collect();
        entry.properties.insert("p".to_owned(), mark.to_string());
        entry.pointer = (self.pick(2) == 0).then(|| pointer_of(mark));
        let name = self.new_table();
        // Half of the numbered tables have only a state.
        if name.number().is_some() && self.pick(2) == 0 {
            entry = Entry { kind: Kind::Table, state: entry.state, ..Entry::namespace() };
        }
        Action::Create { name, entry }
    }

    /// Views use the names of tables, so that they conflict.
    fn create_view(&self, mark: u64) -> Action {
        let mut entry = marked(mark, Entry::view());
        entry.base_objects = (0..self.pick(3)).map(|_| self.table()).collect();
        entry.location = (self.pick(2) == 0).then(|| format!("there/{mark}"));
        entry.pointer = (self.pick(2) == 0).then(|| pointer_of(mark));
        Action::Create { name: self.new_table(), entry }
    }

    /// Usually from the current pointer; sometimes from one that never existed.
    async fn point(&self, mark: u64) -> Option<Action> {
        let name = self.table();
        let seen = self.entry(&name).await?.and_then(|entry| entry.pointer);
        let expected = if self.pick(16) == 0 { Some("nowhere".to_owned()) } else { seen };
        Some(Action::SetPointer { name, expected, pointer: pointer_of(mark) })
    }

    /// The current entry, or another with equal probability.
    async fn assert(&self) -> Option<Action> {
        let name = if self.pick(4) == 0 { self.namespace() } else { self.table() };
        let seen = self.entry(&name).await?;
        let holds = match (self.pick(6), seen) {
            (0, _) => Assertion::Absent,
            (1, _) => Assertion::Exists(self.one_of(&Kind::ALL)),
            (_, None) => Assertion::Absent,
            (2, Some(entry)) => Assertion::Exists(entry.kind),
            (3, Some(Entry { state: Some(state), .. })) => Assertion::Version(state.version),
            (4, Some(entry)) => {
                let key = MARK.to_owned();
                Assertion::Property { value: entry.properties.get(&key).cloned(), key }
            }
            (_, Some(entry)) => Assertion::Pointer(entry.pointer),
        };
        Some(Action::Assert { name, holds })
    }

    /// Sets properties, removes properties, or both.
    fn properties(&self, mark: u64) -> Action {
        let name = if self.pick(3) == 0 { self.namespace() } else { self.table() };
        let mut changes = BTreeMap::new();
        for key in ["p", "q"] {
            match self.pick(3) {
                0 => drop(changes.insert(key.to_owned(), None)),
                1 => drop(changes.insert(key.to_owned(), Some(mark.to_string()))),
                _ => {}
            }
        }
        if changes.values().any(Option::is_some) {
            changes.insert(MARK.to_owned(), Some(mark.to_string()));
        }
        Action::SetProperties { name, changes }
    }

    /// Of one or several partitions, usually from their current versions; sometimes from versions that never existed.
    async fn advance(&self, mark: u64) -> Option<Action> {
        let name = self.table();
        let state = self.entry(&name).await?.and_then(|entry| entry.state).unwrap_or_else(|| TableState::new(2));
        let chosen = 1 + self.pick((1 << state.partitions.len()) - 1);
        let wrong = u64::from(self.pick(16) == 0);
        let partitions = state.partitions.iter().enumerate().filter(|(number, _)| chosen >> number & 1 == 1);
        let partitions = partitions.map(|(number, at)| (PartitionId(number as u32), Version(at.0 + wrong))).collect();
        Some(Action::Advance { name, advance: Advance { metadata: MetadataId(mark), partitions } })
    }
}
