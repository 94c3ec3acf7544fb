//! Measures filch beside its peers. `README.md` says what is measured and how to read it.

mod alloc;
mod args;
mod busy;
mod countdown;
mod cpu_time;
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
mod seed003;
mod stack;
mod stats;
mod stopwatch;
mod submits;
mod suites;
mod tally;

use args::{Args, Command};
use harness::{Case, Config};
use report::Report;
use std::{io, process::ExitCode};
use suites::Suite;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// What `sysexits` and most tools use for a command line that makes no sense.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    // Before any thread is started.
    stack::deepen();
    // Before anything is pinned: which cores may this process use?
    pin::cores();
    let done = args::parse(std::env::args_os().skip(1)).and_then(|command| match command {
        Command::Help => {
            print!("{}", args::help());
            Ok(())
        }
        Command::List => {
            list();
            Ok(())
        }
        Command::Run(args) => run(&args),
        Command::Pending(reading) => reading.print(),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("filch-bench: {message}");
            ExitCode::from(USAGE_ERROR)
        }
    }
}

fn list() {
    let config = Config::default();
    for suite in suites::ALL {
        println!("{}: {}", suite.name, suite.about);
        let mut seen = "";
        for case in (suite.cases)(&config) {
            if case.name() != seen {
                seen = case.name();
                println!("  {seen}: {}", case.system_names().join(", "));
            }
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let mut selected = Vec::new();
    for suite in &args.suites {
        let cases = select(suite, args);
        if !cases.is_empty() {
            selected.push((suite, cases));
        }
    }
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

/// The cases of `suite` that the command line asks for, with the systems that it asks for.
fn select(suite: &Suite, args: &Args) -> Vec<Case> {
    let wanted = |names: &[String], name: &str| {
        names.is_empty() || names.iter().any(|wanted| wanted == name)
    };
    let mut cases = (suite.cases)(&args.config);
    for case in &mut cases {
        case.keep_systems(|system| wanted(&args.systems, system));
    }
    cases.retain(|case| wanted(&args.cases, case.name()) && !case.system_names().is_empty());
    cases
}
