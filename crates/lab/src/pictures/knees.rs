//! How many commits per second are possible, and how does that grow with the number of tables?
//!
//! Two sources of knees: the highest of the loads that an experiment has simulated, and searches. `usable` draws both.

use glidepath_picture::Point;

use super::usable::{Caption, Drawing};
use super::view::{Cell, Slice, View};
use super::words::plain;
use super::{Picture, seeds_words};
use crate::experiment::Experiment;
use crate::knee::{self, Bound};
use crate::summary::{SUSTAINED, knee_on_grid};

/// The highest sustained load among the simulated ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knee<'c, 'a> {
    pub(crate) cell: &'c Cell<'a>,
    /// No higher load was simulated: the true knee may be higher.
    pub(crate) is_the_highest_load: bool,
}

/// The knee of a slice, along the load if that is swept; none if no load is sustained.
pub(crate) fn grid_knee<'c, 'a>(view: &'c View<'a>, slice: &Slice) -> Option<Knee<'c, 'a>> {
    let cells = view.along(slice, view.load());
    let best = knee_on_grid(cells.iter().map(|cell| cell.summary), SUSTAINED)?;
    let cell = *cells.iter().find(|cell| std::ptr::eq(cell.summary, best))?;
    // The time between arrivals grows along the axis.
    let is_the_highest_load = cells.first().is_some_and(|first| first.place == cell.place);
    Some(Knee { cell, is_the_highest_load })
}

/// The note beside a point that may be too low.
const AT_LEAST: &str = "\u{2265}";

const PALE: &str = "Such bars are pale: of two of them either may be the higher one.";

fn on_grid() -> Caption {
    let words = |mark: &str, drawn: &str| {
        format!(
            "Each {mark} is the highest of the loads simulated at which more than 95 % succeed (of the validated \
             overwrites, if there are any): its throughput of all transactions. The knee lies between it and the next \
             load, so smaller differences between {drawn} are not significant; \u{201c}glidepath knees\u{201d} finds \
             the knees themselves. \u{2265}: even the highest load was sustained."
        )
    };
    Caption {
        points: words("point", "lines") + " A missing point: no load was.",
        bars: format!("{} {PALE}", words("bar", "bars")),
    }
}

/// Usable throughput on the loads that were simulated. None unless the load and something else are swept.
pub(super) fn usable_throughput(view: &View<'_>) -> Vec<Picture> {
    let Some(load) = view.load() else { return Vec::new() };
    let knee = |slice: &Slice| {
        let knee = grid_knee(view, slice)?;
        let note = knee.is_the_highest_load.then(|| AT_LEAST.to_owned());
        Some(Point { y: knee.cell.throughput_per_s(), note, ..Point::default() })
    };
    let subtitle = |_: &[&Cell<'_>]| format!("highest load simulated that holds, {}", seeds_words(view.seeds));
    Drawing { view, load: Some(load), knee: &knee, subtitle: &subtitle, caption: on_grid() }.pictures()
}

fn as_searched(preset: &str) -> Caption {
    let words = |mark: &str, intervals: &str| {
        format!(
            "Each {mark} is a knee: the throughput of all transactions at which the required share succeeds (of the \
             validated overwrites, if there are any), found by search. {intervals} \u{2265}: no tried load failed."
        )
    };
    let points = words("point", "Bars: 95 % intervals; a missing bar is narrower than the mark.");
    Caption {
        points: format!("{points} A missing point: no load holds. Preset {preset}."),
        bars: format!("{} {PALE} Preset {preset}.", words("bar", "Thin lines: 95 % intervals.")),
    }
}

/// Usable throughput as it was searched: one knee for each point of an experiment without loads.
pub(crate) fn searched(experiment: &Experiment, knees: &[knee::Knee]) -> Vec<Picture> {
    let view = &View::of(experiment, knees);
    let point = |slice: &Slice| {
        let knee = view.cell(slice, &[])?.summary;
        let note = knee.bound.is_lower().then(|| AT_LEAST.to_owned());
        let spread = knee.knee_interval_commits_per_s.map(<(f64, f64)>::from);
        (knee.bound != Bound::NothingHolds).then(|| Point {
            y: knee.knee_commits_per_s,
            spread,
            note,
            ..Point::default()
        })
    };
    let subtitle = |cells: &[&Cell<'_, knee::Knee>]| {
        let Some(first) = cells.first() else { return String::new() };
        let overwrites = cells.iter().filter(|cell| cell.summary.validated_overwrite.is_some()).count();
        let who = match overwrites {
            0 => "",
            some if some < cells.len() => "of validated overwrites, if any, ",
            _ => "of validated overwrites ",
        };
        let success = first
            .summary
            .commit_within_s
            .map_or_else(|| "succeed".to_owned(), |most| format!("land within {} s", plain(most)));
        format!("{} % {who}{success}", plain(100.0 * first.summary.threshold))
    };
    let caption = as_searched(&experiment.preset);
    Drawing { view, load: None, knee: &point, subtitle: &subtitle, caption }.pictures()
}
