//! The deprecated interface for configuring pools.
#![expect(deprecated, reason = "all of it is")]

use crate::{ThreadPool, ThreadPoolBuilder};
use std::{any::Any, error::Error};

/// The deprecated builder. [`ThreadPoolBuilder`] has the same settings.
#[deprecated(note = "use `ThreadPoolBuilder`")]
#[derive(Debug, Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

/// Configures the global pool.
///
/// # Errors
/// If it has been started already, or a thread cannot be started.
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
pub fn initialize(config: Configuration) -> Result<(), Box<dyn Error>> {
    Ok(config.builder.build_global()?)
}

impl Configuration {
    /// The default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a pool.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        Ok(self.builder.build()?)
    }

    /// See [`ThreadPoolBuilder::thread_name`].
    #[must_use]
    pub fn thread_name<F>(self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.map(|builder| builder.thread_name(closure))
    }

    /// See [`ThreadPoolBuilder::num_threads`].
    #[must_use]
    pub fn num_threads(self, num_threads: usize) -> Self {
        self.map(|builder| builder.num_threads(num_threads))
    }

    /// See [`ThreadPoolBuilder::panic_handler`].
    #[must_use]
    pub fn panic_handler<H>(self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.map(|builder| builder.panic_handler(panic_handler))
    }

    /// See [`ThreadPoolBuilder::stack_size`].
    #[must_use]
    pub fn stack_size(self, stack_size: usize) -> Self {
        self.map(|builder| builder.stack_size(stack_size))
    }

    /// See [`ThreadPoolBuilder::breadth_first`].
    #[must_use]
    pub fn breadth_first(self) -> Self {
        self.map(ThreadPoolBuilder::breadth_first)
    }

    /// See [`ThreadPoolBuilder::start_handler`].
    #[must_use]
    pub fn start_handler<H>(self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.map(|builder| builder.start_handler(start_handler))
    }

    /// See [`ThreadPoolBuilder::exit_handler`].
    #[must_use]
    pub fn exit_handler<H>(self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.map(|builder| builder.exit_handler(exit_handler))
    }

    fn map(self, set: impl FnOnce(ThreadPoolBuilder) -> ThreadPoolBuilder) -> Self {
        Self {
            builder: set(self.builder),
        }
    }
}
