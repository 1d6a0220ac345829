//! Which pictures does an experiment have? That depends on what was swept.
//!
//! [`plan`] decides what is drawn: it works for any experiment, and gives fewer pictures if less was swept or there are
//! fewer results. [`draw`] draws it, and [`write()`] writes the drawings, as SVG and as PNG. Start with `view`, the
//! grid of results; each other module makes the pictures of one [`Section`].

mod conflicts;
mod curves;
mod heat;
mod knees;
mod named;
mod offered;
mod overview;
mod spent;
mod timeline;
mod usable;
mod view;
mod words;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use glidepath_picture::{Chart, LineChart, Panels, PictureError, png};
use glidepath_run::parallel;

use crate::experiment::Experiment;
use crate::summary::RunSummary;

pub(crate) use knees::{Knee, grid_knee};
pub(crate) use view::{Axis, Cell, Slice, View, Who};
pub use words::percent;
pub(crate) use words::{LOAD, plain, rounded_percent, seconds, significant};

/// Pixels of the PNG per pixel of the SVG.
const PNG_SCALE: f32 = 1.5;

/// A picture before it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The name of its files, without the ending; no two of a plan are the same.
    pub file_stem: String,
    /// Its section.
    pub section: Section,
    /// Its group within the section, such as the provider; empty if it has none.
    pub group: String,
    /// How to read it, in a few sentences.
    pub caption: String,
    /// The chart.
    pub chart: Chart,
}

/// A drawn picture, for its files and for the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The plan.
    pub picture: Picture,
    /// The drawing.
    pub svg: String,
}

/// The sections of a report, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// The highest throughput that is sustained.
    Usable,
    /// Latency against throughput.
    Curves,
    /// Success, throughput and latency along the load, alternatives side by side.
    Overview,
    /// Heat maps of success.
    Success,
    /// Heat maps of latency.
    Latency,
    /// How transactions spend their time.
    Spent,
    /// Conflicts by table.
    Conflicts,
    /// Commits over the time of the run.
    Timeline,
}

/// Why pictures could not be drawn or written.
#[derive(Debug, thiserror::Error)]
pub enum PicturesError {
    /// A file or a folder could not be written.
    #[error("{}: cannot write this file: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A picture could not be drawn.
    #[error("cannot draw {file_stem}: {source}")]
    Drawing {
        /// Which.
        file_stem: String,
        /// Why.
        source: PictureError,
    },
}

impl Section {
    /// Its heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Usable => "Usable throughput",
            Self::Curves => "Latency against throughput",
            Self::Overview => "Comparison",
            Self::Success => "Success",
            Self::Latency => "Commit latency",
            Self::Spent => "Where time goes",
            Self::Conflicts => "Conflicts by table",
            Self::Timeline => "Commits over time",
        }
    }
}

/// The pictures of an experiment, in the order of their sections. `summary` is that of this experiment.
#[must_use]
pub fn plan(experiment: &Experiment, summary: &RunSummary) -> Vec<Picture> {
    let view = &View::new(experiment, summary);
    let mut pictures = [
        knees::usable_throughput(view),
        curves::curves(view),
        overview::overviews(view),
        heat::maps(view),
        spent::times(view),
        conflicts::by_rank(view),
        timeline::timelines(view),
    ]
    .concat();
    // Values may differ only in characters that file names do not have.
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for picture in &mut pictures {
        let count = taken.entry(picture.file_stem.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            picture.file_stem = format!("{}--{count}", picture.file_stem);
        }
    }
    pictures
}

/// The pictures of the knees of an experiment's points; one knee per point, in order.
#[must_use]
pub fn plan_knees(experiment: &Experiment, knees: &[crate::knee::Knee]) -> Vec<Picture> {
    knees::searched(experiment, knees)
}

/// Draws pictures, on all cores.
///
/// # Errors
/// The first that could not be drawn.
pub fn draw(pictures: Vec<Picture>) -> Result<Vec<Drawn>, PicturesError> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let drawings = parallel::map_all(&pictures, threads, |picture| picture.chart.svg());
    let drawn = pictures.into_iter().zip(drawings).map(|(picture, drawing)| match drawing {
        Ok(svg) => Ok(Drawn { picture, svg }),
        Err(source) => Err(PicturesError::Drawing { file_stem: picture.file_stem, source }),
    });
    drawn.collect()
}

/// Writes pictures into a folder (made if it is not there) as `<file_stem>.svg` and `<file_stem>.png`, on all cores.
/// Files of the same names are replaced; others stay.
///
/// # Errors
/// The first file that could not be written, or picture that could not be made a PNG.
pub fn write(folder: &Path, pictures: &[Drawn]) -> Result<(), PicturesError> {
    std::fs::create_dir_all(folder).map_err(|source| PicturesError::File { path: folder.to_owned(), source })?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let write = |number: u64| write_one(folder, &pictures[number as usize]);
    parallel::each(pictures.len() as u64, threads, &AtomicBool::new(false), write, |_, written| written).map(drop)
}

fn write_one(folder: &Path, Drawn { picture, svg }: &Drawn) -> Result<(), PicturesError> {
    let drawing = |source| PicturesError::Drawing { file_stem: picture.file_stem.clone(), source };
    let pixels = png(svg, PNG_SCALE).map_err(drawing)?;
    for (ending, content) in [("svg", svg.as_bytes()), ("png", &pixels)] {
        let path = folder.join(format!("{}.{ending}", picture.file_stem));
        std::fs::write(&path, content).map_err(|source| PicturesError::File { path, source })?;
    }
    Ok(())
}

/// One chart unchanged, several side by side.
fn side_by_side(title: &str, mut charts: Vec<LineChart>) -> Chart {
    if charts.len() == 1 {
        return Chart::LineChart(charts.remove(0));
    }
    let charts = charts.into_iter().map(Chart::LineChart).collect();
    Chart::Panels(Panels { title: title.to_owned(), columns: 2, charts, one_legend: true, ..Panels::default() })
}

/// Joins the non-empty parts with commas.
fn joined(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// A subtitle, or none if it would be empty.
fn note<const COUNT: usize>(parts: [String; COUNT]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(" \u{b7} "))
}

fn seeds_words(count: usize) -> String {
    if count == 1 { "one seed".to_owned() } else { format!("means of {count} seeds") }
}

#[cfg(test)]
pub(crate) mod tests;
