//! Do transactions end once, and does everybody see them end so?
//!
//! Processes take timestamps, end transactions, settle those of others, read, and move the service to other tables, against one
//! simulated store in which things go wrong. What each was told is compared with what others were told, and with what the store holds at the
//! end. The code is the very code that runs live (`glidepath_txn`). A run is a function of (scenario, seed).
//!
//! What must hold:
//!
//! 1. No timestamp is given out twice, and none is given out that is lower than one that was given out before it was asked for.
//! 2. All that is ever told of the end of a transaction is the same.
//! 3. A transaction that somebody was told has ended is not told to be in progress by a read that begins later.
//! 4. At the end the store holds every end that was told, and none that its transaction did not ask for.
//! 5. What a reader was told, to see a transaction or not to see it, agrees with how it ended.
//! 6. A transaction has a cell in one table at most.

mod judge;
mod life;

use std::cell::RefCell;
use std::rc::Rc;

use glidepath_model::{Instant, Span};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use glidepath_txn::{Encoding, Original, Partitioning, Staged, Tickets};

use crate::run::Checked;
use crate::scenario::Scenario;
use judge::Told;
use life::{Client, House};

const STORE: StoreId = StoreId(0);

/// No run takes longer, in simulated time.
const HORIZON: Span = Span::from_secs(6 * 3600);

/// Runs one seed of a scenario, and says whether all was right.
#[must_use]
pub fn check_transactions(scenario: &Scenario, seed: u64) -> Checked {
    let profile = Profile::constant(scenario.writers.round_trip);
    let model = StoreModel { faults: faults(scenario, seed), effect: EffectPoint::Half, profile };
    let horizon = Instant::ZERO + HORIZON;
    let mut simulation = Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    simulation.keep_writes(STORE);
    simulation.share_machines(scenario.writers.machine.max(1));
    let told = Rc::new(RefCell::new(Told::default()));
    let counts = simulation.run(lives(scenario, seed, &told));
    let told = told.take();
    let mut checked = told.counted();
    checked.faults = counts.faults;
    checked.violation = told.judge(&simulation).err();
    checked
}

/// Every second seed is of a store whose plain reads are not linearizable.
fn faults(scenario: &Scenario, seed: u64) -> Faults {
    let mut faults = scenario.faults;
    if seed & 1 == 1 {
        faults.half_done = 0.5;
    }
    faults
}

/// The encodings of a run, in the order in which they are installed. Small quanta, so that short runs cross them.
fn encodings(seed: u64) -> [Encoding; 3] {
    let partitioning = Partitioning { quantum: 64, rows: 4 };
    let tickets = Tickets::new(partitioning).map_or(Encoding::Original(Original), Encoding::Tickets);
    let staged = Staged::new(partitioning).map_or(Encoding::Original(Original), Encoding::Staged);
    match (seed >> 1) % 3 {
        0 => [Encoding::Original(Original), tickets, staged],
        1 => [tickets, staged, Encoding::Original(Original)],
        _ => [staged, Encoding::Original(Original), tickets],
    }
}

type Life = std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// The clients, and in each house one who writes batches, and in one of them one who installs tables.
fn lives(scenario: &Scenario, seed: u64, told: &Rc<RefCell<Told>>) -> Vec<(Instant, impl FnOnce(SimEnv) -> Life)> {
    let writers = scenario.writers;
    let encodings = encodings(seed);
    let mut lives = Vec::new();
    let mut house = House::new(encodings);
    for number in 0..writers.count {
        if number % writers.shared.max(1) == 0 {
            house = House::new(encodings);
        }
        let role = match number {
            0 => life::Role::Installs,
            _ if number % writers.shared.max(1) == 1 => life::Role::Writes,
            _ => life::Role::Commits,
        };
        let (house, told) = (house.clone(), Rc::clone(told));
        let start = move |env: SimEnv| -> Life {
            let store = env.store(STORE);
            let client = Client { env, store, house, told, writers };
            Box::pin(async move { client.live(role).await })
        };
        lives.push((Instant::ZERO + Span::from_millis(u64::from(number)), start));
    }
    lives
}
