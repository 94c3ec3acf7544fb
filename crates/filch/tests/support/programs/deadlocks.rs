//! Submitted tasks that join each other at random, also in circles, and through scopes, halves of
//! joins, runs of graphs and locks. A join that can never end must be reported, or all threads
//! wait; a join that can end must not be reported.

use super::percent;
use filch::{
    Dependency, Graph, Pool, Rng, TaskHandle,
    graph::{RunHandle, SharedPlan},
    pool::Cycle,
    rehearse::{self, Rehearsal},
    sync,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// How a task computes two parts.
#[derive(Clone, Copy, Debug)]
enum Form {
    Scope,
    Halves,
    Run,
}

#[derive(Clone, Debug)]
enum Act {
    Point,
    /// Joins that task, if its handle is there.
    Join(usize),
    /// Cancels that task, if its handle is there.
    Cancel(usize),
    /// Joins that task with that lock held.
    LockedJoin(usize, usize),
    /// Joins that launched run, if its handle is there.
    JoinRun(usize),
    /// Does two lists of acts in parallel.
    Both(Form, Vec<Act>, Vec<Act>),
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
    runs: Vec<Mutex<Option<RunHandle>>>,
    locks: [sync::Mutex<()>; 2],
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

    fn act(&self, act: &Act) {
        match act {
            Act::Point => rehearse::point(),
            &Act::Join(task) => {
                let handle = self.handles[task].lock().unwrap().take();
                if let Some(Err(error)) = handle.map(TaskHandle::join)
                    && error.is_deadlock()
                {
                    self.check(error.cycle(), Some(error.id().get()), &error.to_string());
                }
            }
            &Act::Cancel(task) => {
                let handle = self.handles[task].lock().unwrap().take();
                if let Some(handle) = handle {
                    handle.cancel();
                    *self.handles[task].lock().unwrap() = Some(handle);
                }
            }
            &Act::LockedJoin(lock, task) => {
                // A thread that has the lock already, further down its stack, panics.
                let locked = catch_unwind(AssertUnwindSafe(|| self.locks[lock].lock()));
                if let Ok(guard) = locked {
                    self.act(&Act::Join(task));
                    drop(guard);
                }
            }
            &Act::JoinRun(run) => {
                let handle = self.runs[run].lock().unwrap().take();
                if let Some(Err(error)) = handle.map(RunHandle::join)
                    && error.is_deadlock()
                {
                    self.check(error.cycle(), None, &error.to_string());
                }
            }
            Act::Both(form, left, right) => self.both(*form, left, right),
        }
    }

    fn act_all(&self, acts: &[Act]) {
        acts.iter().for_each(|act| self.act(act));
    }

    fn both(&self, form: Form, left: &[Act], right: &[Act]) {
        match form {
            Form::Scope => filch::scope(|s| {
                s.spawn(|_| self.act_all(left));
                s.spawn(|_| self.act_all(right));
            }),
            Form::Halves => {
                filch::join(|| self.act_all(left), || self.act_all(right));
            }
            Form::Run => {
                let graph = Graph::new();
                graph.task("left", || self.act_all(left));
                graph.task("right", || self.act_all(right));
                let ran = graph.plan().unwrap().run();
                ran.map(drop)
                    .unwrap_or_else(|error| self.complain(error.to_string()));
            }
        }
    }

    /// None of the tasks of a circle ends before the caller returns, however long the others have
    /// time for it.
    fn check(&self, cycle: Option<&Cycle>, joined: Option<u64>, text: &str) {
        if cycle.is_some() {
            // The others are seen without the list.
            self.reports.fetch_add(1, SeqCst);
        }
        let parties = cycle.into_iter().flat_map(|cycle| cycle.parties());
        let circle = parties.filter_map(|party| party.task_id());
        let circle: Vec<_> = circle.chain(joined).collect();
        for _ in 0..20 {
            for &(id, task) in &*self.ids.lock().unwrap() {
                if circle.contains(&id) && self.ends[task].load(SeqCst) > 0 {
                    return self.complain(format!("{task} has ended, but {text}"));
                }
            }
            rehearse::point();
        }
    }
}

/// The tasks and the launched runs of a case.
struct Case {
    plans: Vec<Plan>,
    runs: Vec<[Vec<Act>; 2]>,
    /// All runs are of the plan of the first one, so they wait for each other.
    one_plan: bool,
}

/// Tasks that join each other with locks held, or inside scopes, joins and runs of graphs, and
/// launched runs that do the same. Not both, because a worker that waits for a lock, or with one,
/// leaves queued jobs to others. If one of them is needed and all workers do so, they wait for
/// ever, and the list does not show it: the job is queued.
fn mixed(seed: u64) -> Case {
    let mut rng = Rng::for_worker(seed, 8);
    let (count, has_locks) = (2 + rng.below(4), percent(&mut rng, 40));
    let runs = if has_locks { 0 } else { rng.below(3) };
    let mut acts = |depth: usize| acts(&mut rng, count, runs, has_locks, depth);
    let plan = |_| Plan {
        delay: 0,
        acts: acts(2),
        others: Vec::new(),
        minds: false,
    };
    let plans = (0..count).map(plan).collect();
    let runs = (0..runs).map(|_| [acts(1), acts(1)]).collect();
    let one_plan = percent(&mut Rng::for_worker(seed, 9), 50);
    Case {
        plans,
        runs,
        one_plan,
    }
}

fn acts(rng: &mut Rng, count: usize, runs: usize, has_locks: bool, depth: usize) -> Vec<Act> {
    let begin = [0, 5, 10, 20][rng.below(4)];
    let mut list = vec![Act::Point; begin];
    for _ in 0..1 + rng.below(2) {
        let task = rng.below(count);
        list.push(match rng.below(8) {
            0 => Act::Point,
            1..=2 => Act::Join(task),
            3 if runs > 0 => Act::JoinRun(rng.below(runs)),
            _ if has_locks => Act::LockedJoin(rng.below(2), task),
            _ if depth > 0 => {
                let form = [Form::Scope, Form::Halves, Form::Run][rng.below(3)];
                let mut part = || acts(rng, count, runs, has_locks, depth - 1);
                Act::Both(form, part(), part())
            }
            _ => Act::Join(task),
        });
    }
    list
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

fn program(pool: &Pool, seed: u64, case: Case) -> Result<usize, String> {
    let Case {
        plans,
        runs,
        one_plan,
    } = case;
    let world = Arc::new(World {
        handles: plans.iter().map(|_| Mutex::default()).collect(),
        runs: runs.iter().map(|_| Mutex::default()).collect(),
        ends: plans.iter().map(|_| AtomicUsize::new(0)).collect(),
        ..World::default()
    });
    let mut first = None::<SharedPlan>;
    for (number, tasks) in runs.into_iter().enumerate() {
        let graph = Graph::new();
        for acts in tasks {
            let world = world.clone();
            graph.task("run", move || world.act_all(&acts));
        }
        let plan = graph.plan().map_err(|error| error.to_string())?;
        let plan = match (one_plan, &first) {
            (true, Some(first)) => SharedPlan::clone(first),
            _ => first.insert(plan.into()).clone(),
        };
        *world.runs[number].lock().unwrap() = Some(pool.launch(plan));
    }
    drop(first);
    let mut known: Vec<Dependency> = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        (0..plan.delay).for_each(|_| rehearse::point());
        let entry = Entry(world.clone(), number);
        let acts = plan.acts.clone();
        let mut task = pool.task(move || entry.0.act_all(&acts));
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
                world.act(&Act::Join(rng.below(count)));
            }
        })
    };
    outside.join();
    pool.clone().shutdown();
    if let Some(wrong) = world.wrong.lock().unwrap().first() {
        return Err(wrong.clone());
    }
    world
        .runs
        .iter()
        .for_each(|handle| drop(handle.lock().unwrap().take()));
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
    let runs = Vec::new();
    perform_case(seed, move || Case {
        plans: plans(seed),
        runs,
        one_plan: false,
    })
}

/// The same with other waits in between.
pub(crate) fn perform_mixed(seed: u64) -> Result<usize, String> {
    perform_case(seed, move || mixed(seed))
}

fn perform_case(seed: u64, case: impl FnOnce() -> Case + Send + 'static) -> Result<usize, String> {
    let mut rng = Rng::for_worker(seed, 4);
    let workers = [1, 2, 2, 3][rng.below(4)];
    let rehearsal = Rehearsal::new(workers, seed).max_points(500_000);
    let rehearsed = rehearsal.try_run(move |pool| program(pool, seed, case()));
    let reports = rehearsed.map_err(|failure| failure.to_string())?.value;
    reports.map_err(|wrong| format!("seed {seed}: {wrong}"))
}

/// Rehearses the tasks of `seed`, and says what is wrong.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    perform(seed).map(drop)
}

/// Rehearses the mixed waits of `seed`, and says what is wrong.
pub(crate) fn check_mixed(seed: u64) -> Result<(), String> {
    perform_mixed(seed).map(drop)
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
    // Many, so that some are still queued beneath a task that waits with a lock.
    let (workers, tasks) = (rng.below(4), 2 + rng.below(8));
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
