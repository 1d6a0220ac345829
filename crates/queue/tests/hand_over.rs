//! Leaders follow one another: who waits stays together, nobody is forgotten, and nobody is overtaken.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use glidepath_queue::{Left, NotQueued, Queue, Seat, Several, Ticket, Turn};

type Asked = Queue<u64, u64>;

/// Of one that only waits to lead.
const TO_LEAD: u64 = 100;

fn join(queue: &Arc<Asked>, request: u64) -> Ticket<u64, u64> {
    queue.join(request, queue.arrive()).unwrap()
}

/// What it was waiting for, if it has come by now.
fn turn(ticket: &mut Ticket<u64, u64>) -> Option<Turn<u64, u64>> {
    match pin!(ticket.turn()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(turn) => Some(turn),
        Poll::Pending => None,
    }
}

fn leads(ticket: &mut Ticket<u64, u64>) -> Option<Seat<u64, u64>> {
    match turn(ticket)? {
        Turn::Lead(seat) => Some(seat),
        Turn::Answer(answer) => panic!("{answer:?}"),
    }
}

fn answered(ticket: &mut Ticket<u64, u64>) -> Option<Result<u64, Left>> {
    match turn(ticket)? {
        Turn::Lead(_) => panic!("it leads"),
        Turn::Answer(answer) => Some(answer),
    }
}

/// Answers those that may be taken, with ten more than they asked.
fn answer_all(seat: &Seat<u64, u64>) -> Vec<u64> {
    let answer = |taken: glidepath_queue::Taken<u64, u64>| {
        let request = *taken.request();
        taken.answer(request + 10);
        request
    };
    seat.take_if(9, |request| *request < TO_LEAD).into_iter().map(answer).collect()
}

#[test]
fn the_next_leader_gets_all_that_wait_and_is_their_first() {
    let queue = Arc::new(Asked::new(9));
    assert!(queue.is_free());
    let [mut own, mut one, mut two, mut three] = [0, 1, 2, 3].map(|request| join(&queue, request));
    assert!(leads(&mut one).is_none() && queue.seat().is_none() && !queue.is_free());
    let seat = leads(&mut own).unwrap();
    assert_eq!(seat.take(1).into_iter().map(|taken| taken.answer(10)).count(), 1);
    assert_eq!(answered(&mut own), Some(Ok(10)));
    seat.hand_over();
    // One that comes now is the last.
    let mut four = join(&queue, 4);
    assert!(queue.seat().is_none());
    for late in [&mut two, &mut three, &mut four] {
        assert!(turn(late).is_none());
    }
    let seat = leads(&mut one).unwrap();
    assert_eq!(answer_all(&seat), [1, 2, 3, 4]);
    for (ticket, told) in [(&mut one, 11), (&mut two, 12), (&mut three, 13), (&mut four, 14)] {
        assert_eq!(answered(ticket), Some(Ok(told)));
    }
    seat.hand_over();
    assert!(queue.is_free() && queue.seat().is_some());
}

/// One that only wants to lead is not taken. Those behind it are, and it leads next.
#[test]
fn who_wants_to_lead_does_so_in_its_turn() {
    let queue = Arc::new(Asked::new(9));
    let [mut one, mut leader, mut two] = [1, TO_LEAD, 2].map(|request| join(&queue, request));
    let seat = leads(&mut one).unwrap();
    assert_eq!(answer_all(&seat), [1, 2]);
    let mut three = join(&queue, 3);
    assert_eq!(answered(&mut two), Some(Ok(12)));
    seat.hand_over();
    assert!(turn(&mut three).is_none());
    let seat = leads(&mut leader).unwrap();
    // Its request is not needed any more.
    drop(leader);
    assert!(queue.seat().is_none() && queue.waiting() == 1);
    seat.hand_over();
    assert_eq!(answer_all(&leads(&mut three).unwrap()), [3]);
}

#[test]
fn if_the_one_that_is_called_goes_away_the_next_is_called() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let [one, two, mut three] = [1, 2, 3].map(|request| join(&queue, request));
    seat.hand_over();
    // It was called, and never looked.
    drop(one);
    drop(two);
    let seat = leads(&mut three).unwrap();
    assert_eq!(answer_all(&seat), [3]);
    seat.hand_over();
    assert!(queue.is_free() && queue.waiting() == 0);
    drop(join(&queue, 4));
    assert!(queue.is_free() && queue.waiting() == 0);
}

/// One that waits for an answer only, where leaders follow one another.
#[test]
fn who_cannot_lead_is_told_and_the_next_leads() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let (one, mut two) = (queue.enqueue(1).unwrap(), join(&queue, 2));
    seat.hand_over();
    let told = pin!(one).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(told, Poll::Ready(Err(Left::NotSent))));
    assert_eq!(answer_all(&leads(&mut two).unwrap()), [2]);
}

#[test]
fn who_comes_back_keeps_its_place() {
    let queue = Arc::new(Asked::new(3));
    let seat = queue.seat().unwrap();
    let first = queue.arrive();
    let [mut two, three] = [2, 3].map(|request| join(&queue, request));
    let mut one = queue.join(1, first).unwrap();
    assert!(matches!(queue.join(0, first), Err(NotQueued::Full(3))));
    drop(three);
    let mut again = queue.join(TO_LEAD, first).unwrap();
    seat.hand_over();
    assert!(turn(&mut two).is_none() && turn(&mut again).is_none());
    let seat = leads(&mut one).unwrap();
    assert_eq!(answer_all(&seat), [1, 2]);
    let mut four = join(&queue, 4);
    seat.hand_over();
    assert!(turn(&mut four).is_none());
    assert!(leads(&mut again).is_some());
}

#[test]
fn a_leader_that_stops_tells_all_that_wait() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let [mut one, mut two] = [1, 2].map(|request| join(&queue, request));
    drop(seat);
    assert_eq!((answered(&mut one), answered(&mut two)), (Some(Err(Left::NotSent)), Some(Err(Left::NotSent))));
    assert!(queue.is_free());
    queue.close();
    assert!(matches!(queue.join(3, queue.arrive()), Err(NotQueued::Closed)));
}

/// One whose turn it is in a queue, and cannot lead in another one, keeps nobody waiting in the first, and is the next
/// there whoever came meanwhile.
#[test]
fn who_cannot_lead_everywhere_calls_the_next_and_keeps_its_places() {
    let [first, second] = [(); 2].map(|()| Arc::new(Asked::new(9)));
    let busy = second.seat().unwrap();
    let several = Several::of([Arc::clone(&first), Arc::clone(&second)]);
    assert!(several.at_once().is_none() && first.is_free());
    let mut leading = pin!(several.lead(|| TO_LEAD));
    let mut context = Context::from_waker(Waker::noop());
    assert!(leading.as_mut().poll(&mut context).is_pending());
    let elsewhere = first.seat().unwrap();
    let mut next = join(&second, 1);
    busy.hand_over();
    assert!(turn(&mut next).is_none());
    assert!(leading.as_mut().poll(&mut context).is_pending());
    let seat = leads(&mut next).unwrap();
    let [mut late, mut later] = [&first, &second].map(|queue| join(queue, 2));
    elsewhere.hand_over();
    assert!(turn(&mut late).is_none());
    assert!(leading.as_mut().poll(&mut context).is_pending());
    // It came before this one.
    seat.hand_over();
    assert!(turn(&mut later).is_none());
    leads(&mut late).unwrap().hand_over();
    assert!(turn(&mut later).is_none());
    drop((next, late));
    let Poll::Ready(Ok(seats)) = leading.as_mut().poll(&mut context) else { panic!("it is its turn in both") };
    assert!(seats.len() == 2 && first.seat().is_none() && turn(&mut later).is_none());
    seats.into_iter().for_each(Seat::hand_over);
    assert!(first.is_free() && leads(&mut later).is_some());
}

/// After some tries it keeps what it leads, so those that come do not keep it from leading for ever.
#[test]
fn others_overtake_it_a_few_times_only() {
    let queues = [(); 2].map(|()| Arc::new(Asked::new(99)));
    let mut led: [Option<Seat<u64, u64>>; 2] = queues.each_ref().map(|queue| queue.seat());
    let several = Several::of(queues.iter().map(Arc::clone));
    let mut leading = pin!(several.lead(|| TO_LEAD));
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..99 {
        if let Poll::Ready(Ok(seats)) = leading.as_mut().poll(&mut context) {
            assert!(seats.len() == 2 && round > 8, "{round}");
            return;
        }
        // In turn at one and at the other, somebody leads who came later; never is nobody leading in both.
        let (queue, seat) = (&queues[round % 2], &mut led[round % 2]);
        let mut newcomer = join(queue, 1);
        if let Some(seat) = seat.take() {
            seat.hand_over();
        }
        if leading.as_mut().poll(&mut context).is_pending() {
            *seat = leads(&mut newcomer);
        } else {
            assert!(round > 8, "{round}");
            return;
        }
    }
    panic!("overtaken for ever");
}
