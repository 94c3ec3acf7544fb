//! The strands of plain plans, which are nothing but closures; see `run`.
//!
//! This is the loop that runs millions of tasks, so everything it needs is at hand: the tables are kept in registers, numbers are
//! not checked again, and a strand that is at its end goes on with the newest that it has queued, without a way back to the
//! pool.
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
    pool::context::WorkerContext,
};

/// The most successors that the owner of a run counts without locked instructions in one go.
const MOST_AT_ONCE: u32 = 64;

/// What a strand looks things up in. The plan has checked every number in it, and there is no other.
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
        // SAFETY: it comes from the plan, which knows only numbers of its own records.
        unsafe { self.nodes.get_unchecked(index as usize) }
    }

    /// In a plan in which some task waits for more than one.
    #[inline(always)]
    fn missing(self, index: u32) -> &'p PredecessorCount {
        debug_assert!((index as usize) < self.missing.len());
        // SAFETY: as in `node`; there are as many counters as records, if any task waits for more than one.
        unsafe { self.missing.get_unchecked(index as usize) }
    }

    #[inline(always)]
    fn edge(self, place: u32) -> Edge {
        debug_assert!((place as usize) < self.successors.len());
        // SAFETY: `Leads` are made together with the list.
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
    /// Runs some tasks, and what each of them leads to, one after the other.
    #[inline(always)]
    pub(super) fn strands(&self, context: &WorkerContext<'_, '_>, firsts: &impl Firsts) {
        let cx = self.context(context, None);
        let (goes_on, press) = (self.goes_on(context), context.urgency());
        while let Some(first) = firsts.take() {
            cx.at.set(first);
            // What is taken together is not queued, so it comes before what its strands have queued.
            cx.goes_on.set(goes_on && firsts.is_last());
            if let Err(payload) = unwind::contain(|| self.follow(&cx)) {
                self.panicked(cx.index(), payload);
            }
            if press.is_raised() && !firsts.is_last() && self.should_put_off(context) {
                self.queue_all(context, firsts.rest());
            }
        }
        self.count(context, cx.ran.get());
        match cx.spare.get() {
            0 => {}
            spare if cx.mine => self.pending.give_back_here(spare),
            spare => self.pending.give_back_elsewhere(spare),
        }
    }

    /// Whether a strand here may go on with another one. If the worker waits for something else, it wants to know soon when
    /// that has happened; a guest that may leave queues nothing, and what it has is not its own; and what is below a mark is
    /// not for those above it.
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
        // Plans in which nobody waits for more than one are worth a copy that does not count.
        if self.shape.joins {
            self.follow_by::<true>(cx);
        } else {
            self.follow_by::<false>(cx);
        }
    }

    #[inline(always)]
    fn follow_by<const JOINS: bool>(&self, cx: &Context<'_, '_, '_>) {
        let (tables, stop, alone) = (self.tables(), self.stop, self.shape.alone.is_some());
        let (mut index, press) = (cx.at.get(), cx.context.urgency());
        loop {
            // Relaxed: as in `stopped`.
            if stop.load(Ordering::Relaxed) {
                return self.cut();
            }
            let node = tables.node(index);
            if JOINS && node.waits_for() > 1 {
                tables.missing(index).rearm(node.waits_for());
            }
            // SAFETY: this task is ours: the last of its predecessors has released it, once.
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
            } else if press.is_raised() && self.put_off(cx, next) {
                return;
            }
            index = next;
            cx.at.set(index);
        }
    }

    /// A task is done: queues those of its successors for which it was the last one missing, but for one, to go on
    /// with. That is returned, or 0.
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
        // Whoever joins waits for the end of it, so it must be near.
        let few = leads.others < MOST_AT_ONCE;
        if few && cx.mine && self.biased.begin() {
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

    /// Queues a task. 0 is none.
    #[inline(always)]
    fn pass_on(&self, cx: &Context<'_, '_, '_>, index: u32) {
        if index == 0 {
            return;
        }
        let (job, spare) = (self.strand_job(index), cx.spare.get());
        if spare > 0 {
            cx.spare.set(spare - 1);
            cx.context.push(job);
        } else {
            self.push(cx.context, job);
        }
    }

    /// Queues the task that a strand would go on with, if it should.
    #[cold]
    fn put_off(&self, cx: &Context<'_, '_, '_>, next: u32) -> bool {
        let put_off = self.should_put_off(cx.context);
        if put_off {
            self.queue(cx.context, next);
        }
        put_off
    }

    /// Takes the newest task that this worker has queued, if it is one of this run: the strand goes on with it, and saves the
    /// way back to the pool. The strand that begins with it stays counted.
    #[inline(always)]
    fn newest(&self, cx: &Context<'_, '_, '_>) -> Option<u32> {
        thread::point();
        if !cx.goes_on.get() {
            return None;
        }
        let nodes = self.nodes.as_ptr_range();
        // Only strands point to records; in a plain plan they are all of one kind.
        let ours = |data: *const ()| nodes.contains(&data.cast());
        let data = cx.context.go_on_with(ours)?;
        cx.spare.set(cx.spare.get() + 1);
        Some(((data.addr() - nodes.start.addr()) / size_of::<Node>()) as u32)
    }
}
