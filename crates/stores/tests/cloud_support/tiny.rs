//! A server of a few lines with just enough of S3 for the tests: objects in memory, ETags that are numbers, guards, and
//! the write offsets of S3 Express One Zone, which no server that can be installed offers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Appends that one object takes; Amazon's limit is 10,000.
pub const MOST_PARTS: u64 = 20;

#[derive(Default)]
struct Bucket {
    objects: HashMap<String, Stored>,
    writes: u64,
}

struct Stored {
    tag: u64,
    content: Vec<u8>,
    appends: u64,
}

/// What a request depends on.
struct Conditions {
    absent: bool,
    matches: Option<String>,
    offset: Option<usize>,
}

/// Starts it and returns its port. Without `honest` it ignores conditional headers, as some servers do.
pub async fn start(honest: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bucket = Arc::new(Mutex::new(Bucket::default()));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, Arc::clone(&bucket), honest));
        }
    });
    port
}

async fn serve(mut client: TcpStream, bucket: Arc<Mutex<Bucket>>, honest: bool) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line[name.len() + 1..].trim().to_owned())
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    client.read_exact(&mut body).await?;
    let (method, path) = head.lines().next().and_then(|line| line.rsplit_once(' ')?.0.split_once(' ')).unwrap();
    let conditions = Conditions {
        absent: honest && header("if-none-match").is_some(),
        matches: header("if-match").filter(|_| honest),
        offset: header("x-amz-write-offset-bytes").filter(|_| honest).map(|offset| offset.parse().unwrap()),
    };
    let answer = act(&mut bucket.lock().unwrap(), method, path, &conditions, body);
    client.write_all(&answer).await?;
    client.shutdown().await
}

fn act(bucket: &mut Bucket, method: &str, path: &str, conditions: &Conditions, body: Vec<u8>) -> Vec<u8> {
    let found = bucket.objects.get(path);
    match method {
        "PUT" => match conditions.offset {
            Some(offset) => append(bucket, path, offset, &body),
            None => put(bucket, path, conditions, body),
        },
        "GET" | "HEAD" => match found {
            Some(stored) => answer("200 OK", Some(stored.tag), &stored.content, method == "GET"),
            None => refuse("404 Not Found", "NoSuchKey", method == "GET"),
        },
        "DELETE" => {
            bucket.objects.remove(path);
            answer("204 No Content", None, b"", false)
        }
        _ => answer("501 Not Implemented", None, b"", true),
    }
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
    let found = bucket.objects.get_mut(path);
    if found.as_ref().map_or(0, |stored| stored.content.len()) != offset {
        return refuse("400 Bad Request", "InvalidWriteOffset", true);
    }
    if found.as_ref().is_some_and(|stored| stored.appends >= MOST_PARTS) {
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

fn refuse(status: &str, code: &str, with_body: bool) -> Vec<u8> {
    answer(status, None, format!("<Error><Code>{code}</Code></Error>").as_bytes(), with_body)
}

fn answer(status: &str, tag: Option<u64>, body: &[u8], with_body: bool) -> Vec<u8> {
    answer_with(status, tag, "", body, with_body)
}

fn answer_with(status: &str, tag: Option<u64>, more: &str, body: &[u8], with_body: bool) -> Vec<u8> {
    let etag = tag.map_or(String::new(), |tag| format!("etag: \"{tag}\"\r\n"));
    let length = body.len();
    let mut answer =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\n{etag}{more}content-length: {length}\r\n\r\n").into_bytes();
    if with_body {
        answer.extend_from_slice(body);
    }
    answer
}
