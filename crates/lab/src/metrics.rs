//! What a run amounted to: the numbers that tables, pictures and knees are made of.
//!
//! Three views of the same transactions, as the published work has them. Tables and knees take the *window*:
//! transactions that arrived in the middle half of the run (minutes 15 to 45 of an hour) and ended within the run. Heat
//! maps take the success of the *whole run*, and the latency of the commits of its *middle* 80 %. The knees of part 3 take
//! the *warm* run: all that arrived after its first quarter and ended within it.

use glidepath_model::{Instant, Span};
use glidepath_workload::{End, Kind, Record};
use serde::{Deserialize, Serialize};

use crate::config::Point;
use crate::simulate::Outcome;

/// Tables whose conflicts are counted one by one; the rest is in the totals only.
pub const RANKS: usize = 50;

/// Parts of the run over which commits are counted.
pub const STRETCHES: usize = 60;

/// The numbers of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// All transactions.
    pub all: Group,
    /// Fast appends; absent where the workload has none.
    pub fast_append: Option<Group>,
    /// Validated overwrites; absent where the workload has none.
    pub validated_overwrite: Option<Group>,
    /// By table, in the order of the tables' numbers, which for Zipf is the order of popularity.
    pub ranks: Vec<Rank>,
    /// Commits in each sixtieth of the run (each minute of an hour).
    pub commits_over_time: Vec<u64>,
    /// Events that the engine processed.
    pub events: u64,
    /// The most transactions alive at one time.
    pub most_alive: u64,
}

/// The numbers of all transactions of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Transactions that arrived in the window.
    pub window_arrived: u64,
    /// Of these, those that ended within the run.
    pub window_ended: u64,
    /// Of these, those that committed.
    pub window_committed: u64,
    /// Committed, per second of the window.
    pub throughput_per_s: f64,
    /// Commit latency of those that committed in the window; absent where none did.
    pub latency: Option<Latency>,
    /// Mean number of retries of those that committed in the window.
    pub retries_mean: Option<f64>,
    /// Transactions that arrived after the first quarter and ended within the run.
    pub warm_ended: u64,
    /// Of these, those that committed.
    pub warm_committed: u64,
    /// Of these, the commits per second of the last three quarters.
    pub warm_throughput_per_s: f64,
    /// Of these, the mean commit latency; absent where none committed.
    pub warm_latency_mean_s: Option<f64>,
    /// Transactions that arrived in the whole run.
    pub run_arrived: u64,
    /// Of these, those that ended within the run.
    pub run_ended: u64,
    /// Of these, those that committed.
    pub run_committed: u64,
    /// Of those that ended, those that found a conflict to be real.
    pub run_validation_failed: u64,
    /// Mean commit latency of the commits in the middle 80 % of the run.
    pub middle_latency_mean_s: Option<f64>,
    /// Over all transactions that ended: attempts that failed though nothing they wrote had changed.
    pub catalog_conflicts: u64,
    /// Over all transactions that ended: attempts that failed because something they wrote had changed.
    pub table_conflicts: u64,
    /// Over all transactions that ended: appends to manifest lists that met another's.
    pub append_conflicts: u64,
    /// Over all transactions that ended: manifest lists read to see what was missed.
    pub history_reads: u64,
    /// Mean time per transaction that ended, by what it was spent on, between the end of its work and its own end.
    pub spent: SpentMeans,
}

/// Commit latencies in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct Latency {
    pub mean_s: f64,
    pub p50_s: f64,
    pub p95_s: f64,
    pub p99_s: f64,
}

/// Mean seconds per transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct SpentMeans {
    pub catalog_reads_s: f64,
    pub prepare_s: f64,
    pub conflict_reads_s: f64,
    pub install_s: f64,
    pub backoff_s: f64,
}

/// What happened at one table, over all transactions that ended and whose first table it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct Rank {
    pub ended: u64,
    pub committed: u64,
    pub catalog_conflicts: u64,
    pub table_conflicts: u64,
}

impl Group {
    /// The share of the window's transactions that committed, of those that ended; absent where none ended.
    #[must_use]
    pub fn success(&self) -> Option<f64> {
        ratio(self.window_committed, self.window_ended)
    }

    /// The same of those that arrived after the first quarter.
    #[must_use]
    pub fn warm_success(&self) -> Option<f64> {
        ratio(self.warm_committed, self.warm_ended)
    }

    /// The same over the whole run.
    #[must_use]
    pub fn run_success(&self) -> Option<f64> {
        ratio(self.run_committed, self.run_ended)
    }

    /// The share of the window's transactions that had not ended when the run did: what the published work hides.
    #[must_use]
    pub fn not_ended(&self) -> Option<f64> {
        ratio(self.window_arrived - self.window_ended, self.window_arrived)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Metrics {
    /// The numbers of a run of this point.
    #[must_use]
    pub fn of(point: &Point, outcome: &Outcome) -> Self {
        let duration = point.config.duration;
        let group = |kind: Option<Kind>| group(duration, outcome, kind);
        let fast_append = point.config.transaction.fast_append;
        let mut ranks = vec![Rank::default(); (point.config.tables.count as usize).min(RANKS)];
        let mut commits_over_time = vec![0; STRETCHES];
        for record in &outcome.records {
            if record.end == End::Committed {
                let share = record.ended.as_nanos() as f64 / duration.as_nanos() as f64;
                commits_over_time[((share * STRETCHES as f64) as usize).min(STRETCHES - 1)] += 1;
            }
            if let Some(rank) = ranks.get_mut(record.table.0 as usize) {
                rank.ended += 1;
                rank.committed += u64::from(record.end == End::Committed);
                rank.catalog_conflicts += u64::from(record.catalog_conflicts);
                rank.table_conflicts += u64::from(record.table_conflicts);
            }
        }
        Self {
            all: group(None),
            fast_append: (fast_append > 0.0).then(|| group(Some(Kind::FastAppend))),
            validated_overwrite: (fast_append < 1.0).then(|| group(Some(Kind::ValidatedOverwrite))),
            ranks,
            commits_over_time,
            events: outcome.counts.events,
            most_alive: outcome.counts.most_alive,
        }
    }

    /// The success that decides whether a load is sustained: that of validated overwrites where there are any, else that
    /// of all; over the window.
    #[must_use]
    pub fn deciding_success(&self) -> Option<f64> {
        self.validated_overwrite.as_ref().unwrap_or(&self.all).success()
    }
}

fn group(duration: Span, outcome: &Outcome, kind: Option<Kind>) -> Group {
    let share = |part: f64| Instant::ZERO + Span::from_secs_f64(duration.as_secs_f64() * part);
    let in_window = |at: Instant| (share(0.25)..share(0.75)).contains(&at);
    let is_warm = |at: Instant| at >= share(0.25);
    let in_middle = |at: Instant| (share(0.1)..share(0.9)).contains(&at);
    let of_kind = |found: Kind| kind.is_none_or(|wanted| wanted == found);
    let arrivals = || outcome.arrivals.iter().filter(|(_, kind)| of_kind(*kind));
    let records: Vec<&Record> = outcome.records.iter().filter(|record| of_kind(record.kind)).collect();
    let committed = || records.iter().filter(|record| record.end == End::Committed);
    let window = || committed().filter(|record| in_window(record.arrived));
    let warm = || committed().filter(|record| is_warm(record.arrived));
    let warm_committed = warm().count() as u64;
    let window_committed = window().count() as u64;
    let middle = committed().filter(|record| in_middle(record.ended)).map(|record| record.commit_latency());
    let sum = |what: fn(&Record) -> u64| records.iter().map(|record| what(record)).sum::<u64>();
    let mean = |what: fn(&Record) -> Span| {
        records.iter().map(|record| what(record).as_secs_f64()).sum::<f64>() / records.len().max(1) as f64
    };
    Group {
        window_arrived: arrivals().filter(|(at, _)| in_window(*at)).count() as u64,
        window_ended: records.iter().filter(|record| in_window(record.arrived)).count() as u64,
        window_committed,
        throughput_per_s: window_committed as f64 / (duration.as_secs_f64() / 2.0),
        latency: latency(window().map(|record| record.commit_latency()).collect()),
        retries_mean: average(window().map(|record| f64::from(record.retries))),
        warm_ended: records.iter().filter(|record| is_warm(record.arrived)).count() as u64,
        warm_committed,
        warm_throughput_per_s: warm_committed as f64 / (duration.as_secs_f64() * 0.75),
        warm_latency_mean_s: average(warm().map(|record| record.commit_latency().as_secs_f64())),
        run_arrived: arrivals().count() as u64,
        run_ended: records.len() as u64,
        run_committed: committed().count() as u64,
        run_validation_failed: sum(|record| u64::from(record.end == End::ValidationFailed)),
        middle_latency_mean_s: average(middle.map(Span::as_secs_f64)),
        catalog_conflicts: sum(|record| u64::from(record.catalog_conflicts)),
        table_conflicts: sum(|record| u64::from(record.table_conflicts)),
        append_conflicts: sum(|record| u64::from(record.append_conflicts)),
        history_reads: sum(|record| record.history_reads),
        spent: SpentMeans {
            catalog_reads_s: mean(|record| record.spent.catalog_reads),
            prepare_s: mean(|record| record.spent.prepare),
            conflict_reads_s: mean(|record| record.spent.conflict_reads),
            install_s: mean(|record| record.spent.install),
            backoff_s: mean(|record| record.spent.backoff),
        },
    }
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

fn latency(mut spans: Vec<Span>) -> Option<Latency> {
    let mean_s = average(spans.iter().map(|span| span.as_secs_f64()))?;
    spans.sort_unstable();
    Some(Latency {
        mean_s,
        p50_s: percentile(&spans, 0.50),
        p95_s: percentile(&spans, 0.95),
        p99_s: percentile(&spans, 0.99),
    })
}

/// Of sorted spans, in seconds; linear between the two nearest ranks. There must be at least one.
fn percentile(sorted: &[Span], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place as usize], sorted[(place.ceil()) as usize]);
    below.as_secs_f64() + (above.as_secs_f64() - below.as_secs_f64()) * place.fract()
}
