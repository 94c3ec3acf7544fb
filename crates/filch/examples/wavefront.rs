//! A wavefront: the edit distance of two long texts, in tiles that wait for their neighbours.
//!
//! `cargo run --release --example wavefront -- 20000`

use filch::{Graph, Rng};
use std::{
    env,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

const HELP: &str = "\
Computes how many letters must be changed, added or removed to turn one random text into another, by
a table with a field for each pair of letters. Tiles of the table become tasks, which wait for the
tiles above and to the left.

Usage: wavefront [LENGTH [TILE]]

  LENGTH   letters of each text [16000]
  TILE     letters along the side of a tile [500]
  --help   this text";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if arguments
        .iter()
        .any(|text| text == "--help" || text == "-h")
    {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let number = |place: usize, otherwise| match arguments.get(place) {
        None => Some(otherwise),
        Some(text) => text.replace('_', "").parse().ok().filter(|n| *n > 0),
    };
    let (Some(length), Some(tile)) = (number(0, 16_000), number(1, 500)) else {
        eprintln!("wavefront: that is no length; see --help");
        return ExitCode::from(2);
    };
    match compare(length, tile) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("wavefront: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(length: usize, tile: usize) -> Result<bool, Box<dyn std::error::Error>> {
    let mut rng = Rng::new(1);
    let mut text = || -> Vec<u8> { (0..length).map(|_| (rng.next_u64() % 4) as u8).collect() };
    let (a, b) = (text(), text());

    let start = Instant::now();
    let expected = in_one_go(&a, &b);
    let alone = start.elapsed();

    let table = Table::new(&a, &b, tile);
    let mut plan = wavefront(&table).plan()?;
    let start = Instant::now();
    plan.run()?;
    let together = start.elapsed();
    let found = table.distance();

    println!(
        "{length} × {length} letters, {} tiles of {tile} × {tile}",
        plan.len()
    );
    row("one after the other", alone, expected);
    row("as a graph", together, found);
    let factor = alone.as_secs_f64() / together.as_secs_f64().max(1e-9);
    let hands = filch::Pool::global().workers();
    println!("{factor:.2} times as fast with {hands} workers and this thread");
    if found != expected {
        eprintln!("wavefront: the two do not agree");
    }
    Ok(found == expected)
}

fn row(name: &str, time: Duration, distance: u32) {
    println!(
        "{name:<20} {:>7.1} ms   distance {distance}",
        time.as_secs_f64() * 1e3
    );
}

/// The whole table, a row at a time.
fn in_one_go(a: &[u8], b: &[u8]) -> u32 {
    let mut above: Vec<u32> = (0..=b.len() as u32).collect();
    let mut left: Vec<u32> = (1..=a.len() as u32).collect();
    fill(a, b, 0, &mut above[1..], &mut left);
    above[b.len()]
}

/// Fills a tile: `above` is the row above it and becomes its last row, `left` is the column to the
/// left and becomes its last column, `corner` is the field above and to the left.
fn fill(a: &[u8], b: &[u8], corner: u32, above: &mut [u32], left: &mut [u32]) {
    let mut corner = corner;
    for (letter, left) in a.iter().zip(left) {
        let (mut diagonal, mut last) = (corner, *left);
        corner = *left;
        for (other, above) in b.iter().zip(above.iter_mut()) {
            let change = diagonal + u32::from(letter != other);
            diagonal = *above;
            last = change.min(diagonal + 1).min(last + 1);
            *above = last;
        }
        *left = last;
    }
}

/// The edges of the tiles: all that is kept of the table.
struct Table<'a> {
    rows: Vec<&'a [u8]>,
    columns: Vec<&'a [u8]>,
    tile: usize,
    /// For each column of tiles, the last row of the lowest one that is done, and the field before
    /// its first one.
    above: Vec<Mutex<(u32, Vec<u32>)>>,
    /// For each row of tiles, the last column of the rightmost one that is done.
    left: Vec<Mutex<Vec<u32>>>,
}

impl<'a> Table<'a> {
    fn new(a: &'a [u8], b: &'a [u8], tile: usize) -> Self {
        let count = |from: usize, letters: &[u8]| -> Vec<u32> {
            (1..=letters.len()).map(|n| (from + n) as u32).collect()
        };
        let (rows, columns): (Vec<_>, Vec<_>) =
            (a.chunks(tile).collect(), b.chunks(tile).collect());
        let above = columns.iter().enumerate().map(|(n, letters)| {
            let before = n * tile;
            Mutex::new((before as u32, count(before, letters)))
        });
        let left = rows.iter().enumerate();
        let left = left.map(|(n, letters)| Mutex::new(count(n * tile, letters)));
        Self {
            above: above.collect(),
            left: left.collect(),
            rows,
            columns,
            tile,
        }
    }

    /// Fills a tile whose neighbours above and to the left are done.
    fn fill_tile(&self, row: usize, column: usize) {
        // The edges of the graph ensure that no other task uses these now.
        let above = self.above[column].lock();
        let mut above = above.unwrap_or_else(PoisonError::into_inner);
        let left = self.left[row].lock();
        let mut left = left.unwrap_or_else(PoisonError::into_inner);
        let (corner, above) = &mut *above;
        let below = left.last().copied().unwrap_or_default();
        fill(
            self.rows[row],
            self.columns[column],
            *corner,
            above,
            &mut left,
        );
        // The tile below has this one's lower left neighbour in its corner.
        *corner = below;
    }

    fn distance(&self) -> u32 {
        let last = self.above.last().map(|last| last.lock());
        let last = last.map(|last| last.unwrap_or_else(PoisonError::into_inner));
        last.and_then(|last| last.1.last().copied())
            .unwrap_or_default()
    }
}

/// A task for each tile.
fn wavefront<'t>(table: &'t Table<'_>) -> Graph<'t> {
    debug_assert!(table.tile > 0);
    let graph = Graph::new();
    let mut above: Vec<Option<u32>> = vec![None; table.columns.len()];
    for row in 0..table.rows.len() {
        let mut left = None;
        for (column, above) in above.iter_mut().enumerate() {
            let tile = graph.task("", move || table.fill_tile(row, column));
            tile.succeed(
                [left, above.and_then(|index| graph.get(index))]
                    .into_iter()
                    .flatten(),
            );
            left = Some(tile);
            *above = Some(tile.index());
        }
    }
    graph
}
