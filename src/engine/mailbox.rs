//! What waits for one worker: its mail, and its box.
//!
//! *Mail* only this worker may run. A *boxed* task it should run, and others may if it is not free soon; `lanes.md`
//! says when. Both lie behind one lock, because a worker that leaves has to empty both, and from then on nobody
//! may put anything into the box: what is meant for a worker that is not there is for anybody.

use super::{lanes::Flags, locked::remove_useless};
use crate::base::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use std::{collections::VecDeque, fmt, sync::PoisonError};

pub(super) struct Mailbox<T> {
    inside: Mutex<Inside<T>>,
    /// The length of the mail, written under the lock, read by anyone.
    mail: AtomicUsize,
    /// The same for the box.
    boxed: AtomicUsize,
    /// How many tasks have been taken from the box, by whomever.
    taken: AtomicU64,
}

struct Inside<T> {
    mail: VecDeque<T>,
    boxed: VecDeque<T>,
    /// The worker has not left. One that has never been there may still come.
    open: bool,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self {
            inside: Mutex::new(Inside {
                mail: VecDeque::new(),
                boxed: VecDeque::new(),
                open: true,
            }),
            mail: AtomicUsize::new(0),
            boxed: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        // As in `LockedQueue::lock`: what is inside is whole at any time.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, inside: &Inside<T>) {
        // Release: pairs with the acquires in `has_mail` and `has_affine`.
        self.mail.store(inside.mail.len(), Ordering::Release);
        self.boxed.store(inside.boxed.len(), Ordering::Release);
    }

    pub(super) fn has_mail(&self) -> bool {
        // Acquire: pairs with the release in `note`.
        self.mail.load(Ordering::Acquire) != 0
    }

    /// Adds to the mail, or gives the task back when the worker has left.
    pub(super) fn push_mail(&self, task: T) -> Result<(), T> {
        let mut inside = self.lock();
        if !inside.open {
            return Err(task);
        }
        inside.mail.push_back(task);
        self.note(&inside);
        Ok(())
    }

    pub(super) fn take_mail(&self) -> Option<T> {
        if !self.has_mail() {
            return None;
        }
        let mut inside = self.lock();
        let task = inside.mail.pop_front();
        self.note(&inside);
        task
    }

    pub(super) fn has_affine(&self) -> bool {
        self.boxed() != 0
    }

    /// How many tasks have been taken from the box: if it says the same twice, with something in the box, its
    /// worker was not free in between.
    pub(super) fn taken(&self) -> u64 {
        // Relaxed: a number.
        self.taken.load(Ordering::Relaxed)
    }

    /// Puts a task into the box, or gives it back when the worker has left.
    pub(super) fn put(&self, flags: &Flags, task: T) -> Result<(), T> {
        let mut inside = self.lock();
        if !inside.open {
            return Err(task);
        }
        inside.boxed.push_back(task);
        self.note(&inside);
        if inside.boxed.len() == 1 {
            flags.raise_box();
        }
        Ok(())
    }

    /// Takes the oldest task out of the box.
    pub(super) fn take(&self, flags: &Flags) -> Option<T> {
        if !self.has_affine() {
            return None;
        }
        let mut inside = self.lock();
        let task = inside.boxed.pop_front()?;
        self.note(&inside);
        // Relaxed: a number; it changes under the lock.
        self.taken.fetch_add(1, Ordering::Relaxed);
        if inside.boxed.is_empty() {
            flags.lower_box();
        }
        Some(task)
    }

    /// How many tasks there seem to be in the box.
    pub(super) fn boxed(&self) -> usize {
        // Acquire: pairs with the release in `note`.
        self.boxed.load(Ordering::Acquire)
    }

    /// Moves the boxed tasks that are `useless` to `into`.
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
        let before = inside.boxed.len();
        remove_useless(&mut inside.boxed, useless, into);
        self.note(&inside);
        if before > 0 && inside.boxed.is_empty() {
            flags.lower_box();
        }
    }

    /// The worker is there.
    pub(super) fn open(&self) {
        self.lock().open = true;
    }

    /// The worker leaves: what waited for it, oldest first.
    pub(super) fn close(&self, flags: &Flags) -> Vec<T> {
        let mut inside = self.lock();
        inside.open = false;
        self.empty(&mut inside, flags)
    }

    /// Takes everything.
    pub(super) fn drain(&self, flags: &Flags) -> Vec<T> {
        let mut inside = self.lock();
        self.empty(&mut inside, flags)
    }

    fn empty(&self, inside: &mut Inside<T>, flags: &Flags) -> Vec<T> {
        let mut tasks: Vec<T> = inside.mail.drain(..).collect();
        if !inside.boxed.is_empty() {
            tasks.extend(inside.boxed.drain(..));
            flags.lower_box();
        }
        self.note(inside);
        tasks
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post")
            .field("mail", &self.has_mail())
            .field("boxed", &self.has_affine())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_up_while_the_box_holds_something() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        mailbox.put(&flags, 1).unwrap();
        mailbox.put(&flags, 2).unwrap();
        assert!(flags.read().boxes() && mailbox.has_affine());
        assert_eq!((mailbox.take(&flags), mailbox.taken()), (Some(1), 1));
        assert!(flags.read().boxes());
        assert_eq!((mailbox.take(&flags), mailbox.taken()), (Some(2), 2));
        assert!(!flags.read().boxes() && !mailbox.has_affine());
        assert_eq!(mailbox.take(&flags), None);
    }

    #[test]
    fn weeding_leaves_the_others() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        (1..=3).for_each(|task| mailbox.put(&flags, task).unwrap());
        let mut weeds = Vec::new();
        mailbox.remove_useless(&flags, &|task| *task == 2, &mut weeds);
        assert!(weeds == [2] && mailbox.boxed() == 2 && flags.read().boxes());
        mailbox.remove_useless(&flags, &|_| true, &mut weeds);
        assert!(weeds == [2, 1, 3] && !mailbox.has_affine() && !flags.read().boxes());
    }

    #[test]
    fn who_leaves_takes_everything_along_and_gets_no_more() {
        let (flags, mailbox) = (Flags::new(), Mailbox::new());
        mailbox.push_mail(1).unwrap();
        mailbox.put(&flags, 2).unwrap();
        assert_eq!(mailbox.close(&flags), [1, 2]);
        assert!(!flags.read().boxes() && !mailbox.has_mail());
        assert_eq!(mailbox.put(&flags, 3), Err(3));
        assert_eq!(mailbox.push_mail(4), Err(4));
        mailbox.open();
        assert_eq!(mailbox.put(&flags, 5), Ok(()));
    }
}
