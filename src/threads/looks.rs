//! How often to look at a clock.
//!
//! A look takes some 25 ns, which is nothing beside a task of a microsecond and too much beside one of ten nanoseconds. So
//! whoever comes by often looks only now and then, as the looks themselves tell: about every 10 to 40 µs.

/// Who looks more often than this, in nanoseconds, looks less often.
const OFTEN: u64 = 10_000;

/// Who has not looked for so long looks each time.
const SELDOM: u64 = 40_000;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// So many times it does not look.
    left: u32,
    /// So many it has not, the last time.
    pause: u32,
    most: u32,
    /// When it looked last.
    last: u64,
}

impl Looks {
    /// Between two looks it comes by at `most` so many times: if those were short and the next ones are long, that is how
    /// many of those pass.
    pub(crate) const fn new(most: u32) -> Self {
        Self {
            left: 0,
            pause: 0,
            most,
            last: 0,
        }
    }

    /// Whether to look this time. If so, [`look`](Self::look) is called with the time.
    #[inline(always)]
    pub(crate) fn come_by(&mut self) -> bool {
        let due = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        due
    }

    pub(crate) fn look(&mut self, now: u64) {
        self.pause = match now.saturating_sub(self.last) {
            ..OFTEN => (2 * self.pause + 1).min(self.most),
            SELDOM.. => 0,
            _ => self.pause,
        };
        self.left = self.pause;
        self.last = now;
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::Looks;

    /// How many looks there are in so many times, which are `nanos` apart.
    fn looks(looks: &mut Looks, now: &mut u64, times: u32, nanos: u64) -> u32 {
        let mut count = 0;
        for _ in 0..times {
            *now += nanos;
            if looks.come_by() {
                looks.look(*now);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn who_comes_by_often_looks_seldom() {
        let (mut some, mut now) = (Looks::new(15), 0);
        // Each 16th time at most, but for the first ones.
        let few = looks(&mut some, &mut now, 1600, 10);
        assert!((100..=110).contains(&few), "{few}");
        // About every 20 µs: fewer than one in ten of those that are a microsecond apart.
        assert!((1000 / 40..=1000 / 10).contains(&looks(&mut some, &mut now, 1000, 1000)));
        // Each time, after the last long pause.
        let all = looks(&mut some, &mut now, 100, 50_000);
        assert!((85..=100).contains(&all), "{all}");
        assert_eq!(looks(&mut some, &mut now, 100, 50_000), 100);
    }
}
