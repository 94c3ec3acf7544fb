//! The operations of strands in special plans besides calling closures; see `run`.

use super::{context::Context, edges::Leads, run::Run};
use crate::pool::context::WorkerContext;

impl Run<'_> {
    /// Releases the claim and the permits of the running task.
    #[inline(always)]
    pub(super) fn leave(&self, index: u32) {
        if self.shape.conditions {
            self.nodes[index as usize].unclaim();
        }
        self.give_back(index);
    }

    /// Like `release`, where tasks may be called again.
    pub(super) fn release_special(
        &self,
        context: &WorkerContext<'_, '_>,
        leads: Leads,
    ) -> Option<u32> {
        let mut next = None;
        for edge in leads.all(self.successors) {
            let ready = edge.is_only() || self.missing[edge.to() as usize].arrive_often();
            if ready && let Some(other) = next.replace(edge.to()) {
                self.queue(context, other);
            }
        }
        next
    }

    /// Releases the successors that a condition has chosen.
    pub(super) fn lead(&self, cx: &Context<'_, '_, '_>, leads: Leads) -> Option<u32> {
        let chosen = cx.left.map(|left| left.chosen.take()).unwrap_or_default();
        let mut next = None;
        for number in chosen {
            if let Some(successor) = leads.get(self.successors, number)
                && let Some(other) = next.replace(successor)
            {
                self.queue(cx.context, other);
            }
        }
        next
    }

    /// Completes a held task and releases its successors. The caller calls `done` next.
    pub(super) fn complete(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.leave(index);
        if let Some(to) = &self.shape.recorder {
            to.complete(index);
        }
        self.count(context, 1);
        let leads = self.nodes[index as usize].leads;
        if let Some(last) = self.release_special(context, leads) {
            self.queue(context, last);
        }
    }

    /// Gives up a held task that will not be completed: its future was dropped, or the run inside
    /// of it did not finish.
    pub(super) fn abandon(&self, index: u32) {
        self.leave(index);
        self.cut();
    }
}
