//! Runs other jobs nested in a task that does not wait for any of them in particular.

use super::{context::WorkerContext, current_task, inner::Serving, job::Job, time_slice};
use crate::{
    base::thread,
    engine::{Core, Mark, PerWorker, Placement, Priority, Step},
    observe::Counters,
    threads::{ClockSampler, timer::Timer},
};
use std::{cell::Cell, mem};

/// The maximum number of jobs that one checkpoint serves: some tens of microseconds, if they are as
/// short as polls of futures should be.
const MAX_PER_CHECKPOINT: usize = 16;

/// The maximum nesting depth of served jobs on one stack: a job that is served at a checkpoint may
/// itself reach a checkpoint. Without a limit, ten thousand woken futures with a checkpoint each
/// would nest in one another, and the first would end last.
const MAX_NESTED_SERVES: u8 = 4;

/// The shortest time between two tasks of the injector that a worker serves inside a task, in
/// nanoseconds. The same as between two tasks (`threads::maintenance`).
const INJECTOR_DELAY_NANOS: u64 = 200_000;

/// The maximum number of calls of [`WorkerContext::poll_attention`] between two readings of the
/// clock. If leaves are long after many short ones, this number of them passes before the injector
/// is served.
const MAX_CHECKS_BETWEEN_SAMPLES: u32 = 7;

thread_local! {
    /// The number of served jobs on the stack of this thread.
    static SERVED: Cell<u8> = const { Cell::new(0) };

    /// When this thread serves the injector inside a task. One for all its pools, because contexts
    /// are made for every task: in most of them it is a guest, and serves no injector.
    static INJECTOR: Cell<InjectorClock> = const { Cell::new(InjectorClock::new()) };
}

/// Decides when tasks of the injector run inside other tasks.
#[derive(Clone, Copy)]
struct InjectorClock {
    sampler: ClockSampler,
    /// When the injector was last due.
    served: u64,
    /// The injector is due to be served, and has not been served yet.
    due: bool,
    /// As `due`, for the rest of a batch that the worker has taken from it.
    batch_due: bool,
}

impl InjectorClock {
    const fn new() -> Self {
        Self {
            sampler: ClockSampler::new(MAX_CHECKS_BETWEEN_SAMPLES),
            served: 0,
            due: false,
            batch_due: false,
        }
    }

    /// Checks whether tasks from outside are due to be served: those in the injector, or the rest
    /// of a batch. Each is served once when time has passed, so that neither delays the other.
    fn check(&mut self, injected: bool, batch: bool) -> bool {
        let is_due = |clock: &Self| clock.due && injected || clock.batch_due && batch;
        if !is_due(self) && self.sampler.tick() {
            let now = thread::nanos();
            self.sampler.record(now);
            if now.saturating_sub(self.served) >= INJECTOR_DELAY_NANOS {
                (self.served, self.due, self.batch_due) = (now, true, true);
            }
        }
        is_due(self)
    }
}

/// A cheap check whether a job should yield to other work.
pub(crate) struct Urgency<'a> {
    core: &'a Core<Job, PerWorker, Counters>,
    batch_below: &'a Cell<Option<Mark>>,
}

impl Urgency<'_> {
    /// Whether [`WorkerContext::poll_yield_request`] is worth a call.
    #[inline(always)]
    pub(crate) fn is_raised(&self) -> bool {
        let timer = Timer::global();
        self.core.has_urgent()
            || self.core.wants_attention()
            || self.batch_below.get().is_some()
            || timer.is_waited_for() && timer.poll_clock()
    }
}

impl WorkerContext<'_, '_> {
    /// Runs one job, if there is one that this worker may run now.
    pub(crate) fn help_once(&self) -> bool {
        self.help(1) == 1
    }

    /// Runs at most `most` jobs, as long as there are any that this worker may run now. Returns
    /// their number.
    pub(crate) fn help(&self, most: usize) -> usize {
        self.help_while(most, || true)
    }

    /// [`help`](Self::help) that runs another job only if `more`. The first one runs in any case.
    pub(super) fn help_while(&self, most: usize, more: impl Fn() -> bool) -> usize {
        if self.has_restricted_waits() {
            return 0;
        }
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        let mut ran = 0;
        while ran < most && (ran == 0 || more()) && matches!(self.step(), Step::Ran) {
            ran += 1;
        }
        self.running().end_wait();
        ran
    }

    /// [`help`](Self::help) for a task that waits for something, and cannot continue before the
    /// jobs have run that it has enqueued. Where waits are isolated, only those jobs run, and those
    /// of the mailbox.
    pub(crate) fn help_in_wait(&self, most: usize) -> usize {
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        if !self.has_restricted_waits() {
            let steps = (0..most).take_while(|_| {
                let step = self.step_with(|job| self.run_elsewhere(job));
                matches!(step, Step::Ran)
            });
            let ran = steps.count();
            self.running().end_wait();
            return ran;
        }
        let floor = self.floor(self.job_mark());
        let mut ran = 0;
        while ran < most
            && let Some(job) = self.pop_above(floor)
        {
            self.run_popped(job);
            ran += 1;
        }
        self.running().end_wait();
        ran
    }

    /// Runs one job of this worker's own queue, or of its mailbox, if it may run it now.
    pub(crate) fn help_own(&self) -> bool {
        let job = match self.isolated.get() {
            Some(mark) => self.pop_above(mark),
            None if self.has_restricted_waits() => self.running().take_pinned(),
            None => self.pop().or_else(|| self.running().take_pinned()),
        };
        let Some(job) = job else {
            return false;
        };
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        self.run_popped(job);
        // The task continues, for an unknown time.
        self.running().end_wait();
        true
    }

    /// Whether this thread should return from the pool when its time slice is over.
    #[inline]
    pub(crate) fn has_time_slice(&self) -> bool {
        self.is_temporary() && time_slice::is_limited()
    }

    /// Whether a job that can continue later should return here, so that other work runs first.
    pub(crate) fn poll_yield_request(&self) -> bool {
        if Timer::global().is_due() {
            self.wake_due();
        }
        if self.has_restricted_waits() {
            return false;
        }
        if self.pool().core().has_urgent() || time_slice::is_over() {
            return true;
        }
        self.poll_injector_if_due()
    }

    /// Makes the worker's next step take a task from the injector, if the injector is due. Returns
    /// whether there is work that should run before what this worker has queued.
    #[cold]
    pub(super) fn poll_injector_if_due(&self) -> bool {
        let due = self.poll_attention();
        if due
            && (self.take_turn(|clock| &mut clock.due)
                | self.take_turn(|clock| &mut clock.batch_due))
        {
            self.running().make_injector_due();
        }
        due
    }

    /// A checkpoint in a long task: serves urgent tasks and futures, not Normal ones. Returns
    /// whether any ran.
    #[inline(always)]
    pub(crate) fn checkpoint(&self) -> bool {
        if self.mark_poll_long() {
            self.notify_deferred();
        }
        self.poll_urgent() && self.serve(Serving::Urgent)
    }

    /// A checkpoint between two leaves of a computation that occupies this worker for long: tasks
    /// from outside may run here too. Returns whether any ran.
    #[inline(always)]
    pub(crate) fn leaf_checkpoint(&self) -> bool {
        if self.mark_poll_long() {
            self.notify_deferred();
        }
        self.watch_clock();
        self.preempt()
    }

    /// Runs other work here if this worker is requested to serve it. Returns whether any ran.
    #[inline(always)]
    pub(crate) fn preempt(&self) -> bool {
        (self.wants_attention() || self.pool().core().has_urgent()) && self.preempt_slowly()
    }

    /// Whether this worker is requested to serve other work, or has taken tasks from outside that
    /// wait below the current one.
    #[inline(always)]
    pub(super) fn wants_attention(&self) -> bool {
        self.pool().core().wants_attention() || self.batch_below.get().is_some()
    }

    /// Makes the next pop check again whether other work should be served, if attention is still
    /// requested. The thread that has requested it has sent one alert, perhaps before this worker
    /// pushed anything, and the owner of a deque calms down after a while. The rest of a batch
    /// concerns this worker only, so its next push checks again too.
    pub(super) fn repeat_alert(&self) {
        if self.batch_below.get().is_some() {
            self.running().queue().owner().watch_pushes();
        }
        if self.wants_attention() {
            self.running().queue().owner().alert();
        }
    }

    /// Returns the mark below which tasks of a batch from outside may be queued, for a job that
    /// begins at `mark`, nested in the current one.
    pub(super) fn batch_below_nested(&self, mark: Mark) -> Option<Mark> {
        match self.batch_below.get() {
            Some(batch) => Some(batch.earlier(mark)),
            None => self.running().watch_batch(true).then_some(mark),
        }
    }

    /// Lowers the mark of the batch to `mark`, the present young end, if that is below it because
    /// tasks of the batch were popped. Later pushes are then above the mark.
    #[inline(always)]
    pub(super) fn lower_batch(&self, mark: Mark) {
        if let Some(batch) = self.batch_below.get() {
            self.batch_below.set(Some(batch.earlier(mark)));
        }
    }

    /// Ends the watch for a batch from outside of which nothing is left below the current job.
    pub(super) fn forget_served_batch(&self) {
        if let Some(mark) = self.batch_below.get()
            && !self.running().has_batch_below(mark)
        {
            self.batch_below.set(None);
        }
    }

    /// Whether the rest of a batch from outside is below the current job.
    fn refresh_batch(&self) -> bool {
        self.forget_served_batch();
        self.batch_below.get().is_some()
    }

    #[cold]
    #[inline(never)]
    fn preempt_slowly(&self) -> bool {
        self.poll_attention() && self.serve(Serving::All)
    }

    /// Whether there is work that should run before what this worker has queued: urgent work, or a
    /// task from outside that is due.
    #[cold]
    pub(super) fn poll_attention(&self) -> bool {
        let core = self.pool().core();
        // First, also if there is urgent work: that may be endless.
        if self.is_injector_due() || core.has_urgent() || self.running().has_affine() {
            return true;
        }
        if core.injected() == 0 {
            core.clear_unneeded_attention();
        }
        false
    }

    /// Whether a task from the injector is due, or one of the rest of a batch.
    fn is_injector_due(&self) -> bool {
        let (injected, batch) = (self.pool().core().injected() > 0, self.refresh_batch());
        // `Pool::on_worker` guarantees one of the pool's own threads, so guests do not take from
        // the injector.
        if !(injected || batch) || self.is_guest() {
            return false;
        }
        let mut clock = INJECTOR.get();
        let due = clock.check(injected, batch);
        INJECTOR.set(clock);
        due
    }

    /// Returns whether the injector, or with `batch_due` the rest of a batch, is due to be served,
    /// and clears that state.
    fn take_turn(&self, due: impl FnOnce(&mut InjectorClock) -> &mut bool) -> bool {
        if self.is_guest() {
            return false; // the turn may be that of the pool whose thread this is
        }
        let mut clock = INJECTOR.get();
        let taken = mem::take(due(&mut clock));
        INJECTOR.set(clock);
        taken
    }

    /// Returns a cheap check for callers that need one every few nanoseconds.
    #[inline(always)]
    pub(crate) fn urgency(&self) -> Urgency<'_> {
        Urgency {
            core: self.pool().core(),
            batch_below: &self.batch_below,
        }
    }

    /// Runs unrelated work nested in the current task. Runs nothing where waits are isolated.
    ///
    /// What the served jobs enqueue without waiting for it goes to the shared queues, as if it came
    /// from outside. In the worker's own queue it would be above what the current task has
    /// enqueued, and the task's next join would run it.
    #[cold]
    #[inline(never)]
    pub(super) fn serve(&self, what: Serving) -> bool {
        struct RestoreServing<'a>(&'a Cell<Serving>, Serving, u8);
        impl Drop for RestoreServing<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
                SERVED.set(self.2);
            }
        }
        let depth = SERVED.get();
        if self.has_restricted_waits() || depth >= MAX_NESTED_SERVES {
            return false;
        }
        let _aside = current_task::set_aside();
        self.mark_poll_long();
        SERVED.set(depth + 1);
        let back = RestoreServing(&self.serving, self.serving.replace(what), depth);
        // No wait target of another task: jobs that run here do not continue with more of their
        // kind.
        let served = self.with_wait_target(self, || {
            (1..=MAX_PER_CHECKPOINT)
                .map_while(|number| self.take_served(what, number))
                .map(|job| self.run_served(job))
                .take_while(|served| *served)
                .count()
        });
        drop(back);
        // The task continues, for an unknown time.
        self.notify_deferred();
        served > 0
    }

    /// Takes the job with this number that a checkpoint serves.
    fn take_served(&self, what: Serving, number: usize) -> Option<Job> {
        // Then only tasks from the injector may follow, which urgent work must not keep waiting for
        // ever.
        let reserved = 1 + usize::from(self.batch_below.get().is_some());
        let is_last = self.serving.get() == Serving::Last
            || what == Serving::All && number + reserved > MAX_PER_CHECKPOINT;
        if !is_last && let urgent @ Some(_) = self.running().take_urgent() {
            return urgent;
        }
        if what == Serving::Urgent {
            return None;
        }
        if !is_last && let affine @ Some(_) = self.running().take_affine() {
            return affine;
        }
        if self.lacks_substitute() {
            return None;
        }
        if let Some(mark) = self.batch_below.get()
            && self.take_turn(|clock| &mut clock.batch_due)
            && let oldest @ Some(_) = self.running().take_batch_below(mark)
        {
            self.serving.set(what);
            return oldest;
        }
        if !self.take_turn(|clock| &mut clock.due) {
            return None;
        }
        self.serving.set(what);
        self.running().take_injected()
    }

    /// Whether a job runs here nested in another task, at a checkpoint of it.
    #[inline(always)]
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.get() != Serving::No
    }

    /// Whether a job runs here at a checkpoint of a task that does not wait for `event`: not
    /// because the current task, or one that it has called, works on what it will wait for.
    #[inline(always)]
    pub(crate) fn is_serving_other<T>(&self, event: *const T) -> bool {
        self.is_serving() && !self.is_wait_target(event)
    }

    /// Ends the checkpoint at which the current job runs, and returns the queue for the job, which
    /// is about to be queued again. Without this the checkpoint would run it many times. A later
    /// checkpoint of a task finds it in the lane; between the leaves of a computation, where
    /// checkpoints are as frequent as joins, it waits for the turn of the injector.
    #[cold]
    pub(crate) fn end_serving(&self) -> Placement {
        match self.serving.replace(Serving::Last) {
            Serving::All => Placement::Injector,
            _ => Placement::Lane(Priority::High),
        }
    }

    /// Advances an auto-advancing clock, because nothing can be run here: the clock of this pool,
    /// or of another one whose task this thread runs. Returns whether one advanced.
    pub(crate) fn skip_time(&self) -> bool {
        let skip = |context: &WorkerContext<'_, '_>| {
            context.pool().live_workers() == 0
                && context.pool().skip_time(context.has_restricted_waits())
        };
        skip(self) || self.enclosing().any(skip)
    }

    /// Takes the newest job of this worker that was queued since `mark`, or one from its mailbox.
    pub(super) fn pop_above(&self, mark: Mark) -> Option<Job> {
        if self.running().is_taking_older_first() {
            self.running().move_newest_last(mark);
            // Jobs that are re-enqueued repeatedly would starve the mailbox too.
            if let pinned @ Some(_) = self.running().take_pinned() {
                return pinned;
            }
        }
        if self.running().queue().owner().has_tasks_above(mark)
            && let Some(job) = self.pop()
        {
            return Some(job);
        }
        self.running().take_pinned()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;
    use crate::Pool;
    use std::sync::mpsc::channel;

    /// Takes a task in a batch with others, runs these nested in it as a wait does, and spawns one
    /// more. Returns whether the watch for the batch had begun, and whether it has ended.
    fn watch_batch() -> (bool, bool) {
        let pool = Pool::builder().workers(1).build().unwrap();
        let ((go_on, held), (report, reported)) = (channel(), channel());
        pool.spawn(move || held.recv().unwrap());
        // The first one may be taken alone.
        (0..4).for_each(|_| pool.spawn(|| ()));
        pool.spawn(move || {
            WorkerContext::with(|context| {
                let context = context.unwrap();
                let began = context.refresh_batch();
                while let Some(job) = context.pop() {
                    context.run_popped(job);
                }
                crate::spawn(|| ());
                report.send((began, !context.refresh_batch())).unwrap();
            });
        });
        (0..4).for_each(|_| pool.spawn(|| ()));
        go_on.send(()).unwrap();
        reported.recv().unwrap()
    }

    #[test]
    fn nested_runs_of_the_rest_of_a_batch_end_the_watch_for_it() {
        // A worker that is late takes one task at a time.
        let ended = (0..100).map(|_| watch_batch()).find(|(began, _)| *began);
        let (_, ended) = ended.expect("no task was taken in a batch");
        assert!(
            ended,
            "a task that was spawned later counts as one of the batch"
        );
    }
}
