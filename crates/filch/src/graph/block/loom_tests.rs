//! A source in a block is taken once.

use super::SourceBlock;
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::thread;
use std::sync::Arc;

/// A holder claims the positions of a block one after the other, while thieves take some of them.
/// Each position is taken once.
fn split(positions: u32, thieves: usize, takes_all: bool) {
    let block = Arc::new(SourceBlock::new());
    let taken: Arc<Vec<Data>> = Arc::new((0..positions).map(|_| Data::default()).collect());
    let holder = block.acquire().expect("it is free");
    let claims = holder.open(0..positions);
    let threads: Vec<_> = (0..thieves)
        .map(|_| {
            let (block, taken) = (block.clone(), taken.clone());
            thread::spawn(move || {
                for at in block.steal(false).into_iter().flatten() {
                    taken[at as usize].add(1);
                }
            })
        })
        .collect();
    if let Some(at) = claims.claim() {
        taken[at as usize].add(1);
    }
    if takes_all {
        for at in claims.take_all_unclaimed() {
            taken[at as usize].add(1);
        }
    }
    while let Some(at) = claims.claim() {
        taken[at as usize].add(1);
    }
    drop(holder);
    for thief in threads {
        thief.join().unwrap();
    }
    assert!(taken.iter().all(|taken| taken.get() == 1), "taken once");
}

#[test]
fn a_position_of_a_block_is_taken_once() {
    model(Some(3), || split(1, 1, false));
    model(Some(3), || split(2, 1, false));
    model(Some(2), || split(3, 1, false));
    model(Some(2), || split(3, 1, true));
    model(Some(2), || split(2, 2, false));
}

/// A block is opened again while a thief steals from it.
#[test]
fn a_thief_takes_part_of_the_block_that_it_has_checked() {
    model(Some(2), || {
        let block = Arc::new(SourceBlock::new());
        let taken: Arc<[Data; 3]> = Arc::default();
        let thief = {
            let (block, taken) = (block.clone(), taken.clone());
            thread::spawn(move || {
                for at in block.steal(false).into_iter().flatten() {
                    taken[at as usize].add(1);
                }
            })
        };
        for positions in [0..1, 1..3] {
            let holder = block.acquire().expect("it is free");
            let claims = holder.open(positions);
            while let Some(at) = claims.claim() {
                taken[at as usize].add(1);
            }
        }
        thief.join().unwrap();
        assert!(taken.iter().all(|taken| taken.get() == 1), "taken once");
    });
}

#[test]
fn canary_thief_that_does_not_check_again() {
    caught(Canary::GraphBlock, Some(2), || split(2, 1, false));
}
