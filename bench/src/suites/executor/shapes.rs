//! Which task spawns which. A task is a number, or contains one; zero is always a task that spawns
//! nothing.

use std::{fmt::Debug, marker::PhantomData};

/// What a queue contains: a number, and perhaps more words.
pub(super) trait Task: Copy + Debug + Send + 'static {
    fn new(number: u64) -> Self;

    fn number(self) -> u64;
}

impl Task for u64 {
    #[inline(always)]
    fn new(number: u64) -> Self {
        number
    }

    #[inline(always)]
    fn number(self) -> u64 {
        self
    }
}

/// Two words, as a fat pointer, or as a pointer with a number.
impl Task for [u64; 2] {
    #[inline(always)]
    fn new(number: u64) -> Self {
        [number, !number]
    }

    #[inline(always)]
    fn number(self) -> u64 {
        debug_assert_eq!(self[0], !self[1]);
        self[0]
    }
}

/// The children of each task.
pub(super) trait Shape: 'static {
    type Task: Task;

    /// Spawns the children of `task`.
    fn children(task: Self::Task, spawn: impl FnMut(Self::Task));

    /// Returns the root task for at most `tasks` tasks, and the exact number of tasks.
    fn root(tasks: u64) -> (u64, u64);
}

/// No task spawns another.
pub(super) struct Flat;

impl Shape for Flat {
    type Task = u64;

    #[inline(always)]
    fn children(_task: u64, _spawn: impl FnMut(u64)) {}

    fn root(_tasks: u64) -> (u64, u64) {
        (0, 1)
    }
}

/// One task spawns all the others.
pub(super) struct Fanout<T = u64>(PhantomData<T>);

impl<T: Task> Shape for Fanout<T> {
    type Task = T;

    #[inline(always)]
    fn children(task: T, mut spawn: impl FnMut(T)) {
        (0..task.number()).for_each(|_| spawn(T::new(0)));
    }

    fn root(tasks: u64) -> (u64, u64) {
        (tasks - 1, tasks)
    }
}

/// Each task spawns the next one.
pub(super) struct Chain;

impl Shape for Chain {
    type Task = u64;

    #[inline(always)]
    fn children(task: u64, mut spawn: impl FnMut(u64)) {
        if task > 0 {
            spawn(task - 1);
        }
    }

    fn root(tasks: u64) -> (u64, u64) {
        (tasks - 1, tasks)
    }
}

/// Each task spawns two, down to a given depth.
pub(super) struct Tree;

impl Shape for Tree {
    type Task = u64;

    #[inline(always)]
    fn children(task: u64, mut spawn: impl FnMut(u64)) {
        if task > 0 {
            spawn(task - 1);
            spawn(task - 1);
        }
    }

    fn root(tasks: u64) -> (u64, u64) {
        let levels = (tasks + 1).ilog2();
        (u64::from(levels) - 1, (1 << levels) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{Chain, Fanout, Flat, Shape, Task, Tree};

    fn counted<S: Shape>() -> (u64, u64) {
        let (root, tasks) = S::root(1000);
        let (mut stack, mut ran) = (vec![S::Task::new(root)], 0);
        while let Some(task) = stack.pop() {
            ran += 1;
            S::children(task, |child| stack.push(child));
        }
        (ran, tasks)
    }

    #[test]
    fn there_are_as_many_tasks_as_announced() {
        assert_eq!(counted::<Flat>(), (1, 1));
        assert_eq!(counted::<Fanout>(), (1000, 1000));
        assert_eq!(counted::<Fanout<[u64; 2]>>(), (1000, 1000));
        assert_eq!(counted::<Chain>(), (1000, 1000));
        assert_eq!(counted::<Tree>(), (511, 511));
    }
}
