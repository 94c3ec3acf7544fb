//! How much faster the pool is than one thread.

use crate::{
    Parallel,
    algebra::{
        Expr, Join, Point, Polynomial, Rule, Sequential, differentiate, halves, parse,
        pattern::IDENTITIES, sample, simplify,
    },
};
use filch::Pool;
use std::{
    error::Error,
    io::{self, Write},
    time::{Duration, Instant},
};

/// Odd, so that there is a median; few, so that it takes seconds.
const ROUNDS: usize = 7;

/// Points per task: tens of microseconds of work.
const POINTS_A_TASK: usize = 64;

/// Measures the four jobs and prints a line for each.
///
/// # Errors
/// When the output is closed, or a job has another result on the pool than on one thread.
pub(crate) fn table(pool: &Pool, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(
        out,
        "Speed-up, medians of {ROUNDS} rounds {:>26} {:>10}",
        "sequential", "parallel"
    )?;
    let large = sample::expression(1, 400_000);
    let what = format!("differentiate  {} nodes", large.size());
    let derive = Job {
        sequential: || differentiate(&large, "x", &Sequential),
        parallel: || differentiate(&large, "x", &Parallel),
    };
    derive.line(pool, out, &what)?;

    let messy = sample::expression(2, 60_000);
    let rules = Rule::all(&IDENTITIES)?;
    let what = format!(
        "simplify       {} nodes, {} rules",
        messy.size(),
        rules.len()
    );
    let simplify = Job {
        sequential: || simplify(&messy, &rules, &Sequential).ok(),
        parallel: || simplify(&messy, &rules, &Parallel).ok(),
    };
    simplify.line(pool, out, &what)?;

    let power = parse::expression("(1 + x + y + z)^15")?;
    let factor = Polynomial::new(&power, &["x", "y", "z"])?;
    let what = format!("multiply       {0} terms by {0} terms", factor.len());
    let multiply = Job {
        sequential: || factor.times(&factor, &Sequential),
        parallel: || factor.times(&factor, &Parallel),
    };
    multiply.line(pool, out, &what)?;

    let curve = sample::expression(3, 60);
    let points: Vec<Point> = (0..40_000).map(point).collect();
    let what = format!(
        "evaluate       {} nodes at {} points",
        curve.size(),
        points.len()
    );
    let evaluate = Job {
        sequential: || values(&curve, &points, &Sequential),
        parallel: || values(&curve, &points, &Parallel),
    };
    evaluate.line(pool, out, &what)
}

fn point(n: usize) -> Point {
    let share = n as f64 / 40_000.0;
    Point::default()
        .set("x", share)
        .set("y", 1.0 - share)
        .set("z", 0.5 + share)
}

/// The bits of the values: those that are not numbers are to be the same as well.
fn values(expr: &Expr, points: &[Point], exec: &impl Join) -> Vec<u64> {
    let value = |point: &Point| expr.value(point, &Sequential).map_or(0, f64::to_bits);
    halves::map(points, exec, POINTS_A_TASK, &|_| 1, &value)
}

/// The same job in two ways.
struct Job<A, B> {
    sequential: A,
    parallel: B,
}

impl<R: PartialEq + Send, A: Fn() -> R, B: Fn() -> R> Job<A, B> {
    fn line(&self, pool: &Pool, out: &mut impl Write, what: &str) -> Result<(), Box<dyn Error>> {
        let (mut sequential, mut parallel) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            // Alternating, so that a disturbance hits both.
            let (expected, time) = timed(&self.sequential);
            sequential.push(time);
            let (result, time) = timed(|| pool.install(&self.parallel));
            parallel.push(time);
            if result != expected {
                return Err(format!("{what}: the pool gives another result").into());
            }
        }
        let (sequential, parallel) = (median(sequential), median(parallel));
        line(out, what, sequential, parallel)?;
        Ok(())
    }
}

fn line(
    out: &mut impl Write,
    what: &str,
    sequential: Duration,
    parallel: Duration,
) -> io::Result<()> {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let factor = sequential.as_secs_f64() / parallel.as_secs_f64();
    let bar = "▪".repeat((factor * 10.0).round().clamp(0.0, 40.0) as usize);
    writeln!(
        out,
        "  {what:<45} {:>7.1} ms {:>7.1} ms {factor:>6.2} {bar}",
        millis(sequential),
        millis(parallel)
    )
}

fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
