//! A pipeline: blocks are read one by one, compressed many at once, and written in order.
//!
//! `cargo run --release --example pipeline -- 64 8`

use filch::{Pool, Rng, graph::Pipeline};
use std::{
    env,
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

const HELP: &str = "\
Compresses text block by block: reads in order, compresses in parallel, writes in order. Then
decompresses it to check that nothing is lost.

Usage: pipeline [MEBIBYTES [LINES]]

  MEBIBYTES   how much text [16]
  LINES       blocks on their way at the same time [16]
  --help      this text";

/// Letters of a block: packing one takes about a millisecond, so the overhead of a token is
/// negligible.
const BLOCK: usize = 16 << 10;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if arguments
        .iter()
        .any(|text| text == "--help" || text == "-h")
    {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let number = |place: usize, otherwise: usize| match arguments.get(place) {
        None => Some(otherwise),
        Some(text) => text.parse().ok().filter(|n| (1..=4096).contains(n)),
    };
    let (Some(size), Some(lines)) = (number(0, 16), number(1, 16)) else {
        eprintln!("pipeline: numbers from 1 to 4096, please; see --help");
        return ExitCode::from(2);
    };
    match pack_all(size << 20, lines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pipeline: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pack_all(size: usize, lines: usize) -> Result<(), Box<dyn Error>> {
    let text = text(size);
    let alone = timed(|| {
        let packed: usize = text.chunks(BLOCK).map(|block| pack(block).len()).sum();
        Ok(packed)
    })?;

    let mut blocks = text.chunks(BLOCK);
    let (mut archive, mut checks) = (Vec::new(), 0_u32);
    let mut pipeline = Pipeline::new(|_flow| blocks.next())
        .named("read")
        .parallel(|block| {
            let packed = pack(block);
            let check = checksum(&packed);
            (packed, check)
        })
        .named("pack")
        .serial(|(packed, check)| {
            archive.extend((packed.len() as u32).to_le_bytes());
            archive.extend(packed);
            // Depends on the order.
            checks = checks.rotate_left(5) ^ check;
        })
        .named("write");
    let together = timed(|| Ok(pipeline.run(lines)?.tokens()))?;
    drop(pipeline);

    if unpack(&archive).as_deref() != Some(&text) {
        return Err("what comes out is not what went in".into());
    }
    let megabytes = |time: Duration| size as f64 / 1e6 / time.as_secs_f64().max(1e-9);
    println!(
        "{} blocks, {} → {} bytes, checksum {checks:08x}, unpacked and compared",
        together.1,
        size,
        archive.len()
    );
    println!("one after the other   {:>7.1} MB/s", megabytes(alone.0));
    println!(
        "as a pipeline         {:>7.1} MB/s   {:.2} times as fast, {lines} lines, {} workers and this thread",
        megabytes(together.0),
        alone.0.as_secs_f64() / together.0.as_secs_f64().max(1e-9),
        Pool::global().workers()
    );
    Ok(())
}

fn timed<R>(
    f: impl FnOnce() -> Result<R, Box<dyn Error>>,
) -> Result<(Duration, R), Box<dyn Error>> {
    let start = Instant::now();
    let result = f()?;
    Ok((start.elapsed(), result))
}

/// Words, some more often than others.
fn text(size: usize) -> Vec<u8> {
    let mut rng = Rng::new(3);
    let words = [
        "the ", "pool ", "and ", "a ", "worker ", "steals ", "task ", "tasks\n",
    ];
    let mut text = Vec::with_capacity(size + 8);
    while text.len() < size {
        let (one, other) = (rng.next_u64() % 8, rng.next_u64() % 8);
        text.extend(words[one.min(other) as usize].bytes());
    }
    text.truncate(size);
    text
}

/// How far back a repetition may be, and how long it may be.
const BACK: usize = 60;
const LONGEST: usize = 127;

/// Packs a block: repetitions of something at most 60 letters back become two bytes, letters stay
/// as they are.
fn pack(block: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(block.len() / 2);
    let mut at = 0;
    while at < block.len() {
        let most = LONGEST.min(block.len() - at);
        let length_at = |back: usize| {
            let pairs = block[at..at + most].iter().zip(&block[at - back..]);
            pairs.take_while(|(here, there)| here == there).count()
        };
        let candidates = (1..=BACK.min(at)).map(|back| (length_at(back), back));
        match candidates.max() {
            Some((length, back)) if length > 2 => {
                packed.extend([0x80 | length as u8, back as u8]);
                at += length;
            }
            _ => {
                packed.push(block[at]);
                at += 1;
            }
        }
    }
    packed
}

/// Unpacks an archive, if it is one.
fn unpack(mut archive: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some((length, rest)) = archive.split_first_chunk() {
        let (block, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        archive = rest;
        let mut bytes = block.iter();
        while let Some(&byte) = bytes.next() {
            if byte < 0x80 {
                text.push(byte);
                continue;
            }
            let start = text.len().checked_sub(usize::from(*bytes.next()?))?;
            for offset in 0..usize::from(byte & 0x7f) {
                text.push(*text.get(start + offset)?);
            }
        }
    }
    Some(text)
}

fn checksum(bytes: &[u8]) -> u32 {
    let add = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, add)
}
