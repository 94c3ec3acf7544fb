//! Semaphores: limits on how many tasks of some kind may run at the same time.
//!
//! # The protocol
//!
//! A task takes all of its permits or none. It holds the locks of all its semaphores meanwhile, in
//! the order in which the semaphores were made. When a semaphore is short of permits, the task is
//! parked there, under that lock, and its strand ends. A worker that gives permits back then goes
//! through the tasks that are parked at these semaphores. Each of them takes all of its permits and
//! is queued, or is parked at a semaphore that is short now. So a task that is parked at a
//! semaphore was short there the last time a permit was given back to it.

use super::{
    build::{Graph, Parts, Task},
    error::GraphError,
    remote::{Halt, Remote},
    run::Run,
};
use crate::{
    base::{
        sync::{AtomicBool, Ordering},
        thread,
    },
    engine::Placement,
    pool::{context::WorkerContext, job::Job},
};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Limits how many tasks run at the same time: of one graph, or of all graphs that use a clone of
/// it.
///
/// A task that waits for a permit occupies no worker. It may need several semaphores; it takes all
/// permits at once, so the order in which they are named does not matter. The permits are given
/// back when the task is done, also after a panic. The order in which waiting tasks get permits is
/// unspecified.
///
/// ```
/// use filch::{Graph, graph::Semaphore};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let (tools, running) = (Semaphore::new(2), AtomicU32::new(0));
/// let graph = Graph::new();
/// for _ in 0..10 {
///     let task = graph.task("use a tool", || {
///         assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
///         running.fetch_sub(1, Ordering::SeqCst);
///     });
///     task.acquire([&tools]);
/// }
/// graph.plan()?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Semaphore {
    shared: Arc<SemaphoreShared>,
}

struct SemaphoreShared {
    /// The creation order of the semaphores, in which their locks are taken.
    number: u64,
    permits: usize,
    state: Mutex<SemaphoreState>,
}

struct SemaphoreState {
    free: usize,
    parked: VecDeque<Arc<Parked>>,
    /// The number of parked tasks at which those whose runs have been stopped are removed.
    sweep_at: usize,
}

/// Minimum number of parked tasks for a removal: fewer are not worth the pass.
const MIN_SWEEP: usize = 16;

impl SemaphoreState {
    /// Adds a task. Returns the tasks that need not wait any more. Otherwise they might stay for
    /// long, while runs are started and cancelled. The threshold doubles, so each task is checked
    /// about twice.
    fn park(&mut self, task: &Arc<Parked>) -> VecDeque<Arc<Parked>> {
        let mut gone = VecDeque::new();
        if self.parked.len() >= self.sweep_at {
            let all = std::mem::take(&mut self.parked).into_iter();
            (gone, self.parked) = all.partition(|task| task.is_gone());
            self.sweep_at = (2 * self.parked.len()).max(MIN_SWEEP);
        }
        self.parked.push_back(task.clone());
        gone
    }
}

/// The number of the newest semaphore. The order is not that of addresses, so that a rehearsal can
/// be replayed.
static LAST_NUMBER: Mutex<u64> = Mutex::new(0);

/// The permits that a task needs: semaphores in the order of their numbers.
pub(super) type Needs = Arc<[(Semaphore, usize)]>;

/// A task that waits for permits.
struct Parked {
    needs: Needs,
    remote: Arc<Remote>,
    /// Whether the task has been queued.
    gone: AtomicBool,
    /// The jobs that continue the task: with its permits, and without them when the run has been
    /// stopped.
    jobs: Mutex<Option<(Job, Job)>>,
    key: Mutex<Option<u64>>,
}

impl Parked {
    /// Claims the task. Returns true if the caller has to queue it.
    fn claim(&self) -> bool {
        // Relaxed: the jobs are handed over by a lock.
        !self.gone.swap(true, Ordering::Relaxed)
    }

    /// Whether the task has been queued. A hint: `claim` decides.
    fn is_gone(&self) -> bool {
        // Relaxed: as in `claim`.
        self.gone.load(Ordering::Relaxed)
    }

    fn take_jobs(&self) -> Option<(Job, Job)> {
        lock(&self.jobs).take()
    }
}

impl Halt for Parked {
    fn halt(self: Arc<Self>) {
        if self.claim()
            && let Some((_, stopped)) = self.take_jobs()
        {
            self.remote.send(stopped, false);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Semaphore {
    /// Creates a semaphore with this number of permits.
    ///
    /// # Panics
    /// If `permits` is zero: no task could ever run.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        assert!(permits > 0, "a semaphore needs a permit");
        let state = SemaphoreState {
            free: permits,
            parked: VecDeque::new(),
            sweep_at: MIN_SWEEP,
        };
        let number = {
            let mut next = lock(&LAST_NUMBER);
            *next += 1;
            *next
        };
        let shared = SemaphoreShared {
            number,
            permits,
            state: Mutex::new(state),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SemaphoreState> {
        lock(&self.shared.state)
    }

    fn number(&self) -> u64 {
        self.shared.number
    }

    /// Returns how many permits are free at present.
    #[must_use]
    pub fn available(&self) -> usize {
        self.lock().free
    }
}

impl Semaphore {
    /// Returns an identity, and the number of permits.
    pub(super) fn id_and_permits(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.shared).addr(), self.shared.permits)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.shared.permits)
            .field("available", &self.available())
            .field("waiting", &self.lock().parked.len())
            .finish()
    }
}

impl<'env> Graph<'env> {
    /// Limits `tasks` so that at most `n` of them run at the same time.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let tasks: Vec<_> = (0..10).map(|_| graph.task("", || ())).collect();
    /// graph.limit(tasks, 3);
    /// # graph.plan()?.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If `n` is zero, or a task belongs to another graph.
    pub fn limit<'g>(&'g self, tasks: impl IntoIterator<Item = Task<'g, 'env>>, n: usize)
    where
        'env: 'g,
    {
        let semaphore = Semaphore::new(n);
        for task in tasks {
            self.check_own(task);
            task.acquire([&semaphore]);
        }
    }
}

impl Task<'_, '_> {
    /// Makes the task run with a permit of each of these semaphores; with two if one is named
    /// twice. If a task needs more permits than a semaphore has, [`Graph::plan`] returns an error.
    pub fn acquire<'s>(self, semaphores: impl IntoIterator<Item = &'s Semaphore>) -> Self {
        let index = self.index();
        let mut parts = self.graph.parts();
        for semaphore in semaphores {
            parts.semaphores.push((index, semaphore.clone()));
        }
        drop(parts);
        self
    }
}

/// Returns the permits of each task, sorted by the tasks' numbers.
pub(super) fn needs(parts: &Parts) -> Result<Vec<(u32, Needs)>, GraphError> {
    let mut sorted = parts.semaphores.clone();
    sorted.sort_by_key(|(index, semaphore)| (*index, semaphore.number()));
    let mut all = Vec::new();
    for task in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let mut needs: Vec<(Semaphore, usize)> = Vec::new();
        for (_, semaphore) in task {
            match needs.last_mut() {
                Some((last, permits)) if last.number() == semaphore.number() => *permits += 1,
                _ => needs.push((semaphore.clone(), 1)),
            }
        }
        let index = task[0].0;
        if needs
            .iter()
            .any(|(semaphore, permits)| *permits > semaphore.shared.permits)
        {
            return Err(GraphError::permits(parts.names.of(index)));
        }
        all.push((index, needs.into()));
    }
    Ok(all)
}

/// Takes all permits, or none. When a semaphore is short of permits, parks `task` there, if one is
/// given, and returns the number of that semaphore.
fn take_all(needs: &Needs, task: Option<&Arc<Parked>>) -> Result<(), u64> {
    // Dropped after the locks are released: it may hold the last share of a pool.
    let mut _gone = VecDeque::new();
    thread::point();
    let mut states: Vec<_> = needs
        .iter()
        .map(|(semaphore, _)| semaphore.lock())
        .collect();
    let short = (0..needs.len()).find(|&at| states[at].free < needs[at].1);
    if let Some(short) = short {
        if let Some(task) = task {
            _gone = states[short].park(task);
        }
        return Err(needs[short].0.number());
    }
    for (state, (_, permits)) in states.iter_mut().zip(needs.iter()) {
        state.free -= permits;
    }
    Ok(())
}

/// Gives permits back, and queues the tasks that waited for them.
fn give_back(needs: &Needs, from: &Arc<Remote>, context: &WorkerContext<'_, '_>) {
    let mut given = vec![needs.clone()];
    while let Some(needs) = given.pop() {
        for (semaphore, permits) in needs.iter() {
            semaphore.lock().free += permits;
        }
        for (semaphore, _) in needs.iter() {
            let waiting = semaphore.lock().parked.len();
            thread::point();
            // Tries each parked task once: a task that is short here again goes to the end.
            for _ in 0..waiting {
                let mut state = semaphore.lock();
                if state.free == 0 {
                    break;
                }
                let Some(task) = state.parked.pop_front() else {
                    break;
                };
                drop(state);
                if let Some(back) = offer(&task, from, context) {
                    given.push(back);
                }
            }
        }
    }
}

/// Queues a parked task if all of its permits are free. Returns permits that were taken for a task
/// that does not need them any more.
fn offer(task: &Arc<Parked>, from: &Arc<Remote>, context: &WorkerContext<'_, '_>) -> Option<Needs> {
    if task.is_gone() || take_all(&task.needs, Some(task)).is_err() {
        return None;
    }
    thread::point();
    if !task.claim() {
        return Some(task.needs.clone());
    }
    if let Some(key) = lock(&task.key).take() {
        task.remote.forget(key);
    }
    if let Some((admitted, _)) = task.take_jobs() {
        if Arc::ptr_eq(&task.remote, from) && !context.is_guest() {
            context.push(admitted, Placement::Local);
        } else {
            task.remote.send(admitted, false);
        }
    }
    None
}

impl Run<'_> {
    fn needs(&self, index: u32) -> Option<&Needs> {
        let all = &self.shape.needs;
        let found = all.binary_search_by_key(&index, |(index, _)| *index);
        found.ok().map(|at| &all[at].1)
    }

    /// Takes the permits of a task. Returns false if it has been parked: it will be queued later.
    #[inline(always)]
    pub(super) fn acquire(&self, context: &WorkerContext<'_, '_>, index: u32) -> bool {
        self.shape.needs.is_empty() || self.acquire_all(context, index)
    }

    fn acquire_all(&self, context: &WorkerContext<'_, '_>, index: u32) -> bool {
        let Some(needs) = self.needs(index) else {
            return true;
        };
        if take_all(needs, None).is_ok() {
            return true;
        }
        self.hold(context);
        let remote = self.remote();
        let task = Arc::new(Parked {
            needs: needs.clone(),
            remote: remote.clone(),
            gone: AtomicBool::new(false),
            jobs: Mutex::new(Some((self.admitted_job(index), self.strand_job(index)))),
            key: Mutex::new(None),
        });
        // While the lock is held, no worker that queues the task can read the key before it is set.
        let mut key = lock(&task.key);
        *key = remote.suspend(task.clone());
        let stopped = key.is_none();
        drop(key);
        if stopped {
            self.unhold(context);
            self.cut();
            return false;
        }
        if take_all(needs, Some(&task)).is_err() {
            return false;
        }
        // The permits became free in the meantime.
        thread::point();
        if task.claim() {
            if let Some(key) = lock(&task.key).take() {
                remote.forget(key);
            }
            self.unhold(context);
            return true;
        }
        give_back(needs, remote, context);
        false
    }

    /// Gives back the permits of a task.
    #[inline(always)]
    pub(super) fn give_back(&self, context: &WorkerContext<'_, '_>, index: u32) {
        if !self.shape.needs.is_empty()
            && let Some(needs) = self.needs(index)
        {
            give_back(needs, self.remote(), context);
        }
    }
}
