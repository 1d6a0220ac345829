//! Commits over several tables, each of whose parts may be an append that is rebased.

use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use glidepath_protocols::registry::AnyCatalog;
use glidepath_protocols::table_turn::line;
use glidepath_stores::memory::MemoryStore;
use glidepath_table::{FileError, clients};

use super::*;
use crate::lance::tests::Clock;

const REBASED: &str = "glidepath.append-rebase";

/// The snapshot that each table has from the beginning.
const FIRST: i64 = 1000;

/// Appends, or overwrites with a snapshot that says so, with the files that a client writes.
async fn snapshot(server: &Tested, on: &TableMetadata, id: i64, operation: Operation) -> TableCommit {
    let folder = format!("{}/metadata", on.location());
    let (list, manifest) = (format!("{folder}/snap-{id}.avro"), format!("{folder}/{id}-m0.avro"));
    let mut manifests = match on.current_snapshot() {
        Some(parent) => clients::manifests(&server.inner.files.read(parent.manifest_list()).await.unwrap()).unwrap(),
        None => Vec::new(),
    };
    let bytes = clients::manifest(&format!("{}/data/{id}.parquet", on.location()), 1, false).unwrap();
    manifests.insert(0, clients::listed(&manifest, bytes.len(), id, on.next_sequence_number(), 1));
    server.inner.files.write(&manifest, bytes).await.unwrap();
    server.inner.files.write(&list, clients::list(&manifests).unwrap()).await.unwrap();
    let (files, rows) = clients::totals(&manifests);
    let summary = [
        ("added-data-files", "1".to_owned()),
        ("added-records", "1".to_owned()),
        ("total-data-files", files.to_string()),
        ("total-records", rows.to_string()),
    ];
    let additional_properties = summary.map(|(key, value)| (key.to_owned(), value)).into();
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(on.current_snapshot_id())
        .with_sequence_number(on.next_sequence_number())
        .with_timestamp_ms(4_102_444_800_000)
        .with_manifest_list(list)
        .with_summary(Summary { operation, additional_properties })
        .with_schema_id(on.current_schema_id())
        .build();
    let (requirements, updates) = clients::commit(on.uuid(), &snapshot);
    TableCommit { requirements, updates, key: None }
}

async fn appended(server: &Tested, name: &str, id: i64) -> (Identifier, TableCommit) {
    let on = loaded(server, name).await;
    (table(name), snapshot(server, &on.metadata, id, Operation::Append).await)
}

/// The snapshots in the history of the branch, the newest first.
async fn history(server: &Tested, name: &str) -> Vec<i64> {
    let metadata = &loaded(server, name).await.metadata;
    let mut next = metadata.current_snapshot();
    let mut all = Vec::new();
    while let Some(one) = next {
        all.push(one.snapshot_id());
        next = one.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id));
    }
    all
}

async fn manifests(server: &Tested, name: &str) -> usize {
    let on = loaded(server, name).await;
    let list = on.metadata.current_snapshot().unwrap().manifest_list();
    clients::manifests(&server.inner.files.read(list).await.unwrap()).unwrap().len()
}

/// A server with two tables whose appends are rebased. Both have a snapshot, because a first one is never rebased.
async fn two(world: &World) -> Tested {
    let server = with(world, &["t", "u"]).await;
    for name in ["t", "u"] {
        let (table, first) = appended(&server, name, FIRST).await;
        server.commit_table(&table, first).await.unwrap();
        let updates = HashMap::from([(REBASED.to_owned(), "true".to_owned())]);
        let commit =
            TableCommit { requirements: Vec::new(), updates: vec![TableUpdate::SetProperties { updates }], key: None };
        server.commit_table(&table, commit).await.unwrap();
    }
    server
}

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn appends_of_a_commit_are_rebased() {
    let world = World::new().await;
    let server = two(&world).await;
    let both = vec![appended(&server, "u", 1).await, appended(&server, "t", 2).await];
    for (name, id) in [("t", 3), ("u", 4), ("t", 5)] {
        let (table, commit) = appended(&server, name, id).await;
        server.commit_table(&table, commit).await.unwrap();
    }
    let rebased = of(&server.counts().rebased);
    // Twice, as if the first answer was lost.
    for _ in 0..2 {
        server.commit_transaction(both.clone(), None).await.unwrap();
        assert_eq!(
            [history(&server, "t").await, history(&server, "u").await],
            [vec![2, 5, 3, FIRST], vec![1, 4, FIRST]]
        );
    }
    assert_eq!([manifests(&server, "t").await, manifests(&server, "u").await], [4, 3]);
    assert_eq!(of(&server.counts().rebased), rebased + 2);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_conflicts_stops_all() {
    let world = World::new().await;
    let server = two(&world).await;
    let on = loaded(&server, "u").await;
    let overwrite = snapshot(&server, &on.metadata, 1, Operation::Overwrite).await;
    let both = vec![appended(&server, "t", 2).await, (table("u"), overwrite)];
    for (name, id) in [("t", 3), ("u", 4)] {
        let (table, commit) = appended(&server, name, id).await;
        server.commit_table(&table, commit).await.unwrap();
    }
    let files = async || server.inner.files.list("s3://b/lake/n/t/metadata", None, 1000).await.unwrap().len();
    let before = files().await;
    assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Conflict);
    assert_eq!([history(&server, "t").await, history(&server, "u").await], [vec![3, FIRST], vec![4, FIRST]]);
    assert_eq!(files().await, before, "nothing was written for it");
}

/// Others wait at both tables until it lands with its next try.
#[tokio::test(start_paused = true)]
async fn an_overwrite_of_two_tables_that_conflicted_is_waited_for_at_both() {
    let world = World::new().await;
    two(&world).await;
    let server = world.server().await;
    let overwrite = async || {
        let parts = ["t", "u"].map(async |name| {
            let on = loaded(&server, name).await;
            (table(name), snapshot(&server, &on.metadata, if name == "t" { 1 } else { 2 }, Operation::Overwrite).await)
        });
        let [t, u] = parts;
        vec![t.await, u.await]
    };
    let late = overwrite().await;
    let (t, other) = appended(&server, "t", 3).await;
    server.commit_table(&t, other).await.unwrap();
    assert_eq!(kind(server.commit_transaction(late, None).await), Kind::Conflict);
    // Its client deletes what it wrote.
    for (name, id) in [("t", 1), ("u", 2)] {
        let folder = format!("{}/metadata", loaded(&server, name).await.metadata.location());
        for file in [format!("{folder}/snap-{id}.avro"), format!("{folder}/{id}-m0.avro")] {
            server.inner.files.delete(&file).await.unwrap();
        }
    }
    let (u, waits) = appended(&server, "u", 4).await;
    let mut waits = pin!(server.commit_table(&u, waits));
    let both = vec![appended(&server, "t", 5).await, appended(&server, "u", 6).await];
    let mut waits_too = pin!(server.commit_transaction(both, None));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending() && waits_too.as_mut().poll(&mut context).is_pending());
    assert_eq!(of(&server.counts().held), 2);
    server.commit_transaction(overwrite().await, None).await.unwrap();
    let (one, two) = join(waits, waits_too).await;
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    assert_eq!(history(&server, "t").await, [5, 1, 3, FIRST]);
    assert_eq!(history(&server, "u").await[2..], [2, FIRST]);
    let counts = server.counts();
    assert_eq!((of(&counts.priorities), of(&counts.priorities_used), of(&counts.held)), (1, 1, 2));
}

/// Who commits to one table, and who commits to both in either order, do not overtake each other at one server.
#[tokio::test(start_paused = true)]
async fn those_of_one_server_wait_for_each_other() {
    let world = World::of(Protocol::Tickets).await;
    let server = two(&world).await;
    let one = async |id: i64| {
        let (table, commit) = appended(&server, "t", id).await;
        server.commit_table(&table, commit).await.map(drop).unwrap();
    };
    let several = async |id: i64| {
        let mut both = vec![appended(&server, "t", id).await, appended(&server, "u", id + 100).await];
        if id % 2 == 0 {
            both.reverse();
        }
        server.commit_transaction(both, key(&format!("k{id}"), &format!("r{id}")).as_ref()).await.unwrap();
    };
    let ones = glidepath_env::together(8, (1..=8).map(one));
    let others = glidepath_env::together(8, (11..=18).map(several));
    join(ones, others).await;
    assert_eq!((history(&server, "t").await.len(), history(&server, "u").await.len()), (17, 9));
    assert_eq!((manifests(&server, "t").await, of(&server.counts().overtaken)), (17, 0));
}

/// Two servers overtake each other, and all land.
#[tokio::test(start_paused = true)]
async fn those_of_two_servers_land_too() {
    let world = World::new().await;
    let servers = [two(&world).await, world.server().await];
    let several = async |id: i64| {
        let server = &servers[(id % 2) as usize];
        let both = vec![appended(server, "t", id).await, appended(server, "u", id + 100).await];
        server.commit_transaction(both, None).await.unwrap();
    };
    glidepath_env::together(8, (1..=8).map(several)).await;
    for (server, name) in [(&servers[0], "t"), (&servers[1], "u")] {
        assert_eq!((history(server, name).await.len(), manifests(server, name).await), (9, 9));
    }
}

/// How long a request to slow files takes.
const REQUEST: Duration = Duration::from_millis(1);

/// Files whose every request takes a while, so that others come in between; and `plain` cannot be a folder.
struct Slow(Warehouse<MemoryStore>);

impl Files for Slow {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        tokio::time::sleep(REQUEST).await;
        self.0.read_up_to(location, most).await
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        tokio::time::sleep(REQUEST).await;
        match location.contains("/plain/") {
            true => Err(FileError::Failed {
                location: location.to_owned(),
                cause: glidepath_env::Cause::words("no folder"),
            }),
            false => self.0.write(location, bytes).await,
        }
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        tokio::time::sleep(REQUEST).await;
        self.0.delete(location).await
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        tokio::time::sleep(REQUEST).await;
        self.0.list(folder, after, limit).await
    }
}

/// Each of two servers prepares the commit before the other has done it. Who sent it may delete its files after a
/// conflict.
#[tokio::test(start_paused = true)]
async fn a_commit_that_creates_tables_is_done_also_where_another_delivery_was_faster() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        with(&world, &["z"]).await;
        let slow = async || world.server_on(Slow(Warehouse::new(world.files.clone(), "s3://b/lake"))).await;
        let servers = [slow().await, slow().await];
        for round in 0..4 {
            let part = |part: u128| (table(&format!("x{round}_{part}")), creation(round * 2 + part));
            let parts = vec![part(0), part(1), (table("z"), set(&format!("round{round}"), None))];
            let deliver = |number: usize| servers[number].commit_transaction(parts.clone(), None);
            let answers = join(deliver(0), deliver(1)).await;
            assert!(matches!(answers, (Ok(()), Ok(()))), "{answers:?}");
        }
    }
}

/// At another server, which commits to one of the tables all the time, nobody waits: it loses each time without a line.
#[tokio::test(start_paused = true)]
async fn who_is_overtaken_all_the_time_gets_its_turn() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        with(&world, &["t", "u"]).await;
        let slow = async || world.server_on(Slow(Warehouse::new(world.files.clone(), "s3://b/lake"))).await;
        let servers = [slow().await, slow().await];
        let ended = Cell::new(0);
        let busy = async {
            let mut commits = 0;
            while ended.get() < 2 {
                servers[0].commit_table(&table("t"), set(&format!("busy{commits}"), None)).await.unwrap();
                commits += 1;
                assert!(commits < 100, "{protocol:?}: {} of 2 ended", ended.get());
            }
        };
        let several = async {
            let both = ["t", "u"].map(|name| (table(name), set("several", None)));
            servers[1].commit_transaction(both.into(), None).await.unwrap();
            ended.set(ended.get() + 1);
        };
        let one = async {
            servers[1].commit_table(&table("u"), set("one", None)).await.unwrap();
            ended.set(ended.get() + 1);
        };
        join(busy, join(several, one)).await;
        assert_eq!(lines(&servers[0], &["t", "u"]).await, 0);
    }
}

/// The places in the lines of these tables.
async fn lines<F: Files>(server: &Service<Clock, AnyCatalog<Clock>, F>, tables: &[&str]) -> usize {
    let at = server.head().await.unwrap();
    let mut places = 0;
    for name in tables {
        let entry = server.entry(&at, &table(name).catalog_name().unwrap()).await.unwrap().unwrap();
        places += entry.properties.keys().filter(|key| key.starts_with(line::LINE)).count();
    }
    places
}

/// A server that died long ago is first in the line of one of the tables: it is passed over.
#[tokio::test(start_paused = true)]
async fn a_commit_over_tables_respects_their_lines() {
    let world = World::of(Protocol::Tickets).await;
    let server = with(&world, &["t", "u"]).await;
    let mut place = line::Turns::at([(table("u").catalog_name().unwrap(), false)]);
    place.join(&server.inner.env, &server.inner.committer).await;
    assert_eq!(lines(&server, &["t", "u"]).await, 2);
    let both = ["t", "u"].map(|name| (table(name), set("several", None)));
    server.commit_transaction(both.into(), None).await.unwrap();
    assert_eq!(lines(&server, &["t", "u"]).await, 0);
    let counts = server.counts();
    assert_eq!((of(&counts.passed_over), of(&counts.overtaken)), (1, 0));
    for one in ["t", "u"] {
        assert_eq!(loaded(&server, one).await.metadata.properties()["several"], "1");
    }
}

/// What is written for a creation stays, because somebody may have registered it; and it would stay in another table's
/// folder.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_a_folder_is_refused() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    server.create_table(NewTable { location: Some("s3://b/lake/other".to_owned()), ..new("o") }, None).await.unwrap();
    let at = |uuid, location: &str| {
        let mut commit = creation(uuid);
        commit.updates.push(TableUpdate::SetLocation { location: location.to_owned() });
        commit
    };
    let both = vec![(table("x"), at(1, "s3://b/lake/free")), (table("y"), at(2, "s3://b/lake/other"))];
    assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Invalid);
    let there = async |place: &str| server.inner.files.list(place, None, 10).await.unwrap().len();
    assert_eq!([there("s3://b/lake/free").await, there("s3://b/lake/other").await], [0, 1]);
    // Nor for a moment: a write there would be answered otherwise.
    let slow = world.server_on(Slow(Warehouse::new(world.files.clone(), "s3://b/lake"))).await;
    let both = vec![(table("x"), at(1, "s3://b/lake/plain/x")), (table("y"), at(2, "s3://b/lake/other"))];
    assert_eq!(kind(slow.commit_transaction(both, None).await), Kind::Invalid);
}

/// A commit after which nothing can be written holds up no others.
#[tokio::test(start_paused = true)]
async fn metadata_goes_to_another_folder_in_a_commit_of_its_own() {
    let world = World::new().await;
    with(&world, &["t"]).await;
    let server = world.server_on(Slow(Warehouse::new(world.files.clone(), "s3://b/lake"))).await;
    let updates = HashMap::from([("write.metadata.path".to_owned(), "s3://b/lake/plain/meta".to_owned())]);
    let mut wrong = set("a", None);
    wrong.updates = vec![TableUpdate::SetProperties { updates }];
    let commits = (0..8).map(|number| if number == 4 { wrong.clone() } else { set(&format!("p{number}"), None) });
    let name = table("t");
    let answers = glidepath_env::together(8, commits.map(|commit| server.commit_table(&name, commit))).await;
    let failed: Vec<usize> = (0..8).filter(|number| answers[*number].is_err()).collect();
    assert_eq!(failed, [4]);
}
