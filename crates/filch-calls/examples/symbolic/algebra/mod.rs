//! A small computer algebra: expressions, their text, derivatives, rewrite rules, polynomials.
//!
//! Nothing here knows a scheduler. What can be done in parts asks a [`Both`] how: [`InTurn`] on the
//! calling thread, or something of the caller's that does two things at once. The parts are the
//! same either way, and so is the result, to the last bit.

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
pub(crate) use halves::{Both, InTurn};
pub(crate) use pattern::{Rule, matches};
pub(crate) use polynomial::Polynomial;
pub(crate) use simplify::simplify;
