//! How is the URL of a store shown to people?

/// The URL of a store without the password that it may hold.
#[must_use]
pub fn shown(store: &str) -> String {
    let Some((scheme, rest)) = store.split_once("://") else { return store.to_owned() };
    if glidepath_kv::is_scheme(scheme) {
        return glidepath_kv::shown(store);
    }
    // What is a password in a URL of another kind is not known.
    if !matches!(&*scheme.to_ascii_lowercase(), "file" | "s3" | "az" | "gs") && rest.contains('@') {
        return format!("{scheme}://...");
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((user, _)) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}{}", &rest[user.len()..])
        }
        None => store.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for password in ["hush", "hu/sh", "hu?sh", "hu#sh", "hu:sh", "hu=sh"] {
            assert_eq!(shown(&format!("postgres://me:{password}@host:5432/db?schema=x")), "postgres://me@host:5432/db");
        }
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
        for unknown in ["scylla://me:hush@host/db", "redis://:hu/sh@host", "S4://me:hush@host"] {
            assert!(!shown(unknown).contains("sh"), "{unknown}");
        }
        for plain in ["file:///a@b", "memory:", "s3://bucket/a@b:c", "postgres://me@host/db"] {
            assert_eq!(shown(plain), plain);
        }
    }
}
