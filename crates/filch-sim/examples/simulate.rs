//! Runs the deterministic simulator: random cases from seeds, saved cases, programs, scaling
//! curves.
//!
//! `cargo run --release -p filch-sim --example simulate -- --help`

use filch_sim::{Case, Curve, Failure, Outcome, Program, Simulation};
use std::{
    error::Error,
    fmt::Display,
    fs,
    io::{IsTerminal, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Drives the scheduler of filch with virtual workers in virtual time, and checks its rules after every
move. The same seed gives the same run.

Usage: simulate [OPTIONS]

Random cases:
  --runs N        run N random cases, one for each seed [1000]
  --from S        start with seed S [0]
  --seed S        run the case of seed S alone, and show its outcome

Cases and programs of your own:
  --replay FILE   run a saved case
  --program FILE  run a program (JSON) on --workers workers
  --workers N     how many workers a program gets [4]
  --curve         run the program, or a tree of tasks, with 1, 2, 4 .. 64 workers

What to show:
  --trace         show every move of a single run
  --shrink        make a failing case smaller before it is shown
  --save FILE     write a failing case to FILE
  --canary NAME   break the engine on purpose (builds with --cfg filch_canary only)
  --help          this text

The exit code is 0 if every rule held, 1 if one was broken, 2 if the options make no sense.";

/// How many runs a shrink may take: some seconds.
const SHRINK_RUNS: u64 = 20_000;

#[derive(Default)]
struct Options {
    runs: Option<u64>,
    from: u64,
    seed: Option<u64>,
    replay: Option<String>,
    program: Option<String>,
    workers: Option<usize>,
    curve: bool,
    trace: bool,
    shrink: bool,
    save: Option<String>,
    canary: Option<String>,
    help: bool,
}

fn main() -> ExitCode {
    let done = parse(std::env::args().skip(1)).and_then(|options| work(&options));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("simulate: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--curve" => options.curve = true,
            "--trace" => options.trace = true,
            "--shrink" => options.shrink = true,
            "--help" | "-h" => options.help = true,
            _ => {
                let mut value = || {
                    let missing = || format!("{name} needs a value; see --help");
                    arguments.next().ok_or_else(missing)
                };
                match name.as_str() {
                    "--runs" => options.runs = Some(number(&value()?)?),
                    "--from" => options.from = number(&value()?)?,
                    "--seed" => options.seed = Some(number(&value()?)?),
                    "--replay" => options.replay = Some(value()?),
                    "--program" => options.program = Some(value()?),
                    "--workers" => options.workers = Some(number(&value()?)? as usize),
                    "--save" => options.save = Some(value()?),
                    "--canary" => options.canary = Some(value()?),
                    _ => return Err(format!("unknown option {name}; see --help").into()),
                }
            }
        }
    }
    Ok(options)
}

/// Prints a line. Errors are ignored: the reader may have closed the pipe.
fn say(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number; see --help"))
}

/// True if every rule held.
fn work(options: &Options) -> Result<bool, Box<dyn Error>> {
    if options.help {
        say(HELP);
        return Ok(true);
    }
    if let Some(name) = &options.canary {
        break_engine(name)?;
    }
    if options.curve {
        return curve(options).map(|()| true);
    }
    if let Some(seed) = options.seed {
        let simulation = Simulation::from_seed(seed);
        if options.trace {
            say(simulation.case().to_json());
        }
        return single(&simulation, options);
    }
    if let Some(path) = &options.replay {
        let simulation = Simulation::new(Case::from_json(&read(path)?)?)?;
        if !simulation.case().note.is_empty() {
            say(&simulation.case().note);
        }
        return single(&simulation, options);
    }
    if options.program.is_some() {
        let case = Case::new(options.workers.unwrap_or(4), program(options)?);
        return single(&Simulation::new(case)?, options);
    }
    many(options)
}

/// Switches a deliberate defect on, to see the simulator find it.
#[cfg(filch_canary)]
fn break_engine(name: &str) -> Result<(), Box<dyn Error>> {
    use filch::canary::{self, Canary};
    let all = [
        Canary::GrowPublish,
        Canary::GateFlush,
        Canary::LastCheck,
        Canary::PushWake,
        Canary::PassOn,
        Canary::LoseTask,
        Canary::LeaveDrop,
        Canary::LaneFlag,
        Canary::LaneLastCheck,
        Canary::LaneOrder,
        Canary::LaneTurns,
        Canary::AffineLastCheck,
        Canary::AffineTake,
    ];
    let found = all.into_iter().find(|c| format!("{c:?}") == name);
    let canary = found.ok_or_else(|| format!("no canary {name}; there are {all:?}"))?;
    canary::set(Some(canary));
    Ok(())
}

#[cfg(not(filch_canary))]
fn break_engine(_name: &str) -> Result<(), Box<dyn Error>> {
    Err("canaries exist only in builds with RUSTFLAGS=\"--cfg filch_canary\"".into())
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

fn program(options: &Options) -> Result<Program, Box<dyn Error>> {
    match &options.program {
        Some(path) => Ok(Program::from_json(&read(path)?)?),
        None => Ok(Program::tree(12, 2, 40)),
    }
}

fn curve(options: &Options) -> Result<(), Box<dyn Error>> {
    let program = program(options)?;
    say(format_args!("{} tasks", program.tasks()?));
    let workers = [1, 2, 4, 8, 16, 32, 64];
    say(Curve::draw(&Case::new(1, program), &workers)?);
    Ok(())
}

fn single(simulation: &Simulation, options: &Options) -> Result<bool, Box<dyn Error>> {
    match simulation.run() {
        Ok(outcome) => {
            show(&outcome, options);
            Ok(true)
        }
        Err(mut failure) => {
            failure.saved = options.replay.as_ref().map(Into::into);
            if options.trace {
                failure.trace.iter().for_each(say);
            }
            report(*failure, options)?;
            Ok(false)
        }
    }
}

fn show(outcome: &Outcome, options: &Options) {
    if options.trace {
        outcome.trace.iter().for_each(say);
    }
    say(outcome);
}

fn many(options: &Options) -> Result<bool, Box<dyn Error>> {
    let runs = options.runs.unwrap_or(1_000);
    let start = Instant::now();
    let mut told = start;
    let (mut moves, mut tasks) = (0, 0);
    for done in 0..runs {
        match Simulation::from_seed(options.from.wrapping_add(done)).run() {
            Ok(outcome) => {
                moves += outcome.moves() as u64;
                tasks += outcome.executed;
            }
            Err(failure) => {
                say(format_args!("run {} of {runs}:", done + 1));
                report(*failure, options)?;
                return Ok(false);
            }
        }
        if std::io::stderr().is_terminal() && told.elapsed() > Duration::from_millis(500) {
            told = Instant::now();
            let speed = done as f64 / start.elapsed().as_secs_f64();
            eprint!("\r{done} of {runs} runs, {speed:.0} a second ");
            std::io::stderr().flush()?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    say(format_args!(
        "{runs} runs from seed {}, {moves} moves, {tasks} tasks: every rule held \
         ({seconds:.1} s, {:.0} runs a second)",
        options.from,
        runs as f64 / seconds.max(1e-9)
    ));
    Ok(true)
}

fn report(mut failure: Failure, options: &Options) -> Result<(), Box<dyn Error>> {
    if options.shrink {
        failure = failure.shrink(SHRINK_RUNS);
    }
    failure.case.canary = options.canary.clone().or(failure.case.canary);
    if let Some(path) = &options.save {
        failure.save(path)?;
    } else if options.shrink {
        say(failure.case.to_json());
    }
    say(&failure);
    Ok(())
}
