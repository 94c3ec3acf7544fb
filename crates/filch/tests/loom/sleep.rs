//! Falling asleep: no task stays behind with everybody asleep, on the production step.

use super::{caught, model};
use filch::{
    base::{canary::Canary, sys::barrier::model::busy_side},
    engine::{
        Capacity, Core, IdleAction, IdlePolicy, PerWorker, PerWorkerSpec, Placement, Settings,
        Silent, Sleep, Step, sleep::Announced,
    },
};
use loom::{sync::Arc, thread};

/// Sleeps at the first failure, to keep the models small.
struct AtOnce;

impl IdlePolicy for AtOnce {
    fn idle(&self, _rounds: u32) -> IdleAction {
        IdleAction::Park(None)
    }
}

pub(super) type Engine = Core<usize, PerWorker, Silent>;

pub(super) fn core(workers: usize) -> Arc<Engine> {
    let settings = Settings {
        idle: Box::new(AtOnce),
        inject_interval: 0,
        ..Settings::new(workers)
    };
    let spec = PerWorkerSpec {
        capacity: Capacity::bounded(2),
        steal_batch: 1,
        batch_from: 0,
    };
    Arc::new(Core::new(settings, &spec, Silent).unwrap())
}

/// Steps a worker until it has run a task or sleeps for good. Says how many it ran, and whether it
/// sleeps and nobody has woken it.
pub(super) fn until_asleep(core: &Core<usize, PerWorker, Silent>, id: usize) -> (usize, bool) {
    let mut worker = core.enter(id);
    let mut ran = 0;
    loop {
        match worker.step(|_, _| ran += 1) {
            Step::Park(ticket) => {
                if worker.is_woken() {
                    worker.resume(ticket);
                    // Whoever holds the injector's lock gets on.
                    thread::yield_now();
                } else {
                    // It stays in the list, asleep; forgetting it is what sleeping for ever means.
                    std::mem::forget((worker, ticket));
                    return (ran, true);
                }
            }
            Step::Exit => return (ran, false),
            Step::Ran | Step::Idle(_) => {}
        }
    }
}

/// A task comes from outside while the only worker falls asleep: it is run, or the worker is woken.
fn inject_against_sleep() {
    let core = core(1);
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 0))
    };
    core.inject(7, Placement::Injector).unwrap();
    let (ran, asleep) = sleeper.join().unwrap();
    // The worker forgot itself in its sleep; whether it was woken after that is in its entry.
    let left_behind = asleep && core.sleep().has_sleepers() && core.sleep().searching() == 0;
    assert!(
        !(left_behind && core.has_work()),
        "a task is queued and everybody sleeps: ran {ran}"
    );
}

#[test]
fn a_task_from_outside_wakes_somebody() {
    model(Some(3), inject_against_sleep);
}

#[test]
fn canary_inject_without_a_look_at_the_sleepers() {
    caught(Canary::PushWake, Some(3), inject_against_sleep);
}

#[test]
fn canary_sleep_without_the_last_look() {
    caught(Canary::LastLook, Some(3), inject_against_sleep);
}

#[test]
fn canary_wake_bit_that_is_not_kept() {
    caught(Canary::WakeBit, Some(3), inject_against_sleep);
}

/// The same for a spawn into a worker's own deque, which has no lock and no fence of its own: only the
/// two barriers keep the push and the last look apart. The spawner stays in its task, so the child must
/// be stolen.
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
        // For ever in this task, as far as the others can tell.
        std::mem::forget(cx);
    });
    std::mem::forget((busy, step));
    let (ran, _) = sleeper.join().unwrap();
    assert_stolen(&core, ran);
}

fn assert_stolen(core: &Engine, ran: usize) {
    assert!(
        ran > 0 || core.sleep().searching() > 0 || !core.has_work(),
        "a task waits in a busy worker's deque, and the only thief sleeps"
    );
}

/// A spawner that becomes busy while the thief falls asleep, is not asked for attention, and passes no fence
/// but its own and those that the thief's barrier makes it pass.
fn unfenced_spawn_against_sleep() {
    let core = core(2);
    let mut busy = core.enter(0);
    let side = busy_side();
    let sleeper = {
        let core = core.clone();
        thread::spawn(move || until_asleep(&core, 1))
    };
    busy.adopt(
        || (),
        |mut cx| {
            cx.try_spawn(2, Placement::Local).unwrap();
            // As above.
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
fn canary_spawn_without_a_look_at_the_sleepers() {
    caught(Canary::PushWake, Some(3), spawn_against_sleep);
}

#[test]
fn canary_last_look_without_a_barrier() {
    caught(Canary::SleepFence, Some(3), spawn_against_sleep);
}

#[test]
fn a_spawn_without_a_fence_wakes_a_thief() {
    model(Some(3), unfenced_spawn_against_sleep);
}

#[test]
fn canary_last_look_that_does_not_count_busy_workers() {
    caught(Canary::PushBarrier, Some(3), unfenced_spawn_against_sleep);
}

#[test]
fn canary_busy_without_a_fence() {
    caught(Canary::BusyFence, Some(3), unfenced_spawn_against_sleep);
}

/// Two searchers fall asleep while a task comes: the last of them looks.
#[test]
fn the_last_of_two_searchers_looks() {
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
            first.0 + second.0 == 1 || core.sleep().searching() > 0 || !core.has_work(),
            "a task is queued and everybody sleeps: {first:?} {second:?}"
        );
    });
}

/// A worker that wakes by itself leaves a stale entry; a waker must not count on it.
#[test]
fn a_stale_entry_swallows_no_wake() {
    model(None, || {
        let sleep = Arc::new(Sleep::new(2, true));
        // Worker 0 sleeps for good, then worker 1, who will wake by itself.
        for worker in [0, 1] {
            assert!(sleep.start_search(2));
            let _ = sleep.announce(worker, true, true);
        }
        let waker = {
            let sleep = sleep.clone();
            thread::spawn(move || sleep.wake_one(None))
        };
        let _ = sleep.wake_up(1);
        let woken = waker.join().unwrap();
        assert!(woken.is_some(), "somebody slept and nobody was woken");
        assert_eq!(sleep.state().searching(), 1, "the woken one searches");
    });
}

/// Goes to sleep on its stale entry while a waker throws that entry away.
#[test]
fn an_entry_made_good_again_is_woken_or_listed() {
    model(None, || {
        let sleep = Arc::new(Sleep::new(1, true));
        assert!(sleep.start_search(1));
        let _ = sleep.announce(0, true, true);
        let _ = sleep.wake_up(0); // by itself: the entry is stale
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
            "asleep, and nobody can find it"
        );
    });
}

/// A worker that may not search announces itself on its stale entry, finds that it must search after all,
/// and is woken in that very moment: whoever woke it counts on its search.
#[test]
fn a_wake_on_the_way_back_is_not_forgotten() {
    model(None, || {
        let sleep = Arc::new(Sleep::new(2, true));
        // Worker 1 sleeps for good; worker 0 has slept, and left a stale entry at the head.
        for worker in [1, 0] {
            assert!(sleep.start_search(2));
            let _ = sleep.announce(worker, true, true);
        }
        let _ = sleep.wake_up(0);
        let pusher = {
            let sleep = sleep.clone();
            thread::spawn(move || [sleep.wake_one(None), sleep.wake_one(None)])
        };
        let counted = match sleep.announce(0, false, true) {
            Announced::Woken => true,
            Announced::MustSearch => false,
            // Somebody was searching when it fell asleep: the one whom the pusher woke.
            Announced::Listed => sleep.is_woken(0),
            other => panic!("{other:?}"),
        };
        let woken = pusher.join().unwrap();
        let counted = counted || sleep.is_woken(0);
        let searching = usize::from(counted) + usize::from(woken.contains(&Some(1)));
        assert_eq!(sleep.state().searching(), searching, "{woken:?}");
        assert!(searching > 0, "two pushes, and nobody searches: {woken:?}");
    });
}

/// A stop reaches a worker that is just falling asleep.
#[test]
fn a_stop_reaches_those_who_fall_asleep() {
    model(Some(3), || {
        let core = core(1);
        let sleeper = {
            let core = core.clone();
            thread::spawn(move || until_asleep(&core, 0).1)
        };
        core.stop();
        let asleep = sleeper.join().unwrap();
        assert!(
            !asleep || core.sleep().searching() > 0,
            "the worker sleeps and was not told to go home"
        );
    });
}

/// A busy worker has three tasks. Another one runs out, and takes two of them at a glance, without having announced a
/// search; a third one takes the last and looks for more while those two are on their way.
fn glance_against_last_look() {
    let settings = Settings {
        idle: Box::new(AtOnce),
        inject_interval: 0,
        ..Settings::new(3)
    };
    let spec = PerWorkerSpec {
        capacity: Capacity::bounded(4),
        steal_batch: 4,
        batch_from: 0,
    };
    let core: Arc<Core<usize, PerWorker, Silent>> =
        Arc::new(Core::new(settings, &spec, Silent).unwrap());
    core.inject(1, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let step = busy.step(|_, mut cx| {
        (2..5).for_each(|task| cx.try_spawn(task, Placement::Local).unwrap());
        // It stays in its task, as does the thief below.
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
    let sleep = core.sleep();
    assert!(
        !(core.has_work() && asleep && sleep.searching() == 0),
        "a task waits in the queue of a busy worker and everybody else sleeps: ran {ran}, {sleep:?}"
    );
}

#[test]
fn a_batch_on_its_way_is_not_overlooked() {
    model(Some(2), glance_against_last_look);
}

#[test]
fn canary_glance_that_tells_nobody() {
    caught(Canary::Glance, Some(2), glance_against_last_look);
}

/// Steps a worker until it is in a task, where it stays, or sleeps for good.
fn until_busy_or_asleep(core: &Core<usize, PerWorker, Silent>, id: usize) {
    let mut worker = core.enter(id);
    loop {
        match worker.step(|_, cx| std::mem::forget(cx)) {
            Step::Park(ticket) if worker.is_woken() => {
                worker.resume(ticket);
                thread::yield_now();
            }
            Step::Ran | Step::Park(_) | Step::Exit => break,
            Step::Idle(_) => {}
        }
    }
    std::mem::forget(worker);
}

/// The last searcher finds a task, while a second one comes whose pusher counts on that search. A third worker sleeps
/// and must be woken.
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
    let sleep = core.sleep();
    assert!(
        !core.has_work() || sleep.searching() > 0,
        "a task is queued, a worker sleeps and none is on the way: {sleep:?}"
    );
}

#[test]
fn a_push_during_the_search_that_finds_another_task_is_seen() {
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

/// All workers are on one core: one is in a task and spawns another one; a second sleeps for good. The third is woken
/// and stands by, as it shares its core; it takes the task in the end, or is gone and another one is woken.
fn spawn_against_standby(leaves: bool) {
    let settings = Settings {
        idle: Box::new(AtOnce),
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
    let core: Arc<Core<usize, PerWorker, Silent>> =
        Arc::new(Core::new(settings, &spec, Silent).unwrap());
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
    let sleep = core.sleep();
    assert!(
        !core.has_work() || sleep.searching() > 0,
        "a task is queued, a worker sleeps and none is on the way: {sleep:?}"
    );
}

/// Worker 2, until it is in a task or asleep for good; or it leaves when it stands by, if it `leaves`.
fn third_stands_by(core: &Core<usize, PerWorker, Silent>, leaves: bool) {
    let mut worker = core.enter(2);
    loop {
        match worker.step(|_, cx| std::mem::forget(cx)) {
            Step::Park(ticket) if worker.is_woken() => worker.resume(ticket),
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
fn a_worker_that_stands_by_comes_in_the_end() {
    model(Some(2), || spawn_against_standby(false));
}

#[test]
fn a_worker_that_stands_by_and_leaves_is_replaced() {
    model(Some(2), || spawn_against_standby(true));
}

#[test]
fn canary_standby_that_leaves_without_a_word() {
    caught(Canary::StandbyLeaves, Some(2), || {
        spawn_against_standby(true)
    });
}
