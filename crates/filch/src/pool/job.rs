//! A job: a type-erased task of two words.
#![expect(unsafe_code, reason = "erases the type of what it points to")]

pub(crate) use super::inner::Job;

use super::inner::WorkerContext;

/// Set in the address of a [tagged](Job::tagged) job.
const TAG: usize = 0b100;

/// Set in the address of a job that is a [detached closure](super::heap::alloc_detached_job), if it
/// is not tagged.
pub(super) const DETACHED: usize = 0b010;

/// Set in the address of a job in a [shared block](super::heap::alloc_shared_job), if it is not
/// tagged.
pub(super) const SHARED: usize = 0b001;

impl Job {
    /// # Safety
    /// `run(data, _)` must be sound to call once, from any worker of the pool, at any time until
    /// the job is run or taken back.
    #[inline(always)]
    pub(crate) unsafe fn new<T>(
        data: *const T,
        run: unsafe fn(*const (), &WorkerContext<'_, '_>),
    ) -> Self {
        const {
            assert!(align_of::<T>() > TAG, "the tag needs a bit of the address");
        };
        // SAFETY: the caller guarantees that `run` may be called with `data`, as `erased` requires.
        unsafe { Self::erased(data.cast(), run) }
    }

    /// Makes a job that can be distinguished from all others, by [`is_tagged`](Self::is_tagged).
    /// The tags are for tickets of submitted tasks; no other jobs have them.
    ///
    /// The tag is in the address, because the function is no distinction: one function may have
    /// several addresses, and several functions one address. The two lowest bits of the address
    /// belong to the caller. `run` gets the address with all of them.
    ///
    /// # Safety
    /// As [`new`](Self::new), for the address with the tag. What `data` points to, without the
    /// caller's bits, is aligned to eight bytes.
    #[inline(always)]
    pub(crate) unsafe fn tagged(
        data: *const (),
        run: unsafe fn(*const (), &WorkerContext<'_, '_>),
    ) -> Self {
        debug_assert!(data.addr() & TAG == 0, "what it leads to is aligned");
        let data = data.map_addr(|at| at | TAG);
        // SAFETY: the caller guarantees that `run` may be called with the address with the tag.
        unsafe { Self::erased(data, run) }
    }

    /// Whether the job was made by [`tagged`](Self::tagged).
    #[inline(always)]
    pub(crate) fn is_tagged(&self) -> bool {
        self.address().addr() & TAG != 0
    }

    /// Whether the job is a task of the user that may wait for any other: a submitted task, or a
    /// detached closure.
    #[inline(always)]
    pub(super) fn may_wait(&self) -> bool {
        self.address().addr() & (TAG | DETACHED) != 0
    }

    /// Consumes the job and returns what it points to.
    #[inline(always)]
    pub(crate) fn into_data(self) -> *const () {
        self.address()
    }

    /// Whether this job is the one that points to `data`.
    #[inline(always)]
    pub(crate) fn is_at<T>(&self, data: *const T) -> bool {
        std::ptr::eq(self.address(), data.cast())
    }
}

/// Returns what a job points to, without the tag.
#[inline(always)]
pub(crate) fn untagged(data: *const ()) -> *const () {
    data.map_addr(|at| at & !TAG)
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Job").field(&self.address()).finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{Job, WorkerContext, untagged};

    /// # Safety
    /// None.
    unsafe fn nothing(_: *const (), _: &WorkerContext<'_, '_>) {}

    /// The function does not distinguish one job from another; the tag does.
    #[test]
    fn the_address_alone_determines_the_mark() {
        let data = 7_u64;
        let at = &raw const data;
        // SAFETY: `nothing` does not use its arguments, so every call is sound.
        let plain = unsafe { Job::new(at, nothing) };
        // SAFETY: `nothing` does not use its arguments, and a `u64` is aligned to eight bytes here.
        let tagged = unsafe { Job::tagged(at.cast(), nothing) };
        assert!(!plain.is_tagged() && tagged.is_tagged());
        assert!(plain.is_at(at) && !tagged.is_at(at));
        assert_eq!(plain.into_data(), at.cast());
        assert_eq!(untagged(tagged.into_data()), at.cast());
    }
}
