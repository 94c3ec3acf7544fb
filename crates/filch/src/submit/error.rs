//! Why a task has no result.

use super::{
    TaskId,
    cell::TaskMeta,
    failed::{FailedTask, write_task},
};
use crate::{
    base::unwind::Payload,
    cancel::CancelReason,
    pool::waits::Cycle,
    task::{Cause, StoredPanic, expect_panic, resume_panic},
};
use std::{any::Any, error::Error, fmt, sync::Arc};

/// Why a task has no result: it panicked, or it never ran.
///
/// ```
/// let task = filch::Pool::global().task(|| -> u32 { panic!("no luck") }).name("draw");
/// let error = task.submit().unwrap().join().unwrap_err();
/// assert!(error.is_panic());
/// assert_eq!(error.name(), Some("draw"));
/// assert_eq!(error.to_string(), "task `draw` panicked: no luck");
/// assert_eq!(error.into_panic().downcast_ref(), Some(&"no luck"));
/// ```
#[doc(alias = "JoinError")]
pub struct TaskError {
    kind: TaskErrorKind,
    id: TaskId,
    name: Option<Arc<str>>,
}

enum TaskErrorKind {
    Panic(StoredPanic),
    Cancelled(Cause),
    Dependency(Arc<FailedTask>),
    /// `None` where both tasks are on one stack: the tasks between them are not known.
    Deadlock(Option<Arc<Cycle>>),
}

impl TaskError {
    pub(super) fn panic(meta: &TaskMeta, payload: Payload) -> Self {
        Self::new(meta, TaskErrorKind::Panic(StoredPanic::new(payload)))
    }

    pub(super) fn cancelled(meta: &TaskMeta, cause: Cause) -> Self {
        let failed = match cause {
            Cause::Dependency => meta
                .predecessors()
                .and_then(|predecessors| predecessors.failed())
                .cloned(),
            _ => None,
        };
        let kind = failed.map_or(TaskErrorKind::Cancelled(cause), TaskErrorKind::Dependency);
        Self::new(meta, kind)
    }

    pub(super) fn deadlock(meta: &TaskMeta, cycle: Option<Cycle>) -> Self {
        Self::new(meta, TaskErrorKind::Deadlock(cycle.map(Arc::new)))
    }

    fn new(meta: &TaskMeta, kind: TaskErrorKind) -> Self {
        Self {
            kind,
            id: meta.id,
            name: meta.name().cloned(),
        }
    }

    /// Whether the task panicked; [`into_panic`](Self::into_panic) returns the payload.
    ///
    /// ```
    /// let error = filch::submit(|| panic!("no luck")).join().unwrap_err();
    /// assert!(error.is_panic() && !error.is_cancelled());
    /// ```
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, TaskErrorKind::Panic(_))
    }

    /// Whether the task never started, and never will: it was cancelled or refused, its deadline
    /// passed, a predecessor failed, or its pool was shut down before the task started.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).build().unwrap();
    /// let task = pool.submit(|| unreachable!());
    /// assert!(task.cancel());
    /// let error = task.join().unwrap_err();
    /// assert!(error.is_cancelled() && !error.is_deadline() && !error.is_refused());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self.kind,
            TaskErrorKind::Cancelled(_) | TaskErrorKind::Dependency(_)
        )
    }

    /// Returns the task that failed, if this one was cancelled because it
    /// [waited](super::TaskBuilder::after) for that one. In a chain of failed dependencies it is
    /// the first of them.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let load = pool.task(|| panic!("no file")).name("load").submit().unwrap();
    /// let parse = pool.submit_after(&load, || ());
    /// let show = pool.submit_after(&parse, || ());
    /// let error = show.join().unwrap_err();
    /// let failed = error.failed_dependency().unwrap();
    /// assert!(error.is_cancelled() && failed.is_panic());
    /// assert_eq!((failed.id(), failed.name()), (load.id(), Some("load")));
    /// assert_eq!(
    ///     error.to_string(),
    ///     format!("task {} was cancelled before it started: it waited for task `load`, which panicked", error.id())
    /// );
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn failed_dependency(&self) -> Option<&FailedTask> {
        match &self.kind {
            TaskErrorKind::Dependency(failed) => Some(failed),
            _ => None,
        }
    }

    /// Whether the task did not start before its deadline.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let late = pool.task(|| "too late").timeout(Duration::ZERO).submit().unwrap();
    /// let error = late.join().unwrap_err();
    /// assert!(error.is_deadline() && error.is_cancelled());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self.kind, TaskErrorKind::Cancelled(Cause::Deadline))
    }

    /// Whether the task was not accepted, because the pool had no capacity or accepts no more
    /// tasks, or the pool was shut down before the task started.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// pool.clone().shutdown();
    /// let error = pool.submit(|| "too late").join().unwrap_err();
    /// assert!(error.is_refused());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(
            self.kind,
            TaskErrorKind::Cancelled(Cause::Closed | Cause::Full)
        )
    }

    /// Whether the join would have waited for ever, because the task cannot end before the caller
    /// returns: it was joined from inside itself, from a task that its worker runs while it waits,
    /// or from one that it waits for, directly or through others. The task continues; its result is
    /// lost.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let (to_left, left) = mpsc::channel::<filch::TaskHandle<bool>>();
    /// let (to_right, right) = mpsc::channel::<filch::TaskHandle<bool>>();
    /// let join = |handle: filch::TaskHandle<bool>| handle.join().is_err_and(|error| error.is_deadlock());
    /// let one = pool.task(move || join(left.recv().unwrap())).name("one").submit().unwrap();
    /// let two = pool.task(move || join(right.recv().unwrap())).name("two").submit().unwrap();
    /// to_left.send(two).unwrap();
    /// to_right.send(one).unwrap();
    /// pool.shutdown(); // one of them gets the error, so both end
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, TaskErrorKind::Deadlock(_))
    }

    /// Returns the tasks that wait for each other, if this is a [deadlock](Self::is_deadlock)
    /// across several stacks. They are part of the error message as well.
    ///
    /// ```
    /// use filch::{Pool, TaskHandle};
    /// use std::sync::{Arc, Barrier, mpsc};
    ///
    /// let pool = Pool::builder().workers(2).build()?;
    /// let (report, reports) = mpsc::channel();
    /// let both_run = Arc::new(Barrier::new(2));
    /// let [(to_one, one), (to_two, two)] = ["one", "two"].map(|name| {
    ///     let (to_task, other) = mpsc::channel::<TaskHandle<()>>();
    ///     let (report, both_run) = (report.clone(), both_run.clone());
    ///     let task = pool.task(move || {
    ///         both_run.wait();
    ///         if let Err(error) = other.recv().unwrap().join() {
    ///             report.send(error.cycle().unwrap().parties().len()).unwrap();
    ///         }
    ///     });
    ///     (to_task, task.name(name).submit().unwrap())
    /// });
    /// to_one.send(two).unwrap();
    /// to_two.send(one).unwrap();
    /// assert_eq!(reports.recv(), Ok(2)); // each of them waits for the other
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn cycle(&self) -> Option<&Cycle> {
        match &self.kind {
            TaskErrorKind::Deadlock(cycle) => cycle.as_deref(),
            _ => None,
        }
    }

    /// Returns the payload of the task's panic.
    ///
    /// ```
    /// let error = filch::submit(|| panic!("no luck")).join().unwrap_err();
    /// assert_eq!(error.into_panic().downcast_ref(), Some(&"no luck"));
    /// ```
    ///
    /// # Panics
    /// When the task did not panic; [`try_into_panic`](Self::try_into_panic) returns an error
    /// instead.
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        expect_panic(self.try_into_panic())
    }

    /// Returns the payload of the task's panic, or the error itself.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).build()?;
    /// let task = pool.submit(|| "never run");
    /// task.cancel();
    /// let error = task.join().unwrap_err().try_into_panic().unwrap_err();
    /// assert!(error.is_cancelled());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The error itself, when the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.kind {
            TaskErrorKind::Panic(panic) => Ok(panic.into_payload()),
            _ => Err(self),
        }
    }

    /// Resumes the panic of the task on this thread.
    ///
    /// ```should_panic
    /// let task = filch::submit(|| panic!("no luck"));
    /// let () = task.join().unwrap_or_else(|error| error.resume());
    /// ```
    ///
    /// # Panics
    /// Always: with the payload of the task's panic, or with this error.
    #[track_caller]
    pub fn resume(self) -> ! {
        resume_panic(self.try_into_panic())
    }

    /// Returns the id of the task.
    ///
    /// ```
    /// let task = filch::submit(|| panic!("no luck"));
    /// let id = task.id();
    /// assert_eq!(task.join().unwrap_err().id(), id);
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the name of the task, if it has one.
    ///
    /// ```
    /// let task = filch::task(|| panic!("no luck")).name("draw").submit().unwrap();
    /// assert_eq!(task.join().unwrap_err().name(), Some("draw"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl From<CancelReason> for Cause {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::Deadline => Self::Deadline,
            _ => Self::Requested,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_task(f, self.id, self.name.as_deref())?;
        f.write_str(" ")?;
        match &self.kind {
            TaskErrorKind::Panic(panic) => panic.fmt(f),
            TaskErrorKind::Cancelled(Cause::Requested | Cause::Dependency) => {
                f.write_str("was cancelled before it started")
            }
            TaskErrorKind::Dependency(failed) => {
                f.write_str("was cancelled before it started: it waited for ")?;
                write_task(f, failed.id(), failed.name())?;
                write!(f, ", which {}", failed.description())
            }
            TaskErrorKind::Cancelled(Cause::Deadline) => f.write_str(
                "did not start before its deadline; give it more time or a higher priority",
            ),
            TaskErrorKind::Cancelled(Cause::Closed) => {
                f.write_str("did not start before its pool was shut down")
            }
            TaskErrorKind::Cancelled(Cause::Full) => {
                f.write_str("was refused: the pool has no room for it; try again later or wait")
            }
            TaskErrorKind::Deadlock(cycle) => {
                f.write_str("was joined by a task that it would have to wait for")?;
                if let Some(cycle) = cycle {
                    write!(f, ": {cycle}")?;
                }
                f.write_str("; await it or join it elsewhere")
            }
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskError({self})")
    }
}

impl Error for TaskError {}
