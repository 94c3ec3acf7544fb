//! The normal form of a node whose parts are in normal form: numbers folded, like terms and like
//! factors collected, in a fixed order.
//!
//! It holds wherever both sides have a value: `x/x` is 1. Numbers that would not fit are left as
//! they are.

use super::{
    expr::{Expr, Function, Kind},
    rational::Rational,
};
use std::cmp::Ordering;

pub(crate) fn sum(terms: Vec<Expr>) -> Expr {
    let terms = Expr::flat_terms(terms).into_iter();
    let mut parts: Vec<_> = terms
        .map(|term| {
            let (factor, rest) = coefficient(term);
            (rest.as_ref().map_or(i64::MIN, degree), factor, rest)
        })
        .collect();
    // As people write it: by falling degree, a plain number last.
    parts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    let mut collected: Vec<(Rational, Option<Expr>)> = Vec::with_capacity(parts.len());
    for (_, factor, rest) in parts {
        if let Some((sum, like)) = collected.last_mut()
            && *like == rest
            && let Some(total) = sum.plus(factor)
        {
            *sum = total;
        } else {
            collected.push((factor, rest));
        }
    }
    collected.retain(|(factor, _)| *factor != Rational::ZERO);
    let terms = collected
        .into_iter()
        .map(|(factor, rest)| scaled(factor, rest));
    Expr::sum(terms.collect())
}

/// A term as a number times something; nothing but the number for a number.
fn coefficient(term: Expr) -> (Rational, Option<Expr>) {
    match term.kind() {
        Kind::Number(value) => (*value, None),
        Kind::Product(factors) => match factors[0].as_number() {
            Some(value) => (value, Some(Expr::product(factors[1..].to_vec()))),
            None => (Rational::ONE, Some(term)),
        },
        _ => (Rational::ONE, Some(term)),
    }
}

/// The degree as a polynomial, roughly: what is none counts as a constant.
fn degree(term: &Expr) -> i64 {
    match term.kind() {
        Kind::Variable(_) => 1,
        Kind::Power(base, exponent) => {
            let exponent = exponent.as_number().and_then(Rational::as_integer);
            degree(base).saturating_mul(exponent.unwrap_or(0))
        }
        Kind::Product(factors) => factors.iter().map(degree).fold(0, i64::saturating_add),
        Kind::Number(_) | Kind::Hole(_) | Kind::Call(..) | Kind::Sum(_) => 0,
    }
}

fn scaled(factor: Rational, rest: Option<Expr>) -> Expr {
    match rest {
        None => Expr::number(factor),
        Some(rest) if factor == Rational::ONE => rest,
        Some(rest) => Expr::product(vec![Expr::number(factor), rest]),
    }
}

/// A factor, and what it is a power of.
struct Factor {
    base: Expr,
    exponent: Expr,
    whole: Expr,
}

impl Factor {
    fn new(whole: Expr) -> Self {
        let (base, exponent) = match whole.kind() {
            Kind::Power(base, exponent) => (base.clone(), exponent.clone()),
            _ => (whole.clone(), Expr::integer(1)),
        };
        Self {
            base,
            exponent,
            whole,
        }
    }
}

pub(crate) fn product(factors: Vec<Expr>) -> Expr {
    let mut number = Rational::ONE;
    let (mut too_large, mut others) = (Vec::new(), Vec::new());
    for factor in Expr::flat_factors(factors) {
        let folded = factor.as_number().map(|value| number.times(value));
        match folded {
            Some(Some(value)) => number = value,
            Some(None) => too_large.push(factor),
            None => others.push(Factor::new(factor)),
        }
    }
    if number == Rational::ZERO {
        return Expr::integer(0);
    }
    others.sort_by(|a, b| a.base.cmp(&b.base));
    let mut collected = Vec::with_capacity(others.len() + 1);
    let mut loose = false;
    for like in others.chunk_by(|a, b| a.base.cmp(&b.base) == Ordering::Equal) {
        if let [one] = like {
            collected.push(one.whole.clone());
            continue;
        }
        let exponents = like.iter().map(|factor| factor.exponent.clone()).collect();
        let power = power(like[0].base.clone(), sum(exponents));
        // What was under a common exponent may have to find its place again.
        loose |= matches!(power.kind(), Kind::Number(_) | Kind::Product(_));
        collected.push(power);
    }
    collected.splice(0..0, too_large);
    if number != Rational::ONE {
        collected.insert(0, Expr::number(number));
    }
    if loose {
        return product(collected);
    }
    if let [factor, terms] = &collected[..]
        && factor.as_number().is_some()
        && let Kind::Sum(terms) = terms.kind()
    {
        // 2*(x + y) to 2*x + 2*y: like terms must meet.
        let scale = |term: &Expr| product(vec![factor.clone(), term.clone()]);
        return sum(terms.iter().map(scale).collect());
    }
    Expr::product(collected)
}

pub(crate) fn power(base: Expr, exponent: Expr) -> Expr {
    if exponent.is(0) || base.is(1) {
        return Expr::integer(1);
    }
    if exponent.is(1) {
        return base;
    }
    let Some(value) = exponent.as_number() else {
        return Expr::power(base, exponent);
    };
    if base.is(0) && !value.is_negative() {
        return base;
    }
    let Some(whole) = value.as_integer() else {
        return Expr::power(base, exponent);
    };
    // The rest is true of whole exponents only: sqrt(x^2) is not x.
    match base.kind() {
        Kind::Number(number) => match number.power(whole) {
            Some(folded) => Expr::number(folded),
            None => Expr::power(base, exponent),
        },
        Kind::Power(inner, first) => power(inner.clone(), product(vec![first.clone(), exponent])),
        Kind::Product(factors) => {
            let raise = |factor: &Expr| power(factor.clone(), exponent.clone());
            product(factors.iter().map(raise).collect())
        }
        _ => Expr::power(base, exponent),
    }
}

pub(crate) fn call(function: Function, argument: Expr) -> Expr {
    match function {
        Function::Sin | Function::Tan if argument.is(0) => argument,
        Function::Cos | Function::Exp if argument.is(0) => Expr::integer(1),
        Function::Ln if argument.is(1) => Expr::integer(0),
        _ => Expr::call(function, argument),
    }
}

/// The normal form of anything.
pub(crate) fn form(expr: &Expr) -> Expr {
    let all = |parts: &[Expr]| parts.iter().map(form).collect();
    match expr.kind() {
        Kind::Number(_) | Kind::Variable(_) | Kind::Hole(_) => expr.clone(),
        Kind::Power(base, exponent) => power(form(base), form(exponent)),
        Kind::Call(function, argument) => call(*function, form(argument)),
        Kind::Product(factors) => product(all(factors)),
        Kind::Sum(terms) => sum(all(terms)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::expression;
    use super::*;

    #[test]
    fn normal_forms() {
        for (text, normal) in [
            ("1 + 2*3 - 4/2", "5"),
            ("x + x + x", "3*x"),
            ("x - x", "0"),
            ("x/x", "1"),
            ("x/(2*y)", "1/2*x/y"),
            ("1 + x*y + sin(x) + y^2 + x", "y^2 + x*y + x + sin(x) + 1"),
            ("0*sin(x)", "0"),
            ("y*3*x*y", "3*x*y^2"),
            ("2*(x + y) - x - y", "x + y"),
            ("-(x - 1)", "-x + 1"),
            ("x^2*x^3/x", "x^4"),
            ("x^a*x^b", "x^(a + b)"),
            ("(x*y)^2/y", "x^2*y"),
            ("(x^2)^3", "x^6"),
            ("(x^2)^(1/2)", "sqrt(x^2)"),
            ("sqrt(x)*sqrt(x)", "x"),
            ("sqrt(x*y)*sqrt(x*y)*x", "x^2*y"),
            ("x^0 + 1^x + 0^2", "2"),
            ("2^-2", "1/4"),
            ("1/0", "1/0"),
            ("sin(0) + cos(0) + exp(0) + ln(1) + tan(0)", "2"),
            ("9223372036854775807 + 1 + x", "x + 9223372036854775807 + 1"),
            ("10^40", "10^40"),
        ] {
            assert_eq!(
                form(&expression(text).unwrap()).to_string(),
                normal,
                "{text}"
            );
        }
    }
}
