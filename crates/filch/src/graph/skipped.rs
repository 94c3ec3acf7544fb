//! The tasks that a run did not finish.

use super::names::Names;
use std::{iter, mem};

/// The tasks that a run did not finish: those of its graph, and those of the graphs inside tasks.
#[derive(Default)]
pub(super) struct SkippedTasks {
    names: Names,
    /// The numbers of the tasks, in ascending order.
    tasks: Vec<u32>,
    /// The same for the graphs inside tasks, with the names of those tasks.
    inner: Vec<(String, Self)>,
}

/// Graphs may be nested a hundred thousand deep, so this is a loop and not a recursion, which would
/// overflow the stack.
impl Drop for SkippedTasks {
    fn drop(&mut self) {
        let mut open = mem::take(&mut self.inner);
        while let Some((_, mut skipped)) = open.pop() {
            open.append(&mut skipped.inner);
        }
    }
}

impl SkippedTasks {
    /// Sets the tasks of the graph itself; `set_names` has to follow.
    pub(super) fn set_own(&mut self, tasks: Vec<u32>) {
        self.tasks = tasks;
    }

    /// Whether there are tasks of the graph itself.
    pub(super) fn has_own(&self) -> bool {
        !self.tasks.is_empty()
    }

    pub(super) fn set_names(&mut self, names: Names) {
        self.names = names;
    }

    /// Adds the tasks that a run inside `task` did not finish.
    pub(super) fn add(&mut self, task: &str, inner: Self) {
        if inner.has_own() || !inner.inner.is_empty() {
            self.inner.push((task.to_owned(), inner));
        }
    }

    /// Returns the tasks of this graph and of all graphs inside, each graph with the names of the
    /// tasks around it.
    fn graphs(&self) -> impl Iterator<Item = (String, &Self)> {
        let mut open = vec![(String::new(), self)];
        iter::from_fn(move || {
            let (path, skipped) = open.pop()?;
            let inner = skipped.inner.iter().rev();
            open.extend(inner.map(|(task, inner)| (format!("{path}{task}/"), inner)));
            Some((path, skipped))
        })
    }

    /// Returns the names of all tasks.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.graphs().flat_map(|(path, skipped)| {
            let tasks = skipped.tasks.iter();
            tasks.map(move |&task| format!("{path}{}", skipped.names.of(task)))
        })
    }

    /// Returns the number of all tasks.
    pub(super) fn len(&self) -> usize {
        let (mut len, mut open) = (0, vec![self]);
        while let Some(skipped) = open.pop() {
            len += skipped.tasks.len();
            open.extend(skipped.inner.iter().map(|(_, inner)| inner));
        }
        len
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_levels_are_counted_and_dropped_on_the_default_stack() {
        const LEVELS: usize = if cfg!(miri) { 100 } else { 100_000 };
        let mut skipped = SkippedTasks::default();
        skipped.set_own(vec![1, 2]);
        for _ in 0..LEVELS {
            let mut outer = SkippedTasks::default();
            outer.set_own(vec![1]);
            outer.add("module", skipped);
            skipped = outer;
        }
        assert_eq!(skipped.len(), LEVELS + 2);
        let names: Vec<_> = skipped.names().take(3).collect();
        assert_eq!(names, ["task 1", "module/task 1", "module/module/task 1"]);
    }
}
