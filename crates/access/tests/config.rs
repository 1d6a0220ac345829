//! The access file: what it may hold, what is refused, and that no message shows a token.

mod support;

use std::sync::Arc;

use glidepath_access::{Access, AccessError, Denied, Grant, Identity, Principal, Right, Secret, entry_for};
use support::{Folder, NOW, NoFetch};

const TOKEN: &str = "hunter2-hunter2-hunter2";

fn error(text: &str) -> String {
    let error = Folder::new().load(text).err().unwrap_or_else(|| panic!("taken: {text}"));
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("access.toml"), "{shown}");
    error.to_string()
}

async fn name(access: &Access, token: &str) -> Result<String, Denied> {
    access.authenticate(Some(token), NOW).await.map(|identity| identity.name().to_owned())
}

#[tokio::test]
async fn tokens_and_grants_are_read() {
    let entry = entry_for("etl", &Secret::new(TOKEN.to_owned())).unwrap();
    let text = format!(
        "{entry}groups = [\"jobs\"]\n\
         [[token]]\nname = \"ada\"\ntoken = \"another-{TOKEN}\"\n\
         [[grant]]\nto = \"group:jobs\"\non = \"sales.eu\"\nright = \"write\"\n\
         [[grant]]\nto = \"user:ada\"\non = \"*\"\nright = \"admin\"\n\
         [[grant]]\nto = \"everyone\"\non = [\"a.b\", \"*\"]\nright = \"read\"\n"
    );
    let folder = Folder::new();
    let access = folder.load(&text).unwrap();
    let identity = access.authenticate(Some(TOKEN), NOW).await.unwrap();
    assert_eq!(identity, Identity::new("etl", ["jobs".to_owned()]));
    assert_eq!(name(&access, &format!("another-{TOKEN}")).await, Ok("ada".to_owned()));
    assert_eq!(name(&access, "other").await, Err(Denied::Unknown));
    assert_eq!(access.authenticate(None, NOW).await, Err(Denied::Missing));
    access.warm().await.unwrap();
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let grants: Vec<Grant> = access.grants().iter().collect();
    let expected = [
        (Principal::User("ada".to_owned()), path(&[]), Right::Admin),
        (Principal::Group("jobs".to_owned()), path(&["sales", "eu"]), Right::Write),
        (Principal::Everyone, path(&["a.b", "*"]), Right::Read),
    ];
    assert_eq!(grants, expected.map(|(to, on, right)| Grant { to, on, right }));
    assert!(!access.is_open() && access.grants().allows(&identity, &path(&["sales", "eu", "x"]), Right::Write));
}

#[test]
fn grants_that_may_be_mistakes_are_told() {
    let entry = entry_for("etl", &Secret::new(TOKEN.to_owned())).unwrap();
    let grant = |to: &str, on: &str| format!("[[grant]]\nto = \"{to}\"\non = \"{on}\"\nright = \"read\"\n");
    let text = [
        entry,
        "groups = [\"jobs\"]\n".to_owned(),
        grant("user:etl", "sales.eu"),
        grant("group:jobs", "*"),
        grant("everyone", "sales"),
        grant("user:elt", "sales"),
        grant("group:job", "sales"),
        grant("user:etl", "sales/eu"),
    ];
    let mut text = text.concat();
    let folder = Folder::new();
    let doubts = folder.load(&text).unwrap().doubts();
    let of = |number: usize, what: &str| {
        doubts.iter().any(|doubt| doubt.contains(&format!("[[grant]] {number} ")) && doubt.contains(what))
    };
    assert!(of(4, "elt") && of(5, "\"job\"") && of(6, "\"sales.eu\"") && doubts.len() == 3, "{doubts:?}");
    // An issuer may know others.
    text.push_str("[jwt]\nissuer = \"https://id.example.org\"\naudience = \"a\"\n");
    let doubts = folder.load(&text).map(|access| access.doubts()).unwrap();
    assert!(doubts.len() == 1 && doubts[0].contains("slash"), "{doubts:?}");
}

#[tokio::test]
async fn without_security_everybody_is_the_administrator() {
    let access = Access::open();
    for token in [None, Some(TOKEN)] {
        assert_eq!(access.authenticate(token, NOW).await, Ok(Identity::anonymous_admin()));
    }
    assert!(access.is_open() && access.grants().is_empty());
    access.reload().unwrap();
}

#[tokio::test]
async fn a_bad_file_leaves_the_old_tokens() {
    let folder = Folder::new();
    let access = folder.load(&entry_for("etl", &Secret::new(TOKEN.to_owned())).unwrap()).unwrap();
    for bad in ["[[token", "", "[[token]]\nname = \"x\"\n"] {
        folder.write("access.toml", bad);
        access.reload().unwrap_err();
        assert_eq!(name(&access, TOKEN).await, Ok("etl".to_owned()));
    }
    let other = "fresh-fresh-fresh-fresh";
    folder.write("access.toml", &entry_for("new", &Secret::new(other.to_owned())).unwrap());
    access.reload().unwrap();
    assert_eq!(name(&access, TOKEN).await, Err(Denied::Unknown));
    assert_eq!(name(&access, other).await, Ok("new".to_owned()));
}

#[test]
fn messages_say_where_and_show_no_token() {
    let good = format!("[[token]]\nname = \"a\"\ntoken = \"{TOKEN}\"\n");
    for (text, expected) in [
        (format!("[[token]]\nname = \"a\"\ntoken = {TOKEN}\n"), "line 3"),
        (format!("[[token]]\nname = \"a\"\ntoken = \"{TOKEN}\n"), "line 3"),
        (format!("[[token]]\nname = \"a\"\ntoken = [\"{TOKEN}\"]\n"), "between quotes"),
        (format!("[[token]]\nname = \"a\"\ntokn = \"{TOKEN}\"\n"), "tokn"),
        (format!("[[token]]\nname = \"a\"\nsha256 = \"{TOKEN}\"\n"), "64 digits"),
        (format!("[[token]]\nname = \"a\"\ntoken = \"{TOKEN}\u{fc}\"\n"), "allowed: letters"),
        ("[[token]]\nname = \"a\"\ntoken = \"hunter2\"\n".to_owned(), "20 characters"),
        (format!("{good}sha256 = \"{}\"\n", "0".repeat(64)), "[[token]] 1 (\"a\"): it needs one of"),
        ("[[token]]\nname = \"a\"\n".to_owned(), "it needs one of"),
        (format!("[[token]]\nname = \"\"\ntoken = \"{TOKEN}\"\n"), "empty"),
        (format!("{good}groups = [\"\"]\n"), "empty"),
        (format!("{good}{good}"), "[[token]] 2 (\"a\"): the token of \"a\" is given twice"),
        (format!("{good}token = \"{TOKEN}\"\n"), "line 4"),
        (format!("{good}[grants]\n"), "unknown field `grants`"),
        (format!("{good}[[grant]]\nto = \"etl\"\non = \"*\"\nright = \"read\"\n"), "user:NAME"),
        (format!("{good}[[grant]]\nto = \"user:a\"\non = \"*\"\nright = \"all\"\n"), "read, write, admin"),
        (format!("{good}[[grant]]\nto = \"user:a\"\nright = \"read\"\n"), "missing field `on`"),
        (format!("{good}[[grant]]\nto = \"user:a\"\non = \"a..b\"\nright = \"read\"\n"), "[[grant]] 1"),
        (format!("{good}[[grant]]\nto = \"user:a\"\non = \"\"\nright = \"read\"\n"), "whole catalog"),
        (format!("{good}[[grant]]\nto = \"user:a\"\non = 7\nright = \"read\"\n"), "a text or a list"),
        (String::new(), "nobody could come in"),
    ] {
        let error = error(&text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn issuers_must_be_safe_to_ask() {
    for (text, expected) in [
        ("issuer = \"http://id.example.org\"\naudience = \"a\"", "only https"),
        ("issuer = \"id.example.org\"\naudience = \"a\"", "no URL"),
        ("issuer = \"https://id.example.org?a=b\"\naudience = \"a\"", "? or #"),
        ("issuer = \"https://id.example.org\"", "missing field `audience`"),
        ("issuer = \"https://id.example.org\"\naudience = \"\"", "audience is empty"),
        ("issuer = \"https://id.example.org\"\naudience = []", "audience is empty"),
        ("issuer = \"https://id.example.org\"\naudience = \"a\"\nalgorithms = [\"HS256\"]", "allowed: RS256"),
        ("issuer = \"https://id.example.org\"\naudience = \"a\"\nalgorithms = [\"none\"]", "allowed: RS256"),
        ("issuer = \"https://id.example.org\"\naudience = \"a\"\nalgorithms = []", "algorithms is empty"),
        ("issuer = \"https://id.example.org\"\naudience = \"a\"\nsubject-claim = \"\"", "claim is empty"),
        ("issuer = \"https://id.example.org\"\naudience = \"a\"\njwks-file = \"none.json\"", "none.json"),
        ("issuer = \"https://id.example.org\"\naudience = \"a\"\njwks_file = \"none.json\"", "jwks-file"),
    ] {
        let error = error(&format!("[jwt]\n{text}\n"));
        assert!(error.contains(expected), "{text}: {error}");
    }
    Folder::new().load("[jwt]\nissuer = \"http://localhost:8080/x\"\naudience = [\"a\", \"b\"]\n").unwrap();
}

#[test]
fn missing_files_are_named() {
    let folder = Folder::new();
    let error = Access::load(&folder.path("none.toml"), Arc::new(NoFetch)).err().unwrap();
    assert!(matches!(error, AccessError::Unreadable { .. }) && error.to_string().contains("none.toml"), "{error}");
}

#[cfg(unix)]
#[test]
fn files_that_everybody_can_read_hold_no_plain_tokens() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new();
    let path = folder.path("access.toml");
    let load = |text: &str, mode| {
        folder.write("access.toml", text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Access::load(&path, Arc::new(NoFetch)).map(drop)
    };
    let plain = format!("[[token]]\nname = \"a\"\ntoken = \"{TOKEN}\"\n");
    let hashed = entry_for("a", &Secret::new(TOKEN.to_owned())).unwrap();
    assert_eq!([load(&plain, 0o640), load(&hashed, 0o644)], [Ok(()), Ok(())]);
    for (text, mode) in [(&plain, 0o644), (&plain, 0o604), (&plain, 0o602), (&hashed, 0o646)] {
        assert!(matches!(load(text, mode), Err(AccessError::Exposed { .. })), "{mode:o}");
    }
}
