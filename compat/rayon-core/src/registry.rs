//! The state shared by the threads and the handle of a pool.

use crate::{ThreadPool, ThreadPoolBuilder, here};
use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
};

pub(crate) type Payload = Box<dyn Any + Send>;
pub(crate) type PanicHandler = Box<dyn Fn(Payload) + Send + Sync>;
pub(crate) type Handler = Box<dyn Fn(usize) + Send + Sync>;
type Task = Box<dyn FnOnce() + Send>;

/// The handlers and FIFO queues of a pool.
pub(crate) struct Registry {
    /// One queue of `spawn_fifo` tasks per thread, and a last one for tasks from outside. The
    /// pool's own queues hold a closure per task that pops and runs the oldest one.
    lines: Box<[Mutex<VecDeque<Task>>]>,
    panic_handler: Option<PanicHandler>,
    pub(crate) start_handler: Option<Handler>,
    pub(crate) exit_handler: Option<Handler>,
    /// Threads other than the builder's own that have not started yet.
    to_start: Mutex<usize>,
    all_started: Condvar,
}

impl Registry {
    pub(crate) fn new(
        num_threads: usize,
        to_start: usize,
        panic_handler: Option<PanicHandler>,
        start_handler: Option<Handler>,
        exit_handler: Option<Handler>,
    ) -> Arc<Self> {
        Arc::new(Self {
            lines: (0..=num_threads).map(|_| Mutex::default()).collect(),
            panic_handler,
            start_handler,
            exit_handler,
            to_start: Mutex::new(to_start),
            all_started: Condvar::new(),
        })
    }

    pub(crate) fn num_threads(&self) -> usize {
        self.lines.len() - 1
    }

    fn line(&self, index: usize) -> MutexGuard<'_, VecDeque<Task>> {
        self.lines[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues `task` in the FIFO queue of the thread `index`, or in the one for threads outside,
    /// and returns the closure to spawn for it.
    pub(crate) fn line_up(
        self: Arc<Self>,
        index: Option<usize>,
        task: Task,
    ) -> impl FnOnce() + Send + 'static {
        let index = index.unwrap_or(self.num_threads());
        self.line(index).push_back(task);
        move || {
            let oldest = self.line(index).pop_front();
            oldest.expect("there are as many turns as tasks")();
        }
    }

    /// Records that a thread has started.
    pub(crate) fn record_start(&self) {
        let mut to_start = self.to_start.lock().unwrap_or_else(PoisonError::into_inner);
        *to_start -= 1;
        if *to_start == 0 {
            self.all_started.notify_all();
        }
    }

    /// Blocks until all threads other than the builder's own have started.
    pub(crate) fn wait_for_start(&self) {
        let to_start = self.to_start.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.all_started.wait_while(to_start, |n| *n > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Handles a panic of a detached task.
    fn panicked(&self, payload: Payload) {
        let handled = self
            .panic_handler
            .as_ref()
            .map(|handler| catch_unwind(AssertUnwindSafe(|| handler(payload))));
        match handled {
            Some(Ok(())) => {}
            Some(Err(_)) => abort("the panic handler of a thread pool panicked"),
            None => abort("a detached task panicked, and there is no panic handler"),
        }
    }
}

fn abort(why: &str) -> ! {
    eprintln!("rayon-core (filch): {why}; aborting");
    process::abort();
}

/// Runs detached user code and handles its panics.
pub(crate) fn guard(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        match here::registry() {
            Some(registry) => registry.panicked(payload),
            None => global().registry().panicked(payload),
        }
    }
}

static GLOBAL: OnceLock<ThreadPool> = OnceLock::new();
/// Held while the global pool is being built.
static BUILDING: Mutex<()> = Mutex::new(());

/// The pool for calls that name no pool and are made outside of any.
#[inline]
pub(crate) fn global() -> &'static ThreadPool {
    GLOBAL.get().unwrap_or_else(|| start_global())
}

#[cold]
fn start_global() -> &'static ThreadPool {
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    GLOBAL.get_or_init(|| match ThreadPoolBuilder::new().build() {
        Ok(pool) => pool,
        Err(error) => panic!("the global thread pool could not be started: {error}"),
    })
}

/// Makes the pool of `build` the global one; returns `None` if there is one already.
pub(crate) fn set_global<E>(
    build: impl FnOnce() -> Result<ThreadPool, E>,
) -> Option<Result<(), E>> {
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if GLOBAL.get().is_some() {
        return None;
    }
    Some(build().map(|pool| {
        let pool = GLOBAL.get_or_init(|| pool);
        pool.registry().wait_for_start();
    }))
}

/// The maximum number of threads of a pool. Larger numbers are reduced to it.
///
/// ```
/// assert!(rayon_core::max_num_threads() >= 1024);
/// ```
#[must_use]
pub fn max_num_threads() -> usize {
    filch::Pool::MAX_WORKERS
}

/// The number of threads of the current pool, or of the global one outside of any pool, which is
/// started if necessary.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(3).build()?;
/// assert_eq!(pool.install(rayon_core::current_num_threads), 3);
/// assert!(rayon_core::current_num_threads() >= 1);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
#[must_use]
#[inline]
pub fn current_num_threads() -> usize {
    match here::get() {
        Some(here) => here.num_threads,
        None => global().current_num_threads(),
    }
}

/// The index of this thread in its pool: below [`current_num_threads`], and constant for the
/// lifetime of the thread. `None` on a thread outside of any pool.
///
/// ```
/// use rayon_core::{current_thread_index, join};
///
/// assert_eq!(current_thread_index(), None);
/// let (a, b) = join(current_thread_index, current_thread_index);
/// assert!(a.unwrap() < rayon_core::current_num_threads() && b.is_some());
/// ```
#[must_use]
#[inline]
pub fn current_thread_index() -> Option<usize> {
    here::get().map(|here| here.index)
}

/// Whether this thread's own queue has tasks; `None` on a thread outside of any pool.
///
/// ```
/// assert_eq!(rayon_core::current_thread_has_pending_tasks(), None);
/// ```
#[must_use]
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    here::is_inside().then(filch::has_local_tasks)
}
