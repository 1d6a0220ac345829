//! Wrong, missing and unusual credentials on real servers: each gives one clear message without a secret in it. The
//! environment belongs to a process, so each case runs in a child.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cloud_support;

use std::fs;
use std::path::Path;
use std::process::Command;

use cloud_support::{fresh, server};
use glidepath_env::Key;
use glidepath_stores::{Options, Store, open};

const TASK: &str = "GLIDEPATH_TEST_PROBE";

/// In a child: opens and probes the store that the environment names.
#[tokio::test]
async fn child() {
    let Ok(url) = std::env::var(TASK) else { return };
    let result = match open(&url, &Options::default()) {
        Ok(Store::Cloud(store)) => store.probe(&Key::new("scratch")).await,
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => println!("probe: fine"),
        Err(error) => println!("probe: {error}"),
    }
}

/// The output of a child that has these variables, and no others with credentials.
fn probe(url: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture"]).env(TASK, url);
    let own = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AZURE_STORAGE_KEY", "HOME"];
    for name in own.into_iter().chain(keys) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let Some((_, line)) = output.split_once("probe: ") else { panic!("{output}") };
    let line = line.lines().next().unwrap().to_owned();
    println!("{line}");
    assert!(!line.contains("hidden") && !line.contains("aGlkZGVu"), "a secret in {line}");
    line
}

fn says(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "no {part:?} in {line}");
    }
}

#[test]
fn wrong_keys_for_s3() {
    let Some(url) = server("GLIDEPATH_S3") else { return };
    let url = fresh(url, "credentials");
    let id = std::env::var("AWS_ACCESS_KEY_ID").unwrap();
    let wrong = |id, secret| probe(url.as_str(), &[("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)]);
    says(&wrong(&id, "hidden"), &["403 SignatureDoesNotMatch", "check the credentials"]);
    // This server answers 404 here, which must not count as a missing object.
    says(&wrong("nobody", "hidden"), &["404 XAdminUserNotFound", "check the credentials"]);
    says(&probe(url.as_str(), &[]), &["403", "check the credentials"]);
}

/// Else what the library requests would go elsewhere than what is requested without it.
#[test]
fn the_environment_moves_no_request_to_another_server() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let account = r#"{"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true,
        "gcs_base_url": "http://127.0.0.1:2"}"#;
    std::io::Write::write_all(&mut file, account.as_bytes()).unwrap();
    let account = file.path().to_str().unwrap();
    let key = ("AZURE_STORAGE_KEY", "aGlkZGVu");
    for (url, variables) in [
        ("az://c?endpoint=http://127.0.0.1:1/account", vec![key, ("AZURE_STORAGE_USE_EMULATOR", "true")]),
        ("az://c?endpoint=http://127.0.0.1:1/account", vec![key, ("AZURE_USE_FABRIC_ENDPOINT", "true")]),
        ("gs://b?endpoint=https://127.0.0.1:1", vec![("GOOGLE_SERVICE_ACCOUNT", account)]),
        (
            "gs://b?endpoint=https://127.0.0.1:1",
            vec![("GOOGLE_SERVICE_ACCOUNT", account), ("GOOGLE_BASE_URL", "http://127.0.0.1:2")],
        ),
    ] {
        says(&probe(url, &variables), &["no connection to 127.0.0.1:1:"]);
    }
}

#[test]
fn a_wrong_endpoint_in_the_environment_is_named() {
    says(&probe("s3://b", &[("AWS_ENDPOINT", "127.0.0.1")]), &["AWS_ENDPOINT: its endpoint must begin with http://"]);
}

/// As with an endpoint in the URL: nothing asks for the role of this machine.
#[test]
fn a_plain_endpoint_in_the_environment_gets_no_role() {
    says(&probe("s3://b", &[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]), &["no connection to 127.0.0.1:1:"]);
}

#[test]
fn wrong_keys_for_azure() {
    let Some(url) = server("GLIDEPATH_AZURE") else { return };
    let url = fresh(url, "credentials");
    says(&probe(url.as_str(), &[("AZURE_STORAGE_KEY", "aGlkZGVu")]), &["403", "check the credentials"]);
    says(&probe(url.as_str(), &[("AZURE_STORAGE_KEY", "hidden, and no base64")]), &["Access Key"]);
}

/// An emulator works whatever the machine's credentials are, and none are sent to it.
#[test]
fn azure_without_an_account() {
    says(&probe("az://container/x", &[]), &["Account", "?account=NAME", "AZURE_STORAGE_ACCOUNT_NAME"]);
}

#[test]
fn an_emulator_of_gcs_is_asked_by_nobody() {
    let Some(url) = server("GLIDEPATH_GCS") else { return };
    let url = fresh(url, "credentials");
    assert_eq!(probe(url.as_str(), &[]), "fine");
    assert_eq!(probe(url.as_str(), &[("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")]), "fine");
}

fn write(path: &Path, text: &str) -> String {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_files_of_amazons_tools_are_read() {
    let Some(url) = server("GLIDEPATH_S3") else { return };
    // Without its region, which the file gives; the server accepts no other.
    let url = fresh(url, "credentials").as_str().replace("&region=us-east-1", "");
    let home = tempfile::tempdir().unwrap();
    let [id, secret] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| std::env::var(name).unwrap());
    let keys = |secret: &str| format!("aws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    let credentials = format!("[default]\n{}[right]\n{}[wrong]\n{}", keys(&secret), keys(&secret), keys("hidden"));
    let elsewhere = write(&home.path().join("elsewhere"), &credentials);
    write(&home.path().join(".aws/credentials"), &credentials);
    write(
        &home.path().join(".aws/config"),
        "[default]\nregion = us-east-1\n[profile right]\nregion = us-east-1\n[profile far]\nregion = eu-west-1\n\
         [profile sso]\nsso_session = corp\n[profile process]\ncredential_process = /bin/hidden\n",
    );
    let home = home.path().display().to_string();
    let under = |profile: &str| probe(&url, &[("HOME", &home), ("AWS_PROFILE", profile)]);
    assert_eq!(probe(&url, &[("HOME", &home)]), "fine");
    assert_eq!(probe(&url, &[("AWS_SHARED_CREDENTIALS_FILE", &elsewhere)]), "fine");
    assert_eq!(under("right"), "fine");
    says(&under("wrong"), &["403 SignatureDoesNotMatch"]);
    says(&under("absent"), &["\"absent\"", "~/.aws"]);
    says(&under("sso"), &["sso_session", "not supported", "export-credentials"]);
    says(&under("process"), &["credential_process", "not supported"]);
    // The environment takes precedence over the files.
    let both = [("HOME", home.as_str()), ("AWS_ACCESS_KEY_ID", &id), ("AWS_SECRET_ACCESS_KEY", "hidden")];
    says(&probe(&url, &both), &["403 SignatureDoesNotMatch"]);
}
