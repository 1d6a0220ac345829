//! From a URL to a catalog, and from an error to a message and an exit code.

use glidepath_env::Cause;
use glidepath_model::{Name, Refusal, Version};
use glidepath_protocols::group::{Answer, CommitError, Committer, RetryPolicy};
use glidepath_protocols::registry::{AnyCatalog, AnySnapshot, Protocol};
use glidepath_protocols::{Catalog as _, LoadError};
use glidepath_stores::{LiveEnv, OpenError, Options, Store, is_there, open, shown};
use tokio::runtime::Runtime;

use crate::failure::{Failure, code, not_built};
use crate::origin::quoted;

/// An open store, and its runtime.
pub(super) struct Opened {
    pub(super) store: Store,
    /// Its URL, without what is secret.
    url: String,
    runtime: Runtime,
}

/// The place of a catalog, in an open store.
pub(super) struct Site {
    pub(super) catalog: AnyCatalog<LiveEnv>,
    opened: Opened,
}

impl Site {
    /// Opens the store of an existing catalog, without reading the catalog.
    pub(super) fn of(url: &str) -> Result<Self, Failure> {
        let opened = Opened::existing(url)?;
        let found = opened.wait(AnyCatalog::find(LiveEnv::new(), opened.store.clone(), ""));
        Ok(Self { catalog: found.map_err(|error| opened.told(&error))?, opened })
    }

    /// Waits for something.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.opened.wait(future)
    }
}

impl Opened {
    /// Opens the store of an existing catalog, without reading from it.
    pub(super) fn existing(url: &str) -> Result<Self, Failure> {
        if is_of_cells(url) {
            let words = format!("{}: it is a folder of cells: kv+{}", shown(url), shown(url));
            return Err(Failure::Coded(code::NOT_FOUND, words));
        }
        // Opening a store on disk creates its folder; a mistyped path should be an error instead.
        if is_there(url).map_err(not_opened)? == Some(false) {
            return Err(told(&LoadError::NotFound, &shown(url)));
        }
        Self::of(url)
    }

    /// Opens a store without reading from it.
    pub(super) fn of(url: &str) -> Result<Self, Failure> {
        let store = open(url, &Options::default()).map_err(not_opened)?;
        if matches!(&store, Store::Memory(_)) || matches!(&store, Store::Rows(rows) if rows.is_in_memory()) {
            let words = "memory: and kv+memory: exist only until the command ends, so no other command could use them; \
                         use file:///directory for a try";
            return Err(Failure::Mistake(words.to_owned()));
        }
        // One thread: a command does one thing at a time.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
        Ok(Self { store, url: shown(url), runtime })
    }

    /// Waits for something.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The message of a failure to read, if nothing more is known.
    pub(super) fn told(&self, error: &LoadError) -> Failure {
        told(error, &self.url)
    }
}

impl Site {
    /// Waits for something that reads the catalog.
    pub(super) fn read<T>(&self, future: impl Future<Output = Result<T, LoadError>>) -> Result<T, Failure> {
        self.wait(future).map_err(|error| self.failed(error))
    }

    /// Waits for something that reads the catalog at a version. If a vacuum has removed the version meanwhile, the
    /// error says so.
    pub(super) fn read_at<T>(
        &self,
        at: &AnySnapshot,
        future: impl Future<Output = Result<T, LoadError>>,
    ) -> Result<T, Failure> {
        self.wait(future).map_err(|error| {
            let Some(version) = self.catalog.version(at) else { return self.failed(error) };
            match self.range_now() {
                Ok((oldest, newest)) if version < oldest => {
                    let words = format!(
                        "{version} is no longer kept, because a vacuum has run meanwhile: those that are kept are {} \
                         to {}",
                        oldest.0, newest.0
                    );
                    Failure::Coded(code::NOT_FOUND, words)
                }
                _ => self.failed(error),
            }
        })
    }

    /// The oldest and the newest of the versions that are kept now; of a catalog that has versions.
    fn range_now(&self) -> Result<(Version, Version), Failure> {
        let head = self.head()?;
        Ok((self.read(self.catalog.oldest(&head))?, self.catalog.version(&head).unwrap_or_default()))
    }

    /// The message of a failure to read: "no catalog" only if there is nothing of one.
    pub(super) fn failed(&self, error: LoadError) -> Failure {
        match error {
            LoadError::NotFound => {
                self.opened.told(&self.wait(AnyCatalog::<LiveEnv>::why_not_found(&self.opened.store, "")))
            }
            error => self.opened.told(&error),
        }
    }

    /// The catalog as it is now.
    pub(super) fn head(&self) -> Result<AnySnapshot, Failure> {
        self.read(self.catalog.load())
    }

    /// The catalog at a version, or the newest.
    pub(super) fn at(&self, version: Option<u64>) -> Result<AnySnapshot, Failure> {
        let Some(version) = version.map(Version) else { return self.head() };
        self.versioned("--version")?;
        let head = match self.wait(self.catalog.load()) {
            Ok(head) if self.catalog.version(&head) == Some(version) => return Ok(head),
            Ok(head) => head,
            // Older versions may be undamaged although the newest is damaged.
            Err(error @ LoadError::Undecodable(_)) => {
                return self.read(self.catalog.version_at(version))?.ok_or_else(|| self.failed(error));
            }
            Err(error) => return Err(self.failed(error)),
        };
        let newest = self.catalog.version(&head).unwrap_or_default();
        let found = if version < newest { self.kept(version)? } else { None };
        found.map_or_else(|| self.missing(version, newest), Ok)
    }

    /// A version before the newest; `None` if it is not kept any more.
    pub(super) fn kept(&self, version: Version) -> Result<Option<AnySnapshot>, Failure> {
        if let Some(found) = self.read(self.catalog.version_at(version))? {
            let oldest = self.read(self.catalog.oldest(&self.head()?))?;
            return Ok(Some(found).filter(|_| version >= oldest));
        }
        let oldest = self.read(self.catalog.oldest(&self.head()?))?;
        if version < oldest {
            return Ok(None);
        }
        let words = format!(
            "{version} should be kept and cannot be read; `glidepath catalog fsck STORE` checks the whole catalog"
        );
        Err(Failure::Failed(words))
    }

    fn missing(&self, version: Version, newest: Version) -> Result<AnySnapshot, Failure> {
        let (oldest, _) = self.range_now()?;
        let words = match oldest == newest {
            true => format!("there is no {version}: only the newest is kept, {}", newest.0),
            false => format!("there is no {version}: those that are kept are {} to {}", oldest.0, newest.0),
        };
        Err(Failure::Coded(code::NOT_FOUND, words))
    }

    /// An error if the catalog has no versions; `what` asks for one.
    pub(super) fn versioned(&self, what: &str) -> Result<(), Failure> {
        let protocol = self.catalog.protocol();
        if protocol.features().versioned {
            return Ok(());
        }
        let others = Protocol::which(|features| features.keeps_old);
        let words = format!(
            "{what}: a catalog of {} has no versions, only its current state ({others} keeps old versions)",
            protocol.name()
        );
        Err(Failure::Mistake(words))
    }

    /// The committer.
    pub(super) fn committer(&self, tries: u32) -> Committer<LiveEnv, AnyCatalog<LiveEnv>> {
        Committer::alone(LiveEnv::new(), self.catalog.clone(), RetryPolicy { tries, ..RetryPolicy::default() })
    }
}

fn not_opened(error: OpenError) -> Failure {
    match error {
        OpenError::Url { .. } | OpenError::Warehouse { .. } => Failure::Mistake(error.to_string()),
        OpenError::NotBuilt { url, feature } => not_built(&url, feature),
        OpenError::Unusable { .. } => Failure::Failed(error.to_string()),
        OpenError::Held { .. } => Failure::Coded(code::CONTENTION, error.to_string()),
    }
}

fn told(error: &LoadError, place: &str) -> Failure {
    match error {
        LoadError::NotFound => Failure::Coded(
            code::NOT_FOUND,
            format!("there is no catalog in {place}; `glidepath catalog create STORE` makes one"),
        ),
        LoadError::Failed(cause) => busy(cause, error.to_string()),
        LoadError::Undecodable(_) => {
            Failure::Failed(format!("{error}\n`glidepath catalog fsck STORE` checks the whole catalog"))
        }
    }
}

/// Whether this is the URL of a folder of objects, and the folder is a key-value store's.
fn is_of_cells(url: &str) -> bool {
    let folder = glidepath_kv::folder(&format!("kv+{url}")).ok().flatten();
    url.starts_with("file:") && folder.is_some_and(|folder| glidepath_kv::is_folder_of_cells(&folder))
}

/// The message of a failure after which nothing was done: the store is busy, or something else is wrong.
pub(super) fn busy(cause: &Cause, message: String) -> Failure {
    match cause.is_busy() {
        true => Failure::Coded(code::CONTENTION, format!("{message}; nothing was done: try again afterwards")),
        false => Failure::Failed(message),
    }
}

/// The error that a name does not exist.
pub(super) fn not_found(name: &Name) -> Failure {
    Failure::Coded(code::NOT_FOUND, format!("{}{}", Refusal::NotFound(name.clone()), advice(name)))
}

/// What to do if there is no such name.
fn advice(name: &Name) -> String {
    dotted(name)
        .map_or_else(|| "; `glidepath catalog list STORE -r` lists all names".to_owned(), |words| format!("; {words}"))
}

/// What a name means in which somebody may have separated namespaces by dots; `None` if there is no dot.
pub(super) fn dotted(name: &Name) -> Option<String> {
    let text = name.as_str();
    (text.contains('.') && name.parent().is_none()).then(|| {
        format!("a dot is a part of a name: entries of a namespace are written {}", quoted(&text.replace('.', "/")))
    })
}

/// The result of a commit.
pub(super) fn settled(answer: Answer<AnyCatalog<LiveEnv>>) -> Result<AnySnapshot, Failure> {
    answer.map_err(|error| {
        let code = match &error {
            CommitError::Refused(refusal) => match refusal {
                Refusal::Exists(_) => code::EXISTS,
                Refusal::NotFound(_) | Refusal::NoParent { .. } => code::NOT_FOUND,
                Refusal::NotEmpty(_) => code::NOT_EMPTY,
                Refusal::WrongKind { .. }
                | Refusal::NoPartitions(_)
                | Refusal::Flawed { .. }
                | Refusal::UnknownField { .. }
                | Refusal::Changed(_)
                | Refusal::PointerMoved { .. }
                | Refusal::VersionMoved { .. }
                | Refusal::PropertyChanged { .. }
                | Refusal::TooLarge { .. } => code::OTHERWISE,
            },
            CommitError::Contention { .. } | CommitError::Full { .. } => code::CONTENTION,
            CommitError::Unknown(_) => code::UNKNOWN,
            CommitError::Failed(cause) => return busy(cause, error.to_string()),
        };
        let advice: &str = match &error {
            CommitError::Contention { .. } => "; nothing was done: try again, or with more --tries",
            CommitError::Full { .. } => "; nothing was done: try again later",
            CommitError::Unknown(_) => "; it may have been done: look before trying again",
            CommitError::Refused(Refusal::NotFound(name)) => &advice(name),
            CommitError::Refused(Refusal::NoParent { parent, .. }) => {
                let parent = quoted(parent.as_str());
                &format!("; create it first: `glidepath catalog create-namespace STORE {parent}`")
            }
            CommitError::Refused(Refusal::NotEmpty(_)) => ", or drop it with all its entries by --cascade",
            CommitError::Refused(Refusal::PointerMoved { expected: None, .. }) => ", and say by --expect where it is",
            _ => "",
        };
        Failure::Coded(code, format!("{error}{advice}"))
    })
}

#[cfg(test)]
mod tests {
    use glidepath_env::Busy;
    use glidepath_model::{Action, Entry, Kind};
    use glidepath_protocols::Outcome;
    use glidepath_protocols::registry::{Creation, Protocol};

    use super::*;

    /// Includes errors that a single process cannot provoke.
    #[test]
    fn each_end_of_a_commit_has_its_own_code_and_words() {
        let name = || Name::of_parts(["sales"]).unwrap();
        let refused = |refusal| CommitError::Refused(refusal);
        let ends = [
            (refused(Refusal::NotFound(name())), 3, "there is no sales"),
            (refused(Refusal::Exists(name())), 4, "exists already"),
            (refused(Refusal::NotEmpty(name())), 5, "not empty"),
            (CommitError::Contention { tries: 60 }, 6, "contention: other commits came first in all 60 tries"),
            (CommitError::Full { waiting: 4096 }, 6, "4096 wait already; nothing was done: try again later"),
            (CommitError::Unknown(Cause::words("timed out")), 7, "outcome unknown: timed out"),
            (refused(Refusal::Changed(name())), 9, "has changed"),
            (
                refused(Refusal::WrongKind { name: name(), found: Kind::Table, needed: &[Kind::View] }),
                9,
                "is a table, not a view",
            ),
            (
                refused(Refusal::PointerMoved { name: name(), expected: None, found: Some("m".to_owned()) }),
                9,
                "pointer of sales is \"m\", not none: read it again, and say by --expect where it is",
            ),
            (
                refused(Refusal::PointerMoved { name: name(), expected: Some("m".to_owned()), found: None }),
                9,
                "pointer of sales is none, not \"m\": read it again",
            ),
        ];
        for (error, expected, words) in ends {
            match settled(Err(error)) {
                Err(Failure::Coded(code, message)) => {
                    assert_eq!(code, expected, "{message}");
                    assert!(message.contains(words), "{message}");
                }
                other => panic!("{other:?}"),
            }
        }
        let failed = settled(Err(CommitError::Failed(Cause::words("no route"))));
        assert!(matches!(failed, Err(Failure::Failed(words)) if words.contains("not committed: no route")));
    }

    /// As the store on disk reports it. Nothing was done, and it may be tried again.
    #[test]
    fn a_lock_that_is_held_too_long_has_the_code_of_contention() {
        let cause =
            || Cause::from_error(std::io::Error::new(std::io::ErrorKind::TimedOut, Busy("it is stuck".to_owned())));
        let commit = settled(Err(CommitError::Failed(cause()))).map(drop);
        for failure in [commit, Err(told(&LoadError::Failed(cause()), "memory:"))] {
            match failure {
                Err(Failure::Coded(6, words)) => {
                    assert!(words.contains("it is stuck; nothing was done: try again"), "{words}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A vacuum removes a version while it is read. (Another process read it, so nothing of it is in memory.)
    #[test]
    fn a_version_that_is_removed_while_it_is_read_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}?durability=none", folder.path().display());
        let create =
            |name: &str| vec![Action::Create { name: Name::of_parts([name]).unwrap(), entry: Entry::namespace() }];
        let opened = Opened::of(&url).unwrap();
        let made =
            AnyCatalog::create(LiveEnv::new(), opened.store.clone(), "", Protocol::ManifestChain, Creation::default());
        assert!(matches!(opened.wait(made).1, Outcome::Committed(_)));
        let site = Site::of(&url).unwrap();
        for name in ["a", "b", "c"] {
            assert!(site.wait(site.committer(1).commit(create(name))).is_ok());
        }
        let at = site.at(Some(1)).unwrap();
        let name = Name::of_parts(["a"]).unwrap();
        let look = || {
            let site = Site::of(&url).unwrap();
            site.read_at(&at, site.catalog.entry(&at, &name))
        };
        assert!(look().unwrap().is_some());
        // The object is gone, and the version is kept: damage, not "not found".
        let object = |version: u64| folder.path().join(format!("objects/versions/{:016x}%o", u64::MAX - version));
        std::fs::rename(object(1), folder.path().join("aside")).unwrap();
        assert!(matches!(look(), Err(Failure::Failed(_))), "{:?}", look());
        // As if a vacuum had run: the newest version names version 2 as the oldest.
        let mut newest = std::fs::read(object(3)).unwrap();
        let frame = &mut newest[1024..];
        let length = u32::from_le_bytes(frame[8..12].try_into().unwrap()) as usize;
        frame[36..44].copy_from_slice(&2_u64.to_le_bytes());
        let sum = crc32fast::hash(&frame[..length - 4]);
        frame[length - 4..length].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(object(3), newest).unwrap();
        match look() {
            Err(Failure::Coded(code::NOT_FOUND, words)) => {
                assert!(words.contains("version 1 is no longer kept") && words.contains("2 to 3"), "{words}");
            }
            other => panic!("{other:?}"),
        }
    }
}
