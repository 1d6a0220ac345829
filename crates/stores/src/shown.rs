//! How is the URL of a store shown to people?

/// The URL of a store without the password that it may hold.
#[must_use]
pub fn shown(store: &str) -> String {
    let Some((scheme, rest)) = store.split_once("://") else { return store.to_owned() };
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
        assert_eq!(shown("postgres://me:hush@host:5432/db?schema=x"), "postgres://me@host:5432/db?schema=x");
        assert_eq!(shown("postgres://me:hu@sh@host/db"), "postgres://me@host/db");
        for plain in ["file:///a@b", "memory:", "s3://bucket/a@b:c", "postgres://me@host/db"] {
            assert_eq!(shown(plain), plain);
        }
    }
}
