//! The JSON form of a table's metadata, with what the crate `iceberg` does not read or write.

use iceberg::spec::TableMetadata;
use serde_json::Value;

use super::{Misfit, specs, version1};
use crate::{defaults, json};

/// The metadata as in a metadata file.
///
/// # Errors
/// If a table of version 1 could not be one of version 2, where its branches and tags are taken from; or if it has no
/// JSON form.
pub fn to_json(metadata: &TableMetadata) -> Result<Value, Misfit> {
    let mut value = plain(metadata)?;
    if let Some(refs) = version1::refs(metadata)? {
        value["refs"] = refs;
        version1::log_changes_only(&mut value);
    }
    json::restore(&mut value);
    specs::restore(&mut value);
    Ok(value)
}

/// As the crate writes it.
pub(super) fn plain(metadata: &TableMetadata) -> Result<Value, Misfit> {
    serde_json::to_value(metadata).map_err(|error| Misfit::Invalid(format!("it has no JSON form: {error}")))
}

/// The metadata of a metadata file.
///
/// # Errors
/// If it is none.
pub fn from_json(json: &[u8]) -> Result<TableMetadata, serde_json::Error> {
    let mut metadata: TableMetadata = json::decode_file(json)?;
    let (has_alike, is_old) = (specs::has_alike(&metadata), version1::is_incomplete(&metadata));
    if has_alike || is_old {
        let mut value = serde_json::from_slice(json)?;
        json::stand_in(&mut value);
        defaults::without_lost(&mut value);
        if has_alike {
            specs::replace(&mut value);
        }
        if is_old {
            version1::complete(&mut value, &metadata);
        }
        metadata = serde_json::from_value(value)?;
    }
    version1::with_its_refs(metadata, json)
}
