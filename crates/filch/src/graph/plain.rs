//! The strands of plain plans, which consist of closures only; see `run`.
//!
//! This is the loop that runs millions of tasks, so it is optimised: the tables are kept in
//! registers, indices are not checked again, and a strand that has no successor to run continues
//! with the newest task that it has queued, without returning to the pool.
#![expect(
    unsafe_code,
    reason = "calls closures that are one worker's at a time, and looks up numbers that the plan has checked"
)]

use super::{
    block::Firsts,
    context::Context,
    edges::{Edge, Leads},
    node::{Node, Then},
    predecessor_count::PredecessorCount,
    run::Run,
};
use crate::{
    base::{sync::Ordering, thread, unwind},
    engine::Placement,
    pool::{context::WorkerContext, pending_group::PendingGroup},
};

/// Maximum number of successors that the owner of a run counts without locked instructions between
/// `BiasedCount::begin` and `end`.
const MAX_BIASED_SUCCESSORS: u32 = 64;

/// The tables of a strand. The plan has checked every index that is stored in them.
#[derive(Clone, Copy)]
struct Tables<'p> {
    nodes: &'p [Node],
    missing: &'p [PredecessorCount],
    successors: &'p [Edge],
}

impl<'p> Tables<'p> {
    #[inline(always)]
    fn node(self, index: u32) -> &'p Node {
        debug_assert!((index as usize) < self.nodes.len());
        // SAFETY: the index comes from the plan, which contains only numbers of its own records.
        unsafe { self.nodes.get_unchecked(index as usize) }
    }

    /// Requires a plan in which some task waits for more than one other.
    #[inline(always)]
    fn missing(self, index: u32) -> &'p PredecessorCount {
        debug_assert!((index as usize) < self.missing.len());
        // SAFETY: as in `node`; there are as many counters as records, if any task waits for more
        // than one.
        unsafe { self.missing.get_unchecked(index as usize) }
    }

    #[inline(always)]
    fn edge(self, place: u32) -> Edge {
        debug_assert!((place as usize) < self.successors.len());
        // SAFETY: `Leads` are made together with the list, and refer to positions in it only.
        unsafe { *self.successors.get_unchecked(place as usize) }
    }
}

impl<'p> Run<'p> {
    #[inline(always)]
    fn tables(&self) -> Tables<'p> {
        Tables {
            nodes: self.nodes,
            missing: self.missing,
            successors: self.successors,
        }
    }
}

impl Run<'_> {
    /// Runs some tasks, and the tasks that each of them releases, one after the other.
    #[inline(always)]
    pub(super) fn strands(&self, context: &WorkerContext<'_, '_>, firsts: &impl Firsts) {
        let cx = self.context(context, None);
        let (goes_on, urgency) = (self.goes_on(context), context.urgency());
        while let Some(first) = firsts.take() {
            cx.at.set(first);
            // Sources that are taken together are not queued, so they run before what their strands
            // have queued.
            cx.goes_on.set(goes_on && firsts.is_last());
            if let Err(payload) = unwind::contain(|| self.follow(&cx)) {
                self.panicked(cx.index(), payload);
            }
            if urgency.is_raised() && !firsts.is_last() && self.should_put_off(context) {
                self.queue_all(context, firsts.rest());
            }
        }
        self.count(context, cx.ran.get());
        match cx.spare.get() {
            0 => {}
            spare if cx.is_owner => self.pending.give_back_here(spare),
            spare => self.pending.give_back_elsewhere(spare),
        }
    }

    /// Whether a strand here may continue with a queued task. It may not if the worker waits for
    /// another event, which it should notice soon. A guest that may leave queues nothing itself,
    /// and its queue holds jobs of others. And a wait above a mark must not run jobs below it.
    #[inline(always)]
    fn goes_on(&self, context: &WorkerContext<'_, '_>) -> bool {
        let wait_target = if self.is_owner(context) {
            context.is_wait_target(&self.pending)
        } else {
            context.is_outermost() && !context.is_guest()
        };
        wait_target && !context.has_isolated_waits()
    }

    #[inline(always)]
    fn follow(&self, cx: &Context<'_, '_, '_>) {
        // A copy without counting makes plans faster in which no task waits for more than one
        // other.
        if self.shape.joins {
            self.follow_by::<true>(cx);
        } else {
            self.follow_by::<false>(cx);
        }
    }

    #[inline(always)]
    fn follow_by<const JOINS: bool>(&self, cx: &Context<'_, '_, '_>) {
        let (tables, stop, alone) = (self.tables(), self.stop, self.shape.alone.is_some());
        let (mut index, urgency) = (cx.at.get(), cx.context.urgency());
        loop {
            // Relaxed: as in `stopped`.
            if stop.load(Ordering::Relaxed) {
                return self.cut();
            }
            let node = tables.node(index);
            if JOINS && node.waits_for() > 1 {
                tables.missing(index).rearm(node.waits_for());
            }
            // SAFETY: this strand alone runs the task: the last of its predecessors has released
            // it, once.
            let then = unsafe { node.call(cx) };
            debug_assert_eq!(then, Then::All);
            cx.ran.set(cx.ran.get() + 1);
            if alone {
                cx.context.count_step();
            }
            let mut next = self.release::<JOINS>(cx, tables, node.leads);
            if next == 0 {
                next = match self.newest(cx) {
                    Some(next) => next,
                    None => return,
                };
            } else if urgency.is_raised() && self.put_off(cx, next) {
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
        cx: &Context<'_, '_, '_>,
        tables: Tables<'_>,
        leads: Leads,
    ) -> u32 {
        if leads.others == 0 && (leads.last.is_only() || leads.last.is_none()) {
            return leads.last.to();
        }
        if !JOINS {
            return self.release_by(|_| true, cx, tables, leads);
        }
        // A worker that joins spins until `end`, so it must follow soon.
        let few = leads.others < MAX_BIASED_SUCCESSORS;
        if few && cx.is_owner && self.biased.begin() {
            let next = self.release_by(|to| tables.missing(to).arrive_alone(), cx, tables, leads);
            self.biased.end();
            return next;
        }
        self.release_by(|to| tables.missing(to).arrive(), cx, tables, leads)
    }

    #[inline(always)]
    fn release_by(
        &self,
        arrive: impl Fn(u32) -> bool,
        cx: &Context<'_, '_, '_>,
        tables: Tables<'_>,
        leads: Leads,
    ) -> u32 {
        let ready = |edge: Edge| edge.is_only() || arrive(edge.to());
        let mut next = 0;
        for number in 0..leads.others {
            let edge = tables.edge(leads.first + number);
            if ready(edge) {
                self.pass_on(cx, next);
                next = edge.to();
            }
        }
        if ready(leads.last) {
            self.pass_on(cx, next);
            next = leads.last.to();
        }
        next
    }

    /// Queues a task. 0 means none.
    #[inline(always)]
    fn pass_on(&self, cx: &Context<'_, '_, '_>, index: u32) {
        if index == 0 {
            return;
        }
        let (job, spare) = (self.strand_job(index), cx.spare.get());
        if spare > 0 {
            cx.spare.set(spare - 1);
            cx.context.push(job, Placement::Local);
        } else {
            self.push(cx.context, job);
        }
    }

    /// Queues the task that a strand would continue with, if urgent work should run first. Returns
    /// whether it did.
    #[cold]
    fn put_off(&self, cx: &Context<'_, '_, '_>, next: u32) -> bool {
        let put_off = self.should_put_off(cx.context);
        if put_off {
            self.queue(cx.context, next);
        }
        put_off
    }

    /// Takes the newest task that this worker has queued, if it belongs to this run. The strand
    /// continues with it, without returning to the pool. The strand that it would have begun stays
    /// counted as pending.
    #[inline(always)]
    fn newest(&self, cx: &Context<'_, '_, '_>) -> Option<u32> {
        thread::point();
        if !cx.goes_on.get() {
            return None;
        }
        let nodes = self.nodes.as_ptr_range();
        // Only strand jobs point to records, and in a plain plan they are all of one kind.
        let ours = |data: *const ()| nodes.contains(&data.cast());
        let data = cx.context.continue_with(ours)?;
        cx.spare.set(cx.spare.get() + 1);
        Some(((data.addr() - nodes.start.addr()) / size_of::<Node>()) as u32)
    }
}
