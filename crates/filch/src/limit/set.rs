//! The state under the lock of [`Budgets`](super::Budgets): the parts, and one queue for all of
//! them.
//!
//! A request takes all of its parts in one step or none. Waiters hold nothing, so no two of them
//! can block each other.
//!
//! There is one queue, but a request waits only behind requests that want one of the same parts. It
//! is served when every part that it wants has enough free units and no earlier request wants one
//! of them. So a request that waits for bytes does not delay requests for connections only, and no
//! request overtakes another that waits for the same part.

use super::{
    AcquireError, MOST_UNITS,
    waiters::{Calls, Outcome, Waiters},
};
use std::sync::Arc;

/// The units of each part, by its index: no part twice, none with zero units.
pub(super) type Ask = Vec<(usize, u64)>;

pub(super) struct Set {
    pub(super) parts: Vec<Part>,
    pub(super) closed: bool,
    pub(super) queue: Waiters<Ask>,
}

pub(super) struct Part {
    pub(super) name: Arc<str>,
    pub(super) capacity: u64,
    pub(super) free: u64,
    /// The number of requests in the queue that want it.
    waiting: usize,
    /// During a pass over the queue in `serve`: an earlier request that stays queued wants it.
    wanted: bool,
}

impl Set {
    pub(super) fn new() -> Self {
        Self {
            parts: Vec::new(),
            closed: false,
            queue: Waiters::new(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.parts.iter().position(|part| *part.name == *name)
    }

    /// Resolves names to indices. Units of a part that is named twice are added.
    pub(super) fn resolve(&self, wanted: &[(&str, u64)]) -> Result<Ask, AcquireError> {
        let mut ask = Ask::with_capacity(wanted.len());
        for &(name, n) in wanted {
            let part = self.find(name).ok_or_else(|| AcquireError::unknown(name))?;
            add_to(&mut ask, part, n);
        }
        Ok(ask)
    }

    /// Increases the part `name`, or creates it.
    pub(super) fn add(&mut self, name: &str, units: u64) -> Calls {
        let at = self.find(name).unwrap_or_else(|| {
            self.parts.push(Part {
                name: name.into(),
                capacity: 0,
                free: 0,
                waiting: 0,
                wanted: false,
            });
            self.parts.len() - 1
        });
        let part = &mut self.parts[at];
        let units = units.min(MOST_UNITS - part.capacity);
        part.capacity += units;
        part.free += units;
        let mut calls = Calls::default();
        self.serve(&mut calls);
        calls
    }

    /// Whether `ask` can ever be granted: the budgets are not closed, and each part has the
    /// capacity.
    pub(super) fn possible(&self, ask: &Ask) -> Outcome {
        if self.closed {
            return Err(AcquireError::CLOSED);
        }
        fits(&self.parts, ask)
    }

    /// Takes what `ask` wants if all of it is free and no queued request wants any of the same
    /// parts.
    pub(super) fn take(&mut self, ask: &Ask) -> Outcome {
        self.possible(ask)?;
        let ready = ask.iter().all(|&(part, n)| {
            let part = &self.parts[part];
            part.waiting == 0 && part.free >= n
        });
        if !ready {
            return Err(AcquireError::FULL);
        }
        for &(part, n) in ask {
            self.parts[part].free -= n;
        }
        Ok(())
    }

    pub(super) fn give(&mut self, ask: &Ask) -> Calls {
        for &(part, n) in ask {
            self.parts[part].free += n;
        }
        let mut calls = Calls::default();
        self.serve(&mut calls);
        calls
    }

    /// Removes the taken units of `ask` from the capacity for good. Queued requests that exceed the
    /// new capacity are refused.
    pub(super) fn shrink(&mut self, ask: &Ask) -> Calls {
        for &(part, n) in ask {
            self.parts[part].capacity -= n;
        }
        let mut calls = Calls::default();
        let Self { parts, queue, .. } = self;
        for refused in queue.refuse(&mut calls, |ask| fits(parts, ask)) {
            self.left(&refused);
        }
        self.serve(&mut calls);
        calls
    }

    pub(super) fn close(&mut self) -> Calls {
        let mut calls = Calls::default();
        self.closed = true;
        let refused = self.queue.refuse(&mut calls, |_| Err(AcquireError::CLOSED));
        for ask in refused {
            self.left(&ask);
        }
        calls
    }

    /// Counts a request for `ask` that has entered the queue.
    pub(super) fn joined(&mut self, ask: &Ask) {
        for &(part, _) in ask {
            self.parts[part].waiting += 1;
        }
    }

    /// Counts a request for `ask` that has left the queue.
    pub(super) fn left(&mut self, ask: &Ask) {
        for &(part, _) in ask {
            self.parts[part].waiting -= 1;
        }
    }

    /// Grants the requests that can be granted, from the head of the queue.
    pub(super) fn serve(&mut self, calls: &mut Calls) {
        if self.queue.is_empty() {
            return;
        }
        let Self { parts, queue, .. } = self;
        parts.iter_mut().for_each(|part| part.wanted = false);
        let mut granted = Vec::new();
        for (ticket, ask) in queue.iter() {
            let ready = ask.iter().all(|&(part, n)| {
                let part = &parts[part];
                !part.wanted && part.free >= n
            });
            for &(part, n) in ask {
                match ready {
                    true => parts[part].free -= n,
                    false => parts[part].wanted = true,
                }
            }
            if ready {
                granted.push(ticket);
            } else if parts.iter().all(|part| part.wanted) {
                break;
            }
        }
        for ticket in granted {
            if let Some(ask) = self.queue.settle(ticket, Ok(()), calls) {
                self.left(&ask);
            }
        }
    }
}

/// Whether each part has the capacity for `ask`.
fn fits(parts: &[Part], ask: &Ask) -> Outcome {
    for &(part, n) in ask {
        let part = &parts[part];
        if n > part.capacity {
            let name = Some(Arc::clone(&part.name));
            return Err(AcquireError::too_large(name, n, part.capacity));
        }
    }
    Ok(())
}

/// Adds `n` units of `part`. Saturates: a sum above `MOST_UNITS` never fits.
pub(super) fn add_to(ask: &mut Ask, part: usize, n: u64) {
    match ask.iter_mut().find(|(other, _)| *other == part) {
        _ if n == 0 => {}
        Some((_, sum)) => *sum = sum.saturating_add(n),
        None => ask.push((part, n)),
    }
}
