//! The queue of a group under every order of threads: its production code, built with locks whose order a scheduler
//! chooses.
//!
//! `shuttle` tries orders at random, with few switches at bad moments (PCT), and, if there are few orders, all of them.
//! It also detects a thread that waits for ever.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

/// The locks of the queue, controlled by the scheduler.
mod sync {
    pub(super) use shuttle::sync::{Mutex, MutexGuard};
}

#[path = "../src/queue.rs"]
#[allow(dead_code, unreachable_pub, reason = "what is not needed by these tests is needed where it ships")]
mod queue;

#[path = "../src/all.rs"]
#[allow(dead_code, unreachable_pub, reason = "what is not needed by these tests is needed where it ships")]
mod all;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use queue::{Left, NotQueued, Queue, Role, Seat, Slot, Taken, Ticket, Turn};
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;

type Asked = Queue<u64, u64>;
type Waiting = Ticket<u64, u64>;

/// The answer to a request.
fn answer(request: u64) -> u64 {
    request * 10 + 1
}

/// What happened to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Answered,
    Left(Left),
    Not(NotQueued),
    /// The caller dropped it.
    Dropped,
}

/// Waits for the answer, which must be that of this request; or polls once and drops the ticket.
fn wait(ticket: Waiting, request: u64, goes_away: bool) -> Told {
    let told = |told: Result<u64, Left>| match told {
        Ok(told) => {
            assert_eq!(told, answer(request), "the answer to another request");
            Told::Answered
        }
        Err(left) => Told::Left(left),
    };
    if !goes_away {
        return told(block_on(ticket));
    }
    block_on(async {
        let mut ticket = pin!(ticket);
        std::future::poll_fn(|context| match ticket.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(told(answer)),
            Poll::Pending => Poll::Ready(Told::Dropped),
        })
        .await
    })
}

fn ask(queue: &Arc<Asked>, request: u64, goes_away: bool) -> Told {
    match queue.enqueue(request) {
        Ok(ticket) => wait(ticket, request, goes_away),
        Err(why) => Told::Not(why),
    }
}

/// Answers this many batches, each of up to two requests. Then it stops with up to two requests taken, one of them
/// sent. Returns the requests that were taken.
fn lead(seat: Seat<u64, u64>, terms: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    for _ in 0..terms {
        if !block_on(seat.some()) {
            return seen;
        }
        let mut batch = seat.take(1);
        batch.extend(seat.take(1));
        seen.extend(batch.iter().map(|taken| *taken.request()));
        // Not in the order in which they came.
        while let Some(taken) = batch.pop() {
            let told = answer(*taken.request());
            taken.answer(told);
        }
    }
    let mut last: Vec<Taken<u64, u64>> = seat.take(2);
    if let Some(first) = last.first_mut() {
        first.sent = true;
    }
    seen.extend(last.iter().map(|taken| *taken.request()));
    seen
}

/// Writers that ask twice, a leader, and perhaps a thread that closes the group.
#[derive(Clone, Copy)]
struct World {
    writers: u64,
    most_waiting: usize,
    /// Batches after which the leader stops.
    terms: usize,
    /// Whether every other writer drops its request after one poll.
    go_away: bool,
    closes: bool,
}

const PATIENT: World = World { writers: 3, most_waiting: 9, terms: usize::MAX, go_away: false, closes: false };

impl World {
    fn run(self) -> Vec<Told> {
        let queue = Arc::new(Asked::new(self.most_waiting));
        let seat = queue.seat().unwrap();
        assert!(queue.seat().is_none(), "two leaders");
        let leader = thread::spawn(move || lead(seat, self.terms));
        let writers: Vec<_> = (0..self.writers)
            .map(|writer| {
                let queue = Arc::clone(&queue);
                queue.add_handle();
                thread::spawn(move || {
                    let goes_away = self.go_away && writer % 2 == 0;
                    let told = [2 * writer, 2 * writer + 1].map(|request| (request, ask(&queue, request, goes_away)));
                    assert!(queue.waiting() <= self.most_waiting);
                    queue.drop_handle();
                    told
                })
            })
            .collect();
        if self.closes {
            queue.close();
        }
        queue.drop_handle();
        let told: Vec<(u64, Told)> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        let mut taken = leader.join().unwrap();
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "a request was taken twice: {taken:?}");
        for (request, told) in &told {
            match told {
                Told::Answered | Told::Left(Left::Sent) => assert!(taken.contains(request), "{request}: {told:?}"),
                Told::Not(_) => assert!(!taken.contains(request), "{request}: {told:?}"),
                Told::Left(Left::NotSent) | Told::Dropped => {}
            }
        }
        assert_eq!(queue.waiting(), 0);
        told.into_iter().map(|(_, told)| told).collect()
    }
}

/// Tests thousands of orders of a world's threads.
fn in_any_order(world: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(world.clone(), 3_000);
    shuttle::check_pct(world, 3_000, 3);
}

#[test]
fn everybody_who_waits_is_told_what_is_theirs() {
    in_any_order(|| assert!(PATIENT.run().iter().all(|told| *told == Told::Answered)));
}

#[test]
fn who_goes_away_keeps_nobody() {
    in_any_order(|| {
        let told = World { go_away: true, ..PATIENT }.run();
        assert!(told[2..4].iter().all(|told| *told == Told::Answered), "{told:?}");
    });
}

#[test]
fn no_more_wait_than_may() {
    in_any_order(|| {
        let told = World { most_waiting: 1, go_away: true, ..PATIENT }.run();
        let right = |told: &Told| matches!(told, Told::Answered | Told::Dropped | Told::Not(NotQueued::Full(1)));
        assert!(told.iter().all(right), "{told:?}");
    });
}

#[test]
fn a_leader_that_leaves_tells_everybody() {
    for terms in [0, 1, 2] {
        in_any_order(move || {
            let told = World { terms, go_away: true, ..PATIENT }.run();
            assert!(!told.contains(&Told::Not(NotQueued::Closed)), "{told:?}");
        });
    }
}

#[test]
fn a_group_that_is_closed_answers_those_that_wait() {
    in_any_order(|| {
        let told = World { closes: true, ..PATIENT }.run();
        // When a leader ends because the group was closed, every request has an answer.
        let right = |told: &Told| matches!(told, Told::Answered | Told::Not(NotQueued::Closed));
        assert!(told.iter().all(right), "{told:?}");
    });
}

/// After the first leader, whatever it left, there can be another.
#[test]
fn a_leader_may_follow_another() {
    in_any_order(|| {
        let queue = Arc::new(Asked::new(9));
        let first = queue.seat().unwrap();
        let writer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || ask(&queue, 1, false))
        };
        drop(first);
        let second = queue.seat().unwrap();
        let leader = thread::spawn(move || lead(second, usize::MAX));
        assert_ne!(writer.join().unwrap(), Told::Left(Left::Sent));
        assert_eq!(ask(&queue, 2, false), Told::Answered);
        queue.drop_handle();
        assert!(leader.join().unwrap().ends_with(&[2]));
    });
}

/// All orders of one writer and a leader that stops.
#[test]
fn a_small_world_holds_in_all_orders() {
    const TOO_MANY: usize = 1_000_000;
    let orders = Arc::new(AtomicUsize::new(0));
    let tried = Arc::clone(&orders);
    let world = move || {
        tried.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(Asked::new(1));
        let seat = queue.seat().unwrap();
        let leader = thread::spawn(move || drop(seat));
        let told = ask(&queue, 1, false);
        assert!(matches!(told, Told::Left(Left::NotSent) | Told::Not(NotQueued::NoLeader)), "{told:?}");
        leader.join().unwrap();
    };
    shuttle::check_dfs(world, Some(TOO_MANY));
    let orders = orders.load(Ordering::Relaxed);
    println!("{orders} orders");
    assert!((10..TOO_MANY).contains(&orders), "{orders}");
}

/// Whether this fails in some order of threads.
fn breaks(world: impl Fn() + Send + Sync + Clone + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| in_any_order(world))).is_err()
}

/// An earlier defect of the queue: whether there is a leader is read before the lock is taken to enqueue.
fn enqueue_wrongly(queue: &Arc<Asked>, request: u64) -> Result<Waiting, NotQueued> {
    if queue.is_free() {
        return Err(NotQueued::NoLeader);
    }
    let slot = Slot::new(request, queue.arrive(), false);
    let leader = {
        let mut state = queue.locked();
        state.waiting.push_back(Arc::clone(&slot));
        state.leader.take()
    };
    if let Some(leader) = leader {
        leader.wake();
    }
    Ok(Ticket { queue: Some(Arc::clone(queue)), slot })
}

/// The same world, with the correct queue and with one that reads too early: the defect is found.
#[test]
fn a_leader_looked_for_without_the_lock_is_found() {
    type Enqueue = fn(&Arc<Asked>, u64) -> Result<Waiting, NotQueued>;
    let world = |enqueue: Enqueue| {
        move || {
            let queue = Arc::new(Asked::new(9));
            let seat = queue.seat().unwrap();
            let leader = thread::spawn(move || lead(seat, 0));
            if let Ok(ticket) = enqueue(&queue, 1) {
                wait(ticket, 1, false);
            }
            leader.join().unwrap();
        }
    };
    assert!(!breaks(world(|queue, request| queue.enqueue(request))));
    assert!(breaks(world(enqueue_wrongly)));
}

/// A leader that checks for requests, and stores its waker after it has released the lock.
async fn some_wrongly(queue: &Asked) {
    std::future::poll_fn(|context| {
        if !queue.locked().waiting.is_empty() {
            return Poll::Ready(());
        }
        queue.locked().leader = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

#[test]
fn a_leader_that_misses_its_call_is_found() {
    let world = |wrong: bool| {
        move || {
            let queue = Arc::new(Asked::new(9));
            let seat = queue.seat().unwrap();
            let leader = {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    if wrong {
                        block_on(some_wrongly(&queue));
                    }
                    lead(seat, 1)
                })
            };
            assert_eq!(ask(&queue, 1, false), Told::Answered);
            leader.join().unwrap();
        }
    };
    assert!(!breaks(world(false)));
    assert!(breaks(world(true)));
}

/// A request of one that only waits to lead.
const TO_LEAD: u64 = u64::MAX;

/// Queues, and whether somebody leads in each.
struct Tables {
    queues: [Arc<Asked>; 3],
    led: [AtomicBool; 3],
}

impl Tables {
    fn begin(&self, table: usize) {
        assert!(!self.led[table].swap(true, Ordering::SeqCst), "two lead at {table}");
    }

    fn end(&self, table: usize) {
        assert!(self.led[table].swap(false, Ordering::SeqCst));
    }

    /// Commits at one table, also for others that wait there.
    fn alone(&self, table: usize) {
        let queue = &self.queues[table];
        let mut ticket = queue.join(1, queue.arrive()).unwrap();
        while let Turn::Lead(seat) = block_on(ticket.turn()) {
            self.begin(table);
            seat.take_if(9, |request| *request != TO_LEAD).into_iter().for_each(|taken| taken.answer(answer(1)));
            self.end(table);
            seat.hand_over();
        }
    }

    /// Leads at several.
    fn over(&self, tables: &[usize]) {
        let several = all::Several::of(tables.iter().map(|table| Arc::clone(&self.queues[*table])));
        let seats = several.at_once().unwrap_or_else(|| block_on(several.lead(|| TO_LEAD)).unwrap());
        tables.iter().for_each(|table| self.begin(*table));
        thread::yield_now();
        tables.iter().for_each(|table| self.end(*table));
        seats.into_iter().for_each(Seat::hand_over);
    }
}

/// Nobody waits for ever, and no two lead at one table.
#[test]
fn who_leads_at_several_tables_stops_nobody() {
    in_any_order(|| {
        let queues = [(); 3].map(|()| Arc::new(Asked::new(9)));
        let tables = Arc::new(Tables { queues, led: Default::default() });
        let all: [&[usize]; 4] = [&[0, 1], &[1, 2], &[0, 2], &[1]];
        let threads = all.map(|some| {
            let tables = Arc::clone(&tables);
            thread::spawn(move || {
                for _ in 0..2 {
                    match some {
                        [one] => tables.alone(*one),
                        several => tables.over(several),
                    }
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(tables.queues.iter().all(|queue| queue.waiting() == 0));
    });
}

/// Leads in its turn, and notes which it was.
fn lead_in_turn(mut ticket: Waiting, which: u64, led: &Mutex<Vec<u64>>, hand_over: fn(&Arc<Asked>, Seat<u64, u64>)) {
    let queue = ticket.queue.clone().unwrap();
    let Turn::Lead(seat) = block_on(ticket.turn()) else { panic!("nobody answers") };
    led.lock().unwrap().push(which);
    drop(ticket);
    hand_over(&queue, seat);
}

/// Two wait, and one comes twice while they lead.
fn in_order(hand_over: fn(&Arc<Asked>, Seat<u64, u64>)) {
    let (queue, led) = (Arc::new(Asked::new(9)), Arc::new(Mutex::default()));
    let seat = queue.seat().unwrap();
    let join = |queue: &Arc<Asked>| queue.join(TO_LEAD, queue.arrive()).unwrap();
    let waiting = [1, 2].map(|which| {
        let (ticket, led) = (join(&queue), Arc::clone(&led));
        thread::spawn(move || lead_in_turn(ticket, which, &led, hand_over))
    });
    let newcomer = {
        let (queue, led) = (Arc::clone(&queue), Arc::clone(&led));
        thread::spawn(move || [3, 4].map(|which| lead_in_turn(join(&queue), which, &led, hand_over)))
    };
    hand_over(&queue, seat);
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
    newcomer.join().unwrap();
    assert_eq!(*led.lock().unwrap(), [1, 2, 3, 4]);
    assert!(queue.is_free() && queue.waiting() == 0);
}

/// An earlier defect of the queue: the role was free until the one that was called asked for it.
fn hand_over_wrongly(queue: &Arc<Asked>, mut seat: Seat<u64, u64>) {
    let next = queue.locked().waiting.front().cloned();
    seat.handed_over = true;
    queue.locked().role = Role::Free;
    thread::yield_now();
    let mut state = queue.locked();
    if let (Role::Free, Some(next)) = (&state.role, next) {
        state.role = Role::Called(Arc::clone(&next));
        drop(state);
        next.call();
    }
}

/// Who waits is not overtaken by one that comes later; with the defect it is, or waits for ever.
#[test]
fn they_lead_in_the_order_in_which_they_came() {
    assert!(!breaks(|| in_order(|_, seat| seat.hand_over())));
    assert!(breaks(|| in_order(hand_over_wrongly)));
}
