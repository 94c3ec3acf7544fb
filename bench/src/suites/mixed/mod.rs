//! A timer of one millisecond beside computations on all workers; and short waits beside long
//! tasks.
//!
//! A reading is the lateness of a tick. Missed ticks are made up for, so each millisecond has one,
//! and all ticks that a long computation delays count. One job per worker runs at all times: a job
//! that ends starts the next one.

mod filch;
mod tokio;
mod waits;

use crate::{
    busy::Busy,
    countdown::Countdown,
    harness::{Case, Config, Readings, Unit},
    pin::Placement,
    pools,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

/// The time between two ticks.
const PERIOD: Duration = Duration::from_millis(1);

/// The length of a piece of a job. Other tasks can run only between two pieces.
const PIECE: Duration = Duration::from_micros(20);

/// Time before the window, in which the jobs reach a steady state.
const SETTLE: Duration = Duration::from_millis(10);

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let window = config.pick(Duration::from_millis(100), Duration::from_millis(300));
    let lengths = [
        ("jobs_500us", Duration::from_micros(500)),
        ("jobs_5ms", Duration::from_millis(5)),
        ("jobs_50ms", Duration::from_millis(50)),
    ];
    let mut cases = Vec::new();
    for (name, length) in lengths {
        for workers in config.workers(&[1, 2]) {
            let load = Load {
                workers,
                length,
                window,
            };
            // Each sample has a warm-up of its own.
            let case = Case::new(name, workers, config)
                .rounds(0, config.pick(3, 11))
                .unit(Unit::Micros);
            let case = tokio::systems(filch::systems(case, load), load);
            cases.push(case.system_of_many("rayon", rayon(load)));
        }
    }
    cases.append(&mut waits::cases(config));
    cases
}

/// The load beside the ticks.
#[derive(Clone, Copy, Debug)]
struct Load {
    workers: usize,
    /// The length of a job.
    length: Duration,
    /// The length of a sample.
    window: Duration,
}

impl Load {
    /// The number of pieces of a job, at least one.
    fn pieces(self) -> u64 {
        self.length.div_duration_f64(PIECE).round().max(1.0) as u64
    }

    /// Starts jobs and a ticker on `pool`, measures both, and stops them. Without a ticker the
    /// sender is dropped.
    fn sample<P>(
        self,
        pool: &P,
        start_job: Option<impl Fn(&P, Job)>,
        tick: impl FnOnce(&P, Ticks, Sender<Vec<f64>>),
    ) -> Readings {
        let jobs = if start_job.is_some() { self.workers } else { 0 };
        let job = Job {
            piece: Busy::of(PIECE),
            pieces: self.pieces(),
            done: Arc::default(),
            stop: Arc::default(),
            end: Countdown::new(jobs as u64),
        };
        if let Some(start) = start_job {
            (0..jobs).for_each(|_| start(pool, job.clone()));
        }
        thread::sleep(SETTLE);
        let (begin, before) = (Instant::now(), job.done());
        let ticks = self.window.div_duration_f64(PERIOD) as u32;
        let (sender, late) = mpsc::channel();
        tick(pool, Ticks { begin, ticks }, sender);
        thread::sleep(self.window);
        let (elapsed, pieces) = (begin.elapsed(), job.done() - before);
        // Relaxed: the flag publishes no data.
        job.stop.store(true, Ordering::Relaxed);
        job.end.wait();
        let useful = PIECE.mul_f64(pieces as f64);
        Readings {
            nanos: late.recv().unwrap_or_default(),
            cores: (jobs > 0).then(|| useful.div_duration_f64(elapsed)),
            ..Readings::default()
        }
    }
}

/// A computation, which starts the next one when it ends.
#[derive(Clone)]
struct Job {
    piece: Busy,
    pieces: u64,
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    end: &'static Countdown,
}

impl Job {
    /// Runs one piece.
    fn piece(&self) {
        self.piece.run();
        // Relaxed: the counter orders nothing else.
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs all pieces and calls `between` after each.
    fn run(&self, between: impl Fn()) {
        for _ in 0..self.pieces {
            self.piece();
            between();
        }
    }

    /// The number of pieces completed by all jobs.
    fn done(&self) -> u64 {
        // Relaxed: the counter orders nothing else.
        self.done.load(Ordering::Relaxed)
    }

    /// Returns whether to start another job; if not, counts this one as ended.
    fn again(&self) -> bool {
        let again = !self.is_over();
        if !again {
            self.end.one();
        }
        again
    }

    /// Whether the measurement is over.
    fn is_over(&self) -> bool {
        // Relaxed: the flag publishes no data.
        self.stop.load(Ordering::Relaxed)
    }
}

/// The schedule of the ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    begin: Instant,
    ticks: u32,
}

impl Ticks {
    /// Sleeps from tick to tick, and sends the lateness of each in nanoseconds.
    async fn run<S: Future>(self, sleep_until: impl Fn(Instant) -> S, result: Sender<Vec<f64>>) {
        let mut late = Vec::with_capacity(self.ticks as usize);
        for tick in 1..=self.ticks {
            let due = self.begin + PERIOD * tick;
            sleep_until(due).await;
            late.push(due.elapsed().as_secs_f64() * 1e9);
        }
        // The receiver is gone only if the main thread has panicked.
        let _ = result.send(late);
    }
}

/// Starts a job on rayon.
fn start_on_rayon(pool: &rayon::ThreadPool, job: Job) {
    fn run(job: Job) {
        job.run(|| ());
        if job.again() {
            rayon::spawn(move || run(job));
        }
    }
    pool.spawn(move || run(job));
}

/// Only jobs, without ticks: the throughput of the machine.
fn rayon(load: Load) -> impl FnMut() -> Readings {
    pools::used(
        move || pools::build_rayon(pools::rayon(load.workers, Placement::Pinned)),
        move |pool| load.sample(pool, Some(start_on_rayon), |_, _, _| ()),
        |_| (),
    )
}

#[cfg(test)]
mod tests {
    use super::Load;
    use crate::harness::{Case, Config};
    use std::time::Duration;

    #[test]
    fn every_system_ticks_and_works() {
        let load = Load {
            workers: 2,
            length: Duration::from_micros(100),
            window: Duration::from_millis(10),
        };
        let case = Case::new("demo", 2, &Config::default()).rounds(0, 1);
        let case = super::tokio::systems(super::filch::systems(case, load), load);
        let rows = case.system_of_many("rayon", super::rayon(load)).run();
        for row in rows {
            let ticks = if row.system == "rayon" { 0 } else { 10 };
            assert_eq!(row.summary.samples, ticks, "{}", row.system);
            assert_eq!(row.cores.is_none(), row.system.ends_with("-idle"));
            assert!(row.cores.is_none_or(|cores| cores > 0.0), "{}", row.system);
        }
    }
}
