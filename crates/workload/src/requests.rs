//! The requests of each step of a commit, computed once for all transactions of a workload.

use glidepath_env::Transfer;

use crate::spec::{Appends, ManifestList, Step, TableMetadata, Tables, Workload};

/// The requests of a workload's commits.
pub struct Requests {
    pub(crate) once: RequestList,
    pub(crate) prepare: RequestList,
    pub(crate) refresh: RequestList,
}

/// A list of steps, and their transfers for each table written.
pub(crate) struct RequestList {
    pub(crate) steps: Vec<Step>,
    /// The transfers, without appends.
    pub(crate) transfers: Vec<Transfer>,
    /// Whether an entry is appended to the manifest list instead of rewriting the list.
    pub(crate) appends: bool,
}

impl Requests {
    /// The requests of a workload.
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
    /// The transfer of a step. `None` for metadata kept in the catalog or by the server, and for a manifest list that
    /// entries are appended to: it need not be read, and an append is not a transfer.
    pub(crate) fn transfer(self, tables: &Tables) -> Option<Transfer> {
        let separate = tables.metadata == TableMetadata::Separate && tables.appends == Appends::Retried;
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
