//! Does `glidepath catalog` work on the command line, and does each failure have its own message and exit code?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/place.rs"]
mod place;

use std::path::PathBuf;
use std::process::Output;

use common::{glidepath, output, refused};
use place::Place;
use serde_json::Value;

/// With an empty catalog.
fn created() -> Place {
    let place = Place::empty();
    assert_eq!(place.does("create STORE"), "created an empty catalog, kept by manifest-chain (version 0)\n");
    place
}

fn version_file(place: &Place, version: u64) -> PathBuf {
    place.file(&format!("versions/{:016x}", u64::MAX - version))
}

/// Checks that fsck found this trouble, with these words in its description and advice.
fn found(json: &Value, trouble: &str, words: &[&str]) {
    let findings = json["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["trouble"] == trouble);
    let finding = finding.unwrap_or_else(|| panic!("no {trouble} in {json:#}"));
    let text = finding.to_string();
    assert!(words.iter().all(|words| text.contains(words)), "{words:?} not in {finding:#}");
    assert!(!finding["advice"].as_str().unwrap().is_empty());
}

#[test]
fn a_catalog_from_its_creation_to_its_vacuum() {
    let place = created();
    assert_eq!(place.json("describe STORE --json")["layout"], "paged");
    lives(&place);
}

#[test]
fn a_whole_catalog_goes_by_the_same_commands() {
    let place = Place::empty();
    place.fails("create STORE --layout striped", 2, "possible values: paged, whole");
    assert_eq!(
        place.does("create STORE --layout whole"),
        "created an empty catalog, kept by manifest-chain (version 0)\n"
    );
    lives(&place);
    assert_eq!(place.json("describe STORE --json")["layout"], "whole");
    assert!(place.does("describe STORE").contains("layout            whole"));
    // Its file is damaged: a commit would copy the damage, so it fails.
    let parts = std::fs::read_dir(place.store().join("objects/packs")).unwrap();
    let parts = parts.map(|entry| entry.unwrap().path()).filter(|path| !path.to_string_lossy().ends_with(".lock"));
    let newest = parts.max().unwrap();
    place.spoil(&newest, |part| part[part.len() / 2] ^= 1);
    place.fails("create-namespace STORE ops", 1, "checksum");
    let (code, json) = place.fsck("");
    assert_eq!((code, json["newest_whole_version"].as_u64()), (8, Some(6)));
    found(&json, "damaged-page", &["checksum", "version\":7"]);
}

/// From the first namespace to the vacuum.
fn lives(place: &Place) {
    place.does("create-namespace STORE sales --property owner=ann");
    place.does("create-namespace STORE sales/2026");
    let created = place.json("create-table STORE sales/orders --location s3://lake/orders --metadata ff --json");
    assert_eq!(created["version"], 3);
    place.does("create-table STORE sales/2026/late --base sales/orders --partitions 3");

    let listed = place.does("list STORE");
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["namespace", "sales"]);
    let all = place.lines("list STORE --recursive --json");
    let names: Vec<&str> = all.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sales", "sales/2026", "sales/2026/late", "sales/orders"]);
    assert_eq!(place.lines("list STORE --recursive --kind table --limit 1 --json")[0]["name"], "sales/2026/late");
    assert_eq!(place.lines("list STORE sales --after sales/2026 --json")[0]["name"], "sales/orders");
    let table = place.json("describe STORE sales/2026/late --json");
    assert_eq!(table["base_objects"][0], "sales/orders");
    assert_eq!(table["partition_versions"].as_array().unwrap().len(), 3);
    let text = place.does("describe STORE sales/orders");
    assert!(text.contains("s3://lake/orders") && text.contains("00000000000000ff"), "{text}");
    assert_eq!(place.does("exists STORE sales/orders --kind table"), "table\n");

    place.does("set STORE sales team=core --unset owner");
    place.does("rename STORE sales/orders sales/2026/orders");
    place.does("drop STORE sales/2026/late --table-version 0");
    let history = place.does("history STORE");
    for words in ["- table sales/2026/late", "+ table sales/2026/orders", "- table sales/orders"] {
        assert!(history.contains(words), "{words}: {history}");
    }
    assert!(history.contains("~ namespace sales: team = core, owner removed"), "{history}");
    assert!(history.lines().next().unwrap().starts_with("version 7  20"), "{history}");
    assert!(history.ends_with("the first version, empty\n"), "{history}");
    let lines = place.lines("history STORE --json --limit 2 --version 3");
    assert_eq!((lines.len(), &lines[0]["changes"][0]["name"]), (2, &"sales/orders".into()));
    assert_eq!(place.lines("list STORE sales --version 3 --json").len(), 2);
    assert_eq!(place.json("describe STORE --json")["entries"], 3);

    let (code, checked) = place.fsck("");
    assert_eq!((code, &checked["damaged"], checked["versions_checked"].as_u64()), (0, &false.into(), Some(8)));
    assert_eq!(checked["findings"].as_array().unwrap().len(), 0, "{checked:#}");
    // Nothing is old enough yet, and shorter ages are refused.
    let swept = place.json("vacuum STORE --keep-versions 2 --keep-age 1h --json");
    assert_eq!((&swept["deleted_versions"], &swept["oldest_kept_version"]), (&0.into(), &0.into()));
    place.fails("vacuum STORE --keep-age 1s", 2, "10min");
    place.fails("vacuum STORE --keep-age 0s", 2, "--keep-age 0s: the grace period is 0s; at least 10min");
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    for layout in ["paged", "whole"] {
        let place = Place::empty();
        place.does(&format!("create STORE --layout {layout}"));
        for name in ["sales", "sales/2026", "sales-old"] {
            place.does(&format!("create-namespace STORE {name}"));
        }
        for name in ["sales/orders", "sales/2026/late", "sales-old/orders"] {
            place.does(&format!("create-table STORE {name} --base sales/orders"));
        }
        let dropped = place.does("drop STORE sales --cascade");
        assert_eq!(dropped, "dropped namespace sales and all in it (version 7)\n");
        let left = place.lines("list STORE --recursive --json");
        let names: Vec<&str> = left.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["sales-old", "sales-old/orders"]);
        assert_eq!(place.json("describe STORE --json")["entries"], 2);
        assert_eq!(place.lines("history STORE --limit 1 --json")[0]["changes"].as_array().unwrap().len(), 4);
        assert_eq!(place.fsck("").0, 0);
    }
}

/// Every protocol keeps names, and a command detects the protocol of a catalog.
#[test]
fn a_catalog_of_any_protocol_goes_by_the_same_commands() {
    for protocol in ["catalog-file", "append-log", "manifest-chain"] {
        let place = Place::empty();
        let created = place.does(&format!("create STORE --protocol {protocol}"));
        assert_eq!(created, format!("created an empty catalog, kept by {protocol} (version 0)\n"));
        place.does("create-namespace STORE sales --property owner=ann");
        place.does("create-table STORE sales/orders --location there --property a=b --base sales");
        place.does("set STORE sales/orders c=d --unset a");
        place.does("rename STORE sales/orders sales/all");
        let table = place.json("describe STORE sales/all --json");
        assert_eq!((&table["properties"]["c"], &table["location"]), (&"d".into(), &"there".into()), "{table}");
        assert_eq!(table["properties"].as_object().unwrap().len(), 1, "{table}");
        assert_eq!(place.lines("list STORE --recursive --json").len(), 2);
        place.fails("exists STORE sales/orders", 3, "there is no sales/orders");
        place.fails("drop STORE sales", 5, "--cascade");
        place.fails("create-table STORE nowhere/t", 3, "no namespace nowhere");
        place.does("drop STORE sales --cascade");
        let catalog = place.json("describe STORE --json");
        assert_eq!((&catalog["protocol"], &catalog["version"]), (&protocol.into(), &5.into()));
        // The place is taken, also for other protocols.
        for other in ["catalog-file", "append-log", "manifest-chain"] {
            let words = format!("kept by {protocol}, at version 5");
            place.fails(&format!("create STORE --protocol {other}"), 4, &words);
        }
        let (code, checked) = place.fsck("--mend");
        assert_eq!((code, &checked["newest_whole_version"]), (0, &5.into()), "{checked}");
        let newest = &place.lines("history STORE --json")[0];
        assert_eq!(newest["version"], 5, "{newest}");
        let swept = place.json("vacuum STORE --keep-versions 3 --json");
        assert_eq!(swept["newest_version"], 5, "{swept}");
        if protocol == "catalog-file" {
            place.fails("list STORE --version 4", 3, "there is no version 4: only the newest is kept, 5");
        } else {
            assert!(place.does("history STORE").contains("version 4"), "{protocol}");
            assert_eq!(place.lines("list STORE --recursive --version 4 --json").len(), 2);
        }
        if protocol != "manifest-chain" {
            let instead = if protocol == "append-log" { "give --keep-versions" } else { "leave it out" };
            place.fails("vacuum STORE --keep-age 1h", 2, &format!("carry no times; {instead}"));
        }
    }
    let place = Place::empty();
    place.fails(
        "create STORE --protocol ticket",
        2,
        "possible values: catalog-file, manifest-chain, append-log, tickets",
    );
    place.fails("create STORE --protocol append-log --layout whole", 2, "are for manifest-chain");
}

#[test]
fn bad_ends_are_told_apart() {
    let place = created();
    place.does("create-namespace STORE sales");
    place.does("create-table STORE sales/orders");
    for (arguments, code, words) in [
        ("create STORE", 4, "is a catalog here already, kept by manifest-chain, at version 2"),
        ("create-namespace STORE sales", 4, "sales exists already"),
        ("create-table STORE sales/orders", 4, "sales/orders exists already"),
        ("create-table STORE ops/orders", 3, "there is no namespace ops"),
        ("create-table STORE sales/orders/more", 9, "sales/orders is a table"),
        ("drop STORE sales", 5, "--cascade"),
        ("drop STORE sales/nothing", 3, "there is no sales/nothing"),
        ("drop STORE sales/orders --table-version 7", 9, "has changed"),
        ("drop STORE sales/orders --kind namespace", 9, "is a table"),
        ("drop STORE sales/orders --cascade", 9, "is a table"),
        ("drop STORE sales/orders --cascade --kind table", 2, "for namespaces"),
        ("drop STORE sales --cascade --table-version 0", 2, "cannot be used with"),
        ("drop STORE ops --cascade", 3, "there is no ops"),
        ("rename STORE sales sold", 9, "is a namespace"),
        ("rename STORE sales/orders sales/orders", 4, "exists"),
        ("set STORE ops a=b", 3, "there is no ops"),
        ("describe STORE ops", 3, "there is no ops"),
        ("exists STORE sales --kind table", 3, "there is no table sales; sales is a namespace"),
        ("list STORE sales/orders", 9, "is a table"),
        ("list STORE --version 9", 3, "0 to 2"),
        ("create-namespace STORE a//b", 2, "empty part"),
        ("create-namespace STORE a%b", 2, "%25"),
        ("create-table STORE t --partitions 0", 2, "partitions"),
        ("create-namespace STORE a\u{1}b", 2, "write a%01b"),
        ("create-namespace STORE ..", 2, "write %2E%2E"),
        ("create-table STORE t --property x", 2, "KEY=VALUE"),
        ("create-table STORE t --property x=1 --property x=2", 2, "\"x\" is given twice"),
        ("set STORE sales", 2, "give KEY=VALUE, --unset KEY or --pointer NEW"),
        ("create-namespace STORE no;one/x", 3, "create-namespace STORE 'no;one'`"),
        ("set STORE sales a=b --unset a", 2, "twice"),
        ("list STORE sales --after ops/x", 2, "--after"),
        ("list ftp://x", 2, "file:///directory"),
        ("list orders", 2, "write file:///"),
        ("list ./orders", 2, "write file:///"),
        ("create memory:", 2, "only until the command ends"),
        ("drop STORE", 2, "<NAME>"),
    ] {
        place.fails(arguments, code, words);
    }
    assert_eq!(place.json("describe STORE --json")["version"], 2, "none of these committed");
}

#[test]
fn where_there_is_no_catalog() {
    let place = Place::empty();
    for arguments in ["list STORE", "fsck STORE", "create-namespace STORE a", "vacuum STORE", "history STORE"] {
        place.fails(arguments, 3, "there is no catalog in ");
        assert!(!place.store().exists(), "{arguments} made a store");
    }
    std::fs::create_dir(place.store()).unwrap();
    for arguments in ["describe STORE", "drop STORE a", "fsck STORE"] {
        place.fails(arguments, 3, "there is no catalog in ");
    }
    // The superuser can write to read-only folders, but not to this one.
    let error = refused(glidepath(place.0.path(), "catalog create file:///proc/1/here"), 1);
    assert!(error.contains("cannot be used as a store"), "{error}");
}

#[test]
fn a_format_that_is_too_new_is_refused_and_left_alone() {
    for (place_of_bits, what) in [(4, "format version 2"), (7, "features (bits 0x8000)")] {
        let place = created();
        place.does("create-namespace STORE sales");
        let file = version_file(&place, 1);
        place.spoil(&file, |object| {
            object[place_of_bits] = if place_of_bits == 4 { 2 } else { 0x80 };
            let length = u32::from_le_bytes(object[8..12].try_into().unwrap()) as usize;
            let sum = crc32fast::hash(&object[..length - 4]);
            object[length - 4..length].copy_from_slice(&sum.to_le_bytes());
        });
        let before = std::fs::read(&file).unwrap();
        for arguments in ["list STORE", "create-namespace STORE ops", "create STORE", "vacuum STORE"] {
            place.fails(arguments, 1, what);
            place.fails(arguments, 1, "use a newer one");
        }
        let (code, json) = place.fsck("--mend");
        assert_eq!(code, 8);
        found(&json, "newer-format", &[what, "use a newer version"]);
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }
}

/// A catalog whose pages are in several versions' objects.
fn grown() -> Place {
    let place = created();
    for number in 0..8 {
        let long = "x".repeat(3000);
        place.does(&format!("create-namespace STORE n{number} --property long={long}"));
    }
    place
}

#[test]
fn a_lost_version_is_named_with_what_it_means() {
    let place = grown();
    std::fs::remove_file(version_file(&place, 4)).unwrap();
    let (code, json) = place.fsck("--mend");
    assert_eq!(code, 8);
    let key = format!("versions/{:016x}", u64::MAX - 4);
    found(&json, "gap", &[&key, "version 4 is missing", "stop all commits"]);
    found(&json, "missing-object", &[&key, "from about n2 to before n3 cannot be read", "from a backup"]);
    assert_eq!(json["newest_whole_version"], 3);
    assert_eq!(json["mended"].as_array().unwrap().len(), 0);
    // The text names the version to continue with.
    let told = place.run("fsck STORE");
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("newest version that can be read whole is 3"), "{text}");
    assert_eq!(place.lines("list STORE --version 3 --json").len(), 3);
    place.fails("describe STORE n2", 1, &key);
}

#[test]
fn spoilt_bytes_are_found_where_they_are() {
    // A page: the last byte is part of its checksum.
    let place = grown();
    place.spoil(&version_file(&place, 5), |object| *object.last_mut().unwrap() ^= 1);
    let (code, json) = place.fsck("");
    assert_eq!((code, json["newest_whole_version"].as_u64()), (8, Some(8)), "only the root of version 5 was there");
    found(&json, "damaged-page", &["checksum", "version\":5"]);
    // The head of the newest version.
    let place = grown();
    place.spoil(&version_file(&place, 8), |object| object[20] ^= 1);
    let (code, json) = place.fsck("");
    assert_eq!((code, json["newest_whole_version"].as_u64()), (8, Some(7)));
    found(&json, "undecodable-version", &["checksum", "version\":8"]);
    place.fails("list STORE", 1, "catalog fsck");
    place.fails("create-namespace STORE more", 1, "checksum");
    // A file cut short: the store itself notices.
    let place = grown();
    let file = std::fs::File::options().write(true).open(version_file(&place, 6)).unwrap();
    file.set_len(1500).unwrap();
    let (code, json) = place.fsck("");
    assert_eq!(code, 8);
    found(&json, "unread", &[&format!("versions/{:016x}", u64::MAX - 6), "from a backup"]);
}

/// An empty file, as a file system may leave it after a crash: of an old version, of which the newest needs nothing.
#[test]
fn an_empty_file_is_a_finding_about_that_object_and_disables_nothing() {
    let place = created();
    // All entries are in one page, which each version rewrites: the newest version needs no older object.
    for number in 0..8 {
        place.does(&format!("create-namespace STORE n{number}"));
    }
    std::fs::write(version_file(&place, 5), "").unwrap();
    assert_eq!(place.lines("list STORE --json").len(), 8);
    place.does("create-namespace STORE more");
    let (code, json) = place.fsck("");
    assert_eq!((code, json["newest_whole_version"].as_u64()), (8, Some(9)));
    found(&json, "unread", &[&format!("versions/{:016x}", u64::MAX - 5), "damaged", "too short"]);
    place.does("vacuum STORE --keep-versions 2 --keep-age 10min");
    assert_eq!(place.lines("list STORE --json").len(), 9);
}

#[test]
fn a_foreign_history_is_not_taken_for_a_chain() {
    let (place, other) = (grown(), grown());
    std::fs::copy(version_file(&other, 3), version_file(&place, 3)).unwrap();
    let (code, json) = place.fsck("");
    assert_eq!(code, 8);
    found(&json, "broken-chain", &["version\":4", "was made by"]);
    std::fs::copy(version_file(&other, 2), version_file(&place, 3)).unwrap();
    found(&place.fsck("").1, "other-version", &["says that it is version 2"]);
}

#[test]
fn what_is_proven_is_mended_and_nothing_else() {
    let place = grown();
    // A hint that is no number, packs of a commit that lost and of one that may be running, and a foreign file.
    let good = version_file(&place, 0);
    let pack = format!("packs/{:016x}-{:016x}-0000", 0, 7);
    let pending = format!("packs/{:016x}-{:016x}-0000", 9, 7);
    let foreign = "versions/readme".to_owned();
    for key in [&pack, &pending, &foreign, &"hint".to_owned()] {
        let file = place.file(key);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(&good, file).unwrap();
    }
    let (code, json) = place.fsck("");
    assert_eq!(code, 0, "{json:#}");
    found(&json, "hint-damaged", &["--mend"]);
    found(&json, "unused", &[&pack]);
    found(&json, "pending", &[&pending, "leave it"]);
    found(&json, "foreign", &[&foreign, "no action needed"]);
    assert!(place.file(&pack).exists(), "without --mend nothing is changed");
    let (code, json) = place.fsck("--mend");
    assert_eq!((code, json["mended"].as_array().unwrap().len()), (0, 2), "{json:#}");
    assert!(!place.file(&pack).exists() && place.file(&pending).exists() && place.file(&foreign).exists());
    let (_, json) = place.fsck("");
    assert_eq!(json["findings"].as_array().unwrap().len(), 2, "{json:#}");
    // A hint beyond the newest version may be the only trace of versions that were lost.
    place.spoil(&place.file("hint"), |hint| hint.copy_from_slice(&20_u64.to_le_bytes()));
    let (code, json) = place.fsck("--mend");
    assert_eq!(code, 8);
    found(&json, "hint-ahead", &["version 20", "have been lost"]);
    assert_eq!(json["mended"].as_array().unwrap().len(), 0);
}

#[test]
fn two_at_once_are_both_told_the_truth() {
    let place = created();
    let both: Vec<Output> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| place.run("create-namespace STORE one"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let codes: Vec<_> = both.iter().map(|output| output.status.code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 4).count(), 5, "{codes:?}");
    assert_eq!(place.fsck("").0, 0);
}

/// If `scripts/servers exec` runs the tests.
#[test]
fn the_same_on_servers() {
    for variable in ["GLIDEPATH_S3", "GLIDEPATH_AZURE", "GLIDEPATH_GCS"] {
        let Ok(url) = std::env::var(variable) else {
            assert!(std::env::var("GLIDEPATH_SERVERS").as_deref() != Ok("required"), "{variable} is not set");
            eprintln!("skipped: {variable} is not set; scripts/servers exec cargo test runs this");
            continue;
        };
        let url = url.replacen('?', &format!("/catalog-{}?", std::process::id()), 1);
        let folder = tempfile::tempdir().unwrap();
        let run = |arguments: &str| glidepath(folder.path(), &format!("catalog {}", arguments.replace("STORE", &url)));
        refused(run("list STORE"), 3);
        output(run("create STORE"));
        refused(run("create STORE"), 4);
        output(run("create-namespace STORE sales"));
        output(run("create-table STORE sales/orders --location here"));
        refused(run("drop STORE sales"), 5);
        output(run("rename STORE sales/orders orders"));
        output(run("drop STORE sales"));
        assert_eq!(output(run("list STORE --recursive")).split_whitespace().last(), Some("orders"), "{variable}");
        assert_eq!(output(run("history STORE --json")).lines().count(), 5, "{variable}");
        assert!(output(run("fsck STORE")).contains("the catalog is whole up to version"), "{variable}");
        output(run("vacuum STORE"));
    }
}
