//! Groups of tasks.

use super::{
    TaskError, TaskHandle, TaskId,
    admission::AdmissionMode,
    cell::Body,
    dependency::{Dependency, VisitDependencies},
    launch,
    options::{Options, task_options},
    pool_context, subject,
    wait::{NeverReady, WaitCondition},
};
use crate::{
    base::{Instant, error::Refused, unwind},
    pool::{Inner, Pool, waits::Subject},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

/// Tasks that are waited for, cancelled and collected together: from [`Pool::group`].
///
/// Dropping it cancels what has not started and requests running tasks to stop, without waiting;
/// [`detach`](Self::detach) lets everything run.
///
/// ```
/// use filch::Pool;
///
/// let pool = Pool::builder().workers(2).build()?;
/// let mut group = pool.group();
/// for n in 0..5 {
///     group.submit(move || n * n);
/// }
/// assert_eq!(group.try_join_all().unwrap(), [0, 1, 4, 9, 16]); // in the order of submission
/// # Ok::<(), filch::BuildError>(())
/// ```
///
/// Errors can be collected one by one or all together, or returned as soon as there is one:
///
/// ```
/// use filch::{Pool, TaskGroup};
///
/// let pool = Pool::builder().workers(1).build()?;
/// let risky = || -> TaskGroup<u32> {
///     let mut group = pool.group();
///     group.submit(|| 1);
///     group.submit(|| panic!("no luck"));
///     group.submit(|| 3);
///     group
/// };
/// let each: Vec<_> = risky().join_all().into_iter().map(|result| result.ok()).collect();
/// assert_eq!(each, [Some(1), None, Some(3)]);
/// assert_eq!(risky().gather().unwrap_err().len(), 1);
/// assert!(risky().try_join_all().unwrap_err().is_panic()); // the others were cancelled
/// # Ok::<(), filch::BuildError>(())
/// ```
#[doc(alias = "JoinSet")]
#[must_use = "dropping a group cancels what has not started"]
pub struct TaskGroup<T> {
    pool: Arc<Inner>,
    members: Vec<TaskHandle<T>>,
    state: Arc<GroupState>,
}

/// The state that a group and its tasks share.
#[derive(Default)]
struct GroupState {
    failure: Mutex<FirstFailure>,
}

/// The first failure in a group, and the thread that waits for it.
#[derive(Default)]
struct FirstFailure {
    /// The index of the task that failed first.
    first: Option<usize>,
    /// The waker of the thread that waits for a failure.
    waker: Option<Waker>,
}

impl GroupState {
    fn lock(&self) -> MutexGuard<'_, FirstFailure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, member: usize) {
        let mut failure = self.lock();
        if failure.first.is_none() {
            failure.first = Some(member);
            let waker = failure.waker.take();
            drop(failure);
            // One of our own wakers, which unparks a thread.
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// The condition that a task of the group has failed.
struct AnyMemberFailed<'g, T> {
    state: &'g GroupState,
    /// The tasks of the group, except the one that is waited for at the same time.
    others: [&'g [TaskHandle<T>]; 2],
}

impl<T> Clone for AnyMemberFailed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for AnyMemberFailed<'_, T> {}

impl<T> WaitCondition for AnyMemberFailed<'_, T> {
    fn is_ready(&mut self) -> bool {
        self.state.lock().first.is_some()
    }

    fn register_waker(&mut self, waker: &Waker) -> bool {
        let mut failure = self.state.lock();
        failure.waker = Some(waker.clone());
        failure.first.is_none()
    }

    fn collect_subjects(&self, list: &mut Vec<Box<dyn Subject>>) -> bool {
        let others = self.others.into_iter().flatten();
        list.extend(others.map(|member| subject::failure_of(member.cell())));
        true
    }
}

/// A closure whose end is reported to the group: also when it is dropped without having been
/// called.
struct GroupBody<F> {
    func: F,
    report: ReportFailure,
}

/// Reports a failure when it is dropped, unless the closure has returned.
struct ReportFailure {
    state: Arc<GroupState>,
    member: usize,
    succeeded: bool,
}

impl<F, T> Body<T> for GroupBody<F>
where
    F: FnOnce() -> T + Send + 'static,
{
    fn call(self) -> T {
        let Self { func, mut report } = self;
        let value = func();
        report.succeeded = true;
        value
    }
}

impl Drop for ReportFailure {
    fn drop(&mut self) {
        if !self.succeeded {
            self.state.fail(self.member);
        }
    }
}

impl<F> GroupBody<F> {
    /// Returns the closure of a task that was not accepted into the group.
    fn into_func(self) -> F {
        let Self { func, mut report } = self;
        report.succeeded = true;
        func
    }
}

impl Pool {
    /// Creates an empty group of tasks.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let mut downloads = pool.group();
    /// for page in 0..3 {
    ///     downloads.submit(move || format!("page {page}"));
    /// }
    /// assert_eq!(downloads.try_join_all().unwrap(), ["page 0", "page 1", "page 2"]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn group<T: Send + 'static>(&self) -> TaskGroup<T> {
        TaskGroup {
            pool: self.inner().clone(),
            members: Vec::new(),
            state: Arc::default(),
        }
    }
}

impl<T: Send + 'static> TaskGroup<T> {
    /// Submits a task into the group, as [`Pool::submit`].
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// let id = group.submit(|| 7);
    /// let handle = group.into_handles().pop().unwrap();
    /// assert_eq!((handle.id(), handle.join().unwrap()), (id, 7));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "for its effect")]
    pub fn submit(&mut self, func: impl FnOnce() -> T + Send + 'static) -> TaskId {
        match self.launch(func, Options::default(), AdmissionMode::ByPolicy) {
            Ok(id) => id,
            // The group reports its error.
            Err(refusal) => {
                let member = refusal.map(|func| self.member_body(func));
                let handle = launch::refused_handle(&self.pool, member);
                self.add_member(handle)
            }
        }
    }

    /// Returns a builder, which sets a name, a priority and so on before the task is submitted into
    /// the group.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// group.task(|| 1).name("first").submit().unwrap();
    /// group.task(|| 2).priority(Priority::Low).submit().unwrap();
    /// assert_eq!(group.try_join_all().unwrap(), [1, 2]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn task<F>(&mut self, func: F) -> GroupTask<'_, T, F>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        GroupTask {
            group: self,
            func,
            options: Options::default(),
        }
    }

    /// Waits until every task is done. The results stay in the group.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    ///
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let saved = Arc::new(AtomicU32::new(0));
    /// let mut group = pool.group();
    /// for _ in 0..4 {
    ///     let saved = saved.clone();
    ///     group.submit(move || saved.fetch_add(1, Ordering::Relaxed));
    /// }
    /// group.wait();
    /// assert_eq!(saved.load(Ordering::Relaxed), 4);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn wait(&mut self) {
        for member in &mut self.members {
            member.wait_or(NeverReady);
        }
    }

    /// Cancels every task of the group, as [`TaskHandle::cancel`], and returns how many had not
    /// started. Tasks that are submitted later are not affected.
    ///
    /// ```
    /// use filch::Pool;
    ///
    /// let pool = Pool::builder().workers(0).build()?;
    /// let mut group = pool.group();
    /// group.submit(|| unreachable!());
    /// assert_eq!(group.cancel_all(), 1);
    /// group.submit(|| 2);
    /// let results = group.join_all();
    /// assert!(results[0].as_ref().unwrap_err().is_cancelled());
    /// assert_eq!(*results[1].as_ref().unwrap(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "for its effect")]
    pub fn cancel_all(&self) -> usize {
        let cancelled = self.members.iter().filter(|member| member.cancel());
        cancelled.count()
    }

    /// Waits for all tasks, and returns the result of each, in the order of their submission.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// for text in ["1", "x", "3"] {
    ///     group.submit(move || text.parse::<u32>().unwrap());
    /// }
    /// let results = group.join_all();
    /// assert_eq!(results[0].as_ref().unwrap(), &1);
    /// assert!(results[1].as_ref().unwrap_err().is_panic());
    /// assert_eq!(results[2].as_ref().unwrap(), &3);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn join_all(mut self) -> Vec<Result<T, TaskError>> {
        let members = std::mem::take(&mut self.members);
        members.into_iter().map(TaskHandle::join).collect()
    }

    /// Returns all results, in the order of submission; or the first error, as soon as there is
    /// one: then the other tasks are cancelled, and the running ones are waited for.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// for text in ["1", "x", "3"] {
    ///     group.submit(move || text.parse::<u32>().unwrap());
    /// }
    /// assert!(group.try_join_all().unwrap_err().is_panic());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// That of the task that failed first.
    pub fn try_join_all(mut self) -> Result<Vec<T>, TaskError> {
        for at in 0..self.members.len() {
            let (before, rest) = self.members.split_at_mut(at);
            let Some((member, behind)) = rest.split_first_mut() else {
                break;
            };
            let mut failing = AnyMemberFailed {
                state: &self.state,
                others: [before, behind],
            };
            member.wait_or(failing);
            if failing.is_ready() {
                break;
            }
        }
        let first = self.state.lock().first;
        if first.is_some() {
            self.cancel_all();
        }
        let mut values = Vec::with_capacity(self.members.len());
        let mut failure = None;
        let members = std::mem::take(&mut self.members);
        for (at, member) in members.into_iter().enumerate() {
            match member.join() {
                // The destructor is user code, and there may be an error to report.
                Ok(value) if first.is_some() => unwind::discard(value),
                Ok(value) => values.push(value),
                // A deadlock is detected only by this join, and is not in `first`.
                Err(error) if first.is_none_or(|first| first == at) && failure.is_none() => {
                    failure = Some(error);
                }
                Err(error) => unwind::discard(error),
            }
        }
        match failure {
            None => Ok(values),
            Some(error) => {
                unwind::discard(values);
                Err(error)
            }
        }
    }

    /// Waits for all tasks; returns all results, or all errors, in the order of submission.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// for text in ["x", "2", "y"] {
    ///     group.submit(move || text.parse::<u32>().unwrap());
    /// }
    /// let errors = group.gather().unwrap_err();
    /// assert_eq!(errors.len(), 2); // all of them, for one report
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// Those of all tasks that failed.
    pub fn gather(self) -> Result<Vec<T>, Vec<TaskError>> {
        let (mut values, mut errors) = (Vec::with_capacity(self.len()), Vec::new());
        for result in self.join_all() {
            match result {
                Ok(value) => values.push(value),
                Err(error) => errors.push(error),
            }
        }
        match errors.is_empty() {
            true => Ok(values),
            false => {
                unwind::discard(values);
                Err(errors)
            }
        }
    }

    /// Returns the number of tasks that were submitted into the group.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// group.submit(|| 1);
    /// group.wait();
    /// assert_eq!(group.len(), 1); // also when it is done
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no task was submitted into the group.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let group = pool.group::<u32>();
    /// assert!(group.is_empty());
    /// assert_eq!(group.try_join_all().unwrap(), []); // nothing to wait for
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the handles of the tasks, in the order of their submission.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// group.submit(|| 1);
    /// group.submit(|| 2);
    /// let mut handles = group.into_handles(); // dropping these detaches the tasks
    /// assert_eq!(handles.remove(1).join().unwrap(), 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn into_handles(mut self) -> Vec<TaskHandle<T>> {
        std::mem::take(&mut self.members)
    }

    /// Detaches all tasks: they run without a waiter.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// let mut group = pool.group();
    /// group.submit(move || send.send("logged").unwrap());
    /// group.detach(); // dropping the group would cancel the task
    /// assert_eq!(receive.recv(), Ok("logged"));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn detach(self) {
        drop(self.into_handles());
    }

    /// Wraps the closure of the next member, so that its failure is reported to the group.
    fn member_body<F>(&self, func: F) -> GroupBody<F> {
        let report = ReportFailure {
            state: self.state.clone(),
            member: self.members.len(),
            succeeded: false,
        };
        GroupBody { func, report }
    }

    fn add_member(&mut self, handle: TaskHandle<T>) -> TaskId {
        let id = handle.id();
        self.members.push(handle);
        id
    }

    fn launch<F>(
        &mut self,
        func: F,
        options: Options,
        mode: AdmissionMode,
    ) -> Result<TaskId, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let (pool, member) = (&self.pool, self.member_body(func));
        let launched = pool_context::in_context_of(pool, |context| {
            launch::launch(pool, context, member, options, mode)
        });
        match launched {
            Ok(handle) => Ok(self.add_member(handle)),
            Err(refusal) => Err(refusal.map(GroupBody::into_func)),
        }
    }
}

impl<T> VisitDependencies for &TaskGroup<T> {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.members.as_slice().visit_dependencies(f);
    }
}

impl<T> Drop for TaskGroup<T> {
    fn drop(&mut self) {
        for member in &self.members {
            member.cancel();
        }
    }
}

impl<T> fmt::Debug for TaskGroup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.members).finish()
    }
}

/// A closure that is about to be submitted into a group: from [`TaskGroup::task`].
#[must_use = "a task does nothing before it is submitted"]
pub struct GroupTask<'g, T, F> {
    group: &'g mut TaskGroup<T>,
    func: F,
    options: Options,
}

impl<T, F> GroupTask<'_, T, F>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    task_options!();

    /// Submits the task, as [`TaskBuilder::submit`](super::TaskBuilder::submit).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let mut group = pool.group();
    /// group.task(|| 1).name("first").submit().unwrap();
    /// let misplaced = group.task(|| 2).affinity(filch::Affinity::Worker(9)).submit();
    /// assert!(misplaced.unwrap_err().is_misplaced());
    /// assert_eq!(group.len(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The closure, when it is refused. Then it is not part of the group.
    pub fn submit(self) -> Result<TaskId, Refused<F>> {
        self.group
            .launch(self.func, self.options, AdmissionMode::ByPolicy)
    }

    /// Submits the task if there is capacity, as
    /// [`TaskBuilder::try_submit`](super::TaskBuilder::try_submit).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).task_capacity(1).build()?;
    /// let mut group = pool.group();
    /// group.task(|| 1).try_submit().unwrap();
    /// let refused = group.task(|| 2).try_submit().unwrap_err();
    /// assert!(refused.is_full());
    /// assert_eq!(group.try_join_all().unwrap(), [1]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn try_submit(self) -> Result<TaskId, Refused<F>> {
        self.group
            .launch(self.func, self.options, AdmissionMode::Now)
    }

    /// Submits the task when there is capacity in time, as
    /// [`TaskBuilder::submit_timeout`](super::TaskBuilder::submit_timeout).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = filch::Pool::builder().workers(1).task_capacity(1).build()?;
    /// let mut group = pool.group();
    /// for n in 0..10 {
    ///     group.task(move || n).submit_timeout(Duration::from_secs(60)).unwrap(); // waits for capacity
    /// }
    /// assert_eq!(group.try_join_all().unwrap().len(), 10);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_timeout(self, limit: Duration) -> Result<TaskId, Refused<F>> {
        let deadline = Instant::now().checked_add(limit);
        let mode = AdmissionMode::Until(deadline);
        self.group.launch(self.func, self.options, mode)
    }
}

impl<T, F> fmt::Debug for GroupTask<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupTask")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
