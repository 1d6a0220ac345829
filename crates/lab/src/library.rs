//! What ships with the program? Presets, provider profiles and experiments, by name; a user's own, by path.

use std::fmt;
use std::io::Read;
use std::path::Path;

use glidepath_sim::{Alternatives, Profile, ProfileError};

/// A kind of file that ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// Complete configurations that experiments override.
    Presets,
    /// Latencies and capabilities of stores.
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
    "postgres-one-node", "cassandra-one-node", "cassandra-regional",
);
const EXPERIMENTS: &[(&str, &str)] = files!("experiments": "1a", "1b", "2a", "2b", "4a", "4a-zipf", "4b", "4b-zipf", "4c", "compaction", "retry-policies", "substrates",
        "substrates-append");

/// A file's text and names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    /// Its name; of a path, without folder and ending.
    pub name: String,
    /// Its name in messages.
    pub origin: String,
    /// Its text.
    pub text: String,
}

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// No file of this name ships with the program.
    #[error("there is no {what} \"{name}\"{hint}; known: {known}. {}", of_a_file(name))]
    Unknown {
        /// The kind of file.
        what: Shelf,
        /// The name given.
        name: String,
        /// Similar names, as a question.
        hint: String,
        /// All known names.
        known: String,
    },
    /// A file that the user named cannot be read.
    #[error("{path}: cannot read this {what}: {cause}{}", next_step(*what, path, cause))]
    Unreadable {
        /// The kind of file.
        what: Shelf,
        /// Where it should be.
        path: String,
        /// The system's error.
        cause: std::io::Error,
    },
    /// An invalid profile.
    #[error("{origin}: {}{}", cause.to_string().trim_end(), hint(*instead))]
    Profile {
        /// Which.
        origin: String,
        /// The error in it.
        cause: ProfileError,
        /// What the file looks like.
        instead: Option<Instead>,
    },
    /// The alternatives that a profile names cannot be used.
    #[error(
        "{path}: {cause}. {profile} names this file as its alternatives (measured.alternatives): keep the two \
         together, or delete that line; the answer then leaves out the uncertainty of the measurement"
    )]
    Alternatives {
        /// Their path.
        path: String,
        /// The profile.
        profile: String,
        /// The error.
        cause: String,
    },
}

/// What to write instead of a name, if a file is meant.
fn of_a_file(name: &str) -> String {
    if Path::new(name).is_dir() {
        return "That is a folder: name a file in it by its path".to_owned();
    }
    match (Path::new(name).is_file(), Path::new(name).extension()) {
        (true, _) => format!("There is a file of this name: write ./{name}"),
        (false, None) => format!("Name a file by its path, such as ./{name}.toml"),
        (false, Some(_)) => {
            let path = Path::new(name).with_extension("toml");
            format!("There is no file of this name either; name one by its path, such as ./{}", path.display())
        }
    }
}

/// Where a file that is missing comes from.
fn next_step(what: Shelf, path: &str, cause: &std::io::Error) -> &'static str {
    if path.contains("://") {
        return ". This is the URL of a store: `glidepath measure STORE` writes its profile, and --profile takes that file";
    }
    match (what, cause.kind()) {
        (Shelf::Providers, std::io::ErrorKind::NotFound) => {
            ". `glidepath measure STORE` writes a profile, results/measure/profile.toml unless --out names another folder; \
             `glidepath providers` lists those that ship with the program"
        }
        (Shelf::Experiments, std::io::ErrorKind::NotFound) => {
            "; `glidepath experiments` lists those that ship with the program"
        }
        _ => "",
    }
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
        let unreadable = |cause| LibraryError::Unreadable { what: self, path: path.to_owned(), cause };
        if Path::new(path).is_dir() {
            let file = if self == Self::Providers { "the file profile.toml" } else { "a file" };
            return Err(unreadable(std::io::Error::other(format!("it is a folder: name {file} in it"))));
        }
        let text = read_text(Path::new(path)).map_err(unreadable)?;
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
/// There is none, or it is invalid.
pub fn profile(name: &str) -> Result<Profile, LibraryError> {
    let found = Shelf::Providers.find(name)?;
    Profile::parse(&found.text).map_err(|cause| LibraryError::Profile {
        origin: found.origin,
        cause,
        instead: Instead::of(&found.text),
    })
}

/// What a file in the place of a profile looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// It has what only experiments have.
    Experiment,
    /// It has what only the alternatives to a profile have.
    Alternatives,
}

impl Instead {
    fn of(text: &str) -> Option<Self> {
        let kinds = [
            (Self::Experiment, &["preset", "sweep", "arrivals", "transaction", "tables"][..]),
            (Self::Alternatives, &["of", "sampling", "earliest", "latest"]),
        ];
        let file = toml::from_str::<toml::Table>(text).ok()?;
        let (kind, _) = kinds.into_iter().find(|(_, keys)| keys.iter().any(|key| file.contains_key(*key)))?;
        Some(kind)
    }
}

/// What to do with another file in place of a profile.
fn hint(instead: Option<Instead>) -> &'static str {
    match instead {
        Some(Instead::Experiment) => {
            ". This file looks like an experiment, which `glidepath simulate` and `glidepath knees` take; a profile \
             describes a store, and `glidepath measure` writes one"
        }
        Some(Instead::Alternatives) => {
            ". This file has the alternatives to a profile: give the profile beside it (profile.toml), which names them"
        }
        None => "",
    }
}

/// The alternatives to this profile, from the file that it names in its folder; `None` if it names none.
///
/// # Errors
/// The profile does not exist or is invalid; its alternatives cannot be read, or belong to another profile.
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
    let text = read_text(&path).map_err(|error| wrong(error.to_string()))?;
    Alternatives::parse(&text, &profile).map(Some).map_err(|error| wrong(error.to_string()))
}

/// The most bytes of a file of settings.
const LONGEST_TEXT: u64 = 64 << 20;

/// Reads a file of settings, which may be a pipe.
///
/// # Errors
/// The file cannot be read, is longer than 64 MiB, or is not text.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_TEXT {
        let words = format!("it has more than {} MiB: name a file of settings", LONGEST_TEXT >> 20);
        return Err(std::io::Error::other(words));
    }
    Ok(text)
}

/// A question in brackets whether one of the candidates was meant: those that begin with the word, otherwise the most
/// similar one. Empty if none is similar.
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
        let error = profile(folder.path().join("a.toml").to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("give the profile beside it (profile.toml)"), "{error}");
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
        assert!(!error.contains("did you mean") && error.ends_with("such as ./nonsense.toml"), "{error}");
        let error = Shelf::Experiments.find("my.tml").unwrap_err().to_string();
        assert!(
            error.ends_with("There is no file of this name either; name one by its path, such as ./my.toml"),
            "{error}"
        );
    }

    #[test]
    fn what_looks_like_a_path_is_one() {
        let error = Shelf::Presets.find("no/such").unwrap_err();
        assert!(matches!(error, LibraryError::Unreadable { .. }), "{error}");
        let error = Shelf::Presets.find("nosuch.toml").unwrap_err();
        assert!(error.to_string().starts_with("nosuch.toml: cannot read this preset"), "{error}");
        let error = profile("nosuch.toml").unwrap_err().to_string();
        assert!(error.contains("`glidepath measure STORE` writes a profile"), "{error}");
    }
}
