//! Where the files of tables are.

use std::collections::HashMap;

use glidepath_model::{Entry, Name};
pub(crate) use glidepath_table::files::{is_within, unslashed};
use uuid::Uuid;

use crate::error::{Kind, ServiceError};
use crate::names::dotted;
use crate::{Settings, placing};

/// Whether two locations are one, as far as their spelling tells.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    unslashed(one.trim_end_matches('/')) == unslashed(other.trim_end_matches('/'))
}

/// Whether one of two folders is the other, or is in it.
pub(crate) fn meet(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

/// The longest name of a folder, without what tells it from others: file systems allow 255 bytes.
pub(crate) const LONGEST: usize = 200;

/// The longest part of a location: the most that file systems allow for a name. On every store, so that tables can be
/// copied to a disk.
const LONGEST_PART: usize = 255;

/// The longest key of an object, on S3, Azure and Google.
const LONGEST_KEY: usize = 1024;

/// The longest path that a program can open on Linux.
const LONGEST_PATH: usize = 4095;

/// What the names of files take, in the folder of a table: of metadata, and of data in a partition.
const ROOM: usize = 100;

/// The property that names the folder for the metadata files of a table or view.
pub(crate) const METADATA_PATH: &str = "write.metadata.path";

/// What the name of a metadata file takes: a slash, five digits, a UUID and `.metadata.json`.
const METADATA_FILE: usize = 57;

/// The folder of a new table: its namespace and name, and random digits, so that no two tables ever share a folder;
/// also not a dropped table and its successor, so a purge of the first cannot touch the second.
pub(crate) fn fresh(base: &str, name: &str, uuid: Uuid) -> String {
    format!("{}{:016x}", fresh_beginning(base, name), uuid.as_u128() as u64)
}

fn fresh_beginning(base: &str, name: &str) -> String {
    let mut name = safe(name);
    // The digits tell tables apart.
    name.truncate(LONGEST);
    format!("{base}/{name}-")
}

/// Whether a location is written as [`fresh`] writes those of this name.
pub(crate) fn is_fresh(location: &str, base: &str, name: &str) -> bool {
    let (location, beginning) = (unslashed(location), unslashed(&fresh_beginning(base, name)));
    let digits = location.strip_prefix(&beginning).unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether several names may have the folders that [`fresh`] writes for this one: those that are too long begin alike.
pub(crate) fn is_cut(name: &str) -> bool {
    safe(name).len() > LONGEST
}

/// Refuses a location that ends as those of [`fresh`].
pub(crate) fn check_not_made_up(location: &str) -> Result<(), ServiceError> {
    if !seems_made_up(location) {
        return Ok(());
    }
    let words = format!(
        "the location {location:?} is not allowed: its last part ends as those that the server makes up, with - and 16 hexadecimal \
         digits; name another"
    );
    Err(ServiceError::invalid(words))
}

/// Refuses a location in a folder, of this one, that ends as those of [`fresh`]: a table may get that folder, and not
/// look whether others are in it.
pub(crate) fn check_not_in_made_up(location: &str, base: &str) -> Result<(), ServiceError> {
    let (whole, base) = (unslashed(location.trim_end_matches('/')), unslashed(base));
    let inside = whole.strip_prefix(base.trim_end_matches('/')).unwrap_or(&whole);
    let around = inside.rsplit_once('/').map_or("", |(around, _)| around);
    if !around.split('/').any(seems_made_up) {
        return Ok(());
    }
    let words = format!(
        "the location {location:?} is not allowed: a folder that it is in ends as those that the server makes up for tables, with - \
         and 16 hexadecimal digits; name another"
    );
    Err(ServiceError::invalid(words))
}

/// Whether the last part of a location ends as those of [`fresh`].
pub(super) fn seems_made_up(location: &str) -> bool {
    let last = location.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let digits = last.rsplit_once('-').map_or("", |(_, digits)| digits);
    digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The folder of a namespace in the warehouse.
pub(crate) fn of_namespace(warehouse: &str, namespace: &[String]) -> String {
    let mut folder = warehouse.trim_end_matches('/').to_owned();
    for part in namespace {
        add_folder(&mut folder, &safe(part), '~');
    }
    folder
}

/// Adds the folder of an escaped part. One that is too long for the name of a folder becomes several, one in the other:
/// each name but the last ends with the escape character, and each but the first begins with it and `_`. Elsewhere two
/// digits follow that character, so different parts have different folders, and none is within that of another part.
pub(crate) fn add_folder(folder: &mut String, escaped: &str, escape: char) {
    let mut rest = escaped;
    folder.push('/');
    while rest.len() > LONGEST {
        let (begin, end) = rest.split_at(LONGEST);
        folder.push_str(&format!("{begin}{escape}/{escape}_"));
        rest = end;
    }
    folder.push_str(rest);
}

/// The location of a namespace's tables that a client asks for: within `allowed`, or just it.
pub(crate) fn checked_folder(location: &str, allowed: &str) -> Result<String, ServiceError> {
    let folder = location.trim_end_matches('/');
    if unslashed(folder) == unslashed(allowed.trim_end_matches('/')) {
        return Ok(folder.to_owned());
    }
    checked(location, allowed)
}

/// The same for the property `location` of a namespace, of which the client of a table may not know.
pub(crate) fn of_property(namespace: &[String], checked: Result<String, ServiceError>) -> Result<String, ServiceError> {
    checked.map_err(|error| {
        let words = format!(
            "{}. It is the property \"location\" of the namespace {}: set that to another folder, or remove it, or name a \
             location in this request",
            error.message,
            dotted(namespace)
        );
        ServiceError { message: words, ..error }
    })
}

impl Settings {
    /// The folder in which a client may choose locations for a namespace.
    pub(crate) fn folder_of(&self, namespace: &[String]) -> String {
        if self.own_folders { of_namespace(&self.warehouse, namespace) } else { self.warehouse.clone() }
    }

    /// The folder for the metadata files of a table.
    pub(crate) fn metadata_folder(
        &self,
        location: &str,
        properties: &HashMap<String, String>,
    ) -> Result<String, ServiceError> {
        let allowed = if self.own_folders { location } else { &self.warehouse };
        metadata_folder(location, properties, allowed)
    }

    /// Whether the files of a table or view may be in the folder at `location`: it is in the folder of its namespace,
    /// or is what the catalog itself says. What the metadata file says does not count, since those who write the files
    /// of a table may be able to change it.
    pub(crate) fn is_place_of(&self, namespace: &[String], entry: &Entry, location: &str) -> bool {
        let said = || entry.location.as_ref().is_some_and(|said| is_same(said, location));
        checked(location, &self.folder_of(namespace)).is_ok() || said()
    }

    /// Refuses a commit to a table or view whose metadata file names a folder that is not its own: it would write
    /// there.
    pub(crate) fn check_place(&self, name: &Name, entry: &Entry, location: &str) -> Result<(), ServiceError> {
        let namespace = name.parent().map(|parent| parent.parts()).unwrap_or_default();
        let noted = || placing::places(entry).any(|place| is_same(place, location));
        if !self.own_folders || self.is_place_of(&namespace, entry, location) || noted() {
            return Ok(());
        }
        let words = format!(
            "not done: its metadata file names the location {location:?}, which is neither in the folder of its namespace nor what the \
             catalog has; the file may have been changed"
        );
        Err(ServiceError::new(Kind::Broken, words))
    }

    /// Refuses a table or view that would leave its location for `next`.
    pub(crate) fn check_move(&self, now: &str, next: &str) -> Result<(), ServiceError> {
        if is_same(now, next) {
            return Ok(());
        }
        if self.own_folders {
            let words =
                format!("the location cannot be changed to {next:?}: with access control, what exists stays at {now}");
            return Err(ServiceError::invalid(words));
        }
        checked(next, &self.warehouse).and_then(with_room).map(drop)
    }
}

/// A part of a path that every client reads alike: letters, digits, `-`, `_`, `.`; other bytes as `~` and two digits.
fn safe(part: &str) -> String {
    let mut safe = String::with_capacity(part.len());
    for (at, byte) in part.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => safe.push(char::from(byte)),
            b'.' if at > 0 => safe.push('.'),
            other => safe.push_str(&format!("~{other:02x}")),
        }
    }
    safe
}

/// The location that a client asks for, without the slash at its end: it must be within `allowed`, by its parts.
pub(crate) fn checked(location: &str, allowed: &str) -> Result<String, ServiceError> {
    let location = location.trim_end_matches('/');
    let wrong = |why: &str| {
        let words = format!("the location {location:?} is not allowed: {why}");
        Err(ServiceError::new(Kind::Invalid, words))
    };
    let Some(rest) =
        unslashed(location).strip_prefix(&format!("{}/", unslashed(allowed.trim_end_matches('/')))).map(str::to_owned)
    else {
        return wrong(&format!("it must be in {allowed}/"));
    };
    if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return wrong("a part of it is empty, . or ..");
    }
    if let Some(long) = rest.split('/').find(|part| part.len() > LONGEST_PART) {
        return wrong(&format!(
            "it has a part of {} bytes; at most {LONGEST_PART} are allowed: shorten it",
            long.len()
        ));
    }
    if let Some(why) = too_long(location, 0) {
        return wrong(&why);
    }
    if rest.contains(['?', '#', '%', '\\']) || rest.chars().any(char::is_control) {
        return wrong("it has one of the characters ? # % \\ or a control character, which clients read differently");
    }
    Ok(location.to_owned())
}

/// Why the store can have no file whose name is by this many bytes longer than this location; `None` if it can.
fn too_long(location: &str, more: usize) -> Option<String> {
    let (scheme, rest) = location.split_once(':')?;
    let rest = rest.trim_start_matches('/');
    // What an object store counts does not have the bucket.
    let (key, longest) = match scheme {
        "file" => (rest, LONGEST_PATH),
        _ => (rest.split_once('/')?.1, LONGEST_KEY),
    };
    let most = longest - more;
    (key.len() > most)
        .then(|| format!("its path has {} bytes; at most {most} are allowed: use shorter names", key.len()))
}

/// A location of a new table or view, if the names of its files are not longer than what the store takes.
pub(crate) fn with_room(location: String) -> Result<String, ServiceError> {
    with_room_for(ROOM)(location)
}

/// A location, if the names of files there may have so many bytes.
fn with_room_for(bytes: usize) -> impl Fn(String) -> Result<String, ServiceError> {
    move |location| match too_long(&location, bytes) {
        None => Ok(location),
        Some(why) => Err(ServiceError::invalid(format!("the location {location:?} is not allowed: {why}"))),
    }
}

/// A metadata file after `earlier` (if any), in a folder for metadata.
pub(crate) fn metadata_file(folder: &str, earlier: Option<&str>, uuid: Uuid) -> String {
    let next = earlier.and_then(version_of).map_or(0, |version| version.saturating_add(1));
    format!("{}/{next:05}-{uuid}.metadata.json", folder.trim_end_matches('/'))
}

/// Whether a file has a name as [`metadata_file`] gives, or as Iceberg's clients give to one that they pack.
pub(crate) fn is_metadata_file(file: &str) -> bool {
    let name = file.rsplit('/').next().and_then(|name| name.strip_suffix(".metadata.json"));
    let name = name.map(|name| name.strip_suffix(".gz").unwrap_or(name));
    let parts = name.and_then(|name| name.split_once('-'));
    parts.is_some_and(|(version, uuid)| {
        version.bytes().all(|digit| digit.is_ascii_digit()) && uuid.len() == 36 && Uuid::try_parse(uuid).is_ok()
    })
}

/// The folder for the metadata of a table or view: in its own, unless a property names another one in the warehouse.
pub(crate) fn metadata_folder(
    location: &str,
    properties: &HashMap<String, String>,
    allowed: &str,
) -> Result<String, ServiceError> {
    match properties.get(METADATA_PATH) {
        Some(path) if !is_within(path, location) => checked(path, allowed).and_then(with_room_for(METADATA_FILE)),
        Some(path) => checked(path, location.trim_end_matches('/')).and_then(with_room_for(METADATA_FILE)),
        None => Ok(format!("{}/metadata", location.trim_end_matches('/'))),
    }
}

/// The number at the beginning of the name of a metadata file.
pub(crate) fn version_of(file: &str) -> Option<u64> {
    let name = file.rsplit('/').next()?;
    name.trim_start_matches('v').split(['-', '.']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_different_names_differ() {
        let uuid = Uuid::from_u128(5);
        assert_eq!(fresh("s3://b/l", "orders", uuid), "s3://b/l/orders-0000000000000005");
        assert!(fresh("s3://b/l", &"ä".repeat(300), uuid).len() < 8 + 255);
        assert!(is_fresh(&fresh("file:///l", "a b", uuid), "file:/l", "a b"));
        for other in ["file:///l/b-0000000000000005", "file:///l/a-5", "file:///l/x/a-0000000000000005", "file:///l/a-"]
        {
            assert!(!is_fresh(other, "file:///l", "a"), "{other}");
        }
        let names = ["a b", "a~20b", "a/b", "..", ".a", "ä", "a_b"];
        let folders: std::collections::BTreeSet<_> = names.iter().map(|name| safe(name)).collect();
        assert_eq!(folders.len(), names.len());
        assert!(folders.iter().all(|folder| !folder.contains(['/', ' ', '%']) && !folder.starts_with('.')));
    }

    #[test]
    fn folders_of_long_names_can_be_made_and_differ() {
        let folder = |namespace: &[&str]| {
            of_namespace("s3://b", &namespace.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>())
        };
        let (long, a) = ("ä".repeat(300), "a".repeat(LONGEST));
        let mut folders = std::collections::BTreeSet::new();
        for namespace in [
            vec![long.as_str()],
            vec![&long, "b"],
            vec![&a],
            vec![&a, "b"],
            vec![&format!("{a}b")],
            vec![&format!("{a}~"), "b"],
            vec![&format!("{a}/b")],
            vec![&format!("{a}{a}{a}")],
            vec![&format!("{a}..")],
            vec![&format!("{a}."), "b"],
            vec![&format!("{a}_b")],
        ] {
            let folder = folder(&namespace);
            let can_be_made = |part: &str| (1..=255).contains(&part.len()) && !matches!(part, "." | "..");
            assert!(folder["s3://b/".len()..].split('/').all(can_be_made), "{folder}");
            // Nor does one name begin with another's that is none of its namespaces.
            let inside = |other: &String| is_within(&folder, other) || is_within(other, &folder);
            let related = folders.iter().filter(|other| inside(other)).count();
            assert!(related <= 1, "{folder}");
            assert!(folders.insert(folder.clone()), "{folder}");
        }
        assert!(
            is_within(&folder(&[&a, "b"]), &folder(&[&a])) && !is_within(&folder(&[&format!("{a}b")]), &folder(&[&a]))
        );
    }

    #[test]
    fn a_location_stays_in_its_folder() {
        let allowed = "file:///lake/tables";
        assert_eq!(checked("file:///lake/tables/a/", allowed).unwrap(), "file:///lake/tables/a");
        assert!(checked("file:/lake/tables/a", allowed).is_ok());
        for wrong in [
            "file:///lake/tables",
            "file:///lake/tables2/a",
            "file:///lake/tables/../x",
            "file:///lake/tables//x",
            "file:///lake/tables/a%2e%2e/x",
            "s3://lake/tables/a",
            "/lake/tables/a",
            "",
        ] {
            assert_eq!(checked(wrong, allowed).unwrap_err().kind, Kind::Invalid, "{wrong}");
        }
        let long = |bytes: usize| checked(&format!("s3://lake/tables/{}", "a".repeat(bytes)), "s3://lake/tables");
        assert!(long(255).is_ok() && long(256).unwrap_err().message.contains("at most 255 are allowed"));
        let deep = |scheme: &str, parts: usize, bytes: usize| {
            let base = format!("{scheme}://lake/tables");
            checked(&format!("{base}{}", format!("/{}", "a".repeat(bytes)).repeat(parts)), &base).and_then(with_room)
        };
        assert!(deep("s3", 27, 33).is_ok() && deep("file", 31, 127).is_ok());
        assert!(deep("s3", 28, 33).unwrap_err().message.contains("at most 924 are allowed"));
        assert!(deep("s3", 31, 33).is_err() && deep("file", 32, 127).is_err());
        assert!(is_within("s3://b/a/x", "s3://b/a") && !is_within("s3://b/ab", "s3://b/a"));
    }

    #[test]
    fn metadata_files_are_numbered() {
        let uuid = Uuid::from_u128(1);
        assert_eq!(metadata_file("", None, uuid).len(), METADATA_FILE);
        let folder = metadata_folder("s3://b/t/", &HashMap::new(), "s3://b").unwrap();
        let first = metadata_file(&folder, None, uuid);
        assert_eq!(first, format!("s3://b/t/metadata/00000-{uuid}.metadata.json"));
        assert!(is_metadata_file(&first));
        for other in ["v1.metadata.json", "00001-edited.metadata.json", "a-{uuid}.metadata.json", "1-{uuid}.json"] {
            assert!(!is_metadata_file(&format!("s3://b/t/{}", other.replace("{uuid}", &uuid.to_string()))), "{other}");
        }
        assert!(metadata_file("s3://b/t/metadata", Some(&first), uuid).contains("/00001-"));
        assert!(
            metadata_file("s3://b/t/metadata", Some("s3://b/t/metadata/v7.metadata.json"), uuid).contains("/00008-")
        );
        assert!(metadata_file("s3://b/t/metadata", Some("odd"), uuid).contains("/00000-"));
    }

    #[test]
    fn a_folder_for_metadata_has_room_for_its_files() {
        let path = |length: usize| format!("s3://b/lake{}", format!("/{}", "m".repeat(99)).repeat(length / 100));
        let folder = |path: String| {
            metadata_folder("s3://b/lake/t", &[("write.metadata.path".to_owned(), path)].into(), "s3://b/lake")
        };
        assert_eq!(folder(path(900)).unwrap(), path(900));
        assert!(folder(path(1000)).is_err());
    }
}
