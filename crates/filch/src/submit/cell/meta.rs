//! The metadata of a task.
//!
//! The metadata has lists of other tasks, which are references to cells with metadata. So the types
//! of all of these are here.

use crate::{
    base::{
        sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering},
        unwind,
    },
    cancel::{CancelReason, CancelToken, Watch},
    pool::current_task::StackPosition,
    submit::{FailedTask, TaskId},
    task::{Call, CellKind, TaskRef},
};
use std::{
    fmt, mem,
    sync::{Arc, OnceLock, PoisonError, Weak},
    task::Waker,
};

/// The metadata of a task. Most of it is known from its creation and does not change.
pub(in crate::submit) struct TaskMeta {
    pub(in crate::submit) id: TaskId,
    /// The number of its pool.
    pub(in crate::submit) pool: u32,
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
pub(in crate::submit) const ISOLATED: u8 = 1;
/// Its pool has no threads: the polling thread runs it.
pub(in crate::submit) const NO_THREADS: u8 = 2;
/// While it is queued it takes one unit of its pool's capacity.
pub(in crate::submit) const COUNTED: u8 = 4;

/// The metadata that few tasks have.
#[derive(Default)]
pub(in crate::submit) struct Extras {
    pub(in crate::submit) name: Option<Arc<str>>,
    token: OnceLock<CancelToken>,
    /// While it is queued: the task, for the token to cancel, and its registration in the token's
    /// list.
    queued: Mutex<(Option<Ref>, Option<Watch>)>,
    /// The tasks that wait for this one.
    pub(in crate::submit) followers: Followers,
    /// The tasks that this one waits for.
    after: Option<Box<After>>,
}

/// Distinguishes a position from a time in [`TaskMeta::clock`]: times are smaller.
const BEGUN: u64 = 1 << 63;

impl TaskMeta {
    /// Creates the metadata of a task of the pool with that number, which was queued at `since`.
    #[inline]
    pub(in crate::submit) fn new(pool: u32, since: u64) -> Self {
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
    pub(in crate::submit) fn for_worker(
        mut self,
        worker: Option<u16>,
        flags: [(u8, bool); 3],
    ) -> Self {
        self.worker = worker.unwrap_or(ANY_WORKER);
        for (flag, set) in flags {
            self.flags |= if set { flag } else { 0 };
        }
        self
    }

    /// Returns the worker that should run it.
    #[inline]
    pub(in crate::submit) fn worker(&self) -> Option<usize> {
        (self.worker != ANY_WORKER).then_some(self.worker.into())
    }

    #[inline]
    pub(in crate::submit) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Records that the task runs on this thread from now on. Returns when it was queued.
    #[inline]
    pub(in crate::submit) fn start_here(&self) -> u64 {
        // Relaxed: written before the task was queued, and read by this thread itself in `is_here`.
        let since = self.clock.load(Ordering::Relaxed);
        let position = StackPosition::of_next_task().bits();
        // Relaxed: other threads read it in `position`.
        self.clock.store(position | BEGUN, Ordering::Relaxed);
        since
    }

    /// Whether it runs on this thread, if it runs.
    pub(in crate::submit) fn is_here(&self) -> bool {
        self.position()
            .is_some_and(|position| position.is_on_thread_of(StackPosition::current()))
    }

    /// Returns where it runs, if it has started; or where it ran.
    pub(in crate::submit) fn position(&self) -> Option<StackPosition> {
        // Relaxed: this thread sees what it wrote itself. What another thread wrote matters only to
        // the check for cyclic waits, and then a wait of that thread, listed after this was
        // written, hands it over (`pool/waits/waits.md`).
        let clock = self.clock.load(Ordering::Relaxed);
        (clock & BEGUN != 0).then(|| StackPosition::from_bits(clock & !BEGUN))
    }

    /// Adds the rare metadata, before the task is queued.
    pub(in crate::submit) fn add(&self, extras: Arc<Extras>) {
        let added = self.extras.set(extras);
        debug_assert!(added.is_ok(), "once, before it is queued");
    }

    pub(in crate::submit) fn extras(&self) -> Option<&Arc<Extras>> {
        self.extras.get()
    }

    /// Returns the rare metadata, which is created if there is none.
    pub(in crate::submit) fn extras_or_new(&self) -> &Arc<Extras> {
        self.extras.get_or_init(Arc::default)
    }

    /// Returns the predecessors of the task, if it was submitted with some.
    pub(in crate::submit) fn after(&self) -> Option<&After> {
        self.extras.get()?.after.as_deref()
    }

    pub(in crate::submit) fn name(&self) -> Option<&Arc<str>> {
        self.extras.get()?.name.as_ref()
    }

    pub(in crate::submit) fn token(&self) -> Option<&CancelToken> {
        self.extras.get()?.token.get()
    }

    /// Returns the token, which is created if there is none, and whether it is new.
    pub(in crate::submit) fn token_or_new(&self) -> (&CancelToken, bool) {
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
    pub(in crate::submit) fn new(
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

    pub(in crate::submit) fn queued(&self) -> MutexGuard<'_, (Option<Ref>, Option<Watch>)> {
        lock(&self.queued)
    }

    /// Registers `cell` with its token, which cancels it as long as it is queued. Returns the
    /// reason if the token is cancelled already.
    pub(in crate::submit) fn watch_for(self: &Arc<Self>, cell: Ref) -> Option<CancelReason> {
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
    pub(in crate::submit) fn unwatch(&self) {
        if let Some(after) = &self.after {
            after.forget();
        }
        let (cell, watch) = mem::take(&mut *self.queued());
        if let (Some(watch), Some(token)) = (watch, self.token.get()) {
            token.unwatch(watch);
        }
        // Not the last reference: the caller has claimed the task.
        drop(cell);
    }
}

/// The header of a submitted task.
pub(in crate::submit) type Header = crate::task::Header<TaskMeta>;

/// A counted reference to a submitted task.
pub(in crate::submit) type Ref = TaskRef<TaskMeta>;

impl CellKind for TaskMeta {
    type Run = Call<Self>;
}

/// Closures and values of seven machine words fit into a block of the second size class, which has
/// 16 words.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<Header>() <= 9 * size_of::<usize>());

impl Header {
    pub(in crate::submit) fn about(&self) -> &TaskMeta {
        &self.kind
    }

    /// Whether the task was requested to stop.
    #[inline(always)]
    pub(in crate::submit) fn is_cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    /// See [`State::publish_token`](crate::task::State::publish_token).
    #[must_use]
    pub(in crate::submit) fn publish_token(&self) -> bool {
        self.state.publish_token()
    }
}

/// One end of the relation between a task and one that it waits for: it names the other one.
#[derive(Clone)]
pub(in crate::submit) struct Link {
    pub(in crate::submit) cell: Ref,
    /// The predecessor's outcome does not matter.
    pub(in crate::submit) any_outcome: bool,
}

/// The followers of a task that is not done.
#[derive(Default)]
pub(in crate::submit) struct Followers(pub(super) Mutex<Vec<Link>>);

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.cell.about().id)
    }
}

/// The predecessors of a task.
pub(in crate::submit) struct After {
    /// How many of them have not ended; plus one, until the task is on all of their lists.
    pub(super) pending: AtomicUsize,
    /// The predecessor that failed first, if its outcome matters.
    pub(super) failed: OnceLock<Arc<FailedTask>>,
    pub(super) waits: Mutex<Waits>,
}

#[derive(Default)]
pub(super) struct Waits {
    /// Empty when the task does not wait any more.
    pub(super) predecessors: Vec<Link>,
    /// The inboxes of joiners of this task, or of one that depends on it, which run it when it is
    /// ready.
    pub(super) wanted_by: Vec<Weak<Inbox>>,
    /// The inbox of the owner of this task's handle.
    pub(super) inbox: Option<Arc<Inbox>>,
}

impl After {
    pub(in crate::submit) fn new(predecessors: Vec<Link>) -> Self {
        Self {
            pending: AtomicUsize::new(predecessors.len() + 1),
            failed: OnceLock::new(),
            waits: Mutex::new(Waits {
                predecessors,
                ..Waits::default()
            }),
        }
    }

    /// Returns why the task did not run.
    pub(in crate::submit) fn failed(&self) -> Option<&Arc<FailedTask>> {
        self.failed.get()
    }

    /// Drops what the task waited for, when it does not wait any more.
    pub(in crate::submit) fn forget(&self) {
        // Dropped without the lock, since it may drop a waker, which is user code.
        let waits = mem::take(&mut *lock(&self.waits));
        unwind::discard(waits);
    }

    /// Returns the inbox of the waiter for this very task.
    pub(in crate::submit) fn inbox(&self) -> Option<Arc<Inbox>> {
        lock(&self.waits).inbox.clone()
    }

    /// Returns the predecessors, ended ones included; empty if the task does not wait any more.
    pub(in crate::submit) fn predecessors(&self) -> Vec<Link> {
        lock(&self.waits).predecessors.clone()
    }

    /// Returns one of the predecessors.
    pub(super) fn predecessor(&self, at: usize) -> Option<Link> {
        lock(&self.waits).predecessors.get(at).cloned()
    }
}

/// The inbox of a joiner of a held task: its direct and indirect predecessors that have become
/// ready meanwhile.
///
/// A joiner runs the task if no other thread does. So it must be notified of the predecessors that
/// must run before it.
#[derive(Default)]
pub(in crate::submit) struct Inbox(pub(super) Mutex<InboxState>);

#[derive(Default)]
pub(super) struct InboxState {
    pub(super) ready: Vec<Ref>,
    pub(super) waker: Option<Waker>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
