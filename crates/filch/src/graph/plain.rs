//! The strands of plain plans, which consist of closures only; see `run`.
//!
//! This is the loop that runs millions of tasks, so it is optimised: the tables are kept in
//! registers, indices are not checked again, and a strand that has no successor to run continues
//! with the newest task that it has queued, without returning to the pool.
#![expect(
    unsafe_code,
    reason = "calls closures that are one worker's at a time, and indexes with numbers that the plan has checked"
)]

use super::{
    block::FirstTasks,
    context::TaskContext,
    edges::{Edge, Successors},
    join_counter::JoinCounter,
    node::{Release, TaskNode},
    run::GraphRun,
};
use crate::{
    base::{sync::Ordering, thread, unwind},
    engine::Placement,
    pool::{context::WorkerContext, pending_group::PendingGroup},
};

/// Maximum number of successors that the owner of a run counts without locked instructions between
/// `CounterBias::begin` and `end`.
const MAX_BIASED_SUCCESSORS: u32 = 64;

/// The tables of a strand. The plan has checked every index that is stored in them.
#[derive(Clone, Copy)]
struct Tables<'p> {
    nodes: &'p [TaskNode],
    join_counters: &'p [JoinCounter],
    successor_list: &'p [Edge],
}

impl<'p> Tables<'p> {
    #[inline(always)]
    fn node(self, index: u32) -> &'p TaskNode {
        debug_assert!((index as usize) < self.nodes.len());
        // SAFETY: the index comes from the plan, which contains only numbers of its own records.
        unsafe { self.nodes.get_unchecked(index as usize) }
    }

    /// Requires a plan in which some task waits for more than one other.
    #[inline(always)]
    fn join_counter(self, index: u32) -> &'p JoinCounter {
        debug_assert!((index as usize) < self.join_counters.len());
        // SAFETY: as in `node`; there are as many counters as records, if any task waits for more
        // than one.
        unsafe { self.join_counters.get_unchecked(index as usize) }
    }

    #[inline(always)]
    fn edge(self, at: u32) -> Edge {
        debug_assert!((at as usize) < self.successor_list.len());
        // SAFETY: `Successors` are made together with the list, and refer to positions in it only.
        unsafe { *self.successor_list.get_unchecked(at as usize) }
    }
}

impl<'p> GraphRun<'p> {
    #[inline(always)]
    fn tables(&self) -> Tables<'p> {
        Tables {
            nodes: self.nodes,
            join_counters: self.join_counters,
            successor_list: self.successor_list,
        }
    }
}

impl GraphRun<'_> {
    /// Runs some tasks, and the tasks that each of them releases, one after the other.
    #[inline(always)]
    pub(super) fn strands(&self, context: &WorkerContext<'_, '_>, firsts: &impl FirstTasks) {
        let continued = self.strands_counted(context, firsts);
        self.done_with_more(context, continued);
    }

    /// As [`strands`](Self::strands), but returns how many strands it has continued with that are
    /// counted as pending.
    #[inline(always)]
    pub(super) fn strands_counted(
        &self,
        context: &WorkerContext<'_, '_>,
        firsts: &impl FirstTasks,
    ) -> u32 {
        let cx = self.task_context(context, None);
        if self.has_time_slice(context) {
            self.strands_of::<true>(&cx, firsts);
        } else {
            self.strands_of::<false>(&cx, firsts);
        }
        cx.precounted.get()
    }

    /// `LIMITED`: the strand ends when the turn of its thread is over, and after one task if it is
    /// served at a checkpoint.
    #[inline(always)]
    fn strands_of<const LIMITED: bool>(
        &self,
        cx: &TaskContext<'_, '_, '_>,
        firsts: &impl FirstTasks,
    ) {
        let context = cx.context;
        let (may_continue, urgency) = (self.may_continue(context), context.urgency());
        while let Some(first) = firsts.take() {
            cx.at.set(first);
            // Sources that are taken together are not queued, so they run before what their strands
            // have queued.
            cx.may_continue.set(may_continue && firsts.is_last());
            if let Err(payload) = unwind::contain(|| self.follow::<LIMITED>(cx)) {
                self.panicked(cx.index(), payload);
            }
            if (LIMITED || urgency.is_raised()) && !firsts.is_last() && self.should_yield(context) {
                self.queue_all(context, firsts.take_remaining());
            }
        }
        self.count(context, cx.ran.get());
    }

    /// Whether a strand here may continue with a queued task. It may not if the worker waits for
    /// another event, which it should notice soon. The run that this one is inside of is no such
    /// event. A guest that may leave queues nothing itself, and its queue holds jobs of others. And
    /// an isolated wait must not run jobs that were queued before it began.
    #[inline(always)]
    fn may_continue(&self, context: &WorkerContext<'_, '_>) -> bool {
        let is_awaited = if self.is_owner(context) {
            context.is_wait_target(&raw const self.pending)
        } else {
            context.is_outermost() && !context.is_temporary()
        };
        let is_awaited =
            is_awaited || !self.waiter.is_null() && context.is_wait_target(self.waiter);
        is_awaited && !context.has_restricted_waits()
    }

    #[inline(always)]
    fn follow<const LIMITED: bool>(&self, cx: &TaskContext<'_, '_, '_>) {
        // A copy without counting makes plans faster in which no task waits for more than one
        // other.
        if self.shape.has_joins {
            self.follow_by::<true, LIMITED>(cx);
        } else {
            self.follow_by::<false, LIMITED>(cx);
        }
    }

    #[inline(always)]
    fn follow_by<const JOINS: bool, const LIMITED: bool>(&self, cx: &TaskContext<'_, '_, '_>) {
        let (tables, stop, has_hint) = (
            self.tables(),
            self.stop,
            self.shape.sequential_hint.is_some(),
        );
        let (mut index, urgency) = (cx.at.get(), cx.context.urgency());
        loop {
            // Relaxed: as in `stopped`.
            if stop.load(Ordering::Relaxed) {
                return self.mark_skipped(index);
            }
            let node = tables.node(index);
            if JOINS && node.strong_predecessors() > 1 {
                tables.join_counter(index).rearm(node.strong_predecessors());
            }
            // SAFETY: this strand alone runs the task: the last of its predecessors has released
            // it, once.
            let then = unsafe { node.call(cx) };
            // The task that has failed has stopped the run, so what it releases does not run.
            debug_assert!(matches!(then, Release::All | Release::Failed));
            cx.ran.set(cx.ran.get() + 1);
            if has_hint {
                cx.context.count_step();
            }
            let mut next = self.release::<JOINS>(cx, tables, node.successors);
            if next == 0 {
                next = match self.pop_newest(cx) {
                    Some(next) => next,
                    None => return,
                };
            } else if (LIMITED || urgency.is_raised()) && self.yield_to_urgent(cx, next) {
                return;
            }
            index = next;
            cx.at.set(index);
        }
    }

    /// Releases the successors of a task that is done: queues those for which it was the last
    /// missing predecessor, except for one. Returns that one, to continue with, or 0.
    #[inline(always)]
    fn release<const JOINS: bool>(
        &self,
        cx: &TaskContext<'_, '_, '_>,
        tables: Tables<'_>,
        successors: Successors,
    ) -> u32 {
        if successors.others == 0 && (successors.last.is_only() || successors.last.is_none()) {
            return successors.last.to();
        }
        if !JOINS {
            return self.release_by(|_| true, cx, tables, successors);
        }
        // A worker that revokes the bias spins until `end`, so that must follow soon.
        let few = successors.others < MAX_BIASED_SUCCESSORS;
        if few && cx.is_owner && self.bias.begin() {
            let next = self.release_by(
                |to| tables.join_counter(to).arrive_biased(),
                cx,
                tables,
                successors,
            );
            self.bias.end();
            return next;
        }
        self.release_by(
            |to| tables.join_counter(to).arrive(),
            cx,
            tables,
            successors,
        )
    }

    #[inline(always)]
    fn release_by(
        &self,
        arrive: impl Fn(u32) -> bool,
        cx: &TaskContext<'_, '_, '_>,
        tables: Tables<'_>,
        successors: Successors,
    ) -> u32 {
        let ready = |edge: Edge| edge.is_only() || arrive(edge.to());
        let mut next = 0;
        for number in 0..successors.others {
            let edge = tables.edge(successors.first + number);
            if ready(edge) {
                self.queue_released(cx, next);
                next = edge.to();
            }
        }
        if ready(successors.last) {
            self.queue_released(cx, next);
            next = successors.last.to();
        }
        next
    }

    /// Queues a task. 0 means none.
    #[inline(always)]
    fn queue_released(&self, cx: &TaskContext<'_, '_, '_>, index: u32) {
        if index == 0 {
            return;
        }
        let precounted = cx.precounted.get();
        if precounted > 0 {
            cx.precounted.set(precounted - 1);
            cx.context.push(self.strand_job(index), Placement::Local);
        } else {
            self.push_new_strand(cx.context, index);
        }
    }

    /// Outlined: a strand reuses the counts of the strands that it continued in most cases, and
    /// inlined here this path makes the loop spill the successor that the next task depends on.
    #[inline(never)]
    fn push_new_strand(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.push(context, self.strand_job(index));
    }

    /// Queues the task that a strand would continue with, if urgent work should run first. Returns
    /// whether it did.
    #[cold]
    fn yield_to_urgent(&self, cx: &TaskContext<'_, '_, '_>, next: u32) -> bool {
        let yield_to_urgent = self.should_yield(cx.context);
        if yield_to_urgent {
            self.queue(cx.context, next);
        }
        yield_to_urgent
    }

    /// Takes the newest task that this worker has queued, if it belongs to this run. The strand
    /// continues with it, without returning to the pool. The strand that it would have begun stays
    /// counted as pending.
    #[inline(always)]
    pub(super) fn pop_newest(&self, cx: &TaskContext<'_, '_, '_>) -> Option<u32> {
        thread::point();
        if !cx.may_continue.get() {
            return None;
        }
        let next = self.pop_own(cx.context)?;
        cx.precounted.set(cx.precounted.get() + 1);
        Some(next)
    }

    /// As [`pop_newest`](Self::pop_newest), where that is known to be allowed. The caller counts
    /// the strand.
    #[inline(always)]
    pub(super) fn pop_own(&self, context: &WorkerContext<'_, '_>) -> Option<u32> {
        let nodes = self.nodes.as_ptr_range();
        // Only strand jobs point to records, and they are all of one kind, except where tasks have
        // semaphores.
        let ours = |data: *const ()| nodes.contains(&data.cast());
        let data = context.continue_with(ours)?;
        Some(((data.addr() - nodes.start.addr()) / size_of::<TaskNode>()) as u32)
    }
}
