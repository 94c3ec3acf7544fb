//! The algebra as functions that can be called by name.

use crate::{
    Parallel,
    algebra::{Expr, Point, Polynomial, Rule, differentiate, matches, parse, simplify},
};
use filch::BuildError;
use filch_calls::Registry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An expression that travels as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Formula(pub(crate) Expr);

impl TryFrom<String> for Formula {
    type Error = parse::ParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        parse::expression(&text).map(Self)
    }
}

impl From<Formula> for String {
    fn from(formula: Formula) -> Self {
        formula.0.to_string()
    }
}

/// Where a pattern matches, and what its holes stand for there.
#[derive(Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) place: String,
    pub(crate) holes: Vec<(String, String)>,
}

/// What can be called:
///
/// | name | arguments | result |
/// |---|---|---|
/// | `Simplify` | expression, rules | expression |
/// | `Differentiate` | expression, variable | expression |
/// | `Multiply` | two polynomials, their variables | polynomial |
/// | `Evaluate` | expression, values of variables | number, or nothing where there is none |
/// | `Match` | pattern, expression | all places |
pub(crate) fn registry() -> Result<Registry, BuildError> {
    Registry::builder()
        .try_function("Simplify", |(formula, rules): (Formula, Vec<String>)| {
            let rules = Rule::all(&rules).map_err(|error| error.to_string())?;
            let simplified = simplify(&formula.0, &rules, &Parallel);
            simplified.map(Formula).map_err(|error| error.to_string())
        })
        .try_function("Differentiate", |(formula, by): (Formula, String)| {
            let derivative = differentiate(&formula.0, &by, &Parallel);
            simplify(&derivative, &[], &Parallel).map(Formula)
        })
        .try_function(
            "Multiply",
            |(a, b, variables): (Formula, Formula, Vec<String>)| {
                let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
                let a = Polynomial::new(&a.0, &variables)?;
                let b = Polynomial::new(&b.0, &variables)?;
                a.times(&b, &Parallel)
                    .map(|product| Formula(product.to_expr()))
            },
        )
        .try_function(
            "Evaluate",
            |(formula, at): (Formula, BTreeMap<String, f64>)| {
                let set = |point: Point, (name, value): (String, f64)| point.set(name, value);
                let point = at.into_iter().fold(Point::default(), set);
                formula.0.value(&point, &Parallel)
            },
        )
        .try_function("Match", |(pattern, formula): (String, Formula)| {
            let pattern = parse::pattern(&pattern)?;
            let found = matches(&pattern, &formula.0, &Parallel).into_iter();
            let found = found.map(|found| Found {
                place: found.place.to_string(),
                holes: found
                    .known
                    .iter()
                    .map(|(name, value)| (format!("?{name}"), value.to_string()))
                    .collect(),
            });
            Ok::<Vec<Found>, parse::ParseError>(found.collect())
        })
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use filch::Pool;
    use filch_calls::{Call, CallError, Value};

    fn called(function: &str, args: &impl Serialize) -> Result<String, CallError> {
        let pool = Pool::builder().workers(1).build().unwrap();
        let call = Call::new(function, args)?;
        let value = registry().unwrap().submit::<Value>(&pool, call)?;
        value.join().map(|value| value.to_string())
    }

    #[test]
    fn functions_say_what_is_wrong() {
        let error = called("Differentiate", &("x +", "x")).unwrap_err();
        assert!(error.is_arguments() && error.to_string().contains("after the end"));
        let error = called("Evaluate", &("x + y", BTreeMap::from([("x", 1.0)]))).unwrap_err();
        assert!(error.is_failed() && error.to_string().contains("y has no value"));
        let error = called("Multiply", &("sin(x)", "x", ["x"])).unwrap_err();
        assert!(error.is_failed() && error.to_string().contains("sin(x) is no polynomial"));
        let error = called("Diferentiate", &("x", "x")).unwrap_err();
        assert!(error.to_string().contains("did you mean Differentiate?"));
    }

    #[test]
    fn deep_expressions_fit_on_the_stack_of_a_worker() {
        let deep = format!("{}x{}", "sin(1 + ".repeat(190), ")".repeat(190));
        called("Simplify", &(&deep, [""; 0])).unwrap();
        called("Differentiate", &(&deep, "x")).unwrap();
        called("Match", &("sin(?a)", &deep)).unwrap();
        assert!(called("Evaluate", &(&deep, BTreeMap::from([("x", 1.0)]))).is_ok());
    }
}
