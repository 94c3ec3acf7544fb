//! Siblings that were split off, and the synchronization with the run that needs their results.

use super::state::{
    AdaptiveScheme, AdaptiveState, FoldRun, OfferedPiece, PieceState, Results, Siblings,
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
        team::{HasTeam, StateRef, TeamPart},
    },
    pool::{active_jobs, context::WorkerContext, pending_group::PendingGroup},
};
use std::{
    mem,
    sync::{Arc, PoisonError},
};

/// How long, in nanoseconds, a thief leaves a piece to its splitter if the weight of the nodes is
/// unknown.
const FRESH_PIECE_DELAY_NS: u64 = 5_000;

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

impl<F: Fold, S: AdaptiveScheme> OfferedPiece<F, S> {
    pub(super) fn new(
        shared: StateRef<AdaptiveState<F, S>>,
        siblings: Siblings<F>,
        fresh: Option<(usize, u64)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            fresh,
            taken: AtomicBool::new(false),
            done: AtomicBool::new(false),
            state: Mutex::new(PieceState::Queued(siblings)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, PieceState<F, S>> {
        thread::point();
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prefetches it: it will be needed soon, and was used by another worker before.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        memory::fetch(&raw const self.taken);
        memory::fetch(&raw const self.state);
    }

    pub(super) fn is_taken(&self) -> bool {
        // Relaxed: a hint. A worker that acts on it takes the lock.
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        // Relaxed: a hint, for what to offer next.
        self.done.load(Ordering::Relaxed)
    }

    /// Gives the splitter a moment to take it back: light nodes are done by then, and are better
    /// folded where their data is. Only an idle worker pays for the delay.
    fn wait_for_splitter(&self, since: u64) {
        while thread::nanos().saturating_sub(since) < FRESH_PIECE_DELAY_NS && !self.is_taken() {
            hint::spin_loop();
        }
    }

    /// Begins with it, unless it is over.
    fn begin(&self) -> Option<Siblings<F>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, PieceState::Running) {
            PieceState::Queued(siblings) => {
                // Relaxed: a hint; the lock orders the rest.
                self.taken.store(true, Ordering::Relaxed);
                Some(siblings)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Takes the siblings back for the splitter, unless a worker has begun.
    pub(super) fn revoke(&self) -> Option<Siblings<F>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, PieceState::Over) {
            PieceState::Queued(siblings) => {
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

    /// The results, if they are there. Does not block on a worker that holds the lock.
    pub(super) fn results(&self) -> Option<Results<F::Result>> {
        if !self.is_taken() {
            return None;
        }
        let mut state = self.state.try_lock().ok()?;
        match mem::replace(&mut *state, PieceState::Over) {
            PieceState::Done(results) => Some(results),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Leaves the splitter's run here. Returns it if the piece is no longer running.
    pub(super) fn park(&self, run: FoldRun<F, S>) -> Option<FoldRun<F, S>> {
        let mut state = self.lock();
        let late = broken(Canary::FoldPark) && matches!(*state, PieceState::Done(_));
        if matches!(*state, PieceState::Running) || late {
            *state = PieceState::Awaited(Box::new(run));
            return None;
        }
        Some(run)
    }

    /// Stores the results. Returns the splitter's run if that waits for them; the caller must
    /// continue it.
    pub(super) fn complete(&self, results: Results<F::Result>) -> Option<FoldRun<F, S>> {
        let mut state = self.lock();
        // Relaxed: a hint, as in `is_done`.
        self.done.store(true, Ordering::Relaxed);
        match mem::replace(&mut *state, PieceState::Done(results)) {
            PieceState::Awaited(run) => Some(*run),
            _ => None,
        }
    }

    /// Marks the piece as given up. Returns the splitter's run if that waits for it; the caller
    /// must give it up as well.
    pub(super) fn give_up(&self) -> Option<FoldRun<F, S>> {
        let mut state = self.lock();
        match mem::replace(&mut *state, PieceState::Over) {
            PieceState::Awaited(run) => Some(*run),
            _ => None,
        }
    }
}

impl<F: Fold, S: AdaptiveScheme> TeamPart for OfferedPiece<F, S> {
    fn start(self: Arc<Self>, context: &WorkerContext<'_, '_>) {
        if let Some((splitter, since)) = self.fresh
            && splitter != context.worker()
        {
            self.wait_for_splitter(since);
        }
        // Until this succeeds, it may have been revoked, and the fold may have ended.
        let Some(siblings) = self.begin() else {
            return;
        };
        let state_ref = self.shared.clone();
        let team = state_ref.get().team();
        let (is_elsewhere, group) = (team.begin_job(context), team.group());
        let isolated = team.is_isolated();
        let late = broken(Canary::FoldLate).then(|| self.clone());
        active_jobs::enter(
            || group,
            is_elsewhere,
            || {
                context.isolate_if(isolated, || {
                    FoldRun::of_piece(self, siblings, &state_ref, context);
                });
            },
        );
        state_ref.done(context);
        late_drop(late);
    }
}

/// Defects for the rehearsals: releases a piece when it is too late.
pub(super) fn late_drop<T>(late: Option<T>) {
    if late.is_some() {
        thread::point();
    }
}
