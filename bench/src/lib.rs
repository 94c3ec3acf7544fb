//! Measures filch beside its peers. `README.md` describes the suites and how to read the tables.
//!
//! It is a library so that `compat/bench` can build it into a second program, in which rayon runs
//! on filch's workers.

mod alloc;
mod args;
mod busy;
mod countdown;
mod cpu_time;
mod crossbeam_executor;
mod driver;
mod folds;
mod forks;
mod futures;
mod graphs;
mod harness;
mod loops;
mod mailbox;
mod pin;
mod pools;
mod report;
mod serve;
mod stack;
mod stats;
mod stopwatch;
mod submits;
mod suites;
mod tally;

use args::{Args, Command};
use driver::Driver;
use harness::{Case, Config};
use report::Report;
use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};
use suites::Suite;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// The exit code for an invalid command line, as in most tools.
const USAGE_ERROR: u8 = 2;

/// Runs the program.
pub fn main() -> ExitCode {
    // Before any thread is started.
    stack::deepen();
    // Reads the set of allowed cores before any thread is pinned.
    pin::cores();
    let done = args::parse(std::env::args_os().skip(1)).and_then(|command| match command {
        Command::Help => print(&args::help()),
        Command::List => print(&list()),
        Command::Run(args) => run(&args),
        Command::Pending(reading) => reading.print(),
        Command::Serve(config) => serve::run(&config, io::stdin().lock(), io::stdout()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("filch-bench: {message}");
            ExitCode::from(USAGE_ERROR)
        }
    }
}

/// Prints `text`. A reader that closes the pipe early, as `head` does, is no error.
fn print(text: &str) -> Result<(), String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// The suites with their cases and systems.
fn list() -> String {
    let config = Config::default();
    let mut lines = Vec::new();
    for suite in suites::ALL {
        lines.push(format!("{}: {}\n", suite.name, suite.about));
        let mut seen = "";
        let mut cases = (suite.cases)(&config);
        Driver::default().take_part(suite.name, &mut cases);
        for case in cases {
            if case.name() != seen {
                seen = case.name();
                let systems = case.system_names().join(", ");
                lines.push(format!("  {seen}: {systems}\n"));
            }
        }
    }
    lines.concat()
}

fn run(args: &Args) -> Result<(), String> {
    let driver = Driver::default();
    let mut selected: Vec<_> = args
        .suites
        .iter()
        .map(|suite| (suite, select(suite, args, &driver)))
        .collect();
    let cases = || selected.iter().flat_map(|(_, cases)| cases);
    if cases().any(driver::has_part) {
        // Before any thread is pinned, since a child process inherits the affinity.
        match driver.start(args.driver.as_deref(), &args.config) {
            Ok(()) => {}
            Err(why) if args.driver.is_some() => return Err(why),
            Err(why) => {
                eprintln!("filch-bench: {why}");
                let cases = selected.iter_mut().flat_map(|(_, cases)| cases);
                cases.for_each(driver::leave_out);
            }
        }
    }
    for (_, cases) in &mut selected {
        cases.retain(|case| !case.system_names().is_empty());
    }
    selected.retain(|(_, cases)| !cases.is_empty());
    if selected.is_empty() {
        return Err(
            "no case is left: `filch-bench list` shows the cases and systems of each suite"
                .to_owned(),
        );
    }
    for (suite, cases) in selected {
        let mut report = Report::new(io::stdout(), suite.name, args.json);
        report.begin();
        for mut case in cases {
            let rows = case.run();
            report.case(&case, &rows);
        }
    }
    Ok(())
}

/// The requested cases of `suite`, with the requested systems.
fn select(suite: &Suite, args: &Args, driver: &Driver) -> Vec<Case> {
    let wanted = |names: &[String], name: &str| {
        names.is_empty() || names.iter().any(|wanted| wanted == name)
    };
    let mut cases = (suite.cases)(&args.config);
    cases.retain(|case| wanted(&args.cases, case.name()));
    driver.take_part(suite.name, &mut cases);
    for case in &mut cases {
        case.keep_systems(|system| wanted(&args.systems, system));
        if let Some(rounds) = args.config.rounds {
            case.set_rounds(rounds);
        }
    }
    cases
}
