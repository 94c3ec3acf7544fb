//! A loop in a graph: conditions that lead back.
//!
//! `cargo run --release --example condition_loop -- 2`

use filch::{Graph, Rng};
use std::{
    env,
    process::ExitCode,
    sync::{Mutex, MutexGuard, PoisonError},
};

const HELP: &str = "\
Finds a square root by Newton's method in a graph that repeats until the guess is good enough, then
sends it over an unreliable line, with up to five tries.

Usage: condition_loop [NUMBER]

  NUMBER   take the root of this [2]
  --help   this text";

/// Maximum number of tries to send.
const TRIES: u32 = 5;

/// The state that the tasks share.
struct State {
    guess: f64,
    error: f64,
    laps: u32,
    tries: u32,
    sent: bool,
    rng: Rng,
}

fn main() -> ExitCode {
    let number: f64 = match env::args().nth(1).as_deref() {
        None => 2.0,
        Some("--help" | "-h") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(text) => match text.parse() {
            Ok(number) if number > 0.0 && f64::is_finite(number) => number,
            _ => {
                eprintln!("condition_loop: {text:?} has no root that could be found; see --help");
                return ExitCode::from(2);
            }
        },
    };
    match root(number) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("condition_loop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn root(number: f64) -> Result<(), Box<dyn std::error::Error>> {
    let state = Mutex::new(State {
        guess: number,
        error: f64::INFINITY,
        laps: 0,
        tries: 0,
        sent: false,
        rng: Rng::new(4),
    });
    let state =
        || -> MutexGuard<'_, State> { state.lock().unwrap_or_else(PoisonError::into_inner) };

    let graph = Graph::new();
    let start = graph.task("start", || println!("the root of {number}:"));
    let improve = graph.task("improve", || {
        let mut state = state();
        let better = (state.guess + number / state.guess) / 2.0;
        state.error = ((better - state.guess) / better).abs();
        state.guess = better;
        state.laps += 1;
        println!("  lap {:>2}: {better:.12}", state.laps);
    });
    let enough = graph.condition("good enough?", || {
        let state = state();
        usize::from(state.error < 1e-12 || state.laps == 100)
    });
    let send = graph.task("send", || {
        let mut state = state();
        state.tries += 1;
        state.sent = state.rng.next_u64() % 3 == 0;
        let result = if state.sent {
            "sent"
        } else {
            "the line was busy"
        };
        println!("  try {}: {result}", state.tries);
    });
    let arrived = graph.condition("arrived?", || {
        let state = state();
        match (state.sent, state.tries) {
            (true, _) => 1,
            (false, TRIES) => 2,
            (false, _) => 0,
        }
    });
    let celebrate = graph.task("celebrate", || println!("done"));
    let give_up = graph.task("give up", || println!("no answer"));

    // The numbers that the conditions return are positions in these lists.
    start.precede(improve);
    improve.precede(enough);
    enough.precede([improve, send]);
    send.precede(arrived);
    arrived.precede([send, celebrate, give_up]);

    let dot = filch_draw::dot(&graph.describe());
    let report = graph.plan()?.run()?;
    println!(
        "{} tasks ran; as a picture, for Graphviz:\n\n{dot}",
        report.ran()
    );
    let state = state();
    if (state.guess - number.sqrt()).abs() > 1e-9 * number.sqrt() {
        return Err(format!("{} is not the root of {number}", state.guess).into());
    }
    Ok(())
}
