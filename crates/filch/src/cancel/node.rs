//! The node that the clones of a token share; the module above describes the protocol.

use super::{
    CancelReason, drops,
    list::{ListenerKey, ListenerList},
    listener::{Listener, TaskBatch},
    nesting::{self, NotifyListeners},
    state::CancelState,
};
use crate::{
    base::{
        Instant,
        canary::{Canary, broken},
        sync::{Condvar, Mutex, MutexGuard},
        thread, unwind,
    },
    threads::timer::{Timer, TimerError, TimerHandle},
};
use std::{
    sync::{Arc, PoisonError, Weak},
    task::Waker,
};

/// The state that the clones of a token share.
pub(crate) struct CancelNode {
    state: CancelState,
    links: Mutex<Links>,
    /// Where the threads wait that are counted in `Links::waiters`.
    cancelled: Condvar,
    /// Taken only by `detach_from_parent`, when the node is dropped.
    parent: Option<Parent>,
}

/// The parent of a node, and the node's key in its list of children.
struct Parent {
    node: Arc<CancelNode>,
    key: ListenerKey,
}

struct Links {
    /// In the order of creation. They stay when the node is cancelled; see step 2 of the protocol.
    children: ListenerList<Weak<CancelNode>>,
    /// In the order of registration. No listener is added after the node is cancelled, so a key is
    /// never reused for another listener before its holder has used it.
    listeners: ListenerList<Listener>,
    /// The earliest deadline. Taken when the node is cancelled.
    deadline: Option<(Instant, TimerHandle)>,
    /// The number of waiting threads; with none, `mark` skips the notification.
    waiters: usize,
}

/// The result of `mark`.
struct Marked {
    /// Whether this call cancelled the node, so that it must notify the listeners.
    first: bool,
    reason: CancelReason,
    children: Vec<Arc<CancelNode>>,
}

impl CancelNode {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::with_state(CancelState::live(), None))
    }

    fn with_state(state: CancelState, parent: Option<Parent>) -> Self {
        Self {
            state,
            links: Mutex::new(Links {
                children: ListenerList::new(),
                listeners: ListenerList::new(),
                deadline: None,
                waiters: 0,
            }),
            cancelled: Condvar::new(),
            parent,
        }
    }

    /// Creates a child. A child of a cancelled node is created cancelled, and has no parent.
    pub(crate) fn child(self: &Arc<Self>) -> Arc<Self> {
        let cancelled_child =
            |reason| Arc::new(Self::with_state(CancelState::new_cancelled(reason), None));
        if let Some(reason) = self.reason() {
            return cancelled_child(reason);
        }
        let mut links = self.links();
        if let Some(reason) = self.reason()
            && !broken(Canary::CancelMissesChild)
        {
            return cancelled_child(reason);
        }
        let parent = Parent {
            node: self.clone(),
            key: links.children.next_key(),
        };
        let child = Arc::new(Self::with_state(CancelState::live(), Some(parent)));
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

    /// Cancels the node and everything below it. Returns whether it was live.
    pub(crate) fn cancel(self: &Arc<Self>, reason: CancelReason) -> bool {
        if self.state.is_subtree_cancelled()
            || broken(Canary::CancelLeavesMarking) && self.is_cancelled()
        {
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
            // In reverse, so that the first child is the next to be visited.
            let children = children.into_iter().rev();
            let incomplete = children.filter(|child| !child.state.is_subtree_cancelled());
            ahead.extend(incomplete.map(|child| (child, reason)));
            visited.push((node, reason, first));
        }
        for (node, reason, _) in &visited {
            node.state.mark_subtree(*reason);
        }
        let was_live = visited[0].2;
        let marked_here = visited.into_iter().filter(|(_, _, first)| *first);
        nesting::notify_all(marked_here.map(|(node, reason, _)| (node as _, reason)));
        was_live
    }

    /// Cancels this node only, if it is live.
    fn mark(&self, reason: CancelReason) -> Marked {
        let mut links = self.links();
        let before = self.reason();
        let mut deadline = None;
        if before.is_none() {
            self.state.mark(reason);
            deadline = links.deadline.take();
            if links.waiters > 0 && !broken(Canary::CancelSkipsNotify) {
                self.cancelled.notify_all();
            }
        }
        let children = links.children.iter().filter_map(Weak::upgrade).collect();
        // Neither a child nor an entry of the timer is dropped under the lock.
        drop(links);
        drop(deadline);
        Marked {
            first: before.is_none(),
            reason: before.unwrap_or(reason),
            children,
        }
    }

    /// Adds a listener; returns it with the reason if the node is cancelled.
    pub(crate) fn listen(
        &self,
        listener: Listener,
    ) -> Result<ListenerKey, (Listener, CancelReason)> {
        if let Some(reason) = self.reason() {
            return Err((listener, reason));
        }
        let mut links = self.links();
        match self.reason() {
            Some(reason) if !broken(Canary::CancelMissesListener) => Err((listener, reason)),
            _ => Ok(links.listeners.push(listener)),
        }
    }

    /// Removes and drops a listener. True if it was there: then it has not been notified and never
    /// will be.
    pub(crate) fn unlisten(&self, key: ListenerKey) -> bool {
        let live = !self.is_cancelled();
        let listener = self.links().listeners.remove(key);
        let removed = listener.is_some() || live && broken(Canary::RemoveByState);
        // Outside the lock: it may own user data.
        unwind::discard(listener);
        removed
    }

    /// Registers `waker`, replacing the one at `key` if there is one. Returns the reason if the
    /// node is cancelled.
    pub(crate) fn wake_on_cancel(
        &self,
        key: &mut Option<ListenerKey>,
        waker: &Waker,
    ) -> Option<CancelReason> {
        if let Some(at) = *key
            && let Some(Listener::Wake(present)) = self.links().listeners.get_mut(at)
            && present.will_wake(waker)
        {
            return None;
        }
        // Wakers are user code: they are neither cloned nor dropped under the lock.
        let mut listener = Listener::Wake(waker.clone());
        let replaced = key.is_some_and(|at| {
            let mut links = self.links();
            let entry = links.listeners.get_mut(at);
            entry.is_some_and(|entry| {
                std::mem::swap(entry, &mut listener);
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
            // In a forked child process it may be inherited, and the child has no timer thread yet.
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
        // The superseded entry leaves the timer outside the lock.
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

    /// Removes the node from its parent's list, and returns the parent.
    fn detach_from_parent(&mut self) -> Option<Arc<Self>> {
        let Parent { node, key } = self.parent.take()?;
        let weak = node.links().children.remove(key);
        drop(weak);
        Some(node)
    }

    /// Passes `f` the timer entry of the deadline and the numbers of slots of both lists.
    #[cfg(all(test, not(filch_loom)))]
    pub(crate) fn inspect<R>(&self, f: impl FnOnce(Option<&TimerHandle>, usize, usize) -> R) -> R {
        let links = self.links();
        let deadline = links.deadline.as_ref().map(|(_, handle)| handle);
        f(deadline, links.children.slots(), links.listeners.slots())
    }
}

impl NotifyListeners for CancelNode {
    /// Notifies the listeners. Each is removed under the lock and notified without it: callbacks
    /// and wakers one at a time, so that one can still remove the next, tasks in batches.
    fn notify(&self, reason: CancelReason) {
        let mut batch = TaskBatch::default();
        loop {
            let mut links = self.links();
            match broken(Canary::CancelKeepsBatch) {
                true => batch.copy_from(&links.listeners),
                false => batch.take_from(&mut links.listeners),
            }
            let other = match batch.is_empty() {
                true => links.listeners.pop_first(),
                false => None,
            };
            drop(links);
            match other {
                Some(listener) => listener.notify(reason),
                None if batch.is_empty() => break,
                None => {
                    batch.notify(reason);
                    if broken(Canary::CancelKeepsBatch) {
                        batch.take_from(&mut self.links().listeners);
                        batch = TaskBatch::default();
                    }
                }
            }
        }
    }
}

impl Drop for CancelNode {
    fn drop(&mut self) {
        // This loop drops a chain of parents without other owners: each node gives up its parent
        // before it is dropped itself, so that the nested drop finds none.
        let mut above = self.detach_from_parent();
        while let Some(node) = above {
            above = Arc::into_inner(node).and_then(|mut node| node.detach_from_parent());
        }
        let links = self.links.get_mut();
        let links = links.unwrap_or_else(PoisonError::into_inner);
        drops::drop_all(std::mem::replace(&mut links.listeners, ListenerList::new()));
    }
}
