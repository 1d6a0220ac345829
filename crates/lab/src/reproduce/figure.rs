//! The published figures as data.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A figure of the published texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Unique.
    pub id: String,
    /// Its place in the texts.
    pub source: String,
    /// The experiment it comes from.
    pub experiment: String,
    /// The coordinates of the point it is about.
    pub point: BTreeMap<String, toml::Value>,
    /// Its metric, with the unit in the name.
    pub metric: String,
    /// The metric that it seems to show instead, if the texts contradict themselves. It is not judged by this; the page
    /// only gives our value.
    pub perhaps: Option<String>,
    /// The figure, if it is a number.
    pub published: Option<f64>,
    /// The lower bound, if it is a range.
    pub published_low: Option<f64>,
    /// The upper bound, if it is a range.
    pub published_high: Option<f64>,
    /// One unit of its last printed digit, if the figure has so few digits that rounding matters: 0.01 for "0.11 s",
    /// which stands for 0.105 to 0.115.
    pub last_digit: Option<f64>,
    /// The spread printed beside it.
    pub published_spread: Option<f64>,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// A note on the tolerance.
    pub tolerance_note: Option<String>,
    /// The words of the text.
    pub quote: String,
    /// Reasons to doubt it.
    pub note: Option<String>,
}

/// A tolerance: the noise between seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tolerance {
    /// 1.5 points of success.
    Success,
    /// 5 % of a mean or of P50 or P95.
    Latency,
    /// 10 % of P99 or of a latency of validated overwrites.
    Tail,
    /// 5 % of a count.
    Count,
    /// The same load of the grid.
    Knee,
    /// Between the bounds.
    Range,
    /// Words such as "about": 5 points of success, or 25 %.
    Loose,
}

/// The published figures cannot be read: a mistake in a file that comes with Glidepath.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {cause}")]
pub struct FigureError {
    file: &'static str,
    cause: toml::de::Error,
}

const FILES: [(&str, &str); 2] = [
    ("figures-part2.toml", include_str!("../../../../experiments/published/figures-part2.toml")),
    ("figures-part3.toml", include_str!("../../../../experiments/published/figures-part3.toml")),
];

/// All published figures, in the order of the texts.
///
/// # Errors
/// A file that comes with Glidepath is invalid.
pub fn figures() -> Result<Vec<Figure>, FigureError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        figure: Vec<Figure>,
    }
    let mut figures = Vec::new();
    for (file, text) in FILES {
        let parsed: File = toml::from_str(text).map_err(|cause| FigureError { file, cause })?;
        figures.extend(parsed.figure);
    }
    Ok(figures)
}

impl Figure {
    /// Whether a value of ours is within the tolerance. `load` is the grid load at which our knee lies.
    #[must_use]
    pub fn accepts(&self, ours: f64, load: Option<&str>) -> bool {
        let points = self.metric.ends_with("_percent") || self.metric.ends_with("_points");
        let near = |share: f64| self.published.is_some_and(|published| (ours - published).abs() <= share * published);
        let near_points = |most: f64| self.published.is_some_and(|published| (ours - published).abs() <= most);
        match self.tolerance {
            Tolerance::Success => near_points(1.5),
            Tolerance::Latency | Tolerance::Count => near(0.05),
            Tolerance::Tail => near(0.10),
            Tolerance::Knee => match (self.knee_load(), load) {
                (Some(published), Some(ours)) => published == ours,
                // A ratio of knees is as coarse as the grid.
                _ => near(0.25),
            },
            Tolerance::Range => {
                self.published_low.is_none_or(|low| ours >= low) && self.published_high.is_none_or(|high| ours <= high)
            }
            Tolerance::Loose if points => near_points(5.0),
            Tolerance::Loose => near(0.25),
        }
    }

    /// Whether a value of ours is within the tolerance of some value that is printed with the same digits.
    #[must_use]
    pub fn accepts_as_printed(&self, ours: f64) -> bool {
        let (Some(published), Some(last_digit)) = (self.published, self.last_digit) else { return false };
        let nearest = ours.clamp(published - last_digit / 2.0, published + last_digit / 2.0);
        let share = match self.tolerance {
            Tolerance::Latency | Tolerance::Count => 0.05,
            Tolerance::Tail => 0.10,
            Tolerance::Success | Tolerance::Knee | Tolerance::Range | Tolerance::Loose => return false,
        };
        (ours - nearest).abs() <= share * nearest
    }

    /// Whether the figure is about a point with these coordinates.
    #[must_use]
    pub fn is_about(&self, coordinates: &[(String, String)]) -> bool {
        let is = |value: &toml::Value, found: &str| match value {
            toml::Value::String(text) => text == found,
            other => other.to_string() == found,
        };
        let has = |key: &str, value| coordinates.iter().any(|(known, found)| known == key && is(value, found));
        self.point.iter().all(|(key, value)| has(key, value))
    }

    /// The grid load of a published knee.
    #[must_use]
    pub fn knee_load(&self) -> Option<&str> {
        let note = self.tolerance_note.as_deref()?;
        let (_, load) = note.split_once("the grid load of ")?;
        load.split_whitespace().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Overrides};
    use crate::reproduce::EXPERIMENTS;
    use crate::reproduce::measure::known_metric;

    #[test]
    fn digits_that_were_not_printed_are_not_held_against_ours() {
        let mut figure =
            figures().unwrap().into_iter().find(|figure| figure.id == "4c/s3-express/1-table/fa0.9/knee-fa-latency");
        let figure = figure.as_mut().unwrap();
        assert_eq!((figure.published, figure.last_digit), (Some(0.11), Some(0.01)));
        // 5 % of 0.11 reach to 0.1155; of 0.115, the most that is printed so, to 0.12075.
        assert!(figure.accepts(0.1154, None) && !figure.accepts(0.1156, None));
        assert!(figure.accepts_as_printed(0.1207) && !figure.accepts_as_printed(0.1208));
        assert!(figure.accepts_as_printed(0.0998) && !figure.accepts_as_printed(0.0997));
        figure.last_digit = None;
        assert!(!figure.accepts_as_printed(0.1156));
    }

    #[test]
    fn every_figure_can_be_judged() {
        let experiments: BTreeMap<_, _> =
            EXPERIMENTS.iter().map(|name| (*name, Experiment::load(name, &Overrides::default()).unwrap())).collect();
        let figures = figures().unwrap();
        assert!(figures.len() > 500);
        for figure in &figures {
            let experiment = &experiments[figure.experiment.as_str()];
            let matching = experiment.points.iter().filter(|point| figure.is_about(&point.coordinates));
            let expected = if figure.point.contains_key("arrivals.scale") { 1 } else { 10 };
            assert_eq!(matching.count(), expected, "{}", figure.id);
            for metric in std::iter::once(&figure.metric).chain(&figure.perhaps) {
                assert!(known_metric(metric), "{}: {metric}", figure.id);
            }
            assert!(figure.published.is_some() || figure.tolerance == Tolerance::Range, "{}", figure.id);
        }
        let ids: std::collections::BTreeSet<_> = figures.iter().map(|figure| &figure.id).collect();
        assert_eq!(ids.len(), figures.len());
    }
}
