//! The uncertainty of a knee, in words, if the profile of its store is a measurement.

use glidepath_lab::knee::{Bound, MeasuredKnee};
use glidepath_point::Point;
use glidepath_sim::OperationProfile;

use super::Found;
use super::report::rate;
use crate::origin::ago;

/// The beginning of the source of an operation that was not measured.
const NOT_MEASURED: &str = "not measured; ";

/// A paragraph; `None` if there is no interval.
pub(super) fn text(point: &Point, found: &Found) -> Option<String> {
    if found.answer.knee.bound != Bound::Found {
        return None;
    }
    let measured = point.profile.measured.as_ref();
    let stand_ins = stand_ins(point);
    let sure = match found.measurement.as_ref().filter(|_| stand_ins.is_empty()) {
        None if !stand_ins.is_empty() => assumed(&stand_ins),
        Some(measurement) => interval(measurement),
        None if measured.is_some_and(|measured| measured.alternatives.is_some()) => {
            format!(
                "The uncertainty of the profile is not known: too few of its alternatives have a knee within this \
                 --budget ({}). The interval covers the simulation only.",
                found.more()
            )
        }
        None => format!(
            "The interval covers the simulation only: the profile of {} does not include the uncertainty of its \
             numbers.",
            point.config.provider
        ),
    };
    let age = measured.map_or_else(String::new, |measured| {
        let ago = ago(&measured.date).map_or_else(String::new, |ago| format!(" ({ago})"));
        format!(
            "\n      The store was measured on {}{ago}. How much stores change from day to day is not known; the \
             interval does not cover it.",
            measured.date
        )
    });
    Some(format!("{sure}{age}"))
}

/// The operations of a profile that were not measured: those of a conditional put stand in for them. (`measure` writes
/// so as their source.)
pub(super) fn stand_ins(point: &Point) -> Vec<&'static str> {
    let operations = [("get", &point.profile.get), ("put", &point.profile.put)];
    let stands_in = |operation: &&(&str, &OperationProfile)| operation.1.source.starts_with(NOT_MEASURED);
    operations.iter().filter(stands_in).map(|(name, _)| *name).collect()
}

fn assumed(stand_ins: &[&str]) -> String {
    let (these, were) = (stand_ins.join(" and "), if stand_ins.len() == 1 { "was" } else { "were" });
    format!(
        "The result depends on an assumption: {these} {were} not measured, and the profile takes the latency of \
         conditional_put for {these}. The interval covers the simulation only, not this assumption;\n      the knee of \
         the store may be far outside. Measure all operations: `glidepath measure` without --operations."
    )
}

fn interval(found: &MeasuredKnee) -> String {
    let [low, high] = found.interval_commits_per_s.map(rate);
    let shares = found.made_of;
    let mut parts = [
        ("sampling of the measurement", shares.sampling),
        ("effect time", shares.effect_time),
        ("simulation", shares.simulation),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> = parts.iter().map(|(what, share)| format!("{what} {:.0} %", 100.0 * share)).collect();
    let effect = found.effect_time_commits_per_s.map_or_else(String::new, |[low, high]| {
        format!(
            " With the earliest and the latest effect time that the measurement allows: {} to {}.",
            rate(low),
            rate(high)
        )
    });
    format!(
        "With the measurement of the store: {low} to {high} commits/s with 95 % confidence: {} (variance \
         shares).\n      From {} other profiles that the measurement allows.{effect}",
        parts.join(", "),
        found.drawn,
    )
}
