//! A build of 60 tasks on four workers in which one task fails, drawn in several ways.
//!
//! `cargo run --release -p filch-draw --example failing_build`

use filch::{
    Graph, Pool,
    graph::{TaskEnding, waiting},
};
use filch_draw::{Dot, dot, json, prefix, svg};
use std::{
    env, fs, hint,
    panic::resume_unwind,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

const HELP: &str = "\
Builds eight libraries and a program: 60 tasks on four workers. The tests of one library fail, and
what depends on them is skipped. Writes the run as SVG and JSON, and its graph as DOT, to a folder.

Usage: failing_build [FOLDER]

  FOLDER   where to write [target]
  --help   this text";

const LIBRARIES: [&str; 8] = [
    "base", "text", "net", "store", "query", "render", "audio", "shell",
];

/// Keeps a core busy.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

fn main() -> ExitCode {
    let folder = env::args().nth(1).unwrap_or_else(|| "target".into());
    if ["--help", "-h"].contains(&&*folder) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match build(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failing_build: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build(folder: &str) -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::new();
    let configure = graph.task("configure", || compute(Duration::from_millis(2)));
    let link = graph.task("link", || compute(Duration::from_millis(4)));
    let package = graph.task("package", || compute(Duration::from_millis(2)));
    link.precede(package);
    graph
        .task("docs", || compute(Duration::from_millis(9)))
        .succeed(configure);
    for (number, library) in (0..).zip(LIBRARIES) {
        let archive = graph.task(format!("{library}/archive"), || {
            compute(Duration::from_millis(1));
        });
        for file in 0..5 {
            // A compiler is a child process: its task only waits.
            let millis = 3 + (number * 7 + file * 5) % 9;
            let object = graph.task(format!("{library}/object {file}"), move || {
                compute(Duration::from_micros(300));
                waiting(|| thread::sleep(Duration::from_millis(millis)));
                compute(Duration::from_micros(200));
            });
            object.succeed(configure);
            object.precede(archive);
        }
        let test = graph.task(format!("{library}/test"), move || {
            compute(Duration::from_millis(3));
            if library == "store" {
                resume_unwind(Box::new("2 of 40 tests failed")); // a panic without its message
            }
        });
        archive.precede(test);
        test.precede(link);
    }
    let mut plan = graph.plan()?;
    plan.record(true);
    let pool = Pool::builder().workers(4).build()?;
    let result = pool.on_worker(|| plan.run());
    let timeline = plan.timeline();
    println!("{timeline}");
    if let Err(error) = result {
        println!("{error}");
    }
    if timeline.count(TaskEnding::Failed) != 1 {
        return Err("one task should have failed".into());
    }

    let description = plan.describe();
    let path = Dot::new(&description).critical_path(&timeline).draw();
    let clusters = Dot::new(&description).clusters(prefix).max_listed(4).draw();
    fs::create_dir_all(folder)?;
    for (name, text) in [
        ("failing_build.svg", svg(&timeline)),
        ("failing_build.json", json(&timeline)),
        ("failing_build.dot", dot(&description)),
        ("failing_build_path.dot", path),
        ("failing_build_clusters.dot", clusters),
    ] {
        fs::write(format!("{folder}/{name}"), text)?;
        println!("written: {folder}/{name}");
    }
    Ok(())
}
