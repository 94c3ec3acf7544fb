//! Derivatives.

use super::{
    expr::{Expr, Function, GRAIN, Kind},
    halves::{Join, map},
    rational::Rational,
};

/// The derivative of `expr` by the variable `by`, as the rules of calculus write it down: parts
/// that are zero are left out, and nothing else is tidied up.
pub(crate) fn differentiate(expr: &Expr, by: &str, exec: &impl Join) -> Expr {
    match expr.kind() {
        Kind::Number(_) | Kind::Hole(_) => Expr::integer(0),
        Kind::Variable(name) => Expr::integer((**name == *by).into()),
        Kind::Sum(terms) => {
            let derivative = |term: &Expr| differentiate(term, by, exec);
            let mut terms = map(terms, exec, GRAIN, &Expr::size, &derivative);
            terms.retain(|term| !term.is(0));
            Expr::sum(terms)
        }
        Kind::Product(factors) => product(factors, by, exec),
        Kind::Power(base, exponent) => power(expr, base, exponent, by, exec),
        Kind::Call(function, argument) => {
            let inner = differentiate(argument, by, exec);
            match inner.is(0) {
                true => inner,
                false => times(outer(*function, expr, argument), inner),
            }
        }
    }
}

/// Each factor's derivative times the other factors, added up.
fn product(factors: &[Expr], by: &str, exec: &impl Join) -> Expr {
    let derivative = |factor: &Expr| differentiate(factor, by, exec);
    let derivatives = map(factors, exec, GRAIN, &Expr::size, &derivative);
    let mut terms = Vec::new();
    for (n, derivative) in derivatives.into_iter().enumerate() {
        if derivative.is(0) {
            continue;
        }
        let mut term = Vec::with_capacity(factors.len());
        term.extend_from_slice(&factors[..n]);
        if !derivative.is(1) {
            term.push(derivative);
        }
        term.extend_from_slice(&factors[n + 1..]);
        terms.push(Expr::product(term));
    }
    Expr::sum(terms)
}

fn power(whole: &Expr, base: &Expr, exponent: &Expr, by: &str, exec: &impl Join) -> Expr {
    let (below, above) = both_of(base, exponent, by, exec);
    let by_base = |below: Expr| {
        // u^v to v*u^(v - 1)*u'; a number goes down by one right here.
        let one_less = exponent
            .as_number()
            .and_then(|value| value.plus(Rational::MINUS_ONE));
        let lowered = match one_less {
            Some(value) => Expr::number(value),
            None => Expr::sum(vec![exponent.clone(), Expr::integer(-1)]),
        };
        let lowered = match lowered.is(1) {
            true => base.clone(),
            false => Expr::power(base.clone(), lowered),
        };
        times(times(exponent.clone(), lowered), below)
    };
    let by_exponent = |above: Expr| {
        // u^v to u^v*ln(u)*v'.
        let ln = Expr::call(Function::Ln, base.clone());
        times(times(whole.clone(), ln), above)
    };
    match (below.is(0), above.is(0)) {
        (true, true) => Expr::integer(0),
        (false, true) => by_base(below),
        (true, false) => by_exponent(above),
        (false, false) => Expr::sum(vec![by_base(below), by_exponent(above)]),
    }
}

/// The derivatives of a base and of its exponent; most exponents are numbers.
fn both_of(base: &Expr, exponent: &Expr, by: &str, exec: &impl Join) -> (Expr, Expr) {
    let below = || differentiate(base, by, exec);
    let above = || differentiate(exponent, by, exec);
    match exponent.size() > GRAIN {
        true => exec.join(below, above),
        false => (below(), above()),
    }
}

/// The derivative of a function, at its argument; `whole` is the function there.
fn outer(function: Function, whole: &Expr, argument: &Expr) -> Expr {
    let call = |function| Expr::call(function, argument.clone());
    match function {
        Function::Sin => call(Function::Cos),
        Function::Cos => call(Function::Sin).negated(),
        Function::Tan => Expr::power(call(Function::Cos), Expr::integer(-2)),
        Function::Exp => whole.clone(),
        Function::Ln => Expr::power(argument.clone(), Expr::integer(-1)),
    }
}

fn times(a: Expr, b: Expr) -> Expr {
    match b.is(1) {
        true => a,
        false => Expr::product(vec![a, b]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Point, Sequential, parse::expression, sample, simplify};
    use super::*;

    #[test]
    fn the_rules_of_calculus() {
        for (text, derivative) in [
            ("5", "0"),
            ("y", "0"),
            ("x", "1"),
            ("3*x*y", "3*y"),
            ("x^3 - 2*x", "3*x^2 - 2"),
            ("sin(x)*x^2", "x^2*cos(x) + 2*x*sin(x)"),
            ("cos(2*x)", "-2*sin(2*x)"),
            ("tan(x)", "1/cos(x)^2"),
            ("exp(x^2)", "2*x*exp(x^2)"),
            ("ln(x)", "1/x"),
            ("sqrt(x)", "1/2/sqrt(x)"),
            ("2^x", "2^x*ln(2)"),
            ("x^x", "x^x*ln(x) + x^x"),
            ("x^y", "x^(y - 1)*y"),
        ] {
            let derived = differentiate(&expression(text).unwrap(), "x", &Sequential);
            let plain = simplify(&derived, &[], &Sequential).unwrap();
            let expected = simplify(&expression(derivative).unwrap(), &[], &Sequential).unwrap();
            assert_eq!(plain, expected, "{text}");
        }
    }

    #[test]
    fn derivatives_agree_with_differences() {
        let step = 1e-6;
        let at = |x: f64| Point::default().set("x", x).set("y", 0.7).set("z", 1.3);
        let mut compared = 0;
        for seed in 0..100 {
            let expr = sample::expression(seed, 30);
            let value = |x| expr.value(&at(x), &Sequential).unwrap();
            let difference = (value(0.9 + step) - value(0.9 - step)) / (2.0 * step);
            let derivative = differentiate(&expr, "x", &Sequential);
            let derivative = derivative.value(&at(0.9), &Sequential).unwrap();
            // Where the curvature is too large, differences say nothing.
            if difference.is_finite() && difference.abs() < 1e3 && value(0.9).abs() < 1e3 {
                let error = (difference - derivative).abs() / (1.0 + derivative.abs());
                assert!(
                    error < 1e-4,
                    "seed {seed}: {difference} and {derivative}: {expr}"
                );
                compared += 1;
            }
        }
        assert!(compared > 50, "only {compared} of the samples are tame");
    }
}
