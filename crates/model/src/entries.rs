//! The entries of a catalog other than tables kept as numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::runs::Runs;
use crate::{Entry, Kind, Name, TableId, TableState};

/// All entries of a catalog except its plain numbered tables, in listing order. Copies share what is equal in them;
/// copying an empty set costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(Option<Arc<Rows>>);

/// The number of entries in a run: a change copies this many references, and one for each other run.
const RUN: usize = 64;

type Rows = Runs<Listed, Arc<Entry>, RUN>;

/// A name, ordered as in listings: by its namespace, then by its last part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed(Name);

impl Ord for Listed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.place().cmp(&other.0.place())
    }
}

impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Entries {
    /// These entries. `None` if they are not those of a catalog: they are not in listing order, a name is there twice,
    /// or an entry is inside something that is not a namespace, has a state without partitions or [a feature its kind
    /// cannot have](Entry::flaw), or must be kept as a number.
    #[must_use]
    pub fn new(entries: Vec<(Name, Entry)>) -> Option<Self> {
        let sound = |(name, entry): &(Name, Entry)| {
            let kept_as_number = name.number().is_some() && entry.plain().is_some();
            !kept_as_number
                && entry.flaw().is_none()
                && entry.state.as_ref().is_none_or(|state| !state.partitions.is_empty())
        };
        if !entries.iter().all(sound) {
            return None;
        }
        let rows = entries.into_iter().map(|(name, entry)| (Listed(name), Arc::new(entry))).collect();
        let all = Self::of(Rows::new(rows)?);
        let mut parent = "";
        for (name, _) in all.iter() {
            // Entries of one namespace are adjacent.
            if name.place().0 != parent {
                parent = name.place().0;
                let found = name.parent().and_then(|parent| all.get(&parent));
                found.filter(|entry| entry.kind == Kind::Namespace)?;
            }
        }
        Some(all)
    }

    fn of(rows: Rows) -> Self {
        Self((rows.len() > 0).then(|| Arc::new(rows)))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |rows| rows.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What a name stands for.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&Entry> {
        let place = name.place();
        self.0.as_ref()?.get(|other| other.0.place().cmp(&place)).map(|entry| &**entry)
    }

    /// The state of a numbered table that has more than a state.
    #[must_use]
    pub fn numbered(&self, id: TableId) -> Option<&TableState> {
        self.0.as_ref()?;
        self.get(&Name::numbered(id)).filter(|entry| entry.kind == Kind::Table)?.state.as_ref()
    }

    /// Whether the name of this numbered table stands for something else than a table with a state.
    #[must_use]
    pub fn has_other(&self, id: TableId) -> bool {
        !self.is_empty() && self.numbered(id).is_none() && self.get(&Name::numbered(id)).is_some()
    }

    /// Gives a [numbered](Self::numbered) table another state, or removes it. Does nothing if there is no such table
    /// here.
    pub fn set_numbered(&mut self, id: TableId, state: Option<TableState>) {
        let name = Name::numbered(id);
        let moved = self.get(&name).zip(state).map(|(entry, state)| Entry { state: Some(state), ..entry.clone() });
        self.set(name, moved);
    }

    /// All of them, in listing order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.0.iter().flat_map(|rows| rows.iter()).map(|(name, entry)| (&name.0, &**entry))
    }

    /// The entries after those for which `before` holds; it gets the namespace and the last part.
    fn from(&self, before: impl Fn((&str, &str)) -> bool) -> impl Iterator<Item = (&Name, &Entry)> {
        let order = |name: &Listed| if before(name.0.place()) { Ordering::Less } else { Ordering::Greater };
        let rows = self.0.as_ref().map(|rows| rows.from(rows.position(order)));
        rows.into_iter().flatten().map(|(name, entry)| (&name.0, &**entry))
    }

    /// The names of everything in a namespace, at all depths.
    #[must_use]
    pub fn within(&self, namespace: &Name) -> Vec<Name> {
        let (inside, deeper) = (namespace.as_str(), format!("{namespace}/"));
        let direct = self.from(|place| place < (inside, "")).take_while(|(name, _)| name.place().0 == inside);
        let others = self.from(|place| place < (&deeper, ""));
        let others = others.take_while(|(name, _)| name.place().0.starts_with(&deeper));
        direct.chain(others).map(|(name, _)| name.clone()).collect()
    }

    /// Up to `limit` entries directly in a namespace (`None` for the root), by name, after `after` if given. `numbered`
    /// gives the plain numbered tables from an id on, which are entries of the root.
    pub fn children<'a, I: Iterator<Item = (TableId, &'a TableState)>>(
        &self,
        numbered: impl FnOnce(TableId) -> I,
        (namespace, after): (Option<&Name>, Option<&Name>),
        limit: usize,
    ) -> Vec<(Name, Entry)> {
        let inside = namespace.map_or("", Name::as_str);
        let before = |place: (&str, &str)| place < (inside, "") || after.is_some_and(|after| place <= after.place());
        let named = self.from(before).take_while(|(name, _)| name.place().0 == inside);
        let mut named = named.map(|(name, entry)| (name.clone(), entry.clone())).peekable();
        let first = namespace.is_none().then(|| first_number(before)).flatten();
        let numbered = first.map(numbered).into_iter().flatten();
        let numbered = numbered.map(|(id, state)| (Name::numbered(id), Entry::table(None, state.clone())));
        let mut numbered = numbered.peekable();
        let next = || match (named.peek(), numbered.peek()) {
            (Some((name, _)), Some((number, _))) if name.last() < number.last() => named.next(),
            (Some(_), None) => named.next(),
            (_, _) => numbered.next(),
        };
        std::iter::from_fn(next).take(limit).collect()
    }

    /// Sets or removes the entry of a name. It must not be a plain numbered table.
    pub fn set(&mut self, name: Name, entry: Option<Entry>) {
        if entry.is_none() && self.get(&name).is_none() {
            return;
        }
        let mut rows = self.0.take().unwrap_or_else(|| Arc::new(Rows::empty()));
        match entry {
            Some(entry) => Arc::make_mut(&mut rows).insert(Listed(name), Arc::new(entry)),
            None => Arc::make_mut(&mut rows).remove(&Listed(name)),
        }
        self.0 = (rows.len() > 0).then_some(rows);
    }
}

/// The first number whose name is not `before`.
fn first_number(before: impl Fn((&str, &str)) -> bool) -> Option<TableId> {
    let (mut low, mut high) = (0_u64, 1 << 32);
    while low < high {
        let middle = low.midpoint(high);
        match u32::try_from(middle) {
            Ok(id) if before(Name::numbered(TableId(id)).place()) => low = middle + 1,
            _ => high = middle,
        }
    }
    u32::try_from(low).ok().map(TableId)
}
