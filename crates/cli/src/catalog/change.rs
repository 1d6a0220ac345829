//! The subcommands that commit: create, create-namespace, create-table, create-view, set, drop, rename.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use glidepath_model::{Action, CommitId, Entry, Kind, MetadataId, Name, TableState, Version};
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::{AnyCatalog, AnySnapshot, Creation, Protocol};
use glidepath_protocols::{Catalog as _, Outcome};
use glidepath_stores::{LiveEnv, is_rows};
use serde_json::json;

use super::place::{Opened, Site, busy, dotted, not_found, settled};
use super::{Common, name, show};
use crate::choice;
use crate::failure::{Failure, code, done as was_done};
use crate::output::{complain, print, print_json};
use crate::whole::{from_one, from_zero};

/// Where `glidepath serve` keeps the keys of requests and its notes on purges: without them, a request that is sent
/// again may be done again.
const OF_THE_SERVER: &str = ".glidepath";

/// A name that may be changed by hand.
fn changeable(text: &str) -> Result<Name, String> {
    let name = name(text)?;
    match name.parts().first().is_some_and(|first| first == OF_THE_SERVER) {
        true => Err(format!("allowed: a name that is not in {OF_THE_SERVER}, where the catalog server keeps its own")),
        false => Ok(name),
    }
}

/// Create an empty catalog
#[derive(Args, Debug)]
pub(super) struct Create {
    #[command(flatten)]
    common: Common,
    /// The protocol, which cannot be changed later: catalog-file (one object), manifest-chain, append-log
    /// or tickets [default: manifest-chain; in a key-value store, tickets]
    #[arg(long, value_name = "PROTOCOL", value_parser = choice::protocol())]
    protocol: Option<Protocol>,
    /// The layout of a manifest chain, which cannot be changed later: with paged a commit writes the changed pages,
    /// with whole it rewrites one file of columns [default: paged]
    #[arg(long, value_name = "LAYOUT", value_parser = choice::layout())]
    layout: Option<Layout>,
    /// Create a manifest chain without indices by type and by base object: smaller commits, slower searches
    #[arg(long)]
    without_indices: bool,
}

/// Create a namespace; its parent must exist
#[derive(Args, Debug)]
pub(super) struct CreateNamespace {
    #[command(flatten)]
    common: Common,
    /// Its name: its parts with / between
    #[arg(value_name = "NAME", value_parser = changeable)]
    name: Name,
    /// A property, KEY=VALUE; may be given several times
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
    #[command(flatten)]
    patience: Patience,
}

/// Create a table: only its entry in the catalog, no data
#[derive(Args, Debug)]
pub(super) struct CreateTable {
    #[command(flatten)]
    common: Common,
    /// Its name: its parts with / between
    #[arg(value_name = "NAME", value_parser = changeable)]
    name: Name,
    /// The location of its data, in any form that its format understands
    #[arg(long, value_name = "LOCATION")]
    location: Option<String>,
    /// A property, KEY=VALUE; may be given several times
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
    /// A base object, by its name; may be given several times
    #[arg(long = "base", value_name = "NAME", value_parser = name)]
    bases: Vec<Name>,
    /// The location of its first metadata file; any text
    #[arg(long, value_name = "POINTER")]
    pointer: Option<String>,
    /// The id of its first metadata object, in hexadecimal digits
    #[arg(long, value_name = "ID", value_parser = metadata, default_value = "0")]
    metadata: MetadataId,
    /// The number of partitions; changes to different partitions do not conflict
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = from_one::<u16>)]
    partitions: u16,
    #[command(flatten)]
    patience: Patience,
}

/// Create a view: only its entry in the catalog; the query is in its metadata
#[derive(Args, Debug)]
pub(super) struct CreateView {
    #[command(flatten)]
    common: Common,
    /// Its name: its parts with / between
    #[arg(value_name = "NAME", value_parser = changeable)]
    name: Name,
    /// The location of its files, in any form that its format understands
    #[arg(long, value_name = "LOCATION")]
    location: Option<String>,
    /// The location of its first metadata file; any text
    #[arg(long, value_name = "POINTER")]
    pointer: Option<String>,
    /// A property, KEY=VALUE; may be given several times
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
    /// A base object, by its name; may be given several times
    #[arg(long = "base", value_name = "NAME", value_parser = name)]
    bases: Vec<Name>,
    #[command(flatten)]
    patience: Patience,
}

/// Set or remove properties of a namespace, table or view, or move the metadata pointer of a table or view; everything
/// else is unchanged
#[derive(Args, Debug)]
pub(super) struct Set {
    #[command(flatten)]
    common: Common,
    /// The namespace, table or view
    #[arg(value_name = "NAME", value_parser = changeable)]
    name: Name,
    /// Properties to set
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    properties: Vec<(String, String)>,
    /// A property to remove; may be given several times
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// The location of its new metadata file; set in the same commit as the properties
    #[arg(long, value_name = "NEW")]
    pointer: Option<String>,
    /// Only if its metadata pointer is this now; without this option, only if it has none
    #[arg(long, value_name = "OLD", requires = "pointer")]
    expect: Option<String>,
    #[command(flatten)]
    patience: Patience,
}

/// Drop a table, a view or an empty namespace; with --cascade, a namespace with all its entries
#[derive(Args, Debug)]
pub(super) struct Drop {
    #[command(flatten)]
    common: Common,
    /// The namespace, table or view
    #[arg(value_name = "NAME", value_parser = changeable)]
    name: Name,
    /// Only if it is one of these
    #[arg(long)]
    kind: Option<OfKind>,
    /// Only if the table is at this version
    #[arg(long, value_name = "VERSION", value_parser = from_zero::<u64>)]
    table_version: Option<u64>,
    /// Drop a namespace with all entries in it, at any depth, in one commit
    #[arg(long, conflicts_with = "table_version")]
    cascade: bool,
    #[command(flatten)]
    patience: Patience,
}

/// Rename a table or view, also into another namespace
#[derive(Args, Debug)]
pub(super) struct Rename {
    #[command(flatten)]
    common: Common,
    /// The table or view
    #[arg(value_name = "FROM", value_parser = changeable)]
    from: Name,
    /// Its new name; the namespace above it must exist
    #[arg(value_name = "TO", value_parser = changeable)]
    to: Name,
    #[command(flatten)]
    patience: Patience,
}

/// The limits of a commit.
#[derive(Args, Debug)]
struct Patience {
    /// The number of tries that lose to other commits before the command gives up
    #[arg(long, value_name = "COUNT", default_value_t = 120, value_parser = from_one::<u32>)]
    tries: u32,
}

/// A kind on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OfKind {
    Namespace,
    Table,
    View,
}

impl From<OfKind> for Kind {
    fn from(kind: OfKind) -> Self {
        match kind {
            OfKind::Namespace => Self::Namespace,
            OfKind::Table => Self::Table,
            OfKind::View => Self::View,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it KEY=VALUE".to_owned()),
    }
}

fn metadata(text: &str) -> Result<MetadataId, String> {
    let wrong = || "an id is up to 16 hexadecimal digits".to_owned();
    // The parser would accept a sign.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit())).ok_or_else(wrong)?;
    u64::from_str_radix(digits, 16).map(MetadataId).map_err(|_| wrong())
}

impl Create {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let protocol = self.protocol.unwrap_or_else(|| Protocol::usual(is_rows(&self.common.store)));
        if protocol.features().layouts.is_empty() && (self.layout.is_some() || self.without_indices) {
            let those = Protocol::which(|features| !features.layouts.is_empty());
            let words = format!(
                "--layout and --without-indices are for {those}, and this catalog would be kept by {}: name another \
                 --protocol, or leave them out",
                protocol.name()
            );
            return Err(Failure::Mistake(words));
        }
        if let Some(why) = protocol.unfit_for_rows().filter(|_| is_rows(&self.common.store)) {
            return Err(Failure::Mistake(format!("not created: {why} (--protocol)")));
        }
        let opened = Opened::of(&self.common.store)?;
        let (layout, indexed) = (self.layout.unwrap_or(Layout::Paged), !self.without_indices);
        let creation = Creation { layout, indexed, ..Creation::default() };
        let (env, store) = (LiveEnv::new(), opened.store.clone());
        let (catalog, outcome) = opened.wait(AnyCatalog::create(env, store, "", protocol, creation));
        match outcome {
            Outcome::Committed(at) => {
                let what = format!("an empty catalog, kept by {}", protocol.name());
                tell(&self.common, &catalog, "created", &what, &at)
            }
            Outcome::Conflict(_) => Err(self.exists(&opened)),
            Outcome::Refused(denial) => Err(busy(&denial.cause, format!("not created: {denial}"))),
            Outcome::Unknown(cause) => {
                let words = format!("outcome unknown: {cause}; it may have been created: look before trying again");
                Err(Failure::Coded(code::UNKNOWN, words))
            }
        }
    }

    /// The error if the place is taken already.
    fn exists(&self, opened: &Opened) -> Failure {
        let Ok(found) = opened.wait(AnyCatalog::find(LiveEnv::new(), opened.store.clone(), "")) else {
            return Failure::Coded(code::EXISTS, "there is a catalog here already".to_owned());
        };
        let name = found.protocol().name();
        match opened.wait(found.load()) {
            Ok(at) => {
                let version = found.version(&at).map(|version| format!(", at version {}", version.0));
                let words = format!("there is a catalog here already, kept by {name}{}", version.unwrap_or_default());
                Failure::Coded(code::EXISTS, words)
            }
            // Another creation is running, or ended before its last step.
            Err(_) => {
                let words = format!(
                    "another creation has reserved this place for a catalog kept by {name}: create it with --protocol \
                     {name}"
                );
                Failure::Coded(code::EXISTS, words)
            }
        }
    }
}

impl CreateNamespace {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let entry = Entry { properties: once_each(&self.properties, &[])?, ..Entry::namespace() };
        let action = Action::Create { name: self.name.clone(), entry };
        commit(&self.common, &self.patience, action, "created", &format!("namespace {}", self.name))
    }
}

impl CreateTable {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let state = TableState { metadata: self.metadata, ..TableState::new(usize::from(self.partitions)) };
        let entry = Entry {
            properties: once_each(&self.properties, &[])?,
            base_objects: self.bases.clone(),
            pointer: self.pointer.clone(),
            ..Entry::table(self.location.clone(), state)
        };
        let action = Action::Create { name: self.name.clone(), entry };
        commit(&self.common, &self.patience, action, "created", &format!("table {}", self.name))
    }
}

impl CreateView {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let entry = Entry {
            location: self.location.clone(),
            properties: once_each(&self.properties, &[])?,
            base_objects: self.bases.clone(),
            pointer: self.pointer.clone(),
            ..Entry::view()
        };
        let action = Action::Create { name: self.name.clone(), entry };
        commit(&self.common, &self.patience, action, "created", &format!("view {}", self.name))
    }
}

impl Set {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if !self.sets_properties() && self.pointer.is_none() {
            let words = "nothing to set: give KEY=VALUE, --unset KEY or --pointer NEW";
            return Err(Failure::Mistake(words.to_owned()));
        }
        let actions = self.actions()?;
        let site = Site::of(&self.common.store)?;
        // The missing properties are only reported: the commit removes those that exist when it takes effect.
        let before = site.read(site.catalog.entry(&site.head()?, &self.name))?.ok_or_else(|| not_found(&self.name))?;
        let missing: Vec<&str> =
            self.unset.iter().filter(|key| !before.properties.contains_key(*key)).map(String::as_str).collect();
        let at = settled(site.wait(site.committer(self.patience.tries).commit(actions)))?;
        let had_none = missing.iter().map(|key| format!("; it had no property {key:?}")).collect::<String>();
        let what = match (self.pointer.is_some(), self.sets_properties()) {
            (true, true) => "properties and metadata pointer",
            (true, false) => "metadata pointer",
            (false, _) => "properties",
        };
        let mut fields = json!({ "missing_properties": missing });
        if let Some(pointer) = &self.pointer {
            fields["metadata_pointer"] = json!(pointer);
        }
        tell_with(&self.common, (&site.catalog, &at), fields, &format!("set {what} of {}{had_none}", self.name))
    }

    fn sets_properties(&self) -> bool {
        !self.properties.is_empty() || !self.unset.is_empty()
    }

    /// All in one request: all changes are made, or none.
    fn actions(&self) -> Result<Vec<Action>, Failure> {
        let mut actions = Vec::new();
        if self.sets_properties() {
            let set = once_each(&self.properties, &self.unset)?.into_iter().map(|(key, value)| (key, Some(value)));
            let changes = set.chain(self.unset.iter().map(|key| (key.clone(), None))).collect();
            actions.push(Action::SetProperties { name: self.name.clone(), changes });
        }
        if let Some(pointer) = self.pointer.clone() {
            actions.push(Action::SetPointer { name: self.name.clone(), expected: self.expect.clone(), pointer });
        }
        Ok(actions)
    }
}

impl Drop {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.table_version.is_some() && matches!(self.kind, Some(OfKind::Namespace | OfKind::View)) {
            return Err(Failure::Mistake("--table-version is for tables".to_owned()));
        }
        if self.cascade {
            if matches!(self.kind, Some(OfKind::Table | OfKind::View)) {
                return Err(Failure::Mistake("--cascade is for namespaces".to_owned()));
            }
            let action = Action::DropAll { name: self.name.clone() };
            let what = format!("namespace {} and all in it", self.name);
            return commit(&self.common, &self.patience, action, "dropped", &what);
        }
        let kind = match (self.kind, self.table_version) {
            (Some(kind), _) => kind.into(),
            (None, Some(_)) => Kind::Table,
            (None, None) => self.kind_now()?,
        };
        let expected = self.table_version.map(Version);
        let action = Action::Drop { name: self.name.clone(), kind, expected };
        let what = format!("{} {}", show::kind(kind), self.name);
        commit(&self.common, &self.patience, action, "dropped", &what)
    }

    fn kind_now(&self) -> Result<Kind, Failure> {
        let site = Site::of(&self.common.store)?;
        let entry = site.read(site.catalog.entry(&site.head()?, &self.name))?;
        entry.map(|entry| entry.kind).ok_or_else(|| not_found(&self.name))
    }
}

impl Rename {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let action = Action::Rename { from: self.from.clone(), to: self.to.clone() };
        commit(&self.common, &self.patience, action, "renamed", &format!("{} to {}", self.from, self.to))
    }
}

fn commit(common: &Common, patience: &Patience, action: Action, done: &str, what: &str) -> Result<(), Failure> {
    let new = match &action {
        Action::Create { name, .. } | Action::Rename { to: name, .. } => dotted(name),
        _ => None,
    };
    let site = Site::of(&common.store)?;
    // Without a catalog the answer is "no catalog", not a failed commit.
    site.head()?;
    let at = settled(site.wait(site.committer(patience.tries).commit(vec![action])))?;
    if let Some(words) = new {
        complain(&format!("note: {words}"));
    }
    tell(common, &site.catalog, done, what, &at)
}

fn tell(
    common: &Common,
    catalog: &AnyCatalog<LiveEnv>,
    done: &str,
    what: &str,
    at: &AnySnapshot,
) -> Result<(), Failure> {
    tell_with(common, (catalog, at), json!({}), &format!("{done} {what}"))
}

/// Reports a commit, in words or as JSON with more fields.
fn tell_with(
    common: &Common,
    (catalog, at): (&AnyCatalog<LiveEnv>, &AnySnapshot),
    mut fields: serde_json::Value,
    words: &str,
) -> Result<(), Failure> {
    let version = catalog.version(at).map(|version| version.0);
    // Without versions, what changed nothing made no commit.
    let commit = Some(catalog.facts(at).commit).filter(|commit| *commit != CommitId(0));
    if common.json {
        fields["version"] = version.into();
        fields["commit"] = commit.map(|commit| format!("{:016x}", commit.0)).into();
        return was_done(print_json(&fields));
    }
    let words = show::visible(words);
    was_done(print(&match (version, commit) {
        (Some(version), _) => format!("{words} (version {version})"),
        (None, Some(commit)) => format!("{words} (commit {:016x})", commit.0),
        (None, None) => words,
    }))
}

/// The properties by key.
///
/// # Errors
/// A key occurs twice, among the properties or the keys to remove.
fn once_each(set: &[(String, String)], unset: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut keys: Vec<&String> = set.iter().map(|(key, _)| key).chain(unset).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::Mistake(format!("the property {:?} is given twice: once is allowed", pair[0]))),
        None => Ok(set.iter().cloned().collect()),
    }
}
