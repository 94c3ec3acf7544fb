//! Where tokens come from, and the book of those that wait for others.

use crate::base::unwind::{self, Payload};
use std::collections::{HashMap, HashSet, VecDeque};

/// What the source of a pipeline can find out and ask for.
///
/// ```
/// use filch::graph::Pipeline;
///
/// // Every even token waits for the odd one behind it.
/// let mut order = vec![];
/// Pipeline::new(|flow| {
///     let token = flow.token();
///     if token % 2 == 0 {
///         flow.defer(token + 1);
///     }
///     (token < 6).then_some(token)
/// })
/// .serial(|token| order.push(token))
/// .run(2)?;
/// assert_eq!(order, [1, 0, 3, 2, 5, 4]);
/// # Ok::<(), filch::graph::PipelineError>(())
/// ```
#[derive(Debug, Default)]
pub struct Flow {
    token: u64,
    waits_for: Vec<u64>,
}

impl Flow {
    /// The number of the token that is being made: 0 for the first one of a run.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The token that is being made waits until `other`, an earlier or a later one, has left the source. May be called
    /// several times, to wait for several.
    ///
    /// The token is put aside with its value, and the source goes on with the next one; the serial stages
    /// see the tokens in the order in which they leave the source. A token that is put aside takes no line, so
    /// any number of them may be. When it waits for one that never comes, or for itself in the end, the run ends with an error.
    pub fn defer(&mut self, other: u64) {
        self.waits_for.push(other);
    }
}

/// What the source came to.
pub(super) enum Fed {
    /// A token has left it.
    Token(u64),
    /// There are no more.
    End,
    /// There are no more, because of what some of them wait for.
    Trouble(Trouble),
}

/// What can be wrong with the wishes of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// These wait for each other, each for the next one, the last one for the first one.
    Circle(Vec<u64>),
    /// A token waits for one that never came.
    Unknown { token: u64, waits_for: u64 },
}

/// What there was when a run ended.
pub(super) struct Ended {
    /// How many tokens have been made.
    pub(super) tokens: u64,
    /// How many of them had been put aside and are dropped now.
    pub(super) aside: u64,
    /// Whether there would have been no more.
    pub(super) all: bool,
    /// What the drops panicked with.
    pub(super) panics: Vec<Payload>,
}

/// Who waits for whom.
pub(super) struct Book<T> {
    /// How many tokens there have been.
    tokens: u64,
    /// The tokens that wait, and for whom.
    aside: HashMap<u64, Aside<T>>,
    /// The tokens that somebody waits for, and who.
    awaited: HashMap<u64, Vec<u64>>,
    /// Those that do not wait any more and go before all new ones.
    ready: VecDeque<(u64, T)>,
    ended: bool,
    flow: Flow,
}

struct Aside<T> {
    value: T,
    waits_for: Vec<u64>,
}

impl<T> Book<T> {
    pub(super) fn new() -> Self {
        Self {
            tokens: 0,
            aside: HashMap::new(),
            awaited: HashMap::new(),
            ready: VecDeque::new(),
            ended: false,
            flow: Flow::default(),
        }
    }

    pub(super) fn newest(&self) -> u64 {
        self.tokens.saturating_sub(1)
    }

    /// The next token that leaves the source, which is `func`.
    #[inline]
    pub(super) fn next(
        &mut self,
        func: &mut impl FnMut(&mut Flow) -> Option<T>,
    ) -> Result<Option<(u64, T)>, Trouble> {
        loop {
            if let Some((token, value)) = self.ready.pop_front() {
                self.leaves(token);
                return Ok(Some((token, value)));
            }
            if self.ended {
                return self.at_the_end().map(|()| None);
            }
            let token = self.tokens;
            self.flow.token = token;
            self.flow.waits_for.clear();
            self.tokens += 1;
            let Some(value) = func(&mut self.flow) else {
                self.tokens -= 1;
                self.ended = true;
                continue;
            };
            if self.flow.waits_for.is_empty() {
                self.leaves(token);
                return Ok(Some((token, value)));
            }
            if let Some(value) = self.put_aside(token, value)? {
                self.leaves(token);
                return Ok(Some((token, value)));
            }
        }
    }

    /// Puts `token` aside, unless all that it wants to wait for have left already: its value comes back then.
    fn put_aside(&mut self, token: u64, value: T) -> Result<Option<T>, Trouble> {
        // Whoever is older than this token and not aside has left: nobody is ready when a new token is made.
        let mut waits_for = self.flow.waits_for.clone();
        waits_for.retain(|other| *other >= token || self.aside.contains_key(other));
        waits_for.sort_unstable();
        waits_for.dedup();
        if waits_for.is_empty() {
            return Ok(Some(value));
        }
        for &other in &waits_for {
            self.awaited.entry(other).or_default().push(token);
        }
        self.aside.insert(token, Aside { value, waits_for });
        match self.circle(token) {
            Some(circle) => Err(Trouble::Circle(circle)),
            None => Ok(None),
        }
    }

    /// The way from `token` back to itself, from each one to one that it waits for.
    fn circle(&self, token: u64) -> Option<Vec<u64>> {
        if !self.awaited.contains_key(&token) {
            return None;
        }
        let mut way: Vec<(u64, usize)> = vec![(token, 0)];
        let mut seen = HashSet::from([token]);
        while let Some((at, tried)) = way.last_mut() {
            let next = self.aside.get(at).and_then(|a| a.waits_for.get(*tried));
            *tried += 1;
            match next {
                None => {
                    way.pop();
                }
                Some(&next) if next == token => {
                    return Some(way.into_iter().map(|(at, _)| at).collect());
                }
                Some(&next) => {
                    if seen.insert(next) {
                        way.push((next, 0));
                    }
                }
            }
        }
        None
    }

    /// `token` leaves the source: nobody waits for it any more.
    #[inline]
    fn leaves(&mut self, token: u64) {
        if !self.awaited.is_empty() {
            self.release(token);
        }
    }

    #[cold]
    fn release(&mut self, token: u64) {
        for waiter in self.awaited.remove(&token).into_iter().flatten() {
            let Some(aside) = self.aside.get_mut(&waiter) else {
                continue;
            };
            aside.waits_for.retain(|other| *other != token);
            if aside.waits_for.is_empty()
                && let Some(Aside { value, .. }) = self.aside.remove(&waiter)
            {
                self.ready.push_back((waiter, value));
            }
        }
    }

    /// There are no more tokens: is there one that waits?
    fn at_the_end(&self) -> Result<(), Trouble> {
        let missing = |aside: &Aside<T>| {
            let mut waits_for = aside.waits_for.iter().copied();
            waits_for.find(|other| !self.aside.contains_key(other))
        };
        // There are no circles, so one of those that wait does so for one that is not there.
        let unknown = self.aside.iter().filter_map(|(token, aside)| {
            missing(aside).map(|waits_for| Trouble::Unknown {
                token: *token,
                waits_for,
            })
        });
        let first = unknown.min_by_key(|trouble| match trouble {
            Trouble::Unknown { token, .. } => *token,
            Trouble::Circle(_) => 0,
        });
        first.map_or(Ok(()), Err)
    }

    /// Drops the tokens that wait and begins anew.
    pub(super) fn end(&mut self) -> Ended {
        let book = std::mem::replace(self, Self::new());
        let aside = book.aside.into_values().map(|aside| aside.value);
        let left = book.ready.into_iter().map(|(_, value)| value).chain(aside);
        let mut ended = Ended {
            tokens: book.tokens,
            aside: 0,
            all: book.ended,
            panics: Vec::new(),
        };
        for value in left {
            ended.aside += 1;
            ended.panics.extend(unwind::contain(|| drop(value)).err());
        }
        ended
    }
}
