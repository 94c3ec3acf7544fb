//! Folds over trees: every strategy passes the same tests.

use crate::queues::{OneStack, Queues};
use crate::support::{Drops, Flag, LIMIT, panic_of, pool, quiet_panic, until, within};
use filch::{
    Fold, Pool,
    engine::{PerWorker, Shared},
    fold,
    fold::{Adaptive, AtTheEnd, FewWakes, FoldStrategy, OnArrival, Tasks},
};
use proptest::prelude::*;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A tree with names, so that the order of all calls can be checked.
#[derive(Clone, Debug, Default)]
struct Node {
    name: u32,
    children: Vec<Node>,
}

impl Node {
    fn leaf(name: u32) -> Self {
        Self {
            name,
            children: vec![],
        }
    }

    /// A tree in which node `i` hangs below node `parents[i - 1] % i`.
    fn from_parents(parents: &[usize]) -> Self {
        let mut nodes: Vec<Self> = (0..=parents.len()).map(|i| Self::leaf(i as u32)).collect();
        for (i, parent) in parents.iter().enumerate().rev() {
            let node = nodes.pop().expect("one for each parent");
            nodes[parent % (i + 1)].children.insert(0, node);
        }
        nodes.pop().expect("the root")
    }

    fn full(fan: usize, depth: u32) -> Self {
        fn make(fan: usize, depth: u32, names: &mut u32) -> Node {
            *names += 1;
            let name = *names;
            let below = if depth == 0 { 0 } else { fan };
            let children = (0..below).map(|_| make(fan, depth - 1, names)).collect();
            Node { name, children }
        }
        make(fan, depth, &mut 0)
    }

    fn star(children: u32) -> Self {
        Self {
            name: 0,
            children: (1..=children).map(Self::leaf).collect(),
        }
    }

    /// A leaf beside each node of a chain, before or after it.
    fn spine(length: u32, leaf_first: bool) -> Self {
        (0..length).fold(Self::leaf(0), |below, i| {
            let leaf = Self::leaf(2 * i + 1);
            let children = if leaf_first {
                vec![leaf, below]
            } else {
                vec![below, leaf]
            };
            Self {
                name: 2 * i + 2,
                children,
            }
        })
    }

    fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }
}

/// A deep tree is dropped in a loop, not by recursion.
impl Drop for Node {
    fn drop(&mut self) {
        let mut below = std::mem::take(&mut self.children);
        while let Some(mut node) = below.pop() {
            below.append(&mut node.children);
        }
    }
}

/// Work that the optimiser does not remove, so that thieves have time to arrive.
fn spin(rounds: u32) {
    for _ in 0..rounds {
        std::hint::spin_loop();
    }
}

/// Folds a tree into a text that shows every difference in order.
fn text<S: FoldStrategy>(pool: &Pool, root: &Node, rounds: u32) -> String {
    fold(
        |node: &Node| &node.children,
        |node| {
            spin(rounds);
            format!("({}", node.name)
        },
        |text: &mut String, child: String| text.push_str(&child),
        |text| text + ")",
    )
    .with::<S>()
    .on(pool)
    .run(root)
}

/// Returns the same text, computed sequentially without the library.
fn expected(root: &Node) -> String {
    enum Step<'a> {
        Enter(&'a Node),
        Leave,
    }
    let (mut text, mut steps) = (String::new(), vec![Step::Enter(root)]);
    while let Some(step) = steps.pop() {
        match step {
            Step::Enter(node) => {
                text.push_str(&format!("({}", node.name));
                steps.push(Step::Leave);
                steps.extend(node.children.iter().rev().map(Step::Enter));
            }
            Step::Leave => text.push(')'),
        }
    }
    text
}

/// Returns the sum of the numbers of all nodes.
fn sum<S: FoldStrategy>(pool: &Pool, root: &Node) -> u64 {
    fold(
        |node: &Node| &node.children,
        |node| u64::from(node.name),
        |sum, child| *sum += child,
        |sum| sum,
    )
    .with::<S>()
    .on(pool)
    .run(root)
}

fn shapes<S: FoldStrategy>() {
    let trees = [
        Node::leaf(7),
        Node::star(1),
        Node::star(2),
        Node::star(3),
        Node::star(1000),
        Node::full(20, 2),
        Node::full(6, 3),
        Node::full(2, 10),
        Node::spine(300, true),
        Node::spine(300, false),
        Node::full(1, 500),
    ];
    for workers in [0, 1, 2, 5] {
        let pool = pool(workers);
        for tree in &trees {
            let expected = expected(tree);
            assert_eq!(text::<S>(&pool, tree, 0), expected, "{workers} workers");
            assert_eq!(text::<S>(&pool, tree, 20), expected, "{workers} workers");
            assert_eq!(pool.install(|| text::<S>(&pool, tree, 0)), expected);
        }
    }
}

fn hostile_sizes<S: FoldStrategy>() {
    for workers in 1..=4_u32 {
        let pool = pool(workers as usize);
        for children in [
            0,
            1,
            workers - 1,
            workers,
            workers + 1,
            1023,
            1024,
            1025,
            5000,
        ] {
            let star = Node::star(children);
            let sum_of_names = u64::from(children) * u64::from(children + 1) / 2;
            assert_eq!(sum::<S>(&pool, &star), sum_of_names, "{children} children");
        }
    }
}

fn any_depth<S: FoldStrategy>() {
    // A million nodes in a chain, on the stack that a thread of a test has; and dropped with it.
    let pool = pool(2);
    let depth = 1_000_000_u32;
    let chain = |n: &u32| (*n > 0).then(|| n - 1);
    let folded = fold(|n: u32| chain(&n), |_| 0_u32, |h, r| *h = r + 1, |h| h);
    assert_eq!(folded.with::<S>().on(&pool).run(depth), depth);
    let spine = Node::spine(50_000, true);
    assert_eq!(sum::<S>(&pool, &spine), 100_000 * 100_001 / 2);
    // The innermost node panics.
    let bottom = fold(
        |n: u32| chain(&n),
        |n| {
            if *n == 0 {
                quiet_panic("bottom")
            }
        },
        |(), ()| (),
        |()| (),
    );
    assert_eq!(
        panic_of(|| bottom.with::<S>().on(&pool).run(depth)),
        "bottom"
    );
}

fn kinds_of_trees<S: FoldStrategy>() {
    let pool = pool(2);
    // Owned: the fold takes it apart.
    let owned = fold(
        |mut node: Node| std::mem::take(&mut node.children),
        |node| u64::from(node.name),
        |sum, child| *sum += child,
        |sum| sum,
    );
    let tree = Node::full(3, 6);
    let expected = sum::<S>(&pool, &tree);
    assert_eq!(owned.with::<S>().on(&pool).run(tree), expected);
    // Generated on demand, by an iterator without an upper bound.
    let generated = fold(
        |n: u64| (0..n).filter(|k| k % 2 == 0),
        |_| 1_u64,
        |sum, child| *sum += child,
        |sum| sum,
    );
    assert_eq!(
        generated.with::<S>().on(&pool).run(13),
        generated.sequential(13)
    );
    // An adjacency list.
    let edges = &[vec![1, 2, 3], vec![4], vec![], vec![4, 4], vec![]];
    let paths = fold(
        |i: usize| edges[i].iter().copied(),
        |i| vec![*i],
        |order, child: Vec<usize>| order.extend(child),
        |order| order,
    );
    assert_eq!(paths.with::<S>().on(&pool).run(0), [0, 1, 4, 2, 3, 4, 4]);
}

fn nested_and_several<S: FoldStrategy>() {
    let pool = pool(3);
    let tree = Node::full(5, 4);
    let expected = sum::<S>(&pool, &tree);
    // Each node of one is a fold of its own.
    let nested = fold(
        |n: u32| (0..if n == 0 { 0 } else { 4 }).map(move |_| n - 1),
        |_| sum::<S>(&pool, &tree),
        |sum, child| *sum += child,
        |sum| sum,
    );
    assert_eq!(nested.with::<S>().on(&pool).run(2), expected * 21);
    // Several at once, from threads outside the pool.
    std::thread::scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(sum::<S>(&pool, &tree), expected);
                }
            });
        }
    });
    // In tasks of the pool, isolated too.
    pool.scope(|scope| {
        for i in 0..6 {
            let (pool, tree) = (&pool, &tree);
            scope.spawn(move |_| {
                if i % 2 == 0 {
                    assert_eq!(sum::<S>(pool, tree), expected);
                } else {
                    filch::isolate(|| assert_eq!(sum::<S>(pool, tree), expected));
                }
            });
        }
    });
}

/// Panics in each of the functions, at several nodes, and counts what was made and dropped.
fn panics<S: FoldStrategy>() {
    let pool = pool(2);
    let tree = Node::full(4, 4);
    let names = tree.count() as u32;
    for function in ["children", "init", "accumulate", "finalize"] {
        for name in [1, 2, names / 2, names] {
            let (drops, made) = (Drops::default(), AtomicUsize::new(0));
            let value = || {
                made.fetch_add(1, Ordering::SeqCst);
                drops.value()
            };
            let at = |what: &'static str, here: u32| {
                if what == function && here == name {
                    quiet_panic(what);
                }
            };
            let folded = fold(
                |node: &Node| {
                    at("children", node.name);
                    &node.children
                },
                |node| {
                    at("init", node.name);
                    (node.name, value())
                },
                |acc, child: (u32, _)| {
                    at("accumulate", child.0);
                    acc.1 = value();
                },
                |acc| {
                    at("finalize", acc.0);
                    (acc.0, value())
                },
            );
            let run = || folded.with::<S>().on(&pool).run(&tree);
            if function == "accumulate" && name == 1 {
                drop(run()); // the root has no parent
            } else {
                assert_eq!(panic_of(run), function, "node {name}");
            }
            assert_eq!(drops.seen(), made.load(Ordering::SeqCst), "all is dropped");
        }
    }
    assert_eq!(sum::<S>(&pool, &Node::star(10)), 55, "the pool goes on");
}

/// While one child takes long, other workers fold its siblings before and behind it, if they are
/// heavy enough to be stolen.
fn a_slow_child<S: FoldStrategy>() {
    for slow in [1, 5, 20] {
        let pool = pool(2);
        let others = AtomicUsize::new(0);
        let folded = fold(
            |n: u32| 1..if n == 0 { 21 } else { 0 },
            |n| {
                if *n == slow {
                    until("the others are done", || {
                        others.load(Ordering::SeqCst) == 19
                    });
                } else if *n > 0 {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(50) {}
                    others.fetch_add(1, Ordering::SeqCst);
                }
            },
            |(), ()| (),
            |()| (),
        );
        folded.with::<S>().on(&pool).run(0);
    }
}

/// A tree that grows while it is folded, with an iterator over children that runs folds
///.
fn children_that_fold<S: FoldStrategy>() {
    let pool = pool(2);
    let folded = fold(
        |n: u32| {
            let pool = &pool;
            (0..n).map(move |k| sum::<S>(pool, &Node::star(k)) as u32 % (k + 1))
        },
        |_| 1_u64,
        |sum, child| *sum += child,
        |sum| sum,
    );
    assert_eq!(folded.with::<S>().on(&pool).run(40), folded.sequential(40));
}

/// Every function is called exactly as often as it should be, and in order.
fn calls<S: FoldStrategy>() {
    let pool = pool(3);
    let tree = Node::full(7, 3);
    let log = Mutex::new(vec![(0_u32, 0_u32, 0_u32); tree.count() + 1]);
    let folded = fold(
        |node: &Node| &node.children,
        |node| {
            log.lock().unwrap()[node.name as usize].0 += 1;
            (node.name, node.name)
        },
        |acc, child: u32| {
            assert!(acc.1 < child, "children come in their order");
            acc.1 = child;
            log.lock().unwrap()[child as usize].1 += 1;
        },
        |acc| {
            log.lock().unwrap()[acc.0 as usize].2 += 1;
            acc.0
        },
    );
    folded.with::<S>().on(&pool).run(&tree);
    for (name, calls) in log.into_inner().unwrap().into_iter().enumerate().skip(1) {
        assert_eq!(calls, (1, u32::from(name > 1), 1), "node {name}");
    }
}

fn stress<S: FoldStrategy>() {
    let pool = pool(4);
    let trees = [
        Node::full(2, 8),
        Node::spine(60, true),
        Node::spine(60, false),
        Node::star(90),
    ];
    for round in 0..60 {
        for tree in &trees {
            assert_eq!(text::<S>(&pool, tree, round), expected(tree));
        }
    }
}

macro_rules! every_strategy {
    ($($name:ident: $strategy:ty,)*) => {$(
        mod $name {
            use super::*;

            every_strategy!(@ $strategy, shapes hostile_sizes any_depth kinds_of_trees nested_and_several panics panics_in_next
                panics_in_the_next_of_a_taken_child one_more_at_least an_isolated_owner_helps
                a_slow_child children_that_fold calls stress);

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(64))]
                #[test]
                fn any_tree(parents in prop::collection::vec(0_usize..1 << 20, 0..400), workers in 1_usize..4) {
                    let tree = Node::from_parents(&parents);
                    prop_assert_eq!(text::<$strategy>(&pool(workers), &tree, 5), expected(&tree));
                }
            }
        }
    )*};
    (@ $strategy:ty, $($test:ident)*) => {$(
        #[test]
        fn $test() {
            within(LIMIT, super::$test::<$strategy>);
        }
    )*};
}

every_strategy! {
    adaptive: Adaptive,
    quiet: FewWakes,
    lazy_at_the_end: Adaptive<AtTheEnd, 0>,
    lazy_every_fourth: Adaptive<OnArrival, 4>,
    tasks: Tasks,
    tasks_at_the_end: Tasks<PerWorker, AtTheEnd, 4>,
    breadth: Tasks<Shared>,
    breadth_at_the_end: Tasks<Shared, AtTheEnd>,
    own_stack: Tasks<OneStack>,
    own_queues: Tasks<Queues<false>, AtTheEnd>,
}

#[test]
fn millions_of_nodes() {
    within(LIMIT, || {
        // 2^20 leaves, which are never in memory as a whole.
        let leaves = fold(
            |n: u32| (0..if n == 0 { 0 } else { 2 }).map(move |_| n - 1),
            |n| u64::from(*n == 0),
            |sum, child| *sum += child,
            |sum| sum,
        );
        let pool = pool(2);
        assert_eq!(leaves.with::<Adaptive>().on(&pool).run(20), 1 << 20);
        let star = fold(
            |n: u32| 1..if n == 0 { 2_000_001 } else { 0 },
            |n| u64::from(*n),
            |sum, child| *sum += child,
            |sum: u64| sum,
        );
        assert_eq!(
            star.with::<Adaptive>().on(&pool).run(0),
            1_000_000 * 2_000_001
        );
    });
}

#[test]
fn one_worker_and_none() {
    let tree = Node::full(3, 5);
    for pool in [pool(0), pool(1)] {
        assert_eq!(text::<Adaptive>(&pool, &tree, 0), expected(&tree));
        assert_eq!(
            pool.install(|| text::<Adaptive>(&pool, &tree, 0)),
            expected(&tree)
        );
    }
}

#[test]
fn the_sequential_fold_has_any_depth_and_drops_everything() {
    let depth = 1_000_000_u32;
    let (drops, made) = (Drops::default(), AtomicUsize::new(0));
    for bad in [None, Some(0), Some(depth / 2)] {
        let chain = fold(
            |n: u32| n.checked_sub(1),
            |n| {
                if Some(*n) == bad {
                    quiet_panic("init");
                }
                made.fetch_add(1, Ordering::Relaxed);
                (0, drops.value())
            },
            |acc, child: u32| acc.0 = child + 1,
            |acc| acc.0,
        );
        match bad {
            None => assert_eq!(chain.sequential(depth), depth),
            Some(_) => assert_eq!(panic_of(|| chain.sequential(depth)), "init"),
        }
        assert_eq!(drops.seen(), made.load(Ordering::Relaxed));
    }
}

#[test]
fn a_hundred_workers() {
    within(LIMIT, || {
        let pool = pool(100);
        let tree = Node::full(4, 5);
        let expected = expected(&tree);
        for _ in 0..5 {
            assert_eq!(text::<Adaptive>(&pool, &tree, 50), expected);
            assert_eq!(text::<Tasks>(&pool, &tree, 50), expected);
            assert_eq!(text::<Tasks<Shared>>(&pool, &tree, 50), expected);
        }
    });
}

/// Children whose iterator panics: in the worker that folds them, or in the one that offers them.
fn panics_in_next<S: FoldStrategy>() {
    let pool = pool(2);
    for bad in 0..40_u32 {
        let next = fold(
            |n: u32| {
                let below = if n < 8 { 5 * n + 1..5 * n + 6 } else { 0..0 };
                below.inspect(move |&child| {
                    spin(50);
                    if child == bad {
                        quiet_panic("next");
                    }
                })
            },
            |_| (),
            |(), ()| (),
            |()| (),
        );
        let run = || next.with::<S>().on(&pool).run(0);
        if bad == 0 {
            run(); // the root has no parent
        } else {
            assert_eq!(panic_of(run), "next");
        }
    }
    assert_eq!(sum::<S>(&pool, &Node::star(10)), 55, "the pool goes on");
}

/// An iterator with one child left, which panics when a thief calls `next`.
struct LastPanics<'a> {
    left: u32,
    asked: &'a Flag,
}

impl Iterator for LastPanics<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self.left {
            2 => {
                self.left = 1;
                Some(1)
            }
            1 => {
                self.left = 0;
                self.asked.set();
                quiet_panic("next")
            }
            _ => None,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

/// The root has two children; the first one spins until another worker has started with the
/// second.
fn panics_in_the_next_of_a_taken_child<S: FoldStrategy>() {
    let pool = pool(2);
    for _ in 0..20 {
        let asked = Flag::default();
        let (drops, made) = (Drops::default(), AtomicUsize::new(0));
        let next = fold(
            |n: u32| LastPanics {
                left: if n == 0 { 2 } else { 0 },
                asked: &asked,
            },
            |n| {
                if *n == 1 {
                    asked.wait("another worker takes the other child");
                }
                made.fetch_add(1, Ordering::SeqCst);
                drops.value()
            },
            |_, _| (),
            |acc| acc,
        );
        let run = || drop(next.with::<S>().on(&pool).run(0));
        assert_eq!(panic_of(run), "next");
        assert_eq!(drops.seen(), made.load(Ordering::SeqCst), "all is dropped");
    }
    assert_eq!(sum::<S>(&pool, &Node::star(10)), 55, "the pool goes on");
}

/// Iterators whose lower bound is always one, and which have no upper bound.
fn one_more_at_least<S: FoldStrategy>() {
    let pool = pool(2);
    let most = 300_000_u64;
    let star = fold(
        |n: u64| {
            std::iter::successors((n == 0).then_some(1), move |n| (*n < most).then_some(n + 1))
        },
        |n| *n,
        |sum, child| *sum += child,
        |sum| sum,
    );
    assert_eq!(
        star.with::<S>().on(&pool).run(0),
        most * (most + 1) / 2,
        "the sum of all"
    );
}

/// Folds a tree of five nodes: the root 0 has the children 1 and 2, and one of these, `parent`, has
/// two children that wait for each other. Calls `enter` for the nodes 1 and 2.
fn fold_with_a_meeting<S: FoldStrategy>(pool: &Pool, parent: u32, enter: impl Fn(u32) + Sync) {
    let entered = AtomicUsize::new(0);
    let folded = fold(
        |n: u32| match n {
            0 => 1..3,
            _ if n == parent => 3..5,
            _ => 0..0,
        },
        |n| match n {
            1 | 2 => enter(*n),
            3 | 4 => {
                entered.fetch_add(1, Ordering::SeqCst);
                until("both are entered", || entered.load(Ordering::SeqCst) == 2);
            }
            _ => {}
        },
        |(), ()| (),
        |()| (),
    );
    folded.with::<S>().on(pool).run(0);
}

/// With one queue for all, nodes that wait for each other meet wherever they are found, and however
/// rarely a worker is woken.
fn later_families_are_seen<S: FoldStrategy>() {
    let pool = pool(2);
    let other = Flag::default();
    fold_with_a_meeting::<S>(&pool, 1, |n| {
        if n == 2 {
            return other.set();
        }
        // The worker that was woken for the second child is idle by then, most often.
        other.wait("the second child");
        std::thread::sleep(Duration::from_millis(50));
    });
}

#[test]
fn a_shared_queue_hides_no_node() {
    within(LIMIT, || {
        later_families_are_seen::<Tasks<Shared, OnArrival, 0>>();
        later_families_are_seen::<Tasks<Shared, AtTheEnd, 4>>();
        later_families_are_seen::<Tasks<Shared>>();
        later_families_are_seen::<Tasks<OneStack>>();
    });
}

/// An owner whose wait is isolated runs parts that other workers have split off, which may wait for
/// that.
fn an_isolated_owner_helps<S: FoldStrategy>() {
    let pool = pool(2);
    let taken = Flag::default();
    let enter = |n| {
        if n == 1 {
            return taken.wait("the other worker takes the second child");
        }
        taken.set();
        // The owner is asleep by then, most often.
        std::thread::sleep(Duration::from_millis(50));
    };
    pool.install(|| filch::isolate(|| fold_with_a_meeting::<S>(&pool, 2, enter)));
}

/// A node that was not entered, whose destructor uses the pool when it is dropped after a panic.
struct Busybody<'a> {
    depth: u32,
    entered: AtomicUsize,
    state: &'a Busy,
}

impl<'a> Busybody<'a> {
    fn new(depth: u32, state: &'a Busy) -> Self {
        Self {
            depth,
            entered: AtomicUsize::new(0),
            state,
        }
    }
}

#[derive(Default)]
struct Busy {
    nodes: AtomicUsize,
    panicked: AtomicUsize,
    spawned: AtomicUsize,
    ran: std::sync::Arc<AtomicUsize>,
}

impl Drop for Busybody<'_> {
    fn drop(&mut self) {
        let entered = self.entered.load(Ordering::SeqCst) > 0;
        if !entered && self.state.panicked.load(Ordering::SeqCst) > 0 {
            filch::yield_local();
            self.state.spawned.fetch_add(1, Ordering::SeqCst);
            let ran = self.state.ran.clone();
            filch::spawn(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            });
        }
    }
}

#[test]
fn destructors_of_untaken_nodes_may_use_the_pool() {
    within(LIMIT, || {
        for panics_at in [3, 8, 20] {
            let (pool, busy) = (pool(1), Busy::default());
            let (begun, release) = (Flag::default(), Flag::default());
            let (begins, end) = (begun.clone(), release.clone());
            pool.spawn(move || {
                begins.set();
                end.wait("the fold has panicked");
            });
            // From now on no worker takes an offer.
            begun.wait("the worker is busy");
            let tree = fold(
                |node: Busybody<'_>| {
                    let (fan, depth, state) =
                        (if node.depth > 0 { 4 } else { 0 }, node.depth, node.state);
                    (0..fan).map(move |_| Busybody::new(depth - 1, state))
                },
                |node| {
                    node.entered.store(1, Ordering::SeqCst);
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(30) {}
                    if node.state.nodes.fetch_add(1, Ordering::SeqCst) == panics_at {
                        node.state.panicked.store(1, Ordering::SeqCst);
                        quiet_panic("in the middle");
                    }
                },
                |(), ()| (),
                |()| (),
            );
            let root = Busybody::new(4, &busy);
            assert_eq!(
                panic_of(|| tree.with::<Adaptive>().on(&pool).run(root)),
                "in the middle"
            );
            release.set();
            let spawned = busy.spawned.load(Ordering::SeqCst);
            until("all of them run", || {
                busy.ran.load(Ordering::SeqCst) == spawned
            });
            assert!(spawned > 0, "there was something on offer");
        }
    });
}
