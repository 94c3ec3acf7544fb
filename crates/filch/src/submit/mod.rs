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
//! | you want | use |
//! |---|---|
//! | a result at some later time | [`submit`], [`Pool::submit`], then [`join`](TaskHandle::join) or `.await` |
//! | to check without waiting, or to wait for a limited time | [`try_join`](TaskHandle::try_join), [`join_timeout`](TaskHandle::join_timeout), [`is_finished`](TaskHandle::is_finished) |
//! | a name, a priority, an affinity, a deadline, a token | [`Pool::task`] or [`task()`], then `submit` |
//! | not to wait when the pool is full | [`TaskBuilder::try_submit`], [`submit_timeout`](TaskBuilder::submit_timeout), [`submit_async`](TaskBuilder::submit_async) |
//! | to cancel it | [`TaskHandle::cancel`], or a [`CancelToken`](crate::CancelToken) for many |
//! | to cancel it when its owner is gone | [`TaskHandle::cancel_on_drop`] |
//! | to check inside a task whether it was cancelled | [`is_cancelled()`], [`current_task()`] |
//! | many results, in their order, or the first error | [`Pool::group`] |
//! | to start when other tasks have ended | [`submit_after`], [`Pool::submit_after`], [`TaskBuilder::after`] |
//! | no result | [`TaskHandle::detach`], or [`spawn`](crate::spawn()), which cannot be refused |
//! | to borrow from the stack | [`join`](crate::join()) and [`scope`](crate::scope()) |
//!
//! # Guarantees
//!
//! - **An accepted task runs once, or its handle reports that it was cancelled**, whatever is
//!   cancelled, panics or is shut down meanwhile. Of a task that is not accepted, the
//!   [builder](TaskBuilder) returns the closure; [`submit`], [`submit_after`] and the methods of
//!   [`Pool`](crate::Pool) drop it, and the handle reports the [refusal](TaskError::is_refused).
//! - **A cancelled task never starts**, and its closure has been dropped by the time its handle
//!   reports the cancellation. A task that runs already is only requested to stop.
//! - **A panic belongs to its task.** It reaches the thread that joins it, or else the pool's
//!   [`on_panic`](crate::PoolBuilder::on_panic). The same holds for panics in the destructors of
//!   closures and of results that are never taken.
//! - **Priorities** are respected wherever a worker chooses, and can be changed while a task waits;
//!   less urgent tasks are not starved. **Affinity** is respected if the worker becomes free soon.
//!
//! # Waiting inside tasks
//!
//! [`join`](TaskHandle::join) runs a task that has not started on the calling thread. If the task
//! runs already, a worker that waits runs other tasks meanwhile, as in
//! [`fork`](mod@crate::fork#waiting). So tasks may submit and join tasks, on one worker and on
//! none.
//!
//! Every such join takes some stack, as a call does: a chain of tasks, each of which joins the next
//! one that has not started, must fit into the [stack](crate::PoolBuilder::stack_size) of the
//! worker that runs it. A thread from outside stops at half of its stack and leaves the rest to the
//! workers, as long as they make progress.
//!
//! A task from elsewhere that starts meanwhile runs on another thread of the pool, so it may join
//! the one that waits, or any other that was submitted before it:
//!
//! ```
//! let pool = filch::Pool::builder().workers(2).build()?;
//! let first = pool.submit(|| 1);
//! let second = pool.submit(move || first.join().unwrap() + 1);
//! let third = pool.submit(move || second.join().unwrap() + 1);
//! assert_eq!(third.join().unwrap(), 3);
//! # Ok::<(), filch::BuildError>(())
//! ```
//!
//! If tasks wait for each other in a cycle, [`join`](TaskHandle::join) returns an
//! [error](TaskError::is_deadlock) that names them instead of waiting for ever. Some cycles are not
//! reported; the page *Locks, joins and deadlocks* of the guide lists them. In a pool [on threads
//! that the program starts](crate::PoolBuilder::build_on) a worker that waits runs tasks *on top
//! of* the waiting one; there a task should join only what it has submitted itself.
//!
//! # Tasks that wait for others
//!
//! Dependencies need no [graph](mod@crate::graph) if the tasks become known while the program runs:
//! submit each task with the handles of those that it depends on. No worker waits meanwhile, and no
//! part of the program has to know the whole graph.
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
//! - A task is accepted at once, and from then on is counted and takes its unit of
//!   [capacity](crate::PoolBuilder::task_capacity). It is queued when the last of its predecessors
//!   has *ended*, at the priority that it has then. It sees what they did. The time that it waits
//!   counts as time in the queue.
//! - If a predecessor panics, is cancelled or refused, or does not start in time, the task is
//!   cancelled at that moment, with all tasks that wait for it:
//!   [`failed_dependency`](TaskError::failed_dependency) returns the task that failed. After
//!   [`after_any_outcome`](TaskBuilder::after_any_outcome) it runs nevertheless.
//! - Predecessors may have ended before, or belong to other pools; their handles may be joined or
//!   dropped. A [`Dependency`] stands for a task of any result type; handles, groups, tuples and
//!   lists of them are [accepted](Dependencies) as they are.
//! - While it waits it can be cancelled, which drops its closure at once, get another priority, and
//!   miss its deadline.
//! - [`join`](TaskHandle::join) runs the direct and indirect predecessors of the task that have not
//!   started, and then the task itself: on one worker, on none, and for chains of any length.
//! - Tasks that wait for predecessors take capacity. A submission that blocks for
//!   [capacity](crate::TaskOverflow::Block) therefore deadlocks if these tasks cannot start before
//!   the blocked thread continues: they wait for a message from it, for a task of another pool that
//!   it runs, or for it to run the tasks of a pool without workers.
//! - If the pool is full and its policy is [`RunInCaller`](crate::TaskOverflow::RunInCaller), the
//!   caller first runs the predecessors that have not started and that it may run. If the task
//!   still has to wait for others, it is accepted beyond the limit.
//! - A pool that is shut down runs the tasks that wait for its own tasks. It does not wait for
//!   those of other pools: a task that depends on them is [refused](TaskError::is_refused) when
//!   they end.
//!
//! # Cost
//!
//! A task is one block of memory from a thread-local cache, so that in the steady state nothing is
//! allocated for closures and results of up to 56 bytes. Larger ones of up to 184 bytes use larger
//! blocks, and still larger ones the allocator. For results without a niche, such as arrays of
//! numbers, the limits are 48 and 176 bytes. Names, deadlines and tokens take an allocation or two.
//! Claiming a task is one compare-and-swap, and finishing it another. Handles share no counter.
//! Unused features cost nothing: no clock is read without
//! [`task_latencies`](crate::PoolBuilder::task_latencies), and no limit is counted without
//! [`task_capacity`](crate::PoolBuilder::task_capacity).
//!
//! [`Pool::group`]: crate::Pool::group
//! [`Pool::submit`]: crate::Pool::submit
//! [`Pool::submit_after`]: crate::Pool::submit_after
//! [`Pool::task`]: crate::Pool::task

// The files, each of which uses only those after it:
//
// - functions, builder, group: what users call to submit a task
// - launch: from a closure to a task in a queue; admission: the capacity of the pool
// - options: the settings of a task
// - handle, with error: the result; join: running the task or waiting for it; wait: waiting
// - current: queries of a task about itself; dependency: the tasks that a task can wait for
// - subject: tasks in the list of waits
// - run: running and cancelling tasks, changing their priorities; end: discards and the
//   notification of followers
// - queue: tickets in the queues of a pool
// - cell: task_join and follow, then ticket, then meta
// - pool_context: the pool of a task; failed: a part of the metadata

mod admission;
mod builder;
mod cell;
mod current;
mod dependency;
mod end;
mod error;
mod failed;
mod functions;
mod group;
mod handle;
mod join;
mod launch;
#[cfg(all(test, filch_loom))]
pub(crate) mod loom_tests;
mod options;
mod pool_context;
mod queue;
mod run;
mod subject;
mod wait;

pub use crate::engine::Priority;
pub use crate::task::{CancelOnDrop, CancelTask, TaskId};
pub use builder::{SubmitAsync, TaskBuilder, task};
pub use current::{TaskInfo, current_task, current_task_id, is_cancelled};
pub use dependency::{Dependencies, Dependency};
pub use error::TaskError;
pub use failed::FailedTask;
pub use functions::{submit, submit_after};
pub use group::{GroupTask, TaskGroup};
pub use handle::TaskHandle;
pub use options::Affinity;
