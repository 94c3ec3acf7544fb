//! Work that takes a known time: a fixed number of steps, not a look at the clock, so that a worker that
//! has lost its core has to make up for it.

use std::{
    hint::black_box,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// So many steps are timed at a time.
const TRIAL: u64 = 50_000;

/// Trials, of which the fastest counts: the others were disturbed.
const TRIALS: usize = 40;

/// A loop that takes a certain time when it is not disturbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    steps: u64,
}

impl Busy {
    /// Work of `length`.
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

/// Each step needs the one before, and nobody knows a short cut.
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
        let fastest = (0..TRIALS).map(trial).min().expect("there are some");
        TRIAL as f64 / fastest.as_secs_f64()
    })
}
