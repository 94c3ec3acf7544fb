//! The queue strategy of the simulated engine: [`PerWorker`] of the library, with a record of the
//! workers that a search visits.
//!
//! The engine reports how often a search tried to steal, but not where. The record is needed to
//! charge a probe by its distance.

use filch::{
    BuildError,
    engine::{Acquired, Hunt, PerWorker, PerWorkerSpec, Queue, Strategy, Victims},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Inner<'a, T> = <PerWorker as Strategy>::Handle<'a, T>;

/// What the searches of one worker have visited since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visits {
    /// The workers whose queues it probed, those that it stole from included.
    pub(crate) probed: Vec<usize>,
    /// The number of other workers that it passed over because they were not busy.
    pub(crate) skipped: u64,
}

#[derive(Debug, Default)]
struct WorkerVisits {
    visits: Visits,
    busy: bool,
}

/// The visits of all workers. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeLog(Arc<Mutex<Vec<WorkerVisits>>>);

impl ProbeLog {
    pub(crate) fn new(workers: usize) -> Self {
        let log = (0..workers).map(|_| WorkerVisits::default()).collect();
        Self(Arc::new(Mutex::new(log)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WorkerVisits>> {
        // Only a panic of the engine can poison the mutex, and that ends the run.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the visits of `worker`.
    pub(crate) fn take(&self, worker: usize) -> Visits {
        let mut log = self.lock();
        log.get_mut(worker)
            .map_or_else(Visits::default, |own| std::mem::take(&mut own.visits))
    }

    /// Records a round that goes on from `victims` until `left` of them are left.
    fn add(&self, worker: usize, mut victims: Victims, left: usize) {
        let mut log = self.lock();
        let mut visits = std::mem::take(&mut log[worker].visits);
        while victims.len() > left
            && let Some(victim) = victims.next()
        {
            if log[victim].busy {
                visits.probed.push(victim);
                victims.count_probe();
            } else {
                visits.skipped += 1;
            }
        }
        log[worker].visits = visits;
    }

    fn set_busy(&self, worker: usize, busy: bool) {
        self.lock()[worker].busy = busy;
    }
}

/// [`PerWorker`], with a [`ProbeLog`].
#[derive(Debug)]
pub(crate) struct Watched;

/// The settings of [`Watched`].
#[derive(Clone, Default)]
pub(crate) struct WatchedSpec {
    pub(crate) queues: PerWorkerSpec,
    pub(crate) log: ProbeLog,
}

pub(crate) struct WatchedStore<T: Send> {
    inner: <PerWorker as Strategy>::Store<T>,
    log: ProbeLog,
}

pub(crate) struct WatchedQueue<'a, T: Send + 'a> {
    inner: Inner<'a, T>,
    log: &'a ProbeLog,
    worker: usize,
}

impl Strategy for Watched {
    type Spec = WatchedSpec;
    type Store<T: Send> = WatchedStore<T>;
    type Handle<'a, T: Send + 'a> = WatchedQueue<'a, T>;

    fn store<T: Send>(spec: &WatchedSpec, workers: usize) -> Result<WatchedStore<T>, BuildError> {
        Ok(WatchedStore {
            inner: PerWorker::store(&spec.queues, workers)?,
            log: spec.log.clone(),
        })
    }

    fn handle<T: Send>(store: &WatchedStore<T>, worker: usize) -> WatchedQueue<'_, T> {
        WatchedQueue {
            inner: PerWorker::handle(&store.inner, worker),
            log: &store.log,
            worker,
        }
    }

    fn has_work<T: Send>(store: &WatchedStore<T>) -> bool {
        PerWorker::has_work(&store.inner)
    }

    fn queued<T: Send>(store: &WatchedStore<T>) -> usize {
        PerWorker::queued(&store.inner)
    }

    fn alert<T: Send>(store: &WatchedStore<T>) {
        PerWorker::alert(&store.inner);
    }

    fn reset<T: Send>(store: &WatchedStore<T>, give: impl FnMut(T)) {
        PerWorker::reset(&store.inner, give);
    }
}

impl<T: Send> Queue<T> for WatchedQueue<'_, T> {
    fn push(&mut self, task: T) -> Result<(), T> {
        self.inner.push(task)
    }

    fn pop(&mut self) -> Option<T> {
        self.inner.pop()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.inner.pop_oldest()
    }

    fn try_acquire(&mut self, hunt: &mut Hunt<'_>) -> Acquired<T> {
        let before = hunt.unvisited();
        let acquired = self.inner.try_acquire(hunt);
        self.log.add(self.worker, before, hunt.unvisited().len());
        acquired
    }

    fn keeps_stolen(&self, victim: usize) -> bool {
        self.inner.keeps_stolen(victim)
    }

    fn left_tasks(&self, victim: usize) -> usize {
        self.inner.left_tasks(victim)
    }

    fn drain_own(&mut self, give: impl FnMut(T)) {
        self.inner.drain_own(give);
    }

    fn has_own(&self) -> bool {
        self.inner.has_own()
    }

    fn own_len(&self) -> usize {
        self.inner.own_len()
    }

    fn prepare_next(&mut self) -> bool {
        self.inner.prepare_next()
    }

    fn open(&mut self) {
        self.inner.open();
    }

    fn busy(&mut self) {
        self.log.set_busy(self.worker, true);
        self.inner.busy();
    }

    fn idle(&mut self) {
        self.log.set_busy(self.worker, false);
        self.inner.idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filch::{Rng, engine::Distances};

    #[test]
    fn looks_at_busy_workers_are_recorded_and_the_others_are_skipped() {
        let log = ProbeLog::new(4);
        let spec = WatchedSpec {
            log: log.clone(),
            ..WatchedSpec::default()
        };
        let store = Watched::store(&spec, 4).unwrap();
        let (mut thief, mut owner) = (Watched::handle(&store, 0), Watched::handle(&store, 2));
        owner.busy();
        let (mut victims, mut rng) = (Victims::new(&Distances::flat(4), 0), Rng::new(1));
        let mut search = |thief: &mut WatchedQueue<'_, u32>| {
            let _ = thief.try_acquire(&mut Hunt::new(&mut victims, &mut rng, 8));
            log.take(0)
        };
        let visits = search(&mut thief);
        assert_eq!((visits.probed, visits.skipped), (vec![2], 2));
        owner.idle();
        assert_eq!(search(&mut thief), Visits::default(), "no worker is busy");
        assert_eq!(log.take(9), Visits::default());
    }
}
