//! What lies under the lock of [`Budgets`](super::Budgets): the parts, and the queue for all of them.
//!
//! A request takes all of its parts in one step or none. Those who wait hold nothing, so there is no order in
//! which two of them could block each other.
//!
//! The queue is one, but not everybody in it is behind everybody else: a request stands in line only for its own
//! parts. It is served when every part that it wants has enough and no request before it wants one of
//! them. So somebody who waits for bytes does not hold up those who want connections only, and nobody
//! overtakes in a part that another one waits for.

use super::{
    AcquireError, MOST_UNITS,
    waiters::{Calls, Outcome, Waiters},
};
use std::sync::Arc;

/// The units of each part, by its number: no part twice, none with zero units.
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
    /// How many requests in the queue want it.
    waiting: usize,
    /// While the queue is walked: a request that was passed wants it.
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

    /// The request by numbers. What is named twice adds up.
    pub(super) fn resolve(&self, wanted: &[(&str, u64)]) -> Result<Ask, AcquireError> {
        let mut ask = Ask::with_capacity(wanted.len());
        for &(name, n) in wanted {
            let part = self.find(name).ok_or_else(|| AcquireError::unknown(name))?;
            add_to(&mut ask, part, n);
        }
        Ok(ask)
    }

    /// Makes the part `name` larger, or a new one.
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

    /// Whether `ask` is granted some day: it is not closed, and there is enough of each part in all.
    pub(super) fn possible(&self, ask: &Ask) -> Outcome {
        if self.closed {
            return Err(AcquireError::CLOSED);
        }
        fits(&self.parts, ask)
    }

    /// Takes what `ask` wants if all of it is free and nobody waits for any of it.
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

    /// What `ask` has taken does not come back. Whoever waits for more than there is now is refused.
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

    /// Somebody who wants `ask` is in the queue now.
    pub(super) fn joined(&mut self, ask: &Ask) {
        for &(part, _) in ask {
            self.parts[part].waiting += 1;
        }
    }

    /// Somebody who wanted `ask` is in the queue no more.
    pub(super) fn left(&mut self, ask: &Ask) {
        for &(part, _) in ask {
            self.parts[part].waiting -= 1;
        }
    }

    /// Grants what can be granted, from the head of the queue.
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

/// Whether there is enough of each part in all.
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

/// `n` more units of `part`. More than any budget has stays more than any budget has.
pub(super) fn add_to(ask: &mut Ask, part: usize, n: u64) {
    match ask.iter_mut().find(|(other, _)| *other == part) {
        _ if n == 0 => {}
        Some((_, sum)) => *sum = sum.saturating_add(n),
        None => ask.push((part, n)),
    }
}
