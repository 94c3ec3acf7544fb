//! Tasks that borrow, spawned into a scope.

use super::{Filch, Rayon, Seq, System};
use crate::tally;
use std::{marker::PhantomData, sync::atomic::AtomicU64};

/// A system with scopes.
pub(crate) trait Spawns: System {
    type Scope<'scope>;

    /// Opens a scope on the pool, from outside.
    fn outside<'scope>(pool: &Self::Pool, f: impl FnOnce(&Self::Scope<'scope>) + Send);

    /// Calls `f` on the pool.
    fn enter(pool: &Self::Pool, f: impl FnOnce() + Send);

    /// Opens a scope on the pool of the calling worker.
    fn scope<'scope>(f: impl FnOnce(&Self::Scope<'scope>) + Send);

    fn spawn<'scope>(
        scope: &Self::Scope<'scope>,
        task: impl FnOnce(&Self::Scope<'scope>) + Send + 'scope,
    );

    /// The number of tasks that called [`tally::one`] since the previous call.
    fn tally(pool: &Self::Pool) -> u64;
}

impl Spawns for Filch {
    type Scope<'scope> = filch::Scope<'scope>;

    fn outside<'scope>(pool: &filch::Pool, f: impl FnOnce(&filch::Scope<'scope>) + Send) {
        pool.scope(f);
    }

    fn enter(pool: &filch::Pool, f: impl FnOnce() + Send) {
        pool.install(f);
    }

    fn scope<'scope>(f: impl FnOnce(&filch::Scope<'scope>) + Send) {
        filch::scope(f);
    }

    #[inline(always)]
    fn spawn<'scope>(
        scope: &filch::Scope<'scope>,
        task: impl FnOnce(&filch::Scope<'scope>) + Send + 'scope,
    ) {
        scope.spawn(task);
    }

    fn tally(pool: &filch::Pool) -> u64 {
        let sum = AtomicU64::new(0);
        pool.broadcast(|_| tally::collect(&sum));
        tally::collect(&sum);
        sum.into_inner()
    }
}

impl Spawns for Rayon {
    type Scope<'scope> = rayon::Scope<'scope>;

    fn outside<'scope>(pool: &rayon::ThreadPool, f: impl FnOnce(&rayon::Scope<'scope>) + Send) {
        pool.scope(f);
    }

    fn enter(pool: &rayon::ThreadPool, f: impl FnOnce() + Send) {
        pool.install(f);
    }

    fn scope<'scope>(f: impl FnOnce(&rayon::Scope<'scope>) + Send) {
        rayon::scope(f);
    }

    #[inline(always)]
    fn spawn<'scope>(
        scope: &rayon::Scope<'scope>,
        task: impl FnOnce(&rayon::Scope<'scope>) + Send + 'scope,
    ) {
        scope.spawn(task);
    }

    fn tally(pool: &rayon::ThreadPool) -> u64 {
        let sum = AtomicU64::new(0);
        pool.broadcast(|_| tally::collect(&sum));
        sum.into_inner()
    }
}

/// A scope that runs each task when it is spawned.
pub(crate) struct Direct<'scope>(PhantomData<fn(&'scope ()) -> &'scope ()>);

impl Spawns for Seq {
    type Scope<'scope> = Direct<'scope>;

    fn outside<'scope>((): &(), f: impl FnOnce(&Direct<'scope>) + Send) {
        f(&Direct(PhantomData));
    }

    fn enter((): &(), f: impl FnOnce() + Send) {
        f();
    }

    fn scope<'scope>(f: impl FnOnce(&Direct<'scope>) + Send) {
        f(&Direct(PhantomData));
    }

    #[inline(always)]
    fn spawn<'scope>(scope: &Direct<'scope>, task: impl FnOnce(&Direct<'scope>) + Send + 'scope) {
        task(scope);
    }

    fn tally((): &()) -> u64 {
        let sum = AtomicU64::new(0);
        tally::collect(&sum);
        sum.into_inner()
    }
}
