//! Submitted tasks that wait for others, in random graphs.

use super::percent;
use crate::support::quiet_panic;
use filch::{
    Dependency, Pool, Priority, Rng, TaskError, TaskHandle, TaskOverflow,
    rehearse::{self, Rehearsal},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// The maximum number of tasks in a case.
const MAX_TASKS: usize = 40;

/// What happened to one task.
#[derive(Default)]
struct TaskRecord {
    runs: AtomicUsize,
    /// How often its closure was dropped.
    drops: AtomicUsize,
    /// What it waits for, and whether it minds how that ends.
    others: Mutex<Vec<(usize, bool)>>,
}

#[derive(Default)]
struct World {
    records: Vec<TaskRecord>,
    /// The tasks that there are: their numbers here, and themselves.
    known: Mutex<Vec<(usize, Dependency)>>,
    next: AtomicUsize,
    order: Mutex<Vec<usize>>,
    wrong: Mutex<Vec<String>>,
}

/// A closure's share of the world.
struct Entry(Arc<World>, usize);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.records[self.1].drops.fetch_add(1, SeqCst);
    }
}

impl World {
    fn complain(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// Task `id` runs.
    fn begin(&self, id: usize) {
        self.order.lock().unwrap().push(id);
        self.records[id].runs.fetch_add(1, SeqCst);
        for &(other, minds) in &*self.records[id].others.lock().unwrap() {
            let record = &self.records[other];
            let (runs, drops) = (record.runs.load(SeqCst), record.drops.load(SeqCst));
            if drops != 1 || minds && runs != 1 {
                self.complain(format!("{id} runs, but {other}: {runs} runs, {drops} ends"));
            }
        }
    }

    fn settle(&self, id: usize, handle: TaskHandle<()>) {
        let result = handle.join();
        let record = &self.records[id];
        let ran = record.runs.load(SeqCst) == 1;
        let right = match &result {
            Ok(()) => ran,
            Err(error) => ran == error.is_panic() && !error.is_deadlock(),
        };
        let by = result.as_ref().err().and_then(TaskError::failed_dependency);
        let waits = record.others.lock().unwrap().iter().any(|other| other.1);
        if !right || record.drops.load(SeqCst) != 1 || by.is_some() && !waits {
            self.complain(format!("{id}: {result:?}, ran: {ran}"));
        }
    }
}

/// Submits some tasks behind others, and does this and that with them.
fn submit_some(seed: u64, pool: &Pool, world: &Arc<World>) {
    let mut rng = Rng::new(seed);
    let mut handles = Vec::new();
    for _ in 0..rng.below(10) + 2 {
        let id = world.next.fetch_add(1, SeqCst);
        let entry = Entry(world.clone(), id);
        let (panics, nested, points) = (percent(&mut rng, 8), percent(&mut rng, 20), rng.below(3));
        let mut task = pool.task(move || {
            entry.0.begin(id);
            (0..points).for_each(|_| rehearse::point());
            if nested {
                let first = filch::submit(rehearse::point);
                let second = filch::submit_after(&first, rehearse::point);
                let _ = filch::submit_after(&second, rehearse::point).join();
            }
            if panics {
                quiet_panic("planned");
            }
        });
        {
            let known = world.known.lock().unwrap();
            for _ in 0..rng.below(4).min(known.len()) {
                let (other, dependency) = &known[rng.below(known.len())];
                let minds = percent(&mut rng, 70);
                task = match minds {
                    true => task.after(dependency),
                    false => task.after_any_outcome(dependency),
                };
                world.records[id]
                    .others
                    .lock()
                    .unwrap()
                    .push((*other, minds));
            }
        }
        if percent(&mut rng, 20) {
            task = task.priority(Priority::ALL[rng.below(4)]);
        }
        if let Ok(handle) = task.submit() {
            world.known.lock().unwrap().push((id, handle.dependency()));
            handles.push((id, handle));
        }
        if handles.is_empty() {
            continue;
        }
        let at = rng.below(handles.len());
        match rng.below(8) {
            0 => _ = handles[at].1.cancel(),
            1 => _ = handles[at].1.set_priority(Priority::ALL[rng.below(4)]),
            2 => drop(handles.swap_remove(at)),
            3 | 4 => {
                let (id, handle) = handles.swap_remove(at);
                world.settle(id, handle);
            }
            _ => {}
        }
    }
    for (id, handle) in handles {
        world.settle(id, handle);
    }
}

fn program(pool: &Pool, seed: u64, threads: usize, at_once: bool) -> Result<Vec<usize>, String> {
    let world = Arc::new(World {
        records: (0..MAX_TASKS).map(|_| TaskRecord::default()).collect(),
        ..World::default()
    });
    let threads: Vec<_> = (0..threads as u64)
        .map(|thread| {
            let (pool, world) = (pool.clone(), world.clone());
            let seed = seed ^ (thread + 1) << 40;
            rehearse::spawn_outside(move || submit_some(seed, &pool, &world))
        })
        .collect();
    if at_once {
        rehearse::point();
        pool.clone().shutdown_now();
    }
    threads.into_iter().for_each(|thread| thread.join());
    pool.clone().shutdown();
    if let Some(wrong) = world.wrong.lock().unwrap().first() {
        return Err(wrong.clone());
    }
    let begun = world.next.load(SeqCst);
    for (id, record) in world.records[..begun].iter().enumerate() {
        let (runs, drops) = (record.runs.load(SeqCst), record.drops.load(SeqCst));
        if runs > 1 || drops != 1 {
            return Err(format!(
                "task {id} ran {runs} times and ended {drops} times"
            ));
        }
    }
    let total = pool.task_metrics().total();
    if total.submitted != total.finished + total.panicked + total.cancelled + total.expired {
        return Err(format!("does not add up: {total:?}"));
    }
    Ok(std::mem::take(&mut world.order.lock().unwrap()))
}

/// Rehearses the tasks of `seed`: the order in which they began.
pub(crate) fn perform(seed: u64) -> Result<Vec<usize>, String> {
    let mut rng = Rng::for_worker(seed, 3);
    let (workers, threads) = ([0, 0, 1, 1, 2, 3][rng.below(6)], 1 + rng.below(3));
    let at_once = percent(&mut rng, 20);
    let mut rehearsal = Rehearsal::new(workers, seed).max_points(500_000);
    if percent(&mut rng, 30) {
        let policies = [TaskOverflow::Refuse, TaskOverflow::RunInCaller];
        let (capacity, policy) = (1 + rng.below(4), policies[rng.below(2)]);
        rehearsal = rehearsal.pool(move |pool| pool.task_capacity(capacity).overflow(policy));
    }
    let rehearsed = rehearsal.try_run(move |pool| program(pool, seed, threads, at_once));
    let order = rehearsed.map_err(|failure| failure.to_string())?.value;
    order.map_err(|wrong| format!("seed {seed}: {wrong}"))
}

/// Rehearses the tasks of `seed`, and says what is wrong.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    perform(seed).map(drop)
}
