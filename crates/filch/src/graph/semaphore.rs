//! Tasks that need units of semaphores, and wait for them without a worker.
//!
//! # The protocol
//!
//! A strand takes all units of its next task or none. If it has to wait, the task is *parked*: it
//! enters the queues of its semaphores, as threads and futures do, and the strand ends. The thread
//! that grants the units queues the task again. A run that is stopped removes its parked tasks from
//! the queues. The locks of the queues decide which of the two continues a task.

use super::{
    build::{Graph, Task},
    control::{OnStop, RunControl},
    error::{GraphError, TaskFault},
    plan::GraphParts,
    run::GraphRun,
};
use crate::{
    base::thread,
    engine::Placement,
    pool::{context::WorkerContext, job::Job},
    semaphore::{self, AcquireOutcome, Continuation, EnterResult, Notify, Semaphore, Wants},
};
use std::{
    cell::Cell,
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

thread_local! {
    /// The run whose task gives units back on this thread, or null; only for comparison.
    static RELEASING_RUN: Cell<*const RunControl> = const { Cell::new(ptr::null()) };
}

/// A task that waits for units.
struct ParkedTask {
    needs: Wants,
    control: Arc<RunControl>,
    /// The jobs that continue the task: with its units, and without them when it was refused or
    /// when the run has been stopped.
    jobs: Mutex<Option<(Job, Job)>>,
    registration: Mutex<Option<ParkedRegistration>>,
}

/// Where a parked task is registered.
struct ParkedRegistration {
    /// In the queues of its semaphores.
    ticket: u64,
    /// In the callbacks of its run, for when that is stopped.
    key: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ParkedTask {
    fn queue(&self, is_admitted: bool) {
        let Some((admitted, stopped)) = lock(&self.jobs).take() else {
            return;
        };
        let job = if is_admitted { admitted } else { stopped };
        let is_own_run = RELEASING_RUN.get() == Arc::as_ptr(&self.control);
        WorkerContext::with(|context| match context {
            // As a strand that queues a successor. A guest may leave before the job is taken.
            Some(context)
                if is_own_run
                    && !context.is_guest()
                    && ptr::eq(context.pool(), self.control.pool()) =>
            {
                context.push(job, Placement::Local);
            }
            _ => self.control.send(job, false),
        });
    }
}

impl Continuation for ParkedTask {
    /// A task that is refused asks once more, and reports the error.
    fn resume(self: Arc<Self>, outcome: AcquireOutcome) {
        thread::point();
        let registration = lock(&self.registration).take();
        if let Some(registration) = registration {
            self.control.unregister_on_stop(registration.key);
        }
        self.queue(outcome.is_ok());
    }
}

impl OnStop for ParkedTask {
    fn on_stop(self: Arc<Self>) {
        thread::point();
        let registration = lock(&self.registration).take();
        // If it is not queued any more, it has been resumed and sees that the run is stopped.
        if registration
            .is_some_and(|registration| semaphore::cancel(&self.needs, registration.ticket))
        {
            self.queue(false);
        }
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
        assert!(n > 0, "a semaphore needs a permit");
        let semaphore = Semaphore::new(n as u64);
        for task in tasks {
            self.check_own(task);
            task.acquire([&semaphore]);
        }
    }
}

impl Task<'_, '_> {
    /// Makes the task run with a unit of each of these semaphores; with two if one is named twice.
    /// See [`acquire_all`](Self::acquire_all).
    ///
    /// ```
    /// use filch::{Graph, Semaphore};
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
    pub fn acquire<'s>(self, semaphores: impl IntoIterator<Item = &'s Semaphore>) -> Self {
        self.acquire_all(semaphores.into_iter().map(|semaphore| (semaphore, 1)))
    }

    /// Makes the task run with units of these semaphores, which may be shared with other graphs,
    /// threads and futures.
    ///
    /// A task that waits for units occupies no worker. It takes all of them at once, so the order
    /// in which the semaphores are named does not matter, and it is served first in, first out with
    /// all others that wait. The units are given back when the task is done, also after a panic.
    /// If a task needs more units than a semaphore has, [`Graph::plan`] returns an error; if a
    /// semaphore is closed or made too small later, the run fails.
    ///
    /// ```
    /// use filch::{Graph, Semaphore};
    ///
    /// let (gpus, memory) = (Semaphore::new(1), Semaphore::new(1 << 30));
    /// let graph = Graph::new();
    /// graph.task("train", || ()).acquire_all([(&gpus, 1), (&memory, 1 << 29)]);
    /// graph.task("load", || ()).acquire_all([(&memory, 1 << 20)]);
    /// graph.plan()?.run()?;
    /// assert_eq!(memory.available(), 1 << 30);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_all<'s>(self, wanted: impl IntoIterator<Item = (&'s Semaphore, u64)>) -> Self {
        let index = self.index();
        let mut parts = self.graph.parts();
        for (semaphore, n) in wanted {
            parts.semaphores.push((index, semaphore.clone(), n));
        }
        drop(parts);
        self
    }
}

/// Returns the units of each task, sorted by the tasks' numbers.
pub(super) fn needs(parts: &GraphParts) -> Result<Vec<(u32, Wants)>, GraphError> {
    let mut sorted: Vec<_> = parts.semaphores.iter().collect();
    sorted.sort_by_key(|(index, ..)| *index);
    let mut all = Vec::new();
    for task in sorted.chunk_by(|(a, ..), (b, ..)| a == b) {
        let index = task[0].0;
        let failed = |_| GraphError::permits(parts.names.of(index));
        let needs = task.iter().map(|(_, semaphore, n)| (semaphore, *n));
        let needs = semaphore::sum_up(needs).map_err(failed)?;
        if needs.iter().any(|(semaphore, n)| *n > semaphore.capacity()) {
            return Err(GraphError::permits(parts.names.of(index)));
        }
        all.push((index, needs));
    }
    Ok(all)
}

impl GraphRun<'_> {
    fn needs(&self, index: u32) -> Option<&Wants> {
        let all = &self.shape.needs;
        let found = all.binary_search_by_key(&index, |(index, _)| *index);
        found.ok().map(|at| &all[at].1)
    }

    /// Takes the units of a task. Returns false if it must not run now: it has been parked, and
    /// will be queued later, or the run has been stopped.
    #[inline(always)]
    pub(super) fn acquire(&self, context: &WorkerContext<'_, '_>, index: u32) -> bool {
        self.shape.needs.is_empty() || self.acquire_all(context, index)
    }

    fn acquire_all(&self, context: &WorkerContext<'_, '_>, index: u32) -> bool {
        let Some(needs) = self.needs(index) else {
            return true;
        };
        thread::point();
        let outcome = match semaphore::try_take(needs) {
            Err(error) if error.is_full() => self.park(context, index, needs),
            outcome => Some(outcome),
        };
        match outcome {
            Some(Err(error)) => {
                self.record_fault(index, TaskFault::Refused(error));
                false
            }
            Some(Ok(())) => true,
            None => false,
        }
    }

    /// Parks a task. Returns the outcome if it need not wait after all.
    fn park(
        &self,
        context: &WorkerContext<'_, '_>,
        index: u32,
        needs: &Wants,
    ) -> Option<AcquireOutcome> {
        self.add_pending(context);
        let control = self.control();
        let task = Arc::new(ParkedTask {
            needs: needs.clone(),
            control: control.clone(),
            jobs: Mutex::new(Some((self.admitted_job(index), self.strand_job(index)))),
            registration: Mutex::new(None),
        });
        thread::point();
        // While the lock is held, no thread that resumes the task can read the registration before
        // it is set.
        let mut registration = lock(&task.registration);
        let ticket = match semaphore::enter(needs, Notify::Task(task.clone())) {
            EnterResult::Queued(ticket) => ticket,
            EnterResult::Decided(outcome) => {
                self.remove_pending(context);
                return Some(outcome);
            }
        };
        let key = control.register_on_stop(task.clone());
        *registration = key.map(|key| ParkedRegistration { ticket, key });
        drop(registration);
        // If the run has been stopped and the task is not queued any more, it has been resumed.
        if key.is_none() && semaphore::cancel(needs, ticket) {
            self.remove_pending(context);
            self.mark_incomplete();
        }
        None
    }

    /// Gives back the units of a task.
    #[inline(always)]
    pub(super) fn release_permits(&self, index: u32) {
        if !self.shape.needs.is_empty()
            && let Some(needs) = self.needs(index)
        {
            thread::point();
            let outer = RELEASING_RUN.replace(Arc::as_ptr(self.control()));
            semaphore::give(needs);
            RELEASING_RUN.set(outer);
        }
    }
}
