//! A limit on the tasks of a scope that run at the same time.
#![expect(unsafe_code, reason = "tasks that point into the frame of `scope`")]

use super::scope::Scope;
use crate::pool::{context::WorkerContext, heap, job_limit::JobLimit};

impl<'scope> Scope<'scope> {
    /// Lets at most `workers` run tasks of the scope at the same time, those that the caller of the
    /// scope runs included. The others are free for other work. To be called once, before tasks are
    /// spawned.
    ///
    /// The function that is called with the scope is not a task of it. What a task does in parallel
    /// itself, with a loop, a join or another scope, is not limited, nor are
    /// [broadcasts](Self::spawn_broadcast). A task must not wait for another one of the scope.
    ///
    /// All tasks of a scope with a limit begin in the order in which they were spawned, those of
    /// [`spawn`](Self::spawn) as well as those of [`spawn_fifo`](Self::spawn_fifo): with a limit of
    /// one on any number of workers, else in as far as one worker runs them.
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
                let Self(scope) = *self;
                let next = scope.state.limit().and_then(JobLimit::pass_on);
                if let Some(next) = next {
                    scope.with_context(|context| scope.enlist_job(context, next));
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
        let job = unsafe { heap::alloc_shared_job(task) };
        let admitted = match self.state.limit() {
            Some(limit) => limit.enter(job),
            None => Some(job),
        };
        if let Some(job) = admitted {
            // Not straight into a queue of the pool: any worker may have the place, so the owner
            // must find the job in its wait, and all tasks are to begin in the order of the list.
            self.enlist_job(context, job);
        }
    }
}
