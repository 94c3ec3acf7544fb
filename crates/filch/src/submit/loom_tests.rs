//! Submitted tasks: a task is claimed once, and a task with dependencies becomes ready when they
//! have ended. The models of the handles are in `task/loom_tests.rs`.

use super::cell::{
    self, CancelEffect, Cause, Claim, DependencyEdge, Extras, FollowerUpdate, SubmitRef, TaskJoin,
    TaskMeta, TaskOutcome, TaskTicket,
};
use crate::{
    base::canary::Canary,
    engine::Priority,
    loom_tests::{caught, long_run, model},
    task::{JoinRef, Joinable},
};
use loom::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};
// Not loom's: counts of what happened, and what must not be dropped after a deadlock was reported.
use std::{
    mem::ManuallyDrop,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
};

/// Creates a task: its handle, a reference to cancel it, and its ticket.
fn make<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
) -> (TaskJoin<T>, SubmitRef, TaskTicket) {
    let (new_task, ticket) = cell::make(func, Priority::Normal, TaskMeta::new(u32::MAX - 1, 0));
    let task = ticket.cell().clone();
    (new_task.join, task, ticket)
}

/// Creates a task with this value. Returns its handle, and a function that runs it.
pub(crate) fn closure<T: Send + 'static>(
    value: T,
) -> (JoinRef<impl Joinable, T>, impl FnOnce() + Send + 'static) {
    let (join, canceller, ticket) = make(move || value);
    drop(canceller);
    (join, move || run(ticket.claim().unwrap()))
}

/// Creates a task that waits for `others`, which do not have it in their lists yet. Returns its
/// handle, and two references: to cancel it, and to add it to their lists.
fn make_held<T: Send + 'static>(
    func: impl FnOnce() -> T + Send + 'static,
    others: &[&TaskJoin<T>],
) -> (TaskJoin<T>, SubmitRef, SubmitRef) {
    let (join, task, ticket) = make(func);
    let mut extras = Extras::default();
    for other in others {
        extras.wait_for(DependencyEdge {
            cell: other.task().clone(),
            any_outcome: false,
        });
    }
    ticket.cell().mark_held();
    ticket.cell().meta().add(Arc::new(extras));
    let follower = ticket.cell().clone();
    (join, task, follower)
}

/// Applies the end of a predecessor: passes the ticket to `queue`, or discards the follower.
fn advance(update: FollowerUpdate, queue: &mut impl FnMut(TaskTicket)) {
    match update {
        FollowerUpdate::Unchanged => {}
        FollowerUpdate::Ready(ticket, inboxes) => {
            let cell = ticket.cell().clone();
            queue(ticket);
            inboxes.notify(&cell);
        }
        FollowerUpdate::Failed(claim) => {
            let (ended, _) = claim.discard(Cause::Dependency);
            let _ = ended.finish();
        }
    }
}

/// Adds a task to the lists of its predecessors.
fn register_as_follower(follower: SubmitRef, mut queue: impl FnMut(TaskTicket)) {
    advance(follower.register_as_follower(), &mut queue);
}

/// Runs a task that was claimed.
fn run(claim: Claim) {
    let payload = claim.call().finish();
    assert!(payload.is_none(), "nothing panics here");
}

/// Runs the task of a ticket, and passes the tickets of its followers to `queue`.
fn run_then(ticket: TaskTicket, mut queue: impl FnMut(TaskTicket)) {
    let payload = ticket.claim().unwrap().call().finish_then(|ended| {
        let (followers, failed) = ended.take_followers();
        followers.consume(|follower| {
            advance(follower.predecessor_ended(failed.as_ref()), &mut queue);
        });
    });
    assert!(payload.is_none(), "nothing panics here");
}

/// Returns `Some(None)` when the task was cancelled, and `None` when it has not ended.
fn take<T>(join: &mut TaskJoin<T>) -> Option<Option<T>> {
    Some(match join.take()? {
        TaskOutcome::Value(value) => Some(value),
        TaskOutcome::Panic(_) => unreachable!("nothing panics here"),
        TaskOutcome::Cancelled(_) => None,
    })
}

/// Cancels a task. Returns whether it had not started; `None` when it has ended.
fn cancel(task: &SubmitRef) -> Option<bool> {
    match task.cancel() {
        CancelEffect::Claimed { claim, .. } => {
            let (ended, _) = claim.discard(Cause::Requested);
            let _ = ended.finish();
            Some(true)
        }
        CancelEffect::Requested => Some(false),
        CancelEffect::TooLate => None,
    }
}

/// Counts the calls and drops of a closure.
#[derive(Default)]
struct CallCount {
    ran: AtomicUsize,
    dropped: AtomicUsize,
}

/// A value whose drops are counted.
struct CountedDrop(Arc<CallCount>);

impl Drop for CountedDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

impl CallCount {
    fn ran(&self) -> usize {
        self.ran.load(SeqCst)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(SeqCst)
    }
}

/// Returns a closure that counts its calls and its drop.
fn counted(count: &Arc<CallCount>) -> impl FnOnce() -> usize + Send + 'static {
    let counted = CountedDrop(count.clone());
    move || counted.0.ran.fetch_add(1, SeqCst) + 7
}

/// A worker with the ticket, the owner of the handle and a thread that cancels all claim the task.
fn three_claims() {
    let count = Arc::<CallCount>::default();
    let (mut join, canceller, ticket) = make(counted(&count));
    let worker = thread::spawn(move || ticket.claim().map(run).is_some());
    let other = thread::spawn(move || cancel(&canceller) == Some(true));
    let here = join.task().claim().map(run).is_some();
    let (by_worker, cancelled) = (worker.join().unwrap(), other.join().unwrap());
    let winners = [here, by_worker, cancelled];
    assert_eq!(winners.iter().filter(|won| **won).count(), 1, "{winners:?}");
    let outcome = take(&mut join).expect("all threads have ended, so it is done");
    assert_eq!(outcome, (!cancelled).then_some(7));
    assert_eq!(count.ran(), usize::from(!cancelled));
    assert_eq!(count.dropped(), 1, "the closure is dropped once");
}

#[test]
fn a_task_is_claimed_once() {
    model(long_run(2, 3), three_claims);
}

#[test]
fn canary_claim_in_two_steps() {
    caught(Canary::TaskClaim, long_run(2, 3), three_claims);
}

/// Unparks a thread of the model.
pub(crate) struct UnparkThread(pub(crate) Thread);

impl Wake for UnparkThread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns a waker that unparks this thread of the model.
pub(crate) fn waker() -> Waker {
    Waker::from(Arc::new(UnparkThread(thread::current())))
}

/// Tickets by level, as a pool queues them.
#[derive(Default)]
struct TicketQueue(Mutex<Vec<TaskTicket>>);

impl TicketQueue {
    fn push(&self, ticket: TaskTicket) {
        let mut queue = self.0.lock().unwrap();
        queue.push(ticket);
        queue.sort_by_key(TaskTicket::level);
    }

    /// Takes the most urgent ticket, and runs its task if it is not stale.
    fn step(&self) -> bool {
        let ticket = self.0.lock().unwrap().pop();
        let found = ticket.is_some();
        if let Some(claim) = ticket.and_then(TaskTicket::claim) {
            run(claim);
        }
        found
    }
}

/// The task becomes more urgent while a worker takes a ticket.
fn move_against_claim() {
    let count = Arc::<CallCount>::default();
    let (mut join, canceller, ticket) = make(counted(&count));
    drop(canceller);
    let queue = Arc::new(TicketQueue::default());
    queue.push(ticket);
    let worker = {
        let queue = queue.clone();
        thread::spawn(move || queue.step())
    };
    let _ = join.set_level(Priority::High, |ticket| queue.push(ticket));
    worker.join().unwrap();
    while queue.step() {}
    assert_eq!(take(&mut join), Some(Some(7)), "it is not lost");
    assert_eq!((count.ran(), count.dropped()), (1, 1));
}

#[test]
fn a_task_that_changes_its_priority_is_not_lost() {
    model(None, move_against_claim);
}

#[test]
fn canary_new_ticket_before_the_new_priority() {
    caught(Canary::TaskMove, None, move_against_claim);
}

/// A running task gets a token while another thread cancels it.
fn token_against_cancel() {
    let (join, canceller, ticket) = make(|| 0);
    let token = Arc::new(AtomicBool::new(false));
    let cancels = Arc::new(AtomicUsize::new(0));
    let claim = ticket.claim().unwrap();
    let other = {
        let (token, cancels) = (token.clone(), cancels.clone());
        thread::spawn(move || {
            assert_eq!(cancel(&canceller), Some(false));
            // Relaxed: the word of the task orders it.
            if token.load(Ordering::Relaxed) {
                cancels.fetch_add(1, SeqCst);
            }
        })
    };
    // The task itself, in the middle of its closure.
    token.store(true, Ordering::Relaxed);
    if join.task().publish_token() {
        cancels.fetch_add(1, SeqCst);
    }
    other.join().unwrap();
    run(claim);
    assert!(cancels.load(SeqCst) > 0, "the token is not cancelled");
}

#[test]
fn a_token_published_during_a_cancel_is_cancelled() {
    model(None, token_against_cancel);
}

#[test]
fn canary_token_without_a_mark() {
    caught(Canary::TaskToken, None, token_against_cancel);
}

/// Runs a task that has become ready.
fn run_ready(ticket: TaskTicket) {
    if let Some(claim) = ticket.claim() {
        run(claim);
    }
}

/// Returns a closure that sets `flag`.
fn set_flag(flag: &Arc<AtomicBool>) -> impl FnOnce() -> usize + Send + 'static {
    let flag = flag.clone();
    move || {
        // Relaxed: what orders it is under test.
        flag.store(true, Ordering::Relaxed);
        0
    }
}

/// Returns a closure that counts the flags that are set.
fn count_flags(flags: [&Arc<AtomicBool>; 2]) -> impl FnOnce() -> usize + Send + 'static {
    let flags = flags.map(Arc::clone);
    // Relaxed: as in `set_flag`.
    move || {
        flags
            .iter()
            .filter(|flag| flag.load(Ordering::Relaxed))
            .count()
    }
}

/// A task ends while another one that waits for it joins its list.
fn end_against_enlist() {
    let flag = Arc::new(AtomicBool::new(false));
    let (first, _, ticket) = make(set_flag(&flag));
    let (mut second, _, follower) = make_held(count_flags([&flag, &flag]), &[&first]);
    let worker = thread::spawn(move || run_then(ticket, run_ready));
    register_as_follower(follower, run_ready);
    worker.join().unwrap();
    assert_eq!(
        take(&mut second),
        Some(Some(2)),
        "it runs once, after the other"
    );
}

#[test]
fn a_task_that_ends_meanwhile_releases_its_follower() {
    model(long_run(3, 5), end_against_enlist);
}

#[test]
fn canary_follower_that_does_not_check() {
    caught(Canary::TaskFollow, Some(3), end_against_enlist);
}

/// Two tasks end at the same time, and one waits for both.
fn two_against_one() {
    let flags = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (one, _, ticket_one) = make(set_flag(&flags[0]));
    let (two, _, ticket_two) = make(set_flag(&flags[1]));
    let body = count_flags([&flags[0], &flags[1]]);
    let (mut last, canceller, follower) = make_held(body, &[&one, &two]);
    drop((one, two, canceller));
    register_as_follower(follower, |_| unreachable!("no task has ended"));
    let workers =
        [ticket_one, ticket_two].map(|ticket| thread::spawn(move || run_then(ticket, run_ready)));
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(take(&mut last), Some(Some(2)), "it sees what both did");
}

#[test]
fn a_follower_of_two_sees_what_both_did() {
    model(long_run(2, 3), two_against_one);
}

#[test]
fn canary_arrival_without_order() {
    caught(Canary::TaskArrive, long_run(2, 3), two_against_one);
}

/// A task is cancelled while it becomes ready.
fn cancel_against_ready() {
    let count = Arc::<CallCount>::default();
    let (first, _, ticket) = make(|| 7);
    let (mut second, canceller, follower) = make_held(counted(&count), &[&first]);
    drop(first);
    register_as_follower(follower, |_| unreachable!("no task has ended"));
    let worker = thread::spawn(move || run_then(ticket, run_ready));
    let cancelled = cancel(&canceller) == Some(true);
    worker.join().unwrap();
    assert_eq!(take(&mut second), Some((!cancelled).then_some(7)));
    assert_eq!((count.ran(), count.dropped()), (usize::from(!cancelled), 1));
}

#[test]
fn a_task_that_waits_for_others_is_claimed_once() {
    model(long_run(3, 5), cancel_against_ready);
}

/// A thread requests a task that waits for another one, while that one ends.
fn inbox_against_ready() {
    let (first, _, ticket) = make(|| 7);
    let (second, canceller, follower) = make_held(|| 8, &[&first]);
    drop((first, canceller));
    register_as_follower(follower, |_| unreachable!("no task has ended"));
    // After loom has reported a deadlock, its types must not be used.
    let mut second = ManuallyDrop::new(second);
    // Only the thread that requests it runs it.
    let worker = thread::spawn(move || run_then(ticket, drop));
    let inbox = second.task().open_inbox();
    if second.task().register_inbox(&inbox).is_some() {
        let inbox = ManuallyDrop::new(inbox);
        while inbox.is_empty() && inbox.register_waker(&waker()) {
            thread::park();
        }
        drop(ManuallyDrop::into_inner(inbox));
    }
    run(second.task().claim().expect("it is ready"));
    worker.join().unwrap();
    assert_eq!(take(&mut second), Some(Some(8)));
    drop(ManuallyDrop::into_inner(second));
}

#[test]
fn a_thread_that_requests_a_task_is_notified() {
    model(Some(3), inbox_against_ready);
}

#[test]
fn canary_request_without_a_second_check() {
    caught(Canary::TaskInboxLock, Some(3), inbox_against_ready);
}
