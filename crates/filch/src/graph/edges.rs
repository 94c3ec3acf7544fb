//! The successors of a task.
//!
//! The last successor is stored in the record of the task itself. The others, if there are any, are
//! in a list that all tasks share. So getting from one task of a chain to the next takes one load,
//! and a chain needs no list.

use std::ops::Range;

/// A successor, and whether it has no other predecessor.
///
/// 0 means none: the first record of a graph is no task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Edge(u32);

/// The bit that says that the successor has only this predecessor.
const ONLY: u32 = 1 << 31;

/// Maximum number of tasks; it leaves room for that bit.
pub(super) const MAX_TASKS: u32 = ONLY - 1;

impl Edge {
    pub(super) fn new(to: u32, only: bool) -> Self {
        debug_assert!(0 < to && to <= MAX_TASKS);
        Self(if only { to | ONLY } else { to })
    }

    /// Returns the number of the successor.
    #[inline(always)]
    pub(super) fn to(self) -> u32 {
        self.0 & !ONLY
    }

    /// Whether the successor has no other predecessor.
    #[inline(always)]
    pub(super) fn is_only(self) -> bool {
        self.0 & ONLY != 0
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Where the successors of a task are: `others` of them in the shared list, from `first` on, and
/// the last one here.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Successors {
    pub(super) first: u32,
    pub(super) others: u32,
    pub(super) last: Edge,
}

impl Successors {
    /// Whether there are none.
    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.others == 0 && self.last.is_none()
    }

    /// Returns the successors in the list.
    #[inline(always)]
    pub(super) fn others(self, list: &[Edge]) -> &[Edge] {
        &list[self.first as usize..][..self.others as usize]
    }

    /// Returns all successors, in their order.
    pub(super) fn all(self, list: &[Edge]) -> impl Iterator<Item = Edge> {
        let last = Some(self.last).filter(|last| !last.is_none());
        self.others(list).iter().copied().chain(last)
    }

    /// Returns the successor with that number.
    pub(super) fn get(self, list: &[Edge], number: usize) -> Option<u32> {
        let other = self.others(list).get(number).copied();
        let last = (number == self.others as usize && !self.last.is_none()).then_some(self.last);
        other.or(last).map(Edge::to)
    }
}

/// The edges of a graph, sorted by where they begin.
pub(super) struct Adjacency<'a> {
    /// The end of each task's successors in the list; those of the next task begin there.
    pub(super) ends: &'a [u32],
    pub(super) successors: &'a [Edge],
    /// How many predecessors each task has.
    pub(super) strong_predecessors: &'a [u32],
}

impl Adjacency<'_> {
    fn range(&self, task: u32) -> Range<usize> {
        let begin = task
            .checked_sub(1)
            .map_or(0, |before| self.ends[before as usize]);
        begin as usize..self.ends[task as usize] as usize
    }

    /// Returns the successors of a task.
    pub(super) fn after(&self, task: u32) -> impl Iterator<Item = u32> {
        self.successors[self.range(task)]
            .iter()
            .map(|edge| edge.to())
    }
}
