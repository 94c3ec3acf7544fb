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
    /// Which values are used, and whether they are moved.
    pub(super) uses: Vec<(u32, bool)>,
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
        let mut uses = self.uses.clone();
        uses.sort_unstable();
        let uses = uses.chunk_by(|(a, _), (b, _)| a == b);
        let mut wrong = uses.filter(|uses| uses.len() > 1 && uses.iter().any(|(_, moved)| *moved));
        match wrong.next() {
            Some(uses) => Err(GraphError::moved(names.of(uses[0].0))),
            None => Ok(()),
        }
    }
}
