//! A server process: it answers requests until it is killed, and another one takes its place.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_model::{Name, Span};
use glidepath_protocols::group::{Committer, Group, Leader, Loader, Loads, RetryPolicy};
use glidepath_protocols::registry::{Protocol, Settings as Limits};
use glidepath_protocols::table_turn::line::Turns;
use glidepath_service::{LIFETIME_MS, Service, Settings, Warehouse};
use glidepath_sim::{Faults, SimEnv, SimStore};

use super::doubting::{Doubting, Hidden, Zombies};
use super::wire::{Answer, Ask, Done, Envelope, Net};
use super::{BASE, NAMESPACES, TABLES, lance};
use crate::process::Process;
use crate::subject::{PREFIX, STORE};

/// The least chance of a server to be killed whenever it goes on: some per run.
const LEAST_KILLS: f64 = 0.0005;

/// The longest time until a killed server is replaced.
const DOWN: Span = Span::from_secs(3);

/// The longest time between two purges of a server.
const PURGES: Span = Span::from_secs(40);

/// The longest time until a server leaves a place in line.
const ABANDONED: Span = Span::from_secs(20);

/// Attempts of a commit: fewer than usual, so that runs reach them.
const ATTEMPTS: u32 = 12;

type Task = Pin<Box<dyn Future<Output = ()>>>;
pub(super) type Served = Service<SimEnv, Doubting, Warehouse<SimStore>>;

/// What a server does, beside its number.
#[derive(Clone, Copy, Default)]
pub(super) struct Ways {
    /// Whether it rebases appends though only its owner asks for it.
    pub(super) rebases: bool,
    /// The share of the catalog's commits whose outcome it does not hear.
    pub(super) doubts: f64,
    /// Whether it leaves a place in line, as one that was killed just after it had joined.
    pub(super) abandons: bool,
}

/// A service on the simulated store. What it keeps is its own. Limits of protocols are so small that runs reach them.
pub(super) fn service(
    env: &SimEnv,
    protocol: Protocol,
    number: u32,
    ways: Ways,
    hidden: &Hidden,
) -> (Served, Vec<Task>, Zombies) {
    let knowledge = protocol.shared_state(PREFIX, &Limits { test_limits: Some(number), ..Limits::default() });
    let zombies = Zombies::default();
    let open = || {
        let process = Process::new(env.clone());
        let inner = knowledge.open(process.clone(), process.store().clone());
        let (zombies, hidden) = (zombies.clone(), hidden.clone());
        Doubting { env: process, inner, share: ways.doubts, zombies, hidden }
    };
    let (loads, mut tasks) = (Loads::new(), Vec::<Task>::new());
    if ways.abandons {
        tasks.push(Box::pin(abandon(env.clone(), open())));
    }
    let committer = if number.is_multiple_of(2) {
        let group = Group::default();
        if let Ok(leader) = Leader::new(env.clone(), open(), &group, RetryPolicy::default()) {
            tasks.push(Box::pin(leader.lead()));
        }
        if let Ok(loader) = Loader::new(open(), &loads) {
            tasks.push(Box::pin(loader.serve()));
        }
        Committer::mixed(env.clone(), open(), group, RetryPolicy::default())
    } else {
        Committer::alone(env.clone(), open(), RetryPolicy::default())
    };
    let settings = Settings { rebase: ways.rebases, attempts: ATTEMPTS, ..Settings::of(TABLES) };
    let service = Service::new(env.clone(), committer, loads, Warehouse::new(env.store(STORE), BASE), settings);
    (service, tasks, zombies)
}

/// Lives until all clients have ended and all requests are answered.
pub(super) async fn live(env: SimEnv, protocol: Protocol, number: u32, net: Rc<Net>, faults: Faults, ways: Ways) {
    let (kills, cleans) = (faults.crash, cleans_keys(&faults));
    let Some(host) = net.hosts.get(number as usize) else { return };
    let share = |purpose| unit_interval(env.draw(purpose));
    loop {
        let (service, mut background, zombies) = service(&env, protocol, number, ways, &net.hidden);
        background.push(Box::pin(upkeep(env.clone(), service.clone(), Rc::clone(&net), cleans)));
        let mut requests = Vec::<Task>::new();
        host.rise();
        let killed = poll_fn(|context| {
            let fresh = host.take(context);
            requests.extend(
                fresh.into_iter().map(|envelope| -> Task { Box::pin(handle(env.clone(), service.clone(), envelope)) }),
            );
            for tasks in [&mut background, &mut requests] {
                tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
            }
            let late = zombies.take().into_iter();
            background.extend(late.filter_map(|mut task| task.as_mut().poll(context).is_pending().then_some(task)));
            if net.is_over() && requests.is_empty() {
                return Poll::Ready(false);
            }
            // Between any two steps, with all that it was doing.
            let killed = share(Purpose::Validation) < kills.max(LEAST_KILLS);
            if killed { Poll::Ready(true) } else { Poll::Pending }
        })
        .await;
        host.fall();
        net.tally(&service.counts(), !pauses(&faults));
        if !killed {
            return;
        }
        drop((requests, background, service));
        let down = Span::from_nanos_f64(DOWN.as_nanos() as f64 * share(Purpose::Validation));
        env.sleep_until(env.now() + down).await;
    }
}

/// Whether processes stand still in this scenario.
fn pauses(faults: &Faults) -> bool {
    faults.stalled > 0.0 || faults.suspended > 0.0
}

/// Whether keys may be removed. Not where a request may sleep in a server for longer than its key is kept, or where
/// clocks differ by as much: there such a request is done a second time.
fn cleans_keys(faults: &Faults) -> bool {
    let longest = faults.lateness + faults.lateness + faults.clock_skew;
    longest + longest < Span::from_millis(LIFETIME_MS)
}

async fn upkeep(env: SimEnv, service: Served, net: Rc<Net>, cleans: bool) {
    loop {
        let share = unit_interval(env.draw(Purpose::Validation));
        env.sleep_until(env.now() + Span::from_nanos_f64(PURGES.as_nanos() as f64 * share)).await;
        if net.is_over() {
            return;
        }
        // What fails is done next time.
        net.saw("purges", service.run_purges().await.ended as u64);
        if cleans {
            let _ = service.clean_keys().await;
        }
    }
}

/// Joins the line of a table, and never comes back.
async fn abandon(env: SimEnv, catalog: Doubting) {
    let share = unit_interval(env.draw(Purpose::Validation));
    env.sleep_until(env.now() + Span::from_nanos_f64(ABANDONED.as_nanos() as f64 * share)).await;
    let committer = Committer::alone(env.clone(), catalog, RetryPolicy::default());
    let table = Name::of_parts([NAMESPACES[0], "t0"]);
    Turns::at(table.ok().map(|table| (table, false))).join(&env, &committer).await;
}

async fn handle(env: SimEnv, service: Served, envelope: Envelope) {
    let Envelope { ask, due, slot } = envelope;
    env.sleep_until(env.now() + due.since(env.world_now())).await;
    let answer = answer(&service, ask).await;
    if let Some(slot) = slot {
        slot.put(answer);
    }
}

async fn answer(service: &Served, ask: Ask) -> Answer {
    match ask {
        // As live: a load that would have to wait is dropped half way, and begins anew.
        Ask::Load(table) => match service.load_table_at_once(&table) {
            Some(told) => told.map(Done::Table),
            None => service.load_table(&table).await.map(Done::Table),
        },
        Ask::Commit(table, commit) => service.commit_table(&table, commit).await.map(Done::Table),
        Ask::Transact(changes, key) => service.commit_transaction(changes, key.as_ref()).await.map(|()| Done::Nothing),
        Ask::Create(new, key) => service.create_table(*new, key.as_ref()).await.map(Done::Table),
        Ask::Register(new, key) => service.register_table(new, key.as_ref()).await.map(Done::Table),
        Ask::Drop(table, purge, key) => service.drop_table(&table, purge, key.as_ref()).await.map(|()| Done::Nothing),
        Ask::Rename(from, to, key) => service.rename_table(&from, &to, key.as_ref()).await.map(|()| Done::Nothing),
        Ask::Change(namespace, change, key) => service
            .change_namespace(&namespace, &change, key.as_ref())
            .await
            .map(|changed| Done::Removed(changed.removed)),
        Ask::Lance(table, ask) => lance::answer(service, table, ask).await,
    }
}
