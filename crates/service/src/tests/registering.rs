//! Registrations beside each other, beside purges and beside renames.

use glidepath_model::Action;

use super::careless::view;
use super::*;
use crate::commit::Lost;

async fn metadata_of(server: &Tested, name: &str) -> (String, String) {
    let body = loaded(server, name).await;
    (body.location.clone(), body.metadata.location().to_owned())
}

fn registration(name: &str, file: &str) -> Registration {
    Registration { identifier: table(name), metadata_location: file.to_owned(), overwrite: false }
}

#[tokio::test(start_paused = true)]
async fn one_registration_of_the_same_files_runs_at_a_time() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let (file, location) = metadata_of(&server, "t").await;
        server.drop_table(&table("t"), false, None).await.unwrap();

        // A server died after it had claimed the location.
        let dead = server.inner.claim(&[&location]).await.unwrap();
        assert_eq!(kind(server.register_table(registration("a", &file), None).await), Kind::Unavailable);
        world.pass(61 * 1000);
        server.register_table(registration("a", &file), None).await.unwrap();
        // It only slept, and does not know of the other one.
        let refused = server.inner.committer.commit(dead.ends()).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(kind(server.register_table(registration("b", &file), None).await), Kind::Invalid);
        // Nothing is left of those that were not done, so the files can be registered at once.
        server.drop_table(&table("a"), false, None).await.unwrap();
        server.register_table(registration("b", &file), None).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_purge_ends_registrations() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let (file, location) = metadata_of(&server, "t").await;
    let json = loaded(&server, "t").await.json.clone();
    let asleep = server.inner.claim(&[&location]).await.unwrap();
    server.drop_table(&table("t"), true, None).await.unwrap();
    assert_eq!(kind(server.register_table(registration("a", &file), None).await), Kind::Unavailable);
    world.pass(30 * 60 * 1000);
    assert_eq!(server.run_purges().await.ended, 1);
    assert_eq!(kind(server.register_table(registration("a", &file), None).await), Kind::Invalid, "there is no file");
    // A late write brings it back.
    server.inner.files.write(&file, json).await.unwrap();
    assert_eq!(kind(server.register_table(registration("a", &file), None).await), Kind::Unavailable);
    world.pass(25 * 60 * 60 * 1000);
    assert!(server.run_purges().await.failed.is_none());
    assert!(server.inner.committer.commit(asleep.ends()).await.is_err(), "however long it slept");
    assert!(server.inner.committer.commit(server.inner.claim(&[&location]).await.unwrap().ends()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_left_behind_is_removed() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let (_, location) = metadata_of(&server, "t").await;
    let left = server.inner.claim(&[&location]).await.unwrap();
    world.pass(59 * 60 * 1000);
    assert!(server.run_purges().await.failed.is_none());
    server.inner.committer.commit(left.ends()).await.unwrap();
    let left = server.inner.claim(&[&location]).await.unwrap();
    world.pass(61 * 60 * 1000);
    assert!(server.run_purges().await.failed.is_none());
    assert!(server.inner.committer.commit(left.ends()).await.is_err());
}

/// Without versions a name that moves makes a registration look again.
#[tokio::test(start_paused = true)]
async fn a_table_keeps_its_name_while_a_registration_may_look_for_it() {
    for protocol in [Protocol::Tickets, Protocol::ManifestChain] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let (_, location) = metadata_of(&server, "t").await;
        let claim = server.inner.claim(&[&location]).await.unwrap();
        let renamed = server.rename_table(&table("t"), &table("u"), None).await;
        if protocol == Protocol::ManifestChain {
            renamed.unwrap();
            continue;
        }
        assert_eq!(kind(renamed), Kind::Unavailable);
        server.inner.release(&claim).await;
        server.rename_table(&table("t"), &table("u"), None).await.unwrap();
    }
}

/// Another server may be about to delete an earlier file that the log of the table has no more.
#[tokio::test(start_paused = true)]
async fn what_a_table_may_delete_does_not_become_its_metadata() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let mut files = Vec::new();
    for _ in 0..4 {
        let updates = [("write.metadata.previous-versions-max".to_owned(), "1".to_owned())].into();
        let one = TableCommit { updates: vec![TableUpdate::SetProperties { updates }], ..set("a", None) };
        world.pass(1000);
        files.push(server.commit_table(&table("t"), one).await.unwrap().location.clone());
    }
    let over = |file: &str| Registration { overwrite: true, ..registration("t", file) };
    assert_eq!(kind(server.register_table(over(&files[0]), None).await), Kind::Invalid);
    for file in [&files[3], &files[2]] {
        assert_eq!(server.register_table(over(file), None).await.unwrap().location, *file);
    }
    server.drop_table(&table("t"), false, None).await.unwrap();
    assert_eq!(kind(server.register_table(over(&files[0]), None).await), Kind::Unavailable);
    world.pass(25 * 60 * 60 * 1000);
    assert!(server.run_purges().await.failed.is_none());
    server.register_table(over(&files[0]), None).await.unwrap();
}

/// An attempt on the newest version of the table `t` that is not committed, and its metadata file.
async fn attempt(server: &Tested) -> (Lost, String) {
    let on = loaded(server, "t").await;
    let requests = [Arc::new(crate::commit::Request::of(set("a", None)))];
    let draft = server.inner.decide(&on, &requests).await.draft.unwrap();
    let next = server.inner.write(Some(&on), draft).await.unwrap();
    let (mut lost, file) = (Lost::default(), next.body.location.clone());
    lost.add(&table("t").catalog_name().unwrap(), &on, next);
    (lost, file)
}

/// By the time at which a lost attempt is cleaned up, somebody may have given its files to the table.
#[tokio::test(start_paused = true)]
async fn what_an_attempt_wrote_stays_where_its_table_names_it() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let (lost, file) = attempt(&server).await;
    let over = Registration { overwrite: true, ..registration("t", &file) };
    server.register_table(over, None).await.unwrap();
    for _ in 0..2 {
        server.inner.discard(lost.clone()).await;
        server.inner.files.read(&file).await.unwrap();
        server.commit_table(&table("t"), set("b", None)).await.unwrap();
    }
}

/// On disk one file has two names.
#[tokio::test(start_paused = true)]
async fn what_an_attempt_wrote_stays_however_its_table_spells_it() {
    let world = World::new().await;
    let lake = "file:///lake";
    let server = world.server_of(Warehouse::new(world.files.clone(), lake), Settings::of(lake)).await;
    let space = Namespace { parts: vec!["n".to_owned()], properties: Default::default() };
    server.create_namespace(&space, None).await.unwrap();
    server.create_table(new("t"), None).await.unwrap();
    let (lost, file) = attempt(&server).await;
    let file = file.replace("file:///", "file:/");
    for _ in 0..2 {
        let over = Registration { overwrite: true, ..registration("t", &file) };
        assert_eq!(server.register_table(over, None).await.unwrap().location, file);
        server.inner.discard(lost.clone()).await;
        server.inner.files.read(&file).await.unwrap();
        server.commit_table(&table("t"), set("b", None)).await.unwrap();
        server.inner.discard(lost.clone()).await;
        server.inner.files.read(&file).await.unwrap();
    }
}

/// Where files that leave the log are deleted, none comes back into it.
#[tokio::test(start_paused = true)]
async fn what_has_left_the_log_stays_out_of_it() {
    for (deletes, allowed) in [("true", false), ("false", true)] {
        let world = World::new().await;
        let server = with(&world, &["t"]).await;
        let mut files = Vec::new();
        for _ in 0..6 {
            let updates = [
                ("write.metadata.previous-versions-max", "3"),
                ("write.metadata.delete-after-commit.enabled", deletes),
            ];
            let updates = updates.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            let one = TableCommit { updates: vec![TableUpdate::SetProperties { updates }], ..set("a", None) };
            world.pass(1000);
            files.push(server.commit_table(&table("t"), one).await.unwrap().location.clone());
        }
        let over = |file: &str| Registration { overwrite: true, ..registration("t", file) };
        let earlier = server.register_table(over(&files[4]), None).await;
        assert_eq!(earlier.is_ok(), allowed, "{earlier:?}");
    }
}

/// An attempt is deleted when its table has gone on: before, and after a drop, somebody may register it.
#[tokio::test(start_paused = true)]
async fn what_an_attempt_wrote_stays_where_its_table_has_not_gone_on() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let (lost, file) = attempt(&server).await;
    server.inner.discard(lost.clone()).await;
    server.inner.files.read(&file).await.unwrap();
    server.commit_table(&table("t"), set("b", None)).await.unwrap();
    server.inner.discard(lost).await;
    assert!(server.inner.files.read(&file).await.is_err());

    let (lost, file) = attempt(&server).await;
    server.drop_table(&table("t"), false, None).await.unwrap();
    server.inner.discard(lost.clone()).await;
    server.register_table(registration("u", &file), None).await.unwrap();
    server.create_table(new("t"), None).await.unwrap();
    server.inner.discard(lost).await;
    server.inner.files.read(&file).await.unwrap();
}

/// Another server may have slept since it saw that an attempt was lost, or that a file had left the log.
#[tokio::test(start_paused = true)]
async fn what_may_be_about_to_be_deleted_is_not_registered_for_a_day() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        let (lost, file) = attempt(&server).await;
        let first = loaded(&server, "t").await.location.clone();
        server.commit_table(&table("t"), set("b", None)).await.unwrap();
        let last = loaded(&server, "t").await.location.clone();
        server.drop_table(&table("t"), false, None).await.unwrap();
        assert_eq!(kind(server.register_table(registration("u", &file), None).await), Kind::Unavailable);
        let copy = file.replace("00001-", "copy-");
        server.inner.files.write(&copy, server.inner.files.read(&file).await.unwrap()).await.unwrap();
        server.register_table(registration("u", &copy), None).await.unwrap();
        server.drop_table(&table("u"), false, None).await.unwrap();
        server.register_table(registration("u", &first), None).await.unwrap();
        server.drop_table(&table("u"), false, None).await.unwrap();
        // It begins at the last one that was dropped, and not at the one before.
        assert_eq!(kind(server.register_table(registration("u", &file), None).await), Kind::Unavailable);
        server.register_table(registration("t", &last), None).await.unwrap();
        server.commit_table(&table("t"), set("c", None)).await.unwrap();
        server.drop_table(&table("t"), false, None).await.unwrap();
        for passed in [0, 23 * 60 * 60 * 1000] {
            world.pass(passed);
            assert!(server.run_purges().await.failed.is_none());
            assert_eq!(kind(server.register_table(registration("u", &file), None).await), Kind::Unavailable);
        }
        server.inner.discard(lost).await;
        world.pass(2 * 60 * 60 * 1000);
        assert!(server.run_purges().await.failed.is_none());
        server.register_table(registration("u", &file), None).await.unwrap();
    }
}

/// A drop between the look and the commit of a registration is seen by it.
#[tokio::test(start_paused = true)]
async fn a_registration_is_of_the_last_drop() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let body = loaded(&server, "t").await;
    let looked = server.inner.check_not_leaving(None, &body).await.unwrap();
    server.drop_table(&table("t"), false, None).await.unwrap();
    let again = server.inner.check_not_leaving(None, &body).await.unwrap();
    assert!(server.inner.committer.commit(vec![looked]).await.is_err());
    server.inner.committer.commit(vec![again.clone()]).await.unwrap();
    server.register_table(registration("t", &body.location), None).await.unwrap();
    server.commit_table(&table("t"), set("a", None)).await.unwrap();
    server.drop_table(&table("t"), true, None).await.unwrap();
    assert!(server.inner.committer.commit(vec![again]).await.is_err());
}

/// A registration could make its files another table's, or keep all others out.
#[tokio::test(start_paused = true)]
async fn no_registration_takes_the_folder_of_its_namespace() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let body = loaded(&server, "t").await;
    let json = String::from_utf8(body.json.to_vec()).unwrap();
    server.drop_table(&table("t"), false, None).await.unwrap();
    for former in ["s3://b/lake", "s3://b/lake/n"] {
        let property = format!(r#""properties":{{"glidepath.former-locations":"[\"{former}\"]","#);
        let noted = json.replacen(r#""properties":{"#, &property, 1);
        assert_ne!(noted, json);
        let file = format!("{}/metadata/1-{}.metadata.json", body.metadata.location(), former.len());
        server.inner.files.write(&file, noted.into()).await.unwrap();
        assert_eq!(kind(server.register_table(registration("u", &file), None).await), Kind::Invalid, "{former}");
    }
    server.register_table(registration("u", &body.location), None).await.unwrap();
}

/// A version that no counter goes on from.
#[tokio::test(start_paused = true)]
async fn a_file_may_have_the_highest_version() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let body = loaded(&server, "t").await;
    let file = format!("{}/metadata/{}-x.metadata.json", body.metadata.location(), u64::MAX);
    server.inner.files.write(&file, body.json.clone()).await.unwrap();
    server.drop_table(&table("t"), false, None).await.unwrap();
    server.register_table(registration("u", &file), None).await.unwrap();
    server.commit_table(&table("u"), set("a", None)).await.unwrap();
}

/// It would be deleted when it leaves the log.
#[tokio::test(start_paused = true)]
async fn no_file_is_in_its_own_log() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let body = loaded(&server, "t").await;
    server.drop_table(&table("t"), false, None).await.unwrap();
    let file = format!("{}/metadata/own.metadata.json", body.metadata.location());
    let mut json: serde_json::Value = serde_json::from_slice(&body.json).unwrap();
    json["metadata-log"] = serde_json::json!([{ "timestamp-ms": 1, "metadata-file": file }]);
    server.inner.files.write(&file, json.to_string().into()).await.unwrap();
    assert_eq!(kind(server.register_table(registration("u", &file), None).await), Kind::Invalid);
}

/// Files of one name: `v1.metadata.json`, as Hadoop's catalog names them, and those that somebody mended in place.
#[tokio::test(start_paused = true)]
async fn another_file_of_the_same_name_is_another_table() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let (server, other) = (with(&world, &["t"]).await, world.server().await);
        let body = loaded(&server, "t").await;
        let file = body.location.clone();
        let register = async || server.register_table(registration("t", &file), None).await.unwrap();
        let other_uuid = Uuid::from_u128(77);
        let mut replaced: serde_json::Value = serde_json::from_slice(&body.json).unwrap();
        replaced["table-uuid"] = other_uuid.to_string().into();
        // The other server has the first one in memory.
        assert_eq!(loaded(&other, "t").await.metadata.uuid(), body.metadata.uuid());
        let stale = |value: &str| {
            let mut commit = set(value, None);
            commit.requirements = vec![TableRequirement::UuidMatch { uuid: body.metadata.uuid() }];
            commit
        };
        server.drop_table(&table("t"), false, None).await.unwrap();
        server.inner.files.delete(&file).await.unwrap();
        server.inner.files.write(&file, replaced.to_string().into()).await.unwrap();
        assert_eq!(register().await.metadata.uuid(), other_uuid);
        for one in [&server, &other] {
            assert_eq!(loaded(one, "t").await.metadata.uuid(), other_uuid);
            assert_eq!(kind(one.commit_table(&table("t"), stale("a")).await), Kind::Conflict);
        }
        other.commit_table(&table("t"), set("b", None)).await.unwrap();
        assert_eq!(loaded(&server, "t").await.metadata.uuid(), other_uuid);
    }
}

/// A commit on what was loaded before the file was registered again; the pointer is the same.
#[tokio::test(start_paused = true)]
async fn no_commit_replaces_what_was_registered_since_it_looked() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let name = table("t").catalog_name().unwrap();
    let before = loaded(&server, "t").await;
    server.drop_table(&table("t"), false, None).await.unwrap();
    server.register_table(registration("t", &before.location), None).await.unwrap();
    for on in [&before, &loaded(&server, "t").await] {
        let pointer = Action::SetPointer {
            name: name.clone(),
            expected: Some(on.location.clone()),
            pointer: "s3://b/lake/n/t/metadata/2.json".to_owned(),
        };
        let moved = server.inner.committer.commit(vec![on.same_registration(&name), pointer]).await;
        assert_eq!(moved.is_ok(), on.registered.is_some());
    }
}

/// The same of a view.
#[tokio::test(start_paused = true)]
async fn another_file_of_the_same_name_is_another_view() {
    let world = World::new().await;
    let (server, other) = (with(&world, &[]).await, world.server().await);
    let made = server.create_view(view(schema(), 1), None).await.unwrap();
    other.load_view(&table("v")).await.unwrap();
    let mut replaced: serde_json::Value = serde_json::from_slice(&made.json).unwrap();
    let uuid = Uuid::from_u128(78);
    replaced["view-uuid"] = uuid.to_string().into();
    server.drop_view(&table("v"), None).await.unwrap();
    server.inner.files.delete(&made.location).await.unwrap();
    server.inner.files.write(&made.location, replaced.to_string().into()).await.unwrap();
    server.register_view(&table("v"), &made.location, None).await.unwrap();
    let updates = vec![iceberg::ViewUpdate::SetProperties { updates: [("a".to_owned(), "1".to_owned())].into() }];
    for one in [&server, &other] {
        assert_eq!(one.load_view(&table("v")).await.unwrap().metadata.uuid(), uuid);
        let commit = ViewCommit { uuids: Vec::new(), creates: false, updates: updates.clone() };
        assert_eq!(one.commit_view(&table("v"), commit, None).await.unwrap().metadata.uuid(), uuid);
    }
}
