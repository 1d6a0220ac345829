//! The way of a request between a client and a server: it may be lost, late, or delivered twice, and so may its answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_model::Span;
use glidepath_protocols::table_turn::line;
use glidepath_service::TableCommit;
use glidepath_service::{Counts, PRIORITY};
use glidepath_service::{
    Idempotency, Identifier, LanceTable, LanceVersion, Loaded, NamespaceChange, NewTable, Registration, ServiceError,
};
use glidepath_sim::{Faults, SimEnv, Slot};
use iceberg::spec::TableMetadata;

use super::doubting::Hidden;
use super::lance;

/// What a client asks of a server.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Load(Identifier),
    Commit(Identifier, TableCommit),
    Transact(Vec<(Identifier, TableCommit)>, Option<Idempotency>),
    Create(Box<NewTable>, Option<Idempotency>),
    Register(Registration, Option<Idempotency>),
    Drop(Identifier, bool, Option<Idempotency>),
    Rename(Identifier, Identifier, Option<Idempotency>),
    Change(Vec<String>, NamespaceChange, Option<Idempotency>),
    Lance(Identifier, lance::Ask),
}

/// What a server answers if it did what was asked.
pub(super) enum Done {
    Nothing,
    /// These properties were there, and are removed.
    Removed(Vec<String>),
    Table(Loaded<TableMetadata>),
    Lance(LanceTable),
    Versions(Vec<LanceVersion>),
}

/// What a server answers.
pub(super) type Answer = Result<Done, ServiceError>;

/// A request on its way.
pub(super) type Envelope = glidepath_sim::Envelope<Ask, Answer>;

/// The network address of a server.
pub(super) type Host = glidepath_sim::Host<Ask, Answer>;

/// What all processes of a run can reach.
pub(super) struct Net {
    pub(super) hosts: Vec<Host>,
    /// Clients that have not ended.
    pub(super) clients: Cell<u32>,
    /// How often situations occurred.
    pub(super) situations: RefCell<BTreeMap<&'static str, u64>>,
    pub(super) violation: RefCell<Option<String>>,
    pub(super) hidden: Hidden,
}

impl Net {
    pub(super) fn new(servers: u32, clients: u32) -> Self {
        Self {
            hosts: (0..servers).map(|_| Host::default()).collect(),
            clients: Cell::new(clients),
            situations: RefCell::default(),
            violation: RefCell::default(),
            hidden: Hidden::default(),
        }
    }

    pub(super) fn saw(&self, situation: &'static str, times: u64) {
        *self.situations.borrow_mut().entry(situation).or_default() += times;
    }

    /// What a server did until its end. No commit waits for another's overwrite for longer than the setting, and no
    /// server for longer than allowed for its turn; a server that stood still meanwhile cannot tell.
    pub(super) fn tally(&self, counts: &Counts, tells_time: bool) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (situation, counter) in [
            ("rebases", &counts.rebased),
            ("holds", &counts.priorities),
            ("holds that were used", &counts.priorities_used),
            ("commits held", &counts.held),
            ("commits held for one over several tables", &counts.held_for_several),
            ("turns waited for", &counts.turns),
            ("servers passed over", &counts.passed_over),
            ("unknown outcomes", &counts.unknown),
            ("replays", &counts.replayed),
        ] {
            self.saw(situation, of(counter));
        }
        // Holds for a commit over several tables may take twice as long.
        let most = (of(&counts.held) + of(&counts.held_for_several)) * PRIORITY.as_nanos() / 1_000_000;
        if tells_time && of(&counts.held_ms) > most {
            let words = format!("{} commits were held for {} ms together", of(&counts.held), of(&counts.held_ms));
            self.violation.borrow_mut().get_or_insert(words);
        }
        let most = of(&counts.turns) * (line::PATIENCE + line::LONGEST_LOOK).as_nanos() / 1_000_000;
        if tells_time && of(&counts.in_line_ms) > most {
            let words = format!("a server waited for {} ms for {} turns", of(&counts.in_line_ms), of(&counts.turns));
            self.violation.borrow_mut().get_or_insert(words);
        }
    }

    /// A client has ended, or died.
    pub(super) fn leave(&self) {
        self.clients.set(self.clients.get() - 1);
        self.hosts.iter().for_each(Host::wake);
    }

    pub(super) fn is_over(&self) -> bool {
        self.clients.get() == 0
    }
}

/// What can happen to a request between client and server: shares of requests.
#[derive(Clone, Copy)]
pub(super) struct Link {
    lost: f64,
    answer_lost: f64,
    twice: f64,
    late: f64,
    /// How late at most: some come while the client still waits.
    lateness: Span,
    round_trip: Span,
    /// When a client gives up.
    patience: Span,
}

impl Link {
    /// A little of each fault in every scenario, and more of those that the scenario's store has.
    pub(super) fn of(faults: &Faults, round_trip: Span) -> Self {
        let patience = (faults.timeout + faults.timeout).max(Span::from_secs(10));
        Self {
            lost: 0.02 + faults.request_lost / 4.0,
            answer_lost: 0.03 + faults.answer_lost / 4.0,
            twice: 0.12 + (faults.repeated + faults.proxied) / 2.0,
            late: 0.04 + faults.late / 4.0,
            lateness: patience + patience,
            round_trip,
            patience,
        }
    }

    /// Sends a request to a server, and waits for the answer. `None`: none came in time.
    pub(super) async fn send(&self, env: &SimEnv, net: &Net, server: usize, ask: &Ask) -> Option<Answer> {
        let share = || unit_interval(env.draw(Purpose::Transaction));
        let slot = Rc::new(Slot::default());
        let deliver = |server: usize| {
            if share() < self.lost {
                return;
            }
            let late = if share() < self.late { self.lateness.as_nanos() as f64 * share() } else { 0.0 };
            let late = Span::from_nanos_f64(late);
            let way = Span::from_nanos_f64(self.round_trip.as_nanos() as f64 * share());
            let heard = share() >= self.answer_lost;
            let slot = heard.then(|| Rc::clone(&slot));
            net.hosts[server].deliver(Envelope { ask: ask.clone(), due: env.world_now() + way + late, slot });
        };
        deliver(server);
        if share() < self.twice {
            deliver((server + env.draw(Purpose::Transaction) as usize) % net.hosts.len());
        }
        let mut bell = pin!(env.sleep_until(env.now() + self.patience));
        poll_fn(|context| match slot.poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => bell.as_mut().poll(context).map(|()| None),
        })
        .await
    }
}
