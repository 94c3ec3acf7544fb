//! How a worker without tasks searches for one: outside of its own queue, and at other workers.

use super::{
    event::{Event, Observer, Source, source_of},
    idle::IdleAction,
    injector::Take,
    lanes::Level,
    queue::{Acquired, Hunt, Queue, Strategy},
    worker::{Found, Phase, Step, Worker},
};
use crate::base::{
    canary::{Canary, broken},
    sync::fence_after_rmw,
};

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
                self.rounds = self.rounds.saturating_add(1);
                let policy = &self.core.settings.idle;
                let give_up = self.rounds > self.max_rounds && policy.adapts();
                match policy.idle(if give_up { u32::MAX } else { self.rounds }) {
                    IdleAction::Park(timeout) => match self.take_affine_of_others() {
                        Some(found) => found,
                        None => return Err(self.fall_asleep(true, timeout)),
                    },
                    action => return Err(Step::Idle(action)),
                }
            }
        };
        self.found();
        // If the found task is gone again, the next step searches anew.
        self.after_missed(found)
            .ok_or(Step::Idle(IdleAction::Spin(1)))
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
                Some((task, source_of(victim)))
            }
            Acquired::Nothing | Acquired::Spared if raised.has(Level::Low) => self.take_low(),
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
    /// # use filch::engine::{Core, PerWorker, Placement, Settings, Silent};
    /// # let core: Core<u32, PerWorker, Silent> = Core::new(Settings::new(1), &Default::default(), Silent)?;
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

    fn take_some_injected(&mut self, most: usize, queued: usize) -> Option<T> {
        let injector = &self.core.injector;
        let share = self.core.fair_share(queued);
        let queue = &mut self.queue;
        match injector.try_take(most.min(share), |task| queue.push(task)) {
            Take::Taken(task, moved) => {
                self.note_moved(moved);
                self.selector.batch_left = moved;
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
        let queue = &mut self.queue;
        let taken = core.futures.try_take(most, |task| queue.push(task));
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
                self.note_moved(moved);
                Some((task, moved))
            }
            Take::Empty | Take::Busy => None,
        }
    }

    fn note_moved(&self, tasks: usize) {
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
            Acquired::Task { task, victim, .. } => SearchResult::Found(task, source_of(victim)),
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

    /// Visits victims.
    fn hunt(&mut self) -> Acquired<T> {
        let settings = &self.core.settings;
        let victims = self
            .victims
            .get_or_insert_with(|| self.core.victims(self.id));
        let mut hunt = Hunt::new(victims, &mut self.rng, settings.steal_tries);
        let acquired = self.queue.try_acquire(&mut hunt);
        let (attempts, retries) = hunt.effort();
        if attempts > 0 {
            self.core
                .observer
                .event(self.id, Event::Searched { attempts, retries });
        }
        if let Acquired::Task { moved, .. } = acquired {
            self.note_moved(moved);
        }
        acquired
    }
}
