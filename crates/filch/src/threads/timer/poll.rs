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
//! Only wakers that are [safe to wake inline](Timer::allow_inline_wakes) are woken this way: those
//! of the pool's own futures, which enqueue a job and do nothing else. Other wakers are user code,
//! which may block, or may need a lock that the interrupted task holds. They are left to the
//! thread, as callbacks are, and so are the entries behind them.

use super::{Alarm, Timer, TimerState, wheel::NEVER};
use crate::{
    base::{Instant, thread},
    threads::clock_sampler::ClockSampler,
};
use std::{
    cell::Cell,
    ptr,
    sync::{MutexGuard, PoisonError, TryLockError},
    task::{RawWakerVTable, Waker},
};

/// The maximum number of calls between two readings of the clock: if calls follow each other
/// quickly and then slowly, this number of slow ones passes before the clock is read, unless the
/// thread of the timer is sooner.
const MAX_CALLS_BETWEEN_SAMPLES: u32 = 63;

/// The maximum number of entries that are served in one call: they delay the interrupted task.
const MAX_ENTRIES_PER_CALL: usize = 16;

/// The same between two tasks. The lock is held meanwhile.
const MAX_ENTRIES_BETWEEN_TASKS: usize = 32;

/// Entries whose wakers are [safe to wake inline](Timer::allow_inline_wakes), removed under one
/// lock. They neither block nor panic, so that none delays those behind it.
pub(super) struct InlineBatch {
    alarms: [Option<Alarm>; MAX_ENTRIES_PER_CALL],
    len: usize,
}

impl InlineBatch {
    pub(super) fn new() -> Self {
        Self {
            alarms: [const { None }; MAX_ENTRIES_PER_CALL],
            len: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, alarm: Alarm) {
        self.alarms[self.len] = Some(alarm);
        self.len += 1;
    }

    /// Calls the wakers, in order, as [in passing](Timer::is_waking_due).
    pub(super) fn ring(&mut self) {
        WAKING_DUE.set(true);
        for alarm in &mut self.alarms[..self.len] {
            alarm.take().into_iter().for_each(Alarm::ring);
        }
        WAKING_DUE.set(false);
        self.len = 0;
    }
}

thread_local! {
    /// How often this thread reads the clock within its tasks.
    static SAMPLER: Cell<ClockSampler> =
        const { Cell::new(ClockSampler::new(MAX_CALLS_BETWEEN_SAMPLES)) };

    /// Whether this thread is calling the wakers of a batch.
    static WAKING_DUE: Cell<bool> = const { Cell::new(false) };
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
        self.next.is_reached(now) && !thread::is_directed()
    }

    /// Wakes the tasks whose deadlines have passed, on this thread, up to the first waker that is
    /// not safe to wake inline. If another thread has the lock, that thread will wake them, or the
    /// next one that polls.
    #[cold]
    pub(crate) fn wake_due(&self) {
        let mut due = InlineBatch::new();
        self.take_safe_inline(MAX_ENTRIES_PER_CALL, |alarm| due.push(alarm));
        due.ring();
    }

    /// [`wake_due`](Self::wake_due) between two tasks: adds the wakers to `ready`, and the caller
    /// calls them.
    pub(crate) fn take_due(&self, ready: &mut Vec<Waker>) {
        self.take_safe_inline(MAX_ENTRIES_BETWEEN_TASKS, |alarm| {
            if let Alarm::Wake(waker) = alarm {
                ready.push(waker);
            }
        });
    }

    /// Removes up to `most` of the first entries that are due and safe to wake inline, unless
    /// another thread has the lock.
    fn take_safe_inline(&self, most: usize, take: impl FnMut(Alarm)) {
        let now = self.next.nanos_of(Instant::now());
        let Some(mut state) = self.try_lock() else {
            return;
        };
        // In a child process the entries belong to the parent's pools, until the thread is started.
        let taken = match state.has_thread() {
            true => self.pop_safe_inline(&mut state, now, most, take),
            false => 0,
        };
        if taken < most {
            self.next.leave_if_due(now);
        }
    }

    /// Removes up to `most` of the first entries that are due and safe to wake inline. Returns
    /// their number.
    fn pop_safe_inline(
        &self,
        state: &mut TimerState,
        now: u64,
        most: usize,
        mut take: impl FnMut(Alarm),
    ) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(alarm) = state
                .queue
                .pop_due_if(now, |alarm| self.is_safe_inline(alarm))
        {
            take(alarm);
            taken += 1;
        }
        self.next.set(state.queue.next_at());
        taken
    }

    /// Fills an empty batch with the first entries that are due and safe to wake inline.
    pub(super) fn fill_batch(&self, state: &mut TimerState, now: u64, batch: &mut InlineBatch) {
        self.pop_safe_inline(state, now, MAX_ENTRIES_PER_CALL, |alarm| batch.push(alarm));
    }

    /// Whether this thread is calling wakers inline, nested in an unrelated task or one after the
    /// other.
    pub(crate) fn is_waking_due() -> bool {
        WAKING_DUE.get()
    }

    /// Calls `callback` on the thread of the timer, soon. Returns the callback if there is no
    /// thread.
    pub(crate) fn call_soon(
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
    /// user code when they are woken [in passing](Self::is_waking_due).
    pub(crate) fn allow_inline_wakes(&self, wakers: &'static RawWakerVTable) {
        self.next.inline_wakers.get_or_init(|| wakers);
    }

    fn is_safe_inline(&self, alarm: &Alarm) -> bool {
        match (alarm, self.next.inline_wakers.get()) {
            (Alarm::Wake(waker), Some(&allowed)) => ptr::eq(waker.vtable(), allowed),
            _ => false,
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, TimerState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
