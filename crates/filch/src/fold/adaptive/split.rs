//! A node, or a piece, some of whose children were offered to other workers.

use super::{
    pace::Weight,
    state::{
        AdaptiveScheme, AdaptiveState, ChildSegment, OfferedPiece, ResultSink, Results, Siblings,
        SplitNode,
    },
};
use crate::{
    base::canary::{Canary, broken},
    fold::{Fold, team::StateRef},
};
use std::{collections::VecDeque, mem, sync::Arc};

/// The largest number of children that are taken out of an iterator to be offered: enough that the
/// cost of offering them is small beside the work, even if each is a leaf of two nanoseconds; few
/// enough to be taken out in some microseconds.
const MAX_OFFERED_CHILDREN: usize = 16_384;

impl<F: Fold> ResultSink<F> {
    fn add_result(&mut self, fold: &F, result: F::Result) {
        match self {
            ResultSink::Accumulator(acc) => fold.accumulate(acc, result),
            ResultSink::Results(results) => results.push(result),
        }
    }

    pub(super) fn add_results(&mut self, fold: &F, more: Results<F::Result>) {
        match (self, more) {
            (sink, Results::One(result)) => sink.add_result(fold, result),
            (ResultSink::Accumulator(acc), Results::Many(more)) => {
                more.into_iter().for_each(|r| fold.accumulate(acc, r));
            }
            (ResultSink::Results(results), Results::Many(more)) if results.is_empty() => {
                *results = more;
            }
            (ResultSink::Results(results), Results::Many(mut more)) => results.append(&mut more),
        }
    }
}

impl<F: Fold, S: AdaptiveScheme> ChildSegment<F, S> {
    fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    fn is_unstarted(&self) -> bool {
        matches!(self, Self::Unstarted(nodes) if nodes.len() > 0)
    }
}

/// The next step.
pub(super) enum NextChild<F: Fold, S: AdaptiveScheme> {
    /// Children in the segment of that number.
    Unstarted(usize),
    /// A piece that is probably not taken yet.
    Queued(usize, Arc<OfferedPiece<F, S>>),
    /// Children in the source.
    Source,
    /// Only pieces that other workers have begun are left; this is the first.
    Wait(Arc<OfferedPiece<F, S>>),
    Nothing,
}

impl<F: Fold, S: AdaptiveScheme> SplitNode<F, S> {
    /// Creates it for a node that was open until now, with one child open.
    pub(super) fn of_node(acc: F::Accumulator, source: F::Children) -> Self {
        Self {
            sink: ResultSink::Accumulator(acc),
            segments: {
                let mut segments = VecDeque::with_capacity(4);
                segments.push_back(ChildSegment::Open);
                segments
            },
            source: Some(source),
            batch: 1,
        }
    }

    /// Creates it for a piece.
    pub(super) fn of_piece(siblings: Siblings<F>) -> Self {
        let unstarted = ChildSegment::Unstarted(siblings.nodes.into_iter());
        Self {
            sink: ResultSink::Results(Vec::new()),
            segments: VecDeque::from([unstarted]),
            source: siblings.source,
            batch: 1,
        }
    }

    /// Stores the result of the open child.
    pub(super) fn add_result(&mut self, fold: &F, result: F::Result) {
        let open = self.segments.iter().position(ChildSegment::is_open);
        let open = open.expect("a child was open");
        if (open == 0 || broken(Canary::FoldOrder)) && !S::AT_THE_END {
            self.segments.remove(open);
            self.sink.add_result(fold, result);
            return;
        }
        let mut results = self.take_ready_before(open);
        results.push(result);
        let open = self.put_ready_before(open, results);
        self.segments.remove(open);
    }

    /// Accumulates the available results: on arrival, or only when all are available.
    pub(super) fn merge(&mut self, fold: &F) {
        if S::AT_THE_END {
            for segment in &mut self.segments {
                if let ChildSegment::Offered(piece) = segment
                    && let Some(results) = piece.results()
                {
                    *segment = ChildSegment::Ready(match results {
                        Results::One(result) => vec![result],
                        Results::Many(results) => results,
                    });
                }
            }
            let is_ready = |segment: &ChildSegment<F, S>| match segment {
                ChildSegment::Ready(_) => true,
                ChildSegment::Unstarted(nodes) => nodes.len() == 0,
                _ => false,
            };
            if self.source.is_some() || !self.segments.iter().all(is_ready) {
                return;
            }
        }
        while let Some(first) = self.segments.front_mut() {
            let results = match first {
                ChildSegment::Ready(results) => Results::Many(mem::take(results)),
                ChildSegment::Unstarted(nodes) if nodes.len() == 0 => Results::Many(Vec::new()),
                ChildSegment::Offered(piece) => match piece.results() {
                    Some(results) => results,
                    None => return,
                },
                _ => return,
            };
            self.segments.pop_front();
            self.sink.add_results(fold, results);
        }
    }

    /// The next step. The first piece that is not taken is the one that was offered last; it stays
    /// on offer as long as there is something else to do, unless too many results wait for it.
    pub(super) fn next(&mut self) -> NextChild<F, S> {
        let (mut wait, mut queued, mut ready) = (None, None, 0);
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                ChildSegment::Unstarted(nodes) if nodes.len() > 0 => {
                    return NextChild::Unstarted(at);
                }
                ChildSegment::Offered(piece) if !piece.is_taken() => {
                    queued.get_or_insert((at, piece));
                }
                ChildSegment::Offered(piece) => {
                    wait.get_or_insert(piece);
                }
                ChildSegment::Ready(results) => ready += results.len(),
                _ => {}
            }
        }
        match (queued, wait) {
            (None, _) if self.source.is_some() => NextChild::Source,
            (Some(_), _) if self.source.is_some() && ready <= MAX_OFFERED_CHILDREN => {
                NextChild::Source
            }
            (Some((at, piece)), _) => NextChild::Queued(at, piece.clone()),
            (None, Some(piece)) => NextChild::Wait(piece.clone()),
            (None, None) => NextChild::Nothing,
        }
    }

    /// Takes out some children to be offered, and returns them with the index of the segment that
    /// they precede; `None` if there are none.
    ///
    /// Of light nodes, a thief gets enough to be worth its cost; the ones that stay are done
    /// quickly. Heavy ones are all offered: the later half of the remaining ones, each time this is
    /// called. Nodes of unknown weight are offered in one piece: most often it is taken back a
    /// moment later.
    fn split(&mut self, weight: Weight) -> Option<(usize, Siblings<F>)> {
        if let Some(siblings) = self.split_source(weight) {
            return Some((self.segments.len(), siblings));
        }
        let at = self.segments.iter().position(ChildSegment::is_unstarted)?;
        let ChildSegment::Unstarted(nodes) = &mut self.segments[at] else {
            unreachable!("it was found a moment ago")
        };
        let mut near: Vec<_> = mem::take(nodes).collect();
        let far = near.split_off(near.len() / 2);
        *nodes = near.into_iter();
        Some((at + 1, Siblings::nodes(far)))
    }

    fn split_source(&mut self, weight: Weight) -> Option<Siblings<F>> {
        loop {
            let source = self.source.as_mut()?;
            let (least, most) = source.size_hint();
            if most == Some(0) {
                self.source = None;
                return None;
            }
            // Not if it only reports that there is one more, each time (`std::iter::successors`).
            let is_known = most == Some(least) && least < MAX_OFFERED_CHILDREN;
            match weight {
                Weight::Light | Weight::Heavy if is_known => {
                    let nodes = self.take_from_source(least);
                    self.segments
                        .push_back(ChildSegment::Unstarted(nodes.into_iter()));
                    // Again, if there are more than it reported.
                }
                Weight::Unknown | Weight::Heavy => return self.source.take().map(Siblings::source),
                // More than should be in one piece, or an unknown number.
                Weight::Light => {
                    self.batch = MAX_OFFERED_CHILDREN.min(4 * self.batch);
                    let nodes = self
                        .take_from_source(self.batch.max(least.min(2 * MAX_OFFERED_CHILDREN) / 2));
                    return (!nodes.is_empty()).then(|| Siblings::nodes(nodes));
                }
            }
        }
    }

    /// Whether a piece is on offer that is not taken.
    pub(super) fn has_offer(&self) -> bool {
        let is_offer =
            |s: &ChildSegment<F, S>| matches!(s, ChildSegment::Offered(piece) if !piece.is_taken());
        self.segments.iter().any(is_offer)
    }

    /// Takes some nodes from the source, which is dropped when it is exhausted.
    fn take_from_source(&mut self, wanted: usize) -> Vec<F::Node> {
        let Some(source) = &mut self.source else {
            return Vec::new();
        };
        let nodes: Vec<_> = source.by_ref().take(wanted).collect();
        if nodes.len() < wanted || source.size_hint().1 == Some(0) {
            self.source = None;
        }
        nodes
    }

    /// Makes a piece of some children, and leaves it in their place.
    pub(super) fn offer_children(
        &mut self,
        weight: Weight,
        fresh: Option<(usize, u64)>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
    ) -> Option<Arc<OfferedPiece<F, S>>> {
        let (at, siblings) = self.split(weight)?;
        let piece = OfferedPiece::new(state_ref.clone(), siblings, fresh);
        let offered = ChildSegment::Offered(piece.clone());
        match at.checked_sub(1).map(|before| &mut self.segments[before]) {
            // That segment is empty.
            Some(empty @ ChildSegment::Unstarted(_)) if !empty.is_unstarted() => *empty = offered,
            _ => self.segments.insert(at, offered),
        }
        Some(piece)
    }

    /// Puts the children of a revoked piece back in its place.
    pub(super) fn take_back(&mut self, at: usize, siblings: Siblings<F>) {
        if siblings.source.is_some() {
            debug_assert_eq!(
                at + 1,
                self.segments.len(),
                "what has the source is the last"
            );
            self.source = siblings.source;
        }
        if siblings.nodes.is_empty() {
            self.segments.remove(at);
        } else {
            self.segments[at] = ChildSegment::Unstarted(siblings.nodes.into_iter());
        }
    }

    /// Takes the results right before segment `at`, to be added to.
    pub(super) fn take_ready_before(&mut self, at: usize) -> Vec<F::Result> {
        match at.checked_sub(1).map(|before| &mut self.segments[before]) {
            Some(ChildSegment::Ready(results)) => mem::take(results),
            _ => Vec::new(),
        }
    }

    /// Puts those results back. Returns the new index of segment `at`.
    pub(super) fn put_ready_before(&mut self, at: usize, results: Vec<F::Result>) -> usize {
        if let Some(before) = at.checked_sub(1)
            && let ChildSegment::Ready(ready) = &mut self.segments[before]
        {
            *ready = results;
            return at;
        }
        if results.is_empty() {
            return at;
        }
        self.segments.insert(at, ChildSegment::Ready(results));
        at + 1
    }

    /// Whether only an accumulator and a source are left.
    pub(super) fn is_whole(&self) -> bool {
        self.segments.is_empty() && matches!(self.sink, ResultSink::Accumulator(_))
    }

    /// The accumulator and the source of one for which `is_whole` holds.
    pub(super) fn into_node(self) -> (F::Accumulator, F::Children) {
        match (self.sink, self.source) {
            (ResultSink::Accumulator(acc), Some(source)) => (acc, source),
            _ => unreachable!("a node with a source"),
        }
    }
}
