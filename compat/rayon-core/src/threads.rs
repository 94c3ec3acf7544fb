//! Starting the threads of a pool.

use crate::{
    here,
    registry::{Handler, Registry, guard},
};
use filch::PoolThread;
use std::{fmt, io, sync::Arc, thread};

/// A thread of a pool that is to be started, passed to a [spawn
/// handler](crate::ThreadPoolBuilder::spawn_handler).
pub struct ThreadBuilder {
    name: Option<String>,
    stack_size: Option<usize>,
    registry: Arc<Registry>,
    thread: PoolThread,
}

impl ThreadBuilder {
    pub(crate) fn new(
        name: Option<String>,
        stack_size: Option<usize>,
        registry: Arc<Registry>,
        thread: PoolThread,
    ) -> Self {
        Self {
            name,
            stack_size,
            registry,
            thread,
        }
    }

    /// The index of the thread in its pool.
    #[must_use]
    pub fn index(&self) -> usize {
        self.thread.worker()
    }

    /// The name for the thread, if one was set.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The stack size for the thread in bytes, if one was set.
    #[must_use]
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs the worker. Returns when the pool was dropped and all of its tasks have run.
    pub fn run(self) {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                here::leave();
            }
        }
        let index = self.index();
        here::enter(&self.registry, index);
        let _leave = Leave;
        self.registry.record_start();
        call(self.registry.start_handler.as_ref(), index);
        self.thread.run();
        call(self.registry.exit_handler.as_ref(), index);
    }
}

/// Calls a handler of the user's. The thread does not run its worker yet, or any more, but the
/// handler may call functions of the pool: they run in a pool without other workers.
fn call(handler: Option<&Handler>, index: usize) {
    let Some(handler) = handler else {
        return;
    };
    guard(|| match filch::Pool::builder().workers(0).build() {
        Ok(alone) => alone.install(|| handler(index)),
        Err(error) => unreachable!("a pool without threads can always be built: {error}"),
    });
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index())
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

/// Starts the threads of a pool.
pub trait ThreadSpawn {
    /// Starts one thread, which must call [`ThreadBuilder::run`].
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// Starts threads of the standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        let mut builder = thread::Builder::new();
        if let Some(name) = thread.name() {
            builder = builder.name(name.to_owned());
        }
        if let Some(bytes) = thread.stack_size() {
            builder = builder.stack_size(bytes);
        }
        builder.spawn(|| thread.run()).map(drop)
    }
}

/// Starts threads by a closure of the user's.
pub struct CustomSpawn<F>(pub(crate) F);

impl<F> ThreadSpawn for CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}

impl<F> fmt::Debug for CustomSpawn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomSpawn").finish_non_exhaustive()
    }
}
