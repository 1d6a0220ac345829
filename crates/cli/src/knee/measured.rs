//! The uncertainty of a knee, in words, if the profile of its store is a measurement.

use glidepath_lab::knee::{Bound, MeasuredKnee};
use glidepath_point::Point;
use glidepath_sim::OperationProfile;

use super::Found;
use super::report::rate;
use crate::origin::ago;

/// The beginning of the source of an operation that was not measured.
const NOT_MEASURED: &str = "not measured; ";

/// A paragraph; `None` if there is no interval, and neither an assumption nor a date to name.
pub(super) fn text(point: &Point, found: &Found) -> Option<String> {
    let is_found = found.answer.knee.bound == Bound::Found;
    let stand_ins = stand_ins(point);
    let sure = match stand_ins.is_empty() {
        true => is_found.then(|| covered(point, found)),
        false => Some(assumed(&stand_ins, is_found)),
    };
    let parts: Vec<String> = sure.into_iter().chain(age(point, is_found)).collect();
    (!parts.is_empty()).then(|| parts.join("\n      "))
}

/// What the interval of a knee covers, if all operations were measured.
fn covered(point: &Point, found: &Found) -> String {
    let measured = point.profile.measured.as_ref();
    match found.measurement.as_ref() {
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
    }
}

/// When the store was measured.
fn age(point: &Point, is_found: bool) -> Option<String> {
    let date = &point.profile.measured.as_ref()?.date;
    let ago = ago(date).map_or_else(String::new, |ago| format!(" ({ago})"));
    let result = if is_found { "interval" } else { "result" };
    Some(format!(
        "The store was measured on {date}{ago}. How much stores change from day to day is not known; the {result} does \
         not cover it."
    ))
}

/// The operations of a profile that were not measured: those of a conditional put stand in for them. (`measure` writes
/// so as their source.)
pub(super) fn stand_ins(point: &Point) -> Vec<&'static str> {
    let operations = [("get", &point.profile.get), ("put", &point.profile.put)];
    let stands_in = |operation: &&(&str, &OperationProfile)| operation.1.source.starts_with(NOT_MEASURED);
    operations.iter().filter(stands_in).map(|(name, _)| *name).collect()
}

fn assumed(stand_ins: &[&str], is_found: bool) -> String {
    let (these, were) = (stand_ins.join(" and "), if stand_ins.len() == 1 { "was" } else { "were" });
    let covers = match is_found {
        true => {
            "The interval covers the simulation only, not this assumption;\n      the knee of the store may be far \
             outside."
        }
        false => "With the true latencies,\n      the result may be far from this one, lower as well as higher.",
    };
    format!(
        "The result depends on an assumption: {these} {were} not measured, and the profile takes the latency of \
         conditional_put for {these}. {covers} Measure all operations: `glidepath measure` without --operations."
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
