//! What the tasks of a scope share with the thread that waits for them.
#![expect(
    unsafe_code,
    reason = "a scope may be gone when its caller is notified"
)]

use super::outside::OutsideSignal;
use crate::{
    base::{
        sync::{AtomicBool, Ordering},
        unwind::{self, Payload},
    },
    pool::{
        Inner,
        active_jobs::JobGroup,
        context::WorkerContext,
        job::Job,
        job_limit::JobLimit,
        list::JobList,
        pending::Pending,
        pending_group::{FirstPanic, NO_OWNER, PendingGroup},
        waits::{EventId, EventKind},
    },
};
use std::sync::{Arc, OnceLock};

/// What the tasks of a scope share. It is in the frame of the call that waits for them.
pub(super) struct ScopeState {
    pub(super) pool: *const Inner,
    /// The worker that waits; [`NO_OWNER`] if the caller is not a worker of the pool.
    pub(super) owner: usize,
    /// The tasks run isolated, on any worker.
    pub(super) isolated: bool,
    /// The tasks are not isolated, and there is no limit.
    is_plain: AtomicBool,
    pub(super) pending: Pending,
    pub(super) panic: FirstPanic,
    extras: ScopeExtras,
}

/// What most scopes do not need.
struct ScopeExtras {
    /// Whether a part of it may be used.
    are_used: AtomicBool,
    /// The signal that the caller waits for, if it is not a worker of the pool.
    outside_signal: Option<Arc<OutsideSignal>>,
    /// Tasks of [`Scope::spawn_fifo`](super::Scope::spawn_fifo), and those from threads that are
    /// not workers of the pool, in order. For each of them the pool's queues contain a
    /// *placeholder* job: the worker that takes it runs the oldest task of this list, if the owner
    /// has not done so while it waited. A placeholder may outlive the scope, so it shares the list.
    list: OnceLock<Arc<JobList>>,
    /// The limit of [`Scope::at_most`](super::Scope::at_most).
    limit: OnceLock<JobLimit>,
}

impl ScopeExtras {
    #[inline(always)]
    fn new(outside_signal: Option<Arc<OutsideSignal>>) -> Self {
        Self {
            are_used: AtomicBool::new(outside_signal.is_some()),
            outside_signal,
            list: OnceLock::new(),
            limit: OnceLock::new(),
        }
    }

    /// Records that a part is used, before it is.
    fn record_use(&self) {
        // Relaxed: the call that this belongs to borrows the scope, so it happens before its end.
        self.are_used.store(true, Ordering::Relaxed);
    }
}

impl ScopeState {
    /// The state of a scope whose tasks the worker `owner` waits for, on its thread.
    #[inline(always)]
    pub(super) fn new(pool: &Inner, owner: usize, isolated: bool) -> Self {
        Self {
            pool,
            owner,
            isolated,
            is_plain: AtomicBool::new(!isolated),
            pending: Pending::new(),
            panic: FirstPanic::default(),
            extras: ScopeExtras::new(None),
        }
    }

    /// The state of a scope whose caller is not a worker of `pool`, and waits for `signal`.
    pub(super) fn with_outside_caller(pool: &Inner, signal: Arc<OutsideSignal>) -> Self {
        Self {
            pool,
            owner: NO_OWNER,
            isolated: false,
            is_plain: AtomicBool::new(true),
            pending: Pending::for_outside_caller(),
            panic: FirstPanic::default(),
            extras: ScopeExtras::new(Some(signal)),
        }
    }

    /// Sets the limit of the tasks that run at the same time. Returns false if there is one.
    pub(super) fn set_limit(&self, limit: JobLimit) -> bool {
        self.extras.record_use();
        let is_set = self.extras.limit.set(limit).is_ok();
        // Release: pairs with the acquire in `is_plain`, after which `limit` is read.
        self.is_plain.store(false, Ordering::Release);
        is_set
    }

    /// The limit of the tasks that run at the same time, if there is one.
    pub(super) fn limit(&self) -> Option<&JobLimit> {
        self.extras.limit.get()
    }

    /// The list of tasks that are in no queue of a worker.
    pub(super) fn list(&self) -> &Arc<JobList> {
        self.extras.record_use();
        self.extras.list.get_or_init(Arc::default)
    }

    /// Whether the tasks are neither isolated nor limited.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        // Acquire: pairs with the release in `set_limit`.
        self.is_plain.load(Ordering::Acquire)
    }

    /// Counts one more pending task.
    #[inline(always)]
    pub(super) fn add(&self, context: Option<&WorkerContext<'_, '_>>) {
        match context {
            Some(context) => {
                self.add_job(context);
            }
            None => self.pending.add_by_other(),
        }
    }

    /// Notifies the caller of a scope without an owner that the last task is done.
    ///
    /// # Safety
    /// The caller of the scope has not been notified. It waits only for this signal, so `this` is
    /// alive when the call begins.
    #[cold]
    pub(super) unsafe fn notify_caller(this: *const Self) {
        // SAFETY: the caller of the scope waits for the signal, so the scope is still there.
        let signal = &unsafe { &*this }.extras.outside_signal;
        // A clone, because the scope's own reference is gone when the caller has seen the signal.
        if let Some(signal) = signal.clone() {
            signal.count_down();
        }
    }

    /// Returns the result of the scope, or resumes the first panic. All tasks are done.
    #[inline(always)]
    pub(super) fn end<R>(&self, pool: &Inner, result: Result<R, Payload>) -> R {
        match result {
            Ok(result) if !self.panic.is_set() => result,
            result => self.end_with_panic(pool, result),
        }
    }

    /// Whether there may be something to drop. All tasks are done.
    #[inline(always)]
    pub(super) fn needs_drop(&self) -> bool {
        // Relaxed: as in `record_use`.
        self.extras.are_used.load(Ordering::Relaxed) || self.panic.is_set()
    }

    #[cold]
    #[inline(never)]
    fn end_with_panic<R>(&self, pool: &Inner, result: Result<R, Payload>) -> R {
        match (result, self.panic.take()) {
            (Ok(result), None) => result,
            (Ok(result), Some(payload)) => {
                if let Err(another) = unwind::contain(|| drop(result)) {
                    pool.panicked(another);
                }
                unwind::resume(payload)
            }
            (Err(payload), other) => {
                if let Some(other) = other {
                    pool.panicked(other);
                }
                unwind::resume(payload)
            }
        }
    }
}

impl PendingGroup for ScopeState {
    #[inline]
    fn pending(&self) -> &Pending {
        &self.pending
    }

    #[inline]
    fn pool(&self) -> *const Inner {
        self.pool
    }

    #[inline]
    fn owner(&self) -> usize {
        self.owner
    }

    #[inline(always)]
    fn group(&self) -> JobGroup {
        let end = match &self.extras.outside_signal {
            Some(signal) => signal.end(),
            None => EventId::end_of(&raw const self.pending, EventKind::Scope),
        };
        JobGroup { end, plan_id: 0 }
    }

    fn take_job(&self) -> Option<Job> {
        self.extras.list.get()?.pop()
    }

    fn has_job(&self) -> bool {
        let list = self.extras.list.get();
        list.is_some_and(|list| !list.is_empty())
    }
}
