//! An executor on crossbeam's parts, written for this benchmark: the common design of a
//! work-stealing executor with a shared in-flight counter.
//!
//! Each worker has a LIFO deque of crossbeam's, and tasks from outside go to one injector of
//! crossbeam's. One atomic word holds the number of tasks in flight and whether the executor
//! accepts more; every local spawn increments it and every completion decrements it. Each spawn
//! from outside unparks one worker in round-robin order, parked or not, and so does a worker after
//! every 32 tasks that it has spawned in a row. A worker without work spins, then parks for 200 µs
//! at a time.

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::{
    CachePadded,
    sync::{Parker, Unparker},
};
use std::{
    any::Any,
    fmt, hint,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

// Fixed parameters of the design, not tuned for this benchmark.
const ACCEPTING: usize = 1;
const ONE_TASK: usize = 2;
const WAKE_ON_HOARD: u32 = 32;
const STEAL_TRIES: u32 = 4;
const SPIN_ROUNDS: u32 = 200;
const YIELD_EVERY: u32 = 16;
const PARK_TIMEOUT: Duration = Duration::from_micros(200);
const SEED: u64 = 0x853c_49e6_748f_ea9b;

struct Shared<T> {
    injector: Injector<T>,
    stealers: Vec<Stealer<T>>,
    /// Twice the number of tasks in flight, plus one while the executor accepts tasks.
    state: CachePadded<AtomicUsize>,
    done: AtomicBool,
    unparkers: Vec<Unparker>,
    next_unpark: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The interface of a task to the worker that runs it.
pub(crate) struct Context<T, S> {
    pub(crate) scratch: S,
    id: usize,
    rng: u64,
    local: Worker<T>,
    parker: Parker,
    shared: Arc<Shared<T>>,
    spawns_since_wake: u32,
}

/// The executor. Workers start with it and end with [`join`](Self::join).
pub(crate) struct Executor<T, S> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<S>>,
}

impl<T: Send + 'static, S: Send + 'static> Executor<T, S> {
    /// Starts `workers` threads. Each calls `on_start` and creates its scratch by `scratch`;
    /// `runner` runs a task.
    pub(crate) fn new(
        workers: usize,
        on_start: impl Fn(usize) + Clone + Send + 'static,
        scratch: impl Fn() -> S + Clone + Send + 'static,
        runner: impl Fn(T, &mut Context<T, S>) + Clone + Send + 'static,
    ) -> Self {
        let deques: Vec<_> = (0..workers).map(|_| Worker::new_lifo()).collect();
        let parkers: Vec<_> = (0..workers).map(|_| Parker::new()).collect();
        let shared = Arc::new(Shared {
            injector: Injector::new(),
            stealers: deques.iter().map(Worker::stealer).collect(),
            state: CachePadded::new(AtomicUsize::new(ACCEPTING)),
            done: AtomicBool::new(false),
            unparkers: parkers.iter().map(|p| p.unparker().clone()).collect(),
            next_unpark: AtomicUsize::new(0),
            panic: Mutex::new(None),
        });
        let start = |(id, (local, parker))| {
            let shared = shared.clone();
            let (on_start, scratch, runner) = (on_start.clone(), scratch.clone(), runner.clone());
            thread::spawn(move || {
                on_start(id);
                let mut context = Context {
                    scratch: scratch(),
                    id,
                    rng: SEED.wrapping_add(id as u64),
                    local,
                    parker,
                    shared,
                    spawns_since_wake: 0,
                };
                context.work(&runner);
                context.scratch
            })
        };
        let workers = deques.into_iter().zip(parkers).enumerate();
        Self {
            threads: workers.map(start).collect(),
            shared,
        }
    }

    /// Spawns a task from outside, or returns it if the executor is closed.
    pub(crate) fn spawn(&self, task: T) -> Result<(), T> {
        if !self.shared.enter(1) {
            return Err(task);
        }
        self.shared.injector.push(task);
        self.shared.unpark_one();
        Ok(())
    }

    /// Spawns all tasks, or none.
    pub(crate) fn spawn_batch(&self, tasks: Vec<T>) -> Result<(), Vec<T>> {
        let n = tasks.len();
        if !self.shared.enter(n) {
            return Err(tasks);
        }
        for task in tasks {
            self.shared.injector.push(task);
        }
        for _ in 0..n.min(self.shared.unparkers.len()) {
            self.shared.unpark_one();
        }
        Ok(())
    }

    /// Stops accepting tasks, runs the remaining ones, and returns the scratch of each worker.
    pub(crate) fn join(self) -> Vec<S> {
        let before = self.shared.state.fetch_and(!ACCEPTING, Ordering::AcqRel);
        if before / ONE_TASK == 0 {
            self.shared.finish();
        }
        let ends = self.threads.into_iter().map(JoinHandle::join);
        let scratch = ends.map(|end| end.expect("a worker contains the panics of its tasks"));
        let scratch = scratch.collect();
        let panic = self.shared.panic.lock();
        if let Some(panic) = panic.unwrap_or_else(PoisonError::into_inner).take() {
            panic::resume_unwind(panic);
        }
        scratch
    }
}

impl<T, S> fmt::Debug for Executor<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

impl<T> Shared<T> {
    /// Counts `n` more tasks in flight, unless the executor is closed.
    fn enter(&self, n: usize) -> bool {
        let more = |state| (state & ACCEPTING != 0).then_some(state + n * ONE_TASK);
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_ok()
    }

    fn unpark_one(&self) {
        let turn = self.next_unpark.fetch_add(1, Ordering::Relaxed);
        self.unparkers[turn % self.unparkers.len()].unpark();
    }

    fn finish(&self) {
        self.done.store(true, Ordering::Release);
        self.unparkers.iter().for_each(Unparker::unpark);
    }
}

impl<T, S> Context<T, S> {
    /// Spawns a task into the worker's own deque.
    #[inline]
    pub(crate) fn spawn_local(&mut self, task: T) {
        self.shared.state.fetch_add(ONE_TASK, Ordering::AcqRel);
        self.local.push(task);
        self.spawns_since_wake += 1;
        if self.spawns_since_wake >= WAKE_ON_HOARD {
            self.spawns_since_wake = 0;
            self.shared.unpark_one();
        }
    }

    fn work(&mut self, runner: &impl Fn(T, &mut Self)) {
        let mut idle_rounds = 0;
        while !self.shared.done.load(Ordering::Acquire) {
            if let Some(task) = self.find() {
                idle_rounds = 0;
                self.run(task, runner);
            } else {
                idle_rounds += 1;
                self.idle(idle_rounds);
            }
        }
    }

    /// Searches the own deque, then the injector, then some of the other deques.
    #[inline]
    fn find(&mut self) -> Option<T> {
        if let Some(task) = self.local.pop() {
            return Some(task);
        }
        loop {
            match self.shared.injector.steal_batch_and_pop(&self.local) {
                Steal::Success(task) => return Some(task),
                Steal::Empty => break,
                Steal::Retry => {}
            }
        }
        let others = self.shared.stealers.len() - 1;
        if others == 0 {
            return None;
        }
        for _ in 0..STEAL_TRIES {
            let victim = self.random() as usize % others;
            let victim = victim + usize::from(victim >= self.id);
            if let Steal::Success(task) =
                self.shared.stealers[victim].steal_batch_and_pop(&self.local)
            {
                return Some(task);
            }
        }
        None
    }

    #[inline]
    fn run(&mut self, task: T, runner: &impl Fn(T, &mut Self)) {
        let end = panic::catch_unwind(AssertUnwindSafe(|| runner(task, self)));
        let before = self.shared.state.fetch_sub(ONE_TASK, Ordering::AcqRel);
        if before == ONE_TASK {
            self.shared.finish();
        }
        if let Err(panic) = end {
            let slot = self.shared.panic.lock();
            slot.unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(panic);
            self.shared.finish();
        }
    }

    #[cold]
    fn idle(&mut self, rounds: u32) {
        if rounds <= SPIN_ROUNDS {
            hint::spin_loop();
            return;
        }
        if rounds.is_multiple_of(YIELD_EVERY) {
            thread::yield_now();
        }
        self.parker.park_timeout(PARK_TIMEOUT);
    }

    /// An xorshift generator.
    fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng
    }
}

#[cfg(test)]
mod tests {
    use super::Executor;

    #[test]
    fn everything_runs_once() {
        for workers in [1, 3] {
            let executor = Executor::new(
                workers,
                |_| (),
                || 0_u64,
                |n: u64, cx| {
                    cx.scratch += 1;
                    (0..n).for_each(|child| cx.spawn_local(child));
                },
            );
            executor.spawn(10).unwrap();
            executor.spawn_batch(vec![0; 1000]).unwrap();
            assert_eq!(executor.join().iter().sum::<u64>(), 1024 + 1000);
        }
    }

    #[test]
    #[should_panic(expected = "a task that fails")]
    fn a_panic_reaches_join() {
        let executor = Executor::new(2, |_| (), || (), |(), _| panic!("a task that fails"));
        executor.spawn(()).unwrap();
        executor.join();
    }
}
