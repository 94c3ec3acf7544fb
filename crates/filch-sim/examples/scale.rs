//! Simulates the scheduler with 1 to 1,024 workers on a machine with distances, and writes tables
//! and curves.
//!
//! `cargo run --release -p filch-sim --example scale -- --help`

use filch_draw::{Axis, Chart, charts};
use filch_sim::{Machine, Metric, ScalePoint, Scaling, VictimOrder, Workload, table};
use std::{
    error::Error,
    fmt::Write,
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

const HELP: &str = "\
Simulates the scheduler of filch with many workers on a machine with distances. All figures are
simulated. The same options give the same files.

Usage: scale [OPTIONS]

  --out DIR       where table.md and the curves go [bench/results/scale]
  --most N        the most workers; there are 1, 2, 4 .. N of them [1024]
  --size X        the size of the workloads [1.0]
  --seed S        the seed of the workers' random numbers
  --case NAME     a workload; may be repeated [all]
  --costs FILE    a machine as JSON, for example from the example `costs` [published figures]
  --groups A,B,C  with --costs: the sizes of groups of workers, for example 2,16,64
  --lines A,B,..  with --costs: the transfer of a line for each distance, in ns; the first of
                  them between the two cores of the measurement
  --help          this text";

/// How the engine is set, and what the legend calls it.
const VARIANTS: [(&str, VictimOrder, usize); 3] = [
    (
        "any victim first, wakes in a chain",
        VictimOrder::Uniform,
        0,
    ),
    ("any victim first, wakes in a tree", VictimOrder::Uniform, 2),
    (
        "near victims first, wakes in a tree",
        VictimOrder::NearFirst,
        2,
    ),
];

struct Options {
    out: PathBuf,
    most: usize,
    workloads: Vec<Workload>,
    scaling: Scaling,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|options| options.map_or(Ok(()), work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns `None` if only help was wanted.
fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, Box<dyn Error>> {
    let mut options = Options {
        out: PathBuf::from("bench/results/scale"),
        most: 1_024,
        workloads: Vec::new(),
        scaling: Scaling::new(Machine::published()),
    };
    let (mut groups, mut lines) = (None, None);
    while let Some(name) = arguments.next() {
        if name == "--help" || name == "-h" {
            println!("{HELP}");
            return Ok(None);
        }
        let missing = || format!("{name} needs a value; see --help");
        let value = arguments.next().ok_or_else(missing)?;
        match name.as_str() {
            "--out" => options.out = PathBuf::from(value),
            "--most" => options.most = value.parse()?,
            "--size" => options.scaling.size = value.parse()?,
            "--seed" => options.scaling.seed = value.parse()?,
            "--case" => options.workloads.push(workload(&value)?),
            "--costs" => {
                options.scaling.machine = serde_json::from_str(&fs::read_to_string(value)?)?;
            }
            "--groups" => groups = Some(numbers(&value)?),
            "--lines" => lines = Some(numbers(&value)?),
            _ => return Err(format!("unknown option {name}; see --help").into()),
        }
    }
    let machine = &mut options.scaling.machine;
    if let Some(groups) = groups {
        machine.groups = groups.into_iter().map(|n| n as usize).collect();
    }
    if let Some([line, lines @ ..]) = lines.as_deref() {
        machine.costs = machine.costs.from_lines(*line, lines);
    }
    if options.workloads.is_empty() {
        options.workloads = Workload::ALL.to_vec();
    }
    Ok(Some(options))
}

fn workload(name: &str) -> Result<Workload, String> {
    let found = Workload::ALL.into_iter().find(|w| w.to_string() == name);
    found.ok_or_else(|| {
        let all = Workload::ALL.map(|w| w.to_string()).join(", ");
        format!("no workload {name}; there are {all}")
    })
}

fn numbers(text: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    let parse = |n: &str| n.trim().parse().map_err(|_| format!("{n:?} is no number"));
    Ok(text.split(',').map(parse).collect::<Result<_, _>>()?)
}

/// One run: the index of a variant, a workload, a number of workers.
type Run = (usize, Workload, usize);

fn work(options: Options) -> Result<(), Box<dyn Error>> {
    let workers: Vec<usize> = (0..)
        .map(|n| 1 << n)
        .take_while(|&n| n <= options.most)
        .collect();
    let mut runs: Vec<Run> = Vec::new();
    for variant in 0..VARIANTS.len() {
        for &workload in &options.workloads {
            runs.extend(workers.iter().map(|&workers| (variant, workload, workers)));
        }
    }
    let points = measure(&options, &runs)?;
    let of = |variant: usize| {
        let same = runs
            .iter()
            .zip(&points)
            .filter(move |(run, _)| run.0 == variant);
        same.map(|(_, point)| point.clone())
            .collect::<Vec<ScalePoint>>()
    };
    let variants: Vec<Vec<ScalePoint>> = (0..VARIANTS.len()).map(of).collect();
    fs::create_dir_all(&options.out)?;
    let tables = tables(&options, &variants, &unequal(&options)?);
    fs::write(options.out.join("table.md"), tables)?;
    for (metric, file, axis) in [
        (Metric::Speedup, "speed-up.svg", Axis::Log(4)),
        (Metric::BoundShare, "bound.svg", Axis::Linear),
        (Metric::FailedProbes, "failed-probes.svg", Axis::Log(10)),
        (Metric::Remote, "remote-steals.svg", Axis::Linear),
        (Metric::Awake, "awake.svg", Axis::Log(10)),
    ] {
        let picture = picture(&options, metric, axis, &variants);
        fs::write(options.out.join(file), picture)?;
    }
    println!(
        "{} runs; see {}",
        runs.len(),
        options.out.join("table.md").display()
    );
    Ok(())
}

/// Makes all runs, on all cores. Each is independent of the others.
fn measure(options: &Options, runs: &[Run]) -> Result<Vec<ScalePoint>, Box<dyn Error>> {
    // The longest runs first.
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&run| std::cmp::Reverse(runs[run].2));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let help = || {
        // Relaxed: a counter.
        while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (variant, workload, workers) = runs[index];
            let (_, victims, wake_fanout) = VARIANTS[variant];
            let scaling = Scaling {
                wake_fanout,
                ..options.scaling.clone()
            };
            let point = scaling.measure(workload, workers, victims);
            done.lock().expect("no run panics").push((index, point));
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(help);
        }
    });
    let mut done = done.into_inner()?;
    done.sort_by_key(|(index, _)| *index);
    let points: Result<Vec<_>, _> = done.into_iter().map(|(_, point)| point).collect();
    Ok(points?)
}

fn tables(options: &Options, variants: &[Vec<ScalePoint>], unequal: &str) -> String {
    let machine = &options.scaling.machine;
    let mut text = String::from(
        "# Scale, simulated\n\nNo measurements: the production engine under a cost model. The columns \
         are numbers of workers.\n",
    );
    let costs = serde_json::to_string(&machine.costs).expect("plain data");
    let _ = write!(
        text,
        "\nMachine: {}.\nGroups of {:?} workers. Costs in ns:\n\n```json\n{}\n```\n",
        machine.name,
        machine.groups,
        costs.replace(",\"", ",\n\"")
    );
    for metric in Metric::ALL {
        let _ = write!(text, "\n## {}\n", metric.name());
        for ((name, ..), points) in VARIANTS.iter().zip(variants) {
            let _ = write!(text, "\n{name}:\n\n{}", table(metric, points));
        }
    }
    let _ = write!(text, "\n## nodes at different distances\n");
    text += unequal;
    text
}

/// Runs all workloads with equal and with unequal distances between nodes.
fn unequal(options: &Options) -> Result<String, Box<dyn Error>> {
    let workers = options.most.min(256);
    let mut text = format!(
        "\nNear victims first, wakes in a tree, {workers} workers: a steal from another package costs \
         2.7 times\nas much as from the other node of the own one. The engine does not know that.\n"
    );
    for (name, machine) in [
        ("all 20", options.scaling.machine.clone()),
        ("12 in the package, 32 outside", Machine::two_nodes_each()),
    ] {
        let scaling = Scaling {
            machine,
            wake_fanout: 2,
            ..options.scaling.clone()
        };
        let points: Result<Vec<ScalePoint>, _> = { options.workloads.iter() }
            .map(|&workload| scaling.measure(workload, workers, VictimOrder::NearFirst))
            .collect();
        let points = points?;
        if name == "all 20" {
            let head: String = points
                .iter()
                .map(|p| format!(" {} |", p.workload))
                .collect();
            let rule = "---|".repeat(points.len() + 1);
            let _ = write!(text, "\n| speed-up |{head}\n|{rule}\n");
        }
        let cells: String = points
            .iter()
            .map(|p| format!(" {:.0} |", p.speedup))
            .collect();
        let _ = writeln!(text, "| {name} |{cells}");
    }
    Ok(text)
}

fn picture(options: &Options, metric: Metric, axis: Axis, variants: &[Vec<ScalePoint>]) -> String {
    let chart = |workload: &Workload| {
        let mut chart = Chart::new(&workload.to_string(), Axis::Log(4), axis).label("workers", "");
        for ((name, ..), points) in VARIANTS.iter().zip(variants) {
            let own = points.iter().filter(|p| p.workload == *workload);
            // A point without a figure keeps its place on the axis of workers.
            let curve = own.map(|p| (p.workers as f64, metric.of(p).unwrap_or(f64::NAN)));
            chart = chart.series(name, curve);
        }
        if metric == Metric::Speedup {
            let own = variants[0].iter().filter(|p| p.workload == *workload);
            chart = chart.series("bound", own.map(|p| (p.workers as f64, p.bound)));
        }
        chart
    };
    let all: Vec<Chart> = options.workloads.iter().map(chart).collect();
    let title = format!("Simulated: {}", metric.name());
    charts(&title, &options.scaling.machine.name, 4, &all)
}
