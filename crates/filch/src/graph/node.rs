//! One task of a graph: a record of one cache line with its closure and its successors.
#![expect(unsafe_code, reason = "closures of any type in the records of a graph")]

use super::{context::Context, edges::Leads};
use crate::base::sync::{AtomicU8, Ordering, UnsafeCell};
use std::{marker::PhantomData, mem::MaybeUninit, ptr};

/// Which successors a task releases when its closure has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// All successors for which it was the last missing predecessor.
    All,
    /// The successor with this number, even if it has other missing predecessors; none if there is
    /// no such successor.
    One(usize),
    /// The successors with the numbers in [`Context::left`], in the same way.
    Many,
    /// The task is not done yet. It is held, and the job that finishes it calls `complete`.
    Later,
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
struct Actions {
    /// Calls the closure.
    ///
    /// # Safety
    /// The storage holds the closure, and no other thread uses it meanwhile.
    call: unsafe fn(*mut ClosureStorage, &Context<'_, '_, '_>) -> Then,
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
}

impl TaskKind {
    /// Whether its successors do not wait for it.
    pub(super) fn is_weak(self) -> bool {
        matches!(self, Self::Condition | Self::MultiCondition)
    }

    /// Whether it is more than a closure to be called.
    pub(super) fn is_special(self) -> bool {
        !matches!(self, Self::Empty | Self::Plain)
    }
}

/// A task. The records of a graph are one array; the first one is no task but points to the current
/// run.
///
/// One cache line of 64 bytes: running a task touches one line of its own, and no line of its
/// successors. While a plain graph runs, only the closure writes to the record.
#[repr(C, align(64))]
pub(super) struct Node {
    /// How many predecessors the task waits for. The number that is missing in the current run is
    /// kept elsewhere, in `missing`.
    waits_for: u32,
    pub(super) leads: Leads,
    actions: &'static Actions,
    /// The closure. It is used by the worker that runs the task, and the plan ensures that there is
    /// one at a time. In a graph without conditions a task is released once a run, by its last
    /// missing predecessor; in others a worker claims `busy` first.
    storage: UnsafeCell<ClosureStorage>,
    /// The position in the array, from which the first record is found.
    index: u32,
    busy: AtomicU8,
    pub(super) kind: TaskKind,
}

const _: () = assert!(size_of::<Node>() == 64 || cfg!(filch_loom));

impl Node {
    /// Creates a task that does nothing.
    pub(super) fn empty(index: u32) -> Self {
        Self {
            waits_for: 0,
            leads: Leads::default(),
            actions: &NOTHING,
            storage: UnsafeCell::new(MaybeUninit::uninit()),
            index,
            busy: AtomicU8::new(0),
            kind: TaskKind::Empty,
        }
    }

    /// Creates a task that calls `func`.
    #[inline(always)]
    pub(super) fn new<F>(index: u32, kind: TaskKind, func: F) -> Self
    where
        F: FnMut(&Context<'_, '_, '_>) -> Then + Send,
    {
        let (actions, storage) = Self::pack(func);
        Self {
            waits_for: 0,
            leads: Leads::default(),
            actions,
            storage: UnsafeCell::new(storage),
            index,
            busy: AtomicU8::new(0),
            kind,
        }
    }

    /// Sets the work of the task, and drops its previous work.
    pub(super) fn set<F>(&mut self, func: F)
    where
        F: FnMut(&Context<'_, '_, '_>) -> Then + Send,
    {
        let (actions, storage) = Self::pack(func);
        self.clear();
        self.actions = actions;
        self.storage = UnsafeCell::new(storage);
    }

    /// Erases the type of a closure.
    #[inline(always)]
    fn pack<F>(func: F) -> (&'static Actions, ClosureStorage)
    where
        F: FnMut(&Context<'_, '_, '_>) -> Then + Send,
    {
        let mut storage = ClosureStorage::uninit();
        let actions = if fits::<F>() {
            // SAFETY: the closure fits into the storage, which is aligned for it.
            unsafe { storage.as_mut_ptr().cast::<F>().write(func) };
            &Inline::<F>::ACTIONS
        } else {
            let boxed = Box::into_raw(Box::new(func));
            // SAFETY: a pointer is smaller than the storage and aligned in it.
            unsafe { storage.as_mut_ptr().cast::<*mut F>().write(boxed) };
            &Boxed::<F>::ACTIONS
        };
        (actions, storage)
    }

    /// Removes the work, if the task has some, and returns it.
    #[cold]
    pub(super) fn take(&mut self) -> Self {
        let mut old = Self::empty(0);
        std::mem::swap(&mut old.actions, &mut self.actions);
        std::mem::swap(&mut old.storage, &mut self.storage);
        old
    }

    /// Makes this record, which is no task, point to `run`.
    pub(super) fn lead_to(&self, run: *const ()) {
        // SAFETY: the storage of the first record holds no closure; it is written before the run's
        // first job is queued, and read by its jobs.
        self.storage
            .with_mut(|storage| unsafe { storage.cast::<*const ()>().write(run) });
    }

    /// Returns the run that this record points to.
    pub(super) fn leads_to(&self) -> *const () {
        // SAFETY: as in `lead_to`, which wrote the pointer before the first job was queued.
        self.storage
            .with(|storage| unsafe { storage.cast::<*const ()>().read() })
    }

    /// Drops the closure.
    fn clear(&mut self) {
        let actions = std::mem::replace(&mut self.actions, &NOTHING);
        // SAFETY: `&mut self`: no other thread uses the storage. The actions match its content, and
        // from now on it is empty.
        self.storage
            .with_mut(|storage| unsafe { (actions.drop)(storage) });
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Returns how many predecessors the task waits for.
    #[inline(always)]
    pub(super) fn waits_for(&self) -> u32 {
        self.waits_for
    }

    pub(super) fn set_waits_for(&mut self, predecessors: u32) {
        self.waits_for = predecessors;
    }

    /// Clears the claim, after a run that was stopped.
    pub(super) fn reset(&mut self) {
        self.busy = AtomicU8::new(0);
    }

    /// Claims the task, where it might be running already. Returns whether it was free.
    pub(super) fn claim(&self) -> bool {
        // Acquire: pairs with the release in `unclaim`; what the closure did is visible to its next
        // call.
        self.busy.swap(1, Ordering::Acquire) == 0
    }

    pub(super) fn unclaim(&self) {
        // Release: as in `claim`.
        self.busy.store(0, Ordering::Release);
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// No other thread runs the task meanwhile; see the field `storage`.
    #[inline(always)]
    pub(super) unsafe fn call(&self, cx: &Context<'_, '_, '_>) -> Then {
        // SAFETY: the actions match the content of the storage, and the caller ensures that no
        // other thread runs the task.
        self.storage
            .with_mut(|storage| unsafe { (self.actions.call)(storage, cx) })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.clear();
    }
}

static NOTHING: Actions = Actions {
    call: |_, _| Then::All,
    drop: |_| {},
};

/// Whether an `F` fits into a record.
const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<ClosureStorage>() && align_of::<F>() <= align_of::<ClosureStorage>()
}

struct Inline<F>(F);

impl<F: FnMut(&Context<'_, '_, '_>) -> Then> Inline<F> {
    const ACTIONS: Actions = Actions {
        call: Self::call,
        drop: Self::drop,
    };

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn call(storage: *mut ClosureStorage, cx: &Context<'_, '_, '_>) -> Then {
        // SAFETY: the storage holds the closure, and the caller has exclusive use of it.
        let func = unsafe { &mut *storage.cast::<F>() };
        func(cx)
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop(storage: *mut ClosureStorage) {
        // SAFETY: as in `call`; the caller drops the closure once.
        unsafe { ptr::drop_in_place(storage.cast::<F>()) };
    }
}

struct Boxed<F>(F);

impl<F: FnMut(&Context<'_, '_, '_>) -> Then> Boxed<F> {
    const ACTIONS: Actions = Actions {
        call: Self::call,
        drop: Self::drop,
    };

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn call(storage: *mut ClosureStorage, cx: &Context<'_, '_, '_>) -> Then {
        // SAFETY: the storage holds the pointer that `pack` wrote.
        let func = unsafe { *storage.cast::<*mut F>() };
        // SAFETY: the pointer came from a box, which lives until `drop`, and the caller has
        // exclusive use of it.
        let func = unsafe { &mut *func };
        func(cx)
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop(storage: *mut ClosureStorage) {
        // SAFETY: the storage holds the pointer that `pack` wrote.
        let func = unsafe { *storage.cast::<*mut F>() };
        // SAFETY: the pointer came from a box, and the caller drops the closure once.
        drop(unsafe { Box::from_raw(func) });
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
