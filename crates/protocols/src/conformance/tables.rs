//! Points about tables: their versions and partitions, and the two ways to name numbered ones.

use glidepath_model::{
    Action, Advance, Changes, Edit, Entry, Kind, MetadataId, Name, PartitionId, PartitionVersions, Refusal, TableId,
    TableState, Version,
};

use super::trial::{Held, Trial, create, full, plain, same, set, wrong};
use crate::group::Grouped;

/// The first number of tables that the suite may use.
const FIRST: u32 = 0xc0de_0000;

fn advance(partitions: &[(u32, u64)], metadata: u64) -> Advance {
    let partitions = partitions.iter().map(|(partition, at)| (PartitionId(*partition), Version(*at)));
    Advance { metadata: MetadataId(metadata), partitions: partitions.collect() }
}

fn advance_of(name: &Name, partitions: &[(u32, u64)], metadata: u64) -> Vec<Action> {
    vec![Action::Advance { name: name.clone(), advance: advance(partitions, metadata) }]
}

/// A state with these versions.
fn at(version: u64, metadata: u64, partitions: &[u64]) -> TableState {
    let partitions = partitions.iter().copied().map(Version).collect();
    TableState { version: Version(version), metadata: MetadataId(metadata), partitions }
}

pub(super) async fn expected_version<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let name = trial.name("t");
    let drop_at =
        |version| vec![Action::Drop { name: name.clone(), kind: Kind::Table, expected: Some(Version(version)) }];
    trial.fits(vec![create(name.clone(), full())]).await?;
    trial.fits(advance_of(&name, &[(0, 0)], 1)).await?;
    for version in [0, 2] {
        trial.refused(drop_at(version), Refusal::Changed(name.clone())).await?;
    }
    trial.fits(drop_at(1)).await?;
    trial.is(&name, None).await
}

pub(super) async fn advance_tables<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let (name, space) = (trial.name("t"), trial.space());
    let entry = |state| Entry { state: Some(state), ..full() };
    trial.fits(vec![create(name.clone(), full())]).await?;
    trial.fits(advance_of(&name, &[(0, 0), (2, 0)], 7)).await?;
    trial.is(&name, Some(&entry(at(1, 7, &[1, 0, 1])))).await?;
    // Prepared before that, and still valid: it writes another partition.
    trial.fits(advance_of(&name, &[(1, 0)], 8)).await?;
    for stale in [&[(0, 0)][..], &[(1, 1), (2, 0)], &[(1, 2)], &[(3, 0)]] {
        trial.refused(advance_of(&name, stale, 9), Refusal::Changed(name.clone())).await?;
    }
    trial.is(&name, Some(&entry(at(2, 8, &[1, 1, 1])))).await?;
    let twice = [advance_of(&name, &[(0, 1)], 10), advance_of(&name, &[(0, 2)], 11)].concat();
    trial.fits(twice).await?;
    trial.is(&name, Some(&entry(at(4, 11, &[3, 1, 1])))).await?;
    let wrong = wrong(&space, Kind::Namespace, Kind::Table.only());
    trial.refused(advance_of(&space, &[(0, 0)], 1), wrong).await?;
    let none = trial.name("none");
    trial.refused(advance_of(&none, &[(0, 0)], 1), Refusal::NotFound(none.clone())).await
}

pub(super) async fn partitions<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let (name, none) = (trial.name("t"), trial.name("none"));
    let empty = TableState { partitions: PartitionVersions::new(), ..TableState::new(1) };
    let refusal = Refusal::NoPartitions(none.clone());
    trial.refused(vec![create(none.clone(), Entry::table(None, empty))], refusal).await?;
    trial.fits(vec![create(name.clone(), plain())]).await?;
    for senseless in [&[][..], &[(0, 0), (0, 0)]] {
        trial.refused(advance_of(&name, senseless, 1), Refusal::Changed(name.clone())).await?;
    }
    let many = Entry::table(None, TableState::new(1000));
    trial.fits(vec![create(none.clone(), many.clone())]).await?;
    trial.is(&none, Some(&many)).await
}

pub(super) async fn numbered_is_named<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let id = TableId(FIRST);
    let (name, elsewhere) = (Name::numbered(id), trial.name("elsewhere"));
    same("creating by number", &trial.commits(&Changes::of(id, Edit::Create(TableState::new(2)))).await?, &true)?;
    let mut expected = Entry::table(None, TableState::new(2));
    trial.is(&name, Some(&expected)).await?;
    trial.refused(vec![create(name.clone(), plain())], Refusal::Exists(name.clone())).await?;
    // By name and by number in turn, while it is plain and while it is not.
    for (number, property) in (1..).zip([None, Some("set"), Some("set again"), None]) {
        trial.fits(vec![set(name.clone(), &[("k", property)])]).await?;
        expected.properties.remove("k");
        expected.properties.extend(property.map(|value| ("k".to_owned(), value.to_owned())));
        trial.fits(advance_of(&name, &[(0, number - 1)], 2 * number)).await?;
        let by_number = Changes::of(id, Edit::Advance(advance(&[(1, number - 1)], 2 * number + 1)));
        same("an advance by number", &trial.commits(&by_number).await?, &true)?;
        same("the same once more", &trial.commits(&by_number).await?, &false)?;
        expected.state = Some(at(2 * number, 2 * number + 1, &[number, number]));
        trial.is(&name, Some(&expected)).await?;
        same("the table", &trial.table(id).await?, &expected.state)?;
    }
    trial.fits(vec![Action::Rename { from: name.clone(), to: elsewhere.clone() }]).await?;
    trial.is(&elsewhere, Some(&expected)).await?;
    same("the table", &trial.table(id).await?, &None)?;
    trial.fits(vec![Action::Rename { from: elsewhere, to: name.clone() }]).await?;
    trial.fits(vec![set(name.clone(), &[("k", Some("v"))])]).await?;
    let wrong = Changes::of(id, Edit::Drop(Version(0)));
    same("dropping an old version by number", &trial.commits(&wrong).await?, &false)?;
    let version = expected.state.map_or(Version(0), |state| state.version);
    same("dropping by number", &trial.commits(&Changes::of(id, Edit::Drop(version))).await?, &true)?;
    trial.is(&name, None).await
}

pub(super) async fn numbers_as_names<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    let id = TableId(FIRST + 1);
    let name = Name::numbered(id);
    let bare = Entry { kind: Kind::Table, ..Entry::namespace() };
    for entry in [Entry::namespace(), bare] {
        trial.fits(vec![create(name.clone(), entry.clone())]).await?;
        same("the table", &trial.table(id).await?, &None)?;
        let changes = [Edit::Create(TableState::new(1)), Edit::Advance(advance(&[(0, 0)], 1)), Edit::Drop(Version(0))];
        for edit in changes {
            let what = format!("{edit:?} of what is no such table");
            same(&what, &trial.commits(&Changes::of(id, edit)).await?, &false)?;
        }
        trial.is(&name, Some(&entry)).await?;
        trial.fits(vec![Action::Drop { name: name.clone(), kind: entry.kind, expected: None }]).await?;
    }
    // Only the exact form of such a name makes a numbered table.
    let near =
        Name::of_parts([format!("t{:08X}", id.0)].iter().map(String::as_str)).expect("letters and digits are a name");
    trial.fits(vec![create(near.clone(), plain())]).await?;
    same("the table", &trial.table(id).await?, &None)?;
    trial.is(&near, Some(&plain())).await
}
