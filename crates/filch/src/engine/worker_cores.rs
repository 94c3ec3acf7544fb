//! Which core each worker runs on, or ran on when it fell asleep: for the choice of the sleeper to
//! wake.
//!
//! All of this is hints. A worker that is not pinned may be elsewhere by now, and a worker that is
//! marked as awake may be blocked in a system call. The driver supplies the core numbers
//! ([`Settings::current_core`](super::Settings::current_core)); without them nothing is recorded
//! here.

use crate::base::sync::{AtomicU32, Ordering};

/// The most workers that are scanned for one wake, which costs microseconds anyway: eight cache
/// lines.
const MAX_SCANNED: usize = 128;

/// Nothing is known about the worker, or it does not take part at present.
const UNKNOWN: u32 = 0;
const AWAKE: u32 = 1;
const ASLEEP: u32 = 2;
const STATES: u32 = 4;

/// A set of cores, modulo 256: two cores that share a bit are treated as one.
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

/// The last known core and state of each worker.
pub(super) struct WorkerCores {
    /// For each worker, `STATES` times the core plus the state.
    seen: Box<[AtomicU32]>,
}

impl WorkerCores {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            seen: (0..workers).map(|_| AtomicU32::new(UNKNOWN)).collect(),
        }
    }

    /// Records the core of a worker, if it is known, and its state.
    fn record(&self, worker: usize, core: Option<u32>, state: u32) {
        if let Some(core) = core {
            let seen = core.wrapping_mul(STATES).wrapping_add(state);
            // Relaxed: a hint.
            self.seen[worker].store(seen, Ordering::Relaxed);
        }
    }

    /// Records that `worker` is awake on `core`.
    pub(super) fn awake(&self, worker: usize, core: Option<u32>) {
        self.record(worker, core, AWAKE);
    }

    /// Records that `worker` is about to sleep on `core`.
    pub(super) fn asleep(&self, worker: usize, core: Option<u32>) {
        self.record(worker, core, ASLEEP);
    }

    /// Records that `worker` has left.
    pub(super) fn forget(&self, worker: usize) {
        // Relaxed: a hint, which only this worker writes.
        if self.seen[worker].load(Ordering::Relaxed) != UNKNOWN {
            // Relaxed: a hint, as above.
            self.seen[worker].store(UNKNOWN, Ordering::Relaxed);
        }
    }

    /// Returns worker, state and core of the record of each of these workers.
    fn recorded(
        &self,
        workers: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = (usize, u32, u32)> {
        workers.take(MAX_SCANNED).map(|worker| {
            // Relaxed: a hint.
            let seen = self.seen[worker].load(Ordering::Relaxed);
            (worker, seen % STATES, seen / STATES)
        })
    }

    /// Whether a worker other than `worker` is awake on `core`.
    pub(super) fn is_shared(&self, worker: usize, core: u32) -> bool {
        self.recorded(0..self.seen.len())
            .any(|(other, state, at)| other != worker && state == AWAKE && at == core)
    }

    /// Returns a sleeper for a waker on the core `waker`; `last` is the worker that fell asleep
    /// last, if known.
    ///
    /// The best one is on a core that neither the waker nor an awake worker uses. Next comes one on
    /// the waker's own core, if no worker is awake there: the waker may be about to sleep. Among
    /// equals it is `last`, whose caches are warm. `None` when there is no such sleeper.
    pub(super) fn choose(&self, waker: u32, last: Option<usize>) -> Option<usize> {
        self.choose_among(0..self.seen.len(), waker, last)
    }

    /// [`choose`](Self::choose) among some of the workers, whose cores no other worker uses.
    pub(super) fn choose_among(
        &self,
        workers: impl Iterator<Item = usize> + Clone,
        waker: u32,
        last: Option<usize>,
    ) -> Option<usize> {
        let mut used = CoreSet::default();
        for (_, state, core) in self.recorded(workers.clone()) {
            if state == AWAKE {
                used.insert(core);
            }
        }
        let mut second = None;
        let mut first = None;
        for (worker, state, core) in self.recorded(workers) {
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

    /// Creates workers on the given cores; the first `awake` of them are awake.
    fn workers_on(cores: &[u32], awake: usize) -> WorkerCores {
        let seen = WorkerCores::new(cores.len());
        for (worker, &core) in cores.iter().enumerate() {
            if worker < awake {
                seen.awake(worker, Some(core));
            } else {
                seen.asleep(worker, Some(core));
            }
        }
        seen
    }

    #[test]
    fn the_sleeper_is_on_a_core_that_is_free() {
        let cores = workers_on(&[0, 1, 0, 1, 2], 1);
        assert_eq!(cores.choose(0, Some(2)), Some(1));
        assert_eq!(cores.choose(0, Some(3)), Some(3), "it fell asleep last");
        assert_eq!(cores.choose(1, Some(3)), Some(4), "not the waker's core");
        assert_eq!(cores.choose(9, Some(2)), Some(1), "core 0 is in use");
    }

    #[test]
    fn the_core_of_the_waker_comes_second() {
        let cores = workers_on(&[1, 0, 1], 1);
        assert_eq!(cores.choose(0, Some(2)), Some(1));
        cores.awake(1, Some(0));
        assert_eq!(cores.choose(0, Some(2)), None, "both cores are in use");
        assert!(cores.is_shared(2, 1) && !cores.is_shared(0, 1));
    }

    #[test]
    fn a_worker_that_left_or_was_never_seen_is_not_chosen() {
        let cores = workers_on(&[0, 1], 1);
        cores.forget(1);
        assert_eq!(cores.choose(0, None), None);
        let unknown = WorkerCores::new(3);
        unknown.awake(0, None);
        unknown.asleep(1, None);
        assert_eq!(unknown.choose(0, Some(1)), None);
    }

    #[test]
    fn cores_beyond_the_set_are_only_taken_for_others() {
        let cores = workers_on(&[1000, 1000 + 256, 1001], 1);
        assert_eq!(cores.choose(5, Some(1)), Some(2));
    }
}
