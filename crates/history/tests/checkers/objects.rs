//! References: existing objects against referred ones.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_history::{Fault, Leftovers, References, Violation, merged, references};
use glidepath_model::Span;
use proptest::prelude::*;

const GRACE: Span = Span::from_secs(60);

/// Versions with the keys each refers to, and the objects of a store after a vacuum.
fn store() -> impl Strategy<Value = (Vec<BTreeSet<String>>, BTreeMap<String, Span>)> {
    let key = || (0_u32..200).prop_map(|n| format!("data/{n:04}"));
    let versions = prop::collection::vec(prop::collection::btree_set(key(), 1..20), 1..6);
    let young = prop::collection::btree_map(key(), 0_u64..=60, 0..20);
    (versions, young, 0_u64..1000).prop_map(|(versions, young, age)| {
        let mut present: BTreeMap<_, _> = young.into_iter().map(|(key, age)| (key, Span::from_secs(age))).collect();
        present.extend(versions.iter().flatten().map(|key| (key.clone(), Span::from_secs(age))));
        (versions, present)
    })
}

fn compare(versions: &[BTreeSet<String>], present: &BTreeMap<String, Span>) -> Result<References, Violation> {
    let present = present.iter().map(|(key, age)| (key.as_str(), *age));
    let referred = merged(versions.iter().map(|version| version.iter().map(String::as_str)));
    references(present, referred, Leftovers::NotOlderThan(GRACE))
}

proptest! {
    #[test]
    fn a_clean_store_is_accepted_and_a_spoilt_one_is_not((versions, present) in store(), which in any::<prop::sample::Index>()) {
        let referred: BTreeSet<&String> = versions.iter().flatten().collect();
        let counted = compare(&versions, &present).map_err(|violation| TestCaseError::fail(violation.to_string()))?;
        prop_assert_eq!(counted.referred, referred.len() as u64);
        prop_assert_eq!(counted.referred + counted.unreferred, present.len() as u64);

        let victim = (*which.get(&referred.iter().copied().collect::<Vec<_>>())).clone();
        let mut less = present.clone();
        less.remove(&victim);
        let fault = compare(&versions, &less).unwrap_err().fault().clone();
        prop_assert_eq!(fault, Fault::MissingObject { key: victim.clone(), count: 1 });

        let mut more = present.clone();
        let (key, age) = (format!("{victim}-staged"), Span::from_nanos(GRACE.as_nanos() + 1));
        more.insert(key.clone(), age);
        more.insert("zz".to_owned(), age);
        let fault = compare(&versions, &more).unwrap_err().fault().clone();
        prop_assert_eq!(fault, Fault::Leftover { key, age, grace: GRACE, count: 2 });
    }
}

#[test]
fn before_a_vacuum_leftovers_may_stay() {
    let old = Span::from_secs(100_000);
    let counted = references([("a", old), ("b", old)], ["b", "b"], Leftovers::Allowed).unwrap();
    assert_eq!(counted, References { referred: 1, unreferred: 1 });
}

#[test]
fn keys_out_of_order_are_not_checked_silently() {
    let young = Span::ZERO;
    for (present, referred) in [
        (vec![("b", young), ("a", young)], vec!["a", "b"]),
        (vec![("a", young), ("b", young)], vec!["b", "a"]),
        (vec![("a", young), ("a", young)], vec!["a"]),
    ] {
        let violation = references(present, referred, Leftovers::Allowed).unwrap_err();
        assert!(matches!(violation.fault(), Fault::OutOfKeyOrder { .. }), "{violation}");
    }
}
