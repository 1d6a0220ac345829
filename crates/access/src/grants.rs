//! Grants: who has which right on which namespaces.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::identity::{Identity, name_fault};

/// What somebody may do. Each right includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// List and load.
    Read,
    /// Create, change, rename and drop tables and views; create namespaces below.
    Write,
    /// Change grants; drop namespaces.
    Admin,
}

impl Right {
    /// As it is written in files and properties.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Read, Self::Write, Self::Admin];
        all.into_iter()
            .find(|right| right.name() == text)
            .ok_or_else(|| format!("{text:?} is no right; allowed: read, write, admin"))
    }
}

/// To whom a grant is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// One user, by the name of the static token or the subject of the JSON web token.
    User(String),
    /// Everybody whose token names this group.
    Group(String),
    /// Everybody with a valid token.
    Everyone,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Everyone => f.write_str("everyone"),
        }
    }
}

impl FromStr for Principal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let principal = match text.split_once(':') {
            Some(("user", name)) => Self::User(name.to_owned()),
            Some(("group", name)) => Self::Group(name.to_owned()),
            None if text == "everyone" => Self::Everyone,
            _ => return Err(format!("{text:?} names nobody; allowed: user:NAME, group:NAME, everyone")),
        };
        match &principal {
            Self::User(name) | Self::Group(name) => match name_fault(name) {
                Some(fault) => Err(format!("{text:?} names nobody: {fault}")),
                None => Ok(principal),
            },
            Self::Everyone => Ok(principal),
        }
    }
}

/// A right given to somebody, on a namespace and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who has it.
    pub to: Principal,
    /// The path of the namespace. Empty: the whole catalog.
    pub on: Vec<String>,
    /// What they may do.
    pub right: Right,
}

/// A set of grants. Grants only ever add: there is none that takes a right away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    rights: BTreeMap<Principal, BTreeMap<Vec<String>, Right>>,
}

impl Grants {
    /// No grants.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a grant. Of two for the same principal and namespace, the greater right holds.
    pub fn add(&mut self, grant: Grant) {
        let on = self.rights.entry(grant.to).or_default();
        let right = on.entry(grant.on).or_insert(grant.right);
        *right = grant.right.max(*right);
    }

    /// All grants, by principal and path.
    pub fn iter(&self) -> impl Iterator<Item = Grant> {
        self.rights
            .iter()
            .flat_map(|(to, on)| on.iter().map(|(on, right)| Grant { to: to.clone(), on: on.clone(), right: *right }))
    }

    /// Whether there is no grant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rights.is_empty()
    }

    /// The greatest right that these grants give on a namespace, by itself or by one above it.
    #[must_use]
    pub fn right(&self, identity: &Identity, path: &[String]) -> Option<Right> {
        if identity.is_unchecked() {
            return Some(Right::Admin);
        }
        if self.rights.is_empty() {
            return None;
        }
        let user = Principal::User(identity.name().to_owned());
        let groups = identity.groups().map(|name| Principal::Group(name.to_owned()));
        let principals = groups.chain([user, Principal::Everyone]);
        principals.filter_map(|principal| self.right_of_principal(&principal, path)).max()
    }

    fn right_of_principal(&self, principal: &Principal, path: &[String]) -> Option<Right> {
        let on = self.rights.get(principal)?;
        (0..=path.len()).filter_map(|length| on.get(&path[..length])).max().copied()
    }

    /// Whether these grants give at least this right on a namespace.
    #[must_use]
    pub fn allows(&self, identity: &Identity, path: &[String], right: Right) -> bool {
        self.right(identity, path) >= Some(right)
    }
}

impl Extend<Grant> for Grants {
    fn extend<I: IntoIterator<Item = Grant>>(&mut self, grants: I) {
        grants.into_iter().for_each(|grant| self.add(grant));
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        let mut set = Self::new();
        set.extend(grants);
        set
    }
}

/// The greatest right on a namespace by several sets: those of the file, and those of the properties of the namespace
/// and of each one above it.
pub fn right_of<'a>(identity: &Identity, path: &[String], sets: impl IntoIterator<Item = &'a Grants>) -> Option<Right> {
    if identity.is_unchecked() {
        return Some(Right::Admin);
    }
    sets.into_iter().filter_map(|grants| grants.right(identity, path)).max()
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The action may be done.
    Allowed,
    /// The client may not know whether the namespace exists: answer as if it did not (404).
    Hidden,
    /// The client may see the namespace, but not do this (403).
    Forbidden,
}

/// What to tell a client that has a right and needs one.
#[must_use]
pub fn decide(has: Option<Right>, needs: Right) -> Verdict {
    match has {
        None => Verdict::Hidden,
        Some(right) if right < needs => Verdict::Forbidden,
        Some(_) => Verdict::Allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn grant(to: &str, on: &str, right: Right) -> Grant {
        Grant { to: to.parse().unwrap(), on: path(on), right }
    }

    #[test]
    fn principals_are_read_as_they_are_written() {
        for text in ["user:etl", "group:a b", "everyone", "user:a:b", "user:everyone", "user:Zoë"] {
            assert_eq!(text.parse::<Principal>().unwrap().to_string(), text);
        }
        for wrong in ["", "user:", "group:", "etl", "User:etl", "everyone:x", "user:a\tb", "role:a", "everyone "] {
            assert!(wrong.parse::<Principal>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rights_are_ordered_and_have_names() {
        assert!(Right::Read < Right::Write && Right::Write < Right::Admin);
        for right in [Right::Read, Right::Write, Right::Admin] {
            assert_eq!(right.to_string().parse(), Ok(right));
        }
        assert!("Read".parse::<Right>().is_err() && "".parse::<Right>().is_err());
    }

    #[test]
    fn a_grant_holds_below_its_namespace_only() {
        let grants: Grants = [grant("user:u", "a.b", Right::Write)].into_iter().collect();
        let user = Identity::new("u", []);
        let right = |on| grants.right(&user, &path(on));
        assert_eq!([right("a.b"), right("a.b.c")], [Some(Right::Write); 2]);
        assert_eq!([right(""), right("a"), right("ab"), right("a.bc"), right("b"), right("b.a.b")], [None; 6]);
        assert_eq!(grants.right(&user, &["a.b".to_owned()]), None);
    }

    #[test]
    fn users_groups_and_everyone_are_told_apart() {
        let grants: Grants = [
            grant("user:x", "u", Right::Read),
            grant("group:x", "g", Right::Read),
            grant("everyone", "e", Right::Read),
            grant("user:everyone", "n", Right::Read),
        ]
        .into_iter()
        .collect();
        let seen = |identity: &Identity| {
            ["u", "g", "e", "n"].into_iter().filter(|on| grants.allows(identity, &path(on), Right::Read)).collect()
        };
        let all: [Vec<&str>; 3] = [
            seen(&Identity::new("x", [])),
            seen(&Identity::new("y", ["x".to_owned()])),
            seen(&Identity::new("y", ["y".to_owned()])),
        ];
        assert_eq!(all, [vec!["u", "e"], vec!["g", "e"], vec!["e"]]);
    }

    #[test]
    fn without_security_everything_is_allowed() {
        let admin = Identity::anonymous_admin();
        assert_eq!(right_of(&admin, &path("a"), []), Some(Right::Admin));
        assert!(Grants::new().allows(&admin, &[], Right::Admin));
        // The name alone gives nothing.
        assert_eq!(right_of(&Identity::new("anonymous", []), &[], [&Grants::new()]), None);
    }

    #[test]
    fn verdicts_hide_what_cannot_be_read() {
        assert_eq!(decide(None, Right::Read), Verdict::Hidden);
        assert_eq!(decide(None, Right::Admin), Verdict::Hidden);
        assert_eq!(decide(Some(Right::Read), Right::Read), Verdict::Allowed);
        assert_eq!(decide(Some(Right::Read), Right::Write), Verdict::Forbidden);
        assert_eq!(decide(Some(Right::Admin), Right::Write), Verdict::Allowed);
    }
}
