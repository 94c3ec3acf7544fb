//! Folds over trees: the same fold with every preset, a record of which worker did what, and a
//! graph with shared nodes.
//!
//! `cargo run --release --example fold -- NODES`

use filch::{
    Fold, Pool, Rng,
    engine::Shared,
    fold,
    fold::{Adaptive, FewWakes, FoldStrategy, Tasks},
};
use std::{
    env,
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Adds up the sizes of the files in an invented file system, with every preset.

Usage: fold [NODES]

  NODES    how many files and folders [200000]
  --help   this text

The exit code is 2 if the arguments make no sense.";

/// A file, or a folder with what is in it.
struct Entry {
    bytes: u64,
    below: Vec<Entry>,
}

impl Entry {
    /// A file system with this number of entries, a few in each folder.
    fn invent(entries: usize, rng: &mut Rng) -> Self {
        let mut below = Vec::new();
        let mut left = entries.saturating_sub(1);
        while left > 0 {
            let share = if entries < 8 { 1 } else { 1 + rng.below(left) };
            below.push(Self::invent(share.min(left), rng));
            left -= share.min(left);
        }
        Self {
            bytes: rng.below(10_000) as u64,
            below,
        }
    }
}

/// A bit of work for each entry, as a checksum would be.
fn inspect(entry: &Entry) -> u64 {
    for round in 0..100 {
        black_box(round);
    }
    entry.bytes
}

fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}

fn with<'e, S: FoldStrategy>(
    name: &str,
    size: &impl Fold<Node = &'e Entry, Result = u64>,
    root: &'e Entry,
) {
    let (bytes, time) = timed(|| size.with::<S>().run(root));
    println!("{name:>10}: {bytes} bytes in {time:?}");
}

fn sizes(nodes: usize) {
    let root = Entry::invent(nodes, &mut Rng::new(1));
    let size = fold(
        |entry: &Entry| &entry.below,
        |entry| inspect(entry),
        |sum, bytes| *sum += bytes,
        |sum: u64| sum,
    );
    let (bytes, time) = timed(|| size.sequential(&root));
    println!("sequential: {bytes} bytes in {time:?}");
    with::<Adaptive>("Adaptive", &size, &root);
    with::<FewWakes>("FewWakes", &size, &root);
    with::<Tasks>("Tasks", &size, &root);
    with::<Tasks<Shared>>("Tasks<Shared>", &size, &root);
    let explained = size.with::<Adaptive>().explain(&root);
    for (worker, entered) in explained.visit.by_worker() {
        println!("worker {worker:?} has entered {entered} of them");
    }
}

/// In a grid there are many ways from one corner to the other, and most nodes are on a lot of them.
fn ways(side: u32) {
    let ways = fold(
        |(x, y): (u32, u32)| {
            let right = (x < side).then_some((x + 1, y));
            let down = (y < side).then_some((x, y + 1));
            right.into_iter().chain(down)
        },
        |corner| u128::from(*corner == (side, side)),
        |sum, ways| *sum += ways,
        |sum| sum,
    );
    match ways.memo(|node| *node).run((0, 0)) {
        Ok(count) => println!("{count} ways through a grid of {side} by {side}"),
        Err(error) => println!("{error}"),
    }
}

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let nodes = match (args.next().as_deref(), args.next()) {
        (None, _) => 200_000,
        (Some("--help"), None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        (Some(text), None) if text.parse().is_ok_and(|nodes: usize| nodes > 0) => {
            text.parse().unwrap_or(1)
        }
        _ => {
            eprintln!("how many nodes? a number from 1 on; try --help");
            return ExitCode::from(2);
        }
    };
    Pool::global().install(|| sizes(nodes));
    ways(60);
    ExitCode::SUCCESS
}
