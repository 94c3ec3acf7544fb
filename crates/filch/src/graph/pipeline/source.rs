//! The source of tokens, and the state of those that wait for others.

use crate::base::unwind::{self, Payload};
use std::collections::{HashMap, HashSet, VecDeque};

/// The access that the source of a pipeline has to the run.
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
    /// Returns the number of the token that is being produced: 0 for the first one of a run.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// let mut numbered = vec![];
    /// Pipeline::new(|flow| (flow.token() < 3).then(|| format!("item {}", flow.token())))
    ///     .serial(|item| numbered.push(item))
    ///     .run(2)?;
    /// assert_eq!(numbered, ["item 0", "item 1", "item 2"]);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Defers the token that is being produced until `other`, an earlier or a later one, has left
    /// the source. It may be called several times, to wait for several tokens.
    ///
    /// A deferred token is stored with its value, and the source continues with the next one; the
    /// serial stages process the tokens in the order in which they leave the source. A deferred
    /// token takes no line, so there may be any number of them. If it waits for a token that never
    /// appears, or indirectly for itself, the run ends with an error.
    ///
    /// ```
    /// use filch::graph::Pipeline;
    ///
    /// // Frame 0 refers to frame 2, as in a video stream.
    /// let mut order = vec![];
    /// Pipeline::new(|flow| {
    ///     if flow.token() == 0 {
    ///         flow.defer(2);
    ///     }
    ///     (flow.token() < 4).then_some(flow.token())
    /// })
    /// .serial(|frame| order.push(frame))
    /// .run(2)?;
    /// assert_eq!(order, [1, 2, 0, 3]);
    /// # Ok::<(), filch::graph::PipelineError>(())
    /// ```
    pub fn defer(&mut self, other: u64) {
        self.waits_for.push(other);
    }
}

/// The result of a call of the source.
pub(super) enum SourceOutput {
    /// A token has left it.
    Token(u64),
    /// There are no more tokens.
    End,
    /// There are no more tokens, because some wait in a cycle or for a token that never appears.
    DeferError(DeferError),
}

/// What can be wrong with deferred tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeferError {
    /// These wait for each other: each for the next one, the last one for the first one.
    Cycle(Vec<u64>),
    /// A token waits for one that never appeared.
    Unknown { token: u64, waits_for: u64 },
}

/// What was left when a run ended.
pub(super) struct SourceEnd {
    /// How many tokens have been produced.
    pub(super) tokens: u64,
    /// How many of them were deferred and are dropped now.
    pub(super) deferred: u64,
    /// Whether the source had returned `None`.
    pub(super) all: bool,
    /// The panics of the drops.
    pub(super) panics: Vec<Payload>,
}

/// Which tokens wait for which others.
pub(super) struct SourceState<T> {
    /// How many tokens have been produced.
    tokens: u64,
    /// The tokens that wait, and what they wait for.
    deferred: HashMap<u64, Deferred<T>>,
    /// The tokens that are waited for, and their waiters.
    awaited: HashMap<u64, Vec<u64>>,
    /// Tokens that do not wait any more. They leave before any new ones.
    ready: VecDeque<(u64, T)>,
    ended: bool,
    flow: Flow,
}

struct Deferred<T> {
    value: T,
    waits_for: Vec<u64>,
}

impl<T> SourceState<T> {
    pub(super) fn new() -> Self {
        Self {
            tokens: 0,
            deferred: HashMap::new(),
            awaited: HashMap::new(),
            ready: VecDeque::new(),
            ended: false,
            flow: Flow::default(),
        }
    }

    pub(super) fn newest(&self) -> u64 {
        self.tokens.saturating_sub(1)
    }

    /// Returns the next token that leaves the source, which is `func`.
    #[inline]
    pub(super) fn next(
        &mut self,
        func: &mut impl FnMut(&mut Flow) -> Option<T>,
    ) -> Result<Option<(u64, T)>, DeferError> {
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
            if let Some(value) = self.defer_token(token, value)? {
                self.leaves(token);
                return Ok(Some((token, value)));
            }
        }
    }

    /// Defers `token`. Returns its value instead if all tokens that it should wait for have left
    /// already.
    fn defer_token(&mut self, token: u64, value: T) -> Result<Option<T>, DeferError> {
        // A token that is older than this one and not deferred has left: none is ready when a new
        // token is produced.
        let mut waits_for = self.flow.waits_for.clone();
        waits_for.retain(|other| *other >= token || self.deferred.contains_key(other));
        waits_for.sort_unstable();
        waits_for.dedup();
        if waits_for.is_empty() {
            return Ok(Some(value));
        }
        for &other in &waits_for {
            self.awaited.entry(other).or_default().push(token);
        }
        self.deferred.insert(token, Deferred { value, waits_for });
        match self.cycle(token) {
            Some(cycle) => Err(DeferError::Cycle(cycle)),
            None => Ok(None),
        }
    }

    /// Returns the path from `token` back to itself, from each token to one that it waits for.
    fn cycle(&self, token: u64) -> Option<Vec<u64>> {
        if !self.awaited.contains_key(&token) {
            return None;
        }
        let mut path: Vec<(u64, usize)> = vec![(token, 0)];
        let mut seen = HashSet::from([token]);
        while let Some((at, tried)) = path.last_mut() {
            let next = self.deferred.get(at).and_then(|a| a.waits_for.get(*tried));
            *tried += 1;
            match next {
                None => {
                    path.pop();
                }
                Some(&next) if next == token => {
                    return Some(path.into_iter().map(|(at, _)| at).collect());
                }
                Some(&next) => {
                    if seen.insert(next) {
                        path.push((next, 0));
                    }
                }
            }
        }
        None
    }

    /// Records that `token` leaves the source, and releases its waiters.
    #[inline]
    fn leaves(&mut self, token: u64) {
        if !self.awaited.is_empty() {
            self.release(token);
        }
    }

    #[cold]
    fn release(&mut self, token: u64) {
        for waiter in self.awaited.remove(&token).into_iter().flatten() {
            let Some(deferred) = self.deferred.get_mut(&waiter) else {
                continue;
            };
            deferred.waits_for.retain(|other| *other != token);
            if deferred.waits_for.is_empty()
                && let Some(Deferred { value, .. }) = self.deferred.remove(&waiter)
            {
                self.ready.push_back((waiter, value));
            }
        }
    }

    /// Returns an error if a token still waits when there are no more tokens.
    fn at_the_end(&self) -> Result<(), DeferError> {
        let unknown_token = |deferred: &Deferred<T>| {
            let mut waits_for = deferred.waits_for.iter().copied();
            waits_for.find(|other| !self.deferred.contains_key(other))
        };
        // There are no cycles, so at least one of the waiting tokens waits for one that does not
        // exist.
        let unknown = self.deferred.iter().filter_map(|(token, deferred)| {
            unknown_token(deferred).map(|waits_for| DeferError::Unknown {
                token: *token,
                waits_for,
            })
        });
        let first = unknown.min_by_key(|defer_error| match defer_error {
            DeferError::Unknown { token, .. } => *token,
            DeferError::Cycle(_) => 0,
        });
        first.map_or(Ok(()), Err)
    }

    /// Drops the tokens that wait, and resets the state.
    pub(super) fn end(&mut self) -> SourceEnd {
        let state = std::mem::replace(self, Self::new());
        let deferred = state.deferred.into_values().map(|deferred| deferred.value);
        let left = state
            .ready
            .into_iter()
            .map(|(_, value)| value)
            .chain(deferred);
        let mut ended = SourceEnd {
            tokens: state.tokens,
            deferred: 0,
            all: state.ended,
            panics: Vec::new(),
        };
        for value in left {
            ended.deferred += 1;
            ended.panics.extend(unwind::contain(|| drop(value)).err());
        }
        ended
    }
}
