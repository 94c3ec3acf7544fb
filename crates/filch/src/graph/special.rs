//! The strands of special plans; see `run`.
#![expect(unsafe_code, reason = "calls closures that are one worker's at a time")]

use super::{
    block::FirstTasks,
    context::{AfterReturn, TaskContext, TaskEffects},
    edges::Successors,
    error::TaskFault,
    heap_run,
    node::Release,
    run::{GraphRun, PreparedRun},
    task_time::TaskEnding,
};
use crate::{
    base::{
        canary::{Canary, broken},
        unwind,
    },
    pool::context::WorkerContext,
};
use std::collections::HashSet;

impl GraphRun<'_> {
    /// Runs strands of a special plan that begin with these tasks.
    pub(super) fn strands_special(
        &self,
        context: &WorkerContext<'_, '_>,
        firsts: &impl FirstTasks,
    ) {
        let (limited, urgency) = (self.has_time_slice(context), context.urgency());
        let (has_job_limit, all) = (self.job_limit().is_some(), self.has_rare_parts(context));
        let effects = TaskEffects::default();
        let cx = self.task_context(context, Some(&effects));
        while let Some(first) = firsts.take() {
            if has_job_limit {
                let inner = self.strand_special(context, first, false, false);
                debug_assert!(inner.is_none(), "the strand has started it");
            } else {
                self.follow_contained(&cx, first, false, all);
                if let Some(then) = effects.after_return.take() {
                    self.hand_over(&cx, then);
                }
            }
            if (limited || urgency.is_raised()) && !firsts.is_last() && self.should_yield(context) {
                self.queue_all(context, firsts.take_remaining());
            }
        }
        self.count(context, cx.ran.get());
    }

    /// Runs a strand of a special plan. If `is_job`, a job is counted as pending for the strand
    /// alone. Then a run inside the task with which the strand ends is returned: the caller starts
    /// it, and it is counted in the place of the job.
    #[inline(never)]
    pub(super) fn strand_special(
        &self,
        context: &WorkerContext<'_, '_>,
        first: u32,
        admitted: bool,
        is_job: bool,
    ) -> Option<PreparedRun> {
        let run = || self.run_special(context, first, admitted, is_job);
        // A parked task holds no units: the task whose place it waits for may need them.
        let parked = || {
            if admitted {
                self.release_permits(first);
            }
        };
        self.limited(context, || self.strand_job(first), run, parked)
    }

    /// As [`strand_special`](Self::strand_special), without regard to the limit of jobs.
    pub(super) fn run_special(
        &self,
        context: &WorkerContext<'_, '_>,
        first: u32,
        admitted: bool,
        is_job: bool,
    ) -> Option<PreparedRun> {
        let effects = TaskEffects::default();
        let cx = self.task_context(context, Some(&effects));
        self.follow_contained(&cx, first, admitted, self.has_rare_parts(context));
        self.count(context, cx.ran.get());
        match effects.after_return.take() {
            Some(AfterReturn::Start(inner)) if is_job => return Some(inner),
            Some(then) => self.hand_over(&cx, then),
            None => {}
        }
        None
    }

    /// Runs a strand of a special plan that begins with `first`, and then strands that this worker
    /// has queued. `jobs` counts the pending jobs that they are. Ends with a task that has a run
    /// inside it, which is returned. `effects` has none, before and after.
    pub(super) fn walk_special(
        &self,
        context: &WorkerContext<'_, '_>,
        first: Option<u32>,
        mut admitted: bool,
        jobs: &mut u32,
        effects: &TaskEffects,
    ) -> Option<PreparedRun> {
        let may_continue = !self.has_rare_parts;
        let first = first.or_else(|| {
            let queued = may_continue.then(|| self.pop_own(context)).flatten();
            *jobs += u32::from(queued.is_some());
            queued
        });
        let (mut next, mut inner) = (Some(first?), None);
        let cx = self.task_context(context, Some(effects));
        let urgency = context.urgency();
        cx.may_continue.set(may_continue);
        while let Some(index) = next {
            let has_permits = std::mem::take(&mut admitted);
            self.follow_contained(&cx, index, has_permits, self.has_rare_parts);
            match effects.after_return.take() {
                Some(AfterReturn::Start(started)) => {
                    inner = Some(started);
                    break;
                }
                Some(then) => self.hand_over(&cx, then),
                None => {}
            }
            let yields = urgency.is_raised() && self.should_yield(context);
            next = (!yields).then(|| self.pop_newest(&cx)).flatten();
        }
        self.count(context, cx.ran.get());
        *jobs += cx.precounted.get();
        inner
    }

    /// Whether strands need the checks that few plans need; see `follow_special`. A copy without
    /// them makes loops of conditions faster.
    fn has_rare_parts(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.has_rare_parts || self.has_time_slice(context)
    }

    /// Runs a strand that begins with this task, and contains its panics.
    #[inline(always)]
    fn follow_contained(
        &self,
        cx: &TaskContext<'_, '_, '_>,
        first: u32,
        admitted: bool,
        all: bool,
    ) {
        cx.at.set(first);
        let followed = if all {
            unwind::contain(|| self.follow_special::<true>(cx, admitted))
        } else {
            unwind::contain(|| self.follow_special::<false>(cx, admitted))
        };
        if let Err(payload) = followed {
            if !broken(Canary::GraphPermits) {
                self.release_resources(cx.index());
            }
            self.panicked(cx.index(), payload);
        }
    }

    /// Hands the suspended task of a strand over, while the strand is pending.
    fn hand_over(&self, cx: &TaskContext<'_, '_, '_>, then: AfterReturn) {
        match then {
            AfterReturn::Start(inner) => {
                self.add_pending(cx.context);
                if self.may_walk(cx.context) {
                    self.walk_inside(inner, cx.context);
                } else {
                    heap_run::start(inner, Some(cx.context));
                }
            }
            AfterReturn::Call(call) => call(cx),
        }
    }

    /// `RARE`: the plan has semaphores, a recorder or an order of its tasks, or the run reports its
    /// progress or is Low, or the worker has limited time.
    fn follow_special<const RARE: bool>(&self, cx: &TaskContext<'_, '_, '_>, mut admitted: bool) {
        let (context, urgency, conditions) =
            (cx.context, cx.context.urgency(), self.shape.has_conditions);
        let limited = RARE && self.has_time_slice(context);
        let (needs, low) = (RARE && !self.needs.is_empty(), RARE && self.is_low());
        let recorder = self.shape.recorder.as_ref().filter(|_| RARE);
        let mut next = Some(cx.at.get());
        while let Some(index) = next {
            let has_permits = std::mem::take(&mut admitted);
            cx.at.set(index);
            if self.stopped() {
                if has_permits {
                    self.release_permits(index);
                }
                return self.mark_skipped(index);
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
            // SAFETY: this strand alone runs the task: the last of its predecessors has released
            // it, once; where there are conditions it has just been claimed.
            let call = || unsafe { node.call(cx) };
            let then = match recorder {
                Some(to) => {
                    let _running = to.begin(context, index);
                    call()
                }
                None => call(),
            };
            if then == Release::Deferred {
                return;
            }
            if conditions {
                node.unclaim();
            }
            if needs {
                self.release_permits(index);
            }
            if then == Release::Failed {
                return;
            }
            cx.ran.set(cx.ran.get() + 1);
            if RARE {
                self.report_progress();
            }
            next = match then {
                Release::All if node.successors.is_empty() => None,
                Release::All => self.release_special(context, node.successors),
                Release::One(number) => node.successors.get(self.successor_list, number),
                Release::Chosen => self.release_chosen(cx, node.successors),
                Release::Deferred | Release::Failed => None,
            };
            if RARE {
                next = next.map(|task| self.exchange_for_best(task));
            }
            if let Some(index) = next
                && (low || (limited || urgency.is_raised()) && self.should_yield(context))
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
        let successor = |number: &usize| successors.get(self.successor_list, *number);
        let mut tasks: Vec<u32> = chosen.iter().filter_map(successor).collect();
        keep_first_of_each(&mut tasks);
        let next = tasks.pop();
        tasks
            .into_iter()
            .for_each(|other| self.queue(cx.context, other));
        next
    }

    /// Reports that a task is done, if the run reports its progress.
    fn report_progress(&self) {
        if self.reports_progress
            && let Some(progress) = &self.control().settings().progress
        {
            let total = self.shape.tasks as u64;
            let pool = self.control().pool();
            progress.task_done(total, |payload| pool.panicked(payload));
        }
    }

    /// Completes a suspended task and releases its successors. The caller calls `done` next.
    pub(super) fn complete(&self, context: &WorkerContext<'_, '_>, index: u32) {
        if let Some(last) = self.complete_task(context, index) {
            self.queue(context, last);
        }
    }

    /// Like `complete`, but returns the last of the successors that are ready.
    #[inline]
    pub(super) fn complete_task(&self, context: &WorkerContext<'_, '_>, index: u32) -> Option<u32> {
        if self.has_rare_parts || self.shape.has_conditions {
            self.release_resources(index);
            self.record_ending(index, TaskEnding::Done);
            self.report_progress();
        }
        self.count(context, 1);
        let successors = self.nodes[index as usize].successors;
        match successors.is_empty() {
            true => None,
            false => self.release_special(context, successors),
        }
    }

    /// Gives up a suspended task that will not be completed: its future was dropped, or the run
    /// inside it did not finish.
    pub(super) fn give_up(&self, index: u32) {
        self.release_resources(index);
        self.record_ending(index, TaskEnding::Cancelled);
        self.mark_skipped(index);
    }
}

/// Removes the tasks that occur a second time: a task that is chosen twice is released once.
fn keep_first_of_each(tasks: &mut Vec<u32>) {
    // Most choices are few. Searching them is faster than hashing, and allocates nothing.
    const FEW: usize = 16;
    if tasks.len() <= FEW {
        let mut kept = 0;
        for at in 0..tasks.len() {
            if !tasks[..kept].contains(&tasks[at]) {
                tasks[kept] = tasks[at];
                kept += 1;
            }
        }
        tasks.truncate(kept);
    } else {
        let mut seen = HashSet::with_capacity(tasks.len());
        tasks.retain(|task| seen.insert(*task));
    }
}
