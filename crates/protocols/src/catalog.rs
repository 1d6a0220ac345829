//! What every catalog protocol offers to a transaction.

use std::borrow::Cow;
use std::future::Future;

use glidepath_env::{Cause, Denial};
use glidepath_model::{Changes, Entry, Kind, Name, TableId, TableState, Version};
use smallvec::SmallVec;

/// A catalog: snapshots to read, and commits of changes that were prepared against one.
///
/// The shape is meant to fit protocols that keep the whole catalog in one object, in a chain of manifests, in a log, or
/// in a chain per table with a transaction table beside them. Hence a snapshot is a handle, whose tables may take
/// requests to look up, and a conflict may or may not bring the newer snapshot along.
pub trait Catalog {
    /// A catalog at one version. Cheap to clone; never changes.
    type Snapshot: Clone;

    /// The newest snapshot: at least as new as any commit that was acknowledged before the call.
    fn load(&self) -> impl Future<Output = Result<Self::Snapshot, LoadError>>;

    /// The snapshot's place in the catalog's order of commits. Of two snapshots the newer has the higher.
    fn version(&self, at: &Self::Snapshot) -> Version;

    /// Where numbered tables stand in a snapshot, in the order asked; `None` for a table that it does not have.
    fn tables<'a>(
        &self,
        at: &'a Self::Snapshot,
        ids: &[TableId],
    ) -> impl Future<Output = Result<TableStates<'a>, LoadError>>;

    /// What a name stands for in a snapshot.
    fn entry(&self, at: &Self::Snapshot, name: &Name) -> impl Future<Output = Result<Option<Entry>, LoadError>>;

    /// Up to `limit` entries directly in a namespace (`None` for the root), by name, behind `after` where given.
    fn children(
        &self,
        at: &Self::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Name, Entry)>, LoadError>>;

    /// The names of all entries of a kind, in any order. By an index where there is one, else by a look at every entry.
    fn of_kind(&self, at: &Self::Snapshot, kind: Kind) -> impl Future<Output = Result<Vec<Name>, LoadError>> {
        names(self, at, move |entry| entry.kind == kind)
    }

    /// The names of all entries that have `base` among their base objects, in any order; as [`of_kind`](Self::of_kind).
    fn with_base(&self, at: &Self::Snapshot, base: &Name) -> impl Future<Output = Result<Vec<Name>, LoadError>> {
        names(self, at, |entry| entry.base_objects.contains(base))
    }

    /// Tries once to commit changes, all or nothing, on top of `base`. The changes must have been prepared against
    /// `base` or fit it as they are ([`Changes::overlap`] is none).
    ///
    /// One attempt may be several requests, but it never waits for other writers. Dropping the future leaves the
    /// outcome unknown.
    fn commit(&self, base: &Self::Snapshot, changes: &Changes) -> impl Future<Output = Outcome<Self::Snapshot>>;
}

/// The names of entries that are wanted, by a look at every entry.
async fn names<C: Catalog + ?Sized>(
    catalog: &C,
    at: &C::Snapshot,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<Vec<Name>, LoadError> {
    let (mut namespaces, mut found) = (vec![None], Vec::new());
    while let Some(namespace) = namespaces.pop() {
        for (name, entry) in catalog.children(at, namespace.as_ref(), None, usize::MAX).await? {
            if wanted(&entry) {
                found.push(name.clone());
            }
            if entry.kind == Kind::Namespace {
                namespaces.push(Some(name));
            }
        }
    }
    Ok(found)
}

/// States of tables, in the order asked; most ask for one. Borrowed where the snapshot itself holds them.
pub type TableStates<'a> = SmallVec<[Option<Cow<'a, TableState>>; 1]>;

/// How one attempt to commit ended.
#[derive(Clone, Debug)]
pub enum Outcome<S> {
    /// The changes are in the catalog for good; this snapshot has them (and perhaps later commits too).
    Committed(S),
    /// They are not, and this attempt can no longer put them there. Where the protocol has learnt of a newer snapshot,
    /// it is here; else the caller loads one.
    Conflict(Option<S>),
    /// Not made, for certain: nothing was sent that could have put the changes there. The same attempt may be made again,
    /// which helps where the denial is passing.
    Refused(Denial),
    /// They may be in the catalog, or may yet appear, and the protocol could not settle it.
    Unknown(Cause),
}

impl<S> Outcome<S> {
    /// The same with another kind of snapshot.
    pub(crate) fn map<T>(self, snapshot: impl FnOnce(S) -> T) -> Outcome<T> {
        match self {
            Self::Committed(at) => Outcome::Committed(snapshot(at)),
            Self::Conflict(newer) => Outcome::Conflict(newer.map(snapshot)),
            Self::Refused(denial) => Outcome::Refused(denial),
            Self::Unknown(cause) => Outcome::Unknown(cause),
        }
    }

    /// Not made, for a reason that does not pass by itself.
    pub(crate) fn refused(cause: Cause) -> Self {
        Self::Refused(Denial::certain(cause))
    }

    /// Not made, because something could not be read.
    pub(crate) fn not_read(error: LoadError) -> Self {
        match error {
            LoadError::Failed(cause) => Self::Refused(Denial::certain(cause).passing()),
            error => Self::refused(Cause::from_error(error)),
        }
    }
}

/// Why there is no snapshot.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no catalog at this place.
    #[error("there is no catalog here: create one first")]
    NotFound,
    /// The store did not answer; try again.
    #[error("the catalog could not be read: {0}")]
    Failed(Cause),
    /// What is there cannot be understood. Nothing must be written over it.
    #[error("what is stored here cannot be read as a catalog: {0}")]
    Undecodable(Cause),
}
