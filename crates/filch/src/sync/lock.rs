//! What the locks of this module have in common: their numbers in the list of waits, and how a
//! thread waits for one.

use crate::{
    base::{
        sync::{Hint, hint},
        thread,
    },
    pool::{
        context::WorkerContext,
        isolation::{self, Isolation},
        waits::{EventId, EventKind, OnCycle, WaitList, Waiting},
    },
};
use std::sync::{LockResult, Mutex as StdMutex, PoisonError, TryLockError, TryLockResult};

/// How often a thread tries to get a lock before it sleeps: some microseconds.
const TRIES_BEFORE_SLEEP: u32 = 32;

/// The number of a lock, which no other lock has; zero as long as it has none.
#[derive(Debug)]
pub(super) struct LockNumber(Hint);

impl Default for LockNumber {
    fn default() -> Self {
        Self::new()
    }
}

impl LockNumber {
    pub(super) const fn new() -> Self {
        Self(Hint::new(0))
    }

    #[inline]
    fn get(&self) -> u64 {
        match self.0.get() {
            0 => self.assign(),
            number => number,
        }
    }

    #[cold]
    fn assign(&self) -> u64 {
        static LAST: StdMutex<u64> = StdMutex::new(0);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.get() == 0 {
            *last += 1;
            self.0.set(*last);
        }
        self.0.get()
    }

    /// The release of the lock.
    #[inline]
    pub(super) fn release(&self, kind: EventKind) -> EventId {
        EventId::release_of(self.get(), kind)
    }

    /// Isolates the waits of this thread, which has just got the lock.
    #[inline]
    pub(super) fn isolate(&self, kind: EventKind) -> Isolation {
        Isolation::begin(Some(self.release(kind)))
    }
}

/// Called before the guard that holds this isolation releases its lock.
#[inline]
pub(super) fn before_release(isolation: &Isolation) {
    if let Some(lock) = isolation.before_release() {
        WaitList::global().release_early(lock);
    }
}

/// Waits until this thread has the lock, which another thread holds. `lock` blocks.
///
/// A lock for reading that this thread shares already is free, except for a writer that waits. So
/// if the tries fail the thread would wait for itself.
#[cold]
pub(super) fn wait_for<G>(
    release: EventId,
    try_lock: impl Fn() -> TryLockResult<G>,
    lock: impl FnOnce() -> LockResult<G>,
) -> LockResult<G> {
    assert!(
        !release.parts().any(isolation::holds),
        "this thread has locked it already, so it would wait for itself; drop the first guard before"
    );
    // Wakes sleepers for the tasks that this worker has queued without a notification.
    WorkerContext::with(|context| {
        context
            .into_iter()
            .for_each(|context| context.notify_deferred());
    });
    let try_again = || match try_lock() {
        Ok(guard) => Some(Ok(guard)),
        Err(TryLockError::Poisoned(poisoned)) => Some(Err(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    };
    for _ in 0..thread::spin_limit(TRIES_BEFORE_SLEEP) {
        (0..8).for_each(|_| hint::spin_loop());
        if let Some(locked) = try_again() {
            return locked;
        }
    }
    assert!(
        !isolation::holds(release.shared()),
        "this thread has locked it for reading already, and a writer waits, so it would wait for \
         itself; drop the first guard before"
    );
    let waiting = Waiting::new(WaitList::global());
    // A panic in a destructor that runs while the thread unwinds would end the process.
    let on_cycle = match std::thread::panicking() {
        true => OnCycle::Stay,
        false => OnCycle::Panic,
    };
    if !waiting.list_event(release, on_cycle)
        && let Some(cycle) = waiting.finish()
    {
        panic!(
            "this lock would never be free: {cycle}; do not hold it while you wait for the other"
        );
    }
    loop {
        if !thread::wait_until(None, || try_again().is_some()) {
            return lock();
        }
        if let Some(locked) = try_again() {
            return locked;
        }
    }
}

/// Applies `f` to the guard in a result.
#[inline]
pub(super) fn map_lock<A, B>(result: LockResult<A>, f: impl FnOnce(A) -> B) -> LockResult<B> {
    match result {
        Ok(guard) => Ok(f(guard)),
        Err(poisoned) => Err(PoisonError::new(f(poisoned.into_inner()))),
    }
}

/// Applies `f` to the guard in a result.
#[inline]
pub(super) fn map_try_lock<A, B>(
    result: TryLockResult<A>,
    f: impl FnOnce(A) -> B,
) -> TryLockResult<B> {
    match result {
        Ok(guard) => Ok(f(guard)),
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        Err(TryLockError::Poisoned(poisoned)) => {
            let guard = f(poisoned.into_inner());
            Err(TryLockError::Poisoned(PoisonError::new(guard)))
        }
    }
}
