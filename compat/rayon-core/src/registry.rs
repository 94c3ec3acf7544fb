//! What the threads and the handle of a pool share.

use crate::{ThreadPool, ThreadPoolBuilder, here};
use filch::base::latch::Latch;
use std::{
    any::Any,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

pub(crate) type Payload = Box<dyn Any + Send>;
pub(crate) type PanicHandler = Box<dyn Fn(Payload) + Send + Sync>;
pub(crate) type Handler = Box<dyn Fn(usize) + Send + Sync>;
type Task = Box<dyn FnOnce() + Send>;

/// See the module.
pub(crate) struct Registry {
    /// For each thread its tasks of `spawn_fifo`, in their order, and behind them those from outside. What is in the
    /// pool's queues is a turn, which takes the oldest.
    lines: Box<[Mutex<VecDeque<Task>>]>,
    panic_handler: Option<PanicHandler>,
    pub(crate) start_handler: Option<Handler>,
    pub(crate) exit_handler: Option<Handler>,
    /// Opens when all threads that are not the user's own have started.
    pub(crate) started: Latch,
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
            started: Latch::new(to_start),
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

    /// Puts `task` into the line of the thread `index`, or of those outside, and gives the turn that belongs to it.
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

    /// A panic that nobody waits for.
    fn panicked(&self, payload: Payload) {
        let handled = self
            .panic_handler
            .as_ref()
            .map(|handler| catch_unwind(AssertUnwindSafe(|| handler(payload))));
        match handled {
            Some(Ok(())) => {}
            Some(Err(_)) => abort("the panic handler of a thread pool panicked"),
            None => abort("a task panicked that nobody waits for, and there is no panic handler"),
        }
    }
}

fn abort(why: &str) -> ! {
    eprintln!("rayon-core (filch): {why}; aborting");
    process::abort();
}

/// Runs the user's code where nobody waits for it.
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

/// The pool for everything that names none and happens outside of any.
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

/// Makes the pool of `build` the global one; `None` when there is one.
pub(crate) fn set_global<E>(
    build: impl FnOnce() -> Result<ThreadPool, E>,
) -> Option<Result<(), E>> {
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if GLOBAL.get().is_some() {
        return None;
    }
    Some(build().map(|pool| {
        let pool = GLOBAL.get_or_init(|| pool);
        pool.registry().started.wait();
    }))
}

/// How many threads a pool can have. Larger wishes are cut down to it.
///
/// ```
/// assert!(rayon_core::max_num_threads() >= 1024);
/// ```
#[must_use]
pub fn max_num_threads() -> usize {
    filch::Pool::MAX_WORKERS
}

/// How many threads the pool has that this thread works for, else the global one, which is started for this
/// if need be.
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

/// The index of this thread in the pool that it works for: below [`current_num_threads`], and the same for as long as the
/// thread lives. `None` on any other thread.
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

/// Whether there are tasks in this thread's own queue; `None` on a thread that works for no pool.
///
/// ```
/// assert_eq!(rayon_core::current_thread_has_pending_tasks(), None);
/// ```
#[must_use]
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    here::is_inside().then(filch::has_local_tasks)
}
