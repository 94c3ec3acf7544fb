//! What the strands of special plans do besides calling closures; see `run`.

use super::{context::Context, edges::Leads, run::Run};
use crate::pool::context::WorkerContext;

impl Run<'_> {
    /// Gives back what the running task has.
    #[inline(always)]
    pub(super) fn leave(&self, context: &WorkerContext<'_, '_>, index: u32) {
        if self.shape.conditions {
            self.nodes[index as usize].unclaim();
        }
        self.give_back(context, index);
    }

    /// The same as `release`, where tasks may be called again.
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

    /// A condition has chosen some of its successors.
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

    /// A task that was held is done; `done` comes next.
    pub(super) fn complete(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.leave(context, index);
        if let Some(to) = &self.shape.recorder {
            to.complete(index);
        }
        self.count(context, 1);
        let leads = self.nodes[index as usize].leads;
        if let Some(last) = self.release_special(context, leads) {
            self.queue(context, last);
        }
    }

    /// A task that was held will not be done: its future was dropped.
    pub(super) fn abandon(&self, context: &WorkerContext<'_, '_>, index: u32) {
        self.leave(context, index);
        self.cut();
    }
}
