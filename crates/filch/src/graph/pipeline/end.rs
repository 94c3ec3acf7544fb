//! The end of a run of a pipeline.

use super::{
    erased::ErasedSource,
    error::{PipelineError, PipelineErrorKind, StagePanic},
    report::PipelineReport,
    source::DeferError,
};
use crate::{base::unwind::Payload, pool::context::WorkerContext};

/// The failures of a run, collected while it runs.
#[derive(Default)]
pub(super) struct PipelineFailures {
    pub(super) panics: Vec<(usize, u64, Payload)>,
    pub(super) defer_error: Option<DeferError>,
}

/// What a run leaves when it is over.
pub(super) struct LeftByRun {
    /// The number of tokens that were dropped in flight.
    pub(super) in_flight: u64,
    pub(super) cancelled: bool,
    pub(super) failures: PipelineFailures,
}

/// Ends a run, and returns its result.
pub(super) fn conclude(
    left: LeftByRun,
    source: &mut Box<dyn ErasedSource + '_>,
    names: &[Option<String>],
    context: &WorkerContext<'_, '_>,
) -> Result<PipelineReport, PipelineError> {
    let LeftByRun {
        in_flight,
        cancelled,
        failures,
    } = left;
    let ended = source.end();
    for payload in ended.panics {
        context.pool().panicked(payload);
    }
    let dropped = in_flight + ended.deferred + failures.panics.len() as u64;
    let finished = ended.tokens - dropped;
    let panics = failures.panics.into_iter();
    let panics: Vec<_> = panics
        .map(|(stage, token, payload)| StagePanic {
            stage,
            name: names[stage].clone(),
            token,
            payload,
        })
        .collect();
    let kind = if !panics.is_empty() {
        PipelineErrorKind::Panics(panics)
    } else if let Some(defer_error) = failures.defer_error {
        PipelineErrorKind::Deferred(defer_error)
    } else if cancelled && !(ended.all && dropped == 0) {
        PipelineErrorKind::Cancelled
    } else {
        return Ok(PipelineReport { tokens: finished });
    };
    Err(PipelineError {
        kind,
        finished,
        dropped,
    })
}
