//! How much faster the pool is than one thread.

use crate::{
    AtOnce,
    algebra::{
        Both, Expr, InTurn, Point, Polynomial, Rule, differentiate, halves, parse,
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
/// When the output is closed, or a job gives another result on the pool than in turn.
pub(crate) fn table(pool: &Pool, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(
        out,
        "Speed-up, medians of {ROUNDS} rounds {:>26} {:>10}",
        "in turn", "at once"
    )?;
    let large = sample::expression(1, 400_000);
    let what = format!("differentiate  {} nodes", large.size());
    let derive = Job {
        in_turn: || differentiate(&large, "x", &InTurn),
        at_once: || differentiate(&large, "x", &AtOnce),
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
        in_turn: || simplify(&messy, &rules, &InTurn).ok(),
        at_once: || simplify(&messy, &rules, &AtOnce).ok(),
    };
    simplify.line(pool, out, &what)?;

    let power = parse::expression("(1 + x + y + z)^15")?;
    let factor = Polynomial::new(&power, &["x", "y", "z"])?;
    let what = format!("multiply       {0} terms by {0} terms", factor.len());
    let multiply = Job {
        in_turn: || factor.times(&factor, &InTurn),
        at_once: || factor.times(&factor, &AtOnce),
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
        in_turn: || values(&curve, &points, &InTurn),
        at_once: || values(&curve, &points, &AtOnce),
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
fn values(expr: &Expr, points: &[Point], both: &impl Both) -> Vec<u64> {
    let value = |point: &Point| expr.value(point, &InTurn).map_or(0, f64::to_bits);
    halves::map(points, both, POINTS_A_TASK, &|_| 1, &value)
}

/// The same job in two ways.
struct Job<A, B> {
    in_turn: A,
    at_once: B,
}

impl<R: PartialEq + Send, A: Fn() -> R, B: Fn() -> R> Job<A, B> {
    fn line(&self, pool: &Pool, out: &mut impl Write, what: &str) -> Result<(), Box<dyn Error>> {
        let (mut in_turn, mut at_once) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            // Alternating, so that a disturbance hits both.
            let (expected, time) = timed(&self.in_turn);
            in_turn.push(time);
            let (result, time) = timed(|| pool.install(&self.at_once));
            at_once.push(time);
            if result != expected {
                return Err(format!("{what}: the pool gives another result").into());
            }
        }
        let (in_turn, at_once) = (median(in_turn), median(at_once));
        line(out, what, in_turn, at_once)?;
        Ok(())
    }
}

fn line(out: &mut impl Write, what: &str, in_turn: Duration, at_once: Duration) -> io::Result<()> {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let factor = in_turn.as_secs_f64() / at_once.as_secs_f64();
    let bar = "▪".repeat((factor * 10.0).round().clamp(0.0, 40.0) as usize);
    writeln!(
        out,
        "  {what:<45} {:>7.1} ms {:>7.1} ms {factor:>6.2} {bar}",
        millis(in_turn),
        millis(at_once)
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
