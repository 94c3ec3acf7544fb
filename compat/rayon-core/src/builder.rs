//! The settings of a pool.

use crate::{
    ThreadBuilder, ThreadPool, ThreadPoolBuildError, here, max_num_threads,
    registry::{Handler, PanicHandler, Registry, set_global},
    threads::{CustomSpawn, DefaultSpawn, ThreadSpawn},
};
use std::{any::Any, env, fmt, io, num::NonZero, thread};

/// The environment variable for the number of threads of a pool whose builder does not set it, and
/// its older name.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];

/// Searches of an idle thread before it sleeps, and searches between two yields of its core. They
/// are a tenth and a quarter of filch's defaults: in filch callers take part in the work, while
/// here they sleep and need a core to continue. `bench/results/0014-rayon-core.md` has the
/// measurements.
const SPIN_ROUNDS: u32 = 20;
const YIELD_EVERY: u32 = 4;

/// Builds a [`ThreadPool`], or configures the global one.
///
/// ```
/// use rayon_core::ThreadPoolBuilder;
///
/// let pool = ThreadPoolBuilder::new()
///     .num_threads(2)
///     .thread_name(|index| format!("render-{index}"))
///     .stack_size(8 << 20)
///     .build()?;
/// let name = pool.install(|| std::thread::current().name().map(String::from));
/// assert!(name.unwrap().starts_with("render-"));
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    num_threads: usize,
    use_current_thread: bool,
    thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    panic_handler: Option<PanicHandler>,
    start_handler: Option<Handler>,
    exit_handler: Option<Handler>,
    breadth_first: bool,
    spawn: S,
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self {
            num_threads: 0,
            use_current_thread: false,
            thread_name: None,
            stack_size: None,
            panic_handler: None,
            start_handler: None,
            exit_handler: None,
            breadth_first: false,
            spawn: DefaultSpawn,
        }
    }
}

impl ThreadPoolBuilder {
    /// The default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a pool on scoped threads, calls `with_pool` with it, and waits for the threads. Each
    /// thread runs `wrapper`, which may borrow, and which must call [`ThreadBuilder::run`].
    ///
    /// ```
    /// use rayon_core::ThreadPoolBuilder;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let started = AtomicUsize::new(0);
    /// let sum = ThreadPoolBuilder::new().num_threads(2).build_scoped(
    ///     |thread| {
    ///         started.fetch_add(1, Ordering::Relaxed);
    ///         thread.run();
    ///     },
    ///     |pool| pool.install(|| 1 + 1),
    /// )?;
    /// assert_eq!((sum, started.into_inner()), (2, 2));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        let wrapper = &wrapper;
        thread::scope(|threads| {
            let pool = self
                .spawn_handler(|thread| {
                    let mut builder = thread::Builder::new();
                    if let Some(name) = thread.name() {
                        builder = builder.name(name.to_owned());
                    }
                    if let Some(bytes) = thread.stack_size() {
                        builder = builder.stack_size(bytes);
                    }
                    builder
                        .spawn_scoped(threads, move || wrapper(thread))
                        .map(drop)
                })
                .build()?;
            Ok(with_pool(&pool))
        })
    }
}

/// `S` starts the threads: those of the standard library by default, or a [spawn
/// handler](Self::spawn_handler).
impl<S> ThreadPoolBuilder<S>
where
    S: ThreadSpawn,
{
    /// Starts a pool.
    ///
    /// # Errors
    /// If a thread cannot be started, or with `use_current_thread` on a thread that belongs to a
    /// pool already.
    pub fn build(mut self) -> Result<ThreadPool, ThreadPoolBuildError> {
        if self.use_current_thread && here::is_inside() {
            return Err(ThreadPoolBuildError::thread_taken());
        }
        let threads = self.threads();
        let registry = Registry::new(
            threads,
            threads - usize::from(self.use_current_thread),
            self.panic_handler.take(),
            self.start_handler.take(),
            self.exit_handler.take(),
        );
        let mut pool = filch::Pool::builder()
            .workers(threads)
            .spin_rounds(SPIN_ROUNDS)
            .yield_every(YIELD_EVERY);
        if self.use_current_thread {
            pool = pool.with_current_thread();
        }
        let mut failed = None;
        let built = pool.build_on(|thread| {
            let name = self.thread_name.as_mut().map(|name| name(thread.worker()));
            let thread = ThreadBuilder::new(name, self.stack_size, registry.clone(), thread);
            self.spawn.spawn(thread).map_err(|error| {
                let kind = error.kind();
                failed = Some(error);
                kind.into()
            })
        });
        let pool = built.map_err(|error| match failed {
            Some(error) => ThreadPoolBuildError::thread(error),
            // The thread belongs to a pool of filch.
            None if self.use_current_thread => ThreadPoolBuildError::thread_taken(),
            None => ThreadPoolBuildError::thread(io::Error::other(error)),
        })?;
        if self.use_current_thread {
            here::enter(&registry, 0);
        }
        Ok(ThreadPool::on(pool, registry))
    }

    /// Starts the global pool with these settings, and waits until its threads run.
    ///
    /// # Errors
    /// As [`build`](Self::build); also if the global pool has been started already.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        set_global(|| self.build()).unwrap_or_else(|| Err(ThreadPoolBuildError::global_started()))
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Uses `spawn` to start the threads: it is called with one [`ThreadBuilder`] at a time, and
    /// must [run](ThreadBuilder::run) each on a separate thread.
    ///
    /// ```
    /// use rayon_core::ThreadPoolBuilder;
    ///
    /// let pool = ThreadPoolBuilder::new()
    ///     .num_threads(2)
    ///     .spawn_handler(|thread| {
    ///         std::thread::Builder::new().name("mine".into()).spawn(|| thread.run())?;
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// let name = pool.install(|| std::thread::current().name().map(String::from));
    /// assert_eq!(name.as_deref(), Some("mine"));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder {
            num_threads: self.num_threads,
            use_current_thread: self.use_current_thread,
            thread_name: self.thread_name,
            stack_size: self.stack_size,
            panic_handler: self.panic_handler,
            start_handler: self.start_handler,
            exit_handler: self.exit_handler,
            breadth_first: self.breadth_first,
            spawn: CustomSpawn(spawn),
        }
    }

    /// Sets the names of the threads, by index.
    #[must_use]
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.thread_name = Some(Box::new(closure));
        self
    }

    /// Sets the number of threads. Zero, the default, uses the environment variable
    /// `RAYON_NUM_THREADS`, or else one thread per core that the process may use.
    #[must_use]
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the thread that builds the pool its first thread, with index 0, permanently. It runs
    /// tasks while it waits in [`join`](crate::join()), [`scope`](crate::scope()) and the like, and
    /// in [`yield_now`](crate::yield_now). The handlers do not run on it. Such a pool never ends.
    ///
    /// ```
    /// # std::thread::spawn(|| {
    /// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    /// assert_eq!(rayon_core::current_thread_index(), Some(0));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(()) }).join().unwrap()?;
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    #[must_use]
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Sets the handler of panics in detached tasks, as in [`spawn`](crate::spawn()). Without a
    /// handler, or if it panics itself, the process aborts.
    #[must_use]
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.panic_handler = Some(Box::new(panic_handler));
        self
    }

    /// Sets the stack size of each thread, in bytes.
    #[must_use]
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.stack_size = Some(stack_size);
        self
    }

    /// Formerly requested that the oldest tasks run first. It has no effect; use
    /// [`spawn_fifo`](crate::spawn_fifo()) and [`scope_fifo`](crate::scope_fifo()).
    #[must_use]
    #[deprecated(note = "use `spawn_fifo` and `scope_fifo`")]
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Sets a handler that is called on each thread with its index, before its first task. If it
    /// panics, the panic handler is called.
    #[must_use]
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.start_handler = Some(Box::new(start_handler));
        self
    }

    /// Sets a handler that is called on each thread with its index, after its last task. If it
    /// panics, the panic handler is called.
    #[must_use]
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.exit_handler = Some(Box::new(exit_handler));
        self
    }

    fn threads(&self) -> usize {
        let threads = match self.num_threads {
            0 => from_environment(|name| env::var(name).ok())
                .unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get)),
            threads => threads,
        };
        threads.min(max_num_threads())
    }
}

/// The number of threads set in the environment: the first variable that is a number. Zero means
/// unset.
fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let number = |name: &&str| variable(name)?.parse().ok();
    VARIABLES
        .iter()
        .find_map(number)
        .filter(|&threads| threads > 0)
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("stack_size", &self.stack_size)
            .field("breadth_first", &self.breadth_first)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::from_environment;

    #[test]
    fn the_environment_is_asked() {
        let with = |new: Option<&str>, old: Option<&str>| {
            from_environment(|name| {
                let value = if name == "RAYON_NUM_THREADS" {
                    new
                } else {
                    old
                };
                value.map(String::from)
            })
        };
        assert_eq!(with(None, None), None);
        assert_eq!(with(Some("3"), Some("4")), Some(3));
        assert_eq!(with(Some("many"), Some("4")), Some(4));
        assert_eq!(with(None, Some("4")), Some(4));
        assert_eq!(with(Some("0"), Some("4")), None);
        assert_eq!(with(Some("-1"), None), None);
    }
}
