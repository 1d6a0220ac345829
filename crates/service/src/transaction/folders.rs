//! The folders that a commit over several tables gives to tables: to those that it creates, and to those that it moves.

use glidepath_env::Env;
use glidepath_model::Action;
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use super::{Part, Planned};
use crate::Inner;
use crate::bodies::Loaded;
use crate::claims::Claim;
use crate::error::{Kind, ServiceError};
use crate::locations::{is_same, meet};

/// The folders that a commit gives to tables, claimed.
#[derive(Default)]
pub(super) struct Claimed {
    pub(super) claims: Vec<Claim>,
    /// What the commit does for that.
    pub(super) actions: Vec<Action>,
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Claims the folders of tables that are created in ones which their client names, or that move. Also after an
    /// error, what is claimed must be settled.
    pub(super) async fn claim_folders(
        &self,
        parts: &[Part],
        planned: &[Planned],
        claimed: &mut Claimed,
    ) -> Result<(), ServiceError> {
        check_apart(planned)?;
        let claims = parts.iter().zip(planned).map(async |(part, planned)| {
            let mut claimed = Claimed::default();
            let done = self.claim_folder(part, planned, &mut claimed).await;
            (claimed, done)
        });
        let mut all = Ok(());
        // Each looks through the catalog, and nobody else commits to the tables meanwhile.
        for (one, done) in glidepath_env::together(crate::AT_ONCE, claims).await {
            claimed.claims.extend(one.claims);
            claimed.actions.extend(one.actions);
            all = all.and(done);
        }
        all
    }

    async fn claim_folder(
        &self,
        part: &Part,
        Planned { old, draft, folder, .. }: &Planned,
        claimed: &mut Claimed,
    ) -> Result<(), ServiceError> {
        if let Some(old) = old
            && let Some(moving) = self.moving(&part.name, old.metadata.location(), draft.location()).await?
        {
            claimed.claims.push(moving.claim);
            claimed.actions.extend(moving.actions);
        }
        if let Some(folder) = folder {
            let claim = self.claim_unused(folder, &part.name).await.map_err(|error| match error.kind {
                Kind::Exists => ServiceError::new(Kind::Conflict, error.message),
                _ => error,
            })?;
            claimed.claims.extend(claim.clone());
            claimed.actions.extend(self.conditions(folder, claim.as_ref()).await?);
        }
        Ok(())
    }
}

/// Refuses a commit that gives one folder, or two of which one is in the other, to two tables.
fn check_apart(planned: &[Planned]) -> Result<(), ServiceError> {
    let stays = |old: &Loaded<TableMetadata>, one: &Planned| is_same(old.metadata.location(), one.draft.location());
    let is_new = |one: &&Planned| one.old.as_ref().is_none_or(|old| !stays(old, one));
    let given: Vec<_> = planned.iter().filter(is_new).map(|one| one.draft.location()).collect();
    for (at, one) in given.iter().enumerate() {
        if let Some(other) = given[at + 1..].iter().find(|other| meet(one, other)) {
            let words = format!(
                "the commit gives the location {one:?} to one table, and {other:?} to another: name folders apart"
            );
            return Err(ServiceError::invalid(words));
        }
    }
    Ok(())
}
