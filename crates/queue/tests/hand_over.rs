//! A leader hands over: who waits stays together, and nobody is forgotten.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use glidepath_queue::{Left, Queue, Seat, Ticket, lead_all};

type Asked = Queue<u64, u64>;

/// The answer, if there is one by now.
fn polled(ticket: Pin<&mut Ticket<u64, u64>>) -> Option<Result<u64, Left>> {
    match ticket.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[test]
fn the_next_leader_gets_all_that_wait() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let mut own = pin!(queue.enqueue(0).unwrap());
    let mine = seat.take(9);
    let (mut one, mut two, mut three) =
        (pin!(queue.enqueue(1).unwrap()), pin!(queue.enqueue(2).unwrap()), pin!(queue.enqueue(3).unwrap()));
    mine.into_iter().for_each(|taken| taken.answer(10));
    assert_eq!(polled(own.as_mut()), Some(Ok(10)));
    seat.hand_over();
    // One is called, and the others stay.
    assert_eq!(polled(one.as_mut()), Some(Err(Left::NotSent)));
    assert_eq!((polled(two.as_mut()), polled(three.as_mut()), queue.waiting()), (None, None, 2));
    let seat = queue.seat().unwrap();
    let mut again = pin!(queue.enqueue(1).unwrap());
    let taken = seat.take(9);
    assert_eq!(taken.iter().map(|taken| *taken.request()).collect::<Vec<_>>(), [2, 3, 1]);
    for taken in taken {
        let request = *taken.request();
        taken.answer(request + 10);
    }
    assert_eq!(polled(again.as_mut()), Some(Ok(11)));
    assert_eq!((polled(two.as_mut()), polled(three.as_mut())), (Some(Ok(12)), Some(Ok(13))));
}

/// One that only wants to lead is not taken, and those behind it wait until it has led.
#[test]
fn who_wants_to_lead_does_so_in_its_turn() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let (mut one, mut leader, mut two) =
        (pin!(queue.enqueue(1).unwrap()), pin!(queue.enqueue(100).unwrap()), pin!(queue.enqueue(2).unwrap()));
    let taken = |seat: &Seat<u64, u64>| {
        let taken = seat.take_while(9, |request| *request < 100);
        taken.into_iter().map(|taken| (*taken.request(), taken.answer(0)).0).collect::<Vec<_>>()
    };
    assert_eq!((taken(&seat), taken(&seat)), (vec![1], vec![]));
    assert_eq!(polled(one.as_mut()), Some(Ok(0)));
    seat.hand_over();
    assert_eq!((polled(leader.as_mut()), polled(two.as_mut())), (Some(Err(Left::NotSent)), None));
    let seat = queue.seat().unwrap();
    assert!(queue.seat().is_none() && queue.waiting() == 1);
    seat.hand_over();
    assert_eq!(polled(two.as_mut()), Some(Err(Left::NotSent)));
}

#[test]
fn if_the_one_that_is_called_goes_away_the_next_is_called() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let one = queue.enqueue(1).unwrap();
    let (mut two, mut three) = (pin!(queue.enqueue(2).unwrap()), pin!(queue.enqueue(3).unwrap()));
    seat.hand_over();
    // It was told, and never looked.
    drop(one);
    assert_eq!((polled(two.as_mut()), polled(three.as_mut())), (Some(Err(Left::NotSent)), None));
    // A newcomer may be faster than the one that was called.
    let seat = queue.seat().unwrap();
    seat.take(9).into_iter().for_each(|taken| taken.answer(13));
    assert_eq!(polled(three.as_mut()), Some(Ok(13)));
    seat.hand_over();
    assert!(queue.seat().is_some() && queue.waiting() == 0);
}

#[test]
fn a_leader_that_stops_tells_all_that_wait() {
    let queue = Arc::new(Asked::new(9));
    let seat = queue.seat().unwrap();
    let (mut one, mut two) = (pin!(queue.enqueue(1).unwrap()), pin!(queue.enqueue(2).unwrap()));
    drop(seat);
    assert_eq!(polled(one.as_mut()), Some(Err(Left::NotSent)));
    assert_eq!(polled(two.as_mut()), Some(Err(Left::NotSent)));
}

/// One that was told to lead in a queue, and cannot lead in another one, keeps nobody waiting in the first.
#[test]
fn who_cannot_lead_everywhere_calls_the_next() {
    let both = [Arc::new(Asked::new(9)), Arc::new(Asked::new(9))];
    let [first, second] = &both;
    let busy = second.seat().unwrap();
    let mut leads = pin!(lead_all(&both, || 100));
    let mut context = Context::from_waker(Waker::noop());
    assert!(leads.as_mut().poll(&mut context).is_pending());
    let elsewhere = first.seat().unwrap();
    let mut next = pin!(second.enqueue(1).unwrap());
    busy.hand_over();
    assert_eq!(polled(next.as_mut()), None);
    assert!(leads.as_mut().poll(&mut context).is_pending());
    assert_eq!(polled(next.as_mut()), Some(Err(Left::NotSent)));
    elsewhere.hand_over();
    let Poll::Ready(Ok(seats)) = leads.as_mut().poll(&mut context) else { panic!("nobody leads there") };
    assert!(seats.len() == 2 && first.seat().is_none() && second.seat().is_none());
}
