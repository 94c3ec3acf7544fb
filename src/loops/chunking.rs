//! Chunks of a fixed size.

use crate::base::error::BuildError;
use std::ops::Range;

/// How many items a chunk has, when loops are to cut their items into chunks beforehand: so many chunks for each
/// worker, within bounds. See [`Loop::chunking`](super::Loop::chunking).
///
/// Loops that adapt to what they find need none of it. A strategy is for those who know better, or who want the same
/// cuts every time.
///
/// ```
/// use filch::loops::ChunkingStrategy;
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
    /// Three chunks for each worker: when one of them takes longer, the others still find something to do (seed 002).
    pub const PER_WORKER: usize = 3;

    /// Chunks of `min` to `max` items, `per_worker` of them for each worker if that is within the bounds.
    ///
    /// # Errors
    /// When one of the numbers is zero, or `max` less than `min`.
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

    /// Chunks of exactly `items`, whatever the number of workers; of one if that is zero.
    ///
    /// ```
    /// use filch::loops::ChunkingStrategy;
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

    /// The least items of a chunk, but for the last one.
    #[must_use]
    pub fn min(&self) -> usize {
        self.min
    }

    /// The most items of a chunk.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// How many chunks there should be for each worker.
    #[must_use]
    pub fn per_worker(&self) -> usize {
        self.per_worker
    }

    /// How many items each chunk gets, of `items` for `workers`. Never zero.
    #[must_use]
    pub fn chunk_size(&self, items: usize, workers: usize) -> usize {
        let chunks = workers.max(1).saturating_mul(self.per_worker);
        items.div_ceil(chunks).clamp(self.min, self.max)
    }

    /// The chunks themselves, in their order.
    ///
    /// ```
    /// use filch::loops::ChunkingStrategy;
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
