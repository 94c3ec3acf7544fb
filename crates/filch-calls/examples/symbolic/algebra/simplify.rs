//! Simplification: normal forms and rules, from the bottom up, until nothing changes.

use super::{
    expr::{Expr, GRAIN, Kind},
    halves::{Join, map},
    normal,
    pattern::Rule,
};
use std::{
    error::Error,
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

/// Maximum number of passes over the whole expression. Rules that terminate need a handful.
const MAX_PASSES: usize = 100;

/// Maximum number of rewrites of a node in one pass, beyond one for each of its parts.
const MAX_REWRITES: usize = 8;

/// Maximum size of a result: a larger one is no simplification.
const MAX_NODES: usize = 2_000_000;

/// Maximum depth: a deeper expression would not fit on the stack.
const MAX_LEVELS: usize = 1_000;

/// Simplifies `expr` with normal forms and `rules` until nothing changes.
///
/// # Errors
/// When the rules do not terminate, or the expression becomes too large.
pub(crate) fn simplify(
    expr: &Expr,
    rules: &[Rule],
    exec: &impl Join,
) -> Result<Expr, NonterminatingError> {
    let mut expr = expr.clone();
    for _ in 0..MAX_PASSES {
        let pass = Pass {
            rules,
            exec,
            unfinished: AtomicBool::new(false),
        };
        let next = pass.over(&expr);
        let done = next == expr && !pass.unfinished.into_inner();
        expr = next;
        if done {
            return Ok(expr);
        }
        if is_too_large(&expr) {
            break;
        }
    }
    Err(NonterminatingError { size: expr.size() })
}

/// One pass over the whole expression.
struct Pass<'p, B> {
    rules: &'p [Rule],
    exec: &'p B,
    /// Set if rules still apply to a node. They may form a cycle, so that the expression is the
    /// same at the end of the pass.
    unfinished: AtomicBool,
}

impl<B: Join> Pass<'_, B> {
    /// Returns the new expression, which shares unchanged parts with `expr`.
    fn over(&self, expr: &Expr) -> Expr {
        let below = |part: &Expr| self.over(part);
        let all = |parts: &[Expr]| map(parts, self.exec, GRAIN, &Expr::size, &below);
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
        for _ in 0..MAX_REWRITES + expr.parts().len() {
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
    expr.size() > MAX_NODES || expr.depth() > MAX_LEVELS
}

/// Rules that do not terminate.
#[derive(Debug)]
pub(crate) struct NonterminatingError {
    size: usize,
}

impl fmt::Display for NonterminatingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the rules still change the expression, which has {} nodes by now; leave out those that undo \
             each other or make it grow",
            self.size
        )
    }
}

impl Error for NonterminatingError {}

#[cfg(test)]
mod tests {
    use super::super::{
        Point, Sequential,
        parse::expression,
        pattern::{EXPANSION, IDENTITIES},
        sample,
    };
    use super::*;

    fn simple(text: &str, rules: &[&str]) -> String {
        let rules = Rule::all(rules).unwrap();
        let expr = expression(text).unwrap();
        simplify(&expr, &rules, &Sequential).unwrap().to_string()
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
    fn expansion_terminates() {
        assert_eq!(simple("(x + 1)*(x - 1)", &EXPANSION), "x^2 - 1");
        assert_eq!(simple("(x + y)^2*x", &EXPANSION), "x^3 + x*y^2 + 2*x^2*y");
        assert_eq!(
            simple("(a + b + c)^2", &EXPANSION),
            "a^2 + b^2 + c^2 + 2*a*b + 2*a*c + 2*b*c"
        );
    }

    #[test]
    fn rules_that_do_not_terminate_are_an_error() {
        let swap = Rule::all(&["sin(?a) -> cos(?a)", "cos(?a) -> sin(?a)"]).unwrap();
        let grow = Rule::all(&["sin(?a) -> sin(sin(?a)) + sin(?a)^2"]).unwrap();
        let dig = Rule::all(&["sin(?a) -> sin(cos(sin(?a)))"]).unwrap();
        for rules in [swap, grow, dig] {
            let error = simplify(&expression("sin(x)").unwrap(), &rules, &Sequential).unwrap_err();
            assert!(error.to_string().contains("still change"), "{error}");
        }
    }

    #[test]
    fn values_are_kept() {
        let rules = Rule::all(&IDENTITIES).unwrap();
        let point = Point::default().set("x", 0.9).set("y", 0.7).set("z", 1.3);
        for seed in 0..200 {
            let expr = sample::expression(seed, 60);
            let simplified = simplify(&expr, &rules, &Sequential).unwrap();
            let before = expr.value(&point, &Sequential).unwrap();
            let after = simplified.value(&point, &Sequential).unwrap();
            let error = (before - after).abs() / (1.0 + before.abs());
            // Sines of large arguments keep fewer digits.
            assert!(
                error < 1e-3 || before.abs() > 1e9 || !before.is_finite(),
                "seed {seed}: {before} and {after}: {expr} and {simplified}"
            );
        }
    }
}
