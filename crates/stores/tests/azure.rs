//! The contract, on a real server.

mod cloud_support;

use bytes::Bytes;
use cloud_support::{Deviation, conforms, fresh, open, server};
use glidepath_env::{Guard, Key, ObjectStore, Payload};

const DEVIATIONS: &[Deviation] = &[
    ("append-after-put", "what was put is a block blob, and only an append blob can be appended to"),
    ("dots-and-slashes", "the client library changes such keys, so the store refuses them"),
    ("odd-keys", "Azure treats a backslash as a slash, so the store refuses it; all its other keys are tried below"),
];

#[tokio::test]
async fn keeps_the_contract() {
    let Some(url) = server("GLIDEPATH_AZURE") else { return };
    conforms(&fresh(url, "suite"), DEVIATIONS).await;
}

#[tokio::test]
async fn odd_keys_without_backslashes() {
    let Some(url) = server("GLIDEPATH_AZURE") else { return };
    let store = open(&fresh(url, "odd keys 50%"));
    let mut keys = ["a b", "a+b", "a%20b", "%", "a&b=c?d#e", "é", "🚀", "'\"`", "<{[(~", "a/b.", "*:;,@"].map(Key::new);
    for key in &keys {
        store.put(key, Payload::from(Bytes::from(key.to_string())), Guard::Absent).await.unwrap();
        assert_eq!(store.get(key).await.unwrap().payload.bytes, key.as_str());
    }
    let listed = store.list(&Key::new(""), None, 100).await.unwrap().objects;
    keys.sort();
    assert_eq!(listed.into_iter().map(|listed| listed.key).collect::<Vec<_>>(), keys);
}
