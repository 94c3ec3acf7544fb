//! Why a call has no result.

use crate::{Call, names};
use filch::{Refused, TaskError};
use serde_json::Value;
use std::{any::Any, error::Error, fmt};

/// Why a call has no result.
///
/// ```
/// use filch_calls::{Call, Registry};
///
/// let registry = Registry::builder()
///     .function("Add", |(a, b): (i64, i64)| a + b)
///     .build()?;
/// let error = registry.run(Call::new("add", &(1, 2))?).unwrap_err();
/// assert!(error.is_unknown());
/// assert_eq!(error.to_string(), "no function is called \"add\"; did you mean Add?");
///
/// let error = registry.run(Call::new("Add", &(1, "2"))?).unwrap_err();
/// assert!(error.is_arguments());
/// assert_eq!(
///     error.to_string(),
///     r#"Add takes (i64, i64), not [1,"2"]: invalid type: string "2", expected i64"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CallError {
    function: String,
    /// The index of the value in a map or a reduction.
    item: Option<usize>,
    kind: CallErrorKind,
}

#[derive(Debug)]
enum CallErrorKind {
    Unknown {
        suggestion: String,
    },
    Arguments {
        takes: String,
        got: String,
        source: serde_json::Error,
    },
    Unwritable {
        source: serde_json::Error,
    },
    Result {
        wanted: String,
        got: String,
        source: serde_json::Error,
    },
    UnwritableResult {
        gives: String,
        source: serde_json::Error,
    },
    Failed {
        source: Box<dyn Error + Send + Sync>,
    },
    /// It panicked, or never ran.
    Task {
        source: TaskError,
    },
    /// The pool did not accept it. A chunk of a map or a reduction is not returned.
    Refused {
        refusal: Refused<()>,
        call: Option<Call>,
    },
    /// It was cancelled between the values of a chunk.
    Stopped,
    Text {
        source: serde_json::Error,
    },
}

impl CallError {
    fn new(function: impl Into<String>, kind: CallErrorKind) -> Self {
        Self {
            function: function.into(),
            item: None,
            kind,
        }
    }

    pub(crate) fn unknown(function: &str, suggestion: String) -> Self {
        Self::new(function, CallErrorKind::Unknown { suggestion })
    }

    pub(crate) fn arguments(
        function: &str,
        takes: &str,
        got: &Value,
        source: serde_json::Error,
    ) -> Self {
        let (takes, got) = (takes.to_owned(), names::excerpt(got));
        Self::new(function, CallErrorKind::Arguments { takes, got, source })
    }

    pub(crate) fn unwritable(function: String, source: serde_json::Error) -> Self {
        Self::new(function, CallErrorKind::Unwritable { source })
    }

    pub(crate) fn result(
        function: &str,
        wanted: String,
        got: &Value,
        source: serde_json::Error,
    ) -> Self {
        let got = names::excerpt(got);
        Self::new(
            function,
            CallErrorKind::Result {
                wanted,
                got,
                source,
            },
        )
    }

    pub(crate) fn unwritable_result(
        function: &str,
        gives: &str,
        source: serde_json::Error,
    ) -> Self {
        let gives = gives.to_owned();
        Self::new(function, CallErrorKind::UnwritableResult { gives, source })
    }

    pub(crate) fn failed(function: &str, source: Box<dyn Error + Send + Sync>) -> Self {
        Self::new(function, CallErrorKind::Failed { source })
    }

    pub(crate) fn task(function: &str, source: TaskError) -> Self {
        Self::new(function, CallErrorKind::Task { source })
    }

    pub(crate) fn refused(function: &str, refusal: Refused<()>, call: Option<Call>) -> Self {
        Self::new(function, CallErrorKind::Refused { refusal, call })
    }

    pub(crate) fn stopped(function: &str) -> Self {
        Self::new(function, CallErrorKind::Stopped)
    }

    pub(crate) fn text(source: serde_json::Error) -> Self {
        Self::new("", CallErrorKind::Text { source })
    }

    /// Sets the index of the value of a map or a reduction that caused the error.
    pub(crate) fn at(mut self, item: usize) -> Self {
        self.item = Some(item);
        self
    }

    /// Returns the function that was called; empty when a text was not a call at all.
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().build()?;
    /// let error = registry.run(Call::new("Square", &7)?).unwrap_err();
    /// assert_eq!(error.function(), "Square");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }

    /// Returns the index of the value that caused the error, in a [`map`](crate::Registry::map) or
    /// a [`reduce`](crate::Registry::reduce).
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Registry, Value};
    ///
    /// let registry = Registry::builder().function("Length", |text: String| text.len()).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let values = [Value::from("text"), Value::from(7)];
    /// let error = registry.map::<usize>(&pool, "Length", values).unwrap_err();
    /// assert_eq!(error.item(), Some(1)); // the number has no length
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn item(&self) -> Option<usize> {
        self.item
    }

    /// Whether no function has that name.
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let error = registry.run(Call::new("Sqare", &7)?).unwrap_err();
    /// assert!(error.is_unknown());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, CallErrorKind::Unknown { .. })
    }

    /// Whether the arguments do not fit the function, or cannot be written as JSON.
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let error = registry.run(Call::new("Square", "seven")?).unwrap_err();
    /// assert!(error.is_arguments());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_arguments(&self) -> bool {
        matches!(
            self.kind,
            CallErrorKind::Arguments { .. } | CallErrorKind::Unwritable { .. }
        )
    }

    /// Whether the result is not of the type that the caller wanted, or cannot be written as JSON.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Name", |(): ()| "filch").build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let error = registry.call::<u32>(&pool, "Name", &())?.join().unwrap_err();
    /// assert!(error.is_result()); // a text is no number
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_result(&self) -> bool {
        matches!(
            self.kind,
            CallErrorKind::Result { .. } | CallErrorKind::UnwritableResult { .. }
        )
    }

    /// Whether the function itself returned an error, which is the [`source`](Error::source).
    ///
    /// ```
    /// use filch_calls::{Call, Registry};
    /// use std::error::Error;
    ///
    /// let registry = Registry::builder()
    ///     .try_function("Parse", |text: String| text.parse::<i64>())
    ///     .build()?;
    /// let error = registry.run(Call::new("Parse", "seven")?).unwrap_err();
    /// assert!(error.is_failed() && error.source().is_some());
    /// # Ok::<(), Box<dyn Error>>(())
    /// ```
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self.kind, CallErrorKind::Failed { .. })
    }

    /// Whether the function panicked; [`into_panic`](Self::into_panic) returns the payload.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    /// use std::panic::resume_unwind;
    ///
    /// let registry = Registry::builder()
    ///     .function("Fail", |(): ()| -> u32 { resume_unwind(Box::new("no luck")) })
    ///     .build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let error = registry.call::<u32>(&pool, "Fail", &())?.join().unwrap_err();
    /// assert!(error.is_panic());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.task_error().is_some_and(TaskError::is_panic)
    }

    /// Whether the call never started, and never will: it was cancelled, its deadline passed, or
    /// its pool did not accept it. Also true for a map or a reduction that was cancelled
    /// between its values.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).build()?; // nothing runs by itself
    /// let call = registry.call::<i64>(&pool, "Square", &7)?;
    /// call.cancel();
    /// assert!(call.join().unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind, CallErrorKind::Stopped)
            || self.is_refused()
            || self.task_error().is_some_and(TaskError::is_cancelled)
    }

    /// Whether the call did not start before its deadline.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    /// use std::time::Instant;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let late = registry.task(&pool, Call::new("Square", &7)?)?.deadline(Instant::now());
    /// assert!(late.submit::<i64>()?.join().unwrap_err().is_deadline());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        self.task_error().is_some_and(TaskError::is_deadline)
    }

    /// Whether the pool had no capacity for the call, or accepts no more;
    /// [`into_call`](Self::into_call) returns it.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = registry.call::<i64>(&pool, "Square", &1)?;
    /// let second = registry.task(&pool, Call::new("Square", &2)?)?.try_submit::<i64>();
    /// let error = second.unwrap_err();
    /// assert!(error.is_refused());
    /// assert_eq!(error.into_call().unwrap(), Call::new("Square", &2)?);
    /// # first.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, CallErrorKind::Refused { .. })
            || self.task_error().is_some_and(TaskError::is_refused)
    }

    /// Whether a text was not a call.
    ///
    /// ```
    /// use filch_calls::Call;
    ///
    /// assert!(Call::from_json("hello").unwrap_err().is_text());
    /// ```
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self.kind, CallErrorKind::Text { .. })
    }

    /// Returns the error of the task, when it panicked or never ran.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).build()?;
    /// let call = registry.call::<i64>(&pool, "Square", &7)?;
    /// call.cancel();
    /// let error = call.join().unwrap_err();
    /// assert!(error.task_error().is_some_and(|task| task.is_cancelled()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn task_error(&self) -> Option<&TaskError> {
        match &self.kind {
            CallErrorKind::Task { source } => Some(source),
            _ => None,
        }
    }

    /// Returns the payload of the function's panic.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    /// use std::panic::resume_unwind;
    ///
    /// let registry = Registry::builder()
    ///     .function("Fail", |(): ()| -> u32 { resume_unwind(Box::new("no luck")) })
    ///     .build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let error = registry.call::<u32>(&pool, "Fail", &())?.join().unwrap_err();
    /// assert_eq!(error.into_panic().unwrap().downcast_ref(), Some(&"no luck"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error itself, when the function did not panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.kind {
            CallErrorKind::Task { source } => source.try_into_panic().map_err(|source| Self {
                kind: CallErrorKind::Task { source },
                ..self
            }),
            _ => Err(self),
        }
    }

    /// Returns the call that was refused when it was submitted.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let full = Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = registry.call::<i64>(&full, "Square", &1)?;
    /// let second = registry.task(&full, Call::new("Square", &7)?)?;
    /// let error = second.try_submit::<i64>().unwrap_err();
    /// let call = error.into_call().expect("it was refused");
    /// assert_eq!(registry.run(call)?, 49); // on this thread instead
    /// # first.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error itself, when the call was not refused, or was one of a [map](crate::Registry::map)
    /// or a [reduction](crate::Registry::reduce).
    pub fn into_call(self) -> Result<Call, Self> {
        match self.kind {
            CallErrorKind::Refused {
                call: Some(call), ..
            } => Ok(call),
            _ => Err(self),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(item) = self.item {
            write!(f, "value {item}: ")?;
        }
        let function = &self.function;
        match &self.kind {
            CallErrorKind::Unknown { suggestion } => {
                write!(f, "no function is called {function:?}; {suggestion}")
            }
            CallErrorKind::Arguments { takes, got, source } => {
                write!(f, "{function} takes {takes}, not {got}: {source}")
            }
            CallErrorKind::Unwritable { source } => write!(
                f,
                "the arguments for {function} cannot be written as JSON: {source}"
            ),
            CallErrorKind::Result {
                wanted,
                got,
                source,
            } => write!(
                f,
                "{function} gave {got}, where {wanted} was wanted: {source}"
            ),
            CallErrorKind::UnwritableResult { gives, source } => write!(
                f,
                "the {gives} that {function} gave cannot be written as JSON: {source}"
            ),
            CallErrorKind::Failed { source } => write!(f, "{function} failed: {source}"),
            CallErrorKind::Task { source } => write!(f, "{source}"),
            CallErrorKind::Refused {
                refusal,
                call: None,
            } if refusal.is_full() => write!(
                f,
                "the pool has no room for calls of {function}; try again later"
            ),
            CallErrorKind::Refused {
                refusal,
                call: None,
            } if refusal.is_closed() => write!(
                f,
                "{function} cannot be called: the pool takes no more tasks"
            ),
            CallErrorKind::Refused { refusal, .. } if refusal.is_full() => write!(
                f,
                "the pool has no room for a call of {function}; take it back with into_call and try again later"
            ),
            CallErrorKind::Refused { refusal, .. } if refusal.is_closed() => write!(
                f,
                "the pool takes no more tasks; take the call of {function} back with into_call"
            ),
            CallErrorKind::Refused { refusal, .. } => {
                write!(f, "{function} cannot be called: {refusal}")
            }
            CallErrorKind::Stopped => {
                write!(f, "{function} was cancelled before it had seen all values")
            }
            CallErrorKind::Text { source } => write!(f, "this is no call: {source}"),
        }
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            CallErrorKind::Unknown { .. } | CallErrorKind::Stopped => None,
            CallErrorKind::Arguments { source, .. }
            | CallErrorKind::Unwritable { source }
            | CallErrorKind::Result { source, .. }
            | CallErrorKind::UnwritableResult { source, .. }
            | CallErrorKind::Text { source } => Some(source),
            CallErrorKind::Failed { source } => Some(&**source),
            CallErrorKind::Task { source } => Some(source),
            CallErrorKind::Refused { refusal, .. } => Some(refusal),
        }
    }
}
