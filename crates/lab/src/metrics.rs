//! The numbers of a run, from which tables, pictures and knees are made.
//!
//! Three views of the same transactions, as in the published work. Tables and knees take the *window*: transactions
//! that arrived in the middle half of the duration (minutes 15 to 45 of an hour) and ended within the run, which goes
//! on for them where `run_on` says so. The published heat maps take the success of the *whole run*, and the latency of
//! the commits of its *middle* 80 %. The knees of part 3 take the *warm* run: all that arrived after its first quarter
//! and ended within it. Those that arrive after the duration are not counted.

mod latency;
mod settled;

use std::ops::Range;

use glidepath_model::{Instant, Span};
use glidepath_point::{Config, Point, SimulatedRun, part, window};
use glidepath_workload::{Burst, End, Kind, Record, Spent};
use serde::{Deserialize, Serialize};

use crate::interval::{self, BATCHES, Interval, Part};

/// Tables whose conflicts are counted separately; others are in the totals only.
pub const RANKS: usize = 50;

/// Parts of the run in which commits are counted.
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
    /// Commits in each sixtieth of the duration (each minute of an hour).
    pub commits_over_time: Vec<u64>,
    /// Whether the run had not settled when its window began, because transactions took too long to end.
    #[serde(default)]
    pub unsettled: bool,
    /// Events that the engine processed.
    pub events: u64,
    /// The most transactions alive at one time.
    pub most_alive: u64,
}

/// The numbers of all transactions of one kind.
#[derive(Clone, Default, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Transactions that arrived in the window.
    pub window_arrived: u64,
    /// Of these, those that ended within the run.
    pub window_ended: u64,
    /// Of these, those that committed.
    pub window_committed: u64,
    /// Commits that landed in the window, whenever their transactions arrived.
    #[serde(default)]
    pub window_landed: u64,
    /// Of those that arrived in a burst in the window, those that ended within the run.
    #[serde(default)]
    pub burst_ended: u64,
    /// Of these, those that committed.
    #[serde(default)]
    pub burst_committed: u64,
    /// Whether the throughput counts commits by when they landed. Otherwise it counts transactions by when they
    /// arrived.
    #[serde(default, alias = "goes_on")]
    pub counts_landed: bool,
    /// The length of the window, in seconds.
    #[serde(default)]
    pub window_s: f64,
    /// Commits that landed in the window, per second of it. If runs do not continue, as in the published runs:
    /// transactions that arrived in the window and committed within the run.
    pub throughput_per_s: f64,
    /// The 95 % interval of the success; absent if unknown.
    #[serde(default)]
    pub success_interval: Option<Interval>,
    /// The 95 % interval of the throughput; absent if unknown.
    #[serde(default)]
    pub throughput_interval_per_s: Option<Interval>,
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
    /// Of those that ended, those with a real conflict.
    pub run_validation_failed: u64,
    /// Mean commit latency of the commits in the middle 80 % of the run.
    pub middle_latency_mean_s: Option<f64>,
    /// Over all transactions that ended: attempts to change the catalog.
    #[serde(default)]
    pub attempts: u64,
    /// Over all transactions that ended: attempts that the store refused.
    #[serde(default)]
    pub refused: u64,
    /// Over all transactions that ended: catalog conflicts.
    pub catalog_conflicts: u64,
    /// Over all transactions that ended: table conflicts.
    pub table_conflicts: u64,
    /// Over all transactions that ended: failed last attempts of transactions that gave up, whose kind of conflict is
    /// unknown.
    #[serde(default)]
    pub unseen_conflicts: u64,
    /// Over all transactions that ended: appends to manifest lists that lost to another one.
    pub append_conflicts: u64,
    /// Over all transactions that ended: history reads.
    pub history_reads: u64,
    /// Mean time per transaction that ended, between the end of its work and its own end, by what it was spent on.
    pub spent: SpentMeans,
}

/// Commit latencies in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct Latency {
    pub mean_s: f64,
    pub p50_s: f64,
    pub p95_s: f64,
    pub p99_s: f64,
    /// The 95 % interval of the 99th percentile; absent if unknown.
    #[serde(default)]
    pub p99_interval_s: Option<Interval>,
}

/// Mean seconds per transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct SpentMeans {
    pub catalog_reads_s: f64,
    pub prepare_s: f64,
    pub conflict_reads_s: f64,
    pub install_s: f64,
    pub backoff_s: f64,
}

/// The counts of one table, over all transactions that ended and whose first table it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct Rank {
    pub ended: u64,
    pub committed: u64,
    pub catalog_conflicts: u64,
    pub table_conflicts: u64,
    #[serde(default)]
    pub unseen_conflicts: u64,
}

impl Group {
    /// The share of the window's transactions that committed, of those that ended; absent where none ended.
    #[must_use]
    pub fn success(&self) -> Option<f64> {
        ratio(self.window_committed, self.window_ended)
    }

    /// Transactions that arrived, per second of the window.
    #[must_use]
    pub fn arrived_per_s(&self) -> f64 {
        self.window_arrived as f64 / self.window_s.max(f64::MIN_POSITIVE)
    }

    /// The same of those that arrived in bursts; absent where none ended.
    #[must_use]
    pub fn burst_success(&self) -> Option<f64> {
        ratio(self.burst_committed, self.burst_ended)
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

    /// The share of the window's transactions that had not ended when the run did: those that the published work leaves
    /// out, and those that `run_on` does not cover.
    #[must_use]
    pub fn not_ended(&self) -> Option<f64> {
        ratio(self.window_arrived.saturating_sub(self.window_ended), self.window_arrived)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Metrics {
    /// The numbers of a run of this point.
    #[must_use]
    pub fn of(point: &Point, outcome: &SimulatedRun) -> Self {
        Self::counted(point, outcome, Cohort::Arrived)
    }

    /// The same for the transactions whose work ended in the window, which judge a load.
    pub(crate) fn judged(point: &Point, outcome: &SimulatedRun) -> Self {
        Self::counted(point, outcome, Cohort::Worked)
    }

    fn counted(point: &Point, outcome: &SimulatedRun, cohort: Cohort) -> Self {
        let duration = point.config.duration;
        let fast_append = point.config.transaction.fast_append;
        let [mut all, mut fast_appends, mut overwrites] = [(); 3].map(|()| Tally::new(&point.config, cohort));
        for (at, kind) in &outcome.arrivals {
            all.arrive(*at);
            of_kind(*kind, &mut fast_appends, &mut overwrites).arrive(*at);
        }
        for open in &outcome.open {
            all.stay(open.work_done);
            of_kind(open.kind, &mut fast_appends, &mut overwrites).stay(open.work_done);
        }
        let mut ranks = vec![Rank::default(); (point.config.tables.count as usize).min(RANKS)];
        let mut commits_over_time = vec![0; STRETCHES];
        for record in &outcome.records {
            all.end(record);
            of_kind(record.kind, &mut fast_appends, &mut overwrites).end(record);
            if record.end == End::Committed && record.ended <= Instant::ZERO + duration {
                let share = record.ended.as_nanos() as f64 / duration.as_nanos() as f64;
                commits_over_time[((share * STRETCHES as f64) as usize).min(STRETCHES - 1)] += 1;
            }
            if let Some(rank) = ranks.get_mut(record.table.0 as usize) {
                rank.ended += 1;
                rank.committed += u64::from(record.end == End::Committed);
                rank.catalog_conflicts += u64::from(record.catalog_conflicts);
                rank.table_conflicts += u64::from(record.table_conflicts);
                rank.unseen_conflicts += u64::from(record.unseen_conflicts);
            }
        }
        Self {
            all: all.group(),
            fast_append: (fast_append > 0.0).then(|| fast_appends.group()),
            validated_overwrite: (fast_append < 1.0).then(|| overwrites.group()),
            ranks,
            commits_over_time,
            unsettled: !settled::is_settled(point, outcome),
            events: outcome.counts.events,
            most_alive: outcome.counts.most_alive,
        }
    }

    /// The deciding success over the window: that of validated overwrites if there are any, otherwise that of all.
    #[must_use]
    pub fn deciding_success(&self) -> Option<f64> {
        self.validated_overwrite.as_ref().unwrap_or(&self.all).success()
    }
}

fn of_kind<'a>(kind: Kind, fast_appends: &'a mut Tally, overwrites: &'a mut Tally) -> &'a mut Tally {
    match kind {
        Kind::FastAppend => fast_appends,
        Kind::ValidatedOverwrite => overwrites,
    }
}

/// Which transactions belong to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cohort {
    /// Those that arrived in it.
    Arrived,
    /// Those whose work ended in it.
    Worked,
}

/// A group while it is counted: in one pass, because the records of a busy hour do not fit the caches.
struct Tally {
    duration: Span,
    cohort: Cohort,
    /// Whether commits count where they land.
    lands: bool,
    burst: Option<Burst>,
    in_window: Range<Instant>,
    in_middle: Range<Instant>,
    /// All counts are made in place.
    group: Group,
    batches: Vec<Batch>,
    retries: Average,
    warm: Average,
    middle: Average,
    spent: [f64; 5],
}

/// Counts of the transactions that arrived in a stretch of the window.
#[derive(Clone, Default)]
struct Batch {
    ended: u64,
    /// Commits that landed in it.
    landed: u64,
    /// Latencies of those that committed.
    latencies: Vec<Span>,
}

/// The stretches of a window that differ only at random: with bursts, from burst to burst.
fn batches(config: &Config) -> usize {
    let bursts = config.arrivals.burst.map(|burst| burst.count_in(config.duration.half()).round());
    bursts.map_or(BATCHES, |count| count.max(1.0) as usize)
}

impl Tally {
    fn new(config: &Config, cohort: Cohort) -> Self {
        let duration = config.duration;
        Self {
            duration,
            cohort,
            lands: cohort == Cohort::Worked || config.run_on > Span::ZERO,
            burst: config.arrivals.burst,
            in_window: window(duration),
            in_middle: part(duration, 0.1..0.9),
            group: Group::default(),
            batches: vec![Batch::default(); batches(config)],
            retries: Average::default(),
            warm: Average::default(),
            middle: Average::default(),
            spent: [0.0; 5],
        }
    }

    fn arrive(&mut self, at: Instant) {
        self.group.run_arrived += 1;
        self.group.window_arrived += u64::from(self.cohort == Cohort::Arrived && self.in_window.contains(&at));
    }

    /// One that had not ended when the run did.
    fn stay(&mut self, work_done: Instant) {
        self.group.window_arrived += u64::from(self.cohort == Cohort::Worked && self.in_window.contains(&work_done));
    }

    /// The time that decides whether a transaction belongs to the window.
    fn placed(&self, record: &Record) -> Instant {
        match self.cohort {
            Cohort::Arrived => record.arrived,
            Cohort::Worked => record.work_done,
        }
    }

    fn end(&mut self, record: &Record) {
        let placed = self.placed(record);
        let in_window = self.in_window.contains(&placed);
        let is_warm = record.arrived >= self.in_window.start;
        let in_middle = self.in_middle.contains(&record.ended);
        let committed = record.end == End::Committed;
        let group = &mut self.group;
        group.run_ended += 1;
        group.window_ended += u64::from(in_window);
        group.warm_ended += u64::from(is_warm);
        group.run_committed += u64::from(committed);
        group.window_committed += u64::from(committed && in_window);
        group.warm_committed += u64::from(committed && is_warm);
        if committed && self.in_window.contains(&record.ended) {
            self.group.window_landed += 1;
            self.batch(record.ended).landed += 1;
        }
        if in_window {
            self.group.window_arrived += u64::from(self.cohort == Cohort::Worked);
            let batch = self.batch(placed);
            batch.ended += 1;
            if committed {
                batch.latencies.push(record.commit_latency());
            }
        }
        let group = &mut self.group;
        if in_window && self.burst.is_some_and(|burst| burst.is_on(record.arrived)) {
            group.burst_ended += 1;
            group.burst_committed += u64::from(committed);
        }
        group.run_validation_failed += u64::from(record.end == End::ValidationFailed);
        group.attempts += u64::from(record.attempts);
        group.refused += u64::from(record.refused);
        group.catalog_conflicts += u64::from(record.catalog_conflicts);
        group.table_conflicts += u64::from(record.table_conflicts);
        group.unseen_conflicts += u64::from(record.unseen_conflicts);
        group.append_conflicts += u64::from(record.append_conflicts);
        group.history_reads += record.history_reads;
        let Spent { catalog_reads, prepare, conflict_reads, install, backoff } = record.spent;
        for (sum, span) in self.spent.iter_mut().zip([catalog_reads, prepare, conflict_reads, install, backoff]) {
            *sum += span.as_secs_f64();
        }
        if !committed {
            return;
        }
        let latency = record.commit_latency();
        if in_window {
            self.retries.add(f64::from(record.retries));
        }
        if is_warm {
            self.warm.add(latency.as_secs_f64());
        }
        if in_middle {
            self.middle.add(latency.as_secs_f64());
        }
    }

    fn batch(&mut self, at: Instant) -> &mut Batch {
        let (window, last) = (&self.in_window, self.batches.len() - 1);
        let share = at.since(window.start).as_nanos() as f64 / window.end.since(window.start).as_nanos() as f64;
        &mut self.batches[((share * (last + 1) as f64) as usize).min(last)]
    }

    fn group(self) -> Group {
        let Self { duration, lands, group, batches, retries, warm, middle, spent, .. } = self;
        let batch_s = duration.as_secs_f64() / 2.0 / batches.len() as f64;
        let parts: Vec<Part> =
            batches.iter().map(|batch| Part { of: batch.ended, counted: batch.latencies.len() as u64 }).collect();
        let landed = |batch: &Batch| if lands { batch.landed } else { batch.latencies.len() as u64 };
        let rates: Vec<f64> = batches.iter().map(|batch| landed(batch) as f64 / batch_s).collect();
        let commits = if lands { group.window_landed } else { group.window_committed };
        let mean = |sum: f64| sum / group.run_ended.max(1) as f64;
        let [catalog_reads_s, prepare_s, conflict_reads_s, install_s, backoff_s] = spent.map(mean);
        Group {
            counts_landed: lands,
            window_s: duration.as_secs_f64() / 2.0,
            throughput_per_s: commits as f64 / (duration.as_secs_f64() / 2.0),
            success_interval: interval::share(&parts),
            // Without transactions there is no interval.
            throughput_interval_per_s: interval::rate(&rates).filter(|_| group.window_arrived > 0),
            latency: latency::of(&batches),
            retries_mean: retries.mean(),
            warm_throughput_per_s: group.warm_committed as f64 / (duration.as_secs_f64() * 0.75),
            warm_latency_mean_s: warm.mean(),
            middle_latency_mean_s: middle.mean(),
            spent: SpentMeans { catalog_reads_s, prepare_s, conflict_reads_s, install_s, backoff_s },
            ..group
        }
    }
}

#[derive(Default)]
struct Average {
    count: u64,
    sum: f64,
}

impl Average {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}
