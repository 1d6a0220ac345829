//! The bytes of each object; objects under keys that are not their own; lost objects.

use super::*;
use crate::tickets::object::Roster;

#[test]
fn the_bytes_of_each_object_are_these() {
    let slot = Slot {
        name: name("a/b"),
        number: 2,
        lineage: vec![3, 1],
        commit: CommitId(1),
        settled: Some(Entry::view()),
        intent: Some(Intent { txn: TxnId(3), after: None }),
        retired: false,
    };
    let content = [
        &b"\x03a/b\x02\x02"[..],
        b"\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
        b"\x01\0\0\0\0\0\0\0",
        b"\x01\x01\x02",
        b"\x01\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let bytes = slot.encode();
    assert_eq!(&bytes[..12], [b"GPTS\x01\0\0\0".as_slice(), &(bytes.len() as u32).to_le_bytes()].concat());
    assert_eq!(&bytes[12..bytes.len() - 4], content);
    assert_eq!(Held::decode(&bytes), Ok(Held::Slot(slot.clone())));
    assert_eq!((slot.id_at(2), slot.id_at(1), slot.id_at(0), slot.id_at(3)), (Some(3), Some(1), None, None));
    let emptied = Held::emptied(9);
    assert_eq!((&emptied[..4], emptied.len()), (&b"GPTE"[..], EMPTIED_BYTES));
    assert_eq!(Held::decode(&emptied), Ok(Held::Emptied(9)));
    let record = Record { committed: true, names: vec![name("a")] };
    let (txn, other) = (TxnId(7 << 100), TxnId(8));
    let bytes = record.encode(txn);
    assert_eq!(bytes[12..32], [&txn.0.to_le_bytes()[..], b"\x01\x01\x01a"].concat());
    assert_eq!(Record::decode(&bytes, other), Err(crate::wire::DecodeError::Replaced));
    assert_eq!(Record::decode(&bytes, txn), Ok(record));
    let roster = Roster { number: 6, first: 5, floor: 0, names: vec![name("a"), name("b")] };
    assert_eq!(&roster.encode()[12..18], b"\x06\x02\x01a\x01b");
    assert_eq!((&roster.encode()[..8], Roster::decode(&roster.encode())), (&b"GPTN\x01\0\0\0"[..], Ok(roster)));
    let shortened = Roster { number: 6, first: 6, floor: 0, names: vec![name("b")] };
    assert_eq!(&shortened.encode()[12..17], b"\x06\x06\x01\x01b");
    assert_eq!(
        (&shortened.encode()[..8], Roster::decode(&shortened.encode())),
        (&b"GPTN\x01\0\x01\0"[..], Ok(shortened))
    );
    for (flags, first, floor, content) in
        [(b"\x02\0", 5, 3, &b"\x06\x03\x01\x01b"[..]), (b"\x03\0", 6, 5, b"\x06\x06\x05\x01\x01b")]
    {
        let trimmed = Roster { number: 6, first, floor, names: vec![name("b")] };
        let bytes = trimmed.encode();
        assert_eq!((&bytes[6..8], &bytes[12..bytes.len() - 4]), (&flags[..], content));
        assert_eq!(Roster::decode(&bytes), Ok(trimmed));
    }
    for (number, first, floor) in [(0, 0, 0), (0, 1, 0), (6, 0, 0), (6, 7, 0), (6, 5, 5), (6, 6, u64::MAX)] {
        assert!(
            Roster::decode(&Roster { number, first, floor, names: Vec::new() }.encode()).is_err(),
            "{number} from {first}, after {floor}"
        );
    }
    let retired = Slot { settled: None, retired: true, ..slot.clone() };
    assert_eq!(&retired.encode()[4..8], b"\x01\0\x01\0");
    assert_eq!(Held::decode(&retired.encode()), Ok(Held::Slot(retired.clone())));
    let intent = Some(Intent { txn: TxnId(3), after: Some(Entry::view()) });
    for wrong in [Slot { retired: true, ..slot }, Slot { intent, ..retired }] {
        assert!(Held::decode(&wrong.encode()).is_err(), "{wrong:?}");
    }
    assert_eq!(&object::encode_format(5)[..8], b"GPTF\x01\0\x01\0");
    assert_eq!(object::decode_format(&object::encode_format(5)), Ok((5, keys::Hash::Sha256)));
    for bytes in [&b""[..], b"GPTS", &bytes[..20], &emptied[..10]] {
        assert!(Held::decode(bytes).is_err());
    }
}

/// Row 16.
#[test]
fn another_name_under_the_same_key_is_refused() {
    let world = World::default();
    let catalog = begun(&world);
    let slot = Slot {
        name: name("other"),
        number: 1,
        lineage: vec![1],
        commit: CommitId(1),
        settled: None,
        intent: None,
        retired: false,
    };
    let key: Key = catalog.shared_state.keys.slot(&name("mine"), 1);
    assert!(at_once(world.put(&key, Payload::from(slot.encode()), Guard::Absent)).is_ok());
    let at = at_once(catalog.load()).unwrap();
    assert!(matches!(at_once(catalog.entry(&at, &name("mine"))), Err(LoadError::Undecodable(_))));
}

/// As from a mixed-up backup. A copy replaces nothing: the slots before it may be all that is left.
#[test]
fn a_copy_of_another_slot_is_damage_and_keeps_the_slots_before_it() {
    for (of, number, to) in [(B, 2, 3), (A, 2, 3), (A, 2, 9)] {
        let world = World::default();
        let catalog = begun(&world);
        assert!(matches!(commit(&catalog, &[A], 5), Outcome::Committed(_)));
        assert!(matches!(commit(&process(&world), &[B], 6), Outcome::Committed(_)));
        let slot = |id, number| catalog.shared_state.keys.slot(&Name::numbered(id), number);
        let (kept, copy) = (slot(A, 2), slot(A, to));
        world.duplicate(slot(of, number).as_str(), copy.as_str());
        let report = at_once(PerName::fsck(&process(&world), false)).unwrap();
        assert!(report.is_damaged(), "{of:?} {number} in the place of {to}");
        let before = world.copy_of(kept.as_str());
        at_once(PerName::vacuum(&process(&world), Keep::LEAST)).unwrap();
        assert_eq!(world.copy_of(kept.as_str()), before, "{of:?} {number} in the place of {to}");
    }
}

#[test]
fn a_lost_slot_is_damage_though_the_one_before_was_emptied() {
    let world = World::default();
    let catalog = begun(&world);
    assert!(matches!(commit(&catalog, &[A], 5), Outcome::Committed(_)));
    at_once(PerName::vacuum(&process(&world), Keep::LEAST)).unwrap();
    assert!(!at_once(PerName::fsck(&process(&world), false)).unwrap().is_damaged());
    world.remove(catalog.shared_state.keys.slot(&Name::numbered(A), 2).as_str());
    assert!(at_once(PerName::fsck(&process(&world), false)).unwrap().is_damaged());
}

/// A namespace that cannot be read is one finding, and what is in it is checked all the same.
#[test]
fn fsck_goes_on_behind_a_damaged_namespace() {
    let world = World::default();
    let catalog = begun(&world);
    let actions = vec![create("a", Entry::namespace()), create("a/b", Entry::view()), create("a/c", Entry::view())];
    assert!(matches!(ask(&catalog, actions).1, Some(Outcome::Committed(_))));
    let keys = &catalog.shared_state.keys;
    let damaged = [keys.slot(&name("a/c"), 1), keys.slot(&name("a"), 1)];
    for key in &damaged {
        world.tamper(key.as_str(), |bytes| bytes[20] ^= 1);
    }
    let report = at_once(PerName::fsck(&process(&world), false)).unwrap();
    let mut found: Vec<&Key> = report.findings.iter().map(|finding| &finding.object).collect();
    found.sort();
    assert_eq!(found, damaged.iter().collect::<Vec<_>>(), "{:?}", report.findings);
}

/// A catalog with slots on top of intents. Returns the records of the transactions that made them: of a creation and a
/// rename.
fn renamed(world: &World) -> Vec<Key> {
    let catalog = begun(world);
    let first = vec![create("a", Entry::namespace()), create("a/b", Entry::view()), create("a/c", Entry::view())];
    let rename = Action::Rename { from: name("a/b"), to: name("a/d") };
    let set =
        |of: &str| Action::SetProperties { name: name(of), changes: [("k".to_owned(), Some("1".to_owned()))].into() };
    let before = world.keys("tickets/txns/");
    for actions in [first, vec![rename]] {
        assert!(matches!(ask(&catalog, actions).1, Some(Outcome::Committed(_))));
    }
    let records = world.keys("tickets/txns/").into_iter().filter(|key| !before.contains(key));
    let records = records.map(|key| Key::new(&key)).collect();
    assert!(matches!(ask(&catalog, vec![set("a/d"), set("a/c")]).1, Some(Outcome::Committed(_))));
    assert_eq!(damages(world), []);
    records
}

fn damages(world: &World) -> Vec<(&'static str, Key)> {
    let report = at_once(PerName::fsck(&process(world), false)).unwrap();
    report
        .findings
        .into_iter()
        .filter(|finding| finding.severity == crate::upkeep::Severity::Damage)
        .map(|finding| (finding.trouble, finding.object))
        .collect()
}

#[test]
fn a_register_that_a_committed_transaction_named_is_missed() {
    for (lost, left) in [("a/c", 0), ("a/b", 1), ("a", 0)] {
        let world = World::default();
        renamed(&world);
        let keys = process(&world).shared_state.keys.clone();
        let register = keys.register(&name(lost));
        for key in world.keys(register.as_str()) {
            if super::super::keys::slot_number(&Key::new(&key)).unwrap() > left {
                world.remove(&key);
            }
        }
        let found = damages(&world);
        assert!(found.contains(&("missing", keys.slot(&name(lost), left + 1))), "{lost}: {found:?}");
    }
}

/// Commits to the name alone, with as many slots, make up for none.
#[test]
fn the_slot_of_a_committed_transaction_is_missed_beside_other_slots() {
    let world = World::default();
    let catalog = begun(&world);
    let keys = catalog.shared_state.keys.clone();
    for version in 5..9 {
        assert!(matches!(commit(&process(&world), &[A], version), Outcome::Committed(_)));
    }
    assert!(matches!(commit(&process(&world), &[A, B], 9), Outcome::Committed(_)));
    assert_eq!(damages(&world), []);
    let [of_a, of_b] = [(A, 6), (B, 2)].map(|(id, number)| keys.slot(&Name::numbered(id), number));
    for lost in [&of_a, &of_b] {
        world.duplicate(lost.as_str(), "backup");
        world.remove(lost.as_str());
        assert_eq!(damages(&world), [("missing", lost.clone())]);
        world.duplicate("backup", lost.as_str());
    }
    assert_eq!(damages(&world), []);
    // What a vacuum emptied may have been the intent's slot, unless the newest slot has the ids of all puts.
    at_once(PerName::vacuum(&process(&world), Keep::LEAST)).unwrap();
    world.duplicate(of_a.as_str(), "backup");
    world.remove(of_a.as_str());
    assert_eq!(damages(&world), [("undecodable", keys.slot(&Name::numbered(A), 5))]);
    world.duplicate("backup", of_a.as_str());
    assert!(matches!(commit(&process(&world), &[A, B], 10), Outcome::Committed(_)));
    world.remove(keys.slot(&Name::numbered(A), 7).as_str());
    assert_eq!(damages(&world), [("missing", keys.slot(&Name::numbered(A), 7))]);
}

/// Objects of somebody else, below our prefix and with names that are none of ours, are passed over.
#[test]
fn foreign_objects_are_no_slots() {
    let world = World::default();
    let catalog = begun(&world);
    let slot = catalog.shared_state.keys.slot(&Name::numbered(A), 1);
    let register = slot.as_str().rsplit_once('/').unwrap().0;
    for foreign in [
        "tickets/names/README".to_owned(),
        "tickets/names/a/b/fffffffffffffffe".to_owned(),
        "tickets/names/r/fffffffffffffffe".to_owned(),
        "tickets/rosters/r/notes/fffffffffffffffe".to_owned(),
        "tickets/rosters/r/backup/fffffffffffffffc".to_owned(),
        format!("{register}/backup/fffffffffffffff0"),
        format!("{register}/README"),
        "tickets/txns/7".to_owned(),
        format!("{register}/cafe"),
        format!("{register}/+fffffffffffffff"),
        format!("{register}/ffffffffffffffff"),
        format!("{register}/0000000000000000"),
        format!("{register}/0FFFFFFFFFFFFFFF"),
    ] {
        world.duplicate(slot.as_str(), &foreign);
    }
    assert_eq!(damages(&world), []);
    assert!(matches!(commit(&process(&world), &[A], 5), Outcome::Committed(_)));
    at_once(PerName::vacuum(&process(&world), Keep::LEAST)).unwrap();
    assert_eq!(damages(&world), []);
}

/// What was in it is gone, but was there.
#[test]
fn a_namespace_without_a_register_is_missed() {
    let world = World::default();
    let catalog = begun(&world);
    let actions = vec![create("a", Entry::namespace()), create("a/b", Entry::view()), create("c", Entry::namespace())];
    assert!(matches!(ask(&catalog, actions).1, Some(Outcome::Committed(_))));
    let keys = &catalog.shared_state.keys;
    // The record of the first transaction names the namespace, too.
    let lost = [world.keys("tickets/txns/"), world.keys(keys.register(&name("a")).as_str())].concat();
    let rename = Action::Rename { from: name("a/b"), to: name("c/b") };
    assert!(matches!(ask(&catalog, vec![rename]).1, Some(Outcome::Committed(_))));
    for key in &lost {
        world.remove(key);
    }
    let found = damages(&world);
    assert!(found.contains(&("missing", keys.slot(&name("a"), 1))), "{found:?}");
}

#[test]
fn the_roster_of_another_namespace_is_damage() {
    let world = World::default();
    let catalog = begun(&world);
    let actions = vec![create("a", Entry::namespace()), create("b", Entry::namespace())];
    assert!(matches!(ask(&catalog, actions).1, Some(Outcome::Committed(_))));
    for view in ["a/x", "b/x"] {
        assert!(matches!(ask(&catalog, vec![create(view, Entry::view())]).1, Some(Outcome::Committed(_))));
    }
    let keys = &catalog.shared_state.keys;
    let [from, to] = ["a", "b"].map(|namespace| keys.roster_slot(Some(&name(namespace)), 1));
    world.duplicate(from.as_str(), to.as_str());
    assert!(damages(&world).contains(&("undecodable", to)), "{:?}", damages(&world));
}

#[test]
fn a_record_that_is_lost_or_changes_places_is_damage() {
    let records = renamed(&World::default());
    assert_eq!(records.len(), 2, "{records:?}");
    for (lost, record) in records.iter().enumerate() {
        let world = World::default();
        renamed(&world);
        world.remove(record.as_str());
        assert!(damages(&world).contains(&("other-record", record.clone())), "{record} lost: {:?}", damages(&world));
        let world = World::default();
        renamed(&world);
        let other = &records[(lost + 1) % records.len()];
        world.duplicate(other.as_str(), record.as_str());
        assert!(damages(&world).contains(&("undecodable", record.clone())), "{other} copied to {record}");
        let world = World::default();
        renamed(&world);
        let txn = TxnId(u128::from_str_radix(record.as_str().strip_prefix("tickets/txns/").unwrap(), 16).unwrap());
        let aborted = Record { committed: false, names: Vec::new() }.encode(txn);
        world.tamper(record.as_str(), |bytes| *bytes = aborted.to_vec());
        assert!(damages(&world).contains(&("other-record", record.clone())), "{record} aborted");
    }
}

/// Both namespaces have the same key in a catalog from before names were hashed with SHA-256.
#[test]
fn a_roster_of_two_namespaces_is_damage() {
    let world = World::default();
    begun(&world);
    let old = || {
        let catalog = process(&world);
        catalog.shared_state.exists(keys::Hash::Fnv);
        catalog
    };
    let one = name("売上高と顧客別の四半期報告書データ管理部門用名前空間二〇二七年");
    let other = [
        "evil/xaduaZSW$+:pha$##3+.)V:Y6o&L~M_F$|1U#D!$,-))!do2jo!-(X*f!33BUd#I#|f+!CB$xK#88!Q7#(5$-1#|7^.*#R(",
        "3.r#2gYo+&H}cv6#15wP+#~tYMW!VNZ@h#9@Zq-!3h##*#eOfOs#pBbgz#6CVb)!wEo')&Vs0Z1!5qyA{!qd(@Y#dt{.&#zT;^;#",
        "_4vw&&K8x-$&eU4k$#OofXp&mBzl=#l'a}N!*q!;7!;KKqq#M9|2)#E=>X?#SN[U!!8u_+.$+8^E8&KPRV5$!$[bK!9bmvz!,fP'",
        "b#`!5g_#1*vNN&&!'5A$.LB+7$(>;O`#}[j^~!8gj7#&#]A|u#J1l8u!m7A]_!W|*K7!W@,r<##HOxj!JHJQ4!6!|W(!Q",
    ];
    let other = name(&other.concat());
    let catalog = old();
    let keys = &catalog.shared_state.keys;
    assert_eq!(keys.roster(Some(&one)), keys.roster(Some(&other)));
    assert_ne!(process(&world).shared_state.keys.roster(Some(&one)), keys.roster(Some(&one)));
    at_once(catalog.enroll(Some(&one), &[name(&format!("{one}/t"))])).unwrap();
    assert!(!at_once(PerName::fsck(&old(), false)).unwrap().is_damaged());
    let slot = Roster { number: 2, first: 2, floor: 0, names: vec![name(&format!("{other}/t"))] };
    let key = keys.roster_slot(Some(&other), 2);
    assert!(at_once(world.put(&key, Payload::from(slot.encode()), Guard::Absent)).is_ok());
    assert!(at_once(PerName::fsck(&old(), false)).unwrap().is_damaged());
}
