//! Which designs of a catalog can be compared, and what may a client ask of one?

use glidepath_protocols::manifest_chain::Layout;
use serde::{Deserialize, Serialize};

/// A protocol, and how the catalog is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "kebab-case")]
pub enum Design {
    /// The whole catalog in one object. Its entries are tables.
    CatalogFile,
    /// Records appended to a log, and folded. Its entries are tables.
    AppendLog,
    /// A chain of versions. A third of its entries are namespaces, the rest tables.
    ManifestChain {
        /// How its entries are kept.
        #[serde(with = "by_name")]
        layout: Layout,
        /// Whether there are indices by type and by base object.
        indexed: bool,
    },
}

/// A protocol by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// See [`Design::CatalogFile`].
    CatalogFile,
    /// See [`Design::AppendLog`].
    AppendLog,
    /// See [`Design::ManifestChain`].
    ManifestChain,
}

/// What a client does, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Creates an entry that nobody else creates.
    Commit,
    /// Finds the newest version and says what one name stands for.
    Describe,
    /// Finds the newest version and says whether there is a name; every other time there is not.
    Exists,
    /// Finds the newest version and names the first thousand entries.
    List,
}

/// What a process that reads knows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Nothing: each operation opens the catalog anew.
    Cold,
    /// What the operations before it have read.
    Warm,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ManifestChain, Self::AppendLog, Self::CatalogFile];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CatalogFile => "catalog-file",
            Self::AppendLog => "append-log",
            Self::ManifestChain => "manifest-chain",
        }
    }
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Commit, Self::Describe, Self::Exists, Self::List];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Describe => "describe",
            Self::Exists => "exists",
            Self::List => "list",
        }
    }

    /// Whether it leaves the catalog as it was.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Commit
    }
}

impl Start {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Warm, Self::Cold];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

impl Design {
    /// In words.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::CatalogFile => Protocol::CatalogFile.name().to_owned(),
            Self::AppendLog => Protocol::AppendLog.name().to_owned(),
            Self::ManifestChain { layout, indexed } => {
                let layout = if layout == Layout::Paged { "" } else { " whole" };
                let indices = if indexed { "" } else { ", no indices" };
                format!("{}{layout}{indices}", Protocol::ManifestChain.name())
            }
        }
    }
}

/// A layout, as it is called on the command line.
mod by_name {
    use glidepath_protocols::manifest_chain::Layout;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(layout: &Layout, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(layout.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        let text = String::deserialize(deserializer)?;
        Layout::ALL.into_iter().find(|layout| layout.name() == text).ok_or_else(|| D::Error::custom("paged or whole"))
    }
}
