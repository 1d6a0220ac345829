//! Known defects of a store in files that tests can switch on, to show that the checkers detect them. They exist only
//! with the feature `mutants`.

/// A known defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A file is renamed into its place before its content is durable.
    NoSyncOfFiles,
    /// A write is acknowledged before its name in the folder is durable.
    NoSyncOfFolders,
    /// A lock held by another process counts as one's own.
    LockDoesNotLock,
    /// What a reader sees counts as durable, whatever the result of the sync.
    MarksIgnored,
    /// A write sets no mark while it may not be durable.
    MarksNotSet,
    /// A mark of another key that could not be cleared counts as one's own.
    MarkOfAnother,
    /// A folder in doubt is moved to the folder of unfinished files.
    MovedAmongUnfinished,
    /// A sync after a failed one counts as repairing it.
    SyncedAgain,
    /// A folder that another process created counts as durable.
    FoldersTrusted,
}

#[cfg(not(feature = "mutants"))]
pub(crate) fn is(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Runs a function with a defect, in this thread.
#[cfg(feature = "mutants")]
pub fn with<T>(mutant: Mutant, run: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            ACTIVE.set(None);
        }
    }
    let _reset = Reset;
    ACTIVE.set(Some(mutant));
    run()
}
