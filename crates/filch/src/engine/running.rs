//! What a worker can do while it is running a task.

use super::{
    core::Core,
    deque::Mark,
    event::{Event, Observer, Source},
    queue::{PerWorker, Queue, Strategy},
    worker::{ParkToken, RunningWorker, Step, Worker},
};
use crate::base::rng::Rng;
use std::time::Duration;

impl<'c, T: Send, Q: Strategy, O: Observer> RunningWorker<'_, 'c, T, Q, O> {
    /// Returns the worker's own queue, for faces that select the next task more precisely than
    /// [`step`](Self::step) does.
    #[inline(always)]
    pub(crate) fn queue(&mut self) -> &mut Q::Handle<'c, T> {
        &mut self.worker.queue
    }

    /// Declares that what runs here is a part of another task, and does not count as a task itself.
    pub(crate) fn declare_part(&mut self) {
        // Compensates for the decrement when `self` is dropped, or in `record_start`.
        self.worker.count += 1;
    }

    /// Records that a task taken from [`queue`](Self::queue) starts before the current one
    /// continues. It is counted as finished at once: until the current task has ended, the work is
    /// not finished.
    pub(crate) fn record_start(&mut self) {
        if self.worker.next_unnotified {
            self.worker.start_after_deferred(Source::Local);
        }
        self.record_merged();
    }

    /// Records that a task taken from [`queue`](Self::queue) continues as a part of the current
    /// one, which has spawned it.
    pub(crate) fn record_merged(&mut self) {
        self.worker.count -= 1;
        let source = Source::Local;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Started { source });
    }

    /// Makes one step of the worker while its task waits: as
    /// [`Worker::step`](super::Worker::step), but also when the workers have been stopped. Then
    /// [`Step::Exit`] means that there is nothing to do at the moment. When the wait is over, call
    /// [`end_wait`](Self::end_wait).
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// let mut done = false;
    /// running.spawn(1, Placement::Local);
    /// while !done { // the current task waits for the other one
    ///     let _ = running.step(|task, _| done = task == 1);
    /// }
    /// running.end_wait();
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn step(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        self.worker.step_after_stop(run)
    }

    /// The first half of [`step`](Self::step): takes a task that the caller runs now, or does what
    /// there is to do without one. Outlined, so that the compiler has one copy for all waits.
    #[inline(never)]
    pub(crate) fn begin_step(&mut self) -> Result<T, Step> {
        self.worker.begin_step()
    }

    /// Returns the worker itself.
    pub(crate) fn worker(&mut self) -> &mut Worker<'c, T, Q, O> {
        self.worker
    }

    /// Takes a task of the worker's own queue: the newest, or the oldest while one was queued [to
    /// run last](super::Placement::LocalLast). The caller runs it before the current task
    /// continues, see [`record_start`](Self::record_start).
    #[inline(always)]
    pub(crate) fn take_own(&mut self) -> Option<T> {
        self.worker.take_own()
    }

    /// Takes an urgent task, if there is one. The caller runs it before the current task continues.
    #[cold]
    pub(crate) fn take_urgent(&mut self) -> Option<T> {
        self.worker.take_urgent_nested()
    }

    /// Takes one of this worker's affine tasks. The caller runs it before the current task
    /// continues.
    pub(crate) fn take_affine(&mut self) -> Option<T> {
        self.worker.take_affine_nested()
    }

    /// Whether there seems to be an affine task for this worker or its node.
    #[must_use]
    pub(crate) fn has_affine(&self) -> bool {
        let core = self.worker.core;
        let node = core.node_mailbox(self.worker.id);
        let mut mailboxes = [Some(self.worker.id), node].into_iter().flatten();
        mailboxes.any(|mailbox| core.mailboxes[mailbox].has_affine())
    }

    /// Makes the next step take a task from the injector, if there is one, also if the last one
    /// did.
    pub(crate) fn make_injector_due(&mut self) {
        self.worker.selection.turns.make_injector_due();
    }

    /// Takes a task that only this worker may run. The caller runs it before the current task
    /// continues, see [`record_start`](Self::record_start).
    pub(crate) fn take_pinned(&mut self) -> Option<T> {
        let task = self.worker.take_pinned()?;
        // It runs before a task that was queued without a notification.
        self.notify_deferred();
        Some(task)
    }

    /// Takes a task that should not wait for those in the worker's own queue: an urgent one, an
    /// affine one, or one of a queue whose turn is due (see [`Ageing`](super::Ageing)).
    /// The caller runs it before the current task continues.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// running.spawn(1, Placement::Local);
    /// running.spawn(2, Placement::Affine(0));
    /// assert_eq!(running.take_preferred(), Some(2));
    /// assert_eq!(running.take_preferred(), None);
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[inline]
    pub fn take_preferred(&mut self) -> Option<T> {
        let turn = self.worker.selection.turns.tick();
        let raised = self.worker.core.flags().read();
        if turn || raised.has_preferred() || self.worker.selection.tick_turn_of_futures(raised) {
            self.worker.take_preferred_slowly()
        } else {
            None
        }
    }

    /// Counts a step and returns true, if the worker may continue with the newest task of its own
    /// queue: no task has precedence, the old end is not due first, and no turn is due.
    #[inline(always)]
    pub(crate) fn try_continue_own(&mut self) -> bool {
        let worker = &mut *self.worker;
        let raised = worker.core.flags().read();
        worker.oldest_first == 0
            && !raised.has_preferred()
            && !worker.selection.tick_turn_of_futures(raised)
            && worker.selection.turns.tick_unless_due()
    }

    /// Resumes the worker after it was parked for `slept`, as
    /// [`Worker::resume_after`](super::Worker::resume_after).
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver, Step};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// // The current task waits, and there is nothing to run meanwhile.
    /// let token = loop {
    ///     if let Step::Park(token) = running.step(|_, _| ()) {
    ///         break token;
    ///     }
    /// };
    /// let start = std::time::Instant::now();
    /// // Sleep here, until `Unpark::unpark` was called for this worker.
    /// running.resume_after(token, start.elapsed());
    /// running.end_wait();
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn resume_after(&mut self, token: ParkToken, slept: Duration) {
        self.worker.resume_after(token, slept);
    }

    /// Whether the worker has a reason to wake up: it has been woken, or has pinned tasks.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// assert!(!running.is_notified());
    /// running.spawn(1, Placement::Pinned(0));
    /// assert!(running.is_notified());
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.worker.is_woken() || self.worker.has_pinned()
    }

    /// Whether there are tasks that only this worker may run.
    #[must_use]
    pub(crate) fn has_pinned(&self) -> bool {
        self.worker.has_pinned()
    }

    /// Wakes a sleeper, if necessary, for a task in the worker's own queue.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// for task in 1..4 {
    ///     running.spawn(task, Placement::LocalUnnotified);
    /// }
    /// running.notify();
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn notify(&mut self) {
        self.worker.notify();
    }

    /// Completes a [`push_part`](Self::push_part) that has returned true.
    pub(crate) fn notify_part(&mut self) {
        self.worker.notify_slowly();
    }

    /// Wakes a sleeper, if necessary, for tasks that were spawned [to run
    /// next](super::Placement::Next) or [without a
    /// notification](super::Placement::LocalUnnotified), if they may still be queued.
    #[inline]
    pub(crate) fn notify_deferred(&mut self) {
        if self.worker.next_unnotified || self.worker.has_unnotified {
            self.worker.notify_deferred();
        }
    }

    /// Ends a wait: the worker continues with its task and stops searching or sleeping. Tasks that
    /// it has queued without a notification may stay queued for long now, so a sleeper is woken for
    /// them.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// running.spawn(1, Placement::Local);
    /// let mut done = false;
    /// while !done {
    ///     let _ = running.step(|_, _| done = true);
    /// }
    /// running.end_wait();
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn end_wait(&mut self) {
        self.stop_search();
        self.notify_deferred();
    }

    /// Makes the worker stop searching or sleeping, because it continues with a task that it has
    /// just taken.
    #[inline]
    pub(crate) fn stop_search(&mut self) {
        if self.worker.is_active() {
            return;
        }
        self.worker.leave_search();
        if self.worker.reported_idle {
            // The task is in flight, so the work is not finished.
            let _ = self.worker.become_busy();
        }
    }

    /// Counts the task of [`Worker::become_permanent`](super::Worker::become_permanent) as
    /// finished, though the worker stays: the work may end without it. To be called once.
    pub(crate) fn retire(&mut self) {
        self.worker.retire();
    }

    /// Flushes the count of a worker that has [retired](Self::retire), after it has run a task all
    /// the same.
    pub(crate) fn flush_count(&mut self) {
        self.worker.flush_again();
    }

    /// Returns the worker's number.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// assert_eq!(running.id(), 0);
    /// # running.notify();
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> usize {
        self.worker.id
    }

    /// Returns the worker's random number generator.
    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.worker.rng
    }

    /// Returns the state that the workers share.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// assert!(running.core().is_open());
    /// # running.notify();
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn core(&self) -> &Core<T, Q, O> {
        self.worker.core
    }

    /// Moves the older half of the worker's own queue to the injector.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// for task in 1..=4 {
    ///     running.spawn(task, Placement::Local);
    /// }
    /// running.spill(); // 1 and 2 are in the injector now, for all workers
    /// assert_eq!(running.take_preferred(), None);
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn spill(&mut self) {
        let worker = &mut *self.worker;
        let mut own = Vec::new();
        worker.queue.drain_own(|task| own.push(task));
        let keep = own.split_off(own.len().div_ceil(2));
        let tasks = own.len();
        worker.core.injector.push_always(own);
        for task in keep {
            if let Err(task) = worker.queue.push(task) {
                worker.core.injector.push_always([task]);
            }
        }
        worker
            .core
            .observer
            .event(worker.id, Event::Spilled { tasks });
        worker.notify();
        worker.core.request_attention_for_missed(worker.id);
    }

    /// Records that the worker is about to run another task inside this one, instead of queueing
    /// it.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// # core.inject(0, Placement::Injector).unwrap();
    /// # let _ = core.enter(0).step(|_, mut running| {
    /// running.begin_inline();
    /// let sum: u32 = (1..4).sum(); // what a task of its own would have done
    /// running.end_inline();
    /// assert_eq!(sum, 6);
    /// # });
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn begin_inline(&mut self) {
        // Neither the spawn nor the completion changes the count.
        let (observer, id) = (&self.worker.core.observer, self.worker.id);
        let source = Source::Local;
        observer.event(id, Event::SpawnedLocal);
        observer.event(id, Event::Started { source });
    }

    /// Records that the inline task is finished.
    ///
    /// ```
    /// use filch::engine::{Core, PerWorker, Placement, Settings};
    /// use filch::observe::Counters;
    ///
    /// let core: Core<u32, PerWorker, Counters> =
    ///     Core::new(Settings::new(1), &Default::default(), Counters::new(1))?;
    /// core.inject(0, Placement::Injector).unwrap();
    /// let _ = core.enter(0).step(|_, mut running| {
    ///     running.begin_inline();
    ///     running.end_inline();
    /// });
    /// assert_eq!(core.observer().worker(0).executed, 2);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn end_inline(&mut self) {
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Finished);
    }

    /// Lets a task that is older than the worker's newest run next: one from the old end of its own
    /// queue and one from outside, alternately.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// core.inject(0, Placement::Injector).unwrap();
    /// let (mut worker, mut order) = (core.enter(0), vec![]);
    /// while order.len() < 3 {
    ///     let _ = worker.step(|task, mut running| {
    ///         order.push(task);
    ///         if task == 0 {
    ///             running.spawn(1, Placement::Local);
    ///             running.spawn(2, Placement::Local);
    ///             running.yield_to_older();
    ///         }
    ///     });
    /// }
    /// assert_eq!(order, [0, 1, 2]);
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    pub fn yield_to_older(&mut self) {
        self.worker.yielded = true;
    }
}

impl<T: Send, O: Observer> RunningWorker<'_, '_, T, PerWorker, O> {
    /// Counts what runs before the oldest task of the worker's own queue. When the sum of the costs
    /// has reached `limit`, that task runs next.
    #[inline]
    pub(crate) fn count_towards_oldest(&mut self, cost: u32, limit: u32) {
        if self.is_taking_older_first() {
            return;
        }
        self.worker.passed_over = self.worker.passed_over.saturating_add(cost);
        if self.worker.passed_over >= limit {
            self.worker.passed_over = 0;
            self.worker.oldest_first = 1;
        }
    }

    /// Whether tasks in the worker's own queue may have changed places: then a caller that retracts
    /// a task by its mark has to check that it is the right one.
    #[inline(always)]
    #[must_use]
    pub(crate) fn is_reordered(&mut self) -> bool {
        self.worker.queue.owner().is_reordered()
    }

    /// Whether the worker takes the oldest first, because a task was queued [to run
    /// last](super::Placement::LocalLast) or [the oldest is
    /// next](Self::count_towards_oldest).
    #[inline(always)]
    #[must_use]
    pub(crate) fn is_taking_older_first(&self) -> bool {
        self.worker.oldest_first > 0
    }

    /// Moves the newest of the tasks that were queued since `mark` behind the others. For a worker
    /// that takes no task from below the mark, this is the equivalent of
    /// [`LocalLast`](super::Placement::LocalLast).
    #[cold]
    pub(crate) fn move_newest_last(&mut self, mark: Mark) {
        self.worker.oldest_first = 0;
        let owner = self.worker.queue.owner();
        let mut taken = Vec::new();
        while owner.has_tasks_above(mark)
            && let Some(task) = owner.pop()
        {
            taken.push(task);
        }
        if taken.is_empty() {
            return;
        }
        let owner = self.worker.queue.owner();
        // Marks are no longer valid.
        owner.set_reordered(true);
        // The tasks were popped newest first.
        taken[1..].reverse();
        for task in taken {
            if owner.push(task).is_err() {
                unreachable!("there was room for it a moment ago");
            }
        }
        // While the tasks were out of the queue, a last check may have missed them.
        self.notify();
    }

    /// Queues a *part* of the current task: a job without which the task does not finish. Parts are
    /// not counted; the worker that runs one calls [`declare_part`](Self::declare_part). `mark` is
    /// what [`next_part_mark`](Self::next_part_mark) has just returned. Returns true if the push
    /// may have to wake a sleeper, or attention is requested: then the caller must call
    /// [`notify_part`](Self::notify_part).
    #[inline(always)]
    pub(crate) fn push_part(&mut self, mark: Mark, part: T) -> bool {
        // The part of a worker that has retired may stay invisible to others: its owner runs it.
        debug_assert!(
            !self.worker.idle_at_gate || self.worker.retired,
            "`Worker::make_pushes_visible` counts on it"
        );
        let core = self.worker.core;
        self.worker.queue.owner().push_at(mark, part);
        core.must_notify()
    }

    /// Returns the position of the next part, for [`push_part`](Self::push_part), and then for
    /// [`Owner::retract`](super::Owner::retract); before the push, because a thief may take the
    /// part at any time after it. Returns `None` when the queue must grow or is full: then call
    /// [`make_room_for_part`](Self::make_room_for_part).
    #[inline(always)]
    pub(crate) fn next_part_mark(&mut self) -> Option<Mark> {
        self.worker.queue.owner().next_mark()
    }

    /// Lets the queue grow, if it may, so that a part fits.
    #[cold]
    pub(crate) fn make_room_for_part(&mut self) {
        self.worker.queue.owner().make_room(1);
    }

    /// Called when a job begins: whether tasks of a batch from outside may be below it in the
    /// worker's own queue. If so, pushes are [watched](super::Owner::watch_pushes). For a job that
    /// runs `nested` in another, only if nothing else is in the queue, which could be parts of the
    /// outer job.
    #[inline(always)]
    pub(crate) fn watch_batch(&mut self, nested: bool) -> bool {
        if self.worker.selection.batch_left == 0 && !self.worker.queue.owner().is_watched() {
            return false;
        }
        if nested {
            return self.watch_batch_nested();
        }
        let queued = self.worker.queue.own_len();
        self.set_watch(queued, true)
    }

    #[cold]
    fn watch_batch_nested(&mut self) -> bool {
        let queued = self.worker.queue.own_len();
        let has_others = queued > self.worker.selection.batch_left;
        self.set_watch(queued, !has_others)
    }

    /// Watches pushes if tasks of a batch may be left among the `queued` ones, and only then. Not
    /// if `allowed` is false.
    #[inline(always)]
    fn set_watch(&mut self, queued: usize, allowed: bool) -> bool {
        let left = &mut self.worker.selection.batch_left;
        *left = (*left).min(queued);
        let watched = *left > 0 && allowed;
        match watched {
            true => self.worker.queue.owner().watch_pushes(),
            false => self.worker.queue.owner().unwatch_pushes(),
        }
        watched
    }

    /// Whether tasks that were queued before `mark` are left, which
    /// [`watch_batch`](Self::watch_batch) has found. If not, pushes are no longer watched.
    pub(crate) fn has_batch_below(&mut self, mark: Mark) -> bool {
        let left = self.worker.queue.owner().has_tasks_below(mark);
        if !left {
            self.worker.selection.batch_left = 0;
            self.worker.queue.owner().unwatch_pushes();
        }
        left
    }

    /// Takes the oldest of the tasks that were queued before `mark`. The caller runs it before the
    /// current task continues.
    #[cold]
    pub(crate) fn take_batch_below(&mut self, mark: Mark) -> Option<T> {
        if !self.worker.is_active() {
            return None; // as in `Worker::take_preferred_slowly`
        }
        let task = self.worker.queue.owner().pop_oldest_below(mark)?;
        self.worker.selection.count_batch_turn();
        self.worker.start_nested(Source::Local);
        Some(task)
    }

    /// Takes a task from the injector, if there is one. The caller runs it before the current task
    /// continues.
    #[cold]
    pub(crate) fn take_injected(&mut self) -> Option<T> {
        self.worker.take_injected_nested()
    }

    /// Steals one task from the deque of `victim`. The caller runs it before the current task
    /// continues.
    pub(crate) fn steal_from(&mut self, victim: usize) -> Option<T> {
        let task = self.worker.queue.steal_from(victim)?;
        let searched = Event::Searched {
            attempts: 1,
            retries: 0,
        };
        self.worker.core.observer.event(self.worker.id, searched);
        let source = self.worker.source_of(victim);
        self.worker.start_nested(source);
        Some(task)
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests;
