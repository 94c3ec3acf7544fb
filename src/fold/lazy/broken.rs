//! A node, or a piece, some of whose children were given away.

use super::{
    Scheme,
    piece::{Found, Piece},
};
use crate::fold::Fold;
use std::{collections::VecDeque, mem, sync::Arc, vec};

/// How many children are taken out of an iterator at once, to be given away or to be split: enough that what it costs
/// to give them away is little beside the work, also if each is a leaf of two nanoseconds; few enough that they stay in
/// the nearest cache.
const BATCH: usize = 1024;

/// Where the results go, in their order.
pub(super) enum Sink<F: Fold> {
    Heap(F::Heap),
    /// Of a piece, which has no heap of its own.
    Results(Vec<F::Result>),
}

impl<F: Fold> Sink<F> {
    #[inline(always)]
    pub(super) fn put(&mut self, fold: &F, result: F::Result) {
        match self {
            Sink::Heap(heap) => fold.accumulate(heap, result),
            Sink::Results(results) => results.push(result),
        }
    }
}

/// Some children that follow one another.
pub(super) enum Segment<F: Fold, S: Scheme> {
    /// They are done, but some before them are not.
    Ready(Vec<F::Result>),
    /// One that is being folded, by the run that this is in.
    Open,
    Given(Arc<Piece<F, S>>),
    /// Nobody has begun.
    Todo(vec::IntoIter<F::Node>),
}

/// The children from the first one on whose result is not in the sink: some segments, and what the source has.
pub(super) struct Broken<F: Fold, S: Scheme> {
    pub(super) sink: Sink<F>,
    pub(super) segments: VecDeque<Segment<F, S>>,
    pub(super) source: Option<F::Children>,
    /// How many were taken from the source at once the last time, if it does not say how many it has.
    batch: usize,
}

/// What is next.
pub(super) enum Next<F: Fold, S: Scheme> {
    /// Children in the segment of that number.
    Todo(usize),
    /// Nobody has begun with this piece, so far as we know.
    Queued(usize, Arc<Piece<F, S>>),
    /// Only the source is left.
    Source,
    /// Nothing but what others have begun, this piece first.
    Wait(Arc<Piece<F, S>>),
    Nothing,
}

impl<F: Fold, S: Scheme> Broken<F, S> {
    /// A node that was open until now, with one child open.
    pub(super) fn of_node(heap: F::Heap, source: F::Children) -> Self {
        Self {
            sink: Sink::Heap(heap),
            segments: VecDeque::from([Segment::Open]),
            source: Some(source),
            batch: 1,
        }
    }

    /// A piece.
    pub(super) fn of_piece(nodes: Vec<F::Node>) -> Self {
        Self {
            sink: Sink::Results(Vec::with_capacity(nodes.len())),
            segments: VecDeque::from([Segment::Todo(nodes.into_iter())]),
            source: None,
            batch: 1,
        }
    }

    /// The open child is done.
    pub(super) fn put(&mut self, fold: &F, result: F::Result) {
        let open = self
            .segments
            .iter()
            .position(|segment| matches!(segment, Segment::Open))
            .expect("a child was open");
        if open == 0 && !S::AT_THE_END {
            self.segments.pop_front();
            self.sink.put(fold, result);
            return;
        }
        if let Some(before) = open.checked_sub(1)
            && let Segment::Ready(results) = &mut self.segments[before]
        {
            results.push(result);
            self.segments.remove(open);
        } else {
            self.segments[open] = Segment::Ready(vec![result]);
        }
    }

    /// Takes in what has come: on arrival, or when there is nothing else to come.
    pub(super) fn merge(&mut self, fold: &F) {
        if S::AT_THE_END {
            for segment in &mut self.segments {
                if let Segment::Given(piece) = segment {
                    if let Found::Results(results) = piece.results() {
                        *segment = Segment::Ready(results);
                    }
                }
            }
            let all = |segment| matches!(segment, &Segment::Ready(_));
            if self.source.is_some() || !self.segments.iter().all(all) {
                return;
            }
        }
        while let Some(first) = self.segments.front_mut() {
            let results = match first {
                Segment::Ready(results) => mem::take(results),
                Segment::Given(piece) => match piece.results() {
                    Found::Results(results) => results,
                    Found::Nothing => return,
                },
                _ => return,
            };
            self.segments.pop_front();
            for result in results {
                self.sink.put(fold, result);
            }
        }
    }

    /// What to do next. The newest piece that nobody has begun is the one at the young end of the queue.
    pub(super) fn next(&mut self) -> Next<F, S> {
        let mut wait = None;
        let mut queued = None;
        for (at, segment) in self.segments.iter_mut().enumerate() {
            match segment {
                Segment::Todo(nodes) if nodes.len() > 0 => return Next::Todo(at),
                Segment::Given(piece) if !piece.is_taken() && queued.is_none() => {
                    queued = Some((at, piece.clone()));
                }
                Segment::Given(piece) if wait.is_none() => wait = Some(piece.clone()),
                _ => {}
            }
        }
        match (queued, wait) {
            (Some((at, piece)), _) => Next::Queued(at, piece),
            (None, _) if self.source.is_some() => Next::Source,
            (None, Some(piece)) => Next::Wait(piece),
            (None, None) => Next::Nothing,
        }
    }

    /// Takes some more from the source into a segment of its own. False when there are none.
    pub(super) fn refill(&mut self) -> bool {
        let Some(source) = &mut self.source else {
            return false;
        };
        let wanted = match source.size_hint().0 {
            0 => {
                self.batch = BATCH.min(2 * self.batch);
                self.batch
            }
            many => many.min(BATCH),
        };
        let nodes: Vec<_> = source.by_ref().take(wanted).collect();
        if nodes.len() < wanted {
            self.source = None;
        }
        let some = !nodes.is_empty();
        if some {
            self.segments.push_back(Segment::Todo(nodes.into_iter()));
        }
        some
    }

    /// Children to give away: the later half of those that nobody has begun with. Says after which segment they are,
    /// which has the earlier half, if there is one.
    pub(super) fn split(&mut self) -> Option<(usize, Vec<F::Node>)> {
        let todo = |segment: &Segment<F, S>| {
            matches!(segment, Segment::Todo(nodes) if nodes.len() > 0)
        };
        let at = match self.segments.iter().position(todo) {
            Some(at) => at,
            None if self.refill() => self.segments.len() - 1,
            None => return None,
        };
        let Segment::Todo(nodes) = &mut self.segments[at] else {
            unreachable!("it was found a moment ago")
        };
        let mut near: Vec<_> = mem::take(nodes).collect();
        let far = near.split_off(near.len() / 2);
        *nodes = near.into_iter();
        Some((at, far))
    }
}

impl<F: Fold, S: Scheme> Broken<F, S> {
    /// Puts a piece after the segment `at` that it was split off, in place of that if nothing is left there.
    pub(super) fn give(&mut self, at: usize, piece: Arc<Piece<F, S>>) {
        let given = Segment::Given(piece);
        match &self.segments[at] {
            Segment::Todo(nodes) if nodes.len() == 0 => self.segments[at] = given,
            _ => self.segments.insert(at + 1, given),
        }
    }

    /// The results right before segment `at`, to be added to.
    pub(super) fn take_ready_before(&mut self, at: usize) -> Vec<F::Result> {
        match at.checked_sub(1).map(|before| &mut self.segments[before]) {
            Some(Segment::Ready(results)) => mem::take(results),
            _ => Vec::new(),
        }
    }

    /// Puts those results back. Says where segment `at` is now.
    pub(super) fn put_ready_before(&mut self, at: usize, results: Vec<F::Result>) -> usize {
        if let Some(before) = at.checked_sub(1)
            && let Segment::Ready(place) = &mut self.segments[before]
        {
            *place = results;
            return at;
        }
        if results.is_empty() {
            return at;
        }
        self.segments.insert(at, Segment::Ready(results));
        at + 1
    }

    pub(super) fn is_node(&self) -> bool {
        matches!(self.sink, Sink::Heap(_))
    }

    /// It is whole again: what is left is in the source.
    pub(super) fn into_node(self) -> (F::Heap, F::Children) {
        match (self.sink, self.source) {
            (Sink::Heap(heap), Some(source)) => (heap, source),
            _ => unreachable!("a node with a source"),
        }
    }
}
