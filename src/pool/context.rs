//! Where a thread stands in a pool: the worker that it is, and the task that it is in.
#![expect(
    unsafe_code,
    reason = "a thread-local pointer into its own stack, and a cell of its own"
)]

use super::{Inner, Pool, covered::cover, job::Job, slab::Slab, task};
use crate::{
    base::sys::{memory, stack},
    engine::{Mark, PerWorker, Queue, Retract, RunningWorker, Step},
    observe::Counters,
    threads::timer::Timer,
};
use std::{
    cell::{Cell, UnsafeCell},
    iter::successors,
    ptr,
};

/// So many jobs ahead of the next one memory is fetched.
const SOON_AHEAD: u8 = 5;

/// A site of this thread, or null. The lifetimes are erased.
pub(super) type ContextPointer = *const WorkerContext<'static, 'static>;

/// More stack than there is between [`WorkerContext::may_isolate_waits`] and the wait that it is asked for, in
/// bytes.
const WAIT_FRAMES: usize = 16 << 10;

thread_local! {
    /// The innermost site of this thread, or null.
    pub(super) static CURRENT: Cell<ContextPointer> = const { Cell::new(ptr::null()) };
}

/// A worker of a pool in the middle of a task, on this thread.
///
/// Each task that a worker runs has a site of its own, on the stack of the thread; the innermost is
/// found through a thread-local pointer. Only that innermost one is ever used: `wait` makes the next
/// one for the tasks that it runs, and goes on when they are done.
pub(crate) struct WorkerContext<'w, 'c> {
    /// Borrowed for the length of one call of a method below, and by `wait` across a nested task. That
    /// task has its own site, so nobody uses this one meanwhile: never borrowed twice.
    running: UnsafeCell<RunningWorker<'w, 'c, Job, PerWorker, Counters>>,
    pool: &'w Inner,
    /// Of the sites that were current before, the innermost one of another pool: waits may be thousands deep, pools rarely more than two.
    pub(super) other: *const WorkerContext<'static, 'static>,
    /// Waits run nothing from elsewhere, and of the own queue only what is above the mark.
    pub(super) isolated: Cell<Option<Mark>>,
    /// The same as far as it is due to calls of `isolate`, and not to guards that the thread holds.
    pub(super) isolated_by_call: Cell<Option<Mark>>,
    /// Where the worker's queue ended when the job began that runs here: what is above it the job has queued, or others in
    /// the middle of it.
    began: Cell<Mark>,
    /// No job runs here: the worker wakes what the driver has found.
    pub(super) wakes: Cell<bool>,
    /// The job polls a future, and has not said that this takes long.
    pub(super) in_poll: Cell<bool>,
    /// What the task here waits for, or works on before it waits for it; null if nothing. Only to be compared.
    pub(super) wait_target: Cell<*const ()>,
    /// There is no other site on this thread.
    pub(super) outermost: bool,
    /// A job of others runs here in the middle of the task, at a checkpoint.
    pub(super) serving: Cell<bool>,
}

/// Puts back the site that was current before.
pub(super) struct Restore(pub(super) ContextPointer);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<'w, 'c> WorkerContext<'w, 'c> {
    /// Runs `f` on the worker `running` of `pool`.
    #[inline(always)]
    pub(crate) fn enter<R>(
        running: RunningWorker<'w, 'c, Job, PerWorker, Counters>,
        pool: &'w Inner,
        f: impl FnOnce(&WorkerContext<'w, 'c>) -> R,
    ) -> R {
        let outer = CURRENT.get();
        // SAFETY: as in `with`.
        let other = match unsafe { outer.as_ref() } {
            Some(same) if ptr::eq(same.pool, pool) => same.other,
            Some(other) => {
                other.turn_away();
                outer
            }
            None => outer,
        };
        WorkerContext::new(running, pool, other, outer.is_null()).as_current(f)
    }

    #[inline(always)]
    fn new(
        mut running: RunningWorker<'w, 'c, Job, PerWorker, Counters>,
        pool: &'w Inner,
        other: *const WorkerContext<'static, 'static>,
        outermost: bool,
    ) -> Self {
        let began = Cell::new(running.queue().owner().mark());
        WorkerContext {
            running: UnsafeCell::new(running),
            pool,
            other,
            isolated: Cell::new(None),
            isolated_by_call: Cell::new(None),
            began,
            wakes: Cell::new(false),
            in_poll: Cell::new(false),
            wait_target: Cell::new(ptr::null()),
            outermost,
            serving: Cell::new(false),
        }
    }

    /// This thread stands here for good.
    pub(crate) fn stay(
        running: RunningWorker<'static, 'static, Job, PerWorker, Counters>,
        pool: &'static Inner,
    ) {
        // Not the outermost: whatever the thread does beside tasks waits for them.
        let context = WorkerContext::new(running, pool, CURRENT.get(), false);
        let context: &'static WorkerContext<'static, 'static> = Box::leak(Box::new(context));
        let _ = pool.base.set(ptr::from_ref(context).addr());
        CURRENT.set(context);
    }

    /// From now on the worker takes tasks of others one at a time.
    pub(crate) fn steal_one_by_one(&self) {
        self.running().queue().steal_one_by_one();
    }

    /// Calls `f` with this site as the current one.
    #[inline(always)]
    pub(super) fn as_current<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        let _restore = Restore(CURRENT.replace((&raw const *self).cast()));
        f(self)
    }

    /// Whether somebody should come in between: something urgent waits, or will now that a time has come.
    #[inline(always)]
    pub(crate) fn has_urgent(&self) -> bool {
        self.watch_clock();
        self.pool.core().has_urgent()
    }

    /// ClockSampler at the clock in passing, for those who wait for a time. They are woken as from outside: nobody knows how long the
    /// task here is, and what wakers do is no part of it.
    #[inline(always)]
    pub(super) fn watch_clock(&self) {
        if self.pool.has_driver() {
            self.poll_driver_if_due();
        }
        if Timer::global().is_waited_for() && Timer::global().poll_clock() {
            self.wake_due();
        }
    }

    /// Wakes those whose time has come.
    #[cold]
    pub(super) fn wake_due(&self) {
        // Where others are left alone, so are their futures: there may be a lock around this.
        if !self.has_isolated_waits() {
            self.as_outside(|| Timer::global().wake_due());
        }
    }

    /// Calls `f` as a thread that is no worker, and in no task.
    pub(super) fn as_outside<R>(&self, f: impl FnOnce() -> R) -> R {
        let _aside = task::set_aside();
        cover(ptr::null(), f)
    }

    /// Calls `f` on the innermost site of `pool` that this thread is in, or as a guest of it.
    #[cold]
    pub(crate) fn on_outer<R>(
        &self,
        pool: &Inner,
        f: impl FnOnce(&WorkerContext<'_, '_>) -> R,
    ) -> R {
        self.turn_away();
        let mut other = self.other;
        // SAFETY: `other` is null or points to a site further down on this stack, which outlives this
        // one, as does what it points to in turn.
        while let Some(context) = unsafe { other.as_ref() } {
            if ptr::eq(context.pool, pool) {
                // The innermost site of its pool: nobody has borrowed it, because the thread is in a call
                // to another pool, in the middle of its task.
                return context.as_covering(f);
            }
            other = context.other;
        }
        pool.as_guest(f)
    }

    /// Whether this thread is in the middle of a task of `pool`.
    pub(crate) fn is_inside(&self, pool: &Inner) -> bool {
        if ptr::eq(self.pool, pool) {
            return true;
        }
        // SAFETY: as in `on_outer`.
        unsafe { self.other.as_ref() }.is_some_and(|other| other.is_inside(pool))
    }

    /// The pool of that number, if this thread is in the middle of a task of it.
    pub(crate) fn find_pool(&self, number: u32) -> Option<&Inner> {
        if self.pool.number() == number {
            return Some(self.pool);
        }
        // SAFETY: as in `on_outer`.
        unsafe { self.other.as_ref() }?.find_pool(number)
    }

    /// Calls `f` with the innermost site of this thread, if it is a worker.
    #[inline(always)]
    pub(crate) fn with<R>(f: impl FnOnce(Option<&WorkerContext<'_, '_>>) -> R) -> R {
        let current = CURRENT.get();
        // SAFETY: `CURRENT` is null or points to a site further down on the stack of this thread:
        // `enter` sets it for the time of a call and `Restore` puts it back, by a panic too. The
        // lifetimes, erased in the pointer, are longer than this call. Or it points to the one of `stay`, which is
        // never freed.
        f(unsafe { current.as_ref() })
    }

    #[expect(clippy::mut_from_ref, reason = "see the field")]
    #[inline(always)]
    pub(super) fn running(&self) -> &mut RunningWorker<'w, 'c, Job, PerWorker, Counters> {
        // SAFETY: the site belongs to this thread (it is not `Sync`), and is not borrowed twice, as
        // the field `running` says: every use below, and in `help`, ends before anything else runs, but for the
        // nested `step`, and that runs on a site of its own.
        unsafe { &mut *self.running.get() }
    }

    /// Whether this is a place in `pool`.
    #[inline(always)]
    pub(crate) fn is_of(&self, pool: &Pool) -> bool {
        ptr::eq(self.pool, &raw const **pool.inner())
    }

    #[inline(always)]
    pub(crate) fn pool(&self) -> &'w Inner {
        self.pool
    }

    /// The number of the worker.
    pub(crate) fn worker(&self) -> usize {
        self.running().id()
    }

    /// Whether the worker is a thread from outside.
    #[inline(always)]
    pub(crate) fn is_guest(&self) -> bool {
        self.worker() >= self.pool.threads()
    }

    /// This worker will not take that job soon: others may.
    pub(crate) fn notify_deferred(&self) {
        self.running().notify_deferred();
    }

    /// This thread goes to work for another pool in the middle of this task: nobody knows for how long.
    #[cold]
    fn turn_away(&self) {
        self.in_poll.set(false);
        self.notify_deferred();
    }

    /// The oldest job that this worker has queued comes next.
    #[inline]
    pub(crate) fn take_oldest_next(&self) {
        self.running().take_oldest_next();
    }

    /// Whether some of them are still to come.
    #[inline(always)]
    pub(crate) fn is_taking_older_first(&self) -> bool {
        self.running().is_taking_older_first()
    }

    /// Whether all workers of the pool are awake, so that what is queued here may wait for the end of this task.
    pub(crate) fn is_crowded(&self) -> bool {
        self.running().is_crowded()
    }

    /// Whether waits here leave alone what others have queued, lanes and boxes included.
    pub(crate) fn has_isolated_waits(&self) -> bool {
        self.is_isolated() || !stack::is_ample()
    }

    /// [`retract`](Self::retract) of a part of a join; refused while this worker is asked for
    /// attention.
    #[inline(always)]
    pub(crate) fn retract_part<T>(&self, mark: Mark, data: *const T) -> bool {
        if self.running().is_shuffled() {
            return self.retract_if_at(mark, data);
        }
        match self.running().queue().owner().retract_quickly(mark) {
            Retract::Taken => true,
            Retract::Missed => false,
            Retract::Guarded => self.retract_guarded(mark),
        }
    }

    #[inline(never)]
    fn retract_guarded(&self, mark: Mark) -> bool {
        let owner = self.running().queue().owner();
        // What thieves have taken is waited for, and a wait serves others by rules of its own.
        let serve = owner.is_retractable(mark)
            && self.pool.core().wants_attention()
            && !self.has_isolated_waits()
            && self.is_attention_due();
        let owner = self.running().queue().owner();
        if !serve {
            return owner.retract_guarded(mark);
        }
        owner.undo_retract(mark);
        self.running().announce();
        false
    }

    /// The same for waits that are a little further up the stack.
    pub(crate) fn may_isolate_waits(&self) -> bool {
        self.is_isolated() || !stack::is_ample_with(WAIT_FRAMES)
    }

    /// Takes back the part that was pushed before `mark` and points to `data`, if it is still there and the newest.
    #[inline(always)]
    pub(crate) fn retract<T>(&self, mark: Mark, data: *const T) -> bool {
        if self.running().is_shuffled() {
            return self.retract_if_at(mark, data);
        }
        self.running().queue().owner().retract(mark)
    }

    /// The same where jobs may have changed places, so that another one may be before `mark`.
    #[cold]
    fn retract_if_at<T>(&self, mark: Mark, data: *const T) -> bool {
        let newest = self.running().queue().owner().newest();
        // SAFETY: as in `go_on_with`.
        let ours = newest.is_some_and(|newest| unsafe { newest.assume_init_ref() }.is_at(data));
        ours && self.running().queue().owner().retract(mark)
    }

    /// The place below the job that was pushed before `mark`, or the young end if there was no place for it here.
    #[cold]
    pub(crate) fn mark_below(&self, mark: Mark) -> Mark {
        self.running().queue().owner().below(mark)
    }

    /// The job that runs here is a part of a task elsewhere.
    pub(crate) fn count_part(&self) {
        self.running().count_part();
    }

    /// Takes the newest job of this worker. It is run with [`run`](Self::run), unless it is a part that
    /// the caller has pushed itself.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Job> {
        self.running().queue().pop()
    }

    /// Lets the processor fetch what a job of this worker points to that will most often run soon: a hundred thousand
    /// futures that were spawned at once have left the caches when their turn comes. Not the next one: that is there in
    /// twenty nanoseconds, and the memory in a hundred.
    #[inline(always)]
    pub(crate) fn fetch_soon(&self) {
        if let Some(soon) = self.running().queue().owner().newest_but(SOON_AHEAD) {
            // SAFETY: as in `go_on_with`.
            memory::fetch(unsafe { soon.assume_init_ref() }.address());
        }
    }

    /// Takes the newest job of this worker if what it points to is `wanted`, to go on with it in
    /// place of the one that runs here; not when it is the turn of another. What it points to is
    /// the caller's then. `wanted` is told an address, and must be true only for that of a job
    /// which the caller has made. Not where waits are [alone](Self::has_isolated_waits).
    #[inline(always)]
    pub(crate) fn go_on_with(&self, wanted: impl FnOnce(*const ()) -> bool) -> Option<*const ()> {
        debug_assert!(
            !self.is_isolated(),
            "what is below the mark is not for those above it"
        );
        let newest = self.running().queue().owner().newest()?;
        // SAFETY: a job is two words, and has no destructor. It may have been stolen, so only its words are looked at.
        let newest = unsafe { newest.assume_init_ref() };
        if !wanted(newest.address()) {
            return None;
        }
        self.watch_clock();
        if !self.running().goes_on() {
            return None;
        }
        let job = self.pop()?;
        self.running().took();
        // In place of what has run here: what it queues is above this.
        self.began.set(self.mark());
        // Nobody else pushes here, so it is the one that was looked at.
        Some(job.into_data())
    }

    /// Runs a job that was popped, inside of the present task.
    pub(crate) fn run(&self, job: Job) {
        self.running().took();
        self.nest(job);
    }

    /// Runs a job in the middle of the one that runs here.
    pub(super) fn nest(&self, job: Job) {
        let began = self.began.replace(self.mark());
        job.run(self);
        self.began.set(began);
    }

    /// The memory for this worker's jobs.
    #[inline(always)]
    pub(crate) fn slab(&self) -> &Slab {
        self.pool.slab(self.worker())
    }

    /// Lets an older task run when this one is done or waits.
    pub(crate) fn yield_to_older(&self) {
        self.running().yield_to_older();
    }

    /// Whether waits here run only what was queued inside.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.get().is_some()
    }

    /// Whether there seems to be something in the worker's own queue, for itself or for thieves.
    pub(crate) fn has_queued(&self) -> bool {
        !self.running().queue().owner().is_empty()
    }

    /// A mark at the young end of the worker's queue.
    pub(crate) fn mark(&self) -> Mark {
        self.running().queue().owner().mark()
    }

    /// The mark from when the job began that runs here: for waits whose end may depend on anything that it has queued.
    pub(crate) fn began(&self) -> Mark {
        self.began.get()
    }

    /// The mark above which a wait that runs nothing else may run what is queued here, if it began at `began`.
    pub(super) fn floor(&self, began: Mark) -> Mark {
        self.isolated.get().unwrap_or(began)
    }

    /// Puts back a job that was popped.
    pub(crate) fn put_back(&self, job: Job) {
        if self.running().queue().push(job).is_err() {
            unreachable!("there was room for it a moment ago");
        }
        // While it was out of the queue, a last look may have missed it.
        self.running().announce();
    }

    /// Runs the newest jobs of this worker as long as they are `stale`, so that they don't pile up under
    /// what is queued later. Keeps to what a [`wait`](Self::wait) may take.
    pub(crate) fn sweep(&self, stale: impl Fn(&Job) -> bool) {
        let isolated = self.isolated.get();
        if isolated.is_none() && !stack::is_ample() {
            return;
        }
        loop {
            if isolated.is_some_and(|mark| !self.running().queue().owner().is_above(mark)) {
                return;
            }
            match self.pop() {
                Some(job) if stale(&job) => self.run(job),
                Some(job) => return self.put_back(job),
                None => return,
            }
        }
    }

    pub(super) fn step(&self) -> Step {
        let pool = self.pool;
        self.running()
            .step(|job, nested| WorkerContext::enter(nested, pool, |context| job.run(context)))
    }

    /// The places in other pools that this thread holds too, in the middle of their tasks: the innermost one of each.
    pub(super) fn below(&self) -> impl Iterator<Item = &WorkerContext<'static, 'static>> {
        // SAFETY: as in `on_outer`.
        let next = |at: *const WorkerContext<'static, 'static>| unsafe { at.as_ref() };
        let all = move || successors(next(self.other), move |context| next(context.other));
        all().enumerate().filter_map(move |(depth, context)| {
            let above = |other: &WorkerContext<'_, '_>| ptr::eq(other.pool, context.pool);
            (!above(self) && !all().take(depth).any(above)).then_some(context)
        })
    }

    /// Whether this thread is in the middle of tasks of other pools too.
    pub(crate) fn is_in_several(&self) -> bool {
        self.below().next().is_some()
    }

    /// Runs one job of one of those pools, if there is one that this thread may run now.
    pub(crate) fn help_below(&self) -> bool {
        // Nobody has borrowed them, as in `on_outer`.
        self.below()
            .any(|context| context.as_covering(|context| context.help_in_wait(1) > 0))
    }
}
