//! Which keys are names of files, and the names of unfinished files.

/// The longest name of a file, on all usual file systems.
const LONGEST_PART: usize = 255;

/// The longest path that a program can open: Linux accepts 4096 bytes, with a zero at the end.
const LONGEST_PATH: usize = 4095;

const BEGIN: &str = ".glidepath-";
const END: &str = ".tmp";

/// The parts of a key, of which the last names the file; or why the key names no file.
///
/// `directory` is the length of the path of the store's directory: other programs open files by their whole path.
pub(super) fn parts(key: &str, directory: usize) -> Result<Vec<&str>, String> {
    let wrong = |why: &str| Err(format!("the key {key:?} names no file of a warehouse: {why}"));
    if directory + 1 + key.len() > LONGEST_PATH {
        return wrong(&format!("with its directory it has more than {LONGEST_PATH} bytes, the most for a path"));
    }
    let parts: Vec<&str> = key.split('/').collect();
    match parts.iter().find_map(|part| objection(part)) {
        Some(why) => wrong(why),
        None => Ok(parts),
    }
}

/// Whether a part of a key can be the name of a file or folder.
pub(super) fn is_part(part: &str) -> bool {
    objection(part).is_none()
}

fn objection(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("it has an empty part; allowed are names with one slash between them"),
        "." | ".." => Some("it has a part \".\" or \"..\", which would name another folder"),
        _ if part.contains('\0') => Some("it has a zero byte, which no name of a file may have"),
        _ if part.len() > LONGEST_PART => Some("it has a part of more than 255 bytes, the most for a name of a file"),
        _ if is_unfinished(part) => Some("names of this form belong to files that are not yet completely written"),
        _ => None,
    }
}

/// The name of an unfinished file. No client takes it for a data file: it begins with a dot and ends in `.tmp`.
pub(super) fn unfinished(number: u64) -> String {
    format!("{BEGIN}{number:016x}{END}")
}

/// Whether a file of this name is unfinished.
pub(super) fn is_unfinished(name: &str) -> bool {
    let number = name.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
