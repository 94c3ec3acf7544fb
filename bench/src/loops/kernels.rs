//! The work on one item, shared by all systems.

use filch::Rng;
use std::ops::Range;

/// Returns `count` random numbers.
pub(crate) fn numbers(count: usize) -> Vec<u64> {
    let mut rng = Rng::new(1);
    (0..count).map(|_| rng.next_u64()).collect()
}

/// Maps a number to another one.
#[inline]
pub(crate) fn mixed(number: u64) -> u64 {
    (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

/// [`mixed`], again and again.
pub(crate) fn mixed_often(rounds: u32) -> u64 {
    (0..rounds).fold(1, |number, _| mixed(number))
}

/// Selects about every fourth number, unpredictably for the branch predictor.
#[inline]
pub(crate) fn is_wanted(number: u64) -> bool {
    number & 3 == 0
}

/// Two square matrices in row-major order.
#[derive(Debug)]
pub(crate) struct Matrices {
    pub(crate) order: usize,
    left: Vec<f64>,
    right: Vec<f64>,
}

impl Matrices {
    pub(crate) fn new(order: usize) -> Self {
        let mut rng = Rng::new(2);
        let mut some = || (0..order * order).map(|_| part(&mut rng)).collect();
        Self {
            order,
            left: some(),
            right: some(),
        }
    }

    /// Row `y` of the product.
    pub(crate) fn row(&self, y: usize, product: &mut [f64]) {
        product.fill(0.0);
        let left = &self.left[y * self.order..][..self.order];
        for (factor, row) in left.iter().zip(self.right.chunks(self.order)) {
            for (sum, value) in product.iter_mut().zip(row) {
                *sum += factor * value;
            }
        }
    }
}

/// Returns a random number from 0 to 1.
fn part(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Body {
    place: [f64; 3],
    speed: [f64; 3],
    mass: f64,
}

impl Body {
    pub(crate) fn some(count: usize) -> Vec<Self> {
        let mut rng = Rng::new(3);
        let body = |_| Self {
            place: [part(&mut rng), part(&mut rng), part(&mut rng)],
            speed: [0.0; 3],
            mass: part(&mut rng),
        };
        (0..count).map(body).collect()
    }

    /// Returns this body after one time step, attracted by all of them.
    pub(crate) fn moved(&self, bodies: &[Self]) -> Self {
        const MOMENT: f64 = 1e-3;
        let mut pull = [0.0; 3];
        for other in bodies {
            let way: [f64; 3] = std::array::from_fn(|axis| other.place[axis] - self.place[axis]);
            // Softening, so that the force stays finite.
            let square = way.iter().map(|part| part * part).sum::<f64>() + 1e-6;
            let strength = other.mass / (square * square.sqrt());
            for (pull, part) in pull.iter_mut().zip(way) {
                *pull += part * strength;
            }
        }
        let speed = std::array::from_fn(|axis| self.speed[axis] + pull[axis] * MOMENT);
        let place = std::array::from_fn(|axis| self.place[axis] + speed[axis] * MOMENT);
        Self {
            place,
            speed,
            mass: self.mass,
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        let parts = self.place.iter().chain(&self.speed);
        parts.fold(0, |sum, part| sum ^ part.to_bits())
    }
}

/// A European call option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contract {
    spot: f64,
    strike: f64,
    rate: f64,
    volatility: f64,
    years: f64,
}

impl Contract {
    pub(crate) fn some(count: usize) -> Vec<Self> {
        let mut rng = Rng::new(4);
        let contract = |_| Self {
            spot: 50.0 + 100.0 * part(&mut rng),
            strike: 50.0 + 100.0 * part(&mut rng),
            rate: 0.01 + 0.05 * part(&mut rng),
            volatility: 0.1 + 0.5 * part(&mut rng),
            years: 0.1 + 2.0 * part(&mut rng),
        };
        (0..count).map(contract).collect()
    }

    /// The value by the Black-Scholes formula.
    pub(crate) fn price(&self) -> f64 {
        let spread = self.volatility * self.years.sqrt();
        let drift = self.rate + self.volatility * self.volatility / 2.0;
        let first = ((self.spot / self.strike).ln() + drift * self.years) / spread;
        let later = self.strike * (-self.rate * self.years).exp();
        self.spot * normal(first) - later * normal(first - spread)
    }
}

/// The cumulative normal distribution at `x`, to seven digits (Abramowitz and Stegun, 26.2.17).
fn normal(x: f64) -> f64 {
    const FACTORS: [f64; 5] = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_530,
    ];
    let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let tail = FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * k);
    let tail = tail * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// A part of the Mandelbrot set: rows through its middle take a hundred times as long as those at
/// the edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Picture {
    const MAX_STEPS: u32 = 256;

    pub(crate) fn row(&self, y: usize, pixels: &mut [u32]) {
        let im = 2.4 * (y as f64 / self.height as f64 - 0.5);
        for (x, pixel) in pixels.iter_mut().enumerate() {
            *pixel = Self::steps(3.2 * (x as f64 / self.width as f64) - 2.2, im);
        }
    }

    fn steps(re: f64, im: f64) -> u32 {
        let (mut x, mut y) = (0.0, 0.0);
        for step in 0..Self::MAX_STEPS {
            let (xx, yy) = (x * x, y * y);
            if xx + yy > 4.0 {
                return step;
            }
            (x, y) = (xx - yy + re, 2.0 * x * y + im);
        }
        Self::MAX_STEPS
    }
}

/// Primes below a number, sieved in segments that fit into a cache.
#[derive(Debug)]
pub(crate) struct Sieve {
    below: usize,
    /// Primes up to the square root.
    small: Vec<usize>,
}

impl Sieve {
    /// Numbers per segment, one byte each: they fit into the first-level cache.
    const SEGMENT: usize = 1 << 15;

    pub(crate) fn new(below: usize) -> Self {
        let root = below.isqrt();
        let is_prime = |n: &usize| (2..=n.isqrt()).all(|divisor| !n.is_multiple_of(divisor));
        Self {
            below,
            small: (2..=root).filter(is_prime).collect(),
        }
    }

    pub(crate) fn segments(&self) -> Range<usize> {
        0..self.below.div_ceil(Self::SEGMENT)
    }

    /// The number of primes in a segment.
    pub(crate) fn count(&self, segment: usize) -> usize {
        let start = segment * Self::SEGMENT;
        let mut crossed = [false; Self::SEGMENT];
        for &prime in &self.small {
            let first = start.next_multiple_of(prime).max(prime * prime) - start;
            for place in (first..Self::SEGMENT).step_by(prime) {
                crossed[place] = true;
            }
        }
        let numbers = (start..self.below).zip(crossed);
        numbers.filter(|&(n, crossed)| n > 1 && !crossed).count()
    }
}

/// Lines of words of different lengths, some of which contain `stolen`.
pub(crate) fn text(lines: usize) -> String {
    const WORDS: [&str; 8] = [
        "work", "queue", "stole", "steal", "worker", "a", "the idle", "pay",
    ];
    let mut rng = Rng::new(5);
    let mut text = String::new();
    for _ in 0..lines {
        for _ in 0..4 + rng.below(16) {
            let word = if rng.below(500) == 0 {
                "stolen"
            } else {
                WORDS[rng.below(WORDS.len())]
            };
            text.push_str(word);
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Contract, Matrices, Picture, Sieve, text};

    #[test]
    fn known_answers() {
        let sieve = Sieve::new(100_000);
        let primes: usize = sieve.segments().map(|segment| sieve.count(segment)).sum();
        assert_eq!(primes, 9_592);
        let contract = Contract {
            spot: 100.0,
            strike: 100.0,
            rate: 0.05,
            volatility: 0.2,
            years: 1.0,
        };
        assert!((contract.price() - 10.4506).abs() < 1e-3);
        assert_eq!(Picture::steps(0.0, 0.0), Picture::MAX_STEPS);
        assert!(Picture::steps(2.0, 2.0) < 3);
        let lines = text(1_000);
        assert!((1..1_000).contains(&lines.lines().filter(|line| line.contains("stolen")).count()));
    }

    #[test]
    fn rows_times_columns() {
        let matrices = Matrices::new(5);
        let mut row = [1.0; 5];
        matrices.row(3, &mut row);
        let expected: f64 = (0..5)
            .map(|k| matrices.left[3 * 5 + k] * matrices.right[k * 5 + 2])
            .sum();
        assert!((row[2] - expected).abs() < 1e-12);
    }
}
