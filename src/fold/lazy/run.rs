//! One worker's way through a tree, or through a piece of one.

use super::{
    Scheme, Shared,
    broken::{Broken, Next, Segment, Sink},
    frame::Frame,
    offer::Offer,
    pace::Beat,
    piece::{Piece, Results, Siblings},
    walk::{Descended, Followed, Swept, enter},
};
use crate::{
    base::{thread, unwind},
    fold::{
        Fold,
        team::{Common, Link},
    },
    pool::context::WorkerContext,
};
use std::{mem, sync::Arc};

/// How many open nodes ahead what others have done is fetched: as many as take as long as that.
const SOON: usize = 4;

/// Where the result goes.
enum Home<F: Fold, S: Scheme> {
    /// To the caller.
    Caller,
    Piece(Arc<Piece<F, S>>),
}

/// The open nodes of one worker, from the outermost to the innermost. It has no stack frame of its own, so that it can
/// be left at a piece and taken up by another worker.
pub(super) struct Run<F: Fold, S: Scheme> {
    home: Home<F, S>,
    pub(super) stack: Vec<Frame<F, S>>,
    /// The heaps of nodes with an only child, see [`Frame::Line`].
    pub(super) lines: Vec<F::Heap>,
    /// The nodes below this one on the stack have no children to give.
    pub(super) cursor: usize,
    /// Oldest first.
    pub(super) offers: Vec<Offer<F, S>>,
    pub(super) beat: Beat,
    /// Nothing was offered yet by this worker.
    pub(super) first_offer: bool,
}

/// What to do next.
enum Todo<F: Fold> {
    Visit(F::Node),
    /// Begin with a piece of several.
    Piece(Siblings<F>),
    /// Go on with an open node.
    Enter(F::Heap, F::Children, Option<F::Node>),
    /// Look at the innermost node, which is a broken one.
    Look,
}

/// How it ended.
enum End<F: Fold, S: Scheme> {
    Results(Results<F::Result>),
    Wait(Arc<Piece<F, S>>),
}

/// Somebody has panicked.
pub(super) struct Stop;

impl<F: Fold, S: Scheme> Run<F, S> {
    fn new(home: Home<F, S>) -> Self {
        Self {
            home,
            stack: Vec::new(),
            lines: Vec::new(),
            cursor: 0,
            offers: Vec::new(),
            beat: Beat::new(),
            first_offer: true,
        }
    }

    /// Folds the tree, except for pieces that thieves take. The caller counts the part as done.
    pub(super) fn of_tree(
        root: F::Node,
        link: &Link<Shared<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let run = Self::new(Home::Caller);
        run.go_on(Todo::Visit(root), link, context);
    }

    /// Folds a piece, and goes on with what waits for it. A caller that has counted the piece
    /// counts one part as done when this has returned: the last one of all that the run comes to
    /// be. Not in here, where nodes, heaps and results are arguments that may borrow what is gone
    /// when the fold is over.
    pub(super) fn of_piece(
        piece: Arc<Piece<F, S>>,
        siblings: Siblings<F>,
        link: &Link<Shared<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) {
        let shared = link.get();
        if shared.team.has_failed() {
            unwind::discard(siblings);
            return Self::new(Home::Piece(piece)).give_up(link, context);
        }
        match unwind::contain(|| Self::begin(&shared.fold, siblings)) {
            // No more than a leaf: there is no need for a run.
            Ok(Ok(result)) => {
                if let Some(waiting) = Self::hand_in(piece, Results::One(result), link, context) {
                    waiting.take_up(link, context);
                }
            }
            Ok(Err(todo)) => Self::new(Home::Piece(piece)).go_on(todo, link, context),
            Err(payload) => {
                shared.team().fail(context, payload);
                Self::new(Home::Piece(piece)).give_up(link, context);
            }
        }
    }

    /// Begins with a piece: says what it comes to if it is a leaf, or what to do.
    fn begin(fold: &F, siblings: Siblings<F>) -> Result<F::Result, Todo<F>> {
        match siblings.into_only() {
            Ok(node) => match enter(fold, node) {
                (heap, _, None) => Ok(fold.finalize(heap)),
                (heap, children, child) => Err(Todo::Enter(heap, children, child)),
            },
            Err(siblings) => Err(Todo::Piece(siblings)),
        }
    }

    /// Goes on with a run that was left at a piece, on this worker.
    fn take_up(mut self, link: &Link<Shared<F, S>>, context: &WorkerContext<'_, '_>) {
        self.beat.restart();
        self.first_offer = true;
        self.go_on(Todo::Look, link, context);
    }

    /// Goes on until there is nothing more to do here; as [`of_piece`](Self::of_piece), the last
    /// part is left to the caller.
    fn go_on(
        mut self,
        mut todo: Todo<F>,
        link: &Link<Shared<F, S>>,
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
                End::Wait(piece) => {
                    // Who takes it up is on another worker, perhaps.
                    self.offers.clear();
                    // That one may come to the end of the fold, or to a panic after which the results are dropped by
                    // whoever has the piece last. So this worker is counted for itself until it has let go of it.
                    shared.team().add(context);
                    let back = piece.park(self);
                    unwind::discard(piece);
                    let Some(run) = back else {
                        return;
                    };
                    // It is done meanwhile, or never will be. It is counted for itself.
                    link.done(context);
                    if shared.team.has_failed() {
                        return run.give_up(link, context);
                    }
                    self = run;
                    todo = Todo::Look;
                    continue;
                }
                End::Results(results) => match (self.leave(), results) {
                    (Home::Piece(piece), results) => Self::hand_in(piece, results, link, context),
                    (Home::Caller, Results::One(result)) => {
                        shared.keep(result);
                        None
                    }
                    (Home::Caller, Results::Many(_)) => unreachable!("only pieces have several"),
                },
            };
            match waiting {
                Some(run) => self = run,
                None => return,
            }
            self.beat.restart();
            self.first_offer = true;
            todo = Todo::Look;
        }
    }

    /// A piece is folded. Gives back the run that waits for it, if there is one; then the piece has
    /// been counted as done.
    fn hand_in(
        piece: Arc<Piece<F, S>>,
        results: Results<F::Result>,
        link: &Link<Shared<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Option<Self> {
        let waiting = piece.complete(results);
        // If the giver has given up, the results end here.
        unwind::discard(piece);
        if waiting.is_some() {
            // Which is counted for itself.
            link.done(context);
        }
        waiting
    }

    /// The end of it: says where the result goes.
    ///
    /// After a panic, whoever lets go of a piece last drops its results, which may borrow from the caller. So every run
    /// lets go of all its pieces before it is counted as done.
    fn leave(&mut self) -> Home<F, S> {
        unwind::discard(mem::take(&mut self.offers));
        mem::replace(&mut self.home, Home::Caller)
    }

    /// Drops what there is, here and in all runs that wait for this one.
    #[cold]
    fn give_up(mut self, link: &Link<Shared<F, S>>, context: &WorkerContext<'_, '_>) {
        loop {
            // What nobody has begun with need not wait for somebody to come by. The newest first, as they lie.
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
            // The run that waited is counted for itself.
            link.done(context);
        }
    }

    fn drive(
        &mut self,
        mut todo: Todo<F>,
        link: &Link<Shared<F, S>>,
        shared: &Shared<F, S>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<End<F, S>, Stop> {
        let fold = &shared.fold;
        loop {
            let (heap, children, child) = match todo {
                Todo::Visit(node) => enter(fold, node),
                Todo::Enter(heap, children, child) => (heap, children, child),
                Todo::Piece(siblings) => {
                    let broken = Broken::of_piece(siblings);
                    self.stack.push(Frame::Broken(Box::new(broken)));
                    todo = Todo::Look;
                    continue;
                }
                Todo::Look => match self.look(fold, link, context)? {
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
                        self.consider(link, context)?;
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

    /// What to do about the innermost node, which is broken: go on with one of its children, or with the node
    /// itself, or end.
    fn look(
        &mut self,
        fold: &F,
        link: &Link<Shared<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Result<Todo<F>, End<F, S>>, Stop> {
        let mut broken = match self.stack.pop() {
            Some(Frame::Broken(broken)) => broken,
            Some(Frame::Given(heap, piece)) => {
                return Ok(self.look_at_given(fold, heap, piece, link, context));
            }
            _ => unreachable!("open nodes are gone on with"),
        };
        self.cursor = self.cursor.min(self.stack.len());
        loop {
            broken.merge(fold);
            let swept = match broken.next() {
                Next::Todo(at) => self.sweep_segment(fold, &mut broken, at),
                Next::Queued(at, piece) => {
                    if let Some(siblings) = piece.revoke() {
                        self.withdraw(&piece, link, context);
                        broken.take_back(at, siblings);
                    }
                    continue;
                }
                Next::Source if broken.is_whole() => {
                    let (heap, mut children) = broken.into_node();
                    let child = children.next();
                    return Ok(Ok(Todo::Enter(heap, children, child)));
                }
                Next::Source => self.sweep_source(fold, &mut broken),
                Next::Wait(piece) => {
                    self.stack.push(Frame::Broken(broken));
                    return Ok(Err(End::Wait(piece)));
                }
                Next::Nothing => {
                    return Ok(match broken.sink {
                        Sink::Results(results) => Err(End::Results(Results::Many(results))),
                        Sink::Heap(heap) => self.rise(fold, fold.finalize(heap)),
                    });
                }
            };
            let todo = match swept {
                Swept::Done => continue,
                Swept::Inner(heap, children, first) => Todo::Enter(heap, children, Some(first)),
                Swept::Due(node) => {
                    self.stack.push(Frame::Broken(broken));
                    self.consider(link, context)?;
                    return Ok(Ok(Todo::Visit(node)));
                }
            };
            self.stack.push(Frame::Broken(broken));
            return Ok(Ok(todo));
        }
    }

    /// What to do about the innermost node, if all that is left of its children is in one piece.
    fn look_at_given(
        &mut self,
        fold: &F,
        heap: F::Heap,
        piece: Arc<Piece<F, S>>,
        link: &Link<Shared<F, S>>,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Todo<F>, End<F, S>> {
        self.cursor = self.cursor.min(self.stack.len());
        // There may be one after the other.
        let soon = self.stack.len().checked_sub(SOON);
        if let Some(Frame::Given(_, piece)) = soon.map(|at| &self.stack[at]) {
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
                let mut sink = Sink::Heap(heap);
                sink.put_all(fold, results);
                let Sink::Heap(heap) = sink else {
                    unreachable!("it was one a moment ago")
                };
                self.rise(fold, fold.finalize(heap))
            }
            None => {
                self.stack.push(Frame::Given(heap, piece.clone()));
                Err(End::Wait(piece))
            }
        }
    }

    /// Hands a result to the node that is innermost now.
    fn rise(&mut self, fold: &F, mut result: F::Result) -> Result<Todo<F>, End<F, S>> {
        while let Some(&Frame::Line(nodes)) = self.stack.last() {
            self.stack.pop();
            result = self.rise_line(fold, nodes, result);
        }
        match self.stack.last_mut() {
            None => Err(End::Results(Results::One(result))),
            Some(Frame::Broken(broken)) => {
                broken.put(fold, result);
                Ok(Todo::Look)
            }
            Some(Frame::Given(heap, _)) => {
                fold.accumulate(heap, result);
                Ok(Todo::Look)
            }
            Some(_) => {
                let Some(Frame::Open(mut heap, mut children)) = self.stack.pop() else {
                    unreachable!("it is open or broken")
                };
                self.cursor = self.cursor.min(self.stack.len());
                fold.accumulate(&mut heap, result);
                let child = children.next();
                Ok(Todo::Enter(heap, children, child))
            }
        }
    }

    /// Folds leaves from the source of a broken node until there is something else to do, and marks where that is.
    fn sweep_source(&mut self, fold: &F, broken: &mut Broken<F, S>) -> Swept<F> {
        let Some(mut source) = broken.source.take() else {
            return Swept::Done;
        };
        let end = broken.segments.len();
        let mut results = broken.take_ready_before(end);
        let swept = self.sweep(fold, &mut source, |r| results.push(r));
        broken.put_ready_before(end, results);
        if !matches!(swept, Swept::Done) {
            broken.source = Some(source);
            broken.segments.push_back(Segment::Open);
        }
        swept
    }

    /// Folds the leaves of a segment until there is something else to do, and marks where that is.
    fn sweep_segment(&mut self, fold: &F, broken: &mut Broken<F, S>, at: usize) -> Swept<F> {
        let Segment::Todo(nodes) = &mut broken.segments[at] else {
            unreachable!("it was found a moment ago")
        };
        let mut nodes = mem::take(nodes);
        let mut at = at;
        let swept = if at == 0 && !S::AT_THE_END {
            match &mut broken.sink {
                Sink::Heap(heap) => self.sweep(fold, &mut nodes, |r| fold.accumulate(heap, r)),
                Sink::Results(results) => self.sweep(fold, &mut nodes, |r| results.push(r)),
            }
        } else {
            let mut results = broken.take_ready_before(at);
            let swept = self.sweep(fold, &mut nodes, |r| results.push(r));
            at = broken.put_ready_before(at, results);
            swept
        };
        broken.segments[at] = Segment::Todo(nodes);
        if let Swept::Done = swept {
            broken.segments.remove(at);
        } else {
            broken.segments.insert(at, Segment::Open);
        }
        swept
    }
}

/// Defects for the rehearsals: lets go of a piece when it is too late.
pub(super) fn late_drop<T>(late: Option<T>) {
    if late.is_some() {
        thread::point();
    }
}
