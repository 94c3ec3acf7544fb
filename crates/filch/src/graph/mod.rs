//! Task graphs: tasks with dependencies, built once and run any number of times.
//!
//! ```text
//!              ┌── boil ──┐              build:  Graph::new, task, precede, succeed
//!     buy ─────┤          ├─── eat       check:  plan, once: cycles, no source, unreachable
//!              └── toast ─┘              run:    Plan::run, again and again
//! ```
//!
//! # Which API to use
//!
//! | you have | use |
//! |---|---|
//! | closures | [`Graph::task`] |
//! | an order of tasks | [`Task::precede`], [`Task::succeed`], [`Graph::linearize`] |
//! | work that is set later | [`Graph::placeholder`], [`Task::work`] |
//! | closures that return errors | [`Graph::try_task`], [`RunError::failures`] |
//! | a graph that changes between runs | [`Plan::edit`], [`Graph::remove`], [`Task::successors`] |
//! | a choice, or a loop | [`Graph::condition`], [`Graph::multi_condition`] |
//! | results that other tasks need | [`Graph::value`], [`Graph::map`], [`Plan::take`] |
//! | a task that builds a graph while it runs | [`Graph::subflow`], [`Subflow::join`] |
//! | a task that spawns closures while it runs | [`Graph::runtime`] |
//! | the results of such closures | [`Runtime::submit`] |
//! | a task that runs other tasks of its graph | [`Runtime::schedule`] |
//! | a graph as a part of another | [`Graph::module`] |
//! | a parallel loop as a task | [`Graph::for_each`], [`Graph::reduce`] |
//! | a pipeline as a task | [`Graph::pipeline`] |
//! | one graph for many sets of data, also at the same time | [`Template`] |
//! | an external event to wait for | [`Graph::future`] |
//! | a scarce resource | [`Task::acquire`], [`Graph::limit`] |
//! | a preference among ready tasks | [`Task::priority`], [`Graph::critical_path_first`] |
//! | to run it and wait | [`Plan::run`], [`Plan::run_on`] |
//! | to run it repeatedly and wait | [`Plan::run_n`], [`Plan::run_until`] |
//! | a limit, a priority or the progress of a run | [`RunOptions`] |
//! | to stop it | [`CancelToken`](crate::CancelToken), [`Plan::run_with`], [`RunHandle::cancel`] |
//! | not to wait for it | [`Pool::launch`](crate::Pool::launch): join, await, or a callback |
//! | one plan that several callers run | [`SharedPlan`]: its runs queue up |
//! | a stream of items through stages | [`Pipeline`] |
//! | to see which task ran when, and where | [`Plan::record`], [`Plan::timeline`] |
//!
//! # Strong and weak edges
//!
//! The edges of a task are *strong*: its successor waits for it. Those of a condition are *weak*:
//! the successors do not wait for it, and those that it chooses run at once, even if they have
//! other predecessors that are not done.
//!
//! ```text
//!     start ──▶ lap ──▶ again? ┄┄0┄┄▶ lap        ──▶ strong: counted
//!                         ┆                      ┄┄▶ weak:   chosen by number
//!                         └┄┄┄1┄┄▶ end
//! ```
//!
//! - A task runs when all its strong predecessors are done, or when a condition chooses it. Either
//!   way it waits for all strong predecessors again from then on.
//! - A run begins with the tasks that have no predecessors of either kind. It is over when no task
//!   is running and none is ready. Tasks that are never released do not run; that is not an error.
//! - A cycle needs a weak edge. A cycle of strong edges only is an error that names its tasks. A
//!   graph in which every task has a predecessor is an error too. [`Plan::unreachable`] lists the
//!   tasks that no run can reach.
//! - A number that is too large chooses no task, and a task that is chosen twice at once runs once.
//! - The tasks of a loop must be done before they are released again. When a task is released while
//!   it is running, the run fails and the error names the task.
//!
//! An iteration of a loop allocates no memory, and neither a chain nor a loop grows the stack.
//!
//! # Runs
//!
//! [`Plan::run`] works on the graph until it is done; a thread that is not a worker becomes one for
//! that time. It can be called inside a task, also one of the same pool. Of the tasks that
//! become ready a worker continues with one. Idle workers can steal the others: every task that is
//! ready and has not started, no matter how long the current task takes. A worker takes short tasks
//! without predecessors several at a time; those can be stolen as well.
//!
//! So a task may wait for others that are ready. If it blocks its thread, another worker has to be
//! free to run them. A wait that runs other tasks meanwhile ([`join`](crate::join()),
//! [`scope`](crate::scope()), [`yield_now`](crate::yield_now), [`Runtime::wait`]) needs no other
//! worker: the tasks run on the stack above the waiting task. There are three limits. A task cannot
//! wait in this way for a task further down on the stack of its own thread. In an
//! [`isolate`](crate::isolate()) waits run only tasks that were queued inside. And where more than
//! half of a thread's stack is in use, a wait runs only what its worker has queued since the call
//! that waits began, what is sent to its own run, and tasks that are pinned to its worker; other
//! workers run the rest.
//!
//! When a task panics or [returns an error](Graph::try_task), no more tasks are released. Tasks
//! that are running finish, and the [`RunError`] contains all the panics and errors with the names
//! of their tasks, and lists the tasks that did not run. With [`RunOptions::keep_going`] only the
//! tasks behind one that has failed do not run. A graph inside a task belongs to the run: its tasks
//! are named `outer/inner`. The plan can be run again.
//!
//! Subflows, modules, loops, pipelines, futures and tasks that wait for a semaphore occupy no
//! worker while they wait. A [`Runtime`] and a [`Subflow::join`] do: their worker runs other tasks
//! meanwhile.
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
//! They may not borrow what is dropped before the plan:
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
//! This holds for the destructors of the closures too:
//!
//! ```compile_fail,E0597
//! let (graph, text);
//! text = String::from("dropped before the graph");
//! graph = filch::Graph::new();
//! graph.task("use", || println!("{text}"));
//! ```
//!
//! They may not use values that must stay on one thread:
//!
//! ```compile_fail,E0277
//! let local = std::rc::Rc::new(1);
//! let graph = filch::Graph::new();
//! graph.task("use", move || println!("{local}"));
//! ```
//!
//! A launched run may borrow nothing:
//!
//! ```compile_fail,E0597
//! let local = 1;
//! let graph = filch::Graph::new();
//! graph.task("use", || println!("{local}"));
//! filch::Pool::global().launch(graph.plan().unwrap());
//! ```

mod block;
mod build;
mod check;
mod child;
mod context;
mod control;
mod counter_bias;
mod cursor;
mod describe;
mod edges;
mod edit;
mod error;
mod failures;
mod fallible;
mod feeder;
mod future;
mod handle;
mod heap_run;
mod jobs;
mod join_counter;
mod launched;
mod limited;
mod loops;
mod names;
mod neighbours;
mod nested;
mod node;
mod options;
mod order;
mod ordered;
pub mod pipeline;
mod plain;
mod plan;
mod progress;
mod ranks;
mod rare_parts;
mod ready;
mod recorder;
mod repeat;
mod report;
mod run;
mod running_task;
mod runtime;
mod schedule;
mod semaphore;
mod settings;
mod shared_list;
mod shared_plan;
mod skipped;
mod spare;
mod spare_parts;
mod special;
mod start;
mod subflow_join;
mod task_failure;
mod task_time;
mod template;
mod template_tasks;
mod timeline;
mod value;
mod values;
mod walk;

pub use build::{Graph, Task};
pub use child::ChildHandle;
pub use describe::{DescribedLimit, DescribedTask, Description};
pub use error::{GraphError, RunError, TaskPanic};
pub use handle::RunHandle;
pub use nested::Subflow;
pub use node::TaskKind;
pub use options::RunOptions;
pub use pipeline::{Flow, Pipeline, PipelineError, PipelineReport, Stage, StagePanic};
pub use plan::Plan;
pub use progress::RunProgress;
pub use recorder::waiting;
pub use report::RunReport;
pub use runtime::Runtime;
pub use schedule::Schedulable;
pub use shared_plan::SharedPlan;
pub use task_failure::TaskFailure;
pub use task_time::{NotRun, TaskEnding, TaskTime};
pub use template::{Template, TemplateGraph};
pub use timeline::Timeline;
pub use value::{Input, Inputs, Moved, Value};
