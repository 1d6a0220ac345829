//! What a refusal says of its reason: something that the client cannot see, or can change.

use super::*;

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
