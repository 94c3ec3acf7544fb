//! The entrance of a serial stage: a token and its turn meet, and one of the two goes in.

use super::{caught, model};
use filch::{base::canary::Canary, graph::pipeline::model::Station};
use loom::{cell::UnsafeCell, thread};
use std::sync::Arc;

/// What whoever goes in finds and changes: plain cells, so that loom reports an access that nothing orders.
#[derive(Default)]
struct Inside {
    /// Written by the one who brings the token.
    token: UnsafeCell<usize>,
    /// Written by the one who brings the turn.
    turn: UnsafeCell<usize>,
    went_in: UnsafeCell<usize>,
}

// SAFETY: the models order the accesses, which is what loom checks.
#[expect(unsafe_code, reason = "cells whose accesses loom watches")]
unsafe impl Sync for Inside {}

#[expect(unsafe_code, reason = "loom watches")]
fn set(cell: &UnsafeCell<usize>, value: usize) {
    // SAFETY: as above.
    cell.with_mut(|cell| unsafe { *cell = value });
}

#[expect(unsafe_code, reason = "loom watches")]
fn get(cell: &UnsafeCell<usize>) -> usize {
    // SAFETY: as above.
    cell.with(|cell| unsafe { *cell })
}

/// Goes in if it is the second one: sees what both have brought.
fn arrive(station: &Station, inside: &Inside, round: usize) -> bool {
    let second = station.arrive();
    if second {
        assert_eq!((get(&inside.token), get(&inside.turn)), (round, round));
        assert_eq!(get(&inside.went_in), round - 1, "somebody went in before");
        set(&inside.went_in, round);
    }
    second
}

/// Two tokens of one line: the two arrivals of the second come after the first has passed, from whoever passed, and
/// from another worker that it has handed the turn to.
fn two_rounds() {
    let (station, inside) = (Arc::new(Station::new(false)), Arc::new(Inside::default()));
    let round = |bring_token: bool, round: usize| {
        let (station, inside) = (station.clone(), inside.clone());
        move || {
            let cell = if bring_token {
                &inside.token
            } else {
                &inside.turn
            };
            set(cell, round);
            arrive(&station, &inside, round)
        }
    };
    let other = thread::spawn(round(true, 1));
    let here = round(false, 1)();
    // The one who went in starts the next round; where that happens makes no difference to the station.
    let there = other.join().unwrap();
    assert!(here ^ there, "one of the two goes in");
    let other = thread::spawn(round(false, 2));
    let here = round(true, 2)();
    assert!(here ^ other.join().unwrap(), "and again");
    assert_eq!(get(&inside.went_in), 2);
}

/// As in a run: whoever goes in begins the next round itself, without waiting for anybody else.
fn handed_on() {
    let (station, inside) = (Arc::new(Station::new(false)), Arc::new(Inside::default()));
    set(&inside.token, 1);
    set(&inside.turn, 1);
    let walk = {
        let (station, inside) = (station.clone(), inside.clone());
        move || {
            if !arrive(&station, &inside, 1) {
                return 0;
            }
            set(&inside.token, 2);
            set(&inside.turn, 2);
            let other = {
                let (station, inside) = (station.clone(), inside.clone());
                thread::spawn(move || usize::from(arrive(&station, &inside, 2)))
            };
            1 + usize::from(arrive(&station, &inside, 2)) + other.join().unwrap()
        }
    };
    let other = thread::spawn(walk.clone());
    let here = walk();
    assert_eq!(
        here + other.join().unwrap(),
        2,
        "one goes in, in each round"
    );
}

#[test]
fn one_of_a_token_and_its_turn_goes_in() {
    model(None, two_rounds);
}

#[test]
fn a_line_is_used_again() {
    model(Some(3), handed_on);
}

#[test]
fn canary_arrivals_that_miss_each_other() {
    caught(Canary::PipelineArrive, None, two_rounds);
    caught(Canary::PipelineArrive, Some(3), handed_on);
}
