//! The futures of graphs: a future misses no wake.

use super::{caught, model};
use filch::{base::canary::Canary, graph::model::FutureState};
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use std::sync::Arc;

/// What a task does: a plain cell, so that loom reports an access that nothing orders.
#[derive(Default)]
struct Data(UnsafeCell<usize>);

// SAFETY: the models order the accesses, which is what loom checks.
#[expect(unsafe_code, reason = "a cell whose accesses loom watches")]
unsafe impl Sync for Data {}

impl Data {
    #[expect(unsafe_code, reason = "loom watches")]
    fn add(&self, n: usize) {
        // SAFETY: as above.
        self.0.with_mut(|data| unsafe { *data += n });
    }

    #[expect(unsafe_code, reason = "loom watches")]
    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|data| unsafe { *data })
    }
}

/// A future that is ready when two events have happened, each of which wakes it.
struct Sleeper {
    nap: FutureState,
    events: AtomicUsize,
    polls: Data,
    done: AtomicUsize,
}

impl Sleeper {
    /// Polls it until it is asleep or done. A queued poll is run by whoever queues it.
    fn go_on(&self) {
        loop {
            self.polls.add(1);
            if self.events.load(Ordering::Acquire) == 2 {
                self.nap.end();
                self.done.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if self.nap.fall_asleep() {
                return;
            }
            self.nap.begin();
        }
    }

    fn event(&self) {
        self.events.fetch_add(1, Ordering::AcqRel);
        if self.nap.wake() {
            self.nap.begin();
            self.go_on();
        }
    }
}

fn future() {
    let sleeper = Arc::new(Sleeper {
        nap: FutureState::polled(),
        events: AtomicUsize::new(0),
        polls: Data::default(),
        done: AtomicUsize::new(0),
    });
    let others = [(); 2].map(|()| {
        let sleeper = sleeper.clone();
        thread::spawn(move || sleeper.event())
    });
    sleeper.go_on();
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(sleeper.done.load(Ordering::Relaxed), 1, "a wake was missed");
    assert!(sleeper.polls.get() <= 3);
}

#[test]
fn a_future_misses_no_wake() {
    model(Some(3), future);
}

#[test]
fn canary_future_that_misses_a_wake() {
    caught(Canary::GraphWake, Some(3), future);
    caught(Canary::GraphWakeAgain, Some(3), future);
}
