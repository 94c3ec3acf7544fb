//! The simulator must be seen to fail: it finds every deliberate defect that it can see.
//!
//! Run with `RUSTFLAGS="--cfg filch_canary" cargo test --test simulate_canaries`.
#![cfg(filch_canary)]

use filch::canary::{self, Canary};
use filch_sim::{Case, Oracle, Simulation};
use std::fs;

/// Within how many random runs a defect must be found.
const RUNS: u64 = 1_000;

/// The defects that show in a sequentially consistent run whose moves are interrupted only at
/// events, and the rules of which one must be broken. The others are missing fences, races inside
/// of one call (`Seal`, `GateSplit`, `LaneLower`, `CallBack`) or outside of the engine
/// (`LatchWake`): the model checker finds those.
const VISIBLE: [(Canary, &[Oracle]); 14] = [
    (Canary::GrowPublish, &[Oracle::TaskTwice, Oracle::TaskLost]),
    (Canary::GateFlush, &[Oracle::Gate]),
    (Canary::LastCheck, &[Oracle::SleepsOnWork]),
    (Canary::PushWake, &[Oracle::SleepsOnWork]),
    (Canary::PassOn, &[Oracle::SleepsOnWork]),
    (Canary::WakeBit, &[Oracle::SleepsOnWork]),
    (Canary::WakeInTurn, &[Oracle::SleepsOnWork]),
    (Canary::StandbyLeaves, &[Oracle::SleepsOnWork]),
    (Canary::LoseTask, &[Oracle::TaskLost, Oracle::Abandoned]),
    (Canary::LeaveDrop, &[Oracle::TaskLost, Oracle::Abandoned]),
    (Canary::LaneFlag, &[Oracle::TaskLost]),
    (Canary::LaneOrder, &[Oracle::Priority, Oracle::Starvation]),
    (Canary::LaneTurns, &[Oracle::Starvation]),
    (Canary::AffineTake, &[Oracle::Affinity]),
];

/// Defects that show only if a task arrives between two steps of one search: one random run in ten
/// thousand finds them. Saved cases do, and the model checker.
const RARE: [Canary; 2] = [Canary::LaneLastCheck, Canary::AffineLastCheck];

/// The switch is one for the whole process, so everything happens in one test.
#[test]
fn every_visible_defect_is_found_soon() {
    for (defect, expected) in VISIBLE {
        canary::set(Some(defect));
        let found = (0..RUNS).find_map(|seed| Simulation::from_seed(seed).run().err());
        let Some(failure) = found else {
            panic!("{defect:?} was not found in {RUNS} runs");
        };
        let runs = failure.seed.map_or(0, |seed| seed + 1);
        println!("{defect:?}: found by run {runs}: {}", failure.oracle);
        assert!(expected.contains(&failure.oracle), "{defect:?}: {failure}");

        // A seed is an address: the same run fails in the same way, and passes in a sound engine.
        assert!(
            failure
                .to_string()
                .contains(&format!("--seed {}", runs - 1))
        );
        let again = Simulation::new(failure.case.clone()).expect("it ran before");
        let replayed = again.run().expect_err("the same run, the same failure");
        assert_eq!(replayed.trace, failure.trace);
        canary::set(None);
        again
            .run()
            .unwrap_or_else(|f| panic!("without {defect:?}: {f}"));
    }
    saved_cases_find_their_defect();
    for seed in 0..RUNS {
        let sound = Simulation::from_seed(seed).run();
        sound.unwrap_or_else(|failure| panic!("without a defect: {failure}"));
    }
}

fn saved_cases_find_their_defect() {
    let mut checked = Vec::new();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    for file in fs::read_dir(directory).expect("the corpus") {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a readable file");
        let case = Case::from_json(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let Some(name) = case.canary.clone() else {
            continue;
        };
        let mut defects = VISIBLE.iter().map(|&(defect, _)| defect).chain(RARE);
        let defect = defects.find(|c| format!("{c:?}") == name);
        let defect = defect.unwrap_or_else(|| panic!("{}: {name}?", path.display()));
        canary::set(Some(defect));
        let run = Simulation::new(case).expect("checked when read").run();
        canary::set(None);
        assert!(run.is_err(), "{} does not find {name}", path.display());
        checked.push(defect);
    }
    for defect in RARE {
        assert!(checked.contains(&defect), "no saved case for {defect:?}");
    }
}
