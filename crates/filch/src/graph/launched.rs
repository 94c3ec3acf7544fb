//! The state of a launched run, which its handle and the worker that ends it share.

use super::{
    control::RunControl,
    error::{RunError, RunOutcome},
    options::CancelRegistration,
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
    state: Mutex<LaunchState>,
}

#[derive(Default)]
pub(super) struct LaunchState {
    pub(super) result: Option<RunResult>,
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
    ) -> Arc<Self> {
        Arc::new(Self {
            control,
            _registration: registration,
            done: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LaunchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_done(&self) -> bool {
        // Acquire: pairs with the release in `finish`.
        self.done.load(Ordering::Acquire)
    }

    pub(super) fn finish(self: &Arc<Self>, outcome: RunOutcome) {
        let result = outcome.into_result();
        let mut state = self.call_callbacks(self.lock(), &result);
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
        let Some(Err(error)) = state.result.take() else {
            return;
        };
        for panic in error.into_panics() {
            match state.seen_by_callback {
                true => unwind::discard(panic.into_payload()),
                false => self.control.pool().panicked(panic.into_payload()),
            }
        }
    }
}
