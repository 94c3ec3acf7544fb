//! Sorting: numbers by joins, and the sorts of the libraries for inputs of several kinds.

mod inputs;

use super::work::fork_case;
use crate::{
    forks::{Filch, Joins, Rayon, Seq, System, sampler},
    harness::{Case, Config},
    stopwatch::{Sample, Stopwatch},
};
use filch::Rng;
use rayon::slice::ParallelSliceMut;
use std::{cell::OnceCell, rc::Rc};

/// The sequential cutoff, in elements.
const CUTOFF: usize = 4096;

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let count = config.pick(1_000_000, 10_000_000);
    let case = |workers| {
        let numbers = Rc::new(Numbers {
            count,
            cell: OnceCell::new(),
        });
        fork_case("quicksort", workers, config)
            .system(
                "filch",
                sorting::<Filch>(workers, &numbers, by_joins::<Filch>),
            )
            .system(
                "rayon",
                sorting::<Rayon>(workers, &numbers, by_joins::<Rayon>),
            )
            .system(
                "rayon-par_sort",
                sorting::<Rayon>(workers, &numbers, par_sort),
            )
            .system("seq", sorting::<Seq>(workers, &numbers, plain))
    };
    let by_joins = config.crowd_workers().into_iter().map(case);
    by_joins.chain(inputs::cases(config)).collect()
}

/// Random numbers, made on first use.
struct Numbers {
    count: usize,
    cell: OnceCell<Vec<u64>>,
}

impl Numbers {
    fn get(&self) -> &[u64] {
        self.cell.get_or_init(|| {
            let mut rng = Rng::new(1);
            (0..self.count).map(|_| rng.next_u64()).collect()
        })
    }
}

/// Sorts a copy of the numbers. An operation is an element.
fn sorting<S: System>(
    workers: usize,
    numbers: &Rc<Numbers>,
    sort: fn(&S::Pool, &mut [u64]),
) -> impl FnMut() -> Sample + use<S> {
    let numbers = numbers.clone();
    sampler::<S>(workers, move |pool| {
        let mut copy = numbers.get().to_vec();
        let mut watch = Stopwatch::default();
        watch.time(|| sort(pool, &mut copy));
        assert!(copy.is_sorted(), "not sorted");
        watch.sample(copy.len() as u64)
    })
}

fn by_joins<J: Joins>(pool: &J::Pool, numbers: &mut [u64]) {
    J::enter(pool, |cx| quicksort::<J>(cx, numbers));
}

fn par_sort(pool: &rayon::ThreadPool, numbers: &mut [u64]) {
    pool.install(|| numbers.par_sort_unstable());
}

fn plain((): &(), numbers: &mut [u64]) {
    numbers.sort_unstable();
}

fn quicksort<J: Joins>(cx: &mut J::Cx<'_>, numbers: &mut [u64]) {
    if numbers.len() <= CUTOFF {
        numbers.sort_unstable();
        return;
    }
    let middle = partition(numbers);
    let (left, right) = numbers.split_at_mut(middle);
    // The pivot, at the start of the right side, is at its final position.
    let right = &mut right[1..];
    J::join(
        cx,
        |cx| quicksort::<J>(cx, left),
        |cx| quicksort::<J>(cx, right),
    );
}

/// Partitions around an element from the middle and returns its final position: no larger element
/// is before it and no smaller one after it.
fn partition(numbers: &mut [u64]) -> usize {
    let last = numbers.len() - 1;
    let mut three = [0, last / 2, last];
    three.sort_by_key(|&place| numbers[place]);
    numbers.swap(three[1], last);
    let pivot = numbers[last];
    let mut smaller = 0;
    for place in 0..last {
        let number = numbers[place];
        // Branch-free, since the branch would be unpredictable.
        numbers.swap(place, smaller);
        smaller += usize::from(number < pivot);
    }
    numbers.swap(smaller, last);
    smaller
}

#[cfg(test)]
mod tests {
    use super::{CUTOFF, by_joins, partition};
    use crate::forks::{Chili, Filch, Joins, Rayon, Seq};
    use filch::Rng;

    #[test]
    fn a_partition_has_two_sides() {
        let mut numbers = [5, 1, 9, 4, 4, 7, 4, 2, 8];
        let middle = partition(&mut numbers);
        let pivot = numbers[middle];
        assert!(numbers[..middle].iter().all(|&number| number <= pivot));
        assert!(numbers[middle..].iter().all(|&number| number >= pivot));
    }

    #[test]
    fn all_systems_sort() {
        fn on<J: Joins>() {
            let mut rng = Rng::new(3);
            let mut numbers: Vec<_> = (0..20 * CUTOFF).map(|_| rng.next_u64()).collect();
            let mut expected = numbers.clone();
            expected.sort_unstable();
            by_joins::<J>(&J::pool(3), &mut numbers);
            assert!(numbers == expected);
        }
        on::<Filch>();
        on::<Rayon>();
        on::<Chili>();
        on::<Seq>();
    }
}
