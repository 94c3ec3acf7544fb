//! From text to expressions.

use super::{
    expr::{Expr, Function},
    rational::Rational,
};
use std::{error::Error, fmt, str::FromStr};

/// How deep parentheses, powers and signs may be nested: as deep as any thread's stack takes with
/// ease.
const DEEPEST: usize = 200;

/// Reads an expression such as `sin(x)^2 + 3*x*y`.
///
/// # Errors
/// What was expected instead, and where.
pub(crate) fn expression(text: &str) -> Result<Expr, ParseError> {
    whole(text, false)
}

/// Reads a pattern: an expression with holes, `?a * (?b + 1)`.
///
/// # Errors
/// As [`expression`].
pub(crate) fn pattern(text: &str) -> Result<Expr, ParseError> {
    whole(text, true)
}

impl FromStr for Expr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        expression(text)
    }
}

/// Where a text stops being an expression.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    text: String,
    /// In characters, from zero.
    column: usize,
    what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, column) = (&self.text, self.column);
        write!(f, "{}\n    {text}\n    {:column$}^", self.what, "")
    }
}

impl Error for ParseError {}

fn whole(text: &str, holes: bool) -> Result<Expr, ParseError> {
    let mut parser = Parser {
        text,
        rest: text,
        depth: 0,
        holes,
    };
    let expr = parser.sum()?;
    match parser.peek() {
        None => Ok(expr),
        Some(other) => Err(parser.error(format!("expected an operator, not {other:?}"))),
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    depth: usize,
    holes: bool,
}

impl<'t> Parser<'t> {
    fn sum(&mut self) -> Result<Expr, ParseError> {
        let mut terms = vec![self.product()?];
        loop {
            if self.takes('+') {
                terms.push(self.product()?);
            } else if self.takes('-') {
                terms.push(self.product()?.negated());
            } else {
                return Ok(Expr::sum(terms));
            }
        }
    }

    fn product(&mut self) -> Result<Expr, ParseError> {
        let mut factors = vec![self.signed()?];
        loop {
            if self.takes('*') {
                factors.push(self.signed()?);
            } else if self.takes('/') {
                factors.push(Expr::power(self.signed()?, Expr::integer(-1)));
            } else {
                return Ok(Expr::product(factors));
            }
        }
    }

    /// Every way to nest leads through here.
    fn signed(&mut self) -> Result<Expr, ParseError> {
        if self.depth == DEEPEST {
            return Err(self.error(format!("nested deeper than {DEEPEST} levels")));
        }
        self.depth += 1;
        let expr = match self.takes('-') {
            true => self.signed()?.negated(),
            false => self.power()?,
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn power(&mut self) -> Result<Expr, ParseError> {
        let base = self.atom()?;
        match self.takes('^') {
            // To the right first, and with its own sign: 2^-x^2 is 2^(-(x^2)).
            true => Ok(Expr::power(base, self.signed()?)),
            false => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<Expr, ParseError> {
        match self.peek() {
            Some('(') => self.parentheses(),
            Some('?') if self.holes => {
                self.takes('?');
                match self.name() {
                    Some(name) => Ok(Expr::hole(name)),
                    None => Err(self.error("a hole needs a name right after its '?'")),
                }
            }
            Some('?') => Err(self.error("holes belong into patterns, not into expressions")),
            Some('0'..='9' | '.') => self.number(),
            Some(first) if first.is_alphabetic() => self.variable_or_call(),
            Some(other) => {
                Err(self.error(format!("expected a number, a name or '(', not {other:?}")))
            }
            None => Err(self.error("expected a number, a name or '(' after the end")),
        }
    }

    fn parentheses(&mut self) -> Result<Expr, ParseError> {
        self.takes('(');
        let inner = self.sum()?;
        match self.takes(')') {
            true => Ok(inner),
            false => Err(self.error("expected an operator or ')'")),
        }
    }

    fn variable_or_call(&mut self) -> Result<Expr, ParseError> {
        let before = self.rest;
        let name = self.name().unwrap_or_default();
        if self.peek() != Some('(') {
            return Ok(Expr::variable(name));
        }
        if name == "sqrt" {
            let half = Rational::new(1, 2).map(Expr::number);
            return Ok(Expr::power(self.parentheses()?, half.expect("a half fits")));
        }
        match Function::ALL.into_iter().find(|known| known.name() == name) {
            Some(function) => Ok(Expr::call(function, self.parentheses()?)),
            None => {
                self.rest = before;
                let known = Function::ALL.map(Function::name).join(", ");
                Err(self.error(format!(
                    "there is no function {name}; there are {known} and sqrt (for a product, write *)"
                )))
            }
        }
    }

    /// Exact: 0.25 is a quarter.
    fn number(&mut self) -> Result<Expr, ParseError> {
        let before = self.rest;
        let whole = self.run(|c| c.is_ascii_digit());
        let decimals = match self.rest.strip_prefix('.') {
            Some(rest) => {
                self.rest = rest;
                self.run(|c| c.is_ascii_digit())
            }
            None => "",
        };
        let value = || {
            let digits: i128 = format!("{whole}{decimals}").parse().ok()?;
            let scale = 10_i128.checked_pow(decimals.len().try_into().ok()?)?;
            Rational::new(digits, scale)
        };
        value().map(Expr::number).ok_or_else(|| {
            self.rest = before;
            self.error("a number of this size or precision does not fit into 64 bits")
        })
    }

    fn name(&mut self) -> Option<&'t str> {
        let first = self.rest.chars().next()?;
        let name = |c: char| c.is_alphanumeric() || c == '_';
        first.is_alphabetic().then(|| self.run(name))
    }

    /// Takes the characters for which `test` holds.
    fn run(&mut self, test: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !test(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn error(&self, what: impl Into<String>) -> ParseError {
        let before = &self.text[..self.text.len() - self.rest.len()];
        ParseError {
            text: self.text.to_owned(),
            column: before.chars().count(),
            what: what.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, String) {
        let error = expression(text).expect_err("no expression");
        (error.column, error.what)
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, column, what) in [
            ("", 0, "after the end"),
            ("x +", 3, "after the end"),
            ("x + * y", 4, "not '*'"),
            ("2 x", 2, "expected an operator"),
            ("(x + 1", 6, "')'"),
            ("x)", 1, "expected an operator"),
            ("  foo(x)", 2, "no function foo"),
            ("?a + 1", 0, "patterns"),
            ("1 + 99999999999999999999", 4, "64 bits"),
            ("1 + .", 4, "64 bits"),
            ("ä + $", 4, "not '$'"),
        ] {
            let (at, said) = refused(text);
            assert_eq!(at, column, "{text}: {said}");
            assert!(said.contains(what), "{text}: {said}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_crash() {
        for (open, close) in [("(", ")"), ("-", ""), ("x^", ""), ("sin(", ")")] {
            let deep = format!("{}x{}", open.repeat(100_000), close.repeat(100_000));
            assert!(refused(&deep).1.contains("nested deeper"), "{open}");
            let fine = format!("{}x{}", open.repeat(150), close.repeat(150));
            assert!(expression(&fine).is_ok(), "{open}");
        }
    }

    #[test]
    fn the_caret_points_at_the_place() {
        let error = expression("x + $").expect_err("no expression");
        assert!(error.to_string().ends_with("\n    x + $\n        ^"));
    }

    #[test]
    fn patterns_have_holes() {
        assert_eq!(
            pattern("?a * (?b + ?a)").unwrap().to_string(),
            "?a*(?b + ?a)"
        );
        assert!(pattern("? a").is_err());
    }
}
