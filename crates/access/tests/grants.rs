//! Laws of grants, by random sets of them.

use glidepath_access::{
    Grant, Grants, Identity, Principal, Right, Verdict, decide, is_reserved, property_key, right_of,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn right() -> impl Strategy<Value = Right> {
    prop_oneof![Just(Right::Read), Just(Right::Write), Just(Right::Admin)]
}

/// Few names, some of which begin with another one or contain the separator.
fn path() -> impl Strategy<Value = Vec<String>> {
    vec(prop_oneof![Just("a"), Just("ab"), Just("b"), Just("a.b")].prop_map(str::to_owned), 0..4)
}

fn principal() -> impl Strategy<Value = Principal> {
    prop_oneof!["[xy]".prop_map(Principal::User), "[xy]".prop_map(Principal::Group), Just(Principal::Everyone),]
}

fn grant() -> impl Strategy<Value = Grant> {
    (principal(), path(), right()).prop_map(|(to, on, right)| Grant { to, on, right })
}

fn identity() -> impl Strategy<Value = Identity> {
    ("[xyz]", vec("[xyz]", 0..3)).prop_map(|(name, groups)| Identity::new(name, groups))
}

/// What the grants mean, said in the plainest way.
fn meant(grants: &[Grant], identity: &Identity, path: &[String]) -> Option<Right> {
    let is_for = |to: &Principal| match to {
        Principal::User(name) => name == identity.name(),
        Principal::Group(name) => identity.groups().any(|group| group == name),
        Principal::Everyone => true,
    };
    grants.iter().filter(|grant| path.starts_with(&grant.on) && is_for(&grant.to)).map(|grant| grant.right).max()
}

proptest! {
    #[test]
    fn grants_mean_what_they_say(grants in vec(grant(), 0..12), identity in identity(), path in path()) {
        let set: Grants = grants.iter().cloned().collect();
        let right = meant(&grants, &identity, &path);
        prop_assert_eq!(set.right(&identity, &path), right);
        for needed in [Right::Read, Right::Write, Right::Admin] {
            prop_assert_eq!(set.allows(&identity, &path, needed), right >= Some(needed));
            let verdict = decide(right, needed);
            prop_assert_eq!(verdict == Verdict::Allowed, set.allows(&identity, &path, needed));
            prop_assert_eq!(verdict == Verdict::Hidden, right.is_none());
        }
    }

    #[test]
    fn another_grant_takes_no_right_away(
        grants in vec(grant(), 0..8), more in grant(), identity in identity(), path in path(),
    ) {
        let mut set: Grants = grants.into_iter().collect();
        let before = set.right(&identity, &path);
        set.add(more);
        prop_assert!(set.right(&identity, &path) >= before);
    }

    #[test]
    fn rights_do_not_shrink_further_down(
        grants in vec(grant(), 0..8), identity in identity(), path in path(), below in path(),
    ) {
        let set: Grants = grants.into_iter().collect();
        let deep = [path.clone(), below].concat();
        prop_assert!(set.right(&identity, &deep) >= set.right(&identity, &path));
    }

    #[test]
    fn a_grant_reaches_its_own_branch_only(grant in grant(), identity in identity(), path in path()) {
        let set: Grants = [grant.clone()].into_iter().collect();
        if !path.starts_with(&grant.on) {
            prop_assert_eq!(set.right(&identity, &path), None);
        }
    }

    #[test]
    fn sets_together_give_what_their_union_gives(
        sets in vec(vec(grant(), 0..4), 0..4), identity in identity(), path in path(),
    ) {
        let union: Grants = sets.iter().flatten().cloned().collect();
        let sets: Vec<Grants> = sets.into_iter().map(|grants| grants.into_iter().collect()).collect();
        prop_assert_eq!(right_of(&identity, &path, &sets), union.right(&identity, &path));
    }

    #[test]
    fn properties_store_grants(on in path(), name in "[^\\p{Cc}]{1,40}", is_group: bool, right in right()) {
        let to = if is_group { Principal::Group(name) } else { Principal::User(name) };
        let grant = Grant { to, on: on.clone(), right };
        let (key, value) = grant.property();
        prop_assert!(is_reserved(&key) && key.is_ascii() && !key.contains(char::is_whitespace), "{}", key);
        let grants = Grants::of_properties(&on, [("owner", "x"), (key.as_str(), value.as_str())]);
        prop_assert_eq!(grants.iter().collect::<Vec<_>>(), vec![grant.clone()]);
        prop_assert_eq!(grant.to.to_string().parse::<Principal>(), Ok(grant.to));
    }

    #[test]
    fn a_principal_has_one_key(key in "glidepath\\.grant\\.(user|group):([a-z]|%[0-9A-Fa-f]{2}|[ :/%]){1,6}") {
        if let Ok(Some(grant)) = Grant::of_property(&[], &key, "read") {
            prop_assert_eq!(property_key(&grant.to), key);
        }
    }

    #[test]
    fn properties_that_are_not_reserved_give_nothing(key: String, value in "read|write|admin|\\PC*") {
        let set = Grants::of_properties(&[], [(key.as_str(), value.as_str())]);
        prop_assert!(is_reserved(&key) || set.is_empty());
    }
}
