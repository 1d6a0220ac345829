//! What does the command line change about an experiment?

use toml::Value;

use crate::experiment::layers::{Entry, parse_value};
use crate::experiment::sweep::{AxisPlan, Choice, display};
use crate::experiment::{ExperimentError, covers};

/// The overrides of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// A preset instead of the file's.
    pub preset: Option<String>,
    /// A number of seeds instead of the file's.
    pub seeds: Option<u64>,
    /// A fast, coarse answer: one seed, and fewer values on each axis.
    pub quick: bool,
    /// Fields. A later one overrides an earlier one of the same key.
    pub settings: Vec<Setting>,
}

/// A field as set on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    key: String,
    /// Its values; more than one make an axis.
    values: Vec<Value>,
    origin: String,
}

impl Setting {
    /// The argument of `--set`: `key=value`, where the value is TOML, or a text without quotes.
    ///
    /// # Errors
    /// It does not have this form.
    pub fn parse(assignment: &str) -> Result<Self, ExperimentError> {
        let origin = format!("--set {assignment}");
        let wrong = |message: &str| ExperimentError::Field {
            origin: "command line".to_owned(),
            field: origin.clone(),
            message: message.to_owned(),
        };
        let (key, value) = assignment.split_once('=').ok_or_else(|| wrong("found no \"=\"; allowed: key=value"))?;
        let key = key.trim();
        if key.split('.').any(|part| part.trim().is_empty()) {
            return Err(wrong("found an empty name; allowed: a path such as arrivals.scale=50ms"));
        }
        let value =
            parse_value(value.trim()).map_err(|cause| wrong(&format!("this is not a value: {}", cause.trim())))?;
        Ok(Self { key: key.to_owned(), values: vec![value], origin })
    }

    /// The argument of an option such as `--tables`: one value, or several separated by commas, which make an axis.
    /// `90%` is 0.9.
    #[must_use]
    pub fn of_option(option: &str, key: &str, values: &str) -> Self {
        let text = |value: &str| Value::String(value.trim().to_owned());
        let share =
            |value: &str| Some(Value::Float(value.trim().strip_suffix('%')?.trim_end().parse::<f64>().ok()? / 100.0));
        let value =
            |value: &str| share(value).or_else(|| parse_value(value.trim()).ok()).unwrap_or_else(|| text(value));
        Self {
            key: key.to_owned(),
            values: values.split(',').map(value).collect(),
            origin: format!("{option} {values}"),
        }
    }

    /// The same, for a field that holds a text: `1` is the text "1".
    #[must_use]
    pub fn of_text_option(option: &str, key: &str, values: &str) -> Self {
        let text = |value: &str| Value::String(value.trim().to_owned());
        Self {
            key: key.to_owned(),
            values: values.split(',').map(text).collect(),
            origin: format!("{option} {values}"),
        }
    }

    /// The same, where the option had these values: its own follow from them.
    #[must_use]
    pub fn said(mut self, option: &str, values: &str) -> Self {
        self.origin = format!("{option} {values}");
        self
    }

    fn entry(&self, value: &Value) -> Entry {
        Entry { key: self.key.clone(), value: value.clone(), origin: self.origin.clone() }
    }

    /// The path of the field.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What set it, as on the command line.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether one of its values is an empty text.
    #[must_use]
    pub fn has_empty(&self) -> bool {
        self.values.iter().any(|value| value.as_str().is_some_and(str::is_empty))
    }

    /// Whether one of these settings sets the other's field, or a part of it.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(&other.key) || other.covers(&self.key)
    }

    /// Whether this sets the whole field, overriding other settings.
    fn covers(&self, key: &str) -> bool {
        covers(&self.key, key)
    }

    fn covers_all(&self, choice: &Choice) -> bool {
        choice.entries.iter().all(|entry| self.covers(&entry.key))
    }
}

impl Overrides {
    /// Replaces the axes of the same fields, or adds axes; returns the remaining overrides, which become the top layer.
    pub(super) fn apply(&self, axes: &mut Vec<AxisPlan>) -> Result<Vec<Entry>, ExperimentError> {
        let mut single = Vec::new();
        for setting in &self.settings {
            let choices = || -> Vec<Choice> {
                let choice = |value| Choice { display: display(value), entries: vec![setting.entry(value)] };
                setting.values.iter().map(choice).collect()
            };
            let covered = |axis: &AxisPlan| axis.choices.iter().all(|choice| setting.covers_all(choice));
            let place = axes.iter().position(covered).unwrap_or(axes.len());
            axes.retain(|axis| !covered(axis));
            single.retain(|entry: &Entry| !setting.covers(&entry.key));
            match &setting.values[..] {
                [value] => single.push(setting.entry(value)),
                _ => axes.insert(place, AxisPlan { key: setting.key.clone(), choices: choices() }),
            }
        }
        Ok(single)
    }
}
