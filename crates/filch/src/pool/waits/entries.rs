//! The entries of the list of waits.

use super::{
    event::{EventId, EventKind},
    report::Party,
    verdict::CycleVerdict,
};
use crate::{base::Instant, pool::current_task::StackPosition};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Something that a wait is for.
pub(crate) trait Subject: Send {
    /// What must happen before it happens.
    fn needs(&self) -> Needs;

    /// Its name in reports.
    fn party(&self) -> Party;

    /// Returns a number that it shares only with subjects that have the same needs, if several
    /// others may need it: a check visits it once.
    fn identity(&self) -> Option<usize> {
        None
    }
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
    /// The waits end that hold this event up.
    Event(EventId),
    /// It is stuck if one of `stuck_if_any` is, and each of `and_if_all`.
    Others {
        stuck_if_any: Vec<Box<dyn Subject>>,
        and_if_all: Vec<Box<dyn Subject>>,
    },
}

/// The key of an entry in the list: its position, and a number that no other entry has.
pub(super) type Key = (StackPosition, u64);

/// What a wait does when it can never end.
#[derive(Clone)]
pub(crate) enum OnCycle {
    /// It returns an error.
    Return(Arc<CycleVerdict>),
    /// It panics, before it has slept.
    Panic,
    /// It stays, because other threads use the frame of the caller.
    Stay,
}

/// One wait in progress.
pub(super) struct Listed {
    /// Each of them would end the wait.
    pub(super) subjects: WaitSubjects,
    /// Something else may end it too: the clock, or a verdict.
    pub(super) is_open: bool,
    /// The future in whose poll the wait takes place.
    pub(super) polled: Option<usize>,
    /// The events that cannot happen before the wait has ended.
    pub(super) held_up: Vec<EventId>,
    pub(super) on_cycle: OnCycle,
    pub(super) waiter: Party,
    pub(super) since: Instant,
}

/// What would end a wait.
pub(super) enum WaitSubjects {
    /// The end of a group of jobs, or the release of a lock. Without an allocation, since these
    /// waits are frequent.
    Event(EventId),
    Several(Vec<Box<dyn Subject>>),
}

impl WaitSubjects {
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Event(_) => 1,
            Self::Several(subjects) => subjects.len(),
        }
    }

    pub(super) fn get(&self, number: usize) -> Option<&dyn Subject> {
        match self {
            Self::Event(event) => (number == 0).then_some(event),
            Self::Several(subjects) => subjects.get(number).map(|subject| &**subject),
        }
    }
}

#[derive(Default)]
pub(super) struct Entries {
    /// By position: the waits above a call are those from its position to the topmost one of its
    /// thread.
    pub(super) by_position: BTreeMap<Key, Listed>,
    /// The waits in the polls of futures, by the address of the future.
    pub(super) by_poll: BTreeMap<usize, Key>,
    /// The waits that hold an event up.
    pub(super) by_event: BTreeSet<(EventId, Key)>,
    /// The number of waits that are not for a group of jobs.
    pub(super) free: usize,
    pub(super) last: u64,
}

impl Entries {
    pub(super) fn insert(&mut self, key: Key, listed: Listed) {
        if let Some(future) = listed.polled {
            self.by_poll.insert(future, key);
        }
        let held_up = listed.held_up.iter().map(|&event| (event, key));
        self.by_event.extend(held_up);
        self.free += usize::from(!listed.is_for_group());
        self.by_position.insert(key, listed);
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Listed> {
        let removed = self.by_position.remove(&key)?;
        if let Some(future) = removed.polled
            && self.by_poll.get(&future) == Some(&key)
        {
            self.by_poll.remove(&future);
        }
        for &event in &removed.held_up {
            self.by_event.remove(&(event, key));
        }
        self.free -= usize::from(!removed.is_for_group());
        Some(removed)
    }

    /// Chooses one of these waits to end with a report, and returns where to deliver it. From now
    /// on the wait counts as one that ends.
    pub(super) fn give_verdict(&mut self, waits: &[Key]) -> Option<(Key, Arc<CycleVerdict>)> {
        waits.iter().find_map(|&key| {
            let listed = self.by_position.get_mut(&key)?;
            let OnCycle::Return(verdict) = &listed.on_cycle else {
                return None;
            };
            listed.is_open = true;
            Some((key, verdict.clone()))
        })
    }

    /// Removes an event from those that the waits on the thread of `position` hold up.
    pub(super) fn release_early(&mut self, position: StackPosition, event: EventId) {
        let (bottom, top) = ((position.bottom(), 0), (position.topmost(), u64::MAX));
        for (&key, listed) in self.by_position.range_mut(bottom..=top) {
            listed.held_up.retain(|&held_up| held_up != event);
            self.by_event.remove(&(event, key));
        }
    }

    /// The waits that hold the event up.
    pub(super) fn holding_up(&self, event: EventId) -> impl Iterator<Item = Key> + '_ {
        let (first, last) = (
            StackPosition::from_bits(0),
            StackPosition::from_bits(u64::MAX),
        );
        let all = self
            .by_event
            .range((event, (first, 0))..=(event, (last, u64::MAX)));
        all.map(|&(_, key)| key)
    }
}

impl Listed {
    /// Whether it is a wait for a group of jobs. The jobs of a group begin after it, so waits for
    /// groups alone do not make a cycle.
    pub(super) fn is_for_group(&self) -> bool {
        matches!(self.subjects, WaitSubjects::Event(event) if event.is_group())
    }
}

impl Subject for EventId {
    fn needs(&self) -> Needs {
        match self.kind() {
            EventKind::AnyLock => Needs::Others {
                stuck_if_any: self
                    .parts()
                    .map(|part| -> Box<dyn Subject> { Box::new(part) })
                    .collect(),
                and_if_all: Vec::new(),
            },
            _ => Needs::Event(*self),
        }
    }

    fn party(&self) -> Party {
        Party::event(self.kind())
    }
}
