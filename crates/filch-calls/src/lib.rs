//! Calls by name on the workers of a [filch] pool: the work is data, so it can be stored, sent, and
//! run elsewhere.
//!
//! A [`Registry`] has functions whose arguments and results can be written as JSON. A [`Call`]
//! names one of them and its arguments. It is [submitted](mod@filch::submit) like any other task,
//! and its [`CallHandle`] has the result.
//!
//! ```
//! use filch::Pool;
//! use filch_calls::{Call, Registry};
//!
//! let registry = Registry::builder()
//!     .function("Square", |x: i64| x * x)
//!     .function("Add", |(a, b): (i64, i64)| a + b)
//!     .build()?;
//! let pool = Pool::builder().workers(2).build()?;
//!
//! let call = Call::from_json(r#"{"function": "Add", "args": [2, 3]}"#)?; // from wherever
//! assert_eq!(registry.submit::<i64>(&pool, call)?.join()?, 5);
//!
//! let squares: Vec<i64> = registry.map(&pool, "Square", 1..=1000)?;
//! let sum: Option<i64> = registry.reduce(&pool, "Add", squares)?;
//! assert_eq!(sum, Some(333_833_500));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! An unknown function name is reported when the call is submitted. The arguments are read by the
//! worker that runs the call, since large ones take time; so [`join`](CallHandle::join) reports
//! whether they fit. A result is what the function returns, read as the type that the caller wants:
//! any type that reads the same JSON works, and [`Value`] reads everything.

mod builder;
mod bulk;
mod call;
mod error;
mod handle;
mod names;
mod registry;

pub use builder::CallBuilder;
pub use call::Call;
pub use error::CallError;
pub use handle::CallHandle;
pub use registry::{Registry, RegistryBuilder};
pub use serde_json::Value;

/// The result of a call before it is read as a type.
type Raw = Result<Value, CallError>;
