//! Expressions: immutable trees that share their parts.

use super::{
    halves::{Join, reduce},
    rational::Rational,
};
use std::{cmp::Ordering, error::Error, f64::consts, fmt, sync::Arc};

/// Producer of this many nodes are worth a task of their own: tens of microseconds.
pub(crate) const GRAIN: usize = 512;

/// The name of a variable or of a hole in a pattern.
pub(crate) type Name = Arc<str>;

/// An expression. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Expr(Arc<Node>);

#[derive(PartialEq, Eq)]
struct Node {
    /// Nodes below and including this one. Unequal sizes decide most comparisons.
    size: usize,
    /// Levels, including this one.
    depth: usize,
    kind: Kind,
}

/// What an expression is. The order is the one in which factors are written.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Number(Rational),
    Variable(Name),
    /// `?a` in a pattern: stands for anything, and for the same everywhere.
    Hole(Name),
    Power(Expr, Expr),
    Call(Function, Expr),
    /// Two or more factors, none of which is a product.
    Product(Box<[Expr]>),
    /// Two or more terms, none of which is a sum.
    Sum(Box<[Expr]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Function {
    Sin,
    Cos,
    Tan,
    Exp,
    Ln,
}

impl Function {
    pub(crate) const ALL: [Self; 5] = [Self::Sin, Self::Cos, Self::Tan, Self::Exp, Self::Ln];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tan => "tan",
            Self::Exp => "exp",
            Self::Ln => "ln",
        }
    }

    fn at(self, x: f64) -> f64 {
        match self {
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tan => x.tan(),
            Self::Exp => x.exp(),
            Self::Ln => x.ln(),
        }
    }
}

impl Expr {
    fn new(kind: Kind) -> Self {
        let (mut size, mut depth) = (1_usize, 1);
        let mut below = |part: &Self| {
            size = size.saturating_add(part.0.size);
            depth = depth.max(part.0.depth + 1);
        };
        match &kind {
            Kind::Number(_) | Kind::Variable(_) | Kind::Hole(_) => {}
            Kind::Power(base, exponent) => [base, exponent].into_iter().for_each(below),
            Kind::Call(_, argument) => below(argument),
            Kind::Product(parts) | Kind::Sum(parts) => parts.iter().for_each(below),
        }
        Self(Arc::new(Node { size, depth, kind }))
    }

    pub(crate) fn number(value: Rational) -> Self {
        Self::new(Kind::Number(value))
    }

    pub(crate) fn integer(value: i64) -> Self {
        Self::number(Rational::integer(value))
    }

    pub(crate) fn variable(name: impl Into<Name>) -> Self {
        Self::new(Kind::Variable(name.into()))
    }

    pub(crate) fn hole(name: impl Into<Name>) -> Self {
        Self::new(Kind::Hole(name.into()))
    }

    pub(crate) fn call(function: Function, argument: Self) -> Self {
        Self::new(Kind::Call(function, argument))
    }

    pub(crate) fn power(base: Self, exponent: Self) -> Self {
        Self::new(Kind::Power(base, exponent))
    }

    /// The terms added up. Sums among them are taken apart.
    pub(crate) fn sum(terms: Vec<Self>) -> Self {
        let mut terms = Self::flat_terms(terms);
        match terms.len() {
            0 => Self::integer(0),
            1 => terms.remove(0),
            _ => Self::new(Kind::Sum(terms.into())),
        }
    }

    /// The factors multiplied. Products among them are taken apart.
    pub(crate) fn product(factors: Vec<Self>) -> Self {
        let mut factors = Self::flat_factors(factors);
        match factors.len() {
            0 => Self::integer(1),
            1 => factors.remove(0),
            _ => Self::new(Kind::Product(factors.into())),
        }
    }

    /// The terms, with those of sums among them in their places.
    pub(crate) fn flat_terms(terms: Vec<Self>) -> Vec<Self> {
        flat(terms, |term| matches!(term.kind(), Kind::Sum(_)))
    }

    /// The factors, with those of products among them in their places.
    pub(crate) fn flat_factors(factors: Vec<Self>) -> Vec<Self> {
        flat(factors, |factor| matches!(factor.kind(), Kind::Product(_)))
    }

    pub(crate) fn negated(self) -> Self {
        Self::product(vec![Self::integer(-1), self])
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// How many nodes it has as a tree; parts that it shares count as often as they appear.
    pub(crate) fn size(&self) -> usize {
        self.0.size
    }

    /// How many levels it has.
    pub(crate) fn depth(&self) -> usize {
        self.0.depth
    }

    pub(crate) fn as_number(&self) -> Option<Rational> {
        match self.kind() {
            Kind::Number(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn is(&self, value: i64) -> bool {
        self.as_number() == Some(Rational::integer(value))
    }

    /// Its direct parts.
    pub(crate) fn parts(&self) -> &[Self] {
        match self.kind() {
            Kind::Number(_) | Kind::Variable(_) | Kind::Hole(_) => &[],
            // Only one reference can be a slice; see `exponent` for the other part.
            Kind::Power(base, _) => std::slice::from_ref(base),
            Kind::Call(_, argument) => std::slice::from_ref(argument),
            Kind::Product(parts) | Kind::Sum(parts) => parts,
        }
    }

    /// The part that [`parts`](Self::parts) leaves out.
    pub(crate) fn exponent(&self) -> Option<&Self> {
        match self.kind() {
            Kind::Power(_, exponent) => Some(exponent),
            _ => None,
        }
    }

    /// Whether `test` holds for it or for anything in it.
    pub(crate) fn any(&self, test: &impl Fn(&Kind) -> bool) -> bool {
        test(self.kind())
            || self.parts().iter().any(|part| part.any(test))
            || self.exponent().is_some_and(|exponent| exponent.any(test))
    }

    /// Its value at `point`.
    ///
    /// # Errors
    /// When `point` has no value for one of the variables.
    pub(crate) fn value(&self, point: &Point, exec: &impl Join) -> Result<f64, Unbound> {
        let add = |parts: &[Self]| {
            let add = |sum, part: &Self| Ok(sum + part.value(point, exec)?);
            parts.iter().try_fold(0.0, add)
        };
        let multiply = |parts: &[Self]| {
            let multiply = |product, part: &Self| Ok(product * part.value(point, exec)?);
            parts.iter().try_fold(1.0, multiply)
        };
        match self.kind() {
            Kind::Number(value) => Ok(value.to_f64()),
            Kind::Variable(name) => point.get(name).ok_or_else(|| Unbound(name.clone())),
            Kind::Hole(name) => Err(Unbound(format!("?{name}").into())),
            Kind::Power(base, exponent) => {
                let base = base.value(point, exec)?;
                Ok(match exponent.as_number().and_then(Rational::as_integer) {
                    Some(exponent) if i32::try_from(exponent).is_ok() => base.powi(exponent as i32),
                    _ => base.powf(exponent.value(point, exec)?),
                })
            }
            Kind::Call(function, argument) => Ok(function.at(argument.value(point, exec)?)),
            Kind::Sum(terms) => reduce(terms, exec, GRAIN, &Self::size, &add, &|a, b| Ok(a? + b?)),
            Kind::Product(factors) => {
                let join = |a: Result<f64, _>, b: Result<f64, _>| Ok(a? * b?);
                reduce(factors, exec, GRAIN, &Self::size, &multiply, &join)
            }
        }
    }
}

/// The items, with the parts of those that are to be taken apart in their places.
fn flat(items: Vec<Expr>, apart: impl Fn(&Expr) -> bool) -> Vec<Expr> {
    if !items.iter().any(&apart) {
        return items;
    }
    let mut flat = Vec::with_capacity(items.len() + 1);
    for item in items {
        match apart(&item) {
            true => flat.extend_from_slice(item.parts()),
            false => flat.push(item),
        }
    }
    flat
}

impl Ord for Expr {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        self.kind().cmp(other.kind())
    }
}

impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Values of variables; `pi` and `e` have theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    values: Vec<(Name, f64)>,
}

impl Point {
    pub(crate) fn set(mut self, name: impl Into<Name>, value: f64) -> Self {
        let name = name.into();
        self.values.retain(|(known, _)| *known != name);
        self.values.push((name, value));
        self
    }

    fn get(&self, name: &str) -> Option<f64> {
        let known = self.values.iter().find(|(known, _)| **known == *name);
        known.map(|(_, value)| *value).or(match name {
            "pi" => Some(consts::PI),
            "e" => Some(consts::E),
            _ => None,
        })
    }
}

/// A variable without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unbound(Name);

impl fmt::Display for Unbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0} has no value; give it one: {0}=1", self.0)
    }
}

impl Error for Unbound {}

#[cfg(test)]
mod tests {
    use super::super::{Sequential, parse::expression};
    use super::*;

    fn value(text: &str) -> f64 {
        let point = Point::default().set("x", 2.0).set("y", 3.0);
        expression(text)
            .unwrap()
            .value(&point, &Sequential)
            .unwrap()
    }

    #[test]
    fn values_follow_the_usual_precedence() {
        assert_eq!(value("1 + 2*x^2 - y/2"), 7.5);
        assert_eq!(value("-x^2"), -4.0);
        assert_eq!(value("2^y^2"), 512.0);
        assert_eq!(value("(x + y)*(x - y)"), -5.0);
        assert_eq!(value("8^(1/3)"), 2.0);
        assert_eq!(value("sqrt(16) + 0.25"), 4.25);
        assert!((value("sin(pi/2) + ln(e)") - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_variable_without_a_value_is_named() {
        let unbound = expression("x + sin(zeta)")
            .unwrap()
            .value(&Point::default().set("x", 1.0), &Sequential)
            .unwrap_err();
        assert_eq!(
            unbound.to_string(),
            "zeta has no value; give it one: zeta=1"
        );
    }

    #[test]
    fn sums_and_products_are_flat() {
        let expr = expression("a + (b + c) + d*(e1*f)").unwrap();
        assert_eq!(expr.parts().len(), 4);
        assert_eq!(expr.parts()[3].parts().len(), 3);
        assert_eq!(expr.size(), 8);
    }
}
