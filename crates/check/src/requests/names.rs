//! The rules of actions on namespaces, tables and views.

use glidepath_model::{Action, Assertion, Entry, Kind, Name, Refusal};

use super::rules::Rules;
use super::state::State;

/// Requests are lists of [`Action`]s.
pub(crate) struct Names;

/// The property with the mark of the request that wrote an entry last.
pub(crate) const MARK: &str = "marked-by";

/// The beginning of the pointers of a request; its mark follows.
pub(crate) const POINTER: &str = "metadata/";

/// The kinds that can be renamed and have a metadata pointer.
const POINTING: &[Kind] = &[Kind::Table, Kind::View];

/// A question about names.
#[derive(Clone, Debug)]
pub(crate) enum Query {
    /// The entry of a name.
    Entry(Name),
    /// The entries directly in a namespace, or in the root.
    Children(Option<Name>),
    /// The kinds of the entries there.
    List(Option<Name>),
    /// All entries of a kind.
    OfKind(Kind),
    /// All entries that were made from it.
    WithBase(Name),
}

/// An answer: names, and their entries if the question asked for them.
pub(crate) type Answer = Vec<(String, Option<Entry>)>;

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

/// All entries in a namespace, at any depth.
fn within(state: &Entries, namespace: &Name) -> Vec<Name> {
    let from = state.now().range(namespace..);
    // Names such as "a-b" lie between "a" and "a/b".
    let near = from.take_while(|(name, _)| name.as_str().starts_with(namespace.as_str()));
    near.filter(|(name, _)| is_within(name, namespace.as_str())).map(|(name, _)| name.clone()).collect()
}

/// The entry of a name, if it has one of these kinds.
fn find(state: &Entries, name: &Name, needed: &'static [Kind]) -> Result<Entry, Refusal> {
    match state.get(name) {
        None => Err(Refusal::NotFound(name.clone())),
        Some(entry) if !needed.contains(&entry.kind) => {
            Err(Refusal::WrongKind { name: name.clone(), found: entry.kind, needed })
        }
        Some(entry) => Ok(entry.clone()),
    }
}

/// The same, if its metadata pointer is this one.
fn find_at(state: &Entries, name: &Name, pointer: &Option<String>) -> Result<Entry, Refusal> {
    let entry = find(state, name, POINTING)?;
    match entry.pointer == *pointer {
        true => Ok(entry),
        false => {
            let (name, found) = (name.clone(), entry.pointer);
            Err(Refusal::PointerMoved { name, expected: pointer.clone(), found })
        }
    }
}

/// Refused if the name is taken, or its namespace does not exist.
fn must_be_free(state: &Entries, name: &Name) -> Result<(), Refusal> {
    if state.get(name).is_some() {
        return Err(Refusal::Exists(name.clone()));
    }
    let Some(parent) = parent(name).and_then(|parent| Name::parse(parent).ok()) else { return Ok(()) };
    match state.get(&parent) {
        None => Err(Refusal::NoParent { name: name.clone(), parent }),
        Some(Entry { kind: Kind::Namespace, .. }) => Ok(()),
        Some(entry) => Err(Refusal::WrongKind { name: parent, found: entry.kind, needed: &[Kind::Namespace] }),
    }
}

/// Checks what no entry may have.
fn must_make_sense(name: &Name, entry: &Entry) -> Result<(), Refusal> {
    let flawed = |why| Err(Refusal::Flawed { name: name.clone(), why });
    match (entry.kind, &entry.state, &entry.pointer) {
        (_, Some(state), _) if state.partitions.is_empty() => Err(Refusal::NoPartitions(name.clone())),
        (Kind::View, Some(_), _) => flawed("a view has no versions and no partitions"),
        (Kind::Namespace, _, Some(_)) => flawed("a namespace has no metadata pointer"),
        _ => Ok(()),
    }
}

fn must_hold(state: &Entries, name: &Name, what: &Assertion) -> Result<(), Refusal> {
    match what {
        Assertion::Exists(kind) => find(state, name, kind.only()).map(drop),
        Assertion::Absent => match state.get(name) {
            None => Ok(()),
            Some(_) => Err(Refusal::Exists(name.clone())),
        },
        Assertion::Pointer(pointer) => find_at(state, name, pointer).map(drop),
        Assertion::Version(expected) => {
            let found = find(state, name, &[Kind::Table])?.state.map(|state| state.version);
            let refusal = || Refusal::VersionMoved { name: name.clone(), expected: *expected, found };
            if found == Some(*expected) { Ok(()) } else { Err(refusal()) }
        }
        Assertion::Property { key, value } => {
            let found = find(state, name, &Kind::ALL)?.properties.get(key).cloned();
            let same = found == *value;
            let changed =
                Refusal::PropertyChanged { name: name.clone(), key: key.clone(), expected: value.clone(), found };
            if same { Ok(()) } else { Err(changed) }
        }
    }
}

fn act(state: &mut Entries, action: &Action) -> Result<(), Refusal> {
    match action {
        Action::Create { name, entry } => {
            must_be_free(state, name)?;
            must_make_sense(name, entry)?;
            state.set(name.clone(), Some(entry.clone()));
        }
        Action::Drop { name, kind, expected } => {
            let entry = find(state, name, kind.only())?;
            if expected.is_some() && entry.state.map(|state| state.version) != *expected {
                return Err(Refusal::Changed(name.clone()));
            }
            if *kind == Kind::Namespace && !within(state, name).is_empty() {
                return Err(Refusal::NotEmpty(name.clone()));
            }
            state.set(name.clone(), None);
        }
        Action::DropAll { name } => {
            find(state, name, &[Kind::Namespace])?;
            for name in within(state, name) {
                state.set(name, None);
            }
            state.set(name.clone(), None);
        }
        Action::Rename { from, to } => {
            let entry = find(state, from, POINTING)?;
            must_be_free(state, to)?;
            state.set(from.clone(), None);
            state.set(to.clone(), Some(entry));
        }
        Action::SetProperties { name, changes } => {
            let mut entry = find(state, name, &Kind::ALL)?;
            for (key, value) in changes {
                entry.properties.remove(key);
                entry.properties.extend(value.iter().map(|value| (key.clone(), value.clone())));
            }
            state.set(name.clone(), Some(entry));
        }
        Action::Advance { name, advance } => {
            let mut entry = find(state, name, &[Kind::Table])?;
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
        Action::SetPointer { name, expected, pointer } => {
            let mut entry = find_at(state, name, expected)?;
            entry.pointer = Some(pointer.clone());
            state.set(name.clone(), Some(entry));
        }
        Action::Assert { name, holds } => must_hold(state, name, holds)?,
    }
    Ok(())
}

impl Rules for Names {
    type Key = Name;
    type Value = Entry;
    type Request = Vec<Action>;
    type Refusal = Refusal;
    type Query = Query;
    type Answer = Answer;

    fn apply(state: &mut Entries, request: &Vec<Action>) -> Result<(), Refusal> {
        request.iter().try_for_each(|action| act(state, action))
    }

    fn marks(value: &Entry) -> Vec<u64> {
        let property = value.properties.get(MARK).and_then(|mark| mark.parse().ok());
        let pointer = value.pointer.as_ref().and_then(|pointer| pointer.strip_prefix(POINTER)?.parse().ok());
        property.into_iter().chain(pointer).chain(value.state.as_ref().map(|state| state.metadata.0)).collect()
    }

    fn is_marked(request: &Vec<Action>) -> bool {
        request.iter().any(|action| match action {
            Action::Create { .. } | Action::Advance { .. } | Action::SetPointer { .. } => true,
            Action::SetProperties { changes, .. } => changes.contains_key(MARK),
            Action::Drop { .. } | Action::DropAll { .. } | Action::Rename { .. } | Action::Assert { .. } => false,
        })
    }

    fn only_asks(request: &Vec<Action>) -> bool {
        request.iter().all(|action| matches!(action, Action::Assert { .. }))
    }

    fn found(state: &Entries, query: &Query) -> Answer {
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
            Query::List(namespace) => {
                let inside = |name: &Name| parent(name) == namespace.as_ref().map(Name::as_str);
                let words = |(name, entry): (&Name, &Entry)| (format!("{} {name}", entry.kind), None);
                all.filter(|(name, _)| inside(name)).map(words).collect()
            }
            Query::OfKind(kind) => all.filter(|(_, entry)| entry.kind == *kind).map(|(name, _)| names(name)).collect(),
            Query::WithBase(base) => {
                all.filter(|(_, entry)| entry.base_objects.contains(base)).map(|(name, _)| names(name)).collect()
            }
        }
    }

    fn words(request: &Vec<Action>) -> String {
        let words = |action: &Action| match action {
            Action::Create { name, entry } => format!("create {} {name}", entry.kind),
            Action::Drop { name, expected: Some(expected), .. } => format!("drop {name} at {expected}"),
            Action::Drop { name, kind, .. } => format!("drop {kind:?} {name}").to_lowercase(),
            Action::DropAll { name } => format!("drop {name} and all in it"),
            Action::Rename { from, to } => format!("rename {from} to {to}"),
            Action::SetProperties { name, changes } => format!("change properties of {name} ({changes:?})"),
            Action::Advance { name, advance } => {
                format!("advance {name}, {} partitions", advance.partitions.len())
            }
            Action::SetPointer { name, expected, pointer } => format!("move {name} from {expected:?} to {pointer}"),
            Action::Assert { name, holds } => format!("assert of {name} {holds:?}"),
        };
        request.iter().map(words).collect::<Vec<_>>().join("; ")
    }
}
