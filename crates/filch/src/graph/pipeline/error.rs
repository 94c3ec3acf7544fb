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
    pub(super) kind: PipelineErrorKind,
    pub(super) finished: u64,
    pub(super) dropped: u64,
}

pub(super) enum PipelineErrorKind {
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
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let write = |_| resume_unwind(Box::new("full disk"));
    /// let mut pipeline = Pipeline::new(|_| Some(1)).serial(write);
    /// let error = pipeline.run(1).unwrap_err();
    /// assert_eq!(error.panics()[0].stage(), 1); // the first one after the source
    /// ```
    #[must_use]
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Returns the name of the stage, if it has one.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let write = |_| resume_unwind(Box::new("full disk"));
    /// let error = Pipeline::new(|_| Some(1)).serial(write).named("write").run(1).unwrap_err();
    /// assert_eq!(error.panics()[0].name(), Some("write"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of the token.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let mut texts = ["1", "2", "three"].into_iter();
    /// let parse = |text: &str| match text.parse::<u32>() {
    ///     Ok(number) => number,
    ///     Err(error) => resume_unwind(Box::new(error)),
    /// };
    /// let error = Pipeline::new(|_| texts.next()).serial(parse).run(1).unwrap_err();
    /// assert_eq!(error.panics()[0].token(), 2); // the text at fault
    /// ```
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the payload of the panic.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let mut pipeline = Pipeline::new(|_| Some(1)).serial(|_| resume_unwind(Box::new(42_u32)));
    /// let panic = pipeline.run(1).unwrap_err().into_panics().remove(0);
    /// assert_eq!(panic.into_payload().downcast_ref(), Some(&42_u32));
    /// ```
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
    }
}

impl PipelineError {
    /// Returns all panics of the run, in the order in which they were caught.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let write = |_| resume_unwind(Box::new("full disk"));
    /// let mut pipeline = Pipeline::new(|_| Some(1)).serial(write);
    /// let error = pipeline.run(1).unwrap_err();
    /// for panic in error.panics() {
    ///     eprintln!("{panic}"); // stage 1 panicked at token 0: full disk
    /// }
    /// assert_eq!(error.panics().len(), 1);
    /// ```
    #[must_use]
    pub fn panics(&self) -> &[StagePanic] {
        match &self.kind {
            PipelineErrorKind::Panics(panics) => panics,
            _ => &[],
        }
    }

    /// Returns all panics of the run, in the order in which they were caught.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    ///
    /// let write = |_| resume_unwind(Box::new("full disk"));
    /// let mut pipeline = Pipeline::new(|_| Some(1)).serial(write);
    /// let first = pipeline.run(1).unwrap_err().into_panics().remove(0);
    /// // Propagate the panic, as a call of the closure would have.
    /// let caught = catch_unwind(AssertUnwindSafe(|| resume_unwind(first.into_payload())));
    /// assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"full disk"));
    /// ```
    #[must_use]
    pub fn into_panics(self) -> Vec<StagePanic> {
        match self.kind {
            PipelineErrorKind::Panics(panics) => panics,
            _ => Vec::new(),
        }
    }

    /// Whether the run was cancelled.
    ///
    /// ```
    /// use filch::{CancelToken, graph::{Pipeline, RunOptions}};
    ///
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let mut endless = Pipeline::new(|_| Some(1));
    /// let error = endless.run_with(4, &RunOptions::new().cancel(&token)).unwrap_err();
    /// assert!(error.is_cancelled());
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind, PipelineErrorKind::Cancelled)
    }

    /// Returns the tokens that waited for each other in a cycle; empty if there was another reason.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut pipeline = Pipeline::new(|flow| {
    ///     let token = flow.token();
    ///     flow.defer(if token == 0 { 1 } else { 0 }); // 0 waits for 1, and 1 for 0
    ///     (token < 2).then_some(token)
    /// });
    /// let error = pipeline.run(2).unwrap_err();
    /// assert_eq!(error.cycle().len(), 2);
    /// ```
    #[must_use]
    pub fn cycle(&self) -> &[u64] {
        match &self.kind {
            PipelineErrorKind::Deferred(DeferError::Cycle(tokens)) => tokens,
            _ => &[],
        }
    }

    /// Returns the token that waited for one that never appeared, and that one, if this was the
    /// reason.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut pipeline = Pipeline::new(|flow| {
    ///     flow.defer(100); // of only three
    ///     (flow.token() < 3).then_some(())
    /// });
    /// let error = pipeline.run(2).unwrap_err();
    /// assert_eq!(error.missing_token(), Some((0, 100)));
    /// ```
    #[must_use]
    pub fn missing_token(&self) -> Option<(u64, u64)> {
        match &self.kind {
            PipelineErrorKind::Deferred(DeferError::Unknown { token, waits_for }) => {
                Some((*token, *waits_for))
            }
            _ => None,
        }
    }

    /// Returns how many tokens passed all stages.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let mut pipeline = Pipeline::new(|flow| Some(flow.token()))
    ///     .serial(|token| if token == 5 { resume_unwind(Box::new("full disk")) });
    /// assert_eq!(pipeline.run(1).unwrap_err().finished(), 5);
    /// ```
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Returns how many tokens were dropped: those that panicked, those in flight and those that
    /// waited.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    /// use std::panic::resume_unwind;
    ///
    /// let mut pipeline = Pipeline::new(|flow| Some(flow.token()))
    ///     .serial(|token| if token == 5 { resume_unwind(Box::new("full disk")) });
    /// assert_eq!(pipeline.run(1).unwrap_err().dropped(), 1); // with one line, only token 5
    /// ```
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
            PipelineErrorKind::NoLines => {
                return f.write_str("a pipeline needs at least one line to run");
            }
            PipelineErrorKind::TooManyLines => {
                return f.write_str(
                    "the memory for this number of lines cannot be allocated; use fewer",
                );
            }
            PipelineErrorKind::Panics(panics) => {
                for (number, panic) in panics.iter().enumerate() {
                    let comma = if number == 0 { "" } else { ", " };
                    write!(f, "{comma}{panic}")?;
                }
            }
            PipelineErrorKind::Deferred(DeferError::Cycle(tokens)) => {
                f.write_str("these tokens wait for each other: ")?;
                for token in tokens {
                    write!(f, "{token} → ")?;
                }
                let first = tokens.first().copied().unwrap_or_default();
                write!(f, "{first}; remove one of the waits")?;
            }
            PipelineErrorKind::Deferred(DeferError::Unknown { token, waits_for }) => write!(
                f,
                "token {token} waits for token {waits_for}, which the source did not produce; let it produce that token, or do not defer"
            )?,
            PipelineErrorKind::Cancelled => f.write_str("the pipeline was cancelled")?,
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
