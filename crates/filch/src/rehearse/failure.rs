//! The failure of a rehearsal.

use crate::base::unwind::{self, Payload};
use std::{error::Error, fmt};

/// A failed rehearsal. The same number of workers and the same seed reproduce it.
///
/// ```
/// use filch::rehearse::Rehearsal;
///
/// let failure = Rehearsal::new(1, 7).try_run(|_| -> () { panic!("as planned") }).unwrap_err();
/// assert_eq!((failure.workers(), failure.seed()), (1, 7));
/// assert!(failure.is_panic());
/// assert!(failure.to_string().contains("as planned"));
/// ```
#[derive(Clone, Debug)]
pub struct RehearsalFailure {
    workers: usize,
    seed: u64,
    kind: FailureKind,
}

#[derive(Clone, Debug)]
pub(super) enum FailureKind {
    Deadlock(String),
    Livelock(String),
    Stuck(String),
    Panic(String),
    /// The first (an actor) uses threads of the second, which are not actors.
    Stray(String, String),
}

impl RehearsalFailure {
    pub(super) fn new(workers: usize, seed: u64, kind: FailureKind) -> Self {
        Self {
            workers,
            seed,
            kind,
        }
    }

    pub(super) fn panic(workers: usize, seed: u64, payload: Payload) -> Self {
        let message = unwind::message(&payload).to_owned();
        unwind::discard(payload);
        Self::new(workers, seed, FailureKind::Panic(message))
    }

    /// Returns the number of workers.
    ///
    /// ```
    /// # use filch::rehearse::Rehearsal;
    /// let failure = Rehearsal::new(2, 7).try_run(|_| -> () { panic!("early") }).unwrap_err();
    /// assert_eq!(failure.workers(), 2);
    /// ```
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the seed.
    ///
    /// ```
    /// # use filch::rehearse::Rehearsal;
    /// let wrong = |seed| Rehearsal::new(1, seed).try_run(move |_| assert_ne!(seed, 3)).err();
    /// let failure = (0..10).find_map(wrong).unwrap();
    /// assert_eq!(failure.seed(), 3); // the one to repeat
    /// ```
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether no actor could run.
    ///
    /// ```
    /// use filch::rehearse::{self, Rehearsal};
    ///
    /// let failure = Rehearsal::new(1, 7).try_run(|_| rehearse::wait_until(|| false)).unwrap_err();
    /// assert!(failure.is_deadlock());
    /// ```
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, FailureKind::Deadlock(_))
    }

    /// Whether the [limit of points](super::Rehearsal::max_points) was exceeded.
    ///
    /// ```
    /// use filch::rehearse::{self, Rehearsal};
    ///
    /// let rehearsal = Rehearsal::new(1, 7).max_points(1_000);
    /// let failure = rehearsal.try_run(|_| -> () { loop { rehearse::point() } }).unwrap_err();
    /// assert!(failure.is_livelock());
    /// ```
    #[must_use]
    pub fn is_livelock(&self) -> bool {
        matches!(self.kind, FailureKind::Livelock(_))
    }

    /// Whether the closure panicked.
    ///
    /// ```
    /// # use filch::rehearse::Rehearsal;
    /// let failure = Rehearsal::new(1, 7).try_run(|pool| {
    ///     let (one, two) = pool.join(|| 1, || 2);
    ///     assert_eq!(one, two);
    /// });
    /// assert!(failure.unwrap_err().is_panic());
    /// ```
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, FailureKind::Panic(_))
    }
}

impl fmt::Display for RehearsalFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, seed, .. } = self;
        write!(
            f,
            "the rehearsal with {workers} workers and seed {seed} failed: "
        )?;
        match &self.kind {
            FailureKind::Deadlock(description) => write!(f, "no actor can run: {description}"),
            FailureKind::Livelock(description) => {
                write!(f, "it did not end within `max_points`: {description}")
            }
            FailureKind::Stuck(description) => write!(
                f,
                "no point for a long time; an actor waits for something that is not rehearsed: {description}"
            ),
            FailureKind::Stray(actor, what) => write!(
                f,
                "{actor} uses {what}, whose threads the rehearsal does not direct"
            ),
            FailureKind::Panic(message) => write!(f, "it panicked: {message}"),
        }
    }
}

impl Error for RehearsalFailure {}
