//! Submitted tasks: closures with a handle to their result.
//!
//! ```
//! use filch::{Pool, Priority};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().workers(2).build()?;
//! let sum = pool.submit(|| (1..=100).sum::<u32>());
//! let urgent = pool
//!     .task(|| "done")
//!     .priority(Priority::High)
//!     .timeout(Duration::from_secs(60))
//!     .submit()
//!     .unwrap();
//! assert_eq!(sum.join().unwrap(), 5050);
//! assert_eq!(urgent.join().unwrap(), "done");
//! # Ok::<(), filch::BuildError>(())
//! ```
//!
//! # Which call when
//!
//! | you want | take |
//! |---|---|
//! | a result, some time | [`submit`], [`Pool::submit`], then [`join`](TaskHandle::join) or `.await` |
//! | to look without waiting, or to wait for a while | [`try_join`](TaskHandle::try_join), [`join_timeout`](TaskHandle::join_timeout), [`is_finished`](TaskHandle::is_finished) |
//! | a name, a priority, a place, a deadline, a token | [`Pool::task`] or [`task()`], then `submit` |
//! | not to wait when the pool is full | [`Task::try_submit`], [`submit_timeout`](Task::submit_timeout), [`submit_async`](Task::submit_async) |
//! | to take it back | [`TaskHandle::cancel`], or a [`CancelToken`](crate::CancelToken) for many |
//! | to know inside of a task that it is not wanted any more | [`is_cancelled()`], [`current_task()`] |
//! | many results, in their order, or the first error | [`Pool::group`] |
//! | to begin when others have ended | [`submit_after`], [`Pool::submit_after`], [`Task::after`] |
//! | nobody to wait for it | [`TaskHandle::detach`], or [`spawn`](crate::spawn()), which cannot be refused |
//! | to borrow from the stack | [`join`](crate::join()) and [`scope`](crate::scope()) |
//!
//! # What is promised
//!
//! - **A task that was let in ran once, or says that it was cancelled**, whatever is cancelled, panics or is shut down
//!   meanwhile; nobody waits for ever. One that is not let in is given back.
//! - **A cancelled task never starts**, and its closure is dropped by the time in which its handle says so. One that
//!   runs already is only asked.
//! - **A panic is the task's own.** It reaches whoever joins, or else the pool's
//!   [`on_panic`](crate::PoolBuilder::on_panic). That goes for destructors of closures and results that nobody took as well.
//! - **Priorities** are honoured wherever a worker chooses, and can be changed while a task waits; less urgent tasks get
//!   their turns all the same. **Affinity** is kept if the worker is free soon.
//!
//! # Waiting inside of tasks
//!
//! [`join`](TaskHandle::join) runs a task that nobody has begun right there. If it runs already, a worker that waits runs
//! other tasks meanwhile, as in [`fork`](mod@crate::fork#waiting). So tasks may submit and join tasks, on one worker and on
//! none.
//!
//! Every such join takes some stack, as a call does: a chain of tasks, each of which joins the next one that nobody has
//! begun, must fit into the [stack](crate::PoolBuilder::stack_size) of the worker that runs it. A thread from outside stops
//! at half of its stack and leaves the rest to the workers, as long as they get on with it.
//!
//! What runs meanwhile runs *on top of* the waiting task, which goes on only when that is done. If the one on top in turn
//! waits for the one below it, [`join`](TaskHandle::join) returns an [error](TaskError::is_deadlock) instead of waiting for
//! ever. So it does when tasks wait for each other in a circle over several workers; the error names them. That takes tasks
//! that join what others have submitted: a task that joins only what it has submitted itself, as in a recursion, is safe, and
//! so is a thread that waits outside of the pool, or a future that awaits. See [`sync`](crate::sync#joins-in-a-circle).
//!
//! # Tasks that wait for others
//!
//! Dependencies need no [graph](mod@crate::graph) if the tasks come up as the program goes along: submit each behind the
//! handles of those that it needs. No worker waits meanwhile, and nobody has to know the whole.
//!
//! ```
//! use filch::Pool;
//!
//! let pool = Pool::builder().workers(2).build()?;
//! let fetch: Vec<_> = ["a", "b"].map(|name| pool.submit(move || println!("fetch {name}"))).into();
//! let build = pool.task(|| println!("build")).name("build").after(&fetch).submit().unwrap();
//! let test = pool.submit_after((&build, &fetch[0]), || "tested");
//! let clean = pool.task(|| "cleaned").after_any_outcome(&test).submit().unwrap();
//! assert_eq!(test.join().unwrap(), "tested");
//! assert_eq!(clean.join().unwrap(), "cleaned");
//! # Ok::<(), filch::BuildError>(())
//! ```
//!
//! - A task is accepted at once, and is counted and holds its [room](crate::PoolBuilder::task_capacity) from then on. It is
//!   queued when the last of the others has *ended*, at the priority that it has then. What they did is visible to it. The
//!   time that it waits counts as time in the queue.
//! - If one of the others panics, is cancelled or refused, or does not start in time, the task is cancelled right
//!   then, with all that wait for it: [`failed_dependency`](TaskError::failed_dependency) says because of whom. After
//!   [`after_any_outcome`](Task::after_any_outcome) it runs all the same.
//! - The others may have ended before, or belong to other pools; their handles may be joined or dropped. One
//!   [`Dependency`] stands for a task of any type; handles, groups, tuples and lists of them are
//!   [accepted](Dependencies) as they are.
//! - While it waits it can be cancelled, which drops its closure at once, get another priority, and miss its deadline.
//! - [`join`](TaskHandle::join) runs what the task waits for, near and far, as far as nobody else has begun it, and then
//!   the task: on one worker, on none, and in any length of chain.
//! - Since tasks that wait hold their room, whoever waits for room must not be what they wait for: the thread that would
//!   send them something next, a task of another pool, or the only one to run tasks of a pool without workers.
//! - A pool that is full and makes the caller run its tasks has the caller run what it can of the others. If the task still has to
//!   wait, it is accepted beyond the limit.
//! - A pool that is shut down runs the tasks that wait for its own. It does not wait for those of other pools: what waits
//!   for them is [refused](TaskError::is_refused) when they end.
//!
//! # Cost
//!
//! A task is one block of memory, from a cache of the thread's own, so that in the steady state nothing is allocated for
//! closures and results of up to 56 bytes (larger ones up to 184 come from larger blocks, and the largest from the
//! allocator; of results without a niche, such as arrays of numbers, up to 48 and 176 bytes; names, deadlines and tokens take an allocation or two). Claiming it is one compare-and-swap, and
//! finishing it another. Handles share no counter. What is not used costs nothing: no clock is read without
//! [`task_latencies`](crate::PoolBuilder::task_latencies), and no limit is counted without
//! [`task_capacity`](crate::PoolBuilder::task_capacity).

mod admission;
mod after;
mod builder;
#[cfg(feature = "calls")]
pub mod calls;
mod cell;
mod current;
mod dependency;
mod error;
mod group;
mod handle;
mod info;
mod launch;
#[cfg(filch_loom)]
#[doc(hidden)]
pub mod model;
mod options;
mod run;
mod subject;
mod wait;

/// How urgent a task is.
pub use crate::engine::Level as Priority;
pub use builder::{SubmitAsync, Task, task};
pub use current::{TaskInfo, current_task, is_cancelled};
pub use dependency::{Dependencies, Dependency, submit_after};
pub use error::{FailedTask, TaskError};
pub use group::{GroupTask, TaskGroup};
pub use handle::TaskHandle;
pub use info::TaskId;
pub use options::Affinity;

use crate::pool::{Inner, Pool, context::WorkerContext};
use admission::Admission;
use options::Options;

/// Submits `task` to the pool that the caller works for, else to the global one. The [module](mod@crate::submit) has the
/// rest.
///
/// ```
/// let sum = filch::submit(|| (1..=100).sum::<u32>());
/// assert_eq!(sum.join().unwrap(), 5050);
/// ```
pub fn submit<F, T>(task: F) -> TaskHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    on_current(|pool, context| submit_at(pool, context, Options::default(), task))
}

impl Pool {
    /// Submits `task`: the handle has its result. See [`submit`](mod@crate::submit).
    ///
    /// When the pool takes no more tasks, or is full and refuses, the closure is dropped, and the handle says
    /// [so](TaskError::is_refused). [`task`](Self::task) gives it back instead.
    ///
    /// ```
    /// let pool = filch::Pool::builder().workers(2).build()?;
    /// let task = pool.submit(|| 6 * 7);
    /// assert_eq!(task.join().unwrap(), 42);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline]
    pub fn submit<F, T>(&self, task: F) -> TaskHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = &**self.inner();
        launch::at_place(pool, |context| {
            submit_at(pool, context, Options::default(), task)
        })
    }
}

/// Calls `f` with the pool that the caller works for and its place in it, else with the global one.
#[inline]
fn on_current<R>(f: impl FnOnce(&Inner, Option<&WorkerContext<'_, '_>>) -> R) -> R {
    WorkerContext::with(|context| match context {
        Some(here) => f(here.pool(), context),
        None => Pool::with_default(|pool| f(pool.inner(), None)),
    })
}

#[inline]
fn submit_at<F, T>(
    pool: &Inner,
    context: Option<&WorkerContext<'_, '_>>,
    options: Options,
    task: F,
) -> TaskHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    launch::launch(pool, context, task, options, Admission::ByPolicy)
        .unwrap_or_else(|refusal| launch::refused(pool, refusal))
}
