//! Do transactions end once, and does everybody see them end so?
//!
//! Processes take timestamps, end transactions, settle those of others, read, and move the service to other tables,
//! against one simulated store in which things go wrong. What each was told is compared with what others were told, and
//! with what the store holds at the end. The code is the very code that runs live (`glidepath_txn`). A run is a
//! function of (scenario, seed).
//!
//! What must hold:
//!
//! 1. No timestamp is given out twice, and none is given out that is lower than one that was given out before it was
//!    asked for.
//! 2. All that is ever told of the end of a transaction is the same.
//! 3. A transaction that somebody was told has ended is not told to be in progress by a read that begins later.
//! 4. At the end the store holds every end that was told, and none that its transaction did not ask for.
//! 5. What a reader was told, to see a transaction or not to see it, agrees with how it ended.
//! 6. A transaction has a cell in one table at most.
//! 7. After a restore to a timestamp, what committed up to it is as it was, and every other transaction that began
//!    before is aborted.
//!
//! One run in four is restored in the middle: all clients are killed, a restore goes through, itself killed now and
//! then and begun again, and new clients go on.

mod judge;
mod life;
mod restoring;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use glidepath_model::{Instant, Span};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use glidepath_txn::{Encoding, Original, Partitioning, Staged, Tickets};

use crate::run::Ran;
use crate::scenario::Scenario;
use judge::Told;
use life::{Client, House};
use restoring::Interruption;

const STORE: StoreId = StoreId(0);

/// No run takes longer, in simulated time.
const HORIZON: Span = Span::from_secs(6 * 3600);

/// Runs one seed of a scenario, and says whether all was right.
pub(crate) fn run(scenario: &Scenario, seed: u64, keep_mishaps: bool) -> Ran {
    let profile = Profile::constant(scenario.writers.round_trip);
    let model = StoreModel { faults: faults(scenario, seed), effect: EffectPoint::Half, profile };
    let horizon = Instant::ZERO + HORIZON;
    let mut simulation = Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    simulation.keep_writes(STORE);
    simulation.share_machines(scenario.writers.machine.max(1));
    if keep_mishaps {
        simulation.keep_mishaps();
    }
    let told = Rc::new(RefCell::new(Told::new(keep_mishaps)));
    let counts = simulation.run(lives(scenario, seed, &told));
    let mut told = told.take();
    let lines = told.lines();
    let mut checked = told.counted();
    checked.faults = counts.faults;
    checked.violation = told.judge(&simulation).err();
    Ran { checked, lines, mishaps: simulation.mishaps() }
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

type Life = Pin<Box<dyn Future<Output = ()>>>;

/// The clients, in houses; and in some runs an operator, who restores the service.
fn lives(scenario: &Scenario, seed: u64, told: &Rc<RefCell<Told>>) -> Vec<(Instant, impl FnOnce(SimEnv) -> Life)> {
    let writers = scenario.writers;
    let encodings = encodings(seed);
    let interruption = ((seed >> 1) % 4 == 3).then(|| Rc::new(Interruption::default()));
    let mut lives = Vec::new();
    let mut houses = [House::new(encodings), House::new(encodings)];
    for number in 0..writers.count {
        if number % writers.shared.max(1) == 0 {
            houses = houses.map(|_| House::new(encodings));
        }
        let role = match number {
            0 => life::Role::Installs,
            _ if number % writers.shared.max(1) == 1 => life::Role::Writes,
            _ => life::Role::Commits,
        };
        let (houses, told, interruption) = (houses.clone(), Rc::clone(told), interruption.clone());
        let start = move |env: SimEnv| -> Life {
            let [before, after] = houses.map(|house| {
                let (store, told) = (env.store(STORE), Rc::clone(&told));
                Client { env: env.clone(), store, number, house, told, writers }
            });
            match interruption {
                None => Box::pin(async move { before.live(role).await }),
                Some(interruption) => Box::pin(async move {
                    interruption.kills(before.live(role)).await;
                    interruption.over(&env).await;
                    after.live(role).await;
                }),
            }
        };
        lives.push((Instant::ZERO + Span::from_millis(u64::from(number)), boxed(start)));
    }
    if let Some(interruption) = interruption {
        let (number, told) = (writers.count, Rc::clone(told));
        let start = move |env: SimEnv| -> Life {
            let (house, store) = (House::new(encodings), env.store(STORE));
            let operator = Client { env, store, number, house, told, writers };
            Box::pin(async move { operator.restores(&interruption).await })
        };
        lives.push((Instant::ZERO + Span::from_millis(u64::from(number)), boxed(start)));
    }
    lives
}

fn boxed(start: impl FnOnce(SimEnv) -> Life + 'static) -> Box<dyn FnOnce(SimEnv) -> Life> {
    Box::new(start)
}
