//! An answer of a cloud that has fewer bytes than it says, or another range, is no object.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use glidepath_env::{Key, ObjectStore, ReadError};
use glidepath_stores::{Options, open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The port of a server that gives every request this answer.
async fn server(answer: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.unwrap());
            }
            client.write_all(answer.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn a_part_is_not_taken_for_more() {
    let head = "ETag: \"x\"\r\nLast-Modified: Tue, 01 Dec 2026 02:00:00 GMT\r\nConnection: close\r\n";
    // What the answer says, its body, and whether ten bytes were asked for and are there.
    let answers = [
        ("206 Partial Content", "Content-Range: bytes 0-9/10\r\nContent-Length: 4", "0123", false),
        ("206 Partial Content", "Content-Range: bytes 0-3/10\r\nContent-Length: 4", "0123", false),
        ("206 Partial Content", "Content-Range: bytes 0-9/10\r\nContent-Length: 10", "0123456789", true),
        ("200 OK", "Content-Length: 10", "0123456789", false),
    ];
    for (status, range, content, good) in answers {
        let port = server(format!("HTTP/1.1 {status}\r\n{head}{range}\r\n\r\n{content}")).await;
        let url = format!("s3://b?endpoint=http://127.0.0.1:{port}");
        let store = open(&url, &Options { repeats: 0, ..Options::default() }).unwrap();
        match store.get_range(&Key::new("k"), 0..10).await {
            Ok(object) => assert!(good && object.payload.bytes == "0123456789", "{status} {range}: {object:?}"),
            Err(error) => assert!(!good && matches!(error, ReadError::Failed(_)), "{status} {range}: {error}"),
        }
    }
}
