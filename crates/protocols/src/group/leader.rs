//! The leader of a group: steps 2 to 7 and 9 of a group's commit.

use glidepath_env::{Cause, Env, Purpose};
use glidepath_model::{Action, Span};

use super::{Answer, CommitError, Group, GroupAttempt, Grouped, MOST, Request, RetryPolicy, Verdict};
use crate::catalog::Outcome;
use crate::mutant::{self, Mutant};
use glidepath_queue::{Seat, Taken};

/// Commits the requests of a group's writers. It must run in a task or a thread of its own, so that no dropped or
/// unpolled writer stops it.
#[must_use = "writers wait until a task runs `lead`"]
pub struct Leader<E: Env, C: Grouped> {
    env: E,
    catalog: C,
    seat: Seat<Request, Answer<C>>,
    retry_policy: RetryPolicy,
}

/// The group has a leader already, which must end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the group of writers already has a leader; a group has only one")]
pub struct AlreadyLed;

impl<E: Env, C: Grouped> Leader<E, C> {
    /// Becomes the group's leader: requests are accepted, and wait for [`lead`](Self::lead).
    ///
    /// # Errors
    /// [`AlreadyLed`] if the group has a leader.
    pub fn new(env: E, catalog: C, group: &Group<C>, retry_policy: RetryPolicy) -> Result<Self, AlreadyLed> {
        let seat = group.queue.seat().ok_or(AlreadyLed)?;
        Ok(Self { env, catalog, seat, retry_policy })
    }

    /// Commits requests until all are answered and no more can come, because the group was closed or all its handles
    /// were dropped.
    ///
    /// Dropping the future ends this. Requests that may have been sent are answered with an unknown outcome, all others
    /// with "not done", and so are later ones until there is another leader.
    pub async fn lead(self) {
        let Self { env, catalog, seat, retry_policy } = self;
        let work = Work::new(&env, &catalog, retry_policy);
        while seat.some().await {
            work.answer(Vec::new(), |room| seat.take(room)).await;
        }
    }
}

/// What the leader needs to commit requests.
pub(super) struct Work<'a, E, C> {
    env: &'a E,
    catalog: &'a C,
    retry_policy: RetryPolicy,
}

/// A request that the leader has taken. Dropping it answers it (step 9).
struct Member<C: Grouped> {
    taken: Taken<Request, Answer<C>>,
    /// Attempts it has been part of.
    tries: u32,
}

/// The version that the next attempt is based on.
struct Base<S> {
    /// `None`: load the newest.
    at: Option<S>,
    /// Whether it was the newest at some time since all taken requests were taken. A refusal by an older version may be
    /// out of date.
    fresh: bool,
}

/// What to do after an attempt.
enum After {
    /// Continue at once.
    Go,
    /// Nothing was sent.
    DecideAgain,
    /// Wait a little. Contains the reason if the store refused the write.
    Wait(Option<Cause>),
}

impl<'a, E: Env, C: Grouped> Work<'a, E, C> {
    pub(super) fn new(env: &'a E, catalog: &'a C, retry_policy: RetryPolicy) -> Self {
        Self { env, catalog, retry_policy }
    }

    /// Answers these requests, and those that `join` adds meanwhile (its argument is the room left). Ends when all are
    /// answered and `join` adds none.
    pub(super) async fn answer(
        &self,
        first: Vec<Taken<Request, Answer<C>>>,
        join: impl Fn(usize) -> Vec<Taken<Request, Answer<C>>>,
    ) {
        let member = |taken| Member { taken, tries: 0 };
        let mut batch: Vec<Member<C>> = first.into_iter().map(member).collect();
        let (mut base, mut losses) = (Base { at: self.catalog.newest_known(), fresh: false }, 0);
        loop {
            // Step 2. A request taken after the base was read may be wrongly refused by that base.
            let joining = join(MOST.saturating_sub(batch.len()));
            base.fresh &= joining.is_empty();
            batch.extend(joining.into_iter().map(member));
            if batch.is_empty() {
                return;
            }
            let after = match self.attempt(&mut batch, &mut base, losses).await {
                Ok(after) => after,
                // If the base cannot be read, nothing can be committed, and nothing was sent.
                Err(cause) => return tell_all(batch, &cause),
            };
            match after {
                After::Go => losses = 0,
                After::DecideAgain => {}
                After::Wait(denied) => {
                    self.give_up(&mut batch, denied.as_ref());
                    if !batch.is_empty() {
                        self.wait(losses).await;
                    }
                    losses += 1;
                }
            }
        }
    }

    /// One attempt. Leaves in the batch the requests to try again, and in `base` the version to use.
    async fn attempt(
        &self,
        batch: &mut Vec<Member<C>>,
        base: &mut Base<C::Snapshot>,
        losses: u32,
    ) -> Result<After, Cause> {
        let on = match base.at.take() {
            Some(on) => on,
            None => {
                base.fresh = true;
                self.catalog.load().await.map_err(Cause::from_error)?
            }
        };
        // Assertions are never sent.
        batch.iter_mut().for_each(|member| member.taken.sent = !Action::only_assert(member.taken.request()));
        let requests: Vec<&[Action]> = batch.iter().map(|member| member.taken.request().as_slice()).collect();
        let tried = self.catalog.attempt_group(&on, &requests).await;
        batch.iter_mut().for_each(|member| member.taken.sent = false);
        let (verdicts, outcome) = match tried {
            GroupAttempt::NotMade(error) => return Err(Cause::from_error(error)),
            GroupAttempt::Decided { verdicts, outcome } => (verdicts, outcome),
        };
        assert!(
            (1..=batch.len()).contains(&verdicts.len()),
            "an attempt decides at least one of its requests, and no others"
        );
        let fresh = base.fresh || mutant::is(Mutant::GroupRefusesStale);
        Ok(match outcome {
            // Step 3. All requests in the batch were taken before this version was written.
            Some(Outcome::Committed(now)) => {
                tell(batch, verdicts, |verdict, _| decided(verdict, &now));
                *base = Base { at: Some(now), fresh: true };
                After::Go
            }
            None if fresh => {
                tell(batch, verdicts, |verdict, _| decided(verdict, &on));
                *base = Base { at: Some(on), fresh: true };
                After::Go
            }
            // Step 4.
            None => {
                tell(batch, verdicts, |_, _| None);
                After::DecideAgain
            }
            // Step 5. After a wait the version found is hardly the newest.
            Some(Outcome::Conflict(newer)) => {
                tell(batch, verdicts, |_, _| None);
                *base = Base { at: newer.filter(|_| losses == 0), fresh: false };
                After::Wait(None)
            }
            Some(Outcome::Refused(denial)) if denial.passing => {
                tell(batch, verdicts, |_, _| None);
                base.at = Some(on);
                After::Wait(Some(denial.cause))
            }
            // Step 6.
            Some(Outcome::Unknown(cause)) => {
                let not_done = mutant::is(Mutant::GroupUnknownIsNotDone);
                let answer = || if not_done { CommitError::Failed } else { CommitError::Unknown };
                tell(batch, verdicts, |verdict, request| sent(verdict, request, || answer()(cause.clone())));
                base.fresh = false;
                After::Go
            }
            // Step 7.
            Some(Outcome::Refused(denial)) => {
                let failed = || CommitError::Failed(denial.cause.clone());
                tell(batch, verdicts, |verdict, request| sent(verdict, request, failed));
                base.at = Some(on);
                After::Go
            }
        })
    }

    /// Answers requests that have used up their attempts.
    fn give_up(&self, batch: &mut Vec<Member<C>>, denied: Option<&Cause>) {
        let most = self.retry_policy.tries.max(1);
        let (hopeless, rest) = std::mem::take(batch).into_iter().partition(|member| member.tries >= most);
        *batch = rest;
        for Member { taken, tries } in hopeless {
            taken.answer(Err(match denied {
                Some(cause) => CommitError::Failed(cause.clone()),
                None => CommitError::Contention { tries },
            }));
        }
    }

    async fn wait(&self, losses: u32) {
        let wait = self.retry_policy.backoff.wait(losses, || self.env.draw(Purpose::Backoff));
        if wait > Span::ZERO {
            self.env.sleep_until(self.env.now() + wait).await;
        }
    }
}

/// The answer that a version gives which contains what fits, or which shows that there was nothing to do.
fn decided<S: Clone>(verdict: &Verdict, at: &S) -> Option<Result<S, CommitError>> {
    Some(match verdict {
        Verdict::Fits => Ok(at.clone()),
        Verdict::Refused(refusal) => Err(CommitError::Refused(refusal.clone())),
        Verdict::Failed(_) => return None,
    })
}

/// The answer to a request that was sent and may not have taken effect. Requests that were refused or only assert get
/// none: they were decided on changes that may not be in the catalog, and nothing of them was sent.
fn sent<S>(verdict: &Verdict, request: &[Action], answer: impl Fn() -> CommitError) -> Option<Result<S, CommitError>> {
    let sent = matches!(verdict, Verdict::Fits) && !Action::only_assert(request);
    sent.then(|| Err(answer()))
}

/// Gives each decided request its answer; keeps those without an answer in the batch.
fn tell<C: Grouped>(
    batch: &mut Vec<Member<C>>,
    verdicts: Vec<Verdict>,
    answer: impl Fn(&Verdict, &[Action]) -> Option<Answer<C>>,
) {
    let undecided = batch.split_off(verdicts.len());
    let asked = batch.iter().map(|member| member.taken.request().as_slice());
    let mut answers: Vec<Option<Answer<C>>> =
        verdicts.iter().zip(asked).map(|(verdict, request)| answer(verdict, request)).collect();
    if mutant::is(Mutant::GroupAnswersSwapped) {
        answers.reverse();
    }
    for ((mut member, verdict), answer) in std::mem::take(batch).into_iter().zip(verdicts).zip(answers) {
        match (verdict, answer) {
            (Verdict::Failed(cause), _) => member.taken.answer(Err(CommitError::Failed(cause))),
            (_, Some(answer)) => member.taken.answer(answer),
            (_, None) => {
                member.tries += 1;
                batch.push(member);
            }
        }
    }
    batch.extend(undecided);
}

fn tell_all<C: Grouped>(batch: Vec<Member<C>>, cause: &Cause) {
    for member in batch {
        member.taken.answer(Err(CommitError::Failed(cause.clone())));
    }
}
