//! The subcommands that read a catalog: list, describe, exists.

use std::collections::VecDeque;
use std::io::{BufWriter, Write as _};

use clap::Args;
use glidepath_model::{Entry, Kind, Name};
use glidepath_protocols::Catalog as _;
use glidepath_protocols::registry::AnySnapshot;
use serde_json::json;

use super::change::OfKind;
use super::place::{Site, not_found};
use super::{Common, name, show};
use crate::failure::{Failure, code};
use crate::output::{print, print_json};
use crate::whole::{from_one, from_zero};

/// Entries per page.
const PAGE: usize = 1000;

/// List the entries of a namespace, or of the root; --json prints one object a line
#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    common: Common,
    /// The namespace; the root if none is given
    #[arg(value_name = "NAMESPACE", value_parser = name)]
    namespace: Option<Name>,
    /// Include the entries of nested namespaces; with tickets, each namespace is listed as it is at a moment of its own
    #[arg(long, short)]
    recursive: bool,
    /// Only entries of this kind
    #[arg(long)]
    kind: Option<OfKind>,
    /// Begin after this name, which must be directly in the namespace
    #[arg(long, value_name = "NAME", value_parser = name)]
    after: Option<Name>,
    /// The most entries to list
    #[arg(long, value_name = "COUNT", default_value_t = usize::MAX, hide_default_value = true, value_parser = from_one::<usize>)]
    limit: usize,
    /// Read this version of the catalog instead of the newest
    #[arg(long, value_name = "VERSION", value_parser = from_zero::<u64>)]
    version: Option<u64>,
}

/// Describe a namespace, a table, a view, or the catalog as a whole
#[derive(Args, Debug)]
pub(super) struct Describe {
    #[command(flatten)]
    common: Common,
    /// The entry; the catalog if none is given
    #[arg(value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Read this version of the catalog instead of the newest
    #[arg(long, value_name = "VERSION", value_parser = from_zero::<u64>)]
    version: Option<u64>,
}

/// Tell whether a namespace, table or view of this name exists; exit code 3 if not
#[derive(Args, Debug)]
pub(super) struct Exists {
    #[command(flatten)]
    common: Common,
    /// The namespace, table or view
    #[arg(value_name = "NAME", value_parser = name)]
    name: Name,
    /// Only if it is one of these
    #[arg(long)]
    kind: Option<OfKind>,
    /// Read this version of the catalog instead of the newest
    #[arg(long, value_name = "VERSION", value_parser = from_zero::<u64>)]
    version: Option<u64>,
}

/// A namespace while it is listed: one page is in memory.
struct Level {
    namespace: Option<Name>,
    page: VecDeque<(Name, Entry)>,
    /// The name after which the next page begins; `None` at the end.
    next: Option<Option<Name>>,
}

impl List {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if let Some(after) = &self.after
            && after.parent() != self.namespace
        {
            let (place, such) = match &self.namespace {
                Some(namespace) => (format!("directly in {namespace}"), format!("{namespace}/NAME")),
                None => ("directly in the root".to_owned(), "NAME, without \"/\"".to_owned()),
            };
            let words = format!("--after: {after} is not {place}, which is listed; allowed: {such}");
            return Err(Failure::Mistake(words));
        }
        let site = Site::of(&self.common.store)?;
        let at = site.at(self.version)?;
        if let Some(namespace) = &self.namespace {
            let entry = site.read_at(&at, site.catalog.entry(&at, namespace))?.ok_or_else(|| not_found(namespace))?;
            if entry.kind != Kind::Namespace {
                let words = format!("{namespace} is a {}, not a namespace; `describe` shows it", entry.kind);
                return Err(Failure::Coded(code::OTHERWISE, words));
            }
        }
        self.print(&site, &at)
    }

    /// Prints entries as they arrive; memory holds one page per level of namespaces.
    fn print(&self, site: &Site, at: &AnySnapshot) -> Result<(), Failure> {
        let mut output = BufWriter::new(std::io::stdout().lock());
        let top = Level { namespace: self.namespace.clone(), page: VecDeque::new(), next: Some(self.after.clone()) };
        let (mut levels, mut left) = (vec![top], self.limit);
        while let Some(level) = levels.last_mut() {
            let Some((name, entry)) = self.next(site, at, level)? else {
                levels.pop();
                continue;
            };
            if self.kind.is_none_or(|kind| Kind::from(kind) == entry.kind) {
                if left == 0 {
                    break;
                }
                left -= 1;
                match self.common.json {
                    true => writeln!(output, "{}", show::entry(&name, &entry))?,
                    false => writeln!(output, "{}", show::line(&name, &entry))?,
                }
            }
            if self.recursive && entry.kind == Kind::Namespace {
                levels.push(Level { namespace: Some(name), page: VecDeque::new(), next: Some(None) });
            }
        }
        output.flush().map_err(Failure::from)
    }

    fn next(&self, site: &Site, at: &AnySnapshot, level: &mut Level) -> Result<Option<(Name, Entry)>, Failure> {
        if level.page.is_empty()
            && let Some(after) = level.next.take()
        {
            // A short listing needs only a short page.
            let size = if self.recursive || self.kind.is_some() { PAGE } else { PAGE.min(self.limit) };
            let found = site.catalog.children(at, level.namespace.as_ref(), after.as_ref(), size);
            level.page = site.read_at(at, found)?.into();
            if level.page.len() == size {
                level.next = level.page.back().map(|(name, _)| Some(name.clone()));
            }
        }
        Ok(level.page.pop_front())
    }
}

impl Describe {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common.store)?;
        let at = site.at(self.version)?;
        let Some(name) = &self.name else { return self.catalog(&site, &at) };
        let entry = site.read_at(&at, site.catalog.entry(&at, name))?.ok_or_else(|| not_found(name))?;
        match self.common.json {
            true => print_json(&show::entry(name, &entry)),
            false => print(&show::description(name, &entry)),
        }
    }

    fn catalog(&self, site: &Site, at: &AnySnapshot) -> Result<(), Failure> {
        let protocol = site.catalog.protocol().name();
        let facts = site.catalog.facts(at);
        let (version, commit) = (site.catalog.version(at).map(|version| version.0), format!("{:016x}", facts.commit.0));
        // Also for an old version, this is what is kept now.
        let oldest = site.read(site.catalog.oldest(&site.head()?))?.0;
        let (oldest, commit) = (version.map(|_| oldest), version.map(|_| commit));
        if self.common.json {
            let mut shown = json!({
                "protocol": protocol,
                "version": version,
                "oldest_kept_version": oldest,
                "commit": commit,
            });
            let known = [
                ("written_unix_ms", facts.written_ms.map(|written| json!(written))),
                ("entries", facts.entries.map(|entries| json!(entries))),
                ("layout", facts.layout.map(|layout| json!(layout.name()))),
                ("indexed", facts.indexed.map(|indexed| json!(indexed))),
            ];
            for (key, value) in known {
                if let Some(value) = value {
                    shown[key] = value;
                }
            }
            return print_json(&shown);
        }
        let written = facts.written_ms.map(|written| format!(", written {}", show::time(written))).unwrap_or_default();
        let indices = |indexed| if indexed { "by type and by base object" } else { "none" };
        let lines = [
            Some(format!("catalog ({protocol})")),
            version.map(|version| format!("  version           {version}{written}")),
            commit.map(|commit| format!("  commit            {commit}")),
            oldest.map(|oldest| format!("  oldest kept       {oldest}")),
            facts.entries.map(|entries| format!("  entries           {entries}")),
            facts.layout.map(|layout| format!("  layout            {}", layout.name())),
            facts.indexed.map(|indexed| format!("  indices           {}", indices(indexed))),
        ];
        print(&lines.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }
}

impl Exists {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common.store)?;
        let at = site.at(self.version)?;
        let entry = site.read_at(&at, site.catalog.entry(&at, &self.name))?;
        let wanted = |entry: &Entry| self.kind.is_none_or(|kind| Kind::from(kind) == entry.kind);
        let other = entry.as_ref().map(|entry| entry.kind);
        let found = entry.filter(wanted);
        let told = if self.common.json {
            let kind = found.as_ref().map(|entry| show::kind(entry.kind));
            print_json(&json!({ "name": self.name.as_str(), "exists": found.is_some(), "kind": kind }))
        } else {
            found.as_ref().map_or(Ok(()), |entry| print(show::kind(entry.kind)))
        };
        match (found, self.kind) {
            (Some(_), _) => told,
            (None, None) => Err(not_found(&self.name).after(told)),
            (None, Some(kind)) => {
                let is = other.map(|other| format!("; {} is a {}", self.name, show::kind(other))).unwrap_or_default();
                let words = format!("there is no {} {}{is}", show::kind(kind.into()), self.name);
                Err(Failure::Coded(code::NOT_FOUND, words).after(told))
            }
        }
    }
}
