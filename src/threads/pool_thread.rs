//! The life of a worker, for a thread that somebody else starts.

use super::current::remember;
use crate::base::unwind;
use std::fmt;

/// The life of one worker, in want of a thread: [`run`](Self::run) is to be called on a thread of its own, which
/// is that worker from then until the pool is finished.
///
/// [`PoolBuilder::build_on`](crate::PoolBuilder::build_on) gives one for each worker. One that is
/// dropped leaves a worker out: the others do its work, and a [`broadcast`](crate::Pool::broadcast)
/// panics, because it is for every worker. When the last one is dropped, the pool is as one without
/// threads, and what is queued runs right there.
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
    /// None when it has been used.
    pub(super) life: Option<Life>,
}

/// What can become of a worker.
pub(super) struct Life {
    pub(super) run: Box<dyn FnOnce() + Send>,
    /// It gets no thread.
    pub(super) leave: Box<dyn FnOnce() + Send>,
}

impl PoolThread {
    /// The number of the worker.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// What the thread should be called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stack that was asked for, in bytes.
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// This thread is the worker until the pool is finished.
    pub fn run(mut self) {
        // The thread is somebody else's, and will be something else.
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
