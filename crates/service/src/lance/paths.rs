//! Where the files of a Lance table are, and how Lance's clients write that.

use glidepath_table::Files;
use uuid::Uuid;

use crate::error::ServiceError;
use crate::locations;

/// The folder of a table in which Lance keeps its manifests.
const VERSIONS: &str = "_versions";

/// The folder of a table in which the server keeps copies of manifests that are not yet at their place.
const COPIES: &str = "_glidepath";

/// What Lance puts into the folder of a table.
const PARTS: [&str; 9] =
    [VERSIONS, COPIES, "_deletions", "_indices", "_refs", "_transactions", "_latest.manifest", "data", "tree"];

/// The folder of a new table: its name, and random digits, by which no two tables share a folder.
pub(super) fn fresh(base: &str, name: &str, uuid: Uuid) -> String {
    let mut name = plain(name);
    // The digits tell tables apart.
    name.truncate(locations::LONGEST);
    format!("{base}/{name}-{:016x}", uuid.as_u128() as u64)
}

/// The folder of a namespace.
pub(crate) fn of_namespace(warehouse: &str, namespace: &[String]) -> String {
    let mut folder = warehouse.trim_end_matches('/').to_owned();
    for part in namespace {
        locations::add_folder(&mut folder, &plain(part), '=');
    }
    folder
}

/// A part of a path that all of Lance's clients write alike, which is not so for the `~` of
/// [`locations::of_namespace`]: letters, digits, `-`, `_`, `.`; other bytes as `=` and two digits.
fn plain(part: &str) -> String {
    let mut plain = String::with_capacity(part.len());
    for (at, byte) in part.bytes().enumerate() {
        match char::from(byte) {
            c if is_plain(c) || (c == '.' && at > 0) => plain.push(c),
            _ => plain.push_str(&format!("={byte:02x}")),
        }
    }
    plain
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Refuses a location that is not in the folder `allowed`, or that Lance's clients would write differently.
pub(super) fn checked(location: &str, allowed: &str) -> Result<String, ServiceError> {
    let location = locations::checked(location, allowed)?;
    let (whole, base) = (locations::unslashed(&location), locations::unslashed(allowed));
    let rest = whole.strip_prefix(base.trim_end_matches('/')).unwrap_or(&whole);
    match rest.chars().find(|c| !is_plain(*c) && !matches!(c, '/' | '.' | '=')) {
        None => Ok(location),
        Some(other) => Err(ServiceError::invalid(format!(
            "the location {location:?} has the character {other:?}; letters and digits of ASCII and - _ . = are allowed"
        ))),
    }
}

/// As [`checked`], or `allowed` itself.
pub(super) fn checked_folder(location: &str, allowed: &str) -> Result<String, ServiceError> {
    let folder = locations::checked_folder(location, allowed)?;
    let is_all = locations::unslashed(&folder) == locations::unslashed(allowed.trim_end_matches('/'));
    if is_all { Ok(folder) } else { checked(&folder, allowed) }
}

/// Whether a file below a location is where Lance puts the files of a table.
pub(super) fn is_of_lance(file: &str, location: &str) -> bool {
    let (file, location) = (locations::unslashed(file), locations::unslashed(location));
    let rest = file.strip_prefix(location.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    rest.is_some_and(|rest| PARTS.contains(&rest.split('/').next().unwrap_or_default()))
}

/// Whether a file is one of Iceberg's: of data, of manifests, of statistics or of metadata. A table of Iceberg may keep
/// its data in any folder (`write.data.path`).
pub(super) fn is_of_iceberg(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    let ends = [".parquet", ".orc", ".avro", ".puffin", ".stats"].iter().any(|suffix| name.ends_with(suffix));
    ends || name.contains(".metadata.json") || name == "version-hint.text"
}

/// The folder of the manifests of a table.
pub(super) fn versions(location: &str) -> String {
    format!("{location}/{VERSIONS}")
}

/// The manifest of a version. The newest sorts first, as in Lance's second naming scheme.
pub(super) fn manifest(location: &str, version: u64) -> String {
    format!("{}/{}", versions(location), manifest_name(version))
}

fn manifest_name(version: u64) -> String {
    format!("{:020}.manifest", u64::MAX - version)
}

/// The text after which the manifest of a version is the first in a listing.
pub(super) fn before(location: &str, version: u64) -> String {
    let manifest = manifest(location, version);
    manifest[..manifest.len() - 1].to_owned()
}

/// The version of a manifest; `None` for other files, such as staged manifests.
pub(super) fn version_of(file: &str) -> Option<u64> {
    let name = file.rsplit('/').next()?;
    let number = name.strip_suffix(".manifest").filter(|number| number.len() == 20)?;
    Some(u64::MAX - number.parse::<u64>().ok()?)
}

/// The copy that the server makes of a manifest.
pub(super) fn copy(location: &str, version: u64, uuid: Uuid) -> String {
    format!("{location}/{COPIES}/{version}-{uuid}.manifest")
}

/// A location as Lance's clients write the paths of manifests: without the store, and without a slash at the beginning.
pub(super) fn in_store(location: &str) -> &str {
    match location.split_once(':') {
        Some(("file", path)) => path.trim_start_matches('/'),
        Some((_, rest)) => rest.trim_start_matches('/').split_once('/').map_or("", |(_, path)| path),
        None => location.trim_start_matches('/'),
    }
}

/// The name of the staged manifest that a client names, for this version of this table.
pub(super) fn staged(path: &str, location: &str, version: u64) -> Result<String, ServiceError> {
    let begin = format!("{}/", in_store(&versions(location)));
    let own = path.strip_prefix(&begin).or_else(|| in_store(path).strip_prefix(&begin));
    let suffix = own.and_then(|name| name.strip_prefix(&manifest_name(version))).unwrap_or_default();
    let plain = suffix.len() > 1 && suffix.len() <= 100 && suffix.chars().all(|c| is_plain(c) || c == '.');
    if let (Some(name), true) = (own, plain && suffix.starts_with(['-', '.'])) {
        return Ok(name.to_owned());
    }
    Err(ServiceError::invalid(format!(
        "manifest_path is {path:?}; for version {version} of this table a staged manifest is allowed whose path is \
         {begin}{} and a suffix of - and letters, digits or - (naming scheme V2)",
        manifest_name(version)
    )))
}

/// Whether there is a version of a table, of any naming scheme.
pub(super) async fn has_versions(files: &impl Files, location: &str) -> Result<bool, ServiceError> {
    Ok(!files.list(&versions(location), None, 1).await?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "s3://b/lake/t-0000000000000005";

    #[test]
    fn folders_have_plain_characters() {
        let uuid = Uuid::from_u128(5);
        assert_eq!(fresh("s3://b/l", "per%cent ü", uuid), "s3://b/l/per=25cent=20=c3=bc-0000000000000005");
        assert_eq!(of_namespace("s3://b/l/", &["a b".into(), "..".into()]), "s3://b/l/a=20b/=2e.");
        let names = ["a b", "a=20b", "a~20b", "a/b", "..", ".a", "ä", "a_b"];
        let parts: std::collections::BTreeSet<_> = names.iter().map(|name| plain(name)).collect();
        assert_eq!(parts.len(), names.len());
        let is_fresh = locations::seems_made_up;
        assert!(is_fresh(&fresh("s3://b/l", "x", uuid)) && is_fresh("s3://b/x-y-0123456789abcdef/"));
        assert!(!is_fresh("s3://b/t") && !is_fresh("s3://b/t-12") && !is_fresh("s3://b/x-0123456789abcdef/y"));
        assert!(checked("file:///l/a~b", "file:///l").is_err() && checked("file:///l/a-b", "file:///l").is_ok());
    }

    #[test]
    fn manifests_are_named_as_lance_names_them() {
        let first = manifest(PLACE, 1);
        assert_eq!(first, format!("{PLACE}/_versions/18446744073709551614.manifest"));
        assert!(manifest(PLACE, 2) < first && before(PLACE, 1) < first && manifest(PLACE, 2) < before(PLACE, 1));
        assert_eq!(version_of(&first), Some(1));
        assert_eq!(version_of(&format!("{first}-x")), None);
        assert_eq!(in_store(&first), "lake/t-0000000000000005/_versions/18446744073709551614.manifest");
        assert_eq!(in_store("file:///tmp/x"), "tmp/x");
        assert!(is_of_lance(&first, PLACE) && !is_of_lance("s3://b/lake/t-0000000000000005/mine", PLACE));
    }

    #[test]
    fn a_staged_manifest_is_one_of_this_version_of_this_table() {
        let path = format!("{}-6b29", in_store(&manifest(PLACE, 7)));
        assert_eq!(staged(&path, PLACE, 7).unwrap(), path.rsplit('/').next().unwrap());
        assert!(staged(&format!("s3://b/{path}"), PLACE, 7).is_ok());
        let published = in_store(&manifest(PLACE, 7)).to_owned();
        let other = path.replace("t-0", "u-0");
        let nested = format!("{published}-a/../../../x");
        for (wrong, version) in [(&path, 8), (&published, 7), (&other, 7), (&nested, 7), (&String::new(), 7)] {
            assert!(staged(wrong, PLACE, version).is_err(), "{wrong}");
        }
    }
}
