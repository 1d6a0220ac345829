//! Tests of a catalog and of transactions on a full disk: commits fail with a message, nothing is lost, reads work, and
//! commits work again when there is room.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[cfg(feature = "serve")]
#[path = "common/serving.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod serving;
#[allow(dead_code, reason = "each test program uses its part")]
mod small_disk;

use common::{glidepath, output, refused};
use small_disk::SmallDisk;

/// Every protocol, and both layouts of the manifest chain.
const KINDS: [&str; 5] =
    ["--layout paged", "--layout whole", "--protocol append-log", "--protocol catalog-file", "--protocol tickets"];

fn fills_up(disk: &SmallDisk, kind: &str) {
    let run = |arguments: &str| {
        let url = format!("file://{}", disk.path().join("store").display());
        glidepath(disk.path(), &format!("catalog {}", arguments.replace("STORE", &url)))
    };
    output(run(&format!("create STORE {kind}")));
    output(run("create-namespace STORE before"));
    let filler = disk.fill();
    let error = refused(run("create-namespace STORE while"), 1);
    assert!(error.contains("No space left on device"), "{error}");
    assert_eq!(output(run("list STORE")).lines().filter(|line| line.contains("before")).count(), 1);
    output(run("fsck STORE"));
    std::fs::remove_file(filler).unwrap();
    output(run("create-namespace STORE after"));
    let listed = output(run("list STORE"));
    assert!(listed.contains("before") && listed.contains("after") && !listed.contains("while"), "{listed}");
}

#[test]
fn a_catalog_on_a_full_disk_in_memory() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::in_memory(&folder.path().join("disk"), "1m") else { return };
        fills_up(&disk, kind);
    }
}

#[test]
fn a_catalog_on_a_full_disk_of_ext4() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::ext4(&folder.path().join("disk"), 8 << 20) else { return };
        fills_up(&disk, kind);
    }
}

/// In words of this program, and with the folder; and the same command goes on when there is room.
fn transactions_fill_up(disk: &SmallDisk) {
    let cells = disk.path().join("cells");
    let run = |arguments: &str| {
        let url = format!("kv+file://{}", cells.display());
        glidepath(disk.path().parent().unwrap(), &format!("txn {}", arguments.replace("STORE", &url)))
    };
    for arguments in
        ["create STORE", "migrate STORE --encoding tickets --table one", "migrate STORE --encoding tickets --table two"]
    {
        output(run(arguments));
    }
    let filler = disk.fill();
    let is_ours = |error: &str| {
        for words in ["No space left on device", &cells.display().to_string(), "see that the disk works and has room"] {
            assert!(error.contains(words), "{error}");
        }
        assert!(!error.contains("Error"), "{error}");
    };
    // An opening writes the journal once more, so it needs room before anything is read.
    for arguments in ["migrate STORE --encoding original", "describe STORE"] {
        let error = refused(run(arguments), 1);
        is_ours(&error);
        assert!(error.contains("writing the files of the cells once more"), "{error}");
    }
    std::fs::remove_file(filler).unwrap();
    output(run("migrate STORE --encoding original"));
    assert!(output(run("describe STORE")).contains("table main_original, encoded as original"));
    output(run("begin STORE"));

    // Room for some calls of a benchmark.
    let filler = disk.fill();
    let file = std::fs::File::options().write(true).open(&filler).unwrap();
    file.set_len(file.metadata().unwrap().len() - (1 << 20)).unwrap();
    let error = refused(run("bench STORE --part batches --duration 1s --out out"), 1);
    assert!(error.contains(" calls failed, in 1 of 1 runs; the first: "), "{error}");
    is_ours(&error);
    assert!(disk.path().with_file_name("out").join("results.json").exists());
}

#[test]
fn transactions_on_a_full_disk_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&folder.path().join("disk"), "16m") else { return };
    transactions_fill_up(&disk);
}

#[test]
fn transactions_on_a_full_disk_of_ext4() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::ext4(&folder.path().join("disk"), 16 << 20) else { return };
    transactions_fill_up(&disk);
}

/// A load balancer sees it, and what watches the process starts it again.
#[cfg(feature = "serve")]
#[test]
fn a_server_whose_store_takes_no_more_writes_is_not_healthy() {
    use serving::Server;
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&folder.path().join("disk"), "16m") else { return };
    let (store, warehouse) = (disk.path().join("cells"), folder.path().join("tables"));
    let (store, warehouse) = (format!("kv+file://{}", store.display()), format!("file://{}", warehouse.display()));
    let start = || Server::start(&store, &warehouse, "error", std::process::Stdio::null());
    let server = start();
    let create = |server: &Server, number: u32| {
        server.asked("POST", "/v1/namespaces", &format!(r#"{{"namespace":["n{number}"]}}"#))
    };
    let health = |server: &Server| ["/healthz", "/readyz"].map(|path| server.asked("GET", path, "")[9..12].to_owned());
    assert!(create(&server, 0).starts_with("HTTP/1.1 200"));
    assert_eq!(health(&server), ["200", "200"]);
    let filler = disk.fill();
    let failed = (1..2000).map(|number| create(&server, number)).find(|answer| !answer.starts_with("HTTP/1.1 200"));
    let failed = failed.unwrap();
    assert!(failed.starts_with("HTTP/1.1 50"), "{failed}");
    std::fs::remove_file(filler).unwrap();
    let refused = create(&server, 2001);
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("takes no more writes"), "{refused}");
    assert_eq!(health(&server), ["503", "503"]);
    drop(server);
    let server = start();
    assert!(create(&server, 2001).starts_with("HTTP/1.1 200"));
    assert_eq!(health(&server), ["200", "200"]);
}

/// What a command found out is in its code, whether its output can be written or not.
#[cfg(target_os = "linux")]
#[test]
fn what_was_found_is_not_hidden_by_an_output_that_takes_nothing() {
    use std::fs::File;
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}?durability=none", folder.path().join("store").display());
    let object = |key: &str| folder.path().join(format!("store/objects/{key}%o"));
    let run = |arguments: &str, output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glidepath"));
        command.arg("catalog").args(arguments.replace("STORE", &url).split(' ')).stdout(output);
        let ended = command.output().unwrap();
        (ended.status.code().unwrap(), String::from_utf8(ended.stderr).unwrap())
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    assert_eq!(run("create STORE", Stdio::null()).0, 0);
    // What was mended was mended; a hint that is mended again is needed for each.
    let spoil_hint = || std::fs::copy(object("protocol"), object("hint")).unwrap();
    for (output, code) in [(full(), 10), (closed(), 0)] {
        spoil_hint();
        assert_eq!(run("fsck STORE --mend", output).0, code);
        assert_eq!(run("fsck STORE --mend", full()).0, 1, "nothing was left to mend");
    }
    for (arguments, code, words) in
        [("exists STORE nothing --json", 3, "there is no nothing"), ("exists STORE nothing", 3, "there is no nothing")]
    {
        for output in [full(), closed()] {
            let (ended, error) = run(arguments, output);
            assert!(ended == code && error.contains(words), "{ended} {error}");
        }
    }
    std::fs::write(object(&format!("versions/{:016x}", u64::MAX)), "damage").unwrap();
    for arguments in ["fsck STORE", "fsck STORE --json", "fsck STORE --mend"] {
        for (output, words) in [(full(), "No space left"), (closed(), "damaged")] {
            let (ended, error) = run(arguments, output);
            assert!(ended == 8 && error.contains(words), "{arguments}: {ended} {error}");
        }
    }
}

/// A measurement may have cost money: it is kept though nobody reads what is printed of it.
#[test]
fn what_was_measured_is_kept_though_nobody_reads_it() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_glidepath"))
        .args("measure memory: --operations cas --writers 1,2 --duration 100ms --trials 1 --out m".split(' '))
        .current_dir(folder.path())
        .stdout(Stdio::from(std::io::pipe().unwrap().1))
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    for name in ["report.html", "profile.toml", "samples.parquet"] {
        assert!(folder.path().join("m").join(name).exists(), "{name}");
    }
}

/// The output may go to a full disk, too: a commit that was done must not be reported as not done.
#[cfg(target_os = "linux")]
#[test]
fn what_was_done_is_done_though_nobody_can_be_told() {
    use std::fs::File;
    use std::process::Command;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("store").display());
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glidepath"));
        command.arg("catalog").args([arguments[0], &url]).args(&arguments[1..]);
        command
    };
    let told = run(&["create"]).stdout(full()).output().unwrap();
    assert_eq!(told.status.code(), Some(10));
    let words = String::from_utf8(told.stderr).unwrap();
    assert!(words.contains("it was done, but the answer was not told"), "{words}");
    for json in [&[][..], &["--json"]] {
        let name = format!("n{}", json.len());
        let told = run(&[&["create-namespace", &name], json].concat()).stdout(full()).output().unwrap();
        assert_eq!(told.status.code(), Some(10));
        // The entry exists; if the error message cannot be written either, the exit code still reports it.
        let again = run(&["create-namespace", &name]).stderr(full()).status().unwrap();
        assert_eq!(again.code(), Some(4));
    }
}
