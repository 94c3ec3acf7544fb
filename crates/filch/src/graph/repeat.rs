//! How often a launched plan is run.

/// Whether a launched plan is run once more.
pub(super) enum Repeat {
    /// This many times.
    Times(u64),
    /// Until the user's closure returns true.
    Until(Box<dyn FnMut() -> bool + Send>),
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(0)
    }
}

impl Repeat {
    /// Takes one of the runs that are left, or calls the user's closure. Returns whether the plan
    /// is run once more.
    pub(super) fn take_run(&mut self) -> bool {
        match self {
            Self::Times(left) => {
                let is_left = *left > 0;
                *left = left.saturating_sub(1);
                is_left
            }
            Self::Until(stop) => !stop(),
        }
    }
}
