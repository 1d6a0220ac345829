//! Points about views, metadata pointers, and assertions.

use glidepath_model::{
    Action, Advance, Assertion, Changes, Edit, Entry, Kind, MetadataId, Name, PartitionId, Refusal, TableId,
    TableState, Version,
};
use smallvec::smallvec;

use super::trial::{Broken, Held, Trial, create, drop_of, full, full_view, plain, same, set, wrong};
use crate::group::{Grouped, Verdict};

/// The id of a table that no other point uses.
const NUMBERED: u32 = 0xc0de_0100;

const WITH_METADATA: &[Kind] = &[Kind::Table, Kind::View];

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn point(name: &Name, expected: Option<&str>, pointer: &str) -> Action {
    let expected = expected.map(str::to_owned);
    Action::SetPointer { name: name.clone(), expected, pointer: pointer.to_owned() }
}

fn assert(name: &Name, holds: Assertion) -> Action {
    Action::Assert { name: name.clone(), holds }
}

fn moved(name: &Name, expected: Option<&str>, found: Option<&str>) -> Refusal {
    let owned = |pointer: Option<&str>| pointer.map(str::to_owned);
    Refusal::PointerMoved { name: name.clone(), expected: owned(expected), found: owned(found) }
}

fn advance(name: &Name, metadata: u64) -> Action {
    let partitions = smallvec![(PartitionId(0), Version(0))];
    Action::Advance { name: name.clone(), advance: Advance { metadata: MetadataId(metadata), partitions } }
}

pub(super) async fn live<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&["a", "b"]).await?;
    let [view, bare, elsewhere, inside] = ["a/v", "a/bare", "b/w", "a/v/x"].map(|path| trial.name(path));
    trial.fits(vec![create(view.clone(), full_view())]).await?;
    trial.fits(vec![create(bare.clone(), Entry::view())]).await?;
    trial.is(&view, Some(&full_view())).await?;
    trial.is(&bare, Some(&Entry::view())).await?;
    let listed = trial.listed(Some(&trial.name("a")), None, 9).await?;
    same("what is listed", &listed, &vec![(bare.clone(), Entry::view()), (view.clone(), full_view())])?;
    let in_view = wrong(&view, Kind::View, Kind::Namespace.only());
    trial.refused(vec![create(inside, plain())], in_view.clone()).await?;
    trial.refused(vec![Action::DropAll { name: view.clone() }], in_view).await?;
    trial.refused(vec![drop_of(trial.name("a"), Kind::Namespace)], Refusal::NotEmpty(trial.name("a"))).await?;
    trial.fits(vec![set(view.clone(), &[("k", None), ("new", Some("v"))])]).await?;
    let mut expected = full_view();
    expected.properties.remove("k");
    expected.properties.insert("new".to_owned(), "v".to_owned());
    trial.fits(vec![Action::Rename { from: view.clone(), to: elsewhere.clone() }]).await?;
    trial.is(&view, None).await?;
    trial.is(&elsewhere, Some(&expected)).await?;
    trial.fits(vec![drop_of(elsewhere.clone(), Kind::View)]).await?;
    trial.is(&elsewhere, None).await?;
    trial.fits(vec![Action::DropAll { name: trial.name("a") }]).await?;
    trial.is(&bare, None).await?;
    trial.holds(&["b"]).await
}

pub(super) async fn are_no_tables<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let [view, table, space] = ["v", "t", "s"].map(|path| trial.name(path));
    let all = [(&view, full_view()), (&table, full()), (&space, Entry::namespace())];
    trial.fits(all.iter().map(|(name, entry)| create((*name).clone(), entry.clone())).collect()).await?;
    for (name, entry) in &all {
        for other in [full_view(), full(), Entry::namespace()] {
            trial.refused(vec![create((*name).clone(), other)], Refusal::Exists((*name).clone())).await?;
        }
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != entry.kind) {
            trial.refused(vec![drop_of((*name).clone(), kind)], wrong(name, entry.kind, kind.only())).await?;
        }
    }
    let to = |name: &Name| vec![Action::Rename { from: view.clone(), to: name.clone() }];
    trial.refused(to(&table), Refusal::Exists(table.clone())).await?;
    trial.refused(vec![advance(&view, 1)], wrong(&view, Kind::View, Kind::Table.only())).await?;
    let at_version = Action::Drop { name: view.clone(), kind: Kind::View, expected: Some(Version(0)) };
    trial.refused(vec![at_version], Refusal::Changed(view.clone())).await?;
    // A view with the name of a numbered table is not a numbered table.
    let numbered = Name::numbered(TableId(NUMBERED));
    trial.fits(to(&numbered)).await?;
    same("the table", &trial.table(TableId(NUMBERED)).await?, &None)?;
    for edit in [Edit::Create(TableState::new(1)), Edit::Drop(Version(0))] {
        let what = format!("{edit:?} of a view");
        same(&what, &trial.commits(&Changes::of(TableId(NUMBERED), edit)).await?, &false)?;
    }
    trial.is(&numbered, Some(&full_view())).await?;
    trial.fits(vec![drop_of(numbered, Kind::View)]).await
}

pub(super) async fn flawed<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let name = trial.name("a");
    let versioned = Entry { kind: Kind::View, ..plain() };
    let pointing = Entry { pointer: text("there"), ..Entry::namespace() };
    for entry in [versioned, pointing] {
        let why = entry.flaw().unwrap_or_default();
        let refusal = Refusal::Flawed { name: name.clone(), why };
        trial.refused(vec![create(name.clone(), entry)], refusal).await?;
    }
    let unknown = |tags: &[u64]| {
        let unknown = tags.iter().map(|tag| glidepath_model::Field { tag: *tag, bytes: b"x".to_vec() });
        Entry { unknown: unknown.collect(), ..full() }
    };
    for (tags, tag) in [(&[2][..], 2), (&[9, 5], 5), (&[9, 8], 8)] {
        let refusal = Refusal::UnknownField { name: name.clone(), tag };
        trial.refused(vec![create(name.clone(), unknown(tags))], refusal).await?;
    }
    let newer = unknown(&[0, 1000, 1000, u64::MAX]);
    trial.fits(vec![create(name.clone(), newer.clone())]).await?;
    trial.is(&name, Some(&newer)).await
}

pub(super) async fn pointer<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let (table, view, space, none) = (trial.name("t"), trial.name("v"), trial.space(), trial.name("none"));
    let bare = |entry: Entry| Entry { pointer: None, ..entry };
    for (name, entry) in [(&table, bare(full())), (&view, bare(full_view()))] {
        let points_to = |pointer: &str| Entry { pointer: text(pointer), ..entry.clone() };
        trial.fits(vec![create(name.clone(), entry.clone())]).await?;
        trial.refused(vec![point(name, Some("m0"), "m1")], moved(name, Some("m0"), None)).await?;
        trial.is(name, Some(&entry)).await?;
        trial.fits(vec![point(name, None, "m1")]).await?;
        trial.is(name, Some(&points_to("m1"))).await?;
        for stale in [None, Some("m0"), Some("m"), Some("")] {
            trial.refused(vec![point(name, stale, "m2")], moved(name, stale, Some("m1"))).await?;
        }
        // Of two that expect the same pointer, the second loses, also within one batch.
        let both = [vec![point(name, Some("m1"), "m2")], vec![point(name, Some("m1"), "m3")]];
        match &trial.batch(&both).await?[..] {
            [Verdict::Fits, Verdict::Refused(refusal)] => {
                same("the refusal", refusal, &moved(name, Some("m1"), Some("m2")))?;
            }
            other => return Err(Broken(format!("of two that move one pointer: {other:?}"))),
        }
        trial.is(name, Some(&points_to("m2"))).await?;
        // A pointer may be any text, and may return to an earlier value. It moves together with the other actions of
        // its request, or not at all.
        let odd = "\u{0}\n%/ ü\u{202e}".repeat(50);
        trial.fits(vec![point(name, Some("m2"), &odd), set(name.clone(), &[("k", None)])]).await?;
        let mut expected = points_to(&odd);
        expected.properties.remove("k");
        trial.is(name, Some(&expected)).await?;
        let half = vec![point(name, Some(&odd), "m1"), set(none.clone(), &[])];
        trial.refused(half, Refusal::NotFound(none.clone())).await?;
        trial.is(name, Some(&expected)).await?;
        trial.fits(vec![point(name, Some(&odd), ""), point(name, Some(""), "m1")]).await?;
        trial.is(name, Some(&Entry { pointer: text("m1"), ..expected })).await?;
    }
    trial.refused(vec![point(&space, None, "m")], wrong(&space, Kind::Namespace, WITH_METADATA)).await?;
    trial.refused(vec![point(&none, None, "m")], Refusal::NotFound(none.clone())).await
}

pub(super) async fn numbered_pointer<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    let id = TableId(NUMBERED + 1);
    let name = Name::numbered(id);
    same("creating by number", &trial.commits(&Changes::of(id, Edit::Create(TableState::new(1)))).await?, &true)?;
    trial.fits(vec![point(&name, None, "m1")]).await?;
    trial.fits(vec![advance(&name, 7)]).await?;
    let partitions = smallvec![(PartitionId(0), Version(1))];
    let by_number = Edit::Advance(Advance { metadata: MetadataId(8), partitions });
    same("an advance by number", &trial.commits(&Changes::of(id, by_number)).await?, &true)?;
    let partitions = smallvec![Version(2)];
    let state = TableState { version: Version(2), metadata: MetadataId(8), partitions };
    trial.is(&name, Some(&Entry { pointer: text("m1"), ..Entry::table(None, state.clone()) })).await?;
    same("the table", &trial.table(id).await?, &Some(state))?;
    trial.refused(vec![point(&name, None, "m2")], moved(&name, None, Some("m1"))).await?;
    let drop = Changes::of(id, Edit::Drop(Version(2)));
    same("dropping by number", &trial.commits(&drop).await?, &true)?;
    trial.is(&name, None).await
}

/// Assertions that hold, and assertions that do not, with the refusal of each.
fn all_assertions(trial: &(Name, Name, Name, Name)) -> (Vec<Action>, Vec<(Action, Refusal)>) {
    let (table, view, space, none) = trial;
    let exists = |name: &Name, kind| assert(name, Assertion::Exists(kind));
    let points = |name: &Name, pointer: Option<&str>| assert(name, Assertion::Pointer(pointer.map(str::to_owned)));
    let at = |name: &Name, version| assert(name, Assertion::Version(Version(version)));
    let has = |name: &Name, key: &str, value: Option<&str>| {
        assert(name, Assertion::Property { key: key.to_owned(), value: value.map(str::to_owned) })
    };
    let hold = vec![
        exists(table, Kind::Table),
        exists(view, Kind::View),
        exists(space, Kind::Namespace),
        assert(none, Assertion::Absent),
        points(table, Some("there/metadata/1.json")),
        points(view, None),
        at(table, 1),
        has(table, "", Some("of ")),
        has(view, "k", None),
        has(space, "k", None),
    ];
    let changed = |expected: Option<&str>, found: Option<&str>| Refusal::PropertyChanged {
        name: table.clone(),
        key: if found.is_some() { "k" } else { "l" }.to_owned(),
        expected: expected.map(str::to_owned),
        found: found.map(str::to_owned),
    };
    let version = |expected| Refusal::VersionMoved { name: table.clone(), expected, found: Some(Version(1)) };
    let fail = vec![
        (exists(table, Kind::View), wrong(table, Kind::Table, Kind::View.only())),
        (exists(view, Kind::Table), wrong(view, Kind::View, Kind::Table.only())),
        (exists(space, Kind::Table), wrong(space, Kind::Namespace, Kind::Table.only())),
        (exists(none, Kind::Table), Refusal::NotFound(none.clone())),
        (assert(table, Assertion::Absent), Refusal::Exists(table.clone())),
        (assert(view, Assertion::Absent), Refusal::Exists(view.clone())),
        (points(table, None), moved(table, None, Some("there/metadata/1.json"))),
        (points(table, Some("m")), moved(table, Some("m"), Some("there/metadata/1.json"))),
        (points(view, Some("m")), moved(view, Some("m"), None)),
        (points(space, None), wrong(space, Kind::Namespace, WITH_METADATA)),
        (points(none, None), Refusal::NotFound(none.clone())),
        (at(table, 0), version(Version(0))),
        (at(table, 2), version(Version(2))),
        (at(view, 0), wrong(view, Kind::View, Kind::Table.only())),
        (at(none, 0), Refusal::NotFound(none.clone())),
        (has(table, "k", None), changed(None, Some("of k"))),
        (has(table, "k", Some("of l")), changed(Some("of l"), Some("of k"))),
        (has(table, "l", Some("of l")), changed(Some("of l"), None)),
        (has(none, "k", None), Refusal::NotFound(none.clone())),
    ];
    (hold, fail)
}

pub(super) async fn assertions<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let names = (trial.name("t"), trial.name("v"), trial.space(), trial.name("none"));
    trial.fits(vec![create(names.0.clone(), full()), create(names.1.clone(), Entry::view())]).await?;
    trial.fits(vec![advance(&names.0, 5)]).await?;
    let (hold, fail) = all_assertions(&names);
    let version = trial.version().await?;
    for action in &hold {
        trial.fits(vec![action.clone()]).await?;
    }
    trial.fits(hold.clone()).await?;
    for (action, refusal) in fail {
        trial.refused(vec![action.clone()], refusal.clone()).await?;
        trial.refused([hold.clone(), vec![action]].concat(), refusal).await?;
    }
    same("the version after assertions alone", &trial.version().await?, &version)
}

pub(super) async fn asserted_changes<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let [a, b, none] = ["a", "b", "none"].map(|path| trial.name(path));
    trial.fits(vec![create(a.clone(), full())]).await?;
    // One failing action fails the whole request, wherever it is in it; so does a failing change.
    let holds = assert(&a, Assertion::Exists(Kind::Table));
    let fails = assert(&none, Assertion::Exists(Kind::View));
    let change = create(b.clone(), Entry::view());
    let not_found = || Refusal::NotFound(none.clone());
    trial.refused(vec![holds.clone(), fails.clone(), change.clone()], not_found()).await?;
    trial.refused(vec![change.clone(), holds.clone(), fails], not_found()).await?;
    trial.refused(vec![holds.clone(), change.clone(), drop_of(none.clone(), Kind::View)], not_found()).await?;
    trial.holds(&["a"]).await?;
    // It sees the effects of the actions before it in the request.
    let version = trial.version().await?;
    let absent = assert(&b, Assertion::Absent);
    let there = assert(&b, Assertion::Exists(Kind::View));
    trial.fits(vec![absent.clone(), change.clone(), there.clone(), holds]).await?;
    trial.refused(vec![absent.clone(), drop_of(a.clone(), Kind::Table)], Refusal::Exists(b.clone())).await?;
    trial.is(&b, Some(&Entry::view())).await?;
    trial.is(&a, Some(&full())).await?;
    same("the version", &trial.version().await?, &version.map(Version::next))?;
    // And those of the requests before it in the batch.
    let drop_b = drop_of(b.clone(), Kind::View);
    let batch = [vec![there.clone()], vec![drop_b], vec![there], vec![absent], vec![change]];
    let verdicts = trial.batch(&batch).await?;
    let fit: Vec<bool> = verdicts.iter().map(|verdict| matches!(verdict, Verdict::Fits)).collect();
    same("which of the batch fit", &fit.as_slice(), &&[true, true, false, true, true][..])?;
    trial.is(&b, Some(&Entry::view())).await
}
