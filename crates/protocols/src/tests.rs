//! What all protocols have in common.

pub(crate) mod counted;

use std::sync::Arc;

use glidepath_env::Key;
use glidepath_model::{
    Action, Advance, ByteSize, Changes, Edit, Entry, MetadataId, Name, PartitionVersions, Refusal, TableId, TableState,
};
use smallvec::SmallVec;

use crate::append_log::{self, AppendLog, Limits};
use crate::catalog_file::{self, CatalogFile};
use crate::manifest_chain::{self, Layout, ManifestChain};
use crate::{Catalog, Outcome};
use counted::{World, at_once};

fn without_partitions() -> TableState {
    TableState { partitions: PartitionVersions::new(), ..TableState::new(1) }
}

/// Changes that no reader could decode are refused before anything is written, and later commits succeed.
fn keeps_out_what_cannot_be_read<C: Catalog<Snapshot: std::fmt::Debug>>(catalog: &C, world: &World) {
    let base = at_once(catalog.load()).unwrap();
    let nowhere = Advance { metadata: MetadataId(9), partitions: SmallVec::new() };
    for (table, edit) in [(7, Edit::Create(without_partitions())), (0, Edit::Advance(nowhere))] {
        world.counted();
        let outcome = at_once(catalog.commit(&base, &Changes::of(TableId(table), edit)));
        assert!(matches!(outcome, Outcome::Conflict(None)), "{outcome:?}");
        let counts = world.counted();
        assert_eq!((counts.puts, counts.appends), (0, 0));
    }
    let fine = Changes::of(TableId(7), Edit::Create(TableState::new(1)));
    assert!(matches!(at_once(catalog.commit(&base, &fine)), Outcome::Committed(_)));
    let newest = at_once(catalog.load()).unwrap();
    let states = at_once(catalog.tables(&newest, &[TableId(0), TableId(7)])).unwrap();
    assert!(states.iter().all(Option::is_some));
}

fn tables() -> Vec<(TableId, TableState)> {
    vec![(TableId(0), TableState::new(1))]
}

#[test]
fn nothing_is_written_that_cannot_be_read_back() {
    let world = World::default();
    let shared_state = catalog_file::SharedState::new(Key::new("catalog"), ByteSize::default());
    let file = CatalogFile::new(world.clone(), world.clone(), Arc::new(shared_state));
    assert!(matches!(at_once(file.create(tables())), Outcome::Committed(_)));
    keeps_out_what_cannot_be_read(&file, &world);

    let world = World::default();
    let log =
        AppendLog::new(world.clone(), world.clone(), Arc::new(append_log::SharedState::new("log", Limits::default())));
    assert!(matches!(at_once(log.create(tables())), Outcome::Committed(_)));
    keeps_out_what_cannot_be_read(&log, &world);

    for layout in Layout::ALL {
        let world = World::default();
        let shared_state = Arc::new(manifest_chain::SharedState::new("chain/", 1 << 20));
        let chain = ManifestChain::new(world.clone(), world.clone(), shared_state);
        let Outcome::Committed(empty) = at_once(chain.create(layout, true)) else { panic!("not created") };
        let create = Changes::of(TableId(0), Edit::Create(TableState::new(1)));
        assert!(matches!(at_once(chain.commit(&empty, &create)), Outcome::Committed(_)));
        keeps_out_what_cannot_be_read(&chain, &world);
        let name = Name::numbered(TableId(3));
        let action = Action::Create { name: name.clone(), entry: Entry::table(None, without_partitions()) };
        let (verdicts, _) = at_once(chain.attempt(&empty, &[&[action]]));
        assert_eq!(verdicts, [Err(Refusal::NoPartitions(name))]);
    }
}
