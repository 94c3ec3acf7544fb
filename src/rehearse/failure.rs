//! Why a rehearsal was broken off.

use crate::base::unwind::{self, Payload};
use std::{error::Error, fmt};

/// A rehearsal that went wrong: with the same number of workers and the same seed it does so again.
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
    /// This actor uses threads that are not actors, those of this.
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

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether everybody waited for somebody else.
    #[must_use]
    pub fn is_deadlock(&self) -> bool {
        matches!(self.kind, Kind::Deadlock(_))
    }

    /// Whether it went on and on.
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
            Kind::Deadlock(scene) => write!(f, "nobody can go on: {scene}"),
            Kind::Livelock(scene) => {
                write!(f, "it goes on and on, which `most_points` limits: {scene}")
            }
            Kind::Stuck(scene) => write!(
                f,
                "no point for a long time; somebody waits for what a rehearsal does not know: {scene}"
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
