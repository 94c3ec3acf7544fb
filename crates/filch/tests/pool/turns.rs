//! Pools whose jobs are run by an event loop, for a limited time in each turn.

use crate::support::{LIMIT, Panics, pool, quiet_panic, within};
use filch::{Graph, Pool, future};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const NO_TIME: Duration = Duration::ZERO;

/// Counts the calls of a hook.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// A pool without threads whose hook is counted.
    fn pool(&self) -> Pool {
        let calls = self.0.clone();
        let count = move || {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        let builder = Pool::builder().workers(0).on_work(count);
        builder.build().unwrap()
    }
}

#[test]
fn a_turn_without_time_runs_one_job() {
    within(LIMIT, || {
        let pool = pool(0);
        assert_eq!(pool.run_for(NO_TIME), 0);
        (0..3).for_each(|_| pool.spawn(|| filch::spawn(|| ())));
        for _ in 0..6 {
            assert_eq!(pool.run_for(NO_TIME), 1);
        }
        assert_eq!(pool.run_for(LIMIT), 0);
    });
}

#[test]
fn a_long_turn_runs_all_jobs() {
    within(LIMIT, || {
        let pool = pool(0);
        (0..3).for_each(|_| pool.spawn(|| filch::spawn(|| ())));
        assert_eq!(pool.run_for(Duration::MAX), 6);
    });
}

/// Launches a chain of tasks, and returns the number of tasks that each turn without time has run.
fn tasks_in_turns(make: impl FnOnce(&Graph<'static>, &Arc<AtomicUsize>)) -> Vec<usize> {
    let pool = pool(0);
    let (graph, ran) = (Graph::new(), Arc::new(AtomicUsize::new(0)));
    make(&graph, &ran);
    let run = pool.launch(graph.plan().unwrap());
    let mut turns = Vec::new();
    while !run.is_finished() {
        assert_eq!(pool.run_for(NO_TIME), 1);
        turns.push(ran.swap(0, Ordering::Relaxed));
    }
    run.join().unwrap();
    turns
}

fn count(ran: &Arc<AtomicUsize>) -> impl Fn() + Send + Sync + 'static {
    let ran = ran.clone();
    move || {
        ran.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_graph_returns_between_two_tasks_when_the_turn_is_over() {
    within(LIMIT, || {
        let chain = tasks_in_turns(|graph, ran| {
            let tasks: Vec<_> = (0..5).map(|_| graph.task("link", count(ran))).collect();
            tasks.windows(2).for_each(|pair| {
                pair[0].precede([pair[1]]);
            });
        });
        assert_eq!((chain.len(), chain.iter().max()), (5, Some(&1)));
        let wide = tasks_in_turns(|graph, ran| {
            (0..40).for_each(|_| {
                graph.task("one", count(ran));
            });
        });
        assert!(wide.iter().all(|&ran| ran <= 1), "{wide:?}");
        assert_eq!(wide.iter().sum::<usize>(), 40);
        // A condition makes the plan special.
        let special = tasks_in_turns(|graph, ran| {
            let ran = ran.clone();
            let again = move || usize::from(ran.fetch_add(1, Ordering::Relaxed) > 9);
            let (start, check) = (graph.task("start", || ()), graph.condition("again", again));
            start.precede([check]);
            let work = graph.task("work", || ());
            check.precede([work]);
            work.precede([check]);
        });
        assert!(special.iter().all(|&ran| ran <= 1), "{special:?}");
    });
}

#[test]
fn a_run_that_is_waited_for_does_not_end_with_the_turn() {
    within(LIMIT, || {
        let pool = pool(0);
        let task = pool.submit(|| {
            let (graph, ran) = (Graph::new(), Arc::new(AtomicUsize::new(0)));
            let tasks: Vec<_> = (0..5).map(|_| graph.task("link", count(&ran))).collect();
            tasks.windows(2).for_each(|pair| {
                pair[0].precede([pair[1]]);
            });
            let mut plan = graph.plan().unwrap();
            plan.run().unwrap();
            ran.load(Ordering::Relaxed)
        });
        assert_eq!(pool.run_for(NO_TIME), 1);
        assert!(task.is_finished());
        assert_eq!(task.join().unwrap(), 5);
    });
}

#[test]
fn a_turn_in_a_turn_ends_with_the_outer_one_and_other_calls_do_not() {
    within(LIMIT, || {
        let (outer, inner) = (pool(0), pool(0));
        (0..9).for_each(|_| inner.spawn(|| ()));
        let ran = outer.submit(move || (inner.run_for(LIMIT), inner.run_until_stalled()));
        assert_eq!(outer.run_for(NO_TIME), 1);
        assert_eq!(ran.join().unwrap(), (1, 8));
    });
}

#[test]
fn the_hook_is_called_for_what_comes_from_outside() {
    within(LIMIT, || {
        let calls = Calls::default();
        let pool = calls.pool();
        pool.spawn(|| ());
        assert_eq!(calls.take(), 1);
        let task = pool.submit(|| ());
        assert_eq!(calls.take(), 1);
        let (send, receive) = async_channel::bounded::<()>(1);
        let future = pool.spawn_future(async move { receive.recv().await });
        assert_eq!(calls.take(), 1);
        assert_eq!(pool.run_for(LIMIT), 3);
        // Nothing is left.
        assert_eq!(calls.take(), 0);
        send.try_send(()).unwrap();
        assert_eq!(calls.take(), 1);
        assert_eq!(pool.run_for(LIMIT), 1);
        assert!(task.is_finished() && future.is_finished());
        let graph = Graph::new();
        graph.task("task", || ());
        let run = pool.launch(graph.plan().unwrap());
        assert_eq!(calls.take(), 1);
        pool.run_for(LIMIT);
        assert!(run.is_finished());
    });
}

#[test]
fn the_hook_is_called_when_a_caller_leaves_jobs_behind() {
    within(LIMIT, || {
        let calls = Calls::default();
        let pool = calls.pool();
        pool.install(|| {
            filch::spawn(|| ());
            assert_eq!(calls.take(), 0);
        });
        assert_eq!(calls.take(), 1);
        pool.spawn_future(async { future::yield_now().await })
            .detach();
        calls.take();
        // The future has yielded, and the other task is queued as well.
        assert_eq!(pool.run_for(NO_TIME), 1);
        assert_eq!(calls.take(), 1);
        pool.run_until_stalled();
        assert_eq!(calls.take(), 0);
    });
}

#[test]
fn an_awaited_task_is_left_to_the_next_turn_if_there_is_a_hook() {
    within(LIMIT, || {
        let start = |pool: &Pool| pool.spawn_future(async { filch::submit(|| 7).await.unwrap() });
        let driven = Calls::default().pool();
        let future = start(&driven);
        for finished in [false, false, true] {
            // The future, the task, and the future again.
            assert_eq!(driven.run_for(NO_TIME), 1);
            assert_eq!(future.is_finished(), finished);
        }
        // Where no event loop runs the task, the poll does.
        let alone = pool(0);
        let future = start(&alone);
        assert_eq!(alone.run_for(NO_TIME), 1);
        assert!(future.is_finished());
    });
}

#[test]
fn a_panic_of_the_hook_is_reported() {
    within(LIMIT, || {
        let panics = Panics::default();
        let builder = Pool::builder().workers(0).on_work(|| quiet_panic("hook"));
        let pool = panics.listen(builder).build().unwrap();
        let task = pool.submit(|| 1);
        assert_eq!(panics.take(), ["hook"]);
        assert_eq!(task.join().unwrap(), 1);
    });
}

#[test]
fn a_hook_for_work_needs_a_pool_without_threads() {
    let error = Pool::builder().workers(1).on_work(|| ()).build();
    let error = error.unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("no workers"),
        "{error}"
    );
}
