//! Step 5: the commit point.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Name, Refusal};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_protocols::table_turn::line::Turns;
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use super::decide::{Fitting, NotDone};
use super::settle::{self, Settled};
use super::{Attempt, Member, Next, Request};
use crate::bodies::Loaded;
use crate::error::{Kind, ServiceError};
use crate::keys::{CLEANED, is_key};
use crate::mutant::{self, Mutant};
use crate::placing::{self, Moving};
use crate::{Inner, pointer};

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Answers the one whose request was done by an earlier delivery, or whose key was another request's; and all
    /// others of which that is so: clients repeat their requests together when a server has died, and with an attempt
    /// for each there would be none left for those that wait with them.
    pub(super) async fn answer_replayed(&self, at: usize, members: &mut Vec<Member>) {
        let answer = |member: Member| {
            member.answer(Err(NotDone::Refused(ServiceError::new(Kind::Unavailable, CLEANED))));
        };
        answer(members.remove(at));
        // Those that cannot be looked up now are found by the next attempts.
        let Ok(at) = self.head().await else { return };
        let mut rest = Vec::with_capacity(members.len());
        for mut member in members.drain(..) {
            // The commit was refused as a whole.
            member.sent = false;
            let name = member.request().key.as_ref().and_then(|key| key.name().ok());
            let noted = match &name {
                Some(name) => self.committer.catalog().entry(&at, name).await.is_ok_and(|entry| entry.is_some()),
                None => false,
            };
            match noted {
                true => answer(member),
                false => rest.push(member),
            }
        }
        *members = rest;
    }

    /// Step 5, and 7 where its outcome is unknown. A table that moves has claimed its folder.
    pub(super) async fn move_pointer(
        &self,
        name: &Name,
        (on, next, turn): (&Loaded<TableMetadata>, &Next, &Turns),
        moving: Option<Moving>,
        (requests, verdicts): (&[Arc<Request>], &[Result<Fitting, NotDone>]),
    ) -> Settled {
        let (claim, also) = moving.map(|Moving { claim, actions }| (claim, actions)).unzip();
        let settled = self.send(name, (on, next, turn), also.unwrap_or_default(), (requests, verdicts)).await;
        if let (Some(claim), false) = (claim, matches!(settled, Settled::Unknown(_))) {
            self.release(&claim).await;
        }
        settled
    }

    async fn send(
        &self,
        name: &Name,
        (on, next, turn): (&Loaded<TableMetadata>, &Next, &Turns),
        also: Vec<Action>,
        (requests, verdicts): (&[Arc<Request>], &[Result<Fitting, NotDone>]),
    ) -> Settled {
        let mut actions = match pointer::moved_table(name, on, &next.body.location, &self.settings.warehouse) {
            Ok(actions) => actions,
            Err(error) => return Settled::Not(Attempt::Failed(error)),
        };
        actions.extend(also);
        for (request, verdict) in requests.iter().zip(verdicts) {
            // What was there before is noted by the task that asked.
            if let (Some(key), Ok(Fitting::Applied | Fitting::Rebased)) = (&request.key, verdict)
                && !mutant::is(Mutant::KeyForgotten)
            {
                match key.action(self.env.unix_ms(), &next.body.location) {
                    Ok(action) => actions.push(action),
                    Err(error) => return Settled::Not(Attempt::Failed(error)),
                }
            }
        }
        let asserted = turn.actions().flatten();
        match self.committer.commit(actions.iter().cloned().chain(asserted).collect()).await {
            Ok(_) => Settled::Landed,
            Err(CommitError::Refused(refusal)) => match (placing::told(&refusal), &refusal) {
                (Some(error), _) => Settled::Not(Attempt::NoFolder(error)),
                (None, Refusal::Exists(taken)) => {
                    let at = requests.iter().position(|request| is_key(request.key.as_ref(), taken));
                    at.map_or_else(|| Settled::Not(Attempt::Overtaken), Settled::Replayed)
                }
                (None, refusal) => settle::refused(refusal, &next.body.location),
            },
            Err(CommitError::Unknown(cause)) if mutant::is(Mutant::UnknownIsConflict) => {
                Settled::Unknown(ServiceError::new(Kind::Conflict, cause.to_string()))
            }
            Err(CommitError::Unknown(cause)) => self.settle(name, on, &next.body.location, actions, cause).await,
            Err(error) => Settled::Not(Attempt::Failed(error.into())),
        }
    }
}
