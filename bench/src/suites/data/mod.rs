//! Loops over data: large ones, and small ones called from outside.

mod floats;
mod rows;

use super::work::fork_case;
use crate::{
    forks::{Filch, Rayon, Seq, sampler},
    harness::{Case, Config, ToSeq, Unit},
    loops::{
        Loops,
        kernels::{self, Body, Contract, Matrices, Picture, Sieve},
    },
    stopwatch::{Sample, Stopwatch},
};
use rows::{
    Chain, Each, Frame, Made, Nested, Pairs, Primes, Product, Search, Sorted, Sum, UnevenItems,
    Worth,
};
use std::{cell::OnceCell, rc::Rc};

/// Elements of the small loops, and calls per sample.
const SMALL: usize = 10_000;
const CALLS: u64 = 200;

/// A loop with its data.
trait Row: 'static {
    /// Runs and times the loop, called from outside of the pool. Returns a digest of the result.
    fn run<L: Loops>(&self, pool: &L::Pool, watch: &mut Stopwatch) -> u64;
}

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let numbers = config.pick(1_000_000, 10_000_000);
    let sorted = config.pick(200_000, 2_000_000);
    let order = config.pick(128, 384);
    let bodies = config.pick(500, 2_000);
    let contracts = config.pick(50_000, 500_000);
    let width = config.pick(240, 640);
    let primes = config.pick(1_000_000, 10_000_000);
    let lines = config.pick(20_000, 200_000);
    let mut cases = Vec::new();
    for workers in config.fork_workers() {
        let row = Rows { workers, config };
        let some = move || kernels::numbers(numbers);
        let to_sort = move || kernels::numbers(sorted);
        cases.extend([
            row.of("sum", move || Sum(some())),
            floats::case(workers, numbers, config),
            row.of("max", move || rows::Max(some())),
            row.of("map", move || Made::map(some())),
            row.of("filter", move || Made::filter(some())),
            row.of("for_each", move || Each(some())),
            row.of("chain", move || Chain(some())),
            row.of("heavy_last", move || {
                UnevenItems::heavy_last(numbers / 10, numbers / 5_000)
            }),
            row.of("heavy_first", move || UnevenItems::heavy_first(numbers / 2)),
            row.of("nested", || Nested(1_000)),
            row.of("sort", move || Sorted::stable(to_sort())),
            row.of("sort_unstable", move || Sorted::unstable(to_sort())),
            row.of("matrix", move || Product(Matrices::new(order))),
            row.of("nbody", move || Pairs(Body::some(bodies))),
            row.of("black_scholes", move || Worth(Contract::some(contracts))),
            row.of("mandelbrot", move || {
                Frame(Picture {
                    width,
                    height: width * 3 / 4,
                })
            }),
            row.of("primes", move || Primes(Sieve::new(primes))),
            row.of("search", move || Search(kernels::text(lines))),
        ]);
        let some = || kernels::numbers(SMALL);
        cases.extend([
            row.small("sum_small", move || Sum(some())),
            row.small("max_small", move || rows::Max(some())),
            row.small("map_small", move || Made::map(some())),
            row.small("filter_small", move || Made::filter(some())),
            row.small("chain_small", move || Chain(some())),
            row.small("for_each_small", move || Each(some())),
            row.small("sort_small", move || Sorted::unstable(some())),
        ]);
    }
    cases
}

/// Makes cases for one number of workers.
struct Rows<'c> {
    workers: usize,
    config: &'c Config,
}

impl Rows<'_> {
    /// A case that runs the loop once per sample. An operation is the whole loop.
    fn of<R: Row>(&self, name: &'static str, make: impl Fn() -> R + Copy + 'static) -> Case {
        self.case(name, 1, make).unit(Unit::Millis)
    }

    /// A case that runs the loop [`CALLS`] times per sample. An operation is one loop, called from
    /// outside.
    fn small<R: Row>(&self, name: &'static str, make: impl Fn() -> R + Copy + 'static) -> Case {
        self.case(name, CALLS, make)
    }

    fn case<R, M>(&self, name: &'static str, calls: u64, make: M) -> Case
    where
        R: Row,
        M: Fn() -> R + Copy + 'static,
    {
        let data = Rc::new(OnceCell::new());
        let workers = self.workers;
        fork_case(name, workers, self.config)
            .beside_seq(ToSeq::Speed)
            .system("filch", by::<Filch, R, M>(workers, calls, &data, make))
            .system("rayon", by::<Rayon, R, M>(workers, calls, &data, make))
            .system("seq", by::<Seq, R, M>(workers, calls, &data, make))
    }
}

/// A row, and the expected digest.
type Data<R> = Rc<OnceCell<(R, u64)>>;

fn by<L, R, M>(
    workers: usize,
    calls: u64,
    data: &Data<R>,
    make: M,
) -> impl FnMut() -> Sample + use<L, R, M>
where
    L: Loops,
    R: Row,
    M: Fn() -> R + Copy + 'static,
{
    let data = data.clone();
    sampler::<L>(workers, move |pool| {
        let (row, expected) = data.get_or_init(|| {
            let row = make();
            let expected = row.run::<Seq>(&(), &mut Stopwatch::default());
            (row, expected)
        });
        let mut watch = Stopwatch::default();
        for _ in 0..calls {
            let digest = row.run::<L>(pool, &mut watch);
            assert!(digest == *expected, "a wrong result");
        }
        watch.sample(calls)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: &impl Row) {
        fn on<L: Loops>(row: &impl Row) -> Vec<u64> {
            let run = |workers| row.run::<L>(&L::pool(workers), &mut Stopwatch::default());
            [1, 2, 5].map(run).into()
        }
        let expected = on::<Seq>(row);
        assert_eq!(on::<Filch>(row), expected);
        assert_eq!(on::<Rayon>(row), expected);
    }

    #[test]
    fn all_systems_agree() {
        let some = || kernels::numbers(30_000);
        check(&Sum(some()));
        check(&rows::Max(some()));
        check(&Made::map(some()));
        check(&Made::filter(some()));
        check(&Each(some()));
        check(&Sorted::stable(some()));
        check(&Sorted::unstable(some()));
        check(&Product(Matrices::new(20)));
        check(&Pairs(Body::some(50)));
        check(&Worth(Contract::some(1_000)));
        check(&Frame(Picture {
            width: 40,
            height: 30,
        }));
        check(&Primes(Sieve::new(100_000)));
        check(&Search(kernels::text(1_000)));
    }
}
