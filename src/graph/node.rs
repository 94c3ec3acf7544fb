//! One task of a graph: a record of one cache line with its closure and where it leads to.
#![expect(unsafe_code, reason = "closures of any type in the records of a graph")]

use super::{context::Context, edges::Leads};
use crate::base::sync::{AtomicU8, Ordering, UnsafeCell};
use std::{marker::PhantomData, mem::MaybeUninit, ptr};

/// What a task is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// All successors for which it was the last one missing.
    All,
    /// The successor with this number, whatever else it waits for; none if there is no such successor.
    One(usize),
    /// The successors with the numbers in [`Context::left`], in the same way.
    Many,
    /// The task is not done yet. It has been held, and whoever finishes it calls `complete`.
    Later,
}

/// Stands for what closures may borrow in a value that owns some: neither longer nor shorter, and the destructor of
/// the value may look at it.
pub(super) struct Env<'env>(PhantomData<fn(&'env ()) -> &'env ()>);

impl Env<'_> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

/// Does nothing, but the compiler must think that it looks at what is borrowed: the records, of which it knows no
/// lifetime, drop the closures.
impl Drop for Env<'_> {
    fn drop(&mut self) {}
}

/// Room for a closure of up to four words, or for the pointer to a larger one.
pub(super) type Admission = MaybeUninit<[usize; 4]>;

/// What can be done with a closure whose type is not known any more.
struct Actions {
    /// Calls it.
    ///
    /// # Safety
    /// The room holds the closure, and nobody else uses it meanwhile.
    call: unsafe fn(*mut Admission, &Context<'_, '_, '_>) -> Then,
    /// Drops it.
    ///
    /// # Safety
    /// As `call`; afterwards the room holds nothing.
    drop: unsafe fn(*mut Admission),
}

/// What the edges of a task are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A placeholder whose work has not come.
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

impl Kind {
    /// Whether its successors do not wait for it.
    pub(super) fn is_weak(self) -> bool {
        matches!(self, Self::Condition | Self::MultiCondition)
    }

    /// Whether it is more than a closure to be called.
    pub(super) fn is_special(self) -> bool {
        !matches!(self, Self::Empty | Self::Plain)
    }
}

/// A task. The records of a graph are one array; the first one is no task but leads to the present run.
///
/// One line of 64 bytes, so that running a task touches one line of its own, and none of its successors'. Nothing in it
/// is written while a plain graph runs, but by the closure.
#[repr(C, align(64))]
pub(super) struct Node {
    /// How many predecessors it waits for. Who is missing in the present run is counted elsewhere: `missing`.
    waits_for: u32,
    pub(super) leads: Leads,
    actions: &'static Actions,
    /// The closure. Used by whoever runs the task, and the plan sees to it that there is one at a time: in a
    /// graph without conditions a task is released once a run, by the predecessor that is the last one missing; in
    /// others `busy` is asked.
    room: UnsafeCell<Admission>,
    /// Its number, which leads back to the first record.
    index: u32,
    busy: AtomicU8,
    pub(super) kind: Kind,
}

const _: () = assert!(size_of::<Node>() == 64 || cfg!(filch_loom));

impl Node {
    /// A task that does nothing.
    pub(super) fn empty(index: u32) -> Self {
        Self {
            waits_for: 0,
            leads: Leads::default(),
            actions: &NOTHING,
            room: UnsafeCell::new(MaybeUninit::uninit()),
            index,
            busy: AtomicU8::new(0),
            kind: Kind::Empty,
        }
    }

    /// A task that does this.
    #[inline(always)]
    pub(super) fn new<F>(index: u32, kind: Kind, func: F) -> Self
    where
        F: FnMut(&Context<'_, '_, '_>) -> Then + Send,
    {
        let (actions, room) = Self::pack(func);
        Self {
            waits_for: 0,
            leads: Leads::default(),
            actions,
            room: UnsafeCell::new(room),
            index,
            busy: AtomicU8::new(0),
            kind,
        }
    }

    /// Gives the task its work. What it had before is dropped.
    pub(super) fn set<F>(&mut self, func: F)
    where
        F: FnMut(&Context<'_, '_, '_>) -> Then + Send,
    {
        let (actions, room) = Self::pack(func);
        self.clear();
        self.actions = actions;
        self.room = UnsafeCell::new(room);
    }

    /// Forgets the type of a closure.
    #[inline(always)]
    fn pack<F>(func: F) -> (&'static Actions, Admission)
    where
        F: FnMut(&Context<'_, '_, '_>) -> Then + Send,
    {
        let mut room = Admission::uninit();
        let actions = if fits::<F>() {
            // SAFETY: the closure fits into the room, which is aligned for it.
            unsafe { room.as_mut_ptr().cast::<F>().write(func) };
            &Inline::<F>::ACTIONS
        } else {
            let boxed = Box::into_raw(Box::new(func));
            // SAFETY: a pointer fits.
            unsafe { room.as_mut_ptr().cast::<*mut F>().write(boxed) };
            &Boxed::<F>::ACTIONS
        };
        (actions, room)
    }

    /// Takes its work away, if it has some.
    #[cold]
    pub(super) fn take(&mut self) -> Self {
        let mut old = Self::empty(0);
        std::mem::swap(&mut old.actions, &mut self.actions);
        std::mem::swap(&mut old.room, &mut self.room);
        old
    }

    /// Makes this record, which is no task, lead to `run`.
    pub(super) fn lead_to(&self, run: *const ()) {
        // SAFETY: the room of the first record holds no closure; it is written before the run's first job is queued,
        // and read by its jobs.
        self.room
            .with_mut(|room| unsafe { room.cast::<*const ()>().write(run) });
    }

    /// Where it leads to.
    pub(super) fn leads_to(&self) -> *const () {
        // SAFETY: as in `lead_to`.
        self.room
            .with(|room| unsafe { room.cast::<*const ()>().read() })
    }

    /// Drops the closure.
    fn clear(&mut self) {
        let actions = std::mem::replace(&mut self.actions, &NOTHING);
        // SAFETY: `&mut self`: nobody else uses the room. The actions fit to what is in it, and from now on there is
        // nothing.
        self.room.with_mut(|room| unsafe { (actions.drop)(room) });
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// How many predecessors it waits for.
    #[inline(always)]
    pub(super) fn waits_for(&self) -> u32 {
        self.waits_for
    }

    pub(super) fn set_waits_for(&mut self, predecessors: u32) {
        self.waits_for = predecessors;
    }

    /// Gives up a claim, after a run that was stopped.
    pub(super) fn reset(&mut self) {
        self.busy = AtomicU8::new(0);
    }

    /// Claims the task, where it might be running already.
    pub(super) fn claim(&self) -> bool {
        // Acquire: pairs with the release in `unclaim`; what the closure did is visible to its next call.
        self.busy.swap(1, Ordering::Acquire) == 0
    }

    pub(super) fn unclaim(&self) {
        // Release: as in `claim`.
        self.busy.store(0, Ordering::Release);
    }

    /// Calls the closure.
    ///
    /// # Safety
    /// Nobody else runs the task meanwhile; see the field `room`.
    #[inline(always)]
    pub(super) unsafe fn call(&self, cx: &Context<'_, '_, '_>) -> Then {
        // SAFETY: the actions fit to what is in the room; the rest is the caller's duty.
        self.room
            .with_mut(|room| unsafe { (self.actions.call)(room, cx) })
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
    size_of::<F>() <= size_of::<Admission>() && align_of::<F>() <= align_of::<Admission>()
}

struct Inline<F>(F);

impl<F: FnMut(&Context<'_, '_, '_>) -> Then> Inline<F> {
    const ACTIONS: Actions = Actions {
        call: Self::call,
        drop: Self::drop,
    };

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn call(room: *mut Admission, cx: &Context<'_, '_, '_>) -> Then {
        // SAFETY: the closure is in the room, and the caller's alone.
        let func = unsafe { &mut *room.cast::<F>() };
        func(cx)
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop(room: *mut Admission) {
        // SAFETY: as in `call`; once.
        unsafe { ptr::drop_in_place(room.cast::<F>()) };
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
    unsafe fn call(room: *mut Admission, cx: &Context<'_, '_, '_>) -> Then {
        // SAFETY: the pointer is in the room.
        let func = unsafe { *room.cast::<*mut F>() };
        // SAFETY: it came from a box, which lives until `drop`, and is the caller's alone.
        let func = unsafe { &mut *func };
        func(cx)
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop(room: *mut Admission) {
        // SAFETY: the pointer is in the room.
        let func = unsafe { *room.cast::<*mut F>() };
        // SAFETY: it came from a box; once.
        drop(unsafe { Box::from_raw(func) });
    }
}

/// Claims as they are, for the model checker.
#[cfg(filch_loom)]
pub(super) mod model {
    use std::fmt;

    /// See the record of a task.
    pub struct Node(super::Node);

    // SAFETY: the models do not use the room.
    unsafe impl Sync for Node {}

    #[expect(clippy::new_without_default, missing_docs, reason = "a shim for tests")]
    impl Node {
        pub fn new() -> Self {
            Self(super::Node::empty(1))
        }

        pub fn claim(&self) -> bool {
            self.0.claim()
        }

        pub fn unclaim(&self) {
            self.0.unclaim();
        }
    }

    impl fmt::Debug for Node {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Node")
        }
    }
}
