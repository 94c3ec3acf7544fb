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
pub(crate) mod timer;
mod worker_settings;

pub(crate) use clock_sampler::ClockSampler;
pub(crate) use config::{ThreadConfig, cores};
pub use current::current_worker;
pub(crate) use current::{is_thread_of, stay};
pub(crate) use driver::SharedDriver;
pub(crate) use parker::Parkers;
use pool_thread::Life;
pub use pool_thread::PoolThread;
pub use timer::TimerError;
pub(crate) use worker_settings::WorkerSettings;

pub(crate) use maintenance::Maintenance;

use crate::{
    base::{error::BuildError, latch::CountdownLatch, thread, unwind},
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
pub(crate) trait Work<T: Send, S, Q: Strategy, O: Observer>: Send + Sync + 'static {
    /// Makes the state of `worker`, on its own thread. May panic; the group then does not start.
    fn init(&self, worker: usize) -> S;

    /// Runs `task`.
    fn run(&self, task: T, running: RunningWorker<'_, '_, T, Q, O>, state: &mut S);

    /// Wakes the futures whose events the pool's driver has found, as a task of this worker.
    fn wake(&self, ready: &mut Vec<Waker>, running: RunningWorker<'_, '_, T, Q, O>) {
        let _ = running;
        wake_all(ready);
    }

    /// Called when a worker exits: no work is left, and none will arrive.
    fn end(&self) {}

    /// Called when a worker has left before its first task, because it gets no thread.
    fn lose(&self) {}
}

/// The work of the threads of a group.
pub(crate) trait Duty<S>: Send + Sync + 'static {
    /// Whether the threads are the workers of their numbers.
    const WORKERS: bool;

    /// Makes the state of thread `id`, on that thread. May panic; the group then does not start.
    fn init(&self, id: usize) -> S;

    /// Runs the thread's work to its end.
    fn run(&self, id: usize, state: S) -> S;

    /// Makes `run` return on all threads, because the group does not start.
    fn stop(&self);
}

/// Drives a worker.
struct WorkerDuty<T: Send, Q: Strategy, O: Observer, W> {
    core: Arc<Core<T, Q, O>>,
    parkers: Arc<Parkers>,
    work: Arc<W>,
}

impl<T, S, Q, O, W> Duty<S> for WorkerDuty<T, Q, O, W>
where
    T: Send + 'static,
    Q: Strategy,
    O: Observer + Send + Sync + 'static,
    W: Work<T, S, Q, O>,
{
    const WORKERS: bool = true;

    fn init(&self, id: usize) -> S {
        // After the hook, in which a rehearsal makes the thread an actor.
        self.parkers.register(id);
        self.work.init(id)
    }

    fn run(&self, id: usize, state: S) -> S {
        let state = drive(
            &self.core,
            id,
            &self.parkers,
            &*self.work,
            state,
            Maintenance::new(),
        );
        self.work.end();
        state
    }

    fn stop(&self) {
        self.core.stop();
    }
}

/// The report of a thread before it starts to work.
struct StartReport {
    ready: CountdownLatch,
    failed: Mutex<Option<BuildError>>,
}

/// The threads of one engine.
pub(crate) struct ThreadGroup<S> {
    threads: Vec<JoinHandle<Option<S>>>,
}

impl<S: Send + 'static> ThreadGroup<S> {
    /// Starts threads for the first `threads` workers of `core` and returns when all are ready.
    ///
    /// # Errors
    /// When a thread cannot be started, or a start hook or [`Work::init`] panics. Then nothing was
    /// run, and every thread that was started has ended.
    pub(crate) fn start<T, Q, O, W>(
        threads: usize,
        config: &ThreadConfig,
        core: &Arc<Core<T, Q, O>>,
        parkers: &Arc<Parkers>,
        work: &Arc<W>,
    ) -> Result<Self, BuildError>
    where
        T: Send + 'static,
        Q: Strategy,
        O: Observer + Send + Sync + 'static,
        W: Work<T, S, Q, O>,
    {
        let (engine, duty) = driving(core, parkers, work);
        Self::launch(0..threads, config, engine, &duty)
    }

    /// Starts threads with these numbers for the engine at `engine`, and returns when all are
    /// ready.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn launch<D: Duty<S>>(
        numbers: Range<usize>,
        config: &ThreadConfig,
        engine: usize,
        duty: &Arc<D>,
    ) -> Result<Self, BuildError> {
        if !numbers.is_empty() {
            thread::reject_undirected("a pool that it has built");
        }
        let names = config.thread_names(numbers.clone())?;
        let start = Arc::new(StartReport {
            ready: CountdownLatch::new(numbers.len()),
            failed: Mutex::new(None),
        });
        let mut thread_group = Self {
            threads: Vec::with_capacity(numbers.len()),
        };
        for (id, name) in numbers.clone().zip(names) {
            let mut builder = Builder::new().name(name);
            if let Some(bytes) = config.stack_size {
                builder = builder.stack_size(bytes);
            }
            match builder.spawn(life(id, start.clone(), config, engine, duty)) {
                Ok(thread) => thread_group.threads.push(thread),
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
        match failed {
            None => Ok(thread_group),
            Some(error) => {
                duty.stop();
                thread_group.join();
                Err(error)
            }
        }
    }

    /// Adds the threads of `other` to this group.
    pub(crate) fn add(&mut self, other: Self) {
        self.threads.extend(other.threads);
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
        W: Work<T, S, Q, O>,
    {
        let (engine, duty) = driving(core, parkers, work);
        let names = config.thread_names(workers.clone())?;
        for (id, name) in workers.zip(names) {
            let unobserved = Arc::new(StartReport {
                ready: CountdownLatch::new(1),
                failed: Mutex::new(None),
            });
            let life = life::<S, _>(id, unobserved, config, engine, &duty);
            let thread = PoolThread {
                worker: id,
                name,
                stack_size: config.stack_size,
                life: Some(Life {
                    run: Box::new(|| drop(life())),
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

    /// Waits until every thread has ended, and returns their states, in the order of the workers.
    pub(crate) fn join(self) -> Vec<S> {
        let ends = self.threads.into_iter().map(thread::join);
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
) -> (usize, Arc<WorkerDuty<T, Q, O, W>>) {
    let duty = Arc::new(WorkerDuty {
        core: core.clone(),
        parkers: parkers.clone(),
        work: work.clone(),
    });
    (Arc::as_ptr(core) as usize, duty)
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
    W: Work<T, S, Q, O>,
{
    let (core, work) = (core.clone(), work.clone());
    Box::new(move || {
        drop(core.enter(id));
        work.lose();
    })
}

/// Returns the body of the thread with the number `id`, from its first hook to its last.
fn life<S: 'static, D: Duty<S>>(
    id: usize,
    report: Arc<StartReport>,
    config: &ThreadConfig,
    engine: usize,
    duty: &Arc<D>,
) -> impl FnOnce() -> Option<S> + Send + use<S, D> {
    let (duty, hooks) = (duty.clone(), config.hooks.clone());
    move || {
        // Not undone: destructors of thread-locals run after this, and may drop the pool.
        stay(engine, D::WORKERS.then_some(id));
        let state = unwind::contain(|| {
            hooks.start(id);
            duty.init(id)
        });
        let state = match state {
            Ok(state) => {
                report.ready.count_down();
                Some(duty.run(id, state))
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

/// Steps worker `id` until it exits.
pub(crate) fn drive<T, S, Q, O>(
    core: &Core<T, Q, O>,
    id: usize,
    parkers: &Parkers,
    work: &impl Work<T, S, Q, O>,
    mut state: S,
    mut maintenance: Maintenance,
) -> S
where
    T: Send,
    Q: Strategy,
    O: Observer,
{
    // The thread that drops a pool without threads may be unwinding already, and drives the worker
    // all the same.
    unwind::or_abort(|| {
        let mut worker = core.enter(id);
        let mut ready = Vec::new();
        loop {
            thread::point();
            match worker.step(|task, running| work.run(task, running, &mut state)) {
                Step::Ran => {
                    if maintenance.after_task(&mut worker, parkers) {
                        parkers.poll(&mut ready);
                        serve(&mut worker, work, &mut ready);
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
                    serve(&mut worker, work, &mut ready);
                }
                Step::Idle(IdleAction::Yield) => thread::yield_now(),
                Step::Idle(IdleAction::Spin(pauses)) => {
                    (0..pauses).for_each(|_| hint::spin_loop());
                }
                // The engine converts a request to park into a ticket.
                Step::Idle(IdleAction::Park(_)) => {}
                Step::Park(ticket) => {
                    let asleep = thread::nanos();
                    parkers.park(id, ticket.timeout(), &mut ready, || {
                        worker.is_woken() || worker.has_pinned()
                    });
                    let slept = thread::nanos().saturating_sub(asleep);
                    worker.resume_after(ticket, Duration::from_nanos(slept));
                    maintenance.restart();
                    serve(&mut worker, work, &mut ready);
                }
                Step::Exit => break,
            }
        }
    });
    state
}

/// Wakes the futures whose events the driver has found.
#[inline]
fn serve<T: Send, S, Q: Strategy, O: Observer>(
    worker: &mut Worker<'_, T, Q, O>,
    work: &impl Work<T, S, Q, O>,
    ready: &mut Vec<Waker>,
) {
    if !ready.is_empty() {
        worker.interrupt(thread::yield_now, |running| work.wake(ready, running));
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
