//! The entries of the list of waits.

use super::report::Party;
use crate::pool::current_task::StackPosition;
use std::{collections::BTreeMap, time::Instant};

/// Something that a wait is for.
pub(crate) trait Subject: Send {
    /// What must happen before it happens.
    fn needs(&self) -> Needs;

    /// Its name in reports.
    fn party(&self) -> Party;
}

/// What must happen before a [`Subject`] does.
pub(crate) enum Needs {
    /// It has happened, or may happen in a way that the list does not show.
    Unknown,
    /// It never happens.
    Never,
    /// The call at this position returns.
    Return(StackPosition),
    /// The future at this address ends; if it is being polled now, not before that poll returns.
    Poll(usize),
    /// It is stuck if one of `any` is, and each of `all`.
    Others {
        any: Vec<Box<dyn Subject>>,
        all: Vec<Box<dyn Subject>>,
    },
}

/// The key of an entry in the list: its position, and a number that no other entry has.
pub(super) type Key = (StackPosition, u64);

/// One wait in progress.
pub(super) struct Listed {
    /// Each of them would end the wait.
    pub(super) subjects: Vec<Box<dyn Subject>>,
    /// Something else may end it too: the clock.
    pub(super) is_open: bool,
    /// The future in whose poll the wait takes place.
    pub(super) polled: Option<usize>,
    pub(super) waiter: Party,
    pub(super) since: Instant,
}

#[derive(Default)]
pub(super) struct Entries {
    /// By position: the waits above a call are those from its position to the topmost one of its
    /// thread.
    pub(super) by_position: BTreeMap<Key, Listed>,
    /// The waits in the polls of futures, by the address of the future.
    pub(super) by_poll: BTreeMap<usize, Key>,
    pub(super) last: u64,
}

impl Entries {
    pub(super) fn insert(&mut self, key: Key, listed: Listed) {
        if let Some(future) = listed.polled {
            self.by_poll.insert(future, key);
        }
        self.by_position.insert(key, listed);
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Listed> {
        let removed = self.by_position.remove(&key);
        let polled = removed.as_ref().and_then(|listed| listed.polled);
        if let Some(future) = polled.filter(|future| self.by_poll.get(future) == Some(&key)) {
            self.by_poll.remove(&future);
        }
        removed
    }
}
