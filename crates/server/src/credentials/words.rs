//! How do clients of Iceberg and of Lance call the settings of a storage?

use std::collections::BTreeMap;

use glidepath_service::{Identifier, SEPARATOR};
use glidepath_stores::cloud::Temporary;

/// When credentials end, in milliseconds since 1970: in the words of Iceberg.
const ENDS_AT: &str = "s3.session-token-expires-at-ms";

/// Credentials in the words of Iceberg's clients.
pub(crate) fn of_iceberg(temporary: &Temporary, table: &Identifier) -> BTreeMap<String, String> {
    let namespace = segment(&table.namespace.join(&SEPARATOR.to_string()));
    let again = format!("v1/namespaces/{namespace}/tables/{}/credentials", segment(&table.name));
    [
        ("s3.access-key-id", temporary.key_id.clone()),
        ("s3.secret-access-key", temporary.secret.clone()),
        ("s3.session-token", temporary.token.clone()),
        (ENDS_AT, temporary.ends_at_ms.to_string()),
        // Where Iceberg's library for Java gets new ones, below the URL of the catalog.
        ("client.refresh-credentials-endpoint", again),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

/// A name as a part of a path.
fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => segment.push(char::from(byte)),
            other => segment.push_str(&format!("%{other:02X}")),
        }
    }
    segment
}

/// The settings that clients of Iceberg get, in the words of Lance.
pub(crate) fn of_lance(settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    for (key, value) in settings {
        let name = match key.as_str() {
            "s3.endpoint" => "aws_endpoint",
            "s3.region" | "client.region" => "aws_region",
            "s3.access-key-id" => "aws_access_key_id",
            "s3.secret-access-key" => "aws_secret_access_key",
            "s3.session-token" => "aws_session_token",
            ENDS_AT => "expires_at_millis",
            "s3.path-style-access" => {
                let by_host = if value == "true" { "false" } else { "true" };
                options.insert("aws_virtual_hosted_style_request".to_owned(), by_host.to_owned());
                continue;
            }
            // Those with a dot or a hyphen are Iceberg's.
            own if !own.contains(['.', '-']) => own,
            _ => continue,
        };
        options.insert(name.to_owned(), value.clone());
    }
    if options.get("aws_endpoint").is_some_and(|endpoint| endpoint.starts_with("http://")) {
        options.insert("allow_http".to_owned(), "true".to_owned());
    }
    options
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn settings_of_iceberg_are_told_in_the_words_of_lance() {
        let settings = [
            ("s3.endpoint", "http://127.0.0.1:9000"),
            ("s3.path-style-access", "true"),
            ("client.region", "eu"),
            ("s3.access-key-id", "me"),
            ("aws_unsigned_payload", "true"),
            ("py-io-impl", "x"),
        ];
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let told: Vec<_> = of_lance(&settings).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            told,
            [
                "allow_http=true",
                "aws_access_key_id=me",
                "aws_endpoint=http://127.0.0.1:9000",
                "aws_region=eu",
                "aws_unsigned_payload=true",
                "aws_virtual_hosted_style_request=false",
            ]
        );
    }

    #[test]
    fn credentials_are_told_with_their_end() {
        let (key_id, secret, token) = ("I".to_owned(), "S".to_owned(), "T".to_owned());
        let temporary = Temporary { key_id, secret, token, ends_at_ms: 7, life: Duration::from_secs(1) };
        let table = Identifier { namespace: vec!["a b".to_owned(), "c".to_owned()], name: "t/u".to_owned() };
        let told = of_iceberg(&temporary, &table);
        assert_eq!(told["client.refresh-credentials-endpoint"], "v1/namespaces/a%20b%1Fc/tables/t%2Fu/credentials");
        let of_lance: Vec<_> = of_lance(&told).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            of_lance,
            ["aws_access_key_id=I", "aws_secret_access_key=S", "aws_session_token=T", "expires_at_millis=7"]
        );
    }
}
