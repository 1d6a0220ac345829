//! Measures the cost of a put-if-match and a get through the store against bare HTTP requests of the same kind; and,
//! with 16 writers, the requests per second that a client reaches.
//!
//! ```sh
//! scripts/servers exec cargo run --release -p glidepath-stores --example cloud_overhead
//! cargo run --release -p glidepath-stores --example cloud_overhead -- load SECONDS    (only the load, to compare
//! clients)
//! ```
//!
//! Bare is one `reqwest` client with the store's settings and the store's signing, and nothing else. The two alternate
//! in blocks within one run, so that other load on the machine affects both.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload};
use glidepath_stores::cloud::CloudStore;
use glidepath_stores::{Options, Store, open};
use http::{HeaderMap, Method};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequest;
use url::Url;

const BLOCKS: usize = 60;
const PAIRS: usize = 50;
const WRITERS: usize = 16;
const SIZE: usize = 200;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = Url::parse(&std::env::var("GLIDEPATH_S3").map_err(|_| "run it by scripts/servers exec")?)?;
    let Store::Cloud(store) = open(url.as_str(), &Options::default())? else {
        return Err("no store of a cloud".into());
    };
    match std::env::args().nth(1).as_deref() {
        Some("load") => load(&store, std::env::args().nth(2).map_or(Ok(5), |seconds| seconds.parse())?).await,
        _ => compare(&store, &Bare::new(&url)?).await,
    }
}

/// One writer: alternating blocks.
async fn compare(store: &CloudStore, bare: &Bare) -> Result<()> {
    let key = Key::new("overhead/store");
    let mut tag = store.put(&key, body(0), Guard::None).await?;
    let mut etag = bare.put("overhead/bare", body(0).bytes, None).await?;
    let (mut bare_times, mut store_times) = (Vec::new(), Vec::new());
    for block in 0..=BLOCKS {
        for pair in 0..PAIRS {
            let began = Instant::now();
            etag = bare.put("overhead/bare", body(block * PAIRS + pair + 1).bytes, Some(&etag)).await?;
            bare.get("overhead/bare").await?;
            keep(&mut bare_times, block, began.elapsed());
        }
        for pair in 0..PAIRS {
            let began = Instant::now();
            tag = store.put(&key, body(block * PAIRS + pair + 1), Guard::Matches(tag)).await?;
            store.get(&key).await?;
            keep(&mut store_times, block, began.elapsed());
        }
    }
    store.delete(&key).await?;
    store.delete(&Key::new("overhead/bare")).await?;
    let ((bare_median, bare_mean), (median, mean)) = (of(bare_times), of(store_times));
    println!("put-if-match and get of {SIZE} bytes, 1 writer, {} pairs each, {BLOCKS} blocks in turn", BLOCKS * PAIRS);
    println!("          median      mean");
    println!("bare  {bare_median:>10.1?}{bare_mean:>10.1?}");
    println!("store {median:>10.1?}{mean:>10.1?}");
    let ratio = |ours: Duration, bare: Duration| ours.as_secs_f64() / bare.as_secs_f64();
    println!("ratio {:>10.3}{:>10.3}", ratio(median, bare_median), ratio(mean, bare_mean));
    Ok(())
}

/// The first block warms up.
fn keep(times: &mut Vec<Duration>, block: usize, time: Duration) {
    if block > 0 {
        times.push(time);
    }
}

fn of(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap_or(u32::MAX))
}

/// Sixteen writers, each with an object of its own; prints the rate of pairs of put-if-match and get.
async fn load(store: &CloudStore, seconds: u64) -> Result<()> {
    let began = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..WRITERS {
        writers.spawn(writer(store.clone(), number, began + Duration::from_secs(seconds)));
    }
    let mut pairs = 0;
    while let Some(ended) = writers.join_next().await {
        pairs += ended??;
    }
    println!("{:.0} pairs/s", pairs as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

async fn writer(store: CloudStore, number: usize, until: Instant) -> Result<usize> {
    let key = Key::new(&format!("load/store-{number}"));
    let mut tag = store.put(&key, body(0), Guard::None).await?;
    let mut pairs = 0;
    while Instant::now() < until {
        pairs += 1;
        tag = store.put(&key, body(pairs), Guard::Matches(tag)).await?;
        store.get(&key).await?;
    }
    store.delete(&key).await?;
    Ok(pairs)
}

/// Fresh in every write: tags of S3 are hashes of the content.
fn body(number: usize) -> Payload {
    let mut content = vec![b'x'; SIZE];
    content[..8].copy_from_slice(&number.to_be_bytes());
    Payload::from(Bytes::from(content))
}

/// Requests without the store.
struct Bare {
    client: reqwest::Client,
    base: String,
    credential: AwsCredential,
}

impl Bare {
    fn new(url: &Url) -> Result<Self> {
        let endpoint = url.query_pairs().find(|(name, _)| name == "endpoint").ok_or("the URL names no endpoint")?.1;
        let client = reqwest::Client::builder().http1_only().tcp_nodelay(true).build()?;
        let credential = AwsCredential {
            key_id: std::env::var("AWS_ACCESS_KEY_ID")?,
            secret_key: std::env::var("AWS_SECRET_ACCESS_KEY")?,
            token: None,
        };
        Ok(Self { client, base: format!("{endpoint}/{}", url.host_str().unwrap_or_default()), credential })
    }

    async fn put(&self, key: &str, content: Bytes, etag: Option<&str>) -> Result<String> {
        let (headers, _) = self.send(Method::PUT, key, content, etag).await?;
        Ok(headers.get("etag").ok_or("no ETag")?.to_str()?.to_owned())
    }

    async fn get(&self, key: &str) -> Result<Bytes> {
        Ok(self.send(Method::GET, key, Bytes::new(), None).await?.1)
    }

    async fn send(&self, method: Method, key: &str, content: Bytes, etag: Option<&str>) -> Result<(HeaderMap, Bytes)> {
        let mut request = http::Request::builder().method(method).uri(format!("{}/{key}", self.base));
        if let Some(etag) = etag {
            request = request.header("if-match", etag);
        }
        let mut request: HttpRequest = request.body(content.clone().into())?;
        AwsAuthorizer::new(&self.credential, "s3", "us-east-1").try_authorize(&mut request, None)?;
        let (parts, _) = request.into_parts();
        let request = self.client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(content);
        let response = request.send().await?.error_for_status()?;
        let headers = response.headers().clone();
        Ok((headers, response.bytes().await?))
    }
}
