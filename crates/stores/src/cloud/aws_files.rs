//! The credentials in the files of Amazon's own tools: those of one profile, from `~/.aws/credentials` and
//! `~/.aws/config`: an access key, its secret, a session token, and a region.
//!
//! A profile that must fetch its credentials (single sign-on, roles, processes) is an error that says what to do;
//! nothing is fetched here. Nothing read here is ever printed.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Settings of profiles whose credentials Amazon's tools fetch, which this crate does not do.
const FETCHED_BY: [&str; 7] = [
    "sso_session",
    "sso_start_url",
    "login_session",
    "credential_process",
    "role_arn",
    "web_identity_token_file",
    "credential_source",
];

/// The settings of one profile.
pub(super) struct Profile {
    pub(super) keys: Option<Keys>,
    pub(super) region: Option<String>,
    /// Set if there are no keys: the setting by which Amazon's tools would fetch them.
    pub(super) fetched_by: Option<&'static str>,
}

/// An access key.
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

type Settings = HashMap<String, String>;

/// The profile that `AWS_PROFILE` names, or `default`; `variable` looks up the environment. `None` if no variable asks
/// for a profile and there is no default one.
pub(super) fn profile(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Profile>, String> {
    let named = variable("AWS_PROFILE");
    let name = named.clone().unwrap_or_else(|| "default".to_owned());
    let home = variable("HOME").or_else(|| variable("USERPROFILE"));
    let file = |given: &str, usual: &str| {
        variable(given)
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|home| Path::new(home).join(".aws").join(usual)))
    };
    let mut found = None;
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let config = file("AWS_CONFIG_FILE", "config");
    // If both files have a setting, the credentials file takes precedence.
    for (path, prefix) in [(config, "profile "), (credentials, "")] {
        let Some(path) = path else { continue };
        let mut sections = read(&path)?;
        let plain = if prefix.is_empty() || name == "default" { sections.remove(&name) } else { None };
        for settings in [plain, sections.remove(&format!("{prefix}{name}"))].into_iter().flatten() {
            found.get_or_insert_with(Settings::new).extend(settings);
        }
    }
    match (found, named) {
        (Some(settings), _) => of_settings(&name, settings).map(Some),
        (None, Some(name)) => {
            Err(format!("AWS_PROFILE is {name:?}, and no file under ~/.aws has a profile of that name"))
        }
        (None, None) => Ok(None),
    }
}

fn of_settings(name: &str, mut settings: Settings) -> Result<Profile, String> {
    let mut take = |key: &str| settings.remove(key).filter(|value| !value.is_empty());
    let keys = match (take("aws_access_key_id"), take("aws_secret_access_key")) {
        (Some(id), Some(secret)) => Some(Keys { id, secret, token: take("aws_session_token") }),
        (None, None) => None,
        _ => {
            return Err(format!(
                "the profile {name:?} needs both aws_access_key_id and aws_secret_access_key, and has one of them"
            ));
        }
    };
    let region = take("region");
    let fetched_by = FETCHED_BY.into_iter().find(|key| keys.is_none() && settings.contains_key(*key));
    Ok(Profile { keys, region, fetched_by })
}

/// The message for a profile whose credentials must be fetched.
pub(super) fn cannot_fetch(by: &str) -> String {
    format!(
        "the profile in ~/.aws gets its credentials by {by}, which is not supported; put them into the environment: \
         eval \"$(aws configure export-credentials --format env)\""
    )
}

/// The sections of a file; empty if there is no file.
fn read(path: &Path) -> Result<HashMap<String, Settings>, String> {
    match fs::read_to_string(path) {
        Ok(text) => sections(&text).map_err(|line| {
            format!("{}: line {line} is neither [a section], a setting \"key = value\" nor a comment", path.display())
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(HashMap::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The sections of a text, or the number of the first invalid line. The line itself may be a secret.
fn sections(text: &str) -> Result<HashMap<String, Settings>, usize> {
    let mut sections: HashMap<String, Settings> = HashMap::new();
    let mut section = None;
    for (index, line) in text.lines().enumerate() {
        // Indented lines belong to a nested setting, and none of those is needed here.
        let nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if nested || line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (name, _) = rest.split_once(']').ok_or(index + 1)?;
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            sections.entry(name.clone()).or_default();
            section = Some(name);
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(index + 1)?;
        let value =
            [" #", " ;", "\t#", "\t;"].iter().fold(value, |value, mark| value.split(mark).next().unwrap_or(value));
        let name = section.clone().ok_or(index + 1)?;
        sections.entry(name).or_default().insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(folder: &Path, more: &[(&str, &str)]) -> Result<Option<Profile>, String> {
        let mut variables = HashMap::from([("HOME".to_owned(), folder.display().to_string())]);
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        profile(|name| variables.get(name).cloned())
    }

    fn home() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".aws")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(".aws").join(name), text).unwrap();
        write(
            "credentials",
            "# made by hand\n[default]\naws_access_key_id = ID # of mine\naws_secret_access_key=a/b+c==\n\n\
             [ work ]\naws_access_key_id=W\nAWS_SECRET_ACCESS_KEY=ws;not#a comment\naws_session_token = T\n\
             [half]\naws_access_key_id=secret\n",
        );
        write(
            "config",
            "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n[profile work]\nregion=eu-north-1\n\
             aws_access_key_id=overruled\n[profile sso]\nsso_session = corp\nregion = x\n[sso]\nregion=never\n",
        );
        folder
    }

    #[test]
    fn keys_tokens_and_regions_come_from_both_files() {
        let home = home();
        let default = lookup(home.path(), &[]).unwrap().unwrap();
        let keys = default.keys.unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str(), keys.token), ("ID", "a/b+c==", None));
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        let work = lookup(home.path(), &[("AWS_PROFILE", "work")]).unwrap().unwrap();
        let keys = work.keys.unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str()), ("W", "ws;not#a comment"));
        assert_eq!(keys.token.as_deref(), Some("T"));
        assert_eq!(work.region.as_deref(), Some("eu-north-1"));
    }

    #[test]
    fn files_may_be_elsewhere_or_nowhere() {
        let home = home();
        let nowhere = home.path().join("nowhere");
        assert!(lookup(&nowhere, &[]).unwrap().is_none());
        let file = home.path().join(".aws/credentials").display().to_string();
        let found = lookup(&nowhere, &[("AWS_SHARED_CREDENTIALS_FILE", &file)]).unwrap().unwrap();
        assert_eq!((found.keys.unwrap().id.as_str(), found.region), ("ID", None));
        let file = home.path().join(".aws/config").display().to_string();
        let found = lookup(&nowhere, &[("AWS_CONFIG_FILE", &file)]).unwrap().unwrap();
        assert!(found.keys.is_none() && found.fetched_by.is_none());
        assert_eq!(found.region.as_deref(), Some("eu-west-1"));
        assert!(profile(|_| None).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_used_is_named_and_secrets_are_not() {
        let home = home();
        let sso = lookup(home.path(), &[("AWS_PROFILE", "sso")]).unwrap().unwrap();
        assert_eq!((sso.fetched_by, sso.region.as_deref()), (Some("sso_session"), Some("x")));
        assert!(sso.keys.is_none() && cannot_fetch("sso_session").contains("export-credentials"));
        let error = |more: &[(&str, &str)]| lookup(home.path(), more).err().unwrap();
        assert!(error(&[("AWS_PROFILE", "absent")]).contains("\"absent\""));
        let half = error(&[("AWS_PROFILE", "half")]);
        assert!(half.contains("both") && !half.contains("\"secret\""), "{half}");
        fs::write(home.path().join(".aws/credentials"), "[default]\nsecret without a sign\n").unwrap();
        let broken = error(&[]);
        assert!(broken.contains("line 2") && !broken.contains("secret without"), "{broken}");
        assert_eq!(sections("[open").err(), Some(1));
        assert_eq!(sections("key = outside").err(), Some(1));
    }
}
