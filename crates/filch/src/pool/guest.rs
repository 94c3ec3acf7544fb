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
    current_task,
    inner::{Inner, WorkerContext},
};
use crate::{
    base::{thread, unwind},
    engine::Step,
    threads::{Maintenance, drive, stay},
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
        own(self) || self.below().any(own)
    }

    /// Whether this is the permanent context, made by [`stay`](Self::stay), of the thread in
    /// `pool`.
    pub(super) fn stays_in(&self, pool: &Inner) -> bool {
        ptr::eq(self.pool(), pool) && pool.base.get() == Some(&ptr::from_ref(self).addr())
    }

    /// Detaches this thread, which [stays](Self::stay) here, so that the pool may end without it.
    /// From now on the thread is the worker of a separate pool.
    pub(super) fn retire(&self) {
        // With one worker, no other thread would run the remaining jobs.
        while self.pool().threads() == 1 && self.help_once() {}
        self.running().retire();
        self.retired.set(true);
        PoolBuilder::stand_alone(self.pool());
    }

    /// Takes no part any more, after it has run a job of a pool that the thread has
    /// [retired](Self::retire) from: the pool may end.
    pub(super) fn rest_if_retired(&self) {
        if self.retired.get() {
            self.running().flush_count();
        }
    }
}

impl Inner {
    /// Calls `f` as a worker of this pool, or alone if no guest slot is free.
    pub(crate) fn as_guest<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        match self.guests.take() {
            Some(slot) => self.in_free_slot(slot, f),
            None => self.in_separate_pool(f),
        }
    }

    /// Calls `f` as a worker of this pool, if a guest slot is free.
    pub(super) fn try_as_guest<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> Option<R> {
        Some(self.in_free_slot(self.guests.take()?, f))
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
    fn in_free_slot<R>(&self, slot: usize, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        struct GuestSlot<'a>(&'a Inner, usize);
        impl Drop for GuestSlot<'_> {
            fn drop(&mut self) {
                self.0.guests.give_back(self.1);
            }
        }
        let slot = GuestSlot(self, slot);
        self.in_slot(slot.1, f)
    }

    /// Calls `f` as the worker in a slot that the caller owns.
    pub(super) fn in_slot<R>(&self, slot: usize, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        let id = self.threads + slot;
        self.parkers.register(id);
        let mut worker = self.core.enter(id);
        let result = worker.adopt(thread::yield_now, |running| {
            WorkerContext::enter(running, self, |context| {
                // A guest runs every job that it has taken before it leaves: a waiter may depend on
                // such a job, and would not search for it in the queue that receives the guest's
                // jobs.
                context.steal_one_by_one();
                context.isolate_if_held();
                f(context)
            })
        });
        if self.core.is_stopped() || self.threads == 0 && !self.core.is_open() {
            // No worker is left that could take over the jobs. They are not part of the task that
            // the caller runs.
            let _aside = current_task::set_aside();
            while let Step::Ran = worker.step_late(|job, running| {
                WorkerContext::enter(running, self, |context| job.run(context));
            }) {}
        }
        result
    }

    /// Makes the calling thread worker 0 permanently. The pool is never freed.
    pub(super) fn adopt_current_thread(self: &Arc<Self>) {
        let inner: &'static Arc<Self> = Box::leak(Box::new(self.clone()));
        inner.parkers.register(0);
        stay(Arc::as_ptr(&inner.core) as usize, Some(0));
        let worker = Box::leak(Box::new(inner.core.enter(0)));
        WorkerContext::stay(worker.stay(), inner);
        // In the destructor of a thread-local that is dropped later, the registration would fail.
        let _ = STAYS.try_with(|_| ());
    }

    /// Runs `f` in a separate pool of one worker, because all guest slots are taken.
    #[cold]
    fn in_separate_pool<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        match Pool::builder().workers(0).instead_of(self).build() {
            Ok(pool) => pool.inner().as_guest(f),
            Err(error) => unreachable!("a pool without threads can always be built: {error}"),
        }
    }

    /// Runs all jobs on the calling thread until the pool is finished: for a pool without threads.
    pub(super) fn run_out(self: &Arc<Self>) {
        // What runs here is not part of the task that the caller runs.
        let _aside = current_task::set_aside();
        let slot = self.slot();
        let id = self.threads + slot;
        self.parkers.register(id);
        let (jobs, maintenance) = (Jobs(self.clone()), Maintenance::in_between());
        drive(&self.core, id, &self.parkers, &jobs, (), maintenance);
        self.guests.give_back(slot);
    }
}
