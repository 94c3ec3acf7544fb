//! Scaling curves of a program, beyond the number of cores of the machine.

use crate::{case::Case, error::CaseError, simulation::Simulation};
use std::fmt;

/// The makespans of one program with increasing numbers of workers.
///
/// ```
/// use filch_sim::{Case, Curve, Program};
///
/// let case = Case::new(1, Program::wide(1_000, 100));
/// let curve = Curve::draw(&case, &[1, 2, 4])?;
/// assert!(curve.points[1].speedup > 1.9);
/// println!("{curve}");
/// # Ok::<(), filch_sim::CaseError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Curve {
    /// One point for each number of workers.
    pub points: Vec<Point>,
}

/// One run of a [`Curve`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The number of workers.
    pub workers: usize,
    /// The makespan, in ticks.
    pub makespan: u64,
    /// The speedup over the first run of the curve.
    pub speedup: f64,
}

impl Curve {
    /// Runs `case` once with each number of workers. The case should not name individual workers.
    ///
    /// ```
    /// use filch_sim::{Case, Curve, Program};
    ///
    /// let curve = Curve::draw(&Case::new(1, Program::wide(100, 1_000)), &[1, 2, 4])?;
    /// assert!(curve.points[2].speedup > curve.points[1].speedup);
    /// # Ok::<(), filch_sim::CaseError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the case is invalid or a run breaks a rule of the engine.
    pub fn draw(case: &Case, workers: &[usize]) -> Result<Self, CaseError> {
        let mut points: Vec<Point> = Vec::new();
        for &workers in workers {
            let mut case = case.clone();
            case.config.workers = workers;
            let outcome = Simulation::new(case)?
                .run()
                .map_err(|failure| CaseError::new(failure.to_string()))?;
            let first = points.first().map_or(outcome.makespan, |p| p.makespan);
            points.push(Point {
                workers,
                makespan: outcome.makespan,
                speedup: first as f64 / outcome.makespan.max(1) as f64,
            });
        }
        Ok(Self { points })
    }
}

/// The width of the bar of a run with ideal speedup, in characters.
const WIDTH: f64 = 50.0;

/// Prints a table with a bar for each run, whose length is the share of the ideal speedup.
impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>8} {:>12} {:>8} {:>6}",
            "workers", "ticks", "speedup", "ideal%"
        )?;
        let first = self.points.first().map_or(1, |point| point.workers.max(1));
        for point in &self.points {
            let share = point.speedup * first as f64 / point.workers.max(1) as f64;
            let bar = "#".repeat((share.clamp(0.0, 1.2) * WIDTH).round() as usize);
            writeln!(
                f,
                "{:>8} {:>12} {:>8.2} {:>6.1} {bar}",
                point.workers,
                point.makespan,
                point.speedup,
                100.0 * share
            )?;
        }
        Ok(())
    }
}
