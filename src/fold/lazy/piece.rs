//! Siblings that were split off, and the place where their results and the one who needs them meet.

use super::{
    Scheme, Shared,
    run::{Run, late_drop},
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, Mutex, MutexGuard, Ordering, hint},
        sys::memory,
        thread,
    },
    fold::{
        Fold,
        team::{self, Common, Link, Part},
    },
    pool::context::WorkerContext,
};
use std::{
    mem,
    sync::{Arc, PoisonError},
};

/// How long a piece stays with its giver if nothing is known about the nodes, in nanoseconds.
const SETTLE: u64 = 5_000;

/// Some siblings, in their order, that anybody may fold.
///
/// Whoever splits them off, the *giver*, goes on with other nodes. When it comes to the place where the results belong,
/// they are there, or nobody has begun and it takes the siblings back, or somebody is at it: then the giver's whole
/// run is left here, and whoever finishes the piece goes on with it. So nobody ever waits.
///
/// Aligned as a job needs it.
#[repr(align(8))]
pub(super) struct Piece<F: Fold, S: Scheme> {
    shared: Link<Shared<F, S>>,
    /// The worker that split it off before anything was known about the nodes, and when.
    fresh: Option<(usize, u64)>,
    /// Somebody has begun with it, or the giver has revoked it. For the giver, who looks often.
    taken: AtomicBool,
    /// It is folded. For the giver too.
    done: AtomicBool,
    state: Mutex<State<F, S>>,
}

/// What a piece consists of: some nodes, and then those that the iterator has.
pub(super) struct Siblings<F: Fold> {
    pub(super) nodes: Vec<F::Node>,
    pub(super) source: Option<F::Children>,
}

impl<F: Fold> Siblings<F> {
    pub(super) fn nodes(nodes: Vec<F::Node>) -> Self {
        Self {
            nodes,
            source: None,
        }
    }

    pub(super) fn source(source: F::Children) -> Self {
        Self {
            nodes: Vec::new(),
            source: Some(source),
        }
    }

    /// The node, if there is only one.
    pub(super) fn into_only(mut self) -> Result<F::Node, Self> {
        let only = match &mut self.source {
            None if self.nodes.len() == 1 => self.nodes.pop(),
            Some(source) if self.nodes.is_empty() && source.size_hint() == (1, Some(1)) => {
                source.next()
            }
            _ => None,
        };
        only.ok_or(self)
    }
}

enum State<F: Fold, S: Scheme> {
    Queued(Siblings<F>),
    Running,
    /// It is running, and the giver's run waits for it. That is rare, and runs are large beside all else here.
    Awaited(Box<Run<F, S>>),
    Done(Results<F::Result>),
    /// Revoked, or given up after a panic, or its results were had.
    Over,
}

/// What a piece comes to.
pub(super) enum Results<R> {
    One(R),
    Many(Vec<R>),
}

impl<F: Fold, S: Scheme> Piece<F, S> {
    pub(super) fn new(
        shared: Link<Shared<F, S>>,
        siblings: Siblings<F>,
        fresh: Option<(usize, u64)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            fresh,
            taken: AtomicBool::new(false),
            done: AtomicBool::new(false),
            state: Mutex::new(State::Queued(siblings)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<F, S>> {
        thread::point();
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It will be needed soon, and was with another worker before.
    #[inline(always)]
    pub(super) fn fetch(&self) {
        memory::fetch(&raw const self.taken);
        memory::fetch(&raw const self.state);
    }

    pub(super) fn is_taken(&self) -> bool {
        // Relaxed: a hint. Whoever acts on it takes the lock.
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        // Relaxed: a hint, for what to offer next.
        self.done.load(Ordering::Relaxed)
    }

    /// Gives the giver a moment to take it back: light nodes are done by then, and had better stay where they are. Who
    /// has nothing to do pays.
    fn settle(&self, since: u64) {
        while thread::nanos().saturating_sub(since) < SETTLE && !self.is_taken() {
            hint::spin_loop();
        }
    }

    /// Somebody begins with it, unless it is over.
    fn begin(&self) -> Option<Siblings<F>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Running) {
            State::Queued(siblings) => {
                // Relaxed: a hint; the lock does the rest.
                self.taken.store(true, Ordering::Relaxed);
                Some(siblings)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// The giver takes the siblings back, unless somebody has begun.
    pub(super) fn revoke(&self) -> Option<Siblings<F>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Over) {
            State::Queued(siblings) => {
                // Relaxed: as in `begin`.
                self.taken.store(true, Ordering::Relaxed);
                Some(siblings)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// The results, if they are there. Does not wait for whoever is about to bring them.
    pub(super) fn results(&self) -> Option<Results<F::Result>> {
        if !self.is_taken() {
            return None;
        }
        let mut state = self.state.try_lock().ok()?;
        match mem::replace(&mut *state, State::Over) {
            State::Done(results) => Some(results),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Leaves the giver's run here. It comes back if the piece is not running any more.
    pub(super) fn park(&self, run: Run<F, S>) -> Option<Run<F, S>> {
        let mut state = self.lock();
        let late = broken(Canary::FoldPark) && matches!(*state, State::Done(_));
        if matches!(*state, State::Running) || late {
            *state = State::Awaited(Box::new(run));
            return None;
        }
        Some(run)
    }

    /// The piece is folded. If the giver's run waits for it, it is the caller's now.
    pub(super) fn complete(&self, results: Results<F::Result>) -> Option<Run<F, S>> {
        let mut state = self.lock();
        // Relaxed: a hint, as in `is_done`.
        self.done.store(true, Ordering::Relaxed);
        match mem::replace(&mut *state, State::Done(results)) {
            State::Awaited(run) => Some(*run),
            _ => None,
        }
    }

    /// The piece will not be folded. If the giver's run waits for it, it is the caller's, to be given up as well.
    pub(super) fn give_up(&self) -> Option<Run<F, S>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, State::Over) {
            State::Awaited(run) => Some(*run),
            _ => None,
        }
    }
}

impl<F: Fold, S: Scheme> Part for Piece<F, S> {
    fn start(self: Arc<Self>, context: &WorkerContext<'_, '_>) {
        if let Some((giver, since)) = self.fresh
            && giver != context.worker()
        {
            self.settle(since);
        }
        // Before this it may have been revoked, and the fold be over.
        let Some(siblings) = self.begin() else {
            return;
        };
        let link = self.shared.clone();
        let isolated = link.get().team().is_isolated();
        let late = broken(Canary::FoldLate).then(|| self.clone());
        team::enter(isolated, context, || {
            Run::of_piece(self, siblings, &link, context);
        });
        link.done(context);
        late_drop(late);
    }
}
