//! Random programs for rehearsals, and what must be true of them.
#![allow(dead_code, reason = "every test file uses some of it")]

pub(crate) mod after;
pub(crate) mod folds;
pub(crate) mod futures;
pub(crate) mod graphs;
pub(crate) mod loops;
pub(crate) mod sleeps;
pub(crate) mod tasks;
pub(crate) mod timers;

use filch::Rng;
use std::env;

/// True so many times in a hundred.
pub(crate) fn percent(rng: &mut Rng, times: usize) -> bool {
    rng.below(100) < times
}

/// Checks many seeds; with `FILCH_REHEARSAL=seed` only that one, with `FILCH_REHEARSALS=n` so many.
pub(crate) fn all_seeds(
    file: &str,
    test: &str,
    usually: u64,
    check: impl Fn(u64) -> Result<(), String>,
) {
    let number = |name: &str| {
        let text = env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is {text:?}, and no number")),
        )
    };
    let seeds = match number("FILCH_REHEARSAL") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FILCH_REHEARSALS").unwrap_or(usually),
    };
    for seed in seeds {
        if let Err(wrong) = check(seed) {
            panic!(
                "{wrong}\nrepeat it with: FILCH_REHEARSAL={seed} cargo test --all-features --test {file} {test}"
            );
        }
    }
}
