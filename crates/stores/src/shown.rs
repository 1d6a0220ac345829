//! How is the URL of a store shown to people?

/// The URL of a store without the password that it may hold. Where it cannot be told which part is one, less of the
/// URL.
#[must_use]
pub fn shown(store: &str) -> String {
    let whole = || store.to_owned();
    let Some((scheme, rest)) = store.split_once(':') else { return whole() };
    let place = rest.strip_prefix("//");
    if glidepath_kv::is_scheme(scheme) && (place.is_some() || rest.contains('@')) {
        return glidepath_kv::shown(store);
    }
    let is_path = !scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if is_path || !rest.contains('@') {
        return whole();
    }
    match (&*scheme.to_ascii_lowercase(), place) {
        ("file" | "memory", _) => whole(),
        ("s3" | "az" | "gs", Some(place)) => {
            in_a_cloud(place).map_or_else(whole, |shown| format!("{scheme}://{shown}"))
        }
        _ => format!("{scheme}:..."),
    }
}

/// What to show of `user:password@bucket/prefix`; `None` if there is nothing to hide. Prefixes may have any character.
fn in_a_cloud(place: &str) -> Option<String> {
    let (name, prefix) = place.split_at(place.find(['/', '?']).unwrap_or(place.len()));
    match name.rsplit_once('@') {
        None if name.contains(':') => Some("...".to_owned()),
        None => None,
        Some((user, bucket)) => {
            let user = user.split(':').next().unwrap_or_default();
            Some(if prefix.contains('@') { format!("{user}@...") } else { format!("{user}@{bucket}{prefix}") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for password in ["hush", "hu/sh", "hu?sh", "hu#sh", "hu:sh", "hu=sh"] {
            assert_eq!(shown(&format!("postgres://me:{password}@host:5432/db?schema=x")), {
                // What follows a question mark in a password may be the password.
                let schema = if password.contains('?') { "" } else { "?schema=x" };
                format!("postgres://me@host:5432/db{schema}")
            });
        }
        assert_eq!(shown("postgres://host/db?user=me&schema=mine"), "postgres://host/db?schema=mine");
        for secret in [
            "me:hu@sh@host/db",
            "me:h@u/s?sh@host/db",
            "me:x@host/db?password=hu@sh",
            "host/db?user=me&password=hush",
            "host/db?password=hu@sh",
            "host/db?schema=x&password=h:s@sh/s?sh",
        ] {
            assert!(!shown(&format!("postgres://{secret}")).contains("sh"), "{secret}");
        }
        assert_eq!(shown("cassandra://me:hu/sh@host:1,other:2/space?copies=3"), "cassandra://me@host:1,other:2/space");
        assert_eq!(shown("kv+file:///a@b:c?x=1"), "kv+file:///a@b:c");
        for hidden in [
            "scylla://me:hush@host/db",
            "redis://:hu/sh@host",
            "S4://me:hush@host",
            "redis:me:hush@host",
            "s3:me:hush@host",
            "s3://me:hu/sh@bucket/x",
            "S3://me:hu@u/sh@bucket",
            "az://me:hush@bucket",
            "cassandra:me:hush@host/k",
        ] {
            assert!(!shown(hidden).contains("sh"), "{hidden}: {}", shown(hidden));
        }
        for plain in [
            "file:///a@b",
            "memory:",
            "kv+memory:",
            "s3://bucket/a@b:c",
            "postgres://me@host/db",
            "/a:b@c",
            "a b:c@d",
            "a@b",
        ] {
            assert_eq!(shown(plain), plain);
        }
    }
}
