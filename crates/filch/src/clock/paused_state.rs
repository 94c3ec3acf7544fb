//! The state of a paused clock.

use crate::{
    base::Instant,
    base::canary::{Canary, broken},
    threads::timer::{Alarm, Alarms, HasAlarms, TimerKey, renew},
};
use std::{
    fmt,
    // Not through the switch to loom's types: a lock around plain data.
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

/// The state that the handles of a paused clock share.
pub(super) struct Paused {
    start: Instant,
    /// Whether it advances when a pool would have to wait.
    auto: bool,
    state: Mutex<PausedState>,
}

struct PausedState {
    /// Never goes back.
    now: Instant,
    /// Entries with times after `now`, except for those that are about to fire.
    queue: Alarms,
}

impl HasAlarms for PausedState {
    fn alarm_mut(&mut self, key: TimerKey) -> Option<&mut Alarm> {
        self.queue.get_mut(key)
    }
}

impl Paused {
    pub(super) fn new(auto: bool) -> Self {
        let start = Instant::now();
        Self {
            start,
            auto,
            state: Mutex::new(PausedState {
                now: start,
                queue: Alarms::new(),
            }),
        }
    }

    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// The number of entries.
    pub(super) fn pending(&self) -> usize {
        self.lock().queue.len()
    }

    /// The time to the next entry.
    pub(super) fn next(&self) -> Option<Duration> {
        let state = self.lock();
        let next = state.queue.next_at()?;
        Some(next.saturating_duration_since(state.now))
    }

    pub(super) fn now(&self) -> Instant {
        self.lock().now
    }

    /// Adds an entry, unless its time has come: it would never fire.
    pub(super) fn wake_at(&self, at: Instant, waker: Waker) -> Result<TimerKey, Waker> {
        let mut state = self.lock();
        match at > state.now {
            true => Ok(state.queue.insert(at, Alarm::Wake(waker))),
            false => Err(waker),
        }
    }

    pub(super) fn renew(&self, key: TimerKey, waker: &Waker) -> bool {
        renew(&self.state, key, waker)
    }

    pub(super) fn remove(&self, key: TimerKey) -> Option<Alarm> {
        self.lock().queue.remove(key)
    }

    pub(super) fn is_auto(&self) -> bool {
        self.auto
    }

    #[track_caller]
    pub(super) fn advance(&self, time: Duration, mut run: impl FnMut()) {
        let Some(end) = self.lock().now.checked_add(time) else {
            panic!("the clock cannot count that far; advance it by less than {time:?}");
        };
        while self.step(end) {
            run();
        }
        let mut state = self.lock();
        state.now = state.now.max(end);
    }

    pub(super) fn advance_to_next(&self) -> bool {
        let next = self.lock().queue.next_at();
        next.is_some_and(|next| self.step(next))
    }

    /// Advances to the first time that a future waits for, if that is not after `end`, and fires
    /// all entries of that time. Returns false if there is none.
    fn step(&self, end: Instant) -> bool {
        let mut state = self.lock();
        let Some(next) = state.queue.next_at().filter(|next| *next <= end) else {
            return false;
        };
        state.now = state.now.max(next);
        let due = if broken(Canary::SleepEarly) {
            end
        } else {
            next
        };
        while let Some(alarm) = state.queue.pop_due(due) {
            drop(state);
            alarm.ring();
            state = self.lock();
            if broken(Canary::ClockForgets) && state.queue.next_at() == Some(next) {
                drop(state.queue.pop_due(due));
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, PausedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("PausedClock")
            .field("elapsed", &(state.now - self.start))
            .field("pending", &state.queue.len())
            .field("auto", &self.auto)
            .finish()
    }
}
