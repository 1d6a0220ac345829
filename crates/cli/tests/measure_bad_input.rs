//! If `glidepath measure` cannot measure or is stopped, it prints one clear message and leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod careless;
#[allow(dead_code, reason = "each test program uses its part")]
mod common;
#[allow(dead_code, reason = "each test program uses its part")]
mod small_disk;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::refused;
use glidepath_env::{Key, ObjectStore};
use small_disk::SmallDisk;

fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("glidepath"))
}

/// Measures this store with these variables, in a temporary folder in which no results may be left.
fn fails(store: &str, variables: &[(&str, &str)], code: i32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program();
    command.args(["measure", store, "--quick", "--yes"]).envs(variables.iter().copied()).current_dir(folder.path());
    let error = refused(command.output().unwrap(), code);
    let left: Vec<PathBuf> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{store} left {left:?}");
    let complaints = error.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(complaints, 1, "{store}: {error}");
    error
}

fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "no {part:?} in {error}");
    }
}

/// Keys to sign with, if no server provides any.
const ANY_KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SECRET_ACCESS_KEY", "hidden")];

#[test]
fn where_nobody_listens() {
    for (store, named) in [
        ("s3://bucket/prefix?endpoint=http://127.0.0.1:1", "s3://bucket/prefix"),
        ("az://container/prefix?endpoint=http://127.0.0.1:1/account", "az://container/prefix"),
        ("gs://bucket/prefix?endpoint=http://127.0.0.1:1", "gs://bucket/prefix"),
    ] {
        let key = [("AZURE_STORAGE_KEY", "aGlkZGVu")];
        let error = fails(store, &[&ANY_KEYS[..], &key[..]].concat(), 1);
        says(&error, &[named, "Connection refused"]);
        assert!(!error.contains("hidden") && !error.contains("aGlkZGVu"), "a secret in {error}");
    }
    for variable in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"] {
        let error = fails("s3://bucket/prefix", &[&ANY_KEYS[..], &[(variable, "http://127.0.0.1:1")]].concat(), 1);
        says(&error, &["s3://bucket/prefix", "Connection refused"]);
    }
}

#[test]
fn a_store_that_ignores_conditions() {
    let (port, objects) = careless::start();
    let error = fails(&format!("s3://bucket/prefix?endpoint=http://127.0.0.1:{port}"), &ANY_KEYS, 1);
    says(&error, &["s3://bucket/prefix", "ignores put-if-absent"]);
    assert!(objects.lock().unwrap().is_empty(), "{:?}", objects.lock().unwrap().keys());
}

/// The URL of a server that `scripts/servers exec` started; `None` if this test runs without it.
fn server(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok();
    if found.is_none() {
        assert!(std::env::var("GLIDEPATH_SERVERS").as_deref() != Ok("required"), "{variable} is not set");
        eprintln!("skipped: {variable} is not set; scripts/servers exec cargo test runs this");
    }
    found
}

/// The number of objects under this prefix of a server's bucket.
fn objects(url: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = glidepath_stores::open(url, &glidepath_stores::Options::default()).unwrap();
    runtime.block_on(store.list(&Key::new(""), None, 1000)).unwrap().objects.len()
}

#[test]
fn servers_are_left_as_they_were() {
    for variable in ["GLIDEPATH_S3", "GLIDEPATH_AZURE", "GLIDEPATH_GCS"] {
        let Some(url) = server(variable) else { continue };
        // No other test writes there.
        let url = url.replacen('?', &format!("/left-{}?", std::process::id()), 1);
        let folder = tempfile::tempdir().unwrap();
        let measure = |out: &str, more: &[&str]| {
            let mut command = program();
            command.args(["measure", &url, "--yes", "--writers", "2", "--out", out]).args(more);
            command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let whole = measure("m", &["--quick", "--trials", "1", "--duration", "100ms"]).wait_with_output().unwrap();
        assert!(whole.status.success(), "{variable}: {}", String::from_utf8_lossy(&whole.stderr));
        assert_eq!(objects(&url), 0, "{variable}");
        let mut interrupted = measure("n", &["--duration", "10h", "--operations", "create"]);
        while objects(&url) == 0 {
            assert_eq!(interrupted.try_wait().unwrap(), None, "{variable} ended before it was interrupted");
        }
        interrupt(&interrupted);
        refused(interrupted.wait_with_output().unwrap(), 130);
        assert_eq!(objects(&url), 0, "{variable}, interrupted");
    }
}

/// The URL with another name of the bucket or container.
fn elsewhere(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, parameters) = rest.split_once('?').unwrap();
    format!("{scheme}://there-is-none?{parameters}")
}

#[test]
fn a_bucket_that_does_not_exist() {
    for (variable, told) in [
        ("GLIDEPATH_S3", ["s3://there-is-none", "NoSuchBucket", "create it first"]),
        ("GLIDEPATH_AZURE", ["az://there-is-none", "ContainerNotFound", "create it first"]),
        // This server's answer has no message.
        ("GLIDEPATH_GCS", ["gs://there-is-none", "404", "is there such a bucket"]),
    ] {
        if let Some(url) = server(variable) {
            says(&fails(&elsewhere(&url), &[], 1), &told);
        }
    }
}

#[test]
fn wrong_credentials() {
    for (variable, credential, told) in [
        ("GLIDEPATH_S3", ("AWS_SECRET_ACCESS_KEY", "hidden"), "SignatureDoesNotMatch"),
        ("GLIDEPATH_S3", ("AWS_ACCESS_KEY_ID", "nobody"), "No user exists"),
        ("GLIDEPATH_AZURE", ("AZURE_STORAGE_KEY", "aGlkZGVu"), "AuthorizationFailure"),
    ] {
        if let Some(url) = server(variable) {
            let error = fails(&url, &[credential], 1);
            says(&error, &[told, "check the credentials"]);
            assert!(!error.contains(credential.1) || credential.1 == "nobody", "a secret in {error}");
        }
    }
}

#[test]
fn a_file_where_a_folder_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for store in [format!("file://{}", file.display()), format!("file://{}/below", file.display())] {
        says(&fails(&store, &[], 2), &["file:///", "Not a directory"]);
    }
    let mut command = program();
    let results = ["measure", "memory:", "--quick", "--out", "file/results"];
    let error = refused(command.args(results).current_dir(folder.path()).output().unwrap(), 1);
    says(&error, &["file/results", "cannot write there", "Not a directory"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&folder.path().join("disk"), "400k") else { return };
    // Objects of a MiB do not fit.
    let error = fails(&format!("file://{}/store?durability=none", disk.path().display()), &[], 1);
    says(&error, &["put 1MiB", "No space left on device"]);
    assert!(!disk.path().join("store").exists());
    // A report does not fit.
    let out = disk.path().join("results");
    let asked = ["measure", "memory:", "--quick", "--trials", "1", "--duration", "100ms", "--writers", "1"];
    let error = refused(program().args(asked).arg("--out").arg(&out).output().unwrap(), 1);
    says(&error, &["results/", "cannot write there", "No space left on device"]);
}

#[test]
fn a_folder_that_is_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&folder.path().join("disk"), "400k") else { return };
    disk.make_read_only();
    says(&fails(&format!("file://{}/store", disk.path().display()), &[], 2), &["/disk/store", "Read-only file system"]);
    let out = disk.path().join("results");
    let error = refused(program().args(["measure", "memory:", "--quick", "--out"]).arg(&out).output().unwrap(), 1);
    says(&error, &["disk/results", "cannot write there", "Read-only file system"]);
}

/// Sends the signal of Ctrl-C.
fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Every file under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A trial of hours is stopped: its samples are kept, and its objects are removed.
#[test]
fn an_interrupt_keeps_what_was_measured() {
    interrupted(&tempfile::tempdir().unwrap(), false);
}

/// The same after a complete measurement, which stays as it was.
#[test]
fn an_interrupt_does_not_replace_a_complete_measurement() {
    let folder = tempfile::tempdir().unwrap();
    // Of the same store: one of another store is refused.
    let url = format!("file://{}?durability=none", folder.path().join("store").display());
    let asked = ["measure", &url, "--quick", "--trials", "1", "--writers", "2", "--operations", "cas"];
    let made = program().args(asked).args(["--out", "m"]).current_dir(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let alternatives = folder.path().join("m/profile-alternatives.toml");
    let all = || ["m/report.md", "m/profile.toml"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    let before = all();
    let other =
        program().args(["measure", "sim:s3-express", "--out", "m"]).current_dir(folder.path()).output().unwrap();
    says(&refused(other, 2), &["m holds the results of `glidepath measure file://", "give another --out"]);
    interrupted(&folder, true);
    assert!(all() == before && alternatives.exists());
}

/// The results cost time, and on a cloud money.
#[test]
fn a_smaller_measurement_does_not_replace_a_larger_one() {
    let folder = tempfile::tempdir().unwrap();
    let measure = |writers: &str, operations: &str| {
        let asked = ["measure", "memory:", "--quick", "--trials", "1", "--duration", "100ms", "--out", "m"];
        let mut command = program();
        command.args(asked).args(["--writers", writers, "--operations", operations]);
        command.current_dir(folder.path()).output().unwrap()
    };
    let is_measured = |output: Output| assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    is_measured(measure("1", "cas"));
    is_measured(measure("1,2", "cas,create"));
    is_measured(measure("1,2", "cas,create"));
    let profile = || std::fs::read(folder.path().join("m/profile.toml")).unwrap();
    let before = profile();
    for (writers, operations, only) in
        [("1", "cas,create", "cas, create with 1 writer"), ("1,2", "cas", "cas with 1, 2 writers")]
    {
        let error = refused(measure(writers, operations), 2);
        let this = format!("measure only {only}: give another --out");
        says(&error, &["m has results of cas, create with 1, 2 writers. ", &this]);
    }
    assert_eq!(profile(), before);
}

/// A mistake in the store is told, and not that the folder has the results of another one.
#[test]
fn what_is_wrong_with_a_store_is_told_before_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let mut command = program();
        command.args(arguments.split(' ')).args(["--out", "m"]).current_dir(folder.path());
        command.output().unwrap()
    };
    let made = run("measure memory: --quick --trials 1 --duration 100ms --writers 1 --operations cas");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let below = format!("file://{}/below", file.display());
    for command in ["measure", "bench"] {
        for (store, words) in [("s3://", "\"s3://\" is not a store"), (below.as_str(), "Not a directory")] {
            let error = refused(run(&format!("{command} {store} --yes")), 2);
            says(&error, &[words]);
            assert!(!error.contains("holds the results of"), "{error}");
        }
    }
    // A store that could be opened is not there afterwards.
    let store = folder.path().join("store");
    let asked = format!("measure file://{} --quick", store.display());
    let error = refused(run(&asked), 2);
    let told = format!("of `glidepath measure memory:`, and this command is `glidepath {asked} --out m`: give another");
    says(&error, &[&told]);
    assert!(!store.exists());
}

fn interrupted(folder: &tempfile::TempDir, is_second: bool) {
    let store = folder.path().join("store");
    let mut command = program();
    let url = format!("file://{}?durability=none", store.display());
    command.args(["measure", &url, "--duration", "10h", "--writers", "2", "--operations", "cas"]);
    let child = command.args(["--out", "m"]).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let measured = || files(&store.join("objects")).into_iter().find(|path| path.to_string_lossy().contains("cas-2-1"));
    let mut written = |known: &mut Option<u64>| {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was interrupted");
        // Each write replaces the file.
        let number = measured().and_then(|path| path.metadata().ok()).map(|file| file.ino());
        let is_new = number.is_some() && number != *known;
        *known = number;
        is_new
    };
    let mut known = None;
    while !written(&mut known) {}
    // Waits for the end of the warm-up of half a second, and then until both writers must have written.
    #[expect(clippy::disallowed_methods, reason = "the warm-up of a live trial passes in real time")]
    std::thread::sleep(std::time::Duration::from_secs(1));
    let mut writes = 0;
    while writes < 100 {
        writes += u32::from(written(&mut known));
    }
    interrupt(&child);
    let (out, other) = if is_second { ("m/interrupted", "the earlier results in m stay") } else { ("m", "") };
    let (mut errors, mut told) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    while !told.contains("now its profile is fitted") {
        assert_ne!(errors.read_line(&mut told).unwrap(), 0, "{told}");
    }
    // A second interrupt from now on loses the profile only.
    for file in ["report.md", "report.html", "samples.parquet"] {
        assert!(folder.path().join(out).join(file).exists(), "{file}: {told}");
    }
    errors.read_to_string(&mut told).unwrap();
    let output = Output { stderr: told.into(), ..child.wait_with_output().unwrap() };
    let error = refused(output, 130);
    says(&error, &[&format!("the results so far are in {out}"), other]);
    let report = std::fs::read_to_string(folder.path().join(out).join("report.md")).unwrap();
    says(&report, &["stopped before its end", "| cas | 2 |"]);
    assert!(std::fs::read_to_string(folder.path().join(out).join("profile.toml")).unwrap().contains("writers = 2"));
    assert!(!folder.path().join(out).join("profile-alternatives.toml").exists());
    assert!(!store.exists(), "{:?}", files(&store));
}
