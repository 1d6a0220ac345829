//! Are history, vacuum and fsck right for catalogs that are a log or one object, including damaged ones?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/place.rs"]
mod place;

use common::refused;
use place::Place;

/// A catalog of a protocol, with a namespace and a number of tables, one version each.
fn filled(protocol: &str, tables: u32) -> Place {
    let place = Place::with(&format!("--protocol {protocol}"));
    place.does("create-namespace STORE sales");
    for number in 0..tables {
        place.does(&format!("create-table STORE sales/t{number}"));
    }
    place
}

/// Changes a byte of an object.
fn damage(place: &Place, key: &str, from_the_end: usize) {
    place.spoil(&place.file(key), |bytes| {
        let at = bytes.len() - from_the_end;
        bytes[at] ^= 0x55;
    });
}

#[test]
fn the_history_of_a_log_says_what_each_version_changed() {
    let place = filled("append-log", 2);
    place.does("set STORE sales owner=ann");
    let history = place.does("history STORE");
    let expected = ["version 4  commit ", "~ namespace sales: owner = ann", "+ table sales/t1", "+ namespace sales"];
    for words in expected {
        assert!(history.contains(words), "{words}: {history}");
    }
    assert!(history.ends_with("the first version, empty\n"), "{history}");
    let old = place.does("list STORE --recursive --version 2");
    assert!(old.contains("sales/t0") && !old.contains("sales/t1"), "{old}");
    refused(place.run("list STORE --version 9"), 3);
}

#[test]
fn a_damaged_segment_is_named_and_nothing_is_mended() {
    let place = filled("append-log", 3);
    assert_eq!(place.fsck("").0, 0);
    let segment = "log/log/00000000000000000000";
    assert!(place.file(segment).exists());
    damage(&place, segment, 5);
    let (code, report) = place.fsck("--mend");
    assert_eq!(code, 8, "{report}");
    let finding = &report["findings"][0];
    assert!(matches!(finding["severity"].as_str(), Some("damage" | "unread")), "{report}");
    assert_eq!(finding["object"], segment, "{report}");
    assert_eq!(report["mended"], serde_json::json!([]), "{report}");
}

#[test]
fn a_missing_hint_and_a_damaged_catalog_file_are_told_apart() {
    let place = filled("catalog-file", 3);
    let (code, report) = place.fsck("");
    assert_eq!((code, &report["entries_checked"]), (0, &4.into()), "{report}");
    damage(&place, "catalog", 20);
    let (code, report) = place.fsck("--mend");
    assert_eq!(code, 8, "{report}");
    let text = String::from_utf8(place.run("fsck STORE").stdout).unwrap();
    assert!(text.contains("damage: catalog") && text.contains("no version that can be read whole"), "{text}");
    assert!(refused(place.run("list STORE"), 1).contains("catalog fsck"));
}

#[test]
fn what_is_lost_of_a_log_is_told_and_never_called_whole() {
    let trouble = |place: &Place| -> Vec<String> {
        let (code, report) = place.fsck("--mend");
        assert_eq!(code, 8, "{report}");
        assert_eq!(report["mended"], serde_json::json!([]), "{report}");
        let findings = report["findings"].as_array().unwrap().iter();
        findings.map(|finding| finding["trouble"].as_str().unwrap().to_owned()).collect()
    };
    let object = |kind: &str, number: u64| format!("log/{kind}/{number:020}");
    // A segment after a gap: the segments between are lost.
    let place = filled("append-log", 2);
    std::fs::copy(place.file(&object("log", 0)), place.file(&object("log", 3))).unwrap();
    assert!(trouble(&place).contains(&"missing-segment".to_owned()));
    // The first checkpoint is never removed.
    let place = filled("append-log", 2);
    std::fs::copy(place.file(&object("checkpoint", 0)), place.file(&object("checkpoint", 2))).unwrap();
    std::fs::remove_file(place.file(&object("checkpoint", 0))).unwrap();
    assert!(trouble(&place).contains(&"missing-checkpoint".to_owned()));
}

#[test]
fn a_version_before_the_damage_is_read_and_the_history_says_where_it_ends() {
    let place = filled("append-log", 3);
    damage(&place, "log/log/00000000000000000000", 5);
    assert!(place.does("list STORE --recursive --version 2").contains("sales/t0"));
    refused(place.run("list STORE --version 4"), 1);
    let place = filled("manifest-chain", 3);
    std::fs::remove_file(place.file(&format!("versions/{:016x}", u64::MAX - 2))).unwrap();
    assert!(refused(place.run("history STORE"), 1).contains("version 2 should be kept and cannot be read"));
    refused(place.run("list STORE --version 2"), 1);
}

#[test]
fn a_lost_or_wrong_label_hides_no_catalog() {
    for (protocol, other) in
        [("append-log", "catalog-file"), ("catalog-file", "manifest-chain"), ("manifest-chain", "append-log")]
    {
        let place = filled(protocol, 1);
        let label = place.file("protocol");
        std::fs::remove_file(&label).unwrap();
        assert!(place.does("list STORE --recursive").contains("sales/t0"));
        assert!(refused(place.run("create STORE"), 4).contains(protocol));
        let (code, report) = place.fsck("--mend");
        assert_eq!((code, &report["findings"][0]["trouble"]), (0, &"no-label".into()), "{report}");
        assert!(label.exists(), "--mend puts it back");
        let elsewhere = Place::with(&format!("--protocol {other}"));
        std::fs::copy(elsewhere.file("protocol"), &label).unwrap();
        for command in ["list STORE", "create STORE"] {
            let words = refused(place.run(command), 1);
            assert!(words.contains(protocol) && words.contains(other), "{command}: {words}");
            assert!(words.contains("delete the object `protocol`"), "{command}: {words}");
        }
        let (code, report) = place.fsck("--mend");
        let finding = &report["findings"][0];
        assert_eq!((code, &finding["trouble"]), (8, &"wrong-label".into()), "{report}");
        let found = finding["found"].as_str().unwrap();
        assert!(found.contains(protocol) && found.contains(other), "{report}");
        std::fs::remove_file(&label).unwrap();
        assert_eq!(place.fsck("--mend").0, 0, "the advice works");
        assert!(place.does("list STORE --recursive").contains("sales/t0"));
        place.spoil(&label, |name| name[0] = b'x');
        refused(place.run("fsck STORE"), 8);
        refused(place.run("list STORE"), 1);
    }
}
