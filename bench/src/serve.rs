//! The counterpart of [`driver`](crate::driver): takes one sample per input line for another
//! process.
//!
//! A line names a suite, a case, a system and a number of workers. The answer is a line with the
//! nanoseconds per operation of each reading. The pools and data of a case are kept until another
//! case is requested.

use crate::{
    harness::{Case, Config},
    suites,
};
use std::io::{BufRead, Write};

/// The subcommand.
pub(crate) const COMMAND: &str = "serve";

/// Answers requests until the input ends.
pub(crate) fn run(
    config: &Config,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), String> {
    let mut current: Option<(Which, Case)> = None;
    for line in input.lines() {
        let line = line.map_err(|error| format!("cannot read the input: {error}"))?;
        let (which, system) = read(&line)?;
        let case = match current.take() {
            Some((same, case)) if same == which => case,
            other => {
                // Drops the workers of the previous case before those of the next one start.
                drop(other);
                which.find(config)?
            }
        };
        let (_, case) = current.insert((which, case));
        let Some(readings) = case.sample(&system) else {
            let systems = case.system_names().join(", ");
            return Err(format!(
                "there is no system {system:?} in case {:?}; choose one of {systems}",
                case.name()
            ));
        };
        let nanos: Vec<_> = readings.nanos.iter().map(f64::to_string).collect();
        let answered = writeln!(output, "{}", nanos.join(" ")).and_then(|()| output.flush());
        if answered.is_err() {
            // The requesting process has exited.
            return Ok(());
        }
    }
    Ok(())
}

/// A case, identified by its names.
#[derive(Debug, PartialEq, Eq)]
struct Which {
    suite: String,
    case: String,
    workers: usize,
}

/// Parses a line into the case and the system.
fn read(line: &str) -> Result<(Which, String), String> {
    let wrong = || format!("{line:?} is not a suite, a case, a system and a number of workers");
    let words: Vec<_> = line.split_whitespace().collect();
    let &[suite, case, system, workers] = &words[..] else {
        return Err(wrong());
    };
    let workers = workers.parse().ok().filter(|&workers| workers > 0);
    let which = Which {
        suite: suite.to_owned(),
        case: case.to_owned(),
        workers: workers.ok_or_else(wrong)?,
    };
    Ok((which, system.to_owned()))
}

impl Which {
    fn find(&self, config: &Config) -> Result<Case, String> {
        let Self { suite, case, .. } = self;
        let missing = || format!("there is no case {case:?} in a suite {suite:?}");
        let config = Config {
            workers: Some(vec![self.workers]),
            ..config.clone()
        };
        let suite = suites::ALL.iter().find(|known| known.name == suite);
        let cases = (suite.ok_or_else(missing)?.cases)(&config);
        let mut cases = cases.into_iter();
        let case = cases.find(|known| known.name() == case && known.workers() == self.workers);
        case.ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::harness::Config;

    fn answers(lines: &str) -> (Result<(), String>, String) {
        let config = Config {
            quick: true,
            ..Config::default()
        };
        let mut output = Vec::new();
        let done = run(&config, lines.as_bytes(), &mut output);
        (done, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_line_for_a_line() {
        let (done, output) = answers("data sort rayon 1\ndata sort seq 1\ndata sort rayon 2\n");
        assert_eq!(done, Ok(()));
        let nanos: Vec<f64> = output.lines().flat_map(str::parse).collect();
        assert_eq!(nanos.len(), 3, "{output}");
        assert!(nanos.iter().all(|&nanos| nanos > 0.0), "{output}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_explained() {
        for (line, why) in [
            ("", "a number of workers"),
            ("data sum rayon", "\"data sum rayon\""),
            ("data sum rayon 1 2", "a number of workers"),
            ("data sum rayon two", "a number of workers"),
            ("data sum rayon 0", "a number of workers"),
            ("date sum rayon 1", "\"date\""),
            ("data some rayon 1", "\"some\""),
            ("data sum chili 1", "filch, rayon, seq"),
        ] {
            let (done, output) = answers(&format!("{line}\n"));
            assert!(done.clone().unwrap_err().contains(why), "{line}: {done:?}");
            assert_eq!(output, "");
        }
    }
}
