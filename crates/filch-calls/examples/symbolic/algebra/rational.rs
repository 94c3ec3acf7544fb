//! Exact fractions.

use std::{cmp::Ordering, fmt};

/// A fraction of two 64-bit numbers, in lowest terms. What does not fit is `None`, never rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rational {
    numerator: i64,
    /// Above zero.
    denominator: i64,
}

impl Rational {
    pub(crate) const ZERO: Self = Self::integer(0);
    pub(crate) const ONE: Self = Self::integer(1);
    pub(crate) const MINUS_ONE: Self = Self::integer(-1);

    pub(crate) const fn integer(numerator: i64) -> Self {
        Self {
            numerator,
            denominator: 1,
        }
    }

    /// In lowest terms; nothing when that does not fit, or for a denominator of zero.
    pub(crate) fn new(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let common = match denominator {
            1 => 1,
            _ => gcd(numerator, denominator) * denominator.signum(),
        };
        Some(Self {
            numerator: (numerator / common).try_into().ok()?,
            denominator: (denominator / common).try_into().ok()?,
        })
    }

    pub(crate) fn as_integer(self) -> Option<i64> {
        (self.denominator == 1).then_some(self.numerator)
    }

    pub(crate) fn is_negative(self) -> bool {
        self.numerator < 0
    }

    pub(crate) fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let (a, b) = (self.wide(), other.wide());
        Self::new(a.0 * b.1 + b.0 * a.1, a.1 * b.1)
    }

    pub(crate) fn times(self, other: Self) -> Option<Self> {
        let (a, b) = (self.wide(), other.wide());
        Self::new(a.0 * b.0, a.1 * b.1)
    }

    /// One divided by it.
    pub(crate) fn inverse(self) -> Option<Self> {
        let (numerator, denominator) = self.wide();
        Self::new(denominator, numerator)
    }

    pub(crate) fn power(self, exponent: i64) -> Option<Self> {
        let base = if exponent < 0 { self.inverse()? } else { self };
        let exponent = exponent.unsigned_abs();
        // Only of these are there powers beyond the 63rd.
        if [Self::ZERO, Self::ONE, Self::MINUS_ONE].contains(&base) {
            return match exponent {
                0 => Some(Self::ONE),
                odd if odd % 2 == 1 => Some(base),
                _ => base.times(base),
            };
        }
        let exponent = u32::try_from(exponent).ok()?;
        Some(Self {
            numerator: base.numerator.checked_pow(exponent)?,
            denominator: base.denominator.checked_pow(exponent)?,
        })
    }

    fn wide(self) -> (i128, i128) {
        (self.numerator.into(), self.denominator.into())
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ord for Rational {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.wide(), other.wide());
        (a.0 * b.1).cmp(&(b.0 * a.1))
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(numerator: i128, denominator: i128) -> Rational {
        Rational::new(numerator, denominator).unwrap()
    }

    #[test]
    fn fractions_are_in_lowest_terms() {
        assert_eq!(fraction(6, -4).to_string(), "-3/2");
        assert_eq!(fraction(-8, -4), Rational::integer(2));
        assert_eq!(fraction(0, 7), Rational::ZERO);
        assert_eq!(Rational::new(1, 0), None);
    }

    #[test]
    fn arithmetic_is_exact_or_nothing() {
        let (third, half) = (fraction(1, 3), fraction(1, 2));
        assert_eq!(third.plus(half), Some(fraction(5, 6)));
        assert_eq!(third.times(half), Some(fraction(1, 6)));
        assert_eq!(third.power(-2), Some(Rational::integer(9)));
        assert!(third < half && fraction(-1, 2) < third);
        let large = Rational::integer(i64::MAX);
        assert_eq!(large.plus(Rational::ONE), None);
        assert_eq!(large.times(large), None);
        assert_eq!(large.power(2), None);
        assert_eq!(Rational::integer(i64::MIN).times(Rational::MINUS_ONE), None);
        assert_eq!(Rational::ZERO.power(-1), None);
    }

    #[test]
    fn powers_of_one_have_no_limit() {
        assert_eq!(Rational::MINUS_ONE.power(i64::MIN), Some(Rational::ONE));
        assert_eq!(
            Rational::MINUS_ONE.power(i64::MAX),
            Some(Rational::MINUS_ONE)
        );
        assert_eq!(Rational::ZERO.power(0), Some(Rational::ONE));
        assert_eq!(Rational::ZERO.power(i64::MAX), Some(Rational::ZERO));
    }
}
