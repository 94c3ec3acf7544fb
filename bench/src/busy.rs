//! Work of a known length: a fixed number of steps instead of reading the clock, so that a worker
//! that was preempted still has to do all of it.

use std::{
    hint::black_box,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Steps per trial.
const TRIAL: u64 = 50_000;

/// Trials. The fastest one counts, since the others were disturbed.
const TRIALS: usize = 40;

/// A loop that takes a given time when it is not disturbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    steps: u64,
}

impl Busy {
    /// A loop that takes `length`.
    pub(crate) fn of(length: Duration) -> Self {
        let steps = length.as_secs_f64() * steps_per_second();
        Self {
            steps: steps as u64,
        }
    }

    #[inline(never)]
    pub(crate) fn run(self) {
        steps(self.steps);
    }
}

/// Runs `count` steps, each of which depends on the previous one, so that the loop has no shortcut.
#[inline(always)]
fn steps(count: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..count {
        state = (state ^ (state >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    black_box(state);
}

fn steps_per_second() -> f64 {
    static SPEED: OnceLock<f64> = OnceLock::new();
    *SPEED.get_or_init(|| {
        let trial = |_| {
            let start = Instant::now();
            steps(black_box(TRIAL));
            start.elapsed()
        };
        let fastest = (0..TRIALS).map(trial).min().expect("there are trials");
        TRIAL as f64 / fastest.as_secs_f64()
    })
}
