//! Requests to the manifest chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::{Env, Key};
use glidepath_model::{Entry, Instant, Kind, Name, Span, Version};
use glidepath_protocols::manifest_chain::{Attempt, Finding, Layout, ManifestChain, Place, Severity, Sizes, Snapshot};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::{SimEnv, Simulation};

use super::asking::Asking;
use super::book::{Step, Versions};
use super::judge::Terms;
use super::mix::{FILLED, FILLED_WHOLE, filling};
use super::names::{Found, Names, Query};
use super::rules::Rules;
use super::state::State;
use super::vacuumed::{self, GRACE, Kept};
use crate::frozen::{Frozen, at_once};
use crate::subject::{Manifests, STORE, Subject, first_written};

/// The protocol's answer to a question.
async fn answer<E: Env>(catalog: &ManifestChain<E>, at: &Snapshot, query: &Query) -> Result<Found, LoadError> {
    let whole = |(name, entry): (Name, Entry)| (name.as_str().to_owned(), Some(entry));
    let names = |names: Vec<Name>| {
        let mut names: Vec<Name> = names;
        names.sort();
        names.into_iter().map(|name| (name.as_str().to_owned(), None)).collect()
    };
    Ok(match query {
        Query::Entry(name) => {
            catalog.entry(at, name).await?.map(|entry| whole((name.clone(), entry))).into_iter().collect()
        }
        Query::Children(namespace) => {
            let mut children = catalog.children(at, namespace.as_ref(), None, usize::MAX).await?;
            children.sort_by(|(one, _), (other, _)| one.cmp(other));
            children.into_iter().map(whole).collect()
        }
        Query::OfKind(kind) => names(catalog.of_kind(at, *kind).await?),
        Query::WithBase(base) => names(catalog.with_base(at, base).await?),
    })
}

impl<const WHOLE: bool> Asking for Manifests<WHOLE> {
    type Grouped = ManifestChain<SimEnv>;

    /// They are entries like any other.
    const NUMBERED: bool = false;

    const TERMS: Terms = Terms { exact: true, least: 0, most: usize::MAX };

    /// Pages are small, so that the tree has several levels; processes differ in how they lay out what they write.
    fn place(process: u32) -> Arc<Place> {
        let place = Place::new("catalog/", 1 << 20).pages_of(256 << (process % 3));
        let place = match process.is_multiple_of(2) {
            true => place.whole_sized(Sizes { block_bytes: 8 << 10, ..Sizes::default() }),
            false => place.inline_up_to(0).whole_sized(Sizes { block_bytes: 4 << 10, part_bytes: 1 }),
        };
        Arc::new(place)
    }

    fn grouped(env: &SimEnv, place: Arc<Place>) -> ManifestChain<SimEnv> {
        ManifestChain::new(env.clone(), env.store(STORE), place)
    }

    async fn begin(catalog: &ManifestChain<SimEnv>, _: u32) -> Result<(), String> {
        let layout = if WHOLE { Layout::Whole } else { Layout::Paged };
        let Outcome::Committed(empty) = catalog.create(layout, true).await else {
            return Err("not created".to_owned());
        };
        let filling = filling(if WHOLE { FILLED_WHOLE } else { FILLED });
        match catalog.attempt(&empty, &[&filling]).await {
            (_, Attempt::Ended(Outcome::Committed(_))) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn creates_again(catalog: &ManifestChain<SimEnv>, _: u32) -> bool {
        let layout = if WHOLE { Layout::Whole } else { Layout::Paged };
        matches!(catalog.create(layout, true).await, Outcome::Committed(_))
    }

    async fn answer(chain: &ManifestChain<SimEnv>, at: &Snapshot, query: &Query) -> Result<Found, LoadError> {
        answer(chain, at, query).await
    }

    async fn clean(catalog: &ManifestChain<SimEnv>) {
        let _ = catalog.vacuum(GRACE).await;
    }

    fn became(simulation: &Simulation) -> Result<Versions<Names>, String> {
        let (catalog, versions) = every_version::<Self>(simulation)?;
        let journal: BTreeMap<Key, (Instant, u32)> =
            simulation.journal(STORE).into_iter().rev().map(|write| (write.key, (write.at, write.by))).collect();
        let broken = |error: LoadError| error.to_string();
        // Those that were there before the run are not judged.
        let before_the_run = |at: &&Snapshot| journal.get(&key_of(at)).is_some_and(|(_, by)| *by == 0);
        let first = versions.iter().rfind(before_the_run).ok_or("there is no first version")?;
        let all = versions.iter().filter(|at| at.version() > first.version());
        let entries = at_once(catalog.all(first, None, usize::MAX)).map_err(broken)?.into_iter().collect();
        let (mut before, mut steps) = (first, Vec::new());
        for at in all {
            let changed = at_once(catalog.changed(Some(before), at, usize::MAX)).map_err(broken)?;
            let difference = changed.into_iter().map(|changed| (changed.name, changed.now)).collect();
            let (instant, by) = journal.get(&key_of(at)).copied().unwrap_or_default();
            steps.push(Step { version: at.version(), at: instant, by, difference });
            before = at;
        }
        Ok(Versions { first: (first.version(), entries), steps })
    }

    fn aftermath(
        simulation: &Simulation,
        versions: &Versions<Names>,
        last: &BTreeMap<Name, Entry>,
        skew: Span,
    ) -> Result<(), String> {
        let journal = simulation.journal(STORE);
        if journal.iter().any(|write| write.object.is_none()) {
            let (catalog, all) = every_version::<Self>(simulation)?;
            let mut kept = Vec::new();
            for snapshot in all {
                let objects = at_once(catalog.objects(&snapshot)).map_err(|error| error.to_string())?;
                let step = versions.steps.iter().find(|step| step.version == snapshot.version());
                let at = step.map_or(Instant::ZERO, |step| step.at);
                kept.push(Kept { snapshot, at, objects });
            }
            vacuumed::chain(&journal, &kept, skew)?;
        }
        let objects = simulation.objects(STORE);
        Self::references(&objects, false)?;
        let world = Frozen(objects.into());
        let catalog = ManifestChain::new(world.clone(), world, Self::place(0));
        at_once(found_again(&catalog, versions.last(), last))
    }
}

fn key_of(version: &Snapshot) -> Key {
    Key::new(&format!("catalog/versions/{:016x}", u64::MAX - version.version().0))
}

/// All versions, those that were cleaned away too, from what was first written under each key.
fn every_version<S: Asking<Shared = Place>>(
    simulation: &Simulation,
) -> Result<(ManifestChain<Frozen>, Vec<Snapshot>), String> {
    let world = Frozen(first_written(&simulation.written(STORE)).into());
    let catalog = ManifestChain::new(world.clone(), world, S::place(0));
    let versions = at_once(catalog.every_version()).map_err(|error| error.to_string())?;
    Ok((catalog, versions))
}

/// Whether somebody who knows nothing, and comes when all is over, finds the last version, all that is in it, by every way
/// that there is, and no damage.
async fn found_again(
    catalog: &ManifestChain<Frozen>,
    version: Version,
    last: &BTreeMap<Name, Entry>,
) -> Result<(), String> {
    let lost = |error: LoadError| format!("when all was over, the catalog could not be read: {error}");
    let head = catalog.load().await.map_err(lost)?;
    if head.version() != version {
        return Err(format!("when all was over, a reader found {}; the last one is {version}", head.version()));
    }
    let listed: BTreeMap<Name, Entry> = catalog.all(&head, None, usize::MAX).await.map_err(lost)?.into_iter().collect();
    if listed != *last {
        return Err(format!("{version} lists other entries than it was made of"));
    }
    let state = State::new(listed);
    for query in Kind::ALL.map(Query::OfKind).into_iter().chain([Query::Children(None)]) {
        let found = answer(catalog, &head, &query).await.map_err(lost)?;
        if found != Names::found(&state, &query) {
            return Err(format!("{version} answers {query:?} with {found:?}"));
        }
    }
    let checked = catalog.fsck().await.map_err(lost)?;
    let damage = |finding: &&Finding| finding.severity() <= Severity::Unread;
    match checked.findings.iter().find(damage) {
        Some(finding) => Err(format!("when all was over, fsck found of {}: {finding}", finding.object)),
        None => Ok(()),
    }
}
