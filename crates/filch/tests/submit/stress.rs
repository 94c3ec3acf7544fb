//! Submitted tasks under load: every task that was let in ran once or reports that it was
//! cancelled.
//!
//! Short by default; `FILCH_STRESS=long` runs 100 rounds of 10,000 tasks: a million.

use crate::support::{LIMIT, quiet_panic, within};
use filch::{CancelToken, Pool, Priority, Rng, TaskOverflow};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// Threads that submit.
const THREADS: usize = 4;

/// Rounds, and tasks in each round.
fn size() -> (u64, usize) {
    match std::env::var("FILCH_STRESS") {
        Ok(value) if value == "long" => (100, 10_000),
        _ => (20, 2_000),
    }
}

/// The results of one round, as the submitters see them.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    accepted: u64,
    refused: u64,
    values: u64,
    panics: u64,
    cancelled: u64,
    expired: u64,
    detached: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.values += other.values;
        self.panics += other.panics;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.detached += other.detached;
    }
}

/// How often each task of a round was called, and how often its closure was dropped.
struct Ledger {
    /// How many submissions have begun.
    begun: AtomicUsize,
    called: Vec<AtomicU8>,
    dropped: Vec<AtomicU8>,
}

/// A closure's share of the ledger.
struct Entry(Arc<Ledger>, usize);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.dropped[self.1].fetch_add(1, SeqCst);
    }
}

impl Ledger {
    fn new(tasks: usize) -> Arc<Self> {
        let zeros = || (0..tasks).map(|_| AtomicU8::new(0)).collect();
        Arc::new(Self {
            begun: AtomicUsize::new(0),
            called: zeros(),
            dropped: zeros(),
        })
    }

    fn calls(&self) -> u64 {
        self.called.iter().map(|n| u64::from(n.load(SeqCst))).sum()
    }
}

/// Submits `tasks` of the ledger in random ways, cancels some, and collects what became of them.
fn submitter(pool: &Pool, ledger: &Arc<Ledger>, tasks: Range<usize>, seed: u64) -> Sums {
    let mut rng = Rng::new(seed);
    let mut sums = Sums::default();
    let mut handles = Vec::new();
    let token = CancelToken::new();
    for n in tasks {
        ledger.begun.fetch_add(1, SeqCst);
        let entry = Entry(ledger.clone(), n);
        let kind = rng.below(16);
        let body = move || {
            let Entry(ledger, n) = &entry;
            let before = ledger.called[*n].fetch_add(1, SeqCst);
            assert_eq!(before, 0, "called twice");
            match kind {
                0 => quiet_panic("one of the panics"),
                1 => thread::yield_now(),
                2 => assert_eq!(filch::submit(|| 5).join().map_or(5, |five| five), 5),
                _ => {}
            }
            *n
        };
        let mut task = pool.task(body).priority(Priority::ALL[rng.below(4)]);
        match rng.below(12) {
            0 => task = task.token(&token),
            1 => task = task.timeout(Duration::from_micros(rng.below(200) as u64)),
            2 => task = task.affinity(filch::Affinity::Worker(rng.below(2))),
            _ => {}
        }
        let submitted = match rng.below(3) {
            0 => task.try_submit(),
            _ => task.submit(),
        };
        match submitted {
            Ok(handle) => {
                sums.accepted += 1;
                handles.push((n, handle));
            }
            Err(refused) => {
                sums.refused += 1;
                drop(refused.into_inner());
            }
        }
        let at = |rng: &mut Rng, n: usize| rng.below(n.max(1));
        match rng.below(10) {
            0 => {
                if let Some((_, handle)) = handles.get(at(&mut rng, handles.len())) {
                    handle.cancel();
                }
            }
            1 => {
                if let Some((_, handle)) = handles.get(at(&mut rng, handles.len())) {
                    handle.set_priority(Priority::ALL[rng.below(4)]);
                }
            }
            2 if !handles.is_empty() => {
                let (_, handle) = handles.swap_remove(at(&mut rng, handles.len()));
                sums.detached += 1;
                handle.detach();
            }
            3 if !handles.is_empty() => {
                let (n, handle) = handles.swap_remove(at(&mut rng, handles.len()));
                sums.settle(n, ledger, handle.join());
            }
            4 if rng.one_in(100) => {
                token.cancel();
            }
            _ => {}
        }
    }
    for (n, handle) in handles {
        sums.settle(n, ledger, handle.join());
    }
    sums
}

impl Sums {
    /// Counts the result of task `n`, which must be right.
    fn settle(&mut self, n: usize, ledger: &Ledger, result: Result<usize, filch::TaskError>) {
        let called = ledger.called[n].load(SeqCst);
        assert_eq!(ledger.dropped[n].load(SeqCst), 1, "its closure is gone");
        match result {
            Ok(value) => {
                assert_eq!((value, called), (n, 1));
                self.values += 1;
            }
            Err(error) if error.is_panic() => {
                assert_eq!(called, 1);
                self.panics += 1;
            }
            Err(error) => {
                assert!(error.is_cancelled(), "{error}");
                assert_eq!(called, 0, "a cancelled task never starts");
                match error.is_deadline() {
                    true => self.expired += 1,
                    false => self.cancelled += 1,
                }
            }
        }
    }
}

/// One round. Returns how many were accepted and how many cancelled, so that the test can see that
/// it tests something.
fn round(seed: u64, tasks: usize) -> Sums {
    let mut rng = Rng::new(seed);
    let workers = 2 + rng.below(3);
    let mut builder = Pool::builder().workers(workers).seed(seed);
    if rng.one_in(2) {
        builder = builder.task_capacity(1 + rng.below(64));
    }
    let policies = [
        TaskOverflow::Block,
        TaskOverflow::Refuse,
        TaskOverflow::RunInCaller,
    ];
    builder = builder.overflow(policies[rng.below(3)]);
    let told = Arc::new(AtomicU64::new(0));
    let told_too = told.clone();
    let pool = builder.on_panic(move |_| {
        told_too.fetch_add(1, SeqCst);
    });
    let pool = pool.build().unwrap();
    let ledger = Ledger::new(tasks);
    let ended = AtomicBool::new(false);
    let mut sums = Sums::default();
    thread::scope(|s| {
        let each = tasks / THREADS;
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                let (pool, ledger) = (&pool, &ledger);
                let seed = seed ^ (t as u64 + 1) << 32;
                s.spawn(move || submitter(pool, ledger, t * each..(t + 1) * each, seed))
            })
            .collect();
        let (middle, now) = (rng.below(tasks + tasks / 4), rng.one_in(2));
        let (pool, ended, ledger) = (pool.clone(), &ended, &ledger);
        s.spawn(move || {
            // In the middle of it, or, now and then, when all have been submitted.
            while ledger.begun.load(SeqCst) < middle.min(tasks) {
                thread::sleep(Duration::from_micros(20));
            }
            match now {
                true => pool.shutdown_now(),
                false => pool.shutdown(),
            }
            ended.store(true, SeqCst);
        });
        for thread in threads {
            sums.add(&thread.join().unwrap());
        }
    });
    assert!(ended.load(SeqCst), "the shutdown has come back");
    // Guests that were in the middle of a task when the pool ended have gone by now, so the counts
    // are final.
    let total = pool.task_metrics().total();
    let replies = sums.values + sums.panics + sums.cancelled + sums.expired;
    assert_eq!(sums.accepted, replies + sums.detached, "{sums:?}");
    assert_eq!(sums.accepted + sums.refused, tasks as u64);
    let ends = total.finished + total.panicked + total.cancelled + total.expired;
    assert_eq!(
        total.submitted, ends,
        "every accepted task has ended: {total:?}"
    );
    assert_eq!(total.panicked, sums.panics + told.load(SeqCst));
    for n in &ledger.dropped {
        assert_eq!(n.load(SeqCst), 1, "every closure was dropped once");
    }
    let ran = ledger.calls();
    assert!(ran >= sums.values + sums.panics && ran <= total.finished + total.panicked);
    sums
}

#[test]
fn every_accepted_task_ran_once_or_was_reported_cancelled() {
    let (rounds, tasks) = size();
    let mut sums = Sums::default();
    for seed in 0..rounds {
        println!("round {seed}"); // shown when it fails
        let round = within(LIMIT, move || round(0x5eed + seed, tasks));
        sums.add(&round);
    }
    println!("{sums:?}");
    assert_eq!(sums.accepted + sums.refused, rounds * tasks as u64);
    // Everything that is meant to happen did.
    assert!(sums.values > 0 && sums.panics > 0, "{sums:?}");
    assert!(
        sums.cancelled > 0 && sums.refused > 0 && sums.detached > 0,
        "{sums:?}"
    );
}
