//! The futures of a pool on the task protocol.
#![expect(
    unsafe_code,
    reason = "makes cells, and assigns the fields of a header"
)]

mod run;

pub(super) use run::ScheduledFuture;

use crate::{
    base::{
        sync::UnsafeCell,
        unwind::{self, Payload},
    },
    engine::Priority,
    pool::{
        Inner,
        residents::{ResidentLink, ResidentShard},
    },
    task::{self, CellKind, JoinRef, Joinable, PollBody, Schedule, TaskRef, TaskState},
};
use std::ptr;

/// The header of a future of a pool.
type FutureHeader = task::Header<Resident>;

/// A counted reference to a future.
pub(super) type FutureRef = TaskRef<Resident>;

/// What a future of a pool has in its header: its link in a list of residents.
pub(super) struct Resident {
    link: ResidentLink,
    /// The list that the future is linked in; null before that. Written by the thread that polls
    /// it, before it is idle for the first time; read by the owners of the future after that.
    shard: UnsafeCell<*const ResidentShard<Inner>>,
}

// SAFETY: the link is used under the lock of its list, or by the thread that evicted the future;
// `shard` is used by one thread at a time, the owner of the future.
unsafe impl Send for Resident {}
// SAFETY: as for `Send`: each field is used by one thread at a time.
unsafe impl Sync for Resident {}

impl CellKind for Resident {
    type Run = PollBody<Self>;
    // A million futures may wait, and few of them are polled at the same time.
    const WHOLE_LINES: bool = false;
}

impl Joinable for Resident {
    fn report_panic(pool: u32, payload: Payload) {
        match Inner::find(pool) {
            Some(pool) => pool.panicked(payload),
            None => unwind::discard(payload),
        }
    }
}

/// The cell of a future of one machine word fits the smallest block.
#[cfg(all(target_pointer_width = "64", not(filch_loom)))]
const _: () = assert!(size_of::<FutureHeader>() <= 7 * size_of::<usize>());

/// Allocates a cell for a future of the pool of this number, which is queued at `level`. Returns
/// its handle, and the future to queue.
///
/// # Safety
/// The future and its output may be used and dropped by other threads than this one, unless the
/// caller ensures that they are not. What they borrow must live until the future is done and its
/// outcome dropped.
#[inline]
pub(super) unsafe fn make<F: Future>(
    pool: u32,
    level: Priority,
    future: F,
) -> (JoinRef<Resident, F::Output>, ScheduledFuture) {
    let kind = Resident {
        link: ResidentLink::new(),
        shard: UnsafeCell::new(ptr::null()),
    };
    // SAFETY: the caller guarantees what `make_future` requires of the future.
    let cell = unsafe { task::make_future(TaskState::new(level), kind, future) };
    // SAFETY: `TaskState::new` has counted the handle, and the value is that of the future.
    let join = unsafe { JoinRef::new(cell, pool) };
    // The second reference is that of the future itself.
    (join, ScheduledFuture { cell })
}

impl FutureRef {
    /// Requests the end of the future: it is not polled again. If it is idle, it is queued, to be
    /// dropped.
    pub(super) fn cancel(&self) {
        if self.state.cancel_future() {
            // SAFETY: `cancel_future` has returned true, so this thread owns the future.
            unsafe { Resident::schedule(self.pointer()) };
        }
    }
}
