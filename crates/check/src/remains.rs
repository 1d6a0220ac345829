//! The vacuums of a run. Is what it left in its store right, and does one more vacuum clean it up?

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use glidepath_env::{Env, Key, Payload};
use glidepath_model::{Instant, Span};
use glidepath_protocols::afterwards::Made;
use glidepath_protocols::registry::Design;
use glidepath_protocols::upkeep::Keep;
use glidepath_sim::SimEnv;

use crate::process::Process;
use crate::promised::{Kept, damaged, promised};
use crate::run::{HORIZON, calm};
use crate::stranger::Copies;
use crate::subject::{STORE, shared};
use crate::tidy::tidy;

/// One of this many runs of each kind ends with a damage: to read everything once more takes time.
const DAMAGED: u64 = 4;

type Objects = BTreeMap<Key, Payload>;

/// What the process does that cleans up, until the writers have ended.
pub(crate) async fn clean<D: Design>(env: &Process, catalog: &D::Catalog<Process>, every: Span) {
    for _ in 0..20 {
        env.sleep_until(env.now() + every).await;
        let _ = D::vacuum(catalog, Keep::LEAST).await;
    }
}

/// Judges the final objects of a run, some of which a stranger made, given all its versions. `vacuums`: whether it ran
/// any.
pub(crate) fn right<D: Design>(
    (objects, copies): (&Objects, &Copies),
    made: &[Made],
    vacuums: bool,
    seed: u64,
) -> Result<(), String> {
    let own = copies.removed_from(objects);
    tidy::<D>(&own, false)?;
    let after = |words: String| format!("after the run, {words}");
    promised::<D>(objects, made, Kept::AsSaid).map_err(after)?;
    if (seed / 2).is_multiple_of(DAMAGED) {
        damaged::<D>(&own, made, seed).map_err(after)?;
    }
    if vacuums {
        let cleaned = cleaned::<D>(objects)?;
        copies.all_in(objects, &cleaned)?;
        tidy::<D>(&copies.removed_from(&cleaned), true)?;
        let kept = Kept::AtLeast(Keep::LEAST.versions);
        promised::<D>(&cleaned, made, kept).map_err(|words| format!("after a last vacuum, {words}"))?;
    }
    Ok(())
}

/// The objects that remain after a vacuum long after the run, without faults, which so has no reason to fail.
pub(crate) fn cleaned<D: Design>(objects: &Objects) -> Result<Objects, String> {
    let mut simulation = calm(objects.iter().map(|(key, payload)| (key, payload.clone())));
    let result = Rc::new(RefCell::new(Err("it never ended".to_owned())));
    let told = Rc::clone(&result);
    let cleaner = move |sim: SimEnv| async move {
        sim.sleep_until(Instant::ZERO + HORIZON + HORIZON).await;
        let catalog = Process::new(sim).open::<D>(shared::<D>(0));
        *told.borrow_mut() = D::vacuum(&catalog, Keep::LEAST).await.map(drop).map_err(|error| error.to_string());
    };
    simulation.run([(Instant::ZERO, cleaner)]);
    result.replace(Ok(())).map_err(|error| format!("a last vacuum failed: {error}"))?;
    Ok(simulation.objects(STORE))
}
