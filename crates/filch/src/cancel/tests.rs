use super::{CancelReason, CancelToken, OnCancel, TaskBatch};
use crate::threads::timer::Timer;
use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a check whether the entry of the token's deadline is in the timer.
fn witness(token: &CancelToken) -> impl Fn() -> bool + use<> {
    let deadline = |handle: Option<&crate::threads::timer::TimerHandle>| {
        let handle = handle.expect("there is a deadline");
        assert!(handle.is_pending());
        handle.witness()
    };
    token.node().inspect(|handle, _, _| deadline(handle))
}

fn slots(token: &CancelToken) -> (usize, usize) {
    token
        .node()
        .inspect(|_, children, listeners| (children, listeners))
}

#[test]
fn a_deadline_leaves_the_timer_with_the_last_token() {
    let token = CancelToken::new();
    token.cancel_after(HOUR).unwrap();
    let is_there = witness(&token);
    let (clone, child) = (token.clone(), token.child());
    drop(token);
    assert!(is_there(), "a clone is left");
    drop(clone);
    assert!(is_there(), "a child is left, which the deadline reaches");
    let weak = Arc::downgrade(child.node());
    drop(child);
    assert!(!is_there());
    assert_eq!(weak.strong_count(), 0);
}

#[test]
fn a_deadline_leaves_the_timer_when_the_token_is_cancelled() {
    let token = CancelToken::new();
    let child = token.child();
    token.cancel_after(HOUR).unwrap();
    child.cancel_after(HOUR).unwrap();
    let is_there = [witness(&token), witness(&child)];
    token.cancel();
    assert_eq!(is_there.map(|is_there| is_there()), [false, false]);
    // No entry is added afterwards either.
    child.cancel_after(HOUR).unwrap();
    assert!(child.node().inspect(|deadline, _, _| deadline.is_none()));
    assert_eq!(child.reason(), Some(CancelReason::Requested));
}

#[test]
fn of_several_deadlines_the_earliest_stays() {
    let token = CancelToken::new();
    let now = Instant::now();
    token.cancel_at(now + HOUR).unwrap();
    let first = witness(&token);
    token.cancel_at(now + 2 * HOUR).unwrap();
    assert!(first(), "a later one changes nothing");
    token.cancel_at(now + HOUR / 2).unwrap();
    assert!(!first(), "an earlier one takes its place");
    let second = witness(&token);
    drop(token);
    assert!(!second());
}

#[test]
fn a_later_deadline_starts_the_timer_for_an_inherited_one() {
    let token = CancelToken::new();
    let now = Instant::now();
    token.cancel_at(now + HOUR).unwrap();
    Timer::global().lose_thread();
    token.cancel_at(now + 2 * HOUR).unwrap();
    assert!(Timer::global().has_thread());
}

#[test]
fn children_and_listeners_that_come_and_go_use_the_same_slots() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 100_000 };
    const CHILDREN: usize = if cfg!(miri) { 200 } else { 10_000 };
    let token = CancelToken::new();
    for _ in 0..ROUNDS {
        let (a, b) = (token.child(), token.child());
        let registration = a.on_cancel(|| ());
        drop((a, b, registration));
        drop(token.on_cancel(|| ()));
    }
    assert_eq!(slots(&token), (2, 1));
    let many: Vec<_> = (0..CHILDREN).map(|_| token.child()).collect();
    assert_eq!(slots(&token).0, CHILDREN);
    drop(many);
    assert_eq!(slots(&token).0, 0, "the memory has been given back");
    assert_eq!(Arc::strong_count(token.node()), 1);
    assert_eq!(Arc::weak_count(token.node()), 0);
}

#[derive(Default)]
struct WatchingTask {
    reasons: Mutex<Vec<CancelReason>>,
}

impl OnCancel for WatchingTask {
    fn on_cancel(self: Arc<Self>, reason: CancelReason, _: &mut TaskBatch) {
        self.reasons.lock().unwrap().push(reason);
    }
}

#[test]
fn a_task_that_watches_is_called_once() {
    let weak = |task: &Arc<WatchingTask>| -> Weak<dyn OnCancel> {
        let task: Weak<WatchingTask> = Arc::downgrade(task);
        task
    };
    let token = CancelToken::new();
    let tasks: [Arc<WatchingTask>; 3] = Default::default();
    let [stays, leaves, dies] = &tasks;
    let stays_watching = token.watch(weak(stays)).unwrap();
    let leaving = token.watch(weak(leaves)).unwrap();
    let _dying = token.watch(weak(dies)).unwrap();
    assert_eq!(Arc::strong_count(stays), 1, "a watch keeps no task alive");
    assert!(token.unwatch(leaving));
    let again = token.watch(weak(leaves)).unwrap();
    assert!(token.unwatch(again));
    let (stays, leaves) = (stays.clone(), leaves.clone());
    drop(tasks);
    token.cancel_after(Duration::ZERO).unwrap();
    assert_eq!(*stays.reasons.lock().unwrap(), [CancelReason::Deadline]);
    assert!(leaves.reasons.lock().unwrap().is_empty());
    assert!(!token.unwatch(stays_watching), "it was called");
    assert_eq!(
        token.watch(weak(&leaves)).unwrap_err(),
        CancelReason::Deadline
    );
    assert!(leaves.reasons.lock().unwrap().is_empty());
}

#[test]
fn a_node_that_is_dropped_drops_what_was_left_to_it() {
    struct Bomb(Arc<AtomicUsize>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("a drop that panics"));
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let token = CancelToken::new();
    for _ in 0..3 {
        let bomb = Bomb(drops.clone());
        token.on_cancel(move || drop(bomb)).detach();
    }
    drop(token.child());
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(token);
    assert_eq!(drops.load(Ordering::SeqCst), 3);
}
