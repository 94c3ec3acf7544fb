//! A ticker beside long computations, on the same workers: how late its ticks are.
//!
//! One pool for CPU and I/O: the ticker stands for work that must respond soon, the jobs for long
//! computations on all workers. A job with calls of `filch::checkpoint` lets the ticker be polled
//! meanwhile; a job without delays it until its end, unless a worker is dedicated to futures.
//!
//! `cargo run --release --example ticker -- 2 50`

use filch::{
    BuildError, Pool,
    observe::Histogram,
    time::{self, MissedTicks},
};
use std::{
    env,
    hint::black_box,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const HELP: &str = "\
Lets a future tick every millisecond, alone and beside jobs that occupy all workers, and prints how
late the ticks were.

Usage: ticker [SECONDS [MILLISECONDS]]

  SECONDS        how long each of the four rounds takes [1]
  MILLISECONDS   how long a job takes, about [50]
  --help         this text

Both from 1 to 600. FILCH_WORKERS sets the number of workers.";

const PERIOD: Duration = Duration::from_millis(1);

/// Rounds of arithmetic between two checkpoints: some tens of microseconds.
const PIECE: u64 = 20_000;

/// What runs beside the ticker.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Jobs { pieces: u64, checkpoints: bool },
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if arguments
        .iter()
        .any(|text| text == "--help" || text == "-h")
    {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let number = |place: usize, otherwise: u64| match arguments.get(place) {
        None => Some(otherwise),
        Some(text) => text.parse().ok().filter(|n| (1..=600).contains(n)),
    };
    let (Some(seconds), Some(millis), 0..=2) = (number(0, 1), number(1, 50), arguments.len())
    else {
        eprintln!("ticker: up to two numbers from 1 to 600, please; see --help");
        return ExitCode::from(2);
    };
    let compared = compare(Duration::from_secs(seconds), Duration::from_millis(millis));
    match compared {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ticker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(time: Duration, job: Duration) -> Result<(), BuildError> {
    let pool = Pool::builder().build()?;
    let pieces = pieces_in(job);
    let jobs = |checkpoints| Beside::Jobs {
        pieces,
        checkpoints,
    };
    println!("{} workers, a tick every {PERIOD:?}\n", pool.workers());
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>7}",
        "late by", "p50", "p99", "most", "jobs"
    );
    let show = |name, pool: &Pool, beside| {
        let (late, done) = round(pool, time, beside);
        println!(
            "{name:<34} {:>9.1?} {:>9.1?} {:>9.1?} {done:>7}",
            late.p50(),
            late.p99(),
            late.max()
        );
    };
    show("alone", &pool, Beside::Nothing);
    show("beside jobs with checkpoints", &pool, jobs(true));
    show("beside jobs without", &pool, jobs(false));
    drop(pool);
    let dedicated = Pool::builder().future_workers(1).build()?;
    show("the same, a worker kept for it", &dedicated, jobs(false));
    Ok(())
}

/// Ticks for some time, and says how late that was and how many jobs were done meanwhile.
fn round(pool: &Pool, time: Duration, beside: Beside) -> (Histogram, u64) {
    let (stop, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    if let Beside::Jobs {
        pieces,
        checkpoints,
    } = beside
    {
        // One more than there are workers, so that there is always one that waits.
        for _ in 0..=pool.workers() {
            let (stop, done) = (stop.clone(), done.clone());
            pool.spawn(move || again(pieces, checkpoints, stop, done));
        }
    }
    let ticker = pool.spawn_future(async move {
        let (mut late, end) = (Histogram::new(), Instant::now() + time);
        let mut interval = time::interval(PERIOD).missed_ticks(MissedTicks::Skip);
        loop {
            let meant = interval.tick().await;
            let now = Instant::now();
            if now >= end {
                return late;
            }
            late.add(now - meant);
        }
    });
    let late = ticker.join().expect("the ticker does not panic");
    // Relaxed: a worker that reads it late runs one job more.
    stop.store(true, Ordering::Relaxed);
    // Relaxed: a count for the output.
    (late, done.load(Ordering::Relaxed))
}

/// One job, and then the next.
fn again(pieces: u64, checkpoints: bool, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    for seed in 0..pieces {
        piece(seed);
        if checkpoints {
            filch::checkpoint();
        }
    }
    // Relaxed: see `round`.
    done.fetch_add(1, Ordering::Relaxed);
    if !stop.load(Ordering::Relaxed) {
        filch::spawn(move || again(pieces, checkpoints, stop, done));
    }
}

/// Some arithmetic that the compiler cannot leave out.
fn piece(seed: u64) {
    let mut x = seed | 1;
    for _ in 0..PIECE {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// How many pieces take about so long on this machine.
fn pieces_in(time: Duration) -> u64 {
    const TRIED: u32 = 200;
    let start = Instant::now();
    (0..u64::from(TRIED)).for_each(piece);
    let one = (start.elapsed() / TRIED).max(Duration::from_nanos(1));
    (time.as_nanos() / one.as_nanos()).max(1) as u64
}
