//! Queries of a task about itself.

use super::{
    Priority, TaskId,
    cell::{self, SubmitHeader, SubmitRef},
    dependency::{Dependency, VisitDependencies},
};
use crate::{
    cancel::CancelToken,
    pool::{Inner, context::WorkerContext, current_task},
};
use std::fmt;

/// Returns the submitted task that this thread runs, if any.
///
/// It is the task whose closure is being called, on the thread that calls it. Parts of it that
/// other workers take over, halves of a [`join`](crate::join()) or tasks of a
/// [`scope`](crate::scope()), are in no task. They can be given its [token](TaskInfo::token).
///
/// ```
/// assert!(filch::current_task().is_none());
/// let task = filch::submit(|| filch::current_task().map(|task| task.id()));
/// let id = task.id();
/// assert_eq!(task.join().unwrap(), Some(id));
/// ```
#[must_use]
pub fn current_task() -> Option<TaskInfo> {
    cell::current().map(|cell| TaskInfo { cell })
}

/// Returns the id of the submitted task that this thread runs, or of the future that it polls: the
/// one that its handle returns. For logs and for tables of what runs.
///
/// ```
/// assert_eq!(filch::current_task_id(), None);
/// let task = filch::submit(filch::current_task_id);
/// let future = filch::spawn_future(async { filch::current_task_id() });
/// let ids = (task.id(), future.id());
/// assert_eq!(task.join().unwrap(), Some(ids.0));
/// assert_eq!(future.join().unwrap(), Some(ids.1));
/// ```
#[must_use]
pub fn current_task_id() -> Option<TaskId> {
    let task = cell::with_current(|cell| cell.map(|cell| cell.meta().id));
    task.or_else(|| current_task::polled().map(TaskId::of_future))
}

/// Whether the submitted task that this thread runs should stop: the task or its token was
/// [cancelled](super::TaskHandle::cancel), its deadline has passed, or its pool is being [shut
/// down](crate::Pool::shutdown_now). False outside tasks. Costs a few nanoseconds, so a loop may
/// call it often.
///
/// ```
/// use std::time::Duration;
///
/// let pool = filch::Pool::builder().workers(1).build()?;
/// let task = pool
///     .task(|| {
///         let mut rounds = 0_u64;
///         while !filch::is_cancelled() {
///             rounds += 1;
///         }
///         rounds
///     })
///     .timeout(Duration::from_millis(20));
/// match task.submit().unwrap().join() {
///     Ok(rounds) => println!("{rounds} rounds until the time was up"),
///     Err(error) => assert!(error.is_deadline(), "a slow start"),
/// }
/// # Ok::<(), filch::BuildError>(())
/// ```
#[must_use]
pub fn is_cancelled() -> bool {
    cell::with_current(|cell| {
        let Some(cell) = cell else {
            return false;
        };
        should_stop(cell)
    })
}

fn should_stop(cell: &SubmitHeader) -> bool {
    let meta = cell.meta();
    cell.is_cancelled() || meta.is_token_cancelled() || is_pool_cancelled(meta.pool)
}

/// Whether tasks of the pool of that number should end.
fn is_pool_cancelled(number: u32) -> bool {
    WorkerContext::with(
        |context| match context.and_then(|context| context.find_pool(number)) {
            Some(pool) => pool.tasks().are_cancelled(),
            // Called on another thread, or all guest slots were taken.
            None => Inner::find(number).is_some_and(|pool| pool.tasks().are_cancelled()),
        },
    )
}

/// A task as seen from inside: from [`current_task`].
///
/// ```
/// use filch::{Pool, Priority};
///
/// let pool = Pool::builder().workers(1).build()?;
/// let task = pool.task(|| {
///     let task = filch::current_task().unwrap();
///     (task.name().map(str::to_owned), task.priority())
/// });
/// let seen = task.name("report").priority(Priority::High).submit().unwrap().join().unwrap();
/// assert_eq!(seen, (Some("report".into()), Priority::High));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone)]
pub struct TaskInfo {
    cell: SubmitRef,
}

impl TaskInfo {
    /// Returns the id of the task.
    ///
    /// ```
    /// let task = filch::submit(|| filch::current_task().unwrap().id());
    /// let id = task.id();
    /// assert_eq!(task.join().unwrap(), id);
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.cell.meta().id
    }

    /// Returns the name of the task, if it has one.
    ///
    /// ```
    /// let task = filch::task(|| filch::current_task().unwrap().name().map(str::to_owned));
    /// let task = task.name("parse").submit().unwrap();
    /// assert_eq!(task.join().unwrap().as_deref(), Some("parse"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.cell.meta().name().map(|name| &**name)
    }

    /// Returns the priority of the task.
    ///
    /// ```
    /// use filch::Priority;
    ///
    /// let task = filch::task(|| filch::current_task().unwrap().priority());
    /// let task = task.priority(Priority::Low).submit().unwrap();
    /// assert_eq!(task.join().unwrap(), Priority::Low);
    /// ```
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.cell.snapshot().level()
    }

    /// Returns a token that belongs to this task only: it is cancelled with the task, and with the
    /// token that it was [submitted with](super::TaskBuilder::token). For parts of the task that
    /// run elsewhere, and as the parent of tasks that should end with this one.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// let task = pool.submit(move || {
    ///     let token = filch::current_task().unwrap().token();
    ///     send.send(token.child()).unwrap();
    ///     token.wait(); // until the task is cancelled
    /// });
    /// let child = receive.recv().unwrap();
    /// task.cancel();
    /// assert!(child.is_cancelled());
    /// task.join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn token(&self) -> CancelToken {
        let (token, new) = self.cell.meta().token_or_new();
        if new && self.cell.publish_token() {
            // The task was requested to stop before there was a token to cancel.
            token.cancel();
        }
        token.clone()
    }

    /// Returns the task as a dependency for others to [wait](super::TaskBuilder::after) for: a task
    /// can submit its own followers.
    ///
    /// ```
    /// let task = filch::submit(|| {
    ///     let this = filch::current_task().unwrap();
    ///     filch::submit_after(&this, || "when that one is done")
    /// });
    /// assert_eq!(task.join().unwrap().join().unwrap(), "when that one is done");
    /// ```
    #[must_use]
    pub fn dependency(&self) -> Dependency {
        Dependency::new(&self.cell)
    }

    /// Whether the task should stop; see [`is_cancelled`]. On a thread that does not run the task
    /// it takes a lock briefly.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = std::sync::mpsc::channel();
    /// let task = pool.submit(move || {
    ///     let this = filch::current_task().unwrap();
    ///     send.send(this.clone()).unwrap(); // to a thread that helps the task
    ///     while !this.is_cancelled() {}
    /// });
    /// let helped = receive.recv().unwrap();
    /// task.cancel();
    /// assert!(helped.is_cancelled());
    /// task.join().unwrap();
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        should_stop(&self.cell)
    }
}

impl VisitDependencies for &TaskInfo {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        f(self.dependency());
    }
}

impl fmt::Debug for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskInfo")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("state", &self.cell.snapshot())
            .finish()
    }
}
