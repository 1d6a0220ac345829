//! Conversion between keys and the provider's object names under the store's prefix.

use object_store::path::Path;

use super::outcome::Provider;

/// The longest name of an object: in bytes on S3 and GCS, in characters on Azure.
const LONGEST: usize = 1024;

/// The part of a bucket that belongs to a store: everything below a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Empty, or ends in `/`.
    prefix: String,
    provider: Provider,
}

impl Keys {
    /// `prefix` without slashes around it.
    pub(crate) fn below(prefix: &str, provider: Provider) -> Result<Self, String> {
        if prefix.is_empty() {
            return Ok(Self { prefix: String::new(), provider });
        }
        exact(prefix, provider)?;
        Ok(Self { prefix: format!("{prefix}/"), provider })
    }

    /// The object that a key names, or why there cannot be one.
    pub(crate) fn path(&self, key: &str) -> Result<Path, String> {
        if key.is_empty() {
            return Err("an empty key names no object".to_owned());
        }
        exact(key, self.provider)?;
        exact(&format!("{}{key}", self.prefix), self.provider)
    }

    /// Whether the provider has room for the name of the object, and the library does not change it.
    pub(crate) fn can_name(&self, key: &str) -> bool {
        let Ok(path) = self.path(key) else { return false };
        let length = match self.provider {
            Provider::Azure => path.as_ref().chars().count(),
            _ => path.as_ref().len(),
        };
        length <= LONGEST
    }

    /// The full name for something that need not be a whole key: a prefix, or the start of a listing.
    pub(crate) fn full(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }

    /// The key of an object's full name, if the object belongs to the store.
    pub(crate) fn key<'a>(&self, full: &'a str) -> Option<&'a str> {
        full.strip_prefix(&self.prefix).filter(|key| !key.is_empty())
    }
}

/// The name, byte for byte; a name that the library would change is refused.
fn exact(name: &str, provider: Provider) -> Result<Path, String> {
    let wrong = |why: &str| Err(format!("cloud stores do not accept a key such as {name:?}: {why}"));
    if name.chars().any(char::is_control) {
        return wrong("it has control characters");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return wrong("it has a part between slashes that is empty, \".\" or \"..\"");
    }
    if name.trim() != name {
        // The provider would accept it, but the listing's parser trims it.
        return wrong("it begins or ends with white space");
    }
    if provider == Provider::Azure && name.contains('\\') {
        return wrong("Azure treats a backslash as a slash");
    }
    match Path::parse(name) {
        Ok(path) if path.as_ref() == name => Ok(path),
        Ok(_) => wrong("it would be changed"),
        Err(error) => wrong(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_keys_stay_as_they_are() {
        let keys = Keys::below("some prefix/50%", Provider::S3).unwrap();
        for key in ["plain", "a b", "a%20b", "a+b", "ä/ö", "🛩", "a\\b", "~.-_", "a=b&c?d#e", "\"<>'", "%", "...", ".a"]
        {
            let path = keys.path(key).unwrap();
            assert_eq!(path.as_ref(), format!("some prefix/50%/{key}"));
            assert_eq!(keys.key(path.as_ref()), Some(key));
        }
        assert_eq!(keys.key("some prefix/50"), None);
        assert_eq!(keys.key("some prefix/50%/"), None);
    }

    #[test]
    fn long_names_are_none() {
        for (provider, long) in [(Provider::S3, "ä".repeat(512)), (Provider::Azure, "ä".repeat(1024))] {
            let keys = Keys::below("", provider).unwrap();
            assert!(keys.can_name(&long) && !keys.can_name(&format!("{long}a")), "{provider:?}");
            assert!(!Keys::below("p", provider).unwrap().can_name(&long));
        }
    }

    #[test]
    fn impossible_keys_are_turned_away() {
        let keys = Keys::below("", Provider::Azure).unwrap();
        for key in ["", "/a", "a/", "a//b", ".", "a/../b", "a/./b", "a\nb", "a\u{7f}", " a", "a ", "a\\b"] {
            assert!(keys.path(key).is_err(), "{key:?}");
        }
        assert!(Keys::below("a//b", Provider::S3).is_err());
    }
}
