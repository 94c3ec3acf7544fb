//! A call as data.

use crate::CallError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A function name and its arguments: plain data that can be stored, sent, and run where a
/// [`Registry`](crate::Registry) has the function.
///
/// ```
/// use filch_calls::Call;
///
/// let call = Call::new("Add", &(2, 3))?;
/// let text = call.to_json();
/// assert_eq!(text, r#"{"function":"Add","args":[2,3]}"#);
/// assert_eq!(Call::from_json(&text)?, call);
/// # Ok::<(), filch_calls::CallError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The name under which the function is registered.
    pub function: String,
    /// Its argument. A function of several arguments takes them as a tuple, which is an array here.
    #[serde(default)]
    pub args: Value,
}

impl Call {
    /// Creates a call of `function` with `args`.
    ///
    /// ```
    /// use filch_calls::Call;
    ///
    /// assert_eq!(Call::new("Square", &7)?.args, 7);
    /// assert!(Call::new("Now", &())?.args.is_null());
    /// # Ok::<(), filch_calls::CallError>(())
    /// ```
    ///
    /// # Errors
    /// When the arguments cannot be written as JSON: a map whose keys are not strings, for example.
    pub fn new(
        function: impl Into<String>,
        args: &(impl Serialize + ?Sized),
    ) -> Result<Self, CallError> {
        let function = function.into();
        match serde_json::to_value(args) {
            Ok(args) => Ok(Self { function, args }),
            Err(error) => Err(CallError::unwritable(function, error)),
        }
    }

    /// Returns the call as one line of JSON.
    ///
    /// ```
    /// use filch_calls::Call;
    ///
    /// let line = Call::new("Add", &(2, 3))?.to_json(); // to a file, a queue or a socket
    /// assert_eq!(line, r#"{"function":"Add","args":[2,3]}"#);
    /// # Ok::<(), filch_calls::CallError>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a call is made of text and JSON")
    }

    /// Parses the output of [`to_json`](Self::to_json). A call without `args` has the argument
    /// `null`, which a function without arguments takes.
    ///
    /// ```
    /// use filch_calls::Call;
    ///
    /// let error = Call::from_json(r#"{"args": [1]}"#).unwrap_err();
    /// assert!(error.is_text());
    /// assert_eq!(error.to_string(), "this is no call: missing field `function` at line 1 column 13");
    /// ```
    ///
    /// # Errors
    /// When the text is not JSON, or not a call.
    pub fn from_json(text: &str) -> Result<Self, CallError> {
        serde_json::from_str(text).map_err(CallError::text)
    }
}

/// In human-readable form: the function, and its argument as JSON in parentheses.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.args {
            Value::Null => write!(f, "{}()", self.function),
            Value::Array(args) => {
                write!(f, "{}(", self.function)?;
                for (n, arg) in args.iter().enumerate() {
                    let comma = if n > 0 { ", " } else { "" };
                    write!(f, "{comma}{arg}")?;
                }
                f.write_str(")")
            }
            arg => write!(f, "{}({arg})", self.function),
        }
    }
}
