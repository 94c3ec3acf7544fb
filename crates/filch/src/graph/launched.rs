//! The state of a launched run, which its handle and the worker that ends it share.

use super::{
    control::RunControl,
    error::{RunError, RunOutcome, TaskPanic},
    options::CancelRegistration,
    repeat::Repeat,
    report::RunReport,
};
use crate::base::{
    sync::{AtomicBool, Ordering},
    unwind,
};
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

type RunResult = Result<RunReport, RunError>;
type Callback = Box<dyn FnOnce(&RunResult) + Send>;

/// A run that was launched.
pub(super) struct Launched {
    pub(super) control: Arc<RunControl>,
    /// Unregisters from the token when it is dropped.
    _registration: Option<CancelRegistration>,
    done: AtomicBool,
    /// It needs no run of its plan any more. Set before the next run of the plan begins.
    over: AtomicBool,
    state: Mutex<LaunchState>,
}

#[derive(Default)]
pub(super) struct LaunchState {
    pub(super) result: Option<RunResult>,
    /// Whether the plan is run again.
    pub(super) repeat: Repeat,
    /// How many tasks have run in the runs before the current one.
    pub(super) ran_before: u64,
    /// Whether the handle has cancelled it before the result was decided.
    cancelled: bool,
    /// Whether the result is decided: nothing can cancel it any more.
    decided: bool,
    /// Whether a callback has seen the result.
    seen_by_callback: bool,
    /// Whether callbacks are being called; the thread that calls them has the result.
    pub(super) in_callbacks: bool,
    pub(super) callbacks: Vec<Callback>,
    pub(super) waker: Option<Waker>,
}

impl Launched {
    pub(super) fn new(
        control: Arc<RunControl>,
        registration: Option<CancelRegistration>,
        repeat: Repeat,
    ) -> Arc<Self> {
        let state = LaunchState {
            repeat,
            ..LaunchState::default()
        };
        Arc::new(Self {
            control,
            _registration: registration,
            done: AtomicBool::new(false),
            over: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Stops the run, unless its result is decided. Returns whether it came in time: then the run
    /// ends with an error.
    pub(super) fn cancel(&self) -> bool {
        let mut state = self.lock();
        if state.decided {
            return false;
        }
        state.cancelled = true;
        drop(state);
        self.control.stop();
        true
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LaunchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_done(&self) -> bool {
        // Acquire: pairs with the release in `finish`.
        self.done.load(Ordering::Acquire)
    }

    /// Records that it needs no run of its plan any more.
    pub(super) fn set_over(&self) {
        // Release: pairs with the acquire in `needs_plan`.
        self.over.store(true, Ordering::Release);
    }

    /// Whether it waits for the current run of its plan, which is its own or an earlier one.
    pub(super) fn needs_plan(&self) -> bool {
        // Acquire: pairs with the release in `set_over`. A task of a later run sees it, because
        // that run begins afterwards.
        !self.over.load(Ordering::Acquire)
    }

    /// Decides whether to run the plan again, after a run with this outcome, or for the first time.
    /// Returns the outcome of all runs if not.
    pub(super) fn after_run(&self, last: Option<RunOutcome>) -> Option<RunOutcome> {
        let mut state = self.lock();
        let mut outcome = last.unwrap_or_default();
        outcome.ran += mem::take(&mut state.ran_before);
        if outcome.has_failed() || outcome.incomplete {
            return Some(outcome);
        }
        // Taken out, because user code is not called under the lock.
        let mut repeat = mem::take(&mut state.repeat);
        drop(state);
        let asked = unwind::contain(|| repeat.take_run());
        match asked {
            Ok(false) => {
                self.contain(|| drop(repeat));
                Some(outcome)
            }
            Ok(true) => {
                let mut state = self.lock();
                (state.repeat, state.ran_before) = (repeat, outcome.ran);
                None
            }
            Err(payload) => {
                self.contain(|| drop(repeat));
                let task = "run_until".to_owned();
                outcome.panics.push(TaskPanic { task, payload });
                Some(outcome)
            }
        }
    }

    pub(super) fn finish(self: &Arc<Self>, outcome: RunOutcome) {
        let mut state = self.lock();
        state.decided = true;
        let mut outcome = outcome;
        // Also if no task was left to be skipped: a task may have ended early because of it.
        outcome.incomplete |= state.cancelled;
        let result = outcome.into_result();
        let mut state = self.call_callbacks(state, &result);
        state.result = Some(result);
        // Release: pairs with the acquire in `is_done`.
        self.done.store(true, Ordering::Release);
        let waker = state.waker.take();
        drop(state);
        self.control.wake_joiners(|_| true);
        if let Some(waker) = waker {
            self.contain(|| waker.wake());
        }
    }

    /// Calls the callbacks, without the lock. More may be added while they run.
    pub(super) fn call_callbacks<'a>(
        &'a self,
        mut state: MutexGuard<'a, LaunchState>,
        result: &RunResult,
    ) -> MutexGuard<'a, LaunchState> {
        while !state.callbacks.is_empty() {
            let callbacks = mem::take(&mut state.callbacks);
            (state.seen_by_callback, state.in_callbacks) = (true, true);
            drop(state);
            for callback in callbacks {
                self.contain(|| callback(result));
            }
            state = self.lock();
        }
        state.in_callbacks = false;
        state
    }

    /// Calls user code, and reports its panic.
    pub(super) fn contain(&self, f: impl FnOnce()) {
        if let Err(payload) = unwind::contain(f) {
            self.control.pool().panicked(payload);
        }
    }
}

/// Panics that no caller has received are reported like those of spawned tasks. Each payload is
/// handled on its own, since its destructor is user code.
impl Drop for Launched {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        unwind::discard(mem::take(&mut state.repeat));
        let Some(Err(mut error)) = state.result.take() else {
            return;
        };
        error.take_failures().into_iter().for_each(unwind::discard);
        for panic in error.into_panics() {
            match state.seen_by_callback {
                true => unwind::discard(panic.into_payload()),
                false => self.control.pool().panicked(panic.into_payload()),
            }
        }
    }
}
