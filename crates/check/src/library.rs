//! Which scenarios ship with the program?

use crate::scenario::{Scenario, ScenarioError};

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../experiments/faults/", $name, ".toml")))),*]
    };
}

/// Their names and texts: `experiments/faults/*.toml`.
pub const LIBRARY: &[(&str, &str)] = scenarios!(
    "storm",
    "denied",
    "repeats",
    "deaths",
    "sleepers",
    "clocks",
    "wrong-clocks",
    "listings",
    "crowd",
    "proxies",
    "suspends",
    "everything",
    "power",
    "disk",
    "everything-on-disk",
    "rows",
    "strangers",
);

/// The scenario of this name; `None` if the program ships none.
///
/// # Errors
/// None for a scenario that ships: a test reads them all.
pub fn scenario(name: &str) -> Option<Result<Scenario, ScenarioError>> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| Scenario::parse(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_that_ships_is_one() {
        for (name, text) in LIBRARY {
            Scenario::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/faults");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), LIBRARY.len(), "a file that is not in the library");
    }
}
