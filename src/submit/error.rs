//! Why a task has no result.

use super::{TaskId, about::About, cell::Cause};
use crate::{
    cancel::CancelReason,
    ground::unwind::{self, Payload},
};
use std::{
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
    /// Behind a lock because what panics carry need not be `Sync`.
    Panic(Mutex<Payload>),
    Cancelled(Cause),
    Deadlock,
}

impl TaskError {
    pub(super) fn panic(about: &About, payload: Payload) -> Self {
        Self::new(about, Kind::Panic(Mutex::new(payload)))
    }

    pub(super) fn cancelled(about: &About, cause: Cause) -> Self {
        Self::new(about, Kind::Cancelled(cause))
    }

    pub(super) fn deadlock(about: &About) -> Self {
        Self::new(about, Kind::Deadlock)
    }

    fn new(about: &About, kind: Kind) -> Self {
        Self {
            kind,
            id: about.id,
            name: about.name().cloned(),
        }
    }

    /// The task panicked; [`into_panic`](Self::into_panic) has with what.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, Kind::Panic(_))
    }

    /// The task never started, and never will: it was cancelled, its time was up, it was refused, or its pool was
    /// shut down before its turn came.
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
        matches!(self.kind, Kind::Cancelled(_))
    }

    /// The task did not start before its deadline.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self.kind, Kind::Cancelled(Cause::Deadline))
    }

    /// The task was not let in, because the pool had no room or takes no more tasks, or the pool was shut down
    /// before its turn came.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, Kind::Cancelled(Cause::Closed | Cause::Full))
    }

    /// The task was joined from inside of itself, or from a task that its worker runs while it waits: that would
    /// have waited for ever. The task goes on; its result is lost.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, Kind::Deadlock)
    }

    /// What the task panicked with.
    ///
    /// # Panics
    /// When it did not panic; [`try_into_panic`](Self::try_into_panic) does not.
    #[must_use]
    pub fn into_panic(self) -> Payload {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("there is no panic in this error: {error}"),
        }
    }

    /// What the task panicked with, or the error itself.
    ///
    /// # Errors
    /// The error, when it is no panic.
    pub fn try_into_panic(self) -> Result<Payload, Self> {
        match self.kind {
            Kind::Panic(payload) => {
                Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
            _ => Err(self),
        }
    }

    /// Goes on with the panic of the task, as if it had been called right here.
    ///
    /// # Panics
    /// Always: with what the task panicked with, or with this error.
    pub fn resume(self) -> ! {
        match self.try_into_panic() {
            Ok(payload) => unwind::resume(payload),
            Err(error) => panic!("{error}"),
        }
    }

    /// The number of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The name of the task, if it has one.
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
        match &self.name {
            Some(name) => write!(f, "task `{name}` ")?,
            None => write!(f, "task {} ", self.id)?,
        }
        match &self.kind {
            Kind::Panic(payload) => {
                let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
                write!(f, "panicked: {}", unwind::message(&payload))
            }
            Kind::Cancelled(Cause::Asked) => f.write_str("was cancelled before it started"),
            Kind::Cancelled(Cause::Deadline) => f.write_str(
                "did not start before its deadline; give it more time or a higher priority",
            ),
            Kind::Cancelled(Cause::Closed) => {
                f.write_str("did not start before its pool was shut down")
            }
            Kind::Cancelled(Cause::Full) => {
                f.write_str("was refused: the pool has no room for it; try again later or wait")
            }
            Kind::Deadlock => f.write_str(
                "was joined by a task that it would have to wait for; await it or join it elsewhere",
            ),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskError({self})")
    }
}

impl Error for TaskError {}
