//! Which thread runs on which core.
//!
//! Worker `i` goes to the `i`-th of the cores that the process may use, round and round, and the main
//! thread to the last one. Without that, two workers may share a core while another is free, and
//! figures for two workers are a toss of a coin.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the affinity system calls")
)]

use std::sync::OnceLock;

/// Whether threads stay where they are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each thread on a core of its own, as far as they go.
    Pinned,
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
            Self::Pinned => restrict(&[cores[worker % cores.len()]]),
            Self::Free => restrict(cores),
        }
    }

    /// Puts the calling thread where the main thread belongs.
    pub(crate) fn place_main(self) {
        self.place_worker(cores().len() - 1);
    }

    /// What is where, in words.
    pub(crate) fn describe(self) -> String {
        let cores = cores();
        match self {
            Self::Pinned if Self::works() => format!(
                "worker i pinned to core i mod {}, main thread to the last core",
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

#[cfg(not(target_os = "linux"))]
fn restrict(_cores: &[usize]) {}

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

/// Lets the calling thread run on `cores` only.
#[cfg(target_os = "linux")]
fn restrict(cores: &[usize]) {
    let mut mask: Mask = [0; 16];
    for core in cores {
        mask[core / 64] |= 1 << (core % 64);
    }
    // SAFETY: the kernel reads `size_of::<Mask>()` bytes from `mask`; zero means the calling thread.
    let failed = unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), mask.as_ptr().cast()) };
    assert!(failed == 0, "cannot pin a thread to {cores:?}");
}
