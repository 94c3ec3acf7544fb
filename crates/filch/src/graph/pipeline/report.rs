//! The result of a run of a pipeline.

/// The result of a run of a [`Pipeline`](super::Pipeline) that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineReport {
    pub(super) tokens: u64,
}

impl PipelineReport {
    /// Returns how many tokens passed all stages.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut lines = "one\ntwo\nthree".lines();
    /// let report = Pipeline::new(|_| lines.next()).parallel(str::len).run(2)?;
    /// assert_eq!(report.tokens(), 3);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}
