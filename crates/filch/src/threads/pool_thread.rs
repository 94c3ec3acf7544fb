//! The work of a worker, for a thread that the program starts.

use super::current::restore_place_later;
use crate::base::unwind;
use std::fmt;

/// The work of one worker that has no thread yet: [`run`](Self::run) must be called on a separate
/// thread, which is that worker from then until the pool is finished.
///
/// [`PoolBuilder::build_on`](crate::PoolBuilder::build_on) provides one for each worker. Dropping
/// one leaves its worker out: the other workers do its work, and a
/// [`broadcast`](crate::Pool::broadcast) panics, because it is for every worker. When the last one
/// is dropped, the pool behaves like one without threads, and what is queued runs on the dropping
/// thread.
///
/// ```
/// use filch::Pool;
///
/// let pool = Pool::builder().workers(1).build_on(|thread| Ok(drop(thread)))?;
/// assert_eq!(pool.on_worker(|| 1), 1); // here: there is no other thread
/// # Ok::<(), filch::BuildError>(())
/// ```
pub struct PoolThread {
    pub(super) worker: usize,
    pub(super) name: String,
    pub(super) stack_size: Option<usize>,
    /// `None` when it has been used.
    pub(super) calls: Option<ThreadCalls>,
}

/// The two alternatives for a worker.
pub(super) struct ThreadCalls {
    pub(super) run: Box<dyn FnOnce() + Send>,
    /// Called if the worker gets no thread.
    pub(super) leave: Box<dyn FnOnce() + Send>,
}

impl PoolThread {
    /// The number of the worker.
    ///
    /// ```
    /// use std::sync::Mutex;
    ///
    /// let numbers = Mutex::new(vec![]);
    /// let pool = filch::Pool::builder().workers(2).build_on(|thread| {
    ///     numbers.lock().unwrap().push(thread.worker());
    ///     std::thread::spawn(|| thread.run());
    ///     Ok(())
    /// })?;
    /// assert_eq!(numbers.into_inner().unwrap(), [0, 1]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The name that the thread should have.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build_on(|thread| {
    ///     assert_eq!(thread.name(), "filch-0");
    ///     let builder = std::thread::Builder::new().name(thread.name().to_owned());
    ///     builder.spawn(|| thread.run()).map(drop)
    /// })?;
    /// let name = pool.on_worker(|| std::thread::current().name().map(str::to_owned));
    /// assert_eq!(name.as_deref(), Some("filch-0"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The configured stack size, in bytes.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).stack_size(1 << 20).build_on(|thread| {
    ///     let mut builder = std::thread::Builder::new();
    ///     if let Some(bytes) = thread.stack_size() {
    ///         assert_eq!(bytes, 1 << 20);
    ///         builder = builder.stack_size(bytes);
    ///     }
    ///     builder.spawn(|| thread.run()).map(drop)
    /// })?;
    /// assert_eq!(pool.on_worker(|| 1), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Makes this thread the worker until the pool is finished.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build_on(|thread| {
    ///     // A thread with a priority of its own, or one that a runtime has prepared.
    ///     std::thread::spawn(|| thread.run());
    ///     Ok(())
    /// })?;
    /// assert_eq!(pool.on_worker(filch::current_worker), Some(0));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn run(mut self) {
        // The thread belongs to the program, and is used for other things afterwards.
        let _back = restore_place_later();
        if let Some(calls) = self.calls.take() {
            (calls.run)();
        }
    }
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        if let Some(calls) = self.calls.take() {
            unwind::or_abort(calls.leave);
        }
    }
}

impl fmt::Debug for PoolThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolThread")
            .field("worker", &self.worker)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}
