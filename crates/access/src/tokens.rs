//! Tokens that the administrator gave out: only their SHA-256 is kept.

use crate::identity::{Identity, name_fault};
use crate::secret::{Digest, Secret};

/// The fewest characters of a token. A shorter one could be guessed.
const FEWEST: usize = 20;

/// All static tokens.
pub(crate) struct Tokens {
    known: Vec<(Digest, Identity)>,
}

impl Tokens {
    pub(crate) fn none() -> Self {
        Self { known: Vec::new() }
    }

    /// Adds a token, or says what is wrong: another entry has it already.
    pub(crate) fn add(&mut self, digest: Digest, identity: Identity) -> Result<(), String> {
        if let Some((_, other)) = self.known.iter().find(|(known, _)| known.is(&digest)) {
            return Err(format!("the token of {:?} is given twice; make a new one for each entry", other.name()));
        }
        self.known.push((digest, identity));
        Ok(())
    }

    /// Who has this token. Compares with all of them, in a time that does not depend on the token.
    pub(crate) fn find(&self, token: &str) -> Option<&Identity> {
        let digest = Digest::of(token);
        let mut found = None;
        for (known, identity) in &self.known {
            if known.is(&digest) {
                found = Some(identity);
            }
        }
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether a token has this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.known.iter().any(|(_, identity)| identity.name() == name)
    }

    /// Whether the owner of a token is in this group.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        self.known.iter().any(|(_, identity)| identity.groups().any(|group| group == name))
    }
}

/// What makes a text unusable as a token.
pub(crate) fn token_fault(token: &Secret) -> Option<String> {
    let text = token.expose();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    if text.chars().count() < FEWEST {
        Some(format!("the token has fewer than {FEWEST} characters and could be guessed; take a long random text"))
    } else if !text.chars().all(allowed) {
        Some("the token has a character that no header can carry; allowed: letters, digits, - . _ ~ + / =".to_owned())
    } else {
        None
    }
}

/// The entry of `access.toml` for a token: holds its SHA-256, so the file does not tell the token.
///
/// # Errors
/// Says what is wrong with the name or the token, without showing the token.
pub fn entry_for(name: &str, token: &Secret) -> Result<String, String> {
    if let Some(fault) = name_fault(name).or_else(|| token_fault(token)) {
        return Err(fault);
    }
    let quoted = toml::Value::String(name.to_owned());
    Ok(format!("[[token]]\nname = {quoted}\nsha256 = \"{}\"\n", Digest::of(token.expose()).hex()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text)
    }

    #[test]
    fn a_token_names_its_owner() {
        let mut tokens = Tokens::none();
        tokens.add(digest("one"), Identity::new("a", [])).unwrap();
        tokens.add(digest("two"), Identity::new("b", [])).unwrap();
        // A user may have two tokens while one is replaced by the other.
        tokens.add(digest("three"), Identity::new("a", [])).unwrap();
        let name = |token| tokens.find(token).map(Identity::name);
        assert_eq!([name("one"), name("two"), name("three")], [Some("a"), Some("b"), Some("a")]);
        assert_eq!([name(""), name("on"), name("onee"), name("One")], [None; 4]);
    }

    #[test]
    fn two_entries_cannot_share_a_token() {
        let mut tokens = Tokens::none();
        tokens.add(digest("one"), Identity::new("a", [])).unwrap();
        assert!(tokens.add(digest("one"), Identity::new("b", [])).unwrap_err().contains("\"a\""));
    }

    #[test]
    fn entries_hold_the_digest_only() {
        let token = Secret::new("0123456789-0123456789".to_owned());
        let entry = entry_for("a \"b\"", &token).unwrap();
        assert!(!entry.contains(token.expose()) && entry.contains(&digest(token.expose()).hex()), "{entry}");
        assert_eq!(entry.parse::<toml::Table>().unwrap()["token"][0]["name"].as_str(), Some("a \"b\""));
        for wrong in ["short", "0123456789 0123456789", "0123456789\u{e9}0123456789"] {
            let fault = entry_for("a", &Secret::new(wrong.to_owned())).unwrap_err();
            assert!(!fault.contains(wrong), "{fault}");
        }
    }
}
