//! Computer algebra: expressions that are large, uneven, and made of small allocations.
//!
//! The algebra is that of the example `symbolic`. It splits its work into halves, down to some tens
//! of microseconds each, and joins them.

#[allow(dead_code, unused_imports, reason = "the example needs all of it")]
#[path = "../../../crates/filch-calls/examples/symbolic/algebra/mod.rs"]
mod algebra;

use super::work::fork_case;
use crate::{
    forks::{Filch, Joins, Rayon, Seq, sampler},
    harness::{Case, Config, ToSeq, Unit},
    stopwatch::{Sample, Stopwatch},
};
use algebra::{
    Both, Expr, InTurn, Point, Polynomial, Rule, differentiate, halves, parse, pattern::IDENTITIES,
    sample, simplify,
};
use rayon::prelude::*;
use std::{cell::OnceCell, rc::Rc};

/// The minimum number of points per half: tens of microseconds.
const POINTS_A_PIECE: usize = 64;

/// The systems whose joins need no context.
impl<S: for<'c> Joins<Cx<'c> = ()> + Sync> Both for S {
    fn both<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        S::join(&mut (), |()| a(), |()| b())
    }
}

/// A computation with its input.
trait Job: Sync + 'static {
    type Result: Send + PartialEq;

    /// Computes the result by joining halves.
    fn run(&self, both: &impl Both) -> Self::Result;
}

struct Derive(Expr);

impl Job for Derive {
    type Result = Expr;

    fn run(&self, both: &impl Both) -> Expr {
        differentiate(&self.0, "x", both)
    }
}

impl Derive {
    /// The terms, for loops over them.
    fn terms(&self) -> &[Expr] {
        self.0.parts()
    }

    fn term(term: &Expr) -> Expr {
        differentiate(term, "x", &InTurn)
    }

    fn sum(mut terms: Vec<Expr>) -> Expr {
        terms.retain(|term| !term.is(0));
        Expr::sum(terms)
    }

    fn by_loop(&self, pool: &filch::Pool) -> Expr {
        Self::sum(pool.over(self.terms()).map(Self::term).collect())
    }

    fn by_iter(&self, pool: &rayon::ThreadPool) -> Expr {
        Self::sum(pool.install(|| self.terms().par_iter().map(Self::term).collect()))
    }
}

struct Simplify {
    expr: Expr,
    rules: Vec<Rule>,
}

impl Job for Simplify {
    type Result = Expr;

    fn run(&self, both: &impl Both) -> Expr {
        simplify(&self.expr, &self.rules, both).expect("the rules terminate")
    }
}

struct Multiply(Polynomial);

impl Job for Multiply {
    type Result = Polynomial;

    fn run(&self, both: &impl Both) -> Polynomial {
        let product = self.0.times(&self.0, both);
        product.expect("the coefficients are small enough")
    }
}

struct Evaluate {
    expr: Expr,
    points: Vec<Point>,
}

impl Evaluate {
    fn new(points: usize) -> Self {
        let point = |n| {
            let share = n as f64 / points as f64;
            let point = Point::default().set("x", share).set("y", 1.0 - share);
            point.set("z", 0.5 + share)
        };
        Self {
            expr: sample::expression(3, 60),
            points: (0..points).map(point).collect(),
        }
    }

    /// Compared by bits, so that NaN equals NaN.
    fn value(&self, point: &Point) -> u64 {
        let value = self.expr.value(point, &InTurn);
        value.map_or(0, f64::to_bits)
    }

    fn by_loop(&self, pool: &filch::Pool) -> Vec<u64> {
        let value = |point| self.value(point);
        pool.over(&self.points).map(value).collect()
    }

    fn by_iter(&self, pool: &rayon::ThreadPool) -> Vec<u64> {
        let value = |point| self.value(point);
        pool.install(|| self.points.par_iter().map(value).collect())
    }
}

impl Job for Evaluate {
    type Result = Vec<u64>;

    fn run(&self, both: &impl Both) -> Vec<u64> {
        let value = |point: &Point| self.value(point);
        halves::map(&self.points, both, POINTS_A_PIECE, &|_| 1, &value)
    }
}

fn multiply(power: &str) -> Multiply {
    let power = parse::expression(power).expect("it is spelled well");
    Multiply(Polynomial::new(&power, &["x", "y", "z"]).expect("it is a polynomial"))
}

fn simplification(nodes: usize) -> Simplify {
    Simplify {
        expr: sample::expression(2, nodes),
        rules: Rule::all(&IDENTITIES).expect("they are spelled well"),
    }
}

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let power = config.pick("(1 + x + y + z)^9", "(1 + x + y + z)^15");
    let large = config.pick(40_000, 400_000);
    let messy = config.pick(6_000, 60_000);
    let points = config.pick(4_000, 40_000);
    let mut cases = Vec::new();
    for workers in config.fork_workers() {
        cases.push(case("product", workers, config, move || multiply(power)).0);
        let make = move || Derive(sample::expression(1, large));
        let (derive, data) = case("derive", workers, config, make);
        cases.push(
            derive
                .system(
                    "filch-loop",
                    timed::<Filch, _>(workers, &data, make, Derive::by_loop),
                )
                .system(
                    "rayon-iter",
                    timed::<Rayon, _>(workers, &data, make, Derive::by_iter),
                ),
        );
        cases.push(case("simplify", workers, config, move || simplification(messy)).0);
        let make = move || Evaluate::new(points);
        let (evaluate, data) = case("evaluate", workers, config, make);
        cases.push(
            evaluate
                .system(
                    "filch-loop",
                    timed::<Filch, _>(workers, &data, make, Evaluate::by_loop),
                )
                .system(
                    "rayon-iter",
                    timed::<Rayon, _>(workers, &data, make, Evaluate::by_iter),
                ),
        );
    }
    cases
}

/// A job, and its expected result.
type Data<J> = Rc<OnceCell<(J, <J as Job>::Result)>>;

/// A case with the systems that join halves, and the data that they share.
fn case<J: Job>(
    name: &'static str,
    workers: usize,
    config: &Config,
    make: impl Fn() -> J + Copy + 'static,
) -> (Case, Data<J>) {
    let data = Rc::new(OnceCell::new());
    let case = fork_case(name, workers, config)
        .unit(Unit::Millis)
        .beside_seq(ToSeq::Speed)
        .rounds(1, config.pick(5, 9))
        .system(
            "filch",
            timed::<Filch, J>(workers, &data, make, |job, pool| on(job, pool, &Filch)),
        )
        .system(
            "rayon",
            timed::<Rayon, J>(workers, &data, make, |job, pool| on(job, pool, &Rayon)),
        )
        .system(
            "seq",
            timed::<Seq, J>(workers, &data, make, |job, ()| job.run(&Seq)),
        );
    (case, data)
}

fn on<S: Joins + Both, J: Job>(job: &J, pool: &S::Pool, both: &S) -> J::Result {
    S::enter(pool, |_| job.run(both))
}

/// Takes one sample. Checking and dropping the result are not timed.
fn timed<S: Joins, J: Job>(
    workers: usize,
    data: &Data<J>,
    make: impl Fn() -> J + Copy + 'static,
    run: fn(&J, &S::Pool) -> J::Result,
) -> impl FnMut() -> Sample + 'static {
    let data = data.clone();
    sampler::<S>(workers, move |pool| {
        let (job, expected) = data.get_or_init(|| {
            let job = make();
            let expected = job.run(&InTurn);
            (job, expected)
        });
        let mut watch = Stopwatch::default();
        let result = watch.time(|| run(job, pool));
        assert!(result == *expected, "a wrong result");
        watch.sample(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<J: Job>(job: &J) -> J::Result {
        let expected = job.run(&InTurn);
        assert!(on(job, &pool::<Filch>(), &Filch) == expected);
        assert!(on(job, &pool::<Rayon>(), &Rayon) == expected);
        expected
    }

    fn pool<S: Joins>() -> S::Pool {
        S::pool(3)
    }

    #[test]
    fn all_systems_agree() {
        check(&multiply("(1 + x + y)^4"));
        check(&simplification(500));
        let derive = Derive(sample::expression(1, 5_000));
        let expected = check(&derive);
        assert!(derive.by_loop(&pool::<Filch>()) == expected);
        assert!(derive.by_iter(&pool::<Rayon>()) == expected);
        let evaluate = Evaluate::new(300);
        let expected = check(&evaluate);
        assert_eq!(evaluate.by_loop(&pool::<Filch>()), expected);
        assert_eq!(evaluate.by_iter(&pool::<Rayon>()), expected);
    }
}
