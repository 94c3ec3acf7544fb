//! Loops over any iterator.

use super::{
    over::{Loop, over},
    producer::Producer,
};
use crate::{
    base::sync::{AtomicBool, Ordering},
    sync::Mutex,
};
use std::{fmt, sync::Arc};

/// `iterator.par_bridge()`: a loop over the items of any iterator.
///
/// The workers take turns to pull items, one at a time, so the iterator itself is sequential: it
/// pays off if an item takes longer than to pull it under a lock. The results
/// are in no particular order, and of several matches or errors any may be returned as the first.
/// The length is not known: the numbers of [`progress`](Loop::progress) and of
/// [`LoopCancelled`](super::LoopCancelled) are upper bounds.
///
/// While a worker pulls, others wait for it. The iterator may use the pool; waits in it run no
/// other task, as with a [`sync::Mutex`](crate::sync::Mutex).
///
/// ```
/// use filch::prelude::*;
///
/// let words = "some words of no particular length".split(' ');
/// let letters: usize = words.par_bridge().map(|word| word.len()).sum();
/// assert_eq!(letters, 29);
/// ```
pub trait ParBridge: Iterator<Item: Send> + Send + Sized {
    /// Creates the loop.
    ///
    /// ```
    /// use filch::prelude::*;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// (0..100).for_each(|n| sender.send(n).unwrap());
    /// drop(sender);
    /// assert_eq!(receiver.into_iter().par_bridge().sum::<i32>(), 4950);
    /// ```
    fn par_bridge<'a>(self) -> Loop<'a, Bridge<Self>> {
        over(Bridge {
            shared: Arc::new(SharedIterator {
                iterator: Mutex::new(self),
                exhausted: AtomicBool::new(false),
            }),
            most: usize::MAX,
        })
    }
}

impl<I: Iterator<Item: Send> + Send> ParBridge for I {}

/// An iterator that several workers pull items from; from [`ParBridge::par_bridge`].
pub struct Bridge<I> {
    shared: Arc<SharedIterator<I>>,
    /// The most items to be pulled by this piece. The loop splits the numbers of items that could
    /// come; no piece has items of its own.
    most: usize,
}

struct SharedIterator<I> {
    iterator: Mutex<I>,
    /// The iterator has returned `None`, or has panicked.
    exhausted: AtomicBool,
}

impl<I: Iterator> SharedIterator<I> {
    /// Takes the next item. One at a time: a worker that waited for more could keep items from
    /// being processed that the iterator waits for, as with a channel that is fed by the loop.
    fn pull(&self) -> Option<I::Item> {
        // Relaxed: it is set under the lock, and read here to save the lock.
        if self.exhausted.load(Ordering::Relaxed) {
            return None;
        }
        // The lock is poisoned if the iterator has panicked: that worker reports it.
        let Ok(mut iterator) = self.iterator.lock() else {
            self.exhaust();
            return None;
        };
        // Relaxed: under the lock.
        if self.exhausted.load(Ordering::Relaxed) {
            return None;
        }
        let item = iterator.next();
        if item.is_none() {
            self.exhaust();
        }
        item
    }

    fn exhaust(&self) {
        // Relaxed: it saves locks and items; nothing is read because of it.
        self.exhausted.store(true, Ordering::Relaxed);
    }
}

impl<I: Iterator<Item: Send> + Send> Producer for Bridge<I> {
    type Item = I::Item;
    type Iter = BridgeIter<I>;
    const EXACT: bool = false;
    const ORDERED: bool = false;

    fn size(&self) -> usize {
        self.most
    }

    fn split_at(self, index: usize) -> (Self, Self) {
        let part = |shared, most| Self { shared, most };
        (
            part(self.shared.clone(), index),
            part(self.shared, self.most.saturating_sub(index)),
        )
    }

    fn is_exhausted(&self) -> bool {
        // Relaxed: as in `exhaust`.
        self.shared.exhausted.load(Ordering::Relaxed)
    }

    fn items(self) -> BridgeIter<I> {
        BridgeIter(self)
    }
}

impl<I> fmt::Debug for Bridge<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").finish_non_exhaustive()
    }
}

/// The iterator of a block of [`Bridge`].
pub struct BridgeIter<I>(Bridge<I>);

impl<I: Iterator> Iterator for BridgeIter<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.most = self.0.most.checked_sub(1)?;
        self.0.shared.pull()
    }
}

impl<I> fmt::Debug for BridgeIter<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeIter").finish_non_exhaustive()
    }
}
