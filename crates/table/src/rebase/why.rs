//! Why a commit is not rebased.

/// Why a commit is not rebased. The text completes "the commit conflicts and was not rebased: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Nobody asked for it.
    #[error(
        "neither the table (property glidepath.append-rebase=true) nor the commit (append-rebase=true in the summary of \
         its snapshot) asks for it"
    )]
    NotAsked,
    /// The commit's summary says `append-rebase=false`, or something else than true.
    #[error("append-rebase in the summary of the commit's snapshot is not true")]
    Declined,
    /// The server's owner asked for it, for tables with isolation level `snapshot`, and this table has another.
    #[error("write.delete, write.update and write.merge .isolation-level of the table are not all snapshot")]
    Isolation,
    /// The server's owner asked for it, where only appends lie between, and something else does.
    #[error("snapshot {0}, which was committed meanwhile, is no append")]
    Between(i64),
    /// Something that writes each row once, by what it notes in its snapshots, committed another part of the same
    /// stream.
    #[error(
        "snapshot {0}, which was committed meanwhile, is of the same stream (Kafka Connect, Flink or Spark), whose writer must look at it"
    )]
    SameStream(i64),

    /// The commit is something else than one append to one branch.
    #[error("{0}")]
    Shape(&'static str),
    /// The commit is of a table that had this name before.
    #[error("the asserted table uuid is not this table's")]
    OtherTable,
    /// There is nothing to rebase: the branch is as asserted, and the snapshot is newer than all.
    #[error("the branch is as the commit asserts")]
    NotStale,
    /// The snapshot is in the table, and not in the branch's history: it was committed before, or staged, or the branch
    /// was rolled back.
    #[error("snapshot {0} is already in the table, and not in the history of the branch")]
    InTable(i64),

    /// Format version 1 has no sequence numbers.
    #[error("the table has format version 1; rebased are appends to versions 2 and 3")]
    Version1,
    /// The client wrote for another format version than the table has now.
    #[error("the table has format version {table}, and the commit was written for {commit}")]
    Version {
        /// The table's.
        table: String,
        /// What the commit's files say.
        commit: String,
    },
    /// Encrypted lists cannot be read here.
    #[error("the table or the snapshot is encrypted")]
    Encrypted,
    /// There is no such branch.
    #[error("there is no branch {0:?}")]
    NoBranch(String),
    /// The asserted snapshot expired.
    #[error("the asserted snapshot {0} is no longer in the table")]
    ParentGone(i64),
    /// The branch was rolled back or replaced.
    #[error("the asserted snapshot {0} is not in the history of the branch")]
    NotAncestor(i64),
    /// The schema changed meanwhile, or the snapshot does not name one.
    #[error("the snapshot's schema-id is not the current one, {0}")]
    Schema(i32),
    /// The commit changes how long the branch keeps snapshots.
    #[error("the commit sets the retention of the branch to other values than it has")]
    Retention,

    /// A file that the commit or the table refers to is not there.
    #[error("there is no file {0}")]
    NoFile(String),
    /// A file that the commit refers to cannot be read by this server.
    #[error("{0}")]
    Outside(String),
    /// A manifest is listed twice.
    #[error("the list names manifest {0} twice")]
    Twice(String),
    /// A manifest that the snapshot did not add is not its parent's.
    #[error("manifest {0} was neither added by the snapshot nor is it of its parent")]
    NotOfParent(String),
    /// The snapshot removes files: it leaves out a manifest of its parent that has live files.
    #[error("the snapshot leaves out manifest {0} of its parent, which has live files")]
    LeftOut(String),
    /// An added manifest is already in the table.
    #[error("the added manifest {0} is already in the table")]
    Listed(String),
    /// The partition spec changed meanwhile, or the client uses an old one.
    #[error("the added manifest {manifest} is of partition spec {spec}; the table's default is {default}")]
    Spec {
        /// The manifest.
        manifest: String,
        /// Its spec.
        spec: i32,
        /// The table's default spec.
        default: i32,
    },
    /// An added manifest deletes rows.
    #[error("the added manifest {0} holds deletes")]
    Deletes(String),
    /// An added manifest has entries that exist already or were deleted: an overwrite, or an append that merged
    /// manifests.
    #[error("the added manifest {0} has entries other than added files")]
    EntryNotAdded(String),
    /// An entry of an added manifest names another snapshot.
    #[error("an entry of the added manifest {0} belongs to another snapshot")]
    EntryOfOther(String),
    /// Entries of added manifests inherit their sequence numbers; these do not.
    #[error("an entry of the added manifest {0} has a sequence number of its own")]
    SequenceNumbers(String),
    /// Added files and manifests inherit their row ids; these do not.
    #[error("a file in the added manifest {0} has row ids of its own")]
    RowIds(String),
    /// The list counts the files or rows of an added manifest wrong.
    #[error("the list gives other counts for the added manifest {0} than the manifest itself")]
    Counts(String),
    /// The table cannot have the new snapshot or its list.
    #[error("the table does not take the rebased snapshot: {0}")]
    Unfit(String),
}
