//! Creates a provider's client from an address and the environment variables that the provider's own tools read.

use std::env;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::HttpClient;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::list::PaginatedListStore;
use object_store::{ObjectStore, RetryConfig, StaticCredentialProvider};

use super::address::{Address, endpoint};
use super::aws_files::{self, Profile};
use super::outcome::Provider;
use super::session::{Sessions, Source};
use super::signed::{Credentials, Signed};
use super::wire::{Connector, chain};

/// The client library's store of one provider.
#[derive(Clone)]
pub(crate) enum Client {
    S3(object_store::aws::AmazonS3),
    Azure(object_store::azure::MicrosoftAzure),
    Gcs(object_store::gcp::GoogleCloudStorage),
}

impl Client {
    pub(crate) fn objects(&self) -> &dyn ObjectStore {
        match self {
            Self::S3(store) => store,
            Self::Azure(store) => store,
            Self::Gcs(store) => store,
        }
    }

    pub(crate) fn pages(&self) -> &dyn PaginatedListStore {
        match self {
            Self::S3(store) => store,
            Self::Azure(store) => store,
            Self::Gcs(store) => store,
        }
    }
}

/// Switches the library's retries off. It retries every failure, including guarded writes, and then takes the effect of
/// its own first request for another writer's.
fn no_repeats() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// The library's client for an address, and the client for requests that the library does not offer. Makes no request.
/// `repeats` is for requests of sessions.
pub(crate) fn connect(address: &Address, connector: &Connector, repeats: u32) -> Result<(Client, Signed), String> {
    match address.provider {
        Provider::S3 => s3(address, connector, repeats),
        Provider::Azure => azure(address, connector),
        Provider::Gcs => gcs(address, connector),
    }
}

/// The variables that name an endpoint: two of Amazon's tools, and the one of libraries in Rust.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// With the endpoint that the environment names, if the URL of a store on S3 has none.
pub(crate) fn located(address: Address) -> Result<Address, String> {
    let named = || ENDPOINTS.into_iter().find_map(|name| Some((name, variable(name)?)));
    let endpoint = match address.endpoint {
        None if address.provider == Provider::S3 => {
            named().map(|(name, value)| endpoint(&value).map_err(|why| format!("{name}: {why}")))
        }
        given => given.map(Ok),
    };
    Ok(Address { endpoint: endpoint.transpose()?, ..address })
}

fn s3(address: &Address, connector: &Connector, repeats: u32) -> Result<(Client, Signed), String> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&address.bucket)
        .with_retry(no_repeats())
        .with_allow_http(true)
        .with_http_connector(connector.clone());
    let profile = profile(address)?;
    let region = address.region.clone().or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
    let region = region.or_else(|| profile.as_ref()?.region.clone()).unwrap_or_else(|| "us-east-1".to_owned());
    let base = url_of_bucket(address, address.endpoint().as_deref(), &region);
    let keys = profile.and_then(|profile| profile.keys);
    // An unencrypted endpoint is a user's own server. Without an access key, requests to it are anonymous: the
    // credentials of the machine's role must not be sent there.
    let anonymous = address.in_the_clear() && variable("AWS_ACCESS_KEY_ID").is_none() && keys.is_none();
    if let Some(keys) = keys {
        builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
        if let Some(token) = keys.token {
            builder = builder.with_token(token);
        }
    }
    builder = builder
        .with_region(&region)
        .with_skip_signature(anonymous)
        .with_s3_express(false)
        // Exactly this URL, whatever the environment says, because requests without the library use it too.
        .with_config(AmazonS3ConfigKey::S3Endpoint, &base)
        .with_virtual_hosted_style_request(true);
    let store = builder.clone().build().map_err(|error| chain(&error))?;
    let provider = store.credentials().clone();
    if address.zone.is_none() || anonymous {
        let credentials = if anonymous { Credentials::None } else { Credentials::Aws { provider, region } };
        return Ok((Client::S3(store), Signed::new(connector.client(), base, credentials)));
    }
    let (wire, tally) = (connector.client(), connector.tally());
    let sessions = Sessions::new(Source { wire, base: base.clone(), region, credentials: provider, repeats, tally });
    // The sessions do all the signing.
    builder = builder.with_skip_signature(true).with_http_connector(sessions.clone());
    let store = builder.build().map_err(|error| chain(&error))?;
    Ok((Client::S3(store), Signed::new(HttpClient::new(sessions), base, Credentials::None)))
}

/// Without a slash at its end. Without an endpoint, a directory bucket has its own host in its zone.
fn url_of_bucket(address: &Address, endpoint: Option<&str>, region: &str) -> String {
    match (endpoint, &address.zone, &address.bucket) {
        (Some(endpoint), _, bucket) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        (None, Some(zone), bucket) => format!("https://{bucket}.s3express-{zone}.{region}.amazonaws.com"),
        (None, None, bucket) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
    }
}

/// The profile in the files of Amazon's tools, unless the environment has settings that take precedence.
fn profile(address: &Address) -> Result<Option<Profile>, String> {
    if variable("AWS_ACCESS_KEY_ID").is_some() || variable("AWS_WEB_IDENTITY_TOKEN_FILE").is_some() {
        return Ok(None);
    }
    let profile = aws_files::profile(variable)?;
    let optional = address.in_the_clear() && variable("AWS_PROFILE").is_none();
    match profile.as_ref().and_then(|profile| profile.fetched_by) {
        Some(by) if !optional => Err(aws_files::cannot_fetch(by)),
        _ => Ok(profile),
    }
}

fn azure(address: &Address, connector: &Connector) -> Result<(Client, Signed), String> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(&address.bucket)
        .with_retry(no_repeats())
        .with_allow_http(true)
        .with_http_connector(connector.clone());
    // Also the variables that Azure's own command line reads.
    let account = address.account.clone().or_else(|| variable("AZURE_STORAGE_ACCOUNT_NAME"));
    let account = account.or_else(|| variable("AZURE_STORAGE_ACCOUNT")).unwrap_or_default();
    if !account.is_empty() {
        builder = builder.with_account(&account);
    }
    if let Some(key) = variable("AZURE_STORAGE_KEY") {
        builder = builder.with_access_key(key);
    }
    let service = address.endpoint().unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
    let named = |words: String| match account.is_empty() {
        true => format!("{words}: add ?account=NAME to the URL, or set AZURE_STORAGE_ACCOUNT_NAME"),
        false => words,
    };
    // Exactly this URL, whatever the environment says, because requests without the library use it too.
    builder = builder.with_use_emulator(false).with_use_fabric_endpoint(false).with_endpoint(service.clone());
    let store = builder.build().map_err(|error| named(chain(&error)))?;
    let credentials = Credentials::Azure { provider: store.credentials().clone(), account };
    Ok((Client::Azure(store), Signed::new(connector.client(), format!("{service}/{}", address.bucket), credentials)))
}

fn gcs(address: &Address, connector: &Connector) -> Result<(Client, Signed), String> {
    // An emulator needs no credentials, so invalid ones on this machine must not be an error.
    let builder = match address.in_the_clear() {
        true => GoogleCloudStorageBuilder::new(),
        false => GoogleCloudStorageBuilder::from_env(),
    };
    let mut builder =
        builder.with_bucket_name(&address.bucket).with_retry(no_repeats()).with_http_connector(connector.clone());
    let service = address.endpoint().unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    // Exactly this URL, whatever the environment and files of credentials say, because requests without the library use
    // it too.
    builder = builder.with_base_url(&service);
    if address.in_the_clear() {
        // An emulator needs no token, and one sent unencrypted would be disclosed.
        let nobody = GcpCredential { bearer: String::new() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
    }
    let store = builder.build().map_err(|error| chain(&error))?;
    let credentials =
        if address.in_the_clear() { Credentials::None } else { Credentials::Gcs(store.credentials().clone()) };
    Ok((Client::Gcs(store), Signed::new(connector.client(), format!("{service}/{}", address.bucket), credentials)))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn where_buckets_are() {
        let own = Some("http://127.0.0.1:7070/");
        for (url, endpoint, base) in [
            ("s3://bucket/p", None, "https://s3.eu-north-1.amazonaws.com/bucket"),
            ("s3://bucket/p", own, "http://127.0.0.1:7070/bucket"),
            ("s3://b--eun1-az1--x-s3/p", None, "https://b--eun1-az1--x-s3.s3express-eun1-az1.eu-north-1.amazonaws.com"),
            ("s3://b--eun1-az1--x-s3/p", own, "http://127.0.0.1:7070/b--eun1-az1--x-s3"),
        ] {
            let address = Address::parse(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(url_of_bucket(&address, endpoint, "eu-north-1"), base);
        }
    }
}
