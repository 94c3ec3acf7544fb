//! The life of a worker, for a thread that somebody else starts.

use super::current::remember;
use std::fmt;

/// The life of one worker, in want of a thread: [`run`](Self::run) is to be called on a thread of its own, which
/// is that worker from then until the pool is finished.
///
/// [`PoolBuilder::build_on`](crate::PoolBuilder::build_on) gives one for each worker. One that is dropped leaves a worker out:
/// the others do its work, but whatever waits for that very worker, such as a broadcast, waits for ever.
pub struct PoolThread {
    pub(super) worker: usize,
    pub(super) name: String,
    pub(super) stack_size: Option<usize>,
    pub(super) life: Box<dyn FnOnce() + Send>,
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
    pub fn run(self) {
        // The thread is somebody else's, and will be something else.
        let _back = remember();
        (self.life)();
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
