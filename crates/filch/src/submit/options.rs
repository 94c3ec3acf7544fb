//! The settings of a task before it is submitted.

use super::{
    cell::{DependencyEdge, Extras, SubmitRef},
    dependency::Dependencies,
    run,
};
use crate::{
    base::{Instant, error::Refused},
    cancel::CancelToken,
    engine::{Placement, Priority},
    pool::Inner,
};
use std::sync::Arc;

/// Where a task should run.
///
/// It is a preference: the task waits for that worker for a bounded time, and is then run by any
/// free worker. A worker that submits or joins it in an [`isolate`](crate::isolate), or deep in its
/// stack, where its waits are isolated, may run it itself. With an affinity the
/// [priority](super::Priority) has no effect.
///
/// ```
/// use filch::{Affinity, Pool};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let task = pool.task(|| filch::current_worker()).affinity(Affinity::Worker(1));
/// println!("ran on {:?}", task.submit().unwrap().join().unwrap());
///
/// let refused = pool.task(|| ()).affinity(Affinity::Worker(2)).submit().unwrap_err();
/// assert!(refused.is_misplaced());
/// assert_eq!(refused.to_string(), "there is no worker 2; the workers are 0 to 1");
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Affinity {
    /// On any worker.
    #[default]
    Any,
    /// On this worker, with an index as returned by [`current_worker`](crate::current_worker). If
    /// that worker has left, because the pool was [resized](crate::Pool::resize), on another one:
    /// the index modulo the number of workers.
    Worker(usize),
    /// On a worker of this NUMA node, with the number that the system gives it
    /// ([`Node::number`](crate::topology::Node::number)). There must be a worker that is
    /// [pinned](crate::PoolBuilder::pin) there. Workers that are not pinned are nowhere in
    /// particular: then there is one node, number 0, and this means [`Any`](Self::Any), as it does
    /// where all workers are on one node, or when all workers of this one have left, because the
    /// pool was [resized](crate::Pool::resize).
    Node(usize),
}

/// The settings of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) level: Priority,
    pub(super) affinity: Affinity,
    pub(super) name: Option<Arc<str>>,
    pub(super) deadline: Option<Instant>,
    pub(super) token: Option<CancelToken>,
    /// What the task needs to wait for its predecessors, if it has some.
    pub(super) held: Option<Arc<Extras>>,
}

impl Options {
    /// Returns where the task should run.
    pub(super) fn place(&self, pool: &Inner) -> Result<Option<Placement>, Refused<()>> {
        match self.affinity {
            Affinity::Any => Ok(None),
            Affinity::Node(node) => match pool.core().find_node(node) {
                Ok(found) => Ok(found.map(Placement::AffineNode)),
                Err(nodes) => Err(Refused::no_node((), node, nodes)),
            },
            // A worker that has left is replaced when the task is queued.
            Affinity::Worker(worker) if worker < pool.peak_threads() => {
                Ok(Some(Placement::Affine(worker)))
            }
            Affinity::Worker(worker) => Err(Refused::no_worker((), worker, pool.live_workers())),
        }
    }

    #[inline]
    pub(super) fn has_extras(&self) -> bool {
        self.name.is_some()
            || self.deadline.is_some()
            || self.token.is_some()
            || self.has_predecessors()
    }

    /// Returns the default options with `tasks` as predecessors.
    pub(super) fn after(tasks: impl Dependencies) -> Self {
        let mut options = Self::default();
        options.wait_for(tasks, false);
        options
    }

    /// Takes what the task needs to wait for its predecessors, if it has some and nothing else is
    /// set, and no copy of the options has it too.
    #[inline]
    pub(super) fn take_only_held(&mut self) -> Option<Arc<Extras>> {
        let is_only = self.name.is_none() && self.deadline.is_none() && self.token.is_none();
        // The only share: no other thread can make another one meanwhile.
        let is_own =
            |held: &mut Arc<Extras>| Arc::strong_count(held) == 1 && Arc::weak_count(held) == 0;
        self.held.take_if(|held| is_only && is_own(held))
    }

    /// Whether it waits for other tasks.
    #[inline]
    pub(super) fn has_predecessors(&self) -> bool {
        self.held.is_some()
    }

    /// Adds `tasks` as predecessors.
    pub(super) fn wait_for(&mut self, tasks: impl Dependencies, any_outcome: bool) {
        // Without tasks there is nothing to wait for, so it is made for the first one.
        let (mut held, mut extras) = (Some(&mut self.held), None);
        tasks.visit_dependencies(&mut |task| {
            if let Some(held) = held.take() {
                extras = Some(Arc::make_mut(held.get_or_insert_with(Extras::take_spare)));
            }
            if let Some(extras) = &mut extras {
                let cell = task.into_cell();
                extras.wait_for(DependencyEdge { cell, any_outcome });
            }
        });
    }

    /// Attaches the name and the token to a task that is not queued yet. If it has predecessors it
    /// is held from now on.
    #[cold]
    pub(super) fn attach(self, cell: &SubmitRef) -> Result<(), Refused<()>> {
        // A deadline needs a token of its own, which then takes the place of the shared one.
        let (mut shared, mut own) = (self.token, None);
        if let Some(deadline) = self.deadline {
            let token = shared
                .take()
                .map_or_else(CancelToken::new, |token| token.child());
            if token.cancel_at(deadline).is_err() {
                return Err(Refused::no_timer(()));
            }
            own = Some(token);
        }
        let mut extras = self.held.unwrap_or_else(Extras::take_spare);
        if extras.has_predecessors() {
            cell.mark_held();
        }
        let new = Arc::make_mut(&mut extras);
        new.set(self.name, shared);
        if let Some(token) = own {
            new.set_own_token(token);
        }
        if let Some(reason) = cell.meta().add(extras).register_with_token(cell) {
            run::cancel(cell, reason.into());
        }
        Ok(())
    }
}

/// The settings of a task, as methods of a builder with a field `options: Options`.
macro_rules! task_options {
    () => {
        /// Sets a name, for errors and for [`current_task`](super::current_task).
        ///
        /// ```
        /// let pool = filch::Pool::builder().workers(1).build()?;
        /// let task = pool.task(|| panic!("no file")).name("load").submit().unwrap();
        /// assert_eq!(task.join().unwrap_err().to_string(), "task `load` panicked: no file");
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn name(mut self, name: impl Into<std::sync::Arc<str>>) -> Self {
            self.options.name = Some(name.into());
            self
        }

        /// Sets the priority; [`Normal`](super::Priority::Normal) by default.
        ///
        /// ```
        /// use filch::{Pool, Priority};
        /// use std::sync::mpsc;
        ///
        /// let pool = Pool::builder().workers(0).build()?; // tasks run in `run_until_stalled`
        /// let (send, order) = mpsc::channel();
        /// for priority in [Priority::Low, Priority::High] {
        ///     let send = send.clone();
        ///     let task = pool.task(move || send.send(priority).unwrap()).priority(priority);
        ///     task.submit().unwrap().detach();
        /// }
        /// pool.run_until_stalled();
        /// assert_eq!(order.try_iter().collect::<Vec<_>>(), [Priority::High, Priority::Low]);
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn priority(mut self, priority: super::Priority) -> Self {
            self.options.level = priority;
            self
        }

        /// Sets where it should run; anywhere by default.
        ///
        /// ```
        /// use filch::{Affinity, Pool};
        ///
        /// let pool = Pool::builder().workers(2).build()?;
        /// let task = pool.task(|| filch::current_worker()).affinity(Affinity::Worker(1));
        /// let worker = task.submit().unwrap().join().unwrap();
        /// assert!(matches!(worker, Some(0 | 1))); // 0 only if worker 1 was busy for long
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn affinity(mut self, affinity: super::Affinity) -> Self {
            self.options.affinity = affinity;
            self
        }

        /// Sets a deadline. If the task has not started by then, it is cancelled; if it runs,
        /// [`is_cancelled`](super::is_cancelled) returns true. Of several deadlines the last one
        /// set counts. The closure of a task that is cancelled so is dropped on the thread that
        /// serves all deadlines: its destructor should be short.
        ///
        /// ```
        /// use std::time::{Duration, Instant};
        ///
        /// let pool = filch::Pool::builder().workers(1).build()?;
        /// let (last, next) = (Instant::now(), Instant::now() + Duration::from_secs(60)); // frames
        /// let late = pool.task(|| "drawn").deadline(last).submit().unwrap();
        /// let early = pool.task(|| "drawn").deadline(next).submit().unwrap();
        /// assert!(late.join().unwrap_err().is_deadline());
        /// assert_eq!(early.join().unwrap(), "drawn");
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn deadline(mut self, at: $crate::base::Instant) -> Self {
            self.options.deadline = Some(at);
            self
        }

        /// Sets a [`deadline`](Self::deadline) relative to now. A deadline beyond the range of the
        /// clock is none.
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// let pool = filch::Pool::builder().workers(1).build()?;
        /// let answer = pool.task(|| 42).timeout(Duration::from_secs(60)).submit().unwrap();
        /// let too_late = pool.task(|| 43).timeout(Duration::ZERO).submit().unwrap();
        /// assert_eq!(answer.join().unwrap(), 42);
        /// assert!(too_late.join().unwrap_err().is_deadline());
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn timeout(mut self, time: std::time::Duration) -> Self {
            self.options.deadline = $crate::base::Instant::now().checked_add(time);
            self
        }

        /// Cancels the task when `token` is cancelled. The task gets a
        /// [child](crate::CancelToken::child) of it, so cancelling the task alone cancels nothing
        /// else.
        ///
        /// ```
        /// use filch::{CancelToken, Pool};
        ///
        /// let pool = Pool::builder().workers(0).build()?;
        /// let request = CancelToken::new();
        /// let tasks = ["header", "body"]
        ///     .map(|part| pool.task(move || println!("{part}")).token(&request).submit().unwrap());
        /// request.cancel(); // the client has disconnected
        /// assert!(tasks.into_iter().all(|task| task.join().unwrap_err().is_cancelled()));
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn token(mut self, token: &crate::cancel::CancelToken) -> Self {
            self.options.token = Some(token.clone());
            self
        }

        /// Makes the task wait until these tasks have ended, and cancels it if one of them fails:
        /// with an error that [names](crate::TaskError::failed_dependency) the failed one. They may
        /// have ended already or belong to other pools, and their handles may be dropped. Called
        /// several times, it waits for all. See [waiting for
        /// others](mod@crate::submit#tasks-that-wait-for-others).
        ///
        /// ```
        /// use filch::Pool;
        /// use std::sync::{Arc, OnceLock};
        ///
        /// let pool = Pool::builder().workers(2).build()?;
        /// let (config, read) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        /// let (one, other) = (config.clone(), read.clone());
        /// let load = pool.submit(move || one.set("verbose").unwrap());
        /// let open = pool.submit(move || other.set(17).unwrap());
        /// let start = pool
        ///     .task(move || (*config.get().unwrap(), *read.get().unwrap()))
        ///     .after(&load)
        ///     .after(&open)
        ///     .submit()
        ///     .unwrap();
        /// assert_eq!(start.join().unwrap(), ("verbose", 17));
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn after(mut self, tasks: impl $crate::submit::Dependencies) -> Self {
            self.options.wait_for(tasks, false);
            self
        }

        /// [`after`](Self::after) regardless of how these tasks end: the task runs also when they
        /// panic or are cancelled.
        ///
        /// ```
        /// let pool = filch::Pool::builder().workers(1).build()?;
        /// let risky = pool.submit(|| panic!("no luck"));
        /// let clean_up = pool.task(|| "cleaned up").after_any_outcome(&risky).submit().unwrap();
        /// assert_eq!(clean_up.join().unwrap(), "cleaned up");
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[must_use = "a task does nothing before it is submitted"]
        pub fn after_any_outcome(mut self, tasks: impl $crate::submit::Dependencies) -> Self {
            self.options.wait_for(tasks, true);
            self
        }
    };
}
pub(super) use task_options;
