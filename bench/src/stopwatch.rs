//! Time and allocations of the measured parts of a sample.

use crate::alloc;
use std::time::{Duration, Instant};

/// One reading: the time of `ops` operations.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) elapsed: Duration,
    pub(crate) ops: u64,
    /// Allocations meanwhile, zero unless counting was on; `None` if they were not read.
    pub(crate) allocations: Option<u64>,
    /// Bytes of the heap that the operations left in use, zero unless counting was on; `None` if
    /// they were not read.
    pub(crate) bytes: Option<i64>,
}

impl Sample {
    /// A reading that was not taken by a [`Stopwatch`].
    pub(crate) fn new(elapsed: Duration, ops: u64) -> Self {
        Self {
            elapsed,
            ops,
            allocations: None,
            bytes: None,
        }
    }

    /// Adds the number of bytes left in use.
    pub(crate) fn leaving(self, bytes: i64) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    pub(crate) fn nanos_per_op(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / self.ops as f64
    }
}

/// Adds up the timed parts. Preparation between them is not timed.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    elapsed: Duration,
    allocations: u64,
}

impl Stopwatch {
    /// Times `part`.
    pub(crate) fn time<R>(&mut self, part: impl FnOnce() -> R) -> R {
        let allocated = alloc::count();
        let start = Instant::now();
        let result = part();
        self.elapsed += start.elapsed();
        self.allocations += alloc::count() - allocated;
        result
    }

    /// Returns everything that was timed, as `ops` operations.
    pub(crate) fn sample(self, ops: u64) -> Sample {
        Sample {
            elapsed: self.elapsed,
            ops,
            allocations: Some(self.allocations),
            bytes: None,
        }
    }
}
