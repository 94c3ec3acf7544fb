//! The failure of a task as its followers report it.

use super::TaskId;
use crate::task::{Cause, TaskStatus};
use std::{fmt, sync::Arc};

/// A failed task, as reported by a task that waited for it:
/// [`TaskError::failed_dependency`](super::TaskError::failed_dependency).
#[derive(Clone)]
pub struct FailedTask {
    id: TaskId,
    name: Option<Arc<str>>,
    status: TaskStatus,
}

impl FailedTask {
    pub(super) fn new(id: TaskId, name: Option<Arc<str>>, status: TaskStatus) -> Self {
        Self { id, name, status }
    }

    /// Returns the id of the task.
    ///
    /// ```
    /// let load = filch::submit(|| panic!("no file"));
    /// let error = filch::submit_after(&load, || "parsed").join().unwrap_err();
    /// assert_eq!(error.failed_dependency().unwrap().id(), load.id());
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the name of the task, if it has one.
    ///
    /// ```
    /// let load = filch::task(|| panic!("no file")).name("load").submit().unwrap();
    /// let error = filch::submit_after(&load, || "parsed").join().unwrap_err();
    /// assert_eq!(error.failed_dependency().unwrap().name(), Some("load"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it panicked. Otherwise it never started.
    ///
    /// ```
    /// let load = filch::submit(|| panic!("no file"));
    /// let error = filch::submit_after(&load, || "parsed").join().unwrap_err();
    /// assert!(error.failed_dependency().unwrap().is_panic());
    /// assert!(!error.is_panic()); // the follower itself never started
    /// ```
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.status == TaskStatus::Panicked
    }

    /// Whether it did not start before its deadline.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let load = filch::task(|| "loaded").timeout(Duration::ZERO).submit().unwrap();
    /// let error = filch::submit_after(&load, || "parsed").join().unwrap_err();
    /// assert!(error.failed_dependency().unwrap().is_deadline());
    /// ```
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        self.status == TaskStatus::Cancelled(Cause::Deadline)
    }

    /// Returns what happened to it, as the end of a sentence.
    pub(super) fn description(&self) -> &'static str {
        match self.status {
            TaskStatus::Panicked => "panicked",
            TaskStatus::Cancelled(Cause::Deadline) => "did not start before its deadline",
            TaskStatus::Cancelled(Cause::Closed | Cause::Full) => {
                "was refused or did not start before its pool was shut down"
            }
            TaskStatus::Succeeded | TaskStatus::Cancelled(Cause::Requested | Cause::Dependency) => {
                "was cancelled"
            }
        }
    }
}

impl fmt::Display for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_task(f, self.id, self.name())?;
        write!(f, " {}", self.description())
    }
}

impl fmt::Debug for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FailedTask({self})")
    }
}

/// Writes the name of a task, or its id if it has none.
pub(super) fn write_task(
    f: &mut fmt::Formatter<'_>,
    id: TaskId,
    name: Option<&str>,
) -> fmt::Result {
    match name {
        Some(name) => write!(f, "task `{name}`"),
        None => write!(f, "task {id}"),
    }
}
