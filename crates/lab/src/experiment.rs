//! What is to be run? A preset, an experiment file and the command line, each of which overrides the one before, become
//! a list of checked points.
//!
//! A file has `title`, `description`, `preset` and `seeds` (a count), then any section of a
//! [`Config`](glidepath_point::Config) that differs from the preset, then what varies: `[sweep]`, whose keys are paths
//! into the configuration (`"arrivals.scale"`) with a list of values each, and `[[alternatives]]`, each with a `name`
//! and several fields to `set` together. All combinations are points, the last axis varying fastest. Everything is
//! checked before anything runs.
//!
//! Start with [`Experiment::load`]; `layers.rs` says what overrides what, `sweep.rs` reads the file.

mod complaint;
mod fields;
mod layers;
mod overrides;
mod quick;
mod sweep;

use std::collections::BTreeMap;

use glidepath_point::{Point, burst_misfit};
use glidepath_sim::Profile;
use sha2::{Digest, Sha256};

use crate::library::{LibraryError, Shelf, profile};
use crate::setting;
pub(crate) use fields::{covers, fields};
use layers::{Entry, Layers, entries};
pub use overrides::{Overrides, Setting};
use sweep::{AxisPlan, File};

/// The default preset.
pub const DEFAULT_PRESET: &str = "iceberg";

/// The title of what options describe, without an experiment.
pub const ONE_LOAD: &str = "One load";

/// What is to be run, with every point checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Short, as on the command line: the file's name without its ending.
    pub name: String,
    /// The title, one line.
    pub title: String,
    /// A few sentences; may be empty.
    pub description: String,
    /// The name of its preset.
    pub preset: String,
    /// What all points have that the preset has not, as `key = value`, without what headings name in words.
    pub set: Vec<String>,
    /// Warnings for readers of the results, for example that they are coarse. One sentence each.
    pub notes: Vec<String>,
    /// Each point runs with each of them.
    pub seeds: Vec<u64>,
    /// The axes, the last varying fastest. Empty if there is only one point.
    pub axes: Vec<Axis>,
    /// All points, in the order of the axes.
    pub points: Vec<PlannedPoint>,
}

/// A field that varies, or the alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The path of the field in the configuration, or [`ALTERNATIVE`].
    pub key: String,
    /// Its values as in the file, without quotes.
    pub values: Vec<String>,
}

/// The key of the axis of named alternatives.
pub const ALTERNATIVE: &str = "alternative";

/// A point and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedPoint {
    /// For each axis, in their order: its key, and the value here.
    pub coordinates: Vec<(String, String)>,
    /// What to simulate.
    pub point: Point,
}

/// Why there is no plan: always a mistake in the file or on the command line.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file does not exist.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The file is not TOML.
    #[error("{origin}: {cause}")]
    Syntax {
        /// Its path.
        origin: String,
        /// Where and why.
        cause: toml::de::Error,
    },
    /// A field has a value that is not allowed.
    #[error("{origin}: {field}: {message}")]
    Field {
        /// The file or the option that set it.
        origin: String,
        /// Its path, with dots.
        field: String,
        /// What was found and what is allowed.
        message: String,
    },
}

impl PlannedPoint {
    /// The value on one axis.
    #[must_use]
    pub fn coordinate(&self, key: &str) -> Option<&str> {
        self.coordinates.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

impl Experiment {
    /// The experiment of this name, or in the file at this path, with the overrides of the command line.
    ///
    /// # Errors
    /// The first error, with its layer.
    pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Self, ExperimentError> {
        let found = Shelf::Experiments.find(name_or_path)?;
        let file = File::parse(&found.origin, &found.text)?;
        Self::plan(&found.name, &found.origin, file, overrides)
    }

    /// A preset with the overrides of the command line.
    ///
    /// # Errors
    /// The first error, with its layer.
    pub fn of_preset(name: &str, overrides: &Overrides) -> Result<Self, ExperimentError> {
        let mut file = File::parse("the command line", "")?;
        file.header.title = Some(ONE_LOAD.to_owned());
        file.header.preset = Some(name.to_owned());
        Self::plan(name, "the command line", file, overrides)
    }

    fn plan(name: &str, origin: &str, file: File, overrides: &Overrides) -> Result<Self, ExperimentError> {
        let File { header, sections, mut axes } = file;
        let preset = overrides.preset.clone().or(header.preset).unwrap_or_else(|| DEFAULT_PRESET.to_owned());
        let mut base = Layers::default();
        base.lay(preset_entries(&preset)?);
        let (of_preset, mut set) = (base.usual(origin), None::<BTreeMap<String, String>>);
        base.lay(entries(sections, origin));
        let mut notes = Vec::new();
        let mut seed_count = header.seeds;
        let mut whole = axes.clone();
        if overrides.quick {
            seed_count = quick::SEEDS;
            quick::thin(&mut axes);
        }
        let command_line = overrides.apply(&mut axes)?;
        if overrides.quick {
            overrides.apply(&mut whole)?;
            notes.push(quick::note(&whole, &axes));
        }
        let seed_count = overrides.seeds.unwrap_or(seed_count);
        let (seeds_origin, seeds_name) = match overrides.seeds {
            Some(_) => ("the command line", "--seeds"),
            None => (origin, "seeds"),
        };
        sweep::check(&axes, (seed_count, seeds_origin, seeds_name), origin)?;
        let mut profiles = Profiles::default();
        let points = sweep::combinations(&axes)
            .map(|choices| {
                let mut layers = base.clone();
                layers.lay(choices.iter().flat_map(|(_, choice)| choice.entries.iter().cloned()));
                layers.lay(command_line.iter().cloned());
                let mut own = layers.beyond(&of_preset);
                own.retain(|key, _| !setting::names(key));
                match &mut set {
                    Some(set) => set.retain(|key, value| own.get(key) == Some(value)),
                    none => *none = Some(own),
                }
                let coordinate =
                    |(axis, choice): &(&AxisPlan, &sweep::Choice)| (axis.key.clone(), choice.display.clone());
                let coordinates = choices.iter().map(coordinate).collect();
                Ok(PlannedPoint { coordinates, point: point(layers, origin, &mut profiles)? })
            })
            .collect::<Result<Vec<PlannedPoint>, ExperimentError>>()?;
        sweep::check_points(&axes, &points, origin)?;
        notes.extend(points.iter().find_map(|planned| burst_misfit(&planned.point.config)).map(|allowed| {
            format!(
                "The window, the middle half of the run, does not hold a whole number of bursts (two at least), so all \
                 figures depend on its position. Allowed durations: {allowed}."
            )
        }));
        Ok(Self {
            name: name.to_owned(),
            title: header.title.unwrap_or_else(|| name.to_owned()),
            description: header.description.trim().to_owned(),
            preset,
            set: set.unwrap_or_default().into_iter().map(|(key, value)| format!("{key} = {value}")).collect(),
            notes,
            seeds: (1..=seed_count).collect(),
            axes: axes.iter().map(AxisPlan::axis).collect(),
            points,
        })
    }

    /// Pairs of a point and a seed.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.points.len() * self.seeds.len()
    }

    /// Equal exactly if points, seeds and model version are equal.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        for planned in &self.points {
            self.seeds.iter().for_each(|seed| digest.update(planned.point.key(*seed)));
        }
        digest.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn preset_entries(preset: &str) -> Result<Vec<Entry>, ExperimentError> {
    let found = Shelf::Presets.find(preset)?;
    let table = toml::from_str::<toml::Table>(&found.text)
        .map_err(|cause| ExperimentError::Syntax { origin: found.origin.clone(), cause })?;
    Ok(entries(table, &found.origin).collect())
}

/// Every profile is read once.
#[derive(Default)]
struct Profiles(BTreeMap<String, Profile>);

impl Profiles {
    fn get(&mut self, name: &str) -> Result<Profile, LibraryError> {
        if let Some(known) = self.0.get(name) {
            return Ok(known.clone());
        }
        let profile = profile(name)?;
        self.0.insert(name.to_owned(), profile.clone());
        Ok(profile)
    }
}

fn point(layers: Layers, fallback: &str, profiles: &mut Profiles) -> Result<Point, ExperimentError> {
    let (config, layers) = layers.config(fallback)?;
    let blame = |field: &str, message: String| {
        let origin = layers.origin(field).unwrap_or(fallback).to_owned();
        ExperimentError::Field { origin, field: field.to_owned(), message }
    };
    let profile = match profiles.get(&config.provider) {
        Ok(profile) => profile,
        // An error inside a profile is reported for that file; an unknown name is reported for the layer that set it.
        Err(error @ LibraryError::Profile { .. }) => return Err(error.into()),
        Err(error) => return Err(blame("provider", error.to_string())),
    };
    let catalog = match config.catalog.store.as_ref().map(|store| profiles.get(store)).transpose() {
        Ok(catalog) => catalog,
        Err(error @ LibraryError::Profile { .. }) => return Err(error.into()),
        Err(error) => return Err(blame("catalog.store", error.to_string())),
    };
    Point::new(config, glidepath_point::Profiles { tables: profile, catalog })
        .map_err(|error| blame(error.field, format!("found {}; allowed: {}", error.found, error.allowed)))
}

#[cfg(test)]
mod tests;
