//! Does `glidepath catalog` work with views and metadata pointers, and does each failure have its own message?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/place.rs"]
mod place;

use place::Place;
use serde_json::Value;

fn names(place: &Place, arguments: &str) -> Vec<String> {
    place.lines(arguments).iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect()
}

fn version(place: &Place) -> Value {
    place.json("describe STORE --json")["version"].clone()
}

const KEEPERS: [&str; 5] = [
    "--protocol catalog-file",
    "--protocol append-log",
    "--protocol manifest-chain",
    "--layout whole",
    "--without-indices",
];

#[test]
fn a_view_lives_like_a_table() {
    for how in KEEPERS {
        let place = Place::with(how);
        place.does("create-namespace STORE sales");
        place.does("create-table STORE sales/orders --pointer s3://lake/orders/1.json");
        let created = place.does(
            "create-view STORE sales/late --location s3://lake/late --pointer s3://lake/late/1.json \
             --property owner=ann --base sales/orders",
        );
        assert_eq!(created, "created view sales/late (version 3)\n", "{how}");
        place.does("create-view STORE sales/bare");
        let listed = place.does("list STORE sales");
        let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["view", "sales/bare"]);
        assert_eq!(rows[1], ["view", "sales/late", "->", "s3://lake/late/1.json"]);
        assert_eq!(rows[2], ["table", "v0", "sales/orders", "->", "s3://lake/orders/1.json"]);
        assert_eq!(names(&place, "list STORE sales --kind view --json"), ["sales/bare", "sales/late"]);
        assert_eq!(names(&place, "list STORE --recursive --kind table --json"), ["sales/orders"]);

        let view = place.json("describe STORE sales/late --json");
        assert_eq!((&view["kind"], &view["location"]), (&"view".into(), &"s3://lake/late".into()), "{view}");
        assert_eq!(view["metadata_pointer"], "s3://lake/late/1.json");
        assert_eq!((&view["properties"]["owner"], &view["base_objects"][0]), (&"ann".into(), &"sales/orders".into()));
        assert!(view.get("table_version").is_none() && view.get("partition_versions").is_none(), "{view}");
        let text = place.does("describe STORE sales/late");
        assert!(text.starts_with("view sales/late\n"), "{text}");
        assert!(text.contains("  metadata pointer  s3://lake/late/1.json\n"), "{text}");
        assert!(place.json("describe STORE sales/bare --json").get("metadata_pointer").is_none());

        assert_eq!(place.does("exists STORE sales/late"), "view\n");
        assert_eq!(place.does("exists STORE sales/late --kind view"), "view\n");
        place.fails("exists STORE sales/late --kind table", 3, "there is no table sales/late");
        assert_eq!(place.does("set STORE sales/late a=b --unset owner"), "set properties of sales/late (version 5)\n");
        assert_eq!(place.does("rename STORE sales/late early"), "renamed sales/late to early (version 6)\n");
        assert_eq!(place.json("describe STORE early --json")["properties"]["a"], "b");
        assert_eq!(place.does("drop STORE early"), "dropped view early (version 7)\n");
        place.fails("drop STORE sales", 5, "not empty");
        place.does("drop STORE sales/bare --kind view");
        assert_eq!(names(&place, "list STORE sales --json"), ["sales/orders"]);
    }
}

#[test]
fn a_pointer_moves_from_where_it_was_seen() {
    for how in KEEPERS {
        let place = Place::with(how);
        place.does("create-table STORE t");
        place.does("create-view STORE v --pointer m1");
        place.fails(
            "set STORE t --pointer m2 --expect m1",
            9,
            "metadata pointer of t is none, not \"m1\": read it again",
        );
        assert_eq!(place.does("set STORE t --pointer m1"), "set metadata pointer of t (version 3)\n");
        for name in ["t", "v"] {
            let words = format!("metadata pointer of {name} is \"m1\", not none: read it again, and say by --expect");
            place.fails(&format!("set STORE {name} --pointer m2"), 9, &words);
            let words = format!("metadata pointer of {name} is \"m1\", not \"m0\": read it again");
            place.fails(&format!("set STORE {name} --pointer m2 --expect m0"), 9, &words);
            let set = place.json(&format!("set STORE {name} a=b --unset c --pointer m2 --expect m1 --json"));
            assert_eq!((&set["metadata_pointer"], &set["missing_properties"][0]), (&"m2".into(), &"c".into()), "{set}");
            // All or nothing.
            place.fails(&format!("set STORE {name} a=c --pointer m3 --expect m1"), 9, "read it again");
            let entry = place.json(&format!("describe STORE {name} --json"));
            assert_eq!((&entry["metadata_pointer"], &entry["properties"]["a"]), (&"m2".into(), &"b".into()), "{entry}");
        }
        let both = place.does("set STORE v a=c --pointer m3 --expect m2");
        assert_eq!(both, "set properties and metadata pointer of v (version 6)\n");
    }
    let place = Place::with("");
    place.does("create-table STORE t");
    place.does("set STORE t --pointer m1");
    place.does("set STORE t --pointer m2 --expect m1");
    let history = place.does("history STORE");
    assert!(history.contains("~ table t: metadata pointer none -> m1\n"), "{history}");
    assert!(history.contains("~ table t: metadata pointer m1 -> m2\n"), "{history}");
}

#[test]
fn bad_ends_are_told_apart() {
    let place = Place::with("");
    place.does("create-namespace STORE s");
    place.does("create-table STORE s/t");
    place.does("create-view STORE s/v");
    for (arguments, code, words) in [
        ("create-view STORE s/v", 4, "s/v exists already"),
        ("create-view STORE s/t", 4, "s/t exists already"),
        ("create-table STORE s/v", 4, "s/v exists already"),
        ("create-namespace STORE s/v", 4, "s/v exists already"),
        ("create-view STORE none/v", 3, "there is no namespace none"),
        ("create-view STORE s/v/w", 9, "s/v is a view, not a namespace"),
        ("create-view STORE s/t/w", 9, "s/t is a table, not a namespace"),
        ("create-table STORE s/v/t", 9, "s/v is a view, not a namespace"),
        ("create-view STORE", 2, "<NAME>"),
        ("create-view STORE a//b", 2, "empty part"),
        ("create-view STORE w --property x", 2, "KEY=VALUE"),
        ("create-view STORE w --property x=1 --property x=2", 2, "\"x\" is given twice"),
        ("create-view STORE w --base a//b", 2, "empty part"),
        ("create-view STORE w --partitions 2", 2, "--partitions"),
        ("create-view STORE w --metadata 1", 2, "--metadata"),
        ("create-namespace STORE w --pointer m", 2, "--pointer"),
        ("drop STORE s/v --kind table", 9, "s/v is a view, not a table"),
        ("drop STORE s/t --kind view", 9, "s/t is a table, not a view"),
        ("drop STORE s --kind view", 9, "s is a namespace, not a view"),
        ("drop STORE s/v --cascade", 9, "s/v is a view, not a namespace"),
        ("drop STORE s/v --cascade --kind view", 2, "--cascade is for namespaces"),
        ("drop STORE s/v --kind view --table-version 0", 2, "--table-version is for tables"),
        ("drop STORE s/v --table-version 0", 9, "s/v is a view, not a table"),
        ("drop STORE s/v --kind query", 2, "namespace, table, view"),
        ("rename STORE s/v s/t", 4, "s/t exists already"),
        ("rename STORE s other", 9, "s is a namespace, not a table or a view"),
        ("list STORE s/v", 9, "s/v is a view, not a namespace"),
        ("set STORE s --pointer m", 9, "s is a namespace, not a table or a view"),
        ("set STORE s/none --pointer m", 3, "there is no s/none"),
        ("set STORE s/v --expect m", 2, "--pointer"),
        ("set STORE s/v a=b --expect m", 2, "--pointer"),
        ("set STORE s/v --pointer", 2, "--pointer"),
        ("set STORE s/v", 2, "give KEY=VALUE, --unset KEY or --pointer NEW"),
        ("exists STORE s/v --kind namespace", 3, "there is no namespace s/v"),
    ] {
        place.fails(arguments, code, words);
    }
    assert_eq!(version(&place), 3, "none of these committed");
}

/// For both layouts of a chain: fsck covers views, their indices, and drops of a namespace.
#[test]
fn a_chain_with_views_is_whole() {
    for layout in ["paged", "whole"] {
        let place = Place::with(&format!("--layout {layout}"));
        for space in ["a", "a/b", "c"] {
            place.does(&format!("create-namespace STORE {space}"));
            place.does(&format!("create-view STORE {space}/v --pointer m --base c/v"));
        }
        let fsck = place.json("fsck STORE --json");
        assert_eq!((&fsck["damaged"], fsck["findings"].as_array().unwrap().len()), (&false.into(), 0), "{fsck:#}");
        place.does("drop STORE a --cascade");
        assert_eq!(names(&place, "list STORE --recursive --json"), ["c", "c/v"]);
        let fsck = place.json("fsck STORE --json");
        assert_eq!((&fsck["damaged"], fsck["findings"].as_array().unwrap().len()), (&false.into(), 0), "{fsck:#}");
        assert_eq!(names(&place, "list STORE --recursive --kind view --version 6 --json"), ["a/b/v", "a/v", "c/v"]);
    }
}

/// Two processes that read the same pointer: one moves it, the other gets an error with its new value.
#[test]
fn of_two_who_saw_the_same_pointer_one_moves_it() {
    let place = Place::with("");
    place.does("create-table STORE t --pointer m0");
    let all: Vec<_> = std::thread::scope(|scope| {
        let run = |number| place.run(&format!("set STORE t --pointer n{number} --expect m0"));
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let codes: Vec<_> = all.iter().map(|output| output.status.code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 9).count(), 3, "{codes:?}");
    let winner = codes.iter().position(|code| *code == 0).unwrap();
    assert_eq!(place.json("describe STORE t --json")["metadata_pointer"], format!("n{winner}"));
}
