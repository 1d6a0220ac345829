//! The contract, on a real server.

mod cloud_support;

use bytes::Bytes;
use cloud_support::{Deviation, conforms, fresh, open, server};
use glidepath_env::{Guard, Key, ObjectStore, Payload};

const DEVIATIONS: &[Deviation] = &[
    ("dots-and-slashes", "the client library changes such keys, so the store refuses them"),
    ("key-within-key", "versitygw keeps an object as a file, which cannot be a directory too, as on S3 it can"),
];

#[tokio::test]
async fn keeps_the_contract() {
    let Some(url) = server("GLIDEPATH_S3") else { return };
    conforms(&fresh(url, "suite"), DEVIATIONS).await;
}

#[tokio::test]
async fn listings_of_keys_that_files_can_have() {
    let Some(url) = server("GLIDEPATH_S3") else { return };
    let store = open(&fresh(url, "list"));
    let names = ["A", "a!b", "a-b/x", "a/b", "a/c/d", "a0", "aa", "b", "ba/x"];
    for name in names {
        store.put(&Key::new(name), Payload::from(Bytes::from_static(b"x")), Guard::Absent).await.unwrap();
    }
    for prefix in ["", "a", "a/", "a-", "b", "c"] {
        for after in [None, Some("A"), Some("a!b"), Some("a/"), Some("a/b"), Some("a/zz"), Some("zz")] {
            for limit in [1, 2, 5, 100] {
                let mut found = Vec::new();
                let mut last = after.map(Key::new);
                loop {
                    let page = store.list(&Key::new(prefix), last.as_ref(), limit).await.unwrap();
                    assert!(page.objects.len() <= limit);
                    found.extend(page.objects.iter().map(|listed| listed.key.to_string()));
                    if !page.more || page.objects.is_empty() {
                        break;
                    }
                    last = page.objects.last().map(|listed| listed.key.clone());
                }
                let wanted = names.iter().filter(|name| name.starts_with(prefix) && after.is_none_or(|a| **name > a));
                let wanted: Vec<_> = wanted.map(ToString::to_string).collect();
                assert_eq!(found, wanted, "prefix {prefix:?} after {after:?} limit {limit}");
            }
        }
    }
}
