//! A server of a few lines with just enough of S3 for the tests: objects in memory, ETags that are numbers, guards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Default)]
struct Bucket {
    objects: HashMap<String, (u64, Vec<u8>)>,
    writes: u64,
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
    let guard = (header("if-none-match").is_some(), header("if-match"));
    let answer = act(&mut bucket.lock().unwrap(), method, path, if honest { guard } else { (false, None) }, body);
    client.write_all(&answer).await?;
    client.shutdown().await
}

fn act(bucket: &mut Bucket, method: &str, path: &str, guard: (bool, Option<String>), body: Vec<u8>) -> Vec<u8> {
    let found = bucket.objects.get(path);
    match method {
        "PUT" => {
            let held = match &guard {
                (true, _) => found.is_none(),
                (_, Some(tag)) => found.is_some_and(|(current, _)| format!("\"{current}\"") == *tag),
                _ => true,
            };
            if !held {
                return answer(
                    "412 Precondition Failed",
                    None,
                    b"<Error><Code>PreconditionFailed</Code></Error>",
                    true,
                );
            }
            bucket.writes += 1;
            bucket.objects.insert(path.to_owned(), (bucket.writes, body));
            answer("200 OK", Some(bucket.writes), b"", true)
        }
        "GET" | "HEAD" => match found {
            Some((tag, content)) => answer("200 OK", Some(*tag), content, method == "GET"),
            None => answer("404 Not Found", None, b"<Error><Code>NoSuchKey</Code></Error>", method == "GET"),
        },
        "DELETE" => {
            bucket.objects.remove(path);
            answer("204 No Content", None, b"", false)
        }
        _ => answer("501 Not Implemented", None, b"", true),
    }
}

fn answer(status: &str, tag: Option<u64>, body: &[u8], with_body: bool) -> Vec<u8> {
    let etag = tag.map_or(String::new(), |tag| format!("etag: \"{tag}\"\r\n"));
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{etag}content-length: {}\r\n\r\n", body.len());
    let mut answer = head.into_bytes();
    if with_body {
        answer.extend_from_slice(body);
    }
    answer
}
