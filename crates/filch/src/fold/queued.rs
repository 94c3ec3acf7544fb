//! A task for each node, in queues of a [`Strategy`] that the program has chosen.
//!
//! The nodes that wait are in a store of the strategy. A worker that *takes part* in the fold has a
//! handle of the store. It folds nodes until it finds none, and leaves. A worker that queues a node
//! requests help: a job of the pool, one at a time, whose worker takes part too, and requests more
//! help while it finds more nodes.
//!
//! **No node is left behind.** A worker that has queued a node takes part until it finds nothing
//! more, and `pop` returns what it has pushed itself. Every worker that takes part is counted in
//! the team, so the fold does not end before the last one has left.
//!
//! **A worker has one handle at a time**, as the engine promises to strategies. A function of the
//! fold may wait, and the wait may run the help job of the same fold on this stack. That job ends
//! at once; the worker requests help again with its next node.
//!
//! Strategies are safe code, which may drop a node or keep it. Then the results of its family are
//! never complete, and the fold reports that after all workers have left.

use super::{
    Fold,
    family::ResultTarget,
    help::HelpRequest,
    tasks::walk,
    team::{HasTeam, StateRef, Team},
};
use crate::{
    base::{
        rng::Rng,
        sync::{AtomicBool, Ordering},
        thread, unwind,
    },
    engine::{Acquired, Distances, Hunt, Placement, Queue, Strategy, Victims},
    pool::context::WorkerContext,
};
use std::sync::{Mutex, PoisonError};

/// The number of attempts of one search in the queues of other workers.
const SEARCH_TRIES: usize = 8;

/// A node that waits in the strategy's store, and where its result goes.
struct QueuedNode<F: Fold> {
    target: ResultTarget<F>,
    node: F::Node,
}

/// The state that all workers of a fold share.
struct QueuedState<F: Fold, Q: Strategy> {
    team: Team,
    fold: F,
    at_the_end: bool,
    store: Q::Store<QueuedNode<F>>,
    help: HelpRequest,
    /// For each worker of the pool: whether it takes part, in an older frame of its stack.
    taking_part: Box<[AtomicBool]>,
    result: Mutex<Option<F::Result>>,
}

impl<F: Fold, Q: Strategy> HasTeam for QueuedState<F, Q> {
    fn team(&self) -> &Team {
        &self.team
    }
}

/// Folds the tree below `root`.
pub(super) fn fold<F: Fold, Q: Strategy>(
    context: &WorkerContext<'_, '_>,
    fold: F,
    root: F::Node,
    at_the_end: bool,
) -> F::Result {
    let workers = context.pool().core().workers();
    let store = match Q::store(&Q::Spec::default(), workers) {
        Ok(store) => store,
        Err(error) => panic!("the fold's queue strategy refuses its default settings: {error}"),
    };
    let make = |team| QueuedState::<F, Q> {
        team,
        fold,
        at_the_end,
        store,
        help: HelpRequest::default(),
        taking_part: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        result: Mutex::new(None),
    };
    let shared = Team::scope(context, make, |shared| {
        let state_ref = StateRef::new(shared);
        let target = ResultTarget::root();
        take_part(&state_ref, context, Some(QueuedNode { target, node: root }));
        state_ref.done(context);
    });
    let result = shared.result.into_inner();
    result
        .unwrap_or_else(PoisonError::into_inner)
        .expect("the fold's queue strategy must return every task that it accepts")
}

/// Folds `first` and the nodes that this worker finds in the store, until there are none.
fn take_part<F: Fold, Q: Strategy>(
    state_ref: &StateRef<QueuedState<F, Q>>,
    context: &WorkerContext<'_, '_>,
    first: Option<QueuedNode<F>>,
) {
    let (shared, worker) = (state_ref.get(), context.worker());
    let taking_part = &shared.taking_part[worker];
    // Relaxed, twice: only the thread that is this worker uses the flag.
    if taking_part.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut handle = unwind::or_abort(|| Q::handle(&shared.store, worker));
    unwind::or_abort(|| handle.busy());
    let mut victims = Victims::new(&Distances::flat(shared.taking_part.len()), worker);
    let mut rng = Rng::new(worker as u64);
    // Nodes for which the queue has no room.
    let mut refused: Vec<_> = first.into_iter().collect();
    loop {
        let found = unwind::or_abort(|| match refused.pop() {
            Some(node) => Some(node),
            None => find(&mut handle, &mut victims, &mut rng, &mut refused),
        });
        let Some(node) = found else { break };
        if !shared.help.is_made() && unwind::or_abort(|| Q::has_work(&shared.store)) {
            request_help(state_ref, context);
        }
        visit(state_ref, context, node, &mut handle, &mut refused);
        context.leaf_checkpoint();
    }
    unwind::or_abort(|| {
        handle.idle();
        drop(handle);
    });
    // Relaxed: as above.
    taking_part.store(false, Ordering::Relaxed);
}

/// Takes a node: of this worker, else of another one, else one that only the handle has, since the
/// worker will leave. More of those go to `rest`.
fn find<T>(
    handle: &mut impl Queue<T>,
    victims: &mut Victims,
    rng: &mut Rng,
    rest: &mut Vec<T>,
) -> Option<T> {
    loop {
        if let Some(node) = handle.pop() {
            return Some(node);
        }
        match handle.try_acquire(&mut Hunt::new(victims, rng, SEARCH_TRIES)) {
            Acquired::Task { task, .. } => return Some(task),
            Acquired::Unfinished => thread::yield_now(),
            // Workers that asked to be spared fold their nodes themselves.
            Acquired::Nothing | Acquired::Spared => break,
        }
    }
    handle.drain_own(|node| rest.push(node));
    rest.pop()
}

/// Folds a node, its first child, and so on, and queues the other children.
fn visit<F: Fold, Q: Strategy>(
    state_ref: &StateRef<QueuedState<F, Q>>,
    context: &WorkerContext<'_, '_>,
    node: QueuedNode<F>,
    handle: &mut impl Queue<QueuedNode<F>>,
    refused: &mut Vec<QueuedNode<F>>,
) {
    let shared = state_ref.get();
    if shared.team.has_failed() {
        return unwind::discard((node.target, node.node));
    }
    let queue = |target, node| {
        let pushed = unwind::or_abort(|| handle.push(QueuedNode { target, node }));
        match pushed {
            Ok(()) => request_help(state_ref, context),
            Err(node) => refused.push(node),
        }
    };
    let QueuedNode { target, node } = node;
    match unwind::contain(|| walk(&shared.fold, shared.at_the_end, target, node, queue)) {
        Ok(None) => {}
        Ok(whole) => *shared.result.lock().unwrap_or_else(PoisonError::into_inner) = whole,
        Err(payload) => shared.team.fail(context, payload),
    }
}

/// Requests that one more worker takes part, unless a help job is queued already.
fn request_help<F: Fold, Q: Strategy>(
    state_ref: &StateRef<QueuedState<F, Q>>,
    context: &WorkerContext<'_, '_>,
) {
    if state_ref.get().help.make() {
        let help = |state_ref: &StateRef<QueuedState<F, Q>>, context: &WorkerContext<'_, '_>| {
            state_ref.get().help.take();
            take_part(state_ref, context, None);
        };
        Team::spawn(state_ref, context, help, Placement::Local);
    }
}
