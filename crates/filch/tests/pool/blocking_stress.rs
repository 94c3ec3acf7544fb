//! Blocking calls under load: random trees of joins, submitted tasks, futures and calls that wait
//! for other tasks, from workers and guests, with panics, until the pool is shut down.
//!
//! Short by default; `FILCH_STRESS=long` runs 2,000 seeds. `FILCH_SEED=N` runs one.

use crate::support::{LIMIT, panic_of, quiet_panic, within};
use filch::{Pool, Rng, blocking};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

/// The largest number of substitutes, as documented.
const SUBSTITUTES: usize = 16;

/// The most calls at a time that wait for another task. With more than [`SUBSTITUTES`] a pool
/// of one worker may have no thread for those tasks. Some of the substitutes wait for tasks of
/// theirs.
const WAITING_CALLS: usize = 4;

/// The seeds to run.
fn seeds() -> Range<u64> {
    if let Ok(seed) = std::env::var("FILCH_SEED") {
        let seed = seed.parse().expect("FILCH_SEED is a number");
        return seed..seed + 1;
    }
    match std::env::var("FILCH_STRESS") {
        Ok(value) if value == "long" => 0..2_000,
        _ => 0..60,
    }
}

/// What the tasks of one run count.
#[derive(Default)]
struct Tally {
    /// Tasks that were created and that have run.
    created: AtomicUsize,
    ran: AtomicUsize,
    /// Panics that were raised and that have arrived at the waiter.
    raised: AtomicUsize,
    caught: AtomicUsize,
    /// Calls that wait for another task.
    waiting: AtomicUsize,
    /// Threads of the pool that were started and that have ended, and the largest number of one.
    started: AtomicUsize,
    ended: AtomicUsize,
    last_thread: AtomicUsize,
}

impl Tally {
    /// Runs a random tree of tasks on a thread of the pool. `depth` limits it.
    fn tree(self: &Arc<Self>, seed: u64, depth: u32) {
        self.created.fetch_add(1, SeqCst);
        let mut rng = Rng::new(seed);
        if depth > 0 {
            let [a, b] = [rng.next_u64(), rng.next_u64()];
            let branch = |seed| self.tree(seed, depth - 1);
            match rng.below(8) {
                0 | 1 => _ = filch::join(|| branch(a), || branch(b)),
                2 => filch::scope(|scope| {
                    scope.spawn(move |_| branch(a));
                    branch(b);
                }),
                3 => self.submit_and_join(a, depth),
                4 => {
                    let tally = self.clone();
                    let future = filch::spawn_future(async move { tally.tree(a, depth - 1) });
                    future.join().unwrap();
                }
                5 => blocking(|| branch(a)),
                6 => self.wait_for_another(a, depth),
                _ => blocking(|| thread::sleep(Duration::from_micros(rng.below(300) as u64))),
            }
        }
        self.ran.fetch_add(1, SeqCst);
    }

    /// Joins a submitted task, which may panic in a blocking call.
    fn submit_and_join(self: &Arc<Self>, seed: u64, depth: u32) {
        let (tally, panics) = (self.clone(), Rng::new(seed).one_in(4));
        let task = filch::submit(move || {
            tally.tree(seed, depth - 1);
            if panics {
                tally.raised.fetch_add(1, SeqCst);
                blocking(|| quiet_panic("in a call"));
            }
        });
        let result = task.join();
        assert_eq!(result.is_err(), panics, "{result:?}");
        self.caught.fetch_add(usize::from(panics), SeqCst);
    }

    /// Blocks until another task has run, if there are not too many such calls.
    fn wait_for_another(self: &Arc<Self>, seed: u64, depth: u32) {
        if self.waiting.fetch_add(1, SeqCst) < WAITING_CALLS {
            let (tally, (send, receive)) = (self.clone(), mpsc::channel());
            filch::spawn(move || {
                tally.tree(seed, depth - 1);
                send.send(()).unwrap();
            });
            blocking(|| receive.recv().expect("the task has run"));
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// One run: trees from submitted tasks and from guests, and the end of the pool.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let (workers, tally) = (1 + rng.below(3), Arc::new(Tally::default()));
    let (starts, ends) = (tally.clone(), tally.clone());
    let start = move |thread: usize| {
        starts.started.fetch_add(1, SeqCst);
        starts.last_thread.fetch_max(thread, SeqCst);
    };
    let end = move |_| _ = ends.ended.fetch_add(1, SeqCst);
    let pool = Pool::builder().workers(workers).on_start(start);
    let pool = pool.on_exit(end).build().unwrap();
    thread::scope(|scope| {
        for _ in 0..rng.below(3) {
            let (seed, pool, tally) = (rng.next_u64(), &pool, &tally);
            scope.spawn(move || match seed % 4 {
                0 => pool.on_worker(|| tally.tree(seed, 6)),
                1 => {
                    let panics = || blocking(|| quiet_panic("of a guest"));
                    assert_eq!(panic_of(|| pool.install(panics)), "of a guest");
                }
                _ => pool.install(|| tally.tree(seed, 6)),
            });
        }
        let tasks = 0..1 + rng.below(12);
        let tasks = tasks.map(|_| {
            let (seed, tally) = (rng.next_u64(), tally.clone());
            pool.submit(move || tally.tree(seed, 7))
        });
        let tasks: Vec<_> = tasks.collect();
        if rng.one_in(2) {
            thread::sleep(Duration::from_micros(rng.below(500) as u64));
        }
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
    pool.shutdown();
    let get = |count: &AtomicUsize| count.load(SeqCst);
    assert_eq!(get(&tally.created), get(&tally.ran));
    assert_eq!(get(&tally.raised), get(&tally.caught));
    assert_eq!(get(&tally.waiting), 0);
    assert_eq!(get(&tally.started), get(&tally.ended));
    assert!(get(&tally.last_thread) < workers + SUBSTITUTES);
}

/// Trees that are cut short: tasks that never run are dropped, and every call returns.
fn run_to_abandon(seed: u64) {
    let mut rng = Rng::new(seed);
    let pool = Pool::builder().workers(1 + rng.below(3)).build().unwrap();
    let (dropped, tasks) = (Arc::new(()), 1 + rng.below(SUBSTITUTES));
    for _ in 0..tasks {
        let (held, mut rng) = (dropped.clone(), Rng::new(rng.next_u64()));
        pool.spawn(move || {
            let (send, receive) = mpsc::channel();
            filch::spawn(move || _ = send.send(()));
            // The task that sends has run or was dropped; then the channel is closed.
            let _ = blocking(|| receive.recv());
            blocking(|| thread::sleep(Duration::from_micros(rng.below(200) as u64)));
            drop(held);
        });
    }
    thread::sleep(Duration::from_micros(rng.below(1_000) as u64));
    pool.shutdown_now();
    assert_eq!(Arc::strong_count(&dropped), 1);
}

/// Runs `run` with every seed. A run that fails or hangs prints the command that repeats it.
fn with_seeds(test: &str, run: fn(u64)) {
    for seed in seeds() {
        let replay = Replay(test.to_owned(), seed);
        within(LIMIT, move || run(seed));
        std::mem::forget(replay);
    }
}

/// Prints the command that repeats a run, unless it is forgotten.
struct Replay(String, u64);

impl Drop for Replay {
    fn drop(&mut self) {
        let Self(test, seed) = self;
        eprintln!("FILCH_SEED={seed} cargo test -p filch --test pool blocking_stress::{test}");
    }
}

#[test]
fn every_task_of_random_trees_runs() {
    with_seeds("every_task_of_random_trees_runs", run);
}

#[test]
fn a_pool_that_is_stopped_abandons_no_call() {
    with_seeds("a_pool_that_is_stopped_abandons_no_call", run_to_abandon);
}
