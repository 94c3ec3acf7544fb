//! Shapes that are hard for schedulers. The leaves have a fixed and known length.

use super::work::{Work, crowd_cases, fork_case};
use crate::{
    busy::Busy,
    forks::{Filch, Joins, Rayon, Seq, Spawns, sampler},
    harness::{Case, Config, Unit},
    pin,
    stopwatch::{Sample, Stopwatch},
};
use std::time::Duration;

/// The length of a leaf of a spine or a region.
const LEAF: Duration = Duration::from_micros(24);

/// The length and the number of tasks that are pending behind a long one.
const PENDING: Duration = Duration::from_millis(1);
const PENDING_LEAVES: u32 = 20;

/// The length of the long task.
const LONG: Duration = Duration::from_millis(20);

pub(super) fn cases(config: &Config) -> Vec<Case> {
    let joins = config.pick(1_000, 10_000);
    let with = |name, shape, leaves: u32| {
        let make = move || Trap {
            shape,
            joins,
            leaf: Busy::of(LEAF),
        };
        let cases = crowd_cases(name, config, make).into_iter();
        cases.map(move |case| {
            let ideal = f64::from(leaves) * nanos(LEAF) / parallel(&case).min(shape.width());
            case.ideal(ideal)
        })
    };
    let mut cases = Vec::new();
    cases.extend(with("spine_left", Shape::SpineLeft, 1));
    cases.extend(with("spine_right", Shape::SpineRight, 1));
    cases.extend(with("regions", Shape::Regions, 2));
    for workers in config.fork_workers() {
        let case = fork_case("hoard", workers, config);
        let work = LONG + PENDING * PENDING_LEAVES;
        let ideal = (nanos(work) / parallel(&case)).max(nanos(LONG));
        cases.push(
            case.unit(Unit::Millis)
                .ideal(ideal)
                .system("filch", sampler::<Filch>(workers, hoard::<Filch>))
                .system("rayon", sampler::<Rayon>(workers, hoard::<Rayon>))
                .system("seq", sampler::<Seq>(workers, hoard::<Seq>)),
        );
    }
    cases
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The number of workers of the case that can run at the same time.
fn parallel(case: &Case) -> f64 {
    case.workers().min(pin::cores().len()) as f64
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// A chain of joins, whose first closure is the rest of the chain and whose second is a leaf.
    SpineLeft,
    /// The same with the closures swapped.
    SpineRight,
    /// Joins of two leaves, one after the other.
    Regions,
}

impl Shape {
    /// The number of leaves that can run at the same time.
    fn width(self) -> f64 {
        match self {
            Self::SpineLeft | Self::SpineRight => f64::INFINITY,
            Self::Regions => 2.0,
        }
    }
}

/// A trap of `joins` joins. An operation is a join.
#[derive(Clone, Copy, Debug)]
struct Trap {
    shape: Shape,
    joins: u64,
    leaf: Busy,
}

/// Returns the number of leaves that ran.
fn spine_left<J: Joins>(cx: &mut J::Cx<'_>, joins: u64, leaf: Busy) -> u64 {
    if joins == 0 {
        return 0;
    }
    let (rest, ()) = J::join(
        cx,
        move |cx| spine_left::<J>(cx, joins - 1, leaf),
        move |_| leaf.run(),
    );
    rest + 1
}

fn spine_right<J: Joins>(cx: &mut J::Cx<'_>, joins: u64, leaf: Busy) -> u64 {
    if joins == 0 {
        return 0;
    }
    let ((), rest) = J::join(
        cx,
        move |_| leaf.run(),
        move |cx| spine_right::<J>(cx, joins - 1, leaf),
    );
    rest + 1
}

fn regions<J: Joins>(cx: &mut J::Cx<'_>, joins: u64, leaf: Busy) -> u64 {
    for _ in 0..joins {
        J::join(cx, move |_| leaf.run(), move |_| leaf.run());
    }
    joins
}

impl Work for Trap {
    fn run<J: Joins>(&self, pool: &J::Pool) -> u64 {
        let Self { shape, joins, leaf } = *self;
        J::enter(pool, move |cx| match shape {
            Shape::SpineLeft => spine_left::<J>(cx, joins, leaf),
            Shape::SpineRight => spine_right::<J>(cx, joins, leaf),
            Shape::Regions => regions::<J>(cx, joins, leaf),
        })
    }

    fn expected(&self) -> u64 {
        self.joins
    }

    fn ops(&self) -> u64 {
        self.joins
    }
}

/// A scope that spawns some leaves and then runs a long task itself. All of it is one operation.
fn hoard<S: Spawns>(pool: &S::Pool) -> Sample {
    let (pending, long) = (Busy::of(PENDING), Busy::of(LONG));
    let mut watch = Stopwatch::default();
    watch.time(|| {
        S::outside(pool, |scope| {
            for _ in 0..PENDING_LEAVES {
                S::spawn(scope, move |_| pending.run());
            }
            long.run();
        });
    });
    watch.sample(1)
}

#[cfg(test)]
mod tests {
    use super::{LEAF, Shape, Trap};
    use crate::{busy::Busy, suites::work::check};

    #[test]
    fn all_systems_get_out_of_them() {
        for shape in [Shape::SpineLeft, Shape::SpineRight, Shape::Regions] {
            let leaf = Busy::of(LEAF / 10);
            check(Trap {
                shape,
                joins: 300,
                leaf,
            });
        }
    }
}
