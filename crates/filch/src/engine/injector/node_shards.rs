//! Which shards of the injector belong to which node, and in which order they are tried.

use crate::base::{
    padded::Padded,
    sync::{AtomicUsize, Ordering},
    thread,
};
use std::{iter, sync::Arc};

/// The number of shards of each node. Any 16 threads that first push one after the other have a
/// shard each; more shards cost memory (256 bytes each) and make a scan of all shards longer. The
/// model checker explores two.
pub(super) const SHARDS: usize = if cfg!(filch_loom) { 2 } else { 16 };

/// The most shards of all nodes together: the bits of the flags. With five nodes and more, each has
/// fewer than [`SHARDS`].
const MAX_SHARDS: usize = if cfg!(filch_loom) { 2 } else { 64 };

/// Which shards belong to which node: each has the same number, next to each other.
pub(super) struct NodeShards {
    /// The number of shards of each node, a power of two.
    each: usize,
    /// For each node, the shard that the next take of one of its workers tries first.
    next: Box<[Padded<AtomicUsize>]>,
    /// [`Settings::producer_node`](crate::engine::Settings::producer_node).
    producer_node: ProducerNode,
}

/// The node of a thread that pushes.
pub(super) type ProducerNode = Arc<dyn Fn() -> Option<usize> + Send + Sync>;

impl NodeShards {
    /// For several nodes. With more than the flags have bits, some share their shards.
    pub(super) fn new(nodes: usize, producer_node: &ProducerNode) -> Self {
        let nodes = nodes.min(MAX_SHARDS);
        Self {
            // Rounded down to a power of two.
            each: 1 << (MAX_SHARDS / nodes).min(SHARDS).ilog2(),
            next: (0..nodes).map(|_| Padded::default()).collect(),
            producer_node: producer_node.clone(),
        }
    }

    /// The number of all shards.
    pub(super) fn shards(&self) -> usize {
        self.next.len() * self.each
    }

    /// The shard of this thread: always the same one.
    #[cold]
    pub(super) fn own_shard(&self) -> usize {
        let number = thread::number();
        match (self.producer_node)() {
            Some(node) => node % self.next.len() * self.each + number % self.each,
            None => number % self.shards(),
        }
    }

    /// The bits of the shards of `node`, and the one that its next take begins with.
    pub(super) fn of(&self, node: usize) -> (u64, &AtomicUsize) {
        let node = node % self.next.len();
        let bits = u64::MAX >> (u64::BITS as usize - self.each);
        (bits << (node * self.each), &self.next[node])
    }
}

/// The shards of which the bits are set, beginning with `next`.
pub(super) fn in_turn(bits: u64, next: &AtomicUsize) -> impl Iterator<Item = usize> {
    // Relaxed: a hint.
    let first = next.load(Ordering::Relaxed) % u64::BITS as usize;
    let before = (1 << first) - 1;
    indices(bits & !before).chain(indices(bits & before))
}

/// The next take begins at the shard after `index`.
pub(super) fn begin_after(next: &AtomicUsize, index: usize) {
    // Relaxed, and written only if it changes: a hint.
    if next.load(Ordering::Relaxed) != index + 1 {
        next.store(index + 1, Ordering::Relaxed);
    }
}

/// The positions of the bits that are set, lowest first.
pub(super) fn indices(mut bits: u64) -> impl Iterator<Item = usize> {
    iter::from_fn(move || {
        let index = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (index < u64::BITS).then_some(index as usize)
    })
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_shards_among_the_bits() {
        for nodes in 2..=100 {
            let node: ProducerNode = Arc::new(move || Some(nodes - 1));
            let shards = NodeShards::new(nodes, &node);
            assert!(shards.shards() <= MAX_SHARDS && shards.each <= SHARDS);
            let (bits, _) = shards.of(nodes - 1);
            assert_eq!(bits.count_ones() as usize, shards.each);
            assert!(bits >> shards.own_shard() & 1 == 1, "{nodes} nodes");
            let others = (0..nodes.min(MAX_SHARDS) - 1).map(|node| shards.of(node).0);
            let all = others.fold(0, |all, bits| {
                assert_eq!(all & bits, 0, "each shard has one node");
                all | bits
            });
            assert!(all & bits == 0 || nodes > MAX_SHARDS);
        }
    }
}
