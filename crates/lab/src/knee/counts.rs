//! What does one run say of the deciding transactions whose work ended in its window?
//!
//! Where a commit must land within a time, one that has not by then counts as failed, also if it lands later or is
//! still open. So each is decided within that time.

use glidepath_model::{Instant, Span};
use glidepath_point::{Point, SimulatedRun, window};
use glidepath_workload::{Burst, End, Kind};

use super::crossing::{Cluster, Decided};
use super::trial::Rule;
use super::unseen::Worked;

/// A deciding transaction whose work ended in the window.
struct Deciding {
    arrived: Instant,
    work_done: Instant,
    /// From the end of the work until the decision, or the end of the run.
    wait: Span,
    /// Whether it committed; `None` while it is open.
    committed: Option<bool>,
}

/// What a run says.
pub(super) struct Counts {
    /// The outcomes in each part of the window, and the commits that landed in it.
    pub(super) clusters: Vec<Cluster>,
    /// Of those that are decided: the times from the end of the work, sorted.
    pub(super) waits: Vec<Span>,
    /// The same transactions, in order.
    pub(super) worked: Vec<Worked>,
}

impl Counts {
    /// The counts of a run of this point.
    pub(super) fn of(point: &Point, rule: &Rule, outcome: &SimulatedRun) -> Self {
        let deciding = deciding(point, rule, outcome);
        let decided = |one: &Deciding| {
            let committed = one.committed?;
            Some((one.wait, Worked { work: one.work_done.since(one.arrived), committed }))
        };
        let (mut waits, worked): (Vec<Span>, Vec<Worked>) = deciding.iter().filter_map(decided).unzip();
        waits.sort_unstable();
        Self { clusters: clusters(point, rule, outcome, &deciding), waits, worked }
    }

    /// Deciding transactions that failed.
    pub(super) fn failed(&self) -> u64 {
        self.clusters.iter().flat_map(|cluster| &cluster.parts).map(|part| part.failed()).sum()
    }
}

fn decides(point: &Point, kind: Kind) -> bool {
    !point.overwrites_decide() || kind == Kind::ValidatedOverwrite
}

/// Those that have ended, and those that have not.
fn deciding(point: &Point, rule: &Rule, outcome: &SimulatedRun) -> Vec<Deciding> {
    let window = window(point.config.duration);
    let within = |wait: Span| rule.commit_within.is_none_or(|most| wait <= most);
    let at_most = |wait: Span| rule.commit_within.map_or(wait, |most| wait.min(most));
    let ended = outcome.records.iter().filter(|record| decides(point, record.kind)).map(|record| {
        let (work_done, wait) = (record.work_done, record.commit_latency());
        let committed = Some(record.end == End::Committed && within(wait));
        Deciding { arrived: record.arrived, work_done, wait: at_most(wait), committed }
    });
    let open = outcome.open.iter().filter(|open| decides(point, open.kind)).map(|open| {
        let wait = outcome.ended.since(open.work_done);
        let committed = (!within(wait)).then_some(false);
        Deciding { arrived: open.arrived, work_done: open.work_done, wait: at_most(wait), committed }
    });
    ended.chain(open).filter(|one| window.contains(&one.work_done)).collect()
}

/// The outcomes in each part of the window. If the worst part of a cycle decides, a transaction belongs to the part in
/// which it arrived.
fn clusters(point: &Point, rule: &Rule, outcome: &SimulatedRun, deciding: &[Deciding]) -> Vec<Cluster> {
    let (count, config) = (rule.clusters, &point.config);
    let window = window(config.duration);
    let length = window.end.since(window.start).as_nanos().max(1) as f64;
    let stretch = config.arrivals.burst.zip(rule.worst);
    let parts = stretch.map_or(1, |(burst, worst)| burst.every.as_nanos().div_ceil(worst.as_nanos().max(1)) as usize);
    let one = Cluster { parts: vec![Decided::default(); parts], commits: 0 };
    let mut clusters = vec![one; count];
    let place = |at: Instant| {
        let share = at.since(window.start).as_nanos() as f64 / length;
        ((share * count as f64) as usize).min(count - 1)
    };
    let part = |arrived: Instant| {
        let part = |(burst, worst): (Burst, Span)| burst.phase(arrived).as_nanos() / worst.as_nanos().max(1);
        stretch.map_or(0, part) as usize
    };
    for record in &outcome.records {
        if record.end == End::Committed && window.contains(&record.ended) {
            clusters[place(record.ended)].commits += 1;
        }
    }
    for one in deciding {
        let part = &mut clusters[place(one.work_done)].parts[part(one.arrived)];
        match one.committed {
            Some(committed) => {
                part.ended += 1;
                part.committed += u64::from(committed);
            }
            None => part.open += 1,
        }
    }
    clusters
}
