//! A traditional pool whose workers share one queue: a lock, and a condition variable to sleep on.

use crate::pin::Placement;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A queue, and threads that take tasks from it until it is dropped.
pub(super) struct ThreadGroup {
    pub(super) queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl ThreadGroup {
    /// Starts `workers - 1` threads. The caller is the remaining worker, while it waits.
    pub(super) fn start(workers: usize) -> Self {
        let queue = Arc::new(Queue::default());
        let threads = (1..workers).map(|worker| {
            let queue = queue.clone();
            thread::spawn(move || {
                Placement::Joined.place_worker(worker);
                queue.work();
            })
        });
        Self {
            threads: threads.collect(),
            queue,
        }
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().expect("no task panics");
        }
    }
}

type Job = Box<dyn FnOnce(&Queue) + Send>;

#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    /// Notified when a job is enqueued, the last job of a set is done, or the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

/// Tasks that are waited for together.
#[derive(Default)]
pub(super) struct Set {
    left: AtomicU64,
    sum: AtomicU64,
}

impl Queue {
    /// Enqueues a task.
    pub(super) fn submit(&self, set: &Arc<Set>, task: impl FnOnce(&Self) -> u64 + Send + 'static) {
        let set = set.clone();
        // Relaxed: only the submitting thread waits, and the lock publishes the job.
        set.left.fetch_add(1, Ordering::Relaxed);
        let job = move |queue: &Self| {
            let result = task(queue);
            // Relaxed: the decrement below publishes it.
            set.sum.fetch_add(result, Ordering::Relaxed);
            // AcqRel: pairs with the load in `wait`, through the decrements of the tasks in
            // between.
            if set.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                // The waiter holds the lock between its check and its sleep, so after this it has
                // observed the decrement or sleeps.
                drop(queue.lock());
                queue.changed.notify_all();
            }
        };
        self.lock().waiting.push_back(Box::new(job));
        self.changed.notify_one();
    }

    /// Runs other tasks until those of `set` are done, and returns the sum of their results.
    pub(super) fn wait(&self, set: &Set) -> u64 {
        let mut jobs = self.lock();
        // Acquire: pairs with the decrement of the last task.
        while set.left.load(Ordering::Acquire) > 0 {
            // The newest job, which is the caller's own or was submitted later. With the oldest job
            // first, waiting tasks would accumulate on the stack, up to one per inner node of the
            // tree.
            jobs = match jobs.waiting.pop_back() {
                Some(job) => self.run(job, jobs),
                None => self.sleep(jobs),
            };
        }
        if !jobs.waiting.is_empty() {
            // This thread may have consumed a notification for the job.
            self.changed.notify_one();
        }
        // Relaxed: all tasks are done, as the acquire load has observed.
        set.sum.load(Ordering::Relaxed)
    }

    /// The loop of a worker thread: runs the oldest task first.
    fn work(&self) {
        let mut jobs = self.lock();
        loop {
            jobs = match jobs.waiting.pop_front() {
                Some(job) => self.run(job, jobs),
                None if jobs.closed => return,
                None => self.sleep(jobs),
            };
        }
    }

    fn run<'a>(&'a self, job: Job, jobs: MutexGuard<'a, Jobs>) -> MutexGuard<'a, Jobs> {
        drop(jobs);
        job(self);
        self.lock()
    }

    fn sleep<'a>(&'a self, jobs: MutexGuard<'a, Jobs>) -> MutexGuard<'a, Jobs> {
        let jobs = self.changed.wait(jobs);
        jobs.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
