//! The strands of special plans; see `run`.
#![expect(unsafe_code, reason = "calls closures that are one worker's at a time")]

use super::{
    block::FirstTasks,
    context::{TaskContext, TaskEffects},
    edges::Successors,
    error::TaskFault,
    node::Release,
    run::GraphRun,
};
use crate::{
    base::{
        canary::{Canary, broken},
        unwind,
    },
    pool::context::WorkerContext,
};

impl GraphRun<'_> {
    /// Runs strands of a special plan that begin with these tasks.
    pub(super) fn strands_special(
        &self,
        context: &WorkerContext<'_, '_>,
        firsts: &impl FirstTasks,
    ) {
        let urgency = context.urgency();
        while let Some(first) = firsts.take() {
            self.strand_special(context, first, false);
            if urgency.is_raised() && !firsts.is_last() && self.should_yield(context) {
                return self.queue_all(context, firsts.take_remaining());
            }
        }
    }

    /// Runs a strand of a special plan.
    #[inline(never)]
    pub(super) fn strand_special(
        &self,
        context: &WorkerContext<'_, '_>,
        first: u32,
        admitted: bool,
    ) {
        let effects = TaskEffects::default();
        let cx = self.task_context(context, Some(&effects));
        cx.at.set(first);
        // A copy without these checks makes loops of conditions faster.
        let followed = if self.shape.needs.is_empty() && self.shape.recorder.is_none() {
            unwind::contain(|| self.follow_special::<false>(&cx, admitted))
        } else {
            unwind::contain(|| self.follow_special::<true>(&cx, admitted))
        };
        if let Err(payload) = followed {
            if !broken(Canary::GraphPermits) {
                self.release_resources(cx.index());
            }
            self.panicked(cx.index(), payload);
        }
        self.count(context, cx.ran.get());
    }

    /// `ALL`: the plan has semaphores, or a recorder.
    fn follow_special<const ALL: bool>(&self, cx: &TaskContext<'_, '_, '_>, mut admitted: bool) {
        let (context, urgency, conditions) =
            (cx.context, cx.context.urgency(), self.shape.has_conditions);
        let needs = ALL && !self.shape.needs.is_empty();
        let recorder = self.shape.recorder.as_ref().filter(|_| ALL);
        let mut next = Some(cx.at.get());
        while let Some(index) = next {
            let has_permits = std::mem::take(&mut admitted);
            cx.at.set(index);
            if self.stopped() {
                if has_permits {
                    self.release_permits(index);
                }
                return self.mark_incomplete();
            }
            if needs && !has_permits && !self.acquire(context, index) {
                return;
            }
            let node = &self.nodes[index as usize];
            if node.strong_predecessors() > 1 {
                self.join_counters[index as usize].rearm(node.strong_predecessors());
            }
            if conditions && !node.claim() {
                self.release_permits(index);
                return self.record_fault(index, TaskFault::Overlap);
            }
            let running = recorder.map(|to| to.begin(context, index));
            // SAFETY: this strand alone runs the task: the last of its predecessors has released
            // it, once; where there are conditions it has just been claimed.
            let then = unsafe { node.call(cx) };
            drop(running);
            if then == Release::Deferred {
                if let Some(after_return) =
                    cx.effects.and_then(|effects| effects.after_return.take())
                {
                    after_return(cx);
                }
                return;
            }
            if conditions {
                node.unclaim();
            }
            if needs {
                self.release_permits(index);
            }
            cx.ran.set(cx.ran.get() + 1);
            next = match then {
                Release::All => self.release_special(context, node.successors),
                Release::One(number) => node.successors.get(self.successor_list, number),
                Release::Chosen => self.release_chosen(cx, node.successors),
                Release::Deferred => None,
            };
            if let Some(index) = next
                && urgency.is_raised()
                && self.should_yield(context)
            {
                return self.queue(context, index);
            }
        }
    }

    /// Releases the claim and the permits of the running task.
    #[inline(always)]
    pub(super) fn release_resources(&self, index: u32) {
        if self.shape.has_conditions {
            self.nodes[index as usize].unclaim();
        }
        self.release_permits(index);
    }

    /// Like `release`, where tasks may be called again.
    pub(super) fn release_special(
        &self,
        context: &WorkerContext<'_, '_>,
        successors: Successors,
    ) -> Option<u32> {
        let mut next = None;
        for edge in successors.all(self.successor_list) {
            let ready = edge.is_only() || self.join_counters[edge.to() as usize].arrive_in_loop();
            if ready && let Some(other) = next.replace(edge.to()) {
                self.queue(context, other);
            }
        }
        next
    }

    /// Releases the successors that a condition has chosen.
    pub(super) fn release_chosen(
        &self,
        cx: &TaskContext<'_, '_, '_>,
        successors: Successors,
    ) -> Option<u32> {
        let chosen = cx
            .effects
            .map(|effects| effects.chosen.take())
            .unwrap_or_default();
        let mut next = None;
        for number in chosen {
            if let Some(successor) = successors.get(self.successor_list, number)
                && let Some(other) = next.replace(successor)
            {
                self.queue(cx.context, other);
            }
        }
        next
    }

    /// Completes a suspended task and releases its successors. The caller calls `done` next.
    pub(super) fn complete(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.release_resources(index);
        if let Some(to) = &self.shape.recorder {
            to.complete(index);
        }
        self.count(context, 1);
        let successors = self.nodes[index as usize].successors;
        if let Some(last) = self.release_special(context, successors) {
            self.queue(context, last);
        }
    }

    /// Gives up a suspended task that will not be completed: its future was dropped, or the run
    /// inside it did not finish.
    pub(super) fn abandon(&self, index: u32) {
        self.release_resources(index);
        self.mark_incomplete();
    }
}
