//! The handle of a call.

use crate::{CallError, Raw, names, registry::Function};
use filch::{Dependency, Priority, TaskError, TaskHandle, TaskId};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The handle of a submitted call: a [`TaskHandle`] that reads the function's result as an `R`.
///
/// Dropping it *detaches* the call. It is a future too.
///
/// ```
/// use filch::Pool;
/// use filch_calls::Registry;
///
/// let registry = Registry::builder()
///     .function("Words", |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>())
///     .build()?;
/// let pool = Pool::builder().workers(1).build()?;
/// let words = registry.call::<Vec<String>>(&pool, "Words", "to be")?;
/// assert_eq!(words.join()?, ["to", "be"]);
///
/// let wrong = registry.call::<u64>(&pool, "Words", "to be")?.join().unwrap_err();
/// assert!(wrong.is_result());
/// assert_eq!(
///     wrong.to_string(),
///     r#"Words gave ["to","be"], where u64 was wanted: invalid type: sequence, expected u64"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the handle detaches the call; say so with `detach`"]
pub struct CallHandle<R> {
    task: TaskHandle<Raw>,
    function: Arc<Function>,
    result: PhantomData<fn() -> R>,
}

impl<R> CallHandle<R> {
    pub(crate) fn new(task: TaskHandle<Raw>, function: Arc<Function>) -> Self {
        Self {
            task,
            function,
            result: PhantomData,
        }
    }

    /// Whether the call is done: it has a result, has failed or panicked, or was cancelled.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let square = registry.call::<i64>(&pool, "Square", &7)?;
    /// while !square.is_finished() {
    ///     std::thread::yield_now(); // or other work
    /// }
    /// assert_eq!(square.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Returns the name of the function that is called.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let square = registry.call::<i64>(&pool, "Square", &7)?;
    /// assert_eq!(square.function(), "Square");
    /// # square.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn function(&self) -> &str {
        self.function.name()
    }

    /// Returns the id of the task.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let (three, four) = (
    ///     registry.call::<i64>(&pool, "Square", &3)?,
    ///     registry.call::<i64>(&pool, "Square", &4)?,
    /// );
    /// assert_ne!(three.id(), four.id());
    /// # (three.join()?, four.join()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id()
    }

    /// Returns the name of the task; that of the function, if no other name was set.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?.name("area of the roof");
    /// let area = task.submit::<i64>()?;
    /// assert_eq!((area.name(), area.function()), (Some("area of the roof"), "Square"));
    /// # area.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.task.name()
    }

    /// Returns the call as a dependency for other tasks; see
    /// [`TaskBuilder::after`](filch::submit::TaskBuilder::after).
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let square = registry.call::<i64>(&pool, "Square", &7)?;
    /// let after = pool.task(|| "then").after(square.dependency()).submit()?;
    /// assert_eq!(after.join()?, "then");
    /// assert!(square.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dependency(&self) -> Dependency {
        self.task.dependency()
    }

    /// Returns the priority of the call.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let square = registry.call::<i64>(&pool, "Square", &7)?;
    /// assert_eq!(square.priority(), Priority::Normal);
    /// # square.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.task.priority()
    }

    /// Cancels the call. Returns true when it had not started, and never will. A running function
    /// can check with [`is_cancelled`](filch::is_cancelled).
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).build()?;
    /// let handle = registry.call::<i64>(&pool, "Square", &7)?;
    /// assert!(handle.cancel());
    /// let error = handle.join().unwrap_err();
    /// assert!(error.is_cancelled());
    /// assert_eq!(error.to_string(), "task `Square` was cancelled before it started");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "most callers don't care")]
    pub fn cancel(&self) -> bool {
        self.task.cancel()
    }

    /// Changes the priority of the call. Returns false when it does not wait any more.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).build()?; // so that the call waits until it is joined
    /// let square = registry.call::<i64>(&pool, "Square", &7)?;
    /// assert!(square.set_priority(Priority::High));
    /// assert_eq!(square.priority(), Priority::High);
    /// # square.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::must_use_candidate, reason = "most callers don't care")]
    pub fn set_priority(&self, priority: Priority) -> bool {
        self.task.set_priority(priority)
    }

    /// Detaches the call, as dropping the handle does: it runs without a waiter.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let registry = Registry::builder()
    ///     .function("Log", move |text: String| sender.send(text).unwrap())
    ///     .build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// registry.call::<()>(&pool, "Log", "it began")?.detach();
    /// assert_eq!(receiver.recv()?, "it began");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(self) {}
}

impl<R: DeserializeOwned> CallHandle<R> {
    /// Waits for the call, as [`TaskHandle::join`] does, and returns its result.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// assert_eq!(registry.call::<i64>(&pool, "Square", &7)?.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the arguments do not fit the function, when it fails or panics, when its result cannot
    /// be read as an `R`, and when the call was cancelled.
    pub fn join(self) -> Result<R, CallError> {
        let raw = self.task.join();
        read(&self.function, raw)
    }

    /// Returns the result, if the call is done; else the handle itself.
    ///
    /// ```
    /// # use filch::Pool;
    /// # use filch_calls::Registry;
    /// # let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// # let alone = Pool::builder().workers(0).build()?;
    /// let square = registry.call::<i64>(&alone, "Square", &7)?;
    /// let square = square.try_join().unwrap_err(); // it has not run yet
    /// assert_eq!(square.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, when the call is not done.
    pub fn try_join(self) -> Result<Result<R, CallError>, Self> {
        match self.task.try_join() {
            Ok(raw) => Ok(read(&self.function, raw)),
            Err(task) => Err(Self { task, ..self }),
        }
    }

    /// [`join`](Self::join) with a time limit, as [`TaskHandle::join_timeout`].
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
    /// use std::time::Duration;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let square = registry.call::<i64>(&pool, "Square", &7)?;
    /// match square.join_timeout(Duration::from_secs(60)) {
    ///     Ok(result) => assert_eq!(result?, 49),
    ///     Err(square) => square.detach(), // it takes too long
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, when the time is up.
    pub fn join_timeout(self, limit: Duration) -> Result<Result<R, CallError>, Self> {
        match self.task.join_timeout(limit) {
            Ok(raw) => Ok(read(&self.function, raw)),
            Err(task) => Err(Self { task, ..self }),
        }
    }
}

/// Ready when the call is done.
impl<R: DeserializeOwned> Future for CallHandle<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        Pin::new(&mut this.task)
            .poll(cx)
            .map(|raw| read(&this.function, raw))
    }
}

impl<R> fmt::Debug for CallHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallHandle")
            .field("function", &self.function())
            .field("task", &self.task)
            .finish()
    }
}

/// Reads the result of a task as an `R`.
fn read<R: DeserializeOwned>(
    function: &Function,
    raw: Result<Raw, TaskError>,
) -> Result<R, CallError> {
    match raw {
        Ok(raw) => value(function, &raw?),
        Err(error) => Err(CallError::task(function.name(), error)),
    }
}

/// Reads the result of a function as an `R`.
pub(crate) fn value<R: DeserializeOwned>(
    function: &Function,
    value: &Value,
) -> Result<R, CallError> {
    R::deserialize(value)
        .map_err(|error| CallError::result(function.name(), names::type_name::<R>(), value, error))
}
