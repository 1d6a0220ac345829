//! Can the checkers fail? Known mistakes of a store in files, which tests switch on. Without the feature `mutants`
//! none can be switched on.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A file is renamed into its place before its content is durable.
    NoSyncOfFiles,
    /// A write is acknowledged before its name in the folder is durable.
    NoSyncOfFolders,
    /// A lock that another process holds is taken for one's own.
    LockDoesNotLock,
    /// What a reader sees is taken for durable, whatever the result of the sync.
    MarksIgnored,
    /// A write does not say that it may not be durable yet.
    MarksNotSet,
    /// A mark of another key, which could not be cleared, is taken for one's own.
    MarkOfAnother,
    /// A folder in doubt is moved away to where unfinished files are.
    MovedAmongUnfinished,
    /// After a failed sync, the next one is taken for one that makes up for it.
    SyncedAgain,
    /// A folder that another process made is taken for durable.
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

/// Runs something with a mistake, in this thread.
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
