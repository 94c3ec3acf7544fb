//! A small computer algebra whose work runs as tasks: calls by name, closures, parallel evaluation
//! and pattern matching, with results compared to those of one thread, and the speed-up measured.
//!
//! `cargo run --release --example symbolic`
//!
//! `cargo run --release --example symbolic -- "sin(x)*x^2" --derive x --at x=2`

mod algebra;
mod functions;
mod kinds;
mod one;
mod options;
mod speed;

use algebra::Join;
use filch::Pool;
use options::Options;
use std::{
    env,
    error::Error,
    io::{self, Write},
    process::ExitCode,
    thread,
};

const HELP: &str = "\
A small computer algebra on a pool of workers.

Usage: symbolic                          show every kind of task, and the speed-up
       symbolic EXPRESSION [OPTIONS]     work on one expression, such as \"sin(x)^2 + 3*x*y\"

  --derive X      differentiate by X; again for the second derivative
  --at x=2,y=pi   evaluate the result there
  --rule \"A -> B\" one more rule for the simplification, such as \"sin(2*?a) -> 2*sin(?a)*cos(?a)\"
  --expand        multiply products of sums out
  --match PATTERN show what the pattern matches, such as \"sin(?a)\"
  --workers N     how many workers [one for each core]
  --help          this text

There are + - * / ^, sin, cos, tan, exp, ln, sqrt, pi, e and exact fractions.";

/// Calls both closures in parallel, on the pool whose worker the caller is.
struct Parallel;

impl Join for Parallel {
    fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        filch::join(a, b)
    }
}

fn main() -> ExitCode {
    let options = Options::parse(env::args().skip(1));
    match options.and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("symbolic: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    if options.help {
        writeln!(out, "{HELP}")?;
        return Ok(());
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = options.workers.unwrap_or(cores);
    // The calling thread is a worker while it waits, so the pool needs one less.
    let pool = Pool::builder().workers(workers - 1).build()?;
    let registry = functions::registry()?;
    if options.expression.is_some() {
        return one::show(options, &pool, &registry, &mut out);
    }
    writeln!(out, "A small computer algebra, on {workers} workers\n")?;
    kinds::show(&pool, &registry, &mut out)?;
    writeln!(out)?;
    speed::table(&pool, &mut out)?;
    writeln!(
        out,
        "\nTry one of your own: symbolic \"(x + 1)^2*exp(-x)\" --derive x --expand --at x=2"
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_task_gives_what_one_thread_gives() {
        for workers in [0, 2] {
            let pool = Pool::builder().workers(workers).build().unwrap();
            let registry = functions::registry().unwrap();
            let mut out = Vec::new();
            kinds::show(&pool, &registry, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains("= x^2*cos(x) + 2*x*sin(x)"), "{out}");
            assert!(out.contains("= -2*y"), "{out}");
        }
    }

    #[test]
    fn one_expression_from_the_command_line() {
        let arguments = [
            "sin(x)*x^2",
            "--derive",
            "x",
            "--at",
            "x=2",
            "--match",
            "cos(?a)",
        ];
        let options = Options::parse(arguments.into_iter().map(String::from)).unwrap();
        let pool = Pool::builder().workers(1).build().unwrap();
        let mut out = Vec::new();
        one::show(&options, &pool, &functions::registry().unwrap(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("d/dx       x^2*cos(x) + 2*x*sin(x)"), "{out}");
        assert!(out.contains("cos(?a) matches 1 place\n"), "{out}");
        assert!(out.contains("at x=2     1.97260236"), "{out}");
    }
}
