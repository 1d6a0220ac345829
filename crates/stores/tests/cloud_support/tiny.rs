//! A small server with just enough of S3 for the tests: objects in memory, numeric ETags, guards, ranges, and the write
//! offsets of S3 Express One Zone, which no server offers that can be installed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The default maximum number of appends to one object; Amazon's limit is 10,000.
pub const MOST_PARTS: u64 = 20;

pub struct Bucket {
    pub objects: HashMap<String, Stored>,
    writes: u64,
    most_parts: u64,
}

pub struct Stored {
    pub tag: u64,
    pub content: Vec<u8>,
    appends: u64,
}

/// A request as received.
pub struct Request {
    pub method: String,
    /// Path and query, as received.
    pub target: String,
    head: String,
    body: Vec<u8>,
}

impl Bucket {
    /// An empty bucket, whose objects accept this many appends.
    pub fn new(most_parts: u64) -> Self {
        Self { objects: HashMap::new(), writes: 0, most_parts }
    }
}

/// The conditions of a request.
struct Conditions {
    absent: bool,
    matches: Option<String>,
    offset: Option<usize>,
}

/// Starts the server and returns its port. Without `honest` it ignores conditional headers, as some servers do.
pub async fn start(honest: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bucket = Arc::new(Mutex::new(Bucket::new(MOST_PARTS)));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let bucket = Arc::clone(&bucket);
            tokio::spawn(serve(client, move |request| {
                let path = request.target.clone();
                act(&mut bucket.lock().unwrap(), &request, &path, honest)
            }));
        }
    });
    port
}

/// One request for each connection.
pub async fn serve(mut client: TcpStream, answer: impl FnOnce(Request) -> Vec<u8>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let (method, target) = head.lines().next().and_then(|line| line.rsplit_once(' ')?.0.split_once(' ')).unwrap();
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut request = Request { method, target, head, body: Vec::new() };
    request.body = vec![0; request.header("content-length").map_or(0, |length| length.parse().unwrap())];
    client.read_exact(&mut request.body).await?;
    let answer = answer(request);
    client.write_all(&answer).await?;
    client.shutdown().await
}

impl Request {
    /// `name` in lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line[name.len() + 1..].trim().to_owned())
    }
}

/// Applies a request to the object under `path`, and returns the answer.
pub fn act(bucket: &mut Bucket, request: &Request, path: &str, honest: bool) -> Vec<u8> {
    let conditions = Conditions {
        absent: honest && request.header("if-none-match").is_some(),
        matches: request.header("if-match").filter(|_| honest),
        offset: request.header("x-amz-write-offset-bytes").filter(|_| honest).map(|offset| offset.parse().unwrap()),
    };
    let found = bucket.objects.get(path);
    let read = request.method == "GET";
    match request.method.as_str() {
        "PUT" => match conditions.offset {
            Some(offset) => append(bucket, path, offset, &request.body),
            None => put(bucket, path, &conditions, request.body.clone()),
        },
        "GET" | "HEAD" => match (found, request.header("range")) {
            (Some(stored), Some(range)) => ranged(stored, &range),
            (Some(stored), None) => answer("200 OK", Some(stored.tag), &stored.content, read),
            (None, _) => refuse("404 Not Found", "NoSuchKey", read),
        },
        "DELETE" => {
            bucket.objects.remove(path);
            answer("204 No Content", None, b"", false)
        }
        _ => answer("501 Not Implemented", None, b"", true),
    }
}

fn ranged(stored: &Stored, range: &str) -> Vec<u8> {
    let (first, last) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')).unwrap();
    let size = stored.content.len();
    let Range { start, end } = first.parse().unwrap()..(last.parse::<usize>().unwrap() + 1).min(size);
    if start >= size {
        return refuse("416 Range Not Satisfiable", "InvalidRange", true);
    }
    let range = format!("content-range: bytes {start}-{}/{size}\r\n", end - 1);
    answer_with("206 Partial Content", Some(stored.tag), &range, &stored.content[start..end], true)
}

fn put(bucket: &mut Bucket, path: &str, conditions: &Conditions, content: Vec<u8>) -> Vec<u8> {
    let found = bucket.objects.get(path);
    let held = match &conditions.matches {
        _ if conditions.absent => found.is_none(),
        Some(tag) => found.is_some_and(|stored| format!("\"{}\"", stored.tag) == *tag),
        None => true,
    };
    if !held {
        return refuse("412 Precondition Failed", "PreconditionFailed", true);
    }
    bucket.writes += 1;
    bucket.objects.insert(path.to_owned(), Stored { tag: bucket.writes, content, appends: 0 });
    answer("200 OK", Some(bucket.writes), b"", true)
}

/// As Amazon documents `PutObject` with a write offset.
fn append(bucket: &mut Bucket, path: &str, offset: usize, tail: &[u8]) -> Vec<u8> {
    let found = bucket.objects.get(path);
    if found.as_ref().map_or(0, |stored| stored.content.len()) != offset {
        return refuse("400 Bad Request", "InvalidWriteOffset", true);
    }
    if found.as_ref().is_some_and(|stored| stored.appends >= bucket.most_parts) {
        return refuse("400 Bad Request", "TooManyParts", true);
    }
    bucket.writes += 1;
    let stored = bucket.objects.entry(path.to_owned()).or_insert(Stored { tag: 0, content: Vec::new(), appends: 0 });
    stored.content.extend_from_slice(tail);
    stored.tag = bucket.writes;
    stored.appends += 1;
    let size = format!("x-amz-object-size: {}\r\n", stored.content.len());
    answer_with("200 OK", Some(stored.tag), if offset > 0 { &size } else { "" }, b"", true)
}

pub fn refuse(status: &str, code: &str, with_body: bool) -> Vec<u8> {
    answer(status, None, format!("<Error><Code>{code}</Code></Error>").as_bytes(), with_body)
}

fn answer(status: &str, tag: Option<u64>, body: &[u8], with_body: bool) -> Vec<u8> {
    answer_with(status, tag, "", body, with_body)
}

/// `more` contains whole header lines.
pub fn answer_with(status: &str, tag: Option<u64>, more: &str, body: &[u8], with_body: bool) -> Vec<u8> {
    let etag = tag.map_or(String::new(), |tag| format!("etag: \"{tag}\"\r\n"));
    let length = body.len();
    let mut answer =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\n{etag}{more}content-length: {length}\r\n\r\n").into_bytes();
    if with_body {
        answer.extend_from_slice(body);
    }
    answer
}
