//! How is a profile for simulations made from measurements?

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use glidepath_model::{ByteSize, Span};
use glidepath_sim::{ContendedProfile, Measured, OperationProfile, Profile};

use crate::fit::{Fitted, Latencies, sigma};
use crate::flat::{explained, upper_sigma};
use crate::hold::{FailureRate, MOST_FITS, Rehearsal, fit_holds};
use crate::measurement::{Measurement, Numbers};
use crate::plan::{Operation, Plan};

/// Where measurements come from, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The store's URL, without credentials.
    pub store: String,
    /// The machine that measured: system, processors.
    pub machine: String,
    /// The day, as in 2026-11-21.
    pub date: String,
    /// The measuring program: name and version.
    pub program: String,
}

impl Provenance {
    fn sentence(&self) -> String {
        let Self { store, machine, date, program } = self;
        format!("measured {date} on {store} from {machine}, by {program}")
    }
}

/// For fitting holds, this many times as many trials are simulated as were measured.
pub(crate) const TIMES: u32 = 4;

/// The number of attempts after which a simulated failure rate is certain enough.
pub(crate) const ATTEMPTS: f64 = 24_000.0;

/// The most simulated failure rates for one number of writers: one of a flat profile, then those of
/// [`fit_holds`](crate::hold::fit_holds).
const MOST_SIMULATED: usize = 1 + MOST_FITS;

/// The measurements that a profile is made from.
pub(crate) struct Sorted<'a> {
    /// The measurement used for conditional puts: put-if-match if it was measured, otherwise put-if-absent.
    pub(crate) kind: Operation,
    /// Its measurements.
    pub(crate) guarded: Vec<&'a Measurement>,
    /// The measurements of appends.
    pub(crate) append: Vec<&'a Measurement>,
    get: Vec<(ByteSize, &'a Measurement)>,
    put: Vec<(ByteSize, &'a Measurement)>,
}

impl<'a> Sorted<'a> {
    pub(crate) fn of(measurements: impl Iterator<Item = &'a Measurement> + Clone) -> Self {
        let of = |operation: Operation| {
            let with_successes = |found: &&Measurement| found.operation == operation && !found.success_ms.is_empty();
            measurements.clone().filter(with_successes).collect::<Vec<_>>()
        };
        let sized = |name: fn(ByteSize) -> Operation| {
            let sizes = measurements.clone().filter_map(|found| match found.operation {
                Operation::Get(size) | Operation::Put(size) if found.operation == name(size) => Some((size, found)),
                _ => None,
            });
            sizes.collect()
        };
        let (cas, create) = (of(Operation::Cas), of(Operation::Create));
        let kind = if cas.is_empty() { Operation::Create } else { Operation::Cas };
        let guarded = if cas.is_empty() { create } else { cas };
        Self { kind, guarded, append: of(Operation::Append), get: sized(Operation::Get), put: sized(Operation::Put) }
    }

    /// The profile without holds, with distributions made by this function. `None` if no guarded put was measured.
    pub(crate) fn profile(
        &self,
        provenance: &Provenance,
        latency_includes_read: bool,
        latencies: &dyn Fn(&Measurement) -> Latencies,
    ) -> Option<Profile> {
        let conditional_put = guarded_operation(&self.guarded, provenance, latencies)?;
        let stand_in = |what: &str| OperationProfile {
            contended: Vec::new(),
            effect_after: None,
            source: format!("not measured; that of conditional_put stands in for {what}"),
            ..conditional_put.clone()
        };
        Some(Profile {
            title: format!("{}, as measured {}", provenance.store, provenance.date),
            source: provenance.sentence(),
            get: unguarded(&self.get, provenance).unwrap_or_else(|| stand_in("get")),
            put: unguarded(&self.put, provenance).unwrap_or_else(|| stand_in("put")),
            append: guarded_operation(&self.append, provenance, latencies),
            conditional_put,
            latency_includes_read,
            catalogs_only: false,
            rate_cap: None,
            measured: Some(Measured { date: provenance.date.clone(), alternatives: None }),
        })
    }

    /// The guarded operations, each with its measurements.
    pub(crate) fn contended(&self) -> [(Operation, &[&'a Measurement]); 2] {
        [(self.kind, &self.guarded), (Operation::Append, &self.append)]
    }
}

/// Whether [`profile`] makes a profile of these.
#[must_use]
pub fn has_profile(measurements: &[Measurement]) -> bool {
    !Sorted::of(measurements.iter()).guarded.is_empty()
}

/// The profile of a store measured by this plan. Needs put-if-match or put-if-absent with one writer (otherwise
/// `None`); it stands in for other operations that were not measured, and their `source` says so.
/// `latency_includes_read` comes from the site.
///
/// `progress` gets the number of simulated failure rates, and the most that are necessary. If `stop` is set meanwhile,
/// the profile means nothing.
#[must_use]
pub fn profile(
    fitted: &[Fitted<'_>],
    (provenance, latency_includes_read): (&Provenance, bool),
    plan: &Plan,
    stop: &AtomicBool,
    progress: &dyn Fn(usize, usize),
) -> Option<Profile> {
    let sorted = Sorted::of(fitted.iter().map(|fitted| fitted.measurement));
    let latencies = |found: &Measurement| {
        let of = fitted.iter().find(|fitted| std::ptr::eq(fitted.measurement, found));
        of.map_or_else(|| Latencies::quantiles(found), Fitted::chosen)
    };
    let mut profile = sorted.profile(provenance, latency_includes_read, &latencies)?;
    let contended =
        sorted.contended().into_iter().flat_map(|(_, found)| found).filter(|found| found.writers > 1).count();
    let (done, most) = (Cell::new(0), contended * MOST_SIMULATED);
    let told = || {
        done.set(done.get() + 1);
        progress(done.get(), most);
    };
    let rehearsal = Rehearsal::of(plan, TIMES, ATTEMPTS, stop).watched(&told);
    for (operation, found) in sorted.contended() {
        match explained(&profile, operation, found, &rehearsal) {
            Some(flat) if operation == Operation::Append => profile.append = Some(flat),
            Some(flat) => profile.conditional_put = flat,
            None => fit_holds(&mut profile, operation, &failure_rates(found), &rehearsal),
        }
    }
    assume_size_rates(&mut profile, plan);
    Some(profile)
}

/// The largest guarded object that takes no noticeable part of its latency for its size.
const SMALL_BODY: ByteSize = ByteSize::from_bytes(16 << 10);

/// Guarded writes are measured with one size only: for each MiB they are assumed to take what unguarded writes take, as
/// in the profiles of June 2025. Not if the measured size is large: then its latency has that time already.
pub(crate) fn assume_size_rates(profile: &mut Profile, plan: &Plan) {
    let rate = profile.put.per_mib;
    if rate == Span::ZERO || plan.body > SMALL_BODY {
        return;
    }
    for guarded in [Some(&mut profile.conditional_put), profile.append.as_mut()].into_iter().flatten() {
        guarded.per_mib = rate;
        guarded.source.push_str("; per_mib is that of put (assumed)");
    }
}

pub(crate) fn failure_rates(found: &[&Measurement]) -> Vec<FailureRate> {
    found.iter().map(|found| FailureRate::of(found)).collect()
}

/// A guarded operation.
fn guarded_operation(
    found: &[&Measurement],
    provenance: &Provenance,
    latencies: &dyn Fn(&Measurement) -> Latencies,
) -> Option<OperationProfile> {
    let first = found.first()?;
    let (median, sigma, floor) = flat(&first.success_ms)?;
    let knot = |found: &&Measurement| {
        let Latencies { success, failure } = latencies(found);
        Some(ContendedProfile { writers: found.writers, hold: Span::ZERO, success: success?, failure })
    };
    let name = first.operation.name();
    let (count, writers) = (found.iter().map(|found| found.attempts()).sum::<usize>(), first.writers);
    Some(OperationProfile {
        median,
        sigma,
        floor,
        per_mib: Span::ZERO,
        source: format!(
            "{}: {name}, {count} attempts. median, sigma and floor are a lognormal for the fewest writers ({writers}); \
             contended has the distributions, and holds fitted to the failure rates",
            provenance.sentence()
        ),
        contended: found.iter().filter_map(knot).collect(),
        effect_after: None,
        effect_share: None,
    })
}

/// Median, sigma of the logarithm and least.
pub(crate) fn flat(sorted: &[f64]) -> Option<(Span, f64, Span)> {
    let numbers = Numbers::of(sorted)?;
    Some((millis(numbers.median), (sigma(sorted).min(5.0) * 1e4).round() / 1e4, millis(sorted[0])))
}

fn millis(millis: f64) -> Span {
    Span::from_nanos_f64((millis * 1e3).round() * 1e3)
}

/// Reads or writes of several sizes: a line through their medians, base + per MiB x size (least squares).
fn unguarded(found: &[(ByteSize, &Measurement)], provenance: &Provenance) -> Option<OperationProfile> {
    let medians: Vec<(f64, f64)> = found
        .iter()
        .filter_map(|(size, found)| Some((size.as_mib_f64(), Numbers::of(&found.success_ms)?.median)))
        .collect();
    let (base, per_mib) = line(&medians)?;
    let (_, smallest) = found.iter().find(|(_, found)| !found.success_ms.is_empty())?;
    let (_, _, floor) = flat(&smallest.success_ms)?;
    // Faster ones may have been cut off at the floor, as the simulated ones are.
    let sigma = upper_sigma(&smallest.success_ms)?;
    let sizes: Vec<String> = found.iter().map(|(size, _)| size.to_string()).collect();
    Some(OperationProfile {
        median: millis(base.max(0.001)),
        per_mib: millis(per_mib.max(0.0)),
        sigma,
        floor,
        source: format!("{}: one writer, objects of {}", provenance.sentence(), sizes.join(", ")),
        contended: Vec::new(),
        effect_after: None,
        effect_share: None,
    })
}

/// The line through these points: value at 0, and slope. A single point has slope 0.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|(x, _)| x).sum::<f64>() / count, points.iter().map(|(_, y)| y).sum::<f64>() / count);
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread.max(f64::MIN_POSITIVE);
    (!points.is_empty()).then_some((mean_y - slope * mean_x, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let (base, slope) = line(&[(0.0, 10.0), (1.0, 30.0), (4.0, 90.0)]).unwrap();
        assert!((base - 10.0).abs() < 1e-9 && (slope - 20.0).abs() < 1e-9);
        assert_eq!(line(&[(2.0, 7.0)]), Some((7.0, 0.0)));
        assert_eq!(line(&[]), None);
    }
}
