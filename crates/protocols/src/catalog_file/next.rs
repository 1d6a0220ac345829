//! The next catalog file. Its root is built on demand: under contention most attempts lose before the store asks for
//! the bytes. Only whether the changes apply is checked first.

use std::sync::OnceLock;

use glidepath_env::{Body, Guard, Payload};
use glidepath_model::{ByteSize, Changes, CommitId, Overlap, Root, Version};

use super::encoding::{Draft, File};
use super::size::Size;
use super::{SharedState, Snapshot};

/// The successor of a base, or the first root. Repeated puts have the same bytes and the same guard.
pub(super) enum Next<'a> {
    Built { base: Option<&'a Snapshot>, built: Built },
    Changed { base: &'a Snapshot, commit: CommitId, changes: &'a Changes, built: OnceLock<Built> },
}

/// A root that is built already.
pub(super) struct Built {
    root: Root,
    size: Size,
}

impl<'a> Next<'a> {
    /// The successor of the base with these changes; `None` if they do not apply.
    #[inline]
    pub(super) fn of(base: &'a Snapshot, commit: CommitId, changes: &'a Changes) -> Option<Self> {
        let applies = changes.overlap(base.root()) == Overlap::None;
        applies.then(|| Self::Changed { base, commit, changes, built: OnceLock::new() })
    }

    /// This root, after its base if it has one.
    pub(super) fn built(base: Option<&'a Snapshot>, root: Root) -> Self {
        let size = Size::of(&root);
        Self::Built { base, built: Built { root, size } }
    }

    pub(super) fn base(&self) -> Option<&'a Snapshot> {
        match self {
            Self::Built { base, .. } => *base,
            Self::Changed { base, .. } => Some(base),
        }
    }

    pub(super) fn version(&self) -> Version {
        match self {
            Self::Built { built, .. } => built.root.version,
            Self::Changed { base, .. } => base.root().version.next(),
        }
    }

    pub(super) fn commit(&self) -> CommitId {
        match self {
            Self::Built { built, .. } => built.root.commit,
            Self::Changed { commit, .. } => *commit,
        }
    }

    #[inline]
    pub(super) fn guard(&self) -> Guard {
        self.base().map_or(Guard::Absent, |base| Guard::Matches(base.tag.clone()))
    }

    pub(super) fn body<'b>(&'b self, shared_state: &'b SharedState) -> impl Body + 'b {
        NextFile { next: self, shared_state }
    }

    /// The length of the encoded file, in bytes.
    #[inline]
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Changed { base, changes, .. } => base.file.draft_length(base.file.size_after(changes)),
            Self::Built { .. } => self.draft().length(),
        }
    }

    /// The file once it has been written.
    pub(super) fn into_file(self) -> File {
        let (base, Built { root, size }) = match self {
            Self::Built { base, built } => (base, built),
            Self::Changed { base, commit, changes, built } => {
                (Some(base), built.into_inner().unwrap_or_else(|| build(base, commit, changes)))
            }
        };
        match base {
            None => File::first(root),
            Some(base) => base.file.followed_by(root, size),
        }
    }

    fn build(&self) -> &Built {
        match self {
            Self::Built { built, .. } => built,
            Self::Changed { base, commit, changes, built } => built.get_or_init(|| build(base, *commit, changes)),
        }
    }

    fn draft(&self) -> Draft<'_> {
        let Built { root, size } = self.build();
        match self.base() {
            Some(base) => base.file.draft(root, *size),
            None => Draft::first(root),
        }
    }
}

fn build(base: &Snapshot, commit: CommitId, changes: &Changes) -> Built {
    let root = changes.apply(base.root(), commit);
    let root = root.unwrap_or_else(|error| unreachable!("changes without overlap apply: {error}"));
    Built { root, size: base.file.size_after(changes) }
}

/// A file being sent to the store.
struct NextFile<'a> {
    next: &'a Next<'a>,
    shared_state: &'a SharedState,
}

impl Body for NextFile<'_> {
    fn size(&self) -> ByteSize {
        let (tables, length) = match self.next {
            Next::Changed { base, changes, .. } => {
                let size = base.file.size_after(changes);
                (size.tables, base.file.draft_length(size))
            }
            Next::Built { built, .. } => (built.root.table_count(), self.next.length()),
        };
        ByteSize::from_bytes(length as u64) + self.shared_state.filler(tables)
    }

    fn into_payload(self) -> Payload {
        let draft = self.next.draft();
        Payload { bytes: draft.encode(), filler: self.shared_state.filler(draft.tables()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use glidepath_env::{Key, Tag};
    use glidepath_model::{Advance, Edit, MetadataId, Name, PartitionId, TableId, TableState};
    use proptest::prelude::*;
    use smallvec::smallvec;

    use super::*;
    use crate::entry::tests::trees;

    proptest! {
        /// A root built on demand, and its length before that, equal those of a root built at once.
        #[test]
        fn what_is_built_late_is_the_same(
            tables in prop::collection::btree_map(0_u32..300, 1_usize..4, 0..140),
            edits in prop::collection::vec((0_u32..300, 1_usize..4), 0..4),
            versions in 0_usize..40,
            entries in trees(),
        ) {
            // Versions whose successor takes one byte more, and others.
            let version = |id: u32| Version([0, 127, 128, 16_383, u64::from(id)][id as usize % 5]);
            let state = |id, partitions| TableState {
                version: version(id),
                metadata: MetadataId(0),
                partitions: smallvec![version(id / 5); partitions],
            };
            let tables = tables.into_iter().filter(|(id, _)| entries.get(&Name::numbered(TableId(*id))).is_none());
            let tables = tables.map(|(id, partitions)| (TableId(id), state(id, partitions))).collect();
            // Some edits to numbered tables that have more than a state.
            let mut edits: Vec<(u32, usize)> = edits;
            let numbered = entries.iter().filter_map(|(name, _)| name.number());
            edits.extend(numbered.map(|id| (id.0, 1 + id.0 as usize % 2)));
            let root = Root::from_parts(Version(0), CommitId(0), tables).unwrap();
            let mut file = File::first(root.with_entries(entries).unwrap());
            for version in 0..versions {
                let root = Changes::default().apply(file.root(), CommitId(version as u64)).unwrap();
                let size = Size::of(&root);
                file = file.followed_by(root, size);
            }
            let base = Snapshot { file: Arc::new(file), tag: Tag::number(1) };
            let mut changes = Changes::default();
            for (id, partitions) in edits {
                let edit = match base.root().table(TableId(id)) {
                    Some(state) if partitions == 1 => Edit::Drop(state.version),
                    Some(state) => {
                        let seen = state.partitions.iter().zip(0..).map(|(version, id)| (PartitionId(id), *version));
                        Edit::Advance(Advance { metadata: MetadataId(id.into()), partitions: seen.collect() })
                    }
                    None => Edit::Create(TableState::new(partitions)),
                };
                let fits = Changes::of(TableId(id), edit.clone()).overlap(base.root()) == Overlap::None;
                if fits {
                    changes.set(TableId(id), edit);
                }
            }
            let shared_state = SharedState::new(Key::new("catalog"), ByteSize::from_bytes(7));
            let root = changes.apply(base.root(), CommitId(9)).unwrap();
            let now = Next::built(Some(&base), root);
            let late = Next::of(&base, CommitId(9), &changes).unwrap();
            prop_assert_eq!((late.version(), late.commit()), (now.version(), now.commit()));
            prop_assert_eq!(late.body(&shared_state).size(), now.body(&shared_state).size());
            prop_assert_eq!(late.body(&shared_state).into_payload(), now.body(&shared_state).into_payload());
            prop_assert_eq!(late.into_file(), now.into_file());
        }
    }
}
