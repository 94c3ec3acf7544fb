//! The actions of timer entries.

use super::queue::{TimerKey, TimerQueue};
use crate::base::{
    Instant,
    canary::{Canary, broken},
    unwind,
};
use std::{
    mem,
    // As in the timer: locks around plain data.
    sync::{Mutex, PoisonError},
    task::Waker,
};

/// The sleeps of a paused clock, in the order of their times.
pub(crate) type Alarms = TimerQueue<Instant, Alarm>;

/// A state with a queue of alarms.
pub(crate) trait HasAlarms {
    /// The alarm of an entry, unless it is gone already.
    fn alarm_mut(&mut self, key: TimerKey) -> Option<&mut Alarm>;
}

/// The action of one entry. A sleep is only its waker in the queue, so that it allocates nothing.
pub(crate) enum Alarm {
    Call(Box<dyn FnOnce() + Send>),
    Wake(Waker),
}

impl Alarm {
    /// Runs the action. Contains its panic.
    pub(crate) fn ring(self) {
        let result = unwind::contain(|| match self {
            Self::Call(callback) => callback(),
            Self::Wake(waker) => waker.wake(),
        });
        if let Err(payload) = result {
            unwind::discard(payload);
        }
    }

    fn wakes(&self, waker: &Waker) -> bool {
        matches!(self, Self::Wake(present) if present.will_wake(waker))
    }
}

/// Makes an entry wake `waker` and no other. Returns false when the entry is gone: it is due, or
/// was removed.
///
/// Cloning and dropping wakers is user code, so it happens outside of the lock; and most of the
/// time it is the same waker as before, which needs neither.
pub(crate) fn renew<S: HasAlarms>(state: &Mutex<S>, key: TimerKey, waker: &Waker) -> bool {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    match lock().alarm_mut(key) {
        None => return false,
        Some(alarm) if alarm.wakes(waker) || broken(Canary::SleepRenew) => return true,
        Some(_) => {}
    }
    let mut alarm = Alarm::Wake(waker.clone());
    let there = match lock().alarm_mut(key) {
        None => false,
        Some(present) => {
            mem::swap(present, &mut alarm);
            true
        }
    };
    unwind::discard(alarm);
    there
}
