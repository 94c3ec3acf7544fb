//! Why a future has no result.

use crate::task::Outcome;
use crate::{
    base::unwind::{self, Payload},
    pool::waits::Cycle,
};
use std::{
    any::Any,
    error::Error,
    fmt,
    sync::{Mutex, PoisonError},
};

/// Why a future has no result: it panicked, or it was dropped before it was done.
///
/// ```
/// let error = filch::spawn_future(async { panic!("no luck") }).join().unwrap_err();
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert_eq!(error.to_string(), "the future panicked: no luck");
/// assert_eq!(error.into_panic().downcast_ref(), Some(&"no luck"));
/// ```
pub struct FutureError {
    kind: Kind,
}

enum Kind {
    /// In a mutex because a panic payload need not be `Sync`.
    Panic(Mutex<Payload>),
    /// It was dropped before it was done.
    Cancelled,
    /// The future waits for the call that waits for it.
    Deadlock(Box<Cycle>),
}

impl FutureError {
    pub(super) fn from_outcome<T>(outcome: Outcome<T>) -> Result<T, Self> {
        match outcome {
            Outcome::Value(value) => Ok(value),
            Outcome::Panic(payload) => Err(Self {
                kind: Kind::Panic(Mutex::new(payload)),
            }),
            Outcome::Cancelled(_) => Err(Self::cancelled()),
        }
    }

    pub(super) fn cancelled() -> Self {
        Self {
            kind: Kind::Cancelled,
        }
    }

    pub(super) fn deadlock(cycle: Cycle) -> Self {
        Self {
            kind: Kind::Deadlock(Box::new(cycle)),
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
        matches!(self.kind, Kind::Panic(_))
    }

    /// Whether the future was [aborted](super::FutureHandle::abort), or its pool was shut down, or
    /// its [`LocalSet`](super::LocalSet) dropped.
    ///
    /// ```
    /// let never = filch::spawn_future(std::future::pending::<()>());
    /// never.abort();
    /// assert!(never.join().unwrap_err().is_cancelled());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind, Kind::Cancelled)
    }

    /// Whether the future was [joined](super::FutureHandle::join) by a call that it waits for,
    /// directly or through others, in a poll that blocks. The future continues; its result is lost.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// let (send, receive) = mpsc::channel::<filch::FutureHandle<bool>>();
    /// let (tell, told) = mpsc::channel();
    /// let handle = pool.spawn_future(async move {
    ///     let this = receive.recv().unwrap();
    ///     tell.send(this.join().unwrap_err().is_deadlock()).unwrap();
    ///     true
    /// });
    /// send.send(handle).unwrap();
    /// assert!(told.recv().unwrap());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, Kind::Deadlock(_))
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
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("there is no panic in this error: {error}"),
        }
    }

    /// Returns the payload of the future's panic, or the error itself.
    ///
    /// ```
    /// let never = filch::spawn_future(std::future::pending::<()>());
    /// never.abort();
    /// let error = never.join().unwrap_err().try_into_panic().unwrap_err();
    /// assert!(error.is_cancelled());
    /// ```
    ///
    /// # Errors
    /// The error itself, when the future did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.kind {
            Kind::Panic(payload) => {
                Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
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
    pub fn resume(self) -> ! {
        match self.try_into_panic() {
            Ok(payload) => unwind::resume(payload),
            Err(error) => panic!("{error}"),
        }
    }
}

impl fmt::Display for FutureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Panic(payload) => {
                let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
                write!(f, "the future panicked: {}", unwind::message(&payload))
            }
            Kind::Deadlock(cycle) => write!(
                f,
                "the future was joined by a task that it would have to wait for: {cycle}; await it instead"
            ),
            Kind::Cancelled => {
                f.write_str("the future was aborted, or its pool shut down or its set dropped, before it was done")
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
