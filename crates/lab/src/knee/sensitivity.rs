//! Which assumption affects the answer most? Each is varied alone, down and up if both are possible, by the typical
//! error of a guess; and the knee is searched again.
//!
//! A change (`change`) is a decision; an assumption is a belief about the workload or the store. The answer states the
//! amounts. They are judgements, not measurements: twice or half for guesses (runtimes, bursts), a quarter more or less
//! for values measured elsewhere (latencies).

use std::cmp::Ordering;

use glidepath_model::{ByteSize, Span};
use glidepath_point::{Config, Point};
use glidepath_sim::{Distribution, EffectPoint, OperationProfile, Profile};
use glidepath_workload::{Choice, Distribution as Times, Shape, Transaction};
use serde::Serialize;

use super::KneeError;
use super::factor::Factor;
use super::found::Bound;
use super::outcome::KneeSearch;

/// The effect of one assumption.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assumption {
    /// The assumption in words.
    pub name: String,
    /// Its value for the knee.
    pub assumed: String,
    /// The knee with less of it; absent if it cannot be less, or there is no knee then.
    pub less: Option<Varied>,
    /// The knee with more of it.
    pub more: Option<Varied>,
    /// The larger of the two changes, as a factor of at least 1 up or down, of those where a difference was seen; 1 if
    /// none was seen. Assumptions are ranked by it.
    pub largest_factor: f64,
}

/// The knee with an assumption varied.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Varied {
    /// The other value, in words.
    pub assumed: String,
    /// The knee with it, searched with fewer transactions and a coarser resolution than the knee itself.
    pub knee_commits_per_s: f64,
    /// Whether that is a knee, or a limit of what was tried.
    pub bound: Bound,
    /// Its ratio to the knee.
    #[serde(flatten)]
    pub factor: Factor,
}

/// An assumption, and the points with other values of it.
pub(super) struct Variants {
    name: &'static str,
    assumed: String,
    /// Less and more.
    points: [Option<(String, Point)>; 2],
}

impl Variants {
    /// The variants that exist.
    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().flatten().map(|(_, point)| point)
    }
}

impl Assumption {
    fn of(name: String, assumed: String, less: Option<Varied>, more: Option<Varied>) -> Self {
        let largest_factor = largest([&less, &more], |factor| !factor.no_difference_seen());
        Self { name, assumed, less, more, largest_factor }
    }

    /// The order of rows: the largest effect that was seen first; then those that may be random.
    fn rank(&self, other: &Self) -> Ordering {
        let [a, b] = [self, other].map(|one| (one.largest_factor, largest([&one.less, &one.more], |_| true)));
        b.0.total_cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
    }
}

/// The larger of the changes that count, as a factor of at least 1; 1 if none counts.
fn largest(sides: [&Option<Varied>; 2], counts: impl Fn(Factor) -> bool) -> f64 {
    let factors = sides.into_iter().flatten().map(|varied| varied.factor);
    factors.filter(|factor| counts(*factor)).map(Factor::change).fold(1.0, f64::max)
}

/// The answers, the largest effect that was seen first. `results` are in the order of the points.
pub(super) fn ranked(
    assumptions: Vec<Variants>,
    without: &KneeSearch,
    results: Vec<Result<KneeSearch, KneeError>>,
) -> Vec<Assumption> {
    let mut results = results.into_iter();
    let mut varied = |point: Option<(String, Point)>| {
        let (assumed, with) = (point?.0, results.next()?.ok()?);
        let factor = Factor::of(without, &with);
        let varied = Varied { assumed, knee_commits_per_s: with.commits_per_s, bound: with.bound, factor };
        (with.commits_per_s > 0.0).then_some(varied)
    };
    let answer = |Variants { name, assumed, points: [less, more] }: Variants| {
        let (less, more) = (varied(less), varied(more));
        Assumption::of(name.to_owned(), assumed, less, more)
    };
    let mut answers: Vec<Assumption> = assumptions.into_iter().map(answer).collect();
    answers.retain(|answer| answer.less.is_some() || answer.more.is_some());
    answers.sort_by(Assumption::rank);
    answers
}

/// All assumptions of a point that can be varied.
pub(super) fn assumptions(point: &Point) -> Vec<Variants> {
    let mut list = List { point, variants: Vec::new() };
    list.work();
    list.arrivals();
    list.tables();
    list.store();
    list.variants
}

/// What the assumptions about a time that transactions work are called.
struct Names {
    mean: &'static str,
    median: &'static str,
    tail: &'static str,
}

const OF_ALL: Names = Names {
    mean: "mean runtime of a transaction",
    median: "median runtime of a transaction",
    tail: "tail of runtimes (sigma)",
};

const OF_APPENDS: Names = Names {
    mean: "mean runtime of a fast append",
    median: "median runtime of a fast append",
    tail: "tail of runtimes of fast appends (sigma)",
};

const OF_OVERWRITES: Names = Names {
    mean: "mean runtime of a validated overwrite",
    median: "median runtime of a validated overwrite",
    tail: "tail of runtimes of validated overwrites (sigma)",
};

/// Collects assumptions of one point.
struct List<'a> {
    point: &'a Point,
    variants: Vec<Variants>,
}

type Vary<'a> = &'a dyn Fn(&mut Config, &mut Profile);

impl List<'_> {
    fn work(&mut self) {
        let transaction = self.point.config.transaction;
        match transaction.overwrite_runtime {
            None => self.runtime(&OF_ALL, transaction.runtime, |transaction| Some(&mut transaction.runtime)),
            Some(runtime) => {
                if transaction.fast_append > 0.0 {
                    self.runtime(&OF_APPENDS, transaction.runtime, |transaction| Some(&mut transaction.runtime));
                }
                if transaction.fast_append < 1.0 {
                    self.runtime(&OF_OVERWRITES, runtime, |transaction| transaction.overwrite_runtime.as_mut());
                }
            }
        }
        let shares = [-0.1, 0.0, 0.1].map(|more| round(transaction.fast_append + more).clamp(0.0, 1.0));
        self.scaled("share of fast appends", shares, |config, _, share| config.transaction.fast_append = share);
        if transaction.fast_append < 1.0 {
            let real = transaction.real_conflicts;
            let reals = [real / 2.0, real, if real > 0.0 { (2.0 * real).min(1.0) } else { 0.02 }];
            let name = "share of real conflicts";
            self.scaled(name, reals, |config, _, share| config.transaction.real_conflicts = share);
        }
    }

    /// The scale and the tail of the time that transactions work.
    fn runtime(&mut self, names: &Names, runtime: Times, of: fn(&mut Transaction) -> Option<&mut Times>) {
        let name = if runtime.kind == Shape::Lognormal { names.median } else { names.mean };
        let scale = |factor: f64| Span::from_secs_f64(runtime.scale.as_secs_f64() * factor);
        self.scaled(name, [0.5, 1.0, 2.0].map(scale), |config, _, span| {
            of(&mut config.transaction).into_iter().for_each(|runtime| runtime.scale = span);
        });
        if matches!(runtime.kind, Shape::Lognormal | Shape::LognormalMean) {
            let sigmas = [-0.5, 0.0, 0.5].map(|more| (runtime.sigma + more).max(0.0));
            self.scaled(names.tail, sigmas, |config, _, sigma| {
                of(&mut config.transaction).into_iter().for_each(|runtime| runtime.sigma = sigma);
            });
        }
    }

    fn arrivals(&mut self) {
        let arrivals = self.point.config.arrivals;
        if let Some(burst) = arrivals.burst {
            let factors = [(burst.factor / 2.0).max(1.0), burst.factor, burst.factor * 2.0];
            self.scaled("size of bursts (factor)", factors, |config, _, factor| {
                config.arrivals.burst = Some(glidepath_workload::Burst { factor, ..burst });
            });
            let lasts =
                [burst.lasts.half(), burst.lasts, Span::from_nanos(burst.lasts.as_nanos() * 2).min(burst.every)];
            self.scaled("length of bursts", lasts, |config, _, lasts| {
                config.arrivals.burst = Some(glidepath_workload::Burst { lasts, ..burst });
            });
        }
        if arrivals.kind == Shape::Exponential {
            let even: Vary<'_> = &|config, _| config.arrivals.kind = Shape::Fixed;
            // A coefficient of variation of 2: sigma is the root of ln 5.
            let uneven: Vary<'_> = &|config, _| {
                (config.arrivals.kind, config.arrivals.sigma) = (Shape::LognormalMean, 1.269);
            };
            let varied =
                [Some(("at even times".to_owned(), even)), Some(("lognormal, varying by 2".to_owned(), uneven))];
            self.add("irregularity of arrivals", "exponential, varying by 1".to_owned(), varied);
        }
    }

    fn tables(&mut self) {
        let tables = self.point.config.tables;
        let exponent = match tables.choice {
            Choice::Uniform => 0.0,
            Choice::Zipf(exponent) => exponent,
        };
        if tables.count > 1 {
            let name = "skew of tables (exponent of Zipf)";
            self.scaled(name, [(exponent - 0.5).max(0.0), exponent, exponent + 0.5], |config, _, exponent| {
                config.tables.choice = if exponent > 0.0 { Choice::Zipf(exponent) } else { Choice::Uniform };
            });
        }
        let name = "size of table metadata, lists and manifests";
        self.scaled(name, ["a quarter", "as it is", "four times"], |config, _, size| {
            let tables = &mut config.tables;
            for field in [&mut tables.metadata_size, &mut tables.manifest_list_size, &mut tables.manifest_file_size] {
                let bytes = field.as_bytes();
                *field = ByteSize::from_bytes(if size == "a quarter" { bytes / 4 } else { bytes * 4 });
            }
        });
    }

    fn store(&mut self) {
        let percent = |factor: f64| format!("{:.0} %", 100.0 * factor);
        let slower = |factor: f64| {
            move |_: &mut Config, profile: &mut Profile| {
                each_operation(profile, &|operation| scale(operation, factor));
            }
        };
        let (fast, slow) = (slower(0.8), slower(1.25));
        let varied: [Option<(String, Vary<'_>)>; 2] = [Some((percent(0.8), &fast)), Some((percent(1.25), &slow))];
        self.add("latency of the store", percent(1.0), varied);
        let tail = |factor: f64| {
            move |_: &mut Config, profile: &mut Profile| {
                each_operation(profile, &|operation| stretch(operation, factor));
            }
        };
        let (short, long) = (tail(2.0 / 3.0), tail(1.5));
        let varied: [Option<(String, Vary<'_>)>; 2] = [Some((percent(2.0 / 3.0), &short)), Some((percent(1.5), &long))];
        self.add("tail of latencies (sigma)", percent(1.0), varied);
        if let Some(latency) = self.point.config.catalog.latency {
            let of = |factor: f64| Span::from_secs_f64(latency.as_secs_f64() * factor);
            self.scaled("latency of the catalog", [0.5, 1.0, 2.0].map(of), |config, _, latency| {
                config.catalog.latency = Some(latency);
            });
        }
        self.effect();
    }

    /// When, within its round trip, a write takes effect.
    fn effect(&mut self) {
        let (half, end): (Vary<'_>, Vary<'_>) =
            (&|config, _| config.catalog.effect = EffectPoint::Half, &|config, _| {
                config.catalog.effect = EffectPoint::End
            });
        let early: Vary<'_> = &|_, profile| {
            each_operation(profile, &|operation| {
                operation.effect_after = operation.effect_after.map(Span::half).or(Some(Span::ZERO));
            });
        };
        let (half, end) = (Some(("half-way".to_owned(), half)), Some(("with its answer".to_owned(), end)));
        let (assumed, varied) = match self.point.config.catalog.effect {
            _ if !self.point.profile.conditional_put.contended.is_empty() => {
                ("as the profile has it", [Some(("in half that time, or at once".to_owned(), early)), None])
            }
            EffectPoint::Half => ("half-way", [None, end]),
            EffectPoint::HalfOfPut => ("half-way, at least of a put", [half, end]),
            EffectPoint::End => ("with its answer", [half, None]),
        };
        self.add("when a write takes effect (catalog.effect)", assumed.to_owned(), varied);
    }

    /// Adds an assumption with a value: less, as configured, more. Variants equal to the configured value are left out.
    fn scaled<V: PartialEq + Clone + ToString>(
        &mut self,
        name: &'static str,
        [less, assumed, more]: [V; 3],
        set: impl Fn(&mut Config, &mut Profile, V),
    ) {
        let vary = |value: V| {
            let set = &set;
            move |config: &mut Config, profile: &mut Profile| set(config, profile, value.clone())
        };
        let (set_less, set_more) = (vary(less.clone()), vary(more.clone()));
        let varied = |value: &V, set| (*value != assumed).then(|| (value.to_string(), set));
        self.add(name, assumed.to_string(), [varied(&less, &set_less as Vary<'_>), varied(&more, &set_more)]);
    }

    fn add(&mut self, name: &'static str, assumed: String, varied: [Option<(String, Vary<'_>)>; 2]) {
        let points = varied.map(|varied| {
            let (words, vary) = varied?;
            let Point { mut config, mut profile, .. } = self.point.clone();
            vary(&mut config, &mut profile);
            Some((words, self.point.with_tables_on(config, profile).ok().filter(|point| point != self.point)?))
        });
        if points.iter().any(Option::is_some) {
            self.variants.push(Variants { name, assumed, points });
        }
    }
}

/// Rounds away the error of a sum of decimals.
fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

fn each_operation(profile: &mut Profile, change: &dyn Fn(&mut OperationProfile)) {
    let Profile { get, put, conditional_put, append, .. } = profile;
    [get, put, conditional_put].into_iter().chain(append.as_mut()).for_each(change);
}

fn each_distribution(operation: &mut OperationProfile, change: &dyn Fn(&mut Distribution)) {
    for knot in &mut operation.contended {
        std::iter::once(&mut knot.success).chain(knot.failure.as_mut()).for_each(change);
    }
}

/// Multiplies all latencies of an operation.
fn scale(operation: &mut OperationProfile, factor: f64) {
    let longer = |span: &mut Span| *span = Span::from_secs_f64(span.as_secs_f64() * factor);
    [&mut operation.median, &mut operation.per_mib, &mut operation.floor].into_iter().for_each(longer);
    operation.effect_after.iter_mut().for_each(longer);
    operation.contended.iter_mut().for_each(|knot| longer(&mut knot.hold));
    each_distribution(operation, &|distribution| {
        longer(&mut distribution.floor);
        distribution.mixture.iter_mut().for_each(|component| longer(&mut component.median));
        distribution.quantiles.iter_mut().for_each(|(_, latency)| longer(latency));
    });
}

/// Multiplies the deviation of the logarithm of an operation's latency; medians stay.
fn stretch(operation: &mut OperationProfile, factor: f64) {
    operation.sigma *= factor;
    each_distribution(operation, &|distribution| {
        distribution.mixture.iter_mut().for_each(|component| component.sigma *= factor);
        let median = distribution.quantile_ns(0.5);
        for (_, latency) in &mut distribution.quantiles {
            *latency = Span::from_nanos_f64(median * (latency.as_nanos() as f64 / median).powf(factor));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_random_ranks_below_what_was_seen() {
        let side =
            |factor| Some(Varied { assumed: String::new(), knee_commits_per_s: 1.0, bound: Bound::Found, factor });
        let of = |name: &str, less, more| Assumption::of(name.to_owned(), String::new(), less, more);
        let found = |value, low, high| side(Factor::Found { value, interval: Some([low, high]) });
        let mut ranked = [
            of("unknown", side(Factor::Unknown), side(Factor::AtLeast(0.5))),
            of("nearly none", found(1.01, 0.9, 1.1), None),
            of("random", found(0.6, 0.3, 1.2), None),
            of("small", found(0.9, 0.85, 0.95), None),
            of("seen on one side", found(0.5, 0.2, 1.3), found(1.2, 1.1, 1.3)),
            of("a bound", None, side(Factor::AtLeast(3.0))),
        ];
        ranked.sort_by(Assumption::rank);
        let names = ranked.each_ref().map(|one| one.name.as_str());
        assert_eq!(names, ["a bound", "seen on one side", "small", "random", "nearly none", "unknown"]);
        assert_eq!(ranked[1].largest_factor, 1.2);
        assert_eq!(ranked[3].largest_factor, 1.0);
    }
}
