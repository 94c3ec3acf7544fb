//! A checker must be seen to fail: every oracle is tested with a correct state and with broken
//! ones.

use super::*;

/// Two workers, one busy with a task in its queue, the other one searching.
fn sound() -> Facts {
    Facts {
        strict: true,
        has_work: true,
        live: 1,
        gate_open: true,
        gate_busy: 1,
        gate_in_flight: 0,
        searching: 1,
        searching_before: 0,
        present: 2,
        most_present: 2,
        ..Facts::default()
    }
}

fn broken(change: impl FnOnce(&mut Facts)) -> Option<Oracle> {
    let mut facts = sound();
    change(&mut facts);
    facts.check().err().map(|violation| violation.oracle)
}

#[test]
fn a_correct_state_passes() {
    assert_eq!(broken(|_| {}), None);
}

#[test]
fn tasks_are_neither_lost_nor_invented() {
    assert_eq!(broken(|f| f.has_work = false), Some(Oracle::TaskLost));
    assert_eq!(broken(|f| f.live = 0), Some(Oracle::TaskTwice));
}

#[test]
fn no_worker_sleeps_on_work() {
    let asleep = |f: &mut Facts| {
        f.searching = 0;
        f.asleep = 1;
        f.unwoken = Some(1);
    };
    let found = Some(Oracle::SleepsOnWork);
    assert_eq!(broken(asleep), found);
    // Allowed if a worker is about to find the task, or there is no task.
    let excuses: [fn(&mut Facts); 3] = [
        |f| f.searching = 1,
        |f| f.has_final_check = true,
        |f| (f.has_work, f.live) = (false, 0),
    ];
    for excuse in excuses {
        let both = |f: &mut Facts| {
            asleep(f);
            excuse(f);
        };
        assert_eq!(broken(both), None);
    }
    // Other policies allow the busy worker to hold its task, but not all workers to sleep.
    let lenient = |f: &mut Facts| {
        asleep(f);
        f.strict = false;
    };
    assert_eq!(broken(lenient), None);
    let all_asleep = |f: &mut Facts| {
        lenient(f);
        f.asleep = 2;
        (f.gate_busy, f.gate_in_flight) = (0, 1);
    };
    assert_eq!(broken(all_asleep), found);
    assert_eq!(broken(|f| f.uncalled = Some(0)), found);
}

#[test]
fn the_gate_counts() {
    let found = Some(Oracle::Gate);
    assert_eq!(broken(|f| f.gate_open = false), found);
    assert_eq!(broken(|f| f.close_asked = true), found);
    assert_eq!(broken(|f| f.gate_busy = 3), found);
    assert_eq!(broken(|f| f.gate_busy = 0), found);
    assert_eq!(broken(|f| (f.gate_busy, f.gate_in_flight) = (0, 1)), None);
}

#[test]
fn at_most_half_search() {
    let found = Some(Oracle::Searchers);
    assert_eq!(broken(|f| f.searching = 3), found);
    // Two searchers are always allowed.
    assert_eq!(broken(|f| f.searching = 2), None);
    // More than half are allowed after workers have left.
    assert_eq!(broken(|f| (f.searching, f.searching_before) = (3, 3)), None);
    assert_eq!(broken(|f| (f.searching, f.most_present) = (3, 5)), None);
    // Of many workers all but eight may search.
    assert_eq!(broken(|f| (f.searching, f.most_present) = (9, 16)), found);
    assert_eq!(broken(|f| (f.searching, f.most_present) = (9, 17)), None);
    assert_eq!(broken(|f| (f.searching, f.most_present) = (93, 100)), found);
    // It was woken for its mailbox.
    assert_eq!(broken(|f| (f.searching, f.called) = (3, 1)), None);
}

#[test]
fn the_end_comes_when_all_is_done() {
    let found = Some(Oracle::Termination);
    let closed = |f: &mut Facts| (f.close_asked, f.gate_open) = (true, false);
    let done = |f: &mut Facts| {
        closed(f);
        (f.has_work, f.live, f.gate_busy) = (false, 0, 0);
    };
    let too_early = |f: &mut Facts| {
        closed(f);
        f.stopped = true;
    };
    assert_eq!(broken(too_early), found);
    assert_eq!(
        broken(done),
        found,
        "the workers were not requested to exit"
    );
    let ended = |f: &mut Facts| {
        done(f);
        f.stopped = true;
    };
    assert_eq!(broken(ended), None);
    let sleeps_on = |f: &mut Facts| {
        ended(f);
        f.unwoken = Some(1);
    };
    assert_eq!(broken(sleeps_on), found);
    let stopped = |f: &mut Facts| {
        (f.stop_asked, f.gate_open, f.stopped) = (true, false, true);
    };
    assert_eq!(broken(stopped), None);
}

#[test]
fn counters_match_the_actions() {
    let tally = WorkerTally {
        executed: 5,
        high: 1,
        spawned_local: 2,
        parks: 1,
        ..WorkerTally::default()
    };
    let check = |change: fn(&mut WorkerMetrics)| {
        let mut reported = WorkerMetrics::default();
        (
            reported.executed,
            reported.local,
            reported.injected,
            reported.stolen,
        ) = (5, 1, 1, 1);
        (reported.high, reported.affine_kept) = (1, 1);
        (
            reported.steal_attempts,
            reported.spawned_local,
            reported.parks,
        ) = (1, 2, 1);
        change(&mut reported);
        check_counters(0, &reported, &tally).map_err(|violation| violation.oracle)
    };
    assert_eq!(check(|_| {}), Ok(()));
    let lies: [fn(&mut WorkerMetrics); 9] = [
        |w| w.stolen_far = 2,
        |w| w.affine_kept = 0,
        |w| (w.high, w.low) = (0, 1),
        |w| w.spawned_lane = 1,
        |w| w.executed = 2,
        |w| w.stolen = 0,
        |w| w.steal_attempts = 0,
        |w| w.spawned_global = 1,
        |w| w.parks = 2,
    ];
    for lie in lies {
        assert_eq!(check(lie), Err(Oracle::Counters));
    }
}
