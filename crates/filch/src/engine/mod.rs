//! The scheduler: queues, lanes for urgent and for Low tasks, mailboxes for tasks of particular
//! workers, the gate word, the sleep word, victims, and the step function of a worker.
//!
//! Generic over the task type, the queue [`Strategy`] and the [`Observer`]. No clock, no thread, no
//! environment, no I/O: [`Worker::step`] makes one step, and its driver, a thread or the simulator,
//! does the waiting. Most programs use a face such as [`Executor`](crate::Executor).
//!
//! | for | see |
//! |---|---|
//! | a scheduler: threads, or a simulation, that drive workers | [`Core`], [`Worker::step`], [`Placement`], [`Settings`] |
//! | tasks that spawn, wait or run others | [`RunningWorker`] |
//! | a queue strategy | [`Strategy`], [`Queue`], [`Hunt`]; parts: [`Deque`], [`Injector`] |
//! | metrics and traces | [`Observer`], [`Event`] |
//! | a policy for idle workers | [`IdlePolicy`], [`WakePolicy`] |
//!
//! ```
//! use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
//!
//! // Two workers, driven by hand.
//! let core: Core<u64, PerWorker, NoObserver> = Core::new(Settings::new(2), &Default::default(), NoObserver)?;
//! core.inject(10, Placement::Injector).unwrap();
//! core.close();
//!
//! let mut workers = [core.enter(0), core.enter(1)];
//! let mut sum = 0;
//! let mut at_work = vec![0, 1];
//! while let Some(&who) = at_work.first() {
//!     let step = workers[who].step(|n, mut running| {
//!         sum += n;
//!         if n > 0 {
//!             running.spawn(n - 1, Placement::Local);
//!         }
//!     });
//!     match step {
//!         Step::Park(token) => {
//!             workers[who].resume(token); // this driver never sleeps
//!             at_work.rotate_left(1);
//!         }
//!         Step::Exit => {
//!             at_work.remove(0);
//!         }
//!         Step::Ran | Step::Idle(_) => at_work.rotate_left(1),
//!     }
//! }
//! assert_eq!(sum, 55);
//! # Ok::<(), filch::BuildError>(())
//! ```

mod attention;
mod backlog;
mod batch_wait;
mod core;
mod deque;
mod distances;
mod event;
mod gate;
mod idle;
mod injector;
mod lanes;
mod leave;
mod locked;
#[cfg(all(test, filch_loom))]
mod loom_tests;
mod mailbox;
mod nested;
mod pending;
mod placement;
mod queue;
mod run_as_worker;
mod running;
mod search;
mod selector;
mod settings;
mod sleep;
mod sleep_state;
mod turns;
mod victims;
mod worker;
mod worker_cores;
mod worker_sleep;

pub use core::Core;
pub use deque::{Capacity, Deque, Owner, Steal};
pub(crate) use deque::{Mark, Retract};
pub use distances::Distances;
pub use event::{Event, NoObserver, OUTSIDE, Observer, Source};
pub use gate::GateState;
pub use idle::{IdleAction, IdlePolicy, Tiered, WakePolicy};
pub use injector::{Injector, Take};
pub use lanes::{Ageing, Priority};
pub use placement::Placement;
pub use queue::{Acquired, Hunt, PerWorker, PerWorkerSpec, Queue, Shared, SharedSpec, Strategy};
pub(crate) use queue::{FAST_STEPS, STEPS};
pub use settings::{Settings, Unpark};
pub use sleep_state::{MAX_WORKERS, SleepState};
pub use victims::Victims;
pub use worker::{ParkToken, RunningWorker, Step, Worker};
