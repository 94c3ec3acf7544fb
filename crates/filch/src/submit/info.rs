//! The metadata of a task.

use super::{
    TaskId,
    cell::{After, Followers, Ref},
    run,
};
use crate::{
    base::sync::{AtomicU64, Ordering},
    cancel::{CancelReason, CancelToken, OnCancel, Watch},
    pool::task::StackPosition,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The metadata of a task that is known from its creation, and does not change.
pub(super) struct TaskMeta {
    pub(super) id: TaskId,
    /// The number of its pool.
    pub(super) pool: u32,
    /// The worker that should run it, or [`ANY_WORKER`].
    worker: u16,
    flags: u8,
    /// While it is queued, the time at which it was queued, if latencies are measured; then its
    /// position on the stack that it runs on.
    clock: AtomicU64,
    extras: OnceLock<Arc<Extras>>,
}

const ANY_WORKER: u16 = u16::MAX;
/// It was submitted in an isolated task, and runs isolated.
pub(super) const ISOLATED: u8 = 1;
/// Its pool has no threads: the polling thread runs it.
pub(super) const NO_THREADS: u8 = 2;
/// While it is queued it takes one unit of its pool's capacity.
pub(super) const COUNTED: u8 = 4;

/// The metadata that few tasks have.
#[derive(Default)]
pub(super) struct Extras {
    pub(super) name: Option<Arc<str>>,
    token: OnceLock<CancelToken>,
    /// While it is queued: the task, for the token to cancel, and its registration in the token's
    /// list.
    queued: Mutex<(Option<Ref>, Option<Watch>)>,
    /// The tasks that wait for this one.
    pub(super) followers: Followers,
    /// The tasks that this one waits for.
    after: Option<Box<After>>,
}

/// Distinguishes a position from a time in [`TaskMeta::clock`]: times are smaller.
const BEGUN: u64 = 1 << 63;

impl TaskMeta {
    /// Creates the metadata of a task of the pool with that number, which was queued at `since`.
    #[inline]
    pub(super) fn new(pool: u32, since: u64) -> Self {
        Self {
            id: TaskId::next(),
            pool,
            worker: ANY_WORKER,
            flags: 0,
            clock: AtomicU64::new(since & !BEGUN),
            extras: OnceLock::new(),
        }
    }

    /// Sets the worker, and some of the flags [`ISOLATED`], [`NO_THREADS`] and [`COUNTED`].
    #[inline]
    pub(super) fn for_worker(mut self, worker: Option<u16>, flags: [(u8, bool); 3]) -> Self {
        self.worker = worker.unwrap_or(ANY_WORKER);
        for (flag, set) in flags {
            self.flags |= if set { flag } else { 0 };
        }
        self
    }

    /// Returns the worker that should run it.
    #[inline]
    pub(super) fn worker(&self) -> Option<usize> {
        (self.worker != ANY_WORKER).then_some(self.worker.into())
    }

    #[inline]
    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Records that the task runs on this thread from now on. Returns when it was queued.
    #[inline]
    pub(super) fn start_here(&self) -> u64 {
        // Relaxed: written before the task was queued, and read by this thread itself in `is_here`.
        let since = self.clock.load(Ordering::Relaxed);
        let position = StackPosition::of_next_task().bits();
        // Relaxed: other threads read it in `position`.
        self.clock.store(position | BEGUN, Ordering::Relaxed);
        since
    }

    /// Whether it runs on this thread, if it runs.
    pub(super) fn is_here(&self) -> bool {
        self.position()
            .is_some_and(|position| position.is_on_thread_of(StackPosition::current()))
    }

    /// Returns where it runs, if it has started; or where it ran.
    pub(super) fn position(&self) -> Option<StackPosition> {
        // Relaxed: this thread sees what it wrote itself. What another thread wrote matters only to
        // the check for cyclic waits, and then a wait of that thread, listed after this was
        // written, hands it over (`pool/waits/waits.md`).
        let clock = self.clock.load(Ordering::Relaxed);
        (clock & BEGUN != 0).then(|| StackPosition::from_bits(clock & !BEGUN))
    }

    /// Adds the rare metadata, before the task is queued.
    pub(super) fn add(&self, extras: Arc<Extras>) {
        let added = self.extras.set(extras);
        debug_assert!(added.is_ok(), "once, before it is queued");
    }

    pub(super) fn extras(&self) -> Option<&Arc<Extras>> {
        self.extras.get()
    }

    /// Returns the rare metadata, which is created if there is none.
    pub(super) fn extras_or_new(&self) -> &Arc<Extras> {
        self.extras.get_or_init(Arc::default)
    }

    /// Returns the predecessors of the task, if it was submitted with some.
    pub(super) fn after(&self) -> Option<&After> {
        self.extras.get()?.after.as_deref()
    }

    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.extras.get()?.name.as_ref()
    }

    pub(super) fn token(&self) -> Option<&CancelToken> {
        self.extras.get()?.token.get()
    }

    /// Returns the token, which is created if there is none, and whether it is new.
    pub(super) fn token_or_new(&self) -> (&CancelToken, bool) {
        let mut made = false;
        let extras = self.extras_or_new();
        let token = extras.token.get_or_init(|| {
            made = true;
            CancelToken::new()
        });
        (token, made)
    }
}

impl Extras {
    pub(super) fn new(
        name: Option<Arc<str>>,
        token: Option<CancelToken>,
        after: Option<Box<After>>,
    ) -> Self {
        let extras = Self {
            name,
            after,
            ..Self::default()
        };
        if let Some(token) = token {
            let _ = extras.token.set(token);
        }
        extras
    }

    fn queued(&self) -> MutexGuard<'_, (Option<Ref>, Option<Watch>)> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers `cell` with its token, which cancels it as long as it is queued. Returns the
    /// reason if the token is cancelled already.
    pub(super) fn watch_for(self: &Arc<Self>, cell: Ref) -> Option<CancelReason> {
        let token = self.token.get()?;
        self.queued().0 = Some(cell);
        let weak = Arc::downgrade(self);
        match token.watch(weak) {
            Ok(watch) => {
                self.queued().1 = Some(watch);
                None
            }
            Err(reason) => Some(reason),
        }
    }

    /// Unregisters the task, which is not queued any more, from its token, and drops its
    /// predecessors.
    pub(super) fn unwatch(&self) {
        if let Some(after) = &self.after {
            after.forget();
        }
        let (cell, watch) = std::mem::take(&mut *self.queued());
        if let (Some(watch), Some(token)) = (watch, self.token.get()) {
            token.unwatch(watch);
        }
        // Not the last reference: the caller has claimed the task.
        drop(cell);
    }
}

impl OnCancel for Extras {
    fn on_cancel(self: Arc<Self>, reason: CancelReason) {
        let cell = self.queued().0.clone();
        if let Some(cell) = cell {
            run::cancel(&cell, reason.into());
        }
    }
}
