//! Workers in several nodes: near before far, in steals, in the injector, in wakes, and for tasks
//! with an affinity to a node.

use crate::wake::Woken;
use filch::{
    engine::{Core, Distances, ParkToken, PerWorker, Placement, Settings, Step, Tiered, Worker},
    observe::Counters,
};
use std::{cell::Cell, sync::Arc, thread};

type Engine = Core<u32, PerWorker, Counters>;
type EngineWorker<'c> = Worker<'c, u32, PerWorker, Counters>;

thread_local! {
    /// The node that this thread is said to be on.
    static NODE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Two nodes of `each` workers, and one more worker, which has no node.
fn engine(each: usize) -> (Engine, Woken) {
    let (woken, workers) = (Woken::default(), 2 * each + 1);
    let node = |worker| (worker < 2 * each).then_some(worker / each);
    let settings = Settings {
        distances: Distances::nested(workers, 1, |worker, _| node(worker)),
        producer_node: Arc::new(|| NODE.get()),
        unpark: Box::new(woken.clone()),
        idle: Box::new(Tiered {
            spin_rounds: 3,
            ..Tiered::default()
        }),
        inject_batch: 1,
        ..Settings::new(workers)
    };
    let core = Core::new(settings, &Default::default(), Counters::new(workers));
    (core.unwrap(), woken)
}

/// Injects tasks on a new thread of `node`.
fn inject_from(core: &Engine, node: usize, tasks: impl IntoIterator<Item = u32, IntoIter: Send>) {
    let tasks = tasks.into_iter();
    thread::scope(|scope| {
        scope.spawn(|| {
            NODE.set(Some(node));
            tasks.for_each(|task| core.inject(task, Placement::Injector).unwrap());
        });
    });
}

/// Steps until the worker has run a task.
fn next(worker: &mut EngineWorker<'_>) -> u32 {
    let mut ran = None;
    while ran.is_none() {
        let step = worker.step(|task, _| ran = Some(task));
        assert!(matches!(step, Step::Ran | Step::Idle(_)), "{step:?}");
    }
    ran.unwrap()
}

/// Steps until the worker sleeps. It must not find a task.
fn park(worker: &mut EngineWorker<'_>) -> ParkToken {
    loop {
        match worker.step(|task, _| panic!("it runs {task}")) {
            Step::Park(token) => return token,
            step => assert!(matches!(step, Step::Idle(_)), "{step:?}"),
        }
    }
}

#[test]
fn tasks_of_the_own_node_come_first_and_others_have_turns() {
    let (core, _) = engine(1);
    inject_from(&core, 0, 0..100);
    inject_from(&core, 1, 100..200);
    let mut worker = core.enter(1);
    let taken: Vec<u32> = (0..200).map(|_| next(&mut worker)).collect();
    let own = taken.iter().take(80).filter(|&&task| task >= 100).count();
    // Every eighth take is that of any node: so half of those are from the other one.
    assert!((70..80).contains(&own), "{own} of the first 80: {taken:?}");
    for node in [0, 1] {
        let tasks = taken.iter().filter(|&&task| task / 100 == node);
        assert!(tasks.is_sorted(), "first in, first out for each producer");
    }
}

#[test]
fn tasks_of_a_node_without_workers_are_taken_by_others() {
    let (core, _) = engine(2);
    inject_from(&core, 1, 0..3);
    let (mut other, mut without_node) = (core.enter(0), core.enter(4));
    assert_eq!(next(&mut other), 0);
    assert_eq!(next(&mut without_node), 1);
    assert_eq!(next(&mut other), 2);
    core.close();
    assert!(core.is_stopped() || !core.has_work());
}

#[test]
fn far_steals_are_counted() {
    let (core, _) = engine(2);
    core.inject(0, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let (mut near, mut far) = (core.enter(1), core.enter(2));
    let _ = busy.step(|_, mut running| {
        (1..=8).for_each(|task| running.spawn(task, Placement::Local));
        next(&mut near);
        next(&mut far);
    });
    let stolen = |worker| {
        let metrics = core.observer().worker(worker);
        (metrics.stolen, metrics.stolen_far)
    };
    assert_eq!((stolen(1), stolen(2)), ((1, 0), (1, 1)));
    let table = core.observer().metrics().to_string();
    assert!(table.lines().next().unwrap().contains("far"), "{table}");
}

#[test]
fn a_sleeper_of_the_own_node_is_woken_first() {
    let (core, woken) = engine(2);
    let mut workers = [0, 1, 2, 3].map(|worker| core.enter(worker));
    let mut tokens = workers.each_mut().map(|worker| Some(park(worker)));
    for (node, expected) in [(0, 0..2), (1, 2..4), (0, 0..2)] {
        inject_from(&core, node, [7]);
        let first = woken.take();
        assert!(
            first.len() == 1 && expected.contains(&first[0]),
            "{first:?}"
        );
        // It finds the task, so the next push wakes another.
        let worker = &mut workers[first[0]];
        worker.resume(tokens[first[0]].take().unwrap());
        assert_eq!(next(worker), 7);
    }
}

#[test]
fn a_task_for_a_node_wakes_one_of_its_workers() {
    let (core, woken) = engine(2);
    let mut workers = [0, 1, 2, 3].map(|worker| core.enter(worker));
    let tokens = workers.each_mut().map(park);
    core.inject(7, Placement::AffineNode(0)).unwrap();
    core.inject(8, Placement::AffineNode(0)).unwrap();
    let mut called = woken.take();
    called.sort_unstable();
    assert_eq!(called, [0, 1], "one for each task");
    core.inject(9, Placement::AffineNode(1)).unwrap();
    assert!([[2], [3]].contains(&woken.take().try_into().unwrap()));
    for (worker, token) in workers.iter_mut().zip(tokens) {
        worker.resume(token);
    }
    assert_eq!((next(&mut workers[0]), next(&mut workers[1])), (7, 8));
    assert_eq!(next(&mut workers[2]), 9);
    let total = core.observer().metrics().total();
    assert_eq!((total.affine_kept, total.affine_broken), (3, 0));
}

#[test]
fn a_task_for_a_node_is_left_to_a_sleeper_of_it_and_else_taken_after_a_whole_search() {
    let (core, woken) = engine(1);
    let (mut own, mut other) = (core.enter(0), core.enter(1));
    let token = park(&mut own);
    core.inject(7, Placement::AffineNode(0)).unwrap();
    assert_eq!(woken.take(), [0]);
    for _ in 0..100 {
        let step = other.step(|task, _| panic!("it runs {task}"));
        if let Step::Park(token) = step {
            other.resume(token);
        }
    }
    own.resume(token);
    // Now its worker is awake, and does not take the task.
    let mut looks = 0;
    let ran = loop {
        let mut ran = None;
        match other.step(|task, _| ran = Some(task)) {
            Step::Ran => break ran,
            Step::Park(token) => other.resume(token),
            step => assert!(matches!(step, Step::Idle(_)), "{step:?}"),
        }
        looks += 1;
        assert!(looks < 1_000, "it is never taken");
    };
    assert_eq!(ran, Some(7));
    assert_eq!(core.observer().worker(1).affine_broken, 1);
}

#[test]
fn tasks_for_a_worker_and_for_its_node_alternate() {
    let (core, _) = engine(1);
    for n in 0..3 {
        core.inject(n, Placement::Affine(0)).unwrap();
        core.inject(10 + n, Placement::AffineNode(0)).unwrap();
    }
    let mut worker = core.enter(0);
    let order: Vec<u32> = (0..6).map(|_| next(&mut worker)).collect();
    assert_eq!(order, [0, 10, 1, 11, 2, 12]);
}

#[test]
fn a_task_for_a_node_that_is_left_at_a_stop_comes_back() {
    let (core, _) = engine(1);
    core.inject(1, Placement::AffineNode(0)).unwrap();
    core.inject(2, Placement::AffineNode(1)).unwrap();
    assert!(core.has_work());
    core.stop();
    let mut tasks = core.take_queued(|| panic!("everything is there"));
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2]);
}

/// A step, which must run a task: without a search.
fn at_once(worker: &mut EngineWorker<'_>) -> u32 {
    let mut ran = None;
    let step = worker.step(|task, _| ran = Some(task));
    assert!(matches!(step, Step::Ran), "{step:?}");
    ran.unwrap()
}

#[test]
fn tasks_for_a_node_whose_workers_have_left_are_for_all() {
    let (core, woken) = engine(2);
    let mut other = core.enter(0);
    // No worker of the node has entered, but one may.
    core.inject(1, Placement::AffineNode(1)).unwrap();
    let (first, mut last) = (core.enter(2), core.enter(3));
    drop(first);
    core.inject(2, Placement::AffineNode(1)).unwrap();
    assert_eq!(at_once(&mut last), 1, "one of its workers is left");
    drop(last);
    assert_eq!(at_once(&mut other), 2);
    // Later ones, from outside and from a worker.
    core.inject(3, Placement::AffineNode(1)).unwrap();
    let ran = other.step(|task, mut running| {
        assert_eq!(task, 3);
        running.spawn(4, Placement::AffineNode(1));
    });
    assert!(matches!(ran, Step::Ran), "{ran:?}");
    assert_eq!(at_once(&mut other), 4);
    let token = park(&mut other);
    core.inject(5, Placement::AffineNode(1)).unwrap();
    assert_eq!(woken.take(), [0]);
    other.resume(token);
    assert_eq!(next(&mut other), 5);
    assert_eq!(core.observer().worker(0).affine_broken, 0);
    // A worker of the node comes back.
    let mut back = core.enter(3);
    core.inject(6, Placement::AffineNode(1)).unwrap();
    assert_eq!(at_once(&mut back), 6);
    assert_eq!(core.observer().worker(3).affine_kept, 2);
}

#[test]
fn tasks_for_a_node_come_back_if_its_last_worker_leaves_at_a_stop() {
    let (core, _) = engine(1);
    let worker = core.enter(1);
    core.inject(1, Placement::AffineNode(1)).unwrap();
    core.stop();
    drop(worker);
    assert_eq!(core.take_queued(|| panic!("everything is there")), [1]);
    assert!(!core.has_work());
}

#[test]
fn without_nodes_an_affinity_to_one_means_the_injector() {
    let core: Engine = Core::new(Settings::new(1), &Default::default(), Counters::new(1)).unwrap();
    core.inject(1, Placement::AffineNode(0)).unwrap();
    let mut worker = core.enter(0);
    let _ = worker.step(|_, mut running| running.spawn(2, Placement::AffineNode(0)));
    assert_eq!(next(&mut worker), 2);
    assert_eq!(core.observer().worker(0).injected, 2);
}

#[test]
#[should_panic(expected = "no node 2 in this engine")]
fn a_node_that_does_not_exist_is_refused() {
    let (core, _) = engine(1);
    let _ = core.inject(1, Placement::AffineNode(2));
}

#[test]
fn woken_workers_wake_others_of_their_node_in_turn() {
    let (woken, each) = (Woken::default(), 4);
    let settings = Settings {
        distances: Distances::nested(2 * each, 1, |worker, _| Some(worker / each)),
        producer_node: Arc::new(|| NODE.get()),
        unpark: Box::new(woken.clone()),
        wake_fanout: 2,
        inject_batch: 1,
        ..Settings::new(2 * each)
    };
    let counters = Counters::new(2 * each);
    let core: Engine = Core::new(settings, &Default::default(), counters).unwrap();
    let mut workers: Vec<_> = (0..2 * each).map(|worker| core.enter(worker)).collect();
    let mut tokens: Vec<_> = workers
        .iter_mut()
        .map(|worker| Some(park(worker)))
        .collect();
    inject_from(&core, 1, 0..8);
    let mut order = woken.take();
    assert_eq!(order.len(), 1, "the others count on its search");
    let mut ran = 0;
    while let Some(&worker) = order.get(ran) {
        workers[worker].resume(tokens[worker].take().unwrap());
        next(&mut workers[worker]);
        ran += 1;
        order.extend(woken.take());
        assert!(order.len() >= 8.min(1 + 2 * ran), "a tree: {order:?}");
    }
    assert_eq!(ran, 8, "all have been woken");
    let near = &order[..each];
    assert!(near.iter().all(|&worker| worker >= each), "{order:?}");
    assert_eq!(core.observer().metrics().outside_wakes, 1);
}
