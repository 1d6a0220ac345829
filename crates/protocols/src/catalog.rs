//! The interface of every catalog protocol.

use std::borrow::Cow;
use std::future::{Future, ready};

use glidepath_env::{Cause, Denial};
use glidepath_model::{Changes, Entry, Kind, Name, TableId, TableState, Version};
use smallvec::SmallVec;

/// A catalog: snapshots to read, and commits of changes that were prepared against one.
///
/// It fits protocols that keep the catalog in one object, in a chain of versions, in a log, or in a register for each
/// name. So a snapshot is a handle, a look-up may take requests, and a conflict may or may not bring the newer
/// snapshot.
pub trait Catalog {
    /// A catalog at one version. Cheap to clone; never changes.
    type Snapshot: Clone;

    /// The newest snapshot: at least as new as any commit that was acknowledged before the call.
    fn load(&self) -> impl Future<Output = Result<Self::Snapshot, LoadError>>;

    /// The snapshot's position in the catalog's order of commits. Of two snapshots, the newer has the higher one.
    /// `None` if the protocol has no such order: then a snapshot has the names that were looked up in it, as they were
    /// together at one moment after it was loaded. A look-up fails if there is no such moment; a listing is right for a
    /// moment of its own.
    fn version(&self, at: &Self::Snapshot) -> Option<Version>;

    /// The states of numbered tables in a snapshot, in the order asked; `None` for a table that it does not have.
    fn tables<'a>(
        &self,
        at: &'a Self::Snapshot,
        ids: &[TableId],
    ) -> impl Future<Output = Result<TableStates<'a>, LoadError>>;

    /// What a name stands for in a snapshot.
    fn entry(&self, at: &Self::Snapshot, name: &Name) -> impl Future<Output = Result<Option<Entry>, LoadError>>;

    /// Up to `limit` entries directly in a namespace (`None` for the root), by name, after `after` if given.
    fn children(
        &self,
        at: &Self::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Name, Entry)>, LoadError>>;

    /// What `what` makes of entries directly in a namespace (`None` for the root), by name, after `after` if given: the
    /// first `limit` of which it makes something. All of it is of one moment, as with [`children`](Self::children).
    /// Where a catalog has no versions, only a commit that changes what is made of an entry can be in the way, so
    /// listings go on beside commits that move the tables.
    fn list<T: PartialEq>(
        &self,
        at: &Self::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
        what: impl Fn(&Name, &Entry) -> Option<T>,
    ) -> impl Future<Output = Result<Vec<(Name, T)>, LoadError>> {
        in_pages(self, at, (namespace, after), limit, what)
    }

    /// The names of all entries of a kind, in any order. Uses an index if there is one, otherwise reads every entry.
    fn of_kind(&self, at: &Self::Snapshot, kind: Kind) -> impl Future<Output = Result<Vec<Name>, LoadError>> {
        self.search(at, |_| true, move |_, entry| entry.kind == kind)
    }

    /// The names of all entries that have `base` among their base objects, in any order; as [`of_kind`](Self::of_kind).
    fn with_base(&self, at: &Self::Snapshot, base: &Name) -> impl Future<Output = Result<Vec<Name>, LoadError>> {
        self.search(at, |_| true, |_, entry| entry.base_objects.contains(base))
    }

    /// The names of all entries that `wanted` selects, in any order: in the root, and at all depths in namespaces that
    /// `enters` accepts. Of one moment, and beside other commits, as [`list`](Self::list); listings of several
    /// namespaces would miss an entry that moves from one to another meanwhile. Reads every entry.
    fn search(
        &self,
        at: &Self::Snapshot,
        enters: impl Fn(&Name) -> bool,
        wanted: impl Fn(&Name, &Entry) -> bool,
    ) -> impl Future<Output = Result<Vec<Name>, LoadError>> {
        everywhere(self, at, enters, wanted)
    }

    /// Forgets names of a namespace (or of the root) that stand for nothing, where a protocol remembers them; returns
    /// how many. It is worth a call after many entries were dropped, costs about a listing, and may be dropped at any
    /// point.
    fn trim(&self, _namespace: Option<&Name>) -> impl Future<Output = Result<u64, LoadError>> {
        ready(Ok(0))
    }

    /// Tries once to commit changes, all or nothing, on top of `base`. The changes must have been prepared against
    /// `base` or fit it unchanged ([`Changes::overlap`] is none).
    ///
    /// One attempt may take several requests, but never waits for other writers (with protocols that have no versions:
    /// at most a second). Dropping the future leaves the outcome unknown.
    fn commit(&self, base: &Self::Snapshot, changes: &Changes) -> impl Future<Output = Outcome<Self::Snapshot>>;
}

/// The least and the most entries that are read at once for a listing.
const PAGE: (usize, usize) = (100, 1000);

/// See [`Catalog::list`].
async fn in_pages<C: Catalog + ?Sized, T>(
    catalog: &C,
    at: &C::Snapshot,
    (namespace, after): (Option<&Name>, Option<&Name>),
    limit: usize,
    what: impl Fn(&Name, &Entry) -> Option<T>,
) -> Result<Vec<(Name, T)>, LoadError> {
    let (mut found, mut after, asked) = (Vec::new(), after.cloned(), limit.clamp(PAGE.0, PAGE.1));
    while found.len() < limit {
        let page = catalog.children(at, namespace, after.as_ref(), asked).await?;
        let is_last = page.len() < asked;
        after = page.last().map(|(name, _)| name.clone());
        found.extend(page.into_iter().filter_map(|(name, entry)| {
            let made = what(&name, &entry)?;
            Some((name, made))
        }));
        if is_last {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// See [`Catalog::search`]: right where a snapshot is a version.
pub(crate) async fn everywhere<C: Catalog + ?Sized>(
    catalog: &C,
    at: &C::Snapshot,
    enters: impl Fn(&Name) -> bool,
    wanted: impl Fn(&Name, &Entry) -> bool,
) -> Result<Vec<Name>, LoadError> {
    let what = found_or_inside(enters, wanted);
    let (mut namespaces, mut all) = (vec![None], Vec::new());
    while let Some(namespace) = namespaces.pop() {
        for (name, (found, inside)) in catalog.list(at, namespace.as_ref(), None, usize::MAX, &what).await? {
            if found {
                all.push(name.clone());
            }
            if inside {
                namespaces.push(Some(name));
            }
        }
    }
    Ok(all)
}

/// What a search makes of an entry: whether it is found, and whether to go on inside it.
pub(crate) fn found_or_inside(
    enters: impl Fn(&Name) -> bool,
    wanted: impl Fn(&Name, &Entry) -> bool,
) -> impl Fn(&Name, &Entry) -> Option<(bool, bool)> {
    move |name, entry| {
        let (found, inside) = (wanted(name, entry), entry.kind == Kind::Namespace && enters(name));
        (found || inside).then_some((found, inside))
    }
}

/// States of tables, in the order asked; most callers ask for one. Borrowed if the snapshot holds them.
pub type TableStates<'a> = SmallVec<[Option<Cow<'a, TableState>>; 1]>;

/// How one attempt to commit ended.
#[derive(Clone, Debug)]
pub enum Outcome<S> {
    /// The changes are in the catalog; this snapshot contains them (and perhaps later commits).
    Committed(S),
    /// They are not, and this attempt can no longer put them there. Contains a newer snapshot if the protocol has read
    /// one; otherwise the caller loads one.
    Conflict(Option<S>),
    /// Certainly not made: nothing was sent that could have put the changes there. The same attempt may be made again;
    /// that helps if the denial is passing.
    Refused(Denial),
    /// They may be in the catalog, or may still appear; the protocol could not settle it.
    Unknown(Cause),
}

impl<S> Outcome<S> {
    /// The same with another type of snapshot.
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
        Self::Refused(error.into())
    }
}

impl From<LoadError> for Denial {
    /// What could not be read may be readable soon; what cannot be decoded stays so.
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Failed(cause) => Self::certain(cause).passing(),
            error => Self::certain(Cause::from_error(error)),
        }
    }
}

/// Why there is no snapshot.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no catalog here.
    #[error("there is no catalog here: create one first")]
    NotFound,
    /// The store did not answer; try again.
    #[error("the catalog could not be read: {0}")]
    Failed(Cause),
    /// The stored bytes cannot be decoded. They must not be overwritten.
    #[error("what is stored here cannot be read as a catalog: {0}")]
    Undecodable(Cause),
}
