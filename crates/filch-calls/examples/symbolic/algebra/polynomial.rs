//! Polynomials in a few variables, with exact coefficients.

use super::{
    expr::{Expr, Kind, Name},
    halves::{Join, Sequential, reduce},
    rational::Rational,
};
use std::{cmp::Ordering, error::Error, fmt};

/// Exponents are packed into one word, 16 bits each.
const MOST_VARIABLES: usize = 4;
const BITS: usize = 16;

/// A polynomial: its terms by falling exponents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Polynomial {
    variables: Vec<Name>,
    terms: Vec<Term>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    /// The first variable's exponent in the highest bits.
    exponents: u64,
    /// Not zero.
    coefficient: Rational,
}

type Terms = Result<Vec<Term>, PolynomialError>;

impl Polynomial {
    /// Multiplies `expr` out, as a polynomial in `variables`.
    ///
    /// # Errors
    /// When it is none, or when a coefficient or an exponent is too large.
    pub(crate) fn new(expr: &Expr, variables: &[&str]) -> Result<Self, PolynomialError> {
        if variables.len() > MOST_VARIABLES {
            let what = format!("a polynomial has at most {MOST_VARIABLES} variables here");
            return Err(PolynomialError(what));
        }
        let terms = match expr.kind() {
            Kind::Number(value) => Self::constant(*value),
            Kind::Variable(name) => match variables.iter().position(|known| **known == **name) {
                Some(place) => vec![Term {
                    exponents: 1 << shift(place),
                    coefficient: Rational::ONE,
                }],
                None => return Err(PolynomialError::not(expr)),
            },
            Kind::Sum(parts) => {
                let mut sum = Vec::new();
                for part in parts {
                    sum = merged(&sum, &Self::new(part, variables)?.terms)?;
                }
                sum
            }
            Kind::Product(parts) => {
                let mut product = Self::constant(Rational::ONE);
                for part in parts {
                    product =
                        multiplied(&product, &Self::new(part, variables)?.terms, &Sequential)?;
                }
                product
            }
            Kind::Power(base, exponent) => {
                let exponent = exponent.as_number().and_then(Rational::as_integer);
                let exponent = exponent.and_then(|exponent| u16::try_from(exponent).ok());
                let exponent = exponent.ok_or_else(|| PolynomialError::not(expr))?;
                let base = Self::new(base, variables)?.terms;
                let mut power = Self::constant(Rational::ONE);
                for _ in 0..exponent {
                    power = multiplied(&power, &base, &Sequential)?;
                }
                power
            }
            Kind::Hole(_) | Kind::Call(..) => return Err(PolynomialError::not(expr)),
        };
        Ok(Self {
            variables: variables.iter().map(|&name| name.into()).collect(),
            terms,
        })
    }

    fn constant(value: Rational) -> Vec<Term> {
        let term = Term {
            exponents: 0,
            coefficient: value,
        };
        match value == Rational::ZERO {
            true => Vec::new(),
            false => vec![term],
        }
    }

    /// How many terms it has.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The product of two polynomials in the same variables.
    ///
    /// # Errors
    /// When a coefficient or an exponent is too large, or the variables are others.
    pub(crate) fn times(&self, other: &Self, exec: &impl Join) -> Result<Self, PolynomialError> {
        if self.variables != other.variables {
            let what = "polynomials in other variables cannot be multiplied";
            return Err(PolynomialError(what.into()));
        }
        Ok(Self {
            variables: self.variables.clone(),
            terms: multiplied(&self.terms, &other.terms, exec)?,
        })
    }

    /// The same as an expression.
    pub(crate) fn to_expr(&self) -> Expr {
        let term = |term: &Term| {
            let mut factors = vec![Expr::number(term.coefficient)];
            for (place, name) in self.variables.iter().enumerate() {
                let variable = Expr::variable(name.clone());
                match exponent(term.exponents, place) {
                    0 => {}
                    1 => factors.push(variable),
                    n => factors.push(Expr::power(variable, Expr::integer(n as i64))),
                }
            }
            if factors.len() > 1 && term.coefficient == Rational::ONE {
                factors.remove(0);
            }
            Expr::product(factors)
        };
        Expr::sum(self.terms.iter().map(term).collect())
    }
}

fn shift(place: usize) -> usize {
    (MOST_VARIABLES - 1 - place) * BITS
}

fn exponent(exponents: u64, place: usize) -> u64 {
    exponents >> shift(place) & ((1 << BITS) - 1)
}

/// A row for each term of the shorter one, merged neighbour to neighbour.
fn multiplied(a: &[Term], b: &[Term], exec: &impl Join) -> Terms {
    fits(a, b)?;
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let row = |terms: &[Term]| -> Terms {
        let [term] = terms else {
            return Ok(Vec::new()); // nothing times something
        };
        let times = |other: &Term| {
            let product = term.coefficient.times(other.coefficient);
            Ok(Term {
                exponents: term.exponents + other.exponents,
                coefficient: product.ok_or_else(PolynomialError::large)?,
            })
        };
        long.iter().map(times).collect()
    };
    // One row a piece, however long: rows are the long side.
    reduce(short, exec, 1, &|_| 1, &row, &|a, b| merged(&a?, &b?))
}

/// Merges two lists of terms; like terms are added.
fn merged(a: &[Term], b: &[Term]) -> Terms {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a, b);
    while let ([x, rest_of_a @ ..], [y, rest_of_b @ ..]) = (a, b) {
        match x.exponents.cmp(&y.exponents) {
            Ordering::Greater => {
                all.push(*x);
                a = rest_of_a;
            }
            Ordering::Less => {
                all.push(*y);
                b = rest_of_b;
            }
            Ordering::Equal => {
                let sum = x.coefficient.plus(y.coefficient);
                let coefficient = sum.ok_or_else(PolynomialError::large)?;
                if coefficient != Rational::ZERO {
                    all.push(Term { coefficient, ..*x });
                }
                (a, b) = (rest_of_a, rest_of_b);
            }
        }
    }
    all.extend_from_slice(a);
    all.extend_from_slice(b);
    Ok(all)
}

/// Whether the packed exponents can be added without running into each other.
fn fits(a: &[Term], b: &[Term]) -> Result<(), PolynomialError> {
    let largest = |terms: &[Term], place| {
        let exponents = terms.iter().map(|term| exponent(term.exponents, place));
        exponents.max().unwrap_or(0)
    };
    let fits = |place| largest(a, place) + largest(b, place) < 1 << BITS;
    match (0..MOST_VARIABLES).all(fits) {
        true => Ok(()),
        false => Err(PolynomialError::large()),
    }
}

/// No polynomial, or too large a one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolynomialError(String);

impl PolynomialError {
    fn not(expr: &Expr) -> Self {
        Self(format!("{expr} is no polynomial in the given variables"))
    }

    fn large() -> Self {
        Self("a coefficient does not fit into 64 bits, or an exponent not into 16".into())
    }
}

impl fmt::Display for PolynomialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PolynomialError {}

#[cfg(test)]
mod tests {
    use super::super::parse::expression;
    use super::*;

    fn polynomial(text: &str) -> Result<Polynomial, PolynomialError> {
        Polynomial::new(&expression(text).unwrap(), &["x", "y"])
    }

    #[test]
    fn products_are_multiplied_out() {
        for (text, expanded) in [
            ("(x + 1)*(x - 1)", "x^2 - 1"),
            ("(x + y)^3", "x^3 + 3*x^2*y + 3*x*y^2 + y^3"),
            ("(x/2 + y)*2", "x + 2*y"),
            ("x - x", "0"),
            ("0*(x + y)", "0"),
        ] {
            // A half is written as a power: fold it first.
            let normal = super::super::normal::form(&expression(text).unwrap());
            let polynomial = Polynomial::new(&normal, &["x", "y"]).unwrap();
            assert_eq!(polynomial.to_expr().to_string(), expanded, "{text}");
        }
    }

    #[test]
    fn a_product_is_the_product_of_the_values() {
        let (a, b) = (
            polynomial("(1 + x - 2*y)^5").unwrap(),
            polynomial("(3 - x*y)^4").unwrap(),
        );
        let product = a.times(&b, &Sequential).unwrap();
        assert_eq!(product, b.times(&a, &Sequential).unwrap());
        let at = super::super::Point::default().set("x", 2.0).set("y", 3.0);
        let value = |p: &Polynomial| p.to_expr().value(&at, &Sequential).unwrap();
        assert_eq!(value(&product), value(&a) * value(&b));
    }

    #[test]
    fn expressions_that_are_no_polynomials_or_too_large_are_errors() {
        assert!(
            polynomial("sin(x)")
                .unwrap_err()
                .to_string()
                .contains("sin(x) is no")
        );
        assert!(polynomial("z").unwrap_err().to_string().contains("z is no"));
        assert!(polynomial("x^(-1)").is_err());
        assert!(
            polynomial("(x + 1)^70")
                .unwrap_err()
                .to_string()
                .contains("64 bits")
        );
        assert!(polynomial("x^40000*x^40000").is_err());
        assert!(Polynomial::new(&Expr::integer(1), &["a", "b", "c", "d", "f"]).is_err());
    }
}
