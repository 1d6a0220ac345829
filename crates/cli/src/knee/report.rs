//! The text of a knee: a few lines, then two tables.

use glidepath_lab::knee::{
    self, Assumption, Bound, Ceiling, Factor, KindAtKnee, Knee, Reason, SearchEnd, Varied, WhatIf,
};
use glidepath_model::Span;
use glidepath_point::Point;

use super::{Found, MOST_BUDGET, limit};
use crate::output::{NONE, interval, share_percent, table};
use crate::setting;

/// The whole answer.
pub(super) fn text(preset: &str, point: &Point, found: &Found) -> String {
    let answer = &found.answer;
    let mut parts = vec![setting(preset, point, &found.set), verdict(found, point)];
    parts.extend(super::measured::text(point, found));
    parts.push(kinds(&answer.knee));
    parts.extend(answer.bottleneck.as_ref().map(|bottleneck| limit::text(point, bottleneck, found)));
    if !answer.what_ifs.is_empty() {
        parts.push(what_ifs(&answer.what_ifs));
    }
    parts.extend(undecided(found));
    if !answer.sensitivity.is_empty() {
        parts.push(sensitivity(&answer.sensitivity));
    }
    parts.extend(nothing_told(found));
    parts.join("\n\n")
}

/// The question.
pub(super) fn setting(preset: &str, point: &Point, set: &[String]) -> String {
    let [place, catalog, kinds, protocol] =
        [setting::place, setting::catalog, setting::kinds, setting::protocol].map(|part| part(point));
    format!("{place}, {catalog}, {kinds} ({protocol}, preset {preset}{})", setting::with(set))
}

/// The knee with its interval.
pub(super) fn verdict(found: &Found, point: &Point) -> String {
    let knee = &found.answer.knee;
    let Knee { knee_commits_per_s, offered_per_s, threshold, success, deciding_transactions, .. } = knee;
    let deciding = if knee.validated_overwrite.is_some() { "validated overwrites" } else { "transactions" };
    let threshold = 100.0 * threshold;
    let succeed = knee.commit_within_s.map_or_else(|| "succeed".to_owned(), |most| format!("land within {most} s"));
    let judged = format!("Judged by {deciding_transactions} {deciding} in {}", runs(knee));
    let rate = rate(*knee_commits_per_s);
    let first = match knee.bound {
        Bound::Found => {
            let interval = knee.knee_interval_commits_per_s.map_or_else(
                || " (too few runs for an interval)".to_owned(),
                |[low, high]| format!(" ({} to {} with 95 % confidence)", self::rate(low), self::rate(high)),
            );
            format!(
                "Knee: {rate} commits/s{interval}. At the highest load that held, {} offered per second, {} % of {deciding} {succeed} \
                 (required: at least {threshold} %{}).\n      {judged}{}.",
                self::rate(*offered_per_s),
                share_percent(*success),
                worst_words(knee),
                knee.burst_success.filter(|_| knee.commit_within_s.is_none()).map_or_else(String::new, |share| {
                    format!("; of the transactions that arrive in bursts, {:.1} % succeed", 100.0 * share)
                }),
            )
        }
        Bound::AllHold => format!(
            "Knee: at least {rate} commits/s, where {} % of {deciding} still {succeed}. {}{}\n      {judged}.",
            share_percent(*success),
            ceiling_words(point, knee),
            waiting_words(knee)
        ),
        Bound::Unfinished => {
            let chance = match knee.success_interval {
                Some([low, high]) if low < knee.threshold && knee.worst_success.is_none() => format!(
                    " ({} to {} with 95 % confidence: it may be by chance)",
                    share_percent(low),
                    share_percent(high)
                ),
                _ => String::new(),
            };
            format!(
                "Knee: above {rate} commits/s, where {} % of {deciding}{chance} still {succeed}. {}\n      \
             {judged}.",
                share_percent(*success),
                match knee.stopped.map(|stopped| stopped.reason) {
                    Some(Reason::RunsTooShort) =>
                        "At higher loads transactions take longer to end than the runs last: give a longer --duration.",
                    _ => "A larger --budget may find it.",
                }
            ) + waiting_words(knee)
        }
        Bound::NothingHolds => format!(
            "No knee: even at {} offered per second, only {} % of {deciding} {succeed} \
             (required: {threshold} %).\n         {judged}.",
            self::rate(*offered_per_s),
            share_percent(*success)
        ),
    };
    let stopped = knee.stopped.as_ref().map(|stopped| format!("\n      {}.", stopped_words(stopped, found)));
    first + &stopped.unwrap_or_default()
}

/// What the worst stretch did, if it was asked for.
fn worst_words(knee: &Knee) -> String {
    match (knee.worst_success, knee.worst_stretch_s) {
        (Some(worst), _) => format!(" in the worst stretch between two bursts: {:.1} % there", 100.0 * worst),
        (None, Some(seconds)) => format!(
            ", of the whole cycle from burst to burst: no stretch of {} has enough of them to be judged",
            Span::from_secs_f64(seconds)
        ),
        (None, None) => String::new(),
    }
}

/// What ended a search in which every load held, and what makes room for higher ones.
fn ceiling_words(point: &Point, knee: &Knee) -> String {
    let offered = self::rate(knee.offered_per_s);
    match knee::ceiling(point) {
        Ceiling::Floor(floor) => format!(
            "{offered} offered per second is the highest load that the search tries, because no two arrivals are nearer than \
             {floor}: a shorter one (--set arrivals.floor=...) raises it."
        ),
        Ceiling::Arrivals { most, run } => format!(
            "{offered} offered per second is the highest load that the search tries: {most:.0} arrivals in a run of {:.0} \
             min, for memory. Runs are as long as the work of transactions requires, but at least 5 min: if that of yours \
             is shorter than {} (--set transaction.runtime.scale=...), the search tries more. \
             `glidepath simulate --inter-arrival` simulates any one load.",
            run.as_secs_f64() / 60.0,
            point.config.transaction.runtime.scale,
        ),
    }
}

/// Where nothing fails, however high the load is.
fn waiting_words(knee: &Knee) -> &'static str {
    match knee.commit_within_s {
        None if knee.success >= 1.0 => {
            " If nothing fails at any load, because commits wait, --commit-within 10s counts those that wait longer as failed."
        }
        _ => "",
    }
}

fn runs(knee: &Knee) -> String {
    let minutes = knee.run_duration_s / 60.0;
    match knee.runs {
        1 => format!("one run of {minutes:.0} min"),
        runs => format!("{runs} runs of {minutes:.0} min each"),
    }
}

/// Why the search ended, and how wide the interval is.
fn stopped_words(stopped: &SearchEnd, found: &Found) -> String {
    let percent = |share: f64| format!("±{:.1} %", 100.0 * share);
    let asked = percent(stopped.within);
    let interval = stopped.half_width.map(|half| {
        // An interval cut off at zero can be wider than its knee: a percentage above 100 would say too little.
        let width = if half < 1.0 { percent(half) } else { "wider than the knee itself".to_owned() };
        format!("the interval is {width}, {asked} was requested")
    });
    let reason = match stopped.reason {
        Reason::NarrowEnough => "narrow enough",
        Reason::BudgetSpent => "budget spent",
        Reason::SeedsGiven => "all given seeds used",
        Reason::MostRuns => "the most runs per load reached",
        Reason::RunsTooShort => "runs are too short for higher loads",
    };
    let more = stopped.budget_factor.filter(|factor| *factor > 1.0).map(|factor| {
        let seconds = (factor * found.budget.as_secs_f64()).ceil();
        match seconds <= MOST_BUDGET.as_secs_f64() {
            true => format!("; for that --budget {seconds}s probably suffices"),
            false => "; for that the largest --budget, 24h, would not suffice".to_owned(),
        }
    });
    format!(
        "Stopped: {reason}{}{}",
        interval.map_or_else(String::new, |text| format!("; {text}")),
        more.unwrap_or_default()
    )
}

fn kinds(knee: &Knee) -> String {
    // Of all that committed, in time or not.
    let success = if knee.commit_within_s.is_some() { "committed %" } else { "success %" };
    let load = format!("at {} offered/s", rate(knee.offered_per_s));
    let header = [&*load, "commits/s", success, "mean", "P50", "P95", "P99", "retries", "not ended %"];
    let kinds = [
        ("all", Some(&knee.all)),
        ("fast appends", knee.fast_append.as_ref()),
        ("validated overwrites", knee.validated_overwrite.as_ref()),
    ];
    let mixed = knee.fast_append.is_some() && knee.validated_overwrite.is_some();
    let row = |(name, kind): (&str, Option<&KindAtKnee>)| {
        let kind = kind?;
        let percent = |share: Option<f64>| number(share, share_percent);
        let mut row = vec![name.to_owned(), rate(kind.commits_per_s), percent(kind.success)];
        row.extend(
            [kind.latency_mean_s, kind.latency_p50_s, kind.latency_p95_s, kind.latency_p99_s]
                .map(|latency| number(latency, time)),
        );
        row.extend([number(kind.retries_mean, |mean| format!("{mean:.2}")), percent(kind.not_ended)]);
        Some(row)
    };
    let kinds = || kinds.into_iter().skip(usize::from(!mixed));
    let numbers = table(&header.map(str::to_owned), 1, kinds().filter_map(row).collect());
    let bounds = ["with 95 % confidence", "commits/s", success, "P99"];
    let bounds_row = |(name, kind): (&str, Option<&KindAtKnee>)| {
        let kind = kind?;
        Some(vec![
            name.to_owned(),
            interval(kind.commits_interval_per_s, rate),
            interval(kind.success_interval, share_percent),
            interval(kind.latency_p99_interval_s, time),
        ])
    };
    let bounds = table(&bounds.map(str::to_owned), 1, kinds().filter_map(bounds_row).collect());
    let some = match (knee.kept_runs, knee.runs) {
        (kept, runs) if kept < runs => format!("\nBoth tables are of {kept} of the {runs} runs that judged this load."),
        _ => String::new(),
    };
    format!("{numbers}\n\n{bounds}{some}")
}

/// Changes without a result.
pub(super) fn undecided(found: &Found) -> Option<String> {
    let words = found.answer.undecided.join("; ");
    let undecided =
        format!("Whether these changes would help is not known within this --budget ({}): {words}.", found.more());
    (!found.answer.undecided.is_empty()).then_some(undecided)
}

/// Why a ratio to this knee is no more than a bound; `None` if the knee was found.
pub(super) fn nothing_to_compare_with(knee: &Knee) -> Option<&'static str> {
    match (knee.bound, knee.stopped.map(|stopped| stopped.reason)) {
        (Bound::Found | Bound::NothingHolds, _) => None,
        (Bound::AllHold, _) => Some("the highest load that the search tries still holds"),
        (Bound::Unfinished, Some(Reason::RunsTooShort)) => {
            Some("the search for the knee itself has not ended: give a longer --duration")
        }
        (Bound::Unfinished, _) => Some("the search for the knee itself has not ended: a larger --budget may end it"),
    }
}

/// The words in place of what a search did not tell.
pub(super) const NOT_KNOWN: &str = "not known";

/// The changes with which less than this share of the knee is left are no rows of the table: a cloud store in place of
/// a local disk.
const FAR_LESS: f64 = 0.1;

/// Below a table with lower bounds.
const BOUNDS: &str = "\nRows with > are lower bounds, where the search stopped: the knee there may be any higher one, also than that of the \
                      rows above.";

fn what_ifs(what_ifs: &[WhatIf]) -> String {
    let is_far_less = |what_if: &&WhatIf| what_if.factor.highest().is_some_and(|highest| highest < FAR_LESS);
    let (far_less, rest): (Vec<&WhatIf>, Vec<&WhatIf>) = what_ifs.iter().partition(is_far_less);
    let row = |what_if: &WhatIf| {
        let seen = if what_if.factor.no_difference_seen() { ": no difference seen" } else { "" };
        let interval = interval(what_if.factor.interval(), factor) + seen;
        vec![what_if.change.clone(), with_bound(what_if.factor), changed_rate(what_if), interval]
    };
    let header = ["with this change", "factor", "commits/s", "95 % interval of the factor"].map(str::to_owned);
    let bounds = if rest.iter().any(|what_if| what_if.bound.is_lower()) { BOUNDS } else { "" };
    let rows = match rest.is_empty() {
        true => String::new(),
        false => table(&header, 1, rest.into_iter().map(row).collect()) + bounds,
    };
    let far_less: Vec<String> =
        far_less.iter().map(|what_if| format!("{} {}", what_if.change, with_bound(what_if.factor))).collect();
    match far_less.is_empty() {
        true => rows,
        false => format!(
            "{rows}{gap}Less than a tenth is left with: {0}.",
            far_less.join(", "),
            gap = if rows.is_empty() { "" } else { "\n" }
        ),
    }
}

/// The sentence if the effect of no assumption is known: each has a bound only, or no result.
pub(super) fn nothing_told(found: &Found) -> Option<String> {
    let varied = || found.answer.sensitivity.iter().flat_map(|one| [&one.less, &one.more]).flatten();
    let nothing = varied().next().is_some() && varied().all(|varied| varied.factor.leaves_direction_open());
    nothing.then(|| match nothing_to_compare_with(&found.answer.knee) {
        Some(why) => format!("Which assumption matters is {NOT_KNOWN}, because {why}."),
        None => format!(
            "This --budget was too small to find which assumption matters: all results are lower bounds below the \
             knee itself ({}).",
            found.more()
        ),
    })
}

/// The assumptions, the largest effect that was seen first.
fn sensitivity(assumptions: &[Assumption]) -> String {
    let header = ["assumptions, most important first", "assumed", "less", "knee", "more", "knee"];
    let rows = assumptions.iter().map(|assumption| {
        let side = |varied: Option<&Varied>| {
            let of = |varied: &Varied| [varied.assumed.clone(), effect(varied)];
            varied.map_or_else(|| [NONE, NONE].map(str::to_owned), of)
        };
        let [less, its_effect] = side(assumption.less.as_ref());
        let [more, effect_of_more] = side(assumption.more.as_ref());
        vec![assumption.name.clone(), assumption.assumed.clone(), less, its_effect, more, effect_of_more]
    });
    table(&header.map(str::to_owned), 1, rows.collect())
}

/// A factor with its interval.
pub(super) fn effect(varied: &Varied) -> String {
    let interval =
        varied.factor.interval().map(|ends| format!(" ({})", interval(Some(ends), factor))).unwrap_or_default();
    let seen = if varied.factor.no_difference_seen() { ", no difference seen" } else { "" };
    format!("{}{interval}{seen}", with_bound(varied.factor))
}

/// A factor, with a sign if it is a bound.
pub(super) fn with_bound(ratio: Factor) -> String {
    match ratio {
        Factor::Found { value, .. } => format!("x{}", factor(value)),
        Factor::AtLeast(value) => format!("> x{}", factor(value)),
        Factor::AtMost(value) => format!("< x{}", factor(value)),
        Factor::Unknown => NOT_KNOWN.to_owned(),
    }
}

/// The knee with a change, with a sign if it is a lower bound.
pub(super) fn changed_rate(what_if: &WhatIf) -> String {
    let bound = if what_if.bound.is_lower() { "> " } else { "" };
    format!("{bound}{}", rate(what_if.knee_commits_per_s))
}

fn number(value: Option<f64>, format: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), format)
}

/// A factor with two decimal places, or two digits if it is small.
pub(super) fn factor(value: f64) -> String {
    match value {
        value if value >= 0.1 || value <= 0.0 => format!("{value:.2}"),
        value if value >= 0.01 => format!("{value:.3}"),
        value => format!("{value:.4}"),
    }
}

/// A rate with about three digits.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate if rate >= 1.0 || rate == 0.0 => format!("{rate:.2}"),
        rate if rate >= 0.1 => format!("{rate:.3}"),
        rate => format!("{rate:.4}"),
    }
}

/// A time with about three digits and its unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 || s <= 0.0 => format!("{:.0} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.0} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what_if(change: &str, bound: Bound, factor: Factor) -> WhatIf {
        WhatIf {
            change: change.to_owned(),
            settings: Vec::new(),
            knee_commits_per_s: 3.0,
            bound,
            factor,
            knee_relative_error: None,
            resolution: None,
            deciding_transactions: 1000,
        }
    }

    #[test]
    fn a_factor_over_a_lower_bound_is_printed_as_an_upper_bound() {
        let text = what_ifs(&[
            what_if("twice", Bound::Found, Factor::Found { value: 2.0, interval: Some([1.9, 2.1]) }),
            what_if("more", Bound::Unfinished, Factor::AtLeast(1.5)),
            what_if("less", Bound::Found, Factor::AtMost(0.5)),
            what_if("gcs", Bound::Found, Factor::AtMost(0.033)),
            what_if("open", Bound::AllHold, Factor::Unknown),
        ]);
        let has_row = |words: &[&str]| text.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
        assert!(has_row(&["twice", "x2.00", "3.00", "1.90", "to", "2.10"]), "{text}");
        assert!(has_row(&["more", ">", "x1.50", ">", "3.00", "-"]), "{text}");
        assert!(has_row(&["less", "<", "x0.50", "3.00", "-"]), "{text}");
        assert!(text.contains("\nRows with > are lower bounds"), "{text}");
        assert!(has_row(&["open", "not", "known", ">", "3.00", "-"]), "{text}");
        assert!(text.ends_with("Less than a tenth is left with: gcs < x0.033."), "{text}");
    }
}
