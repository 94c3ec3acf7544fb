#![doc = include_str!("cell.md")]
#![expect(
    unsafe_code,
    reason = "a closure and its outcome in one place, behind a counted pointer"
)]

mod follow;
mod hold;
mod state;
mod ticket;

pub(super) use follow::{After, Arrived, Followers, Inbox, Link};
pub(super) use hold::{Fresh, Hold, make};
pub(super) use state::TaskStatus;
pub(super) use ticket::{Claim, Ticket, is_stale};

use super::info::TaskMeta;
use crate::{
    base::{
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    pool::{blocks, task},
};
use state::{Cancelling, Snapshot, State};
use std::{alloc::Layout, mem::ManuallyDrop, ops::Deref, ptr::NonNull, task::Waker};

/// The code of a task: a closure, or a wrapper that observes its end.
pub(super) trait Body<T>: Send + 'static {
    fn call(self) -> T;
}

impl<F, T> Body<T> for F
where
    F: FnOnce() -> T + Send + 'static,
{
    #[inline(always)]
    fn call(self) -> T {
        self()
    }
}

/// How a task ended.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    Value(T),
    Panic(Payload),
    /// It never ran.
    Cancelled(Cause),
}

/// Why a task never ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was cancelled, or its token was.
    Asked,
    /// Its deadline passed before it started.
    Deadline,
    /// The pool accepts no more tasks, or was shut down before the task started.
    Closed,
    /// The pool had no capacity for it.
    Full,
    /// A predecessor failed; its [`After`] stores which.
    Dependency,
}

impl From<Cause> for TaskStatus {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Asked => Self::Cancelled,
            Cause::Deadline => Self::Expired,
            Cause::Closed | Cause::Full => Self::Refused,
            Cause::Dependency => Self::DependencyFailed,
        }
    }
}

/// The part of a cell that is the same for all types.
///
/// A cell is always used through pointers to all of it: no `&Header` may be alive when another
/// thread may release the last reference.
///
/// Aligned as a job with a mark and a level needs it.
#[repr(C, align(8))]
pub(super) struct Header {
    state: State,
    actions: &'static Actions,
    /// Belongs to the only handle: only `Hold::watch` writes it, while `WAITING` is not set. From
    /// `Finished::Wake` on, or `Followed` with `WAITING` set, it belongs to the claimer; after
    /// `unwatch` or `Abandoned::LeftWaker` it belongs to the handle again.
    waker: UnsafeCell<Option<Waker>>,
    about: TaskMeta,
}

/// Closures and outcomes of seven machine words fit into a block of the second size class, which
/// has 16 words.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<Header>() <= 9 * size_of::<usize>());

#[repr(C)]
struct Cell<F, T> {
    header: Header,
    /// The closure, until the task is claimed; it belongs to the only claimer, which takes it out,
    /// and stores the outcome before it finishes. Then the slot belongs to the handle, or, if the
    /// task is `Finished::Orphaned`, to the claimer. Empty when the last reference is released.
    slot: UnsafeCell<Slot<F, T>>,
}

#[repr(C)]
union Slot<F, T> {
    func: ManuallyDrop<F>,
    outcome: ManuallyDrop<Outcome<T>>,
}

/// The type-erased operations of a cell.
struct Actions {
    layout: Layout,
    /// Calls the closure and stores the outcome; returns whether it panicked.
    ///
    /// # Safety
    /// The caller has claimed the cell, and the closure is in it.
    call: unsafe fn(NonNull<Header>) -> bool,
    /// Drops the closure and stores the cause as the outcome; returns the payload if the drop
    /// panics.
    ///
    /// # Safety
    /// As for `call`.
    refuse: unsafe fn(NonNull<Header>, Cause) -> Option<Payload>,
    /// Drops the outcome; returns the panic payload in it, or that of the drop.
    ///
    /// # Safety
    /// The outcome is in the cell and belongs to the caller.
    drop_outcome: unsafe fn(NonNull<Header>) -> Option<Payload>,
    /// Moves the outcome to where the second pointer points.
    ///
    /// # Safety
    /// As for `drop_outcome`; and the destination has room for an `Outcome<T>`.
    take_outcome: unsafe fn(NonNull<Header>, *mut ()),
}

impl<F, T> Cell<F, T>
where
    F: Body<T>,
    T: Send + 'static,
{
    const ACTIONS: Actions = Actions {
        layout: Layout::new::<Self>(),
        call: Self::call,
        refuse: Self::refuse,
        drop_outcome: Self::drop_outcome,
        take_outcome: Self::take_outcome,
    };

    /// # Safety
    /// `cell` is the header of a live `Self`.
    unsafe fn slot<'a>(cell: NonNull<Header>) -> &'a UnsafeCell<Slot<F, T>> {
        // SAFETY: the caller guarantees a live `Self`, and the pointer is to all of the cell.
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        &cell.slot
    }

    /// # Safety
    /// The closure is in the cell and belongs to the caller.
    unsafe fn take_func(cell: NonNull<Header>) -> F {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the slot belongs to the caller, and the closure is in it; it is taken once,
        // because the caller stores an outcome. All fields of a `Slot` begin where it does.
        slot.with_mut(|slot| unsafe { slot.cast::<F>().read() })
    }

    /// # Safety
    /// The slot is empty and belongs to the caller.
    unsafe fn put(cell: NonNull<Header>, outcome: Outcome<T>) {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        slot.with_mut(|slot| {
            let outcome = ManuallyDrop::new(outcome);
            // SAFETY: the slot belongs to the caller, and is empty.
            unsafe { slot.write(Slot { outcome }) };
        });
    }

    /// # Safety
    /// The outcome is in the cell and belongs to the caller.
    unsafe fn take(cell: NonNull<Header>) -> Outcome<T> {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the slot belongs to the caller, and the outcome is in it; the slot is not
        // accessed after that.
        slot.with_mut(|slot| unsafe { slot.cast::<Outcome<T>>().read() })
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn call(cell: NonNull<Header>) -> bool {
        // SAFETY: the closure is in the cell, which is claimed.
        let func = unsafe { Self::take_func(cell) };
        let (outcome, panicked) = match unwind::contain(|| func.call()) {
            Ok(value) => (Outcome::Value(value), false),
            Err(payload) => (Outcome::Panic(payload), true),
        };
        // SAFETY: the cell is claimed, and its slot is empty: the closure was taken out above.
        unsafe { Self::put(cell, outcome) };
        panicked
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn refuse(cell: NonNull<Header>, cause: Cause) -> Option<Payload> {
        // SAFETY: the closure is in the cell, which is claimed.
        let func = unsafe { Self::take_func(cell) };
        let dropped = unwind::contain(|| drop(func));
        // SAFETY: the cell is claimed, and its slot is empty: the closure was taken out above.
        unsafe { Self::put(cell, Outcome::Cancelled(cause)) };
        dropped.err()
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn drop_outcome(cell: NonNull<Header>) -> Option<Payload> {
        // SAFETY: the caller guarantees that the outcome is in the cell and belongs to it.
        match unsafe { Self::take(cell) } {
            Outcome::Value(value) => unwind::contain(|| drop(value)).err(),
            Outcome::Panic(payload) => Some(payload),
            Outcome::Cancelled(_) => None,
        }
    }

    /// # Safety
    /// As for the field of `Actions`.
    unsafe fn take_outcome(cell: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller guarantees that the outcome is in the cell and belongs to it.
        let outcome = unsafe { Self::take(cell) };
        // SAFETY: the caller guarantees that `place` is valid for an `Outcome<T>`.
        unsafe { place.cast::<Outcome<T>>().write(outcome) };
    }
}

/// A counted reference to a cell.
pub(super) struct Ref {
    cell: NonNull<Header>,
}

// SAFETY: the closure and the outcome are `Send`, and change owners as the field `slot` describes.
// A waker may be called from any thread. The rest of the header is `Sync`.
unsafe impl Send for Ref {}
// SAFETY: through a shared `Ref` the slot and the waker are used only by their owner, which the
// state word determines; the rest of the header is `Sync`.
unsafe impl Sync for Ref {}

impl Deref for Ref {
    type Target = Header;

    #[inline(always)]
    fn deref(&self) -> &Header {
        // SAFETY: the cell is not freed as long as this counted reference exists.
        unsafe { self.cell.as_ref() }
    }
}

impl Clone for Ref {
    fn clone(&self) -> Self {
        self.state.retain();
        Self { cell: self.cell }
    }
}

impl Drop for Ref {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory is valid until this reference is released. Only the word is borrowed,
        // which is an atomic: another thread may free the cell as soon as it has changed.
        let state = unsafe { &(*self.cell.as_ptr()).state };
        if state.release() {
            // SAFETY: it was the last reference, and the slot is empty by then.
            unsafe { free(self.cell) };
        }
    }
}

/// # Safety
/// There are no other users of the cell, and its slot is empty.
unsafe fn free(cell: NonNull<Header>) {
    // SAFETY: the caller is the only user of the cell.
    let layout = unsafe { cell.as_ref() }.actions.layout;
    // The metadata of a task includes wakers and tokens, whose destructors are user code.
    let dropped = unwind::contain(|| {
        // SAFETY: the caller is the only user of the cell, whose header is dropped once.
        unsafe { cell.drop_in_place() };
    });
    // SAFETY: `make` allocated the block with this layout, and it is empty now.
    unsafe { blocks::free(cell.cast(), layout) };
    if let Err(payload) = dropped {
        unwind::discard(payload);
    }
}

impl Header {
    pub(super) fn about(&self) -> &TaskMeta {
        &self.about
    }

    #[inline(always)]
    pub(super) fn snapshot(&self) -> Snapshot {
        self.state.load()
    }

    /// Whether the task was requested to stop.
    #[inline(always)]
    pub(super) fn is_cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    /// See [`State::publish_token`].
    #[must_use]
    pub(super) fn publish_token(&self) -> bool {
        self.state.publish_token()
    }
}

/// The effect of a cancellation.
pub(super) enum Cancel {
    /// It has not started, and will not. If it was `held`, it has no ticket in any queue.
    Claimed {
        claim: Claim,
        held: bool,
    },
    /// It is running; its token, if it has one, must be cancelled.
    Asked,
    TooLate,
}

impl Ref {
    /// Cancels the task: claims it if it has not started, otherwise requests it to stop.
    pub(super) fn cancel(&self) -> Cancel {
        let cancelling = self.state.cancel();
        match cancelling {
            Cancelling::Claimed | Cancelling::ClaimedHeld => Cancel::Claimed {
                // The transition has counted the claim.
                claim: Claim {
                    cell: Self { cell: self.cell },
                },
                held: cancelling == Cancelling::ClaimedHeld,
            },
            Cancelling::Asked => Cancel::Asked,
            Cancelling::TooLate => Cancel::TooLate,
        }
    }

    /// Claims the task, if it is queued and not claimed.
    #[inline]
    pub(super) fn claim(&self) -> Option<Claim> {
        let claimed = self.state.claim();
        // The transition has counted the claim. Built lazily: a claim that is dropped refuses the
        // task.
        claimed.then(|| Claim {
            cell: Self { cell: self.cell },
        })
    }

    /// Whether both refer to the same task.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.cell == other.cell
    }
}

/// Calls `f` with the task that this thread runs.
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(Option<&Header>) -> R) -> R {
    let current = task::current().cast::<Header>();
    // SAFETY: it is null, or a cell that `Claim::call` keeps as long as it is current.
    f(unsafe { current.as_ref() })
}

/// Returns the task that this thread runs.
pub(super) fn current() -> Option<Ref> {
    let cell = NonNull::new(task::current().cast_mut().cast::<Header>())?;
    // Borrowed from `Claim::call`, which keeps it as long as it is current.
    let current = ManuallyDrop::new(Ref { cell });
    Some(Ref::clone(&current))
}
