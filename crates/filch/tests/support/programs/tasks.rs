//! Submitted tasks in random trees, joined and cancelled from inside and from outside.

use super::percent;
use crate::support::quiet_panic;
use filch::{
    Pool, Priority, Rng, TaskError, TaskHandle, TaskOverflow,
    rehearse::{self, Rehearsal},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

const PRIORITIES: [Priority; 4] = [
    Priority::Low,
    Priority::Normal,
    Priority::High,
    Priority::Critical,
];

/// What the submitter of a task does with it.
#[derive(Clone, Copy)]
enum Then {
    Join,
    Cancel,
    CancelAndJoin,
    Hasten(Priority),
    Detach,
}

/// A task, and those that it submits.
struct Spec {
    id: usize,
    priority: Option<Priority>,
    panics: bool,
    points: usize,
    children: Vec<(Spec, Then)>,
}

/// What became of one task.
#[derive(Default)]
struct TaskRecord {
    submitted: AtomicBool,
    runs: AtomicUsize,
    /// A cancel said that it never starts.
    never: AtomicBool,
}

struct World {
    /// At the end what has not started is cancelled.
    at_once: bool,
    records: Vec<TaskRecord>,
    refused: AtomicUsize,
    order: Mutex<Vec<usize>>,
    wrong: Mutex<Vec<String>>,
}

struct Case {
    workers: usize,
    roots: Vec<Vec<(Spec, Then)>>,
    panics: Vec<bool>,
    capacity: Option<(usize, TaskOverflow)>,
    at_once: bool,
}

impl Spec {
    fn new(rng: &mut Rng, depth: usize, panics: &mut Vec<bool>) -> (Self, Then) {
        let id = panics.len();
        let bad = percent(rng, 10);
        panics.push(bad);
        let children = if depth == 0 { 0 } else { rng.below(4) };
        let priority = percent(rng, 30).then(|| PRIORITIES[rng.below(4)]);
        let points = [0, 1, 2, 4, 8][rng.below(5)];
        let children = (0..children)
            .map(|_| Self::new(rng, depth - 1, panics))
            .collect();
        let then = match rng.below(8) {
            0 => Then::Cancel,
            1 => Then::CancelAndJoin,
            2 => Then::Hasten(PRIORITIES[rng.below(4)]),
            3 => Then::Detach,
            _ => Then::Join,
        };
        let spec = Self {
            id,
            priority,
            panics: bad,
            points,
            children,
        };
        (spec, then)
    }

    /// What the task does.
    fn work(self, world: &Arc<World>) -> usize {
        world.records[self.id].runs.fetch_add(1, Ordering::SeqCst);
        world.order.lock().unwrap().push(self.id);
        (0..self.points).for_each(|_| rehearse::point());
        submit_all(self.children, None, world);
        if self.panics {
            quiet_panic("planned");
        }
        self.id
    }
}

/// Submits tasks, to `pool` or to the present one, and then does with each what it has to.
fn submit_all(specs: Vec<(Spec, Then)>, pool: Option<&Pool>, world: &Arc<World>) {
    let mut handles = Vec::new();
    for (spec, then) in specs {
        let (id, panics, priority) = (spec.id, spec.panics, spec.priority);
        let inner = world.clone();
        let work = move || spec.work(&inner);
        let mut task = match pool {
            Some(pool) => pool.task(work),
            None => filch::task(work),
        };
        if let Some(priority) = priority {
            task = task.priority(priority);
        }
        match task.submit() {
            Ok(handle) => {
                world.records[id].submitted.store(true, Ordering::SeqCst);
                handles.push((id, panics, then, handle));
            }
            Err(_) => _ = world.refused.fetch_add(1, Ordering::SeqCst),
        }
    }
    for (id, panics, then, handle) in handles {
        rehearse::point();
        match then {
            Then::Detach => drop(handle),
            Then::Join => world.join(id, panics, false, handle),
            Then::Hasten(priority) => {
                handle.set_priority(priority);
                world.join(id, panics, false, handle);
            }
            Then::Cancel => _ = world.cancel(id, &handle),
            Then::CancelAndJoin => {
                let never = world.cancel(id, &handle);
                world.join(id, panics, never, handle);
            }
        }
    }
}

impl World {
    fn cancel(&self, id: usize, handle: &TaskHandle<usize>) -> bool {
        let never = handle.cancel();
        self.records[id].never.store(never, Ordering::SeqCst);
        never
    }

    fn join(&self, id: usize, panics: bool, never: bool, handle: TaskHandle<usize>) {
        let result = handle.join();
        let ran = self.records[id].runs.load(Ordering::SeqCst) == 1;
        let right = match &result {
            Ok(value) => *value == id && ran && !panics && !never,
            Err(error) => (error.is_panic() && panics && ran) || (error.is_cancelled() && !ran),
        };
        let cancelled = result.as_ref().is_err_and(TaskError::is_cancelled);
        if !right || never && !cancelled || cancelled && !(never || self.at_once) {
            let wrong = format!("task {id}: {result:?}, ran: {ran}, never: {never}");
            self.wrong.lock().unwrap().push(wrong);
        }
    }
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::for_worker(seed, 2);
        let rng = &mut rng;
        let mut panics = Vec::new();
        let roots = (0..rng.below(3) + 1)
            .map(|_| {
                let count = rng.below(4) + 1;
                (0..count).map(|_| Spec::new(rng, 2, &mut panics)).collect()
            })
            .collect();
        let policies = [
            TaskOverflow::Block,
            TaskOverflow::Refuse,
            TaskOverflow::RunInCaller,
        ];
        Self {
            workers: [0, 1, 2, 2, 3, 4][rng.below(6)],
            roots,
            panics,
            capacity: percent(rng, 40).then(|| (rng.below(4) + 1, policies[rng.below(3)])),
            at_once: percent(rng, 25),
        }
    }

    fn perform(self, pool: &Pool) -> Result<Vec<usize>, String> {
        let world = Arc::new(World {
            at_once: self.at_once,
            records: self.panics.iter().map(|_| TaskRecord::default()).collect(),
            refused: AtomicUsize::new(0),
            order: Mutex::default(),
            wrong: Mutex::default(),
        });
        let threads: Vec<_> = self
            .roots
            .into_iter()
            .map(|specs| {
                let (pool, world) = (pool.clone(), world.clone());
                rehearse::spawn_outside(move || submit_all(specs, Some(&pool), &world))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join());
        if self.at_once {
            pool.clone().shutdown_now();
        } else {
            pool.clone().shutdown();
        }
        if let Some(wrong) = world.wrong.lock().unwrap().first() {
            return Err(wrong.clone());
        }
        let (mut submitted, mut finished, mut panicked) = (0, 0, 0);
        for (id, (record, panics)) in world.records.iter().zip(&self.panics).enumerate() {
            let there = record.submitted.load(Ordering::SeqCst);
            let runs = record.runs.load(Ordering::SeqCst);
            let never = record.never.load(Ordering::SeqCst);
            // A task that is submitted runs once, unless it was cancelled, or the end came before.
            let may_not = never || self.at_once || !there;
            if runs > 1 || runs == 0 && !may_not || runs == 1 && (never || !there) {
                return Err(format!("task {id} ran {runs} times (never: {never})"));
            }
            submitted += u64::from(there);
            finished += u64::from(runs == 1 && !panics);
            panicked += u64::from(runs == 1 && *panics);
        }
        let total = pool.task_metrics().total();
        let told = (total.submitted, total.finished, total.panicked);
        if told != (submitted, finished, panicked)
            || total.cancelled != submitted - finished - panicked
            || total.refused != world.refused.load(Ordering::SeqCst) as u64
        {
            return Err(format!(
                "submitted {submitted}, finished {finished}, panicked {panicked}, but {total:?} is reported"
            ));
        }
        Ok(std::mem::take(&mut world.order.lock().unwrap()))
    }
}

/// Rehearses the tasks of `seed`: the order in which they began.
pub(crate) fn perform(seed: u64) -> Result<Vec<usize>, String> {
    let case = Case::new(seed);
    let mut rehearsal = Rehearsal::new(case.workers, seed).max_points(500_000);
    if let Some((capacity, policy)) = case.capacity {
        rehearsal = rehearsal.pool(move |pool| pool.task_capacity(capacity).overflow(policy));
    }
    let rehearsed = rehearsal.try_run(move |pool| case.perform(pool));
    let rehearsed = rehearsed.map_err(|failure| failure.to_string())?;
    let order = rehearsed.value;
    order.map_err(|wrong| format!("seed {seed}: {wrong}"))
}

/// Rehearses the tasks of `seed`, and says what is wrong.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    perform(seed).map(drop)
}
