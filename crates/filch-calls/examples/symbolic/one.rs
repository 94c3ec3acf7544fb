//! One expression from the command line, by calls.

use crate::{
    algebra::pattern::{EXPANSION, IDENTITIES},
    functions::{Formula, Found},
    options::Options,
};
use filch::Pool;
use filch_calls::{Call, Registry};
use std::{collections::BTreeMap, error::Error, io::Write};

/// Simplifies, differentiates, evaluates and matches, as the options say.
pub(crate) fn show(
    options: &Options,
    pool: &Pool,
    registry: &Registry,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let mut rules: Vec<&str> = IDENTITIES.to_vec();
    rules.extend(options.rules.iter().map(|rule| &rule[..]));
    if options.expand {
        rules.extend(EXPANSION);
    }
    let simplified = |formula: &Formula| {
        let call = Call::new("Simplify", &(formula, &rules))?;
        registry.submit::<Formula>(pool, call)?.join()
    };
    let expression = options.expression.clone().ok_or("no expression")?;
    let given = Formula(expression);
    writeln!(out, "given      {}", given.0)?;
    let mut formula = simplified(&given)?;
    if formula != given {
        writeln!(out, "simpler    {}", formula.0)?;
    }
    for by in &options.derive {
        let call = Call::new("Differentiate", &(&formula, by))?;
        writeln!(out, "call       {}", call.to_json())?;
        formula = simplified(&registry.submit::<Formula>(pool, call)?.join()?)?;
        writeln!(out, "{:<10} {}", format!("d/d{by}"), formula.0)?;
    }
    for pattern in &options.patterns {
        let call = Call::new("Match", &(pattern, &formula))?;
        let found = registry.submit::<Vec<Found>>(pool, call)?.join()?;
        let places = if found.len() == 1 { "place" } else { "places" };
        writeln!(out, "{pattern} matches {} {places}", found.len())?;
        for Found { place, holes } in found {
            let holes = holes
                .iter()
                .map(|(name, value)| format!("{name} = {value}"));
            let holes = holes.collect::<Vec<_>>().join(", ");
            writeln!(out, "           {place}   {holes}")?;
        }
    }
    if !options.at.is_empty() {
        let at: BTreeMap<_, _> = options.at.iter().cloned().collect();
        let call = Call::new("Evaluate", &(&formula, &at))?;
        let value = registry.submit::<Option<f64>>(pool, call)?.join()?;
        let point = at.iter().map(|(name, value)| format!("{name}={value}"));
        let point = format!("at {}", point.collect::<Vec<_>>().join(","));
        match value {
            Some(value) => writeln!(out, "{point:<10} {value}")?,
            None => writeln!(out, "{point:<10} no value")?,
        }
    }
    Ok(())
}
