//! The four kinds of task that a symbolic engine has, each compared with the sequential result.

use crate::{
    Parallel,
    algebra::{
        Expr, Point, Polynomial, Rule, Sequential, differentiate, matches, parse,
        pattern::IDENTITIES, sample, simplify,
    },
    functions::Formula,
};
use filch::{Pool, Priority};
use filch_calls::{Call, Registry};
use std::{error::Error, io::Write, sync::Arc};

type Shown = Result<(), Box<dyn Error>>;

/// # Errors
/// When the output is closed, or a task has another result than the sequential code.
pub(crate) fn show(pool: &Pool, registry: &Registry, out: &mut impl Write) -> Shown {
    writeln!(
        out,
        "Tasks of four kinds, each compared with the sequential result\n"
    )?;
    by_name(pool, registry, out)?;
    closure(pool, out)?;
    evaluation(pool, out)?;
    patterns(pool, out)
}

/// Returns the result, if it is as expected.
fn same<T: PartialEq>(what: &str, result: T, expected: &T) -> Result<T, Box<dyn Error>> {
    match result == *expected {
        true => Ok(result),
        false => Err(format!("{what}: the pool gives another result").into()),
    }
}

/// A function and its arguments as data, which could have come from anywhere.
fn by_name(pool: &Pool, registry: &Registry, out: &mut impl Write) -> Shown {
    let derivative = differentiate(&parse::expression("sin(x)*x^2")?, "x", &Sequential);
    let derivative = simplify(&derivative, &[], &Sequential)?;
    let polynomial = |text| -> Result<_, Box<dyn Error>> {
        let expr = parse::expression(text)?;
        Ok(Polynomial::new(&expr, &["x", "y"])?)
    };
    let (a, b) = (polynomial("(x + y)^3")?, polynomial("(x - y)^2")?);
    let product = a.times(&b, &Sequential)?.to_expr();
    for (text, expected) in [
        (
            r#"{"function":"Differentiate","args":["sin(x)*x^2","x"]}"#,
            derivative,
        ),
        (
            r#"{"function":"Multiply","args":["(x + y)^3","(x - y)^2",["x","y"]]}"#,
            product,
        ),
    ] {
        let handle = registry.submit::<Formula>(pool, Call::from_json(text)?)?;
        // What was written down reads back as the same when it is brought into normal form.
        let result = simplify(&handle.join()?.0, &[], &Sequential)?;
        let result = same("by name", result, &simplify(&expected, &[], &Sequential)?)?;
        writeln!(out, "  by name     {text}\n              = {result}")?;
    }

    let given: Vec<Expr> = (0..300).map(|seed| sample::expression(seed, 40)).collect();
    let calls = given.iter().map(|expr| (Formula(expr.clone()), IDENTITIES));
    let mapped: Vec<Formula> = registry.map(pool, "Simplify", calls)?;
    let rules = Rule::all(&IDENTITIES)?;
    let mut before = 0;
    for (formula, expr) in mapped.iter().zip(&given) {
        before += expr.size();
        // As above.
        let expected = simplify(expr, &rules, &Sequential)?;
        let read = simplify(&formula.0, &rules, &Sequential)?;
        same("by name", read, &expected)?;
    }
    let after: usize = mapped.iter().map(|formula| formula.0.size()).sum();
    let calls = mapped.len();
    writeln!(
        out,
        "              \"Simplify\" of {calls} expressions by Registry::map: {before} nodes become {after}"
    )?;
    Ok(())
}

/// A closure with a result.
fn closure(pool: &Pool, out: &mut impl Write) -> Shown {
    let text = "exp(x)*exp(-x + ln(y)) - 3*y*(sin(x*y)^2 + cos(y*x)^2)";
    let expr = parse::expression(text)?;
    let rules = Rule::all(&IDENTITIES)?;
    let expected = simplify(&expr, &rules, &Sequential)?;
    let task = pool
        .task(move || simplify(&expr, &rules, &Parallel))
        .name("simplify")
        .priority(Priority::High);
    let handle = task.submit().map_err(|refused| refused.to_string())?;
    let result = same("closure", handle.join()??, &expected)?;
    writeln!(out, "  closure     {text}\n              = {result}")?;
    Ok(())
}

/// One expression, whose parts are evaluated by any free worker.
fn evaluation(pool: &Pool, out: &mut impl Write) -> Shown {
    let expr = sample::expression(7, 200_000);
    let point = Point::default().set("x", 0.3).set("y", 0.7).set("z", 1.1);
    let expected = expr.value(&point, &Sequential)?;
    let size = expr.size();
    let handle = pool.submit(move || expr.value(&point, &Parallel));
    // To the last bit: the order of the additions does not depend on the workers.
    let bits = same("evaluation", handle.join()??.to_bits(), &expected.to_bits())?;
    let value = f64::from_bits(bits);
    writeln!(
        out,
        "  evaluation  {size} nodes at x=0.3, y=0.7, z=1.1\n              = {value}"
    )?;
    Ok(())
}

/// One task for each pattern, over the same expression.
fn patterns(pool: &Pool, out: &mut impl Write) -> Shown {
    let expr = Arc::new(sample::expression(8, 20_000));
    let texts = [
        "sin(?a)",
        "?a^2",
        "sin(?a)^2 + cos(?a)^2",
        "exp(?a)*exp(?b)",
    ];
    let mut group = pool.group();
    let mut expected = Vec::new();
    for text in texts {
        let pattern = parse::pattern(text)?;
        expected.push(matches(&pattern, &expr, &Sequential));
        let expr = expr.clone();
        group.submit(move || matches(&pattern, &expr, &Parallel));
    }
    let found = same("patterns", group.try_join_all()?, &expected)?;
    writeln!(out, "  patterns    in {} nodes", expr.size())?;
    for (text, found) in texts.iter().zip(found) {
        let shortest = found.iter().min_by_key(|found| found.place.size());
        let example = shortest.map_or(String::new(), |found| {
            let holes = found
                .known
                .iter()
                .map(|(name, value)| format!("?{name} = {value}"));
            format!(
                " such as {}: {}",
                found.place,
                holes.collect::<Vec<_>>().join(", ")
            )
        });
        writeln!(
            out,
            "              {text:<22} {:>5} places{example}",
            found.len()
        )?;
    }
    Ok(())
}
