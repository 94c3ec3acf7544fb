//! Quicksort in parallel: partition, then sort both sides at once with `join`.
//!
//! `cargo run --release --example quicksort -- 10000000`

use filch::Rng;
use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Sorts random numbers by a parallel quicksort, and compares it with the sorts that use one core.

Usage: quicksort [COUNT]

  COUNT    how many numbers [4000000]
  --help   this text";

/// Pieces up to this length are sorted in sequence: that takes some 50 microseconds, which makes
/// the cost of a join negligible, and hundreds of pieces are left for the workers.
const SEQUENTIAL: usize = 4096;

fn main() -> ExitCode {
    let count = match env::args().nth(1).as_deref() {
        None => 4_000_000,
        Some("--help" | "-h") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(text) => match text.replace('_', "").parse() {
            Ok(count) => count,
            Err(_) => {
                eprintln!("quicksort: {text:?} is no number; see --help");
                return ExitCode::from(2);
            }
        },
    };
    let mut rng = Rng::new(1);
    let numbers: Vec<u64> = (0..count).map(|_| rng.next_u64()).collect();
    let mut expected = numbers.clone();
    let library = timed(|| expected.sort_unstable());

    let pool = filch::Pool::global();
    // The workers, and this thread.
    let hands = pool.workers() + 1;
    println!("{count} numbers, {} workers", pool.workers());
    row("sort_unstable, one core", library, None);

    let mut sorted = numbers.clone();
    let alone = timed(|| quicksort(&mut sorted, &|a, b| (a(), b())));
    row("quicksort, one core", alone, None);
    if sorted != expected {
        eprintln!("quicksort: one after the other it does not sort");
        return ExitCode::FAILURE;
    }

    let mut sorted = numbers;
    let together = timed(|| quicksort(&mut sorted, &|a, b| filch::join(a, b)));
    let name = format!("quicksort with join, at most {hands} at once");
    row(&name, together, Some(("quicksort", alone)));
    row("", together, Some(("sort_unstable", library)));
    if sorted != expected {
        eprintln!("quicksort: with join it does not sort");
        return ExitCode::FAILURE;
    }
    let total = pool.metrics().total();
    println!("\n{} pieces were stolen", total.stolen);
    ExitCode::SUCCESS
}

/// One side of the work.
type Side<'a> = &'a mut (dyn FnMut() + Send);

/// Sorts `numbers`; `both` calls two closures, at once or not.
fn quicksort(numbers: &mut [u64], both: &(impl Fn(Side<'_>, Side<'_>) -> ((), ()) + Sync)) {
    if numbers.len() <= SEQUENTIAL {
        numbers.sort_unstable();
        return;
    }
    let mut three = [0, numbers.len() / 2, numbers.len() - 1].map(|n| numbers[n]);
    three.sort_unstable();
    let pivot = three[1];
    let smaller = partition(numbers, |number| number < pivot);
    if smaller == 0 {
        // The pivot is the smallest of all: those that equal it are in their place.
        let equal = partition(numbers, |number| number == pivot);
        return quicksort(&mut numbers[equal..], both);
    }
    let (smaller, rest) = numbers.split_at_mut(smaller);
    both(&mut || quicksort(smaller, both), &mut || {
        quicksort(rest, both);
    });
}

/// Moves the numbers that belong to the front there, and returns how many. There is no branch on
/// their values, which would be mispredicted half of the time for random numbers.
fn partition(numbers: &mut [u64], in_front: impl Fn(u64) -> bool) -> usize {
    let mut front = 0;
    for n in 0..numbers.len() {
        let number = numbers[n];
        numbers.swap(front, n);
        front += usize::from(in_front(number));
    }
    front
}

fn timed(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

fn row(name: &str, time: Duration, against: Option<(&str, Duration)>) {
    let millis = time.as_secs_f64() * 1e3;
    match against {
        None => println!("{name:<40} {millis:>6.1} ms"),
        Some((what, other)) => {
            let factor = other.as_secs_f64() / time.as_secs_f64().max(1e-9);
            println!("{name:<40} {millis:>6.1} ms   {factor:.2} times as fast as {what}");
        }
    }
}
