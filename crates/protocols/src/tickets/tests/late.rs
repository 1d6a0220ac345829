//! What comes, or ends, between two looks of one attempt.

use super::*;
use crate::tickets::plan::Draft;

fn done(catalog: &Tickets<World>, actions: Vec<Action>) {
    assert!(matches!(ask(catalog, actions).1, Some(Outcome::Committed(_))));
}

fn namespace(name: &str) -> Action {
    create(name, Entry::namespace())
}

/// That it was empty, as its drop requires, was decided before.
#[test]
fn what_comes_into_a_namespace_that_was_empty_is_not_dropped_with_the_one_above() {
    let world = World::default();
    let catalog = begun(&world);
    done(&catalog, vec![namespace("n"), namespace("n/k")]);
    let drop = [Action::Drop { name: name("n/k"), kind: Kind::Namespace, expected: None }];
    let all = [Action::DropAll { name: name("n") }];
    for comes in [false, true] {
        let mut draft = Draft::default();
        at_once(catalog.decide_on(&mut draft, &[&drop])).unwrap();
        if comes {
            done(&process(&world), vec![create("n/k/q", Entry::table(None, TableState::new(1)))]);
        }
        at_once(catalog.decide_on(&mut draft, &[&all])).unwrap();
        at_once(catalog.planned(&mut draft)).unwrap();
        assert_eq!(draft.is_late, comes);
    }
    let whole = [drop, all].concat();
    let (verdicts, _) = ask(&catalog, whole);
    assert!(matches!(verdicts[..], [Verdict::Refused(Refusal::NotEmpty(_))]), "{verdicts:?}");
    assert!(matches!(ask(&catalog, vec![Action::DropAll { name: name("n") }]).1, Some(Outcome::Committed(_))));
}

/// A server that died had begun several transactions.
#[test]
fn an_attempt_waits_a_second_for_all_that_are_in_its_way() {
    let world = World::default();
    let catalog = begun(&world);
    for (table, txn) in [(A, 77), (B, 78)] {
        intend(&process(&world), table, TxnId(txn));
    }
    let began = world.now();
    assert!(matches!(commit(&catalog, &[A, B], 5), Outcome::Committed(_)));
    assert!(world.now().since(began) <= Span::from_millis(1300));
}

/// Of one snapshot by two tasks at once.
#[test]
fn what_two_look_up_at_once_in_a_snapshot_was_current_together() {
    let world = World::default();
    let catalog = begun(&world);
    let at = Rc::new(at_once(catalog.load()).unwrap());
    let [first, second] = [A, B].map(Name::numbered);
    // After the first name was read, both change, and the other task looks up the second one.
    let (other, snapshot, mut is_due) = (process(&world), Rc::clone(&at), true);
    world.when_read(move || {
        if std::mem::take(&mut is_due) {
            assert!(matches!(commit(&other, &[A, B], 5), Outcome::Committed(_)));
            at_once(other.look_up(&snapshot, std::slice::from_ref(&second))).unwrap();
        }
    });
    let seen = at_once(catalog.look_up(&at, std::slice::from_ref(&first))).unwrap();
    assert_eq!(metadata(&catalog), [5, 5]);
    let of = |seen: &Seen| seen.now().unwrap().state.as_ref().unwrap().metadata;
    assert_eq!(of(&seen[0]), MetadataId(5));
}
