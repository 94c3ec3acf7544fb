//! Folds over acyclic graphs, each node once.

use super::{
    definition::{Fold, Memo},
    team::{HasTeam, StateRef, Team},
};
use crate::{
    base::{
        sync::{AtomicUsize, Ordering},
        unwind,
    },
    engine::Placement,
    pool::{Pool, context::WorkerContext, on_current},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    error::Error,
    fmt,
    hash::Hash,
    ops::Range,
    sync::OnceLock,
};

/// The number of leaves in one task: enough that the cost of a task is small beside them.
const LEAVES_PER_TASK: usize = 64;

/// The graph has a cycle.
///
/// ```
/// use filch::{Fold, fold};
///
/// let round = fold(|n: u8| [(n + 1) % 3], |_| (), |(), ()| (), |()| ());
/// let error = round.memo(|n| *n).run(0).unwrap_err();
/// assert_eq!(error.keys(), [0, 1, 2]);
/// assert!(error.to_string().contains("0 -> 1 -> 2 -> 0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleError<K> {
    keys: Vec<K>,
}

impl<K> CycleError<K> {
    /// The keys of the nodes on the cycle, each a child of the one before; the first is a child of
    /// the last.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let round = fold(|n: u8| [(n + 1) % 3], |_| (), |(), ()| (), |()| ());
    /// assert_eq!(round.memo(|n| *n).run(0).unwrap_err().keys(), [0, 1, 2]);
    /// ```
    #[must_use]
    pub fn keys(&self) -> &[K] {
        &self.keys
    }
}

impl<K: fmt::Debug> fmt::Display for CycleError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node is below itself, so it cannot be folded; remove one of these edges: ")?;
        for key in &self.keys {
            write!(f, "{key:?} -> ")?;
        }
        match self.keys.first() {
            Some(first) => write!(f, "{first:?}"),
            None => Ok(()),
        }
    }
}

impl<K: fmt::Debug> Error for CycleError<K> {}

impl<F, Q> Memo<'_, F, Q> {
    /// Runs it on this pool. The default is the caller's pool if it is a worker, else the global
    /// one.
    ///
    /// ```
    /// use filch::{Fold, Pool, fold};
    ///
    /// let edges = &[vec![1, 2], vec![3], vec![3], vec![]]; // 3 is a child of 1 and of 2
    /// let paths = fold(
    ///     |i: usize| edges[i].iter().copied(),
    ///     |i| u32::from(*i == 3),
    ///     |sum, child| *sum += child,
    ///     |sum| sum,
    /// );
    /// let pool = Pool::builder().workers(2).build()?;
    /// assert_eq!(paths.memo(|i| *i).on(&pool).run(0), Ok(2));
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn on(self, pool: &Pool) -> Self {
        Self {
            pool: Some(pool.clone()),
            ..self
        }
    }

    /// Folds the graph below `root`, each node once.
    ///
    /// The graph is explored first, by the caller alone: `children` is called once for each node,
    /// and the key once for each edge. Then the three functions run, children before their parents,
    /// in parallel.
    ///
    /// ```
    /// use filch::{Fold, fold};
    ///
    /// let edges = &[vec![1, 2], vec![3], vec![3], vec![]]; // 3 is a child of 1 and of 2
    /// let paths = fold(
    ///     |i: usize| edges[i].iter().copied(),
    ///     |i| u32::from(*i == 3),
    ///     |sum, child| *sum += child,
    ///     |sum| sum,
    /// );
    /// assert_eq!(paths.memo(|i| *i).run(0), Ok(2));
    /// ```
    ///
    /// # Errors
    /// If the graph has a cycle. Nothing has been folded then.
    ///
    /// # Panics
    /// If one of the functions does.
    pub fn run<K>(&self, root: F::Node) -> Result<F::Result, CycleError<K>>
    where
        F: Fold<Node: Clone + Sync, Result: Clone + Sync>,
        Q: Fn(&F::Node) -> K,
        K: Hash + Eq + Clone,
    {
        let graph = SharedNodes::explore(self.fold, &self.key, root)?;
        Ok(match &self.pool {
            Some(pool) => pool.enter_worker(|context| graph.fold(self.fold, context)),
            None => on_current(|context| graph.fold(self.fold, context)),
        })
    }
}

impl<F, Q> fmt::Debug for Memo<'_, F, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// All nodes, each after its children: the root is the last.
struct SharedNodes<N> {
    nodes: Vec<ExploredNode<N>>,
    /// The children of all nodes.
    edges: Vec<usize>,
}

/// A node and the range of its children among the edges.
struct ExploredNode<N> {
    node: N,
    children: Range<usize>,
}

/// A node whose children are being explored.
struct OpenExploration<N, I, K> {
    node: N,
    key: K,
    children: I,
    known: Vec<usize>,
}

impl<N: Clone> SharedNodes<N> {
    fn explore<F, K>(fold: &F, key: &impl Fn(&N) -> K, root: N) -> Result<Self, CycleError<K>>
    where
        F: Fold<Node = N>,
        K: Hash + Eq + Clone,
    {
        let mut graph = Self {
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        // The numbers of the explored nodes; `None` for open ones.
        let mut numbers = HashMap::new();
        let open_node = |node: N, key: K| OpenExploration {
            children: fold.children(node.clone()),
            node,
            key,
            known: Vec::new(),
        };
        let root_key = key(&root);
        numbers.insert(root_key.clone(), None);
        let mut open = vec![open_node(root, root_key)];
        while let Some(innermost) = open.last_mut() {
            let Some(child) = innermost.children.next() else {
                let number = graph.nodes.len();
                let done = open.pop().expect("there is one");
                let first = graph.edges.len();
                graph.edges.extend(done.known);
                graph.nodes.push(ExploredNode {
                    node: done.node,
                    children: first..graph.edges.len(),
                });
                numbers.insert(done.key, Some(number));
                if let Some(above) = open.last_mut() {
                    above.known.push(number);
                }
                continue;
            };
            let child_key = key(&child);
            match numbers.entry(child_key.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(None);
                    WorkerContext::with(|context| {
                        context.is_some_and(WorkerContext::leaf_checkpoint)
                    });
                    open.push(open_node(child, child_key));
                }
                Entry::Occupied(entry) => match *entry.get() {
                    Some(number) => innermost.known.push(number),
                    None => {
                        let from = open.iter().position(|open| open.key == child_key);
                        let cycle = &open[from.expect("it is open")..];
                        return Err(CycleError {
                            keys: cycle.iter().map(|open| open.key.clone()).collect(),
                        });
                    }
                },
            }
        }
        Ok(graph)
    }

    fn fold<F>(self, fold: &F, context: &WorkerContext<'_, '_>) -> F::Result
    where
        N: Send + Sync,
        F: Fold<Node = N, Result: Clone + Sync>,
    {
        let count = self.nodes.len();
        let mut degrees = vec![0; count + 1];
        for &child in &self.edges {
            degrees[child + 1] += 1;
        }
        // Prefix sums: where the parents of each node begin in `parents`.
        let mut sum = 0;
        for degree in &mut degrees {
            sum += *degree;
            *degree = sum;
        }
        let first_parents = degrees;
        let mut parents = vec![0; self.edges.len()];
        let mut next = first_parents.clone();
        for (parent, explored) in self.nodes.iter().enumerate() {
            for &child in &self.edges[explored.children.clone()] {
                parents[next[child]] = parent;
                next[child] += 1;
            }
        }
        let nodes = self.nodes.iter();
        let unfinished_children = nodes
            .map(|explored| AtomicUsize::new(explored.children.len()))
            .collect();
        let make = |team| MemoState {
            team,
            fold,
            unfinished_children,
            results: (0..count).map(|_| OnceLock::new()).collect(),
            first_parents,
            parents,
            graph: self,
        };
        let mut shared = Team::scope(context, make, |shared| {
            let state_ref = StateRef::new(shared);
            start(&state_ref, context);
            state_ref.done(context);
        });
        let result = shared.results[count - 1].take();
        result.expect("without a panic there is a result")
    }
}

/// The state that all tasks of a fold share.
struct MemoState<'a, F: Fold> {
    team: Team,
    fold: &'a F,
    graph: SharedNodes<F::Node>,
    /// For each node, the number of children that are not done.
    unfinished_children: Vec<AtomicUsize>,
    results: Vec<OnceLock<F::Result>>,
    first_parents: Vec<usize>,
    parents: Vec<usize>,
}

impl<F: Fold<Node: Sync, Result: Sync>> HasTeam for MemoState<'_, F> {
    fn team(&self) -> &Team {
        &self.team
    }
}

/// The first part: spawns tasks for all nodes without children. The caller counts it as done.
fn start<'a, F>(state_ref: &StateRef<MemoState<'a, F>>, context: &WorkerContext<'_, '_>)
where
    F: Fold<Node: Sync, Result: Clone + Sync>,
{
    let shared = state_ref.get();
    let is_leaf = |number: &usize| shared.graph.nodes[*number].children.is_empty();
    let leaves: Vec<_> = (0..shared.graph.nodes.len()).filter(is_leaf).collect();
    for some in leaves.chunks(LEAVES_PER_TASK) {
        spawn(state_ref, context, some.to_vec());
    }
}

fn spawn<'a, F>(
    state_ref: &StateRef<MemoState<'a, F>>,
    context: &WorkerContext<'_, '_>,
    ready: Vec<usize>,
) where
    F: Fold<Node: Sync, Result: Clone + Sync>,
{
    let task = move |state_ref: &StateRef<MemoState<'a, F>>, context: &WorkerContext<'_, '_>| {
        let shared = state_ref.get();
        if let Err(payload) = unwind::contain(|| shared.run(state_ref, context, ready)) {
            shared.team.fail(context, payload);
        }
    };
    Team::spawn(state_ref, context, task, Placement::Local);
}

impl<'a, F> MemoState<'a, F>
where
    F: Fold<Node: Sync, Result: Clone + Sync>,
{
    /// Folds these nodes, and those that become ready by it.
    fn run(
        &self,
        state_ref: &StateRef<Self>,
        context: &WorkerContext<'_, '_>,
        mut ready: Vec<usize>,
    ) {
        while let Some(number) = ready.pop() {
            context.leaf_checkpoint();
            if self.team.has_failed() {
                return;
            }
            let result = self.fold_one(number);
            let fresh = self.results[number].set(result).is_ok();
            debug_assert!(fresh, "each is folded once");
            let parents = self.first_parents[number]..self.first_parents[number + 1];
            let before = ready.len();
            for &parent in &self.parents[parents] {
                // AcqRel: the worker of the last child sees the writes of the others. (`OnceLock`
                // orders the results by itself.)
                if self.unfinished_children[parent].fetch_sub(1, Ordering::AcqRel) == 1 {
                    ready.push(parent);
                }
            }
            if ready.len() > before + 1 {
                // This worker continues with one of the nodes that have become ready; the others
                // can be stolen.
                spawn(state_ref, context, ready.split_off(before + 1));
            }
        }
    }

    fn fold_one(&self, number: usize) -> F::Result {
        let explored = &self.graph.nodes[number];
        let mut acc = self.fold.init(&explored.node);
        for &child in &self.graph.edges[explored.children.clone()] {
            let result = self.results[child].get().expect("children are done before");
            self.fold.accumulate(&mut acc, result.clone());
        }
        self.fold.finalize(acc)
    }
}
