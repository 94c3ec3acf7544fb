//! The types of the adaptive strategy, which contain one another: a run has open nodes and offers,
//! whose pieces hold the runs that wait for them.
//!
//! The behaviour is in the files beside this one: `run.rs` and `walk.rs`, `frame.rs`, `split.rs`,
//! `piece.rs`, `offer.rs`.

use super::pace::{CheckTimer, NodePace};
use crate::{
    base::sync::{AtomicBool, Mutex},
    engine::Mark,
    fold::{
        Fold,
        team::{HasTeam, StateRef, Team},
    },
};
use std::{
    collections::VecDeque,
    marker::PhantomData,
    sync::{Arc, PoisonError},
    vec,
};

/// The compile-time choices.
pub(in crate::fold) trait AdaptiveScheme: Send + Sync {
    /// Results are accumulated when all of them are there, instead of on arrival.
    const AT_THE_END: bool;
    /// Pushes for each wake of a sleeping worker; 0 for one wake in each batch.
    const WAKE_EVERY: u32;
}

/// The state that all runs of a fold share.
pub(super) struct AdaptiveState<F: Fold, S> {
    pub(super) team: Team,
    pub(super) fold: F,
    pub(super) pace: NodePace,
    pub(super) result: Mutex<Option<F::Result>>,
    pub(super) scheme: PhantomData<S>,
}

impl<F: Fold, S: AdaptiveScheme> AdaptiveState<F, S> {
    pub(super) fn store_result(&self, result: F::Result) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

impl<F: Fold, S: AdaptiveScheme> HasTeam for AdaptiveState<F, S> {
    fn team(&self) -> &Team {
        &self.team
    }
}

/// The open nodes of one worker, from the outermost to the innermost. It uses no native stack, so
/// that it can be left at a piece and continued by another worker.
pub(super) struct FoldRun<F: Fold, S: AdaptiveScheme> {
    pub(super) destination: Destination<F, S>,
    pub(super) stack: Vec<OpenNode<F, S>>,
    /// The accumulators of nodes with an only child, see [`OpenNode::Chain`].
    pub(super) chain_accs: Vec<F::Accumulator>,
    /// The nodes below this index on the stack have no children to offer.
    pub(super) cursor: usize,
    /// Oldest first.
    pub(super) offers: Vec<Offer<F, S>>,
    pub(super) timer: CheckTimer,
    /// This worker has not offered anything yet.
    pub(super) first_offer: bool,
}

/// Where the result goes.
pub(super) enum Destination<F: Fold, S: AdaptiveScheme> {
    /// To the caller.
    Caller,
    Piece(Arc<OfferedPiece<F, S>>),
}

/// The fold has failed with a panic of some worker.
pub(super) struct FoldStopped;

/// A node whose children are being folded, or several such nodes.
pub(super) enum OpenNode<F: Fold, S: AdaptiveScheme> {
    Open(F::Accumulator, F::Children),
    /// This number of nodes, each the only child of the one before, whose accumulators are the last
    /// ones of [`chain_accs`](FoldRun::chain_accs). They never have children to offer, so
    /// only the accumulators are stored.
    Chain(usize),
    /// All remaining children are in one piece.
    Offered(F::Accumulator, Arc<OfferedPiece<F, S>>),
    /// All other cases in which children are offered.
    Split(Box<SplitNode<F, S>>),
    /// The temporary state during a change.
    Placeholder,
}

/// The children from the first one on whose result is not in the sink: some segments, and the rest
/// of the source.
pub(super) struct SplitNode<F: Fold, S: AdaptiveScheme> {
    pub(super) sink: ResultSink<F>,
    pub(super) segments: VecDeque<ChildSegment<F, S>>,
    pub(super) source: Option<F::Children>,
    /// The size of the last batch that was taken from the source, if its length is unknown.
    pub(super) batch: usize,
}

/// Where the results go, in order.
pub(super) enum ResultSink<F: Fold> {
    Accumulator(F::Accumulator),
    /// For a piece, which has no accumulator of its own.
    Results(Vec<F::Result>),
}

/// Some adjacent children.
pub(super) enum ChildSegment<F: Fold, S: AdaptiveScheme> {
    /// They are done, but some before them are not.
    Ready(Vec<F::Result>),
    /// A child that is being folded, by the run that owns this.
    Open,
    Offered(Arc<OfferedPiece<F, S>>),
    /// Not begun, and not offered.
    Unstarted(vec::IntoIter<F::Node>),
}

/// Some adjacent siblings that any worker may fold.
///
/// The worker that split them off, the *splitter*, continues with other nodes. When it reaches the
/// place where the results belong, there are three cases: the results are there; or no worker has
/// begun and the splitter takes the siblings back; or a worker is folding them. In the last case
/// the splitter leaves its whole run here, and the worker that finishes the piece continues with
/// it. So no worker ever blocks.
///
/// Aligned as a job requires.
#[repr(align(8))]
pub(super) struct OfferedPiece<F: Fold, S: AdaptiveScheme> {
    pub(super) shared: StateRef<AdaptiveState<F, S>>,
    /// The worker that split it off before the weight of the nodes was known, and when.
    pub(super) fresh: Option<(usize, u64)>,
    /// A worker has begun with it, or the splitter has revoked it. For the splitter, which checks
    /// often.
    pub(super) taken: AtomicBool,
    /// It is folded. For the splitter too.
    pub(super) done: AtomicBool,
    pub(super) state: Mutex<PieceState<F, S>>,
}

/// The contents of a piece: some nodes, and then those in the iterator.
pub(super) struct Siblings<F: Fold> {
    pub(super) nodes: Vec<F::Node>,
    pub(super) source: Option<F::Children>,
}

/// The progress of a piece.
pub(super) enum PieceState<F: Fold, S: AdaptiveScheme> {
    Queued(Siblings<F>),
    Running,
    /// It is running, and the splitter's run waits for it. Boxed, since this is rare and runs are
    /// large.
    Awaited(Box<FoldRun<F, S>>),
    Done(Results<F::Result>),
    /// Revoked, or given up after a panic, or its results were taken.
    Over,
}

/// The results of a piece.
pub(super) enum Results<R> {
    One(R),
    Many(Vec<R>),
}

/// An offer in the queue of this worker.
pub(super) struct Offer<F: Fold, S: AdaptiveScheme> {
    /// The piece, or the outermost of the bundle. The worker that takes the offer begins with it at
    /// once.
    pub(super) first: Arc<OfferedPiece<F, S>>,
    /// The others, in a bundle.
    pub(super) tail: Option<BundleTail<F, S>>,
    pub(super) mark: Option<Mark>,
}

/// The other pieces of a bundle.
pub(super) struct BundleTail<F: Fold, S: AdaptiveScheme> {
    /// The innermost.
    pub(super) last: Arc<OfferedPiece<F, S>>,
    pub(super) bundle: Arc<Bundle<F, S>>,
}

/// Pieces in one entry of the queue, from the outermost to the innermost.
///
/// If the outermost children are single leaves, a thief finishes one before the splitter's next
/// check. So several are offered at a time. Each is a separate piece: the splitter, which works
/// from the inside, takes back untaken pieces until the two meet.
///
/// A bundle may outlive the fold, in a queue or with a worker that has just taken it. So it
/// contains no piece that a worker has begun: a worker removes a piece from the bundle before it
/// begins it. The others are revoked by then.
///
/// Aligned as a job requires.
#[repr(align(8))]
pub(super) struct Bundle<F: Fold, S: AdaptiveScheme>(
    pub(super) Mutex<vec::IntoIter<Arc<OfferedPiece<F, S>>>>,
);
