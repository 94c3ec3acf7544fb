//! The injector against a sequential model: order of each producer, batches, capacity, turns.

use filch::engine::{Injector, Take};
use proptest::{collection::vec, prelude::*};
use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
    thread,
};

/// A task: its producer, and its place in the order of that producer.
type Task = (usize, u32);

/// Producers of one case; each is a thread.
const PRODUCERS: usize = 3;

/// One call, by a certain thread.
#[derive(Clone, Debug)]
enum Call {
    Push {
        by: usize,
    },
    Batch {
        by: usize,
        tasks: usize,
    },
    Always {
        by: usize,
        tasks: usize,
    },
    Take,
    /// Takes up to `most` tasks into a queue with so much `room`.
    TryTake {
        most: usize,
        room: usize,
    },
    Drain,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let by = || 0..PRODUCERS;
    let call = prop_oneof![
        4 => by().prop_map(|by| Call::Push { by }),
        3 => (by(), 0_usize..6).prop_map(|(by, tasks)| Call::Batch { by, tasks }),
        1 => (by(), 0_usize..4).prop_map(|(by, tasks)| Call::Always { by, tasks }),
        3 => Just(Call::Take),
        5 => (0_usize..8, 0_usize..8).prop_map(|(most, room)| Call::TryTake { most, room }),
        1 => Just(Call::Drain),
    ];
    vec(call, 1..60)
}

/// Runs closures on a thread, one at a time.
struct Producer {
    calls: mpsc::Sender<Box<dyn FnOnce() + Send>>,
}

impl Producer {
    fn new() -> Self {
        let (calls, receiver) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        thread::spawn(move || receiver.into_iter().for_each(|call| call()));
        Self { calls }
    }

    fn run<R: Send + 'static>(&self, call: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, result) = mpsc::channel();
        let call = move || sender.send(call()).unwrap();
        self.calls.send(Box::new(call)).unwrap();
        result.recv().unwrap()
    }
}

/// What must be in the queue.
struct Model {
    queues: [VecDeque<u32>; PRODUCERS],
    next: [u32; PRODUCERS],
    capacity: usize,
}

impl Model {
    fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// The next tasks of a producer, which are not in the queue yet.
    fn make(&mut self, by: usize, tasks: usize) -> Vec<Task> {
        let first = self.next[by];
        (first..first + tasks as u32).map(|n| (by, n)).collect()
    }

    fn pushed(&mut self, tasks: &[Task]) {
        for &(by, n) in tasks {
            self.queues[by].push_back(n);
            self.next[by] = n + 1;
        }
    }

    /// These tasks were taken, in this order.
    fn taken(&mut self, tasks: &[Task]) -> Result<(), TestCaseError> {
        for &(by, n) in tasks {
            prop_assert_eq!(self.queues[by].pop_front(), Some(n), "producer {}", by);
        }
        Ok(())
    }

    /// Whether `tasks` tasks fit. Zero always fit, even if workers have overfilled the queue.
    fn has_room(&self, tasks: usize) -> bool {
        tasks <= self.capacity.saturating_sub(self.len())
    }
}

fn play(capacity: usize, calls: Vec<Call>) -> Result<(), TestCaseError> {
    let injector = Arc::new(Injector::<Task>::bounded(capacity));
    let producers = [(); PRODUCERS].map(|()| Producer::new());
    let mut model = Model {
        queues: Default::default(),
        next: [0; PRODUCERS],
        capacity,
    };
    for call in calls {
        match call {
            Call::Push { by } => {
                let (fits, tasks) = (model.has_room(1), model.make(by, 1));
                let (injector, task) = (injector.clone(), tasks[0]);
                let result = producers[by].run(move || injector.push(task));
                prop_assert_eq!(result, if fits { Ok(()) } else { Err(task) });
                model.pushed(if fits { &tasks } else { &[] });
            }
            Call::Batch { by, tasks } => {
                let (fits, tasks) = (model.has_room(tasks), model.make(by, tasks));
                let (injector, batch) = (injector.clone(), tasks.clone());
                let result = producers[by].run(move || injector.push_batch(batch));
                prop_assert_eq!(result, if fits { Ok(()) } else { Err(tasks.clone()) });
                model.pushed(if fits { &tasks } else { &[] });
            }
            Call::Always { by, tasks } => {
                let tasks = model.make(by, tasks);
                let (injector, batch) = (injector.clone(), tasks.clone());
                producers[by].run(move || injector.push_always(batch));
                model.pushed(&tasks);
            }
            Call::Take => {
                let task = injector.take();
                prop_assert_eq!(task.is_some(), model.len() > 0);
                model.taken(&task.into_iter().collect::<Vec<_>>())?;
            }
            Call::TryTake { most, room } => {
                let mut moved = VecDeque::new();
                let push = |task| {
                    if moved.len() == room {
                        return Err(task);
                    }
                    moved.push_front(task);
                    Ok(())
                };
                match injector.try_take(most, push) {
                    Take::Taken(first, n) => {
                        prop_assert_eq!(n, moved.len());
                        prop_assert!(n < most.max(1) && n <= room);
                        // With less room the youngest are taken and the others stay: no order then.
                        if n + 1 == most.max(1) || n < room {
                            moved.push_front(first);
                            model.taken(moved.make_contiguous())?;
                        } else {
                            model.taken(&[first])?;
                            for (by, n) in moved {
                                let at = model.queues[by].iter().position(|&other| other == n);
                                prop_assert!(at.is_some());
                                model.queues[by].remove(at.unwrap());
                            }
                        }
                    }
                    Take::Empty => prop_assert_eq!(model.len(), 0),
                    Take::Busy => prop_assert!(false, "no other thread is there"),
                }
            }
            Call::Drain => {
                model.taken(&injector.drain())?;
                prop_assert_eq!(model.len(), 0);
            }
        }
        prop_assert_eq!(injector.len(), model.len());
        prop_assert_eq!(injector.is_empty(), model.len() == 0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn calls_one_after_the_other_agree_with_a_model(capacity in 1_usize..12, calls in calls()) {
        play(capacity, calls)?;
    }

    #[test]
    fn so_do_they_without_a_limit(calls in calls()) {
        play(usize::MAX, calls)?;
    }
}

#[test]
fn a_backlog_of_one_producer_delays_another_by_one_batch() {
    let injector = Arc::new(Injector::unbounded());
    let push = |task, times| {
        let injector = injector.clone();
        let producer = thread::spawn(move || (0..times).for_each(|_| injector.push(task).unwrap()));
        producer.join().unwrap();
    };
    push("backlog", 1000);
    push("late", 1);
    let mut batches = 0;
    loop {
        batches += 1;
        let mut late = false;
        let taken = injector.try_take(64, |task| {
            late |= task == "late";
            Ok(())
        });
        if late || matches!(taken, Take::Taken("late", _)) {
            break;
        }
    }
    assert!(batches <= 2, "taken after {batches} batches");
}
