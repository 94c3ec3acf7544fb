//! Graphs with many sources, of which some wait until all others have run.

use super::percent;
use filch::{
    Graph, Pool, Rng,
    rehearse::{self, Rehearsal},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How the graph is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Here,
    InTask,
    Isolated,
    Subflow,
    Launched,
}

struct Case {
    workers: usize,
    /// How many points each source passes.
    points: Vec<usize>,
    /// Which sources wait for the others.
    waits: Vec<bool>,
    /// Which of them have a successor.
    leads: Vec<bool>,
    priorities: Vec<Option<i32>>,
    how: How,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::for_worker(seed, 1);
        let rng = &mut rng;
        let workers = [0, 1, 1, 2, 2, 3][rng.below(6)];
        let sources = rng.below(120) + 12;
        let long = [0, 1, 5][rng.below(3)];
        let ordered = percent(rng, 30);
        let waiters = [0, 1, 1, 2][rng.below(4)];
        let mut waits = vec![false; sources];
        for _ in 0..waiters {
            waits[rng.below(sources)] = true;
        }
        Self {
            workers,
            points: (0..sources)
                .map(|_| if percent(rng, long) { 40 } else { rng.below(2) })
                .collect(),
            waits,
            leads: (0..sources).map(|_| percent(rng, 10)).collect(),
            priorities: (0..sources)
                .map(|_| (ordered && percent(rng, 30)).then(|| rng.below(3) as i32))
                .collect(),
            how: [
                How::Here,
                How::InTask,
                How::Isolated,
                How::Subflow,
                How::Launched,
            ][rng.below(5)],
        }
    }

    /// Adds the tasks to a graph. `ran` has a place for each source, and for what comes after it.
    fn add(
        &self,
        graph: &Graph<'static>,
        ran: &Arc<Vec<[AtomicUsize; 2]>>,
        count: &Arc<AtomicUsize>,
    ) {
        let others = self.waits.iter().filter(|waits| !**waits).count();
        for (number, &points) in self.points.iter().enumerate() {
            let (waits, ran_too, count) = (self.waits[number], ran.clone(), count.clone());
            let task = graph.task("", move || {
                ran_too[number][0].fetch_add(1, Ordering::SeqCst);
                (0..points).for_each(|_| rehearse::point());
                if !waits {
                    count.fetch_add(1, Ordering::SeqCst);
                }
                while waits && count.load(Ordering::SeqCst) < others {
                    if !filch::yield_now() {
                        rehearse::point();
                    }
                }
            });
            if let Some(priority) = self.priorities[number] {
                task.priority(priority);
            }
            if self.leads[number] {
                let ran = ran.clone();
                task.precede(graph.task("", move || {
                    ran[number][1].fetch_add(1, Ordering::SeqCst);
                }));
            }
        }
    }

    fn run(&self, pool: &Pool) -> Arc<Vec<[AtomicUsize; 2]>> {
        let ran = Arc::new(self.points.iter().map(|_| Default::default()).collect());
        let count = Arc::new(AtomicUsize::new(0));
        let graph = Graph::new();
        if self.how == How::Subflow {
            let inner = Graph::new();
            self.add(&inner, &ran, &count);
            graph.module("inner", inner.plan().expect("no circles"));
        } else {
            self.add(&graph, &ran, &count);
        }
        let mut plan = graph.plan().expect("no circles");
        let ran_all = match self.how {
            How::Here | How::Subflow => plan.run_on(pool),
            How::InTask => pool
                .submit(move || plan.run())
                .join()
                .expect("a run does not panic"),
            How::Isolated => pool.install(|| filch::isolate(|| plan.run())),
            How::Launched => pool.launch(plan).join(),
        };
        ran_all.expect("no task panics");
        ran
    }

    /// On one thread, a source that waits further down the stack is not over before the one above
    /// it. In an isolated task `yield_now` runs nothing.
    fn can_end(&self) -> bool {
        let waiters = self.waits.iter().filter(|waits| **waits).count();
        let threads = self.workers + usize::from(matches!(self.how, How::Here | How::Subflow));
        match self.how {
            How::Isolated => waiters < self.workers.max(1),
            _ => threads > 0 || waiters == 0,
        }
    }
}

/// Rehearses the sources of `seed`: each runs once, whatever waits for what.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    let mut case = Case::new(seed);
    if !case.can_end() {
        case.waits.fill(false);
    }
    let leads = case.leads.clone();
    let rehearsed = Rehearsal::new(case.workers, seed).try_run(move |pool| case.run(pool));
    let ran = rehearsed.map_err(|failure| failure.to_string())?.value;
    for (number, times) in ran.iter().enumerate() {
        let times = [0, 1].map(|part: usize| times[part].load(Ordering::SeqCst));
        if times != [1, usize::from(leads[number])] {
            return Err(format!(
                "source {number} and its successor ran {times:?} times"
            ));
        }
    }
    Ok(())
}
