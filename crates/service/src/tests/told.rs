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
