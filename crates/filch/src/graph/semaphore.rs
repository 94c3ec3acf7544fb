//! Tasks that need units of semaphores, and wait for them without a worker.
//!
//! # The protocol
//!
//! A strand takes all units of its next task or none. If it has to wait, the task is *parked*: it
//! enters a list of its run, under a key, then the queues of its semaphores with this key, as
//! threads and futures do, and the strand ends. Then its entry in the list gets the number of its
//! request. The thread that grants the units removes the task from the list and queues it again. A
//! run that is stopped cancels the requests of its parked tasks. If the number of a request is not
//! in the list yet, the strand that parks the task cancels it. The locks of the queues decide which
//! of the two, the grant or the cancellation, continues a task.

use super::{
    build::{Graph, Task},
    control::{ParkedTask, RunControl},
    error::{GraphError, TaskFault},
    plan::GraphParts,
    run::GraphRun,
};
use crate::{
    base::thread,
    pool::context::WorkerContext,
    semaphore::{self, AcquireOutcome, Continuation, EnterResult, Notify, Semaphore, Wants},
};
use std::sync::Arc;

impl Continuation for RunControl {
    /// A task that is refused asks once more, and reports the error.
    fn resume(self: Arc<Self>, key: u64, outcome: AcquireOutcome) {
        thread::point();
        // It is there: a thread that cancels the request finds it not queued any more.
        if let Some(task) = self.unpark_task(key) {
            self.queue_resumed(match outcome {
                Ok(()) => task.admitted,
                Err(_) => task.stopped,
            });
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
            let semaphores = &mut parts.rare.make().semaphores;
            semaphores.push((index, semaphore.clone(), n));
        }
        drop(parts);
        self
    }
}

/// Returns the units of each task, sorted by the tasks' numbers.
pub(super) fn needs(parts: &GraphParts) -> Result<Vec<(u32, Wants)>, GraphError> {
    let mut sorted: Vec<_> = parts.rare.semaphores.iter().collect();
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
    #[inline]
    fn needs_of(&self, index: u32) -> Option<&Wants> {
        // Its place if all tasks before it have semaphores too. The first record is no task.
        match self.needs.get(index as usize - 1) {
            Some((task, needs)) if *task == index => Some(needs),
            _ => self.find_needs(index),
        }
    }

    #[inline(never)]
    fn find_needs(&self, index: u32) -> Option<&Wants> {
        let all = self.needs;
        let found = all.binary_search_by_key(&index, |(index, _)| *index);
        found.ok().map(|at| &all[at].1)
    }

    /// Takes the units of a task. Returns false if it must not run now: it has been parked, and
    /// will be queued later, or the run has been stopped.
    #[inline(always)]
    pub(super) fn acquire(&self, context: &WorkerContext<'_, '_>, index: u32) -> bool {
        self.needs.is_empty() || self.acquire_all(context, index)
    }

    fn acquire_all(&self, context: &WorkerContext<'_, '_>, index: u32) -> bool {
        let Some(needs) = self.needs_of(index) else {
            return true;
        };
        thread::point();
        // Most tasks need one semaphore, which has units.
        if let [(semaphore, n)] = &**needs
            && semaphore.take_without_lock(*n)
        {
            return true;
        }
        self.acquire_or_park(context, index, needs)
    }

    #[inline(never)]
    fn acquire_or_park(&self, context: &WorkerContext<'_, '_>, index: u32, needs: &Wants) -> bool {
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
        let control = self.control();
        let task = ParkedTask::new(
            needs.clone(),
            self.admitted_job(index),
            self.strand_job(index),
        );
        let Some(key) = control.park_task(task) else {
            self.mark_skipped(index);
            return None;
        };
        self.add_pending(context);
        thread::point();
        let entered = semaphore::enter(needs, Notify::Task(control.clone(), key));
        let request = match entered {
            EnterResult::Queued(request) => request,
            EnterResult::Decided(outcome) => {
                control.unpark_task(key);
                self.remove_pending(context);
                return Some(outcome);
            }
        };
        thread::point();
        // If the task is not queued any more, it has been resumed.
        if !control.set_request(key, request) && semaphore::cancel(needs, request) {
            control.unpark_task(key);
            self.remove_pending(context);
            self.mark_skipped(index);
        }
        None
    }

    /// Gives back the units of a task.
    #[inline(always)]
    pub(super) fn release_permits(&self, index: u32) {
        if !self.needs.is_empty()
            && let Some(needs) = self.needs_of(index)
        {
            thread::point();
            if semaphore::put_back(needs) {
                self.control().releasing(|| semaphore::serve_all(needs));
            }
        }
    }
}
