//! Which sleeper is woken, by which push, and how long a worker searches before it sleeps.

use filch::engine::{
    Core, NoObserver, ParkToken, PerWorker, Placement, Settings, Step, Unpark, Worker,
};
use std::{
    cell::Cell,
    sync::{Arc, Mutex},
    time::Duration,
};

type TestCore = Core<u32, PerWorker, NoObserver>;
type TestWorker<'c> = Worker<'c, u32, PerWorker, NoObserver>;

/// The workers that were woken, in order.
#[derive(Clone, Default)]
pub(crate) struct Woken(Arc<Mutex<Vec<usize>>>);

impl Woken {
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Unpark for Woken {
    fn unpark(&self, worker: usize) {
        self.0.lock().unwrap().push(worker);
    }
}

thread_local! {
    /// The core that this thread is said to run on.
    static CORE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Where threads are not pinned.
const UNPINNED: u32 = 7;

/// Calls `f` on a core.
fn on<R>(core: u32, f: impl FnOnce() -> R) -> R {
    let before = CORE.replace(Some(core));
    let result = f();
    CORE.set(before);
    result
}

fn engine(workers: usize) -> (TestCore, Woken) {
    let woken = Woken::default();
    let settings = Settings {
        unpark: Box::new(woken.clone()),
        current_core: Box::new(|| CORE.get()),
        is_pinned: Box::new(|| CORE.get() != Some(UNPINNED)),
        standby: 3,
        ..Settings::new(workers)
    };
    let core = TestCore::new(settings, &Default::default(), NoObserver).unwrap();
    (core, woken)
}

/// Steps a worker that finds nothing until it sleeps; says how many steps it took.
fn fall_asleep(worker: &mut TestWorker<'_>) -> (ParkToken, u32) {
    for steps in 1.. {
        match worker.step(|task, _| panic!("there is no task, but it found {task}")) {
            Step::Park(token) => return (token, steps),
            Step::Idle(_) => {}
            step => panic!("{step:?}"),
        }
    }
    unreachable!()
}

/// Two workers that sleep, and their tokens.
fn both_asleep(core: &TestCore) -> ([TestWorker<'_>; 2], [Option<ParkToken>; 2]) {
    let mut workers = [core.enter(0), core.enter(1)];
    let tokens = workers.each_mut().map(|worker| Some(fall_asleep(worker).0));
    (workers, tokens)
}

/// Steps a worker until it has run a task; says which, and how many steps it took.
fn run_one(worker: &mut TestWorker<'_>) -> (u32, u32) {
    let mut ran = None;
    for steps in 1..1_000 {
        let step = worker.step(|task, _| ran = Some(task));
        match (step, ran) {
            (Step::Ran, Some(task)) => return (task, steps),
            (Step::Idle(_), None) => {}
            (step, ran) => panic!("{step:?} {ran:?}"),
        }
    }
    panic!("it finds nothing");
}

#[test]
fn one_task_wakes_one_worker() {
    let (core, woken) = engine(2);
    let (mut workers, mut tokens) = both_asleep(&core);
    core.inject(1, Placement::Injector).unwrap();
    let first = woken.take();
    assert_eq!(first.len(), 1);
    let first = first[0];
    workers[first].resume(tokens[first].take().unwrap());
    assert_eq!(run_one(&mut workers[first]).0, 1);
    assert!(woken.take().is_empty(), "there is nothing more to do");
}

#[test]
fn a_worker_that_finds_the_first_of_two_tasks_wakes_another() {
    let (core, woken) = engine(2);
    let (mut workers, mut tokens) = both_asleep(&core);
    core.inject(1, Placement::Injector).unwrap();
    core.inject(2, Placement::Injector).unwrap();
    let first = woken.take();
    assert_eq!(first.len(), 1, "a worker is on the way already");
    let first = first[0];
    workers[first].resume(tokens[first].take().unwrap());
    assert_eq!(run_one(&mut workers[first]).0, 1);
    assert_eq!(woken.take(), [1 - first]);
}

#[test]
fn pushes_have_nothing_to_do_while_a_worker_searches() {
    let (core, _) = engine(2);
    let (mut sleeper, mut searcher) = (core.enter(0), core.enter(1));
    let (_token, _) = fall_asleep(&mut sleeper);
    assert!(core.sleep_state().wants_wake());
    assert!(matches!(searcher.step(|_, _| ()), Step::Idle(_)));
    let state = core.sleep_state();
    assert!(state.has_sleepers() && state.searching() == 1);
    assert!(!state.wants_wake());
}

#[test]
fn a_sleeper_on_another_core_is_woken_first() {
    let (core, woken) = engine(3);
    let mut workers = [0, 1, 0].map(|at| (at, None));
    for (id, (at, slot)) in workers.iter_mut().enumerate() {
        on(*at, || {
            let mut worker = core.enter(id);
            let (token, _) = fall_asleep(&mut worker);
            *slot = Some((worker, token));
        });
    }
    // Worker 2 fell asleep last, but on the core of the thread that injects.
    on(0, || core.inject(1, Placement::Injector).unwrap());
    assert_eq!(woken.take(), [1]);
}

/// Worker 0 is in a task on core 0 and has spawned another; workers 1 and 2 sleep, on the cores
/// given. Calls `then` with the one that was woken.
fn beside_a_busy_worker(cores: [u32; 2], then: impl FnOnce(&TestCore, usize, &mut TestWorker<'_>)) {
    let (core, woken) = engine(3);
    let mut busy = on(0, || core.enter(0));
    core.inject(1, Placement::Injector).unwrap();
    let step = on(0, || {
        busy.step(|_, mut running| {
            let mut others = cores.map(|at| (at, None));
            for (id, (at, slot)) in others.iter_mut().enumerate() {
                on(*at, || {
                    let mut worker = core.enter(id + 1);
                    let (token, _) = fall_asleep(&mut worker);
                    *slot = Some((worker, token));
                });
            }
            running.try_spawn(2, Placement::Local).unwrap();
            let woken = woken.take();
            assert_eq!(woken.len(), 1);
            let (at, slot) = &mut others[woken[0] - 1];
            let (mut worker, token) = slot.take().unwrap();
            on(*at, || {
                worker.resume(token);
                then(&core, woken[0], &mut worker);
            });
        })
    });
    assert!(matches!(step, Step::Ran));
}

#[test]
fn a_worker_with_a_core_of_its_own_takes_part_at_once() {
    beside_a_busy_worker([1, 0], |core, woken, worker| {
        assert_eq!(woken, 1, "the other one is on the core of the busy worker");
        assert!(!worker.stands_by() && !core.sleep_state().has_standby());
    });
}

#[test]
fn a_worker_on_the_core_of_a_busy_one_gives_way_a_few_times() {
    beside_a_busy_worker([0, 0], |core, _, worker| {
        assert!(worker.stands_by());
        let state = core.sleep_state();
        assert!(state.has_standby() && state.has_sleepers() && !state.wants_wake());
        for _ in 0..3 {
            assert!(matches!(worker.step(|_, _| ()), Step::Idle(_)));
            assert!(worker.stands_by());
        }
        assert_eq!(run_one(worker).0, 2);
        assert!(!core.sleep_state().has_standby());
    });
}

#[test]
fn a_worker_that_can_leave_its_core_does_not_give_way() {
    let (core, woken) = engine(2);
    let step = on(UNPINNED, || {
        let (mut busy, mut other) = (core.enter(0), core.enter(1));
        core.inject(1, Placement::Injector).unwrap();
        busy.step(|_, mut running| {
            let (token, _) = fall_asleep(&mut other);
            running.try_spawn(2, Placement::Local).unwrap();
            assert_eq!(woken.take(), [1]);
            other.resume(token);
            assert!(!other.stands_by());
            assert_eq!(run_one(&mut other).0, 2);
        })
    });
    assert!(matches!(step, Step::Ran));
}

#[test]
fn a_worker_does_not_give_way_when_a_task_comes_from_outside() {
    beside_a_busy_worker([0, 0], |core, _, worker| {
        assert!(worker.stands_by());
        core.inject(3, Placement::Injector).unwrap();
        let (task, steps) = run_one(worker);
        assert_eq!((task, steps), (3, 2));
    });
}

#[test]
fn a_worker_that_falls_asleep_on_a_core_of_its_own_is_woken_though_another_stands_by() {
    let (core, woken) = engine(4);
    beside_a_busy_worker([0, 0], |core, _, worker| {
        assert!(worker.stands_by());
        assert!(!core.sleep_state().wants_wake());
    });
    // The same with a fourth worker, on core 1.
    let mut busy = on(0, || core.enter(0));
    core.inject(1, Placement::Injector).unwrap();
    let step = on(0, || {
        busy.step(|_, mut running| {
            let mut standby = core.enter(1);
            let (token, _) = fall_asleep(&mut standby);
            running.try_spawn(2, Placement::Local).unwrap();
            assert_eq!(woken.take(), [1]);
            standby.resume(token);
            assert!(standby.stands_by());
            let late = on(1, || core.enter(2));
            on(1, || {
                let mut late = late;
                // It takes the task, and sleeps.
                assert_eq!(run_one(&mut late).0, 2);
                let (_token, _) = fall_asleep(&mut late);
                assert!(core.sleep_state().wants_wake(), "{:?}", core.sleep_state());
                on(0, || running.try_spawn(3, Placement::Local).unwrap());
                assert_eq!(woken.take(), [2]);
            });
        })
    });
    assert!(matches!(step, Step::Ran));
}

#[test]
fn searches_adapt_to_how_long_the_worker_sleeps() {
    let (core, _) = engine(1);
    let mut worker = core.enter(0);
    let mut search_after = |slept| {
        let (token, steps) = fall_asleep(&mut worker);
        worker.resume_after(token, slept);
        steps
    };
    let (long, short) = (Duration::from_millis(1), Duration::from_micros(10));
    let first = search_after(long);
    assert!(first > 200, "{first}");
    for _ in 0..8 {
        search_after(long);
    }
    let adapted = search_after(short);
    assert!(adapted < 10, "{adapted}");
    for _ in 0..4 {
        search_after(short);
    }
    assert_eq!(search_after(short), first);
}
