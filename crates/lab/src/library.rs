//! What ships with the program? Presets, provider profiles and experiments, by name; a person's own, by path.

use std::fmt;
use std::path::Path;

use glidepath_sim::{Alternatives, Profile, ProfileError};

/// A kind of file that ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// Complete configurations, to be laid under an experiment.
    Presets,
    /// What stores cost and can do.
    Providers,
    /// Experiments.
    Experiments,
}

macro_rules! files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../", $folder, "/", $name, ".toml")))),*]
    };
}

const PRESETS: &[(&str, &str)] = files!("presets": "iceberg", "published-2026-03", "published-2026-06");
const PROVIDERS: &[(&str, &str)] = files!(
    "profiles": "s3-express", "s3-standard", "azure-premium", "azure-standard", "gcs", "s3-express-2025-06",
    "s3-standard-2025-06", "azure-premium-2025-06", "azure-standard-2025-06", "gcs-2025-06",
);
const EXPERIMENTS: &[(&str, &str)] =
    files!("experiments": "1a", "1b", "2a", "2b", "4a", "4a-zipf", "4b", "4b-zipf", "4c", "retry-policies");

/// A file's text, and what to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    /// Its name: without folder and ending, where it was given by path.
    pub name: String,
    /// How to refer to it in a message.
    pub origin: String,
    /// What it says.
    pub text: String,
}

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No file of this name ships with the program.
    #[error("there is no {what} \"{name}\"{hint}; known: {known}. Name a file by its path, such as ./{name}.toml")]
    Unknown {
        /// What kind of file was looked for.
        what: Shelf,
        /// Under what name.
        name: String,
        /// A near miss, put as a question.
        hint: String,
        /// All names there are.
        known: String,
    },
    /// A file that a person named could not be read.
    #[error("{path}: cannot read this {what}: {cause}")]
    Unreadable {
        /// What kind of file it should be.
        what: Shelf,
        /// Where it should be.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A profile that says something it must not.
    #[error("{origin}: {cause}")]
    Profile {
        /// Which.
        origin: String,
        /// What is wrong with it.
        cause: ProfileError,
    },
    /// The alternatives that a profile names cannot be had.
    #[error(
        "{path}: {cause}. {profile} names this file as its alternatives (measured.alternatives): keep the two together, or delete that \
         line; the answer then leaves out the uncertainty of the measurement"
    )]
    Alternatives {
        /// Where they should be.
        path: String,
        /// The profile.
        profile: String,
        /// What is wrong with them.
        cause: String,
    },
}

impl fmt::Display for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Presets => "preset",
            Self::Providers => "provider",
            Self::Experiments => "experiment",
        })
    }
}

impl Shelf {
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Presets => PRESETS,
            Self::Providers => PROVIDERS,
            Self::Experiments => EXPERIMENTS,
        }
    }

    /// The names of all that ship with the program.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        self.files().iter().map(|(name, _)| *name)
    }

    /// The file of this name, or at this path if it looks like one: with a separator in it, or `.toml` at its end.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn find(self, name: &str) -> Result<LibraryFile, LibraryError> {
        if name.contains(std::path::is_separator) || name.ends_with(".toml") {
            return self.open(name);
        }
        match self.files().iter().find(|(known, _)| *known == name) {
            Some((_, text)) => {
                Ok(LibraryFile { name: name.to_owned(), origin: format!("{self} {name}"), text: (*text).to_owned() })
            }
            None => Err(self.unknown(name)),
        }
    }

    fn open(self, path: &str) -> Result<LibraryFile, LibraryError> {
        let text = std::fs::read_to_string(path).map_err(|cause| LibraryError::Unreadable {
            what: self,
            path: path.to_owned(),
            cause,
        })?;
        let name = Path::new(path).file_stem().map_or_else(|| path.into(), |stem| stem.to_string_lossy());
        Ok(LibraryFile { name: name.into_owned(), origin: path.to_owned(), text })
    }

    fn unknown(self, name: &str) -> LibraryError {
        let hint = did_you_mean(name, self.names());
        let known = self.names().collect::<Vec<_>>().join(", ");
        LibraryError::Unknown { what: self, name: name.to_owned(), hint, known }
    }
}

/// The profile of this name, or at this path, checked.
///
/// # Errors
/// There is none, or it is not a profile.
pub fn profile(name: &str) -> Result<Profile, LibraryError> {
    let found = Shelf::Providers.find(name)?;
    Profile::parse(&found.text).map_err(|cause| LibraryError::Profile { origin: found.origin, cause })
}

/// What else the measurement of this profile allows: the file that the profile names, beside its own. `None` for one that names none.
///
/// # Errors
/// There is no such profile, or it is none; its alternatives cannot be read, or are not its own.
pub fn alternatives(name: &str) -> Result<Option<Alternatives>, LibraryError> {
    let profile = profile(name)?;
    let Some(file) = profile.measured.as_ref().and_then(|measured| measured.alternatives.as_ref()) else {
        return Ok(None);
    };
    let path = Path::new(name).with_file_name(file);
    let wrong = |cause: String| LibraryError::Alternatives {
        path: path.display().to_string(),
        profile: name.to_owned(),
        cause,
    };
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    Alternatives::parse(&text, &profile).map(Some).map_err(|error| wrong(error.to_string()))
}

/// Asks whether one of the candidates was meant, in brackets: those that begin with the word, else the one most like it. Empty if
/// all are quite different.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str> + Clone) -> String {
    let word = word.to_lowercase();
    let likeness = |candidate: &str| strsim::jaro_winkler(&word, &candidate.to_lowercase());
    let mut meant: Vec<&str> = candidates
        .clone()
        .filter(|candidate| !word.is_empty() && candidate.to_lowercase().starts_with(&word))
        .collect();
    if meant.is_empty() {
        let best = candidates.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        meant.extend(best.filter(|best| likeness(best) > 0.75));
    }
    match meant.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ") {
        none if none.is_empty() => none,
        names => format!(" (did you mean {names}?)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_that_ships_is_good_and_names_its_sources() {
        for name in Shelf::Providers.names() {
            let profile = profile(name).unwrap();
            assert!(profile.operations().all(|(_, operation)| operation.source.len() > 10), "{name}");
        }
    }

    #[test]
    fn alternatives_are_beside_the_profile_that_names_them() {
        use glidepath_sim::{Alternative, Measured};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        let name = path.to_str().unwrap();
        let mut store = profile("s3-express").unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("p.toml", &toml::to_string(&store).unwrap());
        assert_eq!(alternatives(name).unwrap(), None);
        let of = store.fingerprint();
        let file = Some("a.toml".to_owned());
        store.measured = Some(Measured { date: "2026-11-22".to_owned(), alternatives: file });
        write("p.toml", &toml::to_string(&store).unwrap());
        let error = alternatives(name).unwrap_err().to_string();
        assert!(error.contains("a.toml: ") && error.contains("keep the two together"), "{error}");
        let sampling = vec![Alternative::of(&store); 4];
        let found = Alternatives { version: 1, of, sampling, earliest: None, latest: None };
        write("a.toml", &found.text().unwrap());
        assert_eq!(alternatives(name).unwrap(), Some(found));
        store.get.sigma = 1.0;
        write("p.toml", &toml::to_string(&store).unwrap());
        let error = alternatives(name).unwrap_err().to_string();
        assert!(error.contains("of: found ") && error.contains("measure again"), "{error}");
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones_and_the_nearest() {
        let error = profile("s3-standart").unwrap_err().to_string();
        assert!(error.contains("did you mean \"s3-standard\"?"), "{error}");
        assert!(error.contains("known: s3-express, s3-standard, azure-premium"), "{error}");
        let error = profile("s3").unwrap_err().to_string();
        assert!(error.contains("did you mean \"s3-express\" or \"s3-standard\""), "{error}");
        let error = Shelf::Experiments.find("nonsense").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn what_looks_like_a_path_is_one() {
        let error = Shelf::Presets.find("no/such").unwrap_err();
        assert!(matches!(error, LibraryError::Unreadable { .. }), "{error}");
        let error = Shelf::Presets.find("nosuch.toml").unwrap_err();
        assert!(error.to_string().starts_with("nosuch.toml: cannot read this preset"), "{error}");
    }
}
