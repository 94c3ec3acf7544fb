//! Which thread runs on which core.
//!
//! Worker `i` goes to the `i`-th of the cores that the process may use, round and round, and the main
//! thread to the last one, or to the first where it is a worker itself. Without that, two workers may
//! share a core while another is free, and figures for two workers are a toss of a coin.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the affinity system calls")
)]

use std::{collections::BTreeSet, sync::OnceLock};

/// Whether threads stay where they are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each thread on a core of its own, as far as they go.
    Pinned,
    /// The same, with the main thread as worker 0: it takes part, or sleeps while others work.
    Joined,
    /// Wherever the system puts them.
    Free,
}

impl Placement {
    /// Whether threads can be pinned on this system.
    pub(crate) fn works() -> bool {
        cfg!(target_os = "linux")
    }

    /// Puts the calling thread, which is worker `worker` of some system, where it belongs.
    pub(crate) fn place_worker(self, worker: usize) {
        let cores = cores();
        match self {
            Self::Pinned | Self::Joined => restrict(&[cores[worker % cores.len()]]),
            Self::Free => restrict(cores),
        }
    }

    /// Puts the calling thread where the main thread belongs.
    pub(crate) fn place_main(self) {
        self.place_worker(match self {
            Self::Joined => 0,
            Self::Pinned | Self::Free => cores().len() - 1,
        });
    }

    /// Whether threads that are placed this way stay there, on this system.
    pub(crate) fn is_pinned(self) -> bool {
        self != Self::Free && Self::works()
    }

    /// What is where, in words.
    pub(crate) fn describe(self) -> String {
        let cores = cores();
        match self {
            Self::Pinned if Self::works() => format!(
                "worker i pinned to core i mod {}, main thread to the last core",
                cores.len()
            ),
            Self::Joined if Self::works() => format!(
                "worker i pinned to core i mod {}, main thread to core 0",
                cores.len()
            ),
            _ => "nothing pinned".to_owned(),
        }
    }
}

/// The cores that the process was allowed to use when this was first called.
pub(crate) fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(allowed)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Lets the calling thread run on `cores` only.
fn restrict(cores: &[usize]) {
    assert!(
        try_restrict(CALLER, cores),
        "cannot pin a thread to {cores:?}"
    );
}

#[cfg(not(target_os = "linux"))]
fn try_restrict(_thread: Thread, _cores: &[usize]) -> bool {
    true
}

/// A thread, as the kernel knows it.
type Thread = i32;

/// Stands for the calling thread.
const CALLER: Thread = 0;

/// Calls `start`, which starts threads that cannot be reached by other means, and puts the first
/// `workers` of them where workers 1, 2 and so on belong. Any others go where they like.
pub(crate) fn place_started<R>(workers: usize, start: impl FnOnce() -> R) -> R {
    let before = Before::now();
    let result = start();
    before.place_since(workers);
    result
}

/// The threads that there were at some time.
#[derive(Debug)]
pub(crate) struct Before(BTreeSet<Thread>);

impl Before {
    pub(crate) fn now() -> Self {
        Self(threads())
    }

    /// Puts the first `workers` of those that were started since where workers 1, 2 and so on belong.
    pub(crate) fn place_since(&self, workers: usize) {
        let started = threads();
        // Their numbers rise in the order in which they were started.
        let started = started.iter().filter(|thread| !self.0.contains(thread));
        for (n, &thread) in started.enumerate() {
            // One that has ended meanwhile needs no place.
            let _ = if n < workers {
                try_restrict(thread, &[cores()[(n + 1) % cores().len()]])
            } else {
                try_restrict(thread, cores())
            };
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn threads() -> BTreeSet<Thread> {
    BTreeSet::new()
}

/// All threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> BTreeSet<Thread> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists the threads there");
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// As many bits as the kernel's own default set has.
#[cfg(target_os = "linux")]
type Mask = [u64; 16];

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    let mut mask: Mask = [0; 16];
    // SAFETY: the kernel writes at most `size_of::<Mask>()` bytes to `mask`, where any bits are fine;
    // zero means the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    let core = |core: &usize| mask[core / 64] & (1 << (core % 64)) != 0;
    let cores: Vec<_> = (0..mask.len() * 64).filter(core).collect();
    assert!(
        failed == 0 && !cores.is_empty(),
        "cannot tell which cores this process may use"
    );
    cores
}

/// Lets `thread` run on `cores` only. False when that cannot be.
#[cfg(target_os = "linux")]
fn try_restrict(thread: Thread, cores: &[usize]) -> bool {
    let mut mask: Mask = [0; 16];
    for core in cores {
        mask[core / 64] |= 1 << (core % 64);
    }
    // SAFETY: the kernel reads `size_of::<Mask>()` bytes from `mask`; a thread that does not exist is an
    // error and nothing else.
    let failed =
        unsafe { libc::sched_setaffinity(thread, size_of::<Mask>(), mask.as_ptr().cast()) };
    failed == 0
}
