//! Work from outside beside computations that keep every worker busy.
//!
//! Each test fills a pool with leaves of 300 µs, submits one probe from outside, and counts how
//! many leaves the worker that runs the probe has started since the submission. Leaves of one
//! worker are counted rather than time, so a slow or crowded machine changes nothing.

mod support;

use filch::{Fold, Graph, Pool, Priority, fold::Tasks, graph::Pipeline, par::over};
use std::{
    cell::Cell,
    cmp,
    collections::HashMap,
    sync::{
        Arc, Barrier, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

const WORKERS: usize = 2;
const LEAVES: usize = 240;

/// The items of a sort, which has two runs for each worker.
const SORTED: usize = 100_000;

/// The comparisons of one run: this is a leaf of a sort.
const COMPARISONS: usize = SORTED / (2 * WORKERS) * SORTED.ilog2() as usize;

/// How many leaves the worker that runs an urgent probe may start first: the one that it starts
/// just as the probe is submitted, and one more if it had read the flags just before.
const URGENT: usize = 2;

/// The same for a Normal probe: eight may pass before a worker reads the clock again
/// (`MAX_CHECKS_BETWEEN_SAMPLES` in `pool::help`), and the one that it starts just as the probe is
/// submitted.
const NORMAL: usize = 9;

/// The items of the first block of a loop (`MAX_INNER_FIRST_BLOCK` in `par::pace`), which is one
/// leaf: how long an item takes is not known yet.
const FIRST_BLOCK: usize = 16;

/// One test at a time: they fill the machine.
static TURN: Mutex<()> = Mutex::new(());

/// Counts leaves by the thread that runs them.
#[derive(Default)]
struct Leaves {
    started: Mutex<HashMap<ThreadId, usize>>,
}

impl Leaves {
    fn begin(&self) {
        *self.lock().entry(thread::current().id()).or_default() += 1;
    }

    fn run(&self) {
        self.begin();
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

    /// How many leaves this thread has started since `before`; on a substitute, which starts none,
    /// how many the worker has started that has started the fewest.
    fn started_here(&self, before: &HashMap<ThreadId, usize>) -> usize {
        let (now, here) = (self.lock(), thread::current());
        let of = |map: &HashMap<_, _>, id| map.get(&id).copied().unwrap_or(0);
        let since = |id| of(&now, id) - of(before, id);
        match here.name() {
            Some(name) if name.starts_with("filch-blocking") => {
                now.keys().map(|id| since(*id)).min().unwrap_or(0)
            }
            _ => since(here.id()),
        }
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

/// A node of a tree is a number of leaves below it, and a number that no other node has.
fn halves((leaves, number): (usize, usize)) -> Vec<(usize, usize)> {
    match leaves {
        1 => vec![],
        n => vec![(n / 2, 2 * number), (n - n / 2, 2 * number + 1)],
    }
}

fn tasks_fold(pool: &Pool, leaves: &Arc<Leaves>) {
    let init = |node: &(usize, usize)| {
        if node.0 == 1 {
            leaves.run();
        }
    };
    let fold = filch::fold(halves, init, |_: &mut (), ()| (), |()| ());
    fold.with::<Tasks>().on(pool).run((LEAVES, 1));
}

fn memo_fold(pool: &Pool, leaves: &Arc<Leaves>) {
    let init = |node: &(usize, usize)| {
        if node.0 == 1 {
            leaves.run();
        }
    };
    let fold = filch::fold(halves, init, |_: &mut (), ()| (), |()| ());
    let folded = fold.memo(|node| node.1).on(pool).run((LEAVES, 1));
    assert_eq!(folded, Ok(()));
}

/// The leaves are nodes that are explored, by one worker.
fn memo_exploration(pool: &Pool, leaves: &Arc<Leaves>) {
    let children = |n: usize| {
        leaves.run();
        (n > 1).then(|| n - 1)
    };
    let fold = filch::fold(children, |_: &usize| (), |_: &mut (), ()| (), |()| ());
    let folded = fold.memo(|n| *n).on(pool).run(LEAVES);
    assert_eq!(folded, Ok(()));
}

fn pipeline(pool: &Pool, leaves: &Arc<Leaves>) {
    let half = LEAVES as u64 / 2;
    let mut pipeline = Pipeline::new(|flow| (flow.token() < half).then_some(()))
        .parallel(|()| leaves.run())
        .serial(|()| leaves.run());
    pipeline.run_on(pool, 4).unwrap();
}

fn lazy_chain(pool: &Pool, leaves: &Arc<Leaves>) {
    let map = |n: usize| {
        leaves.run();
        2 * n
    };
    let even: Vec<usize> = pool.install(|| {
        let chain = over(0..LEAVES).map(map).filter(|n| n % 4 == 0);
        chain.map(|n| n / 4).collect()
    });
    assert_eq!(even.len(), LEAVES / 2);
}

fn bridged_loop(pool: &Pool, leaves: &Arc<Leaves>) {
    use filch::par::ParBridge;
    pool.install(|| (0..LEAVES).par_bridge().for_each(|_| leaves.run()));
}

fn sort_with(
    pool: &Pool,
    leaves: &Leaves,
    sort: impl FnOnce(&mut [usize], &(dyn Fn(&usize, &usize) -> cmp::Ordering + Sync)) + Send,
) {
    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }
    let compare = |a: &usize, b: &usize| {
        COMPARED.set(COMPARED.get() + 1);
        if COMPARED.get().is_multiple_of(COMPARISONS) {
            leaves.begin();
        }
        a.cmp(b)
    };
    let mut items: Vec<usize> = (0..SORTED).map(|n| n * 7919 % SORTED).collect();
    pool.install(|| sort(&mut items, &compare));
    assert!(items.is_sorted());
}

fn stable_sort(pool: &Pool, leaves: &Arc<Leaves>) {
    sort_with(pool, leaves, |items, compare| {
        over(items).sort_by(compare);
    });
}

fn unstable_sort(pool: &Pool, leaves: &Arc<Leaves>) {
    sort_with(pool, leaves, |items, compare| {
        over(items).sort_unstable_by(compare);
    });
}

const LOADS: [(&str, Load); 17] = [
    ("join tree", join_tree),
    ("unwinding joins", join_unwinding),
    ("descending joins", join_descending),
    ("loop", parallel_loop),
    ("scope", scope),
    ("submitted tasks", submitted),
    ("wide graph", graph_wide),
    ("graph of chains", graph_chains),
    ("tree fold", tree_fold),
    ("fold with tasks", tasks_fold),
    ("fold of a graph", memo_fold),
    ("exploration of a graph", memo_exploration),
    ("pipeline", pipeline),
    ("lazy chain", lazy_chain),
    ("bridged loop", bridged_loop),
    ("stable sort", stable_sort),
    ("unstable sort", unstable_sort),
];

/// Runs `probe` beside each load, on a worker and on a thread outside of the pool. The probe gets a
/// function to call when it starts, and returns when it has.
fn beside_each_load(bound: usize, probe: impl Fn(&Pool, Box<dyn FnOnce() + Send>)) {
    beside_each_load_and(|_| (), bound, probe);
}

/// [`beside_each_load`] with `more` work, until what it returns is dropped.
fn beside_each_load_and<M>(
    more: impl Fn(&Pool) -> M,
    bound: usize,
    probe: impl Fn(&Pool, Box<dyn FnOnce() + Send>),
) {
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let places = [(WORKERS, true), (WORKERS, false), (1, true)];
    for (name, load) in LOADS {
        for (workers, inside) in places {
            if workers == 1 && name.ends_with("sort") {
                continue; // all of it is one leaf
            }
            let pool = Pool::builder().workers(workers).build().unwrap();
            let leaves = Arc::new(Leaves::default());
            thread::scope(|s| {
                s.spawn(|| {
                    if inside {
                        pool.on_worker(|| load(&pool, &leaves));
                    } else {
                        load(&pool, &leaves);
                    }
                });
                let early = if name.ends_with("sort") {
                    1
                } else {
                    LEAVES / 8
                };
                while leaves.started() < early {
                    thread::yield_now();
                }
                let _more = more(&pool);
                let (counted, late) = (leaves.clone(), Arc::new(AtomicUsize::new(usize::MAX)));
                let (before, at) = (leaves.by_thread(), late.clone());
                probe(
                    &pool,
                    Box::new(move || at.store(counted.started_here(&before), SeqCst)),
                );
                let (late, begun) = (late.load(SeqCst), leaves.started());
                let place = if inside { "inside" } else { "outside" };
                assert!(
                    late <= bound,
                    "beside {name} ({place}, {workers} workers) the worker started {late} leaves first, at most \
                     {bound} are allowed; {begun} have begun"
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
fn normal_tasks_from_before_a_tree_start_between_its_leaves() {
    const TASKS: usize = 10;
    for load in [join_tree, join_unwinding, join_descending] {
        let pool = Pool::builder().workers(1).build().unwrap();
        let ((begin, begun), (queue, queued)) = (mpsc::channel(), mpsc::channel());
        let (ran, leaves) = (Arc::new(AtomicUsize::new(0)), Arc::new(Leaves::default()));
        let (inner, counted) = (pool.clone(), ran.clone());
        let tree = pool.submit(move || {
            begin.send(()).unwrap();
            queued.recv().unwrap();
            load(&inner, &leaves);
            counted.load(SeqCst)
        });
        begun.recv().unwrap();
        for _ in 0..TASKS {
            let ran = ran.clone();
            pool.spawn(move || _ = ran.fetch_add(1, SeqCst));
        }
        queue.send(()).unwrap();
        while !tree.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(tree.join().unwrap(), TASKS);
    }
}

#[test]
fn tasks_of_the_same_batch_start_between_the_leaves_of_the_first() {
    const TASKS: usize = 4;
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut failed = Vec::new();
    for (name, load) in LOADS {
        for workers in [1, WORKERS] {
            if workers == 1 && name.ends_with("sort") {
                continue; // all of it is one leaf
            }
            let extra = match name {
                "loop" | "lazy chain" => FIRST_BLOCK - 1,
                _ => 0,
            };
            let pool = Pool::builder().workers(workers).build().unwrap();
            let leaves = Arc::new(Leaves::default());
            // All workers are busy until the batch is complete.
            let gate = Arc::new(Barrier::new(workers + 1));
            for _ in 0..workers {
                let gate = gate.clone();
                pool.spawn(move || _ = (gate.wait(), gate.wait()));
            }
            gate.wait();
            for _ in 0..workers {
                let (inner, leaves) = (pool.clone(), leaves.clone());
                pool.spawn(move || load(&inner, &leaves));
            }
            let tasks: Vec<_> = (1..=TASKS)
                .map(|number| {
                    let leaves = leaves.clone();
                    let before = leaves.by_thread();
                    let task = pool.submit(move || leaves.started_here(&before));
                    (number, task)
                })
                .collect();
            gate.wait();
            for (number, task) in tasks {
                while !task.is_finished() {
                    thread::sleep(Duration::from_micros(100));
                }
                let late = task.join().unwrap();
                let bound = number * NORMAL + extra;
                if late > bound {
                    failed.push(format!(
                        "beside {name} ({workers} workers) the worker started {late} leaves before \
                         task {number}, at most {bound} are allowed"
                    ));
                }
            }
            pool.shutdown();
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Submits a High task that submits itself again until `stop`.
fn repeat_urgent(pool: &Pool, stop: Arc<AtomicBool>) {
    let again = pool.clone();
    let urgent = move || {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
        if !stop.load(SeqCst) {
            repeat_urgent(&again, stop);
        }
    };
    let task = pool.task(urgent).priority(Priority::High).submit();
    task.unwrap().detach();
}

#[test]
fn a_normal_task_starts_beside_endless_urgent_ones() {
    struct StopOnDrop(Arc<AtomicBool>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let urgent = |pool: &Pool| {
        let stop = Arc::new(AtomicBool::new(false));
        // More than workers, so that one is always queued.
        for _ in 0..2 * WORKERS {
            repeat_urgent(pool, stop.clone());
        }
        StopOnDrop(stop)
    };
    beside_each_load_and(urgent, NORMAL, submit_at(Priority::Normal));
}

/// Returns how many tasks of `urgent` start before a task of `passed_over`, if each takes 20 ms and
/// there is always another one.
fn long_tasks_before(urgent: Priority, passed_over: Priority) -> usize {
    let _one_at_a_time = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = Pool::builder().workers(1).build().unwrap();
    let (started, stop) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    for _ in 0..40 {
        let (started, stop) = (started.clone(), stop.clone());
        let long = move || {
            started.fetch_add(1, SeqCst);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(20) && !stop.load(SeqCst) {
                std::hint::spin_loop();
            }
        };
        pool.task(long).priority(urgent).submit().unwrap().detach();
    }
    while started.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let (before, end) = (started.load(SeqCst), stop.clone());
    let late = pool.task(move || {
        end.store(true, SeqCst);
        started.load(SeqCst) - before
    });
    let late = late.priority(passed_over).submit().unwrap();
    while !late.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    late.join().unwrap()
}

#[test]
fn long_urgent_tasks_do_not_delay_others_by_their_number() {
    use Priority::{Critical, High, Normal};
    // A turn is due after 100 ms, which is five of the tasks. Then the one that runs ends, and one
    // more may start if a turn of another kind was given just before.
    for (urgent, passed_over) in [(High, Normal), (Critical, Normal), (Critical, High)] {
        let late = long_tasks_before(urgent, passed_over);
        assert!(
            late <= 7,
            "{late} {urgent:?} tasks before a {passed_over:?} one"
        );
    }
}

#[test]
fn a_call_on_a_worker_starts_within_a_few_leaves() {
    beside_each_load(NORMAL, |pool, started| pool.on_worker(started));
}

#[test]
fn a_task_that_a_guest_leaves_behind_starts_within_a_few_leaves() {
    beside_each_load(NORMAL, |pool, started| {
        let (end, ended) = mpsc::channel();
        pool.install(|| {
            filch::spawn(move || {
                started();
                end.send(()).unwrap();
            });
        });
        ended.recv().unwrap();
    });
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
        ticker.cancel();
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

#[test]
fn a_task_below_an_endless_chain_of_others_starts() {
    fn link(stop: Arc<AtomicBool>) {
        if !stop.load(SeqCst) {
            filch::spawn(move || link(stop));
        }
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for workers in 1..=WORKERS {
        let pool = support::pool(workers);
        let stop = Arc::new(AtomicBool::new(false));
        let (started, start) = mpsc::channel();
        for _ in 0..workers {
            let (started, stop) = (started.clone(), stop.clone());
            pool.spawn(move || {
                filch::spawn(move || started.send(()).unwrap());
                link(stop);
            });
        }
        let all_started = (0..workers).all(|_| start.recv_timeout(support::LIMIT).is_ok());
        stop.store(true, SeqCst);
        assert!(all_started, "{workers} workers");
    }
}

/// A job of about a millisecond, and then the next.
fn repeat_job(stop: Arc<AtomicBool>) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1) {}
    if !stop.load(SeqCst) {
        filch::spawn(move || repeat_job(stop));
    }
}

#[test]
fn a_ticker_is_not_queued_below_jobs_that_repeat_themselves() {
    const ROUNDS: usize = 60;
    const TICKS: usize = 8;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = support::pool(WORKERS);
    for _ in 0..ROUNDS {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..=WORKERS {
            let stop = stop.clone();
            pool.spawn(move || repeat_job(stop));
        }
        let (ended, end) = mpsc::channel();
        let ticker = pool.spawn_future(async move {
            for _ in 0..TICKS {
                filch::time::sleep(Duration::from_millis(1)).await;
            }
            ended.send(()).unwrap();
        });
        let has_ended = end.recv_timeout(support::LIMIT).is_ok();
        stop.store(true, SeqCst);
        assert!(has_ended, "the ticker starves");
        ticker.join().unwrap();
    }
}
