//! A small seeded generator for victim order and simulations.

/// A generator of 64 bits of state: the same seed gives the same numbers on every machine.
///
/// This is SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*,
/// 2014): one addition and a mix per number; every seed is good, and streams are split by seed. It
/// spreads thieves over victims. It is not cryptographically secure.
///
/// ```
/// use filch::Rng;
///
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// 2^64 divided by the golden ratio, the odd increment of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// Returns a generator that starts from `seed`. Every seed is as good as another, zero
    /// included.
    ///
    /// ```
    /// use filch::Rng;
    /// assert_eq!(Rng::new(7).next_u64(), Rng::new(7).next_u64());
    /// ```
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the generator of worker `worker` in a pool started with `seed`: independent streams.
    ///
    /// ```
    /// use filch::Rng;
    /// assert_ne!(Rng::for_worker(1, 0).next_u64(), Rng::for_worker(1, 1).next_u64());
    /// ```
    #[must_use]
    pub fn for_worker(seed: u64, worker: usize) -> Self {
        let mut base = Self::new(seed ^ (worker as u64).wrapping_mul(GAMMA).rotate_left(32));
        Self::new(base.next_u64())
    }

    /// Returns the next 64 bits.
    ///
    /// ```
    /// let mut rng = filch::Rng::new(7);
    /// assert_ne!(rng.next_u64(), rng.next_u64());
    /// ```
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or zero when `bound` is zero.
    ///
    /// Lemire's multiply-and-shift: no division, with a bias below `bound / 2^32`.
    ///
    /// ```
    /// let mut rng = filch::Rng::new(7);
    /// assert!((0..100).all(|_| rng.below(6) < 6));
    /// assert_eq!(rng.below(0), 0);
    /// ```
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        let high = self.next_u64() >> 32;
        ((high * (bound as u64 & 0xffff_ffff)) >> 32) as usize
    }

    /// Returns true once in `n` times on average; never when `n` is zero.
    ///
    /// ```
    /// use filch::Rng;
    /// let mut rng = Rng::new(1);
    /// assert!(rng.one_in(1) && !rng.one_in(0));
    /// ```
    #[inline]
    pub fn one_in(&mut self, n: usize) -> bool {
        n != 0 && self.below(n) == 0
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::Rng;

    #[test]
    fn matches_the_published_sequence() {
        // Reference values of SplitMix64 for the seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let expected: [u64; 3] = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn below_reaches_every_value_evenly() {
        // Smaller samples deviate more.
        let (each, deviation) = if cfg!(miri) {
            (100, 40)
        } else {
            (10_000, 1_000)
        };
        let mut rng = Rng::new(3);
        let mut seen = [0_u32; 7];
        for _ in 0..7 * each {
            seen[rng.below(7)] += 1;
        }
        let even = each - deviation..each + deviation;
        assert!(seen.iter().all(|n| even.contains(n)), "{seen:?}");
    }

    #[test]
    fn below_zero_is_zero() {
        assert_eq!(Rng::new(9).below(0), 0);
    }
}
