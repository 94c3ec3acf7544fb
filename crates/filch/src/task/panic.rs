//! The panic of a task as a part of an error.

use crate::base::unwind::{self, Payload};
use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

/// A panic payload in an error. In a mutex because a payload need not be `Sync`.
pub(crate) struct StoredPanic(Mutex<Payload>);

impl StoredPanic {
    pub(crate) fn new(payload: Payload) -> Self {
        Self(Mutex::new(payload))
    }

    pub(crate) fn into_payload(self) -> Payload {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message of the panic.
impl fmt::Display for StoredPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "panicked: {}", unwind::message(&payload))
    }
}

/// Returns the payload; panics if the error has none.
#[track_caller]
pub(crate) fn expect_panic<E: fmt::Display>(payload: Result<Payload, E>) -> Payload {
    match payload {
        Ok(payload) => payload,
        Err(error) => panic!("there is no panic in this error: {error}"),
    }
}

/// Resumes the panic; panics with the error if it has none.
#[track_caller]
pub(crate) fn resume_panic<E: fmt::Display>(payload: Result<Payload, E>) -> ! {
    match payload {
        Ok(payload) => unwind::resume(payload),
        Err(error) => panic!("{error}"),
    }
}
