//! Expressions by the seed, for measurements and tests.

use super::{
    expr::{Expr, Function},
    rational::Rational,
};
use filch::Rng;

const VARIABLES: [&str; 3] = ["x", "y", "z"];

/// An expression in `x`, `y` and `z` of about `size` nodes: a sum of uneven terms, with places
/// where the usual identities apply.
pub(crate) fn expression(seed: u64, size: usize) -> Expr {
    let mut rng = Rng::new(seed);
    let (mut terms, mut left) = (Vec::new(), size);
    while left > 0 {
        // Some terms are a hundred times as large as others.
        let most = [6, 20, 60, 600][rng.below(4)];
        let term = grow(&mut rng, most.min(left));
        left = left.saturating_sub(term.size());
        terms.push(term);
    }
    Expr::sum(terms)
}

/// An expression of about `size` nodes, at least one.
fn grow(rng: &mut Rng, size: usize) -> Expr {
    if size < 4 {
        return leaf(rng);
    }
    match rng.below(10) {
        0..=2 => {
            let parts = 2 + rng.below(4);
            Expr::sum((0..parts).map(|_| grow(rng, size / parts)).collect())
        }
        3..=5 => {
            let parts = 2 + rng.below(2);
            Expr::product((0..parts).map(|_| grow(rng, size / parts)).collect())
        }
        6 => {
            let base = bounded(grow(rng, size - 3));
            Expr::power(base, Expr::integer(2 + rng.below(2) as i64))
        }
        7 => {
            // sin(a)^2 + cos(a)^2
            let angle = grow(rng, size / 2 - 1);
            let squared =
                |function| Expr::power(Expr::call(function, angle.clone()), Expr::integer(2));
            Expr::sum(vec![squared(Function::Sin), squared(Function::Cos)])
        }
        8 => {
            // exp(a)*exp(b)
            let mut factor = || Expr::call(Function::Exp, bounded(grow(rng, size / 2)));
            Expr::product(vec![factor(), factor()])
        }
        _ => {
            let function = [Function::Sin, Function::Cos][rng.below(2)];
            Expr::call(function, grow(rng, size - 1))
        }
    }
}

/// The sine of it: what goes into powers and exponentials must stay small.
fn bounded(expr: Expr) -> Expr {
    Expr::call(Function::Sin, expr)
}

fn leaf(rng: &mut Rng) -> Expr {
    match rng.below(3) {
        0 => {
            let (over, under) = (1 + rng.below(9) as i128, 1 + rng.below(4) as i128);
            Expr::number(Rational::new(over, under).expect("small"))
        }
        _ => Expr::variable(VARIABLES[rng.below(3)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_about_as_large_as_asked_for_and_repeatable() {
        for size in [1, 10, 100, 10_000] {
            let expr = expression(size as u64, size);
            assert_eq!(expr, expression(size as u64, size));
            assert!(expr.size() <= 2 * size + 10, "{} for {size}", expr.size());
            assert!(2 * expr.size() >= size, "{} for {size}", expr.size());
        }
    }
}
