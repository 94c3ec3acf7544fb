//! Patterns with holes, and rules that rewrite what they match.
//!
//! The terms of a sum and the factors of a product match in any order. A pattern for a whole sum
//! may leave terms over, which stay beside the result: `sin(?a)^2 + cos(?a)^2 -> 1` makes `x +
//! sin(y)^2 + cos(y)^2` to `x + 1`. Further down the last hole takes what is left over: `?a*(?b +
//! ?c)` matches `x*(y + z + 1)` with `z + 1` for `?c`.

use super::{
    expr::{Expr, GRAIN, Kind, Name},
    halves::{Join, map},
    normal, parse,
};
use std::{error::Error, fmt};

/// What the holes stand for.
pub(crate) type Bindings = Vec<(Name, Expr)>;

/// Rules that hold wherever both sides have a value.
pub(crate) const IDENTITIES: [&str; 7] = [
    "sin(?a)^2 + cos(?a)^2 -> 1",
    "sin(?a)/cos(?a) -> tan(?a)",
    "exp(?a)*exp(?b) -> exp(?a + ?b)",
    "exp(ln(?a)) -> ?a",
    "ln(exp(?a)) -> ?a",
    "sin(-?a) -> -sin(?a)",
    "cos(-?a) -> cos(?a)",
];

/// Rules that multiply products of sums out.
pub(crate) const EXPANSION: [&str; 2] = [
    "?a*(?b + ?c) -> ?a*?b + ?a*?c",
    "(?a + ?b)^2 -> ?a^2 + 2*?a*?b + ?b^2",
];

/// Rewrites what its left side matches.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    from: Expr,
    to: Expr,
}

impl Rule {
    /// Reads `?a*(?b + ?c) -> ?a*?b + ?a*?c`.
    ///
    /// # Errors
    /// Not two sides, a hole that only the right one has, or a left side that matches everything.
    pub(crate) fn new(text: &str) -> Result<Self, RuleError> {
        let wrong = |what: String| RuleError(format!("{what}, in the rule {text:?}"));
        let (from, to) = text
            .split_once("->")
            .ok_or_else(|| wrong("no \"->\" between a pattern and a result".into()))?;
        let side = |text: &str| parse::pattern(text.trim()).map_err(|e| RuleError(e.to_string()));
        let (from, to) = (pattern(&side(from)?), normal::form(&side(to)?));
        if matches!(from.kind(), Kind::Hole(_) | Kind::Number(_)) {
            return Err(wrong("the left side is not worth a rule".into()));
        }
        let unknown = |kind: &Kind| match kind {
            Kind::Hole(name) => !from.any(&|known| matches!(known, Kind::Hole(n) if n == name)),
            _ => false,
        };
        match to.any(&unknown) {
            true => Err(wrong("a hole on the right is not on the left".into())),
            false => Ok(Self { from, to }),
        }
    }

    /// # Errors
    /// As [`new`](Self::new), for the first that is wrong.
    pub(crate) fn all<T: AsRef<str>>(texts: &[T]) -> Result<Vec<Self>, RuleError> {
        texts.iter().map(|text| Self::new(text.as_ref())).collect()
    }

    /// What the rule makes of `expr`, which is in normal form; nothing when it does not apply, or
    /// leaves everything as it is. It matches the node itself, not those below, and is applied
    /// to terms or factors as often as it goes.
    pub(crate) fn rewrite(&self, expr: &Expr) -> Option<Expr> {
        let (mut parts, mut rest) = (Vec::new(), Some(expr.clone()));
        while let Some((new, left)) = rest.as_ref().and_then(|rest| self.once(rest)) {
            parts.push(new);
            rest = left;
        }
        if parts.is_empty() {
            return None;
        }
        parts.extend(rest);
        Some(match expr.kind() {
            _ if parts.len() == 1 => parts.remove(0),
            Kind::Sum(_) => normal::sum(parts),
            _ => normal::product(parts),
        })
    }

    /// What becomes of the first match, and what it leaves over.
    fn once(&self, expr: &Expr) -> Option<(Expr, Option<Expr>)> {
        let mut result = None;
        part_of(&self.from, expr, &mut Vec::new(), &mut |known, taken| {
            let new = filled(&self.to, known);
            let old = some_of(expr, taken, true).unwrap_or_else(|| expr.clone());
            let changed = new != old;
            if changed {
                result = Some((new, some_of(expr, taken, false)));
            }
            changed
        });
        result
    }
}

/// A rule that makes no sense.
#[derive(Debug)]
pub(crate) struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for RuleError {}

/// A place where a pattern matches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Match {
    pub(crate) place: Expr,
    pub(crate) known: Bindings,
}

/// Every node of `expr` that `pattern` matches, from the top and from the left, with the first way
/// in which it does. Both are brought into normal form before.
pub(crate) fn matches(wanted: &Expr, expr: &Expr, exec: &impl Join) -> Vec<Match> {
    matches_in(&pattern(wanted), &normal::form(expr), exec)
}

fn matches_in(pattern: &Expr, expr: &Expr, exec: &impl Join) -> Vec<Match> {
    let mut found = Vec::new();
    part_of(pattern, expr, &mut Vec::new(), &mut |known, _| {
        found.push(Match {
            place: expr.clone(),
            known: known.clone(),
        });
        true
    });
    let below = |part: &Expr| matches_in(pattern, part, exec);
    found.extend(
        map(expr.parts(), exec, GRAIN, &Expr::size, &below)
            .into_iter()
            .flatten(),
    );
    found.extend(expr.exponent().into_iter().flat_map(below));
    found
}

/// The normal form, with the holes behind what can fail to match.
fn pattern(expr: &Expr) -> Expr {
    fn arranged(expr: &Expr) -> Expr {
        let all = |parts: &[Expr]| {
            let mut parts: Vec<Expr> = parts.iter().map(arranged).collect();
            parts.sort_by_key(|part| matches!(part.kind(), Kind::Hole(_)));
            parts
        };
        match expr.kind() {
            Kind::Number(_) | Kind::Variable(_) | Kind::Hole(_) => expr.clone(),
            Kind::Power(base, exponent) => Expr::power(arranged(base), arranged(exponent)),
            Kind::Call(function, argument) => Expr::call(*function, arranged(argument)),
            Kind::Product(factors) => Expr::product(all(factors)),
            Kind::Sum(terms) => Expr::sum(all(terms)),
        }
    }
    arranged(&normal::form(expr))
}

/// What to do with a way to match; true ends the search.
type Then<'t> = &'t mut dyn FnMut(&mut Bindings) -> bool;

/// The same, with the parts that are taken.
type ThenTaken<'t> = &'t mut dyn FnMut(&mut Bindings, &[bool]) -> bool;

/// Matches `pattern` with `expr`, or with some of its terms or factors.
fn part_of(pattern: &Expr, expr: &Expr, known: &mut Bindings, then: ThenTaken<'_>) -> bool {
    match (pattern.kind(), expr.kind()) {
        (Kind::Sum(wanted), Kind::Sum(parts)) | (Kind::Product(wanted), Kind::Product(parts)) => {
            choose(
                wanted,
                expr,
                &mut vec![false; parts.len()],
                false,
                known,
                then,
            )
        }
        _ => whole(pattern, expr, known, &mut |known| then(known, &[])),
    }
}

/// Matches `pattern` with all of `expr`.
fn whole(pattern: &Expr, expr: &Expr, known: &mut Bindings, then: Then<'_>) -> bool {
    match (pattern.kind(), expr.kind()) {
        (Kind::Hole(name), _) => bind(name, expr.clone(), known, then),
        (Kind::Power(base, exponent), Kind::Power(of, to)) => {
            whole(base, of, known, &mut |known| {
                whole(exponent, to, known, then)
            })
        }
        (Kind::Call(function, argument), Kind::Call(other, of)) => {
            function == other && whole(argument, of, known, then)
        }
        (Kind::Sum(wanted), Kind::Sum(parts)) | (Kind::Product(wanted), Kind::Product(parts)) => {
            let mut taken = vec![false; parts.len()];
            let then: ThenTaken<'_> = &mut |known, _| then(known);
            choose(wanted, expr, &mut taken, true, known, then)
        }
        (wanted, kind) => wanted == kind && then(known),
    }
}

/// Matches each of `wanted` with another part of `expr`; with `all`, nothing is left over.
fn choose(
    wanted: &[Expr],
    expr: &Expr,
    taken: &mut [bool],
    all: bool,
    known: &mut Bindings,
    then: ThenTaken<'_>,
) -> bool {
    let Some((first, others)) = wanted.split_first() else {
        return !(all && taken.contains(&false)) && then(known, taken);
    };
    if let (true, [], Kind::Hole(name)) = (all, others, first.kind()) {
        let rest = some_of(expr, taken, false);
        return rest.is_some_and(|rest| bind(name, rest, known, &mut |known| then(known, taken)));
    }
    for (n, part) in expr.parts().iter().enumerate() {
        if taken[n] {
            continue;
        }
        taken[n] = true;
        let go_on: Then<'_> = &mut |known| choose(others, expr, taken, all, known, then);
        let found = whole(first, part, known, go_on);
        taken[n] = false;
        if found {
            return true;
        }
    }
    false
}

/// Lets a hole stand for `value`, if it does not stand for something else.
fn bind(name: &Name, value: Expr, known: &mut Bindings, then: Then<'_>) -> bool {
    if let Some((_, bound)) = known.iter().find(|(bound, _)| bound == name) {
        return *bound == value && then(known);
    }
    known.push((name.clone(), value));
    let found = then(known);
    known.pop();
    found
}

/// The parts that are taken, or those that are not, as a sum or product; nothing when there are
/// none.
fn some_of(expr: &Expr, taken: &[bool], wanted: bool) -> Option<Expr> {
    let parts = expr.parts().iter().zip(taken);
    let some: Vec<Expr> = parts
        .filter(|(_, taken)| **taken == wanted)
        .map(|(part, _)| part.clone())
        .collect();
    match expr.kind() {
        _ if some.is_empty() => None,
        Kind::Sum(_) => Some(Expr::sum(some)),
        _ => Some(Expr::product(some)),
    }
}

/// `template` with what its holes stand for, in normal form.
fn filled(template: &Expr, known: &Bindings) -> Expr {
    let all = |parts: &[Expr]| parts.iter().map(|part| filled(part, known)).collect();
    match template.kind() {
        Kind::Number(_) | Kind::Variable(_) => template.clone(),
        Kind::Hole(name) => {
            let bound = known.iter().find(|(bound, _)| bound == name);
            bound.map_or_else(|| template.clone(), |(_, value)| value.clone())
        }
        Kind::Power(base, exponent) => normal::power(filled(base, known), filled(exponent, known)),
        Kind::Call(function, argument) => normal::call(*function, filled(argument, known)),
        Kind::Product(factors) => normal::product(all(factors)),
        Kind::Sum(terms) => normal::sum(all(terms)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sequential, parse::expression};
    use super::*;

    fn once(rule: &str, text: &str) -> Option<String> {
        let expr = normal::form(&expression(text).unwrap());
        let new = Rule::new(rule).unwrap().rewrite(&expr);
        new.map(|new| new.to_string())
    }

    #[test]
    fn rules_rewrite_in_any_order_and_leave_the_rest() {
        let squares = "sin(?a)^2 + cos(?a)^2 -> 1";
        assert_eq!(
            once(squares, "x + cos(x*y)^2 + y + sin(x*y)^2").as_deref(),
            Some("x + y + 1")
        );
        assert_eq!(once(squares, "sin(x)^2 + cos(y)^2"), None);
        assert_eq!(
            once("?a*(?b + ?c) -> ?a*?b + ?a*?c", "(u + v + w)*x").as_deref(),
            Some("u*x + x*(v + w)")
        );
        assert_eq!(
            once("ln(exp(?a)) -> ?a", "ln(exp(x + 1))").as_deref(),
            Some("x + 1")
        );
        assert_eq!(
            once("sin(-?a) -> -sin(?a)", "sin(-x*y)").as_deref(),
            Some("-sin(x*y)")
        );
    }

    #[test]
    fn a_hole_stands_for_the_same_everywhere() {
        let rule = "?a^?n*exp(?a) -> ?n";
        assert_eq!(once(rule, "x^2*exp(x)").as_deref(), Some("2"));
        assert_eq!(once(rule, "x^2*exp(y)"), None);
        // The first way to choose a factor fails; the search goes back.
        assert_eq!(once(rule, "x^2*y^3*exp(y)").as_deref(), Some("3*x^2"));
    }

    #[test]
    fn a_rule_that_changes_nothing_does_not_apply() {
        assert_eq!(once("?a + ?b -> ?b + ?a", "x + y"), None);
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        for (rule, what) in [
            ("x + 1", "no \"->\""),
            ("?a -> 1", "not worth a rule"),
            ("sin(?a) -> ?b", "not on the left"),
            ("sin(?a -> 1", "')'"),
        ] {
            let error = Rule::new(rule).expect_err("refused").to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn all_places_are_found() {
        let expr = expression("sin(x)^2 + 3*sin(y*sin(z)) + 2^sin(t)").unwrap();
        let found = matches(&parse::pattern("sin(?a)").unwrap(), &expr, &Sequential);
        let mut places: Vec<_> = found.iter().map(|m| m.place.to_string()).collect();
        places.sort();
        assert_eq!(places, ["sin(t)", "sin(x)", "sin(y*sin(z))", "sin(z)"]);
        assert!(found.iter().all(|m| m.known.len() == 1));
    }
}
