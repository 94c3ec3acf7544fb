//! Work from outside beside computations that keep every worker busy.
//!
//! Each test fills a pool with leaves of 300 µs, submits one probe from outside, and counts how
//! many leaves the worker that runs the probe has started since the submission. Leaves of one
//! worker are counted rather than time, so a slow or crowded machine changes nothing.

mod support;

use filch::{Fold, Graph, Pool, Priority, par::over};
use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

const WORKERS: usize = 2;
const LEAVES: usize = 240;

/// How many leaves the worker that runs an urgent probe may start first: the one that it starts
/// just as the probe is submitted, and one more if it had read the flags just before.
const URGENT: usize = 2;

/// The same for a Normal probe: eight may pass before a worker reads the clock again (`CHECKS` in
/// `pool::help`), and the one that it starts just as the probe is submitted.
const NORMAL: usize = 9;

/// One test at a time: they fill the machine.
static TURN: Mutex<()> = Mutex::new(());

/// Counts leaves by the thread that runs them.
#[derive(Default)]
struct Leaves {
    started: Mutex<HashMap<ThreadId, usize>>,
}

impl Leaves {
    fn run(&self) {
        *self.lock().entry(thread::current().id()).or_default() += 1;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(300) {
            std::hint::spin_loop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, usize>> {
        self.started.lock().unwrap()
    }

    fn started(&self) -> usize {
        self.lock().values().sum()
    }

    fn by_thread(&self) -> HashMap<ThreadId, usize> {
        self.lock().clone()
    }

    /// How many leaves this thread has started since `before`.
    fn started_here(&self, before: &HashMap<ThreadId, usize>) -> usize {
        let here = thread::current().id();
        let of = |map: &HashMap<_, _>| map.get(&here).copied().unwrap_or(0);
        of(&self.lock()) - of(before)
    }
}

type Load = fn(&Pool, &Arc<Leaves>);

/// Leaves at the ends of a balanced tree of joins.
fn join_tree(pool: &Pool, leaves: &Arc<Leaves>) {
    fn tree(leaves: &Leaves, n: usize) {
        if n == 1 {
            return leaves.run();
        }
        filch::join(|| tree(leaves, n / 2), || tree(leaves, n - n / 2));
    }
    pool.install(|| tree(leaves, LEAVES));
}

/// A chain of joins that is built first and unwound afterwards: pops without pushes.
fn join_unwinding(pool: &Pool, leaves: &Arc<Leaves>) {
    fn chain(leaves: &Leaves, n: usize) {
        if n > 0 {
            filch::join(|| chain(leaves, n - 1), || leaves.run());
        }
    }
    pool.install(|| {
        filch::join(|| chain(leaves, LEAVES / 2), || chain(leaves, LEAVES / 2));
    });
}

/// A chain of joins whose leaves come on the way down: pushes without pops.
fn join_descending(pool: &Pool, leaves: &Arc<Leaves>) {
    fn chain(leaves: &Leaves, n: usize) {
        if n > 0 {
            leaves.run();
            filch::join(|| chain(leaves, n - 1), || ());
        }
    }
    pool.install(|| {
        filch::join(|| chain(leaves, LEAVES / 2), || chain(leaves, LEAVES / 2));
    });
}

fn parallel_loop(pool: &Pool, leaves: &Arc<Leaves>) {
    pool.install(|| over(0..LEAVES).for_each(|_| leaves.run()));
}

fn scope(pool: &Pool, leaves: &Arc<Leaves>) {
    pool.scope(|s| {
        for _ in 0..LEAVES {
            s.spawn(|_| leaves.run());
        }
    });
}

/// One task submits all leaves and joins them.
fn submitted(pool: &Pool, leaves: &Arc<Leaves>) {
    let leaves = leaves.clone();
    let root = pool.submit(move || {
        let handles: Vec<_> = (0..LEAVES)
            .map(|_| {
                let leaves = leaves.clone();
                filch::submit(move || leaves.run())
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
    root.join().unwrap();
}

fn graph_wide(pool: &Pool, leaves: &Arc<Leaves>) {
    let graph = Graph::new();
    for n in 0..LEAVES {
        let leaves = leaves.clone();
        graph.task(format!("leaf {n}"), move || leaves.run());
    }
    graph.plan().unwrap().run_on(pool).unwrap();
}

fn graph_chains(pool: &Pool, leaves: &Arc<Leaves>) {
    let graph = Graph::new();
    for chain in 0..WORKERS {
        let mut last = None;
        for n in 0..LEAVES / WORKERS {
            let leaves = leaves.clone();
            let task = graph.task(format!("leaf {chain}.{n}"), move || leaves.run());
            if let Some(last) = last.replace(task) {
                task.succeed([last]);
            }
        }
    }
    graph.plan().unwrap().run_on(pool).unwrap();
}

fn tree_fold(pool: &Pool, leaves: &Arc<Leaves>) {
    // A node is a number of leaves below it.
    let fold = filch::fold(
        |n: usize| match n {
            1 => vec![],
            n => vec![n / 2, n - n / 2],
        },
        |n: &usize| {
            if *n == 1 {
                leaves.run();
            }
        },
        |_: &mut (), ()| (),
        |()| (),
    );
    pool.install(|| fold.run(LEAVES));
}

const LOADS: [(&str, Load); 9] = [
    ("join tree", join_tree),
    ("unwinding joins", join_unwinding),
    ("descending joins", join_descending),
    ("loop", parallel_loop),
    ("scope", scope),
    ("submitted tasks", submitted),
    ("wide graph", graph_wide),
    ("graph of chains", graph_chains),
    ("tree fold", tree_fold),
];

/// Runs `probe` beside each load, on a worker and on a thread outside of the pool. The probe gets a
/// function to call when it starts, and returns when it has.
fn beside_each_load(bound: usize, probe: impl Fn(&Pool, Box<dyn FnOnce() + Send>)) {
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, load) in LOADS {
        for inside in [true, false] {
            let pool = Pool::builder().workers(WORKERS).build().unwrap();
            let leaves = Arc::new(Leaves::default());
            thread::scope(|s| {
                s.spawn(|| {
                    if inside {
                        pool.on_worker(|| load(&pool, &leaves));
                    } else {
                        load(&pool, &leaves);
                    }
                });
                while leaves.started() < LEAVES / 8 {
                    thread::yield_now();
                }
                let (counted, late) = (leaves.clone(), Arc::new(AtomicUsize::new(usize::MAX)));
                let (before, at) = (leaves.by_thread(), late.clone());
                probe(
                    &pool,
                    Box::new(move || at.store(counted.started_here(&before), SeqCst)),
                );
                let (late, left) = (late.load(SeqCst), LEAVES - leaves.started());
                let place = if inside { "inside" } else { "outside" };
                assert!(
                    late <= bound,
                    "beside {name} ({place}) the worker started {late} leaves first, at most \
                     {bound} are allowed; {left} were left"
                );
            });
        }
    }
}

fn submit_at(priority: Priority) -> impl Fn(&Pool, Box<dyn FnOnce() + Send>) {
    move |pool, started| {
        let task = pool.task(started).priority(priority).submit().unwrap();
        while !task.is_finished() {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn a_critical_task_starts_within_a_leaf() {
    beside_each_load(URGENT, submit_at(Priority::Critical));
}

#[test]
fn a_high_task_starts_within_a_leaf() {
    beside_each_load(URGENT, submit_at(Priority::High));
}

#[test]
fn a_future_starts_within_a_leaf() {
    beside_each_load(URGENT, |pool, started| {
        let handle = pool.spawn_future(async move { started() });
        while !handle.is_finished() {
            thread::sleep(Duration::from_micros(100));
        }
    });
}

#[test]
fn a_normal_task_starts_within_a_few_leaves() {
    beside_each_load(NORMAL, submit_at(Priority::Normal));
}

#[test]
fn a_call_on_a_worker_starts_within_a_few_leaves() {
    beside_each_load(NORMAL, |pool, started| pool.on_worker(started));
}

/// Calls checkpoints until `ticks` has reached `until`.
fn busy_until(ticks: &AtomicUsize, until: usize) {
    while ticks.load(SeqCst) < until {
        std::hint::spin_loop();
        filch::checkpoint();
    }
}

#[test]
fn futures_tick_beside_jobs_that_futures_submit() {
    let (first_ended, ticks) = support::within(support::LIMIT, || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let (ticks, ended) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let ticking = ticks.clone();
        let ticker = pool.spawn_future(async move {
            loop {
                filch::time::sleep(Duration::from_millis(1)).await;
                ticking.fetch_add(1, SeqCst);
            }
        });
        let (counted, over) = (ticks.clone(), ended.clone());
        let first = pool.submit(move || {
            busy_until(&counted, 10);
            over.store(true, SeqCst);
        });
        // Polled at a checkpoint of the first job. Its own job stays queued until that has ended.
        let counted = ticks.clone();
        let second = pool.spawn_future(async move {
            let job = filch::submit(move || {
                let first_ended = ended.load(SeqCst);
                busy_until(&counted, 20);
                first_ended
            });
            job.await.unwrap()
        });
        let first_ended = second.join().unwrap();
        first.join().unwrap();
        ticker.abort();
        (first_ended, ticks.load(SeqCst))
    });
    assert!(first_ended, "the second job ran in the middle of the first");
    assert!(ticks >= 20);
}

#[test]
fn checkpoints_work_in_jobs_that_run_at_checkpoints() {
    support::within(support::LIMIT, || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let ticks = Arc::new(AtomicUsize::new(0));
        let counted = ticks.clone();
        let outer = pool.submit(move || busy_until(&counted, 2));
        let counted = ticks.clone();
        let urgent = pool
            .task(move || busy_until(&counted, 1))
            .priority(Priority::High)
            .submit()
            .unwrap();
        // Polled at a checkpoint of the urgent task, which runs at a checkpoint of the other.
        pool.spawn_future(async move { ticks.fetch_add(2, SeqCst) })
            .join()
            .unwrap();
        urgent.join().unwrap();
        outer.join().unwrap();
    });
}

/// Queues `tasks` tasks behind one that keeps the only worker busy, then calls `last`, lets the
/// worker go, and returns how many of the tasks had run when the closure that `last` got was
/// called.
fn tasks_before(tasks: usize, last: impl FnOnce(&Pool, Box<dyn FnOnce() + Send>)) -> usize {
    let pool = Pool::builder().workers(1).build().unwrap();
    let (ran, seen) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(usize::MAX)),
    );
    let (go, wait) = mpsc::channel::<()>();
    pool.spawn(move || wait.recv().unwrap());
    for _ in 0..tasks {
        let ran = ran.clone();
        pool.spawn(move || {
            ran.fetch_add(1, SeqCst);
        });
    }
    let (counted, at) = (ran.clone(), seen.clone());
    last(
        &pool,
        Box::new(move || at.store(counted.load(SeqCst), SeqCst)),
    );
    go.send(()).unwrap();
    while seen.load(SeqCst) == usize::MAX {
        thread::yield_now();
    }
    pool.shutdown();
    assert_eq!(ran.load(SeqCst), tasks);
    seen.load(SeqCst)
}

#[test]
fn a_future_from_outside_does_not_wait_behind_queued_tasks() {
    let before = tasks_before(1000, |pool, started| {
        pool.spawn_future(async move { started() }).detach();
    });
    assert_eq!(before, 0);
}

#[test]
fn a_low_task_does_not_overtake_normal_ones() {
    let before = tasks_before(2000, |pool, started| {
        let task = pool.task(started).priority(Priority::Low).submit();
        task.unwrap().detach();
    });
    assert_eq!(before, 2000);
}

thread_local! {
    static IN_JOIN: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn a_short_join_is_not_held_by_unrelated_tasks() {
    const ROUNDS: usize = 50;
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = Pool::builder().workers(3).build().unwrap();
    let held = Arc::new(AtomicUsize::new(0));
    for _ in 0..ROUNDS {
        // A worker that is busy for a while, with tasks in its queue that others may steal.
        let (queue, queued) = mpsc::channel();
        let counter = held.clone();
        pool.spawn(move || {
            for _ in 0..4 {
                let held = counter.clone();
                filch::spawn(move || {
                    if IN_JOIN.get() {
                        held.fetch_add(1, SeqCst);
                    }
                    thread::sleep(Duration::from_millis(2));
                });
            }
            queue.send(()).unwrap();
            thread::sleep(Duration::from_millis(5));
        });
        queued.recv().unwrap();
        pool.on_worker(|| {
            let (stolen, ended) = (AtomicBool::new(false), AtomicBool::new(false));
            filch::join(
                || {
                    while !stolen.load(SeqCst) {
                        thread::yield_now();
                    }
                    IN_JOIN.set(true);
                    ended.store(true, SeqCst);
                },
                || {
                    stolen.store(true, SeqCst);
                    while !ended.load(SeqCst) {
                        thread::yield_now();
                    }
                },
            );
            IN_JOIN.set(false);
        });
    }
    pool.shutdown();
    // The thief may lose its processor at the wrong moment, so not none.
    let held = held.load(SeqCst);
    assert!(held <= ROUNDS / 5, "{held} of {ROUNDS} joins were held");
}
