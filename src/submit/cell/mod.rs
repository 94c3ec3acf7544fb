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

use super::info::TaskInfo;
use crate::{
    base::{
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    pool::{blocks, task},
};
use state::{Cancelling, Snapshot, State};
use std::{alloc::Layout, mem::ManuallyDrop, ops::Deref, ptr::NonNull, task::Waker};

/// What a task does: a closure, or one that somebody looks after.
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
    /// Somebody cancelled it, or its token.
    Asked,
    /// Its time was up.
    Deadline,
    /// The pool takes no more tasks, or was shut down before its turn came.
    Closed,
    /// There was no room for it.
    Full,
    /// One that it waited for failed; its [`After`] knows which.
    Dependency,
}

impl From<Cause> for TaskStatus {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Asked => Self::Cancelled,
            Cause::Deadline => Self::Expired,
            Cause::Closed | Cause::Full => Self::Refused,
            Cause::Dependency => Self::Followed,
        }
    }
}

/// The part of a cell that is the same for all types.
///
/// A cell is always used through pointers to all of it: a `&Header` must not be alive when the last
/// reference may be given up by somebody else.
///
/// Aligned as a job with a mark and a level needs it.
#[repr(C, align(8))]
pub(super) struct Header {
    state: State,
    actions: &'static Actions,
    /// The handle's, which there is one of: only `Hold::watch` writes it, while `WAITING` is not set. From
    /// `Finished::Wake` on, or `Followed` if it is set, it belongs to the claimer, and after `unwatch` or `Abandoned::LeftWaker` to the handle
    /// again.
    waker: UnsafeCell<Option<Waker>>,
    about: TaskInfo,
}

/// Closures and outcomes of seven words fit into a block of the second size, which has 16 of them.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<Header>() <= 9 * size_of::<usize>());

#[repr(C)]
struct Cell<F, T> {
    header: Header,
    /// Until the task is claimed, the closure; it belongs to whoever claims it, and there is one such. The claimer
    /// takes it out, and leaves the outcome before it finishes. Then it belongs to the handle, or, if
    /// the task is `Finished::Orphaned`, to the claimer. Empty when the last reference is given up.
    slot: UnsafeCell<Slot<F, T>>,
}

#[repr(C)]
union Slot<F, T> {
    func: ManuallyDrop<F>,
    outcome: ManuallyDrop<Outcome<T>>,
}

/// What can be done with a cell whose types are not known any more.
struct Actions {
    layout: Layout,
    /// Calls the closure and leaves the outcome; says whether it panicked.
    ///
    /// # Safety
    /// The caller has claimed the cell, and the closure is in it.
    call: unsafe fn(NonNull<Header>) -> bool,
    /// Drops the closure and leaves the cause as the outcome; gives what the drop panicked with.
    ///
    /// # Safety
    /// As `call`.
    refuse: unsafe fn(NonNull<Header>, Cause) -> Option<Payload>,
    /// Drops the outcome; gives the panic in it, or that of the drop.
    ///
    /// # Safety
    /// The outcome is in the cell and belongs to the caller.
    drop_outcome: unsafe fn(NonNull<Header>) -> Option<Payload>,
    /// Moves the outcome to where the second pointer points.
    ///
    /// # Safety
    /// As `drop_outcome`; and the place is for an `Outcome<T>`.
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
    /// The header is that of a living `Self`.
    unsafe fn slot<'a>(cell: NonNull<Header>) -> &'a UnsafeCell<Slot<F, T>> {
        // SAFETY: as the caller says; the pointer is to all of the cell.
        let cell = unsafe { cell.cast::<Self>().as_ref() };
        &cell.slot
    }

    /// # Safety
    /// The closure is in the cell and belongs to the caller.
    unsafe fn take_func(cell: NonNull<Header>) -> F {
        // SAFETY: the cell is of this type, because these functions stand in its own `ACTIONS`.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: the slot is the caller's, and the closure is in it; it is taken once, because the caller leaves an
        // outcome. All fields of a `Slot` begin where it does.
        slot.with_mut(|slot| unsafe { slot.cast::<F>().read() })
    }

    /// # Safety
    /// The slot is empty and belongs to the caller.
    unsafe fn put(cell: NonNull<Header>, outcome: Outcome<T>) {
        // SAFETY: as in `take_func`.
        let slot = unsafe { Self::slot(cell) };
        slot.with_mut(|slot| {
            let outcome = ManuallyDrop::new(outcome);
            // SAFETY: the slot is the caller's, and empty.
            unsafe { slot.write(Slot { outcome }) };
        });
    }

    /// # Safety
    /// The outcome is in the cell and belongs to the caller.
    unsafe fn take(cell: NonNull<Header>) -> Outcome<T> {
        // SAFETY: as in `take_func`.
        let slot = unsafe { Self::slot(cell) };
        // SAFETY: as in `take_func`; nobody looks at the slot after that.
        slot.with_mut(|slot| unsafe { slot.cast::<Outcome<T>>().read() })
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn call(cell: NonNull<Header>) -> bool {
        // SAFETY: the closure is in the cell, which is claimed.
        let func = unsafe { Self::take_func(cell) };
        let (outcome, panicked) = match unwind::contain(|| func.call()) {
            Ok(value) => (Outcome::Value(value), false),
            Err(payload) => (Outcome::Panic(payload), true),
        };
        // SAFETY: the closure was taken out above.
        unsafe { Self::put(cell, outcome) };
        panicked
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn refuse(cell: NonNull<Header>, cause: Cause) -> Option<Payload> {
        // SAFETY: as in `call`.
        let func = unsafe { Self::take_func(cell) };
        let dropped = unwind::contain(|| drop(func));
        // SAFETY: as in `call`.
        unsafe { Self::put(cell, Outcome::Cancelled(cause)) };
        dropped.err()
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn drop_outcome(cell: NonNull<Header>) -> Option<Payload> {
        // SAFETY: the caller's duty.
        match unsafe { Self::take(cell) } {
            Outcome::Value(value) => unwind::contain(|| drop(value)).err(),
            Outcome::Panic(payload) => Some(payload),
            Outcome::Cancelled(_) => None,
        }
    }

    /// # Safety
    /// As the field of `Actions` says.
    unsafe fn take_outcome(cell: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller's duty.
        let outcome = unsafe { Self::take(cell) };
        // SAFETY: the caller's duty.
        unsafe { place.cast::<Outcome<T>>().write(outcome) };
    }
}

/// A counted reference to a cell.
pub(super) struct Ref {
    cell: NonNull<Header>,
}

// SAFETY: the closure and the outcome are `Send`, and change hands as the field `slot` says; the waker may be
// called from anywhere; the rest of the header is `Sync`.
unsafe impl Send for Ref {}
// SAFETY: as above.
unsafe impl Sync for Ref {}

impl Deref for Ref {
    type Target = Header;

    #[inline(always)]
    fn deref(&self) -> &Header {
        // SAFETY: the memory stays as long as this reference counts.
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
        // SAFETY: the memory is there until this reference is given up. Only the word is borrowed, which is an
        // atomic: somebody else may free the cell as soon as it has changed.
        let state = unsafe { &(*self.cell.as_ptr()).state };
        if state.release() {
            // SAFETY: it was the last one.
            unsafe { free(self.cell) };
        }
    }
}

/// # Safety
/// Nobody uses the cell any more, and its slot is empty.
unsafe fn free(cell: NonNull<Header>) {
    // SAFETY: nobody else has it.
    let layout = unsafe { cell.as_ref() }.actions.layout;
    // What is known about a task includes wakers and tokens, whose destructors are the user's.
    let dropped = unwind::contain(|| {
        // SAFETY: as above; once.
        unsafe { cell.drop_in_place() };
    });
    // SAFETY: `make` got the block with this layout, and it is empty now.
    unsafe { blocks::free(cell.cast(), layout) };
    if let Err(payload) = dropped {
        unwind::discard(payload);
    }
}

impl Header {
    pub(super) fn about(&self) -> &TaskInfo {
        &self.about
    }

    #[inline(always)]
    pub(super) fn snapshot(&self) -> Snapshot {
        self.state.load()
    }

    /// Whether somebody wants the task to stop.
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

/// What a wish to cancel came to.
pub(super) enum Cancel {
    /// It has not started, and will not. If it was `held`, it has no ticket in any queue.
    Claimed {
        claim: Claim,
        held: bool,
    },
    /// It is running; its token, if it has one, must be told.
    Asked,
    TooLate,
}

impl Ref {
    /// The task is not wanted any more.
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

    /// Claims the task, if it is queued and nobody has.
    #[inline]
    pub(super) fn claim(&self) -> Option<Claim> {
        let claimed = self.state.claim();
        // The transition has counted the claim. Lazily: a claim that is dropped refuses the task.
        claimed.then(|| Claim {
            cell: Self { cell: self.cell },
        })
    }

    /// Whether both are of one task.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.cell == other.cell
    }
}

/// Calls `f` with the task that this thread is in.
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(Option<&Header>) -> R) -> R {
    let current = task::current().cast::<Header>();
    // SAFETY: null, or a cell that `Claim::call` keeps for the time in which it is current.
    f(unsafe { current.as_ref() })
}

/// The task that this thread is in.
pub(super) fn current() -> Option<Ref> {
    let cell = NonNull::new(task::current().cast_mut().cast::<Header>())?;
    // Borrowed from `Claim::call`, which keeps it for the time in which it is current.
    let current = ManuallyDrop::new(Ref { cell });
    Some(Ref::clone(&current))
}
