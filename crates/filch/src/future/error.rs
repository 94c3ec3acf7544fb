//! Why a future has no result.

use crate::{
    pool::waits::Cycle,
    task::{StoredPanic, TaskOutcome, expect_panic, resume_panic},
};
use std::{any::Any, error::Error, fmt};

/// Why a future has no result: it panicked, or it was dropped before it was done.
///
/// ```
/// let error = filch::spawn_future(async { panic!("no luck") }).join().unwrap_err();
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert_eq!(error.to_string(), "the future panicked: no luck");
/// assert_eq!(error.into_panic().downcast_ref(), Some(&"no luck"));
/// ```
pub struct FutureError {
    kind: FutureErrorKind,
}

enum FutureErrorKind {
    Panic(StoredPanic),
    /// It was dropped before it was done.
    Cancelled,
    /// The future waits for the call that waits for it.
    Deadlock(Box<Cycle>),
}

impl FutureError {
    pub(super) fn from_outcome<T>(outcome: TaskOutcome<T>) -> Result<T, Self> {
        match outcome {
            TaskOutcome::Value(value) => Ok(value),
            TaskOutcome::Panic(payload) => Err(Self {
                kind: FutureErrorKind::Panic(StoredPanic::new(payload)),
            }),
            TaskOutcome::Cancelled(_) => Err(Self::cancelled()),
        }
    }

    pub(super) fn cancelled() -> Self {
        Self {
            kind: FutureErrorKind::Cancelled,
        }
    }

    pub(super) fn deadlock(cycle: Cycle) -> Self {
        Self {
            kind: FutureErrorKind::Deadlock(Box::new(cycle)),
        }
    }

    /// Whether the future panicked; [`into_panic`](Self::into_panic) returns the payload.
    ///
    /// ```
    /// let error = filch::spawn_future(async { panic!("no luck") }).join().unwrap_err();
    /// assert!(error.is_panic());
    /// ```
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, FutureErrorKind::Panic(_))
    }

    /// Whether the future was [cancelled](super::FutureHandle::cancel), or its pool was shut down,
    /// or its [`LocalSet`](super::LocalSet) dropped.
    ///
    /// ```
    /// let never = filch::spawn_future(std::future::pending::<()>());
    /// never.cancel();
    /// assert!(never.join().unwrap_err().is_cancelled());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind, FutureErrorKind::Cancelled)
    }

    /// Whether the future was [joined](super::FutureHandle::join) by a call that it waits for,
    /// directly or through others, in a poll that blocks. The future continues; its result is lost.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = mpsc::channel::<filch::FutureHandle<bool>>();
    /// let (report, reported) = mpsc::channel();
    /// let handle = pool.spawn_future(async move {
    ///     let this = receive.recv().unwrap();
    ///     report.send(this.join().unwrap_err().is_deadlock()).unwrap();
    ///     true
    /// });
    /// send.send(handle).unwrap();
    /// assert!(reported.recv().unwrap());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, FutureErrorKind::Deadlock(_))
    }

    /// Returns the payload of the future's panic.
    ///
    /// ```
    /// let error = filch::spawn_future(async { panic!("no luck") }).join().unwrap_err();
    /// assert_eq!(error.into_panic().downcast_ref(), Some(&"no luck"));
    /// ```
    ///
    /// # Panics
    /// When the future did not panic; [`try_into_panic`](Self::try_into_panic) returns an error
    /// instead.
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        expect_panic(self.try_into_panic())
    }

    /// Returns the payload of the future's panic, or the error itself.
    ///
    /// ```
    /// let never = filch::spawn_future(std::future::pending::<()>());
    /// never.cancel();
    /// let error = never.join().unwrap_err().try_into_panic().unwrap_err();
    /// assert!(error.is_cancelled());
    /// ```
    ///
    /// # Errors
    /// The error itself, when the future did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.kind {
            FutureErrorKind::Panic(panic) => Ok(panic.into_payload()),
            _ => Err(self),
        }
    }

    /// Resumes the panic of the future on this thread.
    ///
    /// ```should_panic
    /// let handle = filch::spawn_future(async { panic!("no luck") });
    /// let () = handle.join().unwrap_or_else(|error| error.resume());
    /// ```
    ///
    /// # Panics
    /// Always: with the payload of the future's panic, or with this error.
    #[track_caller]
    pub fn resume(self) -> ! {
        resume_panic(self.try_into_panic())
    }
}

impl fmt::Display for FutureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FutureErrorKind::Panic(panic) => write!(f, "the future {panic}"),
            FutureErrorKind::Deadlock(cycle) => write!(
                f,
                "the future was joined by a task that it would have to wait for: {cycle}; await it instead"
            ),
            FutureErrorKind::Cancelled => {
                f.write_str("the future was cancelled, or its pool shut down or its set dropped, before it was done")
            }
        }
    }
}

impl fmt::Debug for FutureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FutureError({self})")
    }
}

impl Error for FutureError {}
