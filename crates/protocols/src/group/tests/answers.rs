//! Tests that each answer is true, whatever happens to the batch, the callers and the leader.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::super::{CommitError, MOST};
use super::fake::{Ask, Asking, Ending, Office, Refused, Told, apply, poll};
use crate::mutant::{self, Mutant};
use Ask::{Create, Drop, Look, TooMuch};

fn version(told: &Told) -> Option<u64> {
    told.as_ref().ok().map(|(version, _)| version.0)
}

fn refused(told: &Told) -> Option<Refused> {
    match told {
        Err(CommitError::Refused(refusal)) => Some(Refused::of(refusal)),
        _ => None,
    }
}

fn unknown(told: &Told) -> bool {
    matches!(told, Err(CommitError::Unknown(_)))
}

fn failed(told: &Told, words: &str) -> bool {
    matches!(told, Err(CommitError::Failed(cause)) if cause.to_string().contains(words))
}

#[test]
fn answers_go_to_those_who_asked() {
    let told = Office::new(&[]).told(&[Create(1), Drop(9), Create(1), Create(2)]);
    assert_eq!((version(&told[0]), version(&told[3])), (Some(1), Some(1)));
    assert_eq!(refused(&told[1]), Some(Refused::Missing(9)));
    assert_eq!(refused(&told[2]), Some(Refused::Exists(1)));
    let told = mutant::with(Mutant::GroupAnswersSwapped, || Office::new(&[]).told(&[Create(1), Drop(9)]));
    assert_eq!((refused(&told[0]), version(&told[1])), (Some(Refused::Missing(9)), Some(1)));
}

#[test]
fn a_stale_base_refuses_nothing() {
    // This process knows a version that contains 1; another process has dropped 1 and created 2.
    let run = || {
        let mut office = Office::new(&[]);
        {
            let mut world = office.numbers.0.borrow_mut();
            world.install(&[Create(1)]);
            world.known = Some(world.head.clone());
            world.install(&[Drop(1)]);
            world.install(&[Create(2)]);
        }
        office.told(&[Create(1), Drop(2)])
    };
    assert_eq!(run().iter().map(version).collect::<Vec<_>>(), [Some(4), Some(4)]);
    let told = mutant::with(Mutant::GroupRefusesStale, run);
    assert_eq!(told.iter().map(refused).collect::<Vec<_>>(), [Some(Refused::Exists(1)), Some(Refused::Missing(2))]);
}

#[test]
fn what_was_never_there_is_not_dropped_after_a_conflict_either() {
    let told = Office::new(&[Ending::Beaten(Create(5))]).told(&[Create(1), Drop(9), Create(5)]);
    assert_eq!(version(&told[0]), Some(2));
    assert_eq!(refused(&told[1]), Some(Refused::Missing(9)));
    assert_eq!(refused(&told[2]), Some(Refused::Exists(5)));
}

#[test]
fn mates_of_an_unknown_outcome_are_decided_again() {
    let run = |landed| Office::new(&[Ending::Unknown(landed)]).told(&[Create(1), Create(1), Drop(9)]);
    let told = run(false);
    assert!(unknown(&told[0]));
    assert_eq!(version(&told[1]), Some(1), "the catalog allows it");
    assert_eq!(refused(&told[2]), Some(Refused::Missing(9)));
    let told = run(true);
    assert!(unknown(&told[0]));
    assert_eq!(refused(&told[1]), Some(Refused::Exists(1)));
    let told = mutant::with(Mutant::GroupUnknownIsNotDone, || run(true));
    assert!(failed(&told[0], "no answer"), "although it took effect");
}

/// Assertions make no version, and are answered by a version that was the newest at some time since they were asked.
#[test]
fn those_that_only_assert_are_answered_by_what_is_there() {
    let stale = || {
        let office = Office::new(&[]);
        {
            let mut world = office.numbers.0.borrow_mut();
            world.install(&[Create(1)]);
            world.known = Some(world.head.clone());
            world.install(&[Drop(1)]);
            world.install(&[Create(2)]);
        }
        office
    };
    let mut office = stale();
    let told = office.told(&[Look(1), Look(2)]);
    assert_eq!((refused(&told[0]), version(&told[1])), (Some(Refused::Missing(1)), Some(3)));
    assert_eq!(office.numbers.0.borrow().head.0.0, 3, "no version");
    let told = mutant::with(Mutant::GroupRefusesStale, || stale().told(&[Look(1)]));
    assert_eq!(version(&told[0]), Some(1), "a stale version");
    // Beside changes, in their order.
    let told = Office::new(&[]).told(&[Look(1), Create(1), Look(1), Drop(1), Look(1)]);
    assert_eq!([&told[1], &told[2], &told[3]].map(version), [Some(1); 3]);
    assert_eq!([&told[0], &told[4]].map(refused), [Some(Refused::Missing(1)); 2]);
}

/// Assertions are never sent, so they are decided again, whatever the outcome of the changes sent beside them.
#[test]
fn those_that_only_assert_do_not_share_a_bad_end() {
    for (ending, there) in [
        (Ending::Unknown(true), true),
        (Ending::Unknown(false), false),
        (Ending::NoRoom, false),
        (Ending::Beaten(Create(1)), true),
    ] {
        let told = Office::new(&[Ending::Told, ending]);
        let mut office = told;
        assert_eq!(version(&office.told(&[Create(7)])[0]), Some(1));
        let told = office.told(&[Create(1), Look(1), Look(7)]);
        assert_eq!(version(&told[0]), None, "{ending:?}");
        assert_eq!(version(&told[1]).is_some(), there, "{ending:?}");
        assert_eq!(refused(&told[1]).is_none(), there, "{ending:?}");
        assert!(version(&told[2]).is_some(), "{ending:?}");
    }
    // The leader crashed before it sent anything of it.
    let mut office = Office::new(&[Ending::Panics]);
    let (mut look, _) = office.ask(Look(1));
    let (mut create, _) = office.ask(Create(1));
    assert!(catch_unwind(AssertUnwindSafe(|| office.work())).is_err());
    office.leader = None;
    assert!(failed(&poll(&mut look).unwrap(), "leader"));
    assert!(unknown(&poll(&mut create).unwrap()));
}

#[test]
fn what_does_not_pass_is_told_at_once_and_what_does_is_tried_again() {
    let mut office = Office::new(&[Ending::NoRoom]);
    let told = office.told(&[Create(1), Create(1)]);
    assert!(failed(&told[0], "no room"));
    assert_eq!(version(&told[1]), Some(1));
    assert_eq!(office.tries(), [vec![Create(1), Create(1)], vec![Create(1)]]);
    let mut office = Office::new(&[Ending::Busy; 3]);
    assert_eq!(version(&office.told(&[Create(1)])[0]), Some(1));
    let mut office = Office::new(&[Ending::Busy; 9]);
    assert!(failed(&office.told(&[Create(1)])[0], "busy"));
    assert_eq!(office.tries().len(), 4);
}

#[test]
fn who_always_loses_is_told_so_after_as_many_tries_as_were_asked_for() {
    let beaten: Vec<_> = (100..110).map(|other| Ending::Beaten(Create(other))).collect();
    let mut office = Office::new(&beaten);
    let (mut first, _) = office.ask(Create(1));
    // The second joins after three attempts for the first, and gets as many attempts as the first.
    (0..4).for_each(|_| office.poll());
    assert_eq!(office.tries().len(), 4);
    let (mut second, _) = office.ask(Create(2));
    office.work();
    assert!(matches!(poll(&mut first), Some(Err(CommitError::Contention { tries: 4 }))));
    assert!(matches!(poll(&mut second), Some(Err(CommitError::Contention { tries: 4 }))));
    assert_eq!(office.tries().len(), 8);
}

#[test]
fn batches_over_the_limit_go_into_several_versions() {
    let mut office = Office::new(&[]);
    office.numbers.0.borrow_mut().room = 2;
    let told = office.told(&[Create(1), Create(1), TooMuch, Create(2), Create(3), Drop(1)]);
    assert_eq!(version(&told[0]), Some(1));
    assert_eq!(refused(&told[1]), Some(Refused::Exists(1)));
    assert!(failed(&told[2], "too much"));
    assert_eq!([&told[3], &told[4], &told[5]].map(version), [Some(1), Some(2), Some(2)]);
}

#[test]
fn one_that_is_too_large_keeps_nobody_waiting() {
    let mut office = Office::new(&[]);
    let told = office.told(&[TooMuch]);
    assert!(failed(&told[0], "too much"));
    assert_eq!(version(&office.told(&[Create(1)])[0]), Some(1));
}

#[test]
fn a_crowd_beyond_one_version_is_answered_in_its_order() {
    let mut office = Office::of(4096, 4);
    let asks: Vec<Ask> = (0..1300).map(Create).collect();
    let told = office.told(&asks);
    for (number, told) in told.iter().enumerate() {
        assert_eq!(version(told), Some((number / MOST) as u64 + 1));
    }
}

#[test]
fn callers_that_go_away_are_withdrawn_or_take_their_course() {
    let mut office = Office::new(&[]);
    let (early, _) = office.ask(Create(1));
    let (mut mate, _) = office.ask(Create(2));
    drop(early);
    office.poll();
    let (late, _) = office.ask(Create(3));
    let (mut last, _) = office.ask(Create(4));
    // The first is dropped before it is taken, the third while its version is in flight.
    (0..1).for_each(|_| office.poll());
    assert_eq!(poll(&mut mate).as_ref().and_then(version), Some(1));
    drop(late);
    office.work();
    assert_eq!(poll(&mut last).as_ref().and_then(version), Some(2));
    assert_eq!(office.numbers.0.borrow().log, [Create(2), Create(3), Create(4)]);
}

#[test]
fn a_caller_that_is_not_polled_keeps_nobody_waiting() {
    let mut office = Office::new(&[]);
    let (mut kept, _) = office.ask(Create(1));
    assert_eq!(version(&office.told(&[Create(2)])[0]), Some(1));
    assert_eq!(version(&office.told(&[Create(3)])[0]), Some(2));
    assert_eq!(poll(&mut kept).as_ref().and_then(version), Some(1));
}

#[test]
fn a_leader_that_goes_away_leaves_nobody_behind() {
    for panics in [false, true] {
        let mut office = Office::new(if panics { &[Ending::Panics] } else { &[] });
        let (mut taken, _) = office.ask(Create(1));
        office.poll();
        let (mut waits, _) = office.ask(Create(2));
        let mut leader = office.leader.take();
        if panics {
            let end = catch_unwind(AssertUnwindSafe(|| leader.as_mut().map(poll)));
            assert!(end.is_err());
        }
        drop(leader);
        assert!(unknown(&poll(&mut taken).unwrap()));
        assert!(failed(&poll(&mut waits).unwrap(), "stopped"));
        assert!(failed(&office.ask(Create(3)).1.unwrap(), "no leader"));
        office.lead();
        assert!(version(&office.told(&[Create(4)])[0]).is_some());
    }
}

#[test]
fn a_full_queue_says_so() {
    let mut office = Office::of(2, 4);
    let asking: Vec<_> = (0..2).map(|number| office.ask(Create(number))).collect();
    let told = office.ask(Create(2)).1;
    assert!(matches!(told, Some(Err(CommitError::Full { waiting: 2 }))));
    // Requests that the leader has taken do not count towards the limit, nor do dropped ones.
    office.poll();
    assert_eq!(office.group.waiting(), 0);
    let (third, _) = office.ask(Create(3));
    let (_fourth, _) = office.ask(Create(4));
    drop(third);
    assert!(office.ask(Create(5)).1.is_none());
    drop(asking);
}

#[test]
fn one_leader_at_a_time() {
    let mut office = Office::new(&[]);
    assert!(office.leader().is_err());
    office.leader = None;
    assert!(office.leader().is_ok());
}

#[test]
fn a_leader_ends_when_nobody_is_left() {
    let mut office = Office::new(&[]);
    let (mut last, _) = office.ask(Create(1));
    office.group.close();
    assert!(failed(&office.ask(Create(2)).1.unwrap(), "closed"));
    office.work();
    assert!(office.leader.is_none());
    assert_eq!(poll(&mut last).as_ref().and_then(version), Some(1));

    let mut office = Office::new(&[]);
    let group = std::mem::replace(&mut office.group, super::super::Group::new(1));
    office.work();
    assert!(office.leader.is_some(), "one handle is left");
    drop(group);
    office.work();
    assert!(office.leader.is_none());
}

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Event {
    Ask(Ask),
    GoAway(prop::sample::Index),
    Work(u8),
    /// Another process commits.
    Other(Ask),
    LeaderGoes,
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        4 => (0_u32..4).prop_map(Create),
        4 => (0_u32..4).prop_map(Drop),
        2 => (0_u32..4).prop_map(Look),
        1 => Just(TooMuch)
    ]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => asks().prop_map(Event::Ask),
        1 => any::<prop::sample::Index>().prop_map(Event::GoAway),
        6 => (1_u8..4).prop_map(Event::Work),
        2 => asks().prop_map(Event::Other),
        1 => Just(Event::LeaderGoes),
    ]
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![
        4 => Just(Ending::Told),
        2 => asks().prop_filter("a change", |ask| matches!(ask, Create(_) | Drop(_))).prop_map(Ending::Beaten),
        2 => any::<bool>().prop_map(Ending::Unknown),
        1 => Just(Ending::Busy),
        1 => Just(Ending::NoRoom),
    ]
}

/// An open request, and the length of the log when it was asked.
type Open = (Ask, usize, Asking);

/// An answer (a refusal, or that an assertion holds), and the two lengths of the log between which it must be right at
/// some point.
type Answered = (Ask, Result<(), Refused>, usize, usize);

fn collect(office: &Office, open: &mut Vec<Open>, answers: &mut Vec<Answered>, counts: &mut Counts) {
    open.retain_mut(|(ask, from, asking)| {
        let Some(told) = poll(asking) else { return true };
        counts.take(*ask, &told);
        let answer = match (&*ask, &told) {
            (Look(_), Ok(_)) => Some(Ok(())),
            _ => refused(&told).map(Err),
        };
        answers.extend(answer.map(|answer| (*ask, answer, *from, office.numbers.0.borrow().log.len())));
        false
    });
}

/// The changes asked for: certainly done, and perhaps done.
#[derive(Default)]
struct Counts {
    done: Vec<Ask>,
    perhaps: Vec<Ask>,
    others: Vec<Ask>,
}

impl Counts {
    fn take(&mut self, ask: Ask, told: &Told) {
        match told {
            Ok(_) => self.done.push(ask),
            Err(CommitError::Unknown(_)) if matches!(ask, Look(_)) => panic!("nothing was sent"),
            Err(CommitError::Unknown(_)) => self.perhaps.push(ask),
            Err(_) => {}
        }
    }

    fn check(&self, log: &[Ask]) {
        for ask in (0..4).flat_map(|name| [Create(name), Drop(name)]) {
            let count = |asks: &[Ask]| asks.iter().filter(|other| **other == ask).count();
            let (least, found) = (count(&self.done) + count(&self.others), count(log));
            let most = least + count(&self.perhaps);
            assert!((least..=most).contains(&found), "{ask:?}: {found} in the log, not {least} to {most}");
        }
    }
}

fn names_at(log: &[Ask]) -> BTreeSet<u32> {
    let mut names = BTreeSet::new();
    log.iter().for_each(|ask| apply(&mut names, *ask).unwrap());
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Callers and leaders are dropped at any time, others commit, and versions end in every way. An acknowledged
    /// change took effect once, a denied one did not, and each refusal was right at some time between question and
    /// answer.
    #[test]
    fn everybody_is_told_the_truth(
        events in prop::collection::vec(events(), 1..60),
        endings in prop::collection::vec(endings(), 0..12),
        room in 0_usize..4,
    ) {
        let mut office = Office::new(&endings);
        office.numbers.0.borrow_mut().room = room;
        let (mut open, mut answers, mut counts) = (Vec::<Open>::new(), Vec::new(), Counts::default());
        // Versions of other processes are part of the log like any others.
        for event in events.into_iter().chain([Event::Work(200)]) {
            match event {
                Event::Ask(ask) => {
                    let from = office.numbers.0.borrow().log.len();
                    let (asking, told) = office.ask(ask);
                    match told {
                        Some(told) => counts.take(ask, &told),
                        None => open.push((ask, from, asking)),
                    }
                }
                Event::GoAway(index) if !open.is_empty() => {
                    let (ask, ..) = open.remove(index.index(open.len()));
                    counts.perhaps.push(ask);
                }
                Event::GoAway(_) => {}
                Event::Work(polls) => (0..polls).for_each(|_| office.poll()),
                Event::Other(ask @ (Create(_) | Drop(_))) => {
                    let mut world = office.numbers.0.borrow_mut();
                    if apply(&mut world.head.1.clone(), ask).is_ok() {
                        world.install(&[ask]);
                        counts.others.push(ask);
                    }
                }
                Event::Other(_) => {}
                Event::LeaderGoes => {
                    office.leader = None;
                    collect(&office, &mut open, &mut answers, &mut counts);
                    prop_assert!(open.is_empty(), "without an answer after the leader was dropped: {}", open.len());
                    office.lead();
                }
            }
            collect(&office, &mut open, &mut answers, &mut counts);
        }
        prop_assert!(open.is_empty(), "without an answer: {}", open.len());
        let world = office.numbers.0.borrow();
        // The commits that came first took effect like any others.
        let beaten = endings.iter().filter_map(|ending| match ending {
            Ending::Beaten(other) => Some(*other),
            _ => None,
        });
        counts.perhaps.extend(beaten);
        counts.check(&world.log);
        for (ask, answer, from, to) in answers {
            let right = (from..=to).any(|end| apply(&mut names_at(&world.log[..end]), ask) == answer);
            prop_assert!(right, "{ask:?} was told {answer:?} in {:?}", &world.log[from..to]);
        }
    }
}
