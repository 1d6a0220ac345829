//! Which requests does each step of a commit make? Computed once for all transactions of a workload.

use glidepath_env::Transfer;

use crate::spec::{ManifestList, Step, TableMetadata, Tables, Workload};

/// The requests of a workload's commits.
pub struct Requests {
    pub(crate) once: RequestList,
    pub(crate) prepare: RequestList,
    pub(crate) refresh: RequestList,
}

/// Some steps, and their transfers for each table written.
pub(crate) struct RequestList {
    pub(crate) steps: Vec<Step>,
    /// Without what is appended.
    pub(crate) transfers: Vec<Transfer>,
    /// Whether an entry is appended to the manifest list instead of its being rewritten.
    pub(crate) appends: bool,
}

impl Requests {
    /// Those of a workload.
    #[must_use]
    pub fn new(Workload { tables, commit, .. }: &Workload) -> Self {
        let list = |steps: &Vec<Step>| RequestList {
            steps: steps.clone(),
            transfers: steps.iter().filter_map(|step| step.transfer(tables)).collect(),
            appends: tables.manifest_list == ManifestList::Append && steps.contains(&Step::WriteManifestList),
        };
        Self { once: list(&commit.once), prepare: list(&commit.prepare), refresh: list(&commit.refresh) }
    }
}

impl Step {
    /// What it transfers. `None` for metadata that are kept in the catalog, and for a manifest list that entries are
    /// appended to: it need not be read, and an append is no transfer.
    pub(crate) fn transfer(self, tables: &Tables) -> Option<Transfer> {
        let separate = tables.metadata == TableMetadata::Separate;
        let rewritten = tables.manifest_list == ManifestList::Rewrite;
        match self {
            Self::ReadTableMetadata => separate.then_some(Transfer::Read(tables.metadata_size)),
            Self::WriteTableMetadata => separate.then_some(Transfer::Write(tables.metadata_size)),
            Self::ReadManifestList => rewritten.then_some(Transfer::Read(tables.manifest_list_size)),
            Self::WriteManifestList => rewritten.then_some(Transfer::Write(tables.manifest_list_size)),
            Self::WriteManifestFile => Some(Transfer::Write(tables.manifest_file_size)),
        }
    }
}
