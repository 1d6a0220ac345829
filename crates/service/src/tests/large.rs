//! Metadata files that are very large, or unpack to something very large.

use std::io::Write as _;

use bytes::Bytes;
use glidepath_table::files::MOST;

use super::*;
use crate::bodies::LARGE;

fn zipped(bytes: &[u8]) -> Bytes {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap().into()
}

#[tokio::test(start_paused = true)]
async fn large_metadata_is_read_and_too_large_is_refused() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let known = loaded(&server, "t").await;
    server.drop_table(&table("t"), false, None).await.unwrap();
    let padded = |bytes: u64| {
        let mut text = known.json.to_vec();
        text.resize(bytes as usize, b' ');
        text
    };
    let register = async |name: &str, file: Bytes| {
        let location = format!("{}/metadata/{name}.metadata.json", known.metadata.location());
        server.inner.files.write(&location, file).await.unwrap();
        let new = Registration { identifier: table(name), metadata_location: location, overwrite: false };
        server.register_table(new, None).await
    };
    for (name, file) in [("plain", padded(LARGE + 1).into()), ("packed", zipped(&padded(LARGE + 1)))] {
        register(name, file).await.unwrap();
        server.drop_table(&table(name), false, None).await.unwrap();
    }
    for (name, file) in [("plain", padded(MOST + 1).into()), ("packed", zipped(&padded(MOST + 1)))] {
        let error = register(&format!("huge-{name}"), file).await.unwrap_err();
        assert!(error.kind == Kind::Invalid && error.message.contains("134217728 bytes"), "{name}: {error:?}");
    }
}

/// A server must be able to read what it writes.
#[tokio::test(start_paused = true)]
async fn no_commit_makes_metadata_that_cannot_be_read() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let fill = |name: &str| {
        let updates = HashMap::from([(name.to_owned(), "x".repeat(MOST as usize / 2))]);
        TableCommit { requirements: Vec::new(), updates: vec![TableUpdate::SetProperties { updates }], key: None }
    };
    server.commit_table(&table("t"), fill("a")).await.unwrap();
    let error = server.commit_table(&table("t"), fill("b")).await.unwrap_err();
    assert!(error.kind == Kind::Invalid && error.message.contains("remove snapshots"), "{error:?}");
    server.commit_table(&table("t"), set("c", None)).await.unwrap();
}
