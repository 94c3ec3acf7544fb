//! How the threads of a group become more or fewer while they work, for pools and executors.

use super::worker_state::{Revoked, WorkerStates};
use crate::base::{error::BuildError, thread};
use std::{error::Error, fmt, ops::Range};

/// What the resize of a pool or executor does with its threads.
pub(crate) trait ResizeThreads {
    /// What is resized, in messages.
    const NAME: &'static str;

    /// Whether it accepts tasks.
    fn is_open(&self) -> bool;

    /// Starts the thread of a worker, and adds it to those that a shutdown joins.
    fn start(&self, worker: usize) -> Result<(), BuildError>;

    /// Wakes the thread of a worker, which sleeps or is about to.
    fn unpark(&self, worker: usize);
}

impl WorkerStates {
    /// Makes the workers with numbers below `workers`, which is from one to the
    /// [capacity](Self::capacity), take part. Waits until those that join have entered the engine,
    /// and not until others have left.
    pub(crate) fn resize<R: ResizeThreads>(
        &self,
        workers: usize,
        threads: &R,
    ) -> Result<(), ResizeError> {
        // A shutdown that begins later joins the new threads too.
        let lock = self.begin_resize(|| threads.is_open());
        if lock.is_none() {
            return Err(ResizeError::closed::<R>(workers));
        }
        let live = self.live();
        if workers < live {
            self.set_live(workers);
            self.ask_all_to_leave(workers..live, threads);
        } else {
            self.add_workers(live..workers, threads)?;
            self.set_live(workers);
        }
        Ok(())
    }

    /// Makes the workers of these numbers take part: those from the present number on.
    fn add_workers<R: ResizeThreads>(
        &self,
        numbers: Range<usize>,
        threads: &R,
    ) -> Result<(), ResizeError> {
        for worker in numbers.clone() {
            if let Err(error) = self.add_worker(worker, threads) {
                self.ask_all_to_leave(numbers.start..worker, threads);
                return Err(match threads.is_open() {
                    true => ResizeError::start::<R>(error, numbers.start),
                    false => ResizeError::closed::<R>(numbers.end),
                });
            }
        }
        Ok(())
    }

    fn add_worker(&self, worker: usize, threads: &impl ResizeThreads) -> Result<(), BuildError> {
        let state = self.state(worker);
        loop {
            match state.revoke() {
                Revoked::Stays => return Ok(()),
                Revoked::Going => thread::yield_now(),
                Revoked::Gone => break,
            }
        }
        state.start();
        threads.start(worker).inspect_err(|_| state.fail_start())?;
        while state.is_starting() {
            thread::yield_now();
        }
        Ok(())
    }

    /// Asks running workers to leave.
    fn ask_all_to_leave(&self, workers: Range<usize>, threads: &impl ResizeThreads) {
        for worker in workers {
            self.state(worker).ask_to_leave();
            // Correct whether the worker sleeps or is about to: it checks its state after it has
            // been unparked.
            threads.unpark(worker);
        }
    }
}

/// Why a pool or executor has not been resized. It has as many workers as before.
///
/// ```
/// let pool = filch::Pool::builder().workers(2).build()?;
/// let error = pool.resize(3).unwrap_err();
/// assert!(error.is_out_of_range());
/// assert!(error.to_string().contains("3 workers") && error.to_string().contains("1 to 2"));
/// assert_eq!(pool.workers(), 2);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Debug)]
pub struct ResizeError {
    /// What was to be resized.
    name: &'static str,
    kind: ResizeErrorKind,
}

#[derive(Debug)]
enum ResizeErrorKind {
    OutOfRange { asked: usize, max: usize },
    Closed { asked: usize },
    Unsupported(&'static str),
    Start { source: BuildError, workers: usize },
}

impl ResizeError {
    fn new<R: ResizeThreads>(kind: ResizeErrorKind) -> Self {
        let name = R::NAME;
        Self { name, kind }
    }

    pub(crate) fn out_of_range<R: ResizeThreads>(asked: usize, max: usize) -> Self {
        Self::new::<R>(ResizeErrorKind::OutOfRange { asked, max })
    }

    fn closed<R: ResizeThreads>(asked: usize) -> Self {
        Self::new::<R>(ResizeErrorKind::Closed { asked })
    }

    pub(crate) fn unsupported<R: ResizeThreads>(why: &'static str) -> Self {
        Self::new::<R>(ResizeErrorKind::Unsupported(why))
    }

    fn start<R: ResizeThreads>(source: BuildError, workers: usize) -> Self {
        Self::new::<R>(ResizeErrorKind::Start { source, workers })
    }

    /// Whether the number of workers is zero, or more than
    /// [`max_workers`](crate::Pool::max_workers).
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).build()?;
    /// assert!(pool.resize(0).unwrap_err().is_out_of_range());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_out_of_range(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::OutOfRange { .. })
    }

    /// Whether the pool or executor has been shut down.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// pool.clone().shutdown();
    /// assert!(pool.resize(1).unwrap_err().is_closed());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::Closed { .. })
    }

    /// Whether the pool or executor does not start its own threads, or the caller is one of its
    /// hooks.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(0).build()?;
    /// assert!(pool.resize(1).unwrap_err().is_unsupported());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::Unsupported(_))
    }

    /// Whether a thread could not be started, or its start hook or name function panicked. The
    /// [source](Error::source) is the [`BuildError`].
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(1).max_workers(2);
    /// let pool = pool.on_start(|worker| assert!(worker == 0, "no licence")).build()?;
    /// let error = pool.resize(2).unwrap_err();
    /// assert!(error.is_start() && error.to_string().contains("no licence"));
    /// assert_eq!(pool.workers(), 1);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_start(&self) -> bool {
        matches!(self.kind, ResizeErrorKind::Start { .. })
    }
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.kind {
            ResizeErrorKind::OutOfRange { asked, max } => {
                let article = if name.starts_with('e') { "an" } else { "a" };
                write!(
                    f,
                    "{article} {name} cannot have {asked} workers; ask for 1 to {max}"
                )?;
                match asked {
                    0 => Ok(()),
                    _ => write!(f, ", or build it with a larger `max_workers`"),
                }
            }
            ResizeErrorKind::Closed { asked } => write!(
                f,
                "the {name} has been shut down, and cannot be resized to {asked} workers; \
                 build another one"
            ),
            ResizeErrorKind::Unsupported(why) => f.write_str(why),
            ResizeErrorKind::Start { source, workers } => {
                write!(f, "{source}; the {name} has {workers} workers as before")
            }
        }
    }
}

impl Error for ResizeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ResizeErrorKind::Start { source, .. } => Some(source),
            _ => None,
        }
    }
}
