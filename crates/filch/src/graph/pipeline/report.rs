//! The result of a run of a pipeline.

/// The result of a run of a [`Pipeline`](super::Pipeline) that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineReport {
    pub(super) tokens: u64,
}

impl PipelineReport {
    /// Returns how many tokens passed all stages.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}
