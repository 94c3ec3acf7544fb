//! Running workers poll the clock themselves.
//!
//! When every core has a worker that computes, the thread of the timer has to be scheduled on one
//! of the cores first. The system does so at once most of the time, and else at its next tick,
//! which may be milliseconds away. But busy workers pass between two tasks or reach a checkpoint
//! every few microseconds; so they poll the clock too, and wake the tasks whose deadlines have
//! passed. (So do tokio's workers between two polls.) The thread remains, for when they don't.
//!
//! A poll reads the clock, which takes some 25 ns. So no worker polls while there is no entry: that
//! is one word, which is written when the first entry changes. And while there is one, a worker
//! that polls often reads the clock only occasionally: it counts its calls, and derives the
//! interval from the readings themselves.
//!
//! The word is a hint. A worker that reads an old value tries to wake too early, without effect, or
//! leaves the entry to the thread; which entries are due is decided under the lock.
//!
//! Only [trusted](Timer::trust) wakers are woken this way: those of the pool's own futures, which
//! enqueue a job and do nothing else. Other wakers are user code, which may block, or may need a
//! lock that the interrupted task holds. They are left to the thread, as callbacks are, and so are
//! the entries behind them.

use super::{Alarm, Timer, TimerState, next::NEVER};
use crate::{base::thread, threads::clock_sampler::ClockSampler};
use std::{
    cell::Cell,
    process, ptr,
    sync::{MutexGuard, PoisonError, TryLockError},
    task::RawWakerVTable,
    time::Instant,
};

/// The maximum number of calls between two readings of the clock: if calls follow each other
/// quickly and then slowly, this number of slow ones passes before the clock is read, unless the
/// thread of the timer is sooner.
const MAX_CALLS_BETWEEN_SAMPLES: u32 = 63;

/// The maximum number of entries that are served in one call: they delay the interrupted task.
const MAX_ENTRIES_PER_CALL: usize = 16;

thread_local! {
    /// How often this thread reads the clock within its tasks.
    static SAMPLER: Cell<ClockSampler> =
        const { Cell::new(ClockSampler::new(MAX_CALLS_BETWEEN_SAMPLES)) };

    /// Whether this thread is waking a task from `wake_due`.
    static IN_PASSING: Cell<bool> = const { Cell::new(false) };
}

impl Timer {
    /// Whether the timer has an entry: else there is nothing to poll for.
    #[inline(always)]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.next.nanos.get() != NEVER
    }

    /// Polls the clock, while the timer has an entry. Returns whether an entry seems to be due.
    /// Then the caller should call [`wake_due`](Self::wake_due).
    #[inline(always)]
    pub(crate) fn poll_clock(&self) -> bool {
        let mut sampler = SAMPLER.get();
        let sample = sampler.tick();
        SAMPLER.set(sampler);
        sample && self.sample_clock()
    }

    #[inline(never)]
    fn sample_clock(&self) -> bool {
        let mut sampler = SAMPLER.get();
        let now = self.next.nanos_of(Instant::now());
        sampler.record(now);
        SAMPLER.set(sampler);
        self.is_reached(now)
    }

    /// Whether an entry seems to be due. Reads the clock at every call.
    pub(crate) fn is_due(&self) -> bool {
        self.is_waited_for() && self.is_reached(self.next.nanos_of(Instant::now()))
    }

    fn is_reached(&self, now: u64) -> bool {
        // In a rehearsal the only clock is that of the director.
        now >= self.next.nanos.get() && !thread::is_directed()
    }

    /// Wakes the tasks whose deadlines have passed, on this thread, up to the first waker that it
    /// does not trust. If another thread has the lock, that thread will wake them, or the next one
    /// that polls.
    #[cold]
    pub(crate) fn wake_due(&self) {
        let now = Instant::now();
        for _ in 0..MAX_ENTRIES_PER_CALL {
            let Some(mut state) = self.try_lock() else {
                return;
            };
            // In a child process the entries belong to the parent's pools, until the thread is
            // started.
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

    /// Whether this thread is calling a waker from [`wake_due`](Self::wake_due), nested in an
    /// unrelated task.
    pub(crate) fn is_in_passing() -> bool {
        IN_PASSING.get()
    }

    /// Calls `callback` on the thread of the timer, soon. Returns the callback if there is no
    /// thread.
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

    /// Allows wakers with these functions to be woken within any task: they don't block, and run no
    /// user code when they are woken [in passing](Self::is_in_passing).
    pub(crate) fn trust(&self, wakers: &'static RawWakerVTable) {
        self.next.trusted.get_or_init(|| wakers);
    }

    fn trusts(&self, alarm: &Alarm) -> bool {
        let trusted = self.next.trusted.get();
        matches!((alarm, trusted), (Alarm::Wake(waker), Some(&trusted)) if ptr::eq(waker.vtable(), trusted))
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, TimerState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
