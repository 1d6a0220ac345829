//! Single rows of the fault table, each set up explicitly; and the number of requests of each path.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Guard, Key, ObjectStore, Payload};
use glidepath_model::{Changes, CommitId, Instant, Span, TableId, TableState, Version};
use glidepath_sim::{Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreModel};

use super::super::record::{Header, Intent, Record};
use super::super::{AppendLog, Landing, Limits, SharedState, Snapshot, checkpoint};
use super::counting::{CountingEnv, CountingStore};
use super::world::{STORE, advance, first_root, limits, seed_catalog, storm, world};
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::settling::Doubt;

/// Runs one process in a simulation without faults that holds these objects.
pub(super) fn alone<F: Future<Output = ()> + 'static>(
    objects: &[(&str, Vec<u8>)],
    process: impl FnOnce(SimEnv) -> F + 'static,
) -> Simulation {
    let mut simulation = world(1, Faults::default(), Mode::EveryOperation);
    for (key, bytes) in objects {
        simulation.seed_object(STORE, &Key::new(key), bytes::Bytes::from(bytes.clone()).into());
    }
    let ended = Rc::new(Cell::new(false));
    let end = Rc::clone(&ended);
    let run = async move |env| {
        process(env).await;
        end.set(true);
    };
    assert_eq!(simulation.run([(Instant::ZERO, run)]).unfinished, 0, "it came to no end");
    assert!(ended.get(), "the process did not get to its end");
    simulation
}

pub(super) fn shared_state(records: u64) -> Arc<SharedState> {
    Arc::new(SharedState::new("catalog", limits(records)))
}

fn log(env: &SimEnv, records: u64) -> AppendLog<SimEnv> {
    AppendLog::new(env.clone(), env.store(STORE), shared_state(records))
}

fn next(at: &Snapshot, metadata: u64) -> Changes {
    let table = TableId((metadata % 3) as u32);
    Changes::of(table, advance(at.table(table).unwrap(), metadata))
}

pub(super) async fn commit<E: Env>(log: &AppendLog<E>, metadata: u64) -> Snapshot {
    let base = log.load().await.unwrap();
    match log.commit(&base, &next(&base, metadata)).await {
        Outcome::Committed(now) => now,
        other => panic!("{other:?}"),
    }
}

const FIRST: &str = "catalog/checkpoint/00000000000000000000";
const SECOND: &str = "catalog/checkpoint/00000000000000000001";
const SEGMENT: &str = "catalog/log/00000000000000000000";

pub(super) fn catalog() -> (&'static str, Vec<u8>) {
    (FIRST, checkpoint::encode(0, &first_root()).to_vec())
}

/// Segment 0 with these records, each: table, version that it expects, metadata id, whether it closes the segment.
fn segment(records: &[(u32, u64, u64, bool)]) -> Vec<u8> {
    numbered_segment(0, records)
}

fn numbered_segment(number: u64, records: &[(u32, u64, u64, bool)]) -> Vec<u8> {
    let mut bytes = Header::Segment.encode(number).to_vec();
    for (table, expected, metadata, closes) in records {
        let mut state = TableState::new(1);
        state.partitions[0] = Version(*expected);
        let changes = Some(Changes::of(TableId(*table), advance(&state, *metadata)));
        bytes.extend(
            Record { commit: CommitId(*metadata), closes: *closes, intent: changes.map(Intent::Changes) }.encode(),
        );
    }
    bytes
}

#[test]
fn what_was_prepared_against_another_version_is_void_and_leaves_no_gap() {
    let bytes = segment(&[(0, 0, 10, false), (0, 0, 11, false), (1, 0, 12, false)]);
    alone(&[catalog(), (SEGMENT, bytes)], async |env| {
        let log = log(&env, 100);
        let at = log.load().await.unwrap();
        assert_eq!((at.0.version, at.commit(), at.0.records), (Version(2), CommitId(12), 3));
        assert_eq!(at.table(TableId(0)).unwrap().metadata.0, 10);
        assert_eq!(commit(&log, 13).await.0.version, Version(3));
    });
}

/// Row 9: the process that closed segment 0 crashed before it wrote the checkpoint. No process waits; the next one to
/// close a segment writes it.
#[test]
fn a_folder_that_died_blocks_nobody() {
    let bytes = segment(&[(0, 0, 10, false), (0, 1, 11, true)]);
    let simulation = alone(&[catalog(), (SEGMENT, bytes)], async |env| {
        let log = log(&env, 2);
        commit(&log, 12).await;
        assert_eq!(env.peek(STORE, &Key::new(SECOND)), None);
        assert_eq!(commit(&log, 13).await.0.version, Version(4));
        assert!(env.peek(STORE, &Key::new(SECOND)).is_some());
        // A process that knows nothing reads the same state.
        let other = super::cases::log(&env, 2).load().await.unwrap();
        assert_eq!((other.0.version, other.0.segment.number), (Version(4), 2));
    });
    let hint = simulation.peek(STORE, &Key::new("catalog/head")).unwrap();
    assert_eq!(&hint.bytes[..], b"2\n");
}

/// Row 10: a segment whose own checkpoint cannot be written stays open, up to the provider's limit.
#[test]
fn a_log_that_cannot_be_folded_goes_on_until_it_is_full() {
    let full: Vec<_> = (1..super::super::HARD_RECORDS).map(|n| (0, n, n, false)).collect();
    let segments = [numbered_segment(0, &[(0, 0, 5, true)]), numbered_segment(1, &full)];
    let [first, second] = segments;
    alone(&[catalog(), (SEGMENT, first), ("catalog/log/00000000000000000001", second)], async |env| {
        let store = CountingStore::new(env.store(STORE));
        let log = AppendLog::new(CountingEnv(env.clone()), store.clone(), shared_state(2));
        store.refuse_puts(true);
        let at = commit(&log, 30_001).await;
        assert_eq!((at.0.segment.number, at.0.records), (1, super::super::HARD_RECORDS));
        store.taken();
        let Outcome::Refused(cause) = log.commit(&at, &next(&at, 30_002)).await else { panic!("took it") };
        assert!(cause.to_string().contains("its checkpoint cannot be written"), "{cause}");
        assert_eq!(store.taken(), ["head checkpoint", "put checkpoint"]);
        store.refuse_puts(false);
        let at = commit(&log, 30_003).await;
        assert_eq!((at.0.segment.number, at.0.records), (2, 0));
        assert!(env.peek(STORE, &Key::new(SECOND)).is_some());
    });
}

#[test]
fn what_stands_behind_the_end_of_a_segment_does_not_count() {
    let bytes = segment(&[(0, 0, 10, true), (0, 1, 11, false)]);
    alone(&[catalog(), (SEGMENT, bytes)], async |env| {
        let at = log(&env, 100).load().await.unwrap();
        assert_eq!((at.0.version, at.0.segment.number), (Version(1), 1));
    });
}

/// Row 12: a writer that slept at the beginning of a segment until it was emptied gets a conflict, although the segment
/// has no records left.
#[test]
fn a_sleeper_at_an_emptied_segment_is_told_of_a_conflict() {
    for before in 0..4 {
        alone(&[catalog()], async move |env| {
            let log = |env| log(env, 2);
            let writer = log(&env);
            for metadata in 1..=before {
                commit(&writer, metadata).await;
            }
            let sleeper = log(&env);
            let base = sleeper.load().await.unwrap();
            for metadata in 10..20 {
                commit(&writer, metadata).await;
            }
            let vacuumed = writer.vacuum(0).await.unwrap();
            assert!(vacuumed.segments >= 2 && vacuumed.checkpoints == vacuumed.segments - 1, "{vacuumed:?}");
            assert!(matches!(sleeper.commit(&base, &next(&base, 77)).await, Outcome::Conflict(None)));
            // Neither state contains its commit, and the sleeper, whose segment was emptied, finds the newest state.
            let newcomer = log(&env);
            for log in [&sleeper, &writer, &newcomer] {
                let at = log.load().await.unwrap();
                assert_eq!(at.0.version, Version(before + 10));
                assert!((0..3).all(|table| at.table(TableId(table)).unwrap().metadata.0 != 77));
            }
            assert_eq!(writer.vacuum(0).await.unwrap(), Default::default());
        });
    }
}

/// Row 11: the outcome is not settled yet, and a vacuum has removed the evidence.
#[test]
fn what_was_vacuumed_before_it_was_settled_stays_unknown() {
    for before in [0, 1] {
        alone(&[catalog()], async move |env| {
            let (writer, sleeper) = (log(&env, 4), log(&env, 4));
            for metadata in 1..=before {
                commit(&writer, metadata).await;
            }
            let base = sleeper.load().await.unwrap();
            for metadata in 10..30 {
                commit(&writer, metadata).await;
            }
            writer.vacuum(2).await.unwrap();
            let (id, payload) = (CommitId(77), bytes::Bytes::from_static(b"never sent"));
            let ending = sleeper.settle(&base, id, payload, Doubt::default()).await;
            let Landing::Ended(Outcome::Unknown(cause)) = ending else { panic!("settled") };
            assert!(cause.to_string().contains("vacuumed"), "{cause}");
        });
    }
}

/// Row 13: records of a newer version are skipped if they may be, and otherwise stop every reader.
#[test]
fn unknown_records_stop_everybody_unless_they_may_be_skipped() {
    let unknown = |kind: u8, flags: u8| {
        let mut record = Record { commit: CommitId(5), closes: false, intent: None }.encode();
        (record[4], record[5]) = (kind, flags);
        let end = record.len() - 4;
        let checksum = crc32fast::hash(&record[..end]);
        record[end..].copy_from_slice(&checksum.to_le_bytes());
        [segment(&[(0, 0, 10, false)]), record].concat()
    };
    alone(&[catalog(), (SEGMENT, unknown(200, 2))], async |env| {
        assert_eq!(commit(&log(&env, 100), 11).await.0.version, Version(2));
    });
    for (bytes, says) in [(unknown(200, 0), "kind 200"), (unknown(1, 64), "bits 0x0040")] {
        let simulation = alone(&[catalog(), (SEGMENT, bytes.clone())], async move |env| {
            let Err(LoadError::Undecodable(cause)) = log(&env, 100).load().await else { panic!("read") };
            assert!(cause.to_string().contains(says), "{cause}");
        });
        assert_eq!(simulation.peek(STORE, &Key::new(SEGMENT)).unwrap().bytes, bytes);
    }
}

/// Row 14: appends are all or nothing, so half a record is damage. Damage that appears while a writer settles leaves
/// its outcome unknown.
#[test]
fn damage_stops_everybody() {
    let whole = segment(&[(0, 0, 10, false), (0, 1, 11, false)]);
    for cut in [1, 15, 16, 20, whole.len() - 1] {
        alone(&[catalog(), (SEGMENT, whole[..cut].to_vec())], async |env| {
            assert!(matches!(log(&env, 100).load().await, Err(LoadError::Undecodable(_))));
        });
    }
    alone(&[catalog(), (SEGMENT, whole)], async |env| {
        let (log, store) = (log(&env, 100), env.store(STORE));
        let base = log.load().await.unwrap();
        store.append(&Key::new(SEGMENT), bytes::Bytes::from_static(b"rubbish").into(), base.0.end).await.unwrap();
        let (id, payload) = (CommitId(77), bytes::Bytes::from_static(b"never sent"));
        let ending = log.settle(&base, id, payload, Doubt::default()).await;
        assert!(matches!(ending, Landing::Ended(Outcome::Unknown(_))));
        // The append was lost, perhaps to an earlier delivery of itself, and the damaged bytes do not tell.
        assert!(matches!(log.commit(&base, &next(&base, 12)).await, Outcome::Unknown(_)));
        assert!(matches!(log.load().await, Err(LoadError::Undecodable(_))));
        store.delete(&Key::new(SEGMENT)).await.unwrap();
        let Err(LoadError::Undecodable(cause)) = log.load().await else { panic!("went back") };
        assert!(cause.to_string().contains("gone"), "{cause}");
    });
}

/// What fsck finds, by its words.
async fn found(log: &AppendLog<SimEnv>) -> Vec<&'static str> {
    log.fsck(false).await.unwrap().findings.iter().map(|finding| finding.trouble).collect()
}

#[test]
fn a_check_tells_a_hundred_missing_checkpoints_at_most() {
    alone(&[catalog(), (SEGMENT, segment(&[(0, 0, 10, false)]))], async |env| {
        let log = log(&env, 100);
        let stray = log.shared_state.keys.checkpoint(90_000_000_000);
        assert!(
            env.store(STORE).put(&stray, Payload::from(bytes::Bytes::from(catalog().1)), Guard::None).await.is_ok()
        );
        let found = found(&log).await;
        assert!(found.contains(&"missing-checkpoint") && found.len() < 120, "{}", found.len());
    });
}

/// Row 14a: a process that has read the segment stops. A new one cannot tell, but fsck says what may be missing.
#[test]
fn what_can_be_told_of_a_lost_newest_segment() {
    for records in [100, 2] {
        alone(&[catalog()], async move |env| {
            let (writer, store) = (log(&env, records), env.store(STORE));
            for metadata in 10..13 {
                commit(&writer, metadata).await;
            }
            assert_eq!(found(&writer).await, [] as [&str; 0]);
            let last = if records == 2 { "catalog/log/00000000000000000001" } else { SEGMENT };
            store.delete(&Key::new(last)).await.unwrap();
            assert!(matches!(writer.load().await, Err(LoadError::Undecodable(_))));
            assert_eq!(found(&log(&env, records)).await, ["no-segment"]);
            // The note ends with the next commit.
            commit(&log(&env, records), 20).await;
            assert_eq!(found(&log(&env, records)).await, [] as [&str; 0]);
        });
    }
}

/// Row 24: the store was emptied, the catalog created anew, and the new log is as long as the writer's.
#[test]
fn a_record_for_another_log_is_found() {
    alone(&[catalog()], async |env| {
        let (writer, store) = (log(&env, 100), env.store(STORE));
        let at = commit(&writer, 12).await;
        let other = segment(&[(1, 0, 10, false)]);
        assert_eq!(other.len() as u64, at.0.end);
        store.put(&Key::new(SEGMENT), Payload::from(bytes::Bytes::from(other)), Guard::None).await.unwrap();
        // It expects a version of table 0 that the new log does not have.
        let advanced = Changes::of(TableId(0), advance(at.table(TableId(0)).unwrap(), 15));
        assert!(matches!(writer.commit(&at, &advanced).await, Outcome::Committed(_)));
        let report = log(&env, 100).fsck(false).await.unwrap();
        assert_eq!(report.findings.iter().map(|finding| finding.trouble).collect::<Vec<_>>(), ["void-record"]);
        assert!(report.is_damaged());
    });
}

#[test]
fn a_store_that_cannot_append_is_refused_before_anything_is_written() {
    let profile = Profile { append: None, ..Profile::constant(Span::from_millis(1)) };
    let horizon = Instant::ZERO + Span::from_secs(60);
    let setup = Setup { seed: 1, horizon, mode: Mode::LocalClocks, stores: vec![StoreModel::of(profile)] };
    let mut simulation = Simulation::new(setup);
    let said = Rc::new(RefCell::new(Vec::new()));
    let hear = Rc::clone(&said);
    simulation.keep_writes(STORE);
    simulation.run([(Instant::ZERO, move |env: SimEnv| async move {
        let log = log(&env, 100);
        let base = Snapshot(Arc::new(super::super::State::first(0, Arc::new(first_root()), true)));
        for outcome in [log.create(Vec::new()).await, log.commit(&base, &next(&base, 1)).await] {
            let Outcome::Refused(cause) = outcome else { panic!("{outcome:?}") };
            hear.borrow_mut().push(cause.to_string());
        }
        assert!(matches!(log.load().await, Err(LoadError::NotFound)));
    })]);
    assert!(said.borrow().len() == 2 && said.borrow().iter().all(|said| said.contains("cannot append")), "{said:?}");
    assert!(simulation.writes(STORE).is_empty());
}

/// A record that cannot be decoded is not written: it would stop every reader.
#[test]
fn changes_that_could_not_be_read_back_are_refused() {
    let simulation = alone(&[catalog()], async |env| {
        let log = log(&env, 100);
        let base = log.load().await.unwrap();
        let mut state = TableState::new(1);
        state.version = Version(u64::MAX);
        let refused = Changes::of(TableId(9), glidepath_model::Edit::Create(state));
        assert!(matches!(log.commit(&base, &refused).await, Outcome::Refused(_)));
        let large = glidepath_model::Edit::Create(TableState::new(1 << 20));
        assert!(matches!(log.commit(&base, &Changes::of(TableId(9), large)).await, Outcome::Refused(_)));
        commit(&log, 1).await;
    });
    assert_eq!(simulation.writes(STORE).len(), 2);
}

/// Versions that a checkpoint cannot hold are neither created nor reached by counting.
#[test]
fn versions_that_a_checkpoint_could_not_hold_are_refused() {
    alone(&[], async |env| {
        let log = log(&env, 100);
        let at = |version: u64| {
            let mut state = TableState::new(1);
            (state.version, state.partitions[0]) = (Version(version), Version(version));
            vec![(TableId(0), state)]
        };
        let last = (1 << 62) - 1;
        assert!(matches!(log.create(at(last + 1)).await, Outcome::Refused(_)));
        assert!(matches!(log.create(at(last - 1)).await, Outcome::Committed(_)));
        for fits in [true, false] {
            let base = log.load().await.unwrap();
            let changes = Changes::of(TableId(0), advance(base.table(TableId(0)).unwrap(), 7));
            let outcome = log.commit(&base, &changes).await;
            assert_eq!(matches!(outcome, Outcome::Committed(_)), fits, "{outcome:?}");
            assert_eq!(matches!(outcome, Outcome::Refused(_)), !fits, "{outcome:?}");
        }
    });
}

#[test]
fn of_many_creators_one_wins() {
    for seed in 0..50 {
        let mut simulation = world(seed, Faults { crash: 0.0, ..storm() }, Mode::EveryOperation);
        let winners = Rc::new(Cell::new(0));
        let starts = (0..6).map(|_| {
            let winners = Rc::clone(&winners);
            let start = move |env: SimEnv| async move {
                if let Outcome::Committed(_) = log(&env, 100).create(vec![(TableId(0), TableState::new(1))]).await {
                    winners.set(winners.get() + 1);
                }
            };
            (Instant::ZERO, start)
        });
        simulation.run(starts);
        assert!(winners.get() <= 1, "seed {seed}: {} winners", winners.get());
        let checkpoints = simulation.writes(STORE).iter().filter(|write| write.bytes.starts_with(b"GPLC")).count();
        assert_eq!(checkpoints, 1, "seed {seed}");
    }
}

/// The figures of `docs/protocols/append-log.md`.
#[test]
fn requests_are_as_few_as_the_page_says() {
    alone(&[], async |env| {
        let store = CountingStore::new(env.store(STORE));
        let open = || AppendLog::new(CountingEnv(env.clone()), store.clone(), shared_state(10));
        let log = open();
        assert!(matches!(log.create(first_root().tables().cloned().collect()).await, Outcome::Committed(_)));
        assert_eq!(store.taken(), ["put checkpoint", "put head"]);

        let mut at = log.load().await.unwrap();
        assert_eq!(store.taken(), ["get log"], "nothing new, before the first segment");
        for metadata in 1..=9 {
            let Outcome::Committed(now) = log.commit(&at, &next(&at, metadata)).await else { panic!("lost") };
            at = now;
        }
        assert_eq!(store.taken(), ["append log"; 9], "alone");
        at = log.load().await.unwrap();
        assert_eq!(store.taken(), ["get log"], "nothing new");
        let Outcome::Committed(now) = log.commit(&at, &next(&at, 10)).await else { panic!("lost") };
        assert_eq!(store.taken(), ["append log", "put checkpoint", "put head"], "closes the segment");

        // A second process.
        let other = open();
        assert_eq!(other.load().await.unwrap().0.version, now.0.version);
        assert_eq!(store.taken(), ["get head", "get checkpoint", "get log"], "opening");
        commit(&other, 11).await;
        assert_eq!(store.taken(), ["get log", "append log"], "load and commit");
        // The first process does not know of that yet. Its changes are to another table.
        let Outcome::Committed(_) = log.commit(&now, &next(&now, 12)).await else { panic!("lost") };
        assert_eq!(store.taken(), ["append log", "get log", "append log"], "collided, without a conflict");
        let at = other.load().await.unwrap();
        store.taken();
        assert!(matches!(other.commit(&at, &next(&now, 12)).await, Outcome::Conflict(_)));
        assert_eq!(store.taken(), [""; 0], "a conflict that the process can see");
        assert!(matches!(open().load().await, Ok(at) if at.0.version == Version(12)));
    });
}

/// Opening takes as many requests after many commits as after few. A hint may be missing, wrong or old.
#[test]
fn opening_takes_a_fixed_number_of_requests() {
    alone(&[catalog()], async |env| {
        let store = CountingStore::new(env.store(STORE));
        let open = || AppendLog::new(CountingEnv(env.clone()), store.clone(), shared_state(20));
        let (log, hint) = (open(), Key::new("catalog/head"));
        let opened = async || {
            store.taken();
            let version = open().load().await.unwrap().0.version;
            (version, store.taken().len())
        };
        for metadata in 1..=45 {
            commit(&log, metadata).await;
        }
        assert_eq!(opened().await, (Version(45), 3));
        for metadata in 46..=4005 {
            commit(&log, metadata).await;
        }
        assert_eq!(opened().await, (Version(4005), 3));
        let write = async |text: &'static str| {
            let payload = Payload::from(bytes::Bytes::from_static(text.as_bytes()));
            env.store(STORE).put(&hint, payload, Guard::None).await.unwrap();
        };
        write("199\n").await;
        assert_eq!(opened().await, (Version(4005), 4), "one behind");
        write("3\n").await;
        assert_eq!(opened().await, (Version(4005), 8), "far behind: two segments, then hint and listing");
        write("1000000\n").await;
        assert_eq!(opened().await, (Version(4005), 5), "a wrong hint");
        write("rubbish").await;
        assert_eq!(opened().await, (Version(4005), 4), "no hint");
        write("3\n").await;
        log.vacuum(2).await.unwrap();
        assert_eq!(opened().await, (Version(4005), 5), "its checkpoint is missing");
    });
}

/// Limits differ between writers, and the hard limits hold for all of them.
#[test]
fn limits_are_kept_within_what_every_provider_takes() {
    let wild = Limits { records: u64::MAX, size: glidepath_model::ByteSize::from_bytes(u64::MAX), tries: 0 };
    let shared_state = SharedState::new("catalog", wild);
    assert_eq!(
        (shared_state.limits.records, shared_state.limits.size.as_bytes(), shared_state.limits.tries),
        (9_000, 64 << 20, 1)
    );
    let mut simulation = world(1, Faults::default(), Mode::EveryOperation);
    seed_catalog(&simulation);
    simulation.run([(Instant::ZERO, async |env: SimEnv| {
        let size = glidepath_model::ByteSize::from_bytes(1000);
        let shared_state = Arc::new(SharedState::new("catalog", Limits { records: 1000, size, tries: 4 }));
        let log = AppendLog::new(env.clone(), env.store(STORE), shared_state);
        for metadata in 1..100 {
            commit(&log, metadata).await;
        }
        let metadata = env.peek(STORE, &Key::new(SEGMENT)).unwrap();
        assert!((1000..1100).contains(&metadata.size.as_bytes()), "{metadata:?}");
    })]);
}
