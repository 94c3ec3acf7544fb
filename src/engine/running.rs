//! A worker in the middle of a task.

use super::{
    core::Core,
    deque::Mark,
    event::{Event, Observer, Source},
    lanes::Level,
    queue::{PerWorker, Queue, STEPS, Strategy},
    worker::{Step, Ticket, Worker},
};
use crate::base::rng::Rng;
use std::{fmt, time::Duration};

/// A worker in the middle of a task: only then may it spawn, because only then is it counted as busy.
/// The task counts as finished when this is dropped, by a panic too.
pub struct RunningWorker<'w, 'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) worker: &'w mut Worker<'c, T, Q, O>,
}

impl<'c, T: Send, Q: Strategy, O: Observer> RunningWorker<'_, 'c, T, Q, O> {
    /// The worker's own queue, for faces that know better than [`step`](Self::step) what to take
    /// next.
    #[inline(always)]
    pub fn queue(&mut self) -> &mut Q::Handle<'c, T> {
        &mut self.worker.queue
    }

    /// What runs here is a part of another task, and does not count as one of its own.
    pub fn count_part(&mut self) {
        // Makes up for what dropping `self`, or `took`, subtracts.
        self.worker.count += 1;
    }

    /// Something taken from [`queue`](Self::queue) runs inside of the present task.
    pub fn took(&mut self) {
        if self.worker.quiet {
            self.worker.start_after_deferred(Source::Local);
        }
        self.took_back();
    }

    /// Something taken from [`queue`](Self::queue) goes on as a part of the present task, which has spawned it.
    pub fn took_back(&mut self) {
        self.worker.count -= 1;
        let source = Source::Local;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Started { source });
    }

    /// One move of the worker in the middle of a task that waits for something: as
    /// [`Worker::step_late`]. When the waiting is over, [`settle`](Self::settle).
    pub fn step(&mut self, run: impl FnOnce(T, RunningWorker<'_, 'c, T, Q, O>)) -> Step {
        self.worker.step_late(run)
    }

    /// Takes a task of the worker's own queue: the newest, or the oldest while one [waits behind
    /// all](Self::spawn_behind). It runs inside of the present task, see [`took`](Self::took).
    #[inline(always)]
    pub fn take_own(&mut self) -> Option<T> {
        self.worker.take_own()
    }

    /// Takes an urgent task, if there is one. It runs inside of the present task.
    #[cold]
    pub fn take_urgent(&mut self) -> Option<T> {
        self.worker.take_urgent_inside()
    }

    /// Takes a task that this worker should run, from its box. It runs inside of the present task.
    pub fn take_affine(&mut self) -> Option<T> {
        self.worker.take_affine_inside()
    }

    /// Whether there seems to be one.
    #[must_use]
    pub fn has_affine(&self) -> bool {
        self.worker.core.mailboxes[self.worker.id].has_affine()
    }

    /// The next step takes a task from the injector, if there is one.
    pub fn force_injector_poll(&mut self) {
        self.worker.selector.turns.force();
    }

    /// Takes a task that is for this worker alone. It runs inside of the present task, see [`took`](Self::took).
    pub fn take_mail(&mut self) -> Option<T> {
        let task = self.worker.take_mail()?;
        // It comes before the one that nobody was told of.
        self.notify_deferred();
        Some(task)
    }

    /// Takes a task that should not wait for what is in the worker's own queue: an urgent one, or one from the
    /// worker's box. It runs inside of the present task.
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

    /// Whether the worker may go on with the newest task of its own queue: nothing presses, none is behind others, and it is
    /// nobody's turn. If so it counts as a step.
    #[inline(always)]
    pub fn goes_on(&mut self) -> bool {
        let worker = &mut *self.worker;
        worker.behind == 0
            && !worker.core.flags().read().presses()
            && !worker
                .selector
                .is_turn_of_futures(worker.core.flags().read())
            && worker.selector.turns.tick_unless_due()
    }

    /// The worker is awake again.
    pub fn resume(&mut self, ticket: Ticket) {
        self.worker.resume(ticket);
    }

    /// [`resume`](Self::resume) after a sleep of a known length, as [`Worker::resume_after`].
    pub fn resume_after(&mut self, ticket: Ticket, slept: Duration) {
        self.worker.resume_after(ticket, slept);
    }

    /// Whether the worker has a reason to get up: it has been woken, or has mail.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.worker.is_woken() || self.worker.has_mail()
    }

    /// Whether there are tasks for this worker alone.
    #[must_use]
    pub fn has_mail(&self) -> bool {
        self.worker.has_mail()
    }

    /// Spawns a task that only `worker` may run, or, if it leaves before, anybody.
    pub fn send(&mut self, worker: usize, task: T) {
        let core = self.worker.core;
        assert!(worker < core.workers(), "no worker {worker} in this engine");
        self.worker.count += 1;
        core.deliver(worker, task);
    }

    /// Tells who may sleep that there is something in the worker's own queue.
    pub fn announce(&mut self) {
        self.worker.notify();
    }

    /// The rest of a [`push_part`](Self::push_part) that has set its flag.
    pub fn notify(&mut self) {
        self.worker.notify_with_care();
    }

    /// Tells who may sleep of the tasks that were spawned [quietly](Self::spawn_next) or [silently](Self::spawn_unnotified),
    /// if they may still be there.
    #[inline]
    pub fn notify_deferred(&mut self) {
        if self.worker.quiet || self.worker.silent {
            self.worker.notify_deferred();
        }
    }

    /// The waiting is over: the worker goes on with its task, whatever it was about to do. What it has queued without a
    /// word may lie there for long now, so others are told.
    pub fn settle(&mut self) {
        self.stop_search();
        self.notify_deferred();
    }

    /// The worker goes on with a task that it has just taken, whatever it was about to do.
    pub fn stop_search(&mut self) {
        self.worker.leave_search();
        if self.worker.idle {
            // Its task is in flight.
            let _ = self.worker.become_busy();
        }
    }

    /// The task of [`Worker::stay`] counts as finished, though the worker stays: the work may end without it. To be called once.
    pub fn retire(&mut self) {
        self.worker.retire();
    }

    /// The worker's number.
    #[must_use]
    pub fn id(&self) -> usize {
        self.worker.id
    }

    /// The worker's generator.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.worker.rng
    }

    /// What the workers share.
    #[must_use]
    pub fn core(&self) -> &Core<T, Q, O> {
        self.worker.core
    }

    /// Spawns a task into the worker's own queue, or gives it back when that is full.
    ///
    /// # Errors
    /// The task, when the queue is full.
    #[inline(always)]
    pub fn spawn_local(&mut self, task: T) -> Result<(), T> {
        let worker = &mut *self.worker;
        worker.queue.push(task)?;
        worker.count += 1;
        worker.core.observer.event(worker.id, Event::SpawnedLocal);
        if worker.wake.push() {
            worker.notify();
        }
        Ok(())
    }

    /// [`spawn_local`](Self::spawn_local) that looks for nobody to wake, whatever the policy says: the worker is awake,
    /// and will run the task if nobody else does. [`announce`](Self::announce) makes up for it, and so does
    /// [`settle`](Self::settle), when the worker goes on with something else.
    ///
    /// # Errors
    /// The task, when the queue is full.
    pub fn spawn_unnotified(&mut self, task: T) -> Result<(), T> {
        let worker = &mut *self.worker;
        worker.queue.push(task)?;
        worker.count += 1;
        worker.silent = true;
        worker.core.observer.event(worker.id, Event::SpawnedLocal);
        Ok(())
    }

    /// Spawns a task of some [`Level`]: a normal one as [`spawn_local`](Self::spawn_local) does, and the
    /// others where every worker sees them.
    ///
    /// # Errors
    /// The task, when it is a normal one and the queue is full.
    pub fn spawn_at(&mut self, level: Level, task: T) -> Result<(), T> {
        if level == Level::Normal {
            return self.spawn_local(task);
        }
        let worker = &mut *self.worker;
        let core = worker.core;
        core.lanes.push_always(core.flags(), level, task);
        worker.count += 1;
        core.observer.event(worker.id, Event::SpawnedLane { level });
        core.notify_shared(worker.id);
        Ok(())
    }

    /// Spawns a task that `owner` should run if it is free soon, and else anybody. If that worker has left, it is
    /// anybody at once.
    ///
    /// # Panics
    /// When there can be no such worker.
    pub fn spawn_for(&mut self, owner: usize, task: T) {
        let worker = &mut *self.worker;
        let core = worker.core;
        assert!(owner < core.workers(), "no worker {owner} in this engine");
        core.put_for(owner, task);
        worker.count += 1;
        let event = Event::SpawnedFor { worker: owner };
        core.observer.event(worker.id, event);
        core.notify_mailbox(worker.id, owner);
    }

    /// Spawns a task into the injector, behind all tasks that this thread has put there before. Tasks from
    /// outside and those of other workers get their turns beside them.
    pub fn spawn_global(&mut self, task: T) {
        let worker = &mut *self.worker;
        worker.core.injector.push_always([task]);
        worker.count += 1;
        worker.core.observer.event(worker.id, Event::SpawnedGlobal);
        worker.core.notify_shared(worker.id);
    }

    /// Whether everybody is at work: nobody sleeps who could be woken for another task.
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

    /// The worker is about to run another task in the middle of this one, instead of queueing it.
    pub fn begin_inline(&mut self) {
        // Neither the spawn nor the completion changes the count.
        let (observer, id) = (&self.worker.core.observer, self.worker.id);
        let source = Source::Local;
        observer.event(id, Event::SpawnedLocal);
        observer.event(id, Event::Started { source });
    }

    /// That other task is done.
    pub fn end_inline(&mut self) {
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Finished);
    }

    /// Lets a task that is older than the worker's newest run next: one from the other end of its
    /// own queue and one from outside, in turns.
    pub fn yield_to_older(&mut self) {
        self.worker.yielded = true;
    }
}

impl<T: Send, O: Observer> RunningWorker<'_, '_, T, PerWorker, O> {
    /// [`spawn_local`](Self::spawn_local) of a task that comes behind all others in the worker's own queue: until its
    /// turn comes, the worker takes the oldest first.
    ///
    /// # Errors
    /// The task, when the queue is full.
    #[inline]
    pub fn spawn_behind(&mut self, task: T) -> Result<(), T> {
        self.spawn_local(task)?;
        self.take_older_first();
        Ok(())
    }

    /// [`spawn_local`](Self::spawn_local) of a task that this worker takes next. If it is alone in the queue nobody is woken
    /// for it: those who look for work see it, and before the worker starts another task, or sleeps, it tells the others.
    /// Until then the one that runs now keeps it waiting; [`notify_deferred`](Self::notify_deferred) ends that.
    ///
    /// # Errors
    /// The task, when the queue is full.
    #[inline]
    pub fn spawn_next(&mut self, task: T) -> Result<(), T> {
        let worker = &mut *self.worker;
        let alone = worker.queue.owner().is_empty();
        // Thieves leave it to this worker as long as it gets on: two tasks that wake each other run faster on one.
        worker
            .queue
            .set_thief_patience(if alone { STEPS } else { 0 });
        if !alone {
            return self.spawn_local(task);
        }
        worker.queue.count_step();
        worker.queue.push(task)?;
        worker.count += 1;
        worker.core.observer.event(worker.id, Event::SpawnedLocal);
        worker.quiet = true;
        Ok(())
    }

    /// All tasks that are in the worker's own queue now come before those that will be, the oldest first.
    #[inline]
    pub fn take_older_first(&mut self) {
        self.worker.behind = self.worker.queue.owner().len();
    }

    /// The oldest task of the worker's own queue comes before all others.
    #[inline]
    pub fn take_oldest_next(&mut self) {
        self.worker.behind = 1;
    }

    /// Whether tasks in the worker's own queue may have changed places: then who takes one back by its mark has to look
    /// whether it is the one.
    #[inline(always)]
    #[must_use]
    pub fn is_shuffled(&self) -> bool {
        self.worker.shuffled
    }

    /// Whether some of them are still to come.
    #[inline(always)]
    #[must_use]
    pub fn is_taking_older_first(&self) -> bool {
        self.worker.behind > 0
    }

    /// The newest of those that were queued since `mark` goes behind the others, which is all that
    /// [`take_older_first`](Self::take_older_first) can mean to a worker that takes nothing from below the mark.
    #[cold]
    pub fn rotate_above(&mut self, mark: Mark) {
        self.worker.behind = 0;
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
        // Marks do not fit any more.
        self.worker.shuffled = true;
        let owner = self.worker.queue.owner();
        // They came newest first.
        taken[1..].reverse();
        for task in taken {
            if owner.push(task).is_err() {
                unreachable!("there was room for it a moment ago");
            }
        }
        // While they were out of the queue, a last look may have missed them.
        self.announce();
    }

    /// Queues a *part* of the present task: something that the task will not finish without. Parts
    /// are not counted; the worker that runs one calls [`count_part`](Self::count_part). The mark is for
    /// [`Owner::retract`](super::Owner::retract). If the push may have to wake a sleeper, or this worker
    /// is asked for attention, the flag is set, and the caller goes on with [`notify`](Self::notify).
    ///
    /// # Errors
    /// The part, when the queue must grow or is full: then
    /// [`push_part_slowly`](Self::push_part_slowly). In two functions, so that the caller needs no
    /// registers that outlive a call to the slow one.
    #[inline(always)]
    pub fn push_part(&mut self, part: T) -> Result<(Mark, bool), T> {
        debug_assert!(!self.worker.resting, "`Worker::await_pushes` counts on it");
        let core = self.worker.core;
        let mark = self.worker.queue.owner().push_quickly(part)?;
        Ok((mark, core.must_notify()))
    }

    /// Takes a task from the injector in the middle of the present one, if there is one.
    #[cold]
    pub fn take_injected(&mut self) -> Option<T> {
        self.worker.take_injected_inside()
    }

    /// Steals one task from the deque of `victim`. It runs inside of the present task.
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
    use crate::engine::{Core, PerWorker, Settings, Silent, Step, Unpark};
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
    type TestActive<'w, 'c> = super::RunningWorker<'w, 'c, &'static str, PerWorker, Silent>;

    /// A worker spawns a task quietly beside another worker that sleeps, and does `then`. Says how many wakes each of the
    /// two steps led to.
    fn beside_a_sleeper(then: impl FnOnce(&TestCore, &mut TestActive<'_, '_>)) -> [usize; 2] {
        let spawn = |running: &mut TestActive<'_, '_>| running.spawn_next("next").unwrap();
        steps_beside_a_sleeper(spawn, then)
    }

    fn steps_beside_a_sleeper(
        first: impl FnOnce(&mut TestActive<'_, '_>),
        then: impl FnOnce(&TestCore, &mut TestActive<'_, '_>),
    ) -> [usize; 2] {
        let wakes = Arc::new(AtomicUsize::new(0));
        let mut settings = Settings::new(2);
        settings.unpark = Box::new(Wakes(wakes.clone()));
        let core = TestCore::new(settings, &Default::default(), Silent).unwrap();
        let (mut busy, mut sleeper) = (core.enter(0), core.enter(1));
        core.inject("busy").unwrap();
        let mut told = [0; 2];
        let step = busy.step(|_, mut running| {
            while !matches!(sleeper.step(|_, _| ()), Step::Park(_)) {}
            let count = || wakes.swap(0, Relaxed);
            count();
            first(&mut running);
            told[0] = count();
            then(&core, &mut running);
            told[1] = count();
        });
        assert!(matches!(step, Step::Ran));
        told
    }

    #[test]
    fn a_quiet_task_is_told_when_something_else_comes_first() {
        assert_eq!(beside_a_sleeper(|_, _| ()), [0, 0], "it is next");
        let own = beside_a_sleeper(|_, running| {
            assert_eq!(running.take_own(), Some("next"));
            running.took();
            running.settle();
        });
        assert_eq!(own, [0, 0], "it has been taken");
        let settled = beside_a_sleeper(|_, running| running.settle());
        assert_eq!(settled, [0, 1], "the task that runs goes on");
        let mail = beside_a_sleeper(|core, running| {
            core.send(0, "letter").unwrap();
            assert_eq!(running.take_mail(), Some("letter"));
            running.took();
        });
        // One for the letter.
        assert_eq!(mail, [0, 2], "mail comes first");
        let urgent = beside_a_sleeper(|_, running| assert_eq!(running.take_mail(), None));
        assert_eq!(urgent, [0, 0], "there was no mail");
    }

    #[test]
    fn a_quiet_task_is_told_when_one_above_it_is_taken() {
        let taken = beside_a_sleeper(|_, running| {
            running.spawn_unnotified("above").unwrap();
            assert_eq!(running.take_own(), Some("above"));
            running.took();
        });
        assert_eq!(taken, [0, 1], "another one runs before it");
        let back = beside_a_sleeper(|_, running| {
            running.spawn_unnotified("above").unwrap();
            assert_eq!(running.take_own(), Some("above"));
            running.took_back();
            running.settle();
        });
        assert_eq!(back, [0, 1], "the task that runs goes on");
    }

    #[test]
    fn silent_tasks_are_told_when_the_worker_goes_on_with_something_else() {
        let spawn = |running: &mut TestActive<'_, '_>| {
            running.spawn_unnotified("one").unwrap();
            running.spawn_unnotified("two").unwrap();
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
    fn above_a_mark_the_newest_goes_behind_the_others() {
        let core = TestCore::new(Settings::new(1), &Default::default(), Silent).unwrap();
        let mut worker = core.enter(0);
        core.inject("").unwrap();
        let _step = worker.step(|_, mut running| {
            running.spawn_local("below").unwrap();
            let mark = running.queue().owner().mark();
            running.rotate_above(mark);
            for task in ["a", "b"] {
                running.spawn_local(task).unwrap();
            }
            running.spawn_behind("c").unwrap();
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
