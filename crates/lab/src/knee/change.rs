//! Which what-ifs are searched? Each differs from the point in one decision of an operator: the catalog's store, its
//! layout, or how clients commit and retry.

use glidepath_env::{Backoff, Exponential, JitterRange};
use glidepath_model::Span;
use glidepath_workload::{Choice, ManifestList, Refresh, Step, TableMetadata};

use super::Provider;
use crate::config::{Config, Point};

/// A change.
pub(super) struct Change {
    /// The change in words.
    pub(super) words: String,
    /// As settings of an experiment file.
    pub(super) settings: Vec<String>,
    /// The changed point.
    pub(super) point: Point,
}

/// The latency of a catalog service that keeps its state in memory.
const FAST_CATALOG: Span = Span::from_millis(1);

/// Iceberg's default number of parallel reads on a machine with few processors.
const PARALLEL_READS: u32 = 4;

/// Collects changes of one point.
struct Changes<'a> {
    point: &'a Point,
    list: Vec<Change>,
}

/// All changes that differ from the point as it is.
pub(super) fn changes(point: &Point, providers: &[Provider]) -> Vec<Change> {
    let mut changes = Changes { point, list: Vec::new() };
    changes.stores(providers);
    changes.layout();
    changes.client();
    changes.retries();
    changes.list
}

impl Changes<'_> {
    fn stores(&mut self, providers: &[Provider]) {
        let what = if self.point.catalog_is_an_object() { "all" } else { "the tables" };
        for Provider { name, profile } in providers {
            let mut config = self.point.config.clone();
            if *name == config.provider || *profile == self.point.profile {
                continue;
            }
            config.provider.clone_from(name);
            let settings = vec![format!("provider = \"{name}\"")];
            if let Ok(point) = Point::new(config, profile.clone()) {
                self.list.push(Change { words: format!("{what} on {name}"), settings, point });
            }
        }
        let slower = self.point.config.catalog.latency.is_none_or(|latency| latency > FAST_CATALOG);
        self.add(slower, "a catalog that answers in 1 ms", &["catalog.latency = \"1ms\""], |config| {
            config.catalog.latency = Some(FAST_CATALOG);
        });
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
        if let Some(point) = differs.then(|| Point::new(config, self.point.profile.clone()).ok()).flatten() {
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
