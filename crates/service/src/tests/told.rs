//! What a refusal says of its reason: something that the client cannot see, or can change.

use glidepath_model::{Action, Entry};

use super::*;

/// Entries that nobody made by this server: without metadata, clients do not see them, and they are in the way.
#[tokio::test(start_paused = true)]
async fn an_entry_without_metadata_is_named_where_it_is_in_the_way() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let bare = |name: &str, entry: Entry| Action::Create { name: table(name).catalog_name().unwrap(), entry };
    let made = vec![bare("t", Entry { kind: glidepath_model::Kind::Table, ..Entry::view() }), bare("v", Entry::view())];
    server.inner.committer.commit(made).await.unwrap();

    let (n, all) = (vec!["n".to_owned()], Page::default());
    assert!(server.list_tables(&n, &all).await.unwrap().0.is_empty());
    assert!(server.list_views(&n, &all).await.unwrap().0.is_empty(), "as it cannot be loaded");
    assert_eq!(kind(server.load_view(&table("v")).await), Kind::NoView);

    let view = |name: &str| NewView { identifier: table(name), ..super::careless::view(schema(), 1) };
    let lance = NewLanceTable { identifier: table("v"), location: None, properties: Default::default() };
    let space = |name: &str| Namespace { parts: vec!["n".to_owned(), name.to_owned()], properties: Default::default() };
    for (refused, begin, name) in [
        (server.create_table(new("t"), None).await.map(drop), "Table already exists: n.t;", "n.t"),
        (server.stage_table(new("t")).await.map(drop), "Table already exists: n.t;", "n.t"),
        (server.create_table(new("v"), None).await.map(drop), "View with same name already exists: n.v;", "n.v"),
        (server.create_view(view("v"), None).await.map(drop), "View already exists: n.v;", "n.v"),
        (server.declare_lance(lance).await.map(drop), "View with same name already exists: n.v;", "n.v"),
        (server.create_namespace(&space("t"), None).await, "Table with same name already exists: n.t;", "n.t"),
        (server.drop_namespace(&n, None).await, "Namespace n is not empty;", "n.t"),
    ] {
        let words = refused.unwrap_err().message;
        let told = format!("{name} is an entry without metadata");
        assert!(
            words.starts_with(begin) && words.contains(&told) && words.contains("`glidepath catalog drop`"),
            "{words}"
        );
    }
    // Of what clients see nothing more is said.
    server.create_table(new("seen"), None).await.unwrap();
    let words = server.create_table(new("seen"), None).await.unwrap_err().message;
    assert_eq!(words, "Table already exists: n.seen");
}

#[tokio::test(start_paused = true)]
async fn a_table_of_lance_is_told_what_has_its_name() {
    let server = with(&World::new().await, &[]).await;
    let space = Namespace { parts: vec!["n".to_owned(), "s".to_owned()], properties: Default::default() };
    server.create_namespace(&space, None).await.unwrap();
    let lance = |name: &str, location: Option<&str>| NewLanceTable {
        identifier: table(name),
        location: location.map(str::to_owned),
        properties: Default::default(),
    };
    let there = server.declare_lance(lance("l", None)).await.unwrap().location;
    server.inner.files.write(&format!("{there}/_versions/1.manifest"), "m".into()).await.unwrap();
    let renamed = server.rename_lance(&table("l"), &table("s")).await;
    server.deregister_lance(&table("l")).await.unwrap();
    for refused in [
        renamed,
        server.declare_lance(lance("s", None)).await.map(drop),
        server.declare_lance(lance("s", Some("s3://b/lake/own"))).await.map(drop),
        server.register_lance(lance("s", Some(&there))).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        let told = error.message == "Namespace with same name already exists: n.s";
        assert!(error.kind == Kind::Exists && told, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_current_snapshot_is_removed_after_its_branch_has_moved() {
    let server = with(&World::new().await, &["t"]).await;
    for id in [1, 2] {
        let on = loaded(&server, "t").await;
        let list = format!("{}/metadata/snap-{id}.avro", on.metadata.location());
        server.inner.files.write(&list, "l".into()).await.unwrap();
        server.commit_table(&table("t"), append(&on.metadata, id)).await.unwrap();
    }
    let removal = TableUpdate::RemoveSnapshots { snapshot_ids: vec![2] };
    let back = TableUpdate::SetSnapshotRef {
        ref_name: "main".to_owned(),
        reference: SnapshotReference { snapshot_id: 1, retention: SnapshotRetention::branch(None, None, None) },
    };
    let commit = |updates: Vec<TableUpdate>| TableCommit { requirements: Vec::new(), updates, key: None };
    let refused = server.commit_table(&table("t"), commit(vec![removal.clone()])).await.unwrap_err();
    assert!(refused.kind == Kind::Invalid && refused.message.contains("move the branch main"), "{refused}");
    let moved = server.commit_table(&table("t"), commit(vec![back, removal])).await.unwrap();
    assert_eq!(moved.metadata.current_snapshot_id(), Some(1));
}

/// It names no location, so it can leave none out.
#[tokio::test(start_paused = true)]
async fn a_view_that_is_registered_twice_is_told_what_is_in_the_way() {
    let server = with(&World::new().await, &[]).await;
    let view = server.create_view(super::careless::view(schema(), 1), None).await.unwrap();
    let refused = server.register_view(&table("w"), &view.location, None).await.unwrap_err();
    assert!(refused.kind == Kind::Invalid && refused.message.contains("has the metadata file"), "{refused}");
    assert!(!refused.message.contains("leave the location out"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_location_that_a_namespace_names_is_said_to_be_its_property() {
    let server = with(&World::new().await, &[]).await;
    for wrong in ["", "x", "s3://elsewhere/x"] {
        let updates = [("location".to_owned(), wrong.to_owned())].into();
        let change = NamespaceChange { updates, removals: Vec::new() };
        server.change_namespace(&["n".to_owned()], &change, None).await.unwrap();
        let lance = NewLanceTable { identifier: table("l"), location: None, properties: Default::default() };
        for refused in [
            server.create_table(new("t"), None).await.map(drop),
            server.create_view(super::careless::view(schema(), 1), None).await.map(drop),
            server.declare_lance(lance).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            let told = error.message.contains("the property \"location\" of the namespace n");
            assert!(error.kind == Kind::Invalid && told, "{wrong:?}: {error}");
        }
        let named = NewTable { location: Some("s3://b/lake/own".to_owned()), ..new("t") };
        server.create_table(named, None).await.unwrap();
        server.drop_table(&table("t"), false, None).await.unwrap();
    }
}

/// Which is not that of all tables of the server, where each namespace has rules of its own.
#[tokio::test(start_paused = true)]
async fn the_folder_in_which_a_location_has_to_be_is_named() {
    let mut server = with(&World::new().await, &[]).await;
    let own_folders = Settings { own_folders: true, ..server.inner.settings.clone() };
    std::sync::Arc::get_mut(&mut server.inner).unwrap().settings = own_folders;
    let outside = NewTable { location: Some("s3://b/lake/own".to_owned()), ..new("t") };
    let error = server.create_table(outside, None).await.unwrap_err();
    assert!(error.message.ends_with("it must be in s3://b/lake/n/"), "{error}");
}
