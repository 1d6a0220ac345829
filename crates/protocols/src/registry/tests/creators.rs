//! Processes that create catalogs of different protocols below one prefix, under faults: exactly one catalog is
//! created, and each answer is true.

use std::cell::RefCell;
use std::rc::Rc;

use glidepath_env::Purpose;
use glidepath_sim::Faults;

use super::*;
use crate::mutant::{self, Mutant};

const SEEDS: u64 = 400;

/// The attempts of one process.
const TRIES: u32 = 6;

/// The answers to a process, each with the protocol that it wanted.
type Told = Rc<RefCell<Vec<(Protocol, Outcome<AnySnapshot>)>>>;

fn faults(seed: u64) -> Faults {
    // A creation makes a dozen requests, and often two creations must both succeed in making theirs.
    let usual = Faults { request_lost: 0.03, answer_lost: 0.06, late: 0.04, refused: 0.03, ..Faults::default() };
    match seed % 3 {
        0 => usual,
        1 => Faults { repeated: 0.3, stalled: 0.1, ..usual },
        _ => Faults { proxied: 0.3, crash: 0.05, ..usual },
    }
}

/// What is wrong after a run, as text.
fn run(seed: u64) -> Option<String> {
    let model = StoreModel { faults: faults(seed), ..StoreModel::of(Profile::constant(Span::from_millis(10))) };
    let horizon = Instant::ZERO + Span::from_secs(100_000);
    let setup = Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] };
    let mut simulation = Simulation::new(setup);
    let told = Told::default();
    let creators = (0..5_u64).map(|number| {
        let told = Rc::clone(&told);
        let start = move |env: SimEnv| async move {
            for _ in 0..TRIES {
                let wanted = Protocol::ALL[(env.draw(Purpose::Tables) % Protocol::ALL.len() as u64) as usize];
                let outcome = create(&env, "", wanted).await;
                let over = matches!(outcome, Outcome::Committed(_) | Outcome::Conflict(_));
                told.borrow_mut().push((wanted, outcome));
                if over {
                    return;
                }
            }
        };
        (Instant::ZERO + Span::from_millis(number), start)
    });
    simulation.run(creators);
    let (told, objects) = (told.take(), simulation.objects(STORE));
    let label = objects.get(&glidepath_env::Key::new("protocol")).map(|object| object.bytes.clone());
    let named = |protocol: Protocol| label.as_deref() == Some(format!("{}\n", protocol.name()).as_bytes());
    let created: Vec<Protocol> = told
        .iter()
        .filter(|(_, outcome)| matches!(outcome, Outcome::Committed(_)))
        .map(|(wanted, _)| *wanted)
        .collect();
    let refused = told.iter().any(|(_, outcome)| matches!(outcome, Outcome::Conflict(_)));
    match created[..] {
        [] if refused && label.is_none() => Some("refused for a catalog of which there is no trace".to_owned()),
        [] => None,
        [protocol] if named(protocol) => None,
        [protocol] => Some(format!("{} was acknowledged, and the label says {label:?}", protocol.name())),
        _ => Some(format!("several catalogs were acknowledged: {created:?}")),
    }
}

#[test]
fn creators_of_different_protocols_make_one_catalog_under_faults() {
    for seed in 0..SEEDS {
        assert_eq!(run(seed), None, "seed {seed}");
    }
}

#[test]
fn a_label_that_is_not_read_back_is_caught() {
    for mutant in [Mutant::LabelLostIsOurs, Mutant::LabelUnknownIsOurs, Mutant::LabelOverwritten] {
        let caught = mutant::with(mutant, || (0..SEEDS).find_map(run));
        assert!(caught.is_some(), "{mutant:?}");
    }
}
