//! Do the judge's rules agree with those of the model, and does the judge detect violations?

use std::collections::BTreeMap;

use glidepath_model::{
    Action, Advance, Assertion, Changes, CommitId, Edit, Entry, Instant, Kind, MetadataId, Name, Need, PartitionId,
    Root, Span, TableId, TableState, Version, View,
};
use proptest::prelude::*;

use super::book::{Asked, Book, Step, Told, Versions};
use super::judge::{Terms, judge};
use super::names::{MARK, Names};
use super::rules::Rules;
use super::state::State;

const NAMES: [&str; 9] = ["a", "a/x", "a/x/t", "a/t", "a-b", "b", "b/t", "b/u", "c"];

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn actions() -> impl Strategy<Value = Action> {
    let names = prop::sample::select(NAMES.to_vec()).prop_map(name);
    let versions = prop::collection::btree_map(0_u32..3, 0_u64..3, 1..3);
    let kinds = prop::sample::select(Kind::ALL.to_vec());
    let pointers = (prop::option::of("[mn]"), prop::option::of("[mn]"));
    let asked = (0_u32..16, names.clone(), names, versions, any::<bool>(), kinds, pointers);
    asked.prop_map(|(which, name, other, versions, flag, kind, (pointer, next))| {
        let version = versions.first_key_value().map(|(_, at)| Version(*at));
        match which {
            9 => Action::Create { name, entry: Entry { pointer, ..Entry::view() } },
            // Some of them are invalid.
            10 => {
                let state = flag.then(|| TableState::new(versions.len()));
                Action::Create { name, entry: Entry { kind, state, pointer, ..Entry::namespace() } }
            }
            11 | 12 => Action::SetPointer { name, expected: pointer, pointer: next.unwrap_or_default() },
            13 => Action::Assert { name, holds: if flag { Assertion::Absent } else { Assertion::Exists(kind) } },
            14 => Action::Assert { name, holds: Assertion::Pointer(pointer) },
            15 => Action::Assert { name, holds: Assertion::Version(version.unwrap_or(Version(0))) },
            0 | 1 => Action::Create { name, entry: Entry::table(None, TableState::new(versions.len())) },
            2 | 3 => Action::Create { name, entry: Entry::namespace() },
            4 => Action::Drop { name, kind, expected: version.filter(|_| flag) },
            5 => Action::DropAll { name },
            6 => Action::Rename { from: name, to: other },
            7 => {
                let value = |(key, value): (&u32, &u64)| (format!("p{key}"), flag.then(|| value.to_string()));
                Action::SetProperties { name, changes: versions.iter().map(value).collect() }
            }
            _ => {
                let partitions =
                    versions.iter().map(|(partition, at)| (PartitionId(*partition), Version(*at))).collect();
                Action::Advance { name, advance: Advance { metadata: MetadataId(7), partitions } }
            }
        }
    })
}

/// The result of the model's rules.
fn by_view(entries: &mut BTreeMap<Name, Entry>, request: &[Action]) -> Result<(), glidepath_model::Refusal> {
    let mut view = View::default();
    for need in view.needs(request) {
        match need {
            Need::Entry(name) => {
                let entry = entries.get(&name).cloned();
                view.insert(name, entry);
            }
            Need::Children(namespace, most) => {
                let inside = entries.keys().filter(|name| name.parent().as_ref() == Some(&namespace));
                let some = inside.take(most).cloned().collect();
                view.insert_children(namespace, some, most);
            }
        }
    }
    view.apply(request)?;
    for gone in view.gone() {
        entries.retain(|name, _| !name.is_within(gone));
    }
    let changes: Vec<(Name, Option<Entry>)> =
        view.changes().map(|(name, _, now)| (name.clone(), now.cloned())).collect();
    for (name, now) in changes {
        match now {
            Some(entry) => entries.insert(name, entry),
            None => entries.remove(&name),
        };
    }
    Ok(())
}

fn changes() -> impl Strategy<Value = Changes> {
    let versions = prop::collection::btree_map(0_u32..4, 0_u64..3, 1..3);
    prop::collection::vec((0_u32..4, 0_u32..5, versions), 1..4).prop_map(|edits| {
        let mut changes = Changes::default();
        for (table, which, versions) in edits {
            let partitions = versions.iter().map(|(partition, at)| (PartitionId(*partition), Version(*at))).collect();
            let edit = match which {
                0 => Edit::Create(TableState::new(versions.len())),
                1 => Edit::Drop(Version(versions.values().copied().next().unwrap_or(0))),
                _ => Edit::Advance(Advance { metadata: MetadataId(7), partitions }),
            };
            changes.set(TableId(table), edit);
        }
        changes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_rules_of_actions_are_those_of_the_model(requests in prop::collection::vec(prop::collection::vec(actions(), 1..4), 1..30)) {
        let (mut state, mut entries) = (State::new(BTreeMap::new()), BTreeMap::new());
        for request in requests {
            let mark = state.mark();
            let told = Names::apply(&mut state, &request);
            if told.is_err() {
                state.back_to(mark);
            }
            prop_assert_eq!(told, by_view(&mut entries, &request), "{:?}", request);
            prop_assert_eq!(state.now(), &entries, "{:?}", request);
        }
        state.back_to(0);
        prop_assert!(state.now().is_empty());
    }

    #[test]
    fn the_rules_of_changes_are_those_of_the_model(requests in prop::collection::vec(changes(), 1..40)) {
        let (mut state, mut root) = (State::new(BTreeMap::new()), Root::empty());
        for request in requests {
            let mark = state.mark();
            let told = Names::apply(&mut state, &request.actions());
            match (told, request.apply(&root, CommitId(1))) {
                (Ok(()), Ok(next)) => root = next,
                (Err(_), Err(_)) => state.back_to(mark),
                (mine, theirs) => prop_assert!(false, "{:?} {:?} {:?}", mine, theirs.map(|root| root.version), request),
            }
            let entries: BTreeMap<Name, Entry> = root.all().collect();
            prop_assert_eq!(state.now(), &entries);
        }
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

fn create(text: &str, mark: u64) -> Vec<Action> {
    let properties = BTreeMap::from([(MARK.to_owned(), mark.to_string())]);
    vec![Action::Create { name: name(text), entry: Entry { properties, ..Entry::namespace() } }]
}

fn asked(
    mark: u64,
    request: Vec<Action>,
    (from, to): (u64, u64),
    told: Told<glidepath_model::Refusal>,
) -> Asked<Names> {
    let (called, answered) = (at(from), (told != Told::Nothing).then(|| at(to)));
    Asked { group: 0, writer: 0, mark, request, called, answered, told }
}

/// Judges these requests against versions with these names, one per second, written by process 1.
fn judged(asked: Vec<Asked<Names>>, versions: &[&[(&str, u64)]]) -> Result<(), String> {
    judged_by(Terms { exact: true, least: 0, most: usize::MAX }, asked, versions)
}

fn judged_by(terms: Terms, asked: Vec<Asked<Names>>, versions: &[&[(&str, u64)]]) -> Result<(), String> {
    let entry = |mark: u64| match create("x", mark).remove(0) {
        Action::Create { entry, .. } => entry,
        _ => Entry::namespace(),
    };
    let whole = |names: &[(&str, u64)]| -> BTreeMap<Name, Entry> {
        names.iter().map(|(text, mark)| (name(text), entry(*mark))).collect()
    };
    let mut steps = Vec::new();
    for (number, pair) in versions.windows(2).enumerate() {
        let (before, now) = (whole(pair[0]), whole(pair[1]));
        let gone = before.keys().filter(|name| !now.contains_key(*name)).map(|name| (name.clone(), None));
        let new = now.iter().filter(|(name, entry)| before.get(*name) != Some(*entry));
        let difference = gone.chain(new.map(|(name, entry)| (name.clone(), Some(entry.clone())))).collect();
        let number = number as u64 + 1;
        steps.push(Step { version: Version(number), at: at(number * 1000), by: 1, difference });
    }
    let versions = Versions { first: (Version(0), whole(versions[0])), steps, commits: BTreeMap::new() };
    let book = Book { asked, ..Book::default() };
    judge(&versions, &book, terms, |process| (process == 1).then_some(0)).map(drop)
}

/// Equal requests without a mark are interchangeable: the one that was answered with a version must be assigned one, in
/// any order of calls. (Seed 1795361381916559030 of append-log under listings.)
#[test]
fn of_equal_requests_the_acknowledged_one_is_found() {
    let drop_a = || vec![Action::Drop { name: name("a"), kind: Kind::Namespace, expected: None }];
    let chain: &[&[(&str, u64)]] = &[&[("a", 1)], &[], &[("b", 9)]];
    let unheard = |from| asked(2, drop_a(), (from, 0), Told::Nothing);
    for most in [1, usize::MAX] {
        let terms = Terms { exact: false, least: 0, most };
        for (first, second) in [(100, 200), (200, 100)] {
            let told = |version| {
                let mut all = vec![
                    asked(1, drop_a(), (first, 2500), Told::Done(Version(version))),
                    unheard(second),
                    asked(9, create("b", 9), (300, 2500), Told::Done(Version(2))),
                ];
                all.sort_by_key(|asked| asked.called);
                judged_by(terms, all, chain)
            };
            assert_eq!(told(1), Ok(()));
            assert_eq!(told(2), Ok(()));
        }
    }
    // Two were acknowledged, and only one of the answers can be right.
    let both = [1, 2].map(|mark| asked(mark, drop_a(), (100, 2500), Told::Done(Version(2))));
    let both = both.into_iter().chain([asked(9, create("b", 9), (300, 2500), Told::Done(Version(2)))]).collect();
    assert!(judged_by(Terms { exact: false, least: 0, most: 1 }, both, chain).is_err());
}

/// Of requests that explain a version equally well, one may be needed for a later version. (Seeds 1795935435803631906
/// and 9004212 of append-log under crowd.)
#[test]
fn what_another_one_explains_too_is_free_for_a_later_version() {
    let chain: &[&[(&str, u64)]] = &[&[("a", 1), ("b", 2)], &[("a", 1), ("b", 2)], &[("b", 2)], &[("b", 2)]];
    let changes_nothing = |text: &str| vec![Action::SetProperties { name: name(text), changes: BTreeMap::new() }];
    let drop_a = vec![Action::Drop { name: name("a"), kind: Kind::Namespace, expected: None }];
    let terms = Terms { exact: false, least: 1, most: 1 };
    // Only before the drop can `a` be changed, and the search takes the last call that explains a version.
    for told in [Told::Nothing, Told::Done(Version(3))] {
        let all = |changed: [&str; 2]| {
            let requests = [changes_nothing(changed[0]), drop_a.clone(), changes_nothing(changed[1])];
            let numbered = requests.into_iter().zip(1..);
            numbered.map(|(request, number)| asked(2 + number, request, (100 * number, 3500), told.clone())).collect()
        };
        assert_eq!(judged_by(terms, all(["a", "b"]), chain), Ok(()));
        assert_eq!(judged_by(terms, all(["b", "a"]), chain), Ok(()));
        for wrong in [["a", "a"], ["c", "b"]] {
            assert!(judged_by(terms, all(wrong), chain).unwrap_err().contains("is not what was asked for"));
        }
    }
}

/// If an answer may name a later version, the request may have been in an earlier one that undid it, if it was called
/// by then. (Seed 1384 of catalog-file under storm.)
#[test]
fn told_a_later_version_and_undone_in_its_own() {
    let chain: &[&[(&str, u64)]] = &[&[("a", 1)], &[], &[("b", 9)]];
    let told = |exact, called| {
        let mut all = vec![
            asked(3, create("a/x", 3), (called, 2500), Told::Done(Version(2))),
            asked(2, vec![Action::DropAll { name: name("a") }], (200, 2500), Told::Done(Version(1))),
            asked(9, create("b", 9), (300, 2500), Told::Done(Version(2))),
        ];
        all.sort_by_key(|asked| asked.called);
        judged_by(Terms { exact, least: 0, most: usize::MAX }, all, chain)
    };
    assert_eq!(told(false, 100), Ok(()));
    // Exact answers name the request's own version; behind the drop, or after its version, no request undoes it.
    for (exact, called) in [(true, 100), (false, 250), (false, 1200)] {
        assert!(told(exact, called).unwrap_err().contains("is not there"));
    }
}

#[test]
fn right_answers_are_right() {
    let done = |version| Told::Done(Version(version));
    let drop_a = vec![Action::Drop { name: name("a"), kind: Kind::Namespace, expected: None }];
    let exists = || Told::Refused(glidepath_model::Refusal::Exists(name("a")));
    let all = vec![
        asked(1, create("a", 1), (500, 1500), done(1)),
        // Refused by the request before it in the same version.
        asked(2, create("a", 2), (600, 1500), exists()),
        // It was not answered, and it happened.
        asked(3, create("b", 3), (700, 0), Told::Nothing),
        asked(4, drop_a.clone(), (1600, 2500), Told::Unknown),
        asked(5, drop_a, (1700, 2500), Told::Refused(glidepath_model::Refusal::NotFound(name("a")))),
        asked(6, create("c", 6), (1700, 2500), Told::NotDone("contention".to_owned())),
        // Two requests of one group that cancel out.
        asked(7, create("d", 7), (2600, 2700), done(2)),
        asked(8, vec![Action::DropAll { name: name("d") }], (2610, 2700), done(2)),
    ];
    assert_eq!(judged(all, &[&[], &[("a", 1), ("b", 3)], &[("b", 3)]]), Ok(()));
}

#[test]
fn wrong_answers_are_wrong() {
    let done = |version| Told::Done(Version(version));
    let exists = || Told::Refused(glidepath_model::Refusal::Exists(name("a")));
    let chain: &[&[(&str, u64)]] = &[&[], &[("a", 1)], &[("a", 1), ("b", 2)]];
    let right =
        || vec![asked(1, create("a", 1), (500, 1500), done(1)), asked(2, create("b", 2), (1600, 2500), done(2))];
    assert_eq!(judged(right(), chain), Ok(()));
    let wrong = |change: &dyn Fn(&mut Vec<Asked<Names>>), words: &str| {
        let mut all = right();
        change(&mut all);
        let said = judged(all, chain).unwrap_err();
        assert!(said.contains(words), "{said}");
    };
    wrong(&|all| all[0].told = done(2), "is not what was asked for");
    wrong(&|all| all[0].told = Told::NotDone("failed".to_owned()), "has what it should not");
    wrong(&|all| all[0].told = exists(), "has what it should not");
    wrong(&|all| all[1].group = 3, "has what it should not");
    wrong(&|all| all[1].called = at(2200), "has what it should not");
    wrong(&|all| all[1].answered = Some(at(1900)), "outside the time of a request");
    wrong(&|all| drop(all.remove(1)), "is not what was asked for");
    wrong(&|all| all.push(asked(3, create("c", 3), (2600, 2700), done(2))), "is not there");
    wrong(&|all| all.push(asked(3, create("c", 3), (2600, 2700), done(9))), "in no version");
    // The entry exists now, but did not until the answer.
    wrong(
        &|all| all.push(asked(3, create("a", 3), (100, 400), exists())),
        "no version between call and answer gives this refusal",
    );
    wrong(&|all| all.push(asked(3, create("z", 3), (2600, 2700), exists())), "no version between call and answer");
}

/// A request that only asserts is in no version: it is judged by the states between call and answer.
#[test]
fn what_is_only_asserted_is_judged_by_what_there_was() {
    let chain: &[&[(&str, u64)]] = &[&[], &[("a", 1)], &[("a", 1), ("b", 2)]];
    let judged = |exact, (from, to), holds: Assertion, told| {
        let assert = vec![Action::Assert { name: name("a"), holds }];
        let mut all = vec![
            asked(1, create("a", 1), (500, 1500), Told::Done(Version(1))),
            asked(2, create("b", 2), (1600, 2500), Told::Done(Version(2))),
            asked(3, assert, (from, to), told),
        ];
        all.sort_by_key(|asked| asked.called);
        judged_by(Terms { exact, least: 0, most: usize::MAX }, all, chain)
    };
    let done = |version| Told::Done(Version(version));
    let there = || Assertion::Exists(Kind::Namespace);
    for exact in [true, false] {
        assert_eq!(judged(exact, (1100, 1200), there(), done(1)), Ok(()));
        assert_eq!(judged(exact, (100, 200), Assertion::Absent, done(0)), Ok(()));
        // In the state before the first request of the reported version.
        assert_eq!(judged(exact, (600, 1200), Assertion::Absent, done(1)), Ok(()));
        // Without an answer there is nothing to judge.
        assert_eq!(judged(exact, (100, 0), there(), Told::Nothing), Ok(()));
        for (times, holds, told) in [
            ((100, 200), there(), done(0)),
            ((1100, 1200), Assertion::Absent, done(1)),
            ((1100, 1200), there(), done(0)),
            ((2100, 2200), Assertion::Absent, done(1)),
            ((100, 200), there(), done(2)),
        ] {
            let said = judged(exact, times, holds, told).unwrap_err();
            assert!(said.contains("fulfils this assertion"), "{said}");
        }
        let said = judged(exact, (1100, 1200), there(), Told::Unknown).unwrap_err();
        assert!(said.contains("has an unknown outcome"), "{said}");
    }
    // It held until 1000 ms, and the answer may name a later version only if answers are not exact.
    assert_eq!(judged(false, (600, 2200), Assertion::Absent, done(2)), Ok(()));
    assert!(judged(true, (600, 2200), Assertion::Absent, done(2)).is_err());
}
