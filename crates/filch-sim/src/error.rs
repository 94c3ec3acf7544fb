//! The error of an invalid case.

use std::{error::Error, fmt};

/// An invalid case, or invalid JSON of one. The message says where, and what to do about it.
///
/// ```
/// use filch_sim::{Case, Program, Simulation};
///
/// let case = Case::new(2, Program::new().inject(0, "unknown", 1));
/// let error = Simulation::new(case).unwrap_err();
/// assert!(error.to_string().contains("no such body"));
/// ```
#[derive(Debug)]
pub struct CaseError {
    what: String,
}

impl CaseError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }

    pub(crate) fn json(of: &str, error: &serde_json::Error) -> Self {
        Self::new(format!("this is no {of}: {error}"))
    }
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for CaseError {}
