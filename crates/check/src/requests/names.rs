//! The rules of actions on namespaces and tables.

use glidepath_model::{Action, Entry, Kind, Name, Refusal};

use super::rules::Rules;
use super::state::State;

/// Requests are lists of [`Action`]s.
pub(crate) struct Names;

/// The property that carries the mark of who wrote an entry last.
pub(crate) const MARK: &str = "marked-by";

/// A question about names.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    /// What the name stands for.
    Entry(Name),
    /// What is directly in a namespace, or in the root.
    Children(Option<Name>),
    /// All of a kind.
    OfKind(Kind),
    /// All that was made from it.
    WithBase(Name),
}

/// An answer: names, and what they stand for where that was asked.
pub(crate) type Found = Vec<(String, Option<Entry>)>;

type Entries = State<Name, Entry>;

/// The text before the last slash.
fn parent(name: &Name) -> Option<&str> {
    name.as_str().rsplit_once('/').map(|(parent, _)| parent)
}

fn is_within(name: &Name, namespace: &str) -> bool {
    name.as_str().len() > namespace.len()
        && name.as_str().starts_with(namespace)
        && name.as_str().as_bytes()[namespace.len()] == b'/'
}

/// All that is in a namespace, however deep.
fn within(state: &Entries, namespace: &Name) -> Vec<Name> {
    let from = state.now().range(namespace..);
    // Names such as "a-b" lie between "a" and "a/b".
    let near = from.take_while(|(name, _)| name.as_str().starts_with(namespace.as_str()));
    near.filter(|(name, _)| is_within(name, namespace.as_str())).map(|(name, _)| name.clone()).collect()
}

fn find(state: &Entries, name: &Name, kind: Option<Kind>) -> Result<Entry, Refusal> {
    match state.get(name) {
        None => Err(Refusal::NotFound(name.clone())),
        Some(entry) if kind.is_some_and(|kind| kind != entry.kind) => {
            Err(Refusal::WrongKind { name: name.clone(), found: entry.kind })
        }
        Some(entry) => Ok(entry.clone()),
    }
}

/// Refused where the name is taken, or there is no namespace for it.
fn must_be_free(state: &Entries, name: &Name) -> Result<(), Refusal> {
    if state.get(name).is_some() {
        return Err(Refusal::Exists(name.clone()));
    }
    let Some(parent) = parent(name).and_then(|parent| Name::parse(parent).ok()) else { return Ok(()) };
    match state.get(&parent) {
        None => Err(Refusal::NoParent { name: name.clone(), parent }),
        Some(entry) if entry.kind == Kind::Table => Err(Refusal::WrongKind { name: parent, found: Kind::Table }),
        Some(_) => Ok(()),
    }
}

fn act(state: &mut Entries, action: &Action) -> Result<(), Refusal> {
    match action {
        Action::Create { name, entry } => {
            must_be_free(state, name)?;
            if entry.state.as_ref().is_some_and(|state| state.partitions.is_empty()) {
                return Err(Refusal::NoPartitions(name.clone()));
            }
            state.set(name.clone(), Some(entry.clone()));
        }
        Action::Drop { name, kind, expected } => {
            let entry = find(state, name, Some(*kind))?;
            if expected.is_some() && entry.state.map(|state| state.version) != *expected {
                return Err(Refusal::Changed(name.clone()));
            }
            if *kind == Kind::Namespace && !within(state, name).is_empty() {
                return Err(Refusal::NotEmpty(name.clone()));
            }
            state.set(name.clone(), None);
        }
        Action::DropAll { name } => {
            find(state, name, Some(Kind::Namespace))?;
            for name in within(state, name) {
                state.set(name, None);
            }
            state.set(name.clone(), None);
        }
        Action::Rename { from, to } => {
            let entry = find(state, from, Some(Kind::Table))?;
            must_be_free(state, to)?;
            state.set(from.clone(), None);
            state.set(to.clone(), Some(entry));
        }
        Action::SetProperties { name, changes } => {
            let mut entry = find(state, name, None)?;
            for (key, value) in changes {
                entry.properties.remove(key);
                entry.properties.extend(value.iter().map(|value| (key.clone(), value.clone())));
            }
            state.set(name.clone(), Some(entry));
        }
        Action::Advance { name, advance } => {
            let mut entry = find(state, name, Some(Kind::Table))?;
            let changed = || Refusal::Changed(name.clone());
            let table = entry.state.as_mut().ok_or_else(changed)?;
            for (partition, expected) in &advance.partitions {
                let version = table.partitions.get_mut(partition.0 as usize);
                let version = version.filter(|version| *version == expected).ok_or_else(changed)?;
                version.0 += 1;
            }
            table.version.0 += 1;
            table.metadata = advance.metadata;
            state.set(name.clone(), Some(entry));
        }
    }
    Ok(())
}

impl Rules for Names {
    type Key = Name;
    type Value = Entry;
    type Request = Vec<Action>;
    type Refusal = Refusal;
    type Query = Query;
    type Found = Found;

    fn apply(state: &mut Entries, request: &Vec<Action>) -> Result<(), Refusal> {
        request.iter().try_for_each(|action| act(state, action))
    }

    fn marks(value: &Entry) -> Vec<u64> {
        let property = value.properties.get(MARK).and_then(|mark| mark.parse().ok());
        property.into_iter().chain(value.state.as_ref().map(|state| state.metadata.0)).collect()
    }

    fn is_marked(request: &Vec<Action>) -> bool {
        request.iter().any(|action| match action {
            Action::Create { .. } | Action::Advance { .. } => true,
            Action::SetProperties { changes, .. } => changes.contains_key(MARK),
            Action::Drop { .. } | Action::DropAll { .. } | Action::Rename { .. } => false,
        })
    }

    fn found(state: &Entries, query: &Query) -> Found {
        let all = state.now().iter();
        let names = |name: &Name| (name.as_str().to_owned(), None);
        match query {
            Query::Entry(name) => {
                state.get(name).map(|entry| (name.as_str().to_owned(), Some(entry.clone()))).into_iter().collect()
            }
            Query::Children(namespace) => {
                let inside = |name: &Name| parent(name) == namespace.as_ref().map(Name::as_str);
                let whole = |(name, entry): (&Name, &Entry)| (name.as_str().to_owned(), Some(entry.clone()));
                all.filter(|(name, _)| inside(name)).map(whole).collect()
            }
            Query::OfKind(kind) => all.filter(|(_, entry)| entry.kind == *kind).map(|(name, _)| names(name)).collect(),
            Query::WithBase(base) => {
                all.filter(|(_, entry)| entry.base_objects.contains(base)).map(|(name, _)| names(name)).collect()
            }
        }
    }

    fn words(request: &Vec<Action>) -> String {
        let words = |action: &Action| match action {
            Action::Create { name, entry } if entry.kind == Kind::Namespace => format!("create namespace {name}"),
            Action::Create { name, .. } => format!("create table {name}"),
            Action::Drop { name, expected: Some(expected), .. } => format!("drop {name} at {expected}"),
            Action::Drop { name, kind, .. } => format!("drop {kind:?} {name}").to_lowercase(),
            Action::DropAll { name } => format!("drop {name} and all that is in it"),
            Action::Rename { from, to } => format!("rename {from} to {to}"),
            Action::SetProperties { name, changes } => format!("change properties of {name} ({changes:?})"),
            Action::Advance { name, advance } => {
                format!("advance {name}, {} partitions", advance.partitions.len())
            }
        };
        request.iter().map(words).collect::<Vec<_>>().join("; ")
    }
}
