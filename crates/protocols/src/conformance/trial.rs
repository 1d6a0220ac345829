//! What the points share: a namespace of their own, and messages about violations.

use std::collections::BTreeMap;
use std::fmt::Debug;

use glidepath_model::{Action, Changes, Entry, Kind, Name, Refusal, TableId, TableState, Version};

use crate::catalog::Outcome;
use crate::group::{GroupAttempt, Grouped, Verdict};

/// How a catalog broke a rule.
pub(super) struct Broken(pub(super) String);

pub(super) type Held = Result<(), Broken>;

/// One test of one point.
pub(super) struct Trial<'a, C> {
    writer: &'a C,
    reader: &'a C,
    space: &'static str,
}

pub(super) fn broken<T>(words: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(words.into()))
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Held {
    if found == expected { Ok(()) } else { broken(format!("{what} is {found:?}, not {expected:?}")) }
}

fn read<T>(what: &str, found: Result<T, crate::LoadError>) -> Result<T, Broken> {
    found.map_err(|error| Broken(format!("{what} failed: {error}")))
}

/// A table with every optional part.
pub(super) fn full() -> Entry {
    let base = |text| Name::of_parts(["elsewhere", text]).expect("two words are a name");
    let properties = ["k", "", "other"].map(|key| (key.to_owned(), format!("of {key}")));
    Entry {
        properties: BTreeMap::from(properties),
        base_objects: vec![base("one"), base("two")],
        pointer: Some("there/metadata/1.json".to_owned()),
        ..Entry::table(Some("there/it is".to_owned()), TableState::new(3))
    }
}

/// A view with every optional part.
pub(super) fn full_view() -> Entry {
    Entry { kind: Kind::View, state: None, ..full() }
}

pub(super) fn plain() -> Entry {
    Entry::table(None, TableState::new(1))
}

pub(super) fn create(name: Name, entry: Entry) -> Action {
    Action::Create { name, entry }
}

pub(super) fn drop_of(name: Name, kind: Kind) -> Action {
    Action::Drop { name, kind, expected: None }
}

pub(super) fn wrong(name: &Name, found: Kind, needed: &'static [Kind]) -> Refusal {
    Refusal::WrongKind { name: name.clone(), found, needed }
}

pub(super) fn set(name: Name, changes: &[(&str, Option<&str>)]) -> Action {
    let owned = |(key, value): &(&str, Option<&str>)| ((*key).to_owned(), value.map(str::to_owned));
    Action::SetProperties { name, changes: changes.iter().map(owned).collect() }
}

impl<'a, C: Grouped> Trial<'a, C> {
    pub(super) fn new(writer: &'a C, reader: &'a C, space: &'static str) -> Self {
        Self { writer, reader, space }
    }

    /// The namespace that only this test uses.
    pub(super) fn space(&self) -> Name {
        Name::of_parts([self.space]).expect("points have names")
    }

    /// A name in it.
    pub(super) fn name(&self, path: &str) -> Name {
        Name::parse(&format!("{}/{path}", self.space)).expect("points use names")
    }

    /// Creates the namespace, and these namespaces in it.
    pub(super) async fn begin(&self, inside: &[&str]) -> Held {
        let first = create(self.space(), Entry::namespace());
        let inside = inside.iter().map(|path| create(self.name(path), Entry::namespace()));
        self.fits(std::iter::once(first).chain(inside).collect()).await
    }

    /// The verdicts on requests decided together, on the newest version.
    pub(super) async fn batch(&self, requests: &[Vec<Action>]) -> Result<Vec<Verdict>, Broken> {
        let base = read("a load", self.writer.load().await)?;
        let requests: Vec<&[Action]> = requests.iter().map(Vec::as_slice).collect();
        match self.writer.attempt_group(&base, &requests).await {
            GroupAttempt::Decided { verdicts, outcome: None | Some(Outcome::Committed(_)) } => Ok(verdicts),
            GroupAttempt::Decided { outcome: Some(Outcome::Refused(denial)), .. } => {
                broken(format!("a commit was refused: {}", denial.cause))
            }
            GroupAttempt::Decided { outcome: Some(Outcome::Unknown(cause)), .. } => {
                broken(format!("the outcome of a commit is unknown: {cause}"))
            }
            GroupAttempt::Decided { outcome: Some(Outcome::Conflict(_)), .. } => {
                broken("a conflict although there is no other writer")
            }
            GroupAttempt::NotMade(error) => broken(format!("a commit was not made: {error}")),
        }
    }

    pub(super) async fn ask(&self, actions: Vec<Action>) -> Result<Verdict, Broken> {
        match &self.batch(&[actions]).await?[..] {
            [verdict] => Ok(verdict.clone()),
            other => broken(format!("one request has {} verdicts", other.len())),
        }
    }

    /// Broken unless the request succeeds.
    pub(super) async fn fits(&self, actions: Vec<Action>) -> Held {
        let words = format!("{actions:.200?}");
        match self.ask(actions).await? {
            Verdict::Fits => Ok(()),
            Verdict::Refused(refusal) => broken(format!("refused ({refusal}): {words}")),
            Verdict::Failed(cause) => broken(format!("failed ({cause}): {words}")),
        }
    }

    /// Broken unless the request is refused for this reason.
    pub(super) async fn refused(&self, actions: Vec<Action>, expected: Refusal) -> Held {
        let words = format!("the verdict of {actions:?}");
        match self.ask(actions).await? {
            Verdict::Refused(refusal) => same(&words, &refusal, &expected),
            Verdict::Fits => broken(format!("done, and should be refused ({expected}): {words}")),
            Verdict::Failed(cause) => broken(format!("failed ({cause}), and should be refused ({expected}): {words}")),
        }
    }

    /// The newest version, as the reader finds it; `None` if the protocol has none.
    pub(super) async fn version(&self) -> Result<Option<Version>, Broken> {
        Ok(self.reader.version(&read("a load", self.reader.load().await)?))
    }

    /// Commits changes to numbered tables. Returns `false` for a conflict.
    pub(super) async fn commits(&self, changes: &Changes) -> Result<bool, Broken> {
        let base = read("a load", self.writer.load().await)?;
        match self.writer.commit(&base, changes).await {
            Outcome::Committed(_) => Ok(true),
            Outcome::Conflict(_) => Ok(false),
            Outcome::Refused(denial) => broken(format!("changes were refused: {}", denial.cause)),
            Outcome::Unknown(cause) => broken(format!("the outcome of changes is unknown: {cause}")),
        }
    }

    /// Broken unless the reader finds this entry under the name.
    pub(super) async fn is(&self, name: &Name, expected: Option<&Entry>) -> Held {
        let at = read("a load", self.reader.load().await)?;
        let found = read("looking up a name", self.reader.entry(&at, name).await)?;
        if found.as_ref() == expected {
            return Ok(());
        }
        broken(format!("{name} stands for {found:.300?}, not for {expected:.300?}"))
    }

    /// The state of a numbered table, as the reader finds it.
    pub(super) async fn table(&self, id: TableId) -> Result<Option<TableState>, Broken> {
        let at = read("a load", self.reader.load().await)?;
        let states = read("looking up a table", self.reader.tables(&at, &[id]).await)?;
        Ok(states.into_iter().next().flatten().map(std::borrow::Cow::into_owned))
    }

    /// A listing by the reader.
    pub(super) async fn listed(
        &self,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, Broken> {
        let at = read("a load", self.reader.load().await)?;
        let children = read("a listing", self.reader.children(&at, namespace, after, limit).await)?;
        let whole = self.made(namespace, after, limit, |_, entry| Some(entry.clone())).await?;
        same("what a listing makes of whole entries", &whole, &children)?;
        Ok(children)
    }

    /// What the reader's listing makes of entries.
    pub(super) async fn made<T: PartialEq>(
        &self,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
        what: impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<Vec<(Name, T)>, Broken> {
        let at = read("a load", self.reader.load().await)?;
        read("a listing of a part", self.reader.list(&at, namespace, after, limit, what).await)
    }

    /// Broken unless exactly these are directly in the namespace of this test.
    pub(super) async fn holds(&self, expected: &[&str]) -> Held {
        let listed = self.listed(Some(&self.space()), None, usize::MAX).await?;
        let names: Vec<&str> = listed.iter().map(|(name, _)| name.last()).collect();
        same("what is there", &names.as_slice(), &expected)
    }
}
