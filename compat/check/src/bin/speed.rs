//! Times some uses of rayon and prints a line for each: its name, and the nanoseconds of the best
//! and of the median run. The same source is built on both cores; `compat/bench.sh` compares them.
//!
//! ```console
//! speed [ROUNDS] [ROW…]
//! ```

use rayon::prelude::*;
use std::{env, hint::black_box, time::Instant};

/// A cheap generator, random enough for a sort.
fn numbers(n: usize) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(next).take(n).collect()
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Work that the compiler cannot eliminate.
fn spin(n: u64) -> u64 {
    (0..n).fold(n, |acc, k| black_box(acc.wrapping_mul(31).wrapping_add(k)))
}

/// A tree of tasks in one scope.
fn tree<'s>(scope: &rayon::Scope<'s>, depth: u32) {
    if depth > 0 {
        scope.spawn(move |scope| tree(scope, depth - 1));
        scope.spawn(move |scope| tree(scope, depth - 1));
    }
}

struct Row {
    name: &'static str,
    /// Calls per run, so that a run takes some milliseconds.
    times: u32,
    body: Box<dyn FnMut() + Send>,
}

fn row(name: &'static str, times: u32, body: impl FnMut() + Send + 'static) -> Row {
    Row {
        name,
        times,
        body: Box::new(body),
    }
}

/// Calls `f` inside of the pool.
fn inside<R: Send>(f: impl Fn() -> R + Send + Sync + 'static) -> impl FnMut() + Send + 'static {
    move || {
        black_box(f());
    }
}

fn rows() -> Vec<Row> {
    let million = numbers(1_000_000);
    let few = numbers(10_000);
    let floats: Vec<f64> = million.iter().map(|&n| n as f64).collect();
    vec![
        row("fib_join", 1, inside(|| fib(27))),
        row("sum", 10, {
            let million = million.clone();
            inside(move || million.par_iter().map(|n| n >> 1).sum::<u64>())
        }),
        row("sum_small", 300, {
            let few = few.clone();
            inside(move || few.par_iter().sum::<u64>())
        }),
        row("map_collect", 3, {
            inside(move || floats.par_iter().map(|x| x.sqrt()).collect::<Vec<_>>())
        }),
        row("filter_collect", 3, {
            let million = million.clone();
            inside(move || {
                let even = million.par_iter().filter(|n| *n % 2 == 0);
                even.copied().collect::<Vec<_>>()
            })
        }),
        row("sort_unstable", 1, {
            let million = million.clone();
            inside(move || {
                let mut copy = million[..500_000].to_vec();
                copy.par_sort_unstable();
                copy
            })
        }),
        row("sort", 1, {
            inside(move || {
                let mut copy = million[..500_000].to_vec();
                copy.par_sort();
                copy
            })
        }),
        row("bridge", 1, {
            inside(|| (0..4_000_u64).par_bridge().map(|_| spin(500)).sum::<u64>())
        }),
        row("uneven", 1, {
            inside(|| (0..2_000_u64).into_par_iter().map(spin).sum::<u64>())
        }),
        row("scope_tree", 1, inside(|| rayon::scope(|s| tree(s, 14)))),
    ]
}

fn nanoseconds(row: &mut Row, outside: bool) -> f64 {
    let mut runs = || {
        let start = Instant::now();
        for _ in 0..row.times {
            (row.body)();
        }
        start.elapsed().as_nanos() as f64 / f64::from(row.times)
    };
    if outside {
        runs()
    } else {
        rayon::scope(|_| runs())
    }
}

fn main() {
    let mut arguments = env::args().skip(1);
    let rounds: usize = arguments
        .next()
        .map_or(15, |rounds| rounds.parse().expect("a number of rounds"));
    let wanted: Vec<String> = arguments.collect();
    for mut row in rows() {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == row.name) {
            continue;
        }
        for outside in [false, true] {
            nanoseconds(&mut row, outside);
            let mut times: Vec<f64> = (0..rounds)
                .map(|_| nanoseconds(&mut row, outside))
                .collect();
            times.sort_by(f64::total_cmp);
            let side = if outside { "outside" } else { "inside" };
            println!(
                "{}/{side} {:.0} {:.0}",
                row.name,
                times[0],
                times[rounds / 2]
            );
        }
    }
}
