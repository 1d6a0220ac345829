//! Tables and views that move, and folders that several requests name at once.

use glidepath_model::{Action, Name, Refusal};

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
        assert_eq!(server.run_purges().await.ended, 1);
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

/// The old claim is there when a rename looks, and may be gone when it commits: that says nothing of the table.
#[tokio::test(start_paused = true)]
async fn a_claim_that_ends_beside_a_rename_hides_no_table() {
    let world = World::of(Protocol::Tickets).await;
    let server = with(&world, &["t"]).await;
    let t = table("t").catalog_name().unwrap();
    let claim = server.inner.claim(&[loaded(&server, "t").await.metadata.location()]).await.unwrap();
    let of_claim = claim.ends().into_iter().find_map(|action| match action {
        Action::Drop { name, .. } => Some(name),
        _ => None,
    });
    let gone = |name: &Name| Refusal::NotFound(name.clone());
    assert!(crate::tables::is_passing(&gone(&of_claim.unwrap()), &t));
    assert!(!crate::tables::is_passing(&gone(&t), &t));
}

/// Tables may keep their metadata in one folder, and leave it.
#[tokio::test(start_paused = true)]
async fn tables_that_shared_a_folder_of_metadata_can_be_registered_again() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let names = ["s1", "s2", "s3"];
    for name in names {
        let properties = HashMap::from([("write.metadata.path".to_owned(), "s3://b/lake/meta".to_owned())]);
        server.create_table(NewTable { properties, ..new(name) }, None).await.unwrap();
        let removals = vec!["write.metadata.path".to_owned()];
        let updates = vec![TableUpdate::RemoveProperties { removals }];
        server.commit_table(&table(name), TableCommit { updates, ..set("", None) }).await.unwrap();
    }
    for name in names {
        let file = loaded(&server, name).await.location.clone();
        server.drop_table(&table(name), false, None).await.unwrap();
        server.register_table(registration(name, &file), None).await.unwrap();
    }
    // But that folder is no other table's.
    assert_eq!(kind(server.create_table(at("u", "s3://b/lake/meta"), None).await), Kind::Invalid);
    let (mine, own) = ("s3://b/lake/mine", loaded(&server, "s1").await.metadata.location().to_owned());
    server.create_table(at("u", mine), None).await.unwrap();
    server.commit_table(&table("u"), metadata_in(&own)).await.unwrap();
    let file = loaded(&server, "u").await.location.clone();
    server.drop_table(&table("u"), false, None).await.unwrap();
    assert_eq!(kind(server.register_table(registration("u", &file), None).await), Kind::Invalid, "in the folder of s1");
}

/// What another catalog moved says nothing of its former folders; the entry of the same table may.
#[tokio::test(start_paused = true)]
async fn an_overwriting_registration_keeps_what_is_known_of_the_table() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let t = table("t");
    let before = loaded(&server, "t").await;
    let appended = server.commit_table(&t, append(&before.metadata, 5)).await.unwrap();
    let moved = server.commit_table(&t, to("s3://b/lake/second")).await.unwrap();
    server.drop_table(&t, false, None).await.unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&moved.json).unwrap();
    json["properties"].as_object_mut().unwrap().remove(crate::placing::FORMER);
    let foreign = "s3://b/lake/second/metadata/00009-foreign.metadata.json";
    server.inner.files.write(foreign, json.to_string().into()).await.unwrap();
    server.register_table(registration("t", foreign), None).await.unwrap();
    json["snapshots"] = serde_json::json!([]);
    json["refs"] = serde_json::json!({});
    json["metadata-log"] = serde_json::json!([]);
    json["current-snapshot-id"] = serde_json::Value::Null;
    json["last-updated-ms"] = (moved.metadata.last_updated_ms() + 1).into();
    json["snapshot-log"] = serde_json::json!([]);
    let expired = "s3://b/lake/second/metadata/00010-foreign.metadata.json";
    server.inner.files.write(expired, json.to_string().into()).await.unwrap();
    let again = Registration { overwrite: true, ..registration("t", expired) };
    server.register_table(again, None).await.unwrap();
    assert_eq!(kind(server.register_table(registration("u", &appended.location), None).await), Kind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_the_folder_of_a_namespace() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let inner = Namespace {
        parts: vec!["own".to_owned()],
        properties: [("location".to_owned(), "s3://b/lake/a/b".to_owned())].into(),
    };
    server.create_namespace(&inner, None).await.unwrap();
    for place in ["s3://b/lake/n", "s3://b/lake/n/"] {
        assert_eq!(kind(server.commit_table(&table("t"), to(place)).await), Kind::Invalid);
        assert_eq!(kind(server.create_table(at("u", place), None).await), Kind::Invalid);
    }
    for place in ["s3://b/lake/a", "s3://b/lake/a/b"] {
        let identifier = Identifier { namespace: inner.parts.clone(), name: "l".to_owned() };
        let properties = Default::default();
        let declared = NewLanceTable { identifier, location: Some(place.to_owned()), properties };
        assert_eq!(kind(server.declare_lance(declared).await), Kind::Invalid);
    }
}

/// The end of a purge removes one claim of several.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_claim_of_several_folders() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let (one, other) = ("s3://b/lake/one", "s3://b/lake/other");
    let claim = server.inner.claim(&[one, other]).await.unwrap();
    server.inner.committer.commit(server.inner.ends_of_claims(one).await.unwrap()).await.unwrap();
    server.inner.release(&claim).await;
    server.inner.claim(&[one, other]).await.unwrap();
    let deep = format!("s3://b/lake{}", "/a".repeat(100));
    assert_eq!(kind(server.create_table(at("t", &deep), None).await), Kind::Invalid);
}

/// Each of several moves that wait together is looked at.
#[tokio::test(start_paused = true)]
async fn a_move_that_another_follows_is_refused_too() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t", "s"]).await;
        let other = loaded(&server, "s").await.metadata.location().to_owned();
        let (t, table_queue) = (table("t"), server.inner.table_queues.of(&table("t").catalog_name().unwrap()));
        let mut ticket = table_queue
            .commits
            .join(Arc::new(crate::commit::Request::to_lead()), table_queue.commits.arrive())
            .unwrap();
        let glidepath_queue::Turn::Lead(seat) = ticket.turn().await else { unreachable!("nobody else waits") };
        let (moved, on, ()) = futures_util::join!(
            server.commit_table(&t, to(&other)),
            server.commit_table(&t, to("s3://b/lake/on")),
            async {
                while table_queue.commits.waiting() < 3 {
                    tokio::task::yield_now().await;
                }
                drop(ticket);
                seat.hand_over();
            },
        );
        assert!(on.is_ok());
        assert_eq!(kind(moved), Kind::Invalid);
        assert!(!loaded(&server, "t").await.metadata.properties()["glidepath.former-locations"].contains(&other));
    }
}

/// A table that went away and came back, with its metadata elsewhere now.
#[tokio::test(start_paused = true)]
async fn a_table_that_came_back_is_found() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let t = table("t");
    let first = loaded(&server, "t").await;
    server.commit_table(&t, to("s3://b/lake/away")).await.unwrap();
    server.inner.files.delete(&first.location).await.unwrap();
    let mut back = to(first.metadata.location());
    back.updates.extend(metadata_in("s3://b/lake/meta").updates);
    server.commit_table(&t, back).await.unwrap();
    server.rename_table(&t, &table("u"), None).await.unwrap();
    let mut again = creation(7);
    again.updates.push(TableUpdate::SetLocation { location: first.metadata.location().to_owned() });
    assert_eq!(kind(server.commit_table(&t, again).await), Kind::Invalid);
}

/// The lists of a table stay known when its metadata goes elsewhere.
#[tokio::test(start_paused = true)]
async fn nobody_gets_a_folder_of_lists_that_was_left() {
    for protocol in worlds() {
        let world = World::of(protocol).await;
        let server = with(&world, &["t", "s"]).await;
        let t = table("t");
        for place in ["s3://b/lake/one/metadata", "s3://b/lake/two"] {
            server.commit_table(&t, metadata_in(place)).await.unwrap();
        }
        let removals = vec!["write.metadata.path".to_owned()];
        let unset = TableCommit { updates: vec![TableUpdate::RemoveProperties { removals }], ..set("a", None) };
        let both = vec![(t.clone(), unset), (table("s"), set("a", None))];
        server.commit_transaction(both, None).await.unwrap();
        server.rename_table(&t, &table("u"), None).await.unwrap();
        for place in ["s3://b/lake/one", "s3://b/lake/one/metadata", "s3://b/lake/two"] {
            assert_eq!(kind(server.create_table(at("w", place), None).await), Kind::Invalid, "{place}");
            assert_eq!(kind(server.commit_table(&table("s"), to(place)).await), Kind::Invalid, "{place}");
        }
    }
}

/// The file of a commit that came too late may be another view's by then.
#[tokio::test(start_paused = true)]
async fn what_a_lost_commit_to_a_view_wrote_stays() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let on = server.create_view(super::careless::view(schema(), 1), None).await.unwrap();
    let update = |updates| ViewCommit { uuids: Vec::new(), creates: false, updates };
    let property = HashMap::from([("a".to_owned(), "1".to_owned())]);
    let later = update(vec![iceberg::ViewUpdate::SetProperties { updates: property.clone() }]);
    server.commit_view(&table("v"), later, None).await.unwrap();
    let moved = iceberg::ViewUpdate::SetLocation { location: "s3://b/lake/view2".to_owned() };
    let same = iceberg::ViewUpdate::SetProperties { updates: property };
    for (lost, folder) in [(moved, "s3://b/lake/view2"), (same, on.metadata.location())] {
        let files = async || server.inner.files.list(&format!("{folder}/metadata"), None, 10).await.unwrap().len();
        let before = files().await;
        let next = server.replaced(&on.metadata, vec![lost]).unwrap();
        let answer = server.replace_view(&table("v"), (&on, next), Vec::new(), None).await.unwrap();
        assert!(answer.is_none(), "another commit came first");
        assert_eq!(files().await, before + 1, "{folder}");
    }
}

/// So often that it could not be registered again, if each folder counted twice.
#[tokio::test(start_paused = true)]
async fn a_table_that_has_moved_often_can_be_registered() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    for number in 0..60 {
        let location = format!("s3://b/lake/place{number}/");
        let moved = TableCommit { updates: vec![TableUpdate::SetLocation { location }], ..set("a", None) };
        server.commit_table(&table("t"), moved).await.unwrap();
    }
    let body = loaded(&server, "t").await;
    // No move: it is the same folder.
    let location = format!("{}/", body.metadata.location());
    let stays = TableCommit { updates: vec![TableUpdate::SetLocation { location }], ..set("a", None) };
    let after = server.commit_table(&table("t"), stays).await.unwrap();
    let former = |body: &Loaded<TableMetadata>| body.metadata.properties().get(crate::placing::FORMER).cloned();
    assert_eq!(former(&after), former(&body));
    server.drop_table(&table("t"), false, None).await.unwrap();
    let from = Registration { identifier: table("t"), metadata_location: after.location.clone(), overwrite: false };
    server.register_table(from, None).await.unwrap();
}
