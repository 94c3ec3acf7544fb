//! Scopes that most often end in the queue of their worker, and what they must not forget then.

use crate::support::pool;
use filch::Scope;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

const ROUNDS: usize = if cfg!(miri) { 3 } else { 2_000 };

/// Spawns `tasks` tasks, each of which spawns as many more as it has levels below it.
fn spawn_levels<'s>(s: &Scope<'s>, tasks: usize, levels: usize, ran: &'s AtomicUsize) {
    for _ in 0..tasks {
        s.spawn(move |s| {
            ran.fetch_add(1, Ordering::Relaxed);
            if levels > 0 {
                spawn_levels(s, 2, levels - 1, ran);
            }
        });
    }
}

#[test]
fn every_task_of_many_small_scopes_has_run_when_they_end() {
    for workers in [0, 1, 2, 4] {
        let pool = pool(workers);
        pool.install(|| {
            for round in 0..ROUNDS {
                let ran = AtomicUsize::new(0);
                let (tasks, levels) = (round % 9, round % 3);
                filch::scope(|s| spawn_levels(s, tasks, levels, &ran));
                let expected = tasks * ((2 << levels) - 1);
                assert_eq!(
                    ran.into_inner(),
                    expected,
                    "{workers} workers, round {round}"
                );
            }
        });
    }
}

#[test]
fn closures_of_all_sizes_are_spawned_while_the_queue_grows() {
    for workers in [0, 2] {
        let tasks = if cfg!(miri) { 300 } else { 20_000 };
        let sum = AtomicUsize::new(0);
        let add = |n| {
            sum.fetch_add(n, Ordering::Relaxed);
        };
        pool(workers).scope(|s| {
            let add = &add;
            for n in 0..tasks {
                let large = [n; 16];
                s.spawn(move |_| add(n));
                s.spawn(move |_| add(large[15]));
                s.spawn(move |s| s.spawn(move |_| add(n)));
            }
        });
        assert_eq!(sum.into_inner(), 3 * tasks * (tasks - 1) / 2);
    }
}

#[test]
fn a_panic_and_what_it_drops_are_kept_until_all_tasks_have_run() {
    struct CountDrop<'a>(&'a AtomicUsize);
    impl Drop for CountDrop<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = AtomicUsize::new(0);
    for workers in [0, 1, 2] {
        let ran = AtomicUsize::new(0);
        dropped.store(0, Ordering::Relaxed);
        let scope = || {
            pool(workers).scope(|s| {
                for n in 0..8 {
                    let kept = CountDrop(&dropped);
                    let ran = &ran;
                    s.spawn(move |_| {
                        let _kept = kept;
                        ran.fetch_add(1, Ordering::Relaxed);
                        assert!(n != 4, "the fifth");
                    });
                }
            });
        };
        let panic = catch_unwind(AssertUnwindSafe(scope)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the fifth"));
        assert_eq!(ran.into_inner(), 8);
        assert_eq!(dropped.load(Ordering::Relaxed), 8);
    }
}

#[test]
fn tasks_that_another_worker_has_ended_do_not_keep_the_waiter() {
    let pool = pool(2);
    for _ in 0..ROUNDS / 20 {
        pool.on_worker(|| {
            let (stolen, others) = (AtomicBool::new(false), Mutex::new(0));
            filch::scope(|s| {
                s.spawn(|_| stolen.store(true, Ordering::Release));
                // Ended by the other worker, so that this one only waits.
                while !stolen.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                s.spawn(|_| *others.lock().unwrap() += 1);
                s.spawn(|_| *others.lock().unwrap() += 1);
            });
            assert_eq!(others.into_inner().unwrap(), 2);
        });
    }
}
