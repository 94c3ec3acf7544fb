//! The traversal state of one worker in a tree, or in a piece of one.

use super::{
    pace::CheckTimer,
    split::NextChild,
    state::{
        ChildSegment, FoldRun, Home, LazyScheme, LazyState, OfferedPiece, OpenNode, ResultSink,
        Results, Siblings, SplitNode, Stop,
    },
    walk::{Descended, Followed, Swept, enter},
};
use crate::{
    base::unwind,
    fold::{
        Fold,
        team::{Common, TeamLink},
    },
    pool::{context::WorkerContext, pending_group::PendingGroup},
};
use std::{mem, sync::Arc};

/// Prefetch distance for pieces of other workers, in open nodes: folding that many takes about as
/// long as the memory access.
const PREFETCH_DISTANCE: usize = 4;

/// The next step.
enum Todo<F: Fold> {
    Visit(F::Node),
    /// Begin with a piece of several nodes.
    Piece(Siblings<F>),
    /// Continue with an open node.
    Enter(F::Heap, F::Children, Option<F::Node>),
    /// Inspect the innermost node, which is a split one.
    Inspect,
}

/// Why `drive` returned.
enum RunEnd<F: Fold, S: LazyScheme> {
    Results(Results<F::Result>),
    Wait(Arc<OfferedPiece<F, S>>),
}

impl<F: Fold, S: LazyScheme> FoldRun<F, S> {
    fn new(home: Home<F, S>) -> Self {
        Self {
            home,
            stack: Vec::new(),
            lines: Vec::new(),
            cursor: 0,
            offers: Vec::new(),
            timer: CheckTimer::new(),
            first_offer: true,
        }
    }

    /// Folds the tree, except for pieces that thieves take. The caller counts the part as done.
    pub(super) fn of_tree(
        root: F::Node,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let run = Self::new(Home::Caller);
        run.run_to_end(Todo::Visit(root), link, context);
    }

    /// Folds a piece, and continues with the run that waits for it. The caller, which has counted
    /// the piece, counts one part as done when this has returned: the last of all parts that this
    /// call has continued with. Not in here, where nodes, heaps and results are arguments that may
    /// borrow what is gone when the fold is over.
    pub(super) fn of_piece(
        piece: Arc<OfferedPiece<F, S>>,
        siblings: Siblings<F>,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let shared = link.get();
        if shared.team.has_failed() {
            unwind::discard(siblings);
            return Self::new(Home::Piece(piece)).give_up(link, context);
        }
        match unwind::contain(|| Self::begin(&shared.fold, siblings)) {
            // Only a leaf: no run is needed.
            Ok(Ok(result)) => {
                if let Some(waiting) = Self::deliver(piece, Results::One(result), link, context) {
                    waiting.resume(link, context);
                }
            }
            Ok(Err(todo)) => Self::new(Home::Piece(piece)).run_to_end(todo, link, context),
            Err(payload) => {
                shared.team().fail(context, payload);
                Self::new(Home::Piece(piece)).give_up(link, context);
            }
        }
    }

    /// Begins with a piece: returns the result if it is a leaf, else the next step.
    fn begin(fold: &F, siblings: Siblings<F>) -> Result<F::Result, Todo<F>> {
        match siblings.into_only() {
            Ok(node) => match enter(fold, node) {
                (heap, _, None) => Ok(fold.finalize(heap)),
                (heap, children, child) => Err(Todo::Enter(heap, children, child)),
            },
            Err(siblings) => Err(Todo::Piece(siblings)),
        }
    }

    /// Continues a run that was left at a piece, on this worker.
    fn resume(mut self, link: &TeamLink<LazyState<F, S>>, context: &WorkerContext<'_, '_>) {
        self.timer.restart();
        self.first_offer = true;
        self.run_to_end(Todo::Inspect, link, context);
    }

    /// Continues until there is nothing more to do here; as in [`of_piece`](Self::of_piece), the
    /// last part is left to the caller.
    fn run_to_end(
        mut self,
        mut todo: Todo<F>,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let shared = link.get();
        loop {
            let end = match unwind::contain(|| self.drive(todo, link, shared, context)) {
                Ok(Ok(end)) => end,
                Ok(Err(Stop)) => return self.give_up(link, context),
                Err(payload) => {
                    shared.team().fail(context, payload);
                    return self.give_up(link, context);
                }
            };
            let waiting = match end {
                RunEnd::Wait(piece) => {
                    // It may be continued on another worker.
                    self.offers.clear();
                    // The worker that continues it may reach the end of the fold, or a panic after
                    // which the last owner of the piece drops the results. So this worker counts
                    // itself as a part until it has released the piece.
                    shared.team().add_job(context);
                    let back = piece.park(self);
                    unwind::discard(piece);
                    let Some(run) = back else {
                        return;
                    };
                    // The piece is done meanwhile, or abandoned. The run has its own count.
                    link.done(context);
                    if shared.team.has_failed() {
                        return run.give_up(link, context);
                    }
                    self = run;
                    todo = Todo::Inspect;
                    continue;
                }
                RunEnd::Results(results) => match (self.leave(), results) {
                    (Home::Piece(piece), results) => Self::deliver(piece, results, link, context),
                    (Home::Caller, Results::One(result)) => {
                        shared.store_result(result);
                        None
                    }
                    (Home::Caller, Results::Many(_)) => unreachable!("only pieces have several"),
                },
            };
            match waiting {
                Some(run) => self = run,
                None => return,
            }
            self.timer.restart();
            self.first_offer = true;
            todo = Todo::Inspect;
        }
    }

    /// Delivers the results of a folded piece. Returns the run that waits for them, if there is
    /// one; then the piece has been counted as done.
    fn deliver(
        piece: Arc<OfferedPiece<F, S>>,
        results: Results<F::Result>,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Option<Self> {
        let waiting = piece.complete(results);
        // If the splitter has given up, the results are dropped here.
        unwind::discard(piece);
        if waiting.is_some() {
            // The waiting run has its own count.
            link.done(context);
        }
        waiting
    }

    /// Ends the run, and returns where its result goes.
    ///
    /// After a panic, the last owner of a piece drops its results, which may borrow from the
    /// caller. So every run releases all its pieces before it is counted as done.
    fn leave(&mut self) -> Home<F, S> {
        unwind::discard(mem::take(&mut self.offers));
        mem::replace(&mut self.home, Home::Caller)
    }

    /// Drops this run and all runs that wait for it.
    #[cold]
    fn give_up(mut self, link: &TeamLink<LazyState<F, S>>, context: &WorkerContext<'_, '_>) {
        loop {
            // Untaken offers are revoked instead of waiting for a thief. The newest first, in queue
            // order.
            while let Some(offer) = self.offers.pop() {
                offer.give_up(link, context);
            }
            unwind::discard(mem::take(&mut self.stack));
            unwind::discard(mem::take(&mut self.lines));
            let waiting = match self.leave() {
                Home::Caller => None,
                Home::Piece(piece) => piece.give_up(),
            };
            match waiting {
                Some(run) => self = run,
                None => return,
            }
            // The run that waited has its own count.
            link.done(context);
        }
    }

    fn drive(
        &mut self,
        mut todo: Todo<F>,
        link: &TeamLink<LazyState<F, S>>,
        shared: &LazyState<F, S>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<RunEnd<F, S>, Stop> {
        let fold = &shared.fold;
        loop {
            let (heap, children, child) = match todo {
                Todo::Visit(node) => enter(fold, node),
                Todo::Enter(heap, children, child) => (heap, children, child),
                Todo::Piece(siblings) => {
                    let split = SplitNode::of_piece(siblings);
                    self.stack.push(OpenNode::Split(Box::new(split)));
                    todo = Todo::Inspect;
                    continue;
                }
                Todo::Inspect => match self.inspect(fold, link, context)? {
                    Ok(next) => {
                        todo = next;
                        continue;
                    }
                    Err(end) => return Ok(end),
                },
            };
            let result = match self.descend(fold, (heap, children, child), link, context)? {
                Descended::Result(result) => result,
                Descended::Line(heap, child) => match self.follow(fold, heap, child) {
                    Followed::Leaf(result) => result,
                    Followed::Node(heap, children, first) => {
                        todo = Todo::Enter(heap, children, Some(first));
                        continue;
                    }
                    Followed::Due(child) => {
                        self.check_offers(link, context)?;
                        todo = Todo::Visit(child);
                        continue;
                    }
                },
            };
            todo = match self.rise(fold, result) {
                Ok(todo) => todo,
                Err(end) => return Ok(end),
            };
        }
    }

    /// Determines the next step at the innermost node, which is split: continue with one of its
    /// children, or with the node itself, or end.
    fn inspect(
        &mut self,
        fold: &F,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Result<Todo<F>, RunEnd<F, S>>, Stop> {
        let mut split = match self.stack.pop() {
            Some(OpenNode::Split(split)) => split,
            Some(OpenNode::Given(heap, piece)) => {
                return Ok(self.inspect_given(fold, heap, piece, link, context));
            }
            _ => unreachable!("open nodes are gone on with"),
        };
        self.cursor = self.cursor.min(self.stack.len());
        loop {
            split.merge(fold);
            let swept = match split.next() {
                NextChild::Todo(at) => self.sweep_segment(fold, &mut split, at),
                NextChild::Queued(at, piece) => {
                    if let Some(siblings) = piece.revoke() {
                        self.withdraw(&piece, link, context);
                        split.take_back(at, siblings);
                    }
                    continue;
                }
                NextChild::Source if split.is_whole() => {
                    let (heap, mut children) = split.into_node();
                    let child = children.next();
                    return Ok(Ok(Todo::Enter(heap, children, child)));
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
                        ResultSink::Heap(heap) => self.rise(fold, fold.finalize(heap)),
                    });
                }
            };
            let todo = match swept {
                Swept::Done => continue,
                Swept::Inner(heap, children, first) => Todo::Enter(heap, children, Some(first)),
                Swept::Due(node) => {
                    self.stack.push(OpenNode::Split(split));
                    self.check_offers(link, context)?;
                    return Ok(Ok(Todo::Visit(node)));
                }
            };
            self.stack.push(OpenNode::Split(split));
            return Ok(Ok(todo));
        }
    }

    /// Determines the next step at the innermost node if all its remaining children are in one
    /// piece.
    fn inspect_given(
        &mut self,
        fold: &F,
        heap: F::Heap,
        piece: Arc<OfferedPiece<F, S>>,
        link: &TeamLink<LazyState<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Todo<F>, RunEnd<F, S>> {
        self.cursor = self.cursor.min(self.stack.len());
        // Several such nodes may follow one another.
        let soon = self.stack.len().checked_sub(PREFETCH_DISTANCE);
        if let Some(OpenNode::Given(_, piece)) = soon.map(|at| &self.stack[at]) {
            piece.fetch();
        }
        if !piece.is_taken()
            && let Some(siblings) = piece.revoke()
        {
            self.withdraw(&piece, link, context);
            let mut children = siblings.source.expect("that is how it was given");
            let child = children.next();
            return Ok(Todo::Enter(heap, children, child));
        }
        match piece.results() {
            Some(results) => {
                let mut sink = ResultSink::Heap(heap);
                sink.put_all(fold, results);
                let ResultSink::Heap(heap) = sink else {
                    unreachable!("it was one a moment ago")
                };
                self.rise(fold, fold.finalize(heap))
            }
            None => {
                self.stack.push(OpenNode::Given(heap, piece.clone()));
                Err(RunEnd::Wait(piece))
            }
        }
    }

    /// Passes a result to the innermost node.
    fn rise(&mut self, fold: &F, mut result: F::Result) -> Result<Todo<F>, RunEnd<F, S>> {
        while let Some(&OpenNode::Line(nodes)) = self.stack.last() {
            self.stack.pop();
            result = self.rise_line(fold, nodes, result);
        }
        match self.stack.last_mut() {
            None => Err(RunEnd::Results(Results::One(result))),
            Some(OpenNode::Split(split)) => {
                split.put(fold, result);
                Ok(Todo::Inspect)
            }
            Some(OpenNode::Given(heap, _)) => {
                fold.accumulate(heap, result);
                Ok(Todo::Inspect)
            }
            Some(_) => {
                let Some(OpenNode::Open(mut heap, mut children)) = self.stack.pop() else {
                    unreachable!("it is open or split")
                };
                self.cursor = self.cursor.min(self.stack.len());
                fold.accumulate(&mut heap, result);
                let child = children.next();
                Ok(Todo::Enter(heap, children, child))
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
        let ChildSegment::Todo(nodes) = &mut split.segments[at] else {
            unreachable!("it was found a moment ago")
        };
        let mut nodes = mem::take(nodes);
        let mut at = at;
        let swept = if at == 0 && !S::AT_THE_END {
            match &mut split.sink {
                ResultSink::Heap(heap) => {
                    self.sweep(fold, &mut nodes, |r| fold.accumulate(heap, r))
                }
                ResultSink::Results(results) => self.sweep(fold, &mut nodes, |r| results.push(r)),
            }
        } else {
            let mut results = split.take_ready_before(at);
            let swept = self.sweep(fold, &mut nodes, |r| results.push(r));
            at = split.put_ready_before(at, results);
            swept
        };
        split.segments[at] = ChildSegment::Todo(nodes);
        if let Swept::Done = swept {
            split.segments.remove(at);
        } else {
            split.segments.insert(at, ChildSegment::Open);
        }
        swept
    }
}
