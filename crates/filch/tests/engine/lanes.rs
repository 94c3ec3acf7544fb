//! Levels and affinity in the engine: by hand, one step at a time, and with threads.

use crate::support::{LIMIT, until, within};
use filch::{
    Rng,
    engine::{
        Ageing, Core, Observer, ParkToken, PerWorker, Placement, Priority, RunningWorker, Settings,
        Shared, Step, Strategy, Tiered, Unpark, Worker,
    },
    observe::Counters,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

type Engine<Q = PerWorker> = Core<u32, Q, Counters>;

/// Whom the engine has unparked, in order.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<usize>>>);

impl Calls {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Unpark for Calls {
    fn unpark(&self, worker: usize) {
        self.0.lock().unwrap().push(worker);
    }
}

/// Searches this many times before it sleeps.
const ROUNDS: u32 = 3;

/// One whose wakes are written down.
fn engine_with_calls(workers: usize) -> (Engine, Calls) {
    let calls = Calls::default();
    let core = engine_with(Settings {
        unpark: Box::new(calls.clone()),
        ..Settings::new(workers)
    });
    (core, calls)
}

fn engine_with(settings: Settings) -> Engine {
    let workers = settings.workers;
    let settings = Settings {
        idle: Box::new(Tiered {
            spin_rounds: ROUNDS,
            ..Tiered::default()
        }),
        ..settings
    };
    Core::new(settings, &Default::default(), Counters::new(workers)).unwrap()
}

fn engine(workers: usize) -> Engine {
    engine_with(Settings::new(workers))
}

/// The mailbox of a worker, or a lane.
fn random_placement(rng: &mut Rng, workers: usize) -> Placement {
    if rng.one_in(2) {
        Placement::Affine(rng.below(workers))
    } else {
        Placement::Lane(Priority::ALL[rng.below(4)])
    }
}

fn with_ageing(high: u32, normal: u32, low: u32) -> Engine {
    engine_with(Settings {
        ageing: Ageing { high, normal, low },
        ..Settings::new(1)
    })
}

/// Steps until the worker has run a task, and gives it; `None` when it parks or exits.
fn next<Q: Strategy, O: Observer>(worker: &mut Worker<'_, u32, Q, O>) -> Option<u32> {
    let mut ran = None;
    loop {
        match worker.step(|task, _| ran = Some(task)) {
            Step::Ran => return ran,
            Step::Idle(_) => {}
            Step::Park(token) => {
                worker.resume(token);
                return None;
            }
            Step::Exit => return None,
        }
    }
}

/// Everything that the worker finds to do.
fn all<Q: Strategy, O: Observer>(worker: &mut Worker<'_, u32, Q, O>) -> Vec<u32> {
    std::iter::from_fn(|| next(worker)).collect()
}

/// Steps until the worker sleeps.
fn park(worker: &mut Worker<'_, u32, PerWorker, Counters>) -> ParkToken {
    loop {
        match worker.step(|task, _| panic!("{task} was there")) {
            Step::Park(token) => return token,
            Step::Idle(_) => {}
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn the_most_urgent_come_first_and_in_their_order() {
    let core = engine(1);
    let levels = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Critical,
    ];
    for round in 0..2 {
        for (n, level) in levels.into_iter().enumerate() {
            core.inject(10 * n as u32 + round, Placement::Lane(level))
                .unwrap();
        }
    }
    let mut worker = core.enter(0);
    assert_eq!(all(&mut worker), [30, 31, 20, 21, 10, 11, 0, 1]);
    let metrics = core.observer().worker(0);
    assert_eq!((metrics.critical, metrics.high, metrics.low), (2, 2, 2));
    assert_eq!((metrics.injected + metrics.local, metrics.executed), (2, 8));
}

/// Runs a chain of tasks, each of which spawns the next, for this number of milliseconds each, on a
/// worker whose own queue holds `older` tasks below. Returns after which task of the chain each of
/// them has run.
fn chain_before_older(older: u32, millis: u64) -> Vec<u32> {
    let core = engine(1);
    core.inject(0, Placement::Injector).unwrap();
    let mut worker = core.enter(0);
    let _ = worker.step(|_, mut running| {
        (1..=older).for_each(|task| running.spawn(task, Placement::Local));
        running.spawn(100, Placement::Local);
    });
    let (mut links, mut ran_after) = (0, Vec::new());
    for tasks in 1..=1_000 {
        let _ = worker.step(|task, mut running| match task {
            100 => {
                links += 1;
                running.spawn(100, Placement::Local);
            }
            _ => ran_after.push(links),
        });
        worker.force_injector_poll();
        worker.observe_time(tasks * millis * 1_000_000);
    }
    ran_after
}

#[test]
fn a_chain_of_tasks_does_not_keep_the_oldest_waiting() {
    // Observed after 1 and 11 ms, then after 12 and 22 ms.
    assert_eq!(chain_before_older(2, 1), [11, 21]);
    // Every other one, if each takes longer than the limit.
    assert_eq!(chain_before_older(3, 20), [2, 3, 4]);
    assert_eq!(chain_before_older(0, 1), []);
}

#[test]
fn urgent_tasks_overtake_the_own_queue() {
    let core = engine(1);
    core.inject(0, Placement::Injector).unwrap();
    let mut worker = core.enter(0);
    let mut order = Vec::new();
    while order.len() < 9 {
        let _ = worker.step(|task, mut cx| {
            order.push(task);
            match task {
                0 => (1..5).for_each(|n| cx.try_spawn(n, Placement::Local).unwrap()),
                // In the middle of its own: two urgent ones, one that can wait, and one that is
                // normal.
                3 => {
                    cx.try_spawn(100, Placement::Lane(Priority::Low)).unwrap();
                    cx.try_spawn(101, Placement::Lane(Priority::High)).unwrap();
                    cx.try_spawn(102, Placement::Lane(Priority::Critical))
                        .unwrap();
                    cx.try_spawn(103, Placement::Lane(Priority::Normal))
                        .unwrap();
                }
                _ => {}
            }
        });
    }
    assert_eq!(order, [0, 4, 3, 102, 101, 103, 2, 1, 100]);
    let metrics = core.observer().worker(0);
    assert_eq!((metrics.spawned_lane, metrics.spawned_local), (3, 5));
}

/// One task of `few` among 200 of `many`: how many of these come before it.
fn place_of(core: &Engine, few: Priority, many: Priority) -> usize {
    (0..200).for_each(|_| core.inject(0, Placement::Lane(many)).unwrap());
    core.inject(1, Placement::Lane(few)).unwrap();
    let mut worker = core.enter(0);
    let order = all(&mut worker);
    assert_eq!(order.len(), 201);
    order.iter().position(|&task| task == 1).unwrap()
}

#[test]
fn less_urgent_lanes_get_a_turn() {
    use Priority::{Critical, High, Low, Normal};
    let Ageing { high, normal, low } = Ageing::default();
    let places = [
        (High, Critical, high),
        (Normal, Critical, normal),
        (Normal, High, normal),
        // The turn comes at that task, not after it.
        (Low, Critical, low - 1),
        (Low, High, low - 1),
        (Low, Normal, low - 1),
    ];
    for (few, many, after) in places {
        let place = place_of(&engine(1), few, many);
        assert_eq!(place, after as usize, "{few:?} among {many:?}");
    }
}

#[test]
fn turns_can_be_switched_off() {
    for (few, many) in [
        (Priority::High, Priority::Critical),
        (Priority::Normal, Priority::High),
        (Priority::Low, Priority::Normal),
    ] {
        assert_eq!(place_of(&with_ageing(0, 0, 0), few, many), 200);
    }
}

/// With a turn at every task, every lane gets its share, and Critical tasks still get every other
/// one.
#[test]
fn no_turn_keeps_another_one_waiting() {
    let core = with_ageing(1, 1, 1);
    for level in Priority::ALL {
        for _ in 0..100 {
            core.inject(level as u32, Placement::Lane(level)).unwrap();
        }
    }
    let mut worker = core.enter(0);
    let order: Vec<_> = (0..90).map(|_| next(&mut worker).unwrap()).collect();
    let share = |level: Priority| order.iter().filter(|&&task| task == level as u32).count();
    assert!(share(Priority::Critical) >= 44, "{order:?}");
    for level in [Priority::High, Priority::Normal, Priority::Low] {
        assert!(share(level) >= 14, "{level:?} in {order:?}");
    }
}

#[test]
fn with_one_shared_queue_levels_are_the_same() {
    let core: Engine<Shared> =
        Core::new(Settings::new(1), &Default::default(), Counters::new(1)).unwrap();
    for (n, level) in Priority::ALL.into_iter().enumerate() {
        core.inject(n as u32, Placement::Lane(level)).unwrap();
    }
    assert_eq!(all(&mut core.enter(0)), [3, 2, 1, 0]);
}

#[test]
fn a_thief_checks_the_lanes_first() {
    let core = engine(2);
    core.inject(0, Placement::Injector).unwrap();
    let mut busy = core.enter(0);
    let step =
        busy.step(|_, mut cx| (1..20).for_each(|n| cx.try_spawn(n, Placement::Local).unwrap()));
    assert!(matches!(step, Step::Ran));
    core.inject(100, Placement::Lane(Priority::Low)).unwrap();
    core.inject(101, Placement::Lane(Priority::High)).unwrap();
    let mut thief = core.enter(1);
    assert_eq!(next(&mut thief), Some(101));
    let stolen = next(&mut thief).unwrap();
    assert!((1..20).contains(&stolen), "{stolen}");
    assert_eq!(core.observer().worker(1).stolen, 1);
    // The Low one comes when nothing else is left, here or there.
    let mut rest = all(&mut thief);
    rest.append(&mut all(&mut busy));
    assert_eq!(rest.len(), 18 + 1);
    assert_eq!(core.observer().worker(1).low, 1);
}

#[test]
fn a_lane_refuses_when_it_is_full_or_the_gate_closed() {
    let core = engine_with(Settings {
        inject_capacity: Some(2),
        ..Settings::new(1)
    });
    for level in Priority::ALL {
        core.inject(1, Placement::Lane(level)).unwrap();
        core.inject(2, Placement::Lane(level)).unwrap();
        let refused = core.inject(3, Placement::Lane(level)).unwrap_err();
        assert!(refused.is_full() && refused.into_inner() == 3);
    }
    core.inject(4, Placement::Affine(0)).unwrap();
    core.close();
    for level in Priority::ALL {
        assert!(
            core.inject(5, Placement::Lane(level))
                .unwrap_err()
                .is_closed()
        );
    }
    assert!(
        core.inject(5, Placement::Affine(0))
            .unwrap_err()
            .is_closed()
    );
    let mut worker = core.enter(0);
    assert_eq!(all(&mut worker).len(), 9);
    assert!(core.is_stopped(), "everything has run");
}

#[test]
fn what_a_stop_leaves_in_lanes_and_boxes_comes_back() {
    let core = engine(2);
    for level in Priority::ALL {
        core.inject(level as u32, Placement::Lane(level)).unwrap();
    }
    core.inject(4, Placement::Affine(0)).unwrap();
    core.inject(5, Placement::Affine(1)).unwrap();
    let worker = core.enter(0);
    core.stop();
    drop(worker);
    let mut tasks = core.take_queued(|| panic!("everything is there"));
    tasks.sort_unstable();
    assert_eq!(tasks, [0, 1, 2, 3, 4, 5]);
    assert!(!core.has_work());
}

#[test]
fn a_worker_takes_from_its_box_and_its_queue_in_turns() {
    let core = engine(1);
    core.inject(0, Placement::Injector).unwrap();
    let mut worker = core.enter(0);
    let _ = worker.step(|_, mut cx| {
        for n in 1..=3 {
            cx.try_spawn(n, Placement::Local).unwrap();
            cx.spawn(10 * n, Placement::Affine(0));
        }
    });
    core.inject(99, Placement::Injector).unwrap();
    assert_eq!(all(&mut worker), [10, 3, 20, 2, 30, 1, 99]);
    let metrics = core.observer().worker(0);
    assert_eq!((metrics.affine_kept, metrics.spawned_affine), (3, 3));
    assert_eq!(metrics.executed, 8);
}

#[test]
fn another_worker_takes_a_boxed_task_after_a_whole_search() {
    let core = engine(2);
    let busy = core.enter(0);
    let mut idle = core.enter(1);
    core.inject(7, Placement::Affine(0)).unwrap();
    let mut looks = 0;
    let ran = loop {
        let mut ran = None;
        match idle.step(|task, _| ran = Some(task)) {
            Step::Ran => break ran,
            Step::Idle(_) => looks += 1,
            step => panic!("{step:?}"),
        }
    };
    assert_eq!((ran, looks), (Some(7), ROUNDS));
    let metrics = core.observer().worker(1);
    assert_eq!((metrics.affine_broken, metrics.executed), (1, 1));
    drop(busy);
}

#[test]
fn a_task_from_outside_may_prefer_a_worker() {
    let (core, calls) = engine_with_calls(3);
    let mut workers = [core.enter(0), core.enter(1), core.enter(2)];
    let mut tokens: Vec<_> = workers.iter_mut().map(|w| Some(park(w))).collect();
    core.inject(6, Placement::Injector).unwrap();
    assert_eq!(calls.take(), [2], "the one that fell asleep last");
    workers[2].resume(tokens[2].take().unwrap());
    assert_eq!(next(&mut workers[2]), Some(6));
    assert!(calls.take().is_empty(), "one task wakes one worker");
    let _ = park(&mut workers[2]);
    core.inject(7, Placement::InjectorNear(0)).unwrap();
    assert_eq!(calls.take(), [0], "the one that fell asleep first");
    // It is on its way, so no other worker is woken.
    core.inject(8, Placement::InjectorNear(2)).unwrap();
    assert!(calls.take().is_empty());
    workers[0].resume(tokens[0].take().unwrap());
    let both = [next(&mut workers[0]), next(&mut workers[0])];
    assert_eq!(both, [Some(7), Some(8)]);
    // The search that found the first passed on the second.
    assert_eq!(calls.take(), [2]);
    core.close();
    assert!(
        core.inject(9, Placement::InjectorNear(0))
            .unwrap_err()
            .is_closed()
    );
}

#[test]
fn a_task_for_a_worker_that_is_awake_wakes_another() {
    let (core, calls) = engine_with_calls(2);
    let _awake = core.enter(0);
    let mut sleeper = core.enter(1);
    let _token = park(&mut sleeper);
    core.inject(7, Placement::InjectorNear(0)).unwrap();
    assert_eq!(calls.take(), [1]);
}

#[test]
fn only_the_worker_that_sleeps_is_called() {
    let (core, calls) = engine_with_calls(3);
    let mut workers = [core.enter(0), core.enter(1), core.enter(2)];
    // The first one to sleep is the last in the list.
    let mut tokens: Vec<_> = workers.iter_mut().map(|w| Some(park(w))).collect();
    core.inject(7, Placement::Affine(0)).unwrap();
    assert_eq!(calls.take(), [0]);
    assert!(workers[0].is_woken() && !workers[1].is_woken());
    // It counts as searching: no worker is woken for the next task, nor again for this one.
    core.inject(8, Placement::Affine(0)).unwrap();
    assert!(calls.take().is_empty());
    workers[0].resume(tokens[0].take().unwrap());
    assert_eq!(next(&mut workers[0]), Some(7));
    // Where one task was there may be more: it has passed the search on.
    assert_eq!(calls.take(), [2]);
    assert_eq!(next(&mut workers[0]), Some(8));
    let metrics = core.observer().metrics();
    assert_eq!(metrics.total().affine_kept, 2);
    assert_eq!((metrics.outside_wakes, metrics.workers[0].wakes), (1, 1));

    // All sleep again, with old and new entries; every worker can be called.
    workers[2].resume(tokens[2].take().unwrap());
    for id in [0, 2] {
        tokens[id] = Some(park(&mut workers[id]));
    }
    calls.take();
    for id in 0..3 {
        core.inject(id as u32, Placement::Affine(id)).unwrap();
    }
    assert_eq!(calls.take(), [0, 1, 2]);
    for (id, worker) in workers.iter_mut().enumerate() {
        worker.resume(tokens[id].take().unwrap());
        assert_eq!(next(worker), Some(id as u32));
    }
}

#[test]
fn a_worker_that_searched_in_vain_calls_the_one_that_sleeps() {
    let (core, calls) = engine_with_calls(2);
    let (mut first, mut second) = (core.enter(0), core.enter(1));
    // Two searchers are one too many, so the first waits until the second is through.
    let token = park(&mut first);
    core.inject(7, Placement::Affine(0)).unwrap();
    assert_eq!(calls.take(), [0]);
    let asleep = park(&mut second);
    assert_eq!(core.observer().worker(1).executed, 0, "it is not its task");
    first.resume(token);
    assert_eq!(next(&mut first), Some(7));
    second.resume(asleep);
}

#[test]
fn a_box_goes_with_its_worker() {
    let core = engine(2);
    let mut stays = core.enter(0);
    let leaves = core.enter(1);
    core.inject(7, Placement::Affine(1)).unwrap();
    drop(leaves);
    core.inject(8, Placement::Affine(1)).unwrap();
    let mut steps = 0;
    let mut order = Vec::new();
    while order.len() < 2 {
        let _ = stays.step(|task, _| order.push(task));
        steps += 1;
    }
    assert_eq!((order, steps), (vec![7, 8], 2), "at once");
    assert_eq!(core.observer().worker(0).affine_broken, 0);
    // One that comes back has its box again.
    let mut back = core.enter(1);
    core.inject(9, Placement::Affine(1)).unwrap();
    assert_eq!(next(&mut back), Some(9));
    assert_eq!(core.observer().worker(1).affine_kept, 1);
}

/// The owner never comes out of its task, and the other worker never runs out: it takes the task
/// all the same.
#[test]
fn a_boxed_task_does_not_wait_for_ever() {
    let core = engine_with(Settings {
        ageing: Ageing {
            low: 10,
            ..Ageing::default()
        },
        ..Settings::new(2)
    });
    let stuck = core.enter(0);
    let mut busy = core.enter(1);
    core.inject(0, Placement::Injector).unwrap();
    core.inject(1, Placement::Affine(0)).unwrap();
    let mut before = 0;
    let mut found = false;
    while !found {
        let _ = busy.step(|task, mut cx| {
            found = task == 1;
            before += u32::from(!found);
            cx.try_spawn(0, Placement::Local).unwrap();
        });
        assert!(before <= 2 * 10, "{before} tasks of its own");
    }
    assert!(before >= 10, "not before a whole turn: {before}");
    drop(stuck);
}

#[test]
fn a_task_that_waits_takes_what_is_pressing() {
    let core = engine(1);
    core.inject(0, Placement::Injector).unwrap();
    let mut worker = core.enter(0);
    let _ = worker.step(
        |_, mut cx: RunningWorker<'_, '_, u32, PerWorker, Counters>| {
            assert_eq!(cx.take_preferred(), None);
            cx.try_spawn(1, Placement::Local).unwrap();
            cx.try_spawn(2, Placement::Lane(Priority::Low)).unwrap();
            assert_eq!(cx.take_preferred(), None, "these can wait");
            cx.spawn(3, Placement::Affine(0));
            cx.try_spawn(4, Placement::Lane(Priority::High)).unwrap();
            assert_eq!(cx.take_preferred(), Some(4));
            assert_eq!(cx.take_preferred(), Some(3));
            assert_eq!(cx.take_preferred(), None);
        },
    );
    assert_eq!(all(&mut worker), [1, 2]);
    core.close();
    assert_eq!(next(&mut worker), None);
    assert!(core.is_stopped(), "the counts add up");
    assert_eq!(core.observer().worker(0).executed, 5);
}

#[test]
fn the_table_shows_what_was_used() {
    let core = engine(2);
    core.inject(0, Placement::Injector).unwrap();
    let mut worker = core.enter(0);
    all(&mut worker);
    let plain = core.observer().metrics().to_string();
    core.inject(0, Placement::Lane(Priority::Critical)).unwrap();
    core.inject(0, Placement::Affine(0)).unwrap();
    all(&mut worker);
    let table = core.observer().metrics().to_string();
    for (name, shown) in [("critical", true), ("kept", true), ("low", false)] {
        assert!(!plain.contains(name), "{plain}");
        assert_eq!(table.contains(name), shown, "{table}");
    }
}

/// Threads for the stress tests.
#[derive(Clone)]
struct Parkers(Arc<Vec<Mutex<Option<Thread>>>>);

impl Unpark for Parkers {
    fn unpark(&self, worker: usize) {
        if let Some(thread) = &*self.0[worker].lock().unwrap() {
            thread.unpark();
        }
    }
}

/// Steps worker `id` until it exits. With `leave_after` it leaves and enters again after that many
/// tasks.
fn drive(
    core: &Engine,
    id: usize,
    leave_after: Option<u32>,
    mut run: impl FnMut(u32, RunningWorker<'_, '_, u32, PerWorker, Counters>),
) {
    let mut worker = core.enter(id);
    let mut ran = 0;
    loop {
        match worker.step(&mut run) {
            Step::Ran => {
                ran += 1;
                if leave_after.is_some_and(|tasks| ran % tasks == 0) {
                    drop(worker);
                    worker = core.enter(id);
                }
            }
            Step::Idle(_) => thread::yield_now(),
            Step::Park(token) => {
                while !worker.is_woken() && !worker.has_pinned() {
                    thread::park();
                }
                worker.resume(token);
            }
            Step::Exit => return,
        }
    }
}

/// Tasks from everywhere, at all levels and for all workers, one of which leaves and enters again:
/// each runs once.
#[test]
fn everything_runs_once() {
    const WORKERS: usize = 4;
    const OUTSIDE: usize = 2;
    const EACH: u32 = if cfg!(miri) { 50 } else { 20_000 };
    const ROOTS: u32 = OUTSIDE as u32 * EACH;

    let round = |seed: u64| {
        let parkers = Parkers(Arc::new((0..WORKERS).map(|_| Mutex::new(None)).collect()));
        let settings = Settings {
            unpark: Box::new(parkers.clone()),
            seed,
            ..Settings::new(WORKERS)
        };
        let core: Engine =
            Core::new(settings, &Default::default(), Counters::new(WORKERS)).unwrap();
        // Every root has two children, whose numbers follow those of the roots.
        let runs: Vec<_> = (0..3 * ROOTS).map(|_| AtomicU32::new(0)).collect();
        let sources = AtomicUsize::new(OUTSIDE);
        thread::scope(|s| {
            for id in 0..WORKERS {
                let (core, runs, parkers) = (&core, &runs, &parkers);
                s.spawn(move || {
                    *parkers.0[id].lock().unwrap() = Some(thread::current());
                    let mut rng = Rng::new(seed ^ id as u64);
                    let leave_after = (id == 0).then_some(100);
                    drive(core, id, leave_after, |task, mut cx| {
                        runs[task as usize].fetch_add(1, Ordering::Relaxed);
                        if task < ROOTS {
                            for child in [ROOTS + 2 * task, ROOTS + 2 * task + 1] {
                                if rng.one_in(2) {
                                    cx.spawn(child, Placement::Affine(rng.below(WORKERS)));
                                } else {
                                    let level = Priority::ALL[rng.below(4)];
                                    cx.try_spawn(child, Placement::Lane(level)).unwrap();
                                }
                            }
                        }
                    });
                });
            }
            for source in 0..OUTSIDE as u32 {
                let (core, sources) = (&core, &sources);
                s.spawn(move || {
                    let mut rng = Rng::new(!seed ^ u64::from(source));
                    for task in source * EACH..(source + 1) * EACH {
                        core.inject(task, random_placement(&mut rng, WORKERS))
                            .unwrap();
                        if rng.one_in(1000) {
                            thread::sleep(Duration::from_micros(200));
                        }
                    }
                    if sources.fetch_sub(1, Ordering::AcqRel) == 1 {
                        core.close();
                    }
                });
            }
        });
        for (task, runs) in runs.iter().enumerate() {
            assert_eq!(runs.load(Ordering::Relaxed), 1, "task {task}");
        }
        let total = core.observer().metrics().total();
        assert_eq!(total.executed, u64::from(3 * ROOTS));
        assert!(total.critical > 0 && total.low > 0 && total.affine_kept > 0);
    };
    for seed in 0..3 {
        within(LIMIT, move || round(seed));
    }
}

/// One task at a time, for workers that are asleep, or about to be: none is left lying.
#[test]
fn no_worker_sleeps_on_a_single_task() {
    const WORKERS: usize = 3;
    let parkers = Parkers(Arc::new((0..WORKERS).map(|_| Mutex::new(None)).collect()));
    let settings = Settings {
        unpark: Box::new(parkers.clone()),
        idle: Box::new(Tiered {
            spin_rounds: 1,
            ..Tiered::default()
        }),
        ..Settings::new(WORKERS)
    };
    let core: Engine = Core::new(settings, &Default::default(), Counters::new(WORKERS)).unwrap();
    let done = AtomicUsize::new(0);
    thread::scope(|s| {
        for id in 0..WORKERS {
            let (core, done, parkers) = (&core, &done, &parkers);
            s.spawn(move || {
                *parkers.0[id].lock().unwrap() = Some(thread::current());
                drive(core, id, None, |_, _| {
                    done.fetch_add(1, Ordering::Release);
                });
            });
        }
        let mut rng = Rng::new(1);
        for task in 0..2_000 {
            core.inject(task, random_placement(&mut rng, WORKERS))
                .unwrap();
            until("the task", || done.load(Ordering::Acquire) > task as usize);
            // Now they fall asleep, or are in the middle of it.
            (0..rng.below(2_000)).for_each(|_| std::hint::spin_loop());
        }
        core.close();
    });
    let total = core.observer().metrics().total();
    assert_eq!(total.executed, 2_000);
    assert!(total.affine_kept > 0 && total.critical > 0 && total.low > 0);
}
