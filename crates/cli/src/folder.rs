//! Where do results go, and what is left of it where there are none?

use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Creates a folder and those above it. Returns the ones that were not there before, the deepest first.
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

/// What a folder of results says of itself: the command and the experiment, in a line.
const LABEL: &str = "made-by.txt";

/// Whether the results of this experiment may go there: the same experiment may come again, to be continued or replaced; another
/// one would leave a mixture.
pub(crate) fn check(folder: &Path, experiment: &str) -> Result<(), Failure> {
    let (path, wanted) = (folder.join(LABEL), label(experiment));
    match std::fs::read_to_string(&path) {
        Ok(found) if found != wanted => Err(Failure::Mistake(format!(
            "{} holds the results of `{}`, and this command is `{}`: give another --out, or remove that folder",
            folder.display(),
            found.trim_end(),
            wanted.trim_end()
        ))),
        // Where it cannot be read, what is written there later says why.
        _ => Ok(()),
    }
}

/// Makes a folder the place for the results of one experiment.
pub(crate) fn claim(folder: &Path, experiment: &str) -> Result<(), Failure> {
    check(folder, experiment)?;
    let impossible =
        |error: io::Error| Failure::Failed(format!("{}: cannot create this folder: {error}", folder.display()));
    create(folder).map_err(impossible)?;
    write(&folder.join(LABEL), &label(experiment))
}

fn label(experiment: &str) -> String {
    format!("glidepath {experiment}\n")
}

/// Removes those of these folders in which there is nothing.
pub(crate) fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        // One that is not empty, or was never made, is not ours to remove.
        let _ = std::fs::remove_dir(folder);
    }
}

/// Writes a file of results.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Removes files of earlier results, where there are any.
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

/// What there is to say where a file of results cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: cannot write there: {error}", path.display()))
}
