//! Simplification: normal forms and rules, from the bottom up, until nothing changes.

use super::{
    expr::{Expr, GRAIN, Kind},
    halves::{Both, map},
    normal,
    pattern::Rule,
};
use std::{
    error::Error,
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

/// How often the whole expression is gone through before the rules count as restless. Rules that
/// come to rest do so after a handful.
const MOST_PASSES: usize = 100;

/// How often a node is rewritten, beyond once for each of its parts, before its neighbours get
/// their turn.
const MOST_REWRITES: usize = 8;

/// Larger expressions are no simplification of anything.
const MOST_NODES: usize = 2_000_000;

/// Deeper ones would not fit on the stack.
const MOST_LEVELS: usize = 1_000;

/// Simplifies `expr` with normal forms and `rules` until nothing changes.
///
/// # Errors
/// When the rules chase each other, or blow the expression up.
pub(crate) fn simplify(
    expr: &Expr,
    rules: &[Rule],
    both: &impl Both,
) -> Result<Expr, RestlessError> {
    let mut expr = expr.clone();
    for _ in 0..MOST_PASSES {
        let pass = Pass {
            rules,
            both,
            unfinished: AtomicBool::new(false),
        };
        let next = pass.over(&expr);
        let settled = next == expr && !pass.unfinished.into_inner();
        expr = next;
        if settled {
            return Ok(expr);
        }
        if is_too_large(&expr) {
            break;
        }
    }
    Err(RestlessError { size: expr.size() })
}

/// Once through everything.
struct Pass<'p, B> {
    rules: &'p [Rule],
    both: &'p B,
    /// A node was left although rules apply to it. They may go round in circles, and then end where
    /// they began: nothing seems to change.
    unfinished: AtomicBool,
}

impl<B: Both> Pass<'_, B> {
    /// What does not change is shared with `expr`.
    fn over(&self, expr: &Expr) -> Expr {
        let below = |part: &Expr| self.over(part);
        let all = |parts: &[Expr]| map(parts, self.both, GRAIN, &Expr::size, &below);
        let new = self.rewritten(match expr.kind() {
            Kind::Number(_) | Kind::Variable(_) | Kind::Hole(_) => expr.clone(),
            Kind::Power(base, exponent) => normal::power(below(base), below(exponent)),
            Kind::Call(function, argument) => normal::call(*function, below(argument)),
            Kind::Product(factors) => normal::product(all(factors)),
            Kind::Sum(terms) => normal::sum(all(terms)),
        });
        if new == *expr { expr.clone() } else { new }
    }

    fn rewritten(&self, mut expr: Expr) -> Expr {
        for _ in 0..MOST_REWRITES + expr.parts().len() {
            if is_too_large(&expr) {
                break;
            }
            match self.rules.iter().find_map(|rule| rule.rewrite(&expr)) {
                Some(new) => expr = new,
                None => return expr,
            }
        }
        // Relaxed: read when all parts have been joined.
        self.unfinished.store(true, Ordering::Relaxed);
        expr
    }
}

fn is_too_large(expr: &Expr) -> bool {
    expr.size() > MOST_NODES || expr.depth() > MOST_LEVELS
}

/// Rules that do not come to rest.
#[derive(Debug)]
pub(crate) struct RestlessError {
    size: usize,
}

impl fmt::Display for RestlessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the rules still change the expression, which has {} nodes by now; leave out those that undo \
             each other or make it grow",
            self.size
        )
    }
}

impl Error for RestlessError {}

#[cfg(test)]
mod tests {
    use super::super::{
        InTurn, Point,
        parse::expression,
        pattern::{EXPANSION, IDENTITIES},
        sample,
    };
    use super::*;

    fn simple(text: &str, rules: &[&str]) -> String {
        let rules = Rule::all(rules).unwrap();
        let expr = expression(text).unwrap();
        simplify(&expr, &rules, &InTurn).unwrap().to_string()
    }

    #[test]
    fn identities_apply_everywhere() {
        for (text, simplified) in [
            ("3*(sin(2*x)^2 + cos(x + x)^2) - 3", "0"),
            ("exp(x)*exp(-x)", "1"),
            ("exp(a)*exp(b)*exp(c)", "exp(a + b + c)"),
            ("ln(exp(sin(x)/cos(x)))", "tan(x)"),
            ("sin(-x) + sin(x)", "0"),
            ("y^(cos(z)^2 + sin(z)^2)", "y"),
        ] {
            assert_eq!(simple(text, &IDENTITIES), simplified, "{text}");
        }
    }

    #[test]
    fn expansion_comes_to_rest() {
        assert_eq!(simple("(x + 1)*(x - 1)", &EXPANSION), "x^2 - 1");
        assert_eq!(simple("(x + y)^2*x", &EXPANSION), "x^3 + x*y^2 + 2*x^2*y");
        assert_eq!(
            simple("(a + b + c)^2", &EXPANSION),
            "a^2 + b^2 + c^2 + 2*a*b + 2*a*c + 2*b*c"
        );
    }

    #[test]
    fn restless_rules_are_told() {
        let swap = Rule::all(&["sin(?a) -> cos(?a)", "cos(?a) -> sin(?a)"]).unwrap();
        let grow = Rule::all(&["sin(?a) -> sin(sin(?a)) + sin(?a)^2"]).unwrap();
        let dig = Rule::all(&["sin(?a) -> sin(cos(sin(?a)))"]).unwrap();
        for rules in [swap, grow, dig] {
            let error = simplify(&expression("sin(x)").unwrap(), &rules, &InTurn).unwrap_err();
            assert!(error.to_string().contains("still change"), "{error}");
        }
    }

    #[test]
    fn values_are_kept() {
        let rules = Rule::all(&IDENTITIES).unwrap();
        let point = Point::default().set("x", 0.9).set("y", 0.7).set("z", 1.3);
        for seed in 0..200 {
            let expr = sample::expression(seed, 60);
            let simplified = simplify(&expr, &rules, &InTurn).unwrap();
            let before = expr.value(&point, &InTurn).unwrap();
            let after = simplified.value(&point, &InTurn).unwrap();
            let error = (before - after).abs() / (1.0 + before.abs());
            // Sines of large arguments keep fewer digits.
            assert!(
                error < 1e-3 || before.abs() > 1e9 || !before.is_finite(),
                "seed {seed}: {before} and {after}: {expr} and {simplified}"
            );
        }
    }
}
