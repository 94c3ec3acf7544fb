//! Errors of building a pool.

use std::{error::Error, fmt, io};

/// The reason why a thread pool could not be built, or the global one not be configured.
///
/// ```
/// use rayon_core::ThreadPoolBuilder;
///
/// rayon_core::join(|| (), || ()); // starts the global pool
/// let error = ThreadPoolBuilder::new().build_global().unwrap_err();
/// assert!(error.to_string().contains("already"));
/// ```
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    GlobalStarted,
    ThreadTaken,
    Thread(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) fn global_started() -> Self {
        Self {
            kind: Kind::GlobalStarted,
        }
    }

    pub(crate) fn thread_taken() -> Self {
        Self {
            kind: Kind::ThreadTaken,
        }
    }

    pub(crate) fn thread(error: io::Error) -> Self {
        Self {
            kind: Kind::Thread(error),
        }
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::GlobalStarted => f.write_str(
                "the global thread pool has been started already; set it up before its first use",
            ),
            Kind::ThreadTaken => f.write_str(
                "this thread belongs to a thread pool already; build the pool on another thread",
            ),
            Kind::Thread(error) => write!(f, "a thread could not be started: {error}"),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::Thread(error) => Some(error),
            _ => None,
        }
    }
}
