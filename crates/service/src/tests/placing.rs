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
        assert_eq!(server.run_purges().await.ended, 1);
        assert!(server.inner.files.list(&location, None, 1).await.unwrap().is_empty());
        // Only under the name for which the server made it up.
        assert_eq!(kind(server.create_table(at("mine", &location), None).await), Kind::Invalid);
        server.create_table(at("pay", &location), None).await.unwrap();
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

/// A folder that the server made up is free only if nobody can be there without a trace.
#[tokio::test(start_paused = true)]
async fn a_folder_that_seems_made_up_may_be_a_tables() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let elsewhere = HashMap::from([("write.metadata.path".to_owned(), "s3://b/lake/meta".to_owned())]);
        let made = server.create_table(NewTable { properties: elsewhere.clone(), ..new("x") }, None).await.unwrap();
        server.rename_table(&table("x"), &table("y"), None).await.unwrap();
        assert_eq!(kind(server.create_table(at("x", made.metadata.location()), None).await), Kind::Invalid);
        // One whose metadata went elsewhere later.
        let made = server.create_table(new("z"), None).await.unwrap();
        let place = made.metadata.location().to_owned();
        let updates = vec![TableUpdate::SetProperties { updates: elsewhere }];
        server.commit_table(&table("z"), TableCommit { updates, ..set("", None) }).await.unwrap();
        server.inner.files.delete(&made.location).await.unwrap();
        server.rename_table(&table("z"), &table("zz"), None).await.unwrap();
        assert_eq!(kind(server.create_table(at("z", &place), None).await), Kind::Invalid);
        // Nobody else goes to such a folder.
        let seems = "s3://b/lake/n/k-0123456789abcdef";
        assert_eq!(kind(server.declare_lance(lance("l", seems)).await), Kind::Invalid);
        let mut moves = set("", None);
        moves.updates = vec![TableUpdate::SetLocation { location: seems.to_owned() }];
        assert_eq!(kind(server.commit_table(&table("t"), moves).await), Kind::Invalid);
        // Nor to that of its namespace.
        assert_eq!(kind(server.create_table(at("k", "s3://b/lake/n"), None).await), Kind::Invalid);
        assert_eq!(kind(server.declare_lance(lance("l", "s3://b/lake/n")).await), Kind::Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn tables_that_keep_their_metadata_in_one_folder_can_be_registered_again() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let properties = HashMap::from([("write.metadata.path".to_owned(), "s3://b/lake/meta".to_owned())]);
    for name in ["s1", "s2"] {
        server.create_table(NewTable { properties: properties.clone(), ..new(name) }, None).await.unwrap();
        server.commit_table(&table(name), set("a", None)).await.unwrap();
    }
    let file = loaded(&server, "s1").await.location.clone();
    server.drop_table(&table("s1"), false, None).await.unwrap();
    let again = Registration { identifier: table("s1"), metadata_location: file, overwrite: false };
    server.register_table(again, None).await.unwrap();
}

/// Others that wait beside it are done, and one folder is not given to two tables of a commit.
#[tokio::test(start_paused = true)]
async fn a_move_that_is_refused_holds_up_no_other_commit() {
    let world = World::new().await;
    let server = with(&world, &["t", "u"]).await;
    server.create_table(at("gone", "s3://b/lake/gone"), None).await.unwrap();
    server.drop_table(&table("gone"), true, None).await.unwrap();
    let to = |place: &str| {
        let updates = vec![TableUpdate::SetLocation { location: place.to_owned() }];
        TableCommit { updates, ..set("", None) }
    };
    let t = table("t");
    let answers = futures_util::future::join3(
        server.commit_table(&t, set("a", None)),
        server.commit_table(&t, to("s3://b/lake/gone")),
        server.commit_table(&t, set("b", None)),
    )
    .await;
    assert!(answers.0.is_ok() && answers.2.is_ok());
    assert_eq!(kind(answers.1), Kind::Unavailable);
    for (one, other) in [("x", "x"), ("x", "x/in"), ("x/in", "x")] {
        let [one, other] = [one, other].map(|place| to(&format!("s3://b/lake/{place}")));
        let both = vec![(table("t"), one), (table("u"), other)];
        assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Invalid);
    }
}

/// The folder that a server made up for a table is claimed by who names it, and not by who creates that table.
#[tokio::test(start_paused = true)]
async fn no_table_is_created_in_a_folder_that_another_request_claims() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &[]).await;
        let place = "s3://b/lake/n/q-0123456789abcdef";
        let claim = server.inner.claim(&[place]).await.unwrap();
        assert_eq!(kind(server.commit_table(&table("q"), creation_at(7, place)).await), Kind::Unavailable);
        let both = vec![(table("q"), creation_at(7, place)), (table("r"), creation(8))];
        assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Unavailable);
        server.inner.release(&claim).await;
        server.commit_table(&table("q"), creation_at(7, place)).await.unwrap();
        // Nobody else names it, and nobody comes inside of one.
        let other = "s3://b/lake/n/p-0123456789abcdef";
        assert_eq!(kind(server.create_table(at("named", other), None).await), Kind::Invalid);
        assert_eq!(kind(server.commit_table(&table("named"), creation_at(9, other)).await), Kind::Invalid);
        let inner = "s3://b/lake/n/p-0123456789abcdef/inner";
        assert_eq!(kind(server.declare_lance(lance("l", inner)).await), Kind::Invalid);
        assert_eq!(kind(server.create_table(at("named", inner), None).await), Kind::Invalid);
    }
}

/// Their tables get folders in one folder, and none of two with one name that of the other.
#[tokio::test(start_paused = true)]
async fn tables_of_two_namespaces_with_one_folder_are_apart() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let mut places = Vec::new();
    for name in ["one", "two"] {
        let properties = [("location".to_owned(), "s3://b/lake/shared".to_owned())].into();
        server.create_namespace(&Namespace { parts: vec![name.to_owned()], properties }, None).await.unwrap();
        places.push(Identifier { namespace: vec![name.to_owned()], name: "q".to_owned() });
    }
    let (one, two) = (&places[0], &places[1]);
    let place = "s3://b/lake/shared/q-0123456789abcdef";
    let folder = server.folder_of(two, Some(place.to_owned())).await.unwrap();
    let own = server.inner.claim_unused(&folder, &two.catalog_name().unwrap()).await.unwrap();
    server.inner.release(&own.unwrap()).await;
    let claim = server.inner.claim(&[place]).await.unwrap();
    assert_eq!(kind(server.commit_table(one, creation_at(7, place)).await), Kind::Unavailable);
    server.inner.release(&claim).await;
    server.commit_table(one, creation_at(7, place)).await.unwrap();
    assert_eq!(kind(server.commit_table(two, creation_at(8, place)).await), Kind::Invalid);
}

/// A name that is cut, in a namespace whose folder looks like a table's: the commit of a staged creation is done.
#[tokio::test(start_paused = true)]
async fn a_staged_creation_is_done_where_the_server_placed_it() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let parts = vec!["pr-0123456789abcdef".to_owned()];
    server.create_namespace(&Namespace { parts: parts.clone(), properties: Default::default() }, None).await.unwrap();
    for (uuid, name) in [(7, "t".to_owned()), (8, "t".repeat(230))] {
        let identifier = Identifier { namespace: parts.clone(), name };
        let staged = server.stage_table(NewTable { identifier: identifier.clone(), ..new("") }).await.unwrap();
        let made = server.commit_table(&identifier, creation_at(uuid, staged.location())).await.unwrap();
        assert_eq!(made.metadata.location(), staged.location());
    }
    let identifier = Identifier { namespace: parts, name: "mine".to_owned() };
    let named = NewTable { identifier, ..at("", "s3://b/lake/pr-0123456789abcdef/mine") };
    server.create_table(named, None).await.unwrap();
}

/// Whoever may write the files of a table can make its metadata name another one's folder.
#[tokio::test(start_paused = true)]
async fn no_commit_writes_where_only_the_metadata_file_says() {
    let world = World::new().await;
    let server = with(&world, &["t", "u"]).await;
    let spaces = ["a"].map(|name| Namespace { parts: vec![name.to_owned()], properties: Default::default() });
    server.create_namespace(&spaces[0], None).await.unwrap();
    let mine = Identifier { namespace: vec!["a".to_owned()], name: "mine".to_owned() };
    let there = server.create_table(NewTable { identifier: mine.clone(), ..new("mine") }, None).await.unwrap();
    let theirs = loaded(&server, "t").await.metadata.location().to_owned();
    let edited = String::from_utf8(there.json.to_vec()).unwrap().replace(there.metadata.location(), &theirs);
    server.inner.files.delete(&there.location).await.unwrap();
    server.inner.files.write(&there.location, edited.into()).await.unwrap();

    let mut other = world.server().await;
    let own_folders = Settings { own_folders: true, ..other.inner.settings.clone() };
    std::sync::Arc::get_mut(&mut other.inner).unwrap().settings = own_folders;
    let refused = other.commit_table(&mine, set("a", None)).await.unwrap_err();
    assert!(refused.kind == Kind::Broken && refused.message.contains(&theirs), "{refused:?}");
    other.commit_table(&table("t"), set("a", None)).await.unwrap();
    // A table keeps its folder when it gets another name.
    let moved = Identifier { namespace: vec!["a".to_owned()], name: "moved".to_owned() };
    other.rename_table(&table("u"), &moved, None).await.unwrap();
    other.commit_table(&moved, set("a", None)).await.unwrap();
}

/// Else the words of a conflict would tell what is in another table's files.
#[tokio::test(start_paused = true)]
async fn no_append_is_rebased_where_the_metadata_goes_to_the_folder_of_another() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let theirs = loaded(&server, "t").await.metadata.location().to_owned();
    let list = format!("{theirs}/metadata/snap-3.avro");
    server.inner.files.write(&list, "no list".into()).await.unwrap();
    let properties = [("write.metadata.path", theirs.as_str()), ("glidepath.append-rebase", "true")];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    server.create_table(NewTable { properties, ..new("mine") }, None).await.unwrap();
    for id in [1, 2] {
        let on = loaded(&server, "mine").await;
        server.commit_table(&table("mine"), append(&on.metadata, id)).await.unwrap();
    }
    let first = loaded(&server, "mine").await.metadata.metadata_log()[1].metadata_file.clone();
    let first = server.inner.files.read(&first).await.unwrap();
    let stale = append(&serde_json::from_slice(&first).unwrap(), 3);
    let own = format!("{}/metadata/snap-3.avro", loaded(&server, "mine").await.metadata.location());
    let updates = serde_json::to_string(&stale.updates).unwrap().replace(&own, &list);
    let stale = TableCommit { updates: serde_json::from_str(&updates).unwrap(), ..stale };
    let mut other = world.server().await;
    let own_folders = Settings { own_folders: true, ..other.inner.settings.clone() };
    std::sync::Arc::get_mut(&mut other.inner).unwrap().settings = own_folders;
    let told = server.commit_table(&table("mine"), stale.clone()).await.unwrap_err();
    assert_eq!(told.kind, Kind::Conflict, "files were read: {told:?}");
    let refused = other.commit_table(&table("mine"), stale).await.unwrap_err();
    assert!(refused.kind == Kind::Invalid && !refused.message.contains("snap-3"), "{refused:?}");
}
