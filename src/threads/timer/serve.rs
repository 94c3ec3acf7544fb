//! The threads of the timer: the one that serves, and the one that watches it.
//!
//! Callbacks and wakers are other people's code. They should be short, but one that blocks must not cost everybody
//! else their deadlines. So before the first of them is called there is a second thread, which does nothing but look,
//! a [`GRACE`] after entries are due, whether the one that serves is still in the same callback as a grace ago. Then
//! it takes over: it serves, and a new thread watches. Whoever comes back from a callback and finds that another one
//! serves watches if nobody does, and else ends.
//!
//! A watcher that has nothing to look for sleeps until there is an entry. While entries come due it looks at most once a
//! grace. A process whose deadlines never pass has no second thread.

use super::{State, Timer};
use crate::base::sys::cores;
use std::{
    io,
    sync::{Condvar, MutexGuard, PoisonError},
    thread::Builder,
    time::{Duration, Instant},
};

/// How long a callback may take before another thread takes over, at least; twice as long at most. Long compared with
/// what the system makes a thread wait on a busy machine, where it would be relieved for nothing; short for people.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// How many threads there are at most, those that are stuck in callbacks included. If all are, deadlines wait for the first
/// that comes back.
pub(super) const THREADS: usize = 8;

/// When a thread will look at the queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rest {
    /// Before it sleeps the next time; or there is none.
    Awake,
    /// At this time at the latest. (The watcher: a grace after it.)
    Until(Instant),
    /// When it is woken.
    Forever,
}

impl Rest {
    fn until(at: Option<Instant>) -> Self {
        at.map_or(Self::Forever, Self::Until)
    }

    /// Notes that it has to look at `at`. True when the thread has to be woken for that.
    pub(super) fn shorten(&mut self, at: Instant) -> bool {
        let sooner = match *self {
            Self::Awake => false,
            Self::Until(time) => at < time,
            Self::Forever => true,
        };
        if sooner {
            *self = Self::Until(at);
        }
        sooner
    }
}

/// Who does what.
#[derive(Debug)]
pub(super) struct Service {
    /// The number of the thread that serves. It goes up when another one takes over.
    server: u64,
    /// The callback that the one who serves is in, by its number.
    inside: Option<u64>,
    /// How many callbacks there have been.
    callbacks: u64,
    /// How many threads there are.
    threads: usize,
    has_watcher: bool,
    /// When the watcher will look.
    pub(super) watch: Rest,
}

impl Service {
    pub(super) const fn new() -> Self {
        Self {
            server: 0,
            inside: None,
            callbacks: 0,
            threads: 0,
            has_watcher: false,
            watch: Rest::Awake,
        }
    }

    #[cfg(all(test, not(filch_loom)))]
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Keeps others from being hired.
    #[cfg(all(test, not(filch_loom)))]
    pub(super) fn pretend_watched(&mut self) {
        self.has_watcher = true;
    }

    /// There is one thread, which has been started just now.
    pub(super) fn first(before: &Self) -> Self {
        Self {
            server: before.server + 1,
            callbacks: before.callbacks,
            threads: 1,
            ..Self::new()
        }
    }
}

/// Starts the thread of `timer`. The size of its stack is the usual one, since callbacks of users run there.
pub(super) fn start(timer: &'static Timer) -> io::Result<()> {
    spawn(timer, Timer::serve)
}

/// Nobody joins these threads: see the timer's module.
fn spawn(
    timer: &'static Timer,
    role: fn(&'static Timer, MutexGuard<'static, State>) -> MutexGuard<'static, State>,
) -> io::Result<()> {
    let thread = Builder::new().name("filch-timer".into());
    let work = move || {
        cores::as_first_thread();
        timer.work(role);
    };
    thread.spawn(work).map(drop)
}

impl Timer {
    /// What a thread of the timer does, with `role` first.
    fn work(
        &'static self,
        role: fn(&'static Self, MutexGuard<'static, State>) -> MutexGuard<'static, State>,
    ) {
        let mut state = role(self, self.lock());
        // It serves no more. Somebody has to watch the one that does.
        while !state.service.has_watcher {
            state.service.has_watcher = true;
            state = self.watch(state);
        }
        // Not below zero: those that tests leave behind when they play a fork are not counted.
        state.service.threads = state.service.threads.saturating_sub(1);
    }

    /// Calls what is due, until another thread has taken over.
    fn serve(&'static self, mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
        let own = state.service.server;
        loop {
            state.rest = Rest::Awake;
            let now = Instant::now();
            // Those that became due since are found in the next round.
            while let Some(alarm) = state.queue.pop_due(now) {
                self.hire(&mut state);
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
            let next = state.queue.next_at();
            state.rest = Rest::until(next);
            state = rest(state, &self.earlier, next);
        }
    }

    /// Sees to it that somebody watches. Without a second thread it is as it is: callbacks should be short.
    fn hire(&'static self, state: &mut State) {
        let service = &mut state.service;
        if service.has_watcher || service.threads >= THREADS {
            return;
        }
        if spawn(self, Self::watch).is_ok() {
            service.has_watcher = true;
            service.threads += 1;
        }
    }

    /// Watches the one that serves, and takes over when that one is stuck; returns when this thread serves no more.
    fn watch(&'static self, mut state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
        let mut seen: Option<(u64, Instant)> = None;
        loop {
            let now = Instant::now();
            // A grace after this it looks again.
            let base = match (state.service.inside, seen) {
                (None, _) => {
                    seen = None;
                    state.queue.next_at().map(|at| at.max(now))
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
            state.service.watch = Rest::until(base);
            // A time that no clock reaches never comes.
            let until = base.and_then(|base| base.checked_add(GRACE));
            state = rest(state, &self.watched, until);
            state.service.watch = Rest::Awake;
        }
        state.service.server += 1;
        state.service.inside = None;
        state.service.has_watcher = false;
        self.serve(state)
    }
}

/// Waits until it is woken, or until `until`.
fn rest<'a>(
    state: MutexGuard<'a, State>,
    woken: &Condvar,
    until: Option<Instant>,
) -> MutexGuard<'a, State> {
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
