//! The names of the tasks of a graph.

use super::shared_list::SharedList;
use std::borrow::Cow;

/// The names of the tasks that have one, by number.
#[derive(Default)]
pub(super) struct Names(SharedList<(u32, Cow<'static, str>)>);

impl Names {
    /// Adds the name of a task, which is the last one so far. An empty name is none.
    #[inline(always)]
    pub(super) fn push(&mut self, index: u32, name: Cow<'static, str>) {
        if !name.is_empty() {
            self.push_some(index, name);
        }
    }

    #[inline(never)]
    fn push_some(&mut self, index: u32, name: Cow<'static, str>) {
        self.0.own().push((index, name));
    }

    /// Removes the names of the tasks for which `goes` returns true.
    pub(super) fn remove(&mut self, goes: impl Fn(u32) -> bool) {
        self.0.own().retain(|(index, _)| !goes(*index));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes all names, and keeps their memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes the names shared, and returns another share.
    pub(super) fn share(&mut self) -> Self {
        Self(self.0.share())
    }

    /// Returns another share of names that are shared; a copy of others.
    pub(super) fn copy(&self) -> Self {
        Self(self.0.copy())
    }

    pub(super) fn get(&self, index: u32) -> Option<&str> {
        let names = &self.0;
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
