//! A worker in the middle of a task.

use super::{
    core::Core,
    deque::Mark,
    event::{Event, Observer, Source},
    lanes::Level,
    queue::{PerWorker, Queue, Strategy},
    worker::{Step, Ticket, Worker},
};
use crate::ground::rng::Rng;
use std::fmt;

/// A worker in the middle of a task: only then may it spawn, because only then is it counted as busy.
/// The task counts as finished when this is dropped, by a panic too.
pub struct Active<'w, 'c, T: Send, Q: Strategy, O: Observer> {
    pub(super) worker: &'w mut Worker<'c, T, Q, O>,
}

impl<'c, T: Send, Q: Strategy, O: Observer> Active<'_, 'c, T, Q, O> {
    /// The worker's own queue, for faces that know better than [`step`](Self::step) what to take
    /// next.
    #[inline(always)]
    pub fn queue(&mut self) -> &mut Q::Handle<'c, T> {
        &mut self.worker.queue
    }

    /// What runs here is a part of another task, and does not count as one of its own.
    pub fn is_part(&mut self) {
        // Makes up for what dropping `self`, or `took`, subtracts.
        self.worker.count += 1;
    }

    /// Something taken from [`queue`](Self::queue) runs inside of the present task.
    pub fn took(&mut self) {
        self.worker.count -= 1;
        let source = Source::Local;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Started { source });
    }

    /// One move of the worker in the middle of a task that waits for something: as
    /// [`Worker::step_late`]. When the waiting is over, [`settle`](Self::settle).
    pub fn step(&mut self, run: impl FnOnce(T, Active<'_, 'c, T, Q, O>)) -> Step {
        self.worker.step_late(run)
    }

    /// Takes a task that is for this worker alone.
    pub fn take_mail(&mut self) -> Option<T> {
        self.worker.take_mail()
    }

    /// Takes a task that should not wait for what is in the worker's own queue: an urgent one, or one from the
    /// worker's box. It runs inside of the present task.
    #[inline]
    pub fn take_pressing(&mut self) -> Option<T> {
        let turn = self.worker.choice.turns.tick();
        if turn || self.worker.core.flags().read().presses() {
            self.worker.take_inside()
        } else {
            None
        }
    }

    /// Whether the worker may go on with what is in its own queue: nothing presses, and it is nobody's turn. If so it
    /// counts as a step.
    #[inline(always)]
    pub fn goes_on(&mut self) -> bool {
        !self.worker.core.flags().read().presses() && self.worker.choice.turns.tick_unless_due()
    }

    /// The worker is awake again.
    pub fn resume(&mut self, ticket: Ticket) {
        self.worker.resume(ticket);
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
        self.worker.core.notify(self.worker.id);
    }

    /// The waiting is over: the worker goes on with its task, whatever it was about to do.
    pub fn settle(&mut self) {
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
            worker.core.notify(worker.id);
        }
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
        core.notify(worker.id);
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
        core.tell_of_box(worker.id, owner);
    }

    /// Spawns a task into the injector: behind everything that came from outside before.
    pub fn spawn_global(&mut self, task: T) {
        let worker = &mut *self.worker;
        worker.core.injector.push_always([task]);
        worker.count += 1;
        worker.core.observer.event(worker.id, Event::SpawnedGlobal);
        worker.core.notify(worker.id);
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
        worker.core.notify(worker.id);
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

impl<T: Send, O: Observer> Active<'_, '_, T, PerWorker, O> {
    /// Queues a *part* of the present task: something that the task will not finish without. Parts are
    /// not counted; whoever runs one says [`is_part`](Self::is_part). The mark is for
    /// [`Owner::retract`](super::Owner::retract).
    ///
    /// # Errors
    /// The part, when the queue must grow or is full: then [`push_part_slowly`](Self::push_part_slowly). In two
    /// pieces, so that the caller needs no registers that outlive a call to the slow one.
    #[inline(always)]
    pub fn push_part(&mut self, part: T) -> Result<Mark, T> {
        let core = self.worker.core;
        let mark = self.worker.queue.owner().push_quickly(part)?;
        if core.must_notify() {
            core.notify_with_care(self.worker.id);
        }
        Ok(mark)
    }

    /// [`push_part`](Self::push_part) that lets the queue grow.
    ///
    /// # Errors
    /// The part, when the queue is full.
    #[cold]
    pub fn push_part_slowly(&mut self, part: T) -> Result<Mark, T> {
        let mark = self.worker.queue.owner().push_marked(part)?;
        self.worker.core.notify(self.worker.id);
        Ok(mark)
    }
}

impl<T: Send, Q: Strategy, O: Observer> Drop for Active<'_, '_, T, Q, O> {
    #[inline(always)]
    fn drop(&mut self) {
        self.worker.count -= 1;
        self.worker
            .core
            .observer
            .event(self.worker.id, Event::Finished);
    }
}

impl<T: Send, Q: Strategy, O: Observer> fmt::Debug for Active<'_, '_, T, Q, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Active").field(&self.worker).finish()
    }
}
