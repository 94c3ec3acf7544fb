//! Rehearsals must be seen to fail: they find every deliberate defect that shows in one order of
//! events.
//!
//! Run with `RUSTFLAGS="--cfg filch_canary" cargo test --release --features rehearse --test
//! rehearse_canaries`.
#![cfg(all(feature = "rehearse", filch_canary))]

#[path = "support/programs/mod.rs"]
mod programs;
mod support;

use filch::{
    canary::{self, Canary},
    rehearse::{self, Rehearsal},
};
use programs::{
    deadlocks, drivers, folds, futures, graphs, par, resizes, sleeps, sources, tasks, timers,
};

type Check = fn(u64) -> Result<(), String>;

/// Within how many seeds a defect must be found.
const SEEDS: u64 = 2_000;

/// The defects, the programs that find them, and parts of the reports.
const VISIBLE: [(Canary, Check, &[&str]); 47] = [
    (Canary::GraphLast, graphs::check, &["times", "began before"]),
    (Canary::GraphRearm, graphs::check, &["times"]),
    (
        Canary::GraphPermits,
        graphs::check,
        &["permit", "no actor can run"],
    ),
    (
        Canary::GraphFeeder,
        sources::check,
        &["no actor can run", "max_points"],
    ),
    (Canary::FutureRest, graphs::check, &["no actor can run"]),
    (Canary::ScopeWake, graphs::check, &["no actor can run"]),
    (Canary::LastCheck, all_faces, &["no actor can run"]),
    (Canary::PoolLatchWake, halves, &["no actor can run"]),
    (Canary::PushWake, tasks::check, &["no actor can run"]),
    (Canary::TaskWake, tasks::check, &["no actor can run"]),
    (
        Canary::WaitCheckFirst,
        deadlocks::check,
        &["no actor can run"],
    ),
    (
        Canary::WaitUnchecked,
        deadlocks::check,
        &["no actor can run"],
    ),
    (
        Canary::WaitVerdict,
        deadlocks::check_mixed,
        &["no actor can run"],
    ),
    (
        Canary::WaitHoldsUp,
        deadlocks::check_mixed,
        &["no actor can run"],
    ),
    (Canary::WaitStale, late_deadlocks, &["has ended"]),
    (Canary::WaitDepth, deadlocks::check_chain, &["no circle"]),
    (
        Canary::GuardIsolates,
        deadlocks::check_locks,
        &["no actor can run"],
    ),
    (Canary::LeaveHandsOn, resizes::check, &["no actor can run"]),
    (Canary::SleepRenew, sleeps::check, &["woken"]),
    (Canary::SleepLeaves, sleeps::check, &["wait"]),
    (Canary::SleepEarly, sleeps::check, &["woken"]),
    (Canary::SleepEarly, timers::check, &["expected, got"]),
    (Canary::TickSkip, timers::check, &["expected, got"]),
    (Canary::GroupWatch, futures::check, &["no actor can run"]),
    (
        Canary::LocalWatch,
        futures::check,
        &["no actor can run", "max_points"],
    ),
    (
        Canary::ClockForgets,
        futures::check,
        &["no actor can run", "is over at"],
    ),
    (Canary::FutureRest, futures::check, &["no actor can run"]),
    (Canary::TaskWatch, futures::check, &["no actor can run"]),
    (Canary::TaskWake, futures::check, &["no actor can run"]),
    (Canary::SleepLeaves, futures::check, &["left at the clock"]),
    (Canary::DriverEnter, drivers::check, &["no actor can run"]),
    (Canary::DriverNotify, drivers::check, &["no actor can run"]),
    (Canary::FoldPark, folds::check, &["no actor can run"]),
    (Canary::FoldOrder, folds::check, &["the result is"]),
    (
        Canary::FoldEarly,
        folds::check,
        &["there is a result", "must return every task"],
    ),
    (Canary::FoldLate, folds::check, &["were dropped"]),
    (Canary::FoldBundle, folds::check_spines, &["were dropped"]),
    (
        Canary::LoopOrder,
        par::check,
        &["the result is", "fewer items"],
    ),
    (Canary::LoopScan, par::check, &["the result is"]),
    (Canary::LoopFirst, par::check, &["the result is"]),
    (Canary::LoopFirst, par::check_chains, &["the result is"]),
    (
        Canary::LoopOrder,
        par::check_chains,
        &["the result is", "fewer items"],
    ),
    (Canary::LoopAlarm, par::check_chains, &["after the panic"]),
    (Canary::LoopRestore, par::check_sort, &["lost items"]),
    (Canary::LoopAlarm, par::check, &["after the panic"]),
    (Canary::LoopAlarm, par::check_sort, &["after the panic"]),
    (Canary::LoopStray, par::check, &["outside of the pool"]),
];

/// Both halves of a join take some time.
fn halves(seed: u64) -> Result<(), String> {
    let half = || (0..20).for_each(|_| rehearse::point());
    let rehearsed = Rehearsal::new(2, seed).try_run(move |pool| pool.join(half, half));
    rehearsed.map(drop).map_err(|failure| failure.to_string())
}

/// Programs that end a task while another one is checked for a circle are rare: the first is in
/// these.
fn late_deadlocks(seed: u64) -> Result<(), String> {
    deadlocks::check(3_000 + seed)
}

/// Programs of several faces: few of each kind show that a task is missed before sleeping.
fn all_faces(seed: u64) -> Result<(), String> {
    graphs::check(seed)?;
    tasks::check(seed)?;
    futures::check(seed)?;
    folds::check(seed)
}

/// The switch is one for the whole process, so everything happens in one test.
#[test]
fn every_visible_defect_is_found_soon() {
    every_defect_is_found();
    what_is_reported_is_a_deadlock();
}

/// The same schedule without reports: where there was one, no actor can run, and where there was
/// none, the run ends.
fn what_is_reported_is_a_deadlock() {
    type Perform = fn(u64) -> Result<usize, String>;
    let programs: [Perform; 2] = [deadlocks::perform, deadlocks::perform_mixed];
    let seeds = (0..SEEDS / 4).flat_map(|seed| programs.map(|perform| (seed, perform)));
    for (seed, perform) in seeds {
        canary::set(None);
        let reports = perform(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
        canary::set(Some(Canary::WaitUnchecked));
        let without = perform(seed).map(drop);
        canary::set(None);
        match without {
            Ok(()) => assert_eq!(reports, 0, "seed {seed}: all of them end without reports"),
            Err(wrong) => {
                assert!(reports > 0, "seed {seed}: {wrong}");
                assert!(wrong.contains("no actor can run"), "seed {seed}: {wrong}");
            }
        }
    }
}

fn every_defect_is_found() {
    for (defect, check, expected) in VISIBLE {
        canary::set(Some(defect));
        let found = (0..SEEDS).find_map(|seed| Some((seed, check(seed).err()?)));
        let Some((seed, wrong)) = found else {
            panic!("{defect:?} was not found with {SEEDS} seeds");
        };
        println!(
            "{defect:?}: found by seed {seed}: {}",
            wrong.lines().next().unwrap_or("")
        );
        assert!(
            expected.iter().any(|text| wrong.contains(text)),
            "{defect:?}: {wrong}"
        );
        // A seed is an address.
        assert!(
            check(seed).is_err(),
            "{defect:?}, seed {seed}: found once only"
        );
        canary::set(None);
        check(seed).unwrap_or_else(|wrong| panic!("without {defect:?}: {wrong}"));
    }
}
