//! The handle's side of a task.
#![expect(unsafe_code, reason = "takes the outcome, stores a waker")]

use super::{
    Cause, TaskStatus,
    header::{CellKind, Header, TaskRef},
    state::HandleDropped,
    waker::drop_waker,
};
use crate::{base::unwind::Payload, pool::NO_POOL};
use std::{
    marker::PhantomData,
    mem::{self, ManuallyDrop, MaybeUninit},
    ptr::NonNull,
    task::Waker,
};

/// The outcome as a handle takes it.
#[derive(Debug)]
pub(crate) enum TaskOutcome<T> {
    Value(T),
    Panic(Payload),
    Cancelled(Cause),
}

/// A kind of tasks that have handles.
pub(crate) trait Joinable: CellKind {
    /// Reports a panic that no waiter has taken to the pool of this number.
    fn report_panic(pool: u32, payload: Payload);
}

/// The handle's side of a task: there is one, and it receives the outcome.
pub(crate) struct JoinRef<K: Joinable, T> {
    task: ManuallyDrop<TaskRef<K>>,
    /// The number of the task's pool; `NO_POOL` after the outcome has been taken, when the number
    /// is not needed any more. A separate flag would make this three fields, which are passed in
    /// memory instead of in two registers.
    pool: u32,
    outcome: PhantomData<fn() -> T>,
}

impl<K: Joinable, T> JoinRef<K, T> {
    /// Creates the handle's side of a new task of the pool of this number.
    ///
    /// # Safety
    /// The state word has counted the handle, this is its only side, and `T` is the type of the
    /// task's value.
    #[inline]
    pub(crate) unsafe fn new(cell: NonNull<Header<K>>, pool: u32) -> Self {
        debug_assert_ne!(pool, NO_POOL);
        Self {
            // SAFETY: the caller guarantees that the reference of the handle is counted and unused.
            task: ManuallyDrop::new(unsafe { TaskRef::from_counted(cell) }),
            pool,
            outcome: PhantomData,
        }
    }

    pub(crate) fn task(&self) -> &TaskRef<K> {
        &self.task
    }

    /// Returns the number of the task's pool. The outcome must not have been taken.
    pub(crate) fn pool(&self) -> u32 {
        debug_assert!(!self.is_taken());
        self.pool
    }

    /// Registers `waker`, which is woken when the task is done. Returns false when it is done
    /// already.
    pub(crate) fn register_waker(&mut self, waker: &Waker) -> bool {
        let header = &**self.task;
        let now = header.snapshot();
        if now.is_done() || now.is_waiting() && !header.state.clear_waiting() {
            return false;
        }
        // SAFETY: from here to `TaskState::set_waiting` the waker belongs to the handle, as the
        // field describes.
        let known = header
            .waker
            .with(|slot| unsafe { (*slot).as_ref().is_some_and(|known| known.will_wake(waker)) });
        if !known {
            let waker = waker.clone();
            drop_waker(self.replace_waker(Some(waker)));
        }
        if self.task.state.set_waiting() {
            return true;
        }
        drop_waker(self.replace_waker(None));
        false
    }

    /// Replaces the waker. Must be called only while the waker belongs to the handle.
    fn replace_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.task.waker.with_mut(|slot| {
            // SAFETY: the callers are where the field's comment assigns the waker to the handle.
            mem::replace(unsafe { &mut *slot }, waker)
        })
    }

    /// Returns the outcome, once, if the task is done.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TaskOutcome<T>> {
        if self.is_taken() {
            return None;
        }
        let status = self.task.snapshot().status()?;
        self.pool = NO_POOL;
        Some(match status {
            TaskStatus::Succeeded => {
                let mut value = MaybeUninit::<T>::uninit();
                let (cell, to) = (self.task.pointer(), value.as_mut_ptr().cast());
                // SAFETY: the task is done, so the value belongs to the handle, of which there is
                // one, and which takes it once. `value` has the output type of this handle.
                unsafe { (self.task.vtable.take_value)(cell, to) };
                // SAFETY: `take_value` has initialised it with a value of this type.
                TaskOutcome::Value(unsafe { value.assume_init() })
            }
            // SAFETY: the task is done, so the panic belongs to the handle, which takes it once.
            TaskStatus::Panicked => TaskOutcome::Panic(unsafe { self.task.take_panic() }),
            TaskStatus::Cancelled(cause) => TaskOutcome::Cancelled(cause),
        })
    }

    /// Whether the outcome has been taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.pool == NO_POOL
    }

    /// Releases the handle's side. Returns a panic that was never taken, or that of a drop.
    ///
    /// # Safety
    /// `self` is not used after this.
    #[inline]
    unsafe fn drop_handle(&mut self) -> Option<Payload> {
        // SAFETY: the reference keeps the memory. Only the word is borrowed, since with
        // `HandleDropped::Released` another thread may free the cell at once.
        let state = unsafe { &(*self.task.pointer().as_ptr()).state };
        let payload = match state.drop_handle() {
            HandleDropped::Released => return None,
            HandleDropped::OwnsWaker => {
                drop_waker(self.replace_waker(None));
                None
            }
            HandleDropped::OwnsOutcome(_) if self.is_taken() => None,
            // SAFETY: the task is done and the outcome was not taken, so it belongs to the handle.
            HandleDropped::OwnsOutcome(status) => unsafe {
                (self.task.vtable.drop_outcome)(self.task.pointer(), status)
            },
        };
        // SAFETY: the reference belongs to the handle and is released once: the caller guarantees
        // that `self` is not used after this.
        drop(unsafe { ManuallyDrop::take(&mut self.task) });
        payload
    }
}

impl<K: Joinable, T> Drop for JoinRef<K, T> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used after its drop.
        if let Some(payload) = unsafe { self.drop_handle() } {
            K::report_panic(self.pool, payload);
        }
    }
}
