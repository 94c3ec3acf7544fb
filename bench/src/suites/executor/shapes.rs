//! Which task spawns which. A task is a number, and zero is always a task that spawns nothing.

/// The children of each task.
pub(super) trait Shape: 'static {
    /// Spawns the children of `task`.
    fn children(task: u64, spawn: impl FnMut(u64));

    /// Returns the root task for at most `tasks` tasks, and the exact number of tasks.
    fn root(tasks: u64) -> (u64, u64);
}

/// No task spawns another.
pub(super) struct Flat;

impl Shape for Flat {
    #[inline(always)]
    fn children(_task: u64, _spawn: impl FnMut(u64)) {}

    fn root(_tasks: u64) -> (u64, u64) {
        (0, 1)
    }
}

/// One task spawns all the others.
pub(super) struct Fanout;

impl Shape for Fanout {
    #[inline(always)]
    fn children(task: u64, mut spawn: impl FnMut(u64)) {
        (0..task).for_each(|_| spawn(0));
    }

    fn root(tasks: u64) -> (u64, u64) {
        (tasks - 1, tasks)
    }
}

/// Each task spawns the next one.
pub(super) struct Chain;

impl Shape for Chain {
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
    use super::{Chain, Fanout, Flat, Shape, Tree};

    fn counted<S: Shape>() -> (u64, u64) {
        let (root, tasks) = S::root(1000);
        let (mut stack, mut ran) = (vec![root], 0);
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
        assert_eq!(counted::<Chain>(), (1000, 1000));
        assert_eq!(counted::<Tree>(), (511, 511));
    }
}
