//! A job: a task of any kind behind two words.
#![expect(unsafe_code, reason = "erases the type of what it points to")]

use super::site::Site;

/// A pointer to something that can be run once, and the function that knows what it is.
///
/// Two words, so that the queues move it in two stores. Who makes a job says, at `Job::new`, why what it
/// points to is alive when the job runs; everything else about jobs is safe.
pub(crate) struct Job {
    data: *const (),
    run: unsafe fn(*const (), &Site<'_, '_>),
}

// SAFETY: `Job::new` asks for data that may be used from the thread that runs the job.
unsafe impl Send for Job {}

impl Job {
    /// # Safety
    /// `run(data, _)` must be sound to call once, from any worker of the pool, at any time until the job
    /// is run or taken back.
    #[inline(always)]
    pub(crate) unsafe fn new(data: *const (), run: unsafe fn(*const (), &Site<'_, '_>)) -> Self {
        Self { data, run }
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

    /// What it points to, if `run` is what it would be run with. (Two functions may have one address if they do the
    /// same; then they do the same with what it points to.)
    pub(crate) fn data(&self, run: unsafe fn(*const (), &Site<'_, '_>)) -> Option<*const ()> {
        std::ptr::fn_addr_eq(self.run, run).then_some(self.data)
    }

    /// Gives up the job for what it points to, if `run` is what it would be run with.
    pub(crate) fn take_data(
        self,
        run: unsafe fn(*const (), &Site<'_, '_>),
    ) -> Result<*const (), Self> {
        self.data(run).ok_or(self)
    }

    /// Runs it, once: a job cannot be cloned.
    #[inline(always)]
    pub(crate) fn run(self, site: &Site<'_, '_>) {
        // SAFETY: by the duty of `Job::new`; there is one `Job` for it, and it is gone now.
        unsafe { (self.run)(self.data, site) };
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Job").field(&self.data).finish()
    }
}
