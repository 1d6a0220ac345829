//! Does `glidepath txn` work on the command line, and does each failure have its own message and exit code?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};
use serde_json::{Value, json};

/// A store, and a folder to run in.
struct Place {
    folder: tempfile::TempDir,
    url: String,
}

impl Place {
    fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("kv+file://{}/cells", folder.path().display());
        Self { folder, url }
    }

    /// Runs `glidepath txn`; STORE stands for the store's URL.
    fn run(&self, arguments: &str) -> std::process::Output {
        glidepath(self.folder.path(), &format!("txn {}", arguments.replace("STORE", &self.url)))
    }

    fn does(&self, arguments: &str) -> String {
        output(self.run(arguments))
    }

    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.does(arguments)).unwrap()
    }

    fn fails(&self, arguments: &str, code: i32, words: &str) {
        let error = refused(self.run(arguments), code);
        assert!(error.contains(words), "{arguments}: {error}");
    }
}

/// A service, from its creation to its restore. `name` is that of no other test.
fn lives(place: &Place, name: &str) {
    let run = |command: &str, rest: &str| place.does(&format!("{command} STORE --service {name} {rest}"));
    let fails = |command: &str, rest: &str, code, words: &str| {
        place.fails(&format!("{command} STORE --service {name} {rest}"), code, words);
    };
    fails("begin", "", 3, "`glidepath txn create STORE");
    assert_eq!(run("create", ""), format!("service {name} with table {name}_tickets\n"));
    assert_eq!(run("create", ""), format!("service {name} with table {name}_tickets\n"));
    fails("create", "--encoding original", 4, "`glidepath txn migrate`");
    fails("create", "--quantum 100 --rows 10", 4, "encoded as tickets 25000000 16, not as tickets 100 10");
    fails("create", &format!("--encoding original --table {name}_tickets"), 4, "not as original");
    fails("migrate", &format!("--encoding tickets --table {name}_timestamps"), 2, "belongs to the program itself");
    fails("get", "1", 2, "no timestamp was");
    assert_eq!(run("begin", "--count 4"), "1\n2\n3\n4\n");

    // The commit timestamp is the next one, or is given; a commit by the same timestamp again is the same commit.
    let committed = run("put", "1");
    let commit: u64 = committed.trim().strip_prefix("1 committed at ").unwrap().parse().unwrap();
    assert!(commit > 4, "{committed}");
    assert_eq!(run("put", "1"), committed);
    assert_eq!(run("put", &format!("1 {commit}")), committed);
    fails("put", &format!("1 {}", commit - 1), 9, &format!("nothing was done: transaction 1 committed at {commit}"));
    fails("abort", "1", 9, "committed at");
    fails("put", "3 2", 2, "it must be 4 or later");
    fails("put", "3 3", 2, "it must be 4 or later");
    fails("put", "2 999999", 2, "999999 was not given out: timestamps up to");
    assert_eq!(run("abort", "2"), "2 aborted\n");
    assert_eq!(run("abort", "2"), "2 aborted\n");
    fails("put", &format!("2 {commit}"), 9, "transaction 2 aborted");

    let words = format!("1 committed at {commit}\n2 aborted\n3 is in progress\n");
    assert_eq!(run("get", "1 2 3"), words);
    let end = |start: u64, status: &str, commit| json!({ "start": start, "status": status, "commit": commit });
    let ends = [end(1, "committed", json!(commit)), end(2, "aborted", json!(null))];
    let found = place.json(&format!("get STORE --service {name} 1 2 3 --json"));
    assert_eq!(found, json!([ends[0], ends[1], end(3, "in progress", json!(null))]));
    let mut scanned: Vec<Value> =
        run("scan", "--json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    scanned.sort_by_key(|end| end["start"].as_u64());
    assert_eq!(scanned, ends);
    assert_eq!(run("scan", "--from 2"), "2 aborted\n");
    assert_eq!(run("scan", "--limit 1").lines().count(), 1);
    assert_eq!(run("settle", "3 --grace 1ms"), "3 aborted\n");

    // A new table, for transactions that start later; then the numbers up to it are skipped.
    let from = place.json(&format!("migrate STORE --service {name} --encoding original --json"))["from"].as_u64();
    let from = from.unwrap();
    run("fast-forward", &from.to_string());
    let later: u64 = run("begin", "").trim().parse().unwrap();
    assert!(later > from, "{later}");
    run("put", &later.to_string());
    let described = place.json(&format!("describe STORE --service {name} --json"));
    assert_eq!(described["tables"][0]["encoding"], "tickets 25000000 16");
    assert_eq!(
        described["tables"][1],
        json!({ "from": from, "table": format!("{name}_original"), "encoding": "original" })
    );
    assert!(run("describe", "").contains(&format!("table {name}_original, encoded as original")));
    assert!(run("scan", &format!("--from {from}")).starts_with(&format!("{later} committed at")));

    // What committed after the backup is aborted, and what had not ended.
    let oldest = later - 1;
    let restored = place.json(&format!("restore STORE --service {name} --to {later} --oldest {oldest} --json"));
    assert_eq!(restored["undone"], 1);
    assert_eq!(run("get", &later.to_string()), format!("{later} aborted\n"));
    assert_eq!(run("get", "1"), committed);
    let next: u64 = run("begin", "").trim().parse().unwrap();
    assert!(next > restored["last"].as_u64().unwrap());
}

#[test]
fn a_service_on_this_machines_disk() {
    let place = Place::embedded();
    place.fails("describe STORE", 3, "there is no transaction service \"main\" in kv+file://");
    assert!(!place.folder.path().join("cells").exists(), "a command that reads made the folder");
    lives(&place, "main");
}

/// On servers, where they are.
#[test]
fn a_service_on_servers() {
    let folder = tempfile::tempdir().unwrap();
    // No other run has used it, on servers that outlive one.
    let random = folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let unique: String = random.chars().filter(char::is_ascii_alphanumeric).collect();
    let required = std::env::var("GLIDEPATH_SERVERS").is_ok_and(|value| value == "required");
    let mut place = Place { folder, url: String::new() };
    let servers = [
        ("GLIDEPATH_POSTGRES", Box::new(|address: String| address) as Box<dyn Fn(String) -> String>),
        ("GLIDEPATH_CASSANDRA", Box::new(|address: String| format!("cassandra://{address}/txn_commands?copies=1"))),
    ];
    for (variable, url) in servers {
        match std::env::var(variable) {
            Ok(address) if address != "none" => {
                place.url = url(address);
                lives(&place, &format!("t{unique}"));
            }
            _ => {
                assert!(
                    !required || variable != "GLIDEPATH_CASSANDRA",
                    "{variable} is not set: run by scripts/servers exec"
                );
                eprintln!(
                    "skipped: {variable} is not set; `scripts/servers exec cargo test -p glidepath-cli` runs this"
                );
            }
        }
    }
}

#[test]
fn mistakes_are_named() {
    let place = Place::embedded();
    for (arguments, words) in [
        ("create file:///tmp/x", "kv+file:///directory"),
        ("create /tmp/x", "no scheme"),
        ("describe kv+file:///%00", "%00"),
        ("bench kv+file:///%00", "%00"),
        // Whether the driver was built or not.
        ("create postgres://", "postgres"),
        ("create postgres://host/db?schema=a&schema=b", "postgres"),
        ("create kv+memory:", "exists only until the command ends"),
        ("create STORE --service 1x", "a service is named by letters"),
        ("create STORE --quantum 10 --rows 3", "rows"),
        ("create STORE --encoding original --rows 3", "--quantum and --rows are of tickets"),
        ("create STORE --rows 65537 --quantum 65537", "from 1 to 65536"),
        ("create STORE --table a-b", "a table is named by letters"),
        ("create STORE --encoding ticket", "possible values: original, tickets, staged"),
        ("begin STORE --count 0", "from 1 to 1000000"),
        ("get STORE 0", "0 is not a timestamp"),
        ("get STORE 9223372036854775808", "not a timestamp"),
        ("get STORE -1", "a timestamp is a whole number from 1"),
        ("get STORE x", "a timestamp is a whole number from 1"),
        ("get STORE", "<START>"),
        ("scan STORE --limit 0", "a whole number from 1"),
        ("migrate STORE", "--encoding original, tickets or staged"),
        ("bench STORE --rows 3", "3 does not divide 25000000"),
        ("settle STORE 1 --grace 10", "a number and a unit"),
    ] {
        place.fails(arguments, 2, words);
    }
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0, "a mistake left something behind");
    place.does("create STORE");
    place.fails("scan STORE --from 5 --to 4", 2, "--from 5 is behind --to 4");
    place.fails("migrate STORE --encoding tickets --rows 1 --quantum 10", 1, "is encoded as \"tickets 25000000 16\"");
    place.does("migrate STORE --encoding tickets --rows 1 --quantum 10 --table narrow");
}

/// Who follows the advice of the other message removes good results.
#[test]
fn what_is_no_store_is_told_so_before_the_folder_for_results() {
    let place = Place::embedded();
    std::fs::write(place.folder.path().join("made-by.txt"), "glidepath measure memory:\n").unwrap();
    let out = place.folder.path().display();
    place.fails(&format!("bench /tmp/x --out {out}"), 2, "no scheme");
    place.fails(&format!("bench STORE --out {out}"), 2, "holds the results of `glidepath measure memory:`");
}

#[test]
fn a_table_belongs_to_one_service() {
    let place = Place::embedded();
    place.does("create STORE");
    place.fails("create STORE --service b --table main_tickets", 2, "belongs to the service \"main\"");
    for table in ["glidepath_services", "glidepath_formats", "c_timestamps"] {
        place.fails(&format!("create STORE --service b --table {table}"), 2, "belongs to the program itself");
    }
    place.does("create STORE --service b");
    place.fails(
        "migrate STORE --encoding tickets --service b --table main_tickets",
        2,
        "belongs to the service \"main\"",
    );
    // Advice is for the service that was asked.
    place.fails("get STORE 1 --service b", 2, "`glidepath txn begin STORE --service b` gives out one");
}

/// Whatever is said of transactions in progress, what started after the backup is taken back.
#[test]
fn a_restore_leaves_out_nothing_that_started_after_the_backup() {
    let place = Place::embedded();
    place.does("create STORE");
    place.does("begin STORE --count 8");
    place.does("put STORE 1 2");
    place.does("put STORE 5 6");
    let restored = place.json("restore STORE --to 3 --oldest 8 --json");
    assert_eq!(restored["undone"], 1);
    assert_eq!(place.does("get STORE 1 5"), "1 committed at 2\n5 aborted\n");
    let told = place.does("restore STORE --to 3 --oldest 8");
    assert!(told.starts_with("transactions aborted that had committed after 3: 0; timestamps aborted "), "{told}");
}

/// A restore looks at each number, also at those that a fast-forward has skipped.
#[test]
fn a_restore_that_would_take_days_is_refused() {
    let place = Place::embedded();
    place.does("create STORE");
    place.does("begin STORE --count 8");
    place.does("put STORE 5 6");
    place.does("fast-forward STORE 9000000000000000000");
    place.fails("restore STORE --to 3", 2, "not restored, nothing was changed");
    assert_eq!(place.does("get STORE 5"), "5 committed at 6\n");
    place.does("begin STORE");
    place.fails("restore STORE --to 3 --most-starts 4000000000", 2, "Allowed: 4000000000 (--most-starts)");
}

#[test]
fn what_is_lost_is_not_taken_for_new() {
    let place = Place::embedded();
    place.does("create STORE");
    place.does("begin STORE");
    let folder = place.folder.path().join("cells");
    // A process that was killed before it had written the last file leaves this.
    std::fs::remove_file(folder.join("format")).unwrap();
    assert_eq!(place.does("begin STORE"), "2\n");
    std::fs::rename(folder.join("cells"), place.folder.path().join("elsewhere")).unwrap();
    for command in ["create STORE", "begin STORE", "get STORE 1"] {
        place.fails(command, 1, "the folder `cells` is missing");
    }
}

/// The library would remove the folder of such a table.
#[test]
fn a_table_that_is_lost_stays_as_it_is() {
    let place = Place::embedded();
    place.does("create STORE");
    place.does("begin STORE");
    place.does("put STORE 1");
    let cells = place.folder.path().join("cells");
    let names = std::fs::read_to_string(cells.join("tables")).unwrap();
    for name in names.lines() {
        let current = cells.join("cells/keyspaces").join(name).join("current");
        let kept = std::fs::read(&current).unwrap();
        std::fs::remove_file(&current).unwrap();
        for command in ["create STORE", "begin STORE", "get STORE 1"] {
            place.fails(command, 1, &format!("the file `cells/keyspaces/{name}/current` is missing"));
        }
        std::fs::write(&current, kept).unwrap();
        assert!(place.does("get STORE 1").contains("committed"), "{name}");
    }
    assert!(names.lines().count() >= 4, "{names}");
}

#[test]
fn a_lost_map_is_no_new_service() {
    use glidepath_env::{Cell, KvStore, Table};

    let place = Place::embedded();
    place.does("create STORE");
    place.does("begin STORE --count 5");
    place.does("put STORE 1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Another store, which has all tables of the first but that of maps.
    let (other, tables) = (place.folder.path().join("other"), ["main_timestamps", "glidepath_formats"]);
    runtime.block_on(async {
        let from = glidepath_kv::open(&place.url).await.unwrap();
        let to = glidepath_kv::open(&format!("kv+file://{}", other.display())).await.unwrap();
        for table in tables.map(|table| Table::new(table).unwrap()) {
            to.create_table(&table).await.unwrap();
            let rows = from.rows(&table, None, 100).await.unwrap();
            for row in rows.rows {
                let all = glidepath_env::Columns { from: None, before: None };
                let cells = from.scan(&table, &row, &all, 100, glidepath_env::ReadLevel::Linearizable).await.unwrap();
                for (column, value) in cells.cells {
                    to.compare_and_set(&table, &Cell { row: row.clone(), column }, None, &value).await.unwrap();
                }
            }
        }
    });
    drop(runtime);
    let cells = place.folder.path().join("cells");
    std::fs::remove_dir_all(&cells).unwrap();
    std::fs::rename(&other, &cells).unwrap();
    place.fails("get STORE 1", 3, "there is no transaction service");
    place.fails("create STORE", 1, "timestamps up to 6 were given out");
    place.does("create STORE --service other");
}

/// The map of a service says how far its transactions go; without the bound of its timestamps none is given out.
#[test]
fn a_lost_bound_of_timestamps_is_noticed() {
    use glidepath_stores::LiveEnv;
    use glidepath_txn::{Encoding, Original, Timestamp, names, service::Service, table::Options};

    let place = Place::embedded();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bound = runtime.block_on(async {
        let store = glidepath_kv::open(&place.url).await.unwrap();
        let encoding = Encoding::Original(Original);
        let first = (names::transactions("main", encoding).unwrap(), encoding);
        let service = Service::create(LiveEnv::new(), store, "main", first, Options::default()).await.unwrap();
        service.table_of(Timestamp::new(7).unwrap()).await.unwrap();
        service.bound()
    });
    drop(runtime);
    for command in ["begin STORE", "get STORE 1", "put STORE 1", "fast-forward STORE 5"] {
        place.fails(command, 1, &format!("`glidepath txn fast-forward STORE {bound}`"));
    }
    place.does(&format!("fast-forward STORE {bound}"));
    let next: u64 = place.does("begin STORE").trim().parse().unwrap();
    assert!(next > bound, "{next}");
}

#[test]
fn timestamps_have_an_end() {
    use glidepath_stores::LiveEnv;
    use glidepath_txn::Timestamp;
    use glidepath_txn::timestamps::{Allocator, AllocatorOptions, Sharing};

    let place = Place::embedded();
    place.does("create STORE");
    let last = u64::MAX / 2;
    // What only a mistake can mean is refused: nothing would bring the timestamps back.
    let most = last - (1 << 40);
    for (to, left) in [(last, "0"), (last - 3, "3"), (most + 1, "1099511627775")] {
        let words = format!("leave {left} timestamps for ever; give {most} at most, which leaves 1099511627776");
        place.fails(&format!("fast-forward STORE {to}"), 2, &words);
    }
    assert_eq!(place.does("begin STORE"), "1\n");
    place.does(&format!("fast-forward STORE {most}"));
    let next: u64 = place.does("begin STORE").trim().parse().unwrap();
    assert!(next > most && next < most + 10, "{next}");
    // A program may use them up.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let forward = |to: u64| {
        let allocator = async {
            let store = glidepath_kv::open(&place.url).await.unwrap();
            let table = glidepath_txn::names::timestamps("main").unwrap();
            let options = AllocatorOptions { allotment: 1, sharing: Sharing::Alone };
            let allocator = Allocator::open(LiveEnv::new(), store, table, options).await.unwrap();
            allocator.fast_forward(Timestamp::new(to).unwrap()).await.unwrap();
        };
        runtime.block_on(allocator);
    };
    forward(last - 3);
    place.fails("begin STORE --count 10", 1, "10 timestamps were asked for, and 2 are left");
    forward(last);
    place.fails("begin STORE", 1, "1 timestamps were asked for, and 0 are left");
    // Nothing is to be done.
    place.does("fast-forward STORE 5");
    place.does(&format!("fast-forward STORE {last}"));
    place.does(&format!("abort STORE {last}"));
}

#[test]
fn a_fast_forward_to_what_was_given_out_does_nothing_and_says_so() {
    let place = Place::embedded();
    place.does("create STORE");
    place.does("begin STORE --count 6");
    let words = "nothing to do: timestamps up to 6 may have been given out";
    assert!(place.does("fast-forward STORE 1").contains(words));
    assert_eq!(place.does("begin STORE"), "7\n");
    place.does("put STORE 1");
    assert!(place.does("fast-forward STORE 2").contains("nothing to do"));
}

/// The store is open in one process: others are told so, by an exit code of its own.
#[test]
fn a_store_that_is_open_elsewhere_is_busy() {
    let place = Place::embedded();
    place.does("create STORE");
    let folder = place.folder.path().join("cells");
    let lock = std::fs::File::options().write(true).open(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    place.fails("begin STORE", 6, "is open already");
    drop(lock);
    place.does("begin STORE");
    // A format of later programs is refused, and left alone.
    std::fs::write(folder.join("format"), "glidepath cells, version 2\n").unwrap();
    place.fails("begin STORE", 1, "version 2");
}

/// Short: what is measured is not looked at, but that all is there and nothing is left behind.
#[test]
fn a_benchmark_has_a_line_for_each_run() {
    let place = Place::embedded();
    let lines = place.json("bench STORE --duration 20ms --clients 1,3 --rows 1,4 --entries 50000 --out out --json");
    let lines = lines.as_array().unwrap();
    let of = |part: &str| lines.iter().filter(|line| line["part"] == part).collect::<Vec<_>>();
    assert_eq!(["puts", "batches", "reads", "cache", "loads", "bytes"].map(|part| of(part).len()), [6, 1, 4, 1, 18, 2]);
    assert!(lines.iter().all(|line| line["errors"] == 0), "{lines:?}");
    assert!(of("puts").iter().all(|line| line["per_second"].as_f64().unwrap() > 0.0), "{lines:?}");
    let bytes: Vec<f64> = of("bytes").iter().map(|line| line["bytes_per_entry"].as_f64().unwrap()).collect();
    assert!(bytes[1] < bytes[0], "{bytes:?}");
    let page = std::fs::read_to_string(place.folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("bytes of a ticket"));
    let mut left: Vec<_> =
        std::fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["out"]);
    place.fails("bench STORE --rows 3", 2, "rows");
    place.fails("bench STORE --duration 0s", 2, "above zero");
    place.fails("bench STORE --entries 9", 2, "at least 50000");
}
