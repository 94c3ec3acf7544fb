#![doc = include_str!("injector.md")]

mod node_shards;
mod shard;

use super::locked::remove_useless;
use crate::base::{
    canary::{Canary, broken},
    error::Refused,
    padded::Padded,
    sync::{AtomicU64, AtomicUsize, Ordering},
    thread,
};
use node_shards::{NodeShards, ProducerNode, SHARDS, begin_after, in_turn, indices};
use shard::{Incoming, InjectorShard, LockMode, TRIES, lock};
use std::{collections::VecDeque, fmt, mem};

/// A queue that any thread may push to: first in, first out for each producer.
///
/// ```
/// use filch::engine::Injector;
///
/// let injector = Injector::bounded(3);
/// injector.push(1).unwrap();
/// injector.push_batch(vec![2, 3]).unwrap();
/// assert_eq!(injector.push_batch(vec![4, 5]), Err(vec![4, 5])); // all or nothing
/// assert_eq!(injector.take(), Some(1));
/// ```
pub struct Injector<T> {
    /// One bit for each shard that may hold tasks. A bit changes under the lock of its inbox.
    flags: Padded<AtomicU64>,
    /// The shard that the next take tries first.
    next: Padded<AtomicUsize>,
    /// How the shards belong to nodes, if there are several.
    nodes: Option<NodeShards>,
    /// The limit and the number of queued tasks, where there is a capacity.
    limit: Option<Padded<InjectorLimit>>,
    shards: Box<[InjectorShard<T>]>,
}

/// The limit of a bounded queue.
struct InjectorLimit {
    /// Tasks that are queued, or about to be.
    reserved: AtomicUsize,
    capacity: usize,
}

/// The result of [`Injector::try_take`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Take<T> {
    /// The oldest task of a shard, and how many more went to the worker's queue.
    Taken(T, usize),
    /// There is no task.
    Empty,
    /// Another thread holds the lock of each shard that may hold tasks.
    Busy,
}

impl<T> Injector<T> {
    /// A queue without a limit.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::unbounded();
    /// assert!((0..1_000).all(|task| injector.push(task).is_ok()));
    /// ```
    #[must_use]
    pub fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// A queue that refuses tasks from producers when it holds `capacity` of them.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::bounded(1);
    /// assert_eq!(injector.push("fits"), Ok(()));
    /// assert_eq!(injector.push("too many"), Err("too many"));
    /// ```
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        let limit = || {
            Padded::new(InjectorLimit {
                reserved: AtomicUsize::new(0),
                capacity,
            })
        };
        Self {
            flags: Padded::new(AtomicU64::new(0)),
            next: Padded::new(AtomicUsize::new(0)),
            limit: (capacity < usize::MAX).then(limit),
            nodes: None,
            shards: (0..SHARDS).map(|_| InjectorShard::new()).collect(),
        }
    }

    /// A queue whose shards belong to `nodes` nodes.
    pub(super) fn for_nodes(capacity: usize, nodes: usize, producer_node: &ProducerNode) -> Self {
        let mut injector = Self::bounded(capacity);
        if nodes > 1 {
            let nodes = NodeShards::new(nodes, producer_node);
            let shards = 0..nodes.shards();
            injector.shards = shards.map(|_| InjectorShard::new()).collect();
            injector.nodes = Some(nodes);
        }
        injector
    }

    /// Adds a task behind all tasks of this thread.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::unbounded();
    /// injector.push(1).unwrap();
    /// injector.push(2).unwrap();
    /// assert_eq!((injector.take(), injector.take()), (Some(1), Some(2)));
    /// ```
    ///
    /// # Errors
    /// The task, when the queue is full or closed.
    pub fn push(&self, task: T) -> Result<(), T> {
        self.admit(task).map_err(Refused::into_inner)
    }

    /// Adds a task behind all tasks of this thread; a refusal distinguishes a closed queue from a
    /// full one.
    #[inline]
    pub(super) fn admit(&self, task: T) -> Result<(), Refused<T>> {
        let index = self.own_shard();
        if !self.reserve(1) {
            return Err(self.refuse(index, task));
        }
        let mut incoming = self.shards[index].inbox.lock();
        if incoming.closed {
            drop(incoming);
            self.release(1);
            return Err(Refused::closed(task));
        }
        incoming.entered = incoming.entered.wrapping_add(1);
        incoming.tasks.push_back(task);
        self.publish(index, &mut incoming, 1);
        Ok(())
    }

    /// Adds all tasks, in their order, or none.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::bounded(2);
    /// assert_eq!(injector.push_batch(vec![1, 2, 3]), Err(vec![1, 2, 3]));
    /// assert!(injector.is_empty());
    /// assert_eq!(injector.push_batch(vec![1, 2]), Ok(()));
    /// ```
    ///
    /// # Errors
    /// The tasks, when they don't all fit or the queue is closed.
    pub fn push_batch(&self, tasks: Vec<T>) -> Result<(), Vec<T>> {
        self.admit_batch(tasks).map_err(Refused::into_inner)
    }

    /// Adds all tasks or none; a refusal distinguishes a closed queue from a full one.
    pub(super) fn admit_batch(&self, tasks: Vec<T>) -> Result<(), Refused<Vec<T>>> {
        let (index, n) = (self.own_shard(), tasks.len());
        if !self.reserve(n) {
            return Err(self.refuse(index, tasks));
        }
        let mut incoming = self.shards[index].inbox.lock();
        if incoming.closed {
            drop(incoming);
            self.release(n);
            return Err(Refused::closed(tasks));
        }
        incoming.entered = incoming.entered.wrapping_add(n);
        incoming.tasks.extend(tasks);
        self.publish(index, &mut incoming, n);
        Ok(())
    }

    /// Adds tasks regardless of the capacity and of a close: for workers, which must never be
    /// refused, because a worker that waited for room would wait for itself.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::bounded(1);
    /// injector.push_always([1, 2, 3]);
    /// assert_eq!(injector.len(), 3);
    /// assert_eq!(injector.push(4), Err(4));
    /// ```
    pub fn push_always(&self, tasks: impl IntoIterator<Item = T>) {
        // Collected before the lock is taken: the iterator may be the user's code.
        let tasks: Vec<T> = tasks.into_iter().collect();
        let (index, n) = (self.own_shard(), tasks.len());
        if let Some(limit) = &self.limit {
            // Relaxed: as in `reserve`.
            limit.reserved.fetch_add(n, Ordering::Relaxed);
        }
        let mut incoming = self.shards[index].inbox.lock();
        incoming.tasks.extend(tasks);
        self.publish(index, &mut incoming, n);
    }

    /// Refuses producers from now on. Returns the number of tasks that producers have pushed and no
    /// earlier call has returned.
    pub(super) fn close(&self) -> usize {
        let mut entered = 0_usize;
        for shard in &*self.shards {
            if broken(Canary::InjectorClose) {
                // The defect: a task that is pushed between the two steps is not counted.
                entered = entered.wrapping_add(mem::take(&mut shard.inbox.lock().entered));
                shard.inbox.lock().closed = true;
                continue;
            }
            let mut incoming = shard.inbox.lock();
            incoming.closed = true;
            entered = entered.wrapping_add(mem::take(&mut incoming.entered));
        }
        entered
    }

    /// The number of tasks that the next [`close`](Self::close) would return.
    pub(super) fn entered(&self) -> usize {
        let entered = self.shards.iter().map(|shard| shard.inbox.lock().entered);
        entered.fold(0, usize::wrapping_add)
    }

    /// The number of tasks at some recent moment.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::unbounded();
    /// injector.push_batch(vec!['a', 'b']).unwrap();
    /// assert_eq!(injector.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        let shards = indices(self.flags()).map(|index| &self.shards[index]);
        shards.map(InjectorShard::len).sum()
    }

    /// Whether there was no task at some recent moment. Never true while a push that has returned
    /// is still queued.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::unbounded();
    /// assert!(injector.is_empty());
    /// injector.push(1).unwrap();
    /// assert!(!injector.is_empty());
    /// ```
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flags() == 0
    }

    /// Takes the oldest task of a shard.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::unbounded();
    /// injector.push(1).unwrap();
    /// assert_eq!(injector.take(), Some(1));
    /// assert_eq!(injector.take(), None);
    /// ```
    #[must_use]
    pub fn take(&self) -> Option<T> {
        match self.take_some(None, 1, Err, LockMode::Wait) {
            Take::Taken(task, _) => Some(task),
            Take::Empty | Take::Busy => None,
        }
    }

    /// Takes up to `most` tasks of one shard: the oldest is returned, the others are offered to
    /// `push`, youngest first, so that a queue which pops the newest returns them in their old
    /// order. A task that `push` returns keeps its place here. The next call begins at the next
    /// shard. Does not wait for a lock.
    ///
    /// ```
    /// use filch::engine::{Injector, Take};
    ///
    /// let injector = Injector::unbounded();
    /// injector.push_batch(vec![1, 2, 3, 4]).unwrap();
    /// let mut got = vec![];
    /// let first = injector.try_take(3, |task| Ok(got.push(task)));
    /// assert_eq!((first, got), (Take::Taken(1, 2), vec![3, 2]));
    /// assert_eq!(injector.take(), Some(4));
    /// ```
    pub fn try_take(&self, most: usize, push: impl FnMut(T) -> Result<(), T>) -> Take<T> {
        self.take_some(None, most, push, LockMode::TryOnly)
    }

    /// [`try_take`](Self::try_take) that tries the shards of `node` first, if it is one.
    pub(super) fn try_take_near(
        &self,
        node: Option<usize>,
        most: usize,
        push: impl FnMut(T) -> Result<(), T>,
    ) -> Take<T> {
        self.take_some(node, most, push, LockMode::TryOnly)
    }

    fn take_some(
        &self,
        node: Option<usize>,
        most: usize,
        mut push: impl FnMut(T) -> Result<(), T>,
        mode: LockMode,
    ) -> Take<T> {
        let flags = self.flags();
        let near = { self.nodes.as_ref().zip(node) }.map(|(nodes, node)| nodes.of(node));
        let (near, near_next) = near.unwrap_or((0, &self.next));
        let far = if near != 0 && broken(Canary::InjectorFar) {
            0
        } else {
            flags & !near
        };
        let mut result = Take::Empty;
        for (bits, next) in [(flags & near, near_next), (far, &self.next)] {
            for index in in_turn(bits, next) {
                match self.take_from(index, most, &mut push, mode) {
                    taken @ Take::Taken(..) => {
                        begin_after(next, index);
                        return taken;
                    }
                    Take::Busy => result = Take::Busy,
                    Take::Empty => {}
                }
            }
        }
        result
    }

    fn take_from(
        &self,
        index: usize,
        most: usize,
        push: &mut impl FnMut(T) -> Result<(), T>,
        mode: LockMode,
    ) -> Take<T> {
        let shard = &self.shards[index];
        let Some(mut tasks) = lock(&shard.outbox.locked, mode, 1) else {
            return Take::Busy;
        };
        let mut lowered = false;
        if tasks.is_empty() || broken(Canary::InjectorOrder) {
            match self.refill(index, &mut tasks, mode) {
                Some(empty) => lowered = empty,
                None => return Take::Busy,
            }
        }
        let Some(first) = tasks.pop_front() else {
            return Take::Empty;
        };
        let n = tasks.len().min(most.saturating_sub(1));
        let moved = move_out(&mut tasks, n, push);
        self.record_taken(shard, moved + 1);
        if tasks.is_empty() && !lowered {
            self.lower_if_empty(index);
        }
        Take::Taken(first, moved)
    }

    /// Moves all incoming tasks to the empty outbox. Returns whether it has cleared the bit of the
    /// shard, because at most one task is left; `None` when another thread holds the lock.
    fn refill(&self, index: usize, tasks: &mut VecDeque<T>, mode: LockMode) -> Option<bool> {
        let mut incoming = lock(&self.shards[index].inbox.locked, mode, TRIES)?;
        mem::swap(&mut incoming.tasks, tasks);
        // A single task leaves with the caller, which runs it. Several pass through the queue of a
        // worker, and must not be missing in both places (`injector.md`).
        let last = tasks.len() <= 1 || broken(Canary::InjectorEarly);
        if last {
            self.lower(index, &mut incoming);
        }
        Some(last)
    }

    /// Clears the bit of a shard whose outbox the caller has emptied, unless a producer is faster.
    fn lower_if_empty(&self, index: usize) {
        let shard = &self.shards[index];
        if shard.len() > 0 {
            return;
        }
        if broken(Canary::InjectorLower) {
            // The defect: the two steps hide a task that is pushed between them.
            shard.inbox.lock().flagged = false;
            // Release: as in `lower`.
            self.flags.fetch_and(!(1 << index), Ordering::Release);
            return;
        }
        // If a producer has the lock, the next take clears the bit.
        if let Some(mut incoming) = lock(&shard.inbox.locked, LockMode::TryOnly, 1)
            && incoming.tasks.is_empty()
        {
            self.lower(index, &mut incoming);
        }
    }

    /// Clears the bit of a shard. The caller holds both locks, and both lists will be empty.
    fn lower(&self, index: usize, incoming: &mut Incoming<T>) {
        if mem::take(&mut incoming.flagged) {
            // Release: pairs with the acquire in `flags`. A thread that finds no task here finds
            // those that a worker has moved from here to its own queue.
            self.flags.fetch_and(!(1 << index), Ordering::Release);
        }
    }

    /// Moves the tasks that are `useless` to `into`.
    pub(super) fn remove_useless(&self, useless: &impl Fn(&T) -> bool, into: &mut Vec<T>) {
        for index in indices(self.flags()) {
            let shard = &self.shards[index];
            let (mut tasks, mut incoming) = (shard.outbox.lock(), shard.inbox.lock());
            let before = into.len();
            remove_useless(&mut tasks, useless, into);
            remove_useless(&mut incoming.tasks, useless, into);
            self.record_taken(shard, into.len() - before);
            if tasks.is_empty() && incoming.tasks.is_empty() {
                self.lower(index, &mut incoming);
            }
        }
    }

    /// Takes all tasks, shard by shard.
    ///
    /// ```
    /// use filch::engine::Injector;
    ///
    /// let injector = Injector::unbounded();
    /// injector.push_batch(vec![1, 2, 3]).unwrap();
    /// assert_eq!(injector.drain(), [1, 2, 3]);
    /// assert!(injector.is_empty());
    /// ```
    #[must_use]
    pub fn drain(&self) -> Vec<T> {
        let mut drained = Vec::new();
        self.remove_useless(&|_| true, &mut drained);
        drained
    }

    /// Makes `n` tasks visible that the caller has put into `incoming`.
    #[inline]
    fn publish(&self, index: usize, incoming: &mut Incoming<T>, n: usize) {
        let pushed = &self.shards[index].inbox.pushed;
        // Relaxed: this thread holds the lock, under which alone the number changes.
        let before = pushed.load(Ordering::Relaxed);
        // Release: pairs with the acquire in `InjectorShard::len`.
        pushed.store(before.wrapping_add(n), Ordering::Release);
        if !incoming.flagged && n > 0 && !broken(Canary::InjectorFlag) {
            incoming.flagged = true;
            // Release: pairs with the acquire in `flags`: a reader of the bit sees the length.
            self.flags.fetch_or(1 << index, Ordering::Release);
        }
    }

    /// Notes that the caller, which has the lock of the outbox, has taken `n` tasks.
    fn record_taken(&self, shard: &InjectorShard<T>, n: usize) {
        let taken = &shard.outbox.taken;
        // Relaxed: this thread holds the lock, under which alone the number changes.
        let before = taken.load(Ordering::Relaxed);
        // Release: pairs with the acquire in `InjectorShard::len`.
        taken.store(before.wrapping_add(n), Ordering::Release);
        self.release(n);
    }

    /// Reserves room for `n` tasks, if there is any.
    #[inline]
    fn reserve(&self, n: usize) -> bool {
        let Some(limit) = &self.limit else {
            return true;
        };
        // Relaxed, also on failure: a number that publishes nothing.
        limit
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
                (n <= limit.capacity.saturating_sub(reserved)).then_some(reserved + n)
            })
            .is_ok()
    }

    fn release(&self, n: usize) {
        if let Some(limit) = &self.limit {
            // Relaxed: as in `reserve`.
            limit.reserved.fetch_sub(n, Ordering::Relaxed);
        }
    }

    /// Refuses tasks for which there is no room.
    #[cold]
    fn refuse<U>(&self, index: usize, tasks: U) -> Refused<U> {
        if self.shards[index].inbox.lock().closed {
            Refused::closed(tasks)
        } else {
            Refused::full(tasks)
        }
    }

    #[inline]
    fn flags(&self) -> u64 {
        // Acquire: pairs with the releases in `publish` and `lower`.
        self.flags.load(Ordering::Acquire)
    }

    /// The shard of this thread.
    #[inline]
    fn own_shard(&self) -> usize {
        match &self.nodes {
            None => thread::number() % SHARDS,
            Some(nodes) => nodes.own_shard(),
        }
    }
}

/// Offers the `n` oldest of `tasks` to `push`, youngest first; those that it refuses keep their
/// places. Returns how many it took.
fn move_out<T>(
    tasks: &mut VecDeque<T>,
    n: usize,
    push: &mut impl FnMut(T) -> Result<(), T>,
) -> usize {
    let mut refused = Vec::new();
    for task in tasks.drain(..n).rev() {
        refused.extend(push(task).err());
    }
    let moved = n - refused.len();
    // The first refused is the youngest.
    refused.into_iter().for_each(|task| tasks.push_front(task));
    moved
}

impl<T> fmt::Debug for Injector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.limit.as_ref().map(|limit| limit.capacity);
        f.debug_struct("Injector")
            .field("len", &self.len())
            .field("capacity", &capacity)
            .finish()
    }
}

#[cfg(all(test, filch_loom))]
mod loom_tests;
