//! Futures that spawn others and await them.

use super::{Load, empty};
use crate::{
    futures::Futures,
    stopwatch::{Sample, Stopwatch},
};
use std::pin::Pin;

type BoxedFuture = Pin<Box<dyn Future<Output = u64> + Send>>;

/// `width` futures from outside, each the first of a chain of `depth` in which each future spawns
/// the next one and awaits it: the case `spawn_recursively` of async-executor.
#[derive(Clone, Copy)]
pub(super) struct Recurse {
    width: u64,
    depth: u64,
}

impl Recurse {
    pub(super) fn new(n: u64) -> Self {
        Self { width: n, depth: n }
    }
}

impl Load for Recurse {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let Self { width, depth } = self;
        run::<S>(pool, width, width * depth, |spawner| {
            link::<S>(spawner, depth - 1)
        })
    }
}

fn link<S: Futures>(spawner: S::Spawner, left: u64) -> BoxedFuture {
    Box::pin(async move {
        if left == 0 {
            return 1;
        }
        let next = link::<S>(spawner.clone(), left - 1);
        1 + S::result(S::spawn_inside(&spawner, next)).await
    })
}

/// `width` futures from outside, each of which spawns `children` empty ones and then awaits them
/// one after the other.
#[derive(Clone, Copy)]
pub(super) struct FanOut {
    width: u64,
    children: u64,
}

impl FanOut {
    pub(super) fn new(n: u64) -> Self {
        Self {
            width: n,
            children: n - 1,
        }
    }
}

impl Load for FanOut {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        let Self { width, children } = self;
        run::<S>(pool, width, width * (children + 1), |spawner| {
            Box::pin(async move {
                let spawn = |_| S::spawn_inside(&spawner, empty());
                let handles: Vec<_> = (0..children).map(spawn).collect();
                let mut sum = 1;
                for handle in handles {
                    sum += S::result(handle).await;
                }
                sum
            })
        })
    }
}

/// A binary tree of this depth: each future spawns its two children and awaits both.
#[derive(Clone, Copy)]
pub(super) struct Tree(pub(super) u64);

impl Load for Tree {
    fn sample<S: Futures>(self, pool: &S::Pool) -> Sample {
        run::<S>(pool, 1, (2 << self.0) - 1, |spawner| {
            node::<S>(spawner, self.0)
        })
    }
}

fn node<S: Futures>(spawner: S::Spawner, depth: u64) -> BoxedFuture {
    Box::pin(async move {
        if depth == 0 {
            return 1;
        }
        let spawn = |_| S::spawn_inside(&spawner, node::<S>(spawner.clone(), depth - 1));
        let [a, b] = [(); 2].map(spawn);
        1 + S::result(a).await + S::result(b).await
    })
}

/// Spawns `roots` futures and awaits them; they return the number of futures below them, and
/// `total` together.
fn run<S: Futures>(
    pool: &S::Pool,
    roots: u64,
    total: u64,
    root: impl Fn(S::Spawner) -> BoxedFuture,
) -> Sample {
    let spawner = S::spawner(pool);
    let mut watch = Stopwatch::default();
    let done = watch.time(|| {
        let spawn = |_| S::spawn(pool, root(spawner.clone()));
        let handles: Vec<_> = (0..roots).map(spawn).collect();
        S::block_on(pool, async {
            let mut sum = 0;
            for handle in handles {
                sum += S::result(handle).await;
            }
            sum
        })
    });
    assert_eq!(done, total, "not every future ran once");
    watch.sample(total)
}
