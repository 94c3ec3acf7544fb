//! Random trees, folded in random ways.

use super::{in_a_task, percent};
use crate::support::{Counted, Drops, panic_of, quiet_panic};
use filch::{
    Fold, Pool, Rng,
    engine::{PerWorker, Shared},
    fold,
    fold::{Adaptive, AtTheEnd, FewWakes, OnArrival, Tasks},
    rehearse::{self, Rehearsal},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A tree, by the children of each node; node 0 is the root.
#[derive(Debug)]
struct Tree {
    children: Vec<Vec<usize>>,
    /// The scheduling points in each node.
    points: Vec<usize>,
    /// Which function panics, and at which node.
    trouble: Option<(Function, usize)>,
    /// Whether the iterator over children has no upper bound.
    vague: bool,
    /// The node that folds a tree itself.
    nested: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Children,
    Init,
    Accumulate,
    Finalize,
}

/// How the fold is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Here,
    Installed,
    InTask,
    Isolated,
    /// Two at the same time, from two threads.
    Twice,
}

const STRATEGIES: usize = 8;

/// The result of a rehearsal of a fold.
#[derive(Debug, PartialEq)]
pub(crate) struct Performed {
    strategy: usize,
    how: String,
    panicked: bool,
    nested: bool,
    shared: bool,
    fingerprint: u64,
    wrong: Vec<String>,
}

impl Performed {
    pub(crate) fn features(&self) -> Vec<String> {
        let mut features = vec![format!("strategy {}", self.strategy), self.how.clone()];
        for (name, has) in [
            ("panic", self.panicked),
            ("nested", self.nested),
            ("shared", self.shared),
        ] {
            features.extend(has.then(|| name.to_owned()));
        }
        features.retain(|feature| !feature.is_empty());
        features
    }
}

impl Tree {
    fn random(rng: &mut Rng, spine: bool) -> Self {
        let nodes = [1, 2, 5, 12, 30][rng.below(5)] + rng.below(6);
        // New nodes hang below any other, the root, or the one before: bushes, stars and chains;
        // and chains with a leaf behind each node.
        let kind = if spine { 4 } else { rng.below(5) };
        let nodes = if kind >= 4 { 4 * nodes } else { nodes };
        let mut children = vec![Vec::new(); nodes];
        for node in 1..nodes {
            let parent = match kind {
                0 => node - 1,
                1 => 0,
                2 => (node - 1) / 2,
                4.. if node % 2 == 1 => node.saturating_sub(2),
                4.. => node.saturating_sub(3),
                _ => rng.below(node),
            };
            children[parent].push(node);
        }
        let busy = rng.below(3);
        let points = (0..nodes).map(|_| match busy {
            0 => 0,
            1 => [0, 1, 2, 4][rng.below(4)],
            _ => [0, 0, 0, 40][rng.below(4)],
        });
        let points = points.collect();
        let functions = [
            Function::Children,
            Function::Init,
            Function::Accumulate,
            Function::Finalize,
        ];
        let trouble = percent(rng, 45).then(|| (functions[rng.below(4)], rng.below(nodes)));
        Self {
            children,
            points,
            trouble,
            vague: rng.one_in(4),
            nested: rng.one_in(4).then(|| rng.below(nodes)),
        }
    }

    /// Returns the expected result of the fold.
    fn expected(&self, node: usize) -> String {
        let below = self.children[node]
            .iter()
            .map(|&child| self.expected(child));
        format!("({node}{})", below.collect::<String>())
    }

    /// The root has no parent, so its result is not accumulated.
    fn panics(&self) -> bool {
        self.trouble
            .is_some_and(|trouble| trouble != (Function::Accumulate, 0))
    }

    /// Called first by every function of the fold.
    fn pass(&self, function: Function, node: usize) {
        assert!(
            Pool::current().is_some(),
            "{function:?} outside of the pool"
        );
        if self.trouble == Some((function, node)) {
            quiet_panic("planned");
        }
    }
}

/// An iterator with or without an upper bound.
struct Children<'t> {
    nodes: std::iter::Copied<std::slice::Iter<'t, usize>>,
    vague: bool,
}

impl Iterator for Children<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.nodes.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.vague {
            (0, None)
        } else {
            self.nodes.size_hint()
        }
    }
}

/// A value whose drop is counted, with a text.
struct Value {
    node: usize,
    text: String,
    _counted: Counted,
}

/// Counts of values and workers, over the folds of one tree.
#[derive(Default)]
struct Traces {
    drops: Drops,
    made: AtomicUsize,
    /// The workers that entered nodes.
    workers: std::sync::Mutex<std::collections::BTreeSet<Option<usize>>>,
}

impl Traces {
    fn value(&self, node: usize, text: String) -> Value {
        self.made.fetch_add(1, Ordering::SeqCst);
        Value {
            node,
            text,
            _counted: self.drops.value(),
        }
    }
}

/// Folds the tree. The values borrow nothing, but the counters must outlive them,
/// so that a late drop is seen.
fn run(pool: &Pool, tree: &Tree, strategy: usize, traces: &Traces) -> String {
    let folded = fold(
        |node: usize| {
            tree.pass(Function::Children, node);
            Children {
                nodes: tree.children[node].iter().copied(),
                vague: tree.vague,
            }
        },
        |&node| {
            tree.pass(Function::Init, node);
            let worker = filch::current_worker();
            traces.workers.lock().unwrap().insert(worker);
            (0..tree.points[node]).for_each(|_| rehearse::point());
            if tree.nested == Some(node) {
                let count = fold(|n: u32| 0..n, |_| 1, |sum, n: u32| *sum += n, |sum| sum);
                assert_eq!(count.with::<Adaptive>().on(pool).run(4), 16);
            }
            traces.value(node, format!("({node}"))
        },
        |acc, child: Value| {
            tree.pass(Function::Accumulate, child.node);
            acc.text.push_str(&child.text);
        },
        |acc| {
            tree.pass(Function::Finalize, acc.node);
            traces.value(acc.node, acc.text + ")")
        },
    );
    macro_rules! with {
        ($strategy:ty) => {
            folded.with::<$strategy>().on(pool).run(0)
        };
    }
    let result = match strategy {
        0 => with!(Adaptive),
        1 => with!(FewWakes),
        2 => with!(Adaptive<AtTheEnd>),
        3 => with!(Adaptive<OnArrival, 2>),
        4 => with!(Tasks),
        5 => with!(Tasks<PerWorker, AtTheEnd, 0>),
        6 => with!(Tasks<Shared>),
        _ => with!(Tasks<Shared, AtTheEnd>),
    };
    result.text
}

/// Folds the tree, and returns the violations.
fn fold_once(pool: &Pool, tree: &Tree, strategy: usize) -> (bool, Vec<String>) {
    let traces = Traces::default();
    let mut wrong = Vec::new();
    if tree.panics() {
        let said = panic_of(|| run(pool, tree, strategy, &traces));
        if said != "planned" {
            wrong.push(format!("the caller got {said:?}"));
        }
    } else {
        let came = run(pool, tree, strategy, &traces);
        let expected = tree.expected(0);
        if came != expected {
            wrong.push(format!("the result is {came}, not {expected}"));
        }
    }
    let (made, dropped) = (traces.made.load(Ordering::SeqCst), traces.drops.seen());
    if made != dropped {
        wrong.push(format!(
            "of {made} values {dropped} were dropped when it returned"
        ));
    }
    let workers = traces.workers.into_inner().unwrap().len();
    (workers > 1, wrong)
}

pub(crate) fn perform(seed: u64) -> Result<Performed, String> {
    perform_as(seed, false)
}

/// The same with a chain that has a leaf behind each node, if `spine`, and an adaptive strategy,
/// which offers bundles.
fn perform_as(seed: u64, spine: bool) -> Result<Performed, String> {
    let mut rng = Rng::new(seed);
    let tree = Arc::new(Tree::random(&mut rng, spine));
    let strategy = if spine {
        [0, 0, 1, 3][rng.below(4)]
    } else {
        rng.below(STRATEGIES)
    };
    let hows = [
        How::Here,
        How::Installed,
        How::InTask,
        How::Isolated,
        How::Twice,
    ];
    let how = hows[rng.below(hows.len())];
    let workers = 1 + rng.below(3);
    let (panicked, nested) = (tree.panics(), tree.nested.is_some());
    let about = format!("{strategy} {how:?} with {workers} workers: {tree:?}");
    let rehearsed = Rehearsal::new(workers, seed).try_run(move |pool| {
        let once = |pool: &Pool| fold_once(pool, &tree, strategy);
        match how {
            How::Here => once(pool),
            How::Installed => pool.install(|| once(pool)),
            How::InTask => in_a_task(pool, once),
            How::Isolated => pool.install(|| filch::isolate(|| once(pool))),
            How::Twice => {
                let (other_pool, other_tree) = (pool.clone(), tree.clone());
                let other =
                    rehearse::spawn_outside(move || fold_once(&other_pool, &other_tree, strategy));
                let (shared, mut wrong) = once(pool);
                wrong.extend(other.join().1);
                (shared, wrong)
            }
        }
    });
    let rehearsed = rehearsed.map_err(|failure| format!("{failure}\nstrategy {about}"))?;
    let (shared, wrong) = rehearsed.value;
    Ok(Performed {
        strategy,
        how: format!("{how:?}"),
        panicked,
        nested,
        shared,
        fingerprint: rehearsed.fingerprint,
        wrong: wrong
            .into_iter()
            .map(|wrong| format!("{wrong}\nstrategy {about}"))
            .collect(),
    })
}

/// Folds of spines alone, in which there are bundles now and then: with nodes that are neither
/// light nor heavy, by the clock that the seed chooses.
pub(crate) fn check_spines(seed: u64) -> Result<(), String> {
    verdict(seed, &perform_as(3 * seed + 1, true)?)
}

pub(crate) fn check(seed: u64) -> Result<(), String> {
    verdict(seed, &perform(seed)?)
}

fn verdict(seed: u64, performed: &Performed) -> Result<(), String> {
    match performed.wrong.first() {
        None => Ok(()),
        Some(wrong) => Err(format!("seed {seed}: {wrong}")),
    }
}
