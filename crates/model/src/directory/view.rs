//! The part of a catalog that an action reads, and how the action changes it.

use std::collections::BTreeMap;

use super::{Action, Assertion, Entry, Kind, Name, Refusal};

/// The kinds that have metadata of their own: they have a metadata pointer and can be renamed.
const WITH_METADATA: &[Kind] = &[Kind::Table, Kind::View];

/// A part of a catalog that must be looked up before an action can be decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// What a name stands for.
    Entry(Name),
    /// The entries directly in a namespace, at most this many.
    Children(Name, usize),
}

/// The looked-up part of a catalog, with the effects of the actions decided so far. Several actions can be decided on
/// one view, each as if those before it were committed.
#[derive(Clone, Debug, Default)]
pub struct View {
    entries: BTreeMap<Name, Seen>,
    /// Stored entries directly in a namespace, for namespaces to be dropped: all of them, or more than are dropped
    /// here.
    children: BTreeMap<Name, Children>,
    /// Namespaces that were dropped with everything stored in them. What was created in them since is in `entries`.
    gone: Vec<Name>,
}

/// A catalog that is in memory as a whole.
pub trait AtHand {
    /// What a name stands for.
    fn entry(&self, name: &Name) -> Option<Entry>;

    /// Up to `limit` entries directly in a namespace (`None` for the root), by name, after `after` if given.
    fn children(&self, namespace: Option<&Name>, after: Option<&Name>, limit: usize) -> Vec<(Name, Entry)>;
}

#[derive(Clone, Debug)]
struct Seen {
    stored: Option<Entry>,
    now: Option<Entry>,
}

#[derive(Clone, Debug)]
struct Children {
    some: Vec<Name>,
    all: bool,
}

impl View {
    /// What these actions read and the view does not contain yet.
    #[must_use]
    pub fn needs(&self, actions: &[Action]) -> Vec<Need> {
        let mut needs = Vec::new();
        let mut need = |name: &Name| {
            if !self.entries.contains_key(name) {
                needs.push(Need::Entry(name.clone()));
            }
        };
        for action in actions {
            need(action.name());
            let created = match action {
                Action::Create { name, .. } => Some(name),
                Action::Rename { to, .. } => {
                    need(to);
                    Some(to)
                }
                _ => None,
            };
            if let Some(parent) = created.and_then(Name::parent) {
                need(&parent);
            }
        }
        // If so many children are stored, at least one remains after all removals.
        let telling = 1 + self.removed() + actions.iter().filter(|action| action.removes()).count();
        for action in actions {
            if let Action::Drop { name, kind: Kind::Namespace, .. } = action
                && self.children.get(name).is_none_or(|known| !known.all && known.some.len() < telling)
            {
                needs.push(Need::Children(name.clone(), telling));
            }
        }
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Decides these actions on a catalog in memory. `allowed` may refuse each entry that is created or changed.
    ///
    /// # Errors
    /// The first refusal.
    pub fn decided(
        actions: &[Action],
        stored: &impl AtHand,
        allowed: impl Fn(&Name, &Entry) -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let mut view = Self::default();
        view.look_up(actions, stored);
        view.apply_where(actions, allowed)?;
        Ok(view)
    }

    /// Adds everything that these actions read, from a catalog in memory.
    pub fn look_up(&mut self, actions: &[Action], stored: &impl AtHand) {
        for need in self.needs(actions) {
            match need {
                Need::Entry(name) => {
                    let entry = stored.entry(&name);
                    self.insert(name, entry);
                }
                Need::Children(namespace, most) => {
                    let children = stored.children(Some(&namespace), None, most);
                    self.insert_children(namespace, children.into_iter().map(|(name, _)| name).collect(), most);
                }
            }
        }
    }

    /// Adds the stored entry of a name.
    pub fn insert(&mut self, name: Name, stored: Option<Entry>) {
        let now = if self.is_gone(&name) { None } else { stored.clone() };
        self.entries.entry(name).or_insert(Seen { stored, now });
    }

    /// Adds stored entries directly in a namespace. If there are fewer than `asked`, they are all.
    pub fn insert_children(&mut self, namespace: Name, some: Vec<Name>, asked: usize) {
        let all = some.len() < asked;
        self.children.insert(namespace, Children { some, all });
    }

    /// How many stored entries the decided actions have removed.
    fn removed(&self) -> usize {
        self.entries.values().filter(|seen| seen.stored.is_some() && seen.now.is_none()).count()
    }

    /// Decides all of these actions, together or not at all. On success, the view contains their effects.
    ///
    /// # Errors
    /// The first refusal; the view is then unchanged.
    ///
    /// # Panics
    /// If [`needs`](Self::needs) is not empty for these actions.
    pub fn apply(&mut self, actions: &[Action]) -> Result<(), Refusal> {
        self.apply_where(actions, |_, _| Ok(()))
    }

    /// As [`apply`](Self::apply); `allowed` may also refuse each entry that is created or changed.
    ///
    /// # Errors
    /// As for `apply`, or a refusal of `allowed`.
    ///
    /// # Panics
    /// As for `apply`.
    pub fn apply_where(
        &mut self,
        actions: &[Action],
        allowed: impl Fn(&Name, &Entry) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let (mut undo, gone): (Vec<(Name, Option<Entry>)>, _) = (Vec::new(), self.gone.len());
        for action in actions {
            let decided = self.decide(action).and_then(|changes| {
                let mut now = changes.iter().filter_map(|(name, now)| Some((name, now.as_ref()?)));
                now.try_for_each(|(name, now)| allowed(name, now))?;
                Ok(changes)
            });
            match decided {
                Ok(changes) => {
                    for (name, now) in changes {
                        let before = std::mem::replace(&mut self.seen_mut(&name).now, now);
                        undo.push((name, before));
                    }
                    if let Action::DropAll { name } = action {
                        self.gone.push(name.clone());
                    }
                }
                Err(refusal) => {
                    self.gone.truncate(gone);
                    while let Some((name, before)) = undo.pop() {
                        self.seen_mut(&name).now = before;
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

    /// What the decided actions change after everything in [`gone`](Self::gone) namespaces has been dropped, in name
    /// order: the entry before and after.
    pub fn changes(&self) -> impl Iterator<Item = (&Name, Option<&Entry>, Option<&Entry>)> {
        let all = self
            .entries
            .iter()
            .map(|(name, Seen { stored, now })| (name, stored.as_ref().filter(|_| !self.is_gone(name)), now.as_ref()));
        all.filter(|(_, before, now)| before != now)
    }

    /// Whether nothing has changed.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.gone.is_empty() && self.changes().next().is_none()
    }

    /// Namespaces to drop with everything stored in them, at all depths, before the [`changes`](Self::changes) are
    /// made. One may be listed twice, or lie in another.
    #[must_use]
    pub fn gone(&self) -> &[Name] {
        &self.gone
    }

    /// Whether the stored entry of this name is dropped with a namespace that contains it.
    fn is_gone(&self, name: &Name) -> bool {
        self.gone.iter().any(|namespace| name.is_within(namespace))
    }

    fn decide(&self, action: &Action) -> Result<Vec<(Name, Option<Entry>)>, Refusal> {
        match action {
            Action::Create { name, entry } => {
                self.free(name)?;
                if entry.state.as_ref().is_some_and(|state| state.partitions.is_empty()) {
                    return Err(Refusal::NoPartitions(name.clone()));
                }
                if let Some(why) = entry.flaw() {
                    return Err(Refusal::Flawed { name: name.clone(), why });
                }
                Ok(vec![(name.clone(), Some(entry.clone()))])
            }
            Action::Drop { name, kind, expected } => {
                let entry = self.one_of(name, kind.only())?;
                let version = entry.state.as_ref().map(|state| state.version);
                if expected.is_some() && version != *expected {
                    return Err(Refusal::Changed(name.clone()));
                }
                if *kind == Kind::Namespace && self.has_children(name) {
                    return Err(Refusal::NotEmpty(name.clone()));
                }
                Ok(vec![(name.clone(), None)])
            }
            Action::DropAll { name } => {
                self.one_of(name, Kind::Namespace.only())?;
                let within = self.entries.iter().filter(|(other, seen)| seen.now.is_some() && other.is_within(name));
                let names = std::iter::once(name).chain(within.map(|(other, _)| other));
                Ok(names.map(|name| (name.clone(), None)).collect())
            }
            Action::Rename { from, to } => {
                let entry = self.one_of(from, WITH_METADATA)?.clone();
                self.free(to)?;
                Ok(vec![(from.clone(), None), (to.clone(), Some(entry))])
            }
            Action::SetProperties { name, changes } => {
                let mut entry = self.existing(name)?.clone();
                for (key, value) in changes {
                    match value {
                        Some(value) => entry.properties.insert(key.clone(), value.clone()),
                        None => entry.properties.remove(key),
                    };
                }
                Ok(vec![(name.clone(), Some(entry))])
            }
            Action::Advance { name, advance } => {
                let mut entry = self.one_of(name, Kind::Table.only())?.clone();
                let moved = entry.state.as_mut().and_then(|state| advance.apply(state));
                moved.ok_or_else(|| Refusal::Changed(name.clone()))?;
                Ok(vec![(name.clone(), Some(entry))])
            }
            Action::SetPointer { name, expected, pointer } => {
                let entry = self.pointing_to(name, expected)?.clone();
                Ok(vec![(name.clone(), Some(Entry { pointer: Some(pointer.clone()), ..entry }))])
            }
            Action::Assert { name, holds } => self.assert(name, holds).map(|()| Vec::new()),
        }
    }

    fn assert(&self, name: &Name, holds: &Assertion) -> Result<(), Refusal> {
        match holds {
            Assertion::Exists(kind) => self.one_of(name, kind.only()).map(drop),
            Assertion::Absent => match self.now(name) {
                Some(_) => Err(Refusal::Exists(name.clone())),
                None => Ok(()),
            },
            Assertion::Pointer(expected) => self.pointing_to(name, expected).map(drop),
            Assertion::Version(expected) => {
                let table = self.one_of(name, Kind::Table.only())?;
                match table.state.as_ref().map(|state| state.version) {
                    Some(found) if found == *expected => Ok(()),
                    found => Err(Refusal::VersionMoved { name: name.clone(), expected: *expected, found }),
                }
            }
            Assertion::Property { key, value } => {
                let found = self.one_of(name, &Kind::ALL)?.properties.get(key);
                if found == value.as_ref() {
                    return Ok(());
                }
                let (key, expected, found) = (key.clone(), value.clone(), found.cloned());
                Err(Refusal::PropertyChanged { name: name.clone(), key, expected, found })
            }
        }
    }

    /// Whether an entry may be created under this name.
    fn free(&self, name: &Name) -> Result<(), Refusal> {
        if self.now(name).is_some() {
            return Err(Refusal::Exists(name.clone()));
        }
        let Some(parent) = name.parent() else { return Ok(()) };
        match self.now(&parent).map(|entry| entry.kind) {
            Some(Kind::Namespace) => Ok(()),
            Some(found) => Err(Refusal::WrongKind { name: parent, found, needed: Kind::Namespace.only() }),
            None => Err(Refusal::NoParent { name: name.clone(), parent }),
        }
    }

    fn existing(&self, name: &Name) -> Result<&Entry, Refusal> {
        self.now(name).ok_or_else(|| Refusal::NotFound(name.clone()))
    }

    fn one_of(&self, name: &Name, needed: &'static [Kind]) -> Result<&Entry, Refusal> {
        let entry = self.existing(name)?;
        if needed.contains(&entry.kind) {
            return Ok(entry);
        }
        Err(Refusal::WrongKind { name: name.clone(), found: entry.kind, needed })
    }

    /// The table or view of this name, if it has this metadata pointer.
    fn pointing_to(&self, name: &Name, expected: &Option<String>) -> Result<&Entry, Refusal> {
        let entry = self.one_of(name, WITH_METADATA)?;
        if entry.pointer == *expected {
            return Ok(entry);
        }
        let (expected, found) = (expected.clone(), entry.pointer.clone());
        Err(Refusal::PointerMoved { name: name.clone(), expected, found })
    }

    fn has_children(&self, namespace: &Name) -> bool {
        let known = self.children.get(namespace).expect("what an action needs is looked up before it is decided");
        let left = |child: &Name| match self.entries.get(child) {
            Some(seen) => seen.now.is_some(),
            None => !self.is_gone(child),
        };
        let created = |(name, seen): (&Name, &Seen)| seen.now.is_some() && is_child(name, namespace);
        known.some.iter().any(left) || self.entries.iter().any(created)
    }

    fn now(&self, name: &Name) -> Option<&Entry> {
        let seen = self.entries.get(name);
        seen.expect("what an action needs is looked up before it is decided").now.as_ref()
    }

    fn seen_mut(&mut self, name: &Name) -> &mut Seen {
        self.entries.get_mut(name).expect("the action on it was decided, so it was looked up")
    }
}

fn is_child(name: &Name, namespace: &Name) -> bool {
    let rest = name.as_str().strip_prefix(namespace.as_str()).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| !rest.contains('/'))
}
