//! The demand for substitutes: each call gets one, and a surplus one leaves.

use super::Demand;
use crate::{
    base::canary::Canary,
    loom_tests::{caught, long_run, model},
};
use loom::{
    sync::{Condvar, Mutex},
    thread,
};
// Not loom's: its `Arc` must not be dropped after loom has reported a deadlock.
use std::sync::Arc;

/// A pool whose work is done by substitutes alone.
struct Calls {
    demand: Demand,
    /// The number of substitutes that have joined, and whether the calls have ended.
    state: Mutex<(usize, bool)>,
    progress: Condvar,
}

impl Calls {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            demand: Demand::new(),
            state: Mutex::new((0, false)),
            progress: Condvar::new(),
        })
    }

    /// As `Inner::provide_substitute`, where no more threads can be started.
    fn provide(&self) {
        if self.demand.has_too_few() {
            self.demand.notify();
        }
    }

    /// This number of calls, which last until all have a substitute.
    fn call(&self, calls: usize) {
        (0..calls).for_each(|_| self.demand.begin());
        self.provide();
        let mut state = self.state.lock().unwrap();
        while state.0 < calls {
            state = self.progress.wait(state).unwrap();
        }
        (0..calls).for_each(|_| self.demand.end());
        state.1 = true;
        self.progress.notify_all();
    }

    fn substitute(&self) {
        let work = || {
            self.demand.pass_on(|| self.provide());
            let mut state = self.state.lock().unwrap();
            state.0 += 1;
            self.progress.notify_all();
            while !state.1 {
                assert!(!self.demand.leave(), "there are calls");
                state = self.progress.wait(state).unwrap();
            }
            assert!(self.demand.leave(), "it is surplus");
        };
        self.demand.run_substitute(|| self.demand.join(), work);
    }
}

fn one_call() {
    let calls = Calls::new();
    let substitute = thread::spawn({
        let calls = calls.clone();
        move || calls.substitute()
    });
    calls.call(1);
    calls.demand.close();
    substitute.join().unwrap();
    assert!(!calls.demand.has_too_few());
}

/// Two calls at once, whose notifications are one.
fn two_calls() {
    let calls = Calls::new();
    let substitutes = [(); 2].map(|()| {
        let calls = calls.clone();
        thread::spawn(move || calls.substitute())
    });
    calls.call(2);
    calls.demand.close();
    for substitute in substitutes {
        substitute.join().unwrap();
    }
}

#[test]
fn a_call_gets_a_substitute_which_leaves() {
    model(long_run(3, 5), one_call);
}

#[test]
fn two_calls_get_two_substitutes() {
    model(long_run(1, 2), two_calls);
}

#[test]
fn canary_a_second_call_is_not_passed_on() {
    caught(Canary::SubstitutePassOn, Some(1), two_calls);
}
