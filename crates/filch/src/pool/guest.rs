//! Threads from outside that become workers for the duration of a call.
//!
//! A call into the pool from a thread that is not one of its workers does not block while the
//! workers run it: the thread takes one of the guest slots, works like any other worker until its
//! call is done, and leaves. Jobs left in its queue go to the other workers. When all slots are
//! taken, the caller does its work alone.

use super::{
    Pool,
    absent::end_stay,
    build::Jobs,
    builder::PoolBuilder,
    context_call::{ContextCall, call_once},
    current_task,
    inner::{Inner, Job, WorkerContext},
};
use crate::{
    base::{thread, unwind},
    engine::{PerWorker, Step},
    observe::Counters,
    threads::{Maintenance, Work, drive, set_current_worker},
};
use std::{ptr, sync::Arc};

thread_local! {
    /// Registered on a thread that stays in a pool, so that the pool learns of its end.
    static STAYS: Stays = const { Stays };
}

struct Stays;

impl Drop for Stays {
    fn drop(&mut self) {
        unwind::or_abort(end_stay);
    }
}

impl WorkerContext<'_, '_> {
    /// Whether this thread is one of `pool`'s own workers and runs a task of it.
    pub(crate) fn is_worker_inside(&self, pool: &Inner) -> bool {
        let own =
            |context: &WorkerContext<'_, '_>| ptr::eq(context.pool(), pool) && !context.is_guest();
        own(self) || self.enclosing().any(own)
    }

    /// Whether this is the permanent context, made by
    /// [`enter_permanently`](Self::enter_permanently), of the thread in `pool`.
    pub(super) fn is_permanent_in(&self, pool: &Inner) -> bool {
        ptr::eq(self.pool(), pool) && pool.base.get() == Some(&ptr::from_ref(self).addr())
    }

    /// Detaches this thread, which is here [permanently](Self::enter_permanently), so that the pool
    /// may end without it. From now on the thread is the worker of a separate pool.
    pub(super) fn retire(&self) {
        // With one worker, no other thread would run the remaining jobs.
        while self.pool().live_workers() == 1 && self.help_once() {}
        self.running().retire();
        self.retired.set(true);
        PoolBuilder::move_to_own_pool(self.pool());
    }

    /// Flushes the count, after the thread has run a job of a pool that it has
    /// [retired](Self::retire) from: the pool may end.
    pub(super) fn flush_if_retired(&self) {
        if self.retired.get() {
            self.running().flush_count();
        }
    }
}

/// A guest slot that was taken.
struct GuestSlot<'a>(&'a Inner, usize);

impl Drop for GuestSlot<'_> {
    fn drop(&mut self) {
        self.0.guests.give_back(self.1);
        self.0.notify_substitute();
        self.0.notify_host_of_remaining();
    }
}

impl Inner {
    /// Calls `f` as a worker of this pool, or alone if no guest slot is free.
    pub(crate) fn as_guest<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        call_once(f, |f| self.call_as_guest(f))
    }

    /// As [`as_guest`](Self::as_guest).
    pub(super) fn call_as_guest(&self, f: ContextCall<'_>) {
        match self.guests.take() {
            Some(slot) => self.in_free_slot(slot, f),
            None => self.in_separate_pool(f),
        }
    }

    /// Calls `f` as a worker of this pool, if a guest slot is free.
    pub(super) fn try_as_guest<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> Option<R> {
        let slot = self.guests.take()?;
        Some(self.in_taken_slot(slot, f))
    }

    /// Calls `f` as a worker of this pool, in a guest slot that was taken, and frees the slot.
    pub(super) fn in_taken_slot<R>(
        &self,
        slot: usize,
        f: impl FnOnce(&WorkerContext<'_, '_>) -> R,
    ) -> R {
        call_once(f, |f| self.in_free_slot(slot, f))
    }

    /// Waits for a guest slot.
    fn slot(&self) -> usize {
        loop {
            match self.guests.take() {
                Some(slot) => return slot,
                None => thread::yield_now(), // until a guest leaves
            }
        }
    }

    /// Calls `f` in a guest slot that was taken, and frees the slot.
    fn in_free_slot(&self, slot: usize, f: ContextCall<'_>) {
        let slot = GuestSlot(self, slot);
        self.in_slot(slot.1, f);
    }

    /// Drives the worker in a guest slot that was taken, until `work` leaves or the pool is
    /// finished, and frees the slot.
    pub(super) fn drive_in_slot(
        &self,
        slot: usize,
        work: &impl Work<Job, (), PerWorker, Counters>,
    ) {
        let slot = GuestSlot(self, slot);
        let id = self.max_threads() + slot.1;
        self.parkers.register(id);
        let mut worker = self.core.enter(id);
        // As a guest does.
        worker.interrupt(thread::yield_now, |mut running| {
            running.queue().steal_one_by_one();
        });
        drive(worker, &self.parkers, work, (), Maintenance::new());
        // It may have held the driver last, while others wait for it.
        self.parkers.hand_over();
    }

    /// Calls `f` as the worker in a slot that the caller owns.
    pub(super) fn in_slot(&self, slot: usize, f: ContextCall<'_>) {
        let id = self.max_threads() + slot;
        self.parkers.register(id);
        let mut worker = self.core.enter(id);
        worker.run_as_worker(thread::yield_now, |running| {
            WorkerContext::enter(running, self, |context| {
                // A guest runs every job that it has taken before it leaves: a waiter may depend on
                // such a job, and would not search for it in the queue that receives the guest's
                // jobs.
                context.steal_one_by_one();
                context.isolate_if_held();
                f(context);
            });
        });
        if self.core.is_stopped() || self.live_workers() == 0 && !self.core.is_open() {
            // No worker is left that could take over the jobs. They are not part of the task that
            // the caller runs.
            let _aside = current_task::set_aside();
            while let Step::Ran = worker.step_after_stop(|job, running| {
                WorkerContext::enter(running, self, |context| job.run(context));
            }) {}
        }
    }

    /// Makes the calling thread worker 0 permanently. The pool is never freed.
    pub(super) fn make_current_thread_worker(self: &Arc<Self>) {
        let inner: &'static Arc<Self> = Box::leak(Box::new(self.clone()));
        inner.parkers.register(0);
        set_current_worker(Arc::as_ptr(&inner.core) as usize, Some(0));
        let worker = Box::leak(Box::new(inner.core.enter(0)));
        WorkerContext::enter_permanently(worker.become_permanent(), inner);
        // In the destructor of a thread-local that is dropped later, the registration would fail.
        let _ = STAYS.try_with(|_| ());
    }

    /// Runs `f` in a separate pool of one worker, because all guest slots are taken.
    #[cold]
    fn in_separate_pool(&self, f: ContextCall<'_>) {
        match Pool::builder().workers(0).substituting(self).build() {
            Ok(pool) => pool.inner().call_as_guest(f),
            Err(error) => unreachable!("a pool without threads can always be built: {error}"),
        }
    }

    /// Runs all jobs on the calling thread until the pool is finished: for a pool without threads.
    pub(super) fn run_until_finished(self: &Arc<Self>) {
        // What runs here is not part of the task that the caller runs.
        let _aside = current_task::set_aside();
        let slot = self.slot();
        let id = self.max_threads() + slot;
        self.parkers.register(id);
        let (jobs, maintenance) = (Jobs(self.clone()), Maintenance::in_between());
        drive(self.core.enter(id), &self.parkers, &jobs, (), maintenance);
        self.guests.give_back(slot);
    }
}
