//! What happens when a time has come.

use super::queue::{Queue, Ticket};
use crate::base::{
    canary::{Canary, broken},
    unwind,
};
use std::{
    mem,
    // As in the timer: locks around plain data.
    sync::{Mutex, PoisonError},
    task::Waker,
    time::Instant,
};

/// Deadlines and sleeps, in the order of their times.
pub(crate) type Alarms = Queue<Instant, Alarm>;

/// What one entry does. A sleep is nothing but its waker in the queue, so that it allocates nothing.
pub(crate) enum Alarm {
    Call(Box<dyn FnOnce() + Send>),
    Wake(Waker),
}

impl Alarm {
    /// Does it. A panic goes no further.
    pub(crate) fn ring(self) {
        let rung = unwind::contain(|| match self {
            Self::Call(callback) => callback(),
            Self::Wake(waker) => waker.wake(),
        });
        if let Err(payload) = rung {
            unwind::discard(payload);
        }
    }

    fn wakes(&self, waker: &Waker) -> bool {
        matches!(self, Self::Wake(present) if present.will_wake(waker))
    }
}

/// Sees to it that an entry wakes `waker` and no other. False when it has gone: its time has come, or it was taken out.
///
/// Cloning and dropping wakers is other people's code, so it happens outside of the lock; and most of the time it is
/// the same waker as before, which needs neither.
pub(crate) fn renew<S: AsMut<Alarms>>(state: &Mutex<S>, ticket: Ticket, waker: &Waker) -> bool {
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    match lock().as_mut().get_mut(ticket) {
        None => return false,
        Some(alarm) if alarm.wakes(waker) || broken(Canary::SleepRenew) => return true,
        Some(_) => {}
    }
    let mut alarm = Alarm::Wake(waker.clone());
    let there = match lock().as_mut().get_mut(ticket) {
        None => false,
        Some(present) => {
            mem::swap(present, &mut alarm);
            true
        }
    };
    unwind::discard(alarm);
    there
}
