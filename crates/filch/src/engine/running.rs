//! A worker that is running a task.

use super::{
    core::Core,
    deque::Mark,
    event::{Event, Observer, Source},
    queue::{PerWorker, Queue, Strategy},
    worker::{Step, Ticket, Worker},
};
use crate::base::rng::Rng;
use std::{fmt, time::Duration};

/// A worker that is running a task. Only then may it spawn, because only then is it counted as
/// busy. The task counts as finished when this is dropped, also by a panic.
pub struct RunningWorker<'w, 'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) worker: &'w mut Worker<'c, T, Q, O>,
}

impl<'c, T: Send, Q: Strategy, O: Observer> RunningWorker<'_, 'c, T, Q, O> {
    /// Returns the worker's own queue, for faces that select the next task more precisely than
    /// [`step`](Self::step) does.
    #[inline(always)]
    pub fn queue(&mut self) -> &mut Q::Handle<'c, T> {
        &mut self.worker.queue
    }

    /// Declares that what runs here is a part of another task, and does not count as a task itself.
    pub fn count_part(&mut self) {
        // Compensates for the decrement when `self` is dropped, or in `took`.
        self.worker.count += 1;
    }

    /// Records that a task taken from [`queue`](Self::queue) runs inside of the current one.
    pub fn took(&mut self) {
        if self.worker.next_unnotified {
            self.worker.start_after_deferred(Source::Local);
        }
        self.took_back();
    }

    /// Records that a task taken from [`queue`](Self::queue) continues as a part of the current
    /// one, which has spawned it.
    pub fn took_back(&mut self) {
        self.worker.count -= 1;
        let source = Source::Local;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Started { source });
    }

    /// Makes one step of the worker while its task waits: as [`Worker::step_late`]. When the wait
    /// is over, call [`settle`](Self::settle).
    pub fn step(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        self.worker.step_late(run)
    }

    /// Takes a task of the worker's own queue: the newest, or the oldest while one was queued [to
    /// run last](super::Placement::LocalLast). It runs inside of the current task, see
    /// [`took`](Self::took).
    #[inline(always)]
    pub fn take_own(&mut self) -> Option<T> {
        self.worker.take_own()
    }

    /// Takes an urgent task, if there is one. It runs inside of the current task.
    #[cold]
    pub fn take_urgent(&mut self) -> Option<T> {
        self.worker.take_urgent_inside()
    }

    /// Takes one of this worker's affine tasks. It runs inside of the current task.
    pub fn take_affine(&mut self) -> Option<T> {
        self.worker.take_affine_inside()
    }

    /// Whether there seems to be an affine task for this worker.
    #[must_use]
    pub fn has_affine(&self) -> bool {
        self.worker.core.mailboxes[self.worker.id].has_affine()
    }

    /// Makes the next step take a task from the injector, if there is one.
    pub fn force_injector_poll(&mut self) {
        self.worker.selector.turns.force();
    }

    /// Takes a task that only this worker may run. It runs inside of the current task, see
    /// [`took`](Self::took).
    pub fn take_mail(&mut self) -> Option<T> {
        let task = self.worker.take_mail()?;
        // It runs before a task that was queued without a notification.
        self.notify_deferred();
        Some(task)
    }

    /// Takes a task that should not wait for those in the worker's own queue: an urgent one, or an
    /// affine one. It runs inside of the current task.
    #[inline]
    pub fn take_pressing(&mut self) -> Option<T> {
        let turn = self.worker.selector.turns.tick();
        let raised = self.worker.core.flags().read();
        if turn || raised.presses() || self.worker.selector.is_turn_of_futures(raised) {
            self.worker.take_inside()
        } else {
            None
        }
    }

    /// Whether the worker may continue with the newest task of its own queue: no task has
    /// precedence, the old end is not due first, and no turn is due. If so it counts as a step.
    #[inline(always)]
    pub fn goes_on(&mut self) -> bool {
        let worker = &mut *self.worker;
        worker.oldest_first == 0
            && !worker.core.flags().read().presses()
            && !worker
                .selector
                .is_turn_of_futures(worker.core.flags().read())
            && worker.selector.turns.tick_unless_due()
    }

    /// Resumes the worker after it was parked.
    pub fn resume(&mut self, ticket: Ticket) {
        self.worker.resume(ticket);
    }

    /// [`resume`](Self::resume) after a sleep of a known length, as [`Worker::resume_after`].
    pub fn resume_after(&mut self, ticket: Ticket, slept: Duration) {
        self.worker.resume_after(ticket, slept);
    }

    /// Whether the worker has a reason to wake up: it has been woken, or has pinned tasks.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.worker.is_woken() || self.worker.has_mail()
    }

    /// Whether there are tasks that only this worker may run.
    #[must_use]
    pub fn has_mail(&self) -> bool {
        self.worker.has_mail()
    }

    /// Wakes a sleeper, if necessary, for a task in the worker's own queue.
    pub fn announce(&mut self) {
        self.worker.notify();
    }

    /// Completes a [`push_part`](Self::push_part) that has returned true.
    pub fn notify(&mut self) {
        self.worker.notify_with_care();
    }

    /// Wakes a sleeper, if necessary, for tasks that were spawned [to run
    /// next](super::Placement::Next) or [without a
    /// notification](super::Placement::LocalUnnotified), if they may still be queued.
    #[inline]
    pub fn notify_deferred(&mut self) {
        if self.worker.next_unnotified || self.worker.has_unnotified {
            self.worker.notify_deferred();
        }
    }

    /// Ends a wait: the worker continues with its task and stops searching or sleeping. Tasks that
    /// it has queued without a notification may stay queued for long now, so a sleeper is woken for
    /// them.
    pub fn settle(&mut self) {
        self.stop_search();
        self.notify_deferred();
    }

    /// Makes the worker stop searching or sleeping, because it continues with a task that it has
    /// just taken.
    #[inline]
    pub fn stop_search(&mut self) {
        if self.worker.is_active() {
            return;
        }
        self.worker.leave_search();
        if self.worker.idle {
            // The task is in flight, so the work is not finished.
            let _ = self.worker.become_busy();
        }
    }

    /// Counts the task of [`Worker::stay`] as finished, though the worker stays: the work may end
    /// without it. To be called once.
    pub fn retire(&mut self) {
        self.worker.retire();
    }

    /// Flushes the count of a worker that has [retired](Self::retire), after it has run a task all
    /// the same.
    pub fn rest(&mut self) {
        self.worker.rest_again();
    }

    /// Returns the worker's number.
    #[must_use]
    pub fn id(&self) -> usize {
        self.worker.id
    }

    /// Returns the worker's random number generator.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.worker.rng
    }

    /// Returns the state that the workers share.
    #[must_use]
    pub fn core(&self) -> &Core<T, Q, O> {
        self.worker.core
    }

    /// Whether all workers are awake, so that none can be woken for another task.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.worker.core.is_crowded()
    }

    /// Moves the older half of the worker's own queue to the injector.
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
    }

    /// Records that the worker is about to run another task inside of this one, instead of queueing
    /// it.
    pub fn begin_inline(&mut self) {
        // Neither the spawn nor the completion changes the count.
        let (observer, id) = (&self.worker.core.observer, self.worker.id);
        let source = Source::Local;
        observer.event(id, Event::SpawnedLocal);
        observer.event(id, Event::Started { source });
    }

    /// Records that the inline task is finished.
    pub fn end_inline(&mut self) {
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Finished);
    }

    /// Lets a task that is older than the worker's newest run next: one from the old end of its own
    /// queue and one from outside, alternately.
    pub fn yield_to_older(&mut self) {
        self.worker.yielded = true;
    }
}

impl<T: Send, O: Observer> RunningWorker<'_, '_, T, PerWorker, O> {
    /// Makes the oldest task of the worker's own queue run before all others.
    #[inline]
    pub fn take_oldest_next(&mut self) {
        self.worker.oldest_first = 1;
    }

    /// Whether tasks in the worker's own queue may have changed places: then a caller that retracts
    /// a task by its mark has to check that it is the right one.
    #[inline(always)]
    #[must_use]
    pub fn is_shuffled(&self) -> bool {
        self.worker.reordered
    }

    /// Whether the worker takes the oldest first, because a task was queued [to run
    /// last](super::Placement::LocalLast) or [the oldest is next](Self::take_oldest_next).
    #[inline(always)]
    #[must_use]
    pub fn is_taking_older_first(&self) -> bool {
        self.worker.oldest_first > 0
    }

    /// Moves the newest of the tasks that were queued since `mark` behind the others. For a worker
    /// that takes no task from below the mark, this is the equivalent of
    /// [`LocalLast`](super::Placement::LocalLast).
    #[cold]
    pub fn rotate_above(&mut self, mark: Mark) {
        self.worker.oldest_first = 0;
        let owner = self.worker.queue.owner();
        let mut taken = Vec::new();
        while owner.is_above(mark)
            && let Some(task) = owner.pop()
        {
            taken.push(task);
        }
        if taken.is_empty() {
            return;
        }
        // Marks are no longer valid.
        self.worker.reordered = true;
        let owner = self.worker.queue.owner();
        // The tasks were popped newest first.
        taken[1..].reverse();
        for task in taken {
            if owner.push(task).is_err() {
                unreachable!("there was room for it a moment ago");
            }
        }
        // While the tasks were out of the queue, a last check may have missed them.
        self.announce();
    }

    /// Queues a *part* of the current task: a job without which the task does not finish. Parts are
    /// not counted; the worker that runs one calls [`count_part`](Self::count_part). The mark is
    /// for [`Owner::retract`](super::Owner::retract). The flag is true if the push may have to wake
    /// a sleeper, or attention is requested: then the caller must call [`notify`](Self::notify).
    ///
    /// # Errors
    /// The part, when the queue must grow or is full: then call
    /// [`push_part_slowly`](Self::push_part_slowly). In two functions, so that the caller needs no
    /// registers that outlive a call to the slow one.
    #[inline(always)]
    pub fn push_part(&mut self, part: T) -> Result<(Mark, bool), T> {
        debug_assert!(!self.worker.resting, "`Worker::await_pushes` counts on it");
        let core = self.worker.core;
        let mark = self.worker.queue.owner().push_quickly(part)?;
        Ok((mark, core.must_notify()))
    }

    /// Takes a task from the injector, if there is one. It runs inside of the current task.
    #[cold]
    pub fn take_injected(&mut self) -> Option<T> {
        self.worker.take_injected_inside()
    }

    /// Steals one task from the deque of `victim`. It runs inside of the current task.
    pub fn steal_from(&mut self, victim: usize) -> Option<T> {
        let task = self.worker.queue.steal_from(victim)?;
        self.worker.start_inside(Source::Steal { victim });
        Some(task)
    }

    /// [`push_part`](Self::push_part) that lets the queue grow.
    ///
    /// # Errors
    /// The part, when the queue is full.
    #[cold]
    pub fn push_part_slowly(&mut self, part: T) -> Result<Mark, T> {
        let mark = self.worker.queue.owner().push_marked(part)?;
        self.worker.notify();
        Ok(mark)
    }
}

impl<T: Send, Q: Strategy, O: Observer> Drop for RunningWorker<'_, '_, T, Q, O> {
    #[inline(always)]
    fn drop(&mut self) {
        self.worker.count -= 1;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Finished);
    }
}

impl<T: Send, Q: Strategy, O: Observer> fmt::Debug for RunningWorker<'_, '_, T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunningWorker").field(&self.worker).finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use crate::engine::{Core, PerWorker, Placement, Settings, Silent, Step, Unpark};
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    struct Wakes(Arc<AtomicUsize>);

    impl Unpark for Wakes {
        fn unpark(&self, _worker: usize) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    type TestCore = Core<&'static str, PerWorker, Silent>;
    type TestRunning<'w, 'c> = super::RunningWorker<'w, 'c, &'static str, PerWorker, Silent>;

    /// Spawns a task to run next while another worker sleeps, and does `then`. Returns the number
    /// of wakes in each of the two steps.
    fn beside_a_sleeper(then: impl FnOnce(&TestCore, &mut TestRunning<'_, '_>)) -> [usize; 2] {
        let spawn =
            |running: &mut TestRunning<'_, '_>| running.try_spawn("next", Placement::Next).unwrap();
        steps_beside_a_sleeper(spawn, then)
    }

    fn steps_beside_a_sleeper(
        first: impl FnOnce(&mut TestRunning<'_, '_>),
        then: impl FnOnce(&TestCore, &mut TestRunning<'_, '_>),
    ) -> [usize; 2] {
        let wakes = Arc::new(AtomicUsize::new(0));
        let mut settings = Settings::new(2);
        settings.unpark = Box::new(Wakes(wakes.clone()));
        let core = TestCore::new(settings, &Default::default(), Silent).unwrap();
        let (mut busy, mut sleeper) = (core.enter(0), core.enter(1));
        core.inject("busy", Placement::Injector).unwrap();
        let mut woken = [0; 2];
        let step = busy.step(|_, mut running| {
            while !matches!(sleeper.step(|_, _| ()), Step::Park(_)) {}
            let count = || wakes.swap(0, Relaxed);
            count();
            first(&mut running);
            woken[0] = count();
            then(&core, &mut running);
            woken[1] = count();
        });
        assert!(matches!(step, Step::Ran));
        woken
    }

    #[test]
    fn a_deferred_notification_is_made_up_before_another_task_runs() {
        assert_eq!(beside_a_sleeper(|_, _| ()), [0, 0], "it is next");
        let own = beside_a_sleeper(|_, running| {
            assert_eq!(running.take_own(), Some("next"));
            running.took();
            running.settle();
        });
        assert_eq!(own, [0, 0], "it has been taken");
        let settled = beside_a_sleeper(|_, running| running.settle());
        assert_eq!(settled, [0, 1], "the running task continues");
        let pinned = beside_a_sleeper(|core, running| {
            core.inject("pinned", Placement::Pinned(0)).unwrap();
            assert_eq!(running.take_mail(), Some("pinned"));
            running.took();
        });
        // One for the pinned task.
        assert_eq!(pinned, [0, 2], "the pinned task runs first");
        let urgent = beside_a_sleeper(|_, running| assert_eq!(running.take_mail(), None));
        assert_eq!(urgent, [0, 0], "there was no pinned task");
    }

    #[test]
    fn a_deferred_notification_is_made_up_when_a_newer_task_is_taken() {
        let taken = beside_a_sleeper(|_, running| {
            running
                .try_spawn("above", Placement::LocalUnnotified)
                .unwrap();
            assert_eq!(running.take_own(), Some("above"));
            running.took();
        });
        assert_eq!(taken, [0, 1], "another one runs before it");
        let back = beside_a_sleeper(|_, running| {
            running
                .try_spawn("above", Placement::LocalUnnotified)
                .unwrap();
            assert_eq!(running.take_own(), Some("above"));
            running.took_back();
            running.settle();
        });
        assert_eq!(back, [0, 1], "the running task continues");
    }

    #[test]
    fn deferred_notifications_are_made_up_when_the_wait_ends() {
        let spawn = |running: &mut TestRunning<'_, '_>| {
            running
                .try_spawn("one", Placement::LocalUnnotified)
                .unwrap();
            running
                .try_spawn("two", Placement::LocalUnnotified)
                .unwrap();
        };
        let one_left = steps_beside_a_sleeper(spawn, |_, running| {
            assert_eq!(running.take_own(), Some("two"));
            running.took();
            running.settle();
        });
        assert_eq!(one_left, [0, 1]);
        let none_left = steps_beside_a_sleeper(spawn, |_, running| {
            while running.take_own().is_some() {
                running.took();
            }
            running.settle();
        });
        assert_eq!(none_left, [0, 0]);
    }

    #[test]
    fn rotating_above_a_mark_moves_the_newest_behind_the_others() {
        let core = TestCore::new(Settings::new(1), &Default::default(), Silent).unwrap();
        let mut worker = core.enter(0);
        core.inject("", Placement::Injector).unwrap();
        let _step = worker.step(|_, mut running| {
            running.try_spawn("below", Placement::Local).unwrap();
            let mark = running.queue().owner().mark();
            running.rotate_above(mark);
            for task in ["a", "b"] {
                running.try_spawn(task, Placement::Local).unwrap();
            }
            running.try_spawn("c", Placement::LocalLast).unwrap();
            assert!(running.is_taking_older_first());
            running.rotate_above(mark);
            assert!(!running.is_taking_older_first());
            let mut order = Vec::new();
            while let Some(task) = running.take_own() {
                running.took();
                order.push(task);
            }
            assert_eq!(order, ["b", "a", "c", "below"]);
        });
    }
}
