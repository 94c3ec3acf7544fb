//! Joins of two closures.

use super::{Chili, Filch, Rayon, Seq, System};

/// A system that can run two closures at the same time.
pub(crate) trait Joins: System {
    /// State that is passed down to nested joins; empty in most systems.
    type Cx<'s>;

    /// Calls `f` on the pool, from outside.
    fn enter<R: Send>(pool: &Self::Pool, f: impl FnOnce(&mut Self::Cx<'_>) -> R + Send) -> R;

    /// Runs `a` and `b`, in parallel if a worker is free.
    fn join<A, B, RA, RB>(cx: &mut Self::Cx<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Self::Cx<'_>) -> RA + Send,
        B: FnOnce(&mut Self::Cx<'_>) -> RB + Send,
        RA: Send,
        RB: Send;
}

impl Joins for Filch {
    type Cx<'s> = ();

    fn enter<R: Send>(pool: &filch::Pool, f: impl FnOnce(&mut ()) -> R + Send) -> R {
        pool.install(|| f(&mut ()))
    }

    #[inline(always)]
    fn join<A, B, RA, RB>((): &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        filch::join(|| a(&mut ()), || b(&mut ()))
    }
}

impl Joins for Rayon {
    type Cx<'s> = ();

    fn enter<R: Send>(pool: &rayon::ThreadPool, f: impl FnOnce(&mut ()) -> R + Send) -> R {
        pool.install(|| f(&mut ()))
    }

    #[inline(always)]
    fn join<A, B, RA, RB>((): &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        rayon::join(|| a(&mut ()), || b(&mut ()))
    }
}

impl Joins for Chili {
    type Cx<'s> = chili::Scope<'s>;

    fn enter<R: Send>(
        pool: &chili::ThreadPool,
        f: impl FnOnce(&mut chili::Scope<'_>) -> R + Send,
    ) -> R {
        f(&mut pool.scope())
    }

    #[inline(always)]
    fn join<A, B, RA, RB>(cx: &mut chili::Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut chili::Scope<'_>) -> RA + Send,
        B: FnOnce(&mut chili::Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        cx.join(a, b)
    }
}

impl Joins for Seq {
    type Cx<'s> = ();

    fn enter<R: Send>((): &(), f: impl FnOnce(&mut ()) -> R + Send) -> R {
        f(&mut ())
    }

    #[inline(always)]
    fn join<A, B, RA, RB>(cx: &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        (a(cx), b(cx))
    }
}
