//! Calls that block, and the threads that substitute for the workers in them.
//!
//! A worker in a blocking call is lost to the pool, while the tasks in its queue are not: other
//! workers steal them. So a substitute takes no slot over. It is a thread of the pool that works in
//! a guest slot as an additional worker, as long as the call lasts (`substitutes.rs`). The first
//! call starts it, and it is reused until the pool ends.
//!
//! The task goes on as soon as its call returns. As long as the substitute has tasks of its own,
//! running or queued, the pool has one running thread more than workers then. If the task waited
//! for it instead, a task of the substitute that waits for this one would never end.

use super::{
    build::Jobs,
    context::WorkerContext,
    current_task,
    handoff::{self, GivenJob, HandedJob},
    inner::{Inner, Job, PoolWorker},
    substitutes::Substitutes,
};
use crate::{
    base::{thread, unwind},
    engine::{PerWorker, Placement, Priority, RunningWorker},
    observe::Counters,
    threads::{ThreadGroup, ThreadMain, Work},
};
use std::{cell::Cell, sync::Arc, task::Waker};

thread_local! {
    /// This thread is in a blocking call.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f`, which blocks: it waits for a file, a socket, a child process, or a lock of another
/// library. Meanwhile another thread works in the place of this worker, so that the pool keeps its
/// parallelism.
///
/// Costs some 200 ns in a row of calls (`filch-bench submit`, case `blocking`), else waking or
/// starting a thread. The task goes on as soon as `f` returns. A pool has at most 16 such threads,
/// for that many calls at a time; during more calls than that it has fewer workers. They are named
/// `filch-blocking-0` and so on, or by the pool's [name](crate::PoolBuilder::name) function, with
/// numbers above those of the workers.
///
/// On a thread that is not a worker, in a pool without threads, and in one whose threads the
/// [program starts](crate::PoolBuilder::build_on), it only calls `f`. So it does within another
/// blocking call, on workers that are [dedicated](crate::PoolBuilder::future_workers) to futures,
/// and in a rehearsal. Tasks that are pinned to this worker wait for it.
///
/// [Start hooks](crate::PoolBuilder::on_start) are called on the new threads too, before `f`, with
/// their numbers. If one panics, the pool tries no more.
///
/// ```
/// use std::sync::mpsc;
///
/// let pool = filch::Pool::builder().workers(1).build()?;
/// let (send, receive) = mpsc::channel();
/// let blocked = pool.submit(move || filch::blocking(|| receive.recv().unwrap()));
/// // The only worker waits for this task, which runs all the same.
/// pool.spawn(move || send.send("hello").unwrap());
/// assert_eq!(blocked.join().unwrap(), "hello");
/// # Ok::<(), filch::BuildError>(())
/// ```
///
/// # Panics
/// If `f` does.
#[doc(alias("block_in_place", "spawn_blocking"))]
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let _call = WorkerContext::with(|context| context.and_then(BlockingCall::begin));
    f()
}

/// A blocking call that is counted. Dropped at its end.
struct BlockingCall(Arc<Inner>);

impl BlockingCall {
    fn begin(context: &WorkerContext<'_, '_>) -> Option<Self> {
        if IN_CALL.get() || thread::is_directed() {
            return None;
        }
        let pool = Self::worker_of(context)?;
        let substitutes = pool.substitutes.as_ref()?;
        // What this task has queued or woken is for others now.
        context.mark_poll_long();
        context.notify_deferred();
        handoff::before_sleep();
        IN_CALL.set(true);
        substitutes.begin_sleep();
        substitutes.demand.begin();
        let call = Self(pool.share());
        pool.provide_substitute(substitutes);
        Some(call)
    }

    /// The pool that loses a worker during the call: the one that this thread belongs to, if it
    /// runs a task of it. A guest is an additional worker, and needs no substitute.
    fn worker_of<'c>(context: &'c WorkerContext<'_, '_>) -> Option<&'c Inner> {
        let loses = |pool: &Inner, is_dedicated: bool| !is_dedicated && pool.is_own_thread();
        if loses(context.pool(), context.is_dedicated()) {
            return Some(context.pool());
        }
        let mut enclosing = context.enclosing();
        enclosing
            .find(|context| loses(context.pool(), context.is_dedicated()))
            .map(|context| context.pool())
    }
}

impl Drop for BlockingCall {
    fn drop(&mut self) {
        IN_CALL.set(false);
        if let Some(substitutes) = &self.0.substitutes {
            substitutes.demand.end();
            substitutes.end_sleep();
        }
    }
}

impl Inner {
    /// Wakes or starts a substitute, if there are too few.
    fn provide_substitute(&self, substitutes: &Substitutes<Job>) {
        if !substitutes.demand.has_too_few() {
            return;
        }
        let start = substitutes.count_start();
        // For one that waits, or for the one that is started.
        substitutes.demand.notify();
        if let Some(number) = start {
            substitutes.store(self.start_substitute(substitutes, number));
        }
    }

    /// Queues a job for a substitute, and wakes or starts one. Returns the job if none is free. If
    /// the giver `waits`, the substitute works in its place.
    fn hand_off(
        &self,
        job: Job,
        (giver, waits): (usize, bool),
        substitutes: &Substitutes<Job>,
    ) -> Result<GivenJob, Job> {
        let Some(slot) = self.guests.take() else {
            return Err(job);
        };
        let refuse = |handed: HandedJob<Job>| {
            let (job, slot) = handed.into_parts();
            self.guests.give_back(slot);
            self.notify_substitute();
            job
        };
        let (handed, given) = HandedJob::new(job, slot, giver, waits);
        let start = substitutes.offer(handed).map_err(refuse)?;
        substitutes.demand.notify();
        if let Some(number) = start {
            let thread = self.start_substitute(substitutes, number);
            let failed = thread.is_none();
            substitutes.store(thread);
            if failed && let Some(handed) = substitutes.take_back(&given) {
                return Err(refuse(handed));
            }
        }
        while !given.wait_until_taken() {
            if let Some(handed) = substitutes.take_back(&given) {
                return Err(refuse(handed));
            }
        }
        Ok(given)
    }

    /// Runs a job that was handed off, in its slot, and others as long as the giver waits.
    fn run_handed(&self, handed: HandedJob<Job>) {
        let giver = self.in_taken_slot(handed.slot(), |context| {
            let (job, taken) = handed.take();
            job.run(context);
            taken.end_job();
            while !taken.is_released() && context.help_once() {}
            taken.finish()
        });
        self.unpark(giver);
    }

    /// Wakes a substitute that may have found no free slot, if there are too few.
    pub(super) fn notify_substitute(&self) {
        if let Some(substitutes) = &self.substitutes
            && substitutes.demand.has_too_few()
        {
            substitutes.demand.notify();
        }
    }

    /// Whether a worker is in a blocking call that is counted.
    pub(crate) fn has_blocking_calls(&self) -> bool {
        let substitutes = self.substitutes.as_ref();
        substitutes.is_some_and(|substitutes| substitutes.demand.has_calls())
    }

    /// Starts a thread, if that is possible.
    fn start_substitute(
        &self,
        substitutes: &Substitutes<Job>,
        number: usize,
    ) -> Option<ThreadGroup<()>> {
        let engine = Arc::as_ptr(&self.core) as usize;
        let first = self.max_threads() + self.dedicated.as_ref().map_or(0, |some| some.workers());
        let config = substitutes.config.named("filch-blocking", first);
        let numbers = first + number..first + number + 1;
        let main = Arc::new(SubstituteMain(self.share()));
        ThreadGroup::launch(numbers, &config, engine, &main).ok()
    }
}

impl WorkerContext<'_, '_> {
    /// Whether a submitted task from elsewhere may run on top of this stack, because no task of
    /// the pool is beneath it: on a thread from outside that waits or passes a checkpoint, and
    /// has not begun to run other jobs. (Both count as one level.)
    pub(super) fn is_at_bottom(&self) -> bool {
        current_task::depth() <= 1 && self.is_guest()
    }

    /// The substitutes that may run a submitted task which this worker takes here, or `None` if it
    /// has to run the task itself.
    fn handoff_substitutes(&self) -> Option<&Substitutes<Job>> {
        if thread::is_directed() || self.is_at_bottom() || self.pool().core().is_stopped() {
            return None;
        }
        self.pool().substitutes.as_ref()
    }

    /// Sleeps in a wait by calling `sleep`.
    pub(super) fn sleep_in_wait(&self, sleep: impl FnOnce()) {
        handoff::before_sleep();
        match &self.pool().substitutes {
            // A thread in a blocking call is counted already.
            Some(substitutes) if self.is_member() && !IN_CALL.get() => {
                substitutes.begin_sleep();
                sleep();
                substitutes.end_sleep();
            }
            _ => sleep(),
        }
    }

    /// Whether this is one of the workers or a substitute: not a guest, nor a dedicated worker.
    fn is_member(&self) -> bool {
        !self.is_guest() && !self.is_dedicated()
    }

    /// Whether all others of the pool sleep in waits, so that a queued task which they need would
    /// never run.
    pub(super) fn is_last_awake(&self) -> bool {
        let substitutes = self.pool().substitutes.as_ref();
        substitutes.is_some_and(|substitutes| {
            substitutes.are_asleep(
                self.pool().members.running_threads(),
                usize::from(self.is_member()),
            )
        })
    }

    /// Whether unrelated work has to wait: it might have to be handed off, and no substitute is
    /// free.
    #[inline]
    pub(super) fn lacks_substitute(&self) -> bool {
        let substitutes = self.pool().substitutes.as_ref();
        substitutes.is_some_and(|substitutes| !substitutes.has_free())
            && self.handoff_substitutes().is_some()
    }

    /// Hands the job off, if it is a task that may wait. If this worker only `waits`, the
    /// substitute replaces it.
    pub(super) fn hand_off(&self, job: Job, waits: bool) -> HandoffOutcome {
        if !job.may_wait() {
            return HandoffOutcome::InPlace(job);
        }
        let Some(substitutes) = self.handoff_substitutes() else {
            return HandoffOutcome::InPlace(job);
        };
        // What this task has queued or woken is for others now.
        self.notify_deferred();
        match self
            .pool()
            .hand_off(job, (self.worker(), waits), substitutes)
        {
            Ok(given) => HandoffOutcome::Given(given),
            Err(job) => HandoffOutcome::Refused(job),
        }
    }

    /// Runs a job between two leaves of the current task: on another thread, if it may wait for
    /// this one. Returns false if none is free, and the job is queued again.
    pub(super) fn run_served(&self, job: Job) -> bool {
        match self.hand_off(job, false) {
            HandoffOutcome::Given(given) => given.pause(),
            HandoffOutcome::Refused(job) => {
                self.running().spawn(job, Placement::Lane(Priority::High));
                return false;
            }
            HandoffOutcome::InPlace(job) => self.run_nested(job),
        }
        true
    }
}

impl WorkerContext<'_, '_> {
    /// Runs a job on another thread, if it may wait for the current task, or queues it again if no
    /// such thread is free. Otherwise returns it.
    pub(super) fn run_elsewhere(&self, job: Job) -> Option<Job> {
        match self.hand_off(job, false) {
            HandoffOutcome::Given(given) => given.pause(),
            HandoffOutcome::Refused(job) => self.running().spawn(job, Placement::Injector),
            HandoffOutcome::InPlace(job) => return Some(job),
        }
        None
    }
}

/// What became of a job that a worker wanted to hand off.
pub(super) enum HandoffOutcome {
    /// A substitute runs it.
    Given(GivenJob),
    /// No substitute is free. The caller queues it again.
    Refused(Job),
    /// It may run on top of the stack of this worker, or has to.
    InPlace(Job),
}

/// The thread body of the substitutes.
struct SubstituteMain(Arc<Inner>);

impl ThreadMain<()> for SubstituteMain {
    const WORKERS: bool = false;

    fn init(&self, _number: usize) {}

    fn run(&self, _number: usize, (): ()) -> Option<()> {
        let pool = &self.0;
        let substitutes = pool.substitutes.as_ref()?;
        let jobs = SubstituteJobs(Jobs(pool.clone()));
        let slot = Cell::new(None);
        let join_call = || {
            if pool.core.is_stopped() {
                return false;
            }
            let Some(free) = pool.guests.take() else {
                return false;
            };
            slot.set(Some(free));
            substitutes.demand.join() || {
                pool.guests.give_back(free);
                // Another one may have found no slot meanwhile.
                pool.notify_substitute();
                false
            }
        };
        let join = || {
            substitutes.become_busy();
            loop {
                while let Some((handed, more)) = substitutes.take_handed() {
                    // The notifications of several tasks and calls may have been one.
                    if more || substitutes.demand.has_too_few() {
                        substitutes.demand.notify();
                    }
                    pool.run_handed(handed);
                }
                if join_call() {
                    return true;
                }
                if substitutes.try_become_idle() {
                    return false;
                }
            }
        };
        substitutes.become_idle();
        unwind::or_abort(|| {
            substitutes.demand.run_substitute(join, || {
                substitutes
                    .demand
                    .pass_on(|| pool.provide_substitute(substitutes));
                pool.drive_in_slot(slot.take().expect("it was taken to join"), &jobs);
                substitutes.become_idle();
            });
        });
        Some(())
    }

    fn stop(&self) {}
}

/// Runs the jobs of a pool on a substitute, until there are more of these than blocking calls.
struct SubstituteJobs(Jobs);

impl Work<Job, (), PerWorker, Counters> for SubstituteJobs {
    const MAY_LEAVE: bool = true;

    fn init(&self, _worker: usize) {}

    fn run(&self, job: Job, running: RunningWorker<'_, '_, Job, PerWorker, Counters>, (): &mut ()) {
        self.0.run(job, running, &mut ());
    }

    fn wake(
        &self,
        ready: &mut Vec<Waker>,
        first: bool,
        running: RunningWorker<'_, '_, Job, PerWorker, Counters>,
    ) {
        self.0.wake(ready, first, running);
    }

    fn should_leave(&self, worker: &mut PoolWorker<'_>) -> bool {
        if worker.has_own() {
            return false;
        }
        thread::point();
        let substitutes = self.0.0.substitutes.as_ref();
        substitutes.is_some_and(|substitutes| substitutes.demand.leave())
    }
}
