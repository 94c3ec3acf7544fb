//! What the clones of a token share; the protocol is told in the module above.

use super::{
    CancelReason, drops,
    list::{Key, List},
    listener::Listener,
    state::State,
};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{Condvar, Mutex, MutexGuard},
        thread, unwind,
    },
    threads::timer::{Timer, TimerError, TimerHandle},
};
use std::{
    sync::{Arc, PoisonError, Weak},
    task::Waker,
    time::Instant,
};

pub(crate) struct Node {
    state: State,
    links: Mutex<Links>,
    /// Where threads wait that are counted in `Links::waiters`.
    cancelled: Condvar,
    /// Taken by `leave` only, when the node is dropped.
    parent: Option<Parent>,
}

/// The parent of a node, and the node's place in its list.
struct Parent {
    node: Arc<Node>,
    key: Key,
}

struct Links {
    /// In the order of their creation. They stay when the node is cancelled; see step 2 of the protocol.
    children: List<Weak<Node>>,
    /// In the order of their registration. Nothing is added any more when the node is cancelled, so a key that
    /// was given out never comes to mean another listener before it is used.
    listeners: List<Listener>,
    /// The earliest deadline. Gone when the node is cancelled.
    deadline: Option<(Instant, TimerHandle)>,
    /// How many threads wait, so that nobody is woken for nothing.
    waiters: usize,
}

/// What `mark` found.
struct Marked {
    /// Whether the node was live before, so that its listeners are ours to tell.
    first: bool,
    reason: CancelReason,
    children: Vec<Arc<Node>>,
}

impl Node {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::with(State::live(), None))
    }

    fn with(state: State, parent: Option<Parent>) -> Self {
        Self {
            state,
            links: Mutex::new(Links {
                children: List::new(),
                listeners: List::new(),
                deadline: None,
                waiters: 0,
            }),
            cancelled: Condvar::new(),
            parent,
        }
    }

    /// A child; one of a cancelled node is cancelled, and needs no parent any more.
    pub(crate) fn child(self: &Arc<Self>) -> Arc<Self> {
        let born_cancelled = |reason| Arc::new(Self::with(State::settled(reason), None));
        if let Some(reason) = self.reason() {
            return born_cancelled(reason);
        }
        let mut links = self.links();
        if let Some(reason) = self.reason()
            && !broken(Canary::CancelMissesChild)
        {
            return born_cancelled(reason);
        }
        let parent = Parent {
            node: self.clone(),
            key: links.children.next_key(),
        };
        let child = Arc::new(Self::with(State::live(), Some(parent)));
        links.children.push(Arc::downgrade(&child));
        child
    }

    #[inline(always)]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.state.is_cancelled()
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        self.state.reason()
    }

    /// Cancels the node and everything below it. True when it was live.
    pub(crate) fn cancel(self: &Arc<Self>, reason: CancelReason) -> bool {
        if self.state.is_settled() || broken(Canary::CancelLeavesMarking) && self.is_cancelled() {
            return false;
        }
        let mut visited = Vec::new();
        let mut ahead = vec![(self.clone(), reason)];
        while let Some((node, reason)) = ahead.pop() {
            let Marked {
                first,
                reason,
                children,
            } = node.mark(reason);
            // The first child is the next to be visited.
            let children = children.into_iter().rev();
            let unsettled = children.filter(|child| !child.state.is_settled());
            ahead.extend(unsettled.map(|child| (child, reason)));
            visited.push((node, reason, first));
        }
        for (node, reason, _) in &visited {
            node.state.settle(*reason);
        }
        for (node, reason, _) in visited.iter().filter(|(_, _, first)| *first) {
            node.tell(*reason);
        }
        visited[0].2
    }

    /// Makes this node cancelled, if it is live.
    fn mark(&self, reason: CancelReason) -> Marked {
        let mut links = self.links();
        let before = self.reason();
        let mut deadline = None;
        if before.is_none() {
            self.state.mark(reason);
            deadline = links.deadline.take();
            if links.waiters > 0 && !broken(Canary::CancelWakesNobody) {
                self.cancelled.notify_all();
            }
        }
        let children = links.children.iter().filter_map(Weak::upgrade).collect();
        // No child and no entry of the timer is dropped under the lock.
        drop(links);
        drop(deadline);
        Marked {
            first: before.is_none(),
            reason: before.unwrap_or(reason),
            children,
        }
    }

    /// Runs the listeners, each taken out under the lock and told without it.
    fn tell(&self, reason: CancelReason) {
        loop {
            let listener = self.links().listeners.pop_first();
            let Some(listener) = listener else { break };
            listener.tell(reason);
        }
    }

    /// Adds a listener; gives it back, with the reason, when the node is cancelled.
    pub(crate) fn listen(&self, listener: Listener) -> Result<Key, (Listener, CancelReason)> {
        if let Some(reason) = self.reason() {
            return Err((listener, reason));
        }
        let mut links = self.links();
        match self.reason() {
            Some(reason) if !broken(Canary::CancelMissesListener) => Err((listener, reason)),
            _ => Ok(links.listeners.push(listener)),
        }
    }

    /// Takes a listener out and drops it. True when it was there: then it has not been told and never will.
    pub(crate) fn unlisten(&self, key: Key) -> bool {
        let live = !self.is_cancelled();
        let listener = self.links().listeners.remove(key);
        let removed = listener.is_some() || live && broken(Canary::RemoveByState);
        // Outside of the lock: it may own anything.
        unwind::discard(listener);
        removed
    }

    /// Makes `waker` the one that is woken, in the place of the one at `key` if there is one; gives the reason
    /// when the node is cancelled.
    pub(crate) fn wake_on_cancel(
        &self,
        key: &mut Option<Key>,
        waker: &Waker,
    ) -> Option<CancelReason> {
        if let Some(at) = *key
            && let Some(Listener::Wake(present)) = self.links().listeners.get_mut(at)
            && present.will_wake(waker)
        {
            return None;
        }
        // Wakers are the user's code: neither cloned nor dropped under the lock.
        let mut listener = Listener::Wake(waker.clone());
        let replaced = key.is_some_and(|at| {
            let mut links = self.links();
            let place = links.listeners.get_mut(at);
            place.is_some_and(|place| {
                std::mem::swap(place, &mut listener);
                true
            })
        });
        if replaced {
            unwind::discard(listener);
            return None;
        }
        match self.listen(listener) {
            Ok(at) => {
                *key = Some(at);
                None
            }
            Err((listener, reason)) => {
                unwind::discard(listener);
                *key = None;
                Some(reason)
            }
        }
    }

    /// Cancels the node at `at`, unless it has an earlier deadline.
    pub(crate) fn cancel_at(self: &Arc<Self>, at: Instant) -> Result<(), TimerError> {
        if at <= Instant::now() {
            self.cancel(CancelReason::Deadline);
            return Ok(());
        }
        if self.is_cancelled() {
            return Ok(());
        }
        if self.has_deadline_before(at) {
            // In a forked child it may be an inherited one, which nobody serves yet.
            return Timer::global().ensure_thread();
        }
        let node = Arc::downgrade(self);
        let entry = Timer::global().at(at, move || {
            if let Some(node) = node.upgrade() {
                node.cancel(CancelReason::Deadline);
            }
        })?;
        let mut links = self.links();
        let earlier = |(present, _): &(Instant, TimerHandle)| *present <= at;
        let superfluous = self.is_cancelled() || links.deadline.as_ref().is_some_and(earlier);
        let other = if superfluous {
            Some((at, entry))
        } else {
            links.deadline.replace((at, entry))
        };
        // The one that is not needed leaves the timer, outside of the lock.
        drop(links);
        drop(other);
        Ok(())
    }

    fn has_deadline_before(&self, at: Instant) -> bool {
        let links = self.links();
        links.deadline.as_ref().is_some_and(|(time, _)| *time <= at)
    }

    /// Blocks until the node is cancelled, or until `end`.
    pub(crate) fn wait(&self, end: Option<Instant>) -> Option<CancelReason> {
        if let Some(reason) = self.reason() {
            return Some(reason);
        }
        if thread::wait_until(end, || self.is_cancelled()) {
            return self.reason();
        }
        let mut links = self.links();
        links.waiters += 1;
        let reason = loop {
            if let Some(reason) = self.reason() {
                break Some(reason);
            }
            let Some(end) = end else {
                let woken = self.cancelled.wait(links);
                links = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let time = end.saturating_duration_since(Instant::now());
            if time.is_zero() {
                break None;
            }
            let woken = self.cancelled.wait_timeout(links, time);
            links = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        links.waiters -= 1;
        reason
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the list of the parent, and gives the parent up.
    fn leave(&mut self) -> Option<Arc<Self>> {
        let Parent { node, key } = self.parent.take()?;
        let weak = node.links().children.remove(key);
        drop(weak);
        Some(node)
    }

    /// The entry of the node's deadline in the timer, and how many slots its list of children has.
    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn inspect<R>(
        &self,
        look: impl FnOnce(Option<&TimerHandle>, usize, usize) -> R,
    ) -> R {
        let links = self.links();
        let deadline = links.deadline.as_ref().map(|(_, handle)| handle);
        look(deadline, links.children.slots(), links.listeners.slots())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A chain of parents that nobody else has is dropped by this loop: each gives up its own parent before it is
        // dropped itself, so that the drop in the drop finds none.
        let mut above = self.leave();
        while let Some(node) = above {
            above = Arc::into_inner(node).and_then(|mut node| node.leave());
        }
        let links = self.links.get_mut();
        let links = links.unwrap_or_else(PoisonError::into_inner);
        drops::drop_all(std::mem::replace(&mut links.listeners, List::new()));
    }
}
