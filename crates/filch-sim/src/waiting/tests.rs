//! A checker must be seen to fail: each rule is tested with a worker that obeys it and one that
//! does not.

use super::*;

const AGEING: Ageing = Ageing {
    high: 3,
    normal: 4,
    low: 5,
};

fn books(workers: usize) -> Waiting {
    Waiting::new(workers, 0, AGEING)
}

fn label(task: u32, level: Priority, since: u64) -> Label {
    Label {
        task,
        level,
        owner: None,
        since,
    }
}

fn by(worker: usize, began: u64) -> Start {
    Start {
        worker,
        began,
        suspended: 0,
        from_mailbox: None,
        kept: false,
        owner_asleep: None,
    }
}

/// Returns how many tasks of `level` worker 0 may start in a row while one of `waiting` waits, and
/// the rule that the next start breaks.
fn run_of(level: Priority, waiting: Priority, workers: usize) -> (u64, Oracle) {
    let mut books = books(workers);
    books.add(label(0, waiting, 0));
    for n in 0..100 {
        if let Err(violation) = books.start(by(0, n), label(1, level, n)) {
            return (n, violation.oracle);
        }
    }
    panic!("{level:?} may keep {waiting:?} waiting for ever");
}

#[test]
fn no_level_is_passed_over_for_ever() {
    use Priority::{Critical, High, Low, Normal};
    assert_eq!(run_of(Normal, Critical, 2), (1, Oracle::Priority));
    assert_eq!(run_of(High, Critical, 2), (1, Oracle::Priority));
    assert_eq!(run_of(Critical, High, 2), (3 + SLACK, Oracle::Starvation));
    assert_eq!(run_of(Critical, Low, 2), (5 + SLACK, Oracle::Starvation));
    assert_eq!(run_of(Normal, Low, 2), (5 + SLACK, Oracle::Starvation));
    assert_eq!(run_of(High, Normal, 1), (4 + SLACK, Oracle::Starvation));
}

#[test]
fn a_turn_is_given_back() {
    let mut books = books(2);
    books.add(label(0, Priority::Critical, 0));
    books.add(label(1, Priority::Critical, 0));
    for n in (0..20).step_by(2) {
        books.start(by(0, n), label(2, Priority::Low, 0)).unwrap();
        let urgent = label(3, Priority::Critical, 0);
        books.start(by(0, n + 1), urgent).unwrap();
    }
}

#[test]
fn only_visible_tasks_count() {
    // It was queued after the choice began.
    let mut late = books(2);
    late.add(label(0, Priority::Critical, 9));
    for n in 0..9 {
        late.start(by(0, n), label(1, Priority::Normal, 0)).unwrap();
    }
    // An interrupted move may have taken it.
    let mut held = books(2);
    held.add(label(0, Priority::Critical, 0));
    for n in 0..9 {
        let start = Start {
            suspended: 1,
            ..by(0, n)
        };
        held.start(start, label(1, Priority::Normal, 0)).unwrap();
    }
    // It has been removed.
    let mut taken = books(2);
    taken.add(label(0, Priority::Critical, 0));
    taken.remove(label(0, Priority::Critical, 0));
    for n in 0..9 {
        taken
            .start(by(0, n), label(1, Priority::Normal, 0))
            .unwrap();
    }
}

#[test]
fn a_mailbox_belongs_to_its_worker() {
    let boxed = Label {
        owner: Some(1),
        ..label(0, Priority::Normal, 0)
    };
    let taken = |start: Start, label| books(3).start(start, label).map_err(|v| v.oracle);
    let from = |owner, asleep| Start {
        from_mailbox: Some(owner),
        owner_asleep: asleep,
        ..by(0, 5)
    };
    assert_eq!(taken(from(1, None), boxed), Ok(()));
    assert_eq!(
        taken(from(1, Some(6)), boxed),
        Ok(()),
        "it fell asleep later"
    );
    assert_eq!(taken(from(1, Some(5)), boxed), Err(Oracle::Affinity));
    assert_eq!(taken(from(2, None), boxed), Err(Oracle::Affinity));

    // A node: any worker of it may take the task.
    let own = Start {
        kept: true,
        ..from(1, Some(5))
    };
    assert_eq!(taken(own, boxed), Ok(()));

    let mut busy = books(2);
    busy.add(boxed);
    let own = (0..20).find_map(|n| busy.start(by(1, n), label(1, Priority::Normal, 0)).err());
    assert_eq!(own.unwrap().oracle, Oracle::Starvation);
    let mut gone = books(2);
    gone.add(boxed);
    gone.left(1);
    for n in 0..20 {
        gone.start(by(1, n), label(1, Priority::Normal, 0)).unwrap();
    }
}
