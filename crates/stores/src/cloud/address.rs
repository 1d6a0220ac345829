//! The address of a store: a user's URL gives a provider, a bucket, a prefix and an endpoint.

use percent_encoding::percent_decode_str;
use url::Url;

use super::keys::Keys;
use super::outcome::Provider;
use crate::open::OpenError;

/// The address of a store, checked.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) provider: Provider,
    /// Bucket or container.
    pub(crate) bucket: String,
    pub(crate) keys: Keys,
    /// Without a slash at its end; `None` for the provider's own.
    pub(crate) endpoint: Option<Url>,
    pub(crate) region: Option<String>,
    /// Azure's storage account.
    pub(crate) account: Option<String>,
    /// The zone of a directory bucket of S3 Express One Zone; `None` for any other bucket.
    pub(crate) zone: Option<String>,
    /// Whether it supports appends at an offset: Azure and directory buckets do, other S3 servers if the URL says so.
    pub(crate) append: bool,
    /// The URL for messages, without anything that may be secret.
    pub(crate) shown: String,
}

impl Address {
    pub(crate) fn parse(url: &Url) -> Result<Self, OpenError> {
        // Passwords and values of parameters are never shown.
        let shown = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path());
        Self::checked(url, &shown).map_err(|why| OpenError::Url { url: shown, why })
    }

    fn checked(url: &Url, shown: &str) -> Result<Self, String> {
        let (provider, allowed): (_, &[&str]) = match url.scheme() {
            "s3" => (Provider::S3, &["endpoint", "region", "append"]),
            "az" => (Provider::Azure, &["endpoint", "account"]),
            "gs" => (Provider::Gcs, &["endpoint"]),
            other => return Err(format!("it begins with {other:?}")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("credentials belong in the environment, not in a URL".to_owned());
        }
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(String::from).map_err(|e| e.to_string());
        let bucket = decode(url.host_str().unwrap_or_default())?;
        if bucket.is_empty() {
            return Err("the name of the bucket is missing".to_owned());
        }
        let zone = if provider == Provider::S3 { zone(&bucket)? } else { None };
        let mut address = Self {
            provider,
            append: provider == Provider::Azure || zone.is_some(),
            zone,
            bucket,
            keys: Keys::below(decode(url.path())?.trim_matches('/'), provider)?,
            endpoint: None,
            region: None,
            account: None,
            shown: shown.to_owned(),
        };
        for (name, value) in url.query_pairs() {
            if !allowed.contains(&name.as_ref()) {
                return Err(format!("there is no parameter {name:?}; allowed: {}", allowed.join(", ")));
            }
            match name.as_ref() {
                "endpoint" => address.endpoint = Some(endpoint(&value)?),
                "region" => address.region = Some(value.into_owned()),
                "append" => address.append = yes_or_no(&value)?,
                _ => address.account = Some(value.into_owned()),
            }
        }
        if address.account.is_none() {
            address.account = address.endpoint.as_ref().and_then(account);
        }
        Ok(address)
    }

    /// The endpoint as text, without a slash at its end.
    pub(crate) fn endpoint(&self) -> Option<String> {
        self.endpoint.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned())
    }

    /// Whether requests are sent unencrypted.
    pub(crate) fn in_the_clear(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|url| url.scheme() == "http")
    }
}

/// The zone in the name of a directory bucket; `None` for other buckets, whose names may not end like that (Amazon S3
/// User Guide, "General purpose bucket naming rules").
fn zone(bucket: &str) -> Result<Option<String>, String> {
    let Some(name) = bucket.strip_suffix("--x-s3") else { return Ok(None) };
    let part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match name.rsplit_once("--") {
        // A zone is a region's short name and a number, such as use1-az4.
        Some((base, zone)) if part(base) && part(zone) && zone.contains('-') && bucket.len() <= 63 => {
            Ok(Some(zone.to_owned()))
        }
        _ => Err(format!(
            "{bucket:?} is not the name of a directory bucket, although it ends like one; such names look like \
             NAME--ZONE--x-s3, for example \
             lake--use1-az4--x-s3, in lower case and with at most 63 characters"
        )),
    }
}

fn yes_or_no(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("append: found {value:?}; allowed: true or false"))
}

/// A URL of a service: a host, and perhaps a port and a path.
pub(super) fn endpoint(value: &str) -> Result<Url, String> {
    let begins = "its endpoint must begin with http:// or https:// and name a host, as in http://127.0.0.1:9000";
    let url = Url::parse(value).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => begins.to_owned(),
        error => format!("its endpoint is not a URL: {error}"),
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(begins.to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err("endpoint: allowed are only a host, a port and a path".to_owned());
    }
    Ok(url)
}

/// The storage account in an endpoint of Azure: in its path for an emulator, otherwise in its host.
fn account(endpoint: &Url) -> Option<String> {
    let in_path = endpoint.path_segments().and_then(|mut parts| parts.next()).filter(|part| !part.is_empty());
    match endpoint.host() {
        Some(url::Host::Domain(host)) if in_path.is_none() => host.split_once('.').map(|(name, _)| name.to_owned()),
        _ => in_path.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, OpenError> {
        Address::parse(&Url::parse(url).unwrap())
    }

    #[test]
    fn addresses() {
        let address = parse("s3://bucket/a/b%20c/?endpoint=http://127.0.0.1:7070/&region=eu-west-1").unwrap();
        assert_eq!(address.bucket, "bucket");
        assert_eq!(address.keys.full("x"), "a/b c/x");
        assert_eq!(address.endpoint().as_deref(), Some("http://127.0.0.1:7070"));
        assert_eq!(address.region.as_deref(), Some("eu-west-1"));
        assert!(address.in_the_clear());
        let address = parse("az://c?endpoint=http://127.0.0.1:10000/devstoreaccount1").unwrap();
        assert_eq!(address.account.as_deref(), Some("devstoreaccount1"));
        let address = parse("az://c?endpoint=https://mine.blob.core.windows.net").unwrap();
        assert_eq!(address.account.as_deref(), Some("mine"));
    }

    #[test]
    fn who_appends() {
        for (url, append) in [
            ("s3://bucket", false),
            ("s3://bucket?append=true", true),
            ("s3://bucket?append=false", false),
            ("s3://b--use1-az4--x-s3", true),
            ("s3://b--use1-az4--x-s3?append=false", false),
            ("az://container?account=a", true),
            ("gs://bucket", false),
        ] {
            assert_eq!(parse(url).unwrap().append, append, "{url}");
        }
    }

    #[test]
    fn directory_buckets_name_their_zone() {
        for (name, zone) in [
            ("b--use1-az4--x-s3", Some("use1-az4")),
            ("my--lake--usw2-lax1-az1--x-s3", Some("usw2-lax1-az1")),
            ("b--use1-az4--x-s3-not", None),
            ("bucket", None),
        ] {
            assert_eq!(parse(&format!("s3://{name}/p")).unwrap().zone.as_deref(), zone, "{name}");
        }
        assert_eq!(parse("gs://b--use1-az4--x-s3").unwrap().zone, None);
        let long = format!("{}--use1-az4--x-s3", "b".repeat(60));
        for name in ["b--x-s3", "--use1-az4--x-s3", "b----x-s3", "b--use1--x-s3", "B--use1-az4--x-s3", "--x-s3", &long]
        {
            let error = parse(&format!("s3://{name}")).unwrap_err().to_string();
            assert!(error.contains("NAME--ZONE--x-s3"), "{error}");
        }
    }

    #[test]
    fn mistakes_are_named_and_secrets_are_not() {
        let rows = [
            ("s3://bucket?endpont=http://x", "endpoint, region"),
            ("s3://bucket?append=perhaps", "true or false"),
            ("gs://bucket?append=true", "allowed: endpoint"),
            ("gs://bucket?region=x", "allowed: endpoint"),
            ("s3:///prefix", "the name of the bucket is missing"),
            ("s3://bucket?endpoint=127.0.0.1:7070", "endpoint"),
            ("s3://bucket?endpoint=http://secret:secret@host", "only a host, a port and a path"),
            ("s3://secret:secret@bucket", "environment"),
            ("az://c?sig=secret", "endpoint, account"),
            ("s3://bucket/a//b", "slashes"),
        ];
        for (url, part) in rows {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
