//! The entrance of a serial stage: a token and its turn arrive, and the second one enters.

use super::Station;
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::thread;
use std::sync::Arc;

/// What the two arrivals write, and the one that enters.
#[derive(Default)]
struct Inside {
    /// Written by the worker that brings the token.
    token: Data,
    /// Written by the worker that brings the turn.
    turn: Data,
    entered: Data,
}

/// Arrives, and enters if this is the second arrival: then it sees what both have written.
fn arrive(station: &Station, inside: &Inside, round: usize) -> bool {
    let second = station.arrive();
    if second {
        assert_eq!((inside.token.get(), inside.turn.get()), (round, round));
        assert_eq!(inside.entered.get(), round - 1, "entered before");
        inside.entered.set(round);
    }
    second
}

/// Two tokens of one line. The two arrivals of the second token happen after the first token has
/// passed: one on the worker that passed it, one on another worker that got the turn.
fn two_rounds() {
    let (station, inside) = (
        Arc::new(Station::new(0, 0, false)),
        Arc::new(Inside::default()),
    );
    let round = |bring_token: bool, round: usize| {
        let (station, inside) = (station.clone(), inside.clone());
        move || {
            let cell = if bring_token {
                &inside.token
            } else {
                &inside.turn
            };
            cell.set(round);
            arrive(&station, &inside, round)
        }
    };
    let other = thread::spawn(round(true, 1));
    let here = round(false, 1)();
    // The worker that entered starts the next round. Which one it is makes no difference here.
    let there = other.join().unwrap();
    assert!(here ^ there, "one of the two enters");
    let other = thread::spawn(round(false, 2));
    let here = round(true, 2)();
    assert!(here ^ other.join().unwrap(), "one of the two enters again");
    assert_eq!(inside.entered.get(), 2);
}

/// As in a run: the worker that enters begins the next round itself, without a wait.
fn next_round_at_once() {
    let (station, inside) = (
        Arc::new(Station::new(0, 0, false)),
        Arc::new(Inside::default()),
    );
    inside.token.set(1);
    inside.turn.set(1);
    let walk = {
        let (station, inside) = (station.clone(), inside.clone());
        move || {
            if !arrive(&station, &inside, 1) {
                return 0;
            }
            inside.token.set(2);
            inside.turn.set(2);
            let other = {
                let (station, inside) = (station.clone(), inside.clone());
                thread::spawn(move || usize::from(arrive(&station, &inside, 2)))
            };
            1 + usize::from(arrive(&station, &inside, 2)) + other.join().unwrap()
        }
    };
    let other = thread::spawn(walk.clone());
    let here = walk();
    assert_eq!(here + other.join().unwrap(), 2, "one enters, in each round");
}

#[test]
fn one_of_a_token_and_its_turn_enters() {
    model(None, two_rounds);
}

#[test]
fn a_line_is_used_again() {
    model(Some(3), next_round_at_once);
}

#[test]
fn canary_arrivals_that_miss_each_other() {
    caught(Canary::PipelineArrive, None, two_rounds);
    caught(Canary::PipelineArrive, Some(3), next_round_at_once);
}
