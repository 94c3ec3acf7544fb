//! The traversal state of one worker in a tree, or in a piece of one.

use super::{
    pace::CheckTimer,
    split::NextChild,
    state::{
        AdaptiveScheme, AdaptiveState, ChildSegment, Destination, FoldRun, FoldStopped,
        OfferedPiece, OpenNode, ResultSink, Results, Siblings, SplitNode,
    },
    walk::{Descended, Followed, Swept, enter},
};
use crate::{
    base::unwind,
    fold::{
        Fold,
        team::{HasTeam, StateRef},
    },
    pool::{context::WorkerContext, pending_group::PendingGroup},
};
use std::{mem, sync::Arc};

/// Prefetch distance for pieces of other workers, in open nodes: folding that many takes about as
/// long as the memory access.
const PREFETCH_DISTANCE: usize = 4;

/// The next step.
enum NextStep<F: Fold> {
    Visit(F::Node),
    /// Begin with a piece of several nodes.
    Piece(Siblings<F>),
    /// Continue with an open node.
    Enter(F::Accumulator, F::Children, Option<F::Node>),
    /// Inspect the innermost node, which is a split one.
    Inspect,
}

/// Why `drive` returned.
enum RunEnd<F: Fold, S: AdaptiveScheme> {
    Results(Results<F::Result>),
    Wait(Arc<OfferedPiece<F, S>>),
}

impl<F: Fold, S: AdaptiveScheme> FoldRun<F, S> {
    fn new(destination: Destination<F, S>) -> Self {
        Self {
            destination,
            stack: Vec::new(),
            chain_accs: Vec::new(),
            cursor: 0,
            offers: Vec::new(),
            timer: CheckTimer::new(),
            first_offer: true,
        }
    }

    /// Folds the tree, except for pieces that thieves take. The caller counts the part as done.
    pub(super) fn of_tree(
        root: F::Node,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let run = Self::new(Destination::Caller);
        run.run_to_end(NextStep::Visit(root), state_ref, context);
    }

    /// Folds a piece, and continues with the run that waits for it. The caller, which has counted
    /// the piece, counts one part as done when this has returned: the last of all parts that this
    /// call has continued with. Not in here, where nodes, accumulators and results are arguments
    /// that may borrow what is gone when the fold is over.
    pub(super) fn of_piece(
        piece: Arc<OfferedPiece<F, S>>,
        siblings: Siblings<F>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let shared = state_ref.get();
        if shared.team.has_failed() {
            unwind::discard(siblings);
            return Self::new(Destination::Piece(piece)).give_up(state_ref, context);
        }
        match unwind::contain(|| Self::begin(&shared.fold, siblings)) {
            // Only a leaf: no run is needed.
            Ok(Ok(result)) => {
                if let Some(waiting) =
                    Self::deliver(piece, Results::One(result), state_ref, context)
                {
                    waiting.resume(state_ref, context);
                }
            }
            Ok(Err(step)) => {
                Self::new(Destination::Piece(piece)).run_to_end(step, state_ref, context);
            }
            Err(payload) => {
                shared.team().fail(context, payload);
                Self::new(Destination::Piece(piece)).give_up(state_ref, context);
            }
        }
    }

    /// Begins with a piece: returns the result if it is a leaf, else the next step.
    fn begin(fold: &F, siblings: Siblings<F>) -> Result<F::Result, NextStep<F>> {
        match siblings.into_only() {
            Ok(node) => match enter(fold, node) {
                (acc, _, None) => Ok(fold.finalize(acc)),
                (acc, children, child) => Err(NextStep::Enter(acc, children, child)),
            },
            Err(siblings) => Err(NextStep::Piece(siblings)),
        }
    }

    /// Continues a run that was left at a piece, on this worker.
    fn resume(
        mut self,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        self.timer.restart();
        self.first_offer = true;
        self.run_to_end(NextStep::Inspect, state_ref, context);
    }

    /// Continues until there is nothing more to do here; as in [`of_piece`](Self::of_piece), the
    /// last part is left to the caller.
    fn run_to_end(
        mut self,
        mut step: NextStep<F>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let shared = state_ref.get();
        loop {
            let end = match unwind::contain(|| self.drive(step, state_ref, shared, context)) {
                Ok(Ok(end)) => end,
                Ok(Err(FoldStopped)) => return self.give_up(state_ref, context),
                Err(payload) => {
                    shared.team().fail(context, payload);
                    return self.give_up(state_ref, context);
                }
            };
            let waiting = match end {
                RunEnd::Wait(piece) => {
                    // It may be continued on another worker.
                    self.offers.clear();
                    // The worker that continues it may reach the end of the fold, or a panic
                    // after which the last owner of the piece drops the results. So this worker
                    // counts itself as a part until it has released the piece.
                    shared.team().add_job(context);
                    let back = piece.park(self);
                    unwind::discard(piece);
                    let Some(run) = back else {
                        return;
                    };
                    // The piece is done meanwhile, or given up. The run has its own count.
                    state_ref.done(context);
                    if shared.team.has_failed() {
                        return run.give_up(state_ref, context);
                    }
                    self = run;
                    step = NextStep::Inspect;
                    continue;
                }
                RunEnd::Results(results) => match (self.take_destination(), results) {
                    (Destination::Piece(piece), results) => {
                        Self::deliver(piece, results, state_ref, context)
                    }
                    (Destination::Caller, Results::One(result)) => {
                        shared.store_result(result);
                        None
                    }
                    (Destination::Caller, Results::Many(_)) => {
                        unreachable!("only pieces have several")
                    }
                },
            };
            match waiting {
                Some(run) => self = run,
                None => return,
            }
            self.timer.restart();
            self.first_offer = true;
            step = NextStep::Inspect;
        }
    }

    /// Delivers the results of a folded piece. Returns the run that waits for them, if there is
    /// one; then the piece has been counted as done.
    fn deliver(
        piece: Arc<OfferedPiece<F, S>>,
        results: Results<F::Result>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Option<Self> {
        let waiting = piece.complete(results);
        // If the splitter has given up its run, the results are dropped here.
        unwind::discard(piece);
        if waiting.is_some() {
            // The waiting run has its own count.
            state_ref.done(context);
        }
        waiting
    }

    /// Ends the run, and returns where its result goes.
    ///
    /// After a panic, the last owner of a piece drops its results, which may borrow from the
    /// caller. So every run releases all its pieces before it is counted as done.
    fn take_destination(&mut self) -> Destination<F, S> {
        unwind::discard(mem::take(&mut self.offers));
        mem::replace(&mut self.destination, Destination::Caller)
    }

    /// Drops this run and all runs that wait for it.
    #[cold]
    fn give_up(
        mut self,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        loop {
            // Untaken offers are revoked instead of waiting for a thief. The newest first, in queue
            // order.
            while let Some(offer) = self.offers.pop() {
                offer.revoke_all(state_ref, context);
            }
            unwind::discard(mem::take(&mut self.stack));
            unwind::discard(mem::take(&mut self.chain_accs));
            let waiting = match self.take_destination() {
                Destination::Caller => None,
                Destination::Piece(piece) => piece.give_up(),
            };
            match waiting {
                Some(run) => self = run,
                None => return,
            }
            // The run that waited has its own count.
            state_ref.done(context);
        }
    }

    fn drive(
        &mut self,
        mut step: NextStep<F>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        shared: &AdaptiveState<F, S>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<RunEnd<F, S>, FoldStopped> {
        let fold = &shared.fold;
        loop {
            let (acc, children, child) = match step {
                NextStep::Visit(node) => enter(fold, node),
                NextStep::Enter(acc, children, child) => (acc, children, child),
                NextStep::Piece(siblings) => {
                    let split = SplitNode::of_piece(siblings);
                    self.stack.push(OpenNode::Split(Box::new(split)));
                    step = NextStep::Inspect;
                    continue;
                }
                NextStep::Inspect => match self.inspect(fold, state_ref, context)? {
                    Ok(next) => {
                        step = next;
                        continue;
                    }
                    Err(end) => return Ok(end),
                },
            };
            let result = match self.descend(fold, (acc, children, child), state_ref, context)? {
                Descended::Result(result) => result,
                Descended::Chain(acc, child) => match self.follow(fold, acc, child) {
                    Followed::Leaf(result) => result,
                    Followed::Node(acc, children, first) => {
                        step = NextStep::Enter(acc, children, Some(first));
                        continue;
                    }
                    Followed::Due(child) => {
                        self.check_offers(state_ref, context)?;
                        step = NextStep::Visit(child);
                        continue;
                    }
                },
            };
            step = match self.pass_up(fold, result) {
                Ok(step) => step,
                Err(end) => return Ok(end),
            };
        }
    }

    /// Determines the next step at the innermost node, which is split: continue with one of its
    /// children, or with the node itself, or end.
    fn inspect(
        &mut self,
        fold: &F,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Result<NextStep<F>, RunEnd<F, S>>, FoldStopped> {
        let mut split = match self.stack.pop() {
            Some(OpenNode::Split(split)) => split,
            Some(OpenNode::Offered(acc, piece)) => {
                return Ok(self.inspect_offered(fold, acc, piece, state_ref, context));
            }
            _ => unreachable!("open nodes are continued by `descend`"),
        };
        self.cursor = self.cursor.min(self.stack.len());
        loop {
            split.merge(fold);
            let swept = match split.next() {
                NextChild::Unstarted(at) => self.sweep_segment(fold, &mut split, at),
                NextChild::Queued(at, piece) => {
                    if let Some(siblings) = piece.revoke() {
                        self.withdraw(&piece, state_ref, context);
                        split.take_back(at, siblings);
                    }
                    continue;
                }
                NextChild::Source if split.is_whole() => {
                    let (acc, mut children) = split.into_node();
                    let child = children.next();
                    return Ok(Ok(NextStep::Enter(acc, children, child)));
                }
                NextChild::Source => self.sweep_source(fold, &mut split),
                NextChild::Wait(piece) => {
                    self.stack.push(OpenNode::Split(split));
                    return Ok(Err(RunEnd::Wait(piece)));
                }
                NextChild::Nothing => {
                    return Ok(match split.sink {
                        ResultSink::Results(results) => {
                            Err(RunEnd::Results(Results::Many(results)))
                        }
                        ResultSink::Accumulator(acc) => self.pass_up(fold, fold.finalize(acc)),
                    });
                }
            };
            let step = match swept {
                Swept::Done => continue,
                Swept::Inner(acc, children, first) => NextStep::Enter(acc, children, Some(first)),
                Swept::Due(node) => {
                    self.stack.push(OpenNode::Split(split));
                    self.check_offers(state_ref, context)?;
                    return Ok(Ok(NextStep::Visit(node)));
                }
            };
            self.stack.push(OpenNode::Split(split));
            return Ok(Ok(step));
        }
    }

    /// Determines the next step at the innermost node if all its remaining children are in one
    /// piece.
    fn inspect_offered(
        &mut self,
        fold: &F,
        acc: F::Accumulator,
        piece: Arc<OfferedPiece<F, S>>,
        state_ref: &StateRef<AdaptiveState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<NextStep<F>, RunEnd<F, S>> {
        self.cursor = self.cursor.min(self.stack.len());
        // Several such nodes may follow one another.
        let soon = self.stack.len().checked_sub(PREFETCH_DISTANCE);
        if let Some(OpenNode::Offered(_, piece)) = soon.map(|at| &self.stack[at]) {
            piece.prefetch();
        }
        if !piece.is_taken()
            && let Some(siblings) = piece.revoke()
        {
            self.withdraw(&piece, state_ref, context);
            let mut children = siblings.source.expect("an offered node has a source");
            let child = children.next();
            return Ok(NextStep::Enter(acc, children, child));
        }
        match piece.results() {
            Some(results) => {
                let mut sink = ResultSink::Accumulator(acc);
                sink.add_results(fold, results);
                let ResultSink::Accumulator(acc) = sink else {
                    unreachable!("it was one a moment ago")
                };
                self.pass_up(fold, fold.finalize(acc))
            }
            None => {
                self.stack.push(OpenNode::Offered(acc, piece.clone()));
                Err(RunEnd::Wait(piece))
            }
        }
    }

    /// Passes a result to the innermost node.
    fn pass_up(&mut self, fold: &F, mut result: F::Result) -> Result<NextStep<F>, RunEnd<F, S>> {
        while let Some(&OpenNode::Chain(nodes)) = self.stack.last() {
            self.stack.pop();
            result = self.pass_up_chain(fold, nodes, result);
        }
        match self.stack.last_mut() {
            None => Err(RunEnd::Results(Results::One(result))),
            Some(OpenNode::Split(split)) => {
                split.add_result(fold, result);
                Ok(NextStep::Inspect)
            }
            Some(OpenNode::Offered(acc, _)) => {
                fold.accumulate(acc, result);
                Ok(NextStep::Inspect)
            }
            Some(_) => {
                let Some(OpenNode::Open(mut acc, mut children)) = self.stack.pop() else {
                    unreachable!("it is open or split")
                };
                self.cursor = self.cursor.min(self.stack.len());
                fold.accumulate(&mut acc, result);
                let child = children.next();
                Ok(NextStep::Enter(acc, children, child))
            }
        }
    }

    /// Folds leaves from the source of a split node until another step is due, and marks the
    /// position.
    fn sweep_source(&mut self, fold: &F, split: &mut SplitNode<F, S>) -> Swept<F> {
        let Some(mut source) = split.source.take() else {
            return Swept::Done;
        };
        let end = split.segments.len();
        let mut results = split.take_ready_before(end);
        let swept = self.sweep(fold, &mut source, |r| results.push(r));
        split.put_ready_before(end, results);
        if !matches!(swept, Swept::Done) {
            split.source = Some(source);
            split.segments.push_back(ChildSegment::Open);
        }
        swept
    }

    /// Folds the leaves of a segment until another step is due, and marks the position.
    fn sweep_segment(&mut self, fold: &F, split: &mut SplitNode<F, S>, at: usize) -> Swept<F> {
        let ChildSegment::Unstarted(nodes) = &mut split.segments[at] else {
            unreachable!("it was found a moment ago")
        };
        let mut nodes = mem::take(nodes);
        let mut at = at;
        let swept = if at == 0 && !S::AT_THE_END {
            match &mut split.sink {
                ResultSink::Accumulator(acc) => {
                    self.sweep(fold, &mut nodes, |r| fold.accumulate(acc, r))
                }
                ResultSink::Results(results) => self.sweep(fold, &mut nodes, |r| results.push(r)),
            }
        } else {
            let mut results = split.take_ready_before(at);
            let swept = self.sweep(fold, &mut nodes, |r| results.push(r));
            at = split.put_ready_before(at, results);
            swept
        };
        split.segments[at] = ChildSegment::Unstarted(nodes);
        if let Swept::Done = swept {
            split.segments.remove(at);
        } else {
            split.segments.insert(at, ChildSegment::Open);
        }
        swept
    }
}
