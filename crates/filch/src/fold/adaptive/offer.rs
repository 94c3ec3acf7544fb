//! The offers of a run: pieces in the queue of its worker, singly or in bundles.

use super::{
    pace::Weight,
    piece::late_drop,
    state::{
        AdaptiveScheme, AdaptiveState, Bundle, BundleTail, FoldRun, FoldStopped, Offer,
        OfferedPiece, OpenNode, Siblings, SplitNode,
    },
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::Mutex,
        thread, unwind,
    },
    fold::{
        Fold,
        team::{self, HasTeam, StateRef, TeamPart},
    },
    pool::{context::WorkerContext, pending_group::PendingGroup},
};
use std::{
    mem,
    sync::{Arc, PoisonError},
};

impl<F: Fold, S: AdaptiveScheme> Bundle<F, S> {
    fn new(pieces: Vec<Arc<OfferedPiece<F, S>>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(pieces.into_iter())))
    }

    /// Removes the outermost piece.
    fn next(&self) -> Option<Arc<OfferedPiece<F, S>>> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outermost = pieces.next();
        if let Some(next) = pieces.as_slice().first() {
            next.prefetch();
        }
        outermost
    }
}

impl<F: Fold, S: AdaptiveScheme> TeamPart for Bundle<F, S> {
    fn start(self: Arc<Self>, context: &WorkerContext<'_, '_>) {
        let mut late = Vec::new();
        while let Some(piece) = self.next() {
            if broken(Canary::FoldBundle) {
                late.push(piece.clone());
            }
            piece.start(context);
        }
        late_drop((!late.is_empty()).then_some(late));
    }
}

impl<F: Fold, S: AdaptiveScheme> Offer<F, S> {
    /// Whether other workers have folded all of it.
    fn is_done(&self) -> bool {
        match &self.tail {
            None => self.first.is_done(),
            Some(tail) => tail.last.is_done(),
        }
    }

    /// Removes the offer from the queue, if it is still there. The first piece has just been
    /// revoked, so this worker has not taken the offer, which begins with that piece. No user code
    /// has run since, or the mark might be that of another job.
    fn take_back(&self, context: &WorkerContext<'_, '_>) {
        match (self.mark, &self.tail) {
            (None, _) => {}
            (Some(mark), None) => team::take_back(context, &self.first, mark),
            (Some(mark), Some(tail)) => team::take_back(context, &tail.bundle, mark),
        }
    }

    /// Revokes and drops all pieces that are not taken.
    pub(super) fn revoke_all(
        self,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let first = self.first.revoke();
        if first.is_some() {
            self.take_back(context);
        }
        if let Some(tail) = &self.tail {
            while let Some(piece) = tail.bundle.next() {
                if let Some(siblings) = piece.revoke() {
                    unwind::discard(siblings);
                    state_ref.done(context);
                }
                unwind::discard(piece);
            }
        }
        let counted = first.is_some();
        unwind::discard(first);
        unwind::discard(self);
        if counted {
            state_ref.done(context);
        }
    }
}

impl<F: Fold, S: AdaptiveScheme> FoldRun<F, S> {
    /// Removes a revoked piece from the queue, if it is still there.
    pub(super) fn withdraw(
        &mut self,
        piece: &Arc<OfferedPiece<F, S>>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let is_it = |offer: &Offer<F, S>| Arc::ptr_eq(&offer.first, piece);
        // Else it is a later one of a bundle.
        if let Some(at) = self.offers.iter().rposition(is_it) {
            self.offers.remove(at).take_back(context);
        }
        state_ref.done(context);
    }

    /// The periodic check: offers the outermost children that are left, if too few are on offer.
    #[cold]
    #[inline(never)]
    pub(super) fn check_offers(
        &mut self,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<(), FoldStopped> {
        let shared = state_ref.get();
        if shared.team.has_failed() {
            return Err(FoldStopped);
        }
        let (mut taken, mut done) = (0, 0);
        self.offers.retain(|offer| {
            let is_taken = offer.first.is_taken();
            taken += usize::from(is_taken);
            done += usize::from(is_taken && offer.is_done());
            !is_taken
        });
        let wanted = self
            .timer
            .check(&shared.pace, self.offers.len(), taken, done);
        let mut from = self.cursor;
        while self.offers.len() < wanted && self.offer(&mut from, state_ref, context) {}
        // A task that runs here may take pieces from the queue of this worker, as a thief would.
        if context.leaf_checkpoint() {
            self.timer.restart();
        }
        Ok(())
    }

    /// Offers some of the outermost children that are left, from the node of number `from` on.
    /// Returns false if there are none.
    fn offer(
        &mut self,
        from: &mut usize,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> bool {
        let weight = self.timer.weight();
        let fresh = (weight == Weight::Unknown).then(|| (context.worker(), thread::nanos()));
        loop {
            let Some(frame) = self.stack.get(*from) else {
                return false;
            };
            if frame.is_empty() {
                self.skip(from);
                continue;
            }
            if weight == Weight::Light
                && !S::AT_THE_END
                && self.offer_bundle(*from, state_ref, context)
            {
                return true;
            }
            let frame = &mut self.stack[*from];
            let piece = match mem::replace(frame, OpenNode::Placeholder) {
                OpenNode::Open(acc, children) => match (weight, children.size_hint()) {
                    (Weight::Unknown, _) | (_, (1, Some(1))) if !S::AT_THE_END => {
                        let piece =
                            OfferedPiece::new(state_ref.clone(), Siblings::source(children), fresh);
                        *frame = OpenNode::Offered(acc, piece.clone());
                        Some(piece)
                    }
                    _ => {
                        let mut split = Box::new(SplitNode::of_node(acc, children));
                        let piece = split.offer_children(weight, fresh, state_ref);
                        *frame = OpenNode::Split(split);
                        piece
                    }
                },
                OpenNode::Split(mut split) => {
                    // One piece of each node is enough, unless nodes are heavy.
                    if weight != Weight::Heavy && split.has_offer() {
                        *frame = OpenNode::Split(split);
                        *from += 1;
                        continue;
                    }
                    let piece = split.offer_children(weight, fresh, state_ref);
                    *frame = OpenNode::Split(split);
                    piece
                }
                OpenNode::Chain(_) | OpenNode::Offered(..) | OpenNode::Placeholder => {
                    unreachable!("they have no children to offer")
                }
            };
            let Some(piece) = piece else {
                self.skip(from);
                continue;
            };
            let team = state_ref.get().team();
            team.add_job(context);
            let placement = team.placement(S::WAKE_EVERY, mem::take(&mut self.first_offer));
            let mark = team.queue(context, piece.clone(), placement);
            self.offers.push(Offer {
                first: piece,
                tail: None,
                mark,
            });
            return true;
        }
    }

    /// Skips the node of number `from`, which has no children to offer.
    fn skip(&mut self, from: &mut usize) {
        if self.cursor == *from {
            self.cursor += 1;
        }
        *from += 1;
    }

    /// Offers the remaining children of several nodes in one bundle, from the node of number `from`
    /// on, if thieves finish those of one node before the next check. Takes at most half of the
    /// nodes, so that this run keeps some.
    fn offer_bundle(
        &mut self,
        from: usize,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> bool {
        let bundle_nodes = self.timer.bundle_nodes();
        if bundle_nodes < 2 {
            return false;
        }
        let end = from + (self.stack.len() - from).div_ceil(2);
        let chosen = self.choose(from..end, bundle_nodes);
        if chosen.len() < 2 {
            return false;
        }
        let team = state_ref.get().team();
        let mut pieces = Vec::with_capacity(chosen.len());
        for at in chosen {
            let OpenNode::Open(acc, children) =
                mem::replace(&mut self.stack[at], OpenNode::Placeholder)
            else {
                unreachable!("it was open a moment ago")
            };
            let piece = OfferedPiece::new(state_ref.clone(), Siblings::source(children), None);
            self.stack[at] = OpenNode::Offered(acc, piece.clone());
            team.add_job(context);
            pieces.push(piece);
        }
        let ends = pieces.first().cloned().zip(pieces.last().cloned());
        let (first, last) = ends.expect("there are two at least");
        let bundle = Bundle::new(pieces);
        let placement = team.placement(S::WAKE_EVERY, mem::take(&mut self.first_offer));
        let mark = team.queue(context, bundle.clone(), placement);
        self.offers.push(Offer {
            first,
            tail: Some(BundleTail { last, bundle }),
            mark,
        });
        true
    }

    /// Open nodes with so few children that those of all chosen nodes together are at most
    /// `bundle_nodes`.
    fn choose(&self, among: std::ops::Range<usize>, bundle_nodes: usize) -> Vec<usize> {
        let mut nodes = 0;
        let mut chosen = Vec::new();
        for at in among {
            match &self.stack[at] {
                OpenNode::Open(_, children) => match children.size_hint().1 {
                    Some(0) => {}
                    Some(most) if nodes + most <= bundle_nodes => {
                        nodes += most;
                        chosen.push(at);
                    }
                    _ => break,
                },
                OpenNode::Chain(_) | OpenNode::Offered(..) => {}
                OpenNode::Split(_) | OpenNode::Placeholder => break,
            }
        }
        chosen
    }
}
