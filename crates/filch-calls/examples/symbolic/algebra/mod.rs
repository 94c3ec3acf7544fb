//! A small computer algebra: expressions, their text, derivatives, rewrite rules, polynomials.
//!
//! Nothing here depends on a scheduler. Work that can be divided is run by a [`Join`]:
//! [`Sequential`] on the calling thread, or an implementation of the caller that runs two closures
//! in parallel. The division is the same in both cases, and so is the result, to the last bit.

pub(crate) mod differentiate;
pub(crate) mod expr;
pub(crate) mod halves;
mod normal;
pub(crate) mod parse;
pub(crate) mod pattern;
pub(crate) mod polynomial;
pub(crate) mod rational;
pub(crate) mod sample;
pub(crate) mod simplify;
mod text;

pub(crate) use differentiate::differentiate;
pub(crate) use expr::{Expr, Point};
pub(crate) use halves::{Join, Sequential};
pub(crate) use pattern::{Rule, matches};
pub(crate) use polynomial::Polynomial;
pub(crate) use simplify::simplify;
