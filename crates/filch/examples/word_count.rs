//! The words of a text, counted, sorted and searched by loops.
//!
//! `cargo run --release --example word_count`
//!
//! `cargo run --release --example word_count -- FILE --top 20 --find steal`

use filch::{CancelToken, prelude::*};
use std::{
    collections::HashMap,
    env,
    error::Error,
    fs,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Counts the words of a text, on all cores.

Usage: word_count [FILE] [OPTIONS]      without a file: a text of its own

  --top N       how many words are shown [10]
  --find WORD   the first line that has it
  --limit MS    give up after MS milliseconds
  --help        this text";

struct Options {
    file: Option<String>,
    top: usize,
    find: Option<String>,
    limit: Option<Duration>,
    help: bool,
}

fn main() -> ExitCode {
    match parse(env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("word_count: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    if options.help {
        writeln!(out, "{HELP}")?;
        return Ok(());
    }
    let text = match &options.file {
        Some(file) => fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?,
        None => a_text(200_000),
    };
    let lines: Vec<&str> = text.lines().collect();
    let token = CancelToken::new();
    if let Some(limit) = options.limit {
        token.cancel_after(limit)?;
    }
    let start = Instant::now();
    let counts = count(&lines, &token)?;
    // By falling number, then by the alphabet: an order without equals, so it need not be stable.
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    filch::par::sort_unstable_by(&mut words, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    // How many of all words the most frequent ones are.
    let numbers = words.par().map(|(_, number)| *number);
    let shares = numbers.inclusive_scan(|a, b| a + b);
    let all = shares.last().copied().unwrap_or(0);
    for ((word, number), upto) in words.iter().zip(&shares).take(options.top) {
        let share = 100.0 * *upto as f64 / all as f64;
        writeln!(out, "{number:>8}  {share:>5.1} %  {word}")?;
    }
    if let Some(word) = &options.find {
        match lines.par().position(|line| line.contains(&**word)) {
            Some(place) => writeln!(out, "line {}: {}", place + 1, lines[place])?,
            None => writeln!(out, "no line has {word:?}")?,
        }
    }
    let longest = lines.par().map(|line| line.len()).max().unwrap_or(0);
    writeln!(
        out,
        "{all} words, {} different ones, in {} lines of up to {longest} bytes; {:.1?}",
        words.len(),
        lines.len(),
        start.elapsed()
    )?;
    Ok(())
}

/// Counts how often each word is in the lines. Each worker has a map of its own; maps are merged
/// where work was stolen.
fn count<'t>(
    lines: &[&'t str],
    token: &CancelToken,
) -> Result<HashMap<&'t str, usize>, Box<dyn Error>> {
    let counts = lines.par().cancel(token).fold(
        HashMap::new,
        |mut counts, line| {
            for word in line.split(|c: char| !c.is_alphanumeric()) {
                if !word.is_empty() {
                    *counts.entry(word).or_default() += 1;
                }
            }
            counts
        },
        |left, right| {
            let (mut large, small) = if left.len() < right.len() {
                (right, left)
            } else {
                (left, right)
            };
            for (word, number) in small {
                *large.entry(word).or_default() += number;
            }
            large
        },
    );
    Ok(counts?)
}

/// Lines of words, some of them rare.
fn a_text(lines: usize) -> String {
    const WORDS: [&str; 12] = [
        "the", "idle", "pay", "work", "is", "visible", "a", "worker", "steals", "small", "things",
        "twice",
    ];
    let mut rng = filch::Rng::new(1);
    let mut text = String::new();
    for _ in 0..lines {
        for _ in 0..3 + rng.below(10) {
            // The product of two numbers: small ones come more often.
            let word = rng.below(WORDS.len()) * rng.below(WORDS.len()) / WORDS.len();
            text.push_str(WORDS[word]);
            text.push(' ');
        }
        text.push('\n');
    }
    text
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        file: None,
        top: 10,
        find: None,
        limit: None,
        help: false,
    };
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .ok_or(format!("{arg} needs a value; try --help"))
        };
        match &*arg {
            "--help" => options.help = true,
            "--top" => options.top = value()?.parse()?,
            "--find" => options.find = Some(value()?),
            "--limit" => options.limit = Some(Duration::from_millis(value()?.parse()?)),
            _ if options.file.is_none() && !arg.starts_with('-') => options.file = Some(arg),
            _ => return Err(format!("{arg} makes no sense here; try --help").into()),
        }
    }
    Ok(options)
}
