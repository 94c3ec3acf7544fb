//! The parts that few graphs have.

use super::{neighbours::Neighbours, values::Values};
use crate::semaphore::Semaphore;
use std::ops::Deref;

/// The parts that few graphs have.
#[derive(Default)]
pub(super) struct RareParts {
    /// The units that tasks need.
    pub(super) semaphores: Vec<(u32, Semaphore, u64)>,
    pub(super) order: TaskOrder,
    pub(super) values: Values,
    /// The tasks that were removed, in ascending order. Their records are empty and not used again,
    /// so that the numbers of the other tasks stay.
    pub(super) removed: Vec<u32>,
    /// The tasks that runtimes may schedule, in ascending order.
    pub(super) schedulable: Vec<u32>,
    /// The tasks up to this number have run in a join of the subflow. They count as removed, but
    /// their names and values stay.
    pub(super) joined: u32,
    /// The edges in a form in which the neighbours of a task are found.
    pub(super) neighbours: Option<Neighbours>,
}

/// The order that was requested while the graph was built.
#[derive(Clone, Default)]
pub(super) struct TaskOrder {
    pub(super) critical_path: bool,
    pub(super) weights: Vec<(u32, u32)>,
    pub(super) priorities: Vec<(u32, i32)>,
}

static NO_PARTS: RareParts = RareParts {
    semaphores: Vec::new(),
    order: TaskOrder {
        critical_path: false,
        weights: Vec::new(),
        priorities: Vec::new(),
    },
    values: Values {
        graph: 0,
        slots: Vec::new(),
        uses: Vec::new(),
    },
    removed: Vec::new(),
    schedulable: Vec::new(),
    joined: 0,
    neighbours: None,
};

impl RareParts {
    fn is_empty(&self) -> bool {
        let Self {
            semaphores,
            order,
            values,
            removed,
            schedulable,
            joined,
            neighbours,
        } = self;
        semaphores.is_empty()
            && !order.is_given()
            && order.weights.is_empty()
            && values.graph == 0
            && removed.is_empty()
            && schedulable.is_empty()
            && *joined == 0
            && neighbours.is_none()
    }

    /// Removes everything, and keeps the memory of the lists.
    fn clear(&mut self) {
        let Self {
            semaphores,
            order,
            values,
            removed,
            schedulable,
            joined,
            neighbours,
        } = self;
        semaphores.clear();
        removed.clear();
        schedulable.clear();
        *joined = 0;
        *neighbours = None;
        if order.is_given() || !order.weights.is_empty() {
            *order = TaskOrder::default();
        }
        if values.graph != 0 {
            *values = Values::default();
        }
    }
}

/// Rare parts that are allocated when the first of them is added. So most graphs are small values,
/// which are moved several times: a subflow is made, checked and run.
#[derive(Default)]
pub(super) struct LazyParts(Option<Box<RareParts>>);

impl LazyParts {
    /// Returns the parts, to be changed.
    pub(super) fn make(&mut self) -> &mut RareParts {
        self.0.get_or_insert_default()
    }

    /// Returns the parts if they were allocated, to take something away.
    pub(super) fn get_mut(&mut self) -> Option<&mut RareParts> {
        self.0.as_deref_mut()
    }

    #[inline(always)]
    pub(super) fn is_allocated(&self) -> bool {
        self.0.is_some()
    }

    /// Removes and returns the parts.
    pub(super) fn take(&mut self) -> RareParts {
        self.0
            .take()
            .map_or_else(RareParts::default, |parts| *parts)
    }

    /// Removes the content, and keeps its memory.
    pub(super) fn clear(&mut self) {
        if let Some(parts) = self.get_mut() {
            parts.clear();
        }
    }
}

impl From<RareParts> for LazyParts {
    fn from(parts: RareParts) -> Self {
        Self((!parts.is_empty()).then(|| Box::new(parts)))
    }
}

impl Deref for LazyParts {
    type Target = RareParts;

    #[inline]
    fn deref(&self) -> &RareParts {
        self.0.as_deref().unwrap_or(&NO_PARTS)
    }
}
