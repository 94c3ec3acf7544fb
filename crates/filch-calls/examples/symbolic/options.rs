//! The command line.

use crate::algebra::{Expr, Point, Rule, Sequential, parse};
use std::error::Error;

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) expression: Option<Expr>,
    /// The variables, in turn.
    pub(crate) derive: Vec<String>,
    pub(crate) at: Vec<(String, f64)>,
    pub(crate) rules: Vec<String>,
    pub(crate) patterns: Vec<String>,
    pub(crate) expand: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) help: bool,
}

impl Options {
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        let mut first = None;
        while let Some(name) = arguments.next() {
            if name.starts_with("--") {
                // Only options that need an expression are errors without one.
                let neutral = ["--help", "--workers"].contains(&&name[..]);
                first = first.or((!neutral).then(|| name.clone()));
            }
            let mut value = || {
                let missing = || format!("{name} needs a value; see --help");
                arguments.next().ok_or_else(missing)
            };
            match name.as_str() {
                "--help" | "-h" => options.help = true,
                "--expand" => options.expand = true,
                "--derive" => options.derive.push(variable(&value()?)?),
                "--at" => options.at.append(&mut point(&value()?)?),
                "--rule" => options.rules.push(value()?),
                "--match" => options.patterns.push(value()?),
                "--workers" => match value()?.parse() {
                    Ok(workers @ 1..=256) => options.workers = Some(workers),
                    _ => return Err("--workers takes a number from 1 to 256".into()),
                },
                _ if name.starts_with("--") => {
                    return Err(format!("unknown option {name}; see --help").into());
                }
                _ if options.expression.is_some() => {
                    let what = "is a second expression; put the whole one in quotes";
                    return Err(format!("{name:?} {what}").into());
                }
                _ => options.expression = Some(parse::expression(&name)?),
            }
        }
        // Parsed here, so that errors are reported before anything runs.
        Rule::all(&options.rules)?;
        for pattern in &options.patterns {
            parse::pattern(pattern)?;
        }
        match first {
            Some(name) if options.expression.is_none() && !options.help => {
                Err(format!("{name} needs an expression to work on; see --help").into())
            }
            _ => Ok(options),
        }
    }
}

fn variable(text: &str) -> Result<String, Box<dyn Error>> {
    let is_name = text.chars().all(|c| c.is_alphanumeric() || c == '_');
    match is_name && text.starts_with(char::is_alphabetic) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not the name of a variable").into()),
    }
}

/// `x=2,y=pi/3`
fn point(text: &str) -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let coordinate = |part: &str| -> Result<_, Box<dyn Error>> {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("--at takes values such as x=2, not {part:?}"))?;
        let value = parse::expression(value)?.value(&Point::default(), &Sequential)?;
        Ok((variable(name.trim())?, value))
    };
    text.split(',').map(coordinate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, String> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        Options::parse(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        let options = parsed(&["-x^2", "--derive", "x", "--at", "x=1/2,y=pi"]).unwrap();
        assert_eq!(options.expression.unwrap().to_string(), "-x^2");
        assert_eq!(options.derive, ["x"]);
        assert_eq!(options.at[0], ("x".into(), 0.5));
        assert!(parsed(&["--derive", "x", "--help"]).unwrap().help);
    }

    #[test]
    fn invalid_options_are_errors() {
        for (arguments, what) in [
            (&["--derive", "x"][..], "--derive needs an expression"),
            (&["x", "--derive"], "--derive needs a value"),
            (&["x", "--derive", "x^2"], "not the name of a variable"),
            (&["x", "--at", "x"], "such as x=2"),
            (&["x", "--at", "x=y"], "y has no value"),
            (&["x", "--rule", "x"], "no \"->\""),
            (&["x", "--match", "sin("], "after the end"),
            (&["x", "--workers", "0"], "from 1 to 256"),
            (&["x", "y"], "a second expression"),
            (&["--frobnicate"], "unknown option --frobnicate"),
            (&["x +"], "after the end"),
        ] {
            let error = parsed(arguments).err().expect("refused");
            assert!(error.contains(what), "{arguments:?}: {error}");
        }
    }
}
