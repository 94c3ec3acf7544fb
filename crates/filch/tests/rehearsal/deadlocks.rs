//! Submitted tasks that join each other at random, also in circles. A join that can never end must
//! be reported, or all threads wait; a join that can end must not be reported.

use super::percent;
use filch::{
    Dependency, Pool, Rng, TaskError, TaskHandle,
    rehearse::{self, Rehearsal},
    sync,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

#[derive(Clone, Copy, Debug)]
enum Act {
    Point,
    /// Joins that task, if its handle is there.
    Join(usize),
    /// Cancels that task, if its handle is there.
    Cancel(usize),
}

/// One task of a case.
struct Plan {
    /// How many points pass before it is submitted.
    delay: usize,
    acts: Vec<Act>,
    /// The tasks that it waits for, and whether it minds how they end. If it minds, there is one,
    /// because the end of another one is no wait, and would close a circle without a report.
    others: Vec<usize>,
    minds: bool,
}

#[derive(Default)]
struct World {
    handles: Vec<Mutex<Option<TaskHandle<()>>>>,
    /// How often each task has ended.
    ends: Vec<AtomicUsize>,
    /// The numbers of the tasks for the pool.
    ids: Mutex<Vec<(u64, usize)>>,
    reports: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// A closure's share of the world.
struct Entry(Arc<World>, usize);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.ends[self.1].fetch_add(1, SeqCst);
    }
}

impl World {
    fn complain(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    fn act(&self, act: Act) {
        match act {
            Act::Point => rehearse::point(),
            Act::Join(task) => {
                let handle = self.handles[task].lock().unwrap().take();
                if let Some(Err(error)) = handle.map(TaskHandle::join)
                    && error.is_deadlock()
                {
                    self.check(&error);
                }
            }
            Act::Cancel(task) => {
                let handle = self.handles[task].lock().unwrap().take();
                if let Some(handle) = handle {
                    handle.cancel();
                    *self.handles[task].lock().unwrap() = Some(handle);
                }
            }
        }
    }

    /// None of the tasks of a circle ends before the caller returns, however long the others have
    /// time for it.
    fn check(&self, error: &TaskError) {
        if error.cycle().is_some() {
            // The others are seen without the list.
            self.reports.fetch_add(1, SeqCst);
        }
        let mut circle = vec![error.id().get()];
        let cycle = error.cycle().into_iter().flat_map(|cycle| cycle.parties());
        circle.extend(cycle.filter_map(|party| party.task_id()));
        for _ in 0..20 {
            for &(id, task) in &*self.ids.lock().unwrap() {
                if circle.contains(&id) && self.ends[task].load(SeqCst) > 0 {
                    return self.complain(format!("{task} has ended, but {error}"));
                }
            }
            rehearse::point();
        }
    }
}

fn plans(seed: u64) -> Vec<Plan> {
    let mut rng = Rng::for_worker(seed, 5);
    let count = 2 + [0, 0, 0, 1, 1, 2, 3, 5][rng.below(8)];
    // Each joins the next one, before anything else.
    let is_ring = percent(&mut rng, 50);
    let plan = |number: usize| {
        // A task that has not begun is run by the one that joins it. So most give the others time
        // to begin.
        let begin = [0, 10, 20, 40][rng.below(4)];
        let mut acts = vec![Act::Point; begin];
        if is_ring {
            acts.push(Act::Join((number + 1) % count));
        }
        for _ in 0..1 + rng.below(5) {
            let other = rng.below(count);
            acts.push(match rng.below(10) {
                0..=3 => Act::Point,
                4 => Act::Cancel(other),
                _ => Act::Join(other),
            });
        }
        let is_held = number > 0 && !is_ring && percent(&mut rng, 20);
        let minds = percent(&mut rng, 50);
        let others = match (is_held, minds) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 1 + rng.below(2),
        };
        let others = (0..others).map(|_| rng.below(number.max(1))).collect();
        Plan {
            delay: [0, 0, rng.below(20), rng.below(80)][rng.below(4)],
            acts,
            others,
            minds,
        }
    };
    let mut plans: Vec<_> = (0..count).map(plan).collect();
    // A task that is held by one that is held may be cancelled by its handle: such circles are not
    // reported.
    let held: Vec<_> = plans.iter().map(|plan| !plan.others.is_empty()).collect();
    for plan in &mut plans {
        plan.others.retain(|&other| !held[other]);
    }
    plans
}

fn program(pool: &Pool, seed: u64) -> Result<usize, String> {
    let plans = plans(seed);
    let world = Arc::new(World {
        handles: plans.iter().map(|_| Mutex::default()).collect(),
        ends: plans.iter().map(|_| AtomicUsize::new(0)).collect(),
        ..World::default()
    });
    let mut known: Vec<Dependency> = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        (0..plan.delay).for_each(|_| rehearse::point());
        let entry = Entry(world.clone(), number);
        let acts = plan.acts.clone();
        let mut task = pool.task(move || acts.into_iter().for_each(|act| entry.0.act(act)));
        for &other in &plan.others {
            task = match plan.minds {
                true => task.after(&known[other]),
                false => task.after_any_outcome(&known[other]),
            };
        }
        let handle = task.submit().map_err(|error| error.to_string())?;
        world.ids.lock().unwrap().push((handle.id().get(), number));
        known.push(handle.dependency());
        *world.handles[number].lock().unwrap() = Some(handle);
    }
    let outside = {
        let (world, count) = (world.clone(), plans.len());
        let mut rng = Rng::for_worker(seed, 6);
        rehearse::spawn_outside(move || {
            for _ in 0..rng.below(3) {
                world.act(Act::Join(rng.below(count)));
            }
        })
    };
    outside.join();
    pool.clone().shutdown();
    if let Some(wrong) = world.wrong.lock().unwrap().first() {
        return Err(wrong.clone());
    }
    // The handles of tasks that were not joined: the tasks are dropped with them.
    world
        .handles
        .iter()
        .for_each(|handle| drop(handle.lock().unwrap().take()));
    for (task, ends) in world.ends.iter().enumerate() {
        if ends.load(SeqCst) != 1 {
            return Err(format!("task {task} ended {} times", ends.load(SeqCst)));
        }
    }
    Ok(world.reports.load(SeqCst))
}

/// Rehearses the tasks of `seed`: how many circles over several stacks were reported.
pub(crate) fn perform(seed: u64) -> Result<usize, String> {
    let mut rng = Rng::for_worker(seed, 4);
    let workers = [1, 2, 2, 3][rng.below(4)];
    let rehearsal = Rehearsal::new(workers, seed).max_points(500_000);
    let rehearsed = rehearsal.try_run(move |pool| program(pool, seed));
    let reports = rehearsed.map_err(|failure| failure.to_string())?.value;
    reports.map_err(|wrong| format!("seed {seed}: {wrong}"))
}

/// Rehearses the tasks of `seed`, and says what is wrong.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    perform(seed).map(drop)
}

/// A chain that is no circle, though it comes back to the same two threads: `low` waits for
/// `middle`, which waits for `top`, which runs on top of `low`.
pub(crate) fn check_chain(seed: u64) -> Result<(), String> {
    let rehearsal = Rehearsal::new(2, seed).max_points(500_000);
    let rehearsed = rehearsal.try_run(|pool| {
        let is_listed = |subject: u64| {
            let mut waits = filch::waits().into_iter();
            waits.any(|wait| wait.subject().task_id() == Some(subject))
        };
        let slot = Arc::new(Mutex::new(None::<TaskHandle<()>>));
        let begun = Arc::new(AtomicUsize::new(0));
        let started = Arc::new(AtomicUsize::new(0));
        let middle = {
            let (slot, begun, started) = (slot.clone(), begun.clone(), started.clone());
            pool.submit(move || {
                started.store(1, SeqCst);
                while begun.load(SeqCst) == 0 {
                    rehearse::point();
                }
                let top = slot.lock().unwrap().take();
                top.map_or(Ok(()), TaskHandle::join)
            })
        };
        while started.load(SeqCst) == 0 {
            rehearse::point();
        }
        let waited_for = middle.id().get();
        let low = pool.submit(move || middle.join().and_then(|joined| joined));
        while !is_listed(waited_for) {
            rehearse::point();
        }
        // Both workers are in a task, and the one that waits takes this.
        let top = pool.submit(move || {
            let this = filch::current_task().map(|task| task.id().get());
            begun.store(1, SeqCst);
            for _ in 0..1_000 {
                rehearse::point();
                if this.is_some_and(is_listed) {
                    break;
                }
            }
        });
        *slot.lock().unwrap() = Some(top);
        while !low.is_finished() {
            rehearse::point();
        }
        low.join().and_then(|joined| joined)
    });
    let joined = rehearsed.map_err(|failure| failure.to_string())?.value;
    joined.map_err(|error| format!("seed {seed}: there is no circle, but {error}"))
}

/// Tasks that use two locks, one inside the other, and wait with them.
pub(crate) fn check_locks(seed: u64) -> Result<(), String> {
    let mut rng = Rng::for_worker(seed, 7);
    let (workers, tasks) = (rng.below(4), 2 + rng.below(4));
    let rehearsal = Rehearsal::new(workers, seed).max_points(500_000);
    let rehearsed = rehearsal.try_run(move |pool| {
        let (outer, inner) = (sync::Mutex::new(0), sync::Mutex::new(0));
        let half = || (0..12).for_each(|_| rehearse::point());
        pool.scope(|s| {
            for number in 0..tasks {
                let (outer, inner) = (&outer, &inner);
                s.spawn(move |_| {
                    let mut outer = outer.lock().unwrap();
                    filch::join(half, half);
                    let mut inner = inner.lock().unwrap();
                    filch::scope(|s| (0..2).for_each(|_| s.spawn(move |_| half())));
                    *inner += 1;
                    if number % 2 == 0 {
                        drop(inner);
                    }
                    *outer += filch::submit(|| 1).join().unwrap();
                });
            }
        });
        (outer.into_inner().unwrap(), inner.into_inner().unwrap())
    });
    let counts = rehearsed.map_err(|failure| failure.to_string())?.value;
    match counts == (tasks, tasks) {
        true => Ok(()),
        false => Err(format!("seed {seed}: {counts:?} of {tasks}")),
    }
}
