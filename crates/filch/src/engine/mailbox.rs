//! The queued tasks of one worker: its pinned and its affine tasks. The mailbox of a node has the
//! affine tasks of all its workers.
//!
//! Only this worker may run a *pinned* task. An *affine* task it should run, and others may if it
//! is not free soon; `lanes.md` specifies when. Both are behind one lock, because a worker that
//! leaves has to empty both, and from then on the mailbox accepts no task. An affine task for a
//! worker that has left goes to the injector, where any worker may take it; a pinned one to worker
//! 0, if that one is there (`Core::push_orphan`). The same holds for a node when the last of its
//! workers that has entered leaves.

use super::{lanes::Flags, locked::remove_useless};
use crate::base::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use std::{collections::VecDeque, fmt, sync::PoisonError};

pub(super) struct Mailbox<T> {
    inside: Mutex<MailboxContents<T>>,
    /// The number of pinned tasks, written under the lock, read by any thread.
    pinned: AtomicUsize,
    /// The number of affine tasks, written and read in the same way.
    affine: AtomicUsize,
    /// How many affine tasks have been taken, by any worker.
    taken: AtomicU64,
}

struct MailboxContents<T> {
    pinned: VecDeque<T>,
    affine: VecDeque<T>,
    presence: Presence,
}

/// Whether the workers of a mailbox take part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// None has entered, but may still do so: the mailbox accepts tasks.
    Awaited,
    /// The number of workers that have entered and not left.
    Entered(usize),
    /// All that had entered have left.
    Left,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self {
            inside: Mutex::new(MailboxContents {
                pinned: VecDeque::new(),
                affine: VecDeque::new(),
                presence: Presence::Awaited,
            }),
            pinned: AtomicUsize::new(0),
            affine: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, MailboxContents<T>> {
        // As in `LockedQueue::lock`: the contents are consistent at any time.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_len(&self, inside: &MailboxContents<T>) {
        // Release: pairs with the acquires in `has_pinned` and `affine_len`.
        self.pinned.store(inside.pinned.len(), Ordering::Release);
        self.affine.store(inside.affine.len(), Ordering::Release);
    }

    pub(super) fn has_pinned(&self) -> bool {
        // Acquire: pairs with the release in `publish_len`.
        self.pinned.load(Ordering::Acquire) != 0
    }

    /// Adds a pinned task, or returns it when the worker has left.
    pub(super) fn push_pinned(&self, task: T) -> Result<(), T> {
        self.push_pinned_unless(|presence| presence == Presence::Left, task)
    }

    /// Adds a pinned task of another worker, or returns it when the worker of this mailbox is not
    /// there.
    pub(super) fn push_orphan(&self, task: T) -> Result<(), T> {
        self.push_pinned_unless(|presence| !matches!(presence, Presence::Entered(_)), task)
    }

    fn push_pinned_unless(&self, refuses: fn(Presence) -> bool, task: T) -> Result<(), T> {
        let mut inside = self.lock();
        if refuses(inside.presence) {
            return Err(task);
        }
        inside.pinned.push_back(task);
        self.publish_len(&inside);
        Ok(())
    }

    pub(super) fn take_pinned(&self) -> Option<T> {
        if !self.has_pinned() {
            return None;
        }
        let mut inside = self.lock();
        let task = inside.pinned.pop_front();
        self.publish_len(&inside);
        task
    }

    pub(super) fn has_affine(&self) -> bool {
        self.affine_len() != 0
    }

    /// Returns how many affine tasks have been taken. If two calls return the same number, and
    /// there is an affine task, the worker was not free in between.
    pub(super) fn taken(&self) -> u64 {
        // Relaxed: a number that publishes nothing.
        self.taken.load(Ordering::Relaxed)
    }

    /// Adds an affine task, or returns it when the worker, or all of the node, have left.
    pub(super) fn push_affine(&self, flags: &Flags, task: T) -> Result<(), T> {
        let mut inside = self.lock();
        if inside.presence == Presence::Left {
            return Err(task);
        }
        inside.affine.push_back(task);
        self.publish_len(&inside);
        if inside.affine.len() == 1 {
            flags.raise_affine();
        }
        Ok(())
    }

    /// Takes the oldest affine task.
    pub(super) fn take_affine(&self, flags: &Flags) -> Option<T> {
        if !self.has_affine() {
            return None;
        }
        let mut inside = self.lock();
        let task = inside.affine.pop_front()?;
        self.publish_len(&inside);
        // Relaxed: a number that publishes nothing; it changes under the lock.
        self.taken.fetch_add(1, Ordering::Relaxed);
        if inside.affine.is_empty() {
            flags.lower_affine();
        }
        Some(task)
    }

    /// Returns the number of affine tasks at some recent moment.
    pub(super) fn affine_len(&self) -> usize {
        // Acquire: pairs with the release in `publish_len`.
        self.affine.load(Ordering::Acquire)
    }

    /// Moves the affine tasks that are `useless` to `into`.
    pub(super) fn remove_useless(
        &self,
        flags: &Flags,
        useless: &impl Fn(&T) -> bool,
        into: &mut Vec<T>,
    ) {
        if !self.has_affine() {
            return;
        }
        let mut inside = self.lock();
        let before = inside.affine.len();
        remove_useless(&mut inside.affine, useless, into);
        self.publish_len(&inside);
        if before > 0 && inside.affine.is_empty() {
            flags.lower_affine();
        }
    }

    /// Accepts tasks from now on: a worker has entered.
    pub(super) fn open(&self) {
        let mut inside = self.lock();
        inside.presence = match inside.presence {
            Presence::Entered(workers) => Presence::Entered(workers + 1),
            Presence::Awaited | Presence::Left => Presence::Entered(1),
        };
    }

    /// Refuses tasks from now on, if the worker that leaves is the last one. Then returns the
    /// pinned and the affine tasks, oldest first.
    pub(super) fn close(&self, flags: &Flags) -> (Vec<T>, Vec<T>) {
        let mut inside = self.lock();
        if let Presence::Entered(workers @ 2..) = inside.presence {
            inside.presence = Presence::Entered(workers - 1);
            return (Vec::new(), Vec::new());
        }
        inside.presence = Presence::Left;
        let pinned = inside.pinned.drain(..).collect();
        (pinned, self.take_contents(&mut inside, flags))
    }

    /// Takes all tasks.
    pub(super) fn drain(&self, flags: &Flags) -> Vec<T> {
        let mut inside = self.lock();
        self.take_contents(&mut inside, flags)
    }

    /// Takes all tasks, and lowers the flag for affine ones.
    fn take_contents(&self, inside: &mut MailboxContents<T>, flags: &Flags) -> Vec<T> {
        let mut tasks: Vec<T> = inside.pinned.drain(..).collect();
        if !inside.affine.is_empty() {
            tasks.extend(inside.affine.drain(..));
            flags.lower_affine();
        }
        self.publish_len(inside);
        tasks
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox")
            .field("pinned", &self.has_pinned())
            .field("affine", &self.has_affine())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_up_while_there_are_affine_tasks() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        mailbox.push_affine(&flags, 1).unwrap();
        mailbox.push_affine(&flags, 2).unwrap();
        assert!(flags.read().has_affine() && mailbox.has_affine());
        assert_eq!((mailbox.take_affine(&flags), mailbox.taken()), (Some(1), 1));
        assert!(flags.read().has_affine());
        assert_eq!((mailbox.take_affine(&flags), mailbox.taken()), (Some(2), 2));
        assert!(!flags.read().has_affine() && !mailbox.has_affine());
        assert_eq!(mailbox.take_affine(&flags), None);
    }

    #[test]
    fn removing_useless_tasks_keeps_the_others() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        (1..=3).for_each(|task| mailbox.push_affine(&flags, task).unwrap());
        let mut useless = Vec::new();
        mailbox.remove_useless(&flags, &|task| *task == 2, &mut useless);
        assert!(useless == [2] && mailbox.affine_len() == 2 && flags.read().has_affine());
        mailbox.remove_useless(&flags, &|_| true, &mut useless);
        assert!(useless == [2, 1, 3] && !mailbox.has_affine() && !flags.read().has_affine());
    }

    #[test]
    fn a_closed_mailbox_is_empty_and_refuses_tasks() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        mailbox.push_pinned(1).unwrap();
        mailbox.push_affine(&flags, 2).unwrap();
        assert_eq!(mailbox.push_orphan(0), Err(0), "no worker has entered");
        assert_eq!(mailbox.close(&flags), (vec![1], vec![2]));
        assert!(!flags.read().has_affine() && !mailbox.has_pinned());
        assert_eq!(mailbox.push_affine(&flags, 3), Err(3));
        assert_eq!(mailbox.push_pinned(4), Err(4));
        assert_eq!(mailbox.push_orphan(4), Err(4));
        mailbox.open();
        assert_eq!(mailbox.push_affine(&flags, 5), Ok(()));
        assert_eq!(mailbox.push_orphan(6), Ok(()));
    }

    #[test]
    fn the_mailbox_of_several_workers_closes_with_the_last() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        mailbox.open();
        mailbox.open();
        mailbox.push_affine(&flags, 1).unwrap();
        assert_eq!(mailbox.close(&flags), (vec![], vec![]));
        mailbox.push_affine(&flags, 2).unwrap();
        assert_eq!(mailbox.close(&flags), (vec![], vec![1, 2]));
        assert_eq!(mailbox.push_affine(&flags, 3), Err(3));
        mailbox.open();
        mailbox.push_affine(&flags, 4).unwrap();
        assert_eq!(mailbox.close(&flags), (vec![], vec![4]));
    }
}
