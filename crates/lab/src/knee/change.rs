//! Which what-ifs are searched? Each differs from the point in one decision of an operator: the catalog's store, its
//! layout, its protocol, or how clients commit and retry. Store and protocol are also changed together, because the
//! gain of both is not the product of their gains.

use glidepath_env::{Backoff, Exponential, JitterRange};
use glidepath_model::Span;
use glidepath_point::{Config, Point, Profiles};
use glidepath_protocols::registry::Protocol;
use glidepath_workload::{Appends, Choice, ManifestList, Refresh, Step, TableMetadata};

use super::Provider;
use super::plan::first_guess;

/// A change.
pub(super) struct Change {
    /// The change in words.
    pub(super) words: String,
    /// As settings of an experiment file.
    pub(super) settings: Vec<String>,
    /// The changed point.
    pub(super) point: Point,
}

impl Change {
    /// Whether it changes the protocol.
    pub(super) fn is_of_protocol(&self, point: &Point) -> bool {
        self.point.config.catalog.protocol != point.config.catalog.protocol
    }
}

/// The latency of a catalog service that keeps its state in memory.
const FAST_CATALOG: Span = Span::from_millis(1);

/// The way to a server near its clients and back.
const SERVER: Span = Span::from_millis(1);

/// Servers that are enough to replace one while two are left.
const SERVERS: u32 = 3;

/// Iceberg's default number of parallel reads on a machine with few processors.
const PARALLEL_READS: u32 = 4;

/// Collects changes of one point.
struct Changes<'a> {
    point: &'a Point,
    list: Vec<Change>,
}

/// All changes that differ from the point as it is; with `protocols`, other protocols are among them. Those that the
/// first guess of the knee calls worse come last.
pub(super) fn changes(point: &Point, providers: &[Provider], protocols: bool) -> Vec<Change> {
    let mut changes = Changes { point, list: Vec::new() };
    changes.servers();
    changes.layout();
    changes.client();
    changes.retries();
    if protocols {
        changes.protocols(providers);
        changes.databases(providers);
    }
    changes.stores(providers);
    // Where the budget does not suffice for all, it should not go to stores that are slower.
    let guess = first_guess(point);
    changes.list.sort_by_key(|change| first_guess(&change.point) < guess);
    changes.list
}

impl Changes<'_> {
    fn stores(&mut self, providers: &[Provider]) {
        let what = self.what_moves();
        for Provider { name, profile } in providers {
            let mut config = self.point.config.clone();
            if profile.catalogs_only || *name == config.provider || *profile == self.point.profile {
                continue;
            }
            config.provider.clone_from(name);
            let settings = vec![format!("provider = \"{name}\"")];
            if let Ok(point) = self.point.with_tables_on(config, profile.clone()) {
                self.list.push(Change { words: format!("{what} on {name}"), settings, point });
            }
        }
        let given = &self.point.config.catalog;
        let slower = given.latency.is_none_or(|latency| latency > FAST_CATALOG) && given.server.is_none();
        self.add(slower, "a catalog that answers in 1 ms", &["catalog.latency = \"1ms\""], |config| {
            (config.catalog.latency, config.catalog.store) = (Some(FAST_CATALOG), None);
        });
    }

    /// Servers like `glidepath serve`.
    fn servers(&mut self) {
        for (count, words) in [(1, "one server"), (SERVERS, "three servers")] {
            let given = &self.point.config;
            let settings = [
                (given.catalog.server.is_none(), format!("catalog.server = \"{SERVER}\"")),
                (given.catalog.servers() != count, format!("catalog.servers = {count}")),
                (given.tables.appends == Appends::Retried, "tables.appends = \"rebased\"".to_owned()),
            ];
            let settings: Vec<&str> =
                settings.iter().filter(|(differs, _)| *differs).map(|(_, setting)| setting.as_str()).collect();
            let words = format!("through {words} of ours, appends rebased");
            self.add(!settings.is_empty(), &words, &settings, |config| {
                config.catalog.server.get_or_insert(SERVER);
                config.catalog.servers = Some(count).filter(|count| *count > 1);
                config.tables.appends = Appends::Rebased;
            });
        }
    }

    /// Every protocol that the store can carry, here and on each of the providers.
    fn protocols(&mut self, providers: &[Provider]) {
        let here = Provider { name: self.point.config.provider.clone(), profile: self.point.profile.clone() };
        let others = providers.iter().filter(|other| !other.profile.catalogs_only);
        let others = others.filter(|other| other.name != here.name && other.profile != here.profile);
        for place in std::iter::once(&here).chain(others) {
            for &protocol in Protocol::ALL.iter().filter(|other| **other != self.point.config.catalog.protocol) {
                let mut config = self.point.config.clone();
                config.catalog.protocol = protocol;
                let mut settings = vec![format!("catalog.protocol = \"{}\"", protocol.name())];
                let mut words = format!("protocol {}", protocol.name());
                if place.name != here.name {
                    config.provider.clone_from(&place.name);
                    settings.push(format!("provider = \"{}\"", place.name));
                    words += &format!(", {} on {}", self.what_moves(), place.name);
                }
                if !protocol.features().holds_metadata && config.tables.metadata == TableMetadata::Inlined {
                    config.tables.metadata = TableMetadata::Separate;
                    settings.push("tables.metadata = \"separate\"".to_owned());
                    words += ", table metadata in files of its own";
                }
                if let Ok(point) = self.point.with_tables_on(config, place.profile.clone()) {
                    self.list.push(Change { words, settings, point });
                }
            }
        }
    }

    /// Every protocol whose catalog a database can keep, there.
    fn databases(&mut self, providers: &[Provider]) {
        let of_rows = || Protocol::ALL.iter().filter(|protocol| !protocol.features().appends);
        for place in providers.iter().filter(|place| place.profile.catalogs_only) {
            for protocol in of_rows() {
                let mut config = self.point.config.clone();
                let separate = TableMetadata::Separate;
                (config.catalog.protocol, config.catalog.latency, config.tables.metadata) = (*protocol, None, separate);
                config.catalog.store = Some(place.name.clone());
                let settings = vec![
                    format!("catalog.protocol = \"{}\"", protocol.name()),
                    format!("catalog.store = \"{}\"", place.name),
                ];
                let words = format!("protocol {}, the catalog on {}", protocol.name(), place.name);
                let profiles = Profiles { tables: self.point.profile.clone(), catalog: Some(place.profile.clone()) };
                if config != self.point.config
                    && let Ok(point) = Point::new(config, profiles)
                {
                    self.list.push(Change { words, settings, point });
                }
            }
        }
    }

    fn what_moves(&self) -> &'static str {
        if self.point.catalog_is_an_object() { "all" } else { "the tables" }
    }

    fn layout(&mut self) {
        let tables = self.point.config.tables;
        let twice = tables.count.saturating_mul(2);
        let mut counts = vec![twice];
        counts.extend((tables.count < 10 && twice != 10).then_some(10));
        for count in counts {
            let setting = format!("tables.count = {count}");
            self.add(true, &format!("{count} tables instead of {}", tables.count), &[&setting], |config| {
                config.tables.count = count;
            });
        }
        let uneven = tables.choice != Choice::Uniform && tables.count > 1;
        self.add(uneven, "writes spread evenly over the tables", &["tables.choice = \"uniform\""], |config| {
            config.tables.choice = Choice::Uniform;
        });
        let separate = tables.metadata == TableMetadata::Separate;
        let setting = "tables.metadata = \"inlined\"";
        self.add(separate, "table metadata inlined in the catalog", &[setting], |config| {
            config.tables.metadata = TableMetadata::Inlined;
        });
        let rewrites = tables.manifest_list == ManifestList::Rewrite;
        let appends = rewrites && self.point.profile.append.is_some();
        self.add(appends, "manifest lists that are appended to", &["tables.manifest_list = \"append\""], |config| {
            config.tables.manifest_list = ManifestList::Append;
        });
    }

    fn client(&mut self) {
        let (commit, transaction) = (self.point.config.commit.clone(), self.point.config.transaction);
        let setting = "commit.refresh_first = true";
        self.add(!commit.refresh_first, "a refresh before the first attempt", &[setting], |config| {
            config.commit.refresh_first = true;
        });
        let serial = commit.history_parallel < PARALLEL_READS && transaction.fast_append < 1.0;
        let words = format!("history read {PARALLEL_READS} at a time");
        let setting = format!("commit.history_parallel = {PARALLEL_READS}");
        self.add(serial, &words, &[&setting], |config| config.commit.history_parallel = PARALLEL_READS);
        let always =
            commit.refresh_after == Refresh::EveryConflict && commit.refresh.contains(&Step::ReadTableMetadata);
        let words = "table metadata read after table conflicts only";
        self.add(always, words, &["commit.refresh_after = \"table-conflict\""], |config| {
            config.commit.refresh_after = Refresh::TableConflict;
        });
    }

    fn retries(&mut self) {
        let retry = self.point.config.retry;
        let more = if retry.retries < 10 { 10 } else { retry.retries.saturating_mul(2) };
        let words = format!("{more} retries instead of {}", retry.retries);
        self.add(true, &words, &[&format!("retry.retries = {more}")], |config| config.retry.retries = more);
        // The configured waits if there are some, otherwise Iceberg's.
        let waits = match (retry.table, retry.catalog) {
            (waits @ Backoff::Exponential(_), _) | (_, waits @ Backoff::Exponential(_)) => waits,
            _ => Backoff::Exponential(Exponential {
                first: Span::from_millis(100),
                factor: 2.0,
                longest: Span::from_secs(60),
                jitter: JitterRange { low: 1.0, high: 1.1 },
            }),
        };
        let policies = [
            ("immediate retries", Backoff::Immediate, Backoff::Immediate),
            ("immediate retries after catalog conflicts, waits after table conflicts", Backoff::Immediate, waits),
            ("exponential waits after every conflict", waits, waits),
        ];
        for (words, catalog, table) in policies {
            let settings = [setting("retry.catalog", &catalog), setting("retry.table", &table)];
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            self.add((catalog, table) != (retry.catalog, retry.table), words, &settings, |config| {
                (config.retry.catalog, config.retry.table) = (catalog, table);
            });
        }
    }

    /// Adds a change if it is one, and if the point with it passes its checks.
    fn add(&mut self, differs: bool, words: &str, settings: &[&str], change: impl FnOnce(&mut Config)) {
        let mut config = self.point.config.clone();
        change(&mut config);
        if let Some(point) = differs.then(|| self.point.with(config).ok()).flatten() {
            let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
            self.list.push(Change { words: words.to_owned(), settings, point });
        }
    }
}

fn setting(field: &str, backoff: &Backoff) -> String {
    match backoff {
        Backoff::Immediate => format!("{field} = \"immediate\""),
        Backoff::Exponential(Exponential { first, factor, longest, jitter }) => format!(
            "{field} = {{ exponential = {{ first = \"{first}\", factor = {factor:?}, longest = \"{longest}\", jitter = \
             [{:?}, {:?}] }} }}",
            jitter.low, jitter.high
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{point, providers};
    use super::*;

    fn words(point: &Point, protocols: bool) -> Vec<String> {
        changes(point, &providers(), protocols).into_iter().map(|change| change.words).collect()
    }

    #[test]
    fn each_protocol_is_tried_on_each_provider_that_can_carry_it() {
        let point = point(&[]);
        assert!(words(&point, false).iter().all(|words| !words.contains("protocol ")));
        let pairs: Vec<String> = words(&point, true).into_iter().filter(|words| words.contains("protocol ")).collect();
        let others = Protocol::ALL.iter().filter(|protocol| **protocol != point.config.catalog.protocol);
        for protocol in others {
            let here = pairs.iter().any(|words| *words == format!("protocol {}", protocol.name()));
            let appends = protocol.features().appends;
            assert_eq!(here, !appends, "{pairs:?}");
            let on_express = pairs.contains(&format!("protocol {}, all on s3-express", protocol.name()));
            assert!(on_express, "{pairs:?}");
        }
        assert!(!pairs.iter().any(|words| words.contains("append-log, all on s3-standard")), "{pairs:?}");
    }

    #[test]
    fn slower_stores_come_last() {
        let all = words(&point(&["provider=s3-express"]), true);
        assert!(all[0].starts_with("through one server of ours"), "{all:?}");
        let first_slower = all.iter().position(|words| words.contains(" on s3-standard")).unwrap();
        assert!(all[first_slower..].iter().all(|words| words.contains(" on s3-standard")), "{all:?}");
        let all = words(&point(&["provider=s3-standard"]), true);
        let faster = all.iter().position(|words| words == "all on s3-express").unwrap();
        assert!(all[..faster].iter().any(|words| words.contains("retries")), "{all:?}");
    }

    #[test]
    fn a_protocol_without_table_metadata_keeps_it_in_files() {
        let point = point(&["tables.metadata=inlined"]);
        let changes = changes(&point, &providers(), true);
        let tickets = changes.iter().find(|change| change.words.starts_with("protocol tickets,")).unwrap();
        assert!(
            tickets.settings.iter().any(|setting| setting == "tables.metadata = \"separate\""),
            "{:?}",
            tickets.words
        );
    }
}
