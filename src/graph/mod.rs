//! Task graphs: what must be done before what, built once, run as often as you like.
//!
//! ```text
//!              ┌── boil ──┐              build:  Graph::new, task, precede, succeed
//!     buy ─────┤          ├─── eat       check:  plan, once: circles, no start, out of reach
//!              └── toast ─┘              run:    Plan::run, again and again
//! ```
//!
//! # What to use when
//!
//! | you have | take |
//! |---|---|
//! | closures and an order | [`Graph::task`], [`Task::precede`], [`Task::succeed`], [`Graph::linearize`] |
//! | work that comes later, or changes between runs | [`Graph::placeholder`], [`Task::work`], [`Plan::edit`] |
//! | a choice, or a loop | [`Graph::condition`], [`Graph::multi_condition`] |
//! | results that others need | [`Graph::value`], [`Graph::map`], [`Plan::take`] |
//! | work whose shape is known only when it runs | [`Graph::subflow`] for a graph, [`Graph::runtime`] for closures |
//! | a graph as a part of another | [`Graph::module`] |
//! | one graph for many sets of data, also at the same time | [`Template`] |
//! | something outside to wait for | [`Graph::future`] |
//! | a scarce resource | [`Semaphore`], [`Graph::limit`] |
//! | a preference among ready tasks | [`Task::priority`], [`Graph::critical_path_first`] |
//! | to wait for the run | [`Plan::run`], [`run_on`](Plan::run_on), [`run_n`](Plan::run_n), [`run_until`](Plan::run_until) |
//! | to stop it | a [`CancelToken`](crate::CancelToken) with [`Plan::run_with`], or [`RunHandle::cancel`] |
//! | not to wait for it | [`Pool::launch`](crate::Pool::launch): join, await, or be called back |
//! | the same plan wanted by several | [`SharedPlan`]: its runs queue up |
//! | a stream of things through stages | [`Pipeline`] |
//!
//! # Strong and weak edges
//!
//! The edges of a task are *strong*: its successor waits for it. Those of a condition are *weak*: the successors do not
//! wait for it, and the ones that it chooses run at once, whatever else they wait for.
//!
//! ```text
//!     start ──▶ lap ──▶ again? ┄┄0┄┄▶ lap        ──▶ strong: counted
//!                         ┆                      ┄┄▶ weak:   chosen by number
//!                         └┄┄┄1┄┄▶ end
//! ```
//!
//! - A task runs when all its strong predecessors are done, or when a condition chooses it. Either way it waits for all
//!   strong predecessors again from then on.
//! - A run begins with the tasks that have no predecessors of either kind, and is over when nothing runs and nothing is
//!   ready. Tasks that are never released are left out; that is no error.
//! - A circle needs a weak edge; one of strong edges only is an error that names its tasks. So is a graph in which every
//!   task has a predecessor. Tasks that no run can reach are told by [`Plan::unreachable`].
//! - A number that is too large chooses nobody.
//! - What a loop repeats has to be done before it is repeated: when a task is released while it is running, the run fails and
//!   names it.
//!
//! A lap of a loop needs no memory, and neither a chain nor a loop uses the stack.
//!
//! # Runs
//!
//! [`Plan::run`] works on the graph until it is done; a thread from outside becomes a worker for
//! that time. It can be called inside of a task, of the same pool too. Of the tasks that become
//! ready a worker goes on with one, and the others can be taken by idle workers: everything that is
//! ready and has not started, however long the present task takes. A worker takes short tasks
//! without predecessors several at a time; those too can be taken from it.
//!
//! So a task may wait for others that are ready. If it blocks its thread, another worker has to be
//! left that runs them. A wait that helps ([`join`](crate::join()), [`scope`](crate::scope()),
//! [`yield_now`](crate::yield_now), [`Runtime::wait`]) needs no other worker: the tasks run on top
//! of the one that waits. There are three limits. A task cannot wait in this way for one further
//! down on the stack of its own thread. In an [`isolate`](crate::isolate()) waits run only what was
//! queued inside. And where more than half of a thread's stack is in use, waits run only what their
//! own task has queued; other workers run the rest.
//!
//! When a task panics, nothing more is released; those that run come to their end, and the [`RunError`] has all the panics,
//! with the names of their tasks. A graph inside of a task belongs to the run: `outer/inner` is the name of its tasks. The
//! plan can be run again.
//!
//! Subflows, modules, futures and tasks that wait for a semaphore hold no worker while they wait. [`Runtime`] does: its worker
//! helps.
//!
//! # What tasks may borrow
//!
//! Everything that outlives the plan:
//!
//! ```
//! let mut numbers = [1, 2, 3];
//! let graph = filch::Graph::new();
//! for n in &mut numbers {
//!     graph.task("double", || *n *= 2);
//! }
//! graph.plan()?.run()?;
//! assert_eq!(numbers, [2, 4, 6]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! and nothing that is gone before it is dropped:
//!
//! ```compile_fail,E0597
//! let graph = filch::Graph::new();
//! {
//!     let short = String::from("short");
//!     graph.task("use", || println!("{short}"));
//! }
//! graph.plan();
//! ```
//!
//! not even for the destructors of the closures:
//!
//! ```compile_fail,E0597
//! let (graph, text);
//! text = String::from("dropped before the graph");
//! graph = filch::Graph::new();
//! graph.task("use", || println!("{text}"));
//! ```
//!
//! nor what must stay on its thread:
//!
//! ```compile_fail,E0277
//! let local = std::rc::Rc::new(1);
//! let graph = filch::Graph::new();
//! graph.task("use", move || println!("{local}"));
//! ```
//!
//! A launched run borrows nothing:
//!
//! ```compile_fail,E0597
//! let local = 1;
//! let graph = filch::Graph::new();
//! graph.task("use", || println!("{local}"));
//! filch::Pool::global().launch(graph.plan().unwrap());
//! ```

mod biased_count;
mod block;
mod build;
mod check;
mod context;
mod dot;
mod edges;
mod error;
mod flow;
mod future;
mod future_state;
mod handle;
mod node;
mod options;
mod order;
pub mod pipeline;
mod plain;
mod plan;
mod predecessor_count;
mod remote;
mod run;
mod runtime;
mod semaphore;
mod special;
mod start;
mod svg;
mod tally;
mod template;
mod timeline;
mod value;
mod within;

pub use build::{Graph, Task};
pub use error::{GraphError, RunError, TaskPanic};
pub use flow::Subflow;
pub use handle::{RunHandle, SharedPlan};
pub use options::RunOptions;
pub use pipeline::{Flow, Pipeline, PipelineError, PipelineReport, Stage, StagePanic};
pub use plan::{Plan, RunReport};
pub use runtime::Runtime;
pub use semaphore::Semaphore;
pub use template::{Template, TemplateGraph};
pub use timeline::{TaskTime, Timeline};
pub use value::{Input, Inputs, Moved, Value};

/// What the model checker gets to see.
#[cfg(filch_loom)]
#[doc(hidden)]
pub mod model {
    pub use super::{
        biased_count::model::BiasedCount,
        block::model::{Block, Claims, Held},
        future_state::model::FutureState,
        node::model::Node,
        predecessor_count::model::PredecessorCount,
    };
}
