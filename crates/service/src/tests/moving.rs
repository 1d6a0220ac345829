//! Tables and views that move, and folders that several requests name at once.

use super::*;

fn to(location: &str) -> TableCommit {
    let updates = vec![TableUpdate::SetLocation { location: location.to_owned() }];
    TableCommit { requirements: Vec::new(), updates, key: None }
}

fn at(name: &str, location: &str) -> NewTable {
    NewTable { location: Some(location.to_owned()), ..new(name) }
}

fn metadata_in(folder: &str) -> TableCommit {
    let updates = HashMap::from([("write.metadata.path".to_owned(), folder.to_owned())]);
    TableCommit { requirements: Vec::new(), updates: vec![TableUpdate::SetProperties { updates }], key: None }
}

fn registration(name: &str, file: &str) -> Registration {
    Registration { identifier: table(name), metadata_location: file.to_owned(), overwrite: false }
}

fn worlds() -> [Protocol; 2] {
    [Protocol::ManifestChain, Protocol::Tickets]
}

#[tokio::test(start_paused = true)]
async fn a_table_does_not_move_to_the_folder_of_another() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t", "u"]).await;
        let other = loaded(&server, "u").await.metadata.location().to_owned();
        for place in [other.clone(), format!("{other}/data"), "s3://b/lake/n".to_owned()] {
            assert_eq!(kind(server.commit_table(&table("t"), to(&place)).await), Kind::Invalid, "{place}");
            let both = vec![(table("t"), to(&place)), (table("u"), set("a", None))];
            assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Invalid, "{place}");
        }
        // Those that wait beside it are done.
        let (moved, set) = futures_util::future::join(
            server.commit_table(&table("t"), to(&other)),
            server.commit_table(&table("t"), set("b", None)),
        )
        .await;
        assert!(set.is_ok() && moved.is_err());
        // Inside of its own it may, and there and back.
        let own = loaded(&server, "t").await.metadata.location().to_owned();
        for place in [format!("{own}/inner"), "s3://b/lake/free".to_owned(), own] {
            assert_eq!(server.commit_table(&table("t"), to(&place)).await.unwrap().metadata.location(), place);
        }
    }
}

/// Its snapshots may name files in each folder that it has had, wherever its metadata is.
#[tokio::test(start_paused = true)]
async fn a_table_is_found_in_all_its_folders() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t", "u"]).await;
        let t = table("t");
        let first = loaded(&server, "t").await.metadata.location().to_owned();
        server.commit_table(&t, metadata_in("s3://b/lake/meta")).await.unwrap();
        let (second, third) = ("s3://b/lake/second", "s3://b/lake/third");
        let moved = server.commit_table(&t, to(second)).await.unwrap();
        let both = vec![(t.clone(), to(third)), (table("u"), set("a", None))];
        server.commit_transaction(both, None).await.unwrap();
        server.rename_table(&t, &table("v"), None).await.unwrap();
        for place in [first.as_str(), second, third] {
            assert_eq!(kind(server.create_table(at("w", place), None).await), Kind::Invalid, "{place}");
            assert_eq!(kind(server.commit_table(&table("u"), to(place)).await), Kind::Invalid, "{place}");
        }
        // Nor do its files become another table's by its old metadata.
        let old = moved.location.clone();
        assert_eq!(kind(server.register_table(registration("w", &old), None).await), Kind::Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_registered_is_found_where_its_metadata_names_files() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let t = table("t");
    let before = loaded(&server, "t").await;
    let first = before.metadata.location().to_owned();
    let appended = server.commit_table(&t, append(&before.metadata, 5)).await.unwrap();
    let moved = server.commit_table(&t, to("s3://b/lake/second")).await.unwrap();
    server.drop_table(&t, false, None).await.unwrap();
    server.register_table(registration("t", &moved.location), None).await.unwrap();
    assert_eq!(kind(server.create_table(at("u", &first), None).await), Kind::Invalid);
    assert_eq!(kind(server.register_table(registration("u", &appended.location), None).await), Kind::Invalid);
    // In the other order too.
    server.drop_table(&t, false, None).await.unwrap();
    server.register_table(registration("u", &appended.location), None).await.unwrap();
    assert_eq!(kind(server.register_table(registration("t", &moved.location), None).await), Kind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_folder_whose_purge_is_noted_is_nobodys() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let place = "s3://b/lake/place".to_owned();
        server.create_table(at("u", &place), None).await.unwrap();
        server.drop_table(&table("u"), true, None).await.unwrap();
        server.commit_table(&table("t"), metadata_in("s3://b/lake/meta")).await.unwrap();
        let inner = format!("{place}/x");
        for place in [&place, &inner] {
            assert_eq!(kind(server.commit_table(&table("t"), to(place)).await), Kind::Unavailable);
            assert_eq!(kind(server.stage_table(at("v", place)).await), Kind::Unavailable);
            assert_eq!(kind(server.create_table(at("v", place), None).await), Kind::Unavailable);
        }
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.unwrap(), 1);
        server.stage_table(at("v", &place)).await.unwrap();
        server.commit_table(&table("t"), to(&place)).await.unwrap();
    }
}

/// Of requests that name one folder, or folders one of which is in the other, at most one is done at a time.
#[tokio::test(start_paused = true)]
async fn a_folder_is_given_to_one_table() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let (outer, inner) = ("s3://b/lake/x", "s3://b/lake/x/y");
        for (first, second) in [(outer, outer), (outer, inner), (inner, outer)] {
            let held = server.inner.claim(&[first]).await.unwrap();
            let unavailable = [
                kind(server.create_table(at("a", second), None).await),
                kind(server.commit_table(&table("t"), to(second)).await),
                kind(server.commit_transaction(vec![(table("t"), to(second)), (table("a"), creation(5))], None).await),
                kind(server.inner.claim(&[second]).await),
            ];
            assert_eq!(unavailable, [Kind::Unavailable; 4], "{first} {second}");
            // Whoever made it died, or sleeps.
            world.pass(61 * 1000);
            server.create_table(at("a", second), None).await.unwrap();
            assert!(server.inner.committer.commit(held.ends()).await.is_err(), "{first} {second}");
            server.drop_table(&table("a"), false, None).await.unwrap();
        }
        let both = futures_util::future::join(
            server.create_table(at("a", outer), None),
            server.create_table(at("b", inner), None),
        );
        let (one, other) = both.await;
        assert!(one.is_err() || other.is_err());
        // Nothing is left of what was not done.
        let left = server.inner.claim(&["s3://b/lake"]).await.unwrap();
        assert_eq!(left.ends().len(), 2);
    }
}

/// Nothing but the table's own record says that a manifest in its new folder names data in the first.
#[tokio::test(start_paused = true)]
async fn a_table_keeps_its_former_folders_for_ever() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let t = table("t");
        let before = loaded(&server, "t").await;
        let (first, old) = (before.metadata.location().to_owned(), before.location.clone());
        let mut moving = to("s3://b/lake/second");
        let forged = HashMap::from([(crate::placing::FORMER.to_owned(), "[]".to_owned())]);
        moving.updates.push(TableUpdate::SetProperties { updates: forged });
        server.commit_table(&t, moving).await.unwrap();
        let short = [("write.metadata.previous-versions-max".to_owned(), "1".to_owned())];
        for updates in [
            vec![TableUpdate::SetProperties { updates: short.into() }],
            vec![TableUpdate::RemoveProperties { removals: vec![crate::placing::FORMER.to_owned()] }],
            set("a", None).updates,
        ] {
            server.commit_table(&t, TableCommit { updates, ..set("", None) }).await.unwrap();
        }
        let now = loaded(&server, "t").await.location.clone();
        let again = Registration { overwrite: true, ..registration("t", &now) };
        server.register_table(again, None).await.unwrap();
        assert_eq!(kind(server.register_table(registration("u", &old), None).await), Kind::Invalid);
        server.drop_table(&t, false, None).await.unwrap();
        server.register_table(registration("v", &now), None).await.unwrap();
        assert_eq!(kind(server.create_table(at("u", &first), None).await), Kind::Invalid);
        // A new table has no past, whatever its client copies.
        let properties = loaded(&server, "v").await.metadata.properties().clone();
        let copied = server.create_table(NewTable { properties, ..new("copy") }, None).await.unwrap();
        assert!(!copied.metadata.properties().contains_key(crate::placing::FORMER));
    }
}

#[tokio::test(start_paused = true)]
async fn what_names_files_in_a_folder_that_is_purged_is_not_registered() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let (t, outer, inner) = (table("t"), "s3://b/lake/outer", "s3://b/lake/outer/t");
    server.create_table(at("t", outer), None).await.unwrap();
    let moved = server.commit_table(&t, to(inner)).await.unwrap();
    let appended = server.commit_table(&t, append(&moved.metadata, 5)).await.unwrap();
    let back = server.commit_table(&t, to(outer)).await.unwrap();
    server.drop_table(&t, false, None).await.unwrap();
    server.register_table(registration("t", &appended.location), None).await.unwrap();
    server.drop_table(&t, true, None).await.unwrap();
    assert_eq!(kind(server.register_table(registration("b", &back.location), None).await), Kind::Unavailable);
}

/// A server that dies while somebody names the folder of a table.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_left_behind_holds_up_no_rename() {
    let world = World::of(Protocol::Tickets).await;
    let server = with(&world, &["t"]).await;
    let location = loaded(&server, "t").await.metadata.location().to_owned();
    let left = server.inner.claim(&[&location]).await.unwrap();
    assert_eq!(kind(server.rename_table(&table("t"), &table("u"), None).await), Kind::Unavailable);
    world.pass(61 * 1000);
    server.rename_table(&table("t"), &table("u"), None).await.unwrap();
    assert!(server.inner.committer.commit(left.ends()).await.is_err());
}
