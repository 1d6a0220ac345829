//! Objects of a cloud store have plain names: the prefix, a slash and the key, as other clients see them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cloud_support;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cloud_support::{server, tiny};
use glidepath_env::{Guard, Key, ObjectStore, Payload};
use glidepath_stores::{Options, Store, base_location, open_plain};
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;

const KEYS: [&str; 8] = [
    "tables/sales/orders-1a2b/metadata/00001-a.metadata.json",
    "a/b c%d",
    "%20",
    "p=1/a+b&c?d#e",
    "ä/日本🚀",
    "'\"`<>|^[]{}",
    "a\\b",
    "x:y;z,@~*!$()",
];

/// A server that notes the path of each request, once decoded: what HTTP calls the name.
async fn noting() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let noted = Arc::<Mutex<Vec<String>>>::default();
    let noting = Arc::clone(&noted);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let noting = Arc::clone(&noting);
            tokio::spawn(tiny::serve(client, move |request| {
                let path = request.target.split('?').next().unwrap_or_default();
                let name = percent_decode_str(path).decode_utf8().unwrap().into_owned();
                noting.lock().unwrap().push(format!("{} {name}", request.method));
                tiny::answer_with("200 OK", Some(1), "last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n", b"", false)
            }));
        }
    });
    (port, noted)
}

#[tokio::test]
async fn names_are_plain_on_the_wire() {
    let (port, noted) = noting().await;
    let url = format!("s3://bucket/lake/of=ours?endpoint=http://127.0.0.1:{port}");
    assert_eq!(base_location(&url).unwrap(), "s3://bucket/lake/of=ours");
    let Store::Cloud(store) = open_plain(&url, &Options::default()).unwrap() else { panic!("not in a cloud") };
    for name in KEYS {
        let key = Key::new(name);
        store.put(&key, Payload::from(Bytes::from_static(b"x")), Guard::Absent).await.unwrap();
        store.head(&key).await.unwrap();
        store.delete(&key).await.unwrap();
        let wanted = ["PUT", "HEAD", "DELETE"].map(|method| format!("{method} /bucket/lake/of=ours/{name}"));
        assert_eq!(std::mem::take(&mut *noted.lock().unwrap()), wanted);
    }
}

/// On a server: what is written through a store with a prefix is found through one without, under the whole name.
#[tokio::test]
async fn names_are_plain_on_a_server() {
    let Some(url) = server("GLIDEPATH_S3") else { return };
    let mut below = cloud_support::fresh(url.clone(), "plain");
    let prefix = below.path().trim_start_matches('/').to_owned();
    let all = cloud_support::open(&url);
    below.set_path(&format!("{prefix}/lake"));
    let Store::Cloud(store) = open_plain(below.as_str(), &Options::default()).unwrap() else { panic!("no cloud") };
    let mut wanted = KEYS.map(|name| format!("{prefix}/lake/{name}"));
    for name in KEYS {
        store.put(&Key::new(name), Payload::from(Bytes::from(name)), Guard::Absent).await.unwrap();
    }
    wanted.sort();
    let page = all.list(&Key::new(&format!("{prefix}/")), None, 100).await.unwrap();
    assert_eq!(page.objects.iter().map(|listed| listed.key.as_str()).collect::<Vec<_>>(), wanted);
}
