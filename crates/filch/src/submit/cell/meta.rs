//! The metadata of a task.
//!
//! The metadata has lists of other tasks, which are references to cells with metadata. So the types
//! of all of these are here.

use crate::{
    base::{
        few_list::FewList,
        sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering},
        unwind,
    },
    cancel::{CancelReason, CancelToken, Watch},
    engine::Placement,
    pool::{blocks::RECYCLED, current_task::StackPosition},
    submit::{FailedTask, TaskId},
    task::{CallBody, CellKind, TaskRef},
};
use std::{
    cell::RefCell,
    fmt, mem,
    sync::{Arc, OnceLock, PoisonError, Weak},
    task::Waker,
};

/// The metadata of a task. Most of it is known from its creation and does not change.
pub(in crate::submit) struct TaskMeta {
    pub(in crate::submit) id: TaskId,
    /// The number of its pool.
    pub(in crate::submit) pool: u32,
    /// The worker that should run it, [`NODE`] and the node that should, or [`ANYWHERE`].
    place: u16,
    flags: u8,
    /// While it is queued, the time at which it was queued, if latencies are measured; then its
    /// position on the stack that it runs on.
    time_or_position: AtomicU64,
    extras: OnceLock<Arc<Extras>>,
}

const ANYWHERE: u16 = u16::MAX;
/// Above the numbers of workers.
const NODE: u16 = 1 << 15;
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
    /// The token that it was submitted with, which other tasks may have as well.
    shared_token: Option<CancelToken>,
    /// A token of its own, a child of that one. Made when it is asked for.
    token: OnceLock<CancelToken>,
    /// While it is queued: the task, for the token to cancel, and its registration in the token's
    /// list.
    registration: Mutex<(Option<SubmitRef>, Option<Watch>)>,
    /// The tasks that wait for this one.
    pub(in crate::submit) followers: Followers,
    /// The tasks that this one waits for.
    predecessors: Option<Predecessors>,
}

/// Set if there is a position, and not a time, in [`TaskMeta::time_or_position`]: times are
/// smaller.
const IS_POSITION: u64 = 1 << 63;

impl TaskMeta {
    /// Creates the metadata of a task of the pool with that number, which was queued at `since`.
    #[inline]
    pub(in crate::submit) fn new(pool: u32, since: u64) -> Self {
        Self {
            id: TaskId::next(),
            pool,
            place: ANYWHERE,
            flags: 0,
            time_or_position: AtomicU64::new(since & !IS_POSITION),
            extras: OnceLock::new(),
        }
    }

    /// Sets where it should run, and those of the flags that are true: [`ISOLATED`], [`NO_THREADS`]
    /// and [`COUNTED`].
    #[inline]
    pub(in crate::submit) fn placed(
        mut self,
        place: Option<Placement>,
        flags: [(u8, bool); 3],
    ) -> Self {
        self.place = match place {
            Some(Placement::Affine(worker)) => worker as u16,
            Some(Placement::AffineNode(node)) => NODE | node as u16,
            _ => ANYWHERE,
        };
        for (flag, set) in flags {
            self.flags |= if set { flag } else { 0 };
        }
        self
    }

    /// Adds the rare metadata, which no other task has.
    #[inline]
    pub(in crate::submit) fn with(mut self, extras: Arc<Extras>) -> Self {
        self.extras = OnceLock::from(extras);
        self
    }

    /// Returns the worker or node that should run it.
    #[inline]
    pub(in crate::submit) fn place(&self) -> Option<Placement> {
        match self.place {
            ANYWHERE => None,
            place if place & NODE != 0 => Some(Placement::AffineNode((place & !NODE).into())),
            worker => Some(Placement::Affine(worker.into())),
        }
    }

    #[inline]
    pub(in crate::submit) fn has_flag(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Records that the task runs on this thread from now on. Returns when it was queued.
    #[inline]
    pub(in crate::submit) fn start_here(&self) -> u64 {
        // Relaxed: written before the task was queued, and read by this thread itself in
        // `is_on_this_thread`.
        let since = self.time_or_position.load(Ordering::Relaxed);
        let position = StackPosition::of_next_task().bits();
        // Relaxed: other threads read it in `position`.
        self.time_or_position
            .store(position | IS_POSITION, Ordering::Relaxed);
        since
    }

    /// Whether it runs, or ran, on this thread.
    pub(in crate::submit) fn is_on_this_thread(&self) -> bool {
        self.position()
            .is_some_and(|position| position.is_on_thread_of(StackPosition::current()))
    }

    /// Returns where it runs, if it has started; or where it ran.
    pub(in crate::submit) fn position(&self) -> Option<StackPosition> {
        // Relaxed: this thread sees what it wrote itself. What another thread wrote matters only to
        // the check for cyclic waits, and then a wait of that thread, listed after this was
        // written, hands it over (`pool/waits/waits.md`).
        let word = self.time_or_position.load(Ordering::Relaxed);
        (word & IS_POSITION != 0).then(|| StackPosition::from_bits(word & !IS_POSITION))
    }

    /// Adds the rare metadata, once, before the task is queued.
    pub(in crate::submit) fn add(&self, extras: Arc<Extras>) -> &Arc<Extras> {
        self.extras.get_or_init(|| extras)
    }

    pub(in crate::submit) fn extras(&self) -> Option<&Arc<Extras>> {
        self.extras.get()
    }

    /// Returns the rare metadata, which is created if there is none.
    pub(in crate::submit) fn extras_or_new(&self) -> &Arc<Extras> {
        self.extras.get_or_init(Extras::take_spare)
    }

    /// Returns the predecessors of the task, if it was submitted with some.
    pub(in crate::submit) fn predecessors(&self) -> Option<&Predecessors> {
        self.extras.get()?.predecessors.as_ref()
    }

    pub(in crate::submit) fn name(&self) -> Option<&Arc<str>> {
        self.extras.get()?.name.as_ref()
    }

    /// Returns the token that is cancelled when the task should end, if there is one: its own, or
    /// that which it was submitted with.
    pub(in crate::submit) fn token(&self) -> Option<&CancelToken> {
        self.extras.get()?.any_token()
    }

    /// Whether that token is cancelled.
    #[inline]
    pub(in crate::submit) fn is_token_cancelled(&self) -> bool {
        self.token().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the token that no other task has, if it was made.
    pub(in crate::submit) fn own_token(&self) -> Option<&CancelToken> {
        self.extras.get()?.token.get()
    }

    /// Returns its own token, which is created if there is none, and whether it is new.
    pub(in crate::submit) fn token_or_new(&self) -> (&CancelToken, bool) {
        let mut made = false;
        let extras = self.extras_or_new();
        let token = extras.token.get_or_init(|| {
            made = true;
            match &extras.shared_token {
                Some(shared) => shared.child(),
                None => CancelToken::new(),
            }
        });
        (token, made)
    }
}

/// Keeps the memory of the rare metadata.
impl Drop for TaskMeta {
    #[inline]
    fn drop(&mut self) {
        if let Some(extras) = self.extras.take() {
            Extras::put_spare(extras);
        }
    }
}

/// The copy is for another task.
impl Clone for Extras {
    fn clone(&self) -> Self {
        let predecessors = self.predecessors.as_ref();
        Self {
            name: self.name.clone(),
            shared_token: self.shared_token.clone(),
            token: self.token.clone(),
            predecessors: predecessors
                .map(|them| Predecessors::new(lock(&them.held).edges.clone())),
            ..Self::default()
        }
    }
}

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges = self.predecessors.as_ref().map(Predecessors::edges);
        f.debug_struct("Extras")
            .field("name", &self.name)
            .field("predecessors", &edges)
            .finish_non_exhaustive()
    }
}

/// Maximum number of empty metadata that a thread keeps: more than the dependent tasks that are in
/// flight at a time in most programs. They take 256 KiB.
const MAX_KEPT: usize = 1024;

thread_local! {
    /// The memory of metadata whose last share this thread has dropped, for the next tasks.
    static SPARE: RefCell<Vec<Arc<Extras>>> = const { RefCell::new(Vec::new()) };
}

impl Extras {
    /// Returns empty metadata that no other task has.
    pub(in crate::submit) fn take_spare() -> Arc<Self> {
        // A thread that is ending keeps nothing.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop());
        spare.ok().flatten().unwrap_or_default()
    }

    /// Drops a share of metadata. Keeps the memory if no other task or token has one.
    #[cold]
    fn put_spare(mut extras: Arc<Self>) {
        let Some(only) = Arc::get_mut(&mut extras).filter(|_| RECYCLED) else {
            return;
        };
        *only = Self::default();
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_KEPT {
                spare.push(extras);
            }
        });
    }

    /// Sets the name and the token of a task that is not submitted yet.
    pub(in crate::submit) fn set(
        &mut self,
        name: Option<Arc<str>>,
        shared_token: Option<CancelToken>,
    ) {
        (self.name, self.shared_token) = (name, shared_token);
    }

    /// Gives it a token of its own, before it is queued.
    pub(in crate::submit) fn set_own_token(&mut self, token: CancelToken) {
        let set = self.token.set(token);
        debug_assert!(set.is_ok(), "once");
    }

    /// Makes a task that is not submitted yet wait for another one.
    pub(in crate::submit) fn wait_for(&mut self, edge: DependencyEdge) {
        let predecessors = self
            .predecessors
            .get_or_insert_with(|| Predecessors::new(FewEdges::default()));
        let held = predecessors.held.get_mut();
        held.unwrap_or_else(PoisonError::into_inner)
            .edges
            .push(edge);
        // Relaxed, twice: not shared with other threads yet.
        let pending = predecessors.pending.load(Ordering::Relaxed);
        predecessors.pending.store(pending + 1, Ordering::Relaxed);
    }

    /// Whether it was made to wait for others.
    pub(in crate::submit) fn has_predecessors(&self) -> bool {
        self.predecessors.is_some()
    }

    fn any_token(&self) -> Option<&CancelToken> {
        self.token.get().or(self.shared_token.as_ref())
    }

    /// The token whose list the task is in while it is queued: its own, if it had one from the
    /// beginning.
    fn watched_token(&self) -> Option<&CancelToken> {
        self.shared_token.as_ref().or_else(|| self.token.get())
    }

    fn registration(&self) -> MutexGuard<'_, (Option<SubmitRef>, Option<Watch>)> {
        lock(&self.registration)
    }

    /// Returns the task, if it is registered with a token, which has removed it from its list.
    pub(in crate::submit) fn end_watch(&self) -> Option<SubmitRef> {
        let (cell, _watch) = mem::take(&mut *self.registration());
        cell
    }

    /// Registers `cell` with its token, which cancels it as long as it is queued. Returns the
    /// reason if the token is cancelled already.
    pub(in crate::submit) fn register_with_token(
        self: &Arc<Self>,
        cell: &SubmitRef,
    ) -> Option<CancelReason> {
        let token = self.watched_token()?;
        self.registration().0 = Some(cell.clone());
        let weak = Arc::downgrade(self);
        match token.watch(weak) {
            Ok(watch) => {
                self.registration().1 = Some(watch);
                None
            }
            Err(reason) => Some(reason),
        }
    }

    /// Unregisters the task, which is not queued any more, from its token, and drops its
    /// predecessors.
    pub(in crate::submit) fn unregister(&self) {
        if let Some(predecessors) = &self.predecessors {
            predecessors.forget();
        }
        // Without a token it was not registered: a token does not go away.
        let Some(token) = self.watched_token() else {
            return;
        };
        let (cell, watch) = mem::take(&mut *self.registration());
        if let Some(watch) = watch {
            token.unwatch(watch);
        }
        // Not the last reference: the caller has claimed the task.
        drop(cell);
    }
}

/// The header of a submitted task.
pub(in crate::submit) type SubmitHeader = crate::task::Header<TaskMeta>;

/// A counted reference to a submitted task.
pub(in crate::submit) type SubmitRef = TaskRef<TaskMeta>;

impl CellKind for TaskMeta {
    type Run = CallBody<Self>;
    const WHOLE_LINES: bool = true;
}

/// Closures and values of seven machine words fit into a block of the second size class, which has
/// 16 words.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<SubmitHeader>() <= 9 * size_of::<usize>());

impl SubmitHeader {
    pub(in crate::submit) fn meta(&self) -> &TaskMeta {
        &self.kind
    }

    /// Whether the task was requested to stop.
    #[inline(always)]
    pub(in crate::submit) fn is_cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    /// See [`TaskState::publish_token`](crate::task::TaskState::publish_token).
    #[must_use]
    pub(in crate::submit) fn publish_token(&self) -> bool {
        self.state.publish_token()
    }
}

/// A dependency between two tasks. In the list of one of them it refers to the other.
#[derive(Clone)]
pub(in crate::submit) struct DependencyEdge {
    pub(in crate::submit) cell: SubmitRef,
    /// Whether the follower runs also if the predecessor fails.
    pub(in crate::submit) any_outcome: bool,
}

/// Dependencies of one task. Most tasks wait for one or two others, and have one or two followers.
pub(in crate::submit) type FewEdges = FewList<DependencyEdge, 2>;

/// The followers of a task that is not done.
#[derive(Default)]
pub(in crate::submit) struct Followers(pub(super) Mutex<FewEdges>);

impl fmt::Debug for DependencyEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.cell.meta().id)
    }
}

/// The predecessors of a task.
pub(in crate::submit) struct Predecessors {
    /// How many of them have not ended; plus one, until the task is on all of their lists.
    pub(super) pending: AtomicUsize,
    /// The predecessor that failed first, if its outcome matters.
    pub(super) failed: OnceLock<Arc<FailedTask>>,
    pub(super) held: Mutex<HeldState>,
}

/// What a held task needs until it is ready.
#[derive(Default)]
pub(super) struct HeldState {
    /// The predecessors. Empty when the task does not wait any more.
    pub(super) edges: FewEdges,
    /// The inboxes of joiners of this task, or of one that depends on it, which run it when it is
    /// ready.
    pub(super) joiner_inboxes: Vec<Weak<JoinerInbox>>,
    /// The inbox of the owner of this task's handle.
    pub(super) own_inbox: Option<Arc<JoinerInbox>>,
}

impl Predecessors {
    fn new(edges: FewEdges) -> Self {
        Self {
            pending: AtomicUsize::new(edges.len() + 1),
            failed: OnceLock::new(),
            held: Mutex::new(HeldState {
                edges,
                ..HeldState::default()
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
        let held = mem::take(&mut *lock(&self.held));
        unwind::discard(held);
    }

    /// Returns the inbox of the joiner of this very task.
    pub(in crate::submit) fn own_inbox(&self) -> Option<Arc<JoinerInbox>> {
        lock(&self.held).own_inbox.clone()
    }

    /// Returns the predecessors, ended ones included; empty if the task does not wait any more.
    pub(in crate::submit) fn edges(&self) -> Vec<DependencyEdge> {
        lock(&self.held).edges.iter().cloned().collect()
    }

    /// Returns a copy of the predecessors, which are none if the task does not wait any more.
    pub(super) fn edge_list(&self) -> FewEdges {
        lock(&self.held).edges.clone()
    }
}

/// The inbox of a joiner of a held task: its direct and indirect predecessors that have become
/// ready meanwhile.
///
/// A joiner runs the task if no other thread does. So it must be notified of the predecessors that
/// must run before it.
#[derive(Default)]
pub(in crate::submit) struct JoinerInbox(pub(super) Mutex<JoinerInboxState>);

#[derive(Default)]
pub(super) struct JoinerInboxState {
    pub(super) ready: Vec<SubmitRef>,
    pub(super) waker: Option<Waker>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
