//! A checker must be seen to fail: every oracle is shown a sound world and broken ones.

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
fn a_sound_world_passes() {
    assert_eq!(broken(|_| {}), None);
}

#[test]
fn tasks_are_neither_lost_nor_made_up() {
    assert_eq!(broken(|f| f.has_work = false), Some(Oracle::TaskLost));
    assert_eq!(broken(|f| f.live = 0), Some(Oracle::TaskTwice));
}

#[test]
fn nobody_sleeps_on_work() {
    let asleep = |f: &mut Facts| {
        f.searching = 0;
        f.asleep = 1;
        f.unwoken = Some(1);
    };
    let found = Some(Oracle::SleepsOnWork);
    assert_eq!(broken(asleep), found);
    // It is all right if somebody is on the way, or there is nothing to do.
    let excuses: [fn(&mut Facts); 3] = [
        |f| f.searching = 1,
        |f| f.about_to_look = true,
        |f| (f.has_work, f.live) = (false, 0),
    ];
    for excuse in excuses {
        let both = |f: &mut Facts| {
            asleep(f);
            excuse(f);
        };
        assert_eq!(broken(both), None);
    }
    // A lenient policy lets the busy worker keep its task, but not everybody sleep.
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
fn only_half_search() {
    let found = Some(Oracle::Searchers);
    assert_eq!(broken(|f| f.searching = 3), found);
    // Two may always.
    assert_eq!(broken(|f| f.searching = 2), None);
    // Not their fault if others left.
    assert_eq!(broken(|f| (f.searching, f.searching_before) = (3, 3)), None);
    assert_eq!(broken(|f| (f.searching, f.most_present) = (3, 5)), None);
    // It was called.
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
    assert_eq!(broken(done), found, "nobody was told");
    let told = |f: &mut Facts| {
        done(f);
        f.stopped = true;
    };
    assert_eq!(broken(told), None);
    let sleeps_on = |f: &mut Facts| {
        told(f);
        f.unwoken = Some(1);
    };
    assert_eq!(broken(sleeps_on), found);
    let stopped = |f: &mut Facts| {
        (f.stop_asked, f.gate_open, f.stopped) = (true, false, true);
    };
    assert_eq!(broken(stopped), None);
}

#[test]
fn counters_tell_what_happened() {
    let deeds = Deeds {
        executed: 5,
        high: 1,
        spawned_local: 2,
        parks: 1,
        ..Deeds::default()
    };
    let told = |change: fn(&mut WorkerMetrics)| {
        let mut told = WorkerMetrics::default();
        (told.executed, told.local, told.injected, told.stolen) = (5, 1, 1, 1);
        (told.high, told.affine_kept) = (1, 1);
        (told.steal_attempts, told.spawned_local, told.parks) = (1, 2, 1);
        change(&mut told);
        check_counters(0, &told, &deeds).map_err(|violation| violation.oracle)
    };
    assert_eq!(told(|_| {}), Ok(()));
    let lies: [fn(&mut WorkerMetrics); 8] = [
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
        assert_eq!(told(lie), Err(Oracle::Counters));
    }
}
