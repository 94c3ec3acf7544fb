//! Divide and conquer, sequential or parallel.

/// How two closures are called: one after the other, or in parallel.
pub(crate) trait Join: Sync {
    /// Calls both closures.
    fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B);
}

/// One after the other.
pub(crate) struct Sequential;

impl Join for Sequential {
    fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        (a(), b())
    }
}

/// Cuts `items` into halves as long as they are worth more than `grain`, calls `leaf` with each
/// piece, and puts the results together with `combine`, neighbour to neighbour.
///
/// Where it cuts depends on the items alone. So a sum of floating-point numbers comes out the same,
/// whichever worker computes the halves.
pub(crate) fn reduce<T: Sync, R: Send>(
    items: &[T],
    exec: &impl Join,
    grain: usize,
    worth: &(impl Fn(&T) -> usize + Sync),
    leaf: &(impl Fn(&[T]) -> R + Sync),
    combine: &(impl Fn(R, R) -> R + Sync),
) -> R {
    if items.len() < 2 || worth_all(items, worth) <= grain {
        return leaf(items);
    }
    let (left, right) = items.split_at(items.len() / 2);
    let (left, right) = exec.join(
        || reduce(left, exec, grain, worth, leaf, combine),
        || reduce(right, exec, grain, worth, leaf, combine),
    );
    combine(left, right)
}

/// Returns `f` of every item, in order.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    exec: &impl Join,
    grain: usize,
    worth: &(impl Fn(&T) -> usize + Sync),
    f: &(impl Fn(&T) -> R + Sync),
) -> Vec<R> {
    let leaf = |items: &[T]| items.iter().map(f).collect();
    let combine = |mut left: Vec<R>, right: Vec<R>| {
        left.extend(right);
        left
    };
    reduce(items, exec, grain, worth, &leaf, &combine)
}

fn worth_all<T>(items: &[T], worth: impl Fn(&T) -> usize) -> usize {
    let add = |sum: usize, item| sum.saturating_add(worth(item));
    items.iter().fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_the_order_is_kept() {
        for length in [0_usize, 1, 2, 3, 7, 64, 100] {
            let items: Vec<usize> = (0..length).collect();
            for grain in [0, 1, 5, 1_000] {
                let all = map(&items, &Sequential, grain, &|_| 1, &|n| n * 2);
                assert_eq!(all, (0..length).map(|n| n * 2).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_heavy_item_is_alone() {
        let pieces = reduce(
            &[1, 1, 9, 1],
            &Sequential,
            4,
            &|&worth| worth,
            &|piece: &[usize]| vec![piece.to_vec()],
            &|left, right| [left, right].concat(),
        );
        assert_eq!(pieces, [vec![1, 1], vec![9], vec![1]]);
    }
}
