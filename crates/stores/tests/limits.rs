//! The limit on requests in flight holds, however many are made at the same time. Counted by a server.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cloud_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cloud_support::open_with;
use glidepath_env::{Guard, Key, ObjectStore, Payload};
use glidepath_stores::Options;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

/// The server answers no request until the permitted number is in flight; if that does not happen, the test fails after
/// this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers every request with 403 after the permitted number has been in flight; then waits a little, so that an extra
/// one could arrive.
async fn serve(mut client: TcpStream, gauge: Arc<Gauge>, permitted: usize) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let now = gauge.now.fetch_add(1, Ordering::SeqCst) + 1;
    gauge.most.fetch_max(now, Ordering::SeqCst);
    gauge.all.fetch_add(1, Ordering::SeqCst);
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    client.read_exact(&mut body).await?;
    let crowd = async {
        while gauge.most.load(Ordering::SeqCst) < permitted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // A request that never arrives makes the test fail.
    let _ = tokio::time::timeout(PATIENCE, crowd).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Counted down before the client can know of the answer.
    gauge.now.fetch_sub(1, Ordering::SeqCst);
    client.write_all(b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await?;
    client.shutdown().await
}

#[tokio::test]
async fn no_more_requests_are_in_flight_than_permitted() {
    for permitted in [1, 7] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let gauge = Arc::new(Gauge::default());
        let counting = Arc::clone(&gauge);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&counting), permitted));
            }
        });
        let url = Url::parse(&format!("s3://bucket?endpoint=http://127.0.0.1:{port}&append=true")).unwrap();
        let store = open_with(&url, &Options { requests_in_flight: permitted, ..Options::default() });
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..10 {
            // The limit is for all clones together.
            let store = store.clone();
            let key = Key::new(&format!("key-{number}"));
            let payload = || Payload::from(Bytes::from_static(b"x"));
            tasks.spawn(async move {
                let reads = async { tokio::join!(store.get(&key), store.head(&key), store.get_range(&key, 0..1)) };
                let writes = async {
                    tokio::join!(
                        store.put(&key, payload(), Guard::Absent),
                        store.append(&key, payload(), 0),
                        store.delete(&key)
                    )
                };
                let _ = tokio::join!(reads, writes, store.list(&key, None, 1));
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(gauge.most.load(Ordering::SeqCst), permitted);
        assert_eq!(gauge.all.load(Ordering::SeqCst), 70);
    }
}
