//! Measures the costs of the scheduler's moves on this machine, for the simulator's cost model.
//!
//! `taskset -c 0,1 cargo run --release -p filch-sim --example costs`
//!
//! Two threads run, so restrict the program to the two cores whose distance is of interest, for
//! example by `taskset`. The output is JSON that `--example scale -- --costs FILE` reads. Each
//! figure is the median of many samples, in nanoseconds. Wakes and yields need idle cores: on a
//! busy machine other threads run meanwhile, and only the fastest tenth of the samples is shown for
//! them.

use filch::{
    Rng,
    engine::{
        Capacity, Core, Deque, Distances, Hunt, NoObserver, Owner, PerWorker, Placement, Settings,
        Steal, Step, Victims,
    },
};
use filch_sim::{Costs, Machine};
use std::{
    hint::{black_box, spin_loop},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// Samples of a figure that takes nanoseconds.
const SAMPLES: usize = 20_000;

/// Samples of a wake.
const WAKES: usize = 400;

/// A word on a cache line of its own, with the line that is prefetched with it.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

impl Line {
    /// Waits until the word is at least `value`.
    fn wait(&self, value: u64) {
        while self.0.load(SeqCst) < value {
            spin_loop();
        }
    }
}

fn main() {
    let clock = clock();
    let line = line();
    let costs = Costs {
        step: step().1,
        spawn: step().0,
        inject: inject(clock),
        steal: vec![steal(clock, 1)],
        pause: each(1_000, spin_loop),
        yield_now: fastest((0..1_000).map(|_| each(1, thread::yield_now)).collect()),
        wake: wake().0,
        unpark: wake().1,
        probe: vec![probe(clock)],
        moved: steal(clock, BATCH).saturating_sub(steal(clock, 1)) / (BATCH as u64 - 1),
        skip: skip(),
        exclusive: true,
        nodes: Vec::new(),
    };
    eprintln!("line: {line} ns to transfer a cache line; the clock itself takes {clock} ns");
    let machine = Machine {
        name: format!("measured between two cores; a line takes {line} ns"),
        groups: Vec::new(),
        costs,
    };
    let json = serde_json::to_string_pretty(&machine).expect("plain data");
    println!("{json}");
}

fn median(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// Returns the limit of the fastest tenth.
fn fastest(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples[samples.len() / 10]
}

fn nanos(from: Instant) -> u64 {
    u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the time that a reading of the clock takes.
fn clock() -> u64 {
    let sample = |_| nanos(black_box(Instant::now()));
    median((0..SAMPLES).map(sample).collect())
}

/// Returns the time of one call of `f`, which is called `times` times for each sample.
fn each(times: u64, mut f: impl FnMut()) -> u64 {
    let sample = |_: usize| {
        let start = Instant::now();
        (0..times).for_each(|_| f());
        nanos(start) / times
    };
    median((0..100).map(sample).collect())
}

/// Two threads set a word in turns: half of a round trip is a transfer.
fn line() -> u64 {
    const TRIPS: u64 = 100;
    let (word, rounds) = (Line::default(), SAMPLES as u64 / TRIPS);
    thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..rounds * TRIPS {
                word.wait(2 * trip + 1);
                word.0.store(2 * trip + 2, SeqCst);
            }
        });
        let sample = |round: u64| {
            let start = Instant::now();
            for trip in round * TRIPS..(round + 1) * TRIPS {
                word.0.store(2 * trip + 1, SeqCst);
                word.wait(2 * trip + 2);
            }
            nanos(start) / (2 * TRIPS)
        };
        median((0..rounds).map(sample).collect())
    })
}

/// Returns the latency of a wake, and the time that it takes the waker.
fn wake() -> (u64, u64) {
    let (sleeps, called, done) = (Line::default(), Line::default(), AtomicBool::new(false));
    let unparked = Mutex::new(Instant::now());
    let (mut latencies, mut calls) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut latencies = Vec::new();
            for round in 1.. {
                sleeps.0.store(round, SeqCst);
                while called.0.load(SeqCst) < round {
                    thread::park();
                }
                if done.load(SeqCst) {
                    break;
                }
                latencies.push(nanos(*unparked.lock().unwrap()));
            }
            latencies
        });
        for round in 1..=WAKES as u64 + 1 {
            sleeps.wait(round);
            // The sleeper is asleep, and its core idle.
            thread::sleep(Duration::from_millis(1));
            done.store(round > WAKES as u64, SeqCst);
            let start = Instant::now();
            *unparked.lock().unwrap() = start;
            called.0.store(round, SeqCst);
            sleeper.thread().unpark();
            calls.push(nanos(start));
        }
        latencies = sleeper.join().unwrap();
    });
    (fastest(latencies), fastest(calls))
}

/// Returns the times of a spawn and of a step that runs a task of the worker's own queue.
fn step() -> (u64, u64) {
    const TASKS: u64 = 1_000;
    let core: Core<u64, PerWorker, NoObserver> =
        Core::new(Settings::new(1), &Default::default(), NoObserver)
            .expect("the defaults are valid");
    let mut worker = core.enter(0);
    let (mut spawns, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let start = Instant::now();
        worker.run_as_worker(
            || (),
            |mut running| (0..TASKS).for_each(|task| running.spawn(task, Placement::Local)),
        );
        spawns.push(nanos(start) / TASKS);
        let start = Instant::now();
        for _ in 0..TASKS {
            assert!(matches!(
                worker.step(|task, _| _ = black_box(task)),
                Step::Ran
            ));
        }
        steps.push(nanos(start) / TASKS);
    }
    (median(spawns), median(steps))
}

/// Calls `prepare` on one thread and then times `f` on another, repeatedly.
fn after_other(clock: u64, mut prepare: impl FnMut() + Send, mut f: impl FnMut() + Send) -> u64 {
    let (ready, taken) = (Line::default(), Line::default());
    let samples = thread::scope(|scope| {
        let timed = scope.spawn(|| {
            let sample = |round: u64| {
                ready.wait(round);
                let start = Instant::now();
                f();
                let time = nanos(start).saturating_sub(clock);
                taken.0.store(round, SeqCst);
                time
            };
            (1..=SAMPLES as u64).map(sample).collect()
        });
        for round in 1..=SAMPLES as u64 {
            prepare();
            ready.0.store(round, SeqCst);
            taken.wait(round);
        }
        timed.join().expect("no sample panics")
    });
    median(samples)
}

/// Returns the time to run a task that another thread has injected, less that of a step.
fn inject(clock: u64) -> u64 {
    let core: Core<u64, PerWorker, NoObserver> =
        Core::new(Settings::new(1), &Default::default(), NoObserver)
            .expect("the defaults are valid");
    let mut worker = core.enter(0);
    let with_step = after_other(
        clock,
        || core.inject(1, Placement::Injector).expect("it is open"),
        // The worker is never idle, so that no search and no wake is part of it.
        || while !matches!(worker.step(|task, _| _ = black_box(task)), Step::Ran) {},
    );
    with_step.saturating_sub(step().1)
}

/// The tasks of a steal of several.
const BATCH: usize = 16;

/// Returns the time to steal `most` tasks that another thread has pushed. The deque is open:
/// thieves have been there before.
fn steal(clock: u64, most: usize) -> u64 {
    let (victim, own) = (
        Deque::<u64>::new(Capacity::growable(64)),
        Deque::new(Capacity::growable(64)),
    );
    let mut thief = own.owner().expect("the only one");
    let mut owner = victim.owner().expect("the only one");
    owner.open();
    let fill = |owner: &mut Owner<'_, u64>| {
        while owner.pop().is_some() {}
        (0..2 * BATCH as u64).for_each(|task| owner.push(task).expect("it grows"));
        owner.open();
    };
    after_other(
        clock,
        || fill(&mut owner),
        || loop {
            if let Steal::Taken(taken) = victim.steal_batch(&mut thief, most) {
                black_box(taken);
                while thief.pop().is_some() {}
                break;
            }
        },
    )
}

/// Returns the time of a probe of a queue that another thread has changed.
fn probe(clock: u64) -> u64 {
    let victim = Deque::<u64>::new(Capacity::growable(64));
    let mut owner = victim.owner().expect("the only one");
    after_other(
        clock,
        || {
            owner.push(1).expect("it grows");
            let _ = owner.pop();
        },
        || _ = black_box(victim.is_empty()),
    )
}

/// Returns the time to pass over a worker in a search.
fn skip() -> u64 {
    const WORKERS: usize = 1_024;
    let (mut victims, mut rng) = (Victims::new(&Distances::flat(WORKERS), 0), Rng::new(1));
    let round = each(1, || {
        let mut hunt = Hunt::new(&mut victims, &mut rng, 1);
        while let Some(victim) = hunt.next_victim() {
            black_box(victim);
        }
    });
    round.div_ceil(WORKERS as u64)
}
