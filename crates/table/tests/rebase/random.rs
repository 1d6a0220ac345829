//! Appends in any order lose no row, and damaged files harm nothing.

use glidepath_table::rebase::{NotRebased, Recognized};
use proptest::prelude::*;

use crate::world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Clients read the table, and commit later: by a step of their own. What does not conflict is committed as it is.
    #[test]
    fn every_append_is_there_once(version in 2_u8..=3, keep in 0_usize..12, steps in prop::collection::vec(0_usize..4, 1..24)) {
        let mut world = World::with_one(version);
        world.lists = glidepath_table::rebase::Lists::new(keep);
        let mut drafts = [const { None }; 4];
        let (mut id, mut rows) = (1, 10);
        for client in steps {
            match drafts[client].take() {
                None => {
                    id += 1;
                    drafts[client] = Some(world.draft(id, id));
                }
                Some(draft) => {
                    rows += draft.id.cast_unsigned();
                    let commit = world.send(&draft);
                    match world.recognize(&commit) {
                        Recognized::No(_) => world.apply(commit.updates),
                        _ => drop(world.rebased(&draft)),
                    }
                    prop_assert!(matches!(world.recognize(&world.send(&draft)), Recognized::AlreadyThere));
                }
            }
            prop_assert_eq!(world.rows(), (rows, rows));
        }
        let head = world.metadata.current_snapshot().unwrap().snapshot_id();
        let manifests = world.manifests(head);
        let numbers: Vec<_> = manifests.iter().map(|m| m.sequence_number).collect();
        prop_assert!(numbers.is_sorted_by(|a, b| a > b), "{numbers:?}");
        if version == 3 {
            let mut next = 0;
            for manifest in manifests.iter().rev() {
                prop_assert_eq!(manifest.first_row_id, Some(next));
                next += manifest.added_rows_count.unwrap();
            }
            prop_assert_eq!(next, world.metadata.next_row_id());
        }
    }

    /// A file with a few other bytes is refused or gives a commit; it does not panic.
    #[test]
    fn damage_is_an_error(manifest: bool, places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut world = World::with_one(2);
        let late = world.draft(3, 5);
        world.land(world.draft(2, 7));
        let candidate = world.candidate(&late);
        let name = if manifest { "s3://lake/t/metadata/m-3.avro" } else { "s3://lake/t/metadata/snap-3.avro" };
        let mut bytes = world.disk.bytes(name).to_vec();
        for (place, byte) in places {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        world.disk.put(name, bytes);
        if let Err(error) = world.rebase(&candidate) {
            let store = matches!(error, NotRebased::Store { .. });
            prop_assert!(!store);
        }
    }
}
