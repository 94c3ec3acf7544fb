//! How many tasks from outside a worker takes at once.

use crate::base::sync::{AtomicUsize, Ordering};

/// The largest number of tasks in the injector since it was last nearly empty.
///
/// A worker takes an equal share of that. A share of what is left would shrink with each take: then
/// `n` workers take about `n` times the logarithm of tasks by workers, one after the other, because
/// takes exclude each other. With 256 simulated workers a burst of 10,000 tasks of 1 µs took 2.6
/// times as long (`bench/results/scale`). Shares that turn out unequal are for thieves.
#[derive(Debug, Default)]
pub(super) struct Backlog(AtomicUsize);

impl Backlog {
    /// Returns how many of `tasks` tasks one of `workers` workers should take.
    pub(super) fn share(&self, tasks: usize, workers: usize) -> usize {
        // Relaxed, here and below: a heuristic. Workers that overwrite each other's number make
        // shares larger or smaller.
        let before = self.0.load(Ordering::Relaxed);
        let backlog = before.max(tasks);
        let share = backlog.div_ceil(workers.max(1)).max(1);
        // The last share: a later burst has a backlog of its own.
        let after = if share < tasks { backlog } else { 0 };
        if after != before {
            self.0.store(after, Ordering::Relaxed);
        }
        share
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    /// Returns the sizes of the takes until nothing is left.
    fn takes(backlog: &Backlog, mut tasks: usize, workers: usize) -> Vec<usize> {
        let mut takes = Vec::new();
        while tasks > 0 {
            let share = backlog.share(tasks, workers).min(tasks);
            takes.push(share);
            tasks -= share;
        }
        takes
    }

    #[test]
    fn every_worker_takes_an_equal_share_of_a_burst() {
        let backlog = Backlog::default();
        assert_eq!(takes(&backlog, 10_000, 256), vec![40; 250]);
        assert_eq!(
            takes(&backlog, 4, 4),
            [1; 4],
            "the burst before has no effect"
        );
        assert_eq!(takes(&backlog, 3, 8), [1; 3]);
        assert_eq!(takes(&backlog, 5, 2), [3, 2]);
        assert_eq!(takes(&backlog, 7, 1), [7]);
        assert_eq!(backlog.share(0, 0), 1);
    }

    #[test]
    fn a_burst_that_grows_has_larger_shares() {
        let backlog = Backlog::default();
        assert_eq!(backlog.share(100, 10), 10);
        assert_eq!(backlog.share(200, 10), 20);
        assert_eq!(backlog.share(150, 10), 20);
    }
}
