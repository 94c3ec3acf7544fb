//! Fibonacci numbers by naive recursion: joins without other work.

use crate::{forks::Joins, suites::work::Work};
use filch::CurrentWorker;
use std::hint::black_box;

/// The number to compute. An operation is a join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fib(pub(super) u32);

fn fib<J: Joins>(cx: &mut J::Cx<'_>, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = J::join(
        cx,
        move |cx| fib::<J>(cx, n - 1),
        move |cx| fib::<J>(cx, n - 2),
    );
    a + b
}

fn fib_with(cx: &CurrentWorker, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = cx.join(move |cx| fib_with(cx, n - 1), move |cx| fib_with(cx, n - 2));
    a + b
}

/// The same number, computed by a loop.
fn fast(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

impl Work for Fib {
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64 {
        let n = black_box(self.0);
        J::enter(pool, move |cx| fib::<J>(cx, n))
    }

    fn run_with(&self, pool: &filch::Pool) -> Option<u64> {
        let n = black_box(self.0);
        Some(pool.with(|cx| fib_with(cx, n)))
    }

    fn expected(&self) -> u64 {
        fast(self.0)
    }

    fn ops(&self) -> u64 {
        fast(self.0 + 1) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Fib;
    use crate::suites::work::{Work, check};

    #[test]
    fn all_systems_agree() {
        assert_eq!(Fib(2).ops(), 1);
        assert_eq!(Fib(4).ops(), 4);
        check(Fib(18));
    }
}
