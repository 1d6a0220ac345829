//! Rules of the tree that only a defect in the code could break, broken on purpose in a simulated store.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Guard, Payload};
use glidepath_model::{Action, Entry, Instant, Kind, Name, Span, TableState};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use proptest::prelude::*;

use super::*;
use crate::Outcome;
use crate::manifest_chain::page::Page;
use crate::manifest_chain::tree::{self, Edit, Packer};
use crate::manifest_chain::{Attempt, Layout, SharedState, Snapshot, rows};
use crate::tests::counted::{World, at_once};

type Chain = ManifestChain<SimEnv>;

/// Runs a future on an empty catalog.
fn with_chain<T: 'static, F: Future<Output = T> + 'static>(life: impl FnOnce(Chain) -> F + 'static) -> T {
    let model = StoreModel {
        faults: Faults::default(),
        effect: EffectPoint::Half,
        profile: Profile::constant(Span::from_millis(10)),
    };
    let horizon = Instant::ZERO + Span::from_secs(360_000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let result = Rc::new(RefCell::new(None));
    let told = Rc::clone(&result);
    simulation.run(vec![(Instant::ZERO, move |env: SimEnv| async move {
        let store = env.store(StoreId(0));
        let chain = Chain::new(env, store, Arc::new(SharedState::new("", 1 << 20)));
        assert!(matches!(chain.create(Layout::Paged, true).await, Outcome::Committed(_)));
        *told.borrow_mut() = Some(life(chain).await);
    })]);
    drop(simulation);
    result.take().expect("it ended before the horizon")
}

/// All pages of a version, in one pack.
struct Pack(Home, Vec<u8>);

impl Packer for Pack {
    fn add(&mut self, page: Page) -> PageRef {
        let offset = self.1.len();
        page.encode(&mut self.1);
        let leaf = matches!(page, Page::Leaf(_));
        PageRef::of(self.0, leaf, offset, &self.1[offset..])
    }
}

/// Commits edits that no correct writer would commit.
async fn forge(chain: &Chain, edits: &[Edit], entries: u64) -> Snapshot {
    let base = chain.load().await.unwrap();
    let child = chain
        .with_pages(|pages| tree::apply(pages, tree::PageSize::default(), base.manifest.root, edits))
        .await
        .unwrap();
    let (version, commit) = (base.version().next(), CommitId(77 + base.version().0));
    let mut pack = Pack(Home::Pack { version: version.0, commit: commit.0, number: 0 }, Vec::new());
    let root = child.map(|child| child.write(&mut pack));
    let payload = Payload::from(Bytes::from(pack.1));
    chain.store.put(&chain.shared_state.keys.home(pack.0), payload, Guard::None).await.unwrap();
    let manifest = Manifest { version, commit, before: base.commit(), entries, root, ..(*base.manifest).clone() };
    let object = manifest.encode().into();
    match chain.put_version(manifest, object, base.seen).await {
        Outcome::Committed(at) => at,
        other => panic!("{other:?}"),
    }
}

async fn act<E: Env>(chain: &ManifestChain<E>, action: Action) -> bool {
    let base = chain.load().await.unwrap();
    let (verdicts, attempt) = chain.attempt(&base, &[&[action]]).await;
    assert!(matches!(attempt, Attempt::Nothing | Attempt::Ended(Outcome::Committed(_))), "{attempt:?}");
    verdicts[0].is_ok()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn create(text: &str) -> Action {
    Action::Create { name: name(text), entry: Entry::namespace() }
}

fn put(text: &str, indexed: bool) -> Vec<Edit> {
    put_entry(text, &Entry::namespace(), indexed)
}

fn put_entry(text: &str, entry: &Entry, indexed: bool) -> Vec<Edit> {
    let mut edits = Vec::new();
    rows::edits(&name(text), None, Some(entry), indexed, &mut edits);
    edits
}

/// The findings of fsck in a catalog with "a" and "a/b" that was then changed by these edits, with more versions after
/// them.
fn after(edits: Vec<Edit>, entries: u64, undone: Vec<Edit>) -> Vec<(&'static str, u64)> {
    with_chain(move |chain| async move {
        assert!(act(&chain, create("a")).await && act(&chain, create("a/b")).await);
        let mut edits = edits;
        edits.sort();
        forge(&chain, &edits, entries).await;
        if !undone.is_empty() {
            forge(&chain, &undone, 2).await;
        }
        assert!(act(&chain, create("z")).await);
        let checked = chain.fsck().await.unwrap();
        assert_eq!(checked.whole, Some(checked.newest));
        let found = checked.findings.iter();
        found.map(|finding| (finding.word(), finding.version.map_or(u64::MAX, |version| version.0))).collect()
    })
}

#[test]
fn broken_rules_are_found_once_in_the_newest_version_that_breaks_them() {
    let removed = |edits: Vec<Edit>| edits.into_iter().map(|(key, _)| (key, None)).collect::<Vec<Edit>>();
    let index = |text: &str| put(text, true).into_iter().skip(1).collect::<Vec<Edit>>();
    // Version 3 breaks a rule, version 4 still does.
    assert_eq!(after(put("c", true), 3, vec![]), []);
    assert_eq!(after(put("c", true), 7, vec![]), [("wrong-count", 4)]);
    assert_eq!(after(put("c", false), 3, vec![]), [("not-indexed", 4)]);
    assert_eq!(after(removed(index("a")), 2, vec![]), [("not-indexed", 4)]);
    assert_eq!(after(index("c"), 2, vec![]), [("stray-index", 4)]);
    assert_eq!(after(removed(put("a", false)), 1, vec![]), [("orphan", 4), ("stray-index", 4)]);
    assert_eq!(after(put("x/c", true), 3, vec![]), [("orphan", 4)]);
    let nonsense = vec![(rows::by_name(&name("c")), Some(Bytes::from_static(b"nonsense")))];
    assert_eq!(after(nonsense, 3, vec![]), [("bad-item", 4)]);
    // Version 3 breaks a rule, version 4 repairs it.
    assert_eq!(after(put("c", false), 3, removed(put("c", false))), [("not-indexed", 3)]);
    assert_eq!(after(removed(index("a")), 2, index("a")), [("not-indexed", 3)]);
    assert_eq!(after(index("c"), 2, removed(index("c"))), [("stray-index", 3)]);
    assert_eq!(after(removed(put("a", true)), 1, put("a", true)), [("orphan", 3)]);
    assert_eq!(after(put("c", true), 9, removed(put("c", true))), [("wrong-count", 3)]);
}

/// A page that cannot be read says nothing about what is not in it.
#[test]
fn damage_is_never_taken_for_a_broken_rule() {
    let world = World::default();
    let open = || world.chain(SharedState::new("", 1 << 20).pages_of(150));
    let chain = open();
    assert!(matches!(at_once(chain.create(Layout::Paged, true)), Outcome::Committed(_)));
    let table = |text: &str| {
        let base_objects = vec![name("a")];
        let entry = Entry { base_objects, ..Entry::table(None, TableState::new(1)) };
        Action::Create { name: name(text), entry }
    };
    let actions = [create("a"), create("b"), table("a/t"), table("a/u"), create("b/c"), table("b/c/v")];
    let drops = ["a/u", "b/c/v"].map(|text| Action::Drop { name: name(text), kind: Kind::Table, expected: None });
    for action in actions.into_iter().chain(drops) {
        assert!(at_once(act(&chain, action)));
    }
    assert!(at_once(act(&chain, Action::DropAll { name: name("b") })));
    let mut found = std::collections::BTreeSet::new();
    for key in world.keys("versions/") {
        let length = world.bytes(&key) as usize;
        for at in (0..length).step_by(3) {
            world.tamper(&key, |bytes| bytes[at] ^= 0x55);
            found.extend(at_once(open().fsck()).unwrap().findings.iter().map(Finding::word));
            world.tamper(&key, |bytes| bytes[at] ^= 0x55);
        }
    }
    let damage = ["damaged-page", "newer-format", "undecodable-version"];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), damage);
}

#[test]
fn views_keep_the_same_rules() {
    let view = Entry { pointer: Some("m".to_owned()), ..Entry::view() };
    let put_view = |indexed| put_entry("c", &view, indexed);
    assert_eq!(after(put_view(true), 3, vec![]), []);
    assert_eq!(after(put_view(false), 3, vec![]), [("not-indexed", 4)]);
    assert_eq!(after(put_view(true).split_off(1), 2, vec![]), [("stray-index", 4)]);
    // The index has it with another kind.
    let table = put_entry("c", &Entry::table(None, TableState::new(1)), true).split_off(1);
    let mut both = after([put_view(false), table].concat(), 3, vec![]);
    both.sort_unstable();
    assert_eq!(both, [("not-indexed", 4), ("stray-index", 4)]);
    // A view cannot contain anything.
    let inside = [put_view(true), put("c/d", true)].concat();
    assert_eq!(after(inside, 4, vec![]), [("orphan", 4)]);
    // Entries that are invalid for their kind.
    for flawed in [&b"\0\x05\x01m"[..], b"\x02\x04\x0b\0\0\0\0\0\0\0\0\0\x01\0", b"\x03"] {
        let edits = vec![(rows::by_name(&name("c")), Some(Bytes::from_static(flawed)))];
        assert_eq!(after(edits, 3, vec![]), [("bad-item", 4)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Includes vacuums. The changes from version to version add up to the catalog.
    #[test]
    fn what_writers_do_is_whole(steps in prop::collection::vec((0..8_u8, 0..3_u8, any::<bool>()), 1..60)) {
        with_chain(move |chain| async move {
            for (at, (one, two, drops)) in steps.iter().enumerate() {
                let name = name(&if *two == 0 { format!("n{one}") } else { format!("n{one}/m{two}") });
                let properties = [("long".to_owned(), "x".repeat(700))].into();
                let kind = if *one == 7 { Kind::View } else { Kind::Namespace };
                let action = match drops {
                    true => Action::Drop { name, kind, expected: None },
                    false => Action::Create { name, entry: Entry { kind, properties, ..Entry::namespace() } },
                };
                act(&chain, action).await;
                if at == 40 {
                    chain.env.sleep_until(chain.env.now() + Span::from_secs(7200)).await;
                    let grace = crate::manifest_chain::Grace { versions: 5, age: Span::from_secs(3600) };
                    chain.vacuum(grace).await.unwrap();
                }
            }
            let checked = chain.fsck().await.unwrap();
            assert!(checked.findings.is_empty(), "{:?}", checked.findings);
            let head = chain.load().await.unwrap();
            assert_eq!((checked.whole, checked.entries), (Some(head.version()), head.entries()));
            let mut last = None;
            let mut names = std::collections::BTreeMap::new();
            for version in head.oldest_kept().0..=head.version().0 {
                let now = chain.version_at(Version(version)).await.unwrap().unwrap();
                for changed in chain.changed(last.as_ref(), &now, usize::MAX).await.unwrap() {
                    assert_eq!(names.get(&changed.name), changed.before.as_ref());
                    match changed.now {
                        Some(entry) => names.insert(changed.name, entry),
                        None => names.remove(&changed.name),
                    };
                }
                let there: std::collections::BTreeMap<_, _> =
                    chain.all(&now, None, usize::MAX).await.unwrap().into_iter().collect();
                assert_eq!(names, there);
                last = Some(now);
            }
        });
    }
}

/// Versions in the middle are missing: a reader before them takes the last one before the gap for the newest, and a
/// writer would continue from there. The check finds that too.
#[test]
fn lost_versions_are_a_gap_and_a_fork_across_them_is_a_broken_chain() {
    for layout in Layout::ALL {
        let (world, gone) = (World::default(), |version: u64| format!("versions/{:016x}", u64::MAX - version));
        let writer = || world.chain(SharedState::new("", 1 << 20));
        let sleeper = writer();
        assert!(matches!(at_once(sleeper.create(layout, true)), Outcome::Committed(_)));
        assert!(at_once(act(&sleeper, create("a"))) && at_once(act(&sleeper, create("b"))));
        for number in 3..=8 {
            assert!(at_once(act(&writer(), create(&format!("n{number}")))));
        }
        (3..=5).for_each(|version| world.remove(&gone(version)));
        // It knows version 2, and finds no later version from there.
        assert_eq!(at_once(sleeper.load()).unwrap().version(), Version(2));
        for looks in [&sleeper, &writer()] {
            let checked = at_once(looks.fsck()).unwrap();
            let gaps = checked.findings.iter().filter_map(|finding| match finding.trouble {
                Trouble::Gap(first, last) => Some((first.0, last.0)),
                _ => None,
            });
            assert_eq!(
                (gaps.collect::<Vec<_>>(), checked.newest),
                (vec![(3, 5)], Version(8)),
                "{:?}",
                checked.findings
            );
            assert!(checked.is_damaged());
        }
        (3..=5).for_each(|number| assert!(at_once(act(&sleeper, create(&format!("other{number}"))))));
        let checked = at_once(writer().fsck()).unwrap();
        let broken = checked.findings.iter().find(|finding| finding.word() == "broken-chain");
        assert_eq!(broken.and_then(|finding| finding.version), Some(Version(6)), "{:?}", checked.findings);
        assert!(!checked.findings.iter().any(|finding| finding.word() == "gap"));
        // The oldest versions that should be kept are missing: a gap at the end.
        (0..=1).for_each(|version| world.remove(&gone(version)));
        let checked = at_once(writer().fsck()).unwrap();
        assert!(checked.findings.iter().any(|finding| matches!(finding.trouble, Trouble::Gap(Version(0), Version(1)))));
    }
}
