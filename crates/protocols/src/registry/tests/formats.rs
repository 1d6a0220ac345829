//! The bytes in which each protocol keeps a catalog: in the folder `formats/`, a file for each protocol, layout and
//! revision of its format. A file is never changed; the newest one is what is written now.
//!
//! After a change of a format, or for a new protocol, `GLIDEPATH_WRITE_FORMATS=1 cargo test -p glidepath-protocols
//! formats` writes the next revision. Look at the difference from the one before, which must still be read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use glidepath_model::{Advance, Field, MetadataId, PartitionId, PartitionVersions};
use smallvec::smallvec;

use super::*;
use crate::manifest_chain::Grace;
use crate::upkeep::Keep;

/// What a catalog may be kept as.
#[derive(Clone, Copy)]
struct Format {
    protocol: Protocol,
    layout: Layout,
}

impl Format {
    fn all() -> impl Iterator<Item = Self> {
        // The toy is no protocol that anybody keeps a catalog in.
        let protocols = Protocol::ALL.iter().filter(|protocol| protocol.name() != "toy");
        protocols.flat_map(|protocol| {
            let layouts = protocol.features().layouts;
            let layouts = if layouts.is_empty() { &[Layout::Paged] } else { layouts };
            layouts.iter().map(|layout| Self { protocol: *protocol, layout: *layout })
        })
    }

    fn file(self, revision: u32) -> PathBuf {
        let layout = if self.layout == Layout::Whole { "-whole" } else { "" };
        let name = format!("{}{layout}-{revision}.txt", self.protocol.name());
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("formats").join(name)
    }

    fn newest(self) -> u32 {
        (1..).find(|revision| !self.file(*revision).exists()).unwrap_or_default() - 1
    }

    fn creation(self) -> Creation {
        let partitions = smallvec![Version(2), Version(3)];
        let state = TableState { version: Version(4), metadata: MetadataId(7), partitions };
        // Both kinds of chains: with indices, and without.
        Creation { tables: vec![(TableId(5), state)], layout: self.layout, indexed: self.layout == Layout::Paged }
    }
}

type Objects = BTreeMap<Key, Payload>;

/// Each object: its key, then its bytes as hexadecimal digits, 32 in a line.
fn text(objects: &Objects) -> String {
    let mut out = String::new();
    for (key, payload) in objects {
        let _ = writeln!(out, "{key}");
        for line in payload.bytes.chunks(32) {
            let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(out, "  {digits}");
        }
    }
    out
}

fn parsed(text: &str) -> Objects {
    let mut objects = BTreeMap::<Key, Vec<u8>>::new();
    let mut key = None;
    for line in text.lines() {
        match line.strip_prefix("  ") {
            Some(digits) => {
                let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
                let bytes = objects.get_mut(key.as_ref().expect("a key comes first")).unwrap();
                bytes.extend((0..digits.len()).step_by(2).map(byte));
            }
            None => {
                let found = Key::new(line);
                objects.insert(found.clone(), Vec::new());
                key = Some(found);
            }
        }
    }
    objects.into_iter().map(|(key, bytes)| (key, Payload::from(Bytes::from(bytes)))).collect()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn create(text: &str, entry: Entry) -> Action {
    Action::Create { name: name(text), entry }
}

fn namespace(text: &str) -> Action {
    create(text, Entry::namespace())
}

fn pairs(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|number| (format!("key {number}"), "v".repeat(number * 40))).collect()
}

/// What every catalog in a file has been through, commit by commit; each is a request of one or more actions.
fn history() -> Vec<Vec<Action>> {
    let partitions: PartitionVersions = smallvec![Version(0), Version(300), Version(70_000)];
    let table = Entry {
        kind: Kind::Table,
        location: Some("s3://bucket/a/b/t".to_owned()),
        properties: pairs(2),
        state: Some(TableState { version: Version(1), metadata: MetadataId(u64::MAX), partitions }),
        pointer: Some("s3://bucket/a/b/t/metadata/0.json".to_owned()),
        ..Entry::namespace()
    };
    let view = Entry {
        kind: Kind::View,
        base_objects: vec![name("a/b/t"), name("a/b")],
        pointer: Some("views/0".to_owned()),
        ..Entry::namespace()
    };
    let newer = vec![Field { tag: 99, bytes: vec![0, 255, 1] }, Field { tag: 1000, bytes: Vec::new() }];
    let advance = |partition, seen: u64, metadata| Advance {
        metadata: MetadataId(metadata),
        partitions: smallvec![(PartitionId(partition), Version(seen))],
    };
    let moved = |expected: &str, pointer: &str| Action::SetPointer {
        name: name("a/b/t"),
        expected: Some(expected.to_owned()),
        pointer: pointer.to_owned(),
    };
    let mut commits = vec![
        vec![create("a", Entry { properties: pairs(3), ..Entry::namespace() })],
        vec![namespace("a/b"), create("a/b/t", table.clone())],
        vec![create("a/v", view)],
        vec![Action::Advance { name: name("a/b/t"), advance: advance(1, 300, 8) }],
        vec![moved("s3://bucket/a/b/t/metadata/0.json", "s3://bucket/a/b/t/metadata/1.json")],
        vec![create("äöü 表 %2F", Entry { unknown: newer, ..Entry::namespace() })],
        vec![
            Action::SetProperties { name: name("a"), changes: [("key 0".to_owned(), None)].into() },
            Action::Advance { name: Name::numbered(TableId(5)), advance: advance(0, 2, 9) },
        ],
        vec![Action::Rename { from: name("a/b/t"), to: name("a/moved") }],
        vec![namespace("gone"), create("gone/u", table.clone()), namespace("gone/deep"), create("gone/deep/w", table)],
        vec![Action::DropAll { name: name("gone") }],
        vec![Action::Drop { name: name("a/b"), kind: Kind::Namespace, expected: None }],
    ];
    commits.extend((0..12).map(|number| (0..3).map(|part| namespace(&format!("n{number}-{part}"))).collect()));
    commits.push(vec![Action::Drop { name: name("n3-1"), kind: Kind::Namespace, expected: None }]);
    commits
}

/// After this commit of the history comes a vacuum.
const CLEANED: usize = 14;

/// The numbers of entries after the commits of the history, the last one first; where a commit does not change it,
/// once.
const COUNTS: [usize; 21] = [LEFT, 41, 38, 35, 32, 29, 26, 23, 20, 17, 14, 11, 8, 5, 6, 10, 6, 5, 4, 2, 1];

/// The entries that the history leaves.
const LEFT: usize = 40;

/// A handle with one of two limits, so small that all kinds of objects occur.
fn handle(env: &SimEnv, protocol: Protocol, tiny: u32) -> AnyCatalog<SimEnv> {
    let settings = Settings { test_limits: Some(tiny), ..Settings::default() };
    protocol.shared_state("", &settings).open(env.clone(), env.store(STORE))
}

async fn act(catalog: &AnyCatalog<SimEnv>, actions: &[Action]) {
    let at = catalog.load().await.unwrap();
    let attempt = catalog.attempt_group(&at, &[actions]).await;
    let committed = matches!(attempt, GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. });
    assert!(committed, "{actions:?}: {attempt:?}");
}

/// The objects after the history, as they are written now.
fn written(format: Format) -> Objects {
    in_world(&BTreeMap::new(), move |env| async move {
        let (store, protocol) = (env.store(STORE), format.protocol);
        let (_, created) = AnyCatalog::create(env.clone(), store, "", protocol, format.creation()).await;
        assert!(matches!(created, Outcome::Committed(_)), "{protocol:?}: {created:?}");
        // At times that no request moves: how many a creation takes depends on the protocols of the registry.
        let mut begins = Instant::ZERO + Span::from_secs(60);
        for (number, actions) in history().iter().enumerate() {
            env.sleep_until(begins).await;
            act(&handle(&env, protocol, number as u32 % 2), actions).await;
            begins += Span::from_secs(60);
            if number == CLEANED {
                begins += Span::from_secs(7200);
                env.sleep_until(begins).await;
                handle(&env, protocol, 0).vacuum(Keep { versions: 3, age: Some(Grace::SHORTEST) }).await.unwrap();
            }
        }
    })
}

/// Runs this in a world with these objects, and returns those that are there afterwards.
fn in_world<F: Future<Output = ()> + 'static>(objects: &Objects, run: impl FnOnce(SimEnv) -> F + 'static) -> Objects {
    let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(10)))];
    let horizon = Instant::ZERO + Span::from_secs(1_000_000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores });
    for (key, payload) in objects {
        simulation.seed_object(STORE, key, payload.clone());
    }
    assert_eq!(simulation.run([(Instant::ZERO, run)]).unfinished, 0, "it came to no end");
    simulation.objects(STORE)
}

/// Every entry, by name.
async fn entries(catalog: &AnyCatalog<SimEnv>, at: &AnySnapshot) -> BTreeMap<Name, Entry> {
    let (mut found, mut ahead) = (BTreeMap::new(), vec![None]);
    while let Some(within) = ahead.pop() {
        for (name, entry) in catalog.children(at, within.as_ref(), None, 1000).await.unwrap() {
            if entry.kind == Kind::Namespace {
                ahead.push(Some(name.clone()));
            }
            found.insert(name, entry);
        }
    }
    found
}

/// Checks that a catalog has what the history leaves, in every version that it keeps, and nothing that fsck reports;
/// `more` namespaces were created after it.
async fn is_right(protocol: Protocol, file: &str, env: &SimEnv, more: usize) {
    let reader = AnyCatalog::find(env.clone(), env.store(STORE), "").await.unwrap();
    assert_eq!(reader.protocol(), protocol, "{file}");
    let at = reader.load().await.unwrap();
    let found = entries(&reader, &at).await;
    let spot = |text: &str| found.get(&name(text)).unwrap_or_else(|| panic!("{file}: no {text}"));
    assert_eq!(found.len(), LEFT + more, "{file}: {:?}", found.keys());
    assert_eq!(spot("a").properties, pairs(3).into_iter().skip(1).collect());
    let moved = spot("a/moved");
    let state = moved.state.as_ref().unwrap();
    assert_eq!((state.version, state.metadata), (Version(2), MetadataId(8)));
    assert_eq!(state.partitions[..], [Version(0), Version(301), Version(70_000)]);
    assert_eq!(moved.pointer.as_deref(), Some("s3://bucket/a/b/t/metadata/1.json"));
    assert_eq!((moved.location.as_deref(), &moved.properties), (Some("s3://bucket/a/b/t"), &pairs(2)));
    assert_eq!(spot("a/v").base_objects, [name("a/b/t"), name("a/b")]);
    assert_eq!(spot("äöü 表 %2F").unknown.len(), 2);
    let numbered = found[&Name::numbered(TableId(5))].state.as_ref().unwrap();
    assert_eq!((numbered.version, &numbered.partitions[..]), (Version(5), &[Version(3), Version(3)][..]));
    if protocol.features().keeps_old {
        let (oldest, newest) = (reader.oldest(&at).await.unwrap(), reader.version(&at).unwrap());
        assert!(oldest.0 > 0 && oldest.0 + 10 < newest.0, "{file}: {oldest:?} {newest:?}");
        let mut counts = Vec::new();
        for number in (oldest.0..=newest.0).rev() {
            let at = reader.version_at(Version(number)).await.unwrap().unwrap();
            counts.push(entries(&reader, &at).await.len());
        }
        // The version that a vacuum writes has the entries of the one before.
        counts.dedup();
        let later = (1..=more).rev().map(|more| LEFT + more);
        let expected: Vec<usize> = later.chain(COUNTS).take(counts.len()).collect();
        assert_eq!(counts, expected, "{file}");
    }
    let report = AnyCatalog::fsck_below(env, &env.store(STORE), "", false).await.unwrap();
    assert!(!report.is_damaged(), "{file}: {report:?}");
}

#[test]
fn formats_of_every_revision_are_read_and_written_on() {
    for (format, revision) in
        Format::all().flat_map(|format| (1..=format.newest()).map(move |revision| (format, revision)))
    {
        let (path, protocol) = (format.file(revision), format.protocol);
        let text = std::fs::read_to_string(&path).unwrap();
        in_world(&parsed(&text), move |env| async move {
            let file = path.display().to_string();
            is_right(protocol, &file, &env, 0).await;
            for number in 0..5 {
                act(&handle(&env, protocol, number % 2), &[namespace(&format!("later-{number}"))]).await;
            }
            is_right(protocol, &file, &env, 5).await;
            env.sleep_until(env.now() + Span::from_secs(7200)).await;
            handle(&env, protocol, 1).vacuum(Keep { versions: 20, age: None }).await.unwrap();
            is_right(protocol, &file, &env, 5).await;
        });
    }
}

#[test]
fn formats_are_written_as_in_the_newest_files() {
    for format in Format::all() {
        let (now, newest) = (text(&written(format)), format.newest());
        let kept = std::fs::read_to_string(format.file(newest)).unwrap_or_default();
        if kept == now {
            continue;
        }
        if std::env::var_os("GLIDEPATH_WRITE_FORMATS").is_some() {
            std::fs::write(format.file(newest + 1), &now).unwrap();
            continue;
        }
        let differs = kept.lines().zip(now.lines()).position(|(kept, now)| kept != now);
        let line = differs.unwrap_or_else(|| kept.lines().count().min(now.lines().count())) + 1;
        panic!(
            "{} is not what is written now, from line {line} on: see the beginning of {}",
            format.file(newest).display(),
            file!()
        );
    }
}
