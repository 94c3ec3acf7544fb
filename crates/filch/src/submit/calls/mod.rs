//! Calls by name: the work is data, so it can be stored, sent, and run elsewhere.
//!
//! A [`Registry`] has functions whose arguments and results can be written as JSON. A [`Call`]
//! names one of them and its arguments. It is submitted like any other task, and its [`CallHandle`]
//! has the result.
//!
//! ```
//! use filch::{Pool, calls::{Call, Registry}};
//!
//! let registry = Registry::builder()
//!     .function("Square", |x: i64| x * x)
//!     .function("Add", |(a, b): (i64, i64)| a + b)
//!     .build()?;
//! let pool = Pool::builder().workers(2).build()?;
//!
//! let call = Call::from_json(r#"{"function": "Add", "args": [2, 3]}"#)?; // from wherever
//! assert_eq!(pool.call::<i64>(&registry, call)?.join()?, 5);
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

mod bulk;
mod call;
mod error;
mod handle;
mod names;
mod registry;

pub use call::Call;
pub use error::CallError;
pub use handle::CallHandle;
pub use registry::{Registry, RegistryBuilder};
pub use serde_json::Value;

use super::{
    cell::Body,
    launch::{self, Admission},
    options::{Options, task_options},
};
use crate::pool::{Inner, Pool};
use registry::Function;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// The result of a call before it is read as a type.
type Raw = Result<Value, CallError>;

/// A call that is about to be submitted, with a priority, a deadline and so on: from
/// [`Pool::call_task`].
///
/// ```
/// use filch::{Pool, Priority, calls::{Call, Registry}};
/// use std::time::Duration;
///
/// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
/// let pool = Pool::builder().workers(2).build()?;
/// let handle = pool
///     .call_task(&registry, Call::new("Square", &7)?)?
///     .priority(Priority::High)
///     .timeout(Duration::from_secs(60))
///     .submit::<i64>()?;
/// assert_eq!(handle.name(), Some("Square")); // unless it is given another one
/// assert_eq!(handle.join()?, 49);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a call does nothing before it is submitted"]
pub struct CallTask<'p> {
    pool: &'p Arc<Inner>,
    work: Work,
    options: Options,
}

/// The code of the task of a call.
struct Work {
    function: Arc<Function>,
    args: Value,
}

impl Body<Raw> for Work {
    fn call(self) -> Raw {
        self.function.run(self.args)
    }
}

impl Work {
    fn into_call(self) -> Call {
        Call {
            function: self.function.name().to_string(),
            args: self.args,
        }
    }
}

impl Pool {
    /// Submits a call of a function of `registry`. See [`calls`](crate::calls).
    ///
    /// ```
    /// use filch::{Pool, calls::{Call, Registry, Value}};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let call = Call::new("Square", &7)?;
    /// assert_eq!(pool.call::<i64>(&registry, call.clone())?.join()?, 49);
    /// assert_eq!(pool.call::<Value>(&registry, call)?.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such function, or the pool does not accept the call.
    pub fn call<R: DeserializeOwned>(
        &self,
        registry: &Registry,
        call: Call,
    ) -> Result<CallHandle<R>, CallError> {
        self.call_task(registry, call)?.submit()
    }

    /// Returns a builder, which sets a name, a priority and so on before the call is submitted.
    ///
    /// # Errors
    /// When there is no such function.
    pub fn call_task(&self, registry: &Registry, call: Call) -> Result<CallTask<'_>, CallError> {
        let function = registry.function(&call.function)?.clone();
        let options = Options {
            name: Some(function.name().clone()),
            ..Options::default()
        };
        let args = call.args;
        Ok(CallTask {
            pool: self.inner(),
            work: Work { function, args },
            options,
        })
    }
}

impl Registry {
    /// Submits a call of `function` to `pool`: [`Pool::call`] without the [`Call`].
    ///
    /// ```
    /// use filch::{Pool, calls::Registry};
    ///
    /// let registry = Registry::builder().function("Add", |(a, b): (i64, i64)| a + b).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let sum = registry.call::<i64>(&pool, "Add", &(2, 3))?;
    /// assert_eq!(sum.join()?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such function, the arguments cannot be written as JSON, or the pool does
    /// not accept the call.
    pub fn call<R: DeserializeOwned>(
        &self,
        pool: &Pool,
        function: &str,
        args: &(impl Serialize + ?Sized),
    ) -> Result<CallHandle<R>, CallError> {
        pool.call(self, Call::new(function, args)?)
    }
}

impl CallTask<'_> {
    task_options!();

    /// Submits the call. When the pool has no capacity left, the caller waits, the call is refused
    /// or runs here, according to the pool's [policy](crate::TaskOverflow).
    ///
    /// # Errors
    /// With the [call](CallError::into_call), when the pool accepts no more tasks, when it is full
    /// and its policy is to refuse, and when the worker or node of the [affinity](super::Affinity)
    /// does not exist.
    pub fn submit<R: DeserializeOwned>(self) -> Result<CallHandle<R>, CallError> {
        self.launch(Admission::ByPolicy)
    }

    /// Submits the call if there is capacity, whatever the pool's policy.
    ///
    /// # Errors
    /// With the [call](CallError::into_call), when there is no capacity, and otherwise as
    /// [`submit`](Self::submit).
    pub fn try_submit<R: DeserializeOwned>(self) -> Result<CallHandle<R>, CallError> {
        self.launch(Admission::Now)
    }

    /// Submits the call; waits for capacity, but no longer than `limit`, whatever the pool's
    /// policy.
    ///
    /// # Errors
    /// With the [call](CallError::into_call), when there is no capacity in time, and otherwise as
    /// [`submit`](Self::submit).
    pub fn submit_timeout<R: DeserializeOwned>(
        self,
        limit: Duration,
    ) -> Result<CallHandle<R>, CallError> {
        // A deadline beyond the range of the clock is no limit.
        self.launch(Admission::Until(Instant::now().checked_add(limit)))
    }

    fn launch<R: DeserializeOwned>(self, room: Admission) -> Result<CallHandle<R>, CallError> {
        let Self {
            pool,
            work,
            options,
        } = self;
        let function = work.function.clone();
        let launched = launch::at_place(pool, |context| {
            launch::launch(pool, context, work, options, room)
        });
        match launched {
            Ok(task) => Ok(CallHandle::new(task, function)),
            Err(refusal) => {
                let refusal = refusal.map(Work::into_call);
                Err(CallError::refused(function.name(), refusal))
            }
        }
    }
}

impl fmt::Debug for CallTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTask")
            .field("function", self.work.function.name())
            .field("args", &self.work.args)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
