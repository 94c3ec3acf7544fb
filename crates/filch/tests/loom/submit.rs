//! Submitted tasks: one of those who want it gets it, and tasks that wait for others are told. The handle's side is in
//! `task.rs`.

use super::{caught, long_run, model};
use filch::{
    base::canary::Canary,
    engine::Level,
    submit::model::{Ticket, make, make_held},
};
use loom::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};
// Not loom's: counts of what happened, and what must not be dropped after loom has reported a defect.
use std::{
    mem::ManuallyDrop,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
};

/// What a closure or a result was put through.
#[derive(Default)]
struct Fate {
    ran: AtomicUsize,
    dropped: AtomicUsize,
}

/// Something whose end is counted.
struct Thing(Arc<Fate>);

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

impl Fate {
    fn ran(&self) -> usize {
        self.ran.load(SeqCst)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(SeqCst)
    }
}

/// A closure that counts its calls and its end.
fn counted(fate: &Arc<Fate>) -> impl FnOnce() -> usize + Send + 'static {
    let thing = Thing(fate.clone());
    move || thing.0.ran.fetch_add(1, SeqCst) + 7
}

/// A worker with the ticket, the handle's owner and somebody who cancels all want the task.
fn three_want_it() {
    let fate = Arc::<Fate>::default();
    let (mut hold, canceller, ticket) = make(counted(&fate));
    let worker = thread::spawn(move || {
        let claim = ticket.claim();
        let won = claim.is_some();
        claim.into_iter().for_each(|claim| claim.run());
        won
    });
    let other = thread::spawn(move || canceller.cancel() == Some(true));
    let here = hold.claim().map(|claim| claim.run()).is_some();
    let (by_worker, cancelled) = (worker.join().unwrap(), other.join().unwrap());
    let winners = [here, by_worker, cancelled];
    assert_eq!(winners.iter().filter(|won| **won).count(), 1, "{winners:?}");
    let outcome = hold.take().expect("everybody is gone, so it is done");
    assert_eq!(outcome, (!cancelled).then_some(7));
    assert_eq!(fate.ran(), usize::from(!cancelled));
    assert_eq!(fate.dropped(), 1, "the closure is dropped once");
}

#[test]
fn a_task_is_claimed_once() {
    model(long_run(2, 3), three_want_it);
}

#[test]
fn canary_claim_in_two_steps() {
    caught(Canary::TaskClaim, long_run(2, 3), three_want_it);
}

/// Unparks a thread of the model.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Tickets by level, as a pool queues them.
#[derive(Default)]
struct Queue(Mutex<Vec<Ticket>>);

impl Queue {
    fn push(&self, ticket: Ticket) {
        let mut queue = self.0.lock().unwrap();
        queue.push(ticket);
        queue.sort_by_key(Ticket::level);
    }

    /// Takes the most urgent ticket, and runs its task if it is not stale.
    fn step(&self) -> bool {
        let ticket = self.0.lock().unwrap().pop();
        let found = ticket.is_some();
        if let Some(claim) = ticket.and_then(Ticket::claim) {
            claim.run();
        }
        found
    }
}

/// The task gets more urgent while a worker takes a ticket.
fn move_against_claim() {
    let fate = Arc::<Fate>::default();
    let (mut hold, canceller, ticket) = make(counted(&fate));
    drop(canceller);
    let queue = Arc::new(Queue::default());
    queue.push(ticket);
    let worker = {
        let queue = queue.clone();
        thread::spawn(move || queue.step())
    };
    hold.move_to(Level::High, |ticket| queue.push(ticket));
    worker.join().unwrap();
    while queue.step() {}
    assert_eq!(hold.take(), Some(Some(7)), "it is not lost");
    assert_eq!((fate.ran(), fate.dropped()), (1, 1));
}

#[test]
fn a_task_that_changes_its_priority_is_not_lost() {
    model(None, move_against_claim);
}

#[test]
fn canary_new_ticket_before_the_new_priority() {
    caught(Canary::TaskMove, None, move_against_claim);
}

/// A running task gets a token while somebody cancels it.
fn token_against_cancel() {
    let (hold, canceller, ticket) = make(|| 0);
    let token = Arc::new(AtomicBool::new(false));
    let told = Arc::new(AtomicUsize::new(0));
    let claim = ticket.claim().unwrap();
    let other = {
        let (token, told) = (token.clone(), told.clone());
        thread::spawn(move || {
            assert_eq!(canceller.cancel(), Some(false));
            // Relaxed: the word of the task orders it.
            if token.load(Ordering::Relaxed) {
                told.fetch_add(1, SeqCst);
            }
        })
    };
    // The task itself, in the middle of its closure.
    token.store(true, Ordering::Relaxed);
    if hold.publish_token() {
        told.fetch_add(1, SeqCst);
    }
    other.join().unwrap();
    claim.run();
    assert!(told.load(SeqCst) > 0, "somebody tells the token");
}

#[test]
fn a_token_that_comes_late_is_told() {
    model(None, token_against_cancel);
}

#[test]
fn canary_token_without_a_mark() {
    caught(Canary::TaskToken, None, token_against_cancel);
}

/// Runs a task that has become ready.
fn run_ready(ticket: Ticket) {
    ticket.claim().into_iter().for_each(|claim| claim.run());
}

/// A closure that notes that it ran.
fn note(flag: &Arc<AtomicBool>) -> impl FnOnce() -> usize + Send + 'static {
    let flag = flag.clone();
    move || {
        // Relaxed: what orders it is under test.
        flag.store(true, Ordering::Relaxed);
        0
    }
}

/// A closure that says how many of the others have run.
fn count(flags: [&Arc<AtomicBool>; 2]) -> impl FnOnce() -> usize + Send + 'static {
    let flags = flags.map(Arc::clone);
    // Relaxed: as in `note`.
    move || {
        flags
            .iter()
            .filter(|flag| flag.load(Ordering::Relaxed))
            .count()
    }
}

/// A task ends while another one that waits for it makes itself known.
fn end_against_enlist() {
    let flag = Arc::new(AtomicBool::new(false));
    let (first, _, ticket) = make(note(&flag));
    let (mut second, _, follower) = make_held(count([&flag, &flag]), &[&first]);
    let worker = thread::spawn(move || ticket.claim().unwrap().run_then(run_ready));
    follower.enlist(run_ready);
    worker.join().unwrap();
    assert_eq!(
        second.take(),
        Some(Some(2)),
        "it runs once, after the other"
    );
}

#[test]
fn a_task_that_ends_meanwhile_lets_its_follower_go() {
    model(long_run(3, 5), end_against_enlist);
}

#[test]
fn canary_follower_that_does_not_look() {
    caught(Canary::TaskFollow, Some(3), end_against_enlist);
}

/// Two tasks end at the same time, and one waits for both.
fn two_against_one() {
    let flags = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (one, _, ticket_one) = make(note(&flags[0]));
    let (two, _, ticket_two) = make(note(&flags[1]));
    let body = count([&flags[0], &flags[1]]);
    let (mut last, canceller, follower) = make_held(body, &[&one, &two]);
    drop((one, two, canceller));
    follower.enlist(|_| unreachable!("nothing has ended"));
    let workers = [ticket_one, ticket_two]
        .map(|ticket| thread::spawn(move || ticket.claim().unwrap().run_then(run_ready)));
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(last.take(), Some(Some(2)), "it sees what both did");
}

#[test]
fn a_follower_of_two_sees_what_both_did() {
    model(long_run(2, 3), two_against_one);
}

#[test]
fn canary_arrival_without_order() {
    caught(Canary::TaskArrive, long_run(2, 3), two_against_one);
}

/// A task is cancelled in the moment in which it becomes ready.
fn cancel_against_ready() {
    let fate = Arc::<Fate>::default();
    let (first, _, ticket) = make(|| 7);
    let (mut second, canceller, follower) = make_held(counted(&fate), &[&first]);
    drop(first);
    follower.enlist(|_| unreachable!("nothing has ended"));
    let worker = thread::spawn(move || ticket.claim().unwrap().run_then(run_ready));
    let cancelled = canceller.cancel() == Some(true);
    worker.join().unwrap();
    assert_eq!(second.take(), Some((!cancelled).then_some(7)));
    assert_eq!((fate.ran(), fate.dropped()), (usize::from(!cancelled), 1));
}

#[test]
fn a_task_that_waits_for_others_is_claimed_once() {
    model(long_run(3, 5), cancel_against_ready);
}

/// Somebody wants a task that waits for another one, in the moment in which that ends.
fn want_against_ready() {
    let (first, _, ticket) = make(|| 7);
    let (second, canceller, follower) = make_held(|| 8, &[&first]);
    drop((first, canceller));
    follower.enlist(|_| unreachable!("nothing has ended"));
    // When loom has reported a sleep without an end, nothing of its own may be used any more.
    let mut second = ManuallyDrop::new(second);
    // Nobody runs it but whoever wants it.
    let worker = thread::spawn(move || ticket.claim().unwrap().run_then(drop));
    if let Some(inbox) = second.want() {
        let inbox = ManuallyDrop::new(inbox);
        while !inbox.has_mail() && inbox.arm(&waker()) {
            thread::park();
        }
        drop(ManuallyDrop::into_inner(inbox));
    }
    second.claim().expect("it is ready").run();
    worker.join().unwrap();
    assert_eq!(second.take(), Some(Some(8)));
    drop(ManuallyDrop::into_inner(second));
}

#[test]
fn whoever_wants_a_task_hears_that_it_is_ready() {
    model(Some(3), want_against_ready);
}

#[test]
fn canary_want_without_a_second_look() {
    caught(Canary::TaskWant, Some(3), want_against_ready);
}
