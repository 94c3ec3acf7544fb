//! Why a task has no result.

use super::{
    TaskId,
    cell::TaskMeta,
    failed::{FailedTask, write_task},
};
use crate::{
    base::unwind::{self, Payload},
    cancel::CancelReason,
    pool::waits::Cycle,
    task::Cause,
};
use std::{
    any::Any,
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

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
pub struct TaskError {
    kind: Kind,
    id: TaskId,
    name: Option<Arc<str>>,
}

enum Kind {
    /// In a mutex because a panic payload need not be `Sync`.
    Panic(Mutex<Payload>),
    Cancelled(Cause),
    Dependency(Arc<FailedTask>),
    /// `None` where both tasks are on one stack: the tasks between them are not known.
    Deadlock(Option<Arc<Cycle>>),
}

impl TaskError {
    pub(super) fn panic(about: &TaskMeta, payload: Payload) -> Self {
        Self::new(about, Kind::Panic(Mutex::new(payload)))
    }

    pub(super) fn cancelled(about: &TaskMeta, cause: Cause) -> Self {
        let failed = match cause {
            Cause::Dependency => about.after().and_then(|after| after.failed()).cloned(),
            _ => None,
        };
        let kind = failed.map_or(Kind::Cancelled(cause), Kind::Dependency);
        Self::new(about, kind)
    }

    pub(super) fn deadlock(about: &TaskMeta, cycle: Option<Cycle>) -> Self {
        Self::new(about, Kind::Deadlock(cycle.map(Arc::new)))
    }

    fn new(about: &TaskMeta, kind: Kind) -> Self {
        Self {
            kind,
            id: about.id,
            name: about.name().cloned(),
        }
    }

    /// Whether the task panicked; [`into_panic`](Self::into_panic) returns the payload.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, Kind::Panic(_))
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
        matches!(self.kind, Kind::Cancelled(_) | Kind::Dependency(_))
    }

    /// Returns the task that failed, if this one was cancelled because it
    /// [waited](super::TaskBuilder::after) for that one. In a chain of failed dependencies it is the first
    /// of them.
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
            Kind::Dependency(failed) => Some(failed),
            _ => None,
        }
    }

    /// Whether the task did not start before its deadline.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self.kind, Kind::Cancelled(Cause::Deadline))
    }

    /// Whether the task was not accepted, because the pool had no capacity or accepts no more
    /// tasks, or the pool was shut down before the task started.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, Kind::Cancelled(Cause::Closed | Cause::Full))
    }

    /// Whether the join would have waited for ever, because the task cannot end before the caller
    /// returns: it was joined from inside of itself, from a task that its worker runs while it
    /// waits, or from one that it waits for, directly or through others. The task continues; its
    /// result is lost.
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
        matches!(self.kind, Kind::Deadlock(_))
    }

    /// Returns the tasks that wait for each other, if this is a [deadlock](Self::is_deadlock)
    /// across several stacks. They are part of the error message as well.
    #[must_use]
    pub fn cycle(&self) -> Option<&Cycle> {
        match &self.kind {
            Kind::Deadlock(cycle) => cycle.as_deref(),
            _ => None,
        }
    }

    /// Returns the payload of the task's panic.
    ///
    /// # Panics
    /// When the task did not panic; [`try_into_panic`](Self::try_into_panic) returns an error
    /// instead.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("there is no panic in this error: {error}"),
        }
    }

    /// Returns the payload of the task's panic, or the error itself.
    ///
    /// # Errors
    /// The error itself, when the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.kind {
            Kind::Panic(payload) => {
                Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
            _ => Err(self),
        }
    }

    /// Resumes the panic of the task on this thread.
    ///
    /// # Panics
    /// Always: with the payload of the task's panic, or with this error.
    pub fn resume(self) -> ! {
        match self.try_into_panic() {
            Ok(payload) => unwind::resume(payload),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the id of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the name of the task, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl From<CancelReason> for Cause {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::Deadline => Self::Deadline,
            _ => Self::Asked,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_task(f, self.id, self.name.as_deref())?;
        f.write_str(" ")?;
        match &self.kind {
            Kind::Panic(payload) => {
                let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
                write!(f, "panicked: {}", unwind::message(&payload))
            }
            Kind::Cancelled(Cause::Asked | Cause::Dependency) => {
                f.write_str("was cancelled before it started")
            }
            Kind::Dependency(failed) => {
                f.write_str("was cancelled before it started: it waited for ")?;
                write_task(f, failed.id(), failed.name())?;
                write!(f, ", which {}", failed.what())
            }
            Kind::Cancelled(Cause::Deadline) => f.write_str(
                "did not start before its deadline; give it more time or a higher priority",
            ),
            Kind::Cancelled(Cause::Closed) => {
                f.write_str("did not start before its pool was shut down")
            }
            Kind::Cancelled(Cause::Full) => {
                f.write_str("was refused: the pool has no room for it; try again later or wait")
            }
            Kind::Deadlock(cycle) => {
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
