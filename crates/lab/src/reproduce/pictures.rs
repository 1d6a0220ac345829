//! For each group of experiments, a chart of our figures against the published ones.

use glidepath_picture::{Axis, Chart, LineChart, LineStyle, Panels, Point, Series};

use super::page::Judged;
use super::{Figure, Verdict};

/// Experiments with the same question, drawn together.
pub(super) struct Group {
    /// Its part of the file name.
    pub(super) name: &'static str,
    title: &'static str,
    experiments: &'static [&'static str],
}

/// All groups, in the order of the texts.
pub(super) const GROUPS: [Group; 5] = [
    Group { name: "1", title: "One table, an instant catalog", experiments: &["1a", "1b"] },
    Group { name: "2", title: "One table, a slower catalog", experiments: &["2a", "2b"] },
    Group { name: "4a", title: "Many tables, fast appends, by catalog latency", experiments: &["4a", "4a-zipf"] },
    Group { name: "4b", title: "Many tables, 90 % fast appends, by catalog latency", experiments: &["4b", "4b-zipf"] },
    Group { name: "4c", title: "Many tables on five providers, the catalog as an object", experiments: &["4c"] },
];

/// A panel: figures of one unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    PerCent,
    PerSecond,
    Seconds,
    None,
}

impl Unit {
    const ALL: [Self; 4] = [Self::PerCent, Self::PerSecond, Self::Seconds, Self::None];

    fn of(figure: &Figure) -> Self {
        let metric = &figure.metric;
        match metric {
            _ if metric.ends_with("_percent") || metric.ends_with("_points") => Self::PerCent,
            _ if metric.ends_with("_per_s") => Self::PerSecond,
            _ if metric.ends_with("_s") => Self::Seconds,
            _ => Self::None,
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::PerCent => ("Success and other shares", " (%)"),
            Self::PerSecond => ("Rates", " (1/s)"),
            Self::Seconds => ("Latencies", " (s)"),
            Self::None => ("Ratios and counts", ""),
        }
    }
}

/// The width of a panel, in pixels: two of them are legible on a page of 800.
const PANEL_WIDTH: f64 = 400.0;

/// The verdicts: the name in the legend, and its colour and mark.
const KINDS: [(&str, usize); 3] = [("within the tolerance", 0), ("as printed, or on the edge", 2), ("outside", 1)];

/// The colour of the diagonal.
const DIAGONAL: usize = 6;

fn kind(verdict: &Verdict) -> Option<usize> {
    match verdict {
        Verdict::Within => Some(0),
        Verdict::WithinAsPrinted | Verdict::OnTheEdge { .. } => Some(1),
        Verdict::Outside => Some(2),
        Verdict::Nothing => None,
    }
}

impl Group {
    fn has(&self, figure: &Figure) -> bool {
        self.experiments.contains(&figure.experiment.as_str())
    }

    /// The picture, and what it shows in a sentence or two.
    pub(super) fn picture(&self, judged: &[Judged<'_>]) -> (Chart, String) {
        let mine: Vec<&Judged<'_>> = judged.iter().filter(|(figure, _)| self.has(figure)).collect();
        let drawn = |(figure, judgement): &&Judged<'_>| {
            let point = Point::at(figure.published?, judgement.ours?);
            Some((Unit::of(figure), kind(&judgement.verdict)?, point))
        };
        let points: Vec<(Unit, usize, Point)> = mine.iter().filter_map(drawn).collect();
        let charts = Unit::ALL.into_iter().filter_map(|unit| panel(unit, &points).map(Chart::LineChart)).collect();
        let of = |wanted: &Verdict| mine.iter().filter(|(_, judgement)| judgement.verdict == *wanted).count();
        let (all, within, outside) = (mine.len(), of(&Verdict::Within), of(&Verdict::Outside));
        let words = format!(
            "Experiment{} {}: {within} of {all} figures are within their tolerance, {outside} outside. Drawn are the \
             {} that are one number each; the others are ranges and bounds.",
            if self.experiments.len() == 1 { "" } else { "s" },
            self.experiments.join(" and "),
            points.len()
        );
        let title = format!("{}: ours against the published figures", self.title);
        let panels = Panels { title, columns: 2, charts, one_legend: true, width: Some(PANEL_WIDTH) };
        (Chart::Panels(panels), words)
    }
}

/// The figures of a unit; none if there are none. Shares have a linear axis, all others a logarithmic one.
fn panel(unit: Unit, points: &[(Unit, usize, Point)]) -> Option<LineChart> {
    let logarithmic = unit != Unit::PerCent;
    let shown = |point: &Point| !logarithmic || (point.x > 0.0 && point.y > 0.0);
    let mine: Vec<&(Unit, usize, Point)> = points.iter().filter(|(of, _, point)| *of == unit && shown(point)).collect();
    let ends = mine.iter().flat_map(|(_, _, point)| [point.x, point.y]);
    let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    if low > high {
        return None;
    }
    // Both axes are the same, so that figures on the diagonal are equal.
    let range = if logarithmic { (low / 1.3, high * 1.3) } else { (low.min(0.0), high.max(100.0) + 2.0) };
    let diagonal = Series {
        name: "equal".to_owned(),
        points: vec![Point::at(range.0, range.0), Point::at(range.1, range.1)],
        line: LineStyle::Dotted,
        slot: Some(DIAGONAL),
        ..Series::default()
    };
    // The same in all panels of a picture, so that one legend suffices.
    let there = |kind: &usize| points.iter().any(|(_, of, _)| of == kind);
    let dots = KINDS.iter().enumerate().filter(|(kind, _)| there(kind)).map(|(kind, (name, slot))| Series {
        name: (*name).to_owned(),
        points: mine.iter().filter(|(_, of, _)| *of == kind).map(|(_, _, point)| point.clone()).collect(),
        marks: true,
        line: LineStyle::None,
        slot: Some(*slot),
        ..Series::default()
    });
    let (title, suffix) = unit.words();
    let axis = |what: &str| Axis { label: format!("{what}{suffix}"), logarithmic, range: Some(range), ticks: None };
    Some(LineChart {
        title: title.to_owned(),
        x: axis("Published"),
        y: axis("Ours"),
        series: std::iter::once(diagonal).chain(dots).collect(),
        ..LineChart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{EXPERIMENTS, Judgement, figures};

    #[test]
    fn each_experiment_is_in_one_picture_and_each_number_in_one_panel() {
        for experiment in EXPERIMENTS {
            let groups = GROUPS.iter().filter(|group| group.experiments.contains(&experiment));
            assert_eq!(groups.count(), 1, "{experiment}");
        }
        let figures = figures().unwrap();
        let ours =
            |figure: &Figure| Judgement { ours: figure.published, load: None, verdict: Verdict::Within, perhaps: None };
        let judged: Vec<Judged<'_>> = figures.iter().map(|figure| (figure, ours(figure))).collect();
        let mut dots = 0;
        for group in &GROUPS {
            let (Chart::Panels(panels), words) = group.picture(&judged) else { panic!("no panels") };
            assert!(words.contains(" 0 outside."), "{words}");
            for chart in &panels.charts {
                let Chart::LineChart(chart) = chart else { panic!("{chart:?}") };
                dots += chart.series[1..].iter().map(|series| series.points.len()).sum::<usize>();
                assert!(chart.series.iter().all(|series| series.points.iter().all(|point| point.x == point.y)));
            }
        }
        let drawn = |figure: &&Figure| match Unit::of(figure) {
            Unit::PerCent => figure.published.is_some(),
            _ => figure.published.is_some_and(|number| number > 0.0),
        };
        assert_eq!(dots, figures.iter().filter(drawn).count());
    }
}
