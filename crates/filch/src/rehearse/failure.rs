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
pub struct Failure {
    workers: usize,
    seed: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Deadlock(String),
    Livelock(String),
    Stuck(String),
    Panic(String),
    /// The first (an actor) uses threads of the second, which are not actors.
    Stray(String, String),
}

impl Failure {
    pub(super) fn new(workers: usize, seed: u64, kind: Kind) -> Self {
        Self {
            workers,
            seed,
            kind,
        }
    }

    pub(super) fn panic(workers: usize, seed: u64, payload: Payload) -> Self {
        let message = unwind::message(&payload).to_owned();
        unwind::discard(payload);
        Self::new(workers, seed, Kind::Panic(message))
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether no actor could run.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, Kind::Deadlock(_))
    }

    /// Whether the limit of points was exceeded.
    #[must_use]
    pub fn is_livelock(&self) -> bool {
        matches!(self.kind, Kind::Livelock(_))
    }

    /// Whether the closure panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.kind, Kind::Panic(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, seed, .. } = self;
        write!(
            f,
            "the rehearsal with {workers} workers and seed {seed} failed: "
        )?;
        match &self.kind {
            Kind::Deadlock(description) => write!(f, "nobody can go on: {description}"),
            Kind::Livelock(description) => {
                write!(
                    f,
                    "it goes on and on, which `most_points` limits: {description}"
                )
            }
            Kind::Stuck(description) => write!(
                f,
                "no point for a long time; somebody waits for what a rehearsal does not know: {description}"
            ),
            Kind::Stray(actor, what) => write!(
                f,
                "{actor} uses {what}, whose threads the rehearsal does not direct"
            ),
            Kind::Panic(message) => write!(f, "it panicked: {message}"),
        }
    }
}

impl Error for Failure {}
