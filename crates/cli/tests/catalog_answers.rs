//! Does `glidepath catalog` answer clearly where what it is given, or what is stored, is wrong?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/place.rs"]
mod place;

use common::{output, refused};
use place::Place;
use serde_json::Value;

const PROTOCOLS: [&str; 3] = ["catalog-file", "manifest-chain", "append-log"];

/// With three tables.
fn filled(protocol: &str) -> Place {
    let place = Place::with(&format!("--protocol {protocol}"));
    for number in 0..3 {
        place.does(&format!("create-table STORE t{number}"));
    }
    place
}

/// Cuts the file of an object.
fn cut(place: &Place, key: &str, bytes: u64) {
    let file = std::fs::File::options().write(true).open(place.file(key)).unwrap();
    file.set_len(bytes).unwrap();
}

fn has(report: &Value, trouble: &str, object: &str) {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().any(|finding| finding["trouble"] == trouble && finding["object"] == object);
    assert!(found, "{trouble} {object}: {report:#}");
}

/// Whatever is damaged is a finding, in JSON too.
#[test]
fn an_object_that_cannot_be_read_is_a_finding_of_fsck() {
    for protocol in PROTOCOLS {
        let place = filled(protocol);
        cut(&place, "protocol", 0);
        for more in ["", "--mend"] {
            let (code, report) = place.fsck(more);
            assert_eq!((code, &report["damaged"]), (8, &true.into()), "{protocol}: {report:#}");
            has(&report, "unread", "protocol");
            // The catalog is checked all the same.
            assert_eq!(report["newest_version"], 3, "{protocol}: {report:#}");
            assert_eq!(report["mended"], serde_json::json!([]));
        }
        // The advice works.
        std::fs::remove_file(place.file("protocol")).unwrap();
        assert_eq!(place.fsck("--mend").0, 0);
        assert!(place.does("list STORE").contains("t2"));
        let label = place.file("protocol");
        place.spoil(&label, |name| name[0] = b'x');
        let (code, report) = place.fsck("");
        assert_eq!(code, 8);
        has(&report, "unknown-label", "protocol");
    }
    let cases = [("catalog-file", "catalog", 1100), ("append-log", "log/log/00000000000000000000", 900)];
    for (protocol, object, bytes) in cases {
        let place = filled(protocol);
        cut(&place, object, bytes);
        let (code, report) = place.fsck("");
        assert_eq!((code, &report["damaged"]), (8, &true.into()), "{protocol}: {report:#}");
        has(&report, "unread", object);
    }
}

/// "There is no catalog here" would invite the user to create one over it.
#[test]
fn what_is_left_of_a_catalog_is_never_called_nothing() {
    let place = filled("manifest-chain");
    for version in 0..4 {
        std::fs::remove_file(place.file(&format!("versions/{:016x}", u64::MAX - version))).unwrap();
    }
    let pack = place.file(&format!("packs/{:016x}-{:016x}-0000", 1, 7));
    std::fs::create_dir_all(pack.parent().unwrap()).unwrap();
    std::fs::copy(place.file("protocol"), &pack).unwrap();
    for command in ["vacuum STORE", "list STORE", "list STORE --version 2", "describe STORE", "drop STORE t1"] {
        let error = refused(place.run(command), 1);
        let what = ["objects of a catalog of manifest-chain", "they are lost, or vacuumed faster than they are read"];
        assert!(what.iter().any(|words| error.contains(words)), "{command}: {error}");
        assert!(!error.contains("no catalog"), "{command}: {error}");
    }
    let (code, report) = place.fsck("--mend");
    assert_eq!((code, &report["damaged"]), (8, &true.into()), "{report:#}");
}

#[test]
fn a_url_that_says_more_than_is_used_is_refused() {
    let place = Place::empty();
    let url = format!("file://{}", place.store().display());
    let run = |command: &str, url: &str| {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_glidepath"));
        program.args(["catalog", command, url]).current_dir(place.0.path()).output().unwrap()
    };
    let cases = [
        (format!("{url}#part"), "write it %23"),
        (format!("{url} "), "%20"),
        (format!(" {url}"), "%20"),
        (format!("{url}\n"), "line feed"),
        (format!("{url}\tx"), "tab"),
        (format!("{url}?x=y"), "the only parameter is durability"),
        (format!("{url}?durability=none&durability=fsync"), "given twice"),
        ("MEMORY:".to_owned(), "exist only until the command ends"),
        ("Memory:".to_owned(), "exist only until the command ends"),
        ("memory:?a=b".to_owned(), "no parameters"),
        ("file:store".to_owned(), "three slashes"),
        ("file:///tmp/a%00b".to_owned(), "%00"),
        ("s3://bucket/prefix#part".to_owned(), "write it %23"),
    ];
    for (url, words) in cases {
        for command in ["list", "create", "fsck", "vacuum"] {
            let error = refused(run(command, &url), 2);
            assert!(error.contains(words), "{command} {url}: {error}");
        }
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0, "something was created");
    output(run("create", &url));
}

/// A folder that exists, and is not a store.
#[test]
fn a_command_on_a_mistyped_folder_leaves_nothing_there() {
    let place = Place::empty();
    std::fs::create_dir(place.store()).unwrap();
    for command in ["list STORE", "fsck STORE", "vacuum STORE", "create-namespace STORE a", "exists STORE a"] {
        place.fails(command, 3, "there is no catalog in ");
        assert_eq!(std::fs::read_dir(place.store()).unwrap().count(), 0, "{command}");
    }
}

/// What is stored can neither forge a line nor control a terminal.
#[test]
fn hidden_characters_are_shown_in_whatever_people_read() {
    let place = Place::with("");
    let nasty = "x\nversion 99  commit 0\r\u{1b}[2J\u{202e}\u{9b}\u{2028}";
    let url = format!("file://{}?durability=none", place.store().display());
    let run = |arguments: &[&str]| {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_glidepath"));
        output(program.args(["catalog", arguments[0], &url]).args(&arguments[1..]).output().unwrap())
    };
    let property = format!("k{nasty}={nasty}");
    run(&["create-table", "t", "--property", &property, "--location", nasty, "--pointer", nasty]);
    run(&["set", "t", &format!("k{nasty}=other"), "--unset", &format!("no{nasty}")]);
    run(&["set", "t", "--unset", &format!("k{nasty}")]);
    run(&["create-namespace", "soft\u{ad}hyphen"]);
    for arguments in [&["history"][..], &["describe", "t", "--version", "1"], &["list"], &["list", "--version", "1"]] {
        let text = run(arguments);
        let hidden = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{2028}' | '\u{ad}'));
        assert!(!text.contains(hidden), "{arguments:?}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("version 99")), "{arguments:?}: {text}");
    }
    let shown = run(&["describe", "t", "--version", "1"]);
    assert!(shown.contains("x\\nversion 99") && shown.contains("\\u{1b}[2J\\u{202e}"), "{shown}");
}

/// Also not what is written on the command line, by a script that took it from elsewhere.
#[test]
fn hidden_characters_are_shown_in_mistakes_on_the_command_line() {
    let place = Place::with("");
    let url = format!("file://{}?durability=none", place.store().display());
    let nasty = "a\u{202e}b\u{1b}[2J";
    for arguments in [
        &["create-namespace", &url, nasty][..],
        &["list", &url, "--limit", nasty],
        &["list", &url, &format!("--{nasty}")],
        &[nasty],
    ] {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_glidepath"));
        let error = refused(program.arg("catalog").args(arguments).output().unwrap(), 2);
        let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!error.contains(hidden) && error.contains("a\\u{202e}b\\u{1b}[2J"), "{arguments:?}: {error:?}");
    }
}

#[test]
fn an_id_has_no_sign() {
    let place = Place::with("");
    for wrong in ["+f", "-1", "0x1", "f_f", ""] {
        let run = place.run(&format!("create-table STORE t --metadata={wrong}"));
        assert!(refused(run, 2).contains("16 hexadecimal digits"), "{wrong}");
    }
}

/// By a user who may not look into the store.
#[test]
fn an_error_of_access_names_the_file() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let place = filled("manifest-chain");
    let file = place.file("protocol");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let mut path = Some(place.store());
    while let Some(folder) = path.filter(|folder| folder.starts_with(place.0.path())) {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        path = folder.parent().map(std::path::Path::to_path_buf);
    }
    for folder in ["objects", "locks", "writers"] {
        std::fs::set_permissions(place.store().join(folder), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let url = format!("file://{}?durability=none", place.store().display());
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_glidepath"));
    program.args(["catalog", "list", &url]);
    if std::fs::metadata(place.0.path()).unwrap().uid() == 0 {
        // The superuser may read everything.
        program.uid(65_534);
    }
    let Ok(ended) = program.output() else {
        println!("skipped: another user cannot run the program");
        return;
    };
    let error = refused(ended, 1);
    assert!(error.contains("protocol%o: Permission denied"), "{error}");
}

/// A writer's clock that is a day behind, or the file system's, makes nothing old by itself.
#[test]
fn a_vacuum_believes_no_single_clock() {
    let day = std::time::Duration::from_secs(25 * 3600);
    let none = std::time::Duration::ZERO;
    for (by_writer, by_file_system) in [(day, none), (none, day)] {
        let place = filled("manifest-chain");
        place.age(by_writer, by_file_system);
        let error = refused(place.run("vacuum STORE --keep-versions 0"), 1);
        for words in ["nothing was removed", "version 3", "versions/", "25h", "clock"] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert_eq!(place.lines("history STORE --json").len(), 4);
        assert_eq!(place.fsck("").0, 0);
        // One young version more hides nothing: it is kept, and so are the others.
        place.does("create-table STORE late");
        refused(place.run("vacuum STORE --keep-versions 0"), 1);
        assert_eq!(place.lines("history STORE --json").len(), 5);
    }
    let place = filled("manifest-chain");
    place.age(day, day);
    place.does("create-table STORE late");
    let swept = place.json("vacuum STORE --keep-versions 0 --json");
    assert_eq!((&swept["oldest_kept_version"], &swept["newest_version"]), (&3.into(), &5.into()), "{swept}");
    assert_eq!(place.fsck("").0, 0);
    place.fails("list STORE --version 1", 3, "those that are kept are 3 to 5");
}

/// Without the keys in there, the catalog server would do a repeated request again.
#[test]
fn what_the_catalog_server_keeps_is_not_changed_by_hand() {
    let place = Place::with("--protocol manifest-chain");
    place.does("create-namespace STORE space");
    for command in [
        "create-namespace STORE .glidepath",
        "create-table STORE .glidepath/keys/a",
        "create-view STORE .glidepath/v",
        "set STORE .glidepath a=b",
        "drop STORE .glidepath --cascade",
        "rename STORE .glidepath/a space/a",
        "rename STORE space/a .glidepath/a",
    ] {
        place.fails(command, 2, "allowed: a name that is not in .glidepath");
    }
    place.does("create-namespace STORE space/.glidepath");
}
