//! The systems, each used as its users would.

use super::single_queue::{Queue, Set, ThreadGroup};
use crate::{
    busy::Busy,
    forks::{Filch, Rayon, System},
};
use filch::TaskHandle;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

pub(super) trait Balances: System {
    /// Runs the tasks, submitted in this order, and returns the number of tasks that ran.
    fn flat(pool: &Self::Pool, tasks: &[Busy]) -> u64;

    /// Runs the tree of a number and returns the number of leaves that ran.
    fn tree(pool: &Self::Pool, number: u32, leaf: Busy) -> u64;
}

/// Submitted tasks, joined through their handles.
impl Balances for Filch {
    fn flat(pool: &filch::Pool, tasks: &[Busy]) -> u64 {
        pool.install(|| {
            let submit = |&task: &Busy| filch::submit(move || one(task));
            let handles: Vec<_> = tasks.iter().map(submit).collect();
            handles.into_iter().map(joined).sum()
        })
    }

    fn tree(pool: &filch::Pool, number: u32, leaf: Busy) -> u64 {
        fn node(number: u32, leaf: Busy) -> u64 {
            if number < 2 {
                return one(leaf);
            }
            let a = filch::submit(move || node(number - 1, leaf));
            let b = filch::submit(move || node(number - 2, leaf));
            joined(a) + joined(b)
        }
        pool.install(|| node(number, leaf))
    }
}

fn joined(handle: TaskHandle<u64>) -> u64 {
    handle.join().expect("no task panics")
}

fn one(task: Busy) -> u64 {
    task.run();
    1
}

/// Scopes: rayon's only way to wait for spawned tasks and run others meanwhile.
impl Balances for Rayon {
    fn flat(pool: &rayon::ThreadPool, tasks: &[Busy]) -> u64 {
        let done = AtomicU64::new(0);
        pool.scope(|scope| {
            for &task in tasks {
                let done = &done;
                // Relaxed: the end of the scope orders all additions before the load.
                scope.spawn(move |_| _ = done.fetch_add(one(task), Ordering::Relaxed));
            }
        });
        done.into_inner()
    }

    fn tree(pool: &rayon::ThreadPool, number: u32, leaf: Busy) -> u64 {
        fn node(number: u32, leaf: Busy) -> u64 {
            if number < 2 {
                return one(leaf);
            }
            let (mut a, mut b) = (0, 0);
            rayon::scope(|scope| {
                scope.spawn(|_| a = node(number - 1, leaf));
                scope.spawn(|_| b = node(number - 2, leaf));
            });
            a + b
        }
        pool.install(|| node(number, leaf))
    }
}

/// The traditional pool: one queue with a lock. A waiting thread runs tasks.
pub(super) struct SingleQueue;

impl System for SingleQueue {
    type Pool = ThreadGroup;

    fn pool(workers: usize) -> ThreadGroup {
        ThreadGroup::start(workers)
    }
}

impl Balances for SingleQueue {
    fn flat(group: &ThreadGroup, tasks: &[Busy]) -> u64 {
        let set = Arc::new(Set::default());
        for &task in tasks {
            group.queue.submit(&set, move |_| one(task));
        }
        group.queue.wait(&set)
    }

    fn tree(group: &ThreadGroup, number: u32, leaf: Busy) -> u64 {
        fn node(queue: &Queue, number: u32, leaf: Busy) -> u64 {
            if number < 2 {
                return one(leaf);
            }
            let set = Arc::new(Set::default());
            queue.submit(&set, move |queue| node(queue, number - 1, leaf));
            queue.submit(&set, move |queue| node(queue, number - 2, leaf));
            queue.wait(&set)
        }
        node(&group.queue, number, leaf)
    }
}
