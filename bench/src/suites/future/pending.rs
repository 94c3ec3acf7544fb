//! What a future that waits takes of the memory.
//!
//! Pools keep what they have been given for later, and so do allocators. So each reading is taken by a process of its
//! own, which has done nothing before.

use crate::{
    alloc,
    futures::{AsyncExecutor, Filch, Futures, FuturesPool, StaticAsyncExecutor, Tokio},
    harness::Case,
    stopwatch::{Sample, Stopwatch},
};
use std::{
    env, fs,
    future::poll_fn,
    process,
    sync::{Mutex, PoisonError},
    task::{Poll, Waker},
    thread,
    time::Duration,
};

/// The command line's word for taking a reading.
pub(crate) const COMMAND: &str = "pending";

/// Which bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bytes {
    /// Of blocks in the heap.
    Heap,
    /// Of the process in memory, all told.
    Resident,
}

/// What a process of its own is to do.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) system: String,
    pub(crate) workers: usize,
    pub(crate) futures: usize,
}

type Take = fn(usize, usize) -> (Sample, i64);

const SYSTEMS: [(&str, Take); 5] = [
    ("filch", take::<Filch>),
    ("tokio", take::<Tokio>),
    ("async-executor", take::<AsyncExecutor>),
    ("async-static", take::<StaticAsyncExecutor>),
    ("futures-pool", take::<FuturesPool>),
];

pub(super) fn systems(mut case: Case, workers: usize, futures: u64, which: Bytes) -> Case {
    for (name, _) in SYSTEMS {
        case = case.system(name, move || in_a_process(name, workers, futures, which));
    }
    case
}

/// Has the reading taken elsewhere.
fn in_a_process(system: &str, workers: usize, futures: u64, which: Bytes) -> Sample {
    let program = env::current_exe().expect("this program is somewhere");
    let output = process::Command::new(program)
        .args([COMMAND, system])
        .args([workers.to_string(), futures.to_string()])
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "no reading for {system}");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<i64> = text.split_whitespace().flat_map(str::parse).collect();
    let &[nanos, heap, resident] = &numbers[..] else {
        panic!("{system} gave {text:?}");
    };
    let elapsed = Duration::from_nanos(nanos.unsigned_abs());
    Sample::new(elapsed, futures).leaving(match which {
        Bytes::Heap => heap,
        Bytes::Resident => resident,
    })
}

impl Reading {
    /// Takes the reading, and prints nanoseconds, bytes of the heap and resident bytes.
    pub(crate) fn print(&self) -> Result<(), String> {
        let system = SYSTEMS.iter().find(|(name, _)| *name == self.system);
        let (_, take) = system.ok_or_else(|| format!("there is no system {:?}", self.system))?;
        let (sample, resident) = alloc::counting(|| take(self.workers, self.futures));
        let heap = sample.bytes.expect("it was counted");
        println!("{} {heap} {resident}", sample.elapsed.as_nanos());
        // Whatever is pending stays so.
        process::exit(0);
    }
}

/// Everybody who waits. A future that nobody can wake may be dropped at once.
static WAITING: Mutex<Vec<Waker>> = Mutex::new(Vec::new());

/// Waits for ever. It has no size, for what it needs is elsewhere.
async fn forever() {
    poll_fn(|cx| {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(cx.waker().clone());
        Poll::<()>::Pending
    })
    .await;
}

/// Spawns so many, waits until all are pending, and looks what has changed.
fn take<S: Futures>(workers: usize, futures: usize) -> (Sample, i64) {
    let waiting = || WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = S::pool(workers);
    // Whatever a pool needs for its first.
    S::detach(&pool, forever());
    while waiting().is_empty() {
        thread::yield_now();
    }
    {
        let mut waiting = waiting();
        waiting.reserve_exact(futures);
        // Pages count when they have been written.
        waiting.resize(futures + 1, Waker::noop().clone());
        waiting.truncate(1);
    }
    let (heap, resident) = (alloc::held(), resident_bytes());
    let mut watch = Stopwatch::default();
    watch.time(|| {
        (0..futures).for_each(|_| S::detach(&pool, forever()));
        while waiting().len() <= futures {
            thread::yield_now();
        }
    });
    // For what the workers put away when they fall asleep.
    thread::sleep(Duration::from_millis(20));
    let sample = watch.sample(futures as u64);
    let resident = resident_bytes() - resident;
    (sample.leaving(alloc::held() - heap), resident)
}

/// What the process has in memory at present; zero where there is no way to know.
fn resident_bytes() -> i64 {
    // `statm` is kept by each core for itself, and some megabytes behind.
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<i64>().ok());
    kibibytes.unwrap_or(0) * 1024
}
