//! The tasks that a task can wait for.

use super::{TaskId, cell::SubmitRef};
use std::fmt;

/// A task that others can wait for: a handle without the result, from
/// [`TaskHandle::dependency`](super::TaskHandle::dependency).
///
/// It can be cloned and stored independently of the handle, and has one type for tasks with results
/// of different types.
///
/// ```
/// use filch::{Dependency, Pool};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let (number, text) = (pool.submit(|| 1), pool.submit(|| "one"));
/// let inputs: Vec<Dependency> = vec![number.dependency(), text.dependency()];
/// let last = pool.submit_after(&inputs, || "both are there");
/// assert_eq!(last.join().unwrap(), "both are there");
/// assert!(inputs.iter().all(Dependency::is_finished));
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Dependency {
    cell: SubmitRef,
}

impl Dependency {
    pub(super) fn new(cell: &SubmitRef) -> Self {
        Self { cell: cell.clone() }
    }

    pub(super) fn into_cell(self) -> SubmitRef {
        self.cell
    }

    /// Returns the id of the task.
    ///
    /// ```
    /// let task = filch::submit(|| 1);
    /// assert_eq!(task.dependency().id(), task.id());
    /// # task.join().unwrap();
    /// ```
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.cell.meta().id
    }

    /// Whether the task is done: it has a result, has panicked, or was cancelled.
    ///
    /// ```
    /// let task = filch::submit(|| 1);
    /// let dependency = task.dependency();
    /// task.join().unwrap(); // consumes the handle, not the dependency
    /// assert!(dependency.is_finished());
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.snapshot().is_done()
    }
}

impl fmt::Debug for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependency")
            .field("id", &self.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// One or many tasks to wait for: a handle, a [`Dependency`], a [group](super::TaskGroup), the
/// [task itself](crate::current_task()), each borrowed; and tuples, arrays, slices, vectors and
/// options of those.
///
/// ```
/// let pool = filch::Pool::builder().workers(2).build()?;
/// let (number, text) = (pool.submit(|| 1), pool.submit(|| "one"));
/// let more: Vec<_> = (0..4).map(|n| pool.submit(move || n)).collect();
/// let last = pool.submit_after((&number, &text, &more), || "after six tasks");
/// assert_eq!(last.join().unwrap(), "after six tasks");
/// # Ok::<(), filch::BuildError>(())
/// ```
pub trait Dependencies: VisitDependencies {}

impl<D: VisitDependencies> Dependencies for D {}

mod sealed {
    use super::Dependency;

    /// Calls a function with each of the tasks.
    pub trait VisitDependencies {
        fn visit_dependencies(self, f: &mut dyn FnMut(Dependency));
    }
}

pub(super) use sealed::VisitDependencies;

impl VisitDependencies for Dependency {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        f(self);
    }
}

impl VisitDependencies for &Dependency {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        f(self.clone());
    }
}

impl<D: VisitDependencies> VisitDependencies for Option<D> {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.into_iter()
            .for_each(|tasks| tasks.visit_dependencies(f));
    }
}

impl<D: VisitDependencies> VisitDependencies for Vec<D> {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.into_iter()
            .for_each(|tasks| tasks.visit_dependencies(f));
    }
}

impl<D: VisitDependencies, const N: usize> VisitDependencies for [D; N] {
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.into_iter()
            .for_each(|tasks| tasks.visit_dependencies(f));
    }
}

impl<'a, D> VisitDependencies for &'a [D]
where
    &'a D: VisitDependencies,
{
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.iter().for_each(|tasks| tasks.visit_dependencies(f));
    }
}

impl<'a, D> VisitDependencies for &'a Vec<D>
where
    &'a D: VisitDependencies,
{
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.as_slice().visit_dependencies(f);
    }
}

impl<'a, D, const N: usize> VisitDependencies for &'a [D; N]
where
    &'a D: VisitDependencies,
{
    fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
        self.as_slice().visit_dependencies(f);
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: VisitDependencies),*> VisitDependencies for ($($name,)*) {
            #[allow(non_snake_case, unused_variables, reason = "a name for a type and its value")]
            fn visit_dependencies(self, f: &mut dyn FnMut(Dependency)) {
                let ($($name,)*) = self;
                $($name.visit_dependencies(f);)*
            }
        }
    };
}

tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
