//! Folds whose tasks are in a queue strategy of the program.

use crate::support::{LIMIT, pool, within};
use filch::{
    BuildError, Fold,
    engine::{Acquired, Hunt, Queue, Strategy},
    fold,
    fold::{FoldStrategy, Tasks},
};
use std::{
    collections::VecDeque,
    mem,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// One stack for all workers.
pub(crate) struct OneStack;

pub(crate) struct StackHandle<'a, T>(&'a Mutex<Vec<T>>);

impl Strategy for OneStack {
    type Spec = ();
    type Store<T: Send> = Mutex<Vec<T>>;
    type Handle<'a, T: Send + 'a> = StackHandle<'a, T>;

    fn store<T: Send>((): &(), _workers: usize) -> Result<Mutex<Vec<T>>, BuildError> {
        Ok(Mutex::default())
    }

    fn handle<T: Send>(store: &Mutex<Vec<T>>, _worker: usize) -> StackHandle<'_, T> {
        StackHandle(store)
    }

    fn has_work<T: Send>(store: &Mutex<Vec<T>>) -> bool {
        !store.lock().unwrap().is_empty()
    }

    fn reset<T: Send>(store: &Mutex<Vec<T>>, give: impl FnMut(T)) {
        mem::take(&mut *store.lock().unwrap())
            .into_iter()
            .for_each(give);
    }
}

impl<T: Send> Queue<T> for StackHandle<'_, T> {
    fn push(&mut self, task: T) -> Result<(), T> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        self.0.lock().unwrap().pop()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.pop()
    }

    fn try_acquire(&mut self, _hunt: &mut Hunt<'_>) -> Acquired<T> {
        Acquired::Nothing
    }

    fn drain_own(&mut self, _give: impl FnMut(T)) {}
}

/// A queue for each worker, from which others steal. If `SHORT`, the queue refuses tasks, and the
/// newest task is in the handle, where only its worker finds it. A second handle for one worker is
/// a panic, which ends the process.
pub(crate) struct Queues<const SHORT: bool>;

/// The longest queue of a worker if it is short.
const SHORT_LEN: usize = 3;

pub(crate) struct WorkerQueue<T> {
    tasks: Mutex<VecDeque<T>>,
    has_handle: AtomicBool,
}

pub(crate) struct QueueHandle<'a, T, const SHORT: bool> {
    queues: &'a [WorkerQueue<T>],
    worker: usize,
    newest: Option<T>,
}

impl<const SHORT: bool> Strategy for Queues<SHORT> {
    type Spec = ();
    type Store<T: Send> = Box<[WorkerQueue<T>]>;
    type Handle<'a, T: Send + 'a> = QueueHandle<'a, T, SHORT>;

    fn store<T: Send>((): &(), workers: usize) -> Result<Self::Store<T>, BuildError> {
        let queue = |_| WorkerQueue {
            tasks: Mutex::default(),
            has_handle: AtomicBool::new(false),
        };
        Ok((0..workers).map(queue).collect())
    }

    fn handle<T: Send>(store: &Self::Store<T>, worker: usize) -> QueueHandle<'_, T, SHORT> {
        let second = store[worker].has_handle.swap(true, Ordering::SeqCst);
        assert!(!second, "worker {worker} has a handle");
        QueueHandle {
            queues: store,
            worker,
            newest: None,
        }
    }

    fn has_work<T: Send>(store: &Self::Store<T>) -> bool {
        store
            .iter()
            .any(|queue| !queue.tasks.lock().unwrap().is_empty())
    }

    fn reset<T: Send>(store: &Self::Store<T>, mut give: impl FnMut(T)) {
        for queue in store {
            mem::take(&mut *queue.tasks.lock().unwrap())
                .into_iter()
                .for_each(&mut give);
        }
    }
}

impl<T, const SHORT: bool> Drop for QueueHandle<'_, T, SHORT> {
    fn drop(&mut self) {
        assert!(self.newest.is_none(), "a worker leaves with a task");
        self.queues[self.worker]
            .has_handle
            .store(false, Ordering::SeqCst);
    }
}

impl<T: Send, const SHORT: bool> Queue<T> for QueueHandle<'_, T, SHORT> {
    fn push(&mut self, task: T) -> Result<(), T> {
        let mut tasks = self.queues[self.worker].tasks.lock().unwrap();
        if SHORT && tasks.len() >= SHORT_LEN {
            return Err(task);
        }
        let queued = if SHORT {
            self.newest.replace(task)
        } else {
            Some(task)
        };
        tasks.extend(queued);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        // The one in the handle is left there, to be drained.
        self.queues[self.worker].tasks.lock().unwrap().pop_back()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.queues[self.worker].tasks.lock().unwrap().pop_front()
    }

    fn try_acquire(&mut self, hunt: &mut Hunt<'_>) -> Acquired<T> {
        while let Some(victim) = hunt.next_victim() {
            if let Some(task) = self.queues[victim].tasks.lock().unwrap().pop_front() {
                return Acquired::Task {
                    task,
                    victim,
                    moved: 0,
                };
            }
            if !hunt.attempt() {
                return Acquired::Unfinished;
            }
        }
        Acquired::Nothing
    }

    fn drain_own(&mut self, give: impl FnMut(T)) {
        self.newest.take().into_iter().for_each(give);
    }
}

/// A stack that loses every task.
struct Lossy;

struct LossyHandle;

impl Strategy for Lossy {
    type Spec = ();
    type Store<T: Send> = ();
    type Handle<'a, T: Send + 'a> = LossyHandle;

    fn store<T: Send>((): &(), _workers: usize) -> Result<(), BuildError> {
        Ok(())
    }

    fn handle<T: Send>((): &(), _worker: usize) -> LossyHandle {
        LossyHandle
    }

    fn has_work<T: Send>((): &()) -> bool {
        false
    }

    fn reset<T: Send>((): &(), _give: impl FnMut(T)) {}
}

impl<T> Queue<T> for LossyHandle {
    fn push(&mut self, task: T) -> Result<(), T> {
        drop(task);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        None
    }

    fn pop_oldest(&mut self) -> Option<T> {
        None
    }

    fn try_acquire(&mut self, _hunt: &mut Hunt<'_>) -> Acquired<T> {
        Acquired::Nothing
    }

    fn drain_own(&mut self, _give: impl FnMut(T)) {}
}

fn count_leaves<S: FoldStrategy>(workers: usize) -> u32 {
    let leaves = fold(
        |n: u32| 0..n,
        |n| u32::from(*n == 0),
        |sum, child| *sum += child,
        |sum| sum,
    );
    leaves.with::<S>().on(&pool(workers)).run(14)
}

#[test]
fn queues_of_the_program_hold_the_tasks_of_folds() {
    within(LIMIT, || {
        for workers in [1, 2, 3, 8] {
            assert_eq!(count_leaves::<Tasks<OneStack>>(workers), 1 << 13);
            assert_eq!(count_leaves::<Tasks<Queues<true>>>(workers), 1 << 13);
        }
    });
}

#[test]
fn a_function_that_waits_may_run_a_help_job_of_its_own_fold() {
    within(LIMIT, || {
        let pool = pool(2);
        let count = fold(
            |n: u32| 0..n,
            |_| pool.join(|| 1, || 0).0,
            |sum, child: u32| *sum += child,
            |sum| sum,
        );
        for _ in 0..20 {
            assert_eq!(count.with::<Tasks<Queues<true>>>().on(&pool).run(8), 256);
        }
    });
}

#[test]
fn a_strategy_that_loses_a_task_is_reported() {
    within(LIMIT, || {
        let lost = panic::catch_unwind(AssertUnwindSafe(|| count_leaves::<Tasks<Lossy>>(2)));
        let payload = lost.unwrap_err();
        let said = payload.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
        assert!(said.is_some_and(|said| said.contains("queue strategy")));
    });
}
