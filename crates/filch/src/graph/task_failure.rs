//! The error that a task has returned.

use std::{error::Error, fmt};

/// An error of any type.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// The error that one task has returned: see [`Graph::try_task`](super::Graph::try_task).
pub struct TaskFailure {
    pub(super) task: String,
    pub(super) error: BoxError,
}

impl TaskFailure {
    /// Returns the name of the task, or its number.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// graph.try_task("parse", || "12x".parse::<u32>());
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert_eq!(error.failures()[0].task(), "parse");
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the error.
    ///
    /// ```
    /// use std::num::ParseIntError;
    ///
    /// let graph = filch::Graph::new();
    /// graph.try_task("parse", || "12x".parse::<u32>());
    /// let error = graph.plan()?.run().unwrap_err();
    /// assert!(error.failures()[0].error().is::<ParseIntError>());
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }

    /// Returns the error, to be handled or passed on.
    ///
    /// ```
    /// use std::num::ParseIntError;
    ///
    /// let graph = filch::Graph::new();
    /// graph.try_task("parse", || "12x".parse::<u32>());
    /// let error = graph.plan()?.run().unwrap_err();
    /// let first = error.into_failures().remove(0);
    /// let cause: Box<ParseIntError> = first.into_error().downcast().expect("it parses numbers");
    /// assert_eq!(cause.to_string(), "invalid digit found in string");
    /// # Ok::<(), filch::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn into_error(self) -> Box<dyn Error + Send + Sync> {
        self.error
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.task, self.error)
    }
}

impl fmt::Debug for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
