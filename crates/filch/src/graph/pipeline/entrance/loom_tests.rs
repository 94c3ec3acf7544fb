//! The entrance of a serial stage: a token and its turn arrive, and the second one enters.

use super::Entrance;
use crate::{
    base::canary::Canary,
    loom_tests::{Data, caught, model},
};
use loom::thread;
use std::sync::Arc;

/// What the two arrivals write, and the one that enters.
#[derive(Default)]
struct EntranceData {
    /// Written by the worker that brings the token.
    token: Data,
    /// Written by the worker that brings the turn.
    turn: Data,
    entered: Data,
}

/// Arrives, and enters if this is the second arrival: then it sees what both have written.
fn arrive(entrance: &Entrance, data: &EntranceData, round: usize) -> bool {
    let second = entrance.arrive();
    if second {
        assert_eq!((data.token.get(), data.turn.get()), (round, round));
        assert_eq!(data.entered.get(), round - 1, "entered before");
        data.entered.set(round);
    }
    second
}

/// Two tokens of one line. The two arrivals of the second token happen after the first token has
/// passed: one on the worker that passed it, one on another worker that got the turn.
fn two_rounds() {
    let (entrance, data) = (
        Arc::new(Entrance::new(0, 0, false)),
        Arc::new(EntranceData::default()),
    );
    let round = |bring_token: bool, round: usize| {
        let (entrance, data) = (entrance.clone(), data.clone());
        move || {
            let cell = if bring_token { &data.token } else { &data.turn };
            cell.set(round);
            arrive(&entrance, &data, round)
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
    assert_eq!(data.entered.get(), 2);
}

/// As in a run: the worker that enters begins the next round itself, without a wait.
fn next_round_at_once() {
    let (entrance, data) = (
        Arc::new(Entrance::new(0, 0, false)),
        Arc::new(EntranceData::default()),
    );
    data.token.set(1);
    data.turn.set(1);
    let walk = {
        let (entrance, data) = (entrance.clone(), data.clone());
        move || {
            if !arrive(&entrance, &data, 1) {
                return 0;
            }
            data.token.set(2);
            data.turn.set(2);
            let other = {
                let (entrance, data) = (entrance.clone(), data.clone());
                thread::spawn(move || usize::from(arrive(&entrance, &data, 2)))
            };
            1 + usize::from(arrive(&entrance, &data, 2)) + other.join().unwrap()
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
