//! Where a thread stands in a pool: the worker that it is, and the task that it is in.
#![expect(
    unsafe_code,
    reason = "a thread-local pointer into its own stack, and a cell of its own"
)]

use super::{Inner, Pool, job::Job, latch::Awaited, slab::Slab, task};
use crate::{
    engine::{Active, FAST_STEPS, IdleAction, Level, Mark, PerWorker, Queue, STEPS, Step},
    ground::{sys::stack, thread},
    observe::Counters,
};
use std::{
    cell::{Cell, UnsafeCell},
    hint,
    iter::successors,
    ptr,
};

/// How often a wait looks, with eight pauses in between, before it sleeps: some 10 to 20 µs, about what
/// falling asleep and being woken costs.
const LINGER: u32 = 64;

thread_local! {
    /// The innermost site of this thread, or null.
    static CURRENT: Cell<*const Site<'static, 'static>> = const { Cell::new(ptr::null()) };
}

/// A worker of a pool in the middle of a task, on this thread.
///
/// Each task that a worker runs has a site of its own, on the stack of the thread; the innermost is
/// found through a thread-local pointer. Only that innermost one is ever used: `wait` makes the next
/// one for the tasks that it runs, and goes on when they are done.
pub(crate) struct Site<'w, 'c> {
    /// Borrowed for the length of one call of a method below, and by `wait` across a nested task. That
    /// task has its own site, so nobody uses this one meanwhile: never borrowed twice.
    active: UnsafeCell<Active<'w, 'c, Job, PerWorker, Counters>>,
    pool: &'w Inner,
    /// Of the sites that were current before, the innermost one of another pool: waits may be thousands deep, pools rarely more than two.
    other: *const Site<'static, 'static>,
    /// Waits run nothing from elsewhere, and of the own queue only what is above the mark.
    isolated: Cell<Option<Mark>>,
    /// What the task here waits for, or works on before it waits for it; null if nothing. Only to be compared.
    aim: Cell<*const ()>,
    /// There is no other site on this thread.
    outermost: bool,
}

/// Pauses, but looks for the event every time: a pause takes up to 50 ns, and this word is the waiter's own.
fn pause(pauses: u32, event: &impl Awaited) {
    for _ in 0..pauses {
        if event.happened() {
            return;
        }
        hint::spin_loop();
    }
}

/// Puts back the site that was current before.
struct Restore(*const Site<'static, 'static>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<'w, 'c> Site<'w, 'c> {
    /// Runs `f` on the worker `active` of `pool`.
    #[inline(always)]
    pub(crate) fn enter<R>(
        active: Active<'w, 'c, Job, PerWorker, Counters>,
        pool: &'w Inner,
        f: impl FnOnce(&Site<'w, 'c>) -> R,
    ) -> R {
        let outer = CURRENT.get();
        // SAFETY: as in `with`.
        let other = match unsafe { outer.as_ref() } {
            Some(same) if ptr::eq(same.pool, pool) => same.other,
            _ => outer,
        };
        let site = Site {
            active: UnsafeCell::new(active),
            pool,
            other,
            isolated: Cell::new(None),
            aim: Cell::new(ptr::null()),
            outermost: outer.is_null(),
        };
        site.as_current(f)
    }

    /// This thread stands here for good.
    pub(crate) fn stay(
        active: Active<'static, 'static, Job, PerWorker, Counters>,
        pool: &'static Inner,
    ) {
        let site: &'static Site<'static, 'static> = Box::leak(Box::new(Site {
            active: UnsafeCell::new(active),
            pool,
            other: CURRENT.get(),
            isolated: Cell::new(None),
            aim: Cell::new(ptr::null()),
            // Whatever the thread does beside tasks waits for them.
            outermost: false,
        }));
        let _ = pool.base.set(ptr::from_ref(site).addr());
        CURRENT.set(site);
    }

    /// If this is where the thread [stays](Self::stay), its pool may end without it.
    pub(crate) fn retire(&self) {
        if self.pool.base.get() == Some(&ptr::from_ref(self).addr()) {
            self.active().retire();
        }
    }

    /// From now on the worker takes tasks of others one at a time.
    pub(crate) fn steal_one_by_one(&self) {
        self.active().queue().steal_one_by_one();
    }

    /// Calls `f` with this site as the current one.
    #[inline(always)]
    fn as_current<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        let _restore = Restore(CURRENT.replace((&raw const *self).cast()));
        f(self)
    }

    /// Calls `f` on the innermost site of `pool` that this thread is in, or as a guest of it.
    #[cold]
    pub(crate) fn on_outer<R>(&self, pool: &Inner, f: impl FnOnce(&Site<'_, '_>) -> R) -> R {
        let mut other = self.other;
        // SAFETY: `other` is null or points to a site further down on this stack, which outlives this
        // one, as does what it points to in turn.
        while let Some(site) = unsafe { other.as_ref() } {
            if ptr::eq(site.pool, pool) {
                // The innermost site of its pool: nobody has borrowed it, because the thread is in a call
                // to another pool, in the middle of its task.
                return site.as_current(f);
            }
            other = site.other;
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

    /// Whether this thread is one of `pool`'s own, in the middle of a task of it.
    pub(crate) fn is_worker_inside(&self, pool: &Inner) -> bool {
        if ptr::eq(self.pool, pool) {
            return !self.is_guest();
        }
        // SAFETY: as in `on_outer`.
        unsafe { self.other.as_ref() }.is_some_and(|other| other.is_worker_inside(pool))
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
    pub(crate) fn with<R>(f: impl FnOnce(Option<&Site<'_, '_>>) -> R) -> R {
        let current = CURRENT.get();
        // SAFETY: `CURRENT` is null or points to a site further down on the stack of this thread:
        // `enter` sets it for the time of a call and `Restore` puts it back, by a panic too. The
        // lifetimes, erased in the pointer, are longer than this call. Or it points to the one of `stay`, which is
        // never freed.
        f(unsafe { current.as_ref() })
    }

    #[expect(clippy::mut_from_ref, reason = "see the field")]
    #[inline(always)]
    fn active(&self) -> &mut Active<'w, 'c, Job, PerWorker, Counters> {
        // SAFETY: the site belongs to this thread (it is not `Sync`), and is not borrowed twice, as
        // the field `active` says: every use below ends before anything else runs, but for the nested
        // step in `wait`, and that runs on a site of its own.
        unsafe { &mut *self.active.get() }
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
        self.active().id()
    }

    /// Whether the worker is a thread from outside.
    #[inline(always)]
    pub(crate) fn is_guest(&self) -> bool {
        self.worker() >= self.pool.threads()
    }

    /// Queues a job on this worker.
    #[inline(always)]
    pub(crate) fn push(&self, job: Job) {
        if let Err(job) = self.active().spawn_local(job) {
            // The pool's queues grow as long as there is memory; the limit is out of reach.
            self.active().spawn_global(job);
        }
    }

    /// Queues a job behind everything that came to the pool from outside before, so that what is queued on this
    /// worker comes first. Where waits run only what was queued here, it is queued here.
    pub(crate) fn push_last(&self, job: Job) {
        if self.waits_alone() {
            self.push(job);
        } else {
            self.active().spawn_global(job);
        }
    }

    /// Queues a job of some level. Where waits run only what was queued here, it is queued here.
    pub(crate) fn push_at(&self, level: Level, job: Job) {
        let level = if self.waits_alone() {
            Level::Normal
        } else {
            level
        };
        if let Err(job) = self.active().spawn_at(level, job) {
            // As in `push`.
            self.active().spawn_global(job);
        }
    }

    /// Queues a job that `worker` should run if it is free soon, and else anybody. Where waits run only what was
    /// queued here, it is queued here.
    pub(crate) fn push_for(&self, worker: usize, job: Job) {
        if self.waits_alone() || worker >= self.pool.threads() {
            self.push(job); // a guest would be gone before long
        } else {
            self.active().spawn_for(worker, job);
        }
    }

    /// Queues a job of some level, or for `worker`, that is no part of what runs here: waits in an isolated task do
    /// not run it.
    pub(crate) fn push_elsewhere(&self, worker: Option<usize>, level: Level, job: Job) {
        match (worker, level) {
            (Some(worker), _) if worker < self.pool.threads() => {
                self.active().spawn_for(worker, job);
            }
            (_, Level::Normal) => self.active().spawn_global(job),
            (_, level) => {
                if let Err(job) = self.active().spawn_at(level, job) {
                    self.active().spawn_global(job);
                }
            }
        }
    }

    /// Whether waits here leave alone what others have queued, lanes and boxes included.
    pub(crate) fn waits_alone(&self) -> bool {
        self.is_isolated() || !stack::is_ample()
    }

    /// Queues a job that only `worker` may run.
    pub(crate) fn send(&self, worker: usize, job: Job) {
        self.active().send(worker, job);
    }

    /// Queues a part of the present task, which it will wait for. Says where it is, for `retract`.
    #[inline(always)]
    pub(crate) fn push_part(&self, job: Job) -> Mark {
        match self.active().push_part(job) {
            Ok(mark) => mark,
            Err(job) => self.push_part_slowly(job),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_part_slowly(&self, job: Job) -> Mark {
        match self.active().push_part_slowly(job) {
            Ok(mark) => mark,
            Err(job) => {
                // As in `push`. Whoever runs the part makes up for the count.
                self.active().spawn_global(job);
                self.active().took();
                self.mark().nowhere()
            }
        }
    }

    /// Takes back the part that was pushed before `mark`, if it is still there and the newest.
    #[inline(always)]
    pub(crate) fn retract(&self, mark: Mark) -> bool {
        self.active().queue().owner().retract(mark)
    }

    /// The job that runs here is a part of a task elsewhere.
    pub(crate) fn is_part(&self) {
        self.active().is_part();
    }

    /// Takes the newest job of this worker. It is run with [`run`](Self::run), unless it is a part that
    /// the caller has pushed itself.
    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Job> {
        self.active().queue().pop()
    }

    /// Takes the newest job of this worker if it is run with `run` and what it points to is `wanted`, to go on with it in
    /// place of the one that runs here; not when it is the turn of another. What it points to is the caller's then.
    /// Not where waits are [alone](Self::waits_alone).
    #[inline(always)]
    pub(crate) fn go_on_with(
        &self,
        run: unsafe fn(*const (), &Site<'_, '_>),
        wanted: impl FnOnce(*const ()) -> bool,
    ) -> Option<*const ()> {
        debug_assert!(
            !self.is_isolated(),
            "what is below the mark is not for those above it"
        );
        let newest = self.active().queue().owner().newest()?;
        // SAFETY: a job is two words, and has no destructor. It may have been stolen, so only its words are looked at.
        let newest = unsafe { newest.assume_init_ref() };
        if !newest.data(run).is_some_and(wanted) || !self.active().goes_on() {
            return None;
        }
        let job = self.pop()?;
        self.active().took();
        // Nobody else pushes here, so it is the one that was looked at.
        job.take_data(run).ok()
    }

    /// Runs a job that was popped, inside of the present task.
    pub(crate) fn run(&self, job: Job) {
        self.active().took();
        job.run(self);
    }

    /// The memory for this worker's jobs.
    #[inline(always)]
    pub(crate) fn slab(&self) -> &Slab {
        self.pool.slab(self.worker())
    }

    /// Lets an older task run when this one is done or waits.
    pub(crate) fn yield_to_older(&self) {
        self.active().yield_to_older();
    }

    /// Takes the newest job of this worker that was queued since `mark`, or one that came by mail.
    fn pop_above(&self, mark: Mark) -> Option<Job> {
        if self.active().queue().owner().is_above(mark)
            && let Some(job) = self.pop()
        {
            return Some(job);
        }
        self.active().take_mail()
    }

    /// Runs one job, if there is one that this worker may run now.
    pub(crate) fn help_once(&self) -> bool {
        if self.is_isolated() || !stack::is_ample() {
            return false;
        }
        let _aside = task::set_aside();
        let ran = matches!(self.step(), Step::Ran);
        self.active().settle();
        ran
    }

    /// Runs one job that is in this worker's own queue, or its mail, if it may run it now.
    pub(crate) fn help_itself(&self) -> bool {
        let others = !self.waits_alone();
        let mail = |site: &Self| site.active().take_mail();
        let job = match self.isolated.get() {
            Some(mark) => self.pop_above(mark),
            None if others => self.pop().or_else(|| mail(self)),
            None => mail(self),
        };
        let Some(job) = job else {
            return false;
        };
        let _aside = task::set_aside();
        self.run(job);
        true
    }

    /// Whether there is anything in this worker's own queue.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.active().queue().owner().is_empty()
    }

    /// Whether waits here run only what was queued inside.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.get().is_some()
    }

    /// A mark at the young end of the worker's queue.
    pub(crate) fn mark(&self) -> Mark {
        self.active().queue().owner().mark()
    }

    /// Puts back a job that was popped.
    pub(crate) fn put_back(&self, job: Job) {
        if self.active().queue().push(job).is_err() {
            unreachable!("there was room for it a moment ago");
        }
        // While it was out of the queue, a last look may have missed it.
        self.active().announce();
    }

    /// Runs the newest jobs of this worker as long as they are `stale`, so that they don't pile up under
    /// what is queued later. Keeps to what a [`wait`](Self::wait) may take.
    pub(crate) fn sweep(&self, stale: impl Fn(&Job) -> bool) {
        let isolated = self.isolated.get();
        if isolated.is_none() && !stack::is_ample() {
            return;
        }
        loop {
            if isolated.is_some_and(|mark| !self.active().queue().owner().is_above(mark)) {
                return;
            }
            match self.pop() {
                Some(job) if stale(&job) => self.run(job),
                Some(job) => return self.put_back(job),
                None => return,
            }
        }
    }

    fn step(&self) -> Step {
        let pool = self.pool;
        self.active()
            .step(|job, nested| Site::enter(nested, pool, |site| job.run(site)))
    }

    /// Runs other jobs until `event` has happened, and sleeps when there are none.
    ///
    /// What has been queued since `began` belongs to what is waited for. When the task is isolated, or
    /// the stack is no longer ample, nothing else is run, but for mail.
    pub(crate) fn wait(&self, event: &impl Awaited, began: Mark) {
        self.aiming_at(event, || self.wait_for(event, began));
    }

    fn wait_for(&self, event: &impl Awaited, began: Mark) {
        let _aside = task::set_aside();
        while !event.happened() {
            thread::point();
            let others = !self.waits_alone();
            let job = if others {
                if let Some(job) = self.active().take_pressing() {
                    self.active().settle();
                    job.run(self);
                    continue;
                }
                self.pop()
            } else {
                self.pop_above(self.isolated.get().unwrap_or(began))
            };
            if let Some(job) = job {
                // Who runs a task does not search: others would count on it.
                self.active().settle();
                self.run(job);
                continue;
            }
            if let Some(job) = event.take_job() {
                self.active().settle();
                job.run(self);
                continue;
            }
            if self.run_mail_below() {
                continue;
            }
            if !others {
                self.sleep_until(event);
                continue;
            }
            match self.step() {
                Step::Ran => {}
                Step::Idle(IdleAction::Yield) => thread::yield_now(),
                Step::Idle(IdleAction::Spin(pauses)) => pause(pauses, event),
                Step::Idle(IdleAction::Park(_)) => {}
                Step::Park(ticket) => {
                    self.sleep_until(event);
                    self.active().resume(ticket);
                }
                // The others have been sent home, so nobody will wake us for what comes in now.
                Step::Exit => thread::yield_now(),
            }
        }
        self.active().settle();
    }

    /// Runs `f`, which waits for `event`, or works on it first.
    #[inline(always)]
    pub(crate) fn aiming_at<T, R>(&self, event: &T, f: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Cell<*const ()>, *const ());
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _back = Back(&self.aim, self.aim.replace(ptr::from_ref(event).cast()));
        f()
    }

    /// Whether `event` is what is waited for here.
    #[inline(always)]
    pub(crate) fn aims_at<T>(&self, event: &T) -> bool {
        ptr::eq(self.aim.get(), ptr::from_ref(event).cast())
    }

    /// Whether nothing on this thread waits for the task here.
    #[inline(always)]
    pub(crate) fn is_outermost(&self) -> bool {
        self.outermost && self.aim.get().is_null()
    }

    /// The places in other pools that this thread holds too, in the middle of their tasks: the innermost one of each.
    fn below(&self) -> impl Iterator<Item = &Site<'static, 'static>> {
        // SAFETY: as in `on_outer`.
        let next = |at: *const Site<'static, 'static>| unsafe { at.as_ref() };
        let all = move || successors(next(self.other), move |site| next(site.other));
        all().enumerate().filter_map(move |(depth, site)| {
            let above = |other: &Site<'_, '_>| ptr::eq(other.pool, site.pool);
            (!above(self) && !all().take(depth).any(above)).then_some(site)
        })
    }

    /// Runs a task that only this thread may run, as the worker of another pool that it is too: who sent it may be what
    /// this wait is for, in the end.
    fn run_mail_below(&self) -> bool {
        if self.other.is_null() {
            return false;
        }
        let mail = self.below().find_map(|site| {
            // Nobody has borrowed it, as in `on_outer`.
            let job = site.active().take_mail()?;
            Some((site, job))
        });
        let Some((site, job)) = mail else {
            return false;
        };
        self.active().settle();
        site.as_current(|site| site.run(job));
        true
    }

    /// Whether the worker has a reason to get up.
    fn is_called(&self) -> bool {
        self.active().is_called() || self.below().any(|site| site.active().has_mail())
    }

    fn sleep_until(&self, event: &impl Awaited) {
        let or = || self.is_called();
        // What a task waits for is running already and most often short: when a chain of waits unwinds,
        // each link is set a moment after the one before, and being woken for each would cost a
        // hundred times as much (`filch-bench traps`, case `spine_right`).
        for round in 1..=thread::patience(LINGER) {
            if event.happened() || event.has_job() || or() {
                return;
            }
            if round % 16 == 0 {
                thread::yield_now();
            }
            pause(8, event);
        }
        if event.sleep(self.worker()) {
            self.pool
                .park(|| event.happened() || event.has_job() || or());
            event.awake();
        }
    }

    /// Runs `f`, while thieves leave what is queued here to this worker, as long as it [gets on](Self::get_on) with it:
    /// very fast, if so asked.
    pub(crate) fn left_alone<R>(&self, fast: bool, f: impl FnOnce() -> R) -> R {
        struct Back<'a, 'w, 'c>(&'a Site<'w, 'c>, u32);
        impl Drop for Back<'_, '_, '_> {
            fn drop(&mut self) {
                self.0.active().queue().set_leave_me(self.1);
            }
        }
        let before = self
            .active()
            .queue()
            .set_leave_me(if fast { FAST_STEPS } else { STEPS });
        let _back = Back(self, before);
        f()
    }

    /// A task of `left_alone` is done.
    #[inline(always)]
    pub(crate) fn get_on(&self) {
        self.active().queue().get_on();
    }

    /// Runs `f`; waits inside of it run only tasks that were queued in it.
    pub(crate) fn isolate<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Back<'a, 'w, 'c>(&'a Site<'w, 'c>, Option<Mark>, bool);
        impl Drop for Back<'_, '_, '_> {
            fn drop(&mut self) {
                self.0.isolated.set(self.1);
                self.0.active().queue().set_one_by_one(self.2);
            }
        }
        // A thief with a batch of ours might get stuck in a task that wants our lock before it has run
        // all of them.
        let batches = self.active().queue().set_one_by_one(true);
        let _back = Back(self, self.isolated.replace(Some(self.mark())), batches);
        f()
    }
}
