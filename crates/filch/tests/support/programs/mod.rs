//! Random programs for rehearsals, and what must be true of them.
#![allow(dead_code, reason = "every test file uses some of it")]

pub(crate) mod after;
pub(crate) mod deadlocks;
pub(crate) mod drivers;
pub(crate) mod folds;
pub(crate) mod futures;
pub(crate) mod graphs;
pub(crate) mod par;
pub(crate) mod resizes;
pub(crate) mod sleeps;
pub(crate) mod sources;
pub(crate) mod tasks;
pub(crate) mod timers;

use filch::{Pool, Rng};
use std::env;

/// True with a probability of `times` percent.
pub(crate) fn percent(rng: &mut Rng, times: usize) -> bool {
    rng.below(100) < times
}

/// Calls `f` in a task of `pool`, and waits for it.
pub(crate) fn in_a_task<R: Send>(pool: &Pool, f: impl FnOnce(&Pool) -> R + Send) -> R {
    let mut result = None;
    pool.scope(|scope| scope.spawn(|_| result = Some(f(pool))));
    result.expect("it ran")
}

/// Seeds that have failed once: the name of a test and a seed on each line, and then perhaps a word
/// on the cause.
const FOUND: &str = include_str!("corpus.txt");

/// The seeds of `test` that have failed once.
fn found(test: &str) -> impl Iterator<Item = u64> {
    let lines = FOUND.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(move |line| {
        let mut words = line.split_whitespace();
        let seed = words
            .next()
            .filter(|&name| name == test)
            .and(words.next())?;
        Some(seed.parse().expect("a seed is a number"))
    })
}

/// Checks many seeds, and those in the corpus. With `FILCH_REHEARSAL=seed` only that one, with
/// `FILCH_REHEARSALS=n` n of them, from `FILCH_REHEARSAL_FROM` on.
pub(crate) fn all_seeds(test: &str, usually: u64, check: impl Fn(u64) -> Result<(), String>) {
    let number = |name: &str| {
        let text = env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is {text:?}, and no number")),
        )
    };
    let (seeds, corpus) = match number("FILCH_REHEARSAL") {
        Some(seed) => (seed..seed + 1, None),
        None => {
            let from = number("FILCH_REHEARSAL_FROM").unwrap_or(0);
            let many = number("FILCH_REHEARSALS").unwrap_or(usually);
            (from..from + many, Some(found(test)))
        }
    };
    for seed in corpus.into_iter().flatten().chain(seeds) {
        if let Err(wrong) = check(seed) {
            panic!(
                "{wrong}\nrepeat it with: FILCH_REHEARSAL={seed} cargo test --all-features --test rehearsals {test}"
            );
        }
    }
}
