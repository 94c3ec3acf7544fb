//! The threads of the timer: the server, and the watchdog that monitors it.
//!
//! Callbacks and most wakers are user code. They should be short, but one that blocks must not
//! delay all other deadlines. So before the first of them is called a second thread is started. It
//! only checks, a [`GRACE`] after entries are due, whether the server is still in the same callback
//! as a grace ago. If so, it takes over: it serves, and a new thread becomes the watchdog. A thread
//! that returns from a callback and finds that another one serves becomes the watchdog if there is
//! none, and ends otherwise.
//!
//! A watchdog without entries sleeps until there is one. While entries become due it checks at most
//! once per grace. A process whose deadlines never pass has no second thread.

use super::{Timer, TimerState, poll::InlineBatch, service::NextCheck};
use crate::base::{Instant, host::IS_HOSTED, sys::cores};
use std::{
    io,
    sync::{Condvar, MutexGuard, PoisonError},
    thread::Builder,
    time::Duration,
};

/// How long a callback may take before another thread takes over, at least; twice as long at most.
/// Long compared with the scheduling delays of a busy machine, which would cause needless
/// takeovers; short for people.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// The maximum number of threads, including those that are stuck in callbacks. If all are stuck,
/// deadlines wait for the first one that returns.
pub(super) const THREADS: usize = 8;

/// Starts a thread, which is never joined: see the timer's module.
fn spawn(
    timer: &'static Timer,
    role: fn(&'static Timer, MutexGuard<'static, TimerState>) -> MutexGuard<'static, TimerState>,
) -> io::Result<()> {
    let thread = Builder::new().name("filch-timer".into());
    let work = move || {
        cores::as_first_thread();
        timer.work(role);
    };
    thread.spawn(work).map(drop)
}

impl Timer {
    /// Starts the thread. Its stack has the default size, since user callbacks run there.
    pub(super) fn start(&'static self) -> io::Result<()> {
        if IS_HOSTED {
            return Self::start_hosted();
        }
        spawn(self, Self::serve)
    }

    /// Runs a thread of the timer, with `role` first.
    fn work(
        &'static self,
        role: fn(&'static Self, MutexGuard<'static, TimerState>) -> MutexGuard<'static, TimerState>,
    ) {
        let mut state = role(self, self.lock());
        // This thread serves no more. The new server needs a watchdog.
        while !state.service.has_watchdog {
            state.service.has_watchdog = true;
            state = self.watch(state);
        }
        // Not below zero: threads that tests leave behind when they simulate a fork are not
        // counted.
        state.service.threads = state.service.threads.saturating_sub(1);
    }

    /// Calls the callbacks that are due, until another thread has taken over.
    fn serve(
        &'static self,
        mut state: MutexGuard<'static, TimerState>,
    ) -> MutexGuard<'static, TimerState> {
        let own = state.service.server;
        let mut batch = InlineBatch::new();
        loop {
            state.next_check = NextCheck::Awake;
            let now = self.next.nanos_of(Instant::now());
            // Entries that became due since are found in the next round.
            loop {
                self.fill_batch(&mut state, now, &mut batch);
                if !batch.is_empty() {
                    drop(state);
                    batch.ring();
                    state = self.lock();
                    if state.service.server != own {
                        return state;
                    }
                    continue;
                }
                let Some(alarm) = state.queue.pop_due(now) else {
                    break;
                };
                self.start_watchdog(&mut state);
                self.next.set(state.queue.next_at());
                state.service.callbacks += 1;
                state.service.inside = Some(state.service.callbacks);
                drop(state);
                alarm.ring();
                state = self.lock();
                if state.service.server != own {
                    return state;
                }
                state.service.inside = None;
            }
            let next = self.next.time_of(state.queue.next_at());
            state.next_check = NextCheck::until(next);
            state = sleep_until(state, &self.earlier, next);
        }
    }

    /// Starts a watchdog if there is none. If that fails, the server continues without one:
    /// callbacks should be short.
    fn start_watchdog(&'static self, state: &mut TimerState) {
        let service = &mut state.service;
        if service.has_watchdog || service.threads >= THREADS {
            return;
        }
        if spawn(self, Self::watch).is_ok() {
            service.has_watchdog = true;
            service.threads += 1;
        }
    }

    /// Monitors the server, and takes over when it is stuck. Returns when this thread serves no
    /// more.
    fn watch(
        &'static self,
        mut state: MutexGuard<'static, TimerState>,
    ) -> MutexGuard<'static, TimerState> {
        let mut seen: Option<(u64, Instant)> = None;
        loop {
            let now = Instant::now();
            // It checks again a grace after this.
            let base = match (state.service.inside, seen) {
                (None, _) => {
                    seen = None;
                    let next = self.next.time_of(state.queue.next_at());
                    next.map(|at| at.max(now))
                }
                (Some(callback), Some((same, since))) if callback == same => {
                    if now.duration_since(since) >= GRACE {
                        break;
                    }
                    Some(since)
                }
                (Some(callback), _) => {
                    seen = Some((callback, now));
                    Some(now)
                }
            };
            state.service.watch = NextCheck::until(base);
            // A time that the clock cannot represent is never reached.
            let until = base.and_then(|base| base.checked_add(GRACE));
            state = sleep_until(state, &self.watched, until);
            state.service.watch = NextCheck::Awake;
        }
        state.service.server += 1;
        state.service.inside = None;
        state.service.has_watchdog = false;
        self.serve(state)
    }
}

/// Waits until it is woken, or until `until`.
fn sleep_until<'a>(
    state: MutexGuard<'a, TimerState>,
    woken: &Condvar,
    until: Option<Instant>,
) -> MutexGuard<'a, TimerState> {
    match until {
        None => woken.wait(state).unwrap_or_else(PoisonError::into_inner),
        Some(until) => match until.checked_duration_since(Instant::now()) {
            None => state,
            Some(time) => {
                let woken = woken.wait_timeout(state, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        },
    }
}
