//! The listeners of a node.

use super::{CancelReason, list::ListenerList};
use crate::base::unwind;
use std::{
    any::Any,
    sync::{Arc, Weak},
    task::Waker,
};

/// An internal listener that needs no allocation of its own: a queued task.
pub(crate) trait OnCancel: Any + Send + Sync {
    /// Called when the token is cancelled, at most once for each
    /// [`watch`](super::CancelToken::watch), outside all locks, on the cancelling thread, which may
    /// be that of the timer. It must be short.
    ///
    /// `rest` is what was removed from the list together with this one. The callee may take and
    /// cancel some of it, to do once what they have in common.
    fn on_cancel(self: Arc<Self>, reason: CancelReason, rest: &mut TaskBatch);
}

/// One entry in the list of a node.
pub(crate) enum Listener {
    Call(Box<dyn FnOnce() + Send>),
    Wake(Waker),
    Task(Weak<dyn OnCancel>),
}

impl Listener {
    fn is_task(&self) -> bool {
        matches!(self, Self::Task(_))
    }

    /// Notifies the listener. It may run user code, so it is never called under a lock. A panic has
    /// been reported by the panic hook, and is discarded here.
    pub(crate) fn notify(self, reason: CancelReason) {
        notify_contained(|| match self {
            Self::Call(callback) => callback(),
            Self::Wake(waker) => waker.wake(),
            Self::Task(task) => {
                if let Some(task) = task.upgrade() {
                    task.on_cancel(reason, &mut TaskBatch::default());
                }
            }
        });
    }
}

fn notify_contained(notify: impl FnOnce()) {
    if let Err(payload) = unwind::contain(notify) {
        unwind::discard(payload);
    }
}

/// The most tasks that are removed from a list under one lock, and cancelled with one search for
/// their pool. More would hardly save anything, and keep other threads from the lock for longer.
const MAX_BATCH: usize = 32;

/// Tasks that were removed from the list of a node, to be notified.
#[derive(Default)]
pub(crate) struct TaskBatch {
    /// From the last to the first.
    tasks: Vec<Weak<dyn OnCancel>>,
}

impl TaskBatch {
    /// Takes the first tasks of the list, up to the first listener of another kind. It is empty.
    pub(super) fn take_from(&mut self, list: &mut ListenerList<Listener>) {
        if !list.first().is_some_and(Listener::is_task) {
            return;
        }
        self.tasks.reserve(MAX_BATCH);
        list.drain_front(MAX_BATCH, Listener::is_task, |listener| {
            if let Listener::Task(task) = listener {
                self.tasks.push(task);
            }
        });
        self.tasks.reverse();
    }

    /// The same for a canary: the tasks stay in the list.
    pub(super) fn copy_from(&mut self, list: &ListenerList<Listener>) {
        let tasks = list.iter().map_while(|listener| match listener {
            Listener::Task(task) => Some(task.clone()),
            _ => None,
        });
        self.tasks.extend(tasks.take(MAX_BATCH));
        self.tasks.reverse();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Notifies all of them, outside all locks, as [`Listener::notify`] does.
    pub(super) fn notify(&mut self, reason: CancelReason) {
        while let Some(task) = self.tasks.pop() {
            // After a panic the rest of them is still here.
            notify_contained(|| {
                if let Some(task) = task.upgrade() {
                    task.on_cancel(reason, self);
                }
            });
        }
    }

    /// Removes and returns the next task that still exists, if it is of this type.
    pub(crate) fn next_of<T: OnCancel>(&mut self) -> Option<Arc<T>> {
        while let Some(next) = self.tasks.pop() {
            let Some(task) = next.upgrade() else {
                continue;
            };
            let task: Arc<dyn Any + Send + Sync> = task;
            match task.downcast() {
                Ok(task) => return Some(task),
                Err(_) => {
                    self.tasks.push(next);
                    break;
                }
            }
        }
        None
    }
}
