//! How large a folder is: a walk in which every folder is a task of one scope.
//!
//! `cargo run --release --example directory_size -- PATH`

use filch::{Pool, Scope};
use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

const HELP: &str = "\
Adds up the sizes of all files in a folder and those below it.

Usage: directory_size [PATH]

  PATH     the folder [.]
  --help   this text

Links are counted, not followed. What cannot be read is left out and listed at the end. The exit
code is 1 if PATH itself cannot be read, 2 if the arguments make no sense.";

/// How many errors are printed one by one.
const MOST_ERRORS: usize = 10;

/// What the walk has found so far.
#[derive(Default)]
struct Found {
    bytes: AtomicU64,
    files: AtomicU64,
    folders: AtomicU64,
    errors: Mutex<Vec<String>>,
}

impl Found {
    fn error(&self, path: &Path, error: &io::Error) {
        let text = format!("{}: {error}", path.display());
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.push(text);
    }
}

/// One folder: its files are counted here, its folders become tasks.
fn walk<'s>(folder: PathBuf, found: &'s Found, scope: &Scope<'s>) {
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => return found.error(&folder, &error),
    };
    // Relaxed, here and below: numbers, which are read when the scope is over.
    found.folders.fetch_add(1, Ordering::Relaxed);
    let (mut bytes, mut files) = (0, 0);
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.error(&folder, &error);
                continue;
            }
        };
        // Of the entry itself: a link is not followed, so the walk ends.
        match entry.metadata() {
            Ok(data) if data.is_dir() => {
                let folder = entry.path();
                scope.spawn(move |scope| walk(folder, found, scope));
            }
            Ok(data) => {
                bytes += data.len();
                files += 1;
            }
            Err(error) => found.error(&entry.path(), &error),
        }
    }
    found.bytes.fetch_add(bytes, Ordering::Relaxed);
    found.files.fetch_add(files, Ordering::Relaxed);
}

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let path = arguments.next().unwrap_or_else(|| OsString::from("."));
    if path == "--help" || path == "-h" {
        say(HELP);
        return ExitCode::SUCCESS;
    }
    if arguments.next().is_some() {
        eprintln!("directory_size: one path, please; see --help");
        return ExitCode::from(2);
    }
    let path = PathBuf::from(path);
    if let Err(error) = fs::read_dir(&path) {
        eprintln!("directory_size: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    let (start, found) = (Instant::now(), Found::default());
    filch::scope(|scope| walk(path.clone(), &found, scope));
    let elapsed = start.elapsed();

    let bytes = found.bytes.into_inner();
    say(&format!(
        "{}: {} ({bytes} bytes) in {} files and {} folders, {:.1} ms\n",
        path.display(),
        readable(bytes),
        found.files.into_inner(),
        found.folders.into_inner(),
        elapsed.as_secs_f64() * 1e3,
    ));
    say(&shares(Pool::global()));
    let errors = found.errors.into_inner();
    let errors = errors.unwrap_or_else(PoisonError::into_inner);
    for error in errors.iter().take(MOST_ERRORS) {
        eprintln!("directory_size: {error}");
    }
    if errors.len() > MOST_ERRORS {
        let more = errors.len() - MOST_ERRORS;
        eprintln!("directory_size: and {more} more that could not be read");
    }
    ExitCode::SUCCESS
}

/// Prints a line. A reader that has closed the pipe is no error.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn readable(bytes: u64) -> String {
    let (mut size, mut unit) = (bytes as f64, "bytes");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{size:.1} {unit}"),
    }
}

/// What each worker did, the calling thread included.
fn shares(pool: &Pool) -> String {
    let metrics = pool.metrics();
    let mut lines = vec![format!(
        "{:<18} {:>7} {:>9} {:>7} {:>7} {:>6}",
        "", "folders", "own queue", "stolen", "parks", "wakes"
    )];
    let mut line = |name: &str, w: &filch::observe::WorkerMetrics| {
        lines.push(format!(
            "{name:<18} {:>7} {:>9} {:>7} {:>7} {:>6}",
            w.executed, w.local, w.stolen, w.parks, w.wakes
        ));
    };
    for (n, worker) in metrics.workers.iter().enumerate() {
        if n < pool.workers() {
            line(&format!("worker {n}"), worker);
        } else if worker.executed > 0 {
            line("the calling thread", worker);
        }
    }
    line("all", &metrics.total());
    lines.join("\n")
}
