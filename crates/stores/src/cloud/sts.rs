//! Which short-lived credentials does a security token service (STS) give for one folder of a bucket?
//!
//! `AssumeRole` is signed with the store's own credentials and carries a session policy ([`policy`]). What comes back
//! can do what both the policy and the role allow, or, without a role, both the policy and the store's own user.

mod answer;
mod policy;

use std::fmt;
use std::time::Duration;

use chrono::DateTime;
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpRequest};
use url::Url;
use url::form_urlencoded::Serializer;

use super::CloudStore;
use super::outcome::Provider;
use super::signed::Credentials;
use super::wire::{chain, element_line};
use crate::open::OpenError;

/// The lifetimes that a service may be asked for, in seconds (AWS STS API reference, `AssumeRole`).
pub const LIFETIMES: std::ops::RangeInclusive<u64> = 900..=12 * 60 * 60;

/// The longest time for one request. A client waits for it, so it is shorter than the store's own.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of an answer.
const MOST_BYTES: usize = 64 * 1024;

/// The name of the sessions in the service's own log.
const SESSION: &str = "glidepath";

/// What the holder of credentials may do in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Read and list.
    Read,
    /// Read, list, write and delete, except [metadata files](is_protected).
    Write,
}

/// Whether a file of this name can be read but not written with the credentials that are given.
#[must_use]
pub fn is_protected(name: &str) -> bool {
    name.contains(policy::METADATA)
}

/// How a security token service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StsOptions {
    /// The URL of the service; `None`: Amazon's, in the region.
    pub endpoint: Option<String>,
    /// The ARN of the role that is assumed. Amazon needs one; MinIO does not.
    pub role: Option<String>,
    /// The region that requests are signed for; `None`: that of the store.
    pub region: Option<String>,
    /// How long the credentials are valid, in whole seconds, within [`LIFETIMES`].
    pub lifetime: Duration,
}

impl Default for StsOptions {
    fn default() -> Self {
        Self { endpoint: None, role: None, region: None, lifetime: Duration::from_secs(60 * 60) }
    }
}

/// Credentials that end by themselves.
#[derive(Clone, PartialEq, Eq)]
pub struct Temporary {
    /// The access key's name.
    pub key_id: String,
    /// Its secret.
    pub secret: String,
    /// The session's token, which goes with every request.
    pub token: String,
    /// When they end, in milliseconds since 1970, by the service's clock.
    pub ends_at_ms: u64,
    /// How long they were still valid when they came, by the service's clock, so that ours may be wrong.
    pub life: Duration,
}

impl fmt::Debug for Temporary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the secrets, which would end up in a log.
        f.debug_struct("Temporary").field("ends_at_ms", &self.ends_at_ms).field("life", &self.life).finish()
    }
}

/// Why there are no credentials. No text of it contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StsError {
    /// There can be none for this location: no policy would cover exactly this folder.
    #[error("no short-lived credentials can be made for {location:?}: {why}")]
    Location {
        /// The location.
        location: String,
        /// What is wrong with it.
        why: String,
    },
    /// The service gave none, this time.
    #[error("{0}")]
    Failed(String),
}

/// A security token service that gives credentials for folders of one warehouse. Clones share connections.
#[derive(Clone)]
pub struct Sts {
    client: HttpClient,
    provider: AwsCredentialProvider,
    region: String,
    url: Url,
    options: StsOptions,
    /// The location of the warehouse, such as `s3://bucket/lake`.
    base: String,
}

impl fmt::Debug for Sts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sts").field("url", &self.url.as_str()).field("base", &self.base).finish_non_exhaustive()
    }
}

impl CloudStore {
    /// The service that gives short-lived credentials for what is in this store. Makes no request.
    ///
    /// # Errors
    /// [`OpenError`] says which option is wrong, or why this store can have no such service.
    pub fn sts(&self, options: StsOptions) -> Result<Sts, OpenError> {
        let address = &self.0.address;
        let unusable = |why: String| OpenError::Unusable { url: address.shown.clone(), why };
        if address.provider != Provider::S3 || address.zone.is_some() {
            let why = "short-lived credentials are made for general-purpose buckets of S3 (s3://bucket/prefix) only";
            return Err(unusable(why.to_owned()));
        }
        let Credentials::Aws { provider, region } = self.0.signed.credentials() else {
            let why = "this store is used without credentials, and the token service must be asked with some: set \
                       AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
            return Err(unusable(why.to_owned()));
        };
        let region = options.region.clone().unwrap_or_else(|| region.clone());
        let url = checked(&options, &region, address.in_the_clear()).map_err(unusable)?;
        let below = format!("{}/{}", address.bucket, address.keys.full(""));
        let base = format!("s3://{}", below.trim_end_matches('/'));
        Ok(Sts { client: self.0.signed.client(), provider: provider.clone(), region, url, options, base })
    }
}

/// The URL of the service, if all options can be used.
fn checked(options: &StsOptions, region: &str, clear: bool) -> Result<Url, String> {
    let seconds = options.lifetime.as_secs();
    if !LIFETIMES.contains(&seconds) {
        let (least, most) = (LIFETIMES.start(), LIFETIMES.end());
        return Err(format!("the lifetime of credentials is {seconds} s; allowed are {least} to {most}"));
    }
    if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(format!("the region of the token service is {region:?}; letters, digits and - are allowed"));
    }
    if let Some(role) = &options.role {
        let parts: Vec<_> = role.splitn(6, ':').collect();
        let is_role = matches!(parts[..], ["arn", _, "iam", _, _, name] if name.starts_with("role/"));
        if !is_role || !role.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("the role is {role:?}; it is written arn:aws:iam::ACCOUNT:role/NAME"));
        }
    }
    let Some(endpoint) = &options.endpoint else {
        if options.role.is_none() {
            return Err("Amazon's token service needs the ARN of the role to assume: add --sts-role".to_owned());
        }
        let end = if region.starts_with("cn-") { ".cn" } else { "" };
        let url = format!("https://sts.{region}.amazonaws.com{end}/");
        return Url::parse(&url).map_err(|error| format!("{url} is not a URL: {error}"));
    };
    let url = super::address::endpoint(endpoint).map_err(|why| format!("the URL of the token service: {why}"))?;
    if url.scheme() == "http" && !clear {
        let why = "the URL of the token service begins with http://, so secrets would cross the network unencrypted; \
                   this is allowed only if the ?endpoint= of the warehouse is http:// too";
        return Err(why.to_owned());
    }
    Ok(url)
}

impl Sts {
    /// The session policy for a folder.
    fn policy(&self, location: &str, permission: Permission) -> Result<String, StsError> {
        // The names of resources begin with the partition in which the role is.
        let partition = self.options.role.as_deref().and_then(|role| role.split(':').nth(1)).unwrap_or("aws");
        policy::of(&self.base, location, partition, permission)
            .map_err(|why| StsError::Location { location: location.to_owned(), why })
    }

    /// Asks for credentials for the folder at a location, once.
    ///
    /// # Errors
    /// [`StsError`] says whether there can be none, or there are none now.
    pub async fn issue(&self, location: &str, permission: Permission) -> Result<Temporary, StsError> {
        let policy = self.policy(location, permission)?;
        let asked = tokio::time::timeout(TIMEOUT, self.ask(&policy)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())));
        asked.map_err(|why| StsError::Failed(format!("the token service at {}: {why}", self.url)))
    }

    async fn ask(&self, policy: &str) -> Result<Temporary, String> {
        let credential = self.provider.get_credential().await.map_err(|error| chain(&error))?;
        let mut request = self.request(policy).map_err(|error| error.to_string())?;
        let signed = AwsAuthorizer::new(&credential, "sts", &self.region).try_authorize(&mut request, None);
        signed.map_err(|error| chain(&error))?;
        let (parts, body) = self.client.execute(request).await.map_err(|error| chain(&error))?.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let body = body.map_err(|_| format!("the answer broke off, or has more than {MOST_BYTES} bytes"))?.to_bytes();
        let body = String::from_utf8_lossy(&body);
        if parts.status != StatusCode::OK {
            return Err(refusal(parts.status, &body));
        }
        self.read(&parts.headers, &body)
    }

    fn request(&self, policy: &str) -> Result<HttpRequest, http::Error> {
        let mut form = Serializer::new(String::new());
        form.append_pair("Action", "AssumeRole").append_pair("Version", "2011-06-15");
        form.append_pair("RoleSessionName", SESSION).append_pair("Policy", policy);
        form.append_pair("DurationSeconds", &self.options.lifetime.as_secs().to_string());
        if let Some(role) = &self.options.role {
            form.append_pair("RoleArn", role);
        }
        let request = http::Request::builder().method(Method::POST).uri(self.url.as_str());
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish().into())
    }

    fn read(&self, headers: &HeaderMap, body: &str) -> Result<Temporary, String> {
        let answer::Answer { key_id, secret, token, ends_at_ms } = answer::of(body)?;
        let now = headers.get(DATE).and_then(|date| DateTime::parse_from_rfc2822(date.to_str().ok()?).ok());
        let life = match now.and_then(|now| u64::try_from(now.timestamp_millis()).ok()) {
            Some(now_ms) => Duration::from_millis(ends_at_ms.saturating_sub(now_ms)),
            None => self.options.lifetime,
        };
        if life.is_zero() {
            return Err("its credentials have ended before they came".to_owned());
        }
        Ok(Temporary { key_id, secret, token, ends_at_ms, life: life.min(self.options.lifetime) })
    }
}

/// What the service said. Of its words only the first line: others quote the request, in which our own token is.
fn refusal(status: StatusCode, body: &str) -> String {
    let code = element_line(body, "Code").unwrap_or_default();
    let words = element_line(body, "Message").unwrap_or_default();
    format!("{} {code}: {words}", status.as_u16()).trim_end_matches([':', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(endpoint: Option<&str>, role: Option<&str>) -> StsOptions {
        StsOptions { endpoint: endpoint.map(str::to_owned), role: role.map(str::to_owned), ..StsOptions::default() }
    }

    const ROLE: &str = "arn:aws:iam::123456789012:role/lake";

    #[test]
    fn where_the_service_is() {
        for (endpoint, role, region, clear, url) in [
            (None, Some(ROLE), "eu-central-1", false, "https://sts.eu-central-1.amazonaws.com/"),
            (None, Some(ROLE), "cn-north-1", false, "https://sts.cn-north-1.amazonaws.com.cn/"),
            (Some("http://127.0.0.1:9000"), None, "us-east-1", true, "http://127.0.0.1:9000/"),
            (Some("https://sts.example.org/x"), None, "us-east-1", false, "https://sts.example.org/x"),
        ] {
            assert_eq!(checked(&options(endpoint, role), region, clear).unwrap().as_str(), url);
        }
    }

    #[test]
    fn options_that_cannot_work_are_named() {
        let short = StsOptions { lifetime: Duration::from_secs(60), ..options(None, Some(ROLE)) };
        for (options, region, part) in [
            (short, "us-east-1", "900 to 43200"),
            (options(None, None), "us-east-1", "ARN of the role"),
            (options(None, Some("lake")), "us-east-1", "role/NAME"),
            (options(None, Some("arn:aws:iam::1:user/me")), "us-east-1", "role/NAME"),
            (options(None, Some(ROLE)), "us-east-1/@host", "letters, digits"),
            (options(Some("http://10.0.0.1"), None), "us-east-1", "unencrypted"),
            (options(Some("sts.example.org"), None), "us-east-1", "token service"),
            (options(Some("https://secret:secret@host"), None), "us-east-1", "only a host"),
        ] {
            let error = checked(&options, region, false).unwrap_err();
            assert!(error.contains(part) && !error.contains("secret:"), "{error}");
        }
    }

    #[test]
    fn refusals_quote_no_request() {
        let body = "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>It does not match.\n\nThe \
                    Canonical String was\nx-amz-security-token:hush</Message></Error></ErrorResponse>";
        assert_eq!(refusal(StatusCode::FORBIDDEN, body), "403 SignatureDoesNotMatch: It does not match.");
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, "<html>"), "502");
    }

    #[test]
    fn nothing_secret_is_shown() {
        let (key_id, secret, token) = ("id".to_owned(), "hush".to_owned(), "hush".to_owned());
        let temporary = Temporary { key_id, secret, token, ends_at_ms: 1, life: Duration::from_secs(1) };
        assert!(!format!("{temporary:?}").contains("hush"));
    }
}
