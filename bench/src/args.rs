//! The command line.

use crate::{
    harness::Config,
    serve,
    suites::{
        self, Suite,
        future::pending::{self, Reading},
    },
};
use lexopt::{Arg, Parser, ValueExt};
use std::{ffi::OsString, path::PathBuf};

/// What the command line requests.
#[derive(Debug)]
pub(crate) enum Command {
    /// Print the help.
    Help,
    /// Print suites, cases and systems.
    List,
    /// Measure.
    Run(Args),
    /// Measure memory once, in a process that the suite `future` starts for it.
    Pending(Reading),
    /// Take the samples that are requested on standard input: see [`crate::serve`].
    Serve(Config),
}

/// What to measure, and how to print it. An empty list of names means all of them.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) suites: Vec<&'static Suite>,
    pub(crate) cases: Vec<String>,
    pub(crate) systems: Vec<String>,
    pub(crate) json: bool,
    /// The driver, which runs rayon on filch's workers, if it is not beside this program.
    pub(crate) driver: Option<PathBuf>,
    pub(crate) config: Config,
}

pub(crate) fn help() -> String {
    let mut help = String::from(
        "Measures filch beside its peers.

Usage: filch-bench SUITE [OPTIONS]
       filch-bench all [OPTIONS]
       filch-bench list
       filch-bench serve [--quick]    takes one sample per input line, which is
                                      SUITE CASE SYSTEM WORKERS, and prints its nanoseconds

Options:
  --quick           fewer rounds and tasks: at most 40 s per suite
  --rounds N        samples of each system, instead of 15 in most suites; take more for cases
                    whose times have several modes
  --json            one JSON object per line instead of tables
  --oversubscribed  also 8 and 32 workers in the suites of the fork-join pool
  --workers N,...   numbers of workers, in suites that do not fix them
  --case NAME,...   only these cases
  --system NAME,... only these systems
  --driver PATH     the program that runs rayon on filch's workers, built in compat/bench;
                    by default rayon-on-filch in the folder of this program, if it exists
  --help            this text

Suites:
",
    );
    for suite in suites::ALL {
        help += &format!("  {:<17} {}\n", suite.name, suite.about);
    }
    help
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Command, String> {
    parse_with(&mut Parser::from_args(args))
}

fn parse_with(parser: &mut Parser) -> Result<Command, String> {
    let mut words = Vec::new();
    let mut args = Args {
        suites: Vec::new(),
        cases: Vec::new(),
        systems: Vec::new(),
        json: false,
        driver: None,
        config: Config::default(),
    };
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Long("quick") => args.config.quick = true,
            Arg::Long("oversubscribed") => args.config.oversubscribed = true,
            Arg::Long("json") => args.json = true,
            Arg::Long("workers") => args.config.workers = Some(workers(&value(parser)?)?),
            Arg::Long("rounds") => {
                args.config.rounds = Some(count(&value(parser)?, "rounds", "101")?);
            }
            Arg::Long("case") => args.cases.extend(names(&value(parser)?)),
            Arg::Long("system") => args.systems.extend(names(&value(parser)?)),
            Arg::Long("driver") => args.driver = Some(path(parser)?),
            Arg::Value(value) if words.first().is_none_or(|word| word == pending::COMMAND) => {
                words.push(value.string().map_err(|error| error.to_string())?);
            }
            other => return Err(format!("{}; try --help", other.unexpected())),
        }
    }
    args.suites = match words.first().map(String::as_str) {
        Some(pending::COMMAND) => return reading(&words[1..]).map(Command::Pending),
        Some(serve::COMMAND) => return Ok(Command::Serve(args.config)),
        Some("list") => return Ok(Command::List),
        Some("help") => return Ok(Command::Help),
        Some("all") => suites::ALL.iter().collect(),
        Some(name) => match suites::ALL.iter().find(|suite| suite.name == name) {
            Some(suite) => vec![suite],
            None => return Err(format!("there is no suite {name:?}; {}", choice())),
        },
        None => return Err(format!("which suite? {}", choice())),
    };
    Ok(Command::Run(args))
}

fn reading(words: &[String]) -> Result<Reading, String> {
    let number = |word: &String| {
        word.parse()
            .map_err(|_| format!("{word:?} is not a number"))
    };
    let ([system, workers, futures, size] | [system, workers, futures, size, _]) = words else {
        return Err(
            "a reading needs a system and numbers: of workers, of futures and of the words of \
             each; `left` behind them measures what is left when the futures have ended"
                .to_owned(),
        );
    };
    Ok(Reading {
        system: system.clone(),
        workers: number(workers)?,
        futures: number(futures)?,
        words: number(size)?,
        rest: words.get(4).is_some_and(|word| word == "left"),
    })
}

fn choice() -> String {
    let names: Vec<_> = suites::ALL.iter().map(|suite| suite.name).collect();
    format!("choose one of {}, or all", names.join(", "))
}

fn value(parser: &mut Parser) -> Result<String, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    value.string().map_err(|error| error.to_string())
}

fn path(parser: &mut Parser) -> Result<PathBuf, String> {
    let path = parser.value().map_err(|error| error.to_string())?;
    Ok(path.into())
}

fn names(list: &str) -> impl Iterator<Item = String> {
    list.split(',').map(|name| name.trim().to_owned())
}

fn workers(list: &str) -> Result<Vec<usize>, String> {
    names(list)
        .map(|number| count(&number, "workers", "1,2"))
        .collect()
}

fn count(number: &str, of: &str, example: &str) -> Result<usize, String> {
    match number.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!(
            "{number:?} is not a number of {of}; give at least 1, such as {example}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, parse};

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn options_are_read() {
        let line = "queue --quick --rounds 7 --json --oversubscribed --workers 1,2 --case a,b --system filch --case c --driver x/y";
        let Ok(Command::Run(args)) = parsed(line) else {
            panic!("not read");
        };
        assert_eq!(args.suites[0].name, "queue");
        assert_eq!(args.cases, ["a", "b", "c"]);
        assert_eq!(args.systems, ["filch"]);
        assert_eq!(args.config.workers, Some(vec![1, 2]));
        assert_eq!(args.config.rounds, Some(7));
        assert_eq!(args.driver, Some("x/y".into()));
        assert!(args.json && args.config.quick && args.config.oversubscribed);
    }

    #[test]
    fn a_server_is_told_how_much_to_measure() {
        let Ok(Command::Serve(config)) = parsed("serve --quick") else {
            panic!("not read");
        };
        assert!(config.quick);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_explained() {
        assert!(parsed("quue").unwrap_err().contains("executor"));
        assert!(parsed("").unwrap_err().contains("queue"));
        assert!(parsed("queue --workers 0").unwrap_err().contains("\"0\""));
        assert!(
            parsed("queue --rounds few")
                .unwrap_err()
                .contains("\"few\" is not a number of rounds")
        );
        assert!(parsed("queue idle").unwrap_err().contains("--help"));
        assert!(parsed("queue --fast").unwrap_err().contains("--fast"));
    }

    #[test]
    fn every_suite_has_cases_with_filch_and_names_of_plain_words() {
        for suite in crate::suites::ALL {
            let cases = (suite.cases)(&crate::harness::Config::default());
            assert!(!cases.is_empty(), "{}", suite.name);
            for case in cases {
                let systems = case.system_names();
                assert!(systems.contains(&"filch"), "{}", case.name());
                for name in systems.into_iter().chain([case.name(), suite.name]) {
                    let plain = |c: char| c.is_ascii_lowercase() || "_-0123456789".contains(c);
                    assert!(name.chars().all(plain), "{name}");
                }
            }
        }
    }
}
