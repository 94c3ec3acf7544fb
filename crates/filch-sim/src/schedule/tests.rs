//! Tests of the schedulers' choices.

use super::*;

fn candidates(list: &[(Option<usize>, u64)]) -> Vec<Candidate> {
    list.iter()
        .map(|&(worker, at)| Candidate { worker, at })
        .collect()
}

/// Returns the order of moves if every worker can always move.
fn order(scheduler: &Scheduler, workers: usize, moves: u64) -> Vec<Option<usize>> {
    let mut all: Vec<_> = (0..workers).map(|worker| (Some(worker), 0)).collect();
    all.push((None, 0));
    let all = candidates(&all);
    let mut picker = Picker::new(scheduler, workers);
    (0..moves)
        .map(|number| all[picker.pick(&all, 0, number, 0).0].worker)
        .collect()
}

#[test]
fn round_robin_takes_turns_among_due_workers() {
    let [w0, w1, outside] = [Some(0), Some(1), None];
    let expected = [outside, w0, w1, outside, w0, w1];
    assert_eq!(order(&Scheduler::RoundRobin, 2, 6), expected);

    let mut picker = Picker::new(&Scheduler::RoundRobin, 2);
    let later = candidates(&[(Some(0), 9), (Some(1), 5)]);
    assert_eq!(picker.pick(&later, 0, 0, 0).0, 1, "the first that is due");
    assert_eq!(picker.pick(&later, 9, 1, 0).0, 0);
}

#[test]
fn random_reaches_every_worker_and_jumps_only_if_configured() {
    let random = |jump| Scheduler::Random {
        seed: 5,
        jump,
        preempt: 0,
    };
    let seen = order(&random(0), 4, 200);
    assert!((0..4).map(Some).chain([None]).all(|w| seen.contains(&w)));

    let list = candidates(&[(Some(0), 0), (Some(1), 100)]);
    let jumps = |jump| {
        let mut picker = Picker::new(&random(jump), 2);
        (0..100)
            .filter(|&number| picker.pick(&list, 0, number, 0).0 == 1)
            .count()
    };
    assert_eq!(jumps(0), 0);
    assert!((10..60).contains(&jumps(2)));
}

#[test]
fn pct_lowers_priorities_as_often_as_configured() {
    for seed in 0..50 {
        let pct = Scheduler::Pct {
            seed,
            changes: 3,
            length: 100,
            preempt: 0,
        };
        let order = order(&pct, 4, 100);
        let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // Two changes may be at the same move, and one may precede the first move.
        assert!((1..=3).contains(&changes), "{changes} with seed {seed}");
    }
}

#[test]
fn replay_skips_impossible_moves() {
    let step = |worker| Move {
        worker,
        preempt: None,
    };
    let replay = Scheduler::Replay(vec![step(Some(7)), step(Some(1)), step(None)]);
    let (w1, outside) = (Some(1), None);
    assert_eq!(order(&replay, 2, 3)[..2], [w1, outside]);
}

#[test]
fn interruptions_have_a_depth() {
    let mut rng = Rng::new(1);
    assert!(interruption(&mut rng, 1, 0).is_some());
    assert!(interruption(&mut rng, 1, MAX_DEPTH).is_none());
    assert!(interruption(&mut rng, 0, 0).is_none());
}
