//! One work-stealing scheduler for every kind of parallel Rust.
//!
//! *filch*, v.: to steal small things.
//!
//! # Which interface to use
//!
//! | for | use |
//! |---|---|
//! | a loop over a slice, a range, a collection, a text or an iterator; a reduction, a search, a sort | [`data.par()`](par::Par), [`over`], [`map`](fn@map), [`sort`], see [`par`](mod@par) |
//! | two or more calls in parallel that may borrow local data | [`join`], [`scope`], on a [`Pool`] or the global one |
//! | closures with a result, a priority, a deadline | [`submit()`], [`task()`], [`Pool::group`] |
//! | tasks with dependencies, run once or repeatedly | [`Graph`], see [`graph`] |
//! | futures | [`spawn_future`], [`block_on`], see [`future`] |
//! | detached closures | [`spawn`] |
//! | a value computed bottom-up over a tree | [`fold`](fn@fold), see [`fold`](mod@fold) |
//! | timed waits in futures: sleeps, timeouts, intervals | [`time`] |
//! | a limit on how much is in use at the same time: a count, bytes, several resources at once | [`Semaphore`] |
//! | the CPUs, caches and NUMA nodes of the machine, and workers that are pinned to them | [`topology`] |
//! | a program in a browser, on its only thread | [`host`], and the crate `filch-web` |
//! | functions called by name, and calls that are stored or sent | the crate `filch-calls` |
//! | a simulation of a schedule, for example on 64 workers | the crate `filch-sim` |
//! | a search for the order of events that breaks your program | `rehearse` (feature `rehearse`) |
//! | your own scheduler, queue strategy or observer | [`engine`] |
//! | many tasks of one type, that spawn more of them | [`Executor`] |
//!
//! ```
//! use filch::prelude::*;
//!
//! let mut data: Vec<u64> = (0..100_000).collect();
//! data.par_mut().for_each(|n| *n = n.pow(2) % 1_009);              // a parallel loop
//! let (sum, most) = filch::join(                                   // two closures at once
//!     || data.par().sum::<u64>(),
//!     || data.par().max().copied(),
//! );
//! let mean = filch::submit(move || sum / 100_000);                 // a task with a handle
//! assert!(mean.join().unwrap() <= most.unwrap());
//! ```
//!
//! # Guarantees
//!
//! - **Idle workers bear the cost of coordination.** As long as a worker has tasks in its own
//!   queue, it takes them without a lock, writes no cache line that others read except those of
//!   that queue, and pops without a fence while no thief is active. (The injector, the queues of
//!   other priorities and the mailboxes have locks.) Idle workers pay for finding work, for falling
//!   asleep and for waking up.
//! - **Queued work is visible.** An idle worker can take a queued task within microseconds, also
//!   while the worker that queued it is in the middle of a long task. Exceptions: a task that is
//!   pinned to one worker, as in [`broadcast`]; narrow [graphs](graph) of tiny tasks, as long as
//!   their worker progresses; and a future that is woken by a poll which then blocks its worker.
//! - **No task is lost.** The builder of [`task()`] and [`Executor::spawn`] return a refused task;
//!   the handle of [`submit()`] reports the refusal. An accepted task runs once, or its handle
//!   reports that it was cancelled; [`Executor::shutdown_now`] returns the tasks that it did not
//!   run.
//! - **A panic ends one task**, and is an error of its handle, or resumes in the [`join`] or
//!   [`scope`] that waits for it when everything else there is done. A graph, a loop or a fold
//!   stops.
//! - **It is checked.** The lock-free parts run under a model checker, and the engine in a
//!   simulator, as they are, not as copies; every checker has been shown to detect deliberate
//!   defects.
//!
//! `ARCHITECTURE.md` in the repository describes the layers and protocols behind them. [`engine`]
//! is for authors of schedulers; programs do not need it.

#[cfg(all(filch_loom, not(test)))]
compile_error!("`filch_loom` is for unit tests (`cargo test --lib`): loom is a dev-dependency");

mod base;
pub mod cancel;
mod clock;
pub mod engine;
pub mod executor;
pub mod fold;
pub mod fork;
pub mod future;
pub mod graph;
pub mod host;
#[cfg(all(test, filch_loom))]
mod loom_tests;
pub mod observe;
pub mod par;
pub mod pool;
pub mod prelude;
#[cfg(all(feature = "rehearse", not(filch_loom)))]
pub mod rehearse;
mod semaphore;
pub mod submit;
pub mod sync;
mod task;
mod threads;
pub mod time;
pub mod topology;

#[cfg(any(filch_loom, filch_canary))]
#[doc(hidden)]
pub use base::canary;
pub use base::{
    Driver,
    error::{BuildError, Refused},
    rng::Rng,
};
#[doc(inline)]
pub use cancel::{CancelReason, CancelToken};
#[doc(inline)]
pub use executor::Executor;
#[doc(inline)]
pub use fold::{Fold, fold};
#[doc(inline)]
pub use fork::{
    CurrentWorker, JoinContext, Scope, broadcast, has_local_tasks, isolate, join, join_context,
    scope, spawn, spawn_broadcast, with, yield_local, yield_now,
};
#[doc(inline)]
pub use future::{FutureHandle, block_on, checkpoint, spawn_future};
#[doc(inline)]
pub use graph::{Graph, Plan};
#[doc(inline)]
pub use par::{for_each, map, map_reduce, over, sort, sort_unstable};
#[doc(inline)]
pub use pool::{Pool, PoolBuilder, TaskOverflow, blocking, deadlocks, waits};
pub use semaphore::{AcquireError, Permit, Semaphore};
#[doc(inline)]
pub use submit::{
    Affinity, CancelOnDrop, Dependency, Priority, TaskError, TaskGroup, TaskHandle, TaskId,
    TaskInfo, current_task, current_task_id, is_cancelled, submit, submit_after, task,
};
pub use threads::{PoolThread, ResizeError, TimerError, current_worker};

/// Compiles and runs the examples of the README and the guide.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/choosing.md")]
    struct Choosing;
    #[doc = include_str!("../../../docs/guide/from-rayon.md")]
    struct FromRayon;
    #[doc = include_str!("../../../docs/guide/from-tokio.md")]
    struct FromTokio;
    #[doc = include_str!("../../../docs/guide/from-taskflow.md")]
    struct FromTaskflow;
    #[doc = include_str!("../../../docs/guide/topology.md")]
    struct TopologyPage;
    #[doc = include_str!("../../../docs/guide/locks.md")]
    struct Locks;
    #[doc = include_str!("../../../docs/guide/performance.md")]
    struct Performance;
    #[cfg(feature = "rehearse")]
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guide/browser.md")]
    struct Browser;
}
