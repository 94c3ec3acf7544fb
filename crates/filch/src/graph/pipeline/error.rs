//! Errors of a run of a pipeline.

use super::source::DeferError;
use crate::base::unwind::{self, Payload};
use std::{any::Any, error::Error, fmt};

/// Why a run of a [`Pipeline`](super::Pipeline) failed. The pipeline can be run again.
///
/// ```
/// use filch::graph::Pipeline;
///
/// let mut numbers = [1, 2, 0, 4].into_iter();
/// let error = Pipeline::new(|_| numbers.next())
///     .parallel(|n| if n == 0 { std::panic::resume_unwind(Box::new("nought")) } else { 12 / n })
///     .named("divide")
///     .run(4)
///     .unwrap_err();
/// let panic = &error.panics()[0];
/// assert_eq!((panic.stage(), panic.name(), panic.token()), (1, Some("divide"), 2));
/// assert!(error.to_string().starts_with("stage 1 (divide) panicked at token 2: nought"));
/// ```
pub struct PipelineError {
    pub(super) kind: Kind,
    pub(super) finished: u64,
    pub(super) dropped: u64,
}

pub(super) enum Kind {
    NoLines,
    TooManyLines,
    Panics(Vec<StagePanic>),
    Deferred(DeferError),
    Cancelled,
}

/// The panic of one token in one stage.
pub struct StagePanic {
    pub(super) stage: usize,
    pub(super) name: Option<String>,
    pub(super) token: u64,
    pub(super) payload: Payload,
}

impl StagePanic {
    /// Returns the number of the stage: 0 is the source.
    #[must_use]
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Returns the name of the stage, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of the token.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the payload of the panic.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl PipelineError {
    /// Returns all panics of the run, in the order in which they were caught.
    #[must_use]
    pub fn panics(&self) -> &[StagePanic] {
        match &self.kind {
            Kind::Panics(panics) => panics,
            _ => &[],
        }
    }

    /// Returns all panics of the run, in the order in which they were caught.
    #[must_use]
    pub fn into_panics(self) -> Vec<StagePanic> {
        match self.kind {
            Kind::Panics(panics) => panics,
            _ => Vec::new(),
        }
    }

    /// Whether the run was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind, Kind::Cancelled)
    }

    /// Returns the tokens that waited for each other in a cycle; empty if there was another reason.
    #[must_use]
    pub fn cycle(&self) -> &[u64] {
        match &self.kind {
            Kind::Deferred(DeferError::Cycle(tokens)) => tokens,
            _ => &[],
        }
    }

    /// Returns the token that waited for one that never appeared, and that one, if this was the
    /// reason.
    #[must_use]
    pub fn missing_token(&self) -> Option<(u64, u64)> {
        match &self.kind {
            Kind::Deferred(DeferError::Unknown { token, waits_for }) => Some((*token, *waits_for)),
            _ => None,
        }
    }

    /// Returns how many tokens passed all stages.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns how many tokens were dropped: those that panicked, those in flight and those that
    /// waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl fmt::Display for StagePanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "stage {} ({name})", self.stage)?,
            None if self.stage == 0 => f.write_str("the source")?,
            None => write!(f, "stage {}", self.stage)?,
        }
        let message = unwind::message(&self.payload);
        write!(f, " panicked at token {}: {message}", self.token)
    }
}

impl fmt::Debug for StagePanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::NoLines => {
                return f.write_str("a pipeline without lines moves nothing; give it at least one");
            }
            Kind::TooManyLines => {
                return f.write_str("there is no memory for so many lines; give it fewer");
            }
            Kind::Panics(panics) => {
                for (number, panic) in panics.iter().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    write!(f, "{comma}{panic}")?;
                }
            }
            Kind::Deferred(DeferError::Cycle(tokens)) => {
                f.write_str("these tokens wait for each other: ")?;
                for token in tokens {
                    write!(f, "{token} → ")?;
                }
                let first = tokens.first().copied().unwrap_or_default();
                write!(f, "{first}; take one of the waits away")?;
            }
            Kind::Deferred(DeferError::Unknown { token, waits_for }) => write!(
                f,
                "token {token} waits for token {waits_for}, which never came; let the source go on, or do not defer"
            )?,
            Kind::Cancelled => f.write_str("the pipeline was cancelled")?,
        }
        let Self {
            finished, dropped, ..
        } = self;
        write!(f, " ({finished} tokens finished, {dropped} dropped)")
    }
}

impl fmt::Debug for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for PipelineError {}
