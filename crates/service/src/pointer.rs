//! What does a commit assert that gives a table or a view its next metadata file?

use glidepath_model::{Action, Name};
use iceberg::spec::TableMetadata;

use crate::bodies::{Body, Loaded};
use crate::error::ServiceError;
use crate::{placing, purge};

/// The pointer moves from the file that the commit was decided on to this one, if the entry is still of the same
/// registration, and no purge runs where the file is.
pub(crate) fn moved<M>(name: &Name, on: &Body<M>, pointer: &str, warehouse: &str) -> Result<Vec<Action>, ServiceError> {
    let (expected, next) = (Some(on.location.clone()), pointer.to_owned());
    let mut actions = vec![Action::SetPointer { name: name.clone(), expected, pointer: next }];
    actions.push(on.same_registration(name));
    actions.extend(purge::none_runs_where(&on.location, pointer, warehouse)?);
    Ok(actions)
}

/// The same of a table, which notes besides where it had files.
pub(crate) fn moved_table(
    name: &Name,
    on: &Loaded<TableMetadata>,
    pointer: &str,
    warehouse: &str,
) -> Result<Vec<Action>, ServiceError> {
    let mut actions = moved(name, on, pointer, warehouse)?;
    actions.extend(placing::lists_left(name, on, pointer));
    Ok(actions)
}
