//! Threads that drive workers, for any task type.
//!
//! A [`ThreadGroup`] starts a thread for every worker of an engine, each with its own state, and
//! steps them until the engine makes them exit. The API modules build on it; it knows none of them.

mod clock_sampler;
mod config;
mod current;
mod driver;
mod maintenance;
mod parker;
mod pool_thread;
mod resize;
mod thread_cpus;
pub(crate) mod timer;
mod worker_settings;
mod worker_state;

pub(crate) use clock_sampler::ClockSampler;
pub(crate) use config::{ThreadConfig, cores};
pub use current::current_worker;
pub(crate) use current::{is_thread_of, set_current_worker};
pub(crate) use driver::SharedDriver;
pub(crate) use parker::Parkers;
pub use pool_thread::PoolThread;
use pool_thread::ThreadCalls;
pub use resize::ResizeError;
pub(crate) use resize::ResizeThreads;
use thread_cpus::ThreadCpus;
pub use timer::TimerError;
pub(crate) use worker_settings::WorkerSettings;
pub(crate) use worker_state::{Departure, WorkerStates};

pub(crate) use maintenance::Maintenance;

use crate::{
    base::{error::BuildError, host::IS_HOSTED, latch::CountdownLatch, thread, unwind},
    engine::{Core, IdleAction, Observer, RunningWorker, Step, Strategy, Worker},
};
use std::{
    fmt, hint, io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
    thread::{Builder, JoinHandle},
    time::Duration,
};

/// Runs tasks on a worker with state `S`.
///
/// Implemented by the API modules. A panic of user code must be contained inside; one that escapes
/// is taken for a bug in filch and aborts the process.
pub(crate) trait Work<T: Send, S, Q: Strategy, O: Observer>: Send + Sync {
    /// Whether workers may leave before the end.
    const MAY_LEAVE: bool = false;

    /// Makes the state of `worker`, on its own thread. May panic; the group then does not start.
    fn init(&self, worker: usize) -> S;

    /// Runs `task`.
    fn run(&self, task: T, running: RunningWorker<'_, '_, T, Q, O>, state: &mut S);

    /// Wakes the futures whose events the pool's driver has found, or whose timers are due, as a
    /// task of this worker. `first`: whether they come before what the worker has queued.
    fn wake(&self, ready: &mut Vec<Waker>, first: bool, running: RunningWorker<'_, '_, T, Q, O>) {
        let _ = (first, running);
        wake_all(ready);
    }

    /// Called when the thread of `worker` has entered the engine.
    fn entered(&self, worker: usize) {
        let _ = worker;
    }

    /// Whether `worker` is asked to leave, so that it should not sleep.
    fn is_asked_to_leave(&self, worker: usize) -> bool {
        let _ = worker;
        false
    }

    /// Whether the worker leaves now, between two tasks.
    fn should_leave(&self, worker: &mut Worker<'_, T, Q, O>) -> bool {
        let _ = worker;
        false
    }

    /// Called when the thread of `worker` has left the engine: no work is left, and none will
    /// arrive, or it should leave. Returns whether it should leave: then its state is dropped.
    fn end(&self, worker: usize) -> bool {
        let _ = worker;
        false
    }

    /// Called when a worker has left before its first task, because it gets no thread.
    fn worker_unstarted(&self) {}
}

/// The main function of the threads of a group.
pub(crate) trait ThreadMain<S>: Send + Sync {
    /// Whether the threads are the workers of their numbers.
    const WORKERS: bool;

    /// Makes the state of thread `id`, on that thread. May panic; the group then does not start.
    fn init(&self, id: usize) -> S;

    /// Runs the thread's work to its end. Returns the state, unless the thread has left before the
    /// others end.
    fn run(&self, id: usize, state: S) -> Option<S>;

    /// Makes `run` return on all threads, because the group does not start.
    fn stop(&self);
}

/// Drives a worker.
struct WorkerMain<T: Send, Q: Strategy, O: Observer, W> {
    core: Arc<Core<T, Q, O>>,
    parkers: Arc<Parkers>,
    work: Arc<W>,
    /// The worker joins others that work already, and go on if it does not start.
    joins: bool,
}

impl<T, S, Q, O, W> ThreadMain<S> for WorkerMain<T, Q, O, W>
where
    T: Send,
    Q: Strategy,
    O: Observer + Send + Sync,
    W: Work<T, S, Q, O>,
{
    const WORKERS: bool = true;

    fn init(&self, id: usize) -> S {
        // After the hook, in which a rehearsal makes the thread an actor.
        self.parkers.register(id);
        self.work.init(id)
    }

    fn run(&self, id: usize, state: S) -> Option<S> {
        let worker = self.core.enter(id);
        self.work.entered(id);
        let state = drive(
            worker,
            &self.parkers,
            &*self.work,
            state,
            Maintenance::new(),
        );
        if !self.work.end(id) {
            return Some(state);
        }
        // User code; a panic has been reported by the panic hook.
        let _ = unwind::contain(|| drop(state));
        None
    }

    fn stop(&self) {
        if !self.joins {
            self.core.stop();
        }
    }
}

/// The report of a thread before it starts to work.
struct StartReport {
    ready: CountdownLatch,
    failed: Mutex<Option<BuildError>>,
}

/// The threads of one engine.
pub(crate) struct ThreadGroup<S> {
    /// By number.
    threads: Vec<(usize, JoinHandle<Option<S>>)>,
}

impl<S: Send + 'static> ThreadGroup<S> {
    /// Starts threads for these workers of `core` and returns when all are ready.
    ///
    /// # Errors
    /// When a thread cannot be started, or a start hook or [`Work::init`] panics. Then every thread
    /// that was started here has ended. Other workers go on: if worker 0 is not among `workers`, it
    /// works already. If it is, nothing was run.
    pub(crate) fn start<T, Q, O, W>(
        workers: Range<usize>,
        config: &ThreadConfig,
        core: &Arc<Core<T, Q, O>>,
        parkers: &Arc<Parkers>,
        work: &Arc<W>,
    ) -> Result<Self, BuildError>
    where
        T: Send + 'static,
        Q: Strategy,
        O: Observer + Send + Sync + 'static,
        W: Work<T, S, Q, O> + 'static,
    {
        let (engine, main) = driving(core, parkers, work, workers.start > 0);
        Self::launch(workers, config, engine, &main)
    }

    /// Starts threads with these numbers for the engine at `engine`, and returns when all are
    /// ready.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn launch<D: ThreadMain<S> + 'static>(
        numbers: Range<usize>,
        config: &ThreadConfig,
        engine: usize,
        main: &Arc<D>,
    ) -> Result<Self, BuildError> {
        if IS_HOSTED && !numbers.is_empty() {
            return Err(BuildError::config(
                "this target starts no threads; ask for no workers, and let the host of the \
                 program run what is queued: see `filch::host`, or the crate `filch-web`",
            ));
        }
        let spawn = |builder: Builder, body| builder.spawn(move || run_body(body));
        let (threads, failed) = start_all(numbers.clone(), config, engine, main, spawn)?;
        let thread_group = Self {
            threads: numbers.zip(threads).collect(),
        };
        match failed {
            None => Ok(thread_group),
            Some(error) => {
                main.stop();
                thread_group.join();
                Err(error)
            }
        }
    }

    /// Adds the threads of `new` to this group. Those that worked under the same numbers before
    /// have left, so they have no state; they are forgotten if they have ended. All other threads
    /// stay, also if they have ended: [`join`](Self::join) returns their states.
    pub(crate) fn add(&mut self, new: Self) {
        let is_replaced = |number: usize| new.threads.iter().any(|(other, _)| *other == number);
        self.threads
            .retain(|(number, thread)| !(is_replaced(*number) && thread.is_finished()));
        self.threads.extend(new.threads);
        self.threads.sort_by_key(|(number, _)| *number);
    }

    /// Calls `start` with a [`PoolThread`] for each of `workers`, and waits for none of them:
    /// neither now nor in [`join`](Self::join).
    ///
    /// # Errors
    /// When `start` fails or panics. The threads that it has started before exit.
    pub(crate) fn start_with<T, Q, O, W>(
        workers: Range<usize>,
        config: &ThreadConfig,
        core: &Arc<Core<T, Q, O>>,
        parkers: &Arc<Parkers>,
        work: &Arc<W>,
        mut start: impl FnMut(PoolThread) -> io::Result<()>,
    ) -> Result<Self, BuildError>
    where
        T: Send + 'static,
        Q: Strategy,
        O: Observer + Send + Sync + 'static,
        W: Work<T, S, Q, O> + 'static,
    {
        let (engine, main) = driving(core, parkers, work, false);
        let names = config.thread_names(workers.clone())?;
        for (id, name) in workers.zip(names) {
            let unobserved = Arc::new(StartReport {
                ready: CountdownLatch::new(1),
                failed: Mutex::new(None),
            });
            let body =
                thread_body::<S, _>(id, ThreadCpus::default(), unobserved, config, engine, &main);
            let thread = PoolThread {
                worker: id,
                name,
                stack_size: config.stack_size,
                calls: Some(ThreadCalls {
                    run: Box::new(|| drop(body())),
                    leave: leave(id, core, work),
                }),
            };
            let failed = match unwind::contain(|| start(thread)) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => BuildError::thread(id, error),
                Err(payload) => {
                    let error = BuildError::init(id, "start function", &payload);
                    unwind::discard(payload);
                    error
                }
            };
            core.stop();
            return Err(failed);
        }
        Ok(Self::without_threads())
    }

    /// A group without threads to join.
    pub(crate) fn without_threads() -> Self {
        Self {
            threads: Vec::new(),
        }
    }

    /// Whether there are threads that [`join`](Self::join) waits for.
    pub(crate) fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether every thread has ended, so that [`join`](Self::join) does not block.
    pub(crate) fn has_ended(&self) -> bool {
        self.threads.iter().all(|(_, thread)| thread.is_finished())
    }

    /// Waits until every thread has ended, and returns their states, in the order of the workers.
    pub(crate) fn join(self) -> Vec<S> {
        let ends = self.threads.into_iter().map(|(_, end)| thread::join(end));
        ends.filter_map(|end| match end {
            Ok(state) => state,
            // The only panics that get here come from destructors of thread-locals and the like:
            // user code, after the work was done. They have been reported.
            Err(_) => None,
        })
        .collect()
    }
}

impl<S> fmt::Debug for ThreadGroup<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadGroup")
            .field("threads", &self.threads.len())
            .finish()
    }
}

/// Returns the address of the engine, and the work of the threads of its workers.
fn driving<T: Send, Q: Strategy, O: Observer, W>(
    core: &Arc<Core<T, Q, O>>,
    parkers: &Arc<Parkers>,
    work: &Arc<W>,
    joins: bool,
) -> (usize, Arc<WorkerMain<T, Q, O, W>>) {
    let main = Arc::new(WorkerMain {
        core: core.clone(),
        parkers: parkers.clone(),
        work: work.clone(),
        joins,
    });
    (Arc::as_ptr(core) as usize, main)
}

/// Returns the function for a worker that gets no thread: the worker leaves, so that other workers
/// get what was sent to it.
fn leave<T, S, Q, O, W>(
    id: usize,
    core: &Arc<Core<T, Q, O>>,
    work: &Arc<W>,
) -> Box<dyn FnOnce() + Send>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    W: Work<T, S, Q, O> + 'static,
{
    let (core, work) = (core.clone(), work.clone());
    Box::new(move || {
        drop(core.enter(id));
        work.worker_unstarted();
    })
}

/// The body of a thread, from its first hook to its last.
type ThreadBody<'d, S> = Box<dyn FnOnce() -> Option<S> + Send + 'd>;

fn run_body<S>(body: ThreadBody<'_, S>) -> Option<S> {
    body()
}

/// Starts threads with these numbers by `spawn`, and returns when all are ready: the threads, and
/// the error if one of them could not be started, or did not become ready.
///
/// # Errors
/// When a name is wrong; then no thread was started.
fn start_all<'d, S: 'd, D: ThreadMain<S> + 'd, H>(
    numbers: Range<usize>,
    config: &ThreadConfig,
    engine: usize,
    main: &Arc<D>,
    mut spawn: impl FnMut(Builder, ThreadBody<'d, S>) -> io::Result<H>,
) -> Result<(Vec<H>, Option<BuildError>), BuildError> {
    if !numbers.is_empty() {
        thread::reject_undirected("threads that it has started");
    }
    let names = config.thread_names(numbers.clone())?;
    let start = Arc::new(StartReport {
        ready: CountdownLatch::new(numbers.len()),
        failed: Mutex::new(None),
    });
    let cpus = ThreadCpus::new(config);
    let mut threads = Vec::with_capacity(numbers.len());
    for (id, name) in numbers.clone().zip(names) {
        let mut builder = Builder::new().name(name);
        if let Some(bytes) = config.stack_size {
            builder = builder.stack_size(bytes);
        }
        match spawn(
            builder,
            Box::new(thread_body(
                id,
                cpus.clone(),
                start.clone(),
                config,
                engine,
                main,
            )),
        ) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                start.fail(BuildError::thread(id, error));
                (id..numbers.end).for_each(|_| start.ready.count_down());
                break;
            }
        }
    }
    start.ready.wait();
    let failed = start
        .failed
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    Ok((threads, failed))
}

/// Runs `body` while threads drive the workers of `core`. When it returns or panics, `core` is
/// closed; the workers run what is left, and are joined. Returns the result of `body`, and the
/// states of the workers, in their order.
///
/// # Errors
/// As [`ThreadGroup::start`]; then `body` is not called.
pub(crate) fn run_scoped<T, S, Q, O, W, V>(
    config: &ThreadConfig,
    core: &Arc<Core<T, Q, O>>,
    parkers: &Arc<Parkers>,
    work: &Arc<W>,
    body: impl FnOnce() -> V,
) -> Result<(V, Vec<S>), BuildError>
where
    T: Send,
    S: Send,
    Q: Strategy,
    O: Observer + Send + Sync,
    W: Work<T, S, Q, O>,
{
    /// Closes the engine, also when the body panics: the scope then waits for the workers.
    struct CloseAtEnd<'c, T: Send, Q: Strategy, O: Observer>(&'c Core<T, Q, O>);
    impl<T: Send, Q: Strategy, O: Observer> Drop for CloseAtEnd<'_, T, Q, O> {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    let (engine, main) = driving(core, parkers, work, false);
    std::thread::scope(|scope| {
        let spawn = |builder: Builder, body| builder.spawn_scoped(scope, move || run_body(body));
        let numbers = 0..core.workers();
        let (threads, failed) = start_all(numbers, config, engine, &main, spawn)?;
        if let Some(error) = failed {
            main.stop();
            return Err(error);
        }
        let close = CloseAtEnd(&**core);
        let result = body();
        drop(close);
        // As in `ThreadGroup::join`.
        let ends = threads.into_iter().map(|thread| thread.join());
        Ok((result, ends.filter_map(|end| end.ok().flatten()).collect()))
    })
}

/// Returns the body of the thread with the number `id`.
fn thread_body<S, D: ThreadMain<S>>(
    id: usize,
    cpus: ThreadCpus,
    report: Arc<StartReport>,
    config: &ThreadConfig,
    engine: usize,
    main: &Arc<D>,
) -> impl FnOnce() -> Option<S> + Send + use<S, D> {
    let (main, hooks) = (main.clone(), config.hooks.clone());
    move || {
        // Not undone: destructors of thread-locals run after this, and may drop the pool.
        set_current_worker(engine, D::WORKERS.then_some(id));
        if let Err(error) = cpus.apply(id) {
            report.fail(error);
            report.ready.count_down();
            return None;
        }
        let state = unwind::contain(|| {
            hooks.start(id);
            main.init(id)
        });
        let state = match state {
            Ok(state) => {
                report.ready.count_down();
                main.run(id, state)
            }
            Err(payload) => {
                report.fail(BuildError::init(id, "initialiser", &payload));
                report.ready.count_down();
                None
            }
        };
        // The work is done; a panic of the hook has been reported by the panic hook.
        let _ = unwind::contain(|| hooks.exit(id));
        state
    }
}

impl StartReport {
    fn fail(&self, error: BuildError) {
        self.failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }
}

/// Steps `worker` until it exits, or should leave.
pub(crate) fn drive<T, S, Q, O, W>(
    mut worker: Worker<'_, T, Q, O>,
    parkers: &Parkers,
    work: &W,
    mut state: S,
    mut maintenance: Maintenance,
) -> S
where
    T: Send,
    Q: Strategy,
    O: Observer,
    W: Work<T, S, Q, O>,
{
    // The thread that drops a pool without threads may be unwinding already, and drives the worker
    // all the same.
    unwind::or_abort(|| {
        let id = worker.id();
        let mut ready = Vec::new();
        while !(W::MAY_LEAVE && work.should_leave(&mut worker)) {
            thread::point();
            match worker.step(|task, running| work.run(task, running, &mut state)) {
                Step::Ran => {
                    if maintenance.after_task(&mut worker, parkers, &mut ready) {
                        serve(&mut worker, work, &mut ready, maintenance.are_first());
                    }
                }
                Step::Idle(IdleAction::Poll) => {
                    parkers.poll(&mut ready);
                    if ready.is_empty() {
                        // The peer may be on this core. A batch of its messages costs less than a
                        // park for each.
                        thread::yield_now();
                        parkers.poll(&mut ready);
                    }
                    serve(&mut worker, work, &mut ready, false);
                }
                Step::Idle(IdleAction::Yield) => thread::yield_now(),
                Step::Idle(IdleAction::Spin(pauses)) => {
                    (0..pauses).for_each(|_| hint::spin_loop());
                }
                // The engine converts a request to park into a token.
                Step::Idle(IdleAction::Park(_)) => {}
                Step::Park(token) => {
                    let asleep = thread::nanos();
                    parkers.park(id, token.timeout(), &mut ready, || {
                        worker.is_woken() || worker.has_pinned() || work.is_asked_to_leave(id)
                    });
                    let slept = thread::nanos().saturating_sub(asleep);
                    worker.resume_after(token, Duration::from_nanos(slept));
                    maintenance.restart();
                    serve(&mut worker, work, &mut ready, false);
                }
                Step::Exit => break,
            }
        }
    });
    state
}

/// Wakes the futures that are ready: see [`Work::wake`].
#[inline]
fn serve<T: Send, S, Q: Strategy, O: Observer>(
    worker: &mut Worker<'_, T, Q, O>,
    work: &impl Work<T, S, Q, O>,
    ready: &mut Vec<Waker>,
    first: bool,
) {
    if !ready.is_empty() {
        worker.interrupt(thread::yield_now, |running| {
            work.wake(ready, first, running);
        });
    }
}

/// Calls all wakers, which may be user code.
pub(crate) fn wake_all(ready: &mut Vec<Waker>) {
    for waker in ready.drain(..) {
        if let Err(payload) = unwind::contain(|| waker.wake()) {
            unwind::discard(payload);
        }
    }
}
