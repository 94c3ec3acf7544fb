//! The shards of the injector: an inbox for producers and an outbox for workers.

use crate::base::{
    padded::Padded,
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering, hint},
};
use std::{
    collections::VecDeque,
    sync::{PoisonError, TryLockError},
};

/// How many times a worker tries to lock an inbox. A producer holds that lock for some ten
/// nanoseconds.
pub(super) const TRIES: u32 = if cfg!(filch_loom) { 1 } else { 8 };

/// The tasks of some producers. Those in `outbox` are older than those in `inbox`.
pub(super) struct InjectorShard<T> {
    pub(super) inbox: Padded<Inbox<T>>,
    pub(super) outbox: Padded<Outbox<T>>,
}

/// What producers write.
pub(super) struct Inbox<T> {
    pub(super) locked: Mutex<Incoming<T>>,
    /// Tasks ever pushed, modulo 2^64. Written under the lock, read by any thread.
    pub(super) pushed: AtomicUsize,
}

pub(super) struct Incoming<T> {
    pub(super) tasks: VecDeque<T>,
    /// Whether the bit of this shard is set in `Injector::flags`.
    pub(super) flagged: bool,
    /// Whether producers are refused.
    pub(super) closed: bool,
    /// Tasks from producers that `Injector::close` has not counted yet.
    pub(super) entered: usize,
}

/// What workers write.
pub(super) struct Outbox<T> {
    pub(super) locked: Mutex<VecDeque<T>>,
    /// Tasks ever taken, modulo 2^64. Written under the lock, read by any thread.
    pub(super) taken: AtomicUsize,
}

/// Whether to wait for a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LockMode {
    Wait,
    TryOnly,
}

impl<T> InjectorShard<T> {
    pub(super) fn new() -> Self {
        let incoming = Incoming {
            tasks: VecDeque::new(),
            flagged: false,
            closed: false,
            entered: 0,
        };
        Self {
            inbox: Padded::new(Inbox {
                locked: Mutex::new(incoming),
                pushed: AtomicUsize::new(0),
            }),
            outbox: Padded::new(Outbox {
                locked: Mutex::new(VecDeque::new()),
                taken: AtomicUsize::new(0),
            }),
        }
    }

    /// The number of tasks at some recent moment.
    pub(super) fn len(&self) -> usize {
        // Acquire: pairs with the release in `record_taken`. In this order, since a task is pushed
        // before it is taken: the difference is never negative.
        let taken = self.outbox.taken.load(Ordering::Acquire);
        // Acquire: pairs with the release in `publish`.
        self.inbox
            .pushed
            .load(Ordering::Acquire)
            .wrapping_sub(taken)
    }
}

impl<T> Inbox<T> {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Incoming<T>> {
        // As in `LockedQueue::lock`: the lists are consistent even after a panic of the allocator.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Outbox<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        // As in `Inbox::lock`.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks `mutex`. With [`LockMode::TryOnly`] only if it is free at one of `tries` attempts.
pub(super) fn lock<G>(mutex: &Mutex<G>, mode: LockMode, tries: u32) -> Option<MutexGuard<'_, G>> {
    if mode == LockMode::Wait {
        // As in `Inbox::lock`.
        return Some(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }
    for attempt in 1..=tries {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if attempt < tries => hint::spin_loop(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    None
}
