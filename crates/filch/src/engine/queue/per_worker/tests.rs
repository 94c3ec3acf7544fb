//! Tests of the deques of workers.

use super::{
    FAST_STEPS, MAX_OBSERVATIONS, MAX_SINGLE_TASK_VISITS_QUIET, PerWorker, PerWorkerQueue,
    PerWorkerSpec, STEPS, required_steps,
};
use crate::{
    base::rng::Rng,
    engine::{Acquired, Distances, Hunt, Queue, Strategy, Victims},
};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

/// Returns the number of hunts that it takes to steal a task of the other of two workers.
fn hunts(thief: &mut PerWorkerQueue<'_, usize>) -> u32 {
    let (mut victims, mut rng) = (Victims::new(&Distances::flat(2), 1), Rng::new(1));
    (1..=10 * (MAX_OBSERVATIONS + MAX_SINGLE_TASK_VISITS_QUIET))
        .find(|_| {
            let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
            matches!(thief.try_acquire(&mut hunt), Acquired::Task { .. })
        })
        .expect("no victim is spared for ever")
}

/// Queues three tasks of a worker that asks to be spared after the first `before` of them, and
/// continues with `steps`. Returns the number of hunts that it took to steal one.
fn spared(before: usize, steps: impl FnOnce(&mut PerWorkerQueue<'_, usize>, &AtomicBool)) -> u32 {
    let store = PerWorker::store::<usize>(&PerWorkerSpec::default(), 2).unwrap();
    let (mut owner, mut thief) = (PerWorker::handle(&store, 0), PerWorker::handle(&store, 1));
    owner.busy();
    (0..before).for_each(|task| owner.push(task).unwrap());
    owner.hold_off_thieves(STEPS);
    (before..3).for_each(|task| owner.push(task).unwrap());
    let stolen = AtomicBool::new(false);
    thread::scope(|scope| {
        let thief = scope.spawn(|| {
            let hunts = hunts(&mut thief);
            stolen.store(true, Relaxed);
            hunts
        });
        steps(&mut owner, &stolen);
        thief.join().unwrap()
    })
}

#[test]
fn a_worker_that_never_entered_has_no_deque() {
    let store = PerWorker::store::<usize>(&PerWorkerSpec::default(), 4).unwrap();
    let created = || store.deques.iter().filter_map(OnceLock::get).count();
    assert_eq!((created(), PerWorker::has_work(&store)), (0, false));
    let (mut owner, mut thief) = (PerWorker::handle(&store, 2), PerWorker::handle(&store, 0));
    assert_eq!(created(), 2);
    owner.busy();
    (0..4).for_each(|task| owner.push(task).unwrap());
    PerWorker::alert(&store);
    assert_eq!((PerWorker::queued(&store), thief.steal_from(1)), (4, None));
    let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
    let stolen = thief.try_acquire(&mut Hunt::new(&mut victims, &mut rng, 4));
    let (victim, moved) = (2, 1);
    let task = 0;
    assert_eq!(
        stolen,
        Acquired::Task {
            task,
            victim,
            moved
        }
    );
    drop((owner, thief));
    let mut left = Vec::new();
    PerWorker::reset(&store, |task| left.push(task));
    assert_eq!((left, created()), (vec![1, 2, 3], 2));
}

#[test]
fn no_worker_is_visited_while_all_others_are_idle() {
    const WORKERS: usize = 300;
    let store = PerWorker::store::<usize>(&PerWorkerSpec::default(), WORKERS).unwrap();
    let (mut thief, mut owner) = (PerWorker::handle(&store, 1), PerWorker::handle(&store, 200));
    let (mut victims, mut rng) = (Victims::new(&Distances::flat(WORKERS), 1), Rng::new(1));
    let mut hunt = |thief: &mut PerWorkerQueue<'_, usize>| {
        let acquired = thief.try_acquire(&mut Hunt::new(&mut victims, &mut rng, 1));
        (
            matches!(acquired, Acquired::Task { .. }),
            victims.clone().count(),
        )
    };
    // A hunt that visits the workers ends its round.
    assert_eq!(hunt(&mut thief), (false, WORKERS - 1), "none is left out");
    thief.busy();
    assert_eq!(hunt(&mut thief).1, WORKERS - 1, "it is busy itself");
    owner.busy();
    owner.busy();
    (0..10).for_each(|task| owner.push(task).unwrap());
    assert!(hunt(&mut thief).0);
    owner.drain_own(drop);
    owner.idle();
    owner.idle();
    assert_eq!(store.busy_count.load(Relaxed), 1);
    let left = hunt(&mut thief).1;
    assert!(left > 0 && hunt(&mut thief).1 == left);
}

#[test]
fn a_single_task_waits_no_longer_beside_many_busy_workers() {
    const WORKERS: usize = 40;
    let store = PerWorker::store::<usize>(&PerWorkerSpec::default(), WORKERS).unwrap();
    let mut queues: Vec<_> = (0..WORKERS)
        .map(|worker| PerWorker::handle(&store, worker))
        .collect();
    let mut thief = queues.pop().unwrap();
    queues.iter_mut().for_each(Queue::busy);
    queues[7].push(1).unwrap();
    let distances = Distances::flat(WORKERS);
    let (mut victims, mut rng) = (Victims::new(&distances, WORKERS - 1), Rng::new(1));
    let hunts = (1..=100).find(|_| {
        let mut hunt = Hunt::new(&mut victims, &mut rng, WORKERS);
        matches!(thief.try_acquire(&mut hunt), Acquired::Task { .. })
    });
    // A hunt probes 16 workers. The task has to wait for 16 probes, and is then found with as many
    // probes as there are workers.
    assert!(16 * hunts.unwrap() <= 2 * WORKERS, "{hunts:?}");
}

#[test]
fn a_worker_without_steps_is_not_spared() {
    assert_eq!(spared(0, |_, _| ()), 1);
}

#[test]
fn fast_workers_are_spared_longer() {
    assert_eq!(required_steps(STEPS, 1), STEPS);
    assert_eq!(required_steps(STEPS, MAX_OBSERVATIONS + 1), FAST_STEPS);
    assert_eq!(required_steps(FAST_STEPS, 1), FAST_STEPS);
}

#[test]
fn a_worker_that_makes_steps_is_spared_for_a_while() {
    let stepping = |owner: &mut PerWorkerQueue<'_, usize>, stolen: &AtomicBool| {
        while !stolen.load(Relaxed) {
            owner.count_step();
            // Not too fast: an observation lasts for some dozens of steps.
            (0..4).for_each(|_| std::hint::spin_loop());
        }
    };
    // At most: on a loaded machine the owner does not always make progress.
    assert!(spared(0, stepping) <= MAX_OBSERVATIONS + 1);
    assert_eq!(spared(1, stepping), 1, "the request came too late");
}

#[test]
fn a_thief_takes_half_of_what_a_near_victim_has() {
    // Two nodes of two workers; worker 2 has a few tasks.
    let near = Distances::nested(4, 1, |worker, _| Some(worker / 2));
    let spec = PerWorkerSpec {
        batch_from: 64,
        ..PerWorkerSpec::default()
    };
    for (distances, thief, expected) in [(&near, 3, 4), (&near, 0, 0), (&Distances::flat(4), 3, 0)]
    {
        let store = PerWorker::store::<usize>(&spec, 4).unwrap();
        let mut owner = PerWorker::handle(&store, 2);
        owner.busy();
        (0..10).for_each(|task| owner.push(task).unwrap());
        let (mut victims, mut rng) = (Victims::new(distances, thief), Rng::new(1));
        let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
        let Acquired::Task { moved, .. } = PerWorker::handle(&store, thief).try_acquire(&mut hunt)
        else {
            panic!("there are tasks");
        };
        assert_eq!(moved, expected, "by worker {thief}");
    }
}
