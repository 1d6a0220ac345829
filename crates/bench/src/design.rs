//! Which designs of a catalog can be compared, and with which operations?

use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::Protocol;
use serde::{Deserialize, Serialize};

/// A protocol, and the layout of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Design {
    /// The protocol.
    pub protocol: Protocol,
    /// The layout, if the protocol has several.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "by_name")]
    pub layout: Option<Layout>,
    /// Whether there are indices by type and by base object, if the protocol supports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexed: Option<bool>,
}

/// The operation that a client repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Creates an entry that no other client creates.
    Commit,
    /// Finds the newest version and returns the entry of a name.
    Describe,
    /// Finds the newest version and checks whether a name exists; every other name does not.
    Exists,
    /// Finds the newest version and lists the first thousand names.
    List,
}

/// What a reading process knows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Nothing: each operation opens the catalog anew.
    Cold,
    /// What earlier operations have read.
    Warm,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Commit, Self::Describe, Self::Exists, Self::List];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Describe => "describe",
            Self::Exists => "exists",
            Self::List => "list",
        }
    }

    /// Whether it does not change the catalog.
    #[must_use]
    pub fn reads(self) -> bool {
        self != Self::Commit
    }
}

impl Start {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Warm, Self::Cold];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

impl Design {
    /// A design of a protocol with one layout.
    #[must_use]
    pub fn of(protocol: Protocol) -> Self {
        Self { protocol, layout: None, indexed: None }
    }

    /// A manifest chain.
    #[must_use]
    pub fn chain(layout: Layout, indexed: bool) -> Self {
        Self { protocol: Protocol::ManifestChain, layout: Some(layout), indexed: Some(indexed) }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> String {
        let layout = if self.layout == Some(Layout::Whole) { " whole" } else { "" };
        let indices = if self.indexed == Some(false) { ", no indices" } else { "" };
        format!("{}{layout}{indices}", self.protocol.name())
    }
}

/// A layout by its name on the command line.
mod by_name {
    use glidepath_protocols::manifest_chain::Layout;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(layout: &Option<Layout>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_some(&layout.map(Layout::name))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Layout>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let found = Layout::ALL.into_iter().find(|layout| layout.name() == text);
        found.map(Some).ok_or_else(|| D::Error::custom("paged or whole"))
    }
}
