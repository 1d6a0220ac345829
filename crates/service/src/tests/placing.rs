//! Locations that clients name: the folder of another table is nobody's.

use super::*;

fn at(name: &str, location: &str) -> NewTable {
    NewTable { location: Some(location.to_owned()), ..new(name) }
}

fn lance(name: &str, location: &str) -> NewLanceTable {
    NewLanceTable { identifier: table(name), location: Some(location.to_owned()), properties: Default::default() }
}

/// Creates a table in a folder by its first commit.
fn creation_at(uuid: u128, location: &str) -> TableCommit {
    let mut commit = creation(uuid);
    commit.updates.push(TableUpdate::SetLocation { location: location.to_owned() });
    commit
}

/// A table whose creator may no longer see it.
async fn with_hidden(world: &World) -> (Tested, String) {
    let server = with(world, &["pay", "other"]).await;
    let space = Namespace { parts: vec!["secret".to_owned()], properties: Default::default() };
    server.create_namespace(&space, None).await.unwrap();
    let location = loaded(&server, "pay").await.metadata.location().to_owned();
    server.rename_table(&table("pay"), &hidden(), None).await.unwrap();
    (server, location)
}

fn hidden() -> Identifier {
    Identifier { namespace: vec!["secret".to_owned()], name: "pay".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn the_folder_of_another_table_is_refused() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let (server, location) = with_hidden(&world).await;
        let inside = format!("{location}/data/x");
        for place in [location.as_str(), &inside, "s3://b/lake/n", &format!("{location}/")] {
            // Also under its old name.
            for name in ["mine", "pay"] {
                assert_eq!(kind(server.create_table(at(name, place), None).await), Kind::Invalid, "{place}");
                assert_eq!(kind(server.stage_table(at(name, place)).await), Kind::Invalid);
                assert_eq!(kind(server.commit_table(&table(name), creation_at(7, place)).await), Kind::Invalid);
                let both = vec![(table(name), creation_at(7, place)), (table("other"), set("a", None))];
                assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Invalid);
                assert_eq!(kind(server.declare_lance(lance(name, place)).await), Kind::Invalid);
            }
        }
        let error = server.create_table(at("mine", &location), None).await.unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
        // So its purge finds it alone.
        server.drop_table(&hidden(), true, None).await.unwrap();
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.unwrap(), 1);
        assert!(server.inner.files.list(&location, None, 1).await.unwrap().is_empty());
        server.create_table(at("mine", &location), None).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_folder_of_a_dropped_table_can_be_had_again() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let location = loaded(&server, "t").await.metadata.location().to_owned();
    server.drop_table(&table("t"), false, None).await.unwrap();
    server.create_table(at("t", &location), None).await.unwrap();
    assert_eq!(kind(server.create_table(at("t", &location), None).await), Kind::Exists, "as without a location");
    server.drop_table(&table("t"), false, None).await.unwrap();
    server.commit_table(&table("t"), creation_at(7, &location)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_arrives_again_is_answered_as_before() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let location = server.stage_table(new("t")).await.unwrap().location().to_owned();
    // What a client writes before it creates the table.
    for file in ["data/a.parquet", "metadata/snap-5.avro"] {
        server.inner.files.write(&format!("{location}/{file}"), "x".into()).await.unwrap();
    }
    let (t, commit) = (table("t"), creation_at(7, &location));
    let made = server.commit_table(&t, commit.clone()).await.unwrap();
    assert_eq!(made.metadata.location(), location);
    assert_eq!(server.commit_table(&t, commit.clone()).await.unwrap().location, made.location);
    let asked = at("u", "s3://b/lake/u");
    let first = server.create_table(asked.clone(), key("k", "r").as_ref()).await.unwrap();

    // With other names, nothing tells that it was done but the key, or the files of the client.
    server.rename_table(&t, &table("v"), None).await.unwrap();
    server.rename_table(&table("u"), &table("w"), None).await.unwrap();
    let again = server.create_table(asked.clone(), key("k", "r").as_ref()).await.unwrap();
    assert_eq!(again.location, first.location);
    assert_eq!(kind(server.create_table(asked, None).await), Kind::Invalid);
    assert_eq!(kind(server.commit_table(&t, commit.clone()).await), Kind::Invalid, "it brought no files");
    let with_files = TableCommit {
        updates: commit.updates.into_iter().chain(append(&made.metadata, 5).updates).collect(),
        ..creation(7)
    };
    assert_eq!(kind(server.commit_table(&t, with_files).await), Kind::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_table_of_lance_keeps_its_folder_for_itself() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let declared = NewLanceTable { location: None, ..lance("l", "") };
        let location = server.declare_lance(declared).await.unwrap().location;
        for place in [location.clone(), loaded(&server, "t").await.metadata.location().to_owned()] {
            server.inner.files.write(&format!("{place}/_versions/1.manifest"), "m".into()).await.unwrap();
            for asked in [lance("twin", &place), lance("twin", &format!("{place}/tree/x"))] {
                assert_eq!(kind(server.declare_lance(asked.clone()).await), Kind::Invalid, "{place}");
                assert_eq!(kind(server.register_lance(asked).await), Kind::Invalid, "{place}");
            }
            assert_eq!(kind(server.create_table(at("twin", &place), None).await), Kind::Invalid);
        }
        assert_eq!(kind(server.register_lance(lance("l", &location)).await), Kind::Exists);
        server.deregister_lance(&table("l")).await.unwrap();
        server.register_lance(lance("twin", &location)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_no_store_takes_are_refused() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    for place in [format!("s3://b/lake/{}", "a".repeat(256)), format!("s3://b/lake{}", "/aaaaaaaaa".repeat(95))] {
        assert_eq!(kind(server.create_table(at("t", &place), None).await), Kind::Invalid);
        assert_eq!(kind(server.declare_lance(lance("t", &place)).await), Kind::Invalid);
    }
}
