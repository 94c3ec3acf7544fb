//! A build system: a graph of targets, in which only targets that are out of date are built.
//!
//! `cargo run --release --example build_system`

use filch::Graph;
use std::{
    collections::HashMap,
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    hint,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const HELP: &str = "\
Builds a small project that does not exist, changes one file, and builds it again: only what depends
on that file is built a second time. Shows which task ran when, and draws it.

Usage: build_system [FILE]

  FILE     the file that changes [parser.src]
  --help   this text

The pictures are target/build_system.svg (what ran when) and target/build_system.dot (the graph).";

/// Each target, its dependencies, and how long it takes to build, in microseconds.
const TARGETS: &[(&str, &[&str], u64)] = &[
    ("lexer.src", &[], 100),
    ("parser.src", &[], 100),
    ("types.src", &[], 100),
    ("codegen.src", &[], 100),
    ("main.src", &[], 100),
    ("lexer.o", &["lexer.src"], 4_000),
    ("types.o", &["types.src"], 3_000),
    ("parser.o", &["parser.src", "lexer.o", "types.o"], 9_000),
    ("codegen.o", &["codegen.src", "types.o"], 12_000),
    ("main.o", &["main.src", "types.o"], 2_000),
    ("libfront.a", &["lexer.o", "parser.o", "types.o"], 2_000),
    ("libback.a", &["codegen.o"], 1_500),
    ("compiler", &["libfront.a", "libback.a", "main.o"], 5_000),
    ("tests", &["libfront.a", "libback.a"], 7_000),
    ("manual", &["parser.src", "types.src"], 6_000),
];

/// The state of a target after the last build.
#[derive(Default)]
struct State {
    /// A hash of its dependencies at that time.
    made_from: Option<u64>,
    /// A hash of its content. Targets that depend on it are rebuilt only if this changes.
    content: u64,
}

/// A project, between builds.
struct Project {
    states: HashMap<&'static str, Mutex<State>>,
    /// The number of edits of each source file.
    edits: HashMap<&'static str, u64>,
}

impl Project {
    /// Returns a hash of a target's dependencies.
    fn sources_of(&self, name: &str, needs: &[&str]) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.edits.get(name).hash(&mut hasher);
        for need in needs {
            let state = self.states[need].lock();
            let state = state.unwrap_or_else(PoisonError::into_inner);
            state.content.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Builds a target if it is out of date. Returns whether it was.
    fn make(&self, name: &str, needs: &[&str], micros: u64) -> bool {
        let sources = self.sources_of(name, needs);
        let state = self.states[name].lock();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.made_from == Some(sources) {
            return false;
        }
        work(Duration::from_micros(micros));
        *state = State {
            made_from: Some(sources),
            content: sources.rotate_left(17),
        };
        true
    }
}

/// Keeps a core busy.
fn work(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

fn main() -> ExitCode {
    let file = env::args().nth(1).unwrap_or_else(|| "parser.src".into());
    if ["--help", "-h"].contains(&&*file) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some((file, ..)) = TARGETS.iter().find(|(name, ..)| *name == file) else {
        eprintln!("build_system: there is no {file:?}; see --help");
        return ExitCode::from(2);
    };
    match build_twice(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("build_system: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build_twice(file: &'static str) -> Result<(), Box<dyn std::error::Error>> {
    let states = TARGETS.iter().map(|(name, ..)| (*name, Mutex::default()));
    let mut project = Project {
        states: states.collect(),
        edits: HashMap::new(),
    };
    println!("everything is new:");
    build(&project, true)?;
    println!("\nnothing has changed:");
    build(&project, false)?;
    println!("\n{file} has changed:");
    project.edits.insert(file, 1);
    build(&project, false)
}

/// Builds the project once.
fn build(project: &Project, draw: bool) -> Result<(), Box<dyn std::error::Error>> {
    let made: Vec<_> = TARGETS.iter().map(|_| AtomicBool::new(false)).collect();
    let graph = Graph::new();
    let mut tasks = HashMap::new();
    for (made, (name, needs, micros)) in made.iter().zip(TARGETS) {
        let task = graph.task(*name, move || {
            // Relaxed: read when the build is done.
            made.store(project.make(name, needs, *micros), Ordering::Relaxed);
        });
        task.succeed(needs.iter().map(|need| tasks[need]));
        tasks.insert(*name, task);
    }
    let mut plan = graph.plan()?;
    plan.record(true);
    plan.run()?;

    let names = TARGETS.iter().map(|(name, ..)| *name);
    let made = names
        .zip(&made)
        .filter(|(_, made)| made.load(Ordering::Relaxed));
    let made: Vec<_> = made.map(|(name, _)| name).collect();
    match made.len() {
        0 => println!("  nothing to do"),
        _ => println!("  made {}", made.join(", ")),
    }
    let timeline = plan.timeline();
    for line in timeline.to_string().lines() {
        println!("  {line}");
    }
    if draw {
        fs::create_dir_all("target")?;
        fs::write("target/build_system.svg", filch_draw::svg(&timeline))?;
        fs::write("target/build_system.dot", filch_draw::dot(&plan.describe()))?;
        println!("  drawn in target/build_system.svg and target/build_system.dot");
    }
    Ok(())
}
