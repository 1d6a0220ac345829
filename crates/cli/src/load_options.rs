//! The options for load and store, which also override fields of an experiment.

use clap::Args;
use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_model::Span;
use glidepath_protocols::registry::Protocol;

use crate::choice;
use crate::failure::Failure;
use crate::origin::quoted;
use crate::whole::from_one;

/// What is simulated. An option that takes several values, separated by commas, tries all of them.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "What is simulated")]
pub(crate) struct LoadOptions {
    /// The base configuration: iceberg, published-2026-03, published-2026-06, or a file; a file and an experiment may
    /// have other defaults than those below [default: the experiment's, or iceberg]
    #[arg(long, value_name = "NAME or FILE")]
    preset: Option<String>,
    /// The store: a name (see `glidepath providers`) or a profile file [default: s3-standard]
    #[arg(long, value_name = "NAME or FILE,...", conflicts_with = "profile")]
    provider: Option<String>,
    /// The same as --provider: for the profile.toml that `glidepath measure` wrote
    #[arg(long, value_name = "FILE or NAME,...")]
    profile: Option<String>,
    /// The commit protocol [default: catalog-file]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = choice::protocol())]
    protocol: Vec<Protocol>,
    /// The number of tables in the catalog [default: 1]
    #[arg(long, value_name = "COUNT,...")]
    tables: Option<String>,
    /// The share of fast appends, such as 90% or 0.9; the others are validated overwrites [default: 100%]
    #[arg(long, value_name = "SHARE,...", allow_hyphen_values = true)]
    fast_append: Option<String>,
    /// The time between arrivals, such as 20ms (the preset says whether it is the mean or the median) [default: 100ms]
    #[arg(long, value_name = "TIME,...")]
    inter_arrival: Option<String>,
    /// Instead: the arrivals per second, such as 50; with bursts, those between bursts
    #[arg(long, value_name = "NUMBER,...", conflicts_with = "inter_arrival", allow_hyphen_values = true)]
    rate: Option<String>,
    /// The time of every request to the catalog; "none": the catalog is an object in the provider's store
    /// [default: none]
    #[arg(long, value_name = "TIME,...")]
    catalog_latency: Option<String>,
    /// The simulated time; results count the arrivals in its middle half [default: 1h]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Any other field (docs/fields.md): --set retry.retries=4 --set tables.choice='{ zipf = 1.5 }'; "none" removes an
    /// optional one
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// The number of seeds for each point [default: the experiment's, or 5; a search for knees takes as many as it
    /// needs]
    #[arg(long, value_name = "COUNT", value_parser = from_one::<u64>)]
    seeds: Option<u64>,
}

impl LoadOptions {
    /// The options that say what is simulated, as on the command line, in one order, each after a space. Not the number
    /// of seeds: more of them continue what was begun.
    pub(crate) fn words(&self) -> String {
        let protocols: Vec<&str> = self.protocol.iter().map(|protocol| protocol.name()).collect();
        let protocol = (!protocols.is_empty()).then(|| protocols.join(","));
        let options = [
            ("--preset", &self.preset),
            ("--provider", &self.provider),
            ("--profile", &self.profile),
            ("--protocol", &protocol),
            ("--tables", &self.tables),
            ("--fast-append", &self.fast_append),
            ("--inter-arrival", &self.inter_arrival),
            ("--rate", &self.rate),
            ("--catalog-latency", &self.catalog_latency),
            ("--duration", &self.duration),
        ];
        let options = options.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value)));
        let all = options.chain(self.set.iter().map(|assignment| ("--set", assignment)));
        all.map(|(name, value)| format!(" {name} {}", quoted(value))).collect()
    }

    /// The options as overrides.
    pub(crate) fn overrides(&self) -> Result<Overrides, Failure> {
        let number = |option: &str, key: &str, value: &Option<String>| {
            value.as_deref().map(|value| Setting::of_option(option, key, value))
        };
        let text = |option: &str, key: &str, value: &Option<String>| {
            value.as_deref().map(|value| Setting::of_text_option(option, key, value))
        };
        let names: Vec<&str> = self.protocol.iter().map(|protocol| protocol.name()).collect();
        let protocol = (!names.is_empty()).then(|| names.join(","));
        let options = [
            text("--provider", "provider", &self.provider),
            text("--profile", "provider", &self.profile),
            text("--protocol", "catalog.protocol", &protocol),
            number("--tables", "tables.count", &self.tables),
            number("--fast-append", "transaction.fast_append", &self.fast_append),
            text("--catalog-latency", "catalog.latency", &self.catalog_latency),
            text("--duration", "duration", &self.duration),
            text("--inter-arrival", "arrivals.scale", &self.inter_arrival),
        ];
        let mut settings: Vec<Setting> = options.into_iter().flatten().collect();
        if let Some(empty) = settings.iter().find(|setting| setting.has_empty()) {
            let message = format!("{}: found an empty value; allowed: values with one comma between", empty.origin());
            return Err(Failure::Mistake(message));
        }
        if let Some(rates) = &self.rate {
            let scales = rates.split(',').map(between).collect::<Result<Vec<_>, _>>()?;
            settings.push(Setting::of_text_option("--rate", "arrivals.scale", &scales.join(",")).said("--rate", rates));
        }
        let options = settings.len();
        for assignment in &self.set {
            let set = Setting::parse(assignment)?;
            if let Some(option) = settings[..options].iter().find(|option| option.overlaps(&set)) {
                let message = format!("{} and {} set the same field: give one of them", option.origin(), set.origin());
                return Err(Failure::Mistake(message));
            }
            settings.push(set);
        }
        Ok(Overrides { preset: self.preset.clone(), seeds: self.seeds, quick: false, settings })
    }

    /// An error if a rate was given, but is not one divided by the scale of the arrivals.
    pub(crate) fn rate_holds(&self, experiment: &Experiment) -> Result<(), Failure> {
        let mut arrivals = experiment.points.iter().map(|planned| planned.point.config.arrivals);
        match &self.rate {
            Some(rate) if arrivals.any(|arrivals| !arrivals.scale_is_mean()) => Err(Failure::Mistake(format!(
                "--rate {rate}: arrivals of the preset \"{}\" are given by the median or the smallest of the times \
                 between them, not by a rate: give --inter-arrival",
                experiment.preset
            ))),
            _ => Ok(()),
        }
    }
}

/// The mean time between arrivals with this many a second.
fn between(rate: &str) -> Result<String, Failure> {
    let rate = rate.trim();
    let number = rate.parse::<f64>().ok().filter(|number| (1e-6..=1e6).contains(number));
    let number = number.ok_or_else(|| {
        Failure::Mistake(format!(
            "--rate: found \"{rate}\"; allowed: arrivals per second, 0.000001 to 1000000, such as 50"
        ))
    })?;
    Ok(Span::from_secs_f64(1.0 / number).to_string())
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use glidepath_lab::experiment::{DEFAULT_PRESET, Experiment};

    use super::*;

    #[test]
    fn help_states_the_defaults_of_the_presets() {
        let command = LoadOptions::augment_args(Command::new("test"));
        let help = |option: &str| {
            let argument = command.get_arguments().find(|argument| argument.get_id().as_str() == option);
            argument.and_then(|argument| argument.get_help()).map(ToString::to_string).unwrap_or_default()
        };
        for preset in [DEFAULT_PRESET, "published-2026-03", "published-2026-06"] {
            let experiment = Experiment::of_preset(preset, &Overrides::default()).unwrap();
            let config = &experiment.points[0].point.config;
            let defaults = [
                ("provider", config.provider.clone()),
                ("protocol", config.catalog.protocol.name().to_owned()),
                ("tables", config.tables.count.to_string()),
                ("fast_append", format!("{}%", 100.0 * config.transaction.fast_append)),
                ("inter_arrival", config.arrivals.scale.to_string()),
                ("catalog_latency", config.catalog.latency.map_or("none".to_owned(), |latency| latency.to_string())),
                ("duration", config.duration.to_string()),
            ];
            for (option, default) in defaults {
                let stated = format!("[default: {default}]");
                assert!(help(option).contains(&stated), "{preset}, {option}: {stated}: {}", help(option));
            }
            assert!(help("seeds").contains(&format!("or {};", experiment.seeds.len())), "{preset}: {}", help("seeds"));
        }
        assert!(help("preset").contains(&format!("or {DEFAULT_PRESET}]")), "{}", help("preset"));
    }
}
