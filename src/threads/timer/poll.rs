//! Workers that are awake look at the clock themselves.
//!
//! When every core has a worker on it that computes, the thread of the timer has to get one of the cores first. The
//! system gives it one at once most of the time, and else at its next tick, which may be milliseconds away. But those who
//! compute come by between two tasks and at checkpoints, every few microseconds; so they look too, and wake whoever's
//! time has come. (So do tokio's workers between two polls.) The thread remains, for when they don't.
//!
//! A look costs a clock, some 25 ns. So there is none while nobody waits for any time: that is one word, which is
//! written when the first entry changes. And while somebody does, a worker that comes by often looks only now and then:
//! it counts, and finds out how often by the clock itself.
//!
//! The word is a hint. Who reads an old one wakes too early in vain, or leaves it to the thread; what is due is decided
//! with the lock.
//!
//! Only [trusted](Timer::trust) wakers are woken so: those of the pool's own futures, which queue a job and do nothing else.
//! The others are anybody's code, which may block, or want what the task has that was interrupted. They are left to the
//! thread, as callbacks are, and so is what comes behind them.

use super::{Alarm, State, Timer};
use crate::{
    base::{sync::Hint, thread},
    threads::clock_sampler::ClockSampler,
};
use std::{
    cell::Cell,
    process, ptr,
    sync::{MutexGuard, OnceLock, PoisonError, TryLockError},
    task::RawWakerVTable,
    time::Instant,
};

/// The most times that somebody who comes by does not look: if those were short and the next ones are long, that is how
/// many of those pass before one does, unless the thread of the timer is sooner.
const MOST: u32 = 63;

/// The most entries that are seen to in one go: a task goes on behind them.
const AT_ONCE: usize = 16;

/// How long an entry that is due is left to the thread before those who come by look at it again, in nanoseconds.
const LEFT_TO_THREAD: u64 = 100_000;

/// Nobody waits for any time.
const NEVER: u64 = u64::MAX;

/// What those need to know who come by: when the first entry is due, and whom they may wake.
pub(super) struct Next {
    /// In nanoseconds since `epoch`, or [`NEVER`].
    nanos: Hint,
    /// Some time in the past.
    epoch: OnceLock<Instant>,
    /// Whose wakers are woken by those who come by.
    trusted: OnceLock<&'static RawWakerVTable>,
}

impl Next {
    pub(super) const fn new() -> Self {
        Self {
            nanos: Hint::new(NEVER),
            epoch: OnceLock::new(),
            trusted: OnceLock::new(),
        }
    }

    /// Says when the first entry is due. Called with the lock held, whenever that may have changed.
    pub(super) fn set(&self, at: Option<Instant>) {
        let nanos = at.map_or(NEVER, |at| self.nanos_of(at));
        // Whoever comes by reads it, so it is not written for nothing.
        if nanos != self.nanos.get() {
            self.nanos.set(nanos);
        }
    }

    /// The first entry is left to the thread, if it is due. Called with the lock held.
    fn leave_if_due(&self, now: Instant) {
        let now = self.nanos_of(now);
        if self.nanos.get() <= now {
            self.nanos
                .set(now.saturating_add(LEFT_TO_THREAD).min(NEVER - 1));
        }
    }

    fn nanos_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(*self.epoch.get_or_init(Instant::now));
        u64::try_from(since.as_nanos()).map_or(NEVER - 1, |nanos| nanos.min(NEVER - 1))
    }
}

thread_local! {
    /// How often this thread looks in the middle of its tasks.
    static SAMPLER: Cell<ClockSampler> = const { Cell::new(ClockSampler::new(MOST)) };

    /// This thread wakes somebody in passing.
    static IN_PASSING: Cell<bool> = const { Cell::new(false) };
}

impl Timer {
    /// Whether anybody waits for a time: else there is nothing to look for.
    #[inline(always)]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.next.nanos.get() != NEVER
    }

    /// A look in passing, if somebody is waiting: whether it seems that a time has come. Then the caller should
    /// [wake](Self::wake_due) those who wait for it.
    #[inline(always)]
    pub(crate) fn poll_clock(&self) -> bool {
        let mut sampler = SAMPLER.get();
        let look = sampler.tick();
        SAMPLER.set(sampler);
        look && self.look()
    }

    #[inline(never)]
    fn look(&self) -> bool {
        let mut sampler = SAMPLER.get();
        let now = self.next.nanos_of(Instant::now());
        sampler.record(now);
        SAMPLER.set(sampler);
        self.has_come(now)
    }

    /// Whether it seems, without waiting for a turn, that somebody's time has come.
    pub(crate) fn is_due(&self) -> bool {
        self.is_waited_for() && self.has_come(self.next.nanos_of(Instant::now()))
    }

    fn has_come(&self, now: u64) -> bool {
        // In a rehearsal the only clock is that of the director.
        now >= self.next.nanos.get() && !thread::is_directed()
    }

    /// Wakes those whose time has come, on this thread, up to the first that it does not trust. If somebody else has the lock, that one
    /// will see to them, or whoever looks next.
    #[cold]
    pub(crate) fn wake_due(&self) {
        let now = Instant::now();
        for _ in 0..AT_ONCE {
            let Some(mut state) = self.try_lock() else {
                return;
            };
            // In a child process they are those of the parent's pools, until the thread is there.
            let here = state.process == Some(process::id());
            let trusted = |alarm: &Alarm| here && self.trusts(alarm);
            let Some(alarm) = state.queue.pop_due_if(now, trusted) else {
                return self.next.leave_if_due(now);
            };
            self.next.set(state.queue.next_at());
            drop(state);
            IN_PASSING.set(true);
            alarm.ring();
            IN_PASSING.set(false);
        }
    }

    /// Whether this is a waker that somebody wakes in passing, in the middle of a task that has nothing to do with it.
    pub(crate) fn is_in_passing() -> bool {
        IN_PASSING.get()
    }

    /// Calls `callback` on the thread of the timer, soon. It comes back if there is none.
    pub(crate) fn soon(
        &'static self,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<(), impl FnOnce()> {
        if self.ensure_thread().is_err() {
            return Err(callback);
        }
        // The thread stays.
        let _ticket = self.insert_with(Instant::now(), Alarm::Call(Box::new(callback)), |_| Ok(()));
        Ok(())
    }

    /// From now on wakers with these functions may be woken in the middle of anything: they don't block, and run nobody's code
    /// when they are woken [in passing](Self::is_in_passing).
    pub(crate) fn trust(&self, wakers: &'static RawWakerVTable) {
        self.next.trusted.get_or_init(|| wakers);
    }

    fn trusts(&self, alarm: &Alarm) -> bool {
        let trusted = self.next.trusted.get();
        matches!((alarm, trusted), (Alarm::Wake(waker), Some(&trusted)) if ptr::eq(waker.vtable(), trusted))
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
