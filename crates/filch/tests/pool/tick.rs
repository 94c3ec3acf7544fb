//! Pools whose jobs are run by their callers, one at a time.

use crate::support::{Flag, LIMIT, Panics, pool, quiet_panic, within};
use filch::{Graph, Pool, Priority, graph::SharedPlan};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Who has been here, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<usize>>>);

impl Log {
    fn note(&self, who: usize) {
        self.0.lock().unwrap().push(who);
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[test]
fn a_tick_runs_one_job_and_the_jobs_run_in_their_order() {
    within(LIMIT, || {
        let (pool, log) = (pool(0), Log::default());
        assert!(!pool.tick());
        for n in 0..100 {
            let log = log.clone();
            pool.spawn(move || log.note(n));
        }
        for n in 0..100 {
            assert!(pool.tick());
            assert_eq!(log.take(), [n]);
        }
        assert!(!pool.tick());
    });
}

#[test]
fn what_a_job_queues_waits_for_the_next_tick_behind_what_was_there() {
    within(LIMIT, || {
        let (pool, log) = (pool(0), Log::default());
        let (inner, last) = (log.clone(), log.clone());
        pool.spawn(move || {
            inner.note(0);
            for n in [2, 3] {
                let log = inner.clone();
                filch::spawn(move || log.note(n));
            }
        });
        pool.spawn(move || last.note(1));
        for n in 0..4 {
            assert!(pool.tick());
            assert_eq!(log.take(), [n]);
        }
        assert!(!pool.tick());
    });
}

#[test]
fn urgent_tasks_come_first() {
    within(LIMIT, || {
        let (pool, log) = (pool(0), Log::default());
        let levels = [
            Priority::Low,
            Priority::Normal,
            Priority::High,
            Priority::Critical,
        ];
        for (n, level) in levels.into_iter().enumerate() {
            let log = log.clone();
            let task = pool.task(move || log.note(n)).priority(level);
            drop(task.submit().unwrap());
        }
        assert!(pool.tick());
        assert_eq!(log.take(), [3]);
        assert_eq!(pool.run_until_stalled(), 3);
        assert_eq!(log.take(), [2, 1, 0]);
    });
}

#[test]
fn running_until_stalled_counts_everything_once() {
    within(LIMIT, || {
        let pool = pool(0);
        let ran = Arc::new(AtomicUsize::new(0));
        fn tree(depth: usize, ran: Arc<AtomicUsize>) {
            ran.fetch_add(1, Ordering::Relaxed);
            for _ in 0..if depth > 0 { 3 } else { 0 } {
                let ran = ran.clone();
                filch::spawn(move || tree(depth - 1, ran));
            }
        }
        let shared = ran.clone();
        pool.spawn(move || tree(5, shared));
        assert_eq!(pool.run_until_stalled(), 364);
        assert_eq!(ran.load(Ordering::Relaxed), 364);
        assert_eq!(pool.run_until_stalled(), 0);
        assert_eq!(pool.metrics().total().executed, 364);
    });
}

#[test]
fn a_graph_is_run_tick_by_tick() {
    within(LIMIT, || {
        let (pool, log) = (pool(0), Log::default());
        let graph = Graph::new();
        let names = ["a", "b", "c", "d"];
        let tasks: Vec<_> = (0..4)
            .map(|n| {
                let log = log.clone();
                graph.task(names[n], move || log.note(n))
            })
            .collect();
        tasks[0].precede(tasks[1]);
        tasks[0].precede(tasks[2]);
        tasks[3].succeed([tasks[1], tasks[2]]);
        let plan = SharedPlan::from(graph.plan().unwrap());
        for _ in 0..3 {
            let run = pool.launch(&plan);
            assert!(!run.is_finished(), "there was no tick");
            let mut ticks = 0;
            while pool.tick() {
                ticks += 1;
            }
            assert!(ticks > 0 && run.is_finished());
            assert_eq!(run.join().unwrap().ran(), 4);
            let order = log.take();
            assert!(order == [0, 1, 2, 3] || order == [0, 2, 1, 3], "{order:?}");
        }
    });
}

#[test]
fn inside_of_a_task_it_runs_another_one_in_the_middle() {
    within(LIMIT, || {
        let (pool, log) = (pool(0), Log::default());
        let (outer, inner) = (log.clone(), log.clone());
        let this = pool.clone();
        pool.spawn(move || {
            outer.note(0);
            assert!(this.tick());
            outer.note(2);
            assert!(!this.tick());
            assert_eq!(this.run_until_stalled(), 0);
        });
        pool.spawn(move || inner.note(1));
        assert!(pool.tick());
        assert_eq!(log.take(), [0, 1, 2]);
        assert!(!pool.tick());

        // A task of another pool is a thread from outside.
        let other = crate::support::pool(1);
        let (this, late) = (pool.clone(), log.clone());
        pool.spawn(move || late.note(7));
        assert!(other.install(|| this.tick()));
        assert_eq!(log.take(), [7]);
    });
}

#[test]
fn an_isolated_task_is_left_alone() {
    within(LIMIT, || {
        let pool = pool(0);
        let ran = Flag::default();
        let shared = ran.clone();
        pool.spawn(move || shared.set());
        pool.install(|| {
            filch::isolate(|| {
                assert!(!pool.tick());
                assert_eq!(pool.run_until_stalled(), 0);
            });
        });
        assert!(!ran.is_set());
        assert!(pool.tick());
        assert!(ran.is_set());
    });
}

#[test]
fn the_caller_helps_workers_that_are_busy() {
    within(LIMIT, || {
        let pool = pool(1);
        let (busy, go) = (Flag::default(), Flag::default());
        let (inner_busy, inner_go) = (busy.clone(), go.clone());
        pool.spawn(move || {
            inner_busy.set();
            inner_go.wait("to be let go");
        });
        busy.wait("the worker to be busy");
        let here = thread::current().id();
        let tasks = [(); 3].map(|()| pool.submit(|| thread::current().id()));
        assert!(pool.tick());
        assert_eq!(pool.run_until_stalled(), 2);
        assert!(tasks.into_iter().all(|task| task.join().unwrap() == here));
        assert!(!pool.tick(), "what the worker does is its own");
        go.set();
    });
}

#[test]
fn several_threads_run_each_job_once() {
    within(LIMIT, || {
        let pool = pool(0);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..3000 {
            let ran = ran.clone();
            pool.spawn(move || _ = ran.fetch_add(1, Ordering::Relaxed));
        }
        let counts = thread::scope(|scope| {
            let one_by_one = || (0..).take_while(|_| pool.tick()).count();
            let threads = [
                scope.spawn(one_by_one),
                scope.spawn(|| pool.run_until_stalled()),
                scope.spawn(one_by_one),
            ];
            threads.map(|thread| thread.join().unwrap())
        });
        // One that lost a race may have left early.
        let rest = pool.run_until_stalled();
        assert_eq!(counts.iter().sum::<usize>() + rest, 3000);
        assert_eq!(ran.load(Ordering::Relaxed), 3000);
    });
}

#[test]
fn a_panic_goes_to_whom_it_concerns() {
    within(LIMIT, || {
        let told = Panics::default();
        let pool = told.pool(0);
        pool.spawn(|| quiet_panic("spawned"));
        let task = pool.submit(|| quiet_panic("submitted"));
        assert!(pool.tick());
        assert_eq!(told.take(), ["spawned"]);
        assert!(pool.tick());
        assert!(task.join().is_err());
        assert_eq!(told.take(), [""; 0]);
    });
}

#[test]
fn after_a_shutdown_there_is_nothing_to_run() {
    within(LIMIT, || {
        for workers in [0, 1] {
            let pool = pool(workers);
            let left = pool.clone();
            let task = pool.submit(|| 1);
            pool.shutdown();
            assert_eq!(task.join().unwrap(), 1);
            assert!(!left.tick());
            assert_eq!(left.run_until_stalled(), 0);
        }
    });
}

#[test]
fn without_a_place_nothing_runs() {
    within(LIMIT, || {
        let pool = pool(0);
        let (inside, go) = (Arc::new(AtomicUsize::new(0)), Flag::default());
        thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| {
                    pool.install(|| {
                        inside.fetch_add(1, Ordering::SeqCst);
                        go.wait("to be let go");
                    });
                });
            }
            crate::support::until("all places are taken", || {
                inside.load(Ordering::SeqCst) == 32
            });
            pool.spawn(|| ());
            assert!(!pool.tick());
            go.set();
        });
        assert!(pool.tick());
    });
}

#[test]
fn it_is_the_callers_thread_that_works() {
    within(LIMIT, || {
        // So that it can be used where there are no threads at all.
        let pool: Pool = pool(0);
        let here = thread::current().id();
        let shared = pool.clone();
        pool.spawn(move || {
            let (a, b) = shared.join(|| thread::current().id(), || thread::current().id());
            assert!(a == here && b == here);
        });
        assert_eq!(pool.run_until_stalled(), 1);
    });
}
