//! The Mandelbrot set, one task a row.
//!
//! `cargo run --release --example mandelbrot`
//!
//! `cargo run --release --example mandelbrot -- --ppm mandelbrot.ppm`

use filch::Pool;
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fs,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Renders the Mandelbrot set, each row as a task of one scope.

Usage: mandelbrot [OPTIONS]

  --ppm FILE   write an image instead of characters
  --width N    columns [100], or pixels of the image [1200]
  --help       this text";

/// Points that have not escaped after this number of rounds count as inside.
const ROUNDS: u32 = 2_000;

/// The part of the plane that is shown.
const LEFT: f64 = -2.2;
const RIGHT: f64 = 0.8;
const TOP: f64 = 1.2;

/// Darker towards the inside.
const SHADES: &[u8] = b" .:-=+*#%@";

#[derive(Default)]
struct Options {
    ppm: Option<String>,
    width: Option<usize>,
    help: bool,
}

/// A row, with the worker that rendered it.
#[derive(Clone, Default)]
struct Row {
    /// Iterations of each point until it escaped; zero inside.
    points: Vec<u32>,
    /// The worker that rendered it; none for the calling thread.
    worker: Option<usize>,
    time: Duration,
}

fn main() -> ExitCode {
    match parse(env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, so the rest of the output is not needed.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mandelbrot: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        let mut value = || {
            let missing = || format!("{name} needs a value; see --help");
            arguments.next().ok_or_else(missing)
        };
        match name.as_str() {
            "--help" | "-h" => options.help = true,
            "--ppm" => options.ppm = Some(value()?),
            "--width" => match value()?.parse() {
                Ok(width @ 2..=20_000) => options.width = Some(width),
                _ => return Err("--width takes a number from 2 to 20000".into()),
            },
            _ => return Err(format!("unknown option {name}; see --help").into()),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    if options.help {
        writeln!(out, "{HELP}")?;
        return Ok(());
    }
    let (width, aspect) = match options.ppm {
        Some(_) => (options.width.unwrap_or(1200), 1.0),
        // A character is about twice as high as it is wide.
        None => (options.width.unwrap_or(100), 2.0),
    };
    let height = (width as f64 * 2.0 * TOP / (RIGHT - LEFT) / aspect).round();
    let start = Instant::now();
    let rows = render(width, height as usize);
    let elapsed = start.elapsed();
    match &options.ppm {
        Some(file) => {
            fs::write(file, image(&rows)).map_err(|error| format!("{file}: {error}"))?;
            writeln!(out, "{file}: {width} by {height} pixels")?;
        }
        None => {
            for row in &rows {
                writeln!(out, "{} {}", characters(row), name(row.worker, 'c', ""))?;
            }
        }
    }
    write!(out, "\n{}", who_did_what(&rows, elapsed))?;
    Ok(())
}

/// Renders one row per task. Rows through the middle take a hundred times as long as those at the
/// edge; a worker that has finished its rows steals from the others.
fn render(width: usize, height: usize) -> Vec<Row> {
    let mut rows = vec![Row::default(); height];
    let step = (RIGHT - LEFT) / (width - 1) as f64;
    let down = 2.0 * TOP / (height.max(2) - 1) as f64;
    filch::scope(|scope| {
        for (n, row) in rows.iter_mut().enumerate() {
            let y = TOP - n as f64 * down;
            scope.spawn(move |_| {
                let start = Instant::now();
                let points = (0..width).map(|column| rounds(LEFT + column as f64 * step, y));
                row.points = points.collect();
                row.worker = filch::current_worker();
                row.time = start.elapsed();
            });
        }
    });
    rows
}

/// After how many rounds the point escapes; zero when it does not.
fn rounds(x: f64, y: f64) -> u32 {
    let (mut re, mut im) = (0.0_f64, 0.0_f64);
    for round in 1..=ROUNDS {
        (re, im) = (re * re - im * im + x, 2.0 * re * im + y);
        if re * re + im * im > 4.0 {
            return round;
        }
    }
    0
}

/// From 0 (escapes at once) to 1 (does not).
fn depth(rounds: u32) -> f64 {
    match rounds {
        0 => 1.0,
        _ => (f64::from(rounds).ln() / f64::from(ROUNDS).ln()).min(1.0),
    }
}

fn characters(row: &Row) -> String {
    let shade = |&rounds: &u32| {
        let last = SHADES.len() - 1;
        char::from(SHADES[(depth(rounds) * 1.6 * last as f64).min(last as f64) as usize])
    };
    row.points.iter().map(shade).collect()
}

/// A binary portable pixmap.
fn image(rows: &[Row]) -> Vec<u8> {
    let width = rows.first().map_or(0, |row| row.points.len());
    let mut image = format!("P6\n{width} {}\n255\n", rows.len()).into_bytes();
    for &rounds in rows.iter().flat_map(|row| &row.points) {
        let depth = depth(rounds);
        let wave = |shift: f64| (127.5 + 127.5 * (12.0 * depth + shift).sin()) as u8;
        image.extend(match rounds {
            0 => [0, 0, 0],
            _ => [wave(4.7), wave(5.4), wave(6.2)],
        });
    }
    image
}

fn name(worker: Option<usize>, caller: char, prefix: &str) -> String {
    match worker {
        Some(worker) => format!("{prefix}{worker}"),
        None => caller.to_string(),
    }
}

fn who_did_what(rows: &[Row], elapsed: Duration) -> String {
    let mut shares = BTreeMap::<Option<usize>, (usize, Duration)>::new();
    for row in rows {
        let share = shares.entry(row.worker).or_default();
        *share = (share.0 + 1, share.1 + row.time);
    }
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let mut text = String::new();
    for (worker, (rows, time)) in &shares {
        let who = name(*worker, 'c', "worker ");
        text += &format!("{who:<9} {rows:>5} rows {:>8.1} ms\n", millis(*time));
    }
    let all: Duration = rows.iter().map(|row| row.time).sum();
    let workers = Pool::global().workers();
    text += &format!(
        "{:<9} {:>5} rows {:>8.1} ms, in {:.1} ms with {workers} workers and the calling thread (c)\n",
        "all",
        rows.len(),
        millis(all),
        millis(elapsed),
    );
    text
}
