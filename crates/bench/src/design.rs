//! Which designs of a catalog can be compared, and what may a client ask of one?

use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::Protocol;
use serde::{Deserialize, Serialize};

/// A protocol, and how the catalog is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Design {
    /// The protocol.
    pub protocol: Protocol,
    /// How its entries are kept, where there are several ways.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "by_name")]
    pub layout: Option<Layout>,
    /// Whether there are indices by type and by base object, where there can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexed: Option<bool>,
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
    /// Of a protocol that has one layout.
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

/// A layout, as it is called on the command line.
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
