//! Programs for Miri, one for each way in which a job meets what its waiter frees.
//!
//! They pass on any machine. What they are for is a run under an aliasing model, which rejects a
//! borrow that ends too late and memory that is freed through a shared reference:
//!
//! ```text
//! MIRIFLAGS="-Zmiri-many-seeds=0..8 -Zmiri-disable-isolation -Zmiri-ignore-leaks" \
//!     cargo +nightly miri test --test soundness
//! ```
//!
//! `-Zmiri-tree-borrows` selects the other model. Each program lets another thread run the task, so
//! that the waiter goes on, and frees what the task has borrowed, while that thread is on its way
//! back from the task.

use filch::{
    Fold, Graph, Pool,
    engine::Shared,
    fold,
    fold::{Adaptive, Tasks},
    graph::SharedPlan,
};
use std::{
    hint::black_box,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
};

/// How often each program runs: under Miri every seed is another schedule.
const TIMES: usize = if cfg!(miri) { 2 } else { 200 };

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers);
    // Miri would spend its time on the searches of idle workers.
    builder.spin_rounds(2).yield_every(1).build().unwrap()
}

/// Waits until another thread has set `flag`.
fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

#[test]
fn launched_runs_are_freed() {
    let pool = pool(1);
    for _ in 0..TIMES {
        let graph = Graph::new();
        graph.linearize([graph.task("a", || ()), graph.task("b", || ())]);
        assert_eq!(pool.launch(graph.plan().unwrap()).join().unwrap().ran(), 2);
    }
}

#[test]
fn runs_of_subflows_and_modules_are_freed() {
    let pool = pool(1);
    for _ in 0..TIMES {
        let (inner, outer) = (Graph::new(), Graph::new());
        inner.task("inner", || ());
        let module = outer.module("module", inner.plan().unwrap());
        let joined = outer.subflow("joined", |sub| {
            sub.task("part", || ());
        });
        let detached = outer.subflow("detached", |sub| {
            sub.task("part", || ());
            sub.detach();
        });
        outer.linearize([module, joined, detached]);
        let mut plan = outer.plan().unwrap();
        plan.run_on(&pool).unwrap();
        plan.run_on(&pool).unwrap();
        let plan = SharedPlan::from(plan);
        assert_eq!(pool.launch(&plan).join().unwrap().ran(), 6);
    }
}

#[test]
fn a_scope_from_outside_frees_what_its_tasks_borrowed() {
    let pool = pool(1);
    for _ in 0..TIMES {
        let value = Box::new(5);
        let borrowed = &*value;
        pool.in_place_scope(|s| {
            s.spawn(move |_| {
                black_box(*borrowed);
            });
        });
        drop(value);
    }
}

#[test]
fn a_scope_frees_what_its_tasks_borrowed() {
    let pool = pool(1);
    for turn in 0..TIMES {
        let value = Box::new((5, AtomicBool::new(false)));
        let borrowed = &*value;
        pool.scope(|s| {
            let task = move |_: &filch::Scope<'_>| {
                borrowed.1.store(true, Ordering::Release);
                black_box(borrowed.0);
            };
            match turn % 3 {
                0 => s.spawn(task),
                1 => s.spawn_fifo(task),
                _ => s.spawn_broadcast(move |s, _| task(s)),
            }
            // Not by this thread.
            await_flag(&borrowed.1);
        });
        drop(value);
    }
}

#[test]
fn a_call_on_a_worker_frees_what_it_borrowed() {
    let pool = pool(1);
    for _ in 0..TIMES {
        let value = Box::new(5);
        let borrowed = &*value;
        // What comes back borrows, too.
        let back = pool.on_worker(move || borrowed);
        assert_eq!(*back, 5);
        drop(value);
    }
}

#[test]
fn a_broadcast_frees_what_it_borrowed() {
    let pool = pool(2);
    for _ in 0..TIMES {
        let value = Box::new(5);
        let borrowed = &*value;
        assert_eq!(pool.broadcast(move |_| borrowed), [&5; 2]);
        let value_too = Box::new(6);
        let borrowed = &*value_too;
        // From inside the pool, which is a scope.
        let answers = pool.install(|| pool.broadcast(move |_| borrowed));
        assert_eq!(answers, [&6; 2]);
        drop((value, value_too));
    }
}

#[test]
fn a_join_frees_what_the_thief_borrowed() {
    let pool = pool(1);
    for _ in 0..TIMES {
        let value = Box::new((5, AtomicBool::new(false)));
        let borrowed = &*value;
        let stolen = move || {
            borrowed.1.store(true, Ordering::Release);
            black_box(borrowed.0)
        };
        pool.join(|| await_flag(&borrowed.1), stolen);
        drop(value);
    }
}

#[test]
fn a_runtime_frees_what_it_has_spawned() {
    let pool = pool(1);
    for _ in 0..TIMES {
        let value = Box::new((5, AtomicBool::new(false)));
        let borrowed = &*value;
        let graph = Graph::new();
        graph.runtime("spawns", move |rt| {
            rt.spawn(move |_| {
                borrowed.1.store(true, Ordering::Release);
                black_box(borrowed.0);
            });
            await_flag(&borrowed.1);
        });
        graph.plan().unwrap().run_on(&pool).unwrap();
        drop(value);
    }
}

/// A future that wakes itself once.
async fn yield_once() {
    let mut woken = false;
    let once = std::future::poll_fn(move |cx: &mut Context<'_>| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    pin!(once).await;
}

/// A future that hands its waker out, and is done when the flag is set.
async fn woken_by(slot: &Mutex<Option<Waker>>, flag: &AtomicBool) {
    std::future::poll_fn(|cx| {
        *slot.lock().unwrap() = Some(cx.waker().clone());
        if flag.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

#[test]
fn a_task_that_is_a_future_is_freed_by_another_poll() {
    let pool = pool(2);
    for _ in 0..TIMES {
        let value = Box::new(5);
        let borrowed = &*value;
        let shared = Arc::new((Mutex::new(None::<Waker>), AtomicBool::new(false)));
        let graph = Graph::new();
        let inside = shared.clone();
        graph.future("waits", move || {
            let inside = inside.clone();
            async move {
                yield_once().await;
                woken_by(&inside.0, &inside.1).await;
                black_box(*borrowed);
            }
        });
        let waking = thread::spawn(move || {
            loop {
                if let Some(waker) = shared.0.lock().unwrap().take() {
                    shared.1.store(true, Ordering::Release);
                    return waker.wake();
                }
                thread::yield_now();
            }
        });
        graph.plan().unwrap().run_on(&pool).unwrap();
        drop(value);
        waking.join().unwrap();
    }
}

#[test]
fn a_launched_future_is_freed_by_another_poll() {
    let pool = pool(2);
    for _ in 0..TIMES {
        let graph = Graph::new();
        graph.future("yields", yield_once);
        pool.launch(graph.plan().unwrap()).join().unwrap();
    }
}

struct Node {
    children: Vec<Node>,
    seen: AtomicBool,
}

impl Node {
    fn new(children: Vec<Self>) -> Self {
        Self {
            children,
            seen: AtomicBool::new(false),
        }
    }

    fn children(&self) -> &[Self] {
        &self.children
    }
}

/// Two leaves of which the first is not done before another thread has begun with the second; the
/// results borrow.
#[test]
fn a_fold_of_tasks_frees_its_tree() {
    let pool = pool(1);
    for turn in 0..TIMES {
        let tree = Box::new(Node::new(vec![Node::new(vec![]), Node::new(vec![])]));
        let root = &*tree;
        let nodes = fold(
            Node::children,
            |&node: &&Node| {
                node.seen.store(true, Ordering::Release);
                if std::ptr::eq(node, &raw const root.children[0]) {
                    await_flag(&root.children[1].seen);
                }
                vec![node]
            },
            |nodes: &mut Vec<_>, more: Vec<_>| nodes.extend(more),
            |nodes| nodes,
        );
        let nodes = match turn % 2 {
            0 => nodes.with::<Tasks>().on(&pool).run(root),
            _ => nodes.with::<Tasks<Shared>>().on(&pool).run(root),
        };
        assert!(nodes.iter().all(|node| node.seen.load(Ordering::Relaxed)));
        assert_eq!(nodes.len(), 3);
        drop(tree);
    }
}

/// A thief of a piece of a fold hands in results that borrow.
#[test]
fn a_fold_frees_its_tree() {
    const LEAVES: usize = if cfg!(miri) { 20 } else { 100 };
    let pool = pool(1);
    for _ in 0..TIMES {
        let leaves = |count| (0..count).map(|_| Node::new(vec![])).collect::<Vec<_>>();
        let tree = Box::new(Node::new(vec![
            Node::new(leaves(LEAVES)),
            Node::new(leaves(LEAVES)),
        ]));
        let nodes = fold(
            Node::children,
            |&node: &&Node| {
                // So that the checks of the run that gives come soon, and others have the time to
                // take.
                thread::yield_now();
                (node, 0)
            },
            |acc, (_, more): (&Node, usize)| acc.1 += more,
            |(node, count)| (node, count + 1),
        );
        assert_eq!(
            nodes.with::<Adaptive>().on(&pool).run(&tree).1,
            3 + 2 * LEAVES
        );
        drop(tree);
    }
}

#[test]
fn a_fold_of_a_graph_frees_it() {
    let pool = pool(1);
    for _ in 0..TIMES {
        // More than are one task.
        let graph = Box::new(Node::new((0..100).map(|_| Node::new(vec![])).collect()));
        let nodes = fold(
            Node::children,
            |&node: &&Node| (node, 0),
            |acc, (_, more): (&Node, usize)| acc.1 += more,
            |(node, count)| (node, count + 1),
        );
        let key = |node: &&Node| std::ptr::from_ref(*node).addr();
        let (_, count) = nodes.memo(key).on(&pool).run(&*graph).unwrap();
        assert_eq!(count, 101);
        drop(graph);
    }
}

/// A future that may be moved, and panics while it is polled: it is dropped while its poll unwinds.
#[test]
fn a_future_that_panics_is_dropped() {
    struct Panics(Box<u8>);
    impl Future for Panics {
        type Output = ();

        fn poll(mut self: std::pin::Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
            *self.0 += 1;
            std::panic::resume_unwind(Box::new(*self.0))
        }
    }
    let pool = pool(1);
    for _ in 0..TIMES {
        assert!(pool.spawn_future(Panics(Box::new(0))).join().is_err());
    }
}
