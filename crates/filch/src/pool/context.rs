//! The context of a thread that is a worker of a pool: the worker, and the task that it runs.
#![expect(unsafe_code, reason = "a thread-local pointer into its own stack")]

pub(crate) use super::inner::WorkerContext;

use super::{
    context_call::{ContextCall, call_once},
    inner::{ContextPointer, Inner, Job, PoolRunning, Serving},
    latch::WorkerLatch,
    slab::Slab,
};
use crate::{
    base::{
        sys::{memory, stack},
        unwind,
    },
    engine::{Mark, Queue, Retract, Step},
    threads::timer::Timer,
};
use std::{cell::Cell, iter::successors, mem::ManuallyDrop, ptr};

/// Prefetch distance, in jobs: a short job takes about 20 ns, and a memory access 100 ns.
const PREFETCH_DISTANCE: u8 = 5;

/// Upper bound of the stack between a call of [`WorkerContext::may_restrict_waits`] and the wait
/// that it is called for, in bytes.
const WAIT_FRAMES: usize = 16 << 10;

thread_local! {
    /// The innermost context of this thread, or null.
    pub(super) static CURRENT: Cell<ContextPointer> = const { Cell::new(ptr::null()) };
}

/// Restores the context that was current before.
pub(super) struct RestoreContext(pub(super) ContextPointer);

impl Drop for RestoreContext {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<'w, 'c> WorkerContext<'w, 'c> {
    /// Runs `f` on the worker `running` of `pool`.
    #[inline(always)]
    pub(crate) fn enter<R>(
        mut running: PoolRunning<'_, '_>,
        pool: &Inner,
        f: impl FnOnce(&WorkerContext<'_, '_>) -> R,
    ) -> R {
        let (other, outermost) = Self::enclosing_of(pool);
        WorkerContext::new(&mut running, pool, other, outermost).as_current(|context| f(context))
    }

    /// For a new context of `pool`: the innermost context of another pool on this thread, or null;
    /// and whether it is the only one.
    #[inline(always)]
    fn enclosing_of(pool: &Inner) -> (ContextPointer, bool) {
        let enclosing = CURRENT.get();
        // SAFETY: as in `with`: `CURRENT` is null or points to a context that outlives this call.
        let other = match unsafe { enclosing.as_ref() } {
            Some(same) if ptr::eq(same.pool, pool) => same.other,
            Some(other) => {
                other.leave_for_other_pool();
                enclosing
            }
            None => enclosing,
        };
        (other, enclosing.is_null())
    }

    /// Makes this thread the worker `running` of `pool`, permanently.
    pub(crate) fn enter_permanently(running: PoolRunning<'static, 'static>, pool: &'static Inner) {
        let running = Box::leak(Box::new(running));
        // Not the outermost: whatever the thread does outside of tasks waits for them.
        let context = WorkerContext::new(running, pool, CURRENT.get(), false);
        let context: &'static WorkerContext<'static, 'static> = Box::leak(Box::new(context));
        let _ = pool.base.set(ptr::from_ref(context).addr());
        CURRENT.set(context);
    }

    /// From now on the worker steals one task at a time.
    pub(crate) fn steal_one_by_one(&self) {
        self.running().queue().steal_one_by_one();
    }

    /// Calls `f` with this context as the current one.
    #[inline(always)]
    pub(super) fn as_current<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        let _restore = RestoreContext(CURRENT.replace((&raw const *self).cast()));
        f(self)
    }

    /// Whether urgent work should preempt this task: an urgent job is queued, or becomes so because
    /// a timer is due, or because the driver has an event ([`watch_clock`](Self::watch_clock)).
    #[inline(always)]
    pub(crate) fn poll_urgent(&self) -> bool {
        self.watch_clock();
        self.pool.core().has_urgent()
    }

    /// Polls the driver, if there is one and it is time, and samples the clock for tasks that wait
    /// for a deadline. They are woken as from outside of the
    /// pool: the length of the current task is unknown, and what wakers do is not part of it.
    #[inline(always)]
    pub(super) fn watch_clock(&self) {
        if self.pool.has_driver() {
            self.poll_driver_if_due();
        }
        if Timer::global().is_waited_for() && Timer::global().poll_clock() {
            self.wake_due();
        }
    }

    /// Whether [`watch_clock`](Self::watch_clock) may have something to do.
    #[inline]
    pub(super) fn has_clock_work(&self) -> bool {
        self.pool.has_driver() || Timer::global().is_waited_for()
    }

    /// Wakes the tasks whose deadlines have passed.
    #[cold]
    pub(super) fn wake_due(&self) {
        // Isolated waits do not poll unrelated futures either: the caller may hold a lock.
        if !self.has_restricted_waits() {
            self.as_outside(|| Timer::global().wake_due());
        }
    }

    /// Calls `f` with the innermost context of `pool` on this thread, or as a guest of the pool.
    #[cold]
    pub(crate) fn on_enclosing<R>(
        &self,
        pool: &Inner,
        f: impl FnOnce(&WorkerContext<'_, '_>) -> R,
    ) -> R {
        call_once(f, |f| self.call_on_enclosing(pool, f))
    }

    /// As [`on_enclosing`](Self::on_enclosing).
    #[cold]
    pub(super) fn call_on_enclosing(&self, pool: &Inner, f: ContextCall<'_>) {
        self.leave_for_other_pool();
        let mut other = self.other;
        // SAFETY: `other` is null or points to a context further down on this stack, which outlives
        // this one, as does what it points to in turn.
        while let Some(context) = unsafe { other.as_ref() } {
            if ptr::eq(context.pool, pool) {
                // The innermost context of its pool: it is not borrowed, because the thread is in a
                // call to another pool, nested in its task.
                return context.as_current_again(f);
            }
            other = context.other;
        }
        pool.call_as_guest(f);
    }

    /// Whether this thread runs a task of `pool`, here or in an enclosing context.
    pub(crate) fn is_inside(&self, pool: &Inner) -> bool {
        if ptr::eq(self.pool, pool) {
            return true;
        }
        // SAFETY: as in `call_on_enclosing`: `other` is null or points to a context that outlives
        // this one.
        unsafe { self.other.as_ref() }.is_some_and(|other| other.is_inside(pool))
    }

    /// Returns the pool of that number, if this thread runs a task of it.
    pub(crate) fn find_pool(&self, number: u32) -> Option<&Inner> {
        if self.pool.number() == number {
            return Some(self.pool);
        }
        // SAFETY: as in `call_on_enclosing`: `other` is null or points to a context that outlives
        // this one.
        unsafe { self.other.as_ref() }?.find_pool(number)
    }

    /// Calls `f` with the innermost context of this thread, if it is a worker.
    #[inline(always)]
    pub(crate) fn with<R>(f: impl FnOnce(Option<&WorkerContext<'_, '_>>) -> R) -> R {
        let current = CURRENT.get();
        // SAFETY: `CURRENT` is null or points to a context further down on the stack of this
        // thread: `enter` sets it for the duration of a call and `RestoreContext` restores it, also
        // on a panic. The lifetimes, erased in the pointer, are longer than this call. Or it points
        // to the one of `enter_permanently`, which is never freed.
        f(unsafe { current.as_ref() })
    }

    /// The number of the worker.
    #[inline(always)]
    pub(crate) fn worker(&self) -> usize {
        self.running().id()
    }

    /// Whether this thread is a worker for a time only, with a number above those of the pool's own
    /// threads: a guest, a substitute or a dedicated worker.
    #[inline(always)]
    pub(crate) fn is_temporary(&self) -> bool {
        self.worker() >= self.pool.max_threads()
    }

    /// Whether this is a thread from outside, and none of the pool.
    pub(crate) fn is_guest(&self) -> bool {
        self.is_temporary() && !self.pool().is_own_thread()
    }

    /// Makes the worker stop searching or sleeping, because its task continues.
    #[inline(always)]
    pub(crate) fn stop_search(&self) {
        self.running().stop_search();
    }

    /// Wakes sleepers for jobs that were queued without a notification.
    pub(crate) fn notify_deferred(&self) {
        self.running().notify_deferred();
    }

    /// Prepares for work for another pool in the middle of this task, which may take any time.
    #[cold]
    pub(super) fn leave_for_other_pool(&self) {
        self.in_poll.set(false);
        self.notify_deferred();
    }

    /// Counts towards the next turn of the oldest job that this worker has queued: it comes when
    /// the sum of the costs is `limit`.
    #[inline]
    pub(crate) fn count_towards_oldest(&self, cost: u32, limit: u32) {
        self.running().count_towards_oldest(cost, limit);
    }

    /// Whether this worker takes the oldest jobs of its queue first.
    #[inline(always)]
    pub(crate) fn is_taking_older_first(&self) -> bool {
        self.running().is_taking_older_first()
    }

    /// Whether a worker of the pool sleeps. If none does, jobs queued here may wait for the end of
    /// this task.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.pool.core().has_sleepers()
    }

    /// Whether waits here run no unrelated jobs, those of lanes included: because they are
    /// isolated, or because half of the stack is in use. Pinned jobs run all the same.
    #[inline]
    pub(crate) fn has_restricted_waits(&self) -> bool {
        self.is_isolated() || !stack::is_ample()
    }

    /// [`retract`](Self::retract) of the part of a join that points to `data` and that `latch`
    /// [knows the place](WorkerLatch::at) of, after other work if this worker is requested to
    /// serve it.
    #[inline(always)]
    pub(crate) fn retract_part<T>(&self, latch: &WorkerLatch, data: *const T) -> bool {
        let mut running = self.running();
        let owner = running.queue().owner();
        match owner.retract_quickly(|newest| latch.is_untouched_at(newest)) {
            Retract::Taken => true,
            Retract::Missed => false,
            Retract::Guarded => self.retract_guarded(data.cast()),
        }
    }

    #[inline(never)]
    fn retract_guarded(&self, data: *const ()) -> bool {
        if self.running().is_reordered() {
            self.running().queue().owner().undo_retract();
            self.running().notify();
            return self.retract_if_at(self.mark(), data);
        }
        // A stolen part is waited for, and a wait serves other work by rules of its own.
        let serve = self.running().queue().owner().is_retractable()
            && self.wants_attention()
            && !self.has_restricted_waits()
            && self.poll_attention();
        let retracted = if serve {
            self.running().queue().owner().undo_retract();
            self.running().notify();
            unwind::or_abort(|| self.ensure_current(|| self.serve(Serving::All)));
            self.retract_if_at(self.mark(), data)
        } else {
            self.running().queue().owner().retract_guarded()
        };
        self.repeat_alert();
        retracted
    }

    /// Whether waits slightly further up the stack may be isolated, as by
    /// [`has_restricted_waits`](Self::has_restricted_waits).
    pub(crate) fn may_restrict_waits(&self) -> bool {
        self.is_isolated() || !stack::is_ample_with(WAIT_FRAMES)
    }

    /// Takes back the part that was pushed before `mark` and points to `data`, if it is still
    /// queued and the newest.
    #[inline(always)]
    pub(crate) fn retract<T>(&self, mark: Mark, data: *const T) -> bool {
        if self.running().is_reordered() {
            return self.retract_if_at(mark, data.cast());
        }
        self.running().queue().owner().retract(mark)
    }

    /// [`retract`](Self::retract) where jobs may have been reordered, so that another one may be
    /// before `mark`.
    #[cold]
    fn retract_if_at(&self, mark: Mark, data: *const ()) -> bool {
        let newest = self.running().queue().owner().peek_newest();
        // SAFETY: as in `continue_with`: a job is two words without a destructor, and only the
        // words are compared.
        let ours = newest.is_some_and(|newest| unsafe { newest.assume_init_ref() }.is_at(data));
        ours && self.running().queue().owner().retract(mark)
    }

    /// Records that the job that runs here is a part of a task elsewhere.
    pub(crate) fn declare_part(&self) {
        self.running().declare_part();
    }

    /// Takes the newest job of this worker. It must be run with [`run_popped`](Self::run_popped),
    /// unless it is a part that the caller has pushed itself.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Job> {
        self.running().queue().pop()
    }

    /// Prefetches the memory of a job of this worker that is likely to run soon: of a hundred
    /// thousand futures that were spawned at once, most have left the caches when they run. Not
    /// that of the next job: it runs within about twenty nanoseconds, and a memory access takes a
    /// hundred.
    #[inline(always)]
    pub(crate) fn prefetch_upcoming(&self) {
        if let Some(soon) = self
            .running()
            .queue()
            .owner()
            .peek_newest_but(PREFETCH_DISTANCE)
        {
            // SAFETY: as in `continue_with`: a job is two words without a destructor, and only the
            // address is read.
            memory::fetch(unsafe { soon.assume_init_ref() }.address());
        }
    }

    /// Whether the current job may be replaced by another one that was never queued, and that has
    /// just queued others; not when another job is due first. Conditions as for
    /// [`continue_with`](Self::continue_with).
    #[inline(always)]
    pub(crate) fn continue_with_new(&self) -> bool {
        self.watch_clock();
        if !self.running().try_continue_own() {
            return false;
        }
        // What the new job enqueues is above this mark.
        self.job_mark.set(self.mark());
        true
    }

    /// Takes the newest job of this worker if what it points to is `wanted`, to continue with it in
    /// place of the current one; not when another job is due first. The caller then owns what the
    /// job points to. `wanted` is called with an address, and must return true only for that of a
    /// job which the caller has made. Not to be called where waits are
    /// [isolated](Self::has_restricted_waits).
    #[inline(always)]
    pub(crate) fn continue_with(
        &self,
        wanted: impl FnOnce(*const ()) -> bool,
    ) -> Option<*const ()> {
        debug_assert!(
            !self.is_isolated(),
            "what is below the mark is not for those above it"
        );
        let newest = self.running().queue().owner().peek_newest()?;
        // SAFETY: a job is two words, and has no destructor. It may have been stolen, so only its
        // words are read.
        let newest = unsafe { newest.assume_init_ref() };
        if !wanted(newest.address()) {
            return None;
        }
        self.watch_clock();
        if !self.running().try_continue_own() {
            return None;
        }
        let job = self.pop()?;
        self.running().record_start();
        // This job replaces the one that has run here: what it enqueues is above this mark.
        self.job_mark.set(self.mark());
        self.lower_batch(self.mark());
        // No other thread pushes here, so it is the job that was inspected.
        Some(job.into_data())
    }

    /// Runs a job that was popped, nested in the current task.
    #[inline]
    pub(crate) fn run_popped(&self, job: Job) {
        self.running().record_start();
        self.run_nested(job);
    }

    /// Runs a job nested in the current one.
    #[inline]
    pub(super) fn run_nested(&self, job: Job) {
        let begin = self.mark();
        // Not undone: if the job was below the mark of the batch, pushes from now on are too, and
        // they are not of the batch.
        self.lower_batch(begin);
        self.keep_job_mark(begin, || {
            self.job_mark.set(begin);
            job.run(self);
        });
    }

    /// Runs `f`, which begins at the mark `begin` and may run other jobs in place of the current
    /// one, and restores the mark of the current job. What `f` has left in the queue belongs to
    /// the current job, unless a search has left it there.
    #[inline(always)]
    pub(crate) fn keep_job_mark(&self, begin: Mark, f: impl FnOnce()) {
        self.lower_job_mark(begin);
        let (mark, searched) = (self.job_mark.get(), self.searched.replace(false));
        f();
        // A search takes place when all that was queued before has been taken. So what is below its
        // mark is what it has left.
        if !self.searched.get() {
            self.job_mark.set(mark);
            self.searched.set(searched);
        }
    }

    /// Lowers the mark of the current job to `mark`, the present young end, if that is below it
    /// because older jobs were popped. What the job queues from now on is above it.
    #[inline(always)]
    pub(super) fn lower_job_mark(&self, mark: Mark) {
        self.job_mark.set(self.job_mark.get().earlier(mark));
    }

    /// The memory for this worker's jobs.
    #[inline(always)]
    pub(crate) fn slab(&self) -> &Slab {
        let (slabs, worker) = (&self.pool.slabs, self.worker());
        debug_assert!(worker < slabs.len());
        // SAFETY: there are as many slabs as workers and guests in the core (`build`), and the
        // context is that of one of them.
        unsafe { slabs.get_unchecked(worker) }
    }

    /// Lets an older task run when this one is done or waits.
    pub(crate) fn yield_to_older(&self) {
        self.running().yield_to_older();
    }

    /// Whether waits here run only jobs that were queued inside the isolated section.
    #[inline]
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.get().is_some()
    }

    /// Whether the worker's own queue seems to be non-empty, counting jobs that thieves may still
    /// take.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.running().queue().owner().is_empty()
    }

    /// Returns a mark at the young end of the worker's queue.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.running().queue().owner().mark()
    }

    /// Returns the mark from the start of the current job: for waits whose end may depend on
    /// anything that the job has enqueued.
    #[inline]
    pub(crate) fn job_mark(&self) -> Mark {
        self.job_mark.get()
    }

    /// Returns the mark above which an isolated wait that began at `wait_mark` may run jobs of the
    /// worker's own queue.
    pub(super) fn floor(&self, wait_mark: Mark) -> Mark {
        self.isolated.get().unwrap_or(wait_mark)
    }

    /// Pushes back a job that was popped.
    pub(crate) fn put_back(&self, job: Job) {
        if self.running().queue().push(job).is_err() {
            unreachable!("there was room for it a moment ago");
        }
        // While it was out of the queue, the last check of a worker about to park may have missed
        // it.
        self.running().notify();
    }

    /// Runs the newest jobs of this worker as long as they are `stale`, so that they don't
    /// accumulate below jobs that are queued later. Takes only what a [`wait`](Self::wait) may
    /// take.
    pub(crate) fn sweep(&self, stale: impl Fn(&Job) -> bool) {
        let isolated = self.isolated.get();
        if isolated.is_none() && !stack::is_ample() {
            return;
        }
        loop {
            if isolated.is_some_and(|mark| !self.running().queue().owner().has_tasks_above(mark)) {
                return;
            }
            match self.pop() {
                Some(job) if stale(&job) => self.run_popped(job),
                Some(job) => return self.put_back(job),
                None => return,
            }
        }
    }

    /// Makes one step of the worker while its task waits. A job runs in a context of its own.
    pub(super) fn step(&self) -> Step {
        self.step_with(Some)
    }

    /// [`step`](Self::step) that runs the job only if `filter` returns it.
    pub(super) fn step_with(&self, filter: impl FnOnce(Job) -> Option<Job>) -> Step {
        struct Finish<'a, 'w, 'c>(&'a WorkerContext<'w, 'c>);
        impl Drop for Finish<'_, '_, '_> {
            fn drop(&mut self) {
                // It counts the job as finished.
                drop(ManuallyDrop::into_inner(self.0.running()));
            }
        }
        // If none of a batch is left, its mark must not hide a batch that the step takes.
        self.forget_served_batch();
        let job = match self.running().begin_step() {
            Ok(job) => job,
            Err(step) => return step,
        };
        let _finish = Finish(self);
        if let Some(job) = filter(job) {
            let (other, outermost) = Self::enclosing_of(self.pool);
            self.nested(other, outermost)
                .as_current(|context| job.run(context));
        }
        // The step may have taken a batch.
        self.batch_below.set(self.batch_below_nested(self.mark()));
        Step::Ran
    }

    /// The innermost context of each other pool whose tasks this thread is running.
    pub(super) fn enclosing(&self) -> impl Iterator<Item = &WorkerContext<'static, 'static>> {
        // SAFETY: as in `call_on_enclosing`: each pointer is null or points to a context that
        // outlives this one.
        let next = |at: *const WorkerContext<'static, 'static>| unsafe { at.as_ref() };
        let all = move || successors(next(self.other), move |context| next(context.other));
        all().enumerate().filter_map(move |(depth, context)| {
            let above = |other: &WorkerContext<'_, '_>| ptr::eq(other.pool, context.pool);
            (!above(self) && !all().take(depth).any(above)).then_some(context)
        })
    }

    /// Whether this thread runs tasks of other pools too.
    pub(crate) fn is_in_other_pools(&self) -> bool {
        self.enclosing().next().is_some()
    }

    /// Runs one job of one of those pools, if there is one that this thread may run now.
    pub(crate) fn help_enclosing(&self) -> bool {
        // These contexts are not borrowed, as in `call_on_enclosing`.
        self.enclosing().any(|context| {
            context.as_current_again(|context| {
                let ran = context.help_in_wait(1) > 0;
                context.flush_if_retired();
                ran
            })
        })
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;
    use crate::Pool;

    /// Calls `f` in a task of a pool with one worker, with no other job in its queue.
    fn in_task<R: Send>(f: impl FnOnce(&WorkerContext<'_, '_>) -> R + Send) -> R {
        let pool = Pool::builder().workers(1).build().unwrap();
        pool.on_worker(|| WorkerContext::with(|context| f(context.unwrap())))
    }

    #[test]
    fn jobs_that_continue_a_job_leave_its_mark() {
        in_task(|context| {
            let begin = context.mark();
            context.keep_job_mark(begin, || {
                crate::spawn(|| ());
                assert!(context.continue_with_new());
                assert_ne!(context.job_mark(), begin, "the new job has its own mark");
            });
            assert_eq!(context.job_mark(), begin);
            let own = context.running().queue().owner().has_tasks_above(begin);
            assert!(own, "a wait takes what was left for unrelated work");
        });
    }

    #[test]
    fn what_a_search_has_left_is_not_part_of_the_job() {
        in_task(|context| {
            let begin = context.mark();
            context.keep_job_mark(begin, || {
                crate::spawn(|| ());
                context.job_mark.set(context.mark());
                context.searched.set(true);
            });
            assert_ne!(context.job_mark(), begin);
            let mark = context.job_mark();
            let own = context.running().queue().owner().has_tasks_above(mark);
            assert!(!own, "a wait takes what a search has left for its own");
        });
    }

    #[test]
    fn a_job_that_pops_older_ones_lowers_its_mark() {
        in_task(|context| {
            crate::spawn(|| ());
            // A job that begins above the other one, and takes it in a wait.
            let begin = context.mark();
            context.job_mark.set(begin);
            let older = context.pop().unwrap();
            context.run_popped(older);
            crate::spawn(|| ());
            let mark = context.job_mark();
            let own = context.running().queue().owner().has_tasks_above(mark);
            assert!(own, "a wait would not find what the job has queued");
        });
    }
}
