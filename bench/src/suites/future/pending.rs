//! The memory of a pending future.
//!
//! Pools and allocators keep memory for reuse. So each reading is taken by a new process that has
//! done nothing before.

use crate::{
    alloc,
    futures::{AsyncExecutor, Filch, Futures, FuturesPool, StaticAsyncExecutor, Tokio},
    harness::Case,
    stopwatch::{Sample, Stopwatch},
};
use std::{
    env, fs,
    future::poll_fn,
    hint::black_box,
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// The subcommand that takes a reading.
pub(crate) const COMMAND: &str = "pending";

/// The kind of memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bytes {
    /// Blocks of the heap.
    Heap,
    /// The resident set of the process.
    Resident,
    /// The same, [`REST`] after all futures have ended.
    Left,
}

/// How long the memory may stay after the futures have ended. Pools and allocators may wait before
/// they give it back.
const REST: Duration = Duration::from_secs(4);

/// The memory that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) bytes: Bytes,
    /// Machine words of each future.
    pub(super) words: usize,
}

/// The workload of such a process.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) system: String,
    pub(crate) workers: usize,
    pub(crate) futures: usize,
    pub(crate) words: usize,
    pub(crate) rest: bool,
}

type Take = fn(&Reading) -> (Sample, i64);

const SYSTEMS: [(&str, Take); 5] = [
    ("filch", take::<Filch>),
    ("tokio", take::<Tokio>),
    ("async-executor", take::<AsyncExecutor>),
    ("async-static", take::<StaticAsyncExecutor>),
    ("futures-pool", take::<FuturesPool>),
];

pub(super) fn systems(mut case: Case, workers: usize, futures: u64, what: Measured) -> Case {
    for (name, _) in SYSTEMS {
        case = case.system(name, move || in_a_process(name, workers, futures, what));
    }
    case
}

/// Takes the reading in a new process.
fn in_a_process(system: &str, workers: usize, futures: u64, what: Measured) -> Sample {
    let program = env::current_exe().expect("this program is somewhere");
    let output = process::Command::new(program)
        .args([COMMAND, system])
        .args([workers.to_string(), futures.to_string()])
        .args([what.words.to_string()])
        .args(matches!(what.bytes, Bytes::Left).then_some("left"))
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "no reading for {system}");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<i64> = text.split_whitespace().flat_map(str::parse).collect();
    let &[nanos, heap, resident] = &numbers[..] else {
        panic!("{system} gave {text:?}");
    };
    let elapsed = Duration::from_nanos(nanos.unsigned_abs());
    Sample::new(elapsed, futures).leaving(match what.bytes {
        Bytes::Heap => heap,
        Bytes::Resident | Bytes::Left => resident,
    })
}

impl Reading {
    /// Takes the reading, and prints nanoseconds, bytes of the heap and resident bytes.
    pub(crate) fn print(&self) -> Result<(), String> {
        let system = SYSTEMS.iter().find(|(name, _)| *name == self.system);
        let (_, take) = system.ok_or_else(|| format!("there is no system {:?}", self.system))?;
        let (sample, resident) = alloc::counting(|| take(self));
        let heap = sample.bytes.expect("it was counted");
        println!("{} {heap} {resident}", sample.elapsed.as_nanos());
        // The pending futures are not dropped.
        process::exit(0);
    }
}

/// The wakers of all pending futures. A future without a waker could be dropped at once.
static WAITING: Mutex<Vec<Waker>> = Mutex::new(Vec::new());

/// Whether the futures should end, and how many have.
static ENDING: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Is pending until [`ENDING`] is set. It is woken once, after that.
fn wait(cx: &mut Context<'_>) -> Poll<()> {
    if ENDING.load(Ordering::Relaxed) {
        return Poll::Ready(());
    }
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.push(cx.waker().clone());
    Poll::Pending
}

/// A future without data: its waker is stored elsewhere.
async fn one_word() {
    poll_fn(wait).await;
    ENDED.fetch_add(1, Ordering::Relaxed);
}

/// The same with a word of data.
async fn two_words() {
    let word = black_box(1_u64);
    poll_fn(wait).await;
    black_box(word);
    ENDED.fetch_add(1, Ordering::Relaxed);
}

/// Spawns a number of futures, waits until all are pending, and returns the growth of memory.
fn take<S: Futures>(reading: &Reading) -> (Sample, i64) {
    let waiting = || WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (pool, futures) = (S::pool(reading.workers), reading.futures);
    let spawn = || match reading.words {
        1 => S::detach(&pool, one_word()),
        _ => S::detach(&pool, two_words()),
    };
    // Excludes what a pool allocates for its first future.
    spawn();
    while waiting().is_empty() {
        thread::yield_now();
    }
    {
        let mut waiting = waiting();
        waiting.reserve_exact(futures);
        // Touches the pages, so that they count as resident before the measurement.
        waiting.resize(futures + 1, Waker::noop().clone());
        waiting.truncate(1);
    }
    let (heap, resident) = (alloc::held(), resident_bytes());
    let mut watch = Stopwatch::default();
    watch.time(|| {
        (0..futures).for_each(|_| spawn());
        while waiting().len() <= futures {
            thread::yield_now();
        }
    });
    // Gives workers time to release memory when they fall asleep.
    thread::sleep(Duration::from_millis(20));
    let sample = watch.sample(futures as u64);
    let sample = sample.leaving(alloc::held() - heap);
    if reading.rest {
        ENDING.store(true, Ordering::Relaxed);
        // The capacity stays, as it was there before.
        waiting().drain(..).for_each(Waker::wake);
        while ENDED.load(Ordering::Relaxed) <= futures {
            thread::yield_now();
        }
        thread::sleep(REST);
    }
    (sample, resident_bytes() - resident)
}

/// The resident set of the process, in bytes; zero if it is unknown.
fn resident_bytes() -> i64 {
    // `statm` is updated from counters per core and lags by some megabytes.
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<i64>().ok());
    kibibytes.unwrap_or(0) * 1024
}
