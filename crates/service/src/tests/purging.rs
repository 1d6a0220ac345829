//! What a purge leaves.

use glidepath_model::{Action, Entry};
use glidepath_stores::memory::MemoryStore;
use glidepath_table::{FileError, clients};

use super::*;
use crate::lance::tests::Stuck;

/// Commits a snapshot to a table whose files are there. Returns those of metadata, and that of data.
async fn written(server: &Tested, name: &str) -> (Vec<String>, String) {
    written_at(server, name, ("data/a.parquet", 5)).await
}

/// The same with this file of data and this snapshot.
async fn written_at(server: &Tested, name: &str, (data, id): (&str, i64)) -> (Vec<String>, String) {
    let before = loaded(server, name).await;
    let place = before.metadata.location();
    let (data, manifest) = (format!("{place}/{data}"), format!("{place}/metadata/{id}-m0.avro"));
    let bytes = clients::manifest(&data, 1, false).unwrap();
    let listed = clients::listed(&manifest, bytes.len(), id, before.metadata.next_sequence_number(), 1);
    let commit = append(&before.metadata, id);
    let list = format!("{place}/metadata/snap-{id}.avro");
    let files = [(&data, "d".into()), (&manifest, bytes), (&list, clients::list(&[listed]).unwrap())];
    for (file, bytes) in files {
        server.inner.files.write(file, bytes).await.unwrap();
    }
    let after = server.commit_table(&table(name), commit).await.unwrap();
    (vec![manifest, list, before.location.clone(), after.location.clone()], data)
}

#[tokio::test(start_paused = true)]
async fn data_stays_where_the_table_says_that_it_is_not_its_own() {
    for (value, stays) in
        [(None, false), (Some("true"), false), (Some("TRUE"), false), (Some("false"), true), (Some("no"), true)]
    {
        let world = World::new().await;
        let server = with(&world, &[]).await;
        let properties = value.map(|value| ("gc.enabled".to_owned(), value.to_owned())).into_iter().collect();
        server.create_table(NewTable { properties, ..new("t") }, None).await.unwrap();
        let (metadata, data) = written(&server, "t").await;
        server.drop_table(&table("t"), true, None).await.unwrap();
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.ended, 1);
        for file in metadata {
            assert!(server.inner.files.read(&file).await.is_err(), "{file}");
        }
        assert_eq!(server.inner.files.read(&data).await.is_ok(), stays, "{value:?}");
    }
}

/// Also files of data whose names come after those of metadata.
#[tokio::test(start_paused = true)]
async fn a_purge_that_is_cut_off_leaves_what_leads_to_the_rest() {
    for stuck in ["b.parquet", "5-m0.avro", "6-m0.avro", "snap-5.avro"] {
        let world = World::new().await;
        let server = with(&world, &["t"]).await;
        let (_, first) = written_at(&server, "t", ("data/a.parquet", 5)).await;
        let (metadata, second) = written_at(&server, "t", ("year=2024/b.parquet", 6)).await;
        server.drop_table(&table("t"), true, None).await.unwrap();
        world.pass(10 * 60 * 1000);
        let warehouse = || Warehouse::new(world.files.clone(), "s3://b/lake");
        let half = world.server_on(Stuck(warehouse(), stuck)).await;
        assert!(half.run_purges().await.failed.is_some());
        assert!(server.inner.files.read(metadata.last().unwrap()).await.is_ok());
        assert_eq!(server.run_purges().await.ended, 1);
        for file in metadata.iter().chain([&first, &second]) {
            assert!(server.inner.files.read(file).await.is_err(), "{stuck}: {file}");
        }
    }
}

/// What it names could not be found any more. It is told, also where another purge of the round fails.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_stays_and_so_does_what_leads_to_it() {
    // What is unreadable; what stays besides it, of the older snapshot's manifest and list, and of the newer one's
    // list.
    for (broken, stays) in [("5-m0.avro", ["5-m0.avro", "snap-5.avro"]), ("snap-5.avro", ["5-m0.avro", "snap-5.avro"])]
    {
        let world = World::new().await;
        let server = with(&world, &["t", "stuck"]).await;
        let (_, of_stuck) = written(&server, "stuck").await;
        let (older, first) = written_at(&server, "t", ("data/a.parquet", 5)).await;
        let (newer, second) = written_at(&server, "t", ("data/b.parquet", 6)).await;
        let last = newer.last().unwrap();
        let file = older.iter().find(|file| file.ends_with(broken)).unwrap();
        server.inner.files.delete(file).await.unwrap();
        server.inner.files.write(file, "no Avro".into()).await.unwrap();
        for name in ["t", "stuck"] {
            server.drop_table(&table(name), true, None).await.unwrap();
        }
        world.pass(10 * 60 * 1000);
        let half = world.server_on(Stuck(Warehouse::new(world.files.clone(), "s3://b/lake"), of_stuck.leak())).await;
        let purged = half.run_purges().await;
        assert_eq!((purged.ended, purged.failed.is_some()), (1, true));
        assert!(purged.kept.contains(file) && purged.kept.contains(last), "{purged:?}");
        for file in older.iter().chain(&newer).chain([&first, &second]) {
            let is_there = server.inner.files.read(file).await.is_ok();
            let should = file == last || *file == first || stays.iter().any(|stays| file.ends_with(stays));
            assert_eq!(is_there, should, "{broken}: {file}");
        }
        // Its note is gone; that of the other is not.
        let again = server.run_purges().await;
        assert_eq!((again.ended, again.kept.len()), (1, 0), "{again:?}");
    }
}

/// Files of which the first deletion takes so long that another server has ended the purge, and one file is new.
struct Slow(Warehouse<MemoryStore>, Tested, String);

impl Files for Slow {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<bytes::Bytes, FileError> {
        self.0.read_up_to(location, most).await
    }

    async fn write(&self, location: &str, bytes: bytes::Bytes) -> Result<(), FileError> {
        self.0.write(location, bytes).await
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        if self.1.run_purges().await.ended == 1 {
            self.0.write(&self.2, "new".into()).await?;
        }
        self.0.delete(location).await
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        self.0.list(folder, after, limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_that_slept_deletes_no_more_when_another_server_has_ended_it() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    written_at(&server, "t", ("data/a.parquet", 5)).await;
    let (_, second) = written_at(&server, "t", ("data/b.parquet", 6)).await;
    server.drop_table(&table("t"), true, None).await.unwrap();
    world.pass(10 * 60 * 1000);
    let files = Warehouse::new(world.files.clone(), "s3://b/lake");
    let slow = world.server_on(Slow(files, world.server().await, second.clone())).await;
    assert_eq!(slow.run_purges().await.ended, 0);
    assert!(server.inner.files.read(&second).await.is_ok());
}

fn lance(name: &str, location: Option<&str>) -> NewLanceTable {
    NewLanceTable { identifier: table(name), location: location.map(str::to_owned), properties: Default::default() }
}

/// Another server may be at the same purge, and have slept, so nobody gets the folder for a day.
#[tokio::test(start_paused = true)]
async fn the_emptied_folder_of_a_lance_table_is_nobodys_for_a_day() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let place = server.declare_lance(lance("l", None)).await.unwrap().location;
        for file in ["_versions/1.manifest", "data/x.lance", "unknown", "data/of-iceberg.parquet"] {
            server.inner.files.write(&format!("{place}/{file}"), "x".into()).await.unwrap();
        }
        server.drop_lance(&table("l")).await.unwrap();
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.ended, 1);
        let left = server.inner.files.list(&place, None, 10).await.unwrap();
        assert_eq!(left, ["data/of-iceberg.parquet", "unknown"].map(|file| format!("{place}/{file}")));

        let inner = format!("{place}/x");
        let within =
            Namespace { parts: vec!["within".to_owned()], properties: [("location".to_owned(), place.clone())].into() };
        server.create_namespace(&within, None).await.unwrap();
        let named = |place: &str| NewTable { location: Some(place.to_owned()), ..new("u") };
        let made_up = Identifier { namespace: within.parts.clone(), name: "u".to_owned() };
        for place in [place.clone(), inner.clone()] {
            let mut moved = set("a", None);
            moved.updates = vec![TableUpdate::SetLocation { location: place.clone() }];
            // Nobody moves to a folder that seems to be made up, or into one.
            assert_eq!(kind(server.commit_table(&table("t"), moved).await), Kind::Invalid);
            assert_eq!(kind(server.declare_lance(lance("m", Some(&place))).await), Kind::Invalid);
            // Nor creates a table in one.
            assert_eq!(kind(server.create_table(named(&place), None).await), Kind::Invalid);
            assert_eq!(kind(server.stage_table(named(&place)).await), Kind::Invalid);
        }
        let in_it = NewTable { identifier: made_up.clone(), ..new("u") };
        assert_eq!(kind(server.create_table(in_it.clone(), None).await), Kind::Unavailable);
        assert_eq!(kind(server.stage_table(in_it.clone()).await), Kind::Unavailable);
        // A namespace whose own folder is in one that was emptied.
        server.declare_lance(lance("outer", Some("s3://b/lake/deep"))).await.unwrap();
        server.inner.files.write("s3://b/lake/deep/_versions/1.manifest", "x".into()).await.unwrap();
        server.drop_lance(&table("outer")).await.unwrap();
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.ended, 1);
        for parts in [vec!["deep".to_owned()], vec!["deep".to_owned(), "data".to_owned()]] {
            server.create_namespace(&Namespace { parts, properties: Default::default() }, None).await.unwrap();
        }
        let deep = Identifier { namespace: vec!["deep".to_owned(), "data".to_owned()], name: "u".to_owned() };
        let made = NewTable { identifier: deep.clone(), ..new("u") };
        assert_eq!(kind(server.create_table(made.clone(), None).await), Kind::Unavailable);
        assert_eq!(kind(server.stage_table(made).await), Kind::Unavailable);
        let declared = NewLanceTable { identifier: deep, ..lance("", None) };
        assert_eq!(kind(server.declare_lance(declared).await), Kind::Unavailable);
        let in_it_too = NewLanceTable { identifier: made_up, ..lance("", None) };
        assert_eq!(kind(server.declare_lance(in_it_too).await), Kind::Unavailable);
        world.pass(25 * 60 * 60 * 1000);
        assert!(server.run_purges().await.failed.is_none());
        server.create_table(in_it, None).await.unwrap();
    }
}

/// Nobody gets a folder around one that is being purged: neither who claims it afterwards, nor who did before.
#[tokio::test(start_paused = true)]
async fn nothing_is_given_a_folder_around_a_purge() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        for place in ["x", "x/tree/b1"] {
            server.inner.files.write(&format!("s3://b/lake/{place}/_versions/1.manifest"), "x".into()).await.unwrap();
        }
        server.declare_lance(lance("inner", Some("s3://b/lake/x/tree/b1"))).await.unwrap();
        let before = server.inner.claim(&["s3://b/lake/x"]).await.unwrap();
        server.drop_lance(&table("inner")).await.unwrap();
        server.inner.release(&before).await;
        assert_eq!(kind(server.register_lance(lance("outer", Some("s3://b/lake/x"))).await), Kind::Unavailable);
        let around = NewTable { location: Some("s3://b/lake/x/tree".to_owned()), ..new("u") };
        assert_eq!(kind(server.create_table(around, None).await), Kind::Unavailable);

        // One that slept since before the drop. That another table has the files is no reason to let it go on.
        let at = server.head().await.unwrap();
        let name = crate::names::own_name([claims::FOLDER, &purge::digest("s3://b/lake/x")]).unwrap();
        assert!(server.entry(&at, &name).await.unwrap().is_none());
        let entry = claims::timed(world_ms(&server), Some("s3://b/lake/x"), Some("asleep".to_owned()));
        let twin = table("twin").catalog_name().unwrap();
        let there = Entry { location: Some("s3://b/lake/x/tree/b1".to_owned()), ..Entry::view() };
        let create = [(name.clone(), entry), (twin, there)].map(|(name, entry)| Action::Create { name, entry });
        server.inner.committer.commit(create.into()).await.unwrap();
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.ended, 1);
        let at = server.head().await.unwrap();
        assert!(server.entry(&at, &name).await.unwrap().is_none(), "its commit is refused");
        server.drop_view(&table("twin"), None).await.unwrap();
        server.register_lance(lance("outer", Some("s3://b/lake/x"))).await.unwrap();
    }
}

fn world_ms(server: &Tested) -> u64 {
    glidepath_env::Env::unix_ms(&server.inner.env)
}

/// Also not a view whose file is in a folder that is purged, though the view is elsewhere.
#[tokio::test(start_paused = true)]
async fn no_view_is_registered_from_a_file_that_is_about_to_be_deleted() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let view = server.create_view(super::careless::view(schema(), 1), None).await.unwrap();
    let place = server.declare_lance(lance("l", None)).await.unwrap().location;
    let file = format!("{place}/data/v.json");
    server.inner.files.write(&file, view.json.clone()).await.unwrap();
    server.drop_view(&table("v"), None).await.unwrap();
    server.drop_lance(&table("l")).await.unwrap();
    assert_eq!(kind(server.register_view(&table("w"), &file, None).await), Kind::Unavailable);
    server.register_view(&table("w"), &view.location, None).await.unwrap();
}
