//! The result of a run.

/// The result of a run that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    pub(super) ran: u64,
}

impl RunReport {
    /// Returns how many tasks ran; one that ran twice counts twice.
    ///
    /// ```
    /// let mut laps = 0;
    /// let graph = filch::Graph::new();
    /// let start = graph.task("start", || ());
    /// let again = graph.condition("again?", || { laps += 1; usize::from(laps == 3) });
    /// start.precede(again);
    /// again.precede(again);
    /// assert_eq!(graph.plan()?.run()?.ran(), 4); // `start` once, the condition three times
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.ran
    }
}
