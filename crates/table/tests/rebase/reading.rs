//! Which files of an append are read when.

use futures_executor::block_on;
use glidepath_table::rebase::{Lists, ReadAhead, read_ahead, rebase_read};
use uuid::Uuid;

use crate::world::{Draft, NOW, World, entry, manifest_of};

const MIB: usize = 1 << 20;

/// A stale append of a manifest of each of these lengths, about, in the order of the list; and how much longer it says
/// that each is.
fn append(world: &World, lengths: &[usize], longer: i64) -> Draft {
    let mut draft = world.draft(3, 1);
    let one = draft.list.remove(0);
    for (place, length) in lengths.iter().enumerate() {
        let mut manifest = one.clone();
        manifest.manifest_path = path(place);
        let bytes = manifest_of(&[entry(1)], *length);
        manifest.manifest_length = i64::try_from(bytes.len()).unwrap() + longer;
        world.disk.put(&manifest.manifest_path, bytes);
        draft.list.insert(place, manifest);
    }
    let rows = |name: &str| draft.snapshot["summary"][name].as_str().unwrap().parse::<usize>().unwrap();
    let (added, total) = (lengths.len(), rows("total-records") + lengths.len() - 1);
    draft.snapshot["summary"]["added-records"] = added.to_string().into();
    draft.snapshot["summary"]["total-records"] = total.to_string().into();
    draft
}

fn path(place: usize) -> String {
    format!("s3://lake/t/metadata/of-{place}.avro")
}

fn ahead(world: &World, draft: &Draft) -> ReadAhead {
    let updates = world.send(draft).updates;
    block_on(read_ahead(&updates, &world.metadata, false, &world.disk, &world.lists)).unwrap()
}

/// The numbers of the added manifests that have been read since the last time.
fn read(world: &World) -> Vec<usize> {
    let reads = std::mem::take(&mut *world.disk.reads.lock().unwrap());
    (0..99).flat_map(|place| reads.iter().filter(move |read| **read == path(place)).map(move |_| place)).collect()
}

/// Rebases with what was read ahead, and returns which manifests were read for it.
#[track_caller]
fn rebased(world: &mut World, draft: &Draft, ahead: Option<&ReadAhead>) -> Vec<usize> {
    let candidate = world.candidate(draft);
    read(world);
    let fresh = Uuid::from_u128(7);
    let done = block_on(rebase_read(&candidate, ahead, &world.metadata, &world.disk, &world.lists, (fresh, NOW)));
    let done = done.unwrap();
    world.disk.put(&done.list_location, done.list.clone());
    world.apply(done.updates);
    read(world)
}

#[test]
fn what_fits_is_read_ahead_and_the_rest_by_the_leader() {
    let mut world = World::with_one(2);
    let draft = append(&world, &[1000, 2 * MIB, 2000, MIB], 0);
    world.land(world.draft(2, 7));
    let ahead = ahead(&world, &draft);
    assert_eq!(read(&world), [0, 2]);
    assert!(ahead.bytes() < 10_000, "{}", ahead.bytes());
    assert_eq!(rebased(&mut world, &draft, Some(&ahead)), [1, 3]);
    assert_eq!(world.rows(), (21, 21));
}

#[test]
fn a_manifest_that_is_longer_than_its_list_says_is_not_read_ahead() {
    let mut world = World::with_one(2);
    let draft = append(&world, &[2 * MIB, 1000], -1000);
    world.land(world.draft(2, 7));
    let ahead = ahead(&world, &draft);
    assert!(ahead.bytes() < 10_000, "{}", ahead.bytes());
    read(&world);
    assert_eq!(rebased(&mut world, &draft, Some(&ahead)), [0, 1]);
    assert_eq!(world.rows(), (19, 19));
}

#[test]
fn large_manifests_are_read_one_by_one() {
    let mut world = World::with_one(2);
    let draft = append(&world, &[9 * MIB, 1000, 9 * MIB], 0);
    world.land(world.draft(2, 7));
    assert_eq!(rebased(&mut world, &draft, None), [0, 1, 2]);
    assert_eq!(world.rows(), (20, 20));
}

#[test]
fn what_is_longer_than_its_list_says_is_refused_beside_others_and_read_by_itself() {
    let mut world = World::with_one(2);
    let draft = append(&world, &[9 * MIB, 1000, 2 * MIB], -9 * (MIB as i64));
    world.land(world.draft(2, 7));
    assert_eq!(rebased(&mut world, &draft, None), [0, 0, 0, 1, 2, 2]);
    assert_eq!(world.rows(), (20, 20));
}

/// So many entries take more memory than many appends may have at once.
#[test]
fn lists_that_take_much_memory_are_read_one_by_one() {
    let mut world = World::with_one(2);
    let mut wide = world.draft(2, 7);
    for number in 0..20_000 {
        let mut manifest = wide.list[0].clone();
        manifest.manifest_path = format!("s3://lake/t/metadata/one-of-{number}.avro");
        wide.list.push(manifest);
    }
    world.land(wide);
    let (late, mut later) = (append(&world, &[1000], 0), world.draft(4, 1));
    // Its parent's manifests are not known, so those of its own list are copied.
    later.list.rotate_left(1);
    world.land(world.draft(5, 1));
    world.lists = Lists::new(0);
    let updates = world.send(&later).updates;
    let ahead = block_on(read_ahead(&updates, &world.metadata, false, &world.disk, &world.lists));
    assert!(ahead.is_none_or(|ahead| ahead.bytes() < MIB));
    let reads = |location: &str| world.disk.reads.lock().unwrap().iter().filter(|read| *read == location).count();
    let (candidate, head) = (world.candidate(&late), "s3://lake/t/metadata/snap-5.avro");
    let before = reads(head);
    world.rebase(&candidate).unwrap();
    assert_eq!(reads(head), before + 1, "it is not read again because it is large");
    assert_eq!(rebased(&mut world, &late, None), [0]);
    world.rebased(&later);
    assert_eq!(world.manifests(4).len(), 20_005);
}

#[test]
fn a_list_that_adds_very_many_is_not_read_ahead() {
    let world = World::with_one(2);
    let mut draft = append(&world, &[1000], 0);
    for number in 0..3000 {
        let mut manifest = draft.list[0].clone();
        manifest.manifest_path = format!("s3://lake/t/metadata/one-of-{number}.avro");
        draft.list.push(manifest);
    }
    let updates = world.send(&draft).updates;
    assert!(block_on(read_ahead(&updates, &world.metadata, false, &world.disk, &world.lists)).is_none());
}

#[test]
fn a_long_list_is_not_read_ahead() {
    let mut world = World::with_one(2);
    let mut draft = append(&world, &[1000], 0);
    let long = path(0).replace("of-0", &"x".repeat(3 * MIB));
    world.disk.put(&long, world.disk.bytes(&path(0)));
    draft.list[0].manifest_path = long;
    let updates = world.send(&draft).updates;
    let read = block_on(read_ahead(&updates, &world.metadata, false, &world.disk, &world.lists));
    assert!(read.is_none());
    world.land(world.draft(2, 7));
    rebased(&mut world, &draft, None);
    assert_eq!(world.rows(), (18, 18));
}
