use super::{Capacity, Deque, Front, Index, Owner, Retract, Steal, owner::CALM_AFTER};
use crate::base::properties;
use proptest::prelude::*;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

#[test]
fn owner_takes_the_newest_and_thieves_the_oldest() {
    let deque = Deque::new(Capacity::growable(2));
    let mut owner = deque.owner().unwrap();
    (0..10).for_each(|task| owner.push(task).unwrap());
    assert_eq!(deque.steal(), Steal::Taken(0));
    assert_eq!(owner.pop(), Some(9));
    assert_eq!(owner.pop_oldest(), Some(1));
    assert_eq!(deque.steal(), Steal::Taken(2));
    assert_eq!(deque.len(), 6);
}

#[test]
fn zero_sized_tasks_need_no_memory() {
    let deque = Deque::<()>::new(Capacity::bounded(1 << 30));
    let mut owner = deque.owner().unwrap();
    let mark = owner.push_marked(()).unwrap();
    owner.push(()).unwrap();
    assert_eq!(owner.pop(), Some(()));
    assert!(owner.retract(mark) && owner.is_empty());
}

#[test]
fn one_owner_at_a_time() {
    let deque = Deque::new(Capacity::default());
    let mut owner = deque.owner().unwrap();
    owner.push(1).unwrap();
    assert!(deque.owner().is_none());
    drop(owner);
    assert_eq!(deque.owner().unwrap().pop(), Some(1));
}

#[test]
fn a_bounded_deque_gives_back_what_does_not_fit() {
    // A limit that is no power of two: the ring has room for more than the deque takes.
    let deque = Deque::new(Capacity::bounded(5));
    let mut owner = deque.owner().unwrap();
    (0..5).for_each(|task| owner.push(task).unwrap());
    assert_eq!(owner.push(5), Err(5));
    assert_eq!(deque.steal(), Steal::Taken(0));
    owner.push(5).unwrap();
    assert_eq!(owner.push(6), Err(6));
    assert_eq!(
        std::iter::from_fn(|| owner.pop()).collect::<Vec<_>>(),
        [5, 4, 3, 2, 1]
    );
}

#[test]
fn a_batch_fits_into_the_thiefs_room() {
    let (rich, poor) = (
        Deque::new(Capacity::default()),
        Deque::new(Capacity::bounded(3)),
    );
    let (mut owner, mut thief) = (rich.owner().unwrap(), poor.owner().unwrap());
    (0..100).for_each(|task| owner.push(task).unwrap());
    assert_eq!(rich.steal_batch(&mut thief, 64), Steal::Taken((0, 3)));
    assert_eq!(
        std::iter::from_fn(|| thief.pop()).collect::<Vec<_>>(),
        [3, 2, 1]
    );
    assert_eq!(rich.len(), 96);
    assert_eq!(rich.steal_batch(&mut thief, 1), Steal::Taken((4, 0)));
}

/// A thief that is stopped halfway: it has claimed `n` tasks and has not proceeded.
fn stop_after_claiming<T: Send>(deque: &Deque<T>, n: usize) {
    let Steal::Taken((front, _)) = deque.read_open_front() else {
        panic!("nothing to claim");
    };
    assert!(deque.move_front(front, front.claim(n)));
}

#[test]
fn the_owner_calms_down_and_thieves_knock_again() {
    let front = |deque: &Deque<u32>| Front::from_raw(deque.front.load(Ordering::Relaxed));
    let deque = Deque::new(Capacity::default());
    if !deque.one_sided {
        return; // the owner always guards here
    }
    let mut owner = deque.owner().unwrap();
    let tasks = 2 * CALM_AFTER;
    (0..tasks).for_each(|task| owner.push(task).unwrap());
    assert!(front(&deque).is_quiet());
    assert_eq!(deque.steal(), Steal::Taken(0));
    assert!(front(&deque).is_open());
    // The first pop has seen that a thief was here, and is not counted.
    for task in (tasks - CALM_AFTER..tasks).rev() {
        assert_eq!(owner.pop(), Some(task));
        assert!(front(&deque).is_open(), "too early: {deque:?}");
    }
    assert_eq!(owner.pop(), Some(tasks - CALM_AFTER - 1));
    assert!(
        front(&deque).is_quiet(),
        "enough pops without a thief: {deque:?}"
    );
    // Popping the last task of a quiet deque does not change the front; the next thief finds what
    // is pushed afterwards.
    while owner.pop().is_some() {}
    assert_eq!((deque.len(), deque.steal()), (0, Steal::Empty));
    assert!(
        front(&deque).is_quiet(),
        "no thief knocks at an empty deque"
    );
    owner.push(7).unwrap();
    assert_eq!(deque.steal(), Steal::Taken(7));
    assert!(front(&deque).is_open());
}

#[test]
fn the_owner_opens_for_a_thief_that_has_knocked() {
    let deque = Deque::new(Capacity::default());
    if !deque.one_sided {
        return;
    }
    let mut owner = deque.owner().unwrap();
    let front = || Front::from_raw(deque.front.load(Ordering::Relaxed));
    // A thief that is stopped before its barrier.
    let knock = || assert!(deque.move_front(front(), front().guard()));
    (0..3 + CALM_AFTER).for_each(|task| owner.push(task).unwrap());
    knock();
    assert!(!front().is_quiet() && !front().is_open());
    assert_eq!(owner.pop(), Some(2 + CALM_AFTER));
    assert!(front().is_open(), "{:?}", front());
    assert_eq!(deque.steal(), Steal::Taken(0));
    // The owner opens with its last task too, and does not calm down early.
    while owner.pop().is_some() {}
    assert!(front().is_quiet(), "{:?}", front());
    owner.push(7).unwrap();
    knock();
    assert_eq!(owner.pop(), Some(7));
    assert!(front().is_open(), "{:?}", front());
    for task in 0..CALM_AFTER - 1 {
        owner.push(task).unwrap();
        assert_eq!(owner.pop(), Some(task));
        assert!(front().is_open(), "{:?}", front());
    }
}

#[test]
fn a_watched_push_takes_the_slow_path_each_time() {
    let deque = Deque::new(Capacity::bounded(4));
    let mut owner = deque.owner().unwrap();
    owner.push(0).unwrap();
    owner.watch_pushes();
    for task in 1..4 {
        assert_eq!(owner.next_mark(), None, "{task}");
        owner.push(task).unwrap();
    }
    assert_eq!(owner.push(4), Err(4), "it is full");
    assert_eq!(deque.steal(), Steal::Taken(0));
    // Not a batch that was reserved.
    assert_eq!(owner.pop(), Some(3));
    assert_eq!(owner.reserve(2), 2);
    assert!(owner.next_mark().is_some());
    owner.watch_pushes();
    owner.unwatch_pushes();
    assert!(owner.next_mark().is_some());
}

#[test]
fn the_oldest_is_taken_only_from_below_the_mark() {
    let deque = Deque::new(Capacity::default());
    let mut owner = deque.owner().unwrap();
    (0..3).for_each(|task| owner.push(task).unwrap());
    let mark = owner.mark();
    (3..5).for_each(|task| owner.push(task).unwrap());
    assert_eq!(owner.pop_oldest_below(mark), Some(0));
    assert_eq!(deque.steal(), Steal::Taken(1));
    assert_eq!(owner.pop_oldest_below(mark), Some(2));
    assert_eq!(owner.pop_oldest_below(mark), None);
    assert_eq!(owner.pop_oldest(), Some(3));
}

#[test]
fn the_owner_calms_down_at_the_last_task_too() {
    let deque = Deque::new(Capacity::default());
    if !deque.one_sided {
        return;
    }
    let mut owner = deque.owner().unwrap();
    owner.push(0).unwrap();
    assert_eq!(deque.steal(), Steal::Taken(0));
    for task in 0..=CALM_AFTER {
        owner.push(task).unwrap();
        assert_eq!(owner.pop(), Some(task));
    }
    let front = Front::from_raw(deque.front.load(Ordering::Relaxed));
    assert!(front.is_quiet(), "{front:?}");
    owner.push(7).unwrap();
    assert_eq!(deque.steal(), Steal::Taken(7));
}

/// Pushes tasks until the ring has grown to a megabyte.
fn grow<T: Send>(owner: &mut Owner<'_, T>, task: impl Fn(usize) -> T) -> usize {
    let tasks = (1 << 20) / size_of::<T>();
    (0..tasks).for_each(|n| assert!(owner.push(task(n)).is_ok()));
    tasks
}

#[test]
#[cfg_attr(miri, ignore = "too many tasks")]
fn a_replaced_ring_is_freed() {
    let deque = Deque::new(Capacity::growable(1));
    let mut owner = deque.owner().unwrap();
    let tasks = grow(&mut owner, |n| n);
    let bytes = deque.owners.ring.bytes();
    assert!(bytes < (1 << 20) + (128 << 10), "{bytes} bytes of rings");
    assert!((0..tasks).rev().all(|n| owner.pop() == Some(n)));
}

#[test]
#[cfg_attr(miri, ignore = "too many tasks")]
fn a_ring_that_a_thief_reads_is_freed_later() {
    let deque = Deque::new(Capacity::growable(1));
    let mut owner = deque.owner().unwrap();
    (0..8192_usize).for_each(|n| owner.push(n).unwrap());
    // The ring of 64 KiB and the one after it stay while a thief may read the first.
    let during = deque.read_slots(|_| {
        (8192..32768).for_each(|n| owner.push(n).unwrap());
        deque.owners.ring.bytes()
    });
    assert!(during >= (256 + 128 + 64) << 10, "{during} bytes of rings");
    (32768..65536).for_each(|n| owner.push(n).unwrap());
    let after = deque.owners.ring.bytes();
    assert!(after < (512 + 64) << 10, "{after} bytes of rings");
    assert!((0..65536).rev().all(|n| owner.pop() == Some(n)));
}

#[test]
#[cfg_attr(miri, ignore = "too many tasks")]
fn rings_are_freed_while_thieves_steal() {
    let deque = Deque::<Box<usize>>::new(Capacity::growable(1));
    let ended = AtomicBool::new(false);
    let steal = || {
        let mine = Deque::new(Capacity::default());
        let (mut own, mut sum, mut last) = (mine.owner().unwrap(), 0, false);
        loop {
            match deque.steal_batch(&mut own, 8) {
                Steal::Taken((task, _)) => sum += *task,
                Steal::Retry => {}
                Steal::Empty if last => return sum,
                Steal::Empty => last = ended.load(Ordering::Acquire),
            }
            while let Some(task) = own.pop() {
                sum += *task;
            }
        }
    };
    let mut owner = deque.owner().unwrap();
    let (tasks, sum) = thread::scope(|scope| {
        let thieves = [scope.spawn(steal), scope.spawn(steal)];
        let (mut sum, tasks) = (0, grow(&mut owner, Box::new));
        while let Some(task) = owner.pop() {
            sum += *task;
        }
        ended.store(true, Ordering::Release);
        let stolen = thieves.map(|thief| thief.join().unwrap());
        (tasks, sum + stolen.iter().sum::<usize>())
    });
    assert_eq!(sum, tasks * (tasks - 1) / 2);
}

#[test]
#[should_panic(expected = "as much memory")]
fn a_ring_too_large_to_count_is_refused() {
    let _ = Deque::<[u8; 1 << 30]>::new(Capacity::bounded(Capacity::MAX));
}

#[test]
fn a_seal_ends_a_claim_and_the_next_index_is_free_again() {
    let deque = Deque::new(Capacity::default());
    let mut owner = deque.owner().unwrap();
    (0..4).for_each(|task| owner.push(task).unwrap());
    stop_after_claiming(&deque, 2);
    assert_eq!(
        [owner.pop(), owner.pop(), owner.pop()],
        [Some(3), Some(2), Some(1)]
    );
    let sealed = Front::from_raw(deque.front.load(Ordering::Relaxed));
    assert!(sealed.sealed() && sealed.claimed() == 0, "{sealed:?}");
    // No thief can claim at this index, but one task can be taken.
    owner.push(7).unwrap();
    let poor = Deque::new(Capacity::default());
    let mut thief = poor.owner().unwrap();
    assert_eq!(deque.steal_batch(&mut thief, 8), Steal::Taken((0, 0)));
    assert!(!Front::from_raw(deque.front.load(Ordering::Relaxed)).sealed());
    assert_eq!(owner.pop(), Some(7));
}

#[test]
fn a_claim_that_was_left_behind_serves_the_next_thief() {
    let deque = Deque::new(Capacity::default());
    let mut owner = deque.owner().unwrap();
    (0..10).for_each(|task| owner.push(task).unwrap());
    stop_after_claiming(&deque, 3);
    let poor = Deque::new(Capacity::default());
    let mut thief = poor.owner().unwrap();
    assert_eq!(deque.steal_batch(&mut thief, 64), Steal::Taken((0, 2)));
    assert_eq!(deque.steal(), Steal::Taken(3));
}

/// Counts its live instances.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Ordering::Relaxed) > 0, "dropped twice");
    }
}

#[test]
fn leftovers_are_dropped_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    let deque = Deque::new(Capacity::growable(1));
    let mut owner = deque.owner().unwrap();
    (0..100).for_each(|_| owner.push(Counted::new(&alive)).unwrap());
    drop(owner.pop());
    drop(deque.steal());
    assert_eq!(alive.load(Ordering::Relaxed), 98);
    drop(owner);
    drop(deque);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// Tasks of every layout survive the slots: zero-sized, with padding, larger than a word,
/// over-aligned.
#[test]
fn any_type_fits_a_slot() {
    fn through<T: Send + Clone + PartialEq + std::fmt::Debug>(tasks: &[T]) {
        let deque = Deque::new(Capacity::growable(1));
        let mut owner = deque.owner().unwrap();
        for task in tasks {
            owner.push(task.clone()).unwrap();
        }
        assert_eq!(deque.steal(), Steal::Taken(tasks[0].clone()));
        let rest: Vec<T> = std::iter::from_fn(|| owner.pop()).collect();
        assert!(rest.iter().rev().eq(&tasks[1..]));
    }
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(64))]
    struct Aligned(u8);

    through(&[(), (), ()]);
    through(&[1_u8, 2, 3]);
    through(&[(1_u8, 2_u32, 3_u16), (4, 5, 6), (7, 8, 9)]);
    through(&[[1_u64; 9], [2; 9], [3; 9]]);
    through(&["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    through(&[Some(Box::new(1)), None, Some(Box::new(3))]);
    through(&[Aligned(1), Aligned(2), Aligned(3)]);
    through(&[u128::MAX, 1, 2]);
}

/// A sequential model of the deque.
#[derive(Clone, Debug)]
enum Op {
    Push,
    Pop,
    Retract(usize),
    Steal,
    Batch(usize),
    Oldest,
    Reown,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => Just(Op::Push),
        2 => Just(Op::Pop),
        1 => (0_usize..3).prop_map(Op::Retract),
        1 => Just(Op::Steal),
        1 => (1_usize..9).prop_map(Op::Batch),
        1 => Just(Op::Oldest),
        1 => Just(Op::Reown),
    ];
    prop::collection::vec(op, 0..properties::len(200))
}

fn capacities() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        (1_usize..9).prop_map(Capacity::bounded),
        (1_usize..5).prop_map(Capacity::growable),
    ]
}

/// While tasks may have changed places, no retract succeeds by its mark alone.
#[test]
fn a_reordered_deque_is_guarded_until_it_is_empty() {
    let deque = Deque::new(Capacity::default());
    let mut owner = deque.owner().unwrap();
    let retract = |owner: &mut Owner<'_, u32>| {
        let mark = owner.push_marked(7).unwrap();
        let retracted = owner.retract_quickly(|newest| newest == mark);
        if retracted == Retract::Guarded {
            assert!(owner.is_retractable() && owner.retract_guarded());
        }
        retracted
    };
    owner.push(1).unwrap();
    assert_ne!(retract(&mut owner), Retract::Missed);
    owner.set_reordered(true);
    for _ in 0..2 * CALM_AFTER {
        assert_eq!(retract(&mut owner), Retract::Guarded);
    }
    assert_eq!(owner.pop(), Some(1));
    owner.set_reordered(false);
    owner.push(2).unwrap();
    for _ in 0..2 * CALM_AFTER {
        let _ = retract(&mut owner);
    }
    let quiet = if deque.one_sided {
        Retract::Taken
    } else {
        Retract::Guarded
    };
    assert_eq!(retract(&mut owner), quiet);
}

proptest! {
    #![proptest_config(properties::config())]

    /// Without thieves the deque behaves as a `VecDeque`, for any first index: also just before the
    /// indices wrap.
    #[test]
    fn agrees_with_a_sequential_deque(ops in ops(), capacity in capacities(), start in 0_u64..16) {
        let start = Index::from_count((1 << 40) - start);
        let deque = Deque::starting_at(capacity, start);
        let mut owner = deque.owner().unwrap();
        let loot = Deque::new(Capacity::default());
        let mut thief = loot.owner().unwrap();
        let (mut model, mut marks) = (VecDeque::new(), HashMap::new());
        for (task, op) in ops.into_iter().enumerate() {
            match op {
                Op::Push => {
                    let fits = model.len() < capacity.limit;
                    let mark = owner.push_marked(task);
                    prop_assert_eq!(mark.is_ok(), fits);
                    if let Ok(mark) = mark {
                        model.push_back(task);
                        marks.insert(task, mark);
                    }
                }
                Op::Pop => prop_assert_eq!(owner.pop(), model.pop_back()),
                Op::Retract(back) => {
                    // Of the tasks in the deque, only the youngest can be retracted.
                    if let Some(&task) = model.iter().rev().nth(back) {
                        let mark = marks[&task];
                        prop_assert_eq!(owner.retract(mark), back == 0);
                        if back == 0 {
                            model.pop_back();
                        }
                    }
                }
                Op::Oldest => prop_assert_eq!(owner.pop_oldest(), model.pop_front()),
                Op::Steal => match deque.steal() {
                    Steal::Taken(task) => prop_assert_eq!(Some(task), model.pop_front()),
                    Steal::Empty => prop_assert!(model.is_empty()),
                    Steal::Retry => prop_assert!(false, "no other thread to race with"),
                },
                Op::Batch(most) => match deque.steal_batch(&mut thief, most) {
                    Steal::Taken((first, moved)) => {
                        prop_assert_eq!(Some(first), model.pop_front());
                        prop_assert!(moved < most && moved <= model.len());
                        let mut got: Vec<_> = std::iter::from_fn(|| thief.pop()).collect();
                        got.reverse();
                        prop_assert_eq!(got, model.drain(..moved).collect::<Vec<_>>());
                    }
                    Steal::Empty => prop_assert!(model.is_empty()),
                    Steal::Retry => prop_assert!(false, "no other thread to race with"),
                },
                Op::Reown => {
                    drop(owner);
                    owner = deque.owner().unwrap();
                }
            }
            prop_assert_eq!(deque.len(), model.len());
        }
    }
}
