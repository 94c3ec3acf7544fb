//! The result of a run.

/// The result of a run that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReport {
    pub(super) ran: u64,
}

impl RunReport {
    /// Returns how many tasks ran; one that ran twice counts twice.
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.ran
    }
}
