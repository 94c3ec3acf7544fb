//! The settings of a loop.

use super::pace::Pacing;
use crate::{
    cancel::CancelToken,
    pool::{self, Pool, context::WorkerContext},
};

/// Items that a loop runs in chunks, each of which counts as one.
#[derive(Clone, Copy)]
pub(super) struct ChunkedItems {
    /// The number of items in a chunk, except for the last one.
    pub(super) size: usize,
    /// The number of all items.
    pub(super) total: usize,
}

/// The settings of a loop.
pub(super) struct LoopSettings<'a> {
    pub(super) pool: Option<&'a Pool>,
    pub(super) pacing: Pacing,
    /// The largest number of workers, if it is limited; at least one.
    pub(super) at_most: Option<usize>,
    pub(super) cancel: Option<&'a CancelToken>,
    pub(super) progress: Option<Progress<'a>>,
    /// Set if each item of the loop is a chunk of the user's items.
    pub(super) chunks: Option<ChunkedItems>,
}

type Progress<'a> = Box<dyn Fn(usize) + Sync + 'a>;

impl LoopSettings<'_> {
    /// Calls `f` on a worker of the pool of the loop.
    pub(super) fn enter_worker<R>(&self, f: impl FnOnce(&WorkerContext<'_, '_>) -> R) -> R {
        match self.pool {
            Some(pool) => pool.enter_worker(f),
            None => pool::on_current(f),
        }
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(CancelToken::is_cancelled)
    }

    /// The number of the user's items that `count` items of the loop stand for.
    pub(super) fn in_user_items(&self, count: usize) -> usize {
        match self.chunks {
            Some(ChunkedItems { size, total }) => count.saturating_mul(size).min(total),
            None => count,
        }
    }

    /// Whether items are counted.
    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        self.cancel.is_some() || self.progress.is_some()
    }
}
