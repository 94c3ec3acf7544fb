//! Submission: from a call to a task.

use crate::{Call, CallError, CallHandle, Raw, Registry, Value, registry::Function};
use filch::{
    Affinity, CancelToken, Pool, Priority, Refused, TaskHandle,
    submit::{Dependencies, TaskBuilder},
    time::Instant,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};

/// The closure of the task of a call. It is boxed so that [`CallBuilder`] can name its type.
type Closure = Box<dyn FnOnce() -> Raw + Send>;

/// A call that is about to be submitted, with a priority, a deadline and so on: from
/// [`Registry::task`].
///
/// ```
/// use filch::{Pool, Priority};
/// use filch_calls::{Call, Registry};
/// use std::time::Duration;
///
/// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
/// let pool = Pool::builder().workers(2).build()?;
/// let handle = registry
///     .task(&pool, Call::new("Square", &7)?)?
///     .priority(Priority::High)
///     .timeout(Duration::from_secs(60))
///     .submit::<i64>()?;
/// assert_eq!(handle.name(), Some("Square")); // unless it is given another one
/// assert_eq!(handle.join()?, 49);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a call does nothing before it is submitted"]
pub struct CallBuilder<'p> {
    task: TaskBuilder<'p, Closure>,
    /// Shared with the closure, so that a refused call can be returned.
    work: Arc<Work>,
}

struct Work {
    function: Arc<Function>,
    args: Value,
}

impl Registry {
    /// Submits a call of a function to `pool`.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry, Value};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let call = Call::new("Square", &7)?;
    /// assert_eq!(registry.submit::<i64>(&pool, call.clone())?.join()?, 49);
    /// assert_eq!(registry.submit::<Value>(&pool, call)?.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such function, or the pool does not accept the call.
    pub fn submit<R: DeserializeOwned>(
        &self,
        pool: &Pool,
        call: Call,
    ) -> Result<CallHandle<R>, CallError> {
        self.task(pool, call)?.submit()
    }

    /// Returns a builder, which sets a name, a priority and so on before the call is submitted to
    /// `pool`.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?;
    /// assert_eq!(task.priority(Priority::High).submit::<i64>()?.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such function.
    pub fn task<'p>(&self, pool: &'p Pool, call: Call) -> Result<CallBuilder<'p>, CallError> {
        let function = self.function(&call.function)?.clone();
        let name = function.name().clone();
        let args = call.args;
        let work = Arc::new(Work { function, args });
        let shared = work.clone();
        let closure: Closure = Box::new(move || shared.function.run(&shared.args));
        let task = pool.task(closure).name(name);
        Ok(CallBuilder { task, work })
    }

    /// Submits a call of `function` to `pool`: [`submit`](Self::submit) without the [`Call`].
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::Registry;
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
        self.submit(pool, Call::new(function, args)?)
    }
}

/// The settings of a task: see [`TaskBuilder`].
impl<'p> CallBuilder<'p> {
    fn with(self, set: impl FnOnce(TaskBuilder<'p, Closure>) -> TaskBuilder<'p, Closure>) -> Self {
        Self {
            task: set(self.task),
            work: self.work,
        }
    }

    /// Sets a name, for errors and for [`current_task`](filch::current_task); by default it is the
    /// name of the function.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).build()?;
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?.name("area of the roof");
    /// let area = task.submit::<i64>()?;
    /// area.cancel();
    /// let error = area.join().unwrap_err();
    /// assert!(error.to_string().contains("area of the roof"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(self, name: impl Into<Arc<str>>) -> Self {
        self.with(|task| task.name(name))
    }

    /// Sets the priority; [`Normal`](Priority::Normal) by default.
    ///
    /// ```
    /// use filch::{Pool, Priority};
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?.priority(Priority::High);
    /// assert_eq!(task.submit::<i64>()?.join()?, 49); // before calls of lower priority
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|task| task.priority(priority))
    }

    /// Sets where the call should run; anywhere by default.
    ///
    /// ```
    /// use filch::{Affinity, Pool};
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder()
    ///     .function("Where", |(): ()| filch::current_worker())
    ///     .build()?;
    /// let pool = Pool::builder().workers(2).build()?;
    /// let task = registry.task(&pool, Call::new("Where", &())?)?;
    /// assert!(task.affinity(Affinity::Worker(7)).submit::<Option<usize>>().is_err()); // of two
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn affinity(self, affinity: Affinity) -> Self {
        self.with(|task| task.affinity(affinity))
    }

    /// Sets a deadline, as [`TaskBuilder::deadline`] does.
    ///
    /// ```
    /// use filch::{Pool, time::Instant};
    /// use filch_calls::{Call, Registry};
    /// use std::time::Duration;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let soon = Instant::now() + Duration::from_secs(60);
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?.deadline(soon);
    /// assert_eq!(task.submit::<i64>()?.join()?, 49); // it started in time
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(self, at: Instant) -> Self {
        self.with(|task| task.deadline(at))
    }

    /// Sets a [`deadline`](Self::deadline) relative to now.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    /// use std::time::Duration;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?.timeout(Duration::ZERO);
    /// assert!(task.submit::<i64>()?.join().unwrap_err().is_deadline());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timeout(self, time: Duration) -> Self {
        self.with(|task| task.timeout(time))
    }

    /// Cancels the call when `token` is cancelled, as [`TaskBuilder::token`] does.
    ///
    /// ```
    /// use filch::{CancelToken, Pool};
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).build()?;
    /// let token = CancelToken::new();
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?.token(&token);
    /// let square = task.submit::<i64>()?;
    /// token.cancel(); // and everything else that has the token
    /// assert!(square.join().unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn token(self, token: &CancelToken) -> Self {
        self.with(|task| task.token(token))
    }

    /// Makes the call wait until these tasks have ended, as [`TaskBuilder::after`] does.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(2).build()?;
    /// let first = registry.call::<i64>(&pool, "Square", &3)?;
    /// let second = registry
    ///     .task(&pool, Call::new("Square", &4)?)?
    ///     .after(first.dependency())
    ///     .submit::<i64>()?;
    /// assert_eq!(second.join()?, 16);
    /// assert!(first.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(self, tasks: impl Dependencies) -> Self {
        self.with(|task| task.after(tasks))
    }

    /// [`after`](Self::after) regardless of how these tasks end, as
    /// [`TaskBuilder::after_any_outcome`] does.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let wrong = registry.call::<i64>(&pool, "Square", "seven")?; // fails
    /// let next = registry
    ///     .task(&pool, Call::new("Square", &7)?)?
    ///     .after_any_outcome(wrong.dependency())
    ///     .submit::<i64>()?;
    /// assert_eq!(next.join()?, 49);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after_any_outcome(self, tasks: impl Dependencies) -> Self {
        self.with(|task| task.after_any_outcome(tasks))
    }

    /// Submits the call. When the pool has no capacity left, the caller waits, the call is refused
    /// or runs here, according to the pool's [policy](filch::TaskOverflow).
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry, Value};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(1).build()?;
    /// let task = registry.task(&pool, Call::new("Square", &7)?)?;
    /// assert_eq!(task.submit::<Value>()?.join()?, 49); // of any type that the caller wants
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// With the [call](CallError::into_call), when the pool accepts no more tasks, when it is full
    /// and its policy is to refuse, and when the worker or node of the [affinity](Affinity) does
    /// not exist.
    pub fn submit<R: DeserializeOwned>(self) -> Result<CallHandle<R>, CallError> {
        self.launch(TaskBuilder::submit)
    }

    /// Submits the call if there is capacity, whatever the pool's policy.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = registry.call::<i64>(&pool, "Square", &1)?;
    /// let second = registry.task(&pool, Call::new("Square", &2)?)?.try_submit::<i64>();
    /// assert!(second.unwrap_err().is_refused()); // without a wait
    /// # first.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// With the [call](CallError::into_call), when there is no capacity, and otherwise as
    /// [`submit`](Self::submit).
    pub fn try_submit<R: DeserializeOwned>(self) -> Result<CallHandle<R>, CallError> {
        self.launch(TaskBuilder::try_submit)
    }

    /// Submits the call; waits for capacity, but no longer than `limit`, whatever the pool's
    /// policy.
    ///
    /// ```
    /// use filch::Pool;
    /// use filch_calls::{Call, Registry};
    /// use std::time::Duration;
    ///
    /// let registry = Registry::builder().function("Square", |x: i64| x * x).build()?;
    /// let pool = Pool::builder().workers(0).task_capacity(1).build()?;
    /// let first = registry.call::<i64>(&pool, "Square", &1)?;
    /// let second = registry.task(&pool, Call::new("Square", &2)?)?;
    /// let second = second.submit_timeout::<i64>(Duration::from_secs(60))?; // runs the first
    /// assert_eq!((first.join()?, second.join()?), (1, 4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// With the [call](CallError::into_call), when there is no capacity in time, and otherwise as
    /// [`submit`](Self::submit).
    pub fn submit_timeout<R: DeserializeOwned>(
        self,
        limit: Duration,
    ) -> Result<CallHandle<R>, CallError> {
        self.launch(|task| task.submit_timeout(limit))
    }

    fn launch<R: DeserializeOwned>(
        self,
        submit: impl FnOnce(TaskBuilder<'p, Closure>) -> Result<TaskHandle<Raw>, Refused<Closure>>,
    ) -> Result<CallHandle<R>, CallError> {
        let function = self.work.function.clone();
        match submit(self.task) {
            Ok(task) => Ok(CallHandle::new(task, function)),
            Err(refusal) => {
                // The closure is dropped here, so the work has no other owner.
                let refusal = refusal.map(drop);
                let call = Arc::into_inner(self.work).map(|work| Call {
                    function: work.function.name().to_string(),
                    args: work.args,
                });
                Err(CallError::refused(function.name(), refusal, call))
            }
        }
    }
}

impl fmt::Debug for CallBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBuilder")
            .field("function", self.work.function.name())
            .field("args", &self.work.args)
            .field("task", &self.task)
            .finish()
    }
}
