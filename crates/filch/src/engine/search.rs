//! How a worker without tasks searches for one: outside of its own queue, and at other workers.

use super::{
    event::{Event, OUTSIDE, Observer, Source},
    idle::IdleAction,
    injector::Take,
    lanes::Priority,
    queue::{Acquired, Hunt, Queue, Strategy},
    worker::{Found, Phase, Step, Worker},
};
use crate::base::{
    canary::{Canary, broken},
    sync::fence_after_rmw,
};

/// The interval, in takes from the injectors, at which a worker begins with the next shard of any
/// node instead of those of its own. Tasks of other nodes wait for seven more batches then.
const FAIR_TAKE_EVERY: u32 = 8;

/// The number of searchers whose rounds follow each other without additional pauses. More searchers
/// find no more tasks than there are, and each probe takes the cache line of a busy worker.
const SEARCHERS: usize = 16;

/// The result of a search.
enum SearchResult<T> {
    Found(T, Source),
    Nothing,
    /// No task yet: search again.
    Unfinished,
    /// As [`Acquired::Spared`].
    Spared,
}

impl<T: Send, Q: Strategy, O: Observer> Worker<'_, T, Q, O> {
    /// Searches for a task outside its own queue, or returns what to do instead.
    pub(super) fn find_elsewhere(&mut self) -> Result<(T, Source), Step> {
        match self.phase {
            Phase::Active => {
                if let Some(found) = self.find_unannounced() {
                    self.polled = false;
                    return Ok(found);
                }
                if self.core.settings.polls && !std::mem::replace(&mut self.polled, true) {
                    // Not in the middle of a search, on which pushes count.
                    return Err(Step::Idle(IdleAction::Poll));
                }
                self.become_idle();
                if !self.core.sleep.start_search(self.core.search_limit()) {
                    // Enough other workers are searching.
                    return Err(self.fall_asleep(false, None));
                }
                self.phase = Phase::Searching;
                self.rounds = 0;
            }
            Phase::Searching => {}
            Phase::Standby(times) => return Err(self.yield_in_standby(times)),
            Phase::LastCheck(timeout) => return Err(self.finish_last_check(timeout)),
            Phase::Parked => unreachable!("a parked worker is resumed before it steps"),
        }
        let found = match self.search() {
            SearchResult::Found(task, source) => (task, source),
            SearchResult::Unfinished => return Err(Step::Idle(IdleAction::Spin(1))),
            // The spared workers may need help at any time, so this one does not sleep; but another
            // thread may need the core.
            SearchResult::Spared => return Err(Step::Idle(IdleAction::Yield)),
            SearchResult::Nothing => {
                let weight = self.round_weight();
                self.rounds = self.rounds.saturating_add(weight);
                let policy = &self.core.settings.idle;
                let give_up = self.rounds > self.max_rounds && policy.is_adaptive();
                match policy.idle(if give_up { u32::MAX } else { self.rounds }) {
                    IdleAction::Park(timeout) => match self.take_affine_of_others() {
                        Some(found) => found,
                        None => return Err(self.fall_asleep(true, timeout)),
                    },
                    IdleAction::Spin(pauses) => {
                        let pauses = pauses.saturating_mul(weight);
                        return Err(Step::Idle(IdleAction::Spin(pauses)));
                    }
                    action => return Err(Step::Idle(action)),
                }
            }
        };
        self.found(found.1);
        // If the found task is gone again, the next step searches anew.
        self.after_missed(found)
            .ok_or(Step::Idle(IdleAction::Spin(1)))
    }

    /// Returns how many failed rounds of a search the next one counts as; its pause is that many
    /// times as long. Many searchers together probe as often as [`SEARCHERS`] of them would.
    fn round_weight(&self) -> u32 {
        let searching = self.core.sleep.state().searching();
        (searching / SEARCHERS).max(1) as u32
    }

    /// Checks the places that a worker without tasks visits without announcing a search.
    fn find_unannounced(&mut self) -> Found<T> {
        let outside = self
            .take_pinned()
            .or_else(|| self.take_injected(self.core.settings.inject_batch));
        if let Some(task) = outside {
            return Some((task, Source::Injector));
        }
        let raised = self.core.flags().read();
        // The normal tasks have had their turn.
        let pressing = self.take_urgent(raised, self.core.settings.inject_batch);
        if let found @ Some(_) = pressing.or_else(|| self.take_own_affine(raised)) {
            return found;
        }
        // An unannounced visit to the other workers: pushes count only on workers that have
        // announced a search. If it finds a task, it saves four writes to shared words and two
        // clock reads.
        match self.hunt() {
            Acquired::Task {
                task,
                victim,
                moved,
            } => {
                if moved > 0 && !broken(Canary::BatchNotify) {
                    // The tasks were in no queue for a moment, and a last check may have missed
                    // them.
                    self.core.notify_moved(self.id);
                }
                Some((task, self.source_of(victim)))
            }
            Acquired::Nothing | Acquired::Spared if raised.has(Priority::Low) => self.take_low(),
            Acquired::Nothing | Acquired::Unfinished | Acquired::Spared => None,
        }
    }

    pub(super) fn take_pinned(&mut self) -> Option<T> {
        self.core.mailboxes[self.id].take_pinned()
    }

    /// Whether there are tasks that only this worker may run. A driver that parks it must wake it
    /// for them.
    ///
    /// ```
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, NoObserver};
    /// # let core: Core<u32, PerWorker, NoObserver> = Core::new(Settings::new(1), &Default::default(), NoObserver)?;
    /// let worker = core.enter(0);
    /// core.inject(1, Placement::Pinned(0)).unwrap();
    /// assert!(worker.has_pinned());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    #[must_use]
    pub fn has_pinned(&self) -> bool {
        self.core.mailboxes[self.id].has_pinned()
    }

    #[inline]
    pub(super) fn take_injected(&mut self, most: usize) -> Option<T> {
        if self.core.injector.is_empty() {
            return None;
        }
        self.take_injected_batch(most)
    }

    #[cold]
    fn take_injected_batch(&mut self, most: usize) -> Option<T> {
        let injector = &self.core.injector;
        let queued = if most > 1 {
            self.batch_wait.wait(|| injector.len())
        } else {
            injector.len()
        };
        self.take_some_injected(most, queued)
    }

    /// Takes at most `most` tasks, without waiting for more.
    pub(super) fn take_injected_now(&mut self, most: usize) -> Option<T> {
        match self.core.injector.len() {
            0 => None,
            queued => self.take_some_injected(most, queued),
        }
    }

    /// Returns the node whose producers a take serves first: its own, and at intervals none, so
    /// that all have turns. Always none where there are not several nodes. `takes` is the counter
    /// of the injector: with one for both, takes that alternate would give all turns to the same
    /// injector.
    fn preferred_node(&mut self, takes: fn(&mut Self) -> &mut u32) -> Option<usize> {
        let node = self.core.settings.distances.node(self.id)?;
        let takes = takes(self);
        *takes = takes.wrapping_add(1);
        (!takes.is_multiple_of(FAIR_TAKE_EVERY)).then_some(node)
    }

    fn take_some_injected(&mut self, most: usize, queued: usize) -> Option<T> {
        let node = self.preferred_node(|worker| &mut worker.near_takes);
        let injector = &self.core.injector;
        let share = self.core.backlog.share(queued, self.core.present());
        let queue = &mut self.queue;
        let before = queue.own_len();
        match injector.try_take_near(node, most.min(share), |task| queue.push(task)) {
            Take::Taken(task, moved) => {
                self.record_moved(moved);
                self.selection.record_batch(before, moved);
                if !injector.is_empty() {
                    // This worker may be busy for long now, and so may all others.
                    self.core.request_attention();
                }
                Some(task)
            }
            Take::Empty | Take::Busy => None,
        }
    }

    /// Takes up to `most` futures that were spawned from outside; all but the first go to its own
    /// queue. Returns the first and the number of the others.
    pub(super) fn take_spawned(&mut self, most: usize) -> Option<(T, usize)> {
        let core = self.core;
        let queued = if most > 1 {
            self.batch_wait.wait(|| core.futures.len())
        } else {
            1
        };
        let most = most.min(core.fair_share(queued));
        let node = self.preferred_node(|worker| &mut worker.near_spawned_takes);
        let queue = &mut self.queue;
        let before = queue.own_len();
        let taken = core
            .futures
            .try_take_near(node, most, |task| queue.push(task));
        if core.futures.is_empty() && core.flags().lower_spawned() {
            // Pairs with the fence in `Core::request_attention`: either the load there sees the
            // flag lowered, or the check below sees the push.
            fence_after_rmw();
        }
        // For the futures that are left, and those that were pushed since the flag was lowered.
        if !core.futures.is_empty() {
            core.request_attention();
        }
        match taken {
            Take::Taken(task, moved) => {
                self.record_moved(moved);
                self.selection.record_batch(before, moved);
                Some((task, moved))
            }
            Take::Empty | Take::Busy => None,
        }
    }

    fn record_moved(&self, tasks: usize) {
        if tasks > 0 {
            self.core.observer.event(self.id, Event::Moved { tasks });
        }
    }

    /// Searches everywhere except in the mailboxes of other workers.
    fn search(&mut self) -> SearchResult<T> {
        let raised = self.core.flags().read();
        let pressing = self.take_urgent(raised, self.core.settings.inject_batch);
        if let Some((task, source)) = pressing.or_else(|| self.take_own_affine(raised)) {
            return SearchResult::Found(task, source);
        }
        if let Some(task) = self.take_injected(self.core.settings.inject_batch) {
            return SearchResult::Found(task, Source::Injector);
        }
        match self.hunt() {
            Acquired::Task { task, victim, .. } => {
                SearchResult::Found(task, self.source_of(victim))
            }
            Acquired::Unfinished => SearchResult::Unfinished,
            // Workers that need no help do not delay the remaining tasks.
            Acquired::Spared => {
                let rest = self.take_low().or_else(|| self.take_affine_of_others());
                rest.map_or(SearchResult::Spared, |(task, source)| {
                    SearchResult::Found(task, source)
                })
            }
            Acquired::Nothing => match self.take_low() {
                Some((task, source)) => SearchResult::Found(task, source),
                None => SearchResult::Nothing,
            },
        }
    }

    /// Returns the source of a task that a hunt found.
    pub(super) fn source_of(&self, victim: usize) -> Source {
        if victim == OUTSIDE {
            return Source::Injector;
        }
        let far = self.core.settings.distances.is_far(self.id, victim);
        Source::Steal { victim, far }
    }

    /// Visits victims.
    fn hunt(&mut self) -> Acquired<T> {
        let settings = &self.core.settings;
        let victims = self
            .victims
            .get_or_insert_with(|| self.core.victims(self.id));
        let mut hunt = Hunt::new(victims, &mut self.rng, settings.steal_tries);
        let acquired = self.queue.try_acquire(&mut hunt);
        let (attempts, retries) = hunt.attempts_and_retries();
        let deferred = hunt.deferred();
        if attempts > 0 {
            self.core
                .observer
                .event(self.id, Event::Searched { attempts, retries });
        }
        if let Acquired::Task { moved, .. } = acquired {
            // A hunt that ends with a task has not visited all victims, the one before it has.
            self.deferred_tasks = self.deferred_tasks.max(deferred);
            // The next search begins with near victims again.
            victims.end_search();
            self.record_moved(moved);
        } else {
            self.deferred_tasks = deferred;
        }
        acquired
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;
    use crate::engine::{Core, Distances, NoObserver, PerWorker, Placement, Settings};

    #[test]
    fn alternating_takes_give_turns_to_all_nodes_in_both_injectors() {
        let mut settings = Settings::new(2);
        settings.distances = Distances::nested(2, 1, |worker, _| Some(worker));
        let core: Core<u32, PerWorker, NoObserver> =
            Core::new(settings, &Default::default(), NoObserver).unwrap();
        let mut worker = core.enter(0);
        for take in 1..=2 * FAIR_TAKE_EVERY {
            let normal = worker.preferred_node(|worker| &mut worker.near_takes);
            core.inject(take, Placement::FutureInjector).unwrap();
            assert_eq!(worker.take_spawned(1), Some((take, 0)));
            let is_fair = take.is_multiple_of(FAIR_TAKE_EVERY);
            assert_eq!(normal.is_none(), is_fair, "take {take}");
            assert_eq!(worker.near_spawned_takes, take);
        }
    }
}
