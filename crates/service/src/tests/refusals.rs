//! Refusals of requests that carry a key: no other delivery of such a request is done.

use super::*;

fn space(name: &str) -> Namespace {
    Namespace { parts: vec![name.to_owned()], properties: Default::default() }
}

/// What a request is told while it does not fit, it is told afterwards too, when it would.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_final() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let (server, other) = (with(&world, &["t", "u"]).await, world.server().await);
        let no_branch = |key| TableCommit {
            requirements: vec![TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id: Some(5) }],
            ..set("a", key)
        };
        let both = |key: &str| {
            let parts = vec![(table("t"), no_branch(None)), (table("u"), set("a", None))];
            (parts, Idempotency::new(key, "both".to_owned()).unwrap())
        };
        let (parts, pair) = both("pair");
        let asked = new("t");
        for (server, would_fit) in [(&server, false), (&other, true)] {
            if would_fit {
                let t = loaded(server, "t").await;
                let list = format!("{}/metadata/snap-5.avro", t.metadata.location());
                server.inner.files.write(&list, "l".into()).await.unwrap();
                server.commit_table(&table("t"), append(&t.metadata, 5)).await.unwrap();
                server.create_table(new("x"), None).await.unwrap();
            }
            assert_eq!(kind(server.commit_table(&table("t"), no_branch(key("commit", "r"))).await), Kind::Conflict);
            assert_eq!(kind(server.commit_transaction(parts.clone(), Some(&pair)).await), Kind::Conflict);
            assert_eq!(kind(server.create_table(asked.clone(), key("create", "r").as_ref()).await), Kind::Exists);
            let gone = server.drop_table(&table("x"), false, key("drop", "r").as_ref()).await;
            assert_eq!(kind(gone), Kind::NoTable);
            let renamed = server.rename_table(&table("x"), &table("y"), key("rename", "r").as_ref()).await;
            assert_eq!(kind(renamed), Kind::NoTable);
            assert_eq!(kind(server.create_namespace(&space("n"), key("space", "r").as_ref()).await), Kind::Exists);
            assert_eq!(
                kind(server.drop_namespace(&space("n").parts, key("empty", "r").as_ref()).await),
                Kind::NotEmpty
            );
            assert_eq!(kind(server.drop_view(&table("x"), key("view", "r").as_ref()).await), Kind::NoView);
        }
        server.drop_table(&table("t"), false, None).await.unwrap();
        assert_eq!(kind(server.create_table(asked, key("create", "r").as_ref()).await), Kind::Exists);
        assert_eq!(kind(server.load_table(&table("t")).await), Kind::NoTable);
        assert_eq!(kind(server.create_table(new("z"), key("create", "of another").as_ref()).await), Kind::KeyReused);
    }
}

/// What refused it may be what another delivery of it has done since it was looked for.
#[tokio::test(start_paused = true)]
async fn a_request_that_another_delivery_did_is_not_refused() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let (k, asked) = (key("k", "r"), std::cell::Cell::new(0));
    let answer = server.inner.once(k.as_ref(), async || {
        asked.set(asked.get() + 1);
        if asked.get() == 1 {
            server.create_table(new("t"), k.as_ref()).await?;
            return Err(ServiceError::new(Kind::Exists, "by the first delivery"));
        }
        server.create_table(new("t"), k.as_ref()).await
    });
    let made = answer.await.unwrap();
    assert_eq!(made.location, loaded(&server, "t").await.location);
    assert_eq!(asked.get(), 2);
}

/// What says that the request may be sent again is not noted, nor what is longer than a name may be told in.
#[tokio::test(start_paused = true)]
async fn a_request_that_may_be_sent_again_is_done_then() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    for (of, kind) in [("busy", Kind::Unavailable), ("unknown", Kind::Unknown), ("broken", Kind::Broken)] {
        let k = key(of, "r");
        let refused = server.inner.once(k.as_ref(), async || Err::<(), _>(ServiceError::new(kind, "so")));
        assert_eq!(super::kind(refused.await), kind);
        server.commit_table(&table("t"), set(of, key(of, "r"))).await.unwrap();
    }
    let words = "\u{e9}".repeat(1 << 20);
    let k = key("l", "r");
    let long = server.inner.once(k.as_ref(), async || Err::<(), _>(ServiceError::new(Kind::Conflict, words.clone())));
    assert_eq!(long.await.unwrap_err().message.len(), words.len());
    let told = server.commit_table(&table("t"), set("a", key("l", "r"))).await.unwrap_err();
    assert!(told.kind == Kind::Conflict && told.message.len() == 2000, "{}", told.message.len());
}

/// A request of which all is there already is answered for good, too.
#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_noted() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let (server, other) = (with(&world, &["t", "u"]).await, world.server().await);
        // A namespace that lacks what is to be removed.
        let removal = NamespaceChange { removals: vec!["p".to_owned()], updates: Default::default() };
        let changed = server.change_namespace(&["n".to_owned()], &removal, key("space", "r").as_ref()).await.unwrap();
        assert_eq!((changed.missing.len(), changed.removed.len()), (1, 0));
        let added = [("p".to_owned(), "1".to_owned())].into();
        let addition = NamespaceChange { removals: Vec::new(), updates: added };
        server.change_namespace(&["n".to_owned()], &addition, None).await.unwrap();
        let again = other.change_namespace(&["n".to_owned()], &removal, key("space", "r").as_ref()).await.unwrap();
        assert_eq!((again.missing.len(), again.removed.len()), (1, 0));

        // Commits that were done without the key.
        let mut snapshots = Vec::new();
        for name in ["t", "u"] {
            let on = loaded(&server, name).await;
            let list = format!("{}/metadata/snap-5.avro", on.metadata.location());
            server.inner.files.write(&list, "l".into()).await.unwrap();
            snapshots.push((table(name), append(&on.metadata, 5)));
            server.commit_table(&table(name), append(&on.metadata, 5)).await.unwrap();
        }
        let one = TableCommit { key: key("commit", "r"), ..snapshots[0].1.clone() };
        server.commit_table(&table("t"), one.clone()).await.unwrap();
        let pair = Idempotency::new("pair", "r".to_owned()).unwrap();
        server.commit_transaction(snapshots.clone(), Some(&pair)).await.unwrap();
        let made = TableCommit { key: key("made", "r"), ..creation(9) };
        for commit in [creation(9), made.clone()] {
            server.commit_table(&table("m"), commit).await.unwrap();
        }
        for name in ["t", "u", "m"] {
            other.drop_table(&table(name), false, None).await.unwrap();
        }
        for server in [&server, &other] {
            server.commit_table(&table("t"), one.clone()).await.unwrap();
            server.commit_transaction(snapshots.clone(), Some(&pair)).await.unwrap();
            server.commit_table(&table("m"), made.clone()).await.unwrap();
            assert_eq!(kind(server.load_table(&table("m")).await), Kind::NoTable, "it is not created again");
        }
    }
}

/// The answers to commits that all wait for the table when the first of them is its next.
pub(super) async fn committed_together(
    server: &Tested,
    name: &str,
    commits: Vec<TableCommit>,
) -> Vec<crate::table_queues::Answer> {
    let t = table(name);
    let table_queue = server.inner.table_queues.of(&t.catalog_name().unwrap());
    let mut ticket =
        table_queue.commits.join(Arc::new(crate::commit::Request::to_lead()), table_queue.commits.arrive()).unwrap();
    let glidepath_queue::Turn::Lead(seat) = ticket.turn().await else { unreachable!("nobody else waits") };
    let all = commits.len();
    let answers = glidepath_env::together(all, commits.into_iter().map(|commit| server.commit_table(&t, commit)));
    let (answers, ()) = futures_util::join!(answers, async {
        while table_queue.commits.waiting() < all {
            tokio::task::yield_now().await;
        }
        drop(ticket);
        seat.hand_over();
    });
    answers
}

/// Another server died before it answered, and all of its clients come to this one, beside another commit.
#[tokio::test(start_paused = true)]
async fn many_that_were_done_hold_up_no_other() {
    let world = World::new().await;
    let (dead, server) = (with(&world, &["t"]).await, world.server().await);
    let mut commits = vec![set("a", None)];
    for id in 1..=40 {
        let on = loaded(&dead, "t").await;
        let list = format!("{}/metadata/snap-{id}.avro", on.metadata.location());
        dead.inner.files.write(&list, "l".into()).await.unwrap();
        commits.push(TableCommit { key: key(&format!("k{id}"), "r"), ..append(&on.metadata, id) });
        dead.commit_table(&table("t"), commits.last().cloned().unwrap()).await.unwrap();
    }
    let answers = committed_together(&server, "t", commits).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(server.counts().versions.load(std::sync::atomic::Ordering::Relaxed), 1);
}
