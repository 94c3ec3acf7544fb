//! From expressions to text that reads back as the same.

use super::{
    expr::{Expr, Kind},
    rational::Rational,
};
use std::fmt::{self, Write as _};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Kind::Number(value) => write!(f, "{value}"),
            Kind::Variable(name) => f.write_str(name),
            Kind::Hole(name) => write!(f, "?{name}"),
            Kind::Call(function, argument) => write!(f, "{}({argument})", function.name()),
            Kind::Power(base, exponent) => match Below::new(self) {
                Some(below) => quotient(f, &[], &[below]),
                None => power(f, base, exponent),
            },
            Kind::Product(factors) => product(f, factors),
            Kind::Sum(terms) => {
                for (n, term) in terms.iter().enumerate() {
                    let text = term.to_string();
                    match text.strip_prefix('-') {
                        _ if n == 0 => f.write_str(&text)?,
                        Some(positive) => write!(f, " - {positive}")?,
                        None => write!(f, " + {text}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A factor that is written below the line: its exponent was negative, and is no more.
struct Below<'e> {
    base: &'e Expr,
    exponent: Expr,
}

impl<'e> Below<'e> {
    fn new(factor: &'e Expr) -> Option<Self> {
        let Kind::Power(base, exponent) = factor.kind() else {
            return None;
        };
        let negative = exponent.as_number().filter(|value| value.is_negative())?;
        let exponent = Expr::number(negative.times(Rational::MINUS_ONE)?);
        Some(Self { base, exponent })
    }
}

fn product(f: &mut fmt::Formatter<'_>, factors: &[Expr]) -> fmt::Result {
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for factor in factors {
        match Below::new(factor) {
            Some(factor) => below.push(factor),
            None => above.push(factor),
        }
    }
    // A factor of minus one is a sign in front, unless it stands alone above the line or before
    // another sign.
    let negative = |factor: &Expr| factor.as_number().is_some_and(Rational::is_negative);
    if above.len() > 1 && above[0].is(-1) && !negative(above[1]) {
        f.write_char('-')?;
        above.remove(0);
    }
    quotient(f, &above, &below)
}

/// `a*b/(c*d)`.
fn quotient(f: &mut fmt::Formatter<'_>, above: &[&Expr], below: &[Below<'_>]) -> fmt::Result {
    if above.is_empty() {
        f.write_char('1')?;
    }
    for (n, factor) in above.iter().enumerate() {
        if n > 0 {
            f.write_char('*')?;
        }
        let number = factor.as_number().is_some();
        let wrap = matches!(factor.kind(), Kind::Sum(_)) || number && n > 0 && !is_atom(factor);
        parenthesised(f, factor, wrap)?;
    }
    match below {
        [] => Ok(()),
        [one] => {
            f.write_char('/')?;
            power(f, one.base, &one.exponent)
        }
        several => {
            f.write_str("/(")?;
            for (n, factor) in several.iter().enumerate() {
                if n > 0 {
                    f.write_char('*')?;
                }
                power(f, factor.base, &factor.exponent)?;
            }
            f.write_char(')')
        }
    }
}

/// Both parts in parentheses where they need them.
fn power(f: &mut fmt::Formatter<'_>, base: &Expr, exponent: &Expr) -> fmt::Result {
    if exponent.as_number() == Rational::new(1, 2) {
        return write!(f, "sqrt({base})");
    }
    parenthesised(f, base, !is_atom(base))?;
    if exponent.is(1) {
        return Ok(());
    }
    f.write_char('^')?;
    parenthesised(f, exponent, !is_atom(exponent))
}

/// Needs no parentheses anywhere.
fn is_atom(expr: &Expr) -> bool {
    match expr.kind() {
        Kind::Number(value) => !value.is_negative() && value.as_integer().is_some(),
        Kind::Variable(_) | Kind::Hole(_) | Kind::Call(..) => true,
        // Written as a call.
        Kind::Power(_, exponent) => exponent.as_number() == Rational::new(1, 2),
        Kind::Product(_) | Kind::Sum(_) => false,
    }
}

fn parenthesised(f: &mut fmt::Formatter<'_>, expr: &Expr, wrap: bool) -> fmt::Result {
    match wrap {
        true => write!(f, "({expr})"),
        false => write!(f, "{expr}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sequential, parse::expression, sample, simplify};

    #[test]
    fn written_as_people_write() {
        for text in [
            "-x^2 + 3*x*y - 1/2",
            "(x + 1)*(y - 2)",
            "x/(y*z^2)",
            "1/x",
            "(-2)^x",
            "(1/2)^x",
            "2^(-x)",
            "(x^y)^z",
            "x^(y^z)",
            "x^(1/3)",
            "sqrt(x + 1)/sqrt(y)",
            "sin(x)^2*exp(-x)",
        ] {
            assert_eq!(expression(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for seed in 0..200 {
            let raw = sample::expression(seed, 40);
            let plain = simplify(&raw, &[], &Sequential).unwrap();
            let again = expression(&plain.to_string()).unwrap();
            assert_eq!(
                simplify(&again, &[], &Sequential).unwrap(),
                plain,
                "seed {seed}"
            );
            let again = expression(&raw.to_string()).unwrap();
            assert_eq!(
                simplify(&again, &[], &Sequential).unwrap(),
                plain,
                "seed {seed}"
            );
        }
    }
}
