//! The names of the tasks of a graph.

use std::{borrow::Cow, sync::Arc};

type Named = Vec<(u32, Cow<'static, str>)>;

/// The names of the tasks that have one, by number.
#[derive(Clone)]
pub(super) enum Names {
    Own(Named),
    /// The names of a template.
    Shared(Arc<Named>),
}

impl Default for Names {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Names {
    pub(super) fn push(&mut self, index: u32, name: Cow<'static, str>) {
        if name.is_empty() {
            return;
        }
        if let Self::Shared(shared) = self {
            *self = Self::Own(Named::clone(shared));
        }
        if let Self::Own(names) = self {
            names.push((index, name));
        }
    }

    /// Makes the names shared, and returns another share.
    pub(super) fn share(&mut self) -> Self {
        let shared = match std::mem::take(self) {
            Self::Own(names) => Arc::new(names),
            Self::Shared(shared) => shared,
        };
        *self = Self::Shared(shared.clone());
        Self::Shared(shared)
    }

    pub(super) fn get(&self, index: u32) -> Option<&str> {
        let names = match self {
            Self::Own(names) => names,
            Self::Shared(shared) => &**shared,
        };
        let found = names.binary_search_by_key(&index, |(index, _)| *index);
        found.ok().map(|at| &*names[at].1)
    }

    /// Returns the name, or the number.
    pub(super) fn of(&self, index: u32) -> String {
        match self.get(index) {
            Some(name) => name.to_owned(),
            None => format!("task {index}"),
        }
    }
}
