//! What is to replace a catalog file? A root that is built only when somebody asks for it: most attempts under contention
//! lose, and then nobody does.

use std::sync::OnceLock;

use glidepath_env::{Body, Guard, Payload};
use glidepath_model::{ByteSize, CommitId, Root, Touched, Version};

use super::encoding::{Draft, File, tables_length};
use super::{Place, Snapshot};

/// The successor of a base, or the first root of all. It gives the same bytes under the same guard however often it is put.
pub(super) enum Next<'a> {
    Built { base: Option<&'a Snapshot>, root: Root },
    Touched { base: &'a Snapshot, commit: CommitId, touched: Touched, root: OnceLock<Root> },
}

impl<'a> Next<'a> {
    /// What follows the base by this commit.
    pub(super) fn of(base: &'a Snapshot, commit: CommitId, touched: Touched) -> Self {
        Self::Touched { base, commit, touched, root: OnceLock::new() }
    }

    pub(super) fn base(&self) -> Option<&'a Snapshot> {
        match self {
            Self::Built { base, .. } => *base,
            Self::Touched { base, .. } => Some(base),
        }
    }

    pub(super) fn version(&self) -> Version {
        match self {
            Self::Built { root, .. } => root.version,
            Self::Touched { base, .. } => base.root().version.next(),
        }
    }

    pub(super) fn commit(&self) -> CommitId {
        match self {
            Self::Built { root, .. } => root.commit,
            Self::Touched { commit, .. } => *commit,
        }
    }

    pub(super) fn guard(&self) -> Guard {
        self.base().map_or(Guard::Absent, |base| Guard::Matches(base.tag.clone()))
    }

    pub(super) fn body<'b>(&'b self, place: &'b Place) -> impl Body + 'b {
        NextFile { next: self, place }
    }

    /// The file as it is once it has been written.
    pub(super) fn into_file(self) -> File {
        let tables_length = self.tables_length();
        match self {
            Self::Built { base: None, root } => File::first(root),
            Self::Built { base: Some(base), root } => base.file.followed_by(root, tables_length),
            Self::Touched { base, commit, touched, root } => {
                let root = root.into_inner().unwrap_or_else(|| touched.follow(base.root(), commit));
                base.file.followed_by(root, tables_length)
            }
        }
    }

    fn root(&self) -> &Root {
        match self {
            Self::Built { root, .. } => root,
            Self::Touched { base, commit, touched, root } => root.get_or_init(|| touched.follow(base.root(), *commit)),
        }
    }

    fn draft(&self) -> Draft<'_> {
        match self.base() {
            Some(base) => base.file.draft(self.root(), self.tables_length()),
            None => Draft::first(self.root()),
        }
    }

    fn tables(&self) -> usize {
        match self {
            Self::Built { root, .. } => root.tables().len(),
            Self::Touched { base, touched, .. } => touched.count(base.root()),
        }
    }

    /// Of the tables in the encoded file, in bytes.
    fn tables_length(&self) -> usize {
        match self {
            Self::Built { root, .. } => tables_length(root),
            Self::Touched { base, touched, .. } => base.file.tables_length_after(touched),
        }
    }
}

/// A file on its way to the store.
struct NextFile<'a> {
    next: &'a Next<'a>,
    place: &'a Place,
}

impl Body for NextFile<'_> {
    fn size(&self) -> ByteSize {
        let (next, tables) = (self.next, self.next.tables());
        let length = match next {
            Next::Touched { base, .. } => base.file.draft_length(tables, next.tables_length()),
            Next::Built { .. } => next.draft().length(),
        };
        ByteSize::from_bytes(length as u64) + self.place.filler(tables)
    }

    fn into_payload(self) -> Payload {
        Payload { bytes: self.next.draft().encode(), filler: self.place.filler(self.next.tables()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use glidepath_env::{Key, Tag};
    use glidepath_model::{Changes, Edit, TableId, TableState};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A root that is built when it is wanted, and its length before that, are those of one built at once.
        #[test]
        fn what_is_built_late_is_the_same(
            tables in prop::collection::btree_map(0_u32..300, 1_usize..4, 0..140),
            edits in prop::collection::vec((0_u32..300, 1_usize..4), 0..4),
            versions in 0_usize..40,
        ) {
            let tables = tables.into_iter().map(|(id, partitions)| (TableId(id), TableState::new(partitions))).collect();
            let mut file = File::first(Root::from_parts(Version(0), CommitId(0), tables).unwrap());
            for version in 0..versions {
                let root = Changes::default().apply(file.root(), CommitId(version as u64)).unwrap();
                let length = tables_length(&root);
                file = file.followed_by(root, length);
            }
            let base = Snapshot { file: Arc::new(file), tag: Tag::number(1) };
            let mut changes = Changes::default();
            for (id, partitions) in edits {
                let edit = match base.root().table(TableId(id)) {
                    Some(state) => Edit::Drop(state.version),
                    None => Edit::Create(TableState::new(partitions)),
                };
                changes.set(TableId(id), edit);
            }
            let place = Place::new(Key::new("catalog"), ByteSize::from_bytes(7));
            let root = changes.apply(base.root(), CommitId(9)).unwrap();
            let now = Next::Built { base: Some(&base), root };
            let late = Next::of(&base, CommitId(9), changes.touch(base.root()).unwrap());
            prop_assert_eq!((late.version(), late.commit()), (now.version(), now.commit()));
            prop_assert_eq!(late.body(&place).size(), now.body(&place).size());
            prop_assert_eq!(late.body(&place).into_payload(), now.body(&place).into_payload());
            prop_assert_eq!(late.into_file(), now.into_file());
        }
    }
}
