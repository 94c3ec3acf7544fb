//! The counters of graphs: a task runs once, after all that it waits for; a run in the heap ends once; a future misses no
//! wake; a source in a block is taken once.

use super::{caught, model};
use filch::{
    base::canary::Canary,
    graph::model::{BiasedCount, Block, Node, PredecessorCount},
    pool::model::Pending,
};
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use std::sync::Arc;

/// What a task does: a plain cell, so that loom reports an access that nothing orders.
#[derive(Default)]
struct Data(UnsafeCell<usize>);

// SAFETY: the models order the accesses, which is what loom checks.
#[expect(unsafe_code, reason = "a cell whose accesses loom watches")]
unsafe impl Sync for Data {}

impl Data {
    #[expect(unsafe_code, reason = "loom watches")]
    fn add(&self, n: usize) {
        // SAFETY: as above.
        self.0.with_mut(|data| unsafe { *data += n });
    }

    #[expect(unsafe_code, reason = "loom watches")]
    fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|data| unsafe { *data })
    }
}

/// Two tasks lead to a third one, which leads back to both, once: each may run on either worker.
struct Diamond {
    work: [Data; 2],
    last: PredecessorCount,
    sum: Data,
    laps: Data,
}

impl Diamond {
    /// One of the two tasks, and whatever it releases. In the second lap the worker that runs the last task runs both.
    fn task(&self, number: usize) {
        self.work[number].add(1);
        if !self.last.arrive() {
            return;
        }
        self.last.rearm();
        let done = self.work[0].get() + self.work[1].get();
        self.sum.add(done);
        self.laps.add(1);
        if self.laps.get() == 1 {
            self.work[0].add(1);
            assert!(!self.last.arrive(), "released too early");
            self.task(1);
        }
    }
}

fn diamond() {
    let graph = Arc::new(Diamond {
        work: [Data::default(), Data::default()],
        last: PredecessorCount::new(2),
        sum: Data::default(),
        laps: Data::default(),
    });
    let other = {
        let graph = graph.clone();
        thread::spawn(move || graph.task(1))
    };
    graph.task(0);
    other.join().unwrap();
    assert_eq!((graph.laps.get(), graph.sum.get()), (2, 2 + 4));
}

#[test]
fn a_task_runs_once_after_all_that_it_waits_for() {
    model(None, diamond);
}

#[test]
fn canary_predecessors_that_hand_nothing_over() {
    caught(Canary::GraphArrive, None, diamond);
}

#[test]
fn canary_two_last_predecessors() {
    caught(Canary::GraphLast, None, diamond);
}

/// Two of three predecessors arrive at the same time, the third one before or after: the last is told by one of two
/// ways, a look or a subtraction.
fn three(often: bool) {
    let (last, work) = (
        Arc::new(PredecessorCount::new(3)),
        Arc::new([(); 3].map(|()| Data::default())),
    );
    let arrive = move |last: &PredecessorCount, work: &[Data; 3], number: usize| {
        work[number].add(1);
        let released = if often {
            last.arrive_often()
        } else {
            last.arrive()
        };
        if released {
            last.rearm();
            assert_eq!(
                work.iter().map(Data::get).sum::<usize>(),
                3,
                "released too early"
            );
        }
        usize::from(released)
    };
    let other = {
        let (last, work) = (last.clone(), work.clone());
        thread::spawn(move || arrive(&last, &work, 1) + arrive(&last, &work, 2))
    };
    let released = arrive(&last, &work, 0) + other.join().unwrap();
    assert_eq!(released, 1, "released once");
}

#[test]
fn the_last_of_three_is_the_last() {
    model(None, || three(false));
    model(None, || three(true));
}

/// Two workers want to run one task that is not well ordered: one at a time, or not at all.
fn claims() {
    let (node, data) = (Arc::new(Node::new()), Arc::new(Data::default()));
    let run = |node: &Node, data: &Data| {
        if node.claim() {
            data.add(1);
            node.unclaim();
        }
    };
    let other = {
        let (node, data) = (node.clone(), data.clone());
        thread::spawn(move || run(&node, &data))
    };
    run(&node, &data);
    other.join().unwrap();
    assert!((1..=2).contains(&data.get()));
}

#[test]
fn a_claimed_task_is_not_run_twice_at_once() {
    model(None, claims);
}

/// A run that nobody waits for: it counts as if its owner slept, and whoever ends its last job finishes it.
fn run_in_the_heap() {
    run_that_goes_on(0);
}

/// Each of the two others has gone on with so many strands that it had queued, and gives them back when it ends.
fn run_that_goes_on(spare: u32) {
    let pending = Arc::new(Pending::new());
    let (ended, data) = (
        Arc::new(AtomicUsize::new(0)),
        [(); 3].map(|()| Arc::new(Data::default())),
    );
    pending.add_elsewhere();
    assert!(pending.sleep());
    let end = {
        let (ended, data) = (ended.clone(), data.clone());
        Arc::new(move || {
            ended.fetch_add(1, Ordering::Relaxed);
            assert_eq!(
                data.iter().map(|data| data.get()).sum::<usize>(),
                3,
                "over too early"
            );
        })
    };
    // The first job queues two more.
    let others: Vec<_> = (1..3)
        .map(|number| {
            (0..=spare).for_each(|_| pending.add_elsewhere());
            let (pending, data, end) = (pending.clone(), data[number].clone(), end.clone());
            thread::spawn(move || {
                data.add(1);
                pending.give_back_elsewhere(spare);
                pending.done_elsewhere(|| end());
            })
        })
        .collect();
    data[0].add(1);
    pending.done_elsewhere(|| end());
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[test]
fn a_run_in_the_heap_ends_once() {
    model(Some(3), run_in_the_heap);
    model(Some(3), || run_that_goes_on(2));
}

#[test]
fn canary_run_in_the_heap_that_does_not_end() {
    caught(Canary::ScopeWake, Some(3), run_in_the_heap);
}

/// Three tasks lead to a fourth one. The owner of the run does two of them, another worker the third, at any time.
struct Shared {
    bias: BiasedCount,
    last: PredecessorCount,
    work: [Data; 2],
    released: AtomicUsize,
}

impl Shared {
    fn owner(&self, number: usize) {
        self.work[number].add(1);
        let last = if self.bias.begin() {
            let last = self.last.arrive_alone();
            self.bias.end();
            last
        } else {
            self.last.arrive()
        };
        self.released(last);
    }

    fn other(&self, number: usize) {
        self.bias.join();
        self.work[number].add(1);
        self.released(self.last.arrive());
    }

    fn released(&self, last: bool) {
        if last {
            let sum: usize = self.work.iter().map(Data::get).sum();
            assert_eq!(sum, 3, "released too early");
            self.released.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn joined() {
    let shared = Arc::new(Shared {
        bias: BiasedCount::new(),
        last: PredecessorCount::new(3),
        work: Default::default(),
        released: AtomicUsize::new(0),
    });
    let other = {
        let shared = shared.clone();
        thread::spawn(move || shared.other(1))
    };
    shared.owner(0);
    shared.owner(0);
    other.join().unwrap();
    assert_eq!(shared.released.load(Ordering::Relaxed), 1, "released once");
}

#[test]
fn workers_that_join_a_run_lose_no_count() {
    model(Some(2), joined);
}

#[test]
fn canary_owner_that_does_not_notice_others() {
    caught(Canary::GraphBias, Some(2), joined);
}

/// A holder claims the positions of a block one after the other, while thieves take what they get;
/// some of them are put into a block of the thief's, and claimed there. Each position is had once.
fn split(positions: u32, thieves: usize, rest: bool) {
    let block = Arc::new(Block::new());
    let taken: Arc<Vec<Data>> = Arc::new((0..positions).map(|_| Data::default()).collect());
    let held = block.hold().expect("it is free");
    let claims = held.open(0..positions);
    let threads: Vec<_> = (0..thieves)
        .map(|_| {
            let (block, taken) = (block.clone(), taken.clone());
            thread::spawn(move || {
                for at in block.steal().into_iter().flatten() {
                    taken[at as usize].add(1);
                }
            })
        })
        .collect();
    if let Some(at) = claims.claim() {
        taken[at as usize].add(1);
    }
    if rest {
        for at in claims.take_rest() {
            taken[at as usize].add(1);
        }
    }
    while let Some(at) = claims.claim() {
        taken[at as usize].add(1);
    }
    drop(held);
    for thief in threads {
        thief.join().unwrap();
    }
    assert!(taken.iter().all(|taken| taken.get() == 1), "taken once");
}

#[test]
fn a_position_of_a_block_is_taken_once() {
    model(Some(3), || split(1, 1, false));
    model(Some(3), || split(2, 1, false));
    model(Some(2), || split(3, 1, false));
    model(Some(2), || split(3, 1, true));
    model(Some(2), || split(2, 2, false));
}

/// A block that is opened again, while a thief is at it.
#[test]
fn a_thief_takes_part_of_the_block_that_it_looks_at() {
    model(Some(2), || {
        let block = Arc::new(Block::new());
        let taken: Arc<[Data; 3]> = Arc::default();
        let thief = {
            let (block, taken) = (block.clone(), taken.clone());
            thread::spawn(move || {
                for at in block.steal().into_iter().flatten() {
                    taken[at as usize].add(1);
                }
            })
        };
        for positions in [0..1, 1..3] {
            let held = block.hold().expect("it is free");
            let claims = held.open(positions);
            while let Some(at) = claims.claim() {
                taken[at as usize].add(1);
            }
        }
        thief.join().unwrap();
        assert!(taken.iter().all(|taken| taken.get() == 1), "taken once");
    });
}

#[test]
fn canary_thief_that_does_not_look_again() {
    caught(Canary::GraphBlock, Some(2), || split(2, 1, false));
}
