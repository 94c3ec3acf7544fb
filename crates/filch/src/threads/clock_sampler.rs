//! Decides how often to read the clock.
//!
//! A reading takes about 25 ns: negligible for a task of a microsecond, too much for one of ten
//! nanoseconds. A caller that calls often reads the clock only occasionally. The interval is
//! derived from the readings themselves: about 10 to 40 µs.

/// A caller whose readings are closer together than this, in nanoseconds, reads less often.
const MIN_INTERVAL_NANOS: u64 = 10_000;

/// A caller whose last reading is older than this, in nanoseconds, reads every time.
const MAX_INTERVAL_NANOS: u64 = 40_000;

/// An adaptive sampler: see the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSampler {
    /// Calls until the next reading.
    left: u32,
    /// Calls without a reading between the last two readings.
    skip: u32,
    max_skip: u32,
    /// The time of the last reading.
    last: u64,
}

impl ClockSampler {
    /// At most `max_skip` calls pass between two readings: that many long intervals may pass
    /// unnoticed after short ones.
    pub(crate) const fn new(max_skip: u32) -> Self {
        Self {
            left: 0,
            skip: 0,
            max_skip,
            last: 0,
        }
    }

    /// Counts a call. Returns whether to read the clock this time; if so, the caller passes the
    /// time to [`record`](Self::record).
    #[inline(always)]
    pub(crate) fn tick(&mut self) -> bool {
        let due = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        due
    }

    /// The number of calls since the last reading, when the clock is to be read.
    pub(crate) fn calls(&self) -> u32 {
        self.skip + 1
    }

    pub(crate) fn record(&mut self, now: u64) {
        self.skip = match now.saturating_sub(self.last) {
            ..MIN_INTERVAL_NANOS => (2 * self.skip + 1).min(self.max_skip),
            MAX_INTERVAL_NANOS.. => 0,
            _ => self.skip,
        };
        self.left = self.skip;
        self.last = now;
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::ClockSampler;

    /// Returns the number of readings in `calls` calls that are `nanos` apart.
    fn readings(sampler: &mut ClockSampler, now: &mut u64, calls: u32, nanos: u64) -> u32 {
        let mut count = 0;
        for _ in 0..calls {
            *now += nanos;
            if sampler.tick() {
                sampler.record(*now);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn frequent_calls_read_the_clock_rarely() {
        let (mut sampler, mut now) = (ClockSampler::new(15), 0);
        // Every 16th call at most, except for the first ones.
        let few = readings(&mut sampler, &mut now, 1600, 10);
        assert!((100..=110).contains(&few), "{few}");
        // About every 20 µs: fewer than one in ten of those that are a microsecond apart.
        assert!((1000 / 40..=1000 / 10).contains(&readings(&mut sampler, &mut now, 1000, 1000)));
        // Every call, after the last long interval.
        let all = readings(&mut sampler, &mut now, 100, 50_000);
        assert!((85..=100).contains(&all), "{all}");
        assert_eq!(readings(&mut sampler, &mut now, 100, 50_000), 100);
    }
}
