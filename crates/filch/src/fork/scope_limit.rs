//! A limit on the tasks of a scope that run at the same time.
#![expect(unsafe_code, reason = "tasks that point into the frame of `scope`")]

use super::scope::Scope;
use crate::pool::{
    context::WorkerContext, heap, job::Job, job_limit::JobLimit, pending_group::NO_OWNER,
};

impl<'scope> Scope<'scope> {
    /// Lets at most `workers` run tasks of the scope at the same time, those that the caller of the
    /// scope runs included. The others are free for other work. To be called once, before tasks are
    /// spawned.
    ///
    /// The function that is called with the scope is not a task of it. What a task does in parallel
    /// itself, with a loop, a join or another scope, is not limited, nor are
    /// [broadcasts](Self::spawn_broadcast). A task must not wait for another one of the scope.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    ///
    /// let pool = filch::Pool::builder().workers(4).build()?;
    /// let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    /// pool.scope(|s| {
    ///     s.at_most(2);
    ///     for _ in 0..100 {
    ///         s.spawn(|_| {
    ///             most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
    ///             running.fetch_sub(1, SeqCst);
    ///         });
    ///     }
    /// });
    /// assert!(most.into_inner() <= 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If `workers` is zero, or the scope has a limit already.
    pub fn at_most(&self, workers: usize) {
        JobLimit::check(workers, "workers of a scope");
        let is_set = self.state.set_limit(JobLimit::new(workers));
        assert!(is_set, "a scope has one limit: set it once");
    }

    /// Spawns a task that has been counted, into a scope with a limit.
    #[cold]
    #[inline(never)]
    pub(super) fn spawn_limited(
        &self,
        context: Option<&WorkerContext<'_, '_>>,
        task: impl FnOnce(&Scope<'scope>) + Send + 'scope,
    ) {
        /// Queues a parked task at the end of the one that had its place, also if that panics.
        struct LeaveAtEnd<'s, 'scope>(&'s Scope<'scope>);
        impl Drop for LeaveAtEnd<'_, '_> {
            fn drop(&mut self) {
                let parked = self.0.state.limit().and_then(JobLimit::leave);
                if let Some(parked) = parked {
                    self.0
                        .with_context(|context| self.0.queue_limited(context, parked));
                }
            }
        }
        let task = move |scope: &Scope<'scope>| {
            let _place = LeaveAtEnd(scope);
            task(scope);
        };
        // SAFETY: the task has been counted. The job is queued, or parked: then the end of an
        // active task queues it.
        let task = unsafe { self.wrap(task) };
        // SAFETY: what the task borrows lives until it has run, as in `spawn`.
        self.queue_limited(context, unsafe { heap::alloc_shared_job(task) });
    }

    /// Queues the job of a task that has been counted, unless as many as the limit are active.
    fn queue_limited(&self, context: Option<&WorkerContext<'_, '_>>, job: Job) {
        let job = match self.state.limit() {
            Some(limit) => limit.enter(job),
            None => Some(job),
        };
        match job {
            None => {}
            Some(job) if context.is_none() && self.state.owner == NO_OWNER => {
                self.pool().inject_awaited(job);
            }
            // Any worker may have the place, so the owner must find the job in its wait.
            Some(job) => self.enlist_job(context, job),
        }
    }
}
