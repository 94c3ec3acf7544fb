//! filch, with each way to submit a task.

use super::{Pending, Submits};
use crate::{countdown::Countdown, pin::Placement};
use filch::{CancelToken, Pool, PoolBuilder, Priority, TaskHandle, submit::TaskBuilder};
use std::{collections::VecDeque, marker::PhantomData};

/// How a task is submitted.
pub(crate) trait Way: 'static {
    fn settings(builder: PoolBuilder) -> PoolBuilder {
        builder
    }

    /// Configures the `nth` task of a thread.
    fn describe<'p, F>(
        task: TaskBuilder<'p, F>,
        _shared: &Shared,
        _nth: usize,
    ) -> TaskBuilder<'p, F>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        task
    }

    #[inline(always)]
    fn submit<F>(shared: &Shared, nth: usize, task: F) -> TaskHandle<u64>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        let task = Self::describe(shared.pool.task(task), shared, nth);
        task.submit().expect("the pool is open")
    }

    #[inline(always)]
    fn detach(shared: &Shared, task: impl FnOnce() + Send + 'static) {
        shared.pool.submit(task).detach();
    }
}

/// State shared by all submitting threads.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    token: CancelToken,
}

pub(crate) struct Filch<W>(PhantomData<W>);

impl<W: Way> Submits for Filch<W> {
    type Pool = Shared;
    type Pending<'p> = Handles<'p, W>;

    fn pool(workers: usize) -> Shared {
        let builder = Pool::builder()
            .workers(workers)
            .on_start(|worker| Placement::Pinned.place_worker(worker));
        Shared {
            pool: W::settings(builder).build().expect("the settings are fine"),
            token: CancelToken::new(),
        }
    }

    fn pending(shared: &Shared) -> Handles<'_, W> {
        Handles {
            shared,
            submitted: 0,
            handles: VecDeque::new(),
            way: PhantomData,
        }
    }

    #[inline(always)]
    fn detach(shared: &Shared, task: impl FnOnce() + Send + 'static) {
        W::detach(shared, task);
    }

    /// Drains the queue: a task that was run by the thread that joined it has left an empty entry
    /// there, which a worker discards.
    fn settle(shared: &Shared) {
        let last = Countdown::new(1);
        let task = shared.pool.task(|| last.one()).priority(Priority::Low);
        task.submit().expect("the pool is open").detach();
        last.wait();
    }
}

pub(crate) struct Handles<'p, W> {
    shared: &'p Shared,
    submitted: usize,
    handles: VecDeque<TaskHandle<u64>>,
    way: PhantomData<W>,
}

impl<W: Way> Pending for Handles<'_, W> {
    #[inline(always)]
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static) {
        let handle = W::submit(self.shared, self.submitted, task);
        self.handles.push_back(handle);
        self.submitted += 1;
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        joined(self.handles.pop_front().expect("a task is pending"))
    }

    #[inline(always)]
    fn finish(self) -> u64 {
        self.handles.into_iter().map(joined).sum()
    }
}

#[inline(always)]
fn joined(handle: TaskHandle<u64>) -> u64 {
    handle.join().expect("no task panics or is cancelled")
}

/// All priorities in turn.
pub(crate) struct Turns;

impl Way for Turns {
    #[inline(always)]
    fn describe<'p, F>(task: TaskBuilder<'p, F>, _shared: &Shared, nth: usize) -> TaskBuilder<'p, F>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        task.priority(Priority::ALL[nth % Priority::ALL.len()])
    }
}

/// A priority other than the default.
pub(crate) struct Prioritised;

impl Way for Prioritised {
    #[inline(always)]
    fn describe<'p, F>(
        task: TaskBuilder<'p, F>,
        _shared: &Shared,
        _nth: usize,
    ) -> TaskBuilder<'p, F>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        task.priority(Priority::High)
    }
}

/// With a name.
pub(crate) struct Named;

impl Way for Named {
    #[inline(always)]
    fn describe<'p, F>(
        task: TaskBuilder<'p, F>,
        _shared: &Shared,
        _nth: usize,
    ) -> TaskBuilder<'p, F>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        task.name("task")
    }
}

/// With a token that all tasks share.
pub(crate) struct WithToken;

impl Way for WithToken {
    #[inline(always)]
    fn describe<'p, F>(task: TaskBuilder<'p, F>, shared: &Shared, _nth: usize) -> TaskBuilder<'p, F>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        task.token(&shared.token)
    }
}

/// With all three.
pub(crate) struct Everything;

impl Way for Everything {
    #[inline(always)]
    fn describe<'p, F>(task: TaskBuilder<'p, F>, shared: &Shared, _nth: usize) -> TaskBuilder<'p, F>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        task.name("task")
            .priority(Priority::High)
            .token(&shared.token)
    }
}

/// Without settings.
pub(crate) struct Plain;

impl Way for Plain {
    #[inline(always)]
    fn submit<F>(shared: &Shared, _nth: usize, task: F) -> TaskHandle<u64>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        shared.pool.submit(task)
    }
}

/// Without settings, and detached tasks without a handle from the start.
pub(crate) struct Spawned;

impl Way for Spawned {
    #[inline(always)]
    fn submit<F>(shared: &Shared, nth: usize, task: F) -> TaskHandle<u64>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        Plain::submit(shared, nth, task)
    }

    #[inline(always)]
    fn detach(shared: &Shared, task: impl FnOnce() + Send + 'static) {
        shared.pool.spawn(task);
    }
}

/// Without settings, in a pool with a capacity of `CAPACITY` tasks: a submitter waits while it is
/// full.
pub(crate) struct Bounded<const CAPACITY: usize>;

impl<const CAPACITY: usize> Way for Bounded<CAPACITY> {
    fn settings(builder: PoolBuilder) -> PoolBuilder {
        builder.task_capacity(CAPACITY)
    }

    #[inline(always)]
    fn submit<F>(shared: &Shared, nth: usize, task: F) -> TaskHandle<u64>
    where
        F: FnOnce() -> u64 + Send + 'static,
    {
        Plain::submit(shared, nth, task)
    }
}
