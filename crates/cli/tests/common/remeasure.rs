//! Measures a simulated store, searches the knee on the measured profile, and compares it with the true one.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::knee::{Knee, KneeOptions, MeasuredKnee, find, with_measurement};
use glidepath_measure::{
    Evidence, Fitted, Measurement, Plan, PlanResult, Provenance, SimulatedSite, alternatives, profile, run,
};
use glidepath_point::Point;
use glidepath_sim::{Alternatives, Profile};

/// A measurement of a simulated store, and the profile made of it.
pub(crate) struct Remeasured {
    pub(crate) profile: Profile,
    plan: Plan,
    provenance: Provenance,
    done: PlanResult,
    seed: u64,
}

impl Remeasured {
    /// By this plan, with this seed.
    pub(crate) fn new(store: &Profile, plan: Plan, seed: u64) -> Self {
        let mut site = SimulatedSite::new(store.clone(), seed);
        let done = run(&mut site, &plan, &AtomicBool::new(false), |_, _| {}).expect("a simulated store does not fail");
        let [sim, machine, date, program] = ["sim", "a test", "2026-11-22", "glidepath"].map(str::to_owned);
        let provenance = Provenance { store: sim, machine, date, program };
        let measurements = Measurement::of(&done.trials);
        let from = (&provenance, done.latency_includes_read);
        let found = profile(&Fitted::all(&measurements), from, &plan, &AtomicBool::new(false), &|_, _| ());
        Self { profile: found.expect("cas was measured"), plan, provenance, done, seed }
    }

    pub(crate) fn alternatives(&self) -> Alternatives {
        let Self { plan, provenance, .. } = self;
        let evidence = Evidence { trials: &self.done.trials, plan, provenance, seed: self.seed };
        let found = alternatives(&self.profile, &evidence, threads(), &AtomicBool::new(false), &|_, _| ());
        found.expect("nothing stops it")
    }

    /// The knee, and its uncertainty including the measurement's.
    pub(crate) fn knee(&self, options: &KneeOptions) -> (Knee, MeasuredKnee) {
        let point = point(&self.profile);
        let knee = find(&point, options, &|_| ()).expect("there is a knee");
        let measured = with_measurement(&point, options, &knee, &self.alternatives(), &|_| ());
        (knee, measured.expect("alternatives can be searched").expect("enough of them have a knee"))
    }
}

/// Ten tables on this store, fast appends only, otherwise the default preset.
pub(crate) fn point(store: &Profile) -> Point {
    let settings = ["tables.count=10", "transaction.fast_append=1.0"];
    let settings = settings.iter().map(|setting| Setting::parse(setting)).collect::<Result<_, _>>();
    let overrides = Overrides { settings: settings.expect("settings"), ..Overrides::default() };
    let experiment = Experiment::of_preset("iceberg", &overrides).expect("a preset");
    Point::new(experiment.points[0].point.config.clone(), store.clone()).expect("a point")
}

pub(crate) fn options(events: u64) -> KneeOptions {
    KneeOptions { events, threads: threads(), ..KneeOptions::default() }
}

fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
