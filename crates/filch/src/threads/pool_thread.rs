//! The work of a worker, for a thread that the program starts.

use super::current::remember;
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
    pub(super) life: Option<Life>,
}

/// The two alternatives for a worker.
pub(super) struct Life {
    pub(super) run: Box<dyn FnOnce() + Send>,
    /// Called if the worker gets no thread.
    pub(super) leave: Box<dyn FnOnce() + Send>,
}

impl PoolThread {
    /// The number of the worker.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The name that the thread should have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The configured stack size, in bytes.
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Makes this thread the worker until the pool is finished.
    pub fn run(mut self) {
        // The thread belongs to the program, and is used for other things afterwards.
        let _back = remember();
        if let Some(life) = self.life.take() {
            (life.run)();
        }
    }
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        if let Some(life) = self.life.take() {
            unwind::or_abort(life.leave);
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
