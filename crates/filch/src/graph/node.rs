//! One task of a graph: a record of one cache line with its closure and its successors.
#![expect(unsafe_code, reason = "closures of any type in the records of a graph")]

use super::{context::TaskContext, edges::Successors};
use crate::base::sync::{AtomicU8, Ordering, UnsafeCell};
use std::{marker::PhantomData, mem::MaybeUninit, ptr};

/// Which successors a task releases when its closure has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// All successors for which it was the last missing predecessor.
    All,
    /// The successor with this number, even if it has other missing predecessors; none if there is
    /// no such successor.
    One(usize),
    /// The successors with the numbers in [`TaskContext::effects`], in the same way.
    Chosen,
    /// The task is not done yet: it is suspended, and the job that finishes it calls `complete`.
    Deferred,
    /// None: the task has failed, and the run knows it.
    Failed,
}

/// Represents the lifetime that closures may borrow, in a value that owns closures: the lifetime is
/// invariant, and the destructor of the value may access what is borrowed.
pub(super) struct Env<'env>(PhantomData<fn(&'env ()) -> &'env ()>);

impl Env<'_> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

/// Does nothing. It exists so that the borrow checker assumes that the drop accesses the borrowed
/// data: the records, which have no lifetime parameter, drop the closures.
impl Drop for Env<'_> {
    fn drop(&mut self) {}
}

/// Storage for a closure of up to four words, or for the pointer to a larger one.
pub(super) type ClosureStorage = MaybeUninit<[usize; 4]>;

/// The operations on a closure whose type is erased.
struct ClosureVtable {
    /// Calls the closure.
    ///
    /// # Safety
    /// The storage holds the closure, and no other thread uses it meanwhile.
    call: unsafe fn(*mut ClosureStorage, &TaskContext<'_, '_, '_>) -> Release,
    /// Drops the closure.
    ///
    /// # Safety
    /// As `call`; afterwards the storage is empty.
    drop: unsafe fn(*mut ClosureStorage),
}

/// The kind of a task, which decides how its successors are released.
///
/// ```
/// use filch::{Graph, graph::TaskKind};
///
/// let graph = Graph::new();
/// graph.task("work", || ());
/// graph.placeholder("later");
/// let kinds: Vec<_> = graph.describe().tasks.iter().map(|task| task.kind).collect();
/// assert_eq!(kinds, [TaskKind::Plain, TaskKind::Empty]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum TaskKind {
    /// A placeholder whose work has not been set.
    Empty,
    /// Its successors wait for it.
    Plain,
    /// It chooses one of its successors, which do not wait for it.
    Condition,
    /// It chooses some of its successors, which do not wait for it.
    MultiCondition,
    /// It builds a graph while it runs.
    Subflow,
    /// It is a graph itself.
    Module,
    /// It spawns while it runs.
    Runtime,
    /// It is a future.
    Future,
    /// It is a parallel loop.
    Loop,
    /// It is a pipeline.
    Pipeline,
}

impl TaskKind {
    /// The bits of the kinds whose successors do not wait.
    pub(super) const WEAK: u32 = Self::Condition.bit() | Self::MultiCondition.bit();

    /// The bits of the kinds that are nothing but a closure to be called.
    pub(super) const PLAIN: u32 = Self::Empty.bit() | Self::Plain.bit();

    /// Returns the bit of the kind in a set of kinds.
    #[inline(always)]
    pub(super) const fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Whether its successors do not wait for it.
    pub(super) fn is_weak(self) -> bool {
        self.bit() & Self::WEAK != 0
    }

    /// Whether it is more than a closure to be called.
    pub(super) fn is_special(self) -> bool {
        self.bit() & Self::PLAIN == 0
    }
}

/// The kinds of the tasks that have been added to a graph.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddedKinds(u32);

/// A task has got another kind, so the set may have a kind that no task has.
const CHANGED: u32 = 1 << 31;

impl AddedKinds {
    /// Adds the kind of a new task.
    #[inline(always)]
    pub(super) fn add(&mut self, kind: TaskKind) {
        self.0 |= kind.bit();
    }

    /// Records that the kind of a task has changed.
    pub(super) fn change(&mut self) {
        self.0 |= CHANGED;
    }

    /// Returns the set of the kinds, unless one has changed.
    #[inline(always)]
    pub(super) fn known(self) -> Option<u32> {
        (self.0 & CHANGED == 0).then_some(self.0)
    }
}

/// A task. The records of a graph are one array; the first one is no task but points to the current
/// run.
///
/// One cache line of 64 bytes: running a task touches one line of its own, and no line of its
/// successors. While a plain graph runs, only the closure writes to the record.
#[repr(C, align(64))]
pub(super) struct TaskNode {
    /// How many predecessors the task waits for. The number that is missing in the current run is
    /// in its [`JoinCounter`](super::join_counter::JoinCounter).
    strong_predecessors: u32,
    pub(super) successors: Successors,
    vtable: &'static ClosureVtable,
    /// The closure. It is used by the worker that runs the task, and the plan ensures that there is
    /// one at a time. In a graph without conditions a task is released once a run, by its last
    /// missing predecessor; in others a worker claims the task first.
    storage: UnsafeCell<ClosureStorage>,
    /// The position in the array, from which the first record is found.
    index: u32,
    /// Whether the task runs, or has run: one of the values below. It is used only where there are
    /// conditions.
    claim: AtomicU8,
    pub(super) kind: TaskKind,
}

/// The task has not begun in this run.
const NOT_RUN: u8 = 0;
/// A worker runs the task, or it is suspended.
const RUNNING: u8 = 1;
/// The task has ended, and may run again.
const HAS_RUN: u8 = 2;
/// A runtime has queued the task, and it has not begun.
const SCHEDULED: u8 = 3;

const _: () = assert!(size_of::<TaskNode>() == 64 || cfg!(filch_loom));

impl TaskNode {
    /// Creates a task that does nothing.
    pub(super) fn empty(index: u32) -> Self {
        Self {
            strong_predecessors: 0,
            successors: Successors::default(),
            vtable: &NOTHING,
            storage: UnsafeCell::new(MaybeUninit::uninit()),
            index,
            claim: AtomicU8::new(NOT_RUN),
            kind: TaskKind::Empty,
        }
    }

    /// Creates a task that calls `func`.
    #[inline(always)]
    pub(super) fn new<F>(index: u32, kind: TaskKind, func: F) -> Self
    where
        F: FnMut(&TaskContext<'_, '_, '_>) -> Release + Send,
    {
        let (vtable, storage) = Self::pack(func);
        Self {
            strong_predecessors: 0,
            successors: Successors::default(),
            vtable,
            storage: UnsafeCell::new(storage),
            index,
            claim: AtomicU8::new(NOT_RUN),
            kind,
        }
    }

    /// Sets the work of the task, and drops its previous work.
    pub(super) fn set<F>(&mut self, func: F)
    where
        F: FnMut(&TaskContext<'_, '_, '_>) -> Release + Send,
    {
        let (vtable, storage) = Self::pack(func);
        self.clear();
        self.vtable = vtable;
        self.storage = UnsafeCell::new(storage);
    }

    /// Erases the type of a closure.
    #[inline(always)]
    fn pack<F>(func: F) -> (&'static ClosureVtable, ClosureStorage)
    where
        F: FnMut(&TaskContext<'_, '_, '_>) -> Release + Send,
    {
        let mut storage = ClosureStorage::uninit();
        let vtable = if fits::<F>() {
            // SAFETY: the closure fits into the storage, which is aligned for it.
            unsafe { storage.as_mut_ptr().cast::<F>().write(func) };
            &Inline::<F>::VTABLE
        } else {
            let boxed = Box::into_raw(Box::new(func));
            // SAFETY: a pointer is smaller than the storage and aligned in it.
            unsafe { storage.as_mut_ptr().cast::<*mut F>().write(boxed) };
            &Boxed::<F>::VTABLE
        };
        (vtable, storage)
    }

    /// Removes the work, if the task has some, and returns it.
    #[cold]
    pub(super) fn take(&mut self) -> Self {
        let mut old = Self::empty(0);
        std::mem::swap(&mut old.vtable, &mut self.vtable);
        std::mem::swap(&mut old.storage, &mut self.storage);
        old
    }

    /// Makes this the record of a task that does nothing, and returns its work.
    pub(super) fn make_empty(&mut self) -> Self {
        self.kind = TaskKind::Empty;
        self.forget_edges();
        self.take()
    }

    /// Makes this record, which is no task, point to `run`.
    pub(super) fn set_run(&self, run: *const ()) {
        // SAFETY: the storage of the first record holds no closure; it is written before the run's
        // first job is queued, and read by its jobs.
        self.storage
            .with_mut(|storage| unsafe { storage.cast::<*const ()>().write(run) });
    }

    /// Returns the run that this record points to.
    pub(super) fn run_pointer(&self) -> *const () {
        // SAFETY: as in `set_run`, which wrote the pointer before the first job was queued.
        self.storage
            .with(|storage| unsafe { storage.cast::<*const ()>().read() })
    }

    /// Drops the closure.
    fn clear(&mut self) {
        let vtable = std::mem::replace(&mut self.vtable, &NOTHING);
        // SAFETY: `&mut self`: no other thread uses the storage. The vtable matches its content,
        // and from now on it is empty.
        self.storage
            .with_mut(|storage| unsafe { (vtable.drop)(storage) });
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Returns how many predecessors the task waits for.
    #[inline(always)]
    pub(super) fn strong_predecessors(&self) -> u32 {
        self.strong_predecessors
    }

    pub(super) fn set_strong_predecessors(&mut self, predecessors: u32) {
        self.strong_predecessors = predecessors;
    }

    /// Makes the record that of a task without predecessors and successors.
    pub(super) fn forget_edges(&mut self) {
        self.strong_predecessors = 0;
        self.successors = Successors::default();
    }

    /// Clears the claim, after a run.
    pub(super) fn reset(&mut self) {
        self.claim = AtomicU8::new(NOT_RUN);
    }

    /// Claims the task, where it might be running already. Returns whether it was free.
    pub(super) fn claim(&self) -> bool {
        // Acquire: pairs with the release in `unclaim`; what the closure did is visible to its next
        // call.
        self.claim.swap(RUNNING, Ordering::Acquire) != RUNNING
    }

    pub(super) fn unclaim(&self) {
        // Release: as in `claim`.
        self.claim.store(HAS_RUN, Ordering::Release);
    }

    /// Marks the task as queued by a runtime. Returns false if it is so already, or runs.
    pub(super) fn schedule(&self) -> bool {
        let next = |claim| matches!(claim, NOT_RUN | HAS_RUN).then_some(SCHEDULED);
        // Relaxed, twice: the closure is not used before `claim`. That reads this value, or a later
        // one, and still pairs with the last `unclaim`: a read-modify-write continues its release
        // sequence.
        self.claim
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    /// Whether the task has been claimed in this run, where tasks are claimed.
    pub(super) fn was_claimed(&self) -> bool {
        // Relaxed: the run is over, which the caller has observed.
        matches!(self.claim.load(Ordering::Relaxed), RUNNING | HAS_RUN)
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// No other thread runs the task meanwhile; see the field `storage`.
    #[inline(always)]
    pub(super) unsafe fn call(&self, cx: &TaskContext<'_, '_, '_>) -> Release {
        // SAFETY: the vtable matches the content of the storage, and the caller ensures that no
        // other thread runs the task.
        self.storage
            .with_mut(|storage| unsafe { (self.vtable.call)(storage, cx) })
    }
}

impl Drop for TaskNode {
    fn drop(&mut self) {
        self.clear();
    }
}

static NOTHING: ClosureVtable = ClosureVtable {
    call: |_, _| Release::All,
    drop: |_| {},
};

/// Whether an `F` fits into a record.
const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<ClosureStorage>() && align_of::<F>() <= align_of::<ClosureStorage>()
}

struct Inline<F>(F);

impl<F: FnMut(&TaskContext<'_, '_, '_>) -> Release> Inline<F> {
    const VTABLE: ClosureVtable = ClosureVtable {
        call: Self::call,
        drop: Self::drop,
    };

    /// # Safety
    /// As the field of `ClosureVtable` says.
    unsafe fn call(storage: *mut ClosureStorage, cx: &TaskContext<'_, '_, '_>) -> Release {
        // SAFETY: the storage holds the closure, and the caller has exclusive use of it.
        let func = unsafe { &mut *storage.cast::<F>() };
        func(cx)
    }

    /// # Safety
    /// As the field of `ClosureVtable` says.
    unsafe fn drop(storage: *mut ClosureStorage) {
        // SAFETY: as in `call`; the caller drops the closure once.
        unsafe { ptr::drop_in_place(storage.cast::<F>()) };
    }
}

struct Boxed<F>(F);

impl<F: FnMut(&TaskContext<'_, '_, '_>) -> Release> Boxed<F> {
    const VTABLE: ClosureVtable = ClosureVtable {
        call: Self::call,
        drop: Self::drop,
    };

    /// # Safety
    /// As the field of `ClosureVtable` says.
    unsafe fn call(storage: *mut ClosureStorage, cx: &TaskContext<'_, '_, '_>) -> Release {
        // SAFETY: the storage holds the pointer that `pack` wrote.
        let func = unsafe { *storage.cast::<*mut F>() };
        // SAFETY: the pointer came from a box, which lives until `drop`, and the caller has
        // exclusive use of it.
        let func = unsafe { &mut *func };
        func(cx)
    }

    /// # Safety
    /// As the field of `ClosureVtable` says.
    unsafe fn drop(storage: *mut ClosureStorage) {
        // SAFETY: the storage holds the pointer that `pack` wrote.
        let func = unsafe { *storage.cast::<*mut F>() };
        // SAFETY: the pointer came from a box, and the caller drops the closure once.
        drop(unsafe { Box::from_raw(func) });
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
