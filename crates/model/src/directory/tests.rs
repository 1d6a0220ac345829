use std::collections::BTreeMap;

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::{Advance, MetadataId, PartitionId, TableState, Version};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

proptest! {
    #[test]
    fn names_of_different_paths_differ_and_say_their_parts(
        one in prop::collection::vec("[a-c/%$\\n. é\u{200B}\u{202E}]{1,4}", 1..4),
        other in prop::collection::vec("[a-c/%$\\n. é\u{200B}\u{202E}]{1,4}", 1..4),
    ) {
        let of = |parts: &[String]| Name::of_parts(parts.iter().map(String::as_str)).unwrap();
        let first = of(&one);
        prop_assert_eq!(&first.parts(), &one);
        prop_assert_eq!(Name::parse(first.as_str()), Ok(first.clone()));
        prop_assert_eq!(first == of(&other), one == other);
        let visible = !first.as_str().contains(['\n', '\u{200B}', '\u{202E}']) && first.as_str().trim() == first.as_str();
        prop_assert!(visible, "{}", first);
        prop_assert_eq!(first.parent().map(|parent| parent.parts()), (one.len() > 1).then(|| one[..one.len() - 1].to_vec()));
    }

    #[test]
    fn no_text_makes_a_name_of_it_panic(text in any::<String>()) {
        if let Ok(name) = Name::parse(&text) {
            prop_assert_eq!(name.as_str(), text.as_str());
        }
    }
}

#[test]
fn what_is_not_a_name_is_refused() {
    for text in ["", "a//b", "/a", "a/"] {
        assert!(matches!(Name::parse(text), Err(InvalidName::EmptyPart(_))), "{text:?}");
    }
    for parts in [&[][..], &[""], &["", "a"], &["", "", "a"], &["a", "", "b"], &["a", ""]] {
        assert!(matches!(Name::of_parts(parts.iter().copied()), Err(InvalidName::EmptyPart(_))), "{parts:?}");
    }
    let written = [
        ("a%", "a%25"),
        ("a%2", "a%252"),
        ("a%+1", "a%25+1"),
        ("a%41", "aA"),
        ("a%2f", "a%2F"),
        ("a%C3", "a%25C3"),
        ("a%C3%A9", "aé"),
        ("a\tb", "a%09b"),
        (" ", "%20"),
        ("a /b", "a%20/b"),
        ("..", "%2E%2E"),
        ("a/.", "a/%2E"),
        ("a\u{a0}b", "a%C2%A0b"),
        ("a\u{202e}b", "a%E2%80%AEb"),
        ("a\u{85}b", "a%C2%85b"),
    ];
    for (text, allowed) in written {
        let told = InvalidName::Unescaped { found: text.to_owned(), allowed: allowed.to_owned() };
        assert_eq!(Name::parse(text), Err(told));
        assert_eq!(Name::parse(allowed).unwrap().as_str(), allowed);
    }
    for text in ["a b", "a.b", "...", "ü", "\u{645}\u{6cc}\u{200c}\u{62e}"] {
        assert_eq!(Name::of_parts([text]).unwrap().as_str(), text);
    }
    assert!(matches!(Name::of_parts([&*"a".repeat(2000)]), Err(InvalidName::TooLong { found: 2000 })));
    assert_ne!(Name::of_parts(["a/b"]).unwrap(), Name::of_parts(["a", "b"]).unwrap());
}

fn is_so(entry: Option<&Entry>, assertion: &Assertion) -> bool {
    let Some(entry) = entry else { return *assertion == Assertion::Absent };
    match assertion {
        Assertion::Absent => false,
        Assertion::Exists(kind) => entry.kind == *kind,
        Assertion::Pointer(expected) => entry.kind != Kind::Namespace && entry.pointer == *expected,
        Assertion::Version(expected) => {
            entry.kind == Kind::Table && entry.state.as_ref().is_some_and(|state| state.version == *expected)
        }
        Assertion::Property { key, value } => entry.properties.get(key) == value.as_ref(),
    }
}

/// The same rules, implemented in a few lines on a whole catalog in memory.
fn plainly(catalog: &mut BTreeMap<Name, Entry>, action: &Action) -> bool {
    let parent_holds = |catalog: &BTreeMap<Name, Entry>, name: &Name| {
        name.parent().is_none_or(|parent| catalog.get(&parent).is_some_and(|entry| entry.kind == Kind::Namespace))
    };
    match action {
        Action::Create { name, entry } => {
            let fine = !catalog.contains_key(name) && parent_holds(catalog, name);
            if fine {
                catalog.insert(name.clone(), entry.clone());
            }
            fine
        }
        Action::Drop { name, kind, expected } => {
            let fits = catalog.get(name).is_some_and(|entry| {
                entry.kind == *kind && expected.is_none_or(|version| entry.state.as_ref().unwrap().version == version)
            });
            let empty = !catalog.keys().any(|other| other.parent().as_ref() == Some(name));
            if fits && empty {
                catalog.remove(name);
            }
            fits && empty
        }
        Action::DropAll { name } => {
            let fits = catalog.get(name).is_some_and(|entry| entry.kind == Kind::Namespace);
            if fits {
                let below = format!("{name}/");
                catalog.retain(|other, _| other != name && !other.as_str().starts_with(&below));
            }
            fits
        }
        Action::Rename { from, to } => {
            let fine = catalog.get(from).is_some_and(|entry| entry.kind != Kind::Namespace)
                && !catalog.contains_key(to)
                && parent_holds(catalog, to);
            if fine {
                let entry = catalog.remove(from).unwrap();
                catalog.insert(to.clone(), entry);
            }
            fine
        }
        Action::SetProperties { name, changes } => {
            let Some(entry) = catalog.get_mut(name) else { return false };
            for (key, value) in changes {
                match value {
                    Some(value) => entry.properties.insert(key.clone(), value.clone()),
                    None => entry.properties.remove(key),
                };
            }
            true
        }
        Action::SetPointer { name, expected, pointer } => {
            let there =
                catalog.get_mut(name).filter(|entry| entry.kind != Kind::Namespace && entry.pointer == *expected);
            there.map(|entry| entry.pointer = Some(pointer.clone())).is_some()
        }
        Action::Assert { name, holds } => is_so(catalog.get(name), holds),
        Action::Advance { name, advance } => {
            let Some(state) = catalog.get_mut(name).and_then(|entry| entry.state.as_mut()) else { return false };
            let fine = state.partitions[0] == advance.partitions[0].1;
            if fine {
                state.version = state.version.next();
                state.metadata = advance.metadata;
                state.partitions[0] = state.partitions[0].next();
            }
            fine
        }
    }
}

fn any_name() -> impl Strategy<Value = Name> {
    prop::sample::select(vec!["a", "b", "a/a", "a/b", "b/a", "a/a/a", "a/a/b", "a-b"]).prop_map(name)
}

fn any_pointer() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[xy]")
}

fn any_assertion() -> impl Strategy<Value = Assertion> {
    prop_oneof![
        prop::sample::select(Kind::ALL.to_vec()).prop_map(Assertion::Exists),
        Just(Assertion::Absent),
        any_pointer().prop_map(Assertion::Pointer),
        (0..3_u64).prop_map(|version| Assertion::Version(Version(version))),
        ("[kl]", prop::option::of("[xy]")).prop_map(|(key, value)| Assertion::Property { key, value }),
    ]
}

fn any_action() -> impl Strategy<Value = Action> {
    let table = || Entry::table(None, TableState::new(1));
    let version = || (0..3_u64).prop_map(Version);
    prop_oneof![
        (any_name(), any_pointer())
            .prop_map(|(name, pointer)| Action::Create { name, entry: Entry { pointer, ..Entry::view() } }),
        any_name().prop_map(|name| Action::Drop { name, kind: Kind::View, expected: None }),
        (any_name(), any_pointer(), "[xy]").prop_map(|(name, expected, pointer)| Action::SetPointer {
            name,
            expected,
            pointer
        }),
        (any_name(), any_assertion()).prop_map(|(name, holds)| Action::Assert { name, holds }),
        any_name().prop_map(|name| Action::Create { name, entry: Entry::namespace() }),
        any_name().prop_map(move |name| Action::Create { name, entry: table() }),
        any_name().prop_map(|name| Action::Drop { name, kind: Kind::Namespace, expected: None }),
        any_name().prop_map(|name| Action::DropAll { name }),
        (any_name(), prop::option::of(version())).prop_map(|(name, expected)| Action::Drop {
            name,
            kind: Kind::Table,
            expected
        }),
        (any_name(), any_name()).prop_map(|(from, to)| Action::Rename { from, to }),
        (any_name(), prop::option::of("[xy]")).prop_map(|(name, value)| {
            Action::SetProperties { name, changes: BTreeMap::from([("k".to_owned(), value)]) }
        }),
        (any_name(), version(), any::<u64>()).prop_map(|(name, at, metadata)| {
            let partitions = smallvec![(PartitionId(0), at)];
            Action::Advance { name, advance: Advance { metadata: MetadataId(metadata), partitions } }
        }),
    ]
}

/// Looks up what the view needs in a catalog in memory.
fn look_up(view: &mut View, actions: &[Action], stored: &BTreeMap<Name, Entry>) {
    for need in view.needs(actions) {
        match need {
            Need::Entry(name) => {
                let entry = stored.get(&name).cloned();
                view.insert(name, entry);
            }
            Need::Children(namespace, most) => {
                let children = stored.keys().filter(|name| name.parent().as_ref() == Some(&namespace));
                let children = children.take(most).cloned().collect();
                view.insert_children(namespace, children, most);
            }
        }
    }
    assert!(view.needs(actions).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Groups of actions, some decided in one view as in a group commit, against the same rules applied one by one.
    #[test]
    fn a_view_decides_as_the_whole_catalog_would(
        commits in prop::collection::vec(prop::collection::vec(prop::collection::vec(any_action(), 1..4), 1..5), 1..16),
    ) {
        let mut stored: BTreeMap<Name, Entry> = BTreeMap::new();
        for group in commits {
            let mut expected = stored.clone();
            let mut view = View::default();
            for actions in group {
                let mut trial = expected.clone();
                let fine = actions.iter().all(|action| plainly(&mut trial, action));
                look_up(&mut view, &actions, &stored);
                let before = view.clone();
                prop_assert_eq!(view.apply(&actions).is_ok(), fine, "{:?}", actions);
                if Action::only_assert(&actions) {
                    prop_assert!(view.changes().eq(before.changes()) && view.gone() == before.gone());
                }
                if fine {
                    expected = trial;
                }
            }
            stored.retain(|name, _| !view.gone().iter().any(|namespace| name.is_within(namespace)));
            for (name, before, now) in view.changes() {
                prop_assert_eq!(before, stored.get(name));
                match now {
                    Some(entry) => stored.insert(name.clone(), entry.clone()),
                    None => stored.remove(name),
                };
            }
            prop_assert_eq!(&stored, &expected);
        }
    }
}

/// Decides on a catalog in memory.
fn decided(stored: &BTreeMap<Name, Entry>, actions: &[Action]) -> Result<View, Refusal> {
    let mut view = View::default();
    look_up(&mut view, actions, stored);
    view.apply(actions).map(|()| view)
}

#[test]
fn pointers_and_assertions_are_refused_in_precise_words() {
    let entry = |pointer: Option<&str>, entry| Entry { pointer: pointer.map(str::to_owned), ..entry };
    let stored = BTreeMap::from([
        (name("s"), Entry::namespace()),
        (name("t"), entry(Some("one"), Entry::table(None, TableState::new(1)))),
        (name("v"), entry(None, Entry::view())),
    ]);
    let set = |text: &str, expected: Option<&str>| Action::SetPointer {
        name: name(text),
        expected: expected.map(str::to_owned),
        pointer: "two".to_owned(),
    };
    let assert = |text: &str, holds| Action::Assert { name: name(text), holds };
    let words = |action: Action| decided(&stored, &[action]).unwrap_err().to_string();
    for (action, expected) in [
        (set("t", None), "the metadata pointer of t is \"one\", not none: read it again"),
        (set("t", Some("two")), "the metadata pointer of t is \"one\", not \"two\": read it again"),
        (set("v", Some("one")), "the metadata pointer of v is none, not \"one\": read it again"),
        (set("s", None), "s is a namespace, not a table or a view"),
        (set("none", None), "there is no none"),
        (assert("t", Assertion::Absent), "t exists already"),
        (assert("t", Assertion::Exists(Kind::View)), "t is a table, not a view"),
        (assert("none", Assertion::Exists(Kind::View)), "there is no none"),
        (assert("t", Assertion::Pointer(None)), "the metadata pointer of t is \"one\", not none: read it again"),
        (assert("s", Assertion::Pointer(None)), "s is a namespace, not a table or a view"),
        (assert("t", Assertion::Version(Version(3))), "t is at version 0, not at version 3: read it again"),
        (assert("v", Assertion::Version(Version(0))), "v is a view, not a table"),
    ] {
        assert_eq!(words(action), expected);
    }
    let fine = [
        assert("none", Assertion::Absent),
        assert("s", Assertion::Exists(Kind::Namespace)),
        assert("t", Assertion::Pointer(Some("one".to_owned()))),
        assert("t", Assertion::Version(Version(0))),
        assert("v", Assertion::Pointer(None)),
    ];
    assert!(Action::only_assert(&fine));
    assert!(decided(&stored, &fine).unwrap().is_unchanged());
    // An assertion sees the actions before it in the request.
    let moved = [set("t", Some("one")), assert("t", Assertion::Pointer(Some("two".to_owned()))), set("t", Some("two"))];
    assert!(!Action::only_assert(&moved));
    assert_eq!(decided(&stored, &moved).unwrap().changes().count(), 1);
}

#[test]
fn what_nothing_of_its_kind_can_have_is_not_created() {
    let pointing = Entry { pointer: Some("there".to_owned()), ..Entry::namespace() };
    let versioned = Entry { kind: Kind::View, ..Entry::table(None, TableState::new(1)) };
    for (entry, words) in [(pointing, "no metadata pointer"), (versioned, "no versions")] {
        assert!(crate::Entries::new(vec![(name("a"), entry.clone())]).is_none());
        let refusal = decided(&BTreeMap::new(), &[Action::Create { name: name("a"), entry }]).unwrap_err();
        assert!(matches!(refusal, Refusal::Flawed { .. }) && refusal.to_string().contains(words), "{refusal}");
    }
}
