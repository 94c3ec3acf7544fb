//! The deque: every task is taken once, whoever takes it.

use super::{caught, model};
use filch::{
    engine::{Capacity, Deque, Owner, Steal},
    ground::canary::Canary,
};
use loom::{sync::Arc, thread};

/// Takes what comes, as a thief who does not give up.
fn steal_all(deque: &Deque<usize>, attempts: usize) -> Vec<usize> {
    let mut got = vec![];
    for _ in 0..attempts {
        if let Steal::Taken(task) = deque.steal() {
            got.push(task);
        }
    }
    got
}

fn drain(owner: &mut Owner<'_, usize>) -> Vec<usize> {
    std::iter::from_fn(|| owner.pop()).collect()
}

/// All of `1..=n`, each once.
fn assert_each_once(mut tasks: Vec<usize>, n: usize) {
    tasks.sort_unstable();
    assert!(
        tasks.iter().copied().eq(1..=n),
        "not each of 1..={n} once: {tasks:?}"
    );
}

fn last_element() {
    let deque = Arc::new(Deque::new(Capacity::bounded(2)));
    let thief = {
        let deque = deque.clone();
        thread::spawn(move || steal_all(&deque, 1))
    };
    let mut owner = deque.owner().unwrap();
    owner.push(1).unwrap();
    let mut got: Vec<_> = owner.pop().into_iter().collect();
    got.extend(thief.join().unwrap());
    got.extend(drain(&mut owner));
    assert_each_once(got, 1);
}

#[test]
fn the_last_task_goes_to_one() {
    model(None, last_element);
}

/// Two tasks, the owner pops both while two thieves steal.
fn steal_against_pop() {
    let deque = Arc::new(Deque::new(Capacity::bounded(2)));
    let mut owner = deque.owner().unwrap();
    owner.push(1).unwrap();
    owner.push(2).unwrap();
    let thieves = [(); 2].map(|()| {
        let deque = deque.clone();
        thread::spawn(move || steal_all(&deque, 1))
    });
    let mut got: Vec<_> = owner.pop().into_iter().chain(owner.pop()).collect();
    for thief in thieves {
        got.extend(thief.join().unwrap());
    }
    got.extend(drain(&mut owner));
    assert_each_once(got, 2);
}

#[test]
fn thieves_and_owner_never_take_the_same() {
    model(Some(3), steal_against_pop);
}

#[test]
fn canary_pop_without_its_fence() {
    caught(Canary::PopFence, None, steal_against_pop);
}

/// A thief takes a batch of two of four while the owner pops into it.
fn batch_against_pop() {
    let deque = Arc::new(Deque::new(Capacity::bounded(4)));
    let mut owner = deque.owner().unwrap();
    (1..=4).for_each(|task| owner.push(task).unwrap());
    let thief = {
        let deque = deque.clone();
        thread::spawn(move || {
            let mine = Deque::new(Capacity::bounded(4));
            let mut mine = mine.owner().unwrap();
            match deque.steal_batch(&mut mine, 4) {
                Steal::Taken((task, _)) => {
                    let mut got = vec![task];
                    got.extend(drain(&mut mine));
                    got
                }
                _ => vec![],
            }
        })
    };
    let mut got: Vec<_> = (0..3).filter_map(|_| owner.pop()).collect();
    got.extend(thief.join().unwrap());
    got.extend(drain(&mut owner));
    assert_each_once(got, 4);
}

#[test]
fn a_batch_and_pops_never_take_the_same() {
    model(None, batch_against_pop);
}

#[test]
fn canary_claim_without_its_fence() {
    caught(Canary::ClaimFence, None, batch_against_pop);
}

#[test]
fn canary_pop_inside_a_claim_without_a_seal() {
    caught(Canary::Seal, None, batch_against_pop);
}

#[test]
fn canary_batch_that_forgets_a_task() {
    caught(Canary::LoseTask, None, batch_against_pop);
}

/// The owner pops into a claim, then pushes again at the same index: an old copy must not pass for
/// the new task.
fn batch_against_pop_and_push() {
    let deque = Arc::new(Deque::new(Capacity::bounded(4)));
    let mut owner = deque.owner().unwrap();
    (1..=3).for_each(|task| owner.push(task).unwrap());
    let thief = {
        let deque = deque.clone();
        thread::spawn(move || {
            let mine = Deque::new(Capacity::bounded(4));
            let mut mine = mine.owner().unwrap();
            match deque.steal_batch(&mut mine, 4) {
                Steal::Taken((task, _)) => {
                    let mut got = vec![task];
                    got.extend(drain(&mut mine));
                    got
                }
                _ => vec![],
            }
        })
    };
    let mut got: Vec<_> = (0..2).filter_map(|_| owner.pop()).collect();
    owner.push(4).unwrap();
    owner.push(5).unwrap();
    got.extend(thief.join().unwrap());
    got.extend(drain(&mut owner));
    assert_each_once(got, 5);
}

#[test]
fn an_old_copy_never_passes_for_a_new_task() {
    model(Some(4), batch_against_pop_and_push);
}

/// Two thieves, one of whom finds the claim of the other.
fn two_batches_against_pop() {
    let deque = Arc::new(Deque::new(Capacity::bounded(4)));
    let mut owner = deque.owner().unwrap();
    (1..=4).for_each(|task| owner.push(task).unwrap());
    let thieves = [(); 2].map(|()| {
        let deque = deque.clone();
        thread::spawn(move || {
            let mine = Deque::new(Capacity::bounded(4));
            let mut mine = mine.owner().unwrap();
            match deque.steal_batch(&mut mine, 4) {
                Steal::Taken((task, _)) => {
                    let mut got = vec![task];
                    got.extend(drain(&mut mine));
                    got
                }
                _ => vec![],
            }
        })
    });
    let mut got: Vec<_> = (0..2).filter_map(|_| owner.pop()).collect();
    for thief in thieves {
        got.extend(thief.join().unwrap());
    }
    got.extend(drain(&mut owner));
    assert_each_once(got, 4);
}

#[test]
fn a_claim_can_be_shared() {
    model(Some(2), two_batches_against_pop);
}

/// The ring grows under a thief.
fn grow() {
    let deque = Arc::new(Deque::new(Capacity::growable(2)));
    let mut owner = deque.owner().unwrap();
    owner.push(1).unwrap();
    owner.push(2).unwrap();
    let thief = {
        let deque = deque.clone();
        thread::spawn(move || steal_all(&deque, 2))
    };
    owner.push(3).unwrap();
    owner.push(4).unwrap();
    let mut got: Vec<_> = owner.pop().into_iter().collect();
    got.extend(thief.join().unwrap());
    got.extend(drain(&mut owner));
    assert_each_once(got, 4);
}

#[test]
fn growing_loses_nothing() {
    model(Some(3), grow);
}

/// A thief that starts when the ring has grown already.
fn steal_after_grow() {
    let deque = Arc::new(Deque::new(Capacity::growable(1)));
    let mut owner = deque.owner().unwrap();
    (1..=3).for_each(|task| owner.push(task).unwrap());
    let thief = {
        let deque = deque.clone();
        thread::spawn(move || steal_all(&deque, 3))
    };
    let mut got = thief.join().unwrap();
    got.extend(drain(&mut owner));
    assert_each_once(got, 3);
}

#[test]
fn a_grown_ring_is_seen() {
    model(None, steal_after_grow);
}

#[test]
fn canary_grown_ring_that_is_not_published() {
    caught(Canary::GrowPublish, None, steal_after_grow);
}

/// Boxes: a task that is dropped twice, or never, is an error of the allocator's.
#[test]
fn boxed_tasks_are_dropped_once() {
    model(Some(3), || {
        let deque = Arc::new(Deque::new(Capacity::bounded(2)));
        let mut owner = deque.owner().unwrap();
        owner.push(Box::new(1)).unwrap();
        owner.push(Box::new(2)).unwrap();
        let thief = {
            let deque = deque.clone();
            thread::spawn(move || drop(deque.steal()))
        };
        drop(owner.pop());
        thief.join().unwrap();
        drop(owner);
    });
}
