//! Checks that every load returned a version that it was allowed to return, with that version's content.

use glidepath_model::Version;
use rustc_hash::FxHashMap;

use crate::placement::{Placement, acknowledged};
use crate::record::{Ending, Operation, OperationId, ProcessId, Rank, Reported, What};
use crate::violation::{Fault, Violation};

/// The newest version known at an instant, and the operation that knew it.
type Known = (Rank, Version, OperationId);

impl Placement<'_> {
    /// A load returns a version of the chain. That version contains no commit that began after the load's end; it is at
    /// least as new as every commit acknowledged and every version loaded, by any process, before the load began; and
    /// the items read are as they are in that version.
    ///
    /// # Errors
    /// [`Fault::NoSuchVersion`], [`Fault::FromTheFuture`], [`Fault::WentBackwards`] (the process itself had seen a
    /// newer version), [`Fault::StaleLoad`] (another process had), [`Fault::WrongContent`].
    pub fn loads(&self) -> Result<(), Violation> {
        let mut known: Vec<Known> = Vec::new();
        let mut loads = Vec::new();
        let newest_beginnings = self.newest_beginnings();
        for operation in self.history.operations() {
            let What::Load { version: Some(version), seen } = operation.what else { continue };
            let Some(commits) = self.chain.commits_up_to(version) else {
                return Err(Fault::NoSuchVersion(operation.into()).into());
            };
            for seen in seen {
                let (actual, _) = self.timeline.after(seen.item, commits);
                if actual != seen.state {
                    let (load, item, seen) = (operation.into(), seen.item, seen.state);
                    return Err(Fault::WrongContent { load, item, seen, actual }.into());
                }
            }
            let newest = (commits as usize).checked_sub(1).map(|place| newest_beginnings[place]);
            if let (Some((began, commit)), Some(ended)) = (newest, operation.ended_rank())
                && ended < began
            {
                let commit = self.history.operation(commit).into();
                return Err(Fault::FromTheFuture { load: operation.into(), commit }.into());
            }
            known.extend(operation.ended_rank().map(|ended| (ended, version, operation.id)));
            loads.push((operation, version));
        }
        if loads.is_empty() {
            return Ok(());
        }
        self.never_backwards()?;
        self.add_acknowledged(&mut known);
        fresh(self, known, &loads)
    }

    fn add_acknowledged(&self, known: &mut Vec<Known>) {
        known.extend(self.chain.links().zip(&self.makers).filter_map(|(link, maker)| {
            let operation = self.history.operation(*maker);
            let ended = operation.ended_rank().filter(|_| acknowledged(&operation))?;
            Some((ended, link.version, *maker))
        }));
    }

    /// The versions that a process learns from its own loads and acknowledgements never get older. The order of its
    /// operations counts here, even if they took no time.
    fn never_backwards(&self) -> Result<(), Violation> {
        let mut newest: FxHashMap<ProcessId, (Version, OperationId)> = FxHashMap::default();
        for operation in self.history.operations() {
            let Some(version) = learnt(&operation) else { continue };
            let entry = newest.entry(operation.process).or_insert((version, operation.id));
            if version >= entry.0 {
                *entry = (version, operation.id);
            } else if matches!(operation.what, What::Load { .. }) {
                let before = self.history.operation(entry.1).into();
                return Err(Fault::WentBackwards { before, after: operation.into() }.into());
            }
        }
        Ok(())
    }
}

/// The version that a process learnt from an operation.
fn learnt(operation: &Operation<'_>) -> Option<Version> {
    match operation.what {
        What::Load { version, .. } => version,
        What::Sight { .. } => None,
        What::Commit { ending: Ending::Committed(Reported::At(version) | Reported::By(version)), .. } => Some(version),
        What::Commit { .. } => None,
    }
}

/// No load returns an older version than some process knew before it began.
fn fresh(
    placement: &Placement<'_>,
    mut known: Vec<Known>,
    loads: &[(Operation<'_>, Version)],
) -> Result<(), Violation> {
    known.sort_unstable();
    let mut newest: Option<(Version, OperationId)> = None;
    for (_, version, operation) in &mut known {
        if newest.is_none_or(|(most, _)| *version > most) {
            newest = Some((*version, *operation));
        }
        (*version, *operation) = newest.unwrap_or((*version, *operation));
    }
    for (load, version) in loads {
        let before = known.partition_point(|(ended, ..)| *ended < load.began_rank());
        let Some((_, least, known_by)) = before.checked_sub(1).map(|slot| known[slot]) else { continue };
        if *version < least {
            let known_by = placement.history.operation(known_by).into();
            return Err(Fault::StaleLoad { load: (*load).into(), least, known_by }.into());
        }
    }
    Ok(())
}
