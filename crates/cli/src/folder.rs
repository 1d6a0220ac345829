//! Where do results go, and what is removed if there are none?

use std::io;
use std::path::{Path, PathBuf};

use glidepath_stores::{Options, is_rows, open};

use crate::failure::{Failure, not_opened};
use crate::leftovers::Leftovers;
use crate::load_options::LoadOptions;
use crate::origin::{bare, command_line};

/// Creates a folder and its parents. Returns the created ones, the deepest first.
pub(crate) fn create(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let missing = folder.ancestors().filter(|above| !above.as_os_str().is_empty() && !above.exists());
    let missing = missing.map(Path::to_owned).collect();
    match std::fs::create_dir_all(folder) {
        Ok(()) => Ok(missing),
        Err(error) => {
            remove_empty(&missing);
            Err(error)
        }
    }
}

/// The file with the results of a benchmark.
pub(crate) const RESULTS: &str = "results.json";

/// The file in a folder of results that names the command and the experiment, in one line.
const LABEL: &str = "made-by.txt";

/// Whether the results of this experiment may go there: the same experiment may continue or replace its results;
/// another one would mix with them, or replace them by a part.
pub(crate) fn check(folder: &Path, experiment: &str) -> Result<(), Failure> {
    if folder.is_file() {
        let words =
            format!("--out {}: this is a file; give a folder, which is made if it is not there", folder.display());
        return Err(Failure::Mistake(words));
    }
    let (path, wanted) = (folder.join(LABEL), label(experiment));
    match std::fs::read_to_string(&path) {
        Ok(found) if found != wanted => Err(Failure::Mistake(format!(
            "{} holds the results of `{}`, and this command is `{}`: give another --out, or remove those results",
            folder.display(),
            found.trim_end(),
            as_typed(command_line(), wanted.trim_end())
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_empty(folder),
        // If it cannot be read, a later write reports the error.
        _ => Ok(()),
    }
}

/// Whether nobody else's files are there, among which results would be lost. Hidden files do not count.
fn is_empty(folder: &Path) -> Result<(), Failure> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with('.'));
    match names.iter().min() {
        None => Ok(()),
        Some(first) => Err(Failure::Mistake(format!(
            "--out {}: this folder has files that are no results, such as {first:?}: give one that is empty or is not there",
            folder.display()
        ))),
    }
}

/// This command with its options; without them if it has a URL that may have a secret.
fn as_typed(typed: String, label: &str) -> String {
    if typed.contains(['?', '@']) { label.to_owned() } else { typed }
}

/// Why a command on this store is refused: what is wrong with the store is told before what is wrong with the folder.
/// Opens the store and closes it again, which leaves nothing behind.
pub(crate) fn after_store(refused: Failure, url: &str) -> Failure {
    opened(url).err().unwrap_or(refused)
}

fn opened(url: &str) -> Result<(), Failure> {
    // Opening one of these may create a folder that would stay.
    if is_rows(url) {
        return Ok(());
    }
    let leftovers = Leftovers::before_opening(url)?;
    let opened = open(url, &Options::default()).map(drop).map_err(not_opened);
    leftovers.remove();
    opened
}

/// Reserves a folder for the results of one experiment.
pub(crate) fn claim(folder: &Path, experiment: &str) -> Result<(), Failure> {
    check(folder, experiment)?;
    let impossible =
        |error: io::Error| Failure::Failed(format!("{}: cannot create this folder: {error}", folder.display()));
    create(folder).map_err(impossible)?;
    write(&folder.join(LABEL), &label(experiment))
}

/// The folder for results. Those of a run that was interrupted do not replace earlier ones, which may be complete:
/// `file` is one that each run writes.
pub(crate) fn place(out: &Path, is_complete: bool, file: &str) -> PathBuf {
    let is_taken = !is_complete && out.join(file).exists();
    if is_taken { out.join("interrupted") } else { out.to_owned() }
}

/// What became of earlier results, if those of this run went elsewhere.
pub(crate) fn kept(out: &Path, place: &Path) -> String {
    match place == out {
        true => String::new(),
        false => format!("; the earlier results in {} stay as they were", out.display()),
    }
}

/// The command and the experiment, as in [`claim`], with the options that say what is simulated.
pub(crate) fn label_of(command: &str, (given, name): (Option<&str>, &str), quick: bool, load: &LoadOptions) -> String {
    let what = match given {
        None => String::new(),
        // A file is given by its path, and named without its end.
        Some(given) if given.ends_with(".toml") => format!(" {name}.toml"),
        Some(_) => format!(" {name}"),
    };
    format!("{command}{what}{}{}", if quick { " --quick" } else { "" }, load.words())
}

/// The command and the store or server, as in [`claim`]: the results of another one are not replaced.
pub(crate) fn label_of_store(command: &str, url: &str) -> String {
    format!("{command} {}", bare(url))
}

fn label(experiment: &str) -> String {
    format!("glidepath {experiment}\n")
}

/// Removes those of these folders that are empty.
pub(crate) fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        // A folder that is not empty, or was not created, must stay.
        let _ = std::fs::remove_dir(folder);
    }
}

/// Writes a file of results.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Removes files of earlier results, if there are any.
pub(crate) fn remove(paths: &[&Path]) -> Result<(), Failure> {
    for path in paths {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::Failed(format!("{}: cannot remove this file: {error}", path.display())));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The error if a file of results cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: cannot write there: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_with_its_options_unless_it_may_have_a_secret() {
        let typed = |text: &str| as_typed(text.to_owned(), "glidepath measure s3://bucket");
        assert_eq!(typed("glidepath measure s3://bucket --quick"), "glidepath measure s3://bucket --quick");
        for secret in ["glidepath measure 's3://bucket?key=hidden'", "glidepath measure s3://me:hidden@bucket"] {
            assert_eq!(typed(secret), "glidepath measure s3://bucket");
        }
    }
}
