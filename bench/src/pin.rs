//! Placement of threads on cores.
//!
//! Worker `i` runs on core `i` modulo the number of cores that the process may use, and the main
//! thread on the last core, or on the first where it is a worker itself. Without pinning, two
//! workers may share a core while another one is idle, and figures for two workers vary at random.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the affinity system calls")
)]

use std::{collections::BTreeSet, sync::OnceLock};

/// Where threads are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each thread pinned to a core, round-robin over the cores.
    Pinned,
    /// The same, with the main thread as worker 0: it takes part, or sleeps while the workers run.
    Joined,
    /// Not pinned.
    Free,
}

impl Placement {
    /// Whether threads can be pinned on this system.
    pub(crate) fn works() -> bool {
        cfg!(target_os = "linux")
    }

    /// Pins the calling thread, which is worker `worker` of some system.
    pub(crate) fn place_worker(self, worker: usize) {
        let cores = cores();
        match self {
            Self::Pinned | Self::Joined => restrict(&[cores[worker % cores.len()]]),
            Self::Free => restrict(cores),
        }
    }

    /// Pins the calling thread as the main thread.
    pub(crate) fn place_main(self) {
        self.place_worker(match self {
            Self::Joined => 0,
            Self::Pinned | Self::Free => cores().len() - 1,
        });
    }

    /// Whether this placement pins threads on this system.
    pub(crate) fn is_pinned(self) -> bool {
        self != Self::Free && Self::works()
    }

    /// Describes the placement.
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

/// The cores that the process was allowed to use at the first call.
pub(crate) fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(allowed)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

/// Restricts the calling thread to `cores`.
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

/// The kernel's identifier of a thread.
type Thread = i32;

/// Denotes the calling thread.
const CALLER: Thread = 0;

/// Calls `start`, which starts threads that have no hook for pinning, and pins the first `workers`
/// of them as workers 1, 2 and so on. Other threads are not pinned.
pub(crate) fn place_started<R>(workers: usize, start: impl FnOnce() -> R) -> R {
    let before = Before::now();
    let result = start();
    before.place_since(workers);
    result
}

/// The threads that existed at some time.
#[derive(Debug)]
pub(crate) struct Before(BTreeSet<Thread>);

impl Before {
    pub(crate) fn now() -> Self {
        Self(threads())
    }

    /// Pins the first `workers` threads started since then as workers 1, 2 and so on.
    pub(crate) fn place_since(&self, workers: usize) {
        let started = threads();
        // Thread identifiers increase in the order in which threads are started.
        let started = started.iter().filter(|thread| !self.0.contains(thread));
        for (n, &thread) in started.enumerate() {
            // A thread that has ended meanwhile is ignored.
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

/// The size of the kernel's default CPU set, in bits.
#[cfg(target_os = "linux")]
type Mask = [u64; 16];

#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    let mut mask: Mask = [0; 16];
    // SAFETY: the kernel writes at most `size_of::<Mask>()` bytes to `mask`, and every bit pattern
    // is valid there; zero denotes the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    let core = |core: &usize| mask[core / 64] & (1 << (core % 64)) != 0;
    let cores: Vec<_> = (0..mask.len() * 64).filter(core).collect();
    assert!(
        failed == 0 && !cores.is_empty(),
        "cannot determine which cores this process may use"
    );
    cores
}

/// Restricts `thread` to `cores`. Returns false on failure.
#[cfg(target_os = "linux")]
fn try_restrict(thread: Thread, cores: &[usize]) -> bool {
    let mut mask: Mask = [0; 16];
    for core in cores {
        mask[core / 64] |= 1 << (core % 64);
    }
    // SAFETY: the kernel reads `size_of::<Mask>()` bytes from `mask`; a thread that does not exist
    // is reported as an error.
    let failed =
        unsafe { libc::sched_setaffinity(thread, size_of::<Mask>(), mask.as_ptr().cast()) };
    failed == 0
}
