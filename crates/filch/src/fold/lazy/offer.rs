//! The offers of a run: pieces in the queue of its worker, singly or in bundles.

use super::{
    pace::Weight,
    piece::late_drop,
    state::{
        Bundle, FoldRun, LazyScheme, LazyState, More, Offer, OfferedPiece, OpenNode, Siblings,
        SplitNode, Stop,
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
        team::{self, Common, TeamLink, TeamPart},
    },
    pool::{context::WorkerContext, pending_group::PendingGroup},
};
use std::{
    mem,
    sync::{Arc, PoisonError},
};

impl<F: Fold, S: LazyScheme> Bundle<F, S> {
    fn new(pieces: Vec<Arc<OfferedPiece<F, S>>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(pieces.into_iter())))
    }

    /// Removes the outermost piece.
    fn next(&self) -> Option<Arc<OfferedPiece<F, S>>> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outermost = pieces.next();
        if let Some(next) = pieces.as_slice().first() {
            next.fetch();
        }
        outermost
    }
}

impl<F: Fold, S: LazyScheme> TeamPart for Bundle<F, S> {
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

impl<F: Fold, S: LazyScheme> Offer<F, S> {
    /// Whether other workers have folded all of it.
    fn is_done(&self) -> bool {
        match &self.more {
            None => self.first.is_done(),
            Some(more) => more.last.is_done(),
        }
    }

    /// Removes the offer from the queue, if it is still there. The first piece has just been
    /// revoked, so this worker has not taken the offer, which begins with that piece. No user code
    /// has run since, or the mark might be that of another job.
    fn take_back(&self, context: &WorkerContext<'_, '_>) {
        match (self.mark, &self.more) {
            (None, _) => {}
            (Some(mark), None) => team::take_back(context, &self.first, mark),
            (Some(mark), Some(more)) => team::take_back(context, &more.bundle, mark),
        }
    }

    /// Revokes and drops all pieces that are not taken.
    pub(super) fn give_up(self, link: &TeamLink<LazyState<F, S>>, context: &WorkerContext<'_, '_>) {
        let first = self.first.revoke();
        if first.is_some() {
            self.take_back(context);
        }
        if let Some(more) = &self.more {
            while let Some(piece) = more.bundle.next() {
                if let Some(siblings) = piece.revoke() {
                    unwind::discard(siblings);
                    link.done(context);
                }
                unwind::discard(piece);
            }
        }
        let counted = first.is_some();
        unwind::discard(first);
        unwind::discard(self);
        if counted {
            link.done(context);
        }
    }
}

impl<F: Fold, S: LazyScheme> FoldRun<F, S> {
    /// Removes a revoked piece from the queue, if it is still there.
    pub(super) fn withdraw(
        &mut self,
        piece: &Arc<OfferedPiece<F, S>>,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let is_it = |offer: &Offer<F, S>| Arc::ptr_eq(&offer.first, piece);
        // Else it is a later one of a bundle.
        if let Some(at) = self.offers.iter().rposition(is_it) {
            self.offers.remove(at).take_back(context);
        }
        link.done(context);
    }

    /// The periodic check: offers the outermost children that are left, if too few are on offer.
    #[cold]
    #[inline(never)]
    pub(super) fn check_offers(
        &mut self,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<(), Stop> {
        let shared = link.get();
        if shared.team.has_failed() {
            return Err(Stop);
        }
        let (mut gone, mut done) = (0, 0);
        self.offers.retain(|offer| {
            let is_gone = offer.first.is_taken();
            gone += usize::from(is_gone);
            done += usize::from(is_gone && offer.is_done());
            !is_gone
        });
        let wanted = self
            .timer
            .check(&shared.pace, self.offers.len(), gone, done);
        let mut from = self.cursor;
        while self.offers.len() < wanted && self.offer(&mut from, link, context) {}
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
        link: &TeamLink<LazyState<F, S>>,
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
            if weight == Weight::Light && !S::AT_THE_END && self.offer_bundle(*from, link, context)
            {
                return true;
            }
            let frame = &mut self.stack[*from];
            let piece = match mem::replace(frame, OpenNode::Gone) {
                OpenNode::Open(heap, children) => match (weight, children.size_hint()) {
                    (Weight::Unknown, _) | (_, (1, Some(1))) if !S::AT_THE_END => {
                        let piece =
                            OfferedPiece::new(link.clone(), Siblings::source(children), fresh);
                        *frame = OpenNode::Given(heap, piece.clone());
                        Some(piece)
                    }
                    _ => {
                        let mut split = Box::new(SplitNode::of_node(heap, children));
                        let piece = split.give(weight, fresh, link);
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
                    let piece = split.give(weight, fresh, link);
                    *frame = OpenNode::Split(split);
                    piece
                }
                OpenNode::Line(_) | OpenNode::Given(..) | OpenNode::Gone => {
                    unreachable!("they have nothing to give")
                }
            };
            let Some(piece) = piece else {
                self.skip(from);
                continue;
            };
            let team = link.get().team();
            team.add_job(context);
            let placement = team.placement(S::WAKE_EVERY, mem::take(&mut self.first_offer));
            let mark = team.queue(context, piece.clone(), placement);
            self.offers.push(Offer {
                first: piece,
                more: None,
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
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> bool {
        let reach = self.timer.reach();
        if reach < 2 {
            return false;
        }
        let end = from + (self.stack.len() - from).div_ceil(2);
        let chosen = self.choose(from..end, reach);
        if chosen.len() < 2 {
            return false;
        }
        let team = link.get().team();
        let mut pieces = Vec::with_capacity(chosen.len());
        for at in chosen {
            let OpenNode::Open(heap, children) = mem::replace(&mut self.stack[at], OpenNode::Gone)
            else {
                unreachable!("it was open a moment ago")
            };
            let piece = OfferedPiece::new(link.clone(), Siblings::source(children), None);
            self.stack[at] = OpenNode::Given(heap, piece.clone());
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
            more: Some(More { last, bundle }),
            mark,
        });
        true
    }

    /// Open nodes with so few children that those of all chosen nodes together are at most `reach`.
    fn choose(&self, among: std::ops::Range<usize>, reach: usize) -> Vec<usize> {
        let mut nodes = 0;
        let mut chosen = Vec::new();
        for at in among {
            match &self.stack[at] {
                OpenNode::Open(_, children) => match children.size_hint().1 {
                    Some(0) => {}
                    Some(most) if nodes + most <= reach => {
                        nodes += most;
                        chosen.push(at);
                    }
                    _ => break,
                },
                OpenNode::Line(_) | OpenNode::Given(..) => {}
                OpenNode::Split(_) | OpenNode::Gone => break,
            }
        }
        chosen
    }
}
