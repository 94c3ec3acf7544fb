//! Tests of every placement, on a worker and from outside.

use super::*;
use crate::engine::{Capacity, NoObserver, PerWorker, PerWorkerSpec, Settings, Shared};

/// The placements that mean the worker's own queue.
const OWN: [Placement; 5] = [
    Placement::Local,
    Placement::LocalUnnotified,
    Placement::LocalLast,
    Placement::Next,
    Placement::Lane(Priority::Normal),
];

/// The others, for a single worker.
const OTHERS: [Placement; 8] = [
    Placement::Injector,
    Placement::InjectorNear(0),
    Placement::FutureInjector,
    Placement::Lane(Priority::Critical),
    Placement::Lane(Priority::High),
    Placement::Lane(Priority::Low),
    Placement::Affine(0),
    Placement::Pinned(0),
];

/// Runs a task that spawns the others, on one worker. Returns the order in which they run.
fn order_of<Q: Strategy>(tasks: &[(u32, Placement)]) -> Vec<u32> {
    let core: Core<u32, Q, NoObserver> =
        Core::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
    let (mut worker, mut order) = (core.enter(0), vec![]);
    core.inject(u32::MAX, Placement::Injector).unwrap();
    while order.len() <= tasks.len() {
        let _step = worker.step(|task, mut running| {
            if order.is_empty() {
                for &(task, placement) in tasks {
                    running.spawn(task, placement);
                }
            }
            order.push(task);
        });
    }
    order.split_off(1)
}

#[test]
fn every_placement_reaches_a_worker() {
    for placement in OWN.into_iter().chain(OTHERS) {
        assert_eq!(
            order_of::<PerWorker>(&[(1, placement)]),
            [1],
            "{placement:?}"
        );
        assert_eq!(order_of::<Shared>(&[(1, placement)]), [1], "{placement:?}");
        let core: Core<u32, PerWorker, NoObserver> =
            Core::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
        core.inject(1, placement).unwrap();
        let (mut worker, mut ran) = (core.enter(0), 0);
        while ran == 0 {
            let _step = worker.step(|task, _| ran = task);
        }
        core.close();
        assert!(core.inject(2, placement).unwrap_err().is_closed());
    }
}

#[test]
fn the_own_queue_is_in_the_order_of_the_placements() {
    use Placement::{Local, LocalLast, LocalUnnotified, Next};
    let newest_first = [(1, Local), (2, LocalUnnotified), (3, Local)];
    assert_eq!(order_of::<PerWorker>(&newest_first), [3, 2, 1]);
    let last = [(1, Local), (2, Local), (3, LocalLast)];
    assert_eq!(order_of::<PerWorker>(&last), [1, 2, 3]);
    let next = [(1, Local), (2, Next)];
    assert_eq!(order_of::<PerWorker>(&next), [2, 1]);
}

#[test]
fn only_own_queues_are_full() {
    let spec = PerWorkerSpec {
        capacity: Capacity::bounded(2),
        ..Default::default()
    };
    let mut settings = Settings::new(1);
    settings.inject_capacity = Some(1);
    let core: Core<u32, PerWorker, NoObserver> = Core::new(settings, &spec, NoObserver).unwrap();
    core.inject(0, Placement::Injector).unwrap();
    let _step = core.enter(0).step(|_, mut running| {
        while running.try_spawn(1, Placement::Local).is_ok() {}
        for placement in OWN {
            assert_eq!(running.try_spawn(2, placement), Err(2), "{placement:?}");
            running.spawn(3, placement);
        }
        for placement in OTHERS {
            assert_eq!(running.try_spawn(4, placement), Ok(()), "{placement:?}");
        }
        assert_eq!(running.core().injected(), OWN.len() + 2);
    });
    assert!(core.inject(5, Placement::Local).unwrap_err().is_full());
    assert!(
        core.inject(5, Placement::FutureInjector)
            .unwrap_err()
            .is_full()
    );
}

#[test]
#[should_panic(expected = "no worker 1 in this engine")]
fn a_worker_that_does_not_exist_is_refused() {
    let core: Core<u32, PerWorker, NoObserver> =
        Core::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
    let _refused = core.inject(0, Placement::Pinned(1));
}

#[test]
fn useless_tasks_are_removed_from_all_shared_queues() {
    let core: Core<u32, PerWorker, NoObserver> =
        Core::new(Settings::new(1), &Default::default(), NoObserver).unwrap();
    for task in 0..6 {
        let level = Priority::ALL[task as usize % 4];
        core.inject(task, Placement::Lane(level)).unwrap();
    }
    core.inject(6, Placement::Affine(0)).unwrap();
    let mut removed = vec![];
    core.remove_useless(|task| task % 2 == 0, &mut removed);
    removed.sort_unstable();
    assert_eq!((removed, core.shared_len()), (vec![0, 2, 4, 6], 3));
}

#[test]
fn pinned_tasks_of_a_worker_that_left_go_to_worker_0_if_it_is_there() {
    let core: Core<u32, PerWorker, NoObserver> =
        Core::new(Settings::new(2), &Default::default(), NoObserver).unwrap();
    let other = core.enter(1);
    core.inject(1, Placement::Pinned(1)).unwrap();
    drop(other);
    assert_eq!(core.injected(), 1, "worker 0 has not entered");
    let (first, other) = (core.enter(0), core.enter(1));
    core.inject(2, Placement::Pinned(1)).unwrap();
    assert!(!first.has_pinned());
    drop(other); // with a pinned task
    assert!(first.has_pinned());
    core.inject(3, Placement::Pinned(1)).unwrap(); // too late
    assert_eq!(core.injected(), 1);
    drop(first);
    assert_eq!(core.injected(), 3);
}
