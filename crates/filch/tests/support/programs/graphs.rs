//! Graphs of random shapes, run in random ways.

use super::percent;
use crate::support::quiet_panic;
use filch::{
    CancelToken, Graph, Plan, Pool, Priority, Rng, Semaphore, TaskHandle,
    graph::{Pipeline, RunError, RunOptions, RunReport, SharedPlan},
    rehearse::{self, Rehearsal},
};
use std::{
    cell::Cell,
    collections::BTreeSet,
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

/// What is known of one closure of the graph.
#[derive(Default)]
struct Part {
    name: String,
    /// How often it runs in a run that is not stopped.
    times: usize,
    /// The semaphores that its task needs.
    needs: Vec<usize>,
    /// The scheduling points in the middle of it.
    points: usize,
    /// It queues an urgent task on its worker, and strands yield to that.
    presses: bool,
    panics: bool,
    cancels: bool,
}

/// What is counted as a task that ran.
enum Counted {
    /// Each time the closure returns.
    Part(usize),
    /// Once, when all of these have returned.
    All(Vec<usize>),
    /// The same; but a run that is stopped then may not count it: that all were there is noticed
    /// later.
    Stream(Vec<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Started,
    Ended,
    Panicked,
}

/// The state that the tasks of a graph share.
struct World {
    parts: Vec<Part>,
    permits: Vec<usize>,
    /// How many tasks have a permit now.
    held: Vec<AtomicUsize>,
    /// Panics and cancellations happen in this run.
    trouble: AtomicBool,
    cancel: CancelToken,
    log: Mutex<Vec<(usize, What)>>,
    wrong: Mutex<Vec<String>>,
    /// Whether a closure began inside an unrelated computation.
    served: AtomicBool,
}

thread_local! {
    /// Whether this thread is inside a computation that is unrelated to the graph.
    static COMPUTING: Cell<bool> = const { Cell::new(false) };
}

/// The permits that a closure has while it runs, or until its future is dropped.
struct Held<'w>(&'w World, usize);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for &semaphore in &self.0.parts[self.1].needs {
            self.0.held[semaphore].fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl World {
    fn note(&self, part: usize, what: What) {
        self.log.lock().unwrap().push((part, what));
    }

    /// Called by every closure.
    fn act(&self, part: usize) {
        self.end(self.begin(part));
    }

    fn begin(&self, part: usize) -> Held<'_> {
        self.note(part, What::Started);
        if COMPUTING.get() {
            self.served.store(true, Ordering::SeqCst);
        }
        for &semaphore in &self.parts[part].needs {
            let held = self.held[semaphore].fetch_add(1, Ordering::SeqCst);
            if held >= self.permits[semaphore] {
                let wrong = format!("too many have semaphore {semaphore}");
                self.wrong.lock().unwrap().push(wrong);
            }
        }
        Held(self, part)
    }

    fn end(&self, held: Held<'_>) {
        let part = held.1;
        let about = &self.parts[part];
        (0..about.points).for_each(|_| rehearse::point());
        if about.presses
            && let Some(pool) = Pool::current()
        {
            let urgent = pool.task(rehearse::point).priority(Priority::High);
            // A pool that is shut down accepts no more tasks.
            let _ = urgent.submit().map(TaskHandle::detach);
        }
        drop(held);
        if self.trouble.load(Ordering::SeqCst) {
            if about.cancels {
                self.cancel.cancel();
            }
            if about.panics {
                self.note(part, What::Panicked);
                quiet_panic("planned");
            }
        }
        self.note(part, What::Ended);
    }
}

/// One thing in the graph: one task, or a few.
enum Kind {
    Plain(usize),
    /// The part that builds, and those that are built.
    Subflow(usize, Vec<usize>, bool),
    Module(Vec<usize>),
    /// The part that spawns, and those that are spawned.
    Runtime(usize, Vec<usize>),
    /// The part that is called when those that are built have been joined.
    Joined(usize, Vec<usize>),
    /// The part that waits for the results of the others.
    Children(usize, Vec<usize>),
    /// The numbers of a parallel loop.
    ForEach(Vec<usize>),
    /// The tokens of a pipeline, and whether its stage is serial.
    Pipe(Vec<usize>, bool),
    /// A future that is pending this number of times.
    Future(usize, usize),
    /// The entry, the body, the condition, the end, and how many laps.
    Loop([usize; 4], usize),
    /// The condition, the options, and which one is chosen.
    Branch(usize, Vec<usize>, usize),
}

struct Piece {
    kind: Kind,
    after: Vec<usize>,
    priority: Option<i32>,
    needs: Vec<usize>,
}

/// How the graph is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Here,
    Installed,
    InTask,
    Launched,
    /// Two launches of one plan, that wait for each other.
    Twice,
}

/// A random graph, and what must be true of its runs.
struct Case {
    workers: usize,
    pieces: Vec<Piece>,
    semaphores: Vec<Semaphore>,
    world: Arc<World>,
    /// The first one ends before the second one begins, if that begins.
    before: Vec<(usize, usize)>,
    counted: Vec<Counted>,
    /// Whether the number of tasks is that of those that run.
    is_plain: bool,
    how: How,
    /// A thread from outside cancels the first run after this number of scheduling points.
    cancel_after: Option<usize>,
    critical_path: bool,
    beside: Beside,
}

/// What happens beside the runs. Many seeds have nothing of it.
struct Beside {
    /// How many joins, with checkpoints in between, each worker computes meanwhile.
    joins: usize,
    /// The priority of the runs.
    priority: Priority,
    /// Whether the caller's wait is isolated.
    isolated: bool,
}

impl Beside {
    fn new(rng: &mut Rng) -> Self {
        let none = percent(rng, 70);
        let priorities = [Priority::Normal, Priority::Normal, Priority::High];
        Self {
            joins: if none { 0 } else { rng.below(100) + 10 },
            priority: priorities[if none { 0 } else { rng.below(3) }],
            isolated: !none && percent(rng, 30),
        }
    }

    /// Begins a computation for each worker.
    fn begin(&self, pool: &Pool, workers: usize) -> Vec<TaskHandle<()>> {
        let joins = self.joins;
        let compute = move || {
            for _ in 0..joins {
                COMPUTING.set(true);
                filch::join(rehearse::point, rehearse::point);
                filch::checkpoint();
                COMPUTING.set(false);
            }
        };
        let workers = if joins == 0 { 0 } else { workers };
        (0..workers).map(|_| pool.submit(compute)).collect()
    }
}

/// The outcome of a run.
#[derive(Debug, Default, PartialEq)]
struct Came {
    failed: bool,
    cancelled: bool,
    ran: u64,
    skipped: usize,
    panics: Vec<String>,
}

impl Came {
    fn to(result: Result<RunReport, RunError>) -> Self {
        match result {
            Ok(report) => Self {
                ran: report.ran(),
                ..Self::default()
            },
            Err(error) => Self {
                failed: true,
                cancelled: error.is_cancelled(),
                ran: error.ran(),
                skipped: error.skipped().count(),
                panics: error.panics().iter().map(|p| p.task().to_owned()).collect(),
            },
        }
    }
}

type Log = Vec<(usize, What)>;

/// Makes a graph.
struct Maker<'r> {
    rng: &'r mut Rng,
    parts: Vec<Part>,
    /// The percentage of closures that panic or cancel.
    trouble: usize,
}

impl Maker<'_> {
    fn part(&mut self, name: String, times: usize, needs: &[usize]) -> usize {
        let trouble = percent(self.rng, self.trouble);
        self.parts.push(Part {
            name,
            times,
            needs: needs.to_vec(),
            // A worker that was asleep passes about ten points before it has a task.
            points: [0, 1, 2, 4, 8, 16][self.rng.below(6)],
            presses: percent(self.rng, 15),
            panics: trouble && percent(self.rng, 70),
            cancels: trouble && percent(self.rng, 30),
        });
        self.parts.len() - 1
    }

    fn inner(&mut self, outer: &str, needs: &[usize]) -> Vec<usize> {
        let count = self.rng.below(4) + 1;
        let name = |n| format!("{outer}/{n}");
        (0..count).map(|n| self.part(name(n), 1, needs)).collect()
    }

    fn kind(&mut self, number: usize, needs: &[usize]) -> Kind {
        let name = format!("n{number}");
        match self.rng.below(16) {
            0 | 1 => {
                let outer = self.part(name.clone(), 1, needs);
                let inner = self.inner(&name, &[]);
                Kind::Subflow(outer, inner, self.rng.one_in(3))
            }
            2 => Kind::Module(self.inner(&name, &[])),
            3 => {
                let outer = self.part(name.clone(), 1, needs);
                let inner = self.inner(&name, &[]);
                // A panic of a part is one of the whole task, which may count as run all the same.
                for &part in &inner {
                    self.parts[part].panics = false;
                }
                Kind::Runtime(outer, inner)
            }
            4 | 5 => Kind::Future(self.part(name, 1, needs), self.rng.below(3)),
            6 => {
                let laps = self.rng.below(4) + 1;
                let entry = self.part(format!("{name}entry"), 1, &[]);
                let body = self.part(format!("{name}body"), laps, needs);
                let again = self.part(format!("{name}again"), laps, &[]);
                let end = self.part(format!("{name}end"), 1, &[]);
                Kind::Loop([entry, body, again, end], laps)
            }
            7 => {
                let which = self.part(format!("{name}which"), 1, needs);
                let options = self.rng.below(3) + 1;
                let chosen = self.rng.below(options + 1);
                let options = (0..options)
                    .map(|n| self.part(format!("{name}option{n}"), usize::from(n == chosen), &[]))
                    .collect();
                Kind::Branch(which, options, chosen)
            }
            8 => {
                let outer = self.part(name.clone(), 1, needs);
                Kind::Joined(outer, self.inner(&name, &[]))
            }
            9 => {
                let outer = self.part(name.clone(), 1, needs);
                let inner = self.inner(&name, &[]);
                for &part in &inner {
                    self.parts[part].panics = false;
                }
                Kind::Children(outer, inner)
            }
            10 => Kind::ForEach(self.stream(&name, &name)),
            11 => {
                let tokens = self.stream(&name, &format!("{name}/stage 1"));
                Kind::Pipe(tokens, self.rng.one_in(2))
            }
            _ => Kind::Plain(self.part(name, 1, needs)),
        }
    }

    /// The parts of a task that are called at the same time, with the name that a panic has. One of
    /// them may panic.
    fn stream(&mut self, name: &str, reported: &str) -> Vec<usize> {
        let parts = self.inner(name, &[]);
        for &part in &parts {
            let about = &mut self.parts[part];
            about.name = reported.to_owned();
            about.panics &= part == parts[0];
        }
        parts
    }

    /// The graph, and which closures end before which others begin.
    fn pieces(
        &mut self,
        size: usize,
        density: usize,
        special: bool,
        semaphores: usize,
    ) -> (Vec<Piece>, Vec<(usize, usize)>) {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut before = Vec::new();
        for number in 0..size {
            let wants = |rng: &mut Rng| special && percent(rng, 30);
            let needs: Vec<usize> = (0..semaphores).filter(|_| wants(self.rng)).collect();
            let kind = match special {
                true => self.kind(number, &needs),
                false => Kind::Plain(self.part(format!("n{number}"), 1, &needs)),
            };
            let mut after: Vec<usize> =
                (0..number).filter(|_| percent(self.rng, density)).collect();
            after.retain(|&other| pieces[other].kind.last().is_some());
            for &other in &after {
                for end in pieces[other].kind.last().unwrap_or_default() {
                    before.extend(kind.first().into_iter().map(|begin| (end, begin)));
                }
            }
            if let Kind::Loop([entry, body, again, end], _) = kind {
                before.extend([(entry, body), (again, end)]);
            }
            if let Kind::Joined(outer, inner) = &kind {
                before.extend(inner.iter().map(|&part| (part, *outer)));
            }
            if let Kind::Branch(which, options, _) = &kind {
                before.extend(options.iter().map(|&option| (*which, option)));
            }
            let priority = percent(self.rng, 20).then(|| self.rng.below(5) as i32);
            // A module runs no closure of its own while it has its permits, and a loop several.
            let needs = match kind {
                Kind::Module(_) | Kind::ForEach(_) | Kind::Pipe(..) => Vec::new(),
                _ => needs,
            };
            pieces.push(Piece {
                kind,
                after,
                priority,
                needs,
            });
        }
        (pieces, before)
    }
}

impl Kind {
    /// The parts that begin when what is before this has ended.
    fn first(&self) -> Vec<usize> {
        match self {
            Self::Plain(part) | Self::Future(part, _) => vec![*part],
            Self::Subflow(part, ..) | Self::Runtime(part, _) | Self::Branch(part, ..) => {
                vec![*part]
            }
            Self::Children(part, _) => vec![*part],
            Self::Module(inner) | Self::ForEach(inner) | Self::Pipe(inner, _) => inner.clone(),
            Self::Joined(_, inner) => inner.clone(),
            Self::Loop([entry, ..], _) => vec![*entry],
        }
    }

    /// The parts that end before what is after this begins; none when nothing can be after it.
    fn last(&self) -> Option<Vec<usize>> {
        Some(match self {
            Self::Plain(part) | Self::Future(part, _) | Self::Subflow(part, _, true) => vec![*part],
            Self::Subflow(part, inner, false) | Self::Runtime(part, inner) => {
                inner.iter().copied().chain([*part]).collect()
            }
            Self::Joined(part, inner) | Self::Children(part, inner) => {
                inner.iter().copied().chain([*part]).collect()
            }
            Self::Module(inner) | Self::ForEach(inner) | Self::Pipe(inner, _) => inner.clone(),
            Self::Loop([.., end], _) => vec![*end],
            Self::Branch(_, options, chosen) => vec![*options.get(*chosen)?],
        })
    }

    fn counted(&self) -> Vec<Counted> {
        let each = |parts: &[usize]| parts.iter().map(|&p| Counted::Part(p)).collect::<Vec<_>>();
        match self {
            Self::Plain(part) | Self::Future(part, _) | Self::Runtime(part, _) => each(&[*part]),
            Self::Children(part, _) => each(&[*part]),
            Self::Joined(part, inner) => each(&[&inner[..], &[*part]].concat()),
            Self::ForEach(parts) | Self::Pipe(parts, _) => vec![Counted::Stream(parts.clone())],
            Self::Subflow(part, inner, detached) => {
                let mut counted = each(inner);
                counted.push(match detached {
                    true => Counted::Part(*part),
                    false => Counted::All(inner.iter().copied().chain([*part]).collect()),
                });
                counted
            }
            Self::Module(inner) => {
                let mut counted = each(inner);
                counted.push(Counted::All(inner.clone()));
                counted
            }
            Self::Loop(parts, _) => each(parts),
            Self::Branch(part, options, _) => {
                let mut counted = each(options);
                counted.push(Counted::Part(*part));
                counted
            }
        }
    }
}

impl Case {
    fn new(seed: u64) -> Self {
        // Not the numbers of the rehearsal.
        let mut rng = Rng::for_worker(seed, 1);
        let rng = &mut rng;
        let workers = [1, 2, 2, 3, 3, 4, 5, 0][rng.below(8)];
        let permits: Vec<usize> = (0..rng.below(3)).map(|_| rng.below(2) + 1).collect();
        let size = rng.below(12) + 1;
        let density = rng.below(50);
        let trouble = [0, 0, 0, 8, 20, 60][rng.below(6)];
        let special = percent(rng, 70);
        let mut maker = Maker {
            rng,
            parts: Vec::new(),
            trouble,
        };
        let (pieces, before) = maker.pieces(size, density, special, permits.len());
        let parts = maker.parts;
        let world = World {
            held: permits.iter().map(|_| AtomicUsize::new(0)).collect(),
            trouble: AtomicBool::new(false),
            cancel: CancelToken::new(),
            log: Mutex::default(),
            wrong: Mutex::default(),
            served: AtomicBool::new(false),
            parts,
            permits,
        };
        let hows = [
            How::Here,
            How::Installed,
            How::InTask,
            How::Launched,
            How::Twice,
        ];
        Self {
            workers,
            counted: pieces.iter().flat_map(|p| p.kind.counted()).collect(),
            is_plain: pieces.iter().all(|p| matches!(p.kind, Kind::Plain(_))),
            pieces,
            semaphores: world
                .permits
                .iter()
                .map(|&n| Semaphore::new(n as u64))
                .collect(),
            world: Arc::new(world),
            before,
            how: hows[rng.below(hows.len())],
            cancel_after: percent(rng, 15).then(|| rng.below(40)),
            critical_path: percent(rng, 20),
            // Numbers of their own, so that older seeds keep their graphs.
            beside: Beside::new(&mut Rng::for_worker(seed, 2)),
        }
    }

    fn plan(&self) -> Plan<'static> {
        let graph = Graph::new();
        let mut ends = Vec::new();
        for piece in &self.pieces {
            let (first, last) = add(&graph, &piece.kind, &self.world);
            let needy = match piece.kind {
                Kind::Loop([_, body, ..], _) => {
                    let name = &self.world.parts[body].name;
                    let all = (0..graph.len()).map(|at| graph.get(at as u32 + 1));
                    let body = all.flatten().find(|task| task.name() == *name);
                    body.expect("it was added").index()
                }
                _ => first,
            };
            let at = |index| graph.get(index).expect("it was added");
            let needs = piece.needs.iter().map(|&n| &self.semaphores[n]);
            at(needy).acquire(needs);
            if let Some(priority) = piece.priority {
                at(first).priority(priority);
            }
            for &other in &piece.after {
                let end: Option<u32> = ends[other];
                at(end.expect("something can be after it")).precede(at(first));
            }
            ends.push(last);
        }
        if self.critical_path {
            graph.critical_path_first();
        }
        graph.plan().expect("there are no circles")
    }

    /// All runs, one after the other: the first with trouble.
    fn perform(&self, pool: &Pool) -> Vec<(Came, Log)> {
        let mut plan = Some(self.plan());
        let mut came = Vec::new();
        for run in 0..3 {
            self.world.trouble.store(run == 0, Ordering::SeqCst);
            let cancel = (run == 0).then(|| self.world.cancel.clone());
            let canceller = self.cancel_after.filter(|_| run == 0).map(|points| {
                let cancel = self.world.cancel.clone();
                rehearse::spawn_outside(move || {
                    (0..points).for_each(|_| rehearse::point());
                    cancel.cancel();
                })
            });
            let computations = self.beside.begin(pool, self.workers);
            let (results, back) = self.run_once(pool, plan.take().expect("it came back"), cancel);
            plan = Some(back);
            for computation in computations {
                computation.join().expect("it does not panic");
            }
            if let Some(canceller) = canceller {
                canceller.join();
            }
            let log = std::mem::take(&mut *self.world.log.lock().unwrap());
            // The runs of one plan don't overlap: the log is that of the first, then that of the
            // second.
            let mut rest = &log[..];
            let several = results.len();
            for (number, result) in results.into_iter().enumerate() {
                let events: usize = self.world.parts.iter().map(|part| 2 * part.times).sum();
                let own = match number + 1 == several {
                    true => rest.len(),
                    false => events.min(rest.len()),
                };
                let (own, others) = rest.split_at(own);
                rest = others;
                came.push((Came::to(result), own.to_vec()));
            }
        }
        came
    }

    /// Whether the first run is stopped, at an unknown time.
    fn has_trouble(&self) -> bool {
        let trouble = |part: &Part| part.panics || part.cancels;
        self.cancel_after.is_some() || self.world.parts.iter().any(trouble)
    }

    fn check(&self, came: &[(Came, Log)]) -> Result<(), String> {
        if let Some(wrong) = self.world.wrong.lock().unwrap().first() {
            return Err(wrong.clone());
        }
        for (semaphore, permits) in self.semaphores.iter().zip(&self.world.permits) {
            if semaphore.available() != *permits as u64 {
                return Err(format!("a permit was not given back: {semaphore:?}"));
            }
        }
        let several = came.len() / 3;
        for (run, (came, log)) in came.iter().enumerate() {
            let whole = !self.has_trouble() || run >= several;
            // If the first of two runs was stopped, the log does not show which run an entry
            // belongs to.
            if several > 1 && !whole {
                continue;
            }
            self.check_run(came, log, whole)
                .map_err(|wrong| format!("run {run}: {wrong}\n{came:?}\n{}", self.tell(log)))?;
        }
        Ok(())
    }

    fn check_run(&self, came: &Came, log: &Log, whole: bool) -> Result<(), String> {
        let parts = &self.world.parts;
        let count = |part: usize, what: What| log.iter().filter(|e| **e == (part, what)).count();
        for (part, about) in parts.iter().enumerate() {
            let (started, ended) = (count(part, What::Started), count(part, What::Ended));
            let name = &about.name;
            if started > about.times {
                return Err(format!("{name} ran {started} times, not {}", about.times));
            }
            if whole && ended != about.times {
                return Err(format!("{name} ended {ended} times, not {}", about.times));
            }
        }
        for &(first, second) in &self.before {
            let begun = log.iter().position(|e| *e == (second, What::Started));
            let ended = log.iter().rposition(|e| *e == (first, What::Ended));
            if let Some(begun) = begun
                && ended.is_none_or(|ended| ended > begun)
            {
                let (first, second) = (&parts[first].name, &parts[second].name);
                return Err(format!("{second} began before {first} had ended"));
            }
        }
        self.check_loops(log)?;
        let ran: u64 = self.counted.iter().map(|counted| ran(counted, log)).sum();
        let is_stream = |counted: &&Counted| matches!(counted, Counted::Stream(_));
        let streams = self.counted.iter().filter(is_stream);
        let unsure: u64 = streams.map(|counted| self::ran(counted, log)).sum();
        let least = ran - if whole { 0 } else { unsure };
        if !(least..=ran).contains(&came.ran) {
            return Err(format!("{ran} tasks ran, but {} are reported", came.ran));
        }
        let named: BTreeSet<&str> = came.panics.iter().map(String::as_str).collect();
        let panicked = log.iter().filter(|(_, what)| *what == What::Panicked);
        let panicked: BTreeSet<&str> = panicked.map(|(part, _)| &*parts[*part].name).collect();
        if named != panicked || named.len() != came.panics.len() {
            return Err(format!("{panicked:?} panicked, but {named:?} are reported"));
        }
        if whole && came.failed {
            return Err("it failed without a reason".to_owned());
        }
        if came.failed != (!named.is_empty() || came.cancelled) {
            return Err("it failed in another way than it reports".to_owned());
        }
        if self.is_plain
            && came.failed
            && came.ran as usize + came.skipped + named.len() != parts.len()
        {
            return Err("those that ran, panicked and were skipped are not all".to_owned());
        }
        Ok(())
    }

    /// The body and the condition of a loop take turns.
    fn check_loops(&self, log: &Log) -> Result<(), String> {
        for piece in &self.pieces {
            let Kind::Loop([_, body, again, _], _) = piece.kind else {
                continue;
            };
            let own = log.iter().filter(|(part, _)| [body, again].contains(part));
            let turns = [body, body, again, again].into_iter().cycle();
            if own.zip(turns).any(|((part, _), turn)| *part != turn) {
                return Err("a loop overtook itself".to_owned());
            }
        }
        Ok(())
    }

    fn tell(&self, log: &Log) -> String {
        let tell =
            |(part, what): &(usize, What)| format!("{} {what:?}", self.world.parts[*part].name);
        let all: Vec<String> = log.iter().map(tell).collect();
        format!("{:?}: {}", self.how, all.join(", "))
    }
}

fn ran(counted: &Counted, log: &Log) -> u64 {
    let ended = |part: usize| log.iter().filter(|e| **e == (part, What::Ended)).count();
    match counted {
        Counted::Part(part) => ended(*part) as u64,
        Counted::All(parts) | Counted::Stream(parts) => {
            parts.iter().all(|&part| ended(part) > 0).into()
        }
    }
}

/// Adds a piece; gives the tasks at its beginning and at its end.
fn add(graph: &Graph<'static>, kind: &Kind, world: &Arc<World>) -> (u32, Option<u32>) {
    let shared = || world.clone();
    let name = |part: usize| world.parts[part].name.clone();
    let plain = |graph: &Graph<'static>, part| add_plain(graph, part, world);
    match kind {
        Kind::Plain(part) => {
            let task = plain(graph, *part);
            (task, Some(task))
        }
        Kind::Subflow(part, inner, detached) => {
            let (world, part, inner, detached) = (shared(), *part, inner.clone(), *detached);
            let task = graph.subflow(name(part), move |flow| {
                world.act(part);
                for &part in &inner {
                    add_plain(flow, part, &world);
                }
                if detached {
                    flow.detach();
                }
            });
            (task.index(), Some(task.index()))
        }
        Kind::Module(inner) => {
            let module = Graph::new();
            inner.iter().for_each(|&part| _ = plain(&module, part));
            let outer = name(inner[0]);
            let outer = outer.rsplit_once('/').expect("it is inside").0.to_owned();
            let task = graph.module(outer, module.plan().expect("no edges, no circles"));
            (task.index(), Some(task.index()))
        }
        Kind::Runtime(part, inner) => {
            let (world, part, inner) = (shared(), *part, inner.clone());
            let task = graph.runtime(name(part), move |runtime| {
                let held = world.begin(part);
                for &inner in &inner {
                    let world = world.clone();
                    runtime.spawn(move |_| world.act(inner));
                }
                runtime.wait();
                world.end(held);
            });
            (task.index(), Some(task.index()))
        }
        Kind::Joined(part, inner) => {
            let (world, part, inner) = (shared(), *part, inner.clone());
            let task = graph.subflow(name(part), move |flow| {
                for &part in &inner {
                    add_plain(flow, part, &world);
                }
                if flow.join().is_some() {
                    world.act(part);
                }
            });
            (task.index(), Some(task.index()))
        }
        Kind::Children(part, inner) => {
            let (world, part, inner) = (shared(), *part, inner.clone());
            let task = graph.runtime(name(part), move |runtime| {
                let held = world.begin(part);
                let children: Vec<_> = inner
                    .iter()
                    .copied()
                    .map(|inner| {
                        let world = world.clone();
                        let child = runtime.submit(move |_| {
                            world.act(inner);
                            inner
                        });
                        (inner, child)
                    })
                    .collect();
                for (inner, child) in children {
                    if child.join() != Some(inner) && !runtime.is_stopped() {
                        let wrong = format!("a child of {} has no result", world.parts[part].name);
                        world.wrong.lock().unwrap().push(wrong);
                    }
                }
                world.end(held);
            });
            (task.index(), Some(task.index()))
        }
        Kind::ForEach(parts) => {
            let (world, parts) = (shared(), parts.clone());
            let task = graph.for_each(name(parts[0]), 0..parts.len(), move |n| {
                world.act(parts[n]);
            });
            (task.index(), Some(task.index()))
        }
        Kind::Pipe(parts, serial) => {
            let task_name = name(parts[0]);
            let task_name = task_name.split('/').next().unwrap_or_default().to_owned();
            let (world, stage) = (shared(), parts.clone());
            let tokens = parts.len() as u64;
            let source =
                Pipeline::new(move |flow| (flow.token() < tokens).then(|| flow.token() as usize));
            let pipeline = match serial {
                true => source.serial(move |n| world.act(stage[n])),
                false => source.parallel(move |n| world.act(stage[n])),
            };
            let task = graph.pipeline(task_name, 2, pipeline);
            (task.index(), Some(task.index()))
        }
        Kind::Future(part, pending) => {
            let (world, part, pending) = (shared(), *part, *pending);
            let task = graph.future(name(part), move || wait_some(world.clone(), part, pending));
            (task.index(), Some(task.index()))
        }
        Kind::Loop(parts, laps) => add_loop(graph, *parts, *laps, world),
        Kind::Branch(which, options, chosen) => {
            let (world, part, chosen) = (shared(), *which, *chosen);
            let condition = graph.condition(name(part), move || {
                world.act(part);
                chosen
            });
            let options: Vec<u32> = options.iter().map(|&part| plain(graph, part)).collect();
            condition.precede(options.iter().filter_map(|&option| graph.get(option)));
            (condition.index(), options.get(chosen).copied())
        }
    }
}

/// One task.
fn add_plain(graph: &Graph<'static>, part: usize, world: &Arc<World>) -> u32 {
    let name = &world.parts[part].name;
    let own = name.rsplit_once('/').map_or(&**name, |(_, inner)| inner);
    let world = world.clone();
    graph.task(own.to_owned(), move || world.act(part)).index()
}

/// A loop.
fn add_loop(
    graph: &Graph<'static>,
    [entry, body, again, end]: [usize; 4],
    laps: usize,
    world: &Arc<World>,
) -> (u32, Option<u32>) {
    let name = |part: usize| world.parts[part].name.clone();
    let lap = Arc::new(AtomicUsize::new(0));
    let (first, reset) = (world.clone(), lap.clone());
    let entry = graph.task(name(entry), move || {
        // The run before may have been stopped in the middle.
        reset.store(0, Ordering::SeqCst);
        first.act(entry);
    });
    let plain = |part| graph.get(add_plain(graph, part, world)).expect("new");
    let (body, end, laps_of) = (plain(body), plain(end), world.clone());
    let again = graph.condition(name(again), move || {
        laps_of.act(again);
        usize::from(lap.fetch_add(1, Ordering::SeqCst) + 1 == laps)
    });
    entry.precede(body);
    body.precede(again);
    again.precede([body, end]);
    (entry.index(), Some(end.index()))
}

/// A future that is not ready some times, and is woken in one way or another.
async fn wait_some(world: Arc<World>, part: usize, mut pending: usize) {
    let held = world.begin(part);
    poll_fn(|cx| {
        if pending == 0 {
            return Poll::Ready(());
        }
        pending -= 1;
        let waker: Waker = cx.waker().clone();
        match (part + pending) % 3 {
            0 => waker.wake(),
            1 => filch::spawn(move || waker.wake()),
            _ => drop(rehearse::spawn_outside(move || waker.wake())),
        }
        rehearse::point();
        Poll::Pending
    })
    .await;
    world.end(held);
}

type Results = Vec<Result<RunReport, RunError>>;

impl Case {
    fn run_once(
        &self,
        pool: &Pool,
        mut plan: Plan<'static>,
        cancel: Option<CancelToken>,
    ) -> (Results, Plan<'static>) {
        let (how, isolated) = (self.how, self.beside.isolated);
        let mut options = RunOptions::new().priority(self.beside.priority);
        if let Some(cancel) = &cancel {
            options = options.cancel(cancel);
        }
        match how {
            How::Here => {
                let options = options.on(pool);
                let result = isolate_if(isolated, || plan.run_with(&options));
                (vec![result], plan)
            }
            How::Installed => {
                let run = || isolate_if(isolated, || plan.run_with(&options));
                (vec![pool.install(run)], plan)
            }
            How::InTask => pool
                .submit(move || {
                    let result = isolate_if(isolated, || plan.run_with(&options));
                    (vec![result], plan)
                })
                .join()
                .expect("a run does not panic"),
            How::Launched | How::Twice => {
                let plan = SharedPlan::from(plan);
                let runs = if how == How::Twice { 2 } else { 1 };
                let launch = |_| pool.launch_with(&plan, &options);
                let runs: Vec<_> = (0..runs).map(launch).collect();
                let results = runs.into_iter().map(|run| run.join()).collect();
                (results, plan.into_plan().expect("there is no other share"))
            }
        }
    }
}

fn isolate_if<R: Send>(isolated: bool, f: impl FnOnce() -> R + Send) -> R {
    match isolated {
        true => filch::isolate(f),
        false => f(),
    }
}

/// The runs of a seed's graph.
pub(crate) struct Performance {
    case: Case,
    came: Vec<(Came, Log)>,
    pub(crate) fingerprint: u64,
}

/// Rehearses the graph of `seed`.
pub(crate) fn perform(seed: u64) -> Result<Performance, String> {
    let case = Case::new(seed);
    let workers = case.workers;
    let rehearsed = Rehearsal::new(workers, seed)
        .max_points(500_000)
        .try_run(move |pool| {
            let came = case.perform(pool);
            (case, came)
        })
        .map_err(|failure| failure.to_string())?;
    let (case, came) = rehearsed.value;
    Ok(Performance {
        case,
        came,
        fingerprint: rehearsed.fingerprint,
    })
}

/// Rehearses the graph of `seed`, and returns a violation as an error.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let performance = perform(seed)?;
    performance
        .case
        .check(&performance.came)
        .map_err(|wrong| format!("seed {seed}: {wrong}"))
}

impl Performance {
    /// Everything that happened, in its order.
    pub(crate) fn story(&self) -> String {
        let tell = |(came, log): &(Came, Log)| format!("{came:?} {}", self.case.tell(log));
        self.came.iter().map(tell).collect::<Vec<_>>().join("\n")
    }

    /// Returns which of the features that should be covered occurred.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let mut seen = Vec::new();
        let (first, _) = &self.came[0];
        let piece = |is: fn(&Kind) -> bool| self.case.pieces.iter().any(|p| is(&p.kind));
        for (there, name) in [
            (!first.panics.is_empty(), "panics"),
            (first.panics.len() > 1, "several panics"),
            (first.cancelled, "cancelled"),
            (!first.failed && self.case.has_trouble(), "trouble too late"),
            (self.case.semaphores.len() > 1, "semaphores"),
            (piece(|k| matches!(k, Kind::Loop(..))), "loops"),
            (piece(|k| matches!(k, Kind::Branch(..))), "branches"),
            (piece(|k| matches!(k, Kind::Subflow(..))), "subflows"),
            (piece(|k| matches!(k, Kind::Module(..))), "modules"),
            (piece(|k| matches!(k, Kind::Runtime(..))), "runtimes"),
            (piece(|k| matches!(k, Kind::Joined(..))), "joined subflows"),
            (piece(|k| matches!(k, Kind::Children(..))), "children"),
            (piece(|k| matches!(k, Kind::ForEach(..))), "parallel loops"),
            (piece(|k| matches!(k, Kind::Pipe(..))), "pipelines"),
            (piece(|k| matches!(k, Kind::Future(..))), "futures"),
            (self.case.is_plain, "plain"),
            (self.case.how == How::Twice, "twice"),
            (self.case.workers == 0, "no workers"),
            (
                self.case.world.served.load(Ordering::SeqCst),
                "served between two leaves",
            ),
            (self.case.beside.isolated, "isolated waits"),
            (self.case.workers >= 4, "many workers"),
        ] {
            if there {
                seen.push(name);
            }
        }
        seen
    }
}
