//! The crate hylic, a library for folding trees: at most 262,144 nodes and 63 workers.

use super::{Folds, Node, Task, Work};
use crate::{forks::System, pin::Before, stopwatch::Sample};
use hylic::{
    domain::{
        Shared,
        shared::{self, Fold},
    },
    exec::{
        Executor, ExecutorSpec,
        funnel::{Pool, Spec, policy::FunnelPolicy},
    },
    graph::{Treeish, treeish_visit},
};
use std::marker::PhantomData;

/// hylic with one of its presets.
pub(crate) struct Hylic<P>(PhantomData<P>);

/// A preset of hylic.
pub(crate) trait Preset: 'static {
    type Policy: FunnelPolicy;

    fn spec(workers: usize) -> Spec<Self::Policy>;
}

/// hylic's presets, by name.
pub(crate) mod presets {
    use super::Preset;
    use hylic::exec::funnel::{Spec, policy};

    macro_rules! presets {
        ($($name:ident: $make:ident,)*) => {$(
            pub(crate) struct $name;

            impl Preset for $name {
                type Policy = policy::$name;

                fn spec(workers: usize) -> Spec<policy::$name> {
                    Spec::$make(workers)
                }
            }
        )*};
    }

    presets! {
        Default: default,
        WideLight: for_wide_light,
        LowOverhead: for_low_overhead,
        PerWorkerArrival: for_perworker_arrival,
        SharedDefault: for_shared_default,
        HighThroughput: for_high_throughput,
        StreamingWide: for_streaming_wide,
        DeepNarrow: for_deep_narrow,
    }
}

impl<P: Preset> System for Hylic<P> {
    /// The number of threads. They live as long as a closure, which is one sample here.
    type Pool = usize;

    fn pool(workers: usize) -> usize {
        workers - 1
    }
}

type TheirFold = Fold<&'static Node, u64, u64>;
type TheirTree = Treeish<&'static Node>;

/// The fold as a user of hylic writes it.
fn theirs(work: Work) -> (TheirFold, TheirTree) {
    let fold = shared::fold(
        move |node: &&'static Node| work.enter(node),
        |sum: &mut u64, child: &u64| *sum = sum.wrapping_add(*child),
        |sum: &u64| *sum,
    );
    let tree = treeish_visit(
        |node: &&'static Node, visit: &mut dyn FnMut(&&'static Node)| {
            for child in &node.children {
                visit(&child);
            }
        },
    );
    (fold, tree)
}

/// Calls `f` with a folding function, after the threads were pinned.
fn with_pool<P: Preset, R>(
    threads: usize,
    work: Work,
    f: impl FnOnce(&dyn Fn(&'static Node) -> u64) -> R,
) -> R {
    let (fold, tree) = theirs(work);
    let before = Before::now();
    Pool::with(threads, |pool| {
        before.place_since(threads);
        let session = P::spec(threads).attach(pool);
        f(&|root| Executor::<_, _, Shared, _>::run(&session, &fold, &tree, &root))
    })
}

impl<P: Preset> Folds for Hylic<P> {
    fn fold(&threads: &usize, root: &'static Node, work: Work) -> u64 {
        with_pool::<P, _>(threads, work, |fold| fold(root))
    }

    fn sample(&threads: &usize, task: Task) -> Sample {
        with_pool::<P, _>(threads, task.work, |fold| task.sample(fold))
    }
}
