//! What a move costs.

use crate::{
    Plan,
    outcome::What,
    probes::Visits,
    state::{Frame, State},
};
use filch::engine::{IdleAction, Source};

impl State {
    /// Returns the cost of the probes of a move, and counts them and its steal.
    fn search(&mut self, plan: &Plan, frame: &Frame, visits: &Visits) -> u64 {
        let (config, thief) = (&plan.case.config, frame.worker.unwrap_or(0));
        let mut probed = &visits.probed[..];
        if let Some(Source::Steal { victim, .. }) = frame.source {
            self.steals[config.distance(thief, victim)] += 1;
            // The last probe was the steal.
            probed = probed.split_last().map_or(probed, |(_, failed)| failed);
        }
        let mut cost = visits.skipped.saturating_mul(config.costs.skip);
        for &victim in probed {
            let distance = config.distance(thief, victim);
            self.failed_probes[distance] += 1;
            cost = cost.saturating_add(config.steal_and_probe(thief, victim).1);
        }
        cost
    }

    /// Returns the cost of taking a task, and others with it, from a queue of another worker or a
    /// shared one.
    fn take(&mut self, plan: &Plan, frame: &Frame, searched: u64) -> u64 {
        let (config, thief) = (&plan.case.config, frame.worker.unwrap_or(0));
        let (queue, cost) = match frame.source {
            Some(Source::Local) | None => return 0,
            Some(Source::Steal { victim, .. }) => (victim, config.steal_and_probe(thief, victim).0),
            // The injector, a lane, or the affine tasks of a worker.
            Some(_) => (config.workers, config.costs.inject),
        };
        let cost = cost.saturating_add(frame.moved.saturating_mul(config.costs.moved));
        if !config.costs.exclusive {
            return cost;
        }
        let arrived = self.now.saturating_add(searched);
        let free_at = &mut self.free_at[queue];
        *free_at = arrived.max(*free_at).saturating_add(cost);
        *free_at - arrived
    }

    /// Returns the cost of a move.
    pub(crate) fn cost(&mut self, plan: &Plan, what: What, frame: &Frame, visits: &Visits) -> u64 {
        let searched = self.search(plan, frame, visits);
        let costs = &plan.case.config.costs;
        let unparks = frame.unparks.saturating_mul(costs.unpark);
        let cost = frame.cost.saturating_add(unparks).saturating_add(searched);
        let more = match what {
            What::Ran { .. } => self.take(plan, frame, searched),
            What::Idle(IdleAction::Spin(pauses)) => u64::from(pauses) * costs.pause,
            What::Idle(IdleAction::Yield) => costs.yield_now,
            _ => return cost,
        };
        cost.saturating_add(costs.step).saturating_add(more)
    }
}
