//! The deque: every task is taken once.
//!
//! The owner is the main thread. It is the busy side of the process-wide barrier, which loom sees
//! as a rendezvous (`base::sys::barrier`).

use super::{Capacity, Deque, Front, Ordering, Owner, Retract, Steal};
use crate::{
    base::{canary::Canary, sys::barrier::busy_side},
    loom_tests::{caught, long_run, model},
};
use loom::{sync::Arc, thread};

type Thief = fn(&Deque<usize>) -> Vec<usize>;

fn steal_one(deque: &Deque<usize>) -> Vec<usize> {
    match deque.steal() {
        Steal::Taken(task) => vec![task],
        _ => vec![],
    }
}

fn steal_two(deque: &Deque<usize>) -> Vec<usize> {
    [steal_one(deque), steal_one(deque)].concat()
}

fn steal_batch(deque: &Deque<usize>) -> Vec<usize> {
    let mine = Deque::new(Capacity::bounded(4));
    let mut mine = mine.owner().unwrap();
    match deque.steal_batch(&mut mine, 4) {
        Steal::Taken((task, _)) => [vec![task], drain(&mut mine)].concat(),
        _ => vec![],
    }
}

/// One task, then a batch: the second time the deque is open.
fn steal_one_then_batch(deque: &Deque<usize>) -> Vec<usize> {
    [steal_one(deque), steal_batch(deque)].concat()
}

fn drain(owner: &mut Owner<'_, usize>) -> Vec<usize> {
    std::iter::from_fn(|| owner.pop()).collect()
}

/// Alerts the owner and takes nothing.
fn alert(deque: &Deque<usize>) -> Vec<usize> {
    deque.alert();
    vec![]
}

/// Knocks and takes nothing.
fn knock_only(deque: &Deque<usize>) {
    // Relaxed: `knock` checks by compare-and-swap.
    let front = Front::from_raw(deque.front.load(Ordering::Relaxed));
    if !front.is_open() {
        let _ = deque.knock(front);
    }
}

/// A step of the owner.
#[derive(Clone, Copy)]
enum Step {
    Push,
    /// Push a task that can be retracted.
    PushMarked,
    Pop,
    PopOldest,
    /// Retract the newest marked task, without reading it.
    Retract,
    /// The same, and undo the retract once if the owner must guard.
    RetractTwice,
    Open,
    Knock,
    /// Drop the owner and create another one.
    Reown,
}

use Step::{Knock, Open, Pop, PopOldest, Push, PushMarked, Reown, RetractTwice};

/// The owner takes the steps of `before`, then those of `steps` while the thieves steal. In the end
/// every task must have been taken once.
fn contest(capacity: Capacity, before: &[Step], steps: &[Step], thieves: &[Thief]) {
    let deque = Arc::new(Deque::new(capacity));
    let mut owner = deque.owner().unwrap();
    let (mut pushed, mut got, mut marks) = (0, vec![], vec![]);
    let mut take = |step: &Step, owner: &mut Owner<'_, usize>| match step {
        Push => {
            pushed += 1;
            owner.push(pushed).unwrap();
        }
        PushMarked => {
            pushed += 1;
            marks.push((pushed, owner.push_marked(pushed).unwrap()));
        }
        Pop => got.extend(owner.pop()),
        PopOldest => got.extend(owner.pop_oldest()),
        Step::Retract => {
            let (task, mark) = marks.pop().unwrap();
            got.extend(owner.retract(mark).then_some(task));
        }
        RetractTwice => {
            let (task, mark) = marks.pop().unwrap();
            let taken = match owner.retract_quickly(|newest| newest == mark) {
                Retract::Taken => true,
                Retract::Missed => false,
                Retract::Guarded => {
                    owner.undo_retract();
                    owner.retract(mark)
                }
            };
            got.extend(taken.then_some(task));
        }
        Open => owner.open(),
        Knock => knock_only(&deque),
        Reown => unreachable!("the caller has the owner"),
    };
    for step in before {
        take(step, &mut owner);
    }
    let busy = busy_side();
    let threads: Vec<_> = thieves
        .iter()
        .map(|&thief| {
            let deque = deque.clone();
            thread::spawn(move || thief(&deque))
        })
        .collect();
    for step in steps {
        if let Reown = step {
            drop(owner);
            owner = deque.owner().unwrap();
        } else {
            take(step, &mut owner);
        }
    }
    drop(busy);
    for thread in threads {
        got.extend(thread.join().unwrap());
    }
    got.extend(drain(&mut owner));
    assert_each_once(got, pushed);
}

fn assert_each_once(mut got: Vec<usize>, pushed: usize) {
    got.sort_unstable();
    assert!(
        got.iter().copied().eq(1..=pushed),
        "not each of 1..={pushed} once: {got:?}"
    );
}

fn last_task() {
    contest(Capacity::bounded(2), &[], &[Push, Pop], &[steal_one]);
}

#[test]
fn the_last_task_is_taken_once() {
    model(None, last_task);
}

/// The owner reuses the slot of its last task, and opens for a thief that has read the old one.
#[test]
fn a_thief_that_is_let_in_sees_earlier_pops() {
    model(Some(4), || {
        contest(
            Capacity::bounded(2),
            &[Push; 1],
            &[Pop, Push, Push, Pop],
            &[steal_one],
        );
    });
}

/// The same with the owner that takes its oldest task.
#[test]
fn the_owner_opens_with_its_oldest_task_too() {
    let steps = [Push, Pop, Push, Push, PopOldest, Pop];
    model(Some(4), move || {
        contest(Capacity::bounded(2), &[], &steps, &[steal_two]);
    });
}

#[test]
fn canary_knock_without_its_barrier() {
    caught(Canary::KnockBarrier, None, last_task);
}

/// The owner retracts a task that it knows, without reading it.
fn against_retract(before: &[Step], thief: Thief) {
    contest(Capacity::bounded(4), before, &[Step::Retract], &[thief]);
}

fn steal_against_retract() {
    against_retract(&[Push, PushMarked], steal_two);
}

#[test]
fn a_retracted_task_is_not_stolen() {
    model(None, steal_against_retract);
}

#[test]
fn a_retracted_task_is_not_in_a_batch() {
    model(Some(4), || {
        let before = [Push, Push, PushMarked];
        against_retract(&before, steal_one_then_batch);
    });
}

#[test]
fn canary_retract_without_its_fence() {
    caught(Canary::PopFence, Some(4), steal_against_retract);
}

/// Two tasks, both popped, against a thief that steals twice: the second time from an open deque.
fn steal_against_pop() {
    contest(Capacity::bounded(2), &[Push; 2], &[Pop; 2], &[steal_two]);
}

#[test]
fn a_thief_and_the_owner_never_take_the_same_task() {
    model(Some(4), steal_against_pop);
}

#[test]
fn canary_pop_without_its_fence() {
    caught(Canary::PopFence, Some(4), steal_against_pop);
}

#[test]
fn two_thieves_and_the_owner_never_take_the_same_task() {
    model(long_run(1, 2), || {
        contest(
            Capacity::bounded(2),
            &[Push; 2],
            &[Pop; 2],
            &[steal_one, steal_one],
        );
    });
}

/// The owner pops tasks of the batch that a thief takes.
fn batch_against_pop() {
    contest(Capacity::bounded(4), &[Push; 4], &[Pop; 3], &[steal_batch]);
}

#[test]
fn a_batch_and_pops_never_take_the_same_task() {
    model(Some(3), batch_against_pop);
}

#[test]
fn canary_batch_that_loses_a_task() {
    caught(Canary::LoseTask, Some(3), batch_against_pop);
}

/// The same when the deque is open already.
fn batch_against_guarded_pop() {
    contest(
        Capacity::bounded(8),
        &[Push; 5],
        &[Pop; 3],
        &[steal_one_then_batch],
    );
}

#[test]
fn a_batch_and_guarded_pops_never_take_the_same_task() {
    model(Some(3), batch_against_guarded_pop);
}

#[test]
fn canary_claim_without_its_fence() {
    caught(Canary::ClaimFence, Some(3), batch_against_guarded_pop);
}

#[test]
fn canary_pop_inside_a_claim_without_a_seal() {
    caught(Canary::Seal, Some(3), batch_against_guarded_pop);
}

/// The owner pops a task of a claim, then pushes again at the same index.
#[test]
fn an_old_copy_of_a_batch_is_never_taken_for_a_new_task() {
    model(Some(3), || {
        contest(
            Capacity::bounded(4),
            &[Push; 3],
            &[Pop, Pop, Push, Push],
            &[steal_batch],
        );
    });
}

/// The owner stops guarding, pops the last task unguarded and pushes another one in its place. A
/// thread knocks, and a thief continues that has read the old word of the thieves.
fn unguard_and_reuse() {
    contest(
        Capacity::bounded(2),
        &[Push, Push, Knock],
        &[Pop, Pop, Push, Knock],
        &[steal_one],
    );
}

#[test]
fn an_old_word_is_never_taken_for_a_new_one() {
    model(Some(4), unguard_and_reuse);
}

#[test]
fn canary_unguarded_without_a_new_tag() {
    caught(Canary::CalmTag, Some(4), unguard_and_reuse);
}

/// The owner has popped without a fence, opens by itself, pushes into the free slot and pops again.
#[test]
fn an_owner_that_opens_publishes_its_pops() {
    let steps = [Pop, Open, Push, Pop];
    model(Some(4), move || {
        contest(Capacity::bounded(2), &[Push; 2], &steps, &[steal_two]);
    });
}

#[test]
fn a_claim_can_be_shared() {
    model(long_run(1, 2), || {
        contest(
            Capacity::bounded(4),
            &[Push; 4],
            &[Pop; 2],
            &[steal_batch, steal_batch],
        );
    });
}

/// The owner stops guarding while a thief holds a claim.
#[test]
fn a_claim_does_not_outlive_the_guard() {
    model(Some(3), || {
        contest(
            Capacity::bounded(8),
            &[Push; 6],
            &[Pop, Pop, Pop, Push],
            &[steal_one_then_batch],
        );
    });
}

/// One thief takes a batch; another one steals from that thief at the same time.
#[test]
fn a_thief_can_be_stolen_from() {
    model(long_run(2, 3), || {
        let rich = Arc::new(Deque::new(Capacity::bounded(4)));
        let poor = Arc::new(Deque::new(Capacity::bounded(4)));
        let mut owner = rich.owner().unwrap();
        (1..=4).for_each(|task| owner.push(task).unwrap());
        let robber = {
            let poor = poor.clone();
            thread::spawn(move || steal_one(&poor))
        };
        let busy = busy_side();
        let mut thief = poor.owner().unwrap();
        let mut got = match rich.steal_batch(&mut thief, 4) {
            Steal::Taken((task, moved)) => {
                assert_eq!(moved, 1);
                vec![task]
            }
            other => panic!("no other thread steals from it: {other:?}"),
        };
        got.extend(thief.pop());
        drop(busy);
        got.extend(robber.join().unwrap());
        got.extend(drain(&mut thief));
        got.extend(drain(&mut owner));
        assert_each_once(got, 4);
    });
}

/// A deque gets a new owner while a thief steals.
#[test]
fn a_new_owner_continues_where_the_old_one_was() {
    let steps = [Reown, Push, Push, Pop, Reown, Pop, Push];
    model(Some(3), move || {
        contest(Capacity::bounded(4), &[], &steps, &[steal_one]);
    });
}

#[test]
fn growing_loses_no_task() {
    model(Some(3), || {
        contest(
            Capacity::growable(2),
            &[Push; 2],
            &[Push, Push, Pop],
            &[steal_two],
        );
    });
}

/// A thief that starts after the ring has grown.
fn steal_after_growth() {
    contest(Capacity::growable(1), &[Push; 3], &[], &[steal_two]);
}

#[test]
fn a_grown_ring_is_visible() {
    model(None, steal_after_growth);
}

#[test]
fn canary_grown_ring_that_is_not_published() {
    caught(Canary::GrowPublish, None, steal_after_growth);
}

/// The owner replaces the ring, and frees it, while a thief may be reading it.
fn grow_against_steal() {
    let steps = [Open, Push];
    contest(Capacity::growable(2), &[Push; 2], &steps, &[steal_one]);
}

#[test]
fn a_ring_is_not_freed_while_a_thief_reads_it() {
    model(None, grow_against_steal);
}

#[test]
fn a_ring_is_not_freed_while_a_thief_copies_a_batch() {
    model(Some(3), || {
        let steps = [Open, Push];
        contest(Capacity::growable(4), &[Push; 4], &steps, &[steal_batch]);
    });
}

#[test]
fn canary_ring_that_is_freed_while_a_thief_reads_it() {
    caught(Canary::RingFree, None, grow_against_steal);
}

/// The owner takes from the thieves' end too.
#[test]
fn the_owner_may_take_the_oldest() {
    let steps = [PopOldest, Pop];
    model(Some(3), move || {
        contest(Capacity::bounded(4), &[Push; 3], &steps, &[steal_one]);
    });
}

/// The allocator reports a box that is dropped twice.
#[test]
fn boxed_tasks_are_dropped_once() {
    model(Some(3), || {
        let deque = Arc::new(Deque::new(Capacity::bounded(2)));
        let mut owner = deque.owner().unwrap();
        owner.push(Box::new(1)).unwrap();
        owner.push(Box::new(2)).unwrap();
        let busy = busy_side();
        let thief = {
            let deque = deque.clone();
            thread::spawn(move || drop(deque.steal()))
        };
        drop(owner.pop());
        drop(busy);
        thief.join().unwrap();
        drop(owner);
    });
}

/// The owner retracts its two tasks, and undoes a retract once if it must guard. Meanwhile the
/// deque is alerted, and a thief takes one task. Each task is taken once.
#[test]
fn a_retract_that_is_undone_loses_no_task() {
    model(Some(2), || {
        contest(
            Capacity::bounded(2),
            &[PushMarked; 2],
            &[RetractTwice; 2],
            &[alert, steal_one],
        );
    });
}
