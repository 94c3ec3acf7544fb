//! A histogram of durations, with logarithmic buckets.

use crate::base::sync::{AtomicU64, Ordering};
use std::{fmt, time::Duration};

/// The binary logarithm of the number of buckets for each power of two, which bounds the error to 6
/// %.
const LOG2_PER_OCTAVE: u32 = 4;
const PER_OCTAVE: usize = 1 << LOG2_PER_OCTAVE;
/// Times below `PER_OCTAVE` nanoseconds have a bucket each; then follow the octaves up to 2^64.
const BUCKETS: usize = (64 - LOG2_PER_OCTAVE as usize + 1) * PER_OCTAVE;

fn bucket_of(nanos: u64) -> usize {
    let Some(octave) = (nanos | 1).ilog2().checked_sub(LOG2_PER_OCTAVE) else {
        return nanos as usize;
    };
    // The bits after the highest one are the index within the octave.
    let part = (nanos >> octave) as usize & (PER_OCTAVE - 1);
    (octave as usize + 1) * PER_OCTAVE + part
}

/// The largest time in a bucket, in nanoseconds.
fn end_of(bucket: usize) -> u64 {
    let Some(octave) = (bucket / PER_OCTAVE).checked_sub(1) else {
        return bucket as u64;
    };
    let first = ((PER_OCTAVE + bucket % PER_OCTAVE) as u64) << octave;
    first + ((1 << octave) - 1)
}

/// Records times from any thread.
pub(crate) struct TimeRecorder {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl TimeRecorder {
    pub(crate) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, nanos: u64) {
        // Relaxed, all three: independent numbers.
        self.buckets[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
        self.max.fetch_max(nanos, Ordering::Relaxed);
    }
}

/// A histogram of durations: its quantiles are exact to 6 %.
///
/// ```
/// use filch::observe::Histogram;
/// use std::time::Duration;
///
/// let mut times = Histogram::new();
/// for ms in 1..=100 {
///     times.add(Duration::from_millis(ms));
/// }
/// assert_eq!(times.count(), 100);
/// assert_eq!(times.max(), Duration::from_millis(100));
/// let p95 = times.p95().as_millis();
/// assert!((95..=101).contains(&p95), "{p95}");
/// println!("{times}"); // 100 times, p50 52.4ms, p95 98.5ms, p99 100ms, max 100ms
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    ///
    /// ```
    /// assert_eq!(filch::observe::Histogram::new().count(), 0);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Counts one time; times above 584 years count as that.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// times.add(Duration::from_millis(3));
    /// assert_eq!(times.max(), Duration::from_millis(3));
    /// ```
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds the counts of `recorder`.
    pub(crate) fn add_recorded(&mut self, recorder: &TimeRecorder) {
        for (bucket, more) in self.buckets.iter_mut().zip(&recorder.buckets) {
            // Relaxed: an approximate snapshot.
            let more = more.load(Ordering::Relaxed);
            *bucket += more;
            self.count += more;
        }
        // Relaxed: as above.
        let sum = recorder.sum.load(Ordering::Relaxed);
        self.sum = self.sum.saturating_add(sum);
        self.max = self.max.max(recorder.max.load(Ordering::Relaxed));
    }

    /// The number of counted times.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
    /// assert_eq!(times.count(), 100);
    /// ```
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest time.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
    /// assert_eq!(times.max(), Duration::from_millis(100));
    /// ```
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The arithmetic mean, or zero if empty.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
    /// assert_eq!(times.mean(), Duration::from_micros(50_500));
    /// ```
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum.checked_div(self.count).unwrap_or(0))
    }

    /// The time that the fraction `q` of all times (0 to 1) don't exceed, or zero if empty.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// assert_eq!(times.quantile(0.5), Duration::ZERO);
    /// times.add(Duration::from_nanos(7));
    /// assert_eq!(times.quantile(0.5), Duration::from_nanos(7));
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            below += n;
            if below >= rank {
                // No time in the last bucket is longer than the maximum.
                return Duration::from_nanos(end_of(bucket).min(self.max));
            }
        }
        self.max()
    }

    /// The median.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
    /// assert!((50..=53).contains(&times.p50().as_millis()));
    /// ```
    #[must_use]
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The time that 95 % don't exceed.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
    /// assert!((95..=101).contains(&times.p95().as_millis()));
    /// ```
    #[must_use]
    pub fn p95(&self) -> Duration {
        self.quantile(0.95)
    }

    /// The time that 99 % don't exceed.
    ///
    /// ```
    /// use filch::observe::Histogram;
    /// use std::time::Duration;
    ///
    /// let mut times = Histogram::new();
    /// (1..=100).for_each(|ms| times.add(Duration::from_millis(ms)));
    /// assert!((99..=100).contains(&times.p99().as_millis()));
    /// ```
    #[must_use]
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} times, p50 {:.1?}, p95 {:.1?}, p99 {:.1?}, max {:.1?}",
            self.count,
            self.p50(),
            self.p95(),
            self.p99(),
            self.max()
        )
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.p50())
            .field("p95", &self.p95())
            .field("p99", &self.p99())
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{BUCKETS, Histogram, TimeRecorder, bucket_of, end_of};
    use crate::base::properties;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for bucket in 0..BUCKETS {
            let end = end_of(bucket);
            assert_eq!(bucket_of(end), bucket);
            if let Some(next) = end.checked_add(1) {
                assert_eq!(bucket_of(next), bucket + 1);
            } else {
                assert_eq!(bucket, BUCKETS - 1);
            }
        }
    }

    #[test]
    fn what_was_recorded_is_found() {
        let recorder = TimeRecorder::new();
        for nanos in [5, 50, 500, u64::MAX / 4] {
            recorder.record(nanos);
        }
        let mut times = Histogram::new();
        times.add(Duration::from_nanos(500));
        times.add_recorded(&recorder);
        assert_eq!(times.count(), 5);
        assert_eq!(times.max(), Duration::from_nanos(u64::MAX / 4));
        assert!(times.p50() >= Duration::from_nanos(500));
        assert!(times.p50() < Duration::from_nanos(540));
        assert_eq!(times.quantile(0.0), Duration::from_nanos(5));
        assert_eq!(times.quantile(1.0), times.max());
    }

    proptest! {
        #![proptest_config(properties::config())]

        /// A quantile is at most 6.25 % above that of the sorted times, and never below.
        #[test]
        fn quantiles_are_close(mut nanos in prop::collection::vec(0_u64..1 << 40, 1..properties::len(200)), q in 0.0_f64..=1.0) {
            let mut times = Histogram::new();
            nanos.iter().for_each(|&n| times.add(Duration::from_nanos(n)));
            nanos.sort_unstable();
            let rank = ((q * nanos.len() as f64).ceil() as usize).max(1);
            let exact = nanos[rank - 1];
            let found = times.quantile(q).as_nanos() as u64;
            prop_assert!(exact <= found && found <= exact + exact / 16 + 1, "{exact} {found}");
        }
    }
}
