//! Which core each worker runs on, or ran on when it fell asleep: for the choice of the sleeper to wake.
//!
//! All of it is hints. A worker that is not pinned may be elsewhere by now, and a worker that is marked as awake
//! may be blocked in a system call. The system of core numbers comes from the driver
//! ([`Settings::current_core`](super::Settings::current_core)); where there is none, nothing is known here.

use crate::base::sync::{AtomicU32, Ordering};

/// The most workers that are looked at for one wake, which costs microseconds anyway: eight cache lines.
const SCANNED: usize = 128;

/// Nothing is known about the worker, or it is no worker at present.
const UNKNOWN: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;
const STATES: u32 = 4;

/// Some cores, modulo 256: two that share a bit are taken for one.
#[derive(Default)]
struct CoreSet([u64; 4]);

impl CoreSet {
    fn insert(&mut self, core: u32) {
        self.0[core as usize / 64 % 4] |= 1 << (core % 64);
    }

    fn contains(&self, core: u32) -> bool {
        self.0[core as usize / 64 % 4] & (1 << (core % 64)) != 0
    }
}

/// See the module.
pub(super) struct WorkerCores {
    /// Of each worker, `STATES` times the core plus the state.
    seen: Box<[AtomicU32]>,
}

impl WorkerCores {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            seen: (0..workers).map(|_| AtomicU32::new(UNKNOWN)).collect(),
        }
    }

    fn set(&self, worker: usize, core: Option<u32>, state: u32) {
        if let Some(core) = core {
            let seen = core.wrapping_mul(STATES).wrapping_add(state);
            // Relaxed: a hint.
            self.seen[worker].store(seen, Ordering::Relaxed);
        }
    }

    /// `worker` is awake on `core`, and uses it.
    pub(super) fn awake(&self, worker: usize, core: Option<u32>) {
        self.set(worker, core, AWAKE);
    }

    /// `worker` is about to sleep on `core`.
    pub(super) fn asleep(&self, worker: usize, core: Option<u32>) {
        self.set(worker, core, ASLEEP);
    }

    /// `worker` has left.
    pub(super) fn forget(&self, worker: usize) {
        // Relaxed: a hint, which only this worker writes.
        if self.seen[worker].load(Ordering::Relaxed) != UNKNOWN {
            // Relaxed: as above.
            self.seen[worker].store(UNKNOWN, Ordering::Relaxed);
        }
    }

    fn scan(&self) -> impl Iterator<Item = (usize, u32, u32)> {
        let seen = self.seen.iter().take(SCANNED).enumerate();
        seen.map(|(worker, seen)| {
            // Relaxed: a hint.
            let seen = seen.load(Ordering::Relaxed);
            (worker, seen % STATES, seen / STATES)
        })
    }

    /// Whether a worker other than `worker` is awake on `core`.
    pub(super) fn is_shared(&self, worker: usize, core: u32) -> bool {
        self.scan()
            .any(|(other, state, at)| other != worker && state == AWAKE && at == core)
    }

    /// A sleeper for a waker on the core `waker`, of which the one that fell asleep last may be `last`.
    ///
    /// The best one is on a core where neither the waker nor a worker is. Next comes one on the waker's own
    /// core, where no worker is awake: the waker may be about to sleep. Of equals it is `last`, whose caches are
    /// warm. `None` when there is no such sleeper.
    pub(super) fn choose(&self, waker: u32, last: Option<usize>) -> Option<usize> {
        let mut used = CoreSet::default();
        for (_, state, core) in self.scan() {
            if state == AWAKE {
                used.insert(core);
            }
        }
        let mut second = None;
        let mut first = None;
        for (worker, state, core) in self.scan() {
            if state != ASLEEP || used.contains(core) {
                continue;
            }
            let best = if core == waker {
                &mut second
            } else {
                &mut first
            };
            if best.is_none() || Some(worker) == last {
                *best = Some(worker);
            }
        }
        first.or(second)
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::WorkerCores;

    /// Workers on the cores with these numbers; the first `awake` of them are awake.
    fn crowd(cores: &[u32], awake: usize) -> WorkerCores {
        let crowd = WorkerCores::new(cores.len());
        for (worker, &core) in cores.iter().enumerate() {
            if worker < awake {
                crowd.awake(worker, Some(core));
            } else {
                crowd.asleep(worker, Some(core));
            }
        }
        crowd
    }

    #[test]
    fn the_sleeper_is_on_a_core_that_is_free() {
        let crowd = crowd(&[0, 1, 0, 1, 2], 1);
        assert_eq!(crowd.choose(0, Some(2)), Some(1));
        assert_eq!(crowd.choose(0, Some(3)), Some(3), "it fell asleep last");
        assert_eq!(crowd.choose(1, Some(3)), Some(4), "not the waker's core");
        assert_eq!(crowd.choose(9, Some(2)), Some(1), "core 0 is in use");
    }

    #[test]
    fn the_core_of_the_waker_comes_second() {
        let crowd = crowd(&[1, 0, 1], 1);
        assert_eq!(crowd.choose(0, Some(2)), Some(1));
        crowd.awake(1, Some(0));
        assert_eq!(crowd.choose(0, Some(2)), None, "both cores are in use");
        assert!(crowd.is_shared(2, 1) && !crowd.is_shared(0, 1));
    }

    #[test]
    fn a_worker_that_left_or_was_never_seen_is_not_chosen() {
        let crowd = crowd(&[0, 1], 1);
        crowd.forget(1);
        assert_eq!(crowd.choose(0, None), None);
        let unknown = WorkerCores::new(3);
        unknown.awake(0, None);
        unknown.asleep(1, None);
        assert_eq!(unknown.choose(0, Some(1)), None);
    }

    #[test]
    fn cores_beyond_the_set_are_only_taken_for_others() {
        let crowd = crowd(&[1000, 1000 + 256, 1001], 1);
        assert_eq!(crowd.choose(5, Some(1)), Some(2));
    }
}
