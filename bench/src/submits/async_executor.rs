//! async-executor: tasks are futures that are ready at their first poll.

use super::{Pending, Submits};
use crate::pin::Placement;
use async_executor::{Executor, StaticExecutor, Task};
use futures_lite::future::{block_on, poll_fn};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, mpsc},
    task::{Poll, Waker},
    thread::{self, JoinHandle},
};

pub(crate) struct AsyncExecutor;

impl Submits for AsyncExecutor {
    type Pool = Workers<Arc<Executor<'static>>>;
    type Pending<'p> = Tasks<'p>;

    fn pool(workers: usize) -> Self::Pool {
        Workers::owned(workers)
    }

    fn pending(workers: &Self::Pool) -> Tasks<'_> {
        Tasks {
            executor: &workers.executor,
            tasks: VecDeque::new(),
        }
    }

    #[inline(always)]
    fn detach(workers: &Self::Pool, task: impl FnOnce() + Send + 'static) {
        workers.executor.spawn(async { task() }).detach();
    }
}

pub(crate) struct Tasks<'p> {
    executor: &'p Executor<'static>,
    tasks: VecDeque<Task<u64>>,
}

impl Pending for Tasks<'_> {
    #[inline(always)]
    fn submit(&mut self, task: impl FnOnce() -> u64 + Send + 'static) {
        self.tasks.push_back(self.executor.spawn(async { task() }));
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        block_on(self.tasks.pop_front().expect("a task is pending"))
    }

    #[inline(always)]
    fn finish(self) -> u64 {
        block_on(async {
            let mut sum = 0;
            for task in self.tasks {
                sum += task.await;
            }
            sum
        })
    }
}

/// An executor with threads that run it until it is dropped.
pub(crate) struct Workers<E> {
    pub(crate) executor: E,
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers<Arc<Executor<'static>>> {
    /// An executor that drops its tasks when it is dropped.
    pub(crate) fn owned(workers: usize) -> Self {
        Self::start(workers, Arc::default(), |executor, stop| {
            block_on(executor.run(stop.asked()));
        })
    }
}

impl Workers<&'static StaticExecutor> {
    /// An executor that is never dropped and keeps no list of its tasks.
    pub(crate) fn leaked(workers: usize) -> Self {
        let executor: &'static StaticExecutor = Box::leak(Box::default());
        Self::start(workers, executor, |executor, stop| {
            block_on(executor.run(stop.asked()));
        })
    }
}

impl<E: Clone + Send + 'static> Workers<E> {
    fn start(workers: usize, executor: E, run: fn(&E, &Stop)) -> Self {
        let stop = Arc::new(Stop::default());
        let (ready, started) = mpsc::channel();
        let threads = (0..workers).map(|worker| {
            let (executor, stop, ready) = (executor.clone(), stop.clone(), ready.clone());
            thread::spawn(move || {
                Placement::Pinned.place_worker(worker);
                ready.send(()).expect("we wait for every worker");
                run(&executor, &stop);
            })
        });
        let threads: Vec<_> = threads.collect();
        (0..workers).for_each(|_| started.recv().expect("every worker starts"));
        Self {
            executor,
            stop,
            threads,
        }
    }
}

impl<E> Drop for Workers<E> {
    fn drop(&mut self) {
        self.stop.ask();
        for thread in self.threads.drain(..) {
            thread.join().expect("no worker panics");
        }
    }
}

/// Signals the workers to exit.
#[derive(Default)]
struct Stop(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    is_over: bool,
    wakers: Vec<Waker>,
}

impl Stop {
    fn ask(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_over = true;
        waiting.wakers.drain(..).for_each(Waker::wake);
    }

    /// Is ready when the workers are to exit. A worker polls it once every 200 tasks.
    fn asked(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.is_over {
                return Poll::Ready(());
            }
            let mut wakers = waiting.wakers.iter();
            if !wakers.any(|waker| waker.will_wake(cx.waker())) {
                waiting.wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}
