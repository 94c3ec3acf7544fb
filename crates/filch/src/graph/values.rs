//! The values of a graph, as its parts have them: of any type.

use super::{error::GraphError, names::Names};
use crate::base::unwind::{self, Payload};
use std::{
    any::Any,
    sync::{Arc, Mutex, PoisonError},
};

/// A slot for values of some type.
pub(super) trait AnySlot: Any + Send + Sync {
    /// Drops the value, if there is one.
    fn clear(&self);
}

/// The values of a graph.
#[derive(Default)]
pub(super) struct Values {
    /// The number of the graph, when it has values.
    pub(super) graph: u64,
    pub(super) slots: Vec<(u32, Arc<dyn AnySlot>)>,
    pub(super) uses: Vec<ValueUse>,
}

/// The use of a value by a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValueUse {
    pub(super) value: u32,
    pub(super) is_moved: bool,
    pub(super) by: u32,
}

/// The number of the last graph that has values.
static LAST_GRAPH: Mutex<u64> = Mutex::new(0);

impl Values {
    pub(super) fn graph(&mut self) -> u64 {
        if self.graph == 0 {
            let mut last = LAST_GRAPH.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            self.graph = *last;
        }
        self.graph
    }

    /// Drops the values of the last run. Their destructors are user code; `on_panic` gets their
    /// panics.
    #[inline]
    pub(super) fn clear(&self, on_panic: impl Fn(Payload)) {
        for (_, slot) in &self.slots {
            if let Err(payload) = unwind::contain(|| slot.clear()) {
                on_panic(payload);
            }
        }
    }

    /// Checks that each moved value has one user.
    pub(super) fn check(&self, names: &Names) -> Result<(), GraphError> {
        if self.uses.is_empty() {
            return Ok(());
        }
        let mut uses = self.uses.clone();
        uses.sort_unstable();
        let is_there = |value: u32| self.slots.binary_search_by_key(&value, |(index, _)| *index);
        if let Some(wrong) = uses.iter().find(|used| is_there(used.value).is_err()) {
            return Err(GraphError::removed_value(names.of(wrong.by)));
        }
        let uses = uses.chunk_by(|a, b| a.value == b.value);
        let mut wrong = uses.filter(|uses| uses.len() > 1 && uses.iter().any(|one| one.is_moved));
        match wrong.next() {
            Some(uses) => Err(GraphError::moved(names.of(uses[0].value))),
            None => Ok(()),
        }
    }

    /// Removes tasks, and returns their slots, whose destructors are user code.
    pub(super) fn remove(&mut self, goes: impl Fn(u32) -> bool) -> Vec<Arc<dyn AnySlot>> {
        self.uses.retain(|used| !goes(used.by));
        let slots = self.slots.extract_if(.., |(task, _)| goes(*task));
        slots.map(|(_, slot)| slot).collect()
    }
}
