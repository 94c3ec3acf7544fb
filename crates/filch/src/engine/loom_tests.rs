//! Falling asleep: no task is left while all workers sleep, with the production step.

use super::{
    Capacity, Core, Distances, IdleAction, IdlePolicy, NoObserver, PerWorker, PerWorkerSpec,
    Placement, Settings, Step,
    sleep::{Announced, SleeperList},
};
use crate::{
    base::{canary::Canary, sys::barrier::busy_side, thread::number},
    loom_tests::{caught, model},
};
use loom::{sync::Arc, thread};
use std::iter::empty;

/// Parks when the first search fails, to keep the models small.
struct ParkAtOnce;

impl IdlePolicy for ParkAtOnce {
    fn idle(&self, _rounds: u32) -> IdleAction {
        IdleAction::Park(None)
    }
}

pub(super) type Engine = Core<usize, PerWorker, NoObserver>;

pub(super) fn core(workers: usize) -> Arc<Engine> {
    core_with(Settings::new(workers))
}

/// An engine of two nodes with one worker each; producers with an odd number are on the second.
pub(super) fn core_of_two_nodes() -> Arc<Engine> {
    core_with(Settings {
        distances: Distances::nested(2, 1, |worker, _| Some(worker)),
        producer_node: std::sync::Arc::new(|| Some(number() % 2)),
        ..Settings::new(2)
    })
}

fn core_with(settings: Settings) -> Arc<Engine> {
    let settings = Settings {
        idle: Box::new(ParkAtOnce),
        inject_interval: 0,
        ..settings
    };
    let spec = PerWorkerSpec {
        capacity: Capacity::bounded(2),
        steal_batch: 1,
        batch_from: 0,
    };
    Arc::new(Core::new(settings, &spec, NoObserver).unwrap())
}

/// Steps a worker until it exits or sleeps. Returns how many tasks it ran, and whether it sleeps
/// and has not been woken.
pub(super) fn until_asleep(core: &Core<usize, PerWorker, NoObserver>, id: usize) -> (usize, bool) {
    let mut worker = core.enter(id);
    let mut ran = 0;
    loop {
        match worker.step(|_, _| ran += 1) {
            Step::Park(token) => {
                if worker.is_woken() {
                    worker.resume(token);
                    // The thread that holds the lock of the injector continues.
                    thread::yield_now();
                } else {
                    // It stays in the list, asleep for the rest of the model.
                    std::mem::forget((worker, token));
                    return (ran, true);
                }
            }
            Step::Exit => return (ran, false),
            Step::Ran | Step::Idle(_) => {}
        }
    }
}

/// A task is injected while the only worker falls asleep: the worker runs it, or is woken.
fn inject_against_sleep() {
    let core = core(1);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 0))
    };
    core.inject(7, Placement::Injector).unwrap();
    let (ran, asleep) = sleeper.join().unwrap();
    // The worker was forgotten asleep. If it was woken after that, it counts as searching.
    let is_asleep =
        asleep && core.sleep_state().has_sleepers() && core.sleep_state().searching() == 0;
    assert!(
        !(is_asleep && core.has_work()),
        "a task is queued and all workers sleep: ran {ran}"
    );
}

#[test]
fn an_injected_task_wakes_a_worker() {
    model(Some(3), inject_against_sleep);
}

#[test]
fn canary_inject_without_a_wake() {
    caught(Canary::PushWake, Some(3), inject_against_sleep);
}

#[test]
fn canary_sleep_without_the_final_check() {
    caught(Canary::LastCheck, Some(3), inject_against_sleep);
}

#[test]
fn canary_wake_bit_that_is_not_kept() {
    caught(Canary::WakeBit, Some(3), inject_against_sleep);
}

/// The same for a spawn into a worker's own deque, which has no lock and no fence: only the two
/// barriers order the push and the final check. The spawner stays in its task, so the child must be
/// stolen.
fn spawn_against_sleep() {
    let core = core(2);
    core.inject(1, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 1))
    };
    let step = busy.step(|_, mut cx| {
        cx.try_spawn(2, Placement::Local).unwrap();
        // The worker stays in this task.
        std::mem::forget(cx);
    });
    std::mem::forget((busy, step));
    let (ran, _) = sleeper.join().unwrap();
    assert_stolen(&core, ran);
}

fn assert_stolen(core: &Engine, ran: usize) {
    assert!(
        ran > 0 || core.sleep_state().searching() > 0 || !core.has_work(),
        "a task waits in a busy worker's deque, and the only thief sleeps"
    );
}

/// A spawner that becomes busy while the thief falls asleep. No attention is requested, and it
/// executes no fence but its own and those of the thief's barrier.
fn unfenced_spawn_against_sleep() {
    let core = core(2);
    let mut busy = core.enter(0);
    let side = busy_side();
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 1))
    };
    busy.run_as_worker(
        || (),
        |mut cx| {
            cx.try_spawn(2, Placement::Local).unwrap();
            // The worker stays in this task.
            std::mem::forget(cx);
        },
    );
    std::mem::forget(busy);
    drop(side);
    let (ran, _) = sleeper.join().unwrap();
    assert_stolen(&core, ran);
}

#[test]
fn a_spawn_wakes_a_thief() {
    model(Some(3), spawn_against_sleep);
}

#[test]
fn canary_spawn_without_a_wake() {
    caught(Canary::PushWake, Some(3), spawn_against_sleep);
}

#[test]
fn canary_final_check_without_a_barrier() {
    caught(Canary::SleepFence, Some(3), spawn_against_sleep);
}

#[test]
fn a_spawn_without_a_fence_wakes_a_thief() {
    model(Some(3), unfenced_spawn_against_sleep);
}

#[test]
fn canary_final_check_that_ignores_busy_workers() {
    caught(Canary::PushBarrier, Some(3), unfenced_spawn_against_sleep);
}

#[test]
fn canary_busy_without_a_fence() {
    caught(Canary::BusyFence, Some(3), unfenced_spawn_against_sleep);
}

/// Two searchers fall asleep during a push: the last of them checks the queues.
#[test]
fn the_last_of_two_searchers_checks_the_queues() {
    model(Some(2), || {
        let core = core(2);
        let sleeper = {
            let core = core.clone();
            thread::spawn(move || until_asleep(&core, 0))
        };
        core.inject(7, Placement::Injector).unwrap();
        let second = until_asleep(&core, 1);
        let first = sleeper.join().unwrap();
        assert!(
            first.0 + second.0 == 1 || core.sleep_state().searching() > 0 || !core.has_work(),
            "a task is queued and all workers sleep: {first:?} {second:?}"
        );
    });
}

/// A worker that wakes by itself leaves a stale entry; a waker must not take it for a sleeper.
#[test]
fn a_stale_entry_consumes_no_wake() {
    model(None, || {
        let sleep = Arc::new(SleeperList::new(2, true));
        // Worker 0 sleeps, then worker 1, which will wake by itself.
        for worker in [0, 1] {
            assert!(sleep.start_search(2));
            let _ = sleep.announce(worker, true, true);
        }
        let waker = {
            let sleep = sleep.clone();
            thread::spawn(move || sleep.wake_one(None, empty()))
        };
        let _ = sleep.end_sleep(1);
        let woken = waker.join().unwrap();
        assert!(woken.is_some(), "a worker slept and none was woken");
        assert_eq!(sleep.state().searching(), 1, "the woken worker searches");
    });
}

/// A worker falls asleep with its stale entry while a waker removes that entry.
#[test]
fn an_entry_that_is_valid_again_is_woken_or_listed() {
    model(None, || {
        let sleep = Arc::new(SleeperList::new(1, true));
        assert!(sleep.start_search(1));
        let _ = sleep.announce(0, true, true);
        let _ = sleep.end_sleep(0); // by itself: the entry is stale
        assert!(sleep.start_search(1));
        let waker = {
            let sleep = sleep.clone();
            thread::spawn(move || sleep.wake_any().is_some())
        };
        let _ = sleep.announce(0, true, true);
        let woken = waker.join().unwrap();
        assert_eq!(sleep.is_woken(0), woken);
        assert_eq!(sleep.state().searching(), usize::from(woken));
        assert!(
            woken || sleep.state().has_sleepers(),
            "asleep, and not in the list"
        );
    });
}

/// A worker that may not search announces itself with its stale entry, finds that it must search
/// after all, and is woken at the same time: the waker relies on its search.
#[test]
fn a_wake_during_an_announcement_is_not_lost() {
    model(None, || {
        let sleep = Arc::new(SleeperList::new(2, true));
        // Worker 1 sleeps; worker 0 has slept, and left a stale entry at the head.
        for worker in [1, 0] {
            assert!(sleep.start_search(2));
            let _ = sleep.announce(worker, true, true);
        }
        let _ = sleep.end_sleep(0);
        let pusher = {
            let sleep = sleep.clone();
            thread::spawn(move || [sleep.wake_one(None, empty()), sleep.wake_one(None, empty())])
        };
        let counted = match sleep.announce(0, false, true) {
            Announced::Woken => true,
            Announced::MustSearch => false,
            // Another worker was searching when it fell asleep: the one that the pusher woke.
            Announced::Listed => sleep.is_woken(0),
            other => panic!("{other:?}"),
        };
        let woken = pusher.join().unwrap();
        let counted = counted || sleep.is_woken(0);
        let searching = usize::from(counted) + usize::from(woken.contains(&Some(1)));
        assert_eq!(sleep.state().searching(), searching, "{woken:?}");
        assert!(
            searching > 0,
            "two pushes, and no worker searches: {woken:?}"
        );
    });
}

/// A stop reaches a worker that is falling asleep.
#[test]
fn a_stop_reaches_a_worker_that_falls_asleep() {
    model(Some(3), || {
        let core = core(1);
        let sleeper = {
            let core = core.clone();
            thread::spawn(move || until_asleep(&core, 0).1)
        };
        core.stop();
        let asleep = sleeper.join().unwrap();
        assert!(
            !asleep || core.sleep_state().searching() > 0,
            "the worker sleeps and was not woken to exit"
        );
    });
}

/// A busy worker has three tasks. Another worker takes two of them in its first visit, without
/// having announced a search. A third one takes the last task and searches while those two are
/// being moved.
fn first_visit_against_final_check() {
    let settings = Settings {
        idle: Box::new(ParkAtOnce),
        inject_interval: 0,
        ..Settings::new(3)
    };
    let spec = PerWorkerSpec {
        capacity: Capacity::bounded(4),
        steal_batch: 4,
        batch_from: 0,
    };
    let core: Arc<Core<usize, PerWorker, NoObserver>> =
        Arc::new(Core::new(settings, &spec, NoObserver).unwrap());
    core.inject(1, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let step = busy.step(|_, mut cx| {
        (2..5).for_each(|task| cx.try_spawn(task, Placement::Local).unwrap());
        // The worker stays in its task, as does the thief below.
        std::mem::forget(cx);
    });
    std::mem::forget((busy, step));
    let other = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 1))
    };
    let mut thief = core.enter(2);
    let step = thief.step(|_, cx| std::mem::forget(cx));
    std::mem::forget((thief, step));
    let (ran, asleep) = other.join().unwrap();
    let sleep = core.sleep_state();
    assert!(
        !(core.has_work() && asleep && sleep.searching() == 0),
        "a task waits in the queue of a busy worker and the others sleep: ran {ran}, {sleep:?}"
    );
}

#[test]
fn a_batch_that_is_being_moved_is_not_missed() {
    model(Some(2), first_visit_against_final_check);
}

#[test]
fn canary_first_visit_that_notifies_no_worker() {
    caught(
        Canary::BatchNotify,
        Some(2),
        first_visit_against_final_check,
    );
}

/// Steps a worker until it is in a task, where it stays, or sleeps.
fn until_busy_or_asleep(core: &Core<usize, PerWorker, NoObserver>, id: usize) {
    let mut worker = core.enter(id);
    loop {
        match worker.step(|_, cx| std::mem::forget(cx)) {
            Step::Park(token) if worker.is_woken() => {
                worker.resume(token);
                thread::yield_now();
            }
            Step::Ran | Step::Park(_) | Step::Exit => break,
            Step::Idle(_) => {}
        }
    }
    std::mem::forget(worker);
}

/// The last searcher finds a task while a second task is pushed, whose pusher relies on that
/// search. Another worker sleeps and must be woken.
fn found_against_push() {
    let core = core(2);
    assert_eq!(until_asleep(&core, 1), (0, true));
    let pusher = {
        let core = core.clone();
        thread::spawn(move || {
            core.inject(7, Placement::Injector).unwrap();
            core.inject(8, Placement::Injector).unwrap();
        })
    };
    until_busy_or_asleep(&core, 0);
    pusher.join().unwrap();
    let sleep = core.sleep_state();
    assert!(
        !core.has_work() || sleep.searching() > 0,
        "a task is queued, a worker sleeps and none searches: {sleep:?}"
    );
}

#[test]
fn a_push_during_a_search_that_finds_another_task_is_not_missed() {
    model(Some(3), found_against_push);
}

#[test]
fn canary_found_and_passed_on_without_a_barrier() {
    caught(Canary::PassOnFence, Some(3), found_against_push);
}

#[test]
fn canary_found_and_not_passed_on() {
    caught(Canary::PassOn, Some(2), found_against_push);
}

/// All workers are on one core. One is in a task and spawns another task; a second one sleeps. The
/// third is woken and stands by, because it shares its core. It takes the task later, or it leaves
/// and another worker is woken.
fn spawn_against_standby(leaves: bool) {
    let settings = Settings {
        idle: Box::new(ParkAtOnce),
        inject_interval: 0,
        standby: 1,
        current_core: Box::new(|| Some(0)),
        is_pinned: Box::new(|| true),
        ..Settings::new(3)
    };
    let spec = PerWorkerSpec {
        capacity: Capacity::bounded(2),
        steal_batch: 1,
        batch_from: 0,
    };
    let core: Arc<Core<usize, PerWorker, NoObserver>> =
        Arc::new(Core::new(settings, &spec, NoObserver).unwrap());
    core.inject(1, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let mut third = None;
    let step = busy.step(|_, mut cx| {
        assert_eq!(until_asleep(&core, 1), (0, true));
        let core = core.clone();
        third = Some(thread::spawn(move || third_stands_by(&core, leaves)));
        cx.try_spawn(2, Placement::Local).unwrap();
        std::mem::forget(cx);
    });
    std::mem::forget((busy, step));
    third.unwrap().join().unwrap();
    let sleep = core.sleep_state();
    assert!(
        !core.has_work() || sleep.searching() > 0,
        "a task is queued, a worker sleeps and none searches: {sleep:?}"
    );
}

/// Runs worker 2 until it is in a task or asleep; or until it stands by, if it `leaves`.
fn third_stands_by(core: &Core<usize, PerWorker, NoObserver>, leaves: bool) {
    let mut worker = core.enter(2);
    loop {
        match worker.step(|_, cx| std::mem::forget(cx)) {
            Step::Park(token) if worker.is_woken() => worker.resume(token),
            Step::Ran | Step::Park(_) | Step::Exit => break,
            Step::Idle(_) => {}
        }
        if leaves && worker.stands_by() {
            return;
        }
    }
    std::mem::forget(worker);
}

#[test]
fn a_worker_that_stands_by_takes_the_task() {
    model(Some(2), || spawn_against_standby(false));
}

#[test]
fn a_worker_that_stands_by_and_leaves_is_replaced() {
    model(Some(2), || spawn_against_standby(true));
}

#[test]
fn canary_standby_that_leaves_without_a_wake() {
    caught(Canary::StandbyLeaves, Some(2), || {
        spawn_against_standby(true);
    });
}

/// Two workers sleep. A thread injects two tasks: the first wakes a worker, and the second counts
/// on its search. The woken worker stays in its first task: the other one must be woken.
fn wake_in_turn() {
    let core = core_with(Settings {
        wake_fanout: 2,
        inject_batch: 1,
        ..Settings::new(2)
    });
    let mut workers = [core.enter(0), core.enter(1)];
    let mut tokens = workers.each_mut().map(|worker| {
        loop {
            if let Step::Park(token) = worker.step(|_, _| unreachable!()) {
                break Some(token);
            }
        }
    });
    core.inject(1, Placement::Injector).unwrap();
    let woken = usize::from(workers[1].is_woken());
    let producer = {
        let core = core.clone();
        thread::spawn(move || core.inject(2, Placement::Injector).unwrap())
    };
    workers[woken].resume(tokens[woken].take().unwrap());
    let mut ran = false;
    while !ran {
        let _ = workers[woken].step(|_, cx| {
            ran = true;
            std::mem::forget(cx);
        });
        // The thread that holds the lock of the injector continues.
        thread::yield_now();
    }
    producer.join().unwrap();
    let other = workers[1 - woken].is_woken();
    std::mem::forget((workers, tokens));
    assert!(other, "a task waits, and the other worker sleeps");
}

#[test]
fn a_woken_worker_wakes_another_for_the_next_task() {
    model(Some(3), wake_in_turn);
}

#[test]
fn canary_search_passed_on_without_a_wake() {
    caught(Canary::WakeInTurn, Some(3), wake_in_turn);
}
