//! Chunks of a fixed size.

use crate::base::error::BuildError;
use std::ops::Range;

/// The size of chunks that are cut before the loop starts: a number of chunks for each worker,
/// within bounds. See [`Loop::chunking`](super::Loop::chunking).
///
/// Adaptive loops need no strategy. It is for callers that know the cost of their items, or that
/// need the same split points every time.
///
/// ```
/// use filch::par::ChunkingStrategy;
///
/// let strategy = ChunkingStrategy::new(100, 10_000, 3)?;
/// assert_eq!(strategy.chunk_size(60_000, 4), 5_000);          // 12 chunks, 3 a worker
/// assert_eq!(strategy.chunk_size(600, 4), 100);               // no smaller ones
/// assert_eq!(strategy.chunk_size(60_000_000, 4), 10_000);     // no larger ones
///
/// let error = ChunkingStrategy::new(100, 10, 3).unwrap_err();
/// assert!(error.is_config());
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkingStrategy {
    /// At least one.
    min: usize,
    /// At least `min`.
    max: usize,
    /// At least one.
    per_worker: usize,
}

impl ChunkingStrategy {
    /// Three chunks for each worker: if one of them takes longer, the others still find work.
    pub const PER_WORKER: usize = 3;

    /// Chunks of `min` to `max` items, `per_worker` of them for each worker if that is within the
    /// bounds.
    ///
    /// ```
    /// use filch::par::ChunkingStrategy;
    ///
    /// let strategy = ChunkingStrategy::new(100, 10_000, 3)?;
    /// assert_eq!(strategy.chunk_size(60_000, 4), 5_000);
    /// assert!(ChunkingStrategy::new(100, 10, 3).is_err());
    /// # Ok::<(), filch::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// If one of the numbers is zero, or `max` is less than `min`.
    pub fn new(min: usize, max: usize, per_worker: usize) -> Result<Self, BuildError> {
        if min == 0 {
            return Err(BuildError::config(
                "chunks of at least 0 items would never end; set the least to 1 or more",
            ));
        }
        if max < min {
            return Err(BuildError::config(format!(
                "chunks of at least {min} and at most {max} items cannot be; set the most to {min} or more"
            )));
        }
        if per_worker == 0 {
            return Err(BuildError::config(
                "0 chunks a worker would be no work at all; ask for 1 or more, 3 is usual",
            ));
        }
        Ok(Self {
            min,
            max,
            per_worker,
        })
    }

    /// Chunks of exactly `items`, whatever the number of workers; of one item if that is zero.
    ///
    /// ```
    /// use filch::par::ChunkingStrategy;
    ///
    /// assert_eq!(ChunkingStrategy::exactly(64).chunk_size(1_000_000, 2), 64);
    /// ```
    #[must_use]
    pub fn exactly(items: usize) -> Self {
        let items = items.max(1);
        Self {
            min: items,
            max: items,
            per_worker: 1,
        }
    }

    /// The smallest number of items of a chunk, except for the last one.
    ///
    /// ```
    /// assert_eq!(filch::par::ChunkingStrategy::exactly(64).min(), 64);
    /// ```
    #[must_use]
    pub fn min(&self) -> usize {
        self.min
    }

    /// The largest number of items of a chunk.
    ///
    /// ```
    /// assert_eq!(filch::par::ChunkingStrategy::default().max(), usize::MAX);
    /// ```
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// The number of chunks for each worker.
    ///
    /// ```
    /// assert_eq!(filch::par::ChunkingStrategy::default().per_worker(), 3);
    /// ```
    #[must_use]
    pub fn per_worker(&self) -> usize {
        self.per_worker
    }

    /// The number of items of each chunk, for `items` and `workers`. Never zero.
    ///
    /// ```
    /// let strategy = filch::par::ChunkingStrategy::default();
    /// assert_eq!(strategy.chunk_size(60_000, 4), 5_000); // 12 chunks, 3 a worker
    /// assert_eq!(strategy.chunk_size(0, 4), 1);
    /// ```
    #[must_use]
    pub fn chunk_size(&self, items: usize, workers: usize) -> usize {
        let chunks = workers.max(1).saturating_mul(self.per_worker);
        items.div_ceil(chunks).clamp(self.min, self.max)
    }

    /// Iterates over the chunks in order.
    ///
    /// ```
    /// use filch::par::ChunkingStrategy;
    ///
    /// let chunks: Vec<_> = ChunkingStrategy::default().chunks(10, 1).collect();
    /// assert_eq!(chunks, [0..4, 4..8, 8..10]);
    /// ```
    pub fn chunks(
        &self,
        items: usize,
        workers: usize,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let size = self.chunk_size(items, workers);
        (0..items)
            .step_by(size)
            .map(move |start| start..start.saturating_add(size).min(items))
    }
}

impl Default for ChunkingStrategy {
    /// [`PER_WORKER`](Self::PER_WORKER) chunks for each worker, of any size.
    fn default() -> Self {
        Self {
            min: 1,
            max: usize::MAX,
            per_worker: Self::PER_WORKER,
        }
    }
}
