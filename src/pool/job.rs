//! A job: a task of any kind behind two words.
#![expect(unsafe_code, reason = "erases the type of what it points to")]

use super::context::WorkerContext;

/// A pointer to something that can be run once, and the function that knows what it is.
///
/// Two words, so that the queues move it in two stores. Who makes a job says, at `Job::new`, why what it
/// points to is alive when the job runs; everything else about jobs is safe.
pub(crate) struct Job {
    data: *const (),
    run: unsafe fn(*const (), &WorkerContext<'_, '_>),
}

// SAFETY: `Job::new` asks for data that may be used from the thread that runs the job.
unsafe impl Send for Job {}

/// Set in the address of a [marked](Job::marked) job.
const MARK: usize = 0b100;

impl Job {
    /// # Safety
    /// `run(data, _)` must be sound to call once, from any worker of the pool, at any time until the job
    /// is run or taken back.
    #[inline(always)]
    pub(crate) unsafe fn new<T>(
        data: *const T,
        run: unsafe fn(*const (), &WorkerContext<'_, '_>),
    ) -> Self {
        const {
            assert!(
                align_of::<T>() > MARK,
                "the mark needs a bit of the address"
            );
        };
        let data = data.cast();
        Self { data, run }
    }

    /// A job that a face can tell from all others, by [`is_marked`](Self::is_marked). The marks are
    /// for tickets of submitted tasks; no other jobs have them.
    ///
    /// A mark in the address, because the function does not tell: one function may have several
    /// addresses, and several functions one address. The two lowest bits of the address are the
    /// caller's. `run` gets the address with all of them.
    ///
    /// # Safety
    /// As [`new`](Self::new), for the address with the mark. What `data` leads to is aligned to
    /// eight bytes.
    #[inline(always)]
    pub(crate) unsafe fn marked(
        data: *const (),
        run: unsafe fn(*const (), &WorkerContext<'_, '_>),
    ) -> Self {
        debug_assert!(data.addr() & MARK == 0, "what it leads to is aligned");
        let data = data.map_addr(|at| at | MARK);
        Self { data, run }
    }

    /// Whether it was made by [`marked`](Self::marked).
    #[inline(always)]
    pub(crate) fn is_marked(&self) -> bool {
        self.data.addr() & MARK != 0
    }

    /// Gives up the job for what it points to.
    #[inline(always)]
    pub(crate) fn into_data(self) -> *const () {
        self.data
    }

    /// Whether this job is the one that points to `data`.
    #[inline(always)]
    pub(crate) fn is_at<T>(&self, data: *const T) -> bool {
        std::ptr::eq(self.data, data.cast())
    }

    /// What it points to, whatever that is.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const () {
        self.data
    }

    /// Runs it, once: a job cannot be cloned.
    #[inline(always)]
    pub(crate) fn run(self, context: &WorkerContext<'_, '_>) {
        // SAFETY: by the duty of `Job::new`; there is one `Job` for it, and it is gone now.
        unsafe { (self.run)(self.data, context) };
    }
}

/// What a job points to, without the mark.
#[inline(always)]
pub(crate) fn unmarked(data: *const ()) -> *const () {
    data.map_addr(|at| at & !MARK)
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Job").field(&self.data).finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{Job, WorkerContext, unmarked};

    /// # Safety
    /// None.
    unsafe fn nothing(_: *const (), _: &WorkerContext<'_, '_>) {}

    /// The function does not tell one job from another; the mark does.
    #[test]
    fn a_mark_is_told_by_the_address_alone() {
        let data = 7_u64;
        let at = &raw const data;
        // SAFETY: what is run does nothing.
        let plain = unsafe { Job::new(at, nothing) };
        // SAFETY: as above.
        let marked = unsafe { Job::marked(at.cast(), nothing) };
        assert!(!plain.is_marked() && marked.is_marked());
        assert!(plain.is_at(at) && !marked.is_at(at));
        assert_eq!(plain.into_data(), at.cast());
        assert_eq!(unmarked(marked.into_data()), at.cast());
    }
}
