//! Typed values along edges: a task's inputs are its predecessors' outputs.

use super::{
    build::{Graph, Task},
    plan::Plan,
    values::{AnySlot, ValueUse, Values},
};
use std::{
    any::Any,
    borrow::Cow,
    fmt,
    marker::PhantomData,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError},
};

/// A handle to the output of a task, which other tasks can use as input. It is a number, and
/// `Copy`.
///
/// Made by [`Graph::value`] and [`Graph::map`].
pub struct Value<T> {
    graph: u64,
    index: u32,
    kind: PhantomData<fn() -> T>,
}

/// A [`Value`] that its only user takes by value.
pub struct Moved<T>(Value<T>);

impl<T> Value<T> {
    /// Makes the value move to the task that uses it, which has to be the only user.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let words = graph.value("words", || vec!["to", "be"]);
    /// let joined = graph.map("joined", words.moved(), |words: Vec<&str>| words.join(" "));
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    /// assert_eq!(plan.take(joined).as_deref(), Some("to be"));
    /// assert_eq!(plan.take(words), None); // it went to the other task
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn moved(self) -> Moved<T> {
        Moved(self)
    }

    /// Returns the number of the task that produces the value, for [`Graph::get`].
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let answer = graph.value("answer", || 42);
    /// assert_eq!(graph.get(answer.index()).unwrap().name(), "answer");
    /// ```
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }
}

impl<T> Clone for Value<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Value<T> {}

impl<T> Clone for Moved<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Moved<T> {}

impl<T> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.index).finish()
    }
}

impl<T> fmt::Debug for Moved<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Moved").field(&self.0.index).finish()
    }
}

/// Holds a value between the task that produces it and those that use it. The edges order these
/// tasks. Where a condition breaks that order, and a value is produced again while it is used, the
/// producing task panics. It does not block, since it could wait for a task further down on the
/// same stack.
pub struct ValueSlot<T> {
    name: String,
    value: RwLock<Option<T>>,
}

impl<T> ValueSlot<T> {
    pub(super) fn replace(&self, value: Option<T>) -> Option<T> {
        let mut slot = match self.value.try_write() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => panic!(
                "the value of {} is replaced while it is used; a loop must wait for all tasks that it repeats",
                self.name
            ),
        };
        std::mem::replace(&mut *slot, value)
    }

    fn read(&self) -> RwLockReadGuard<'_, Option<T>> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the value, if there is one.
    pub(super) fn peek<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.read().as_ref().map(f)
    }

    fn panic_missing(&self) -> ! {
        panic!(
            "the value of {} is missing: its task has not run, or it was moved",
            self.name
        )
    }
}

impl<T> fmt::Debug for ValueSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueSlot").field(&self.name).finish()
    }
}

impl<T: Send + Sync + 'static> AnySlot for ValueSlot<T> {
    fn clear(&self) {
        drop(self.replace(None));
    }
}

impl Values {
    pub(super) fn slot<T: Send + Sync + 'static>(&self, value: Value<T>) -> Arc<ValueSlot<T>> {
        assert!(value.graph == self.graph, "a value of another graph");
        let found = self
            .slots
            .binary_search_by_key(&value.index, |(index, _)| *index);
        let slot = found.ok().map(|at| self.slots[at].1.clone());
        let slot = slot.map(|slot| slot as Arc<dyn Any + Send + Sync>);
        slot.and_then(|slot| slot.downcast().ok())
            .expect("the task of the value was removed")
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for super::Value<T> {}
    impl<T> Sealed for super::Moved<T> {}
}

/// One input of a task: a [`Value`], which it borrows, or a [`Moved`] one, which it takes.
pub trait Input: sealed::Sealed + Copy {
    /// The type of the value.
    type Item: Send + Sync + 'static;
    /// What the task's closure receives.
    type Arg<'a>;
    /// The guard that keeps the value in place during the call.
    #[doc(hidden)]
    type Guard<'a>;
    #[doc(hidden)]
    const MOVES: bool;
    #[doc(hidden)]
    fn value(self) -> Value<Self::Item>;
    #[doc(hidden)]
    fn lock(slot: &ValueSlot<Self::Item>) -> Self::Guard<'_>;
    #[doc(hidden)]
    fn arg<'a>(guard: &'a mut Self::Guard<'_>, slot: &ValueSlot<Self::Item>) -> Self::Arg<'a>;
}

impl<T: Send + Sync + 'static> Input for Value<T> {
    type Item = T;
    type Arg<'a> = &'a T;
    type Guard<'a> = RwLockReadGuard<'a, Option<T>>;
    const MOVES: bool = false;

    fn value(self) -> Self {
        self
    }

    fn lock(slot: &ValueSlot<T>) -> Self::Guard<'_> {
        slot.read()
    }

    fn arg<'a>(guard: &'a mut Self::Guard<'_>, slot: &ValueSlot<T>) -> &'a T {
        (**guard).as_ref().unwrap_or_else(|| slot.panic_missing())
    }
}

impl<T: Send + Sync + 'static> Input for Moved<T> {
    type Item = T;
    type Arg<'a> = T;
    type Guard<'a> = Option<T>;
    const MOVES: bool = true;

    fn value(self) -> Value<T> {
        self.0
    }

    fn lock(slot: &ValueSlot<T>) -> Option<T> {
        slot.replace(None)
    }

    fn arg(guard: &mut Option<T>, slot: &ValueSlot<T>) -> T {
        guard.take().unwrap_or_else(|| slot.panic_missing())
    }
}

/// The inputs of a task: an [`Input`] or a tuple of up to eight, for a closure with the same number
/// of arguments.
pub trait Inputs<F, R> {
    #[doc(hidden)]
    type Slots: Send + 'static;
    #[doc(hidden)]
    fn bind(self, graph: &Graph<'_>, task: Task<'_, '_>) -> Self::Slots;
    #[doc(hidden)]
    fn call(func: &mut F, slots: &Self::Slots) -> R;
}

fn bind<I: Input>(input: I, graph: &Graph<'_>, task: Task<'_, '_>) -> Arc<ValueSlot<I::Item>> {
    let value = input.value();
    let mut parts = graph.parts();
    let values = &mut parts.rare.make().values;
    let slot = values.slot(value);
    values.uses.push(ValueUse {
        value: value.index,
        is_moved: I::MOVES,
        by: task.index(),
    });
    parts.edges.push((value.index, task.index()));
    slot
}

impl<I: Input, F, R> Inputs<F, R> for I
where
    F: for<'a> FnMut(I::Arg<'a>) -> R,
{
    type Slots = Arc<ValueSlot<I::Item>>;

    fn bind(self, graph: &Graph<'_>, task: Task<'_, '_>) -> Self::Slots {
        bind(self, graph, task)
    }

    fn call(func: &mut F, slots: &Self::Slots) -> R {
        let mut guard = I::lock(slots);
        func(I::arg(&mut guard, slots))
    }
}

macro_rules! inputs {
    ($($input:ident $index:tt $guard:ident),+) => {
        impl<FUNC, R, $($input: Input),+> Inputs<FUNC, R> for ($($input,)+)
        where
            FUNC: for<'a> FnMut($($input::Arg<'a>),+) -> R,
        {
            type Slots = ($(Arc<ValueSlot<$input::Item>>,)+);

            fn bind(self, graph: &Graph<'_>, task: Task<'_, '_>) -> Self::Slots {
                ($(bind(self.$index, graph, task),)+)
            }

            fn call(func: &mut FUNC, slots: &Self::Slots) -> R {
                $(let mut $guard = $input::lock(&slots.$index);)+
                func($($input::arg(&mut $guard, &slots.$index)),+)
            }
        }
    };
}

inputs!(A 0 a);
inputs!(A 0 a, B 1 b);
inputs!(A 0 a, B 1 b, C 2 c);
inputs!(A 0 a, B 1 b, C 2 c, D 3 d);
inputs!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e);
inputs!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f);
inputs!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f, G 6 g);
inputs!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f, G 6 g, H 7 h);

impl<'env> Graph<'env> {
    /// Adds a task that produces a value, for [`map`](Self::map) and [`Plan::take`].
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let a = graph.value("a", || 6);
    /// let b = graph.value("b", || 7);
    /// let c = graph.map("c", (a, b), |a: &i32, b: &i32| a * b);
    /// let text = graph.map("text", c, |c: &i32| format!("it is {c}"));
    ///
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    /// assert_eq!(plan.take(c), Some(42));
    /// assert_eq!(plan.take(text).unwrap(), "it is 42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The next run produces new values.
    pub fn value<T: Send + Sync + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        make: impl FnMut() -> T + Send + 'env,
    ) -> Value<T> {
        let task = self.add(name.into());
        self.set_value(task, make)
    }

    /// Makes a task produce a [`value`](Self::value).
    pub(super) fn set_value<T: Send + Sync + 'static>(
        &self,
        task: Task<'_, 'env>,
        mut make: impl FnMut() -> T + Send + 'env,
    ) -> Value<T> {
        let (value, slot) = self.output(task);
        task.work(move || {
            let made = make();
            drop(slot.replace(Some(made)));
        });
        value
    }

    /// Adds a task that produces a value from those of other tasks, which become its predecessors.
    /// It borrows them, or takes those that are [moved](Value::moved). The types of the closure's
    /// arguments have to be annotated.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let list = graph.value("list", || vec![3, 1, 2]);
    /// let sorted = graph.map("sorted", list.moved(), |mut list: Vec<i32>| {
    ///     list.sort();
    ///     list
    /// });
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    /// assert_eq!(plan.take(sorted), Some(vec![1, 2, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Values of other types do not fit:
    ///
    /// ```compile_fail,E0277
    /// let graph = filch::Graph::new();
    /// let a = graph.value("a", || 6_i32);
    /// graph.map("b", (a,), |a: &String| a.len());
    /// ```
    ///
    /// # Panics
    /// If a value belongs to another graph, or its task was removed.
    pub fn map<R, F, I>(&self, name: impl Into<Cow<'static, str>>, inputs: I, func: F) -> Value<R>
    where
        R: Send + Sync + 'static,
        F: Send + 'env,
        I: Inputs<F, R>,
    {
        let task = self.add(name.into());
        self.set_map(task, inputs, func)
    }

    /// Makes a task produce a value [from others](Self::map).
    pub(super) fn set_map<R, F, I>(&self, task: Task<'_, 'env>, inputs: I, mut func: F) -> Value<R>
    where
        R: Send + Sync + 'static,
        F: Send + 'env,
        I: Inputs<F, R>,
    {
        let slots = inputs.bind(self, task);
        let (value, slot) = self.output(task);
        task.work(move || {
            let made = I::call(&mut func, &slots);
            drop(slot.replace(Some(made)));
        });
        value
    }

    /// Returns the handle of a value that the instances of a template produce by this task.
    pub(super) fn declare_value<T: Send + Sync + 'static>(&self, task: Task<'_, '_>) -> Value<T> {
        self.output(task).0
    }

    pub(super) fn output<T: Send + Sync + 'static>(
        &self,
        task: Task<'_, '_>,
    ) -> (Value<T>, Arc<ValueSlot<T>>) {
        let slot = Arc::new(ValueSlot {
            name: task.name(),
            value: RwLock::new(None),
        });
        let mut parts = self.parts();
        let index = task.index();
        let values = &mut parts.rare.make().values;
        values.slots.push((index, slot.clone()));
        let graph = values.graph();
        let value = Value {
            graph,
            index,
            kind: PhantomData,
        };
        (value, slot)
    }

    /// Returns the task that produces a value, to add more edges.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let ready = AtomicBool::new(false);
    /// let graph = filch::Graph::new();
    /// let settings = graph.value("settings", || ready.load(Ordering::Relaxed));
    /// let prepare = graph.task("prepare", || ready.store(true, Ordering::Relaxed));
    /// graph.task_of(settings).succeed(prepare); // an order without data
    /// let mut plan = graph.plan()?;
    /// plan.run()?;
    /// assert_eq!(plan.take(settings), Some(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the value belongs to another graph, or its task was removed.
    pub fn task_of<T: Send + Sync + 'static>(&self, value: Value<T>) -> Task<'_, 'env> {
        let graph = self.parts().rare.values.graph;
        assert!(value.graph == graph, "a value of another graph");
        self.get(value.index)
            .expect("the task of the value was removed")
    }
}

impl Plan<'_> {
    /// Takes the value that a task has produced in the last run; `None` if it did not run, or the
    /// value has been moved.
    ///
    /// ```
    /// let graph = filch::Graph::new();
    /// let answer = graph.value("answer", || 42);
    /// let mut plan = graph.plan()?;
    /// assert_eq!(plan.take(answer), None);
    /// plan.run()?;
    /// assert_eq!(plan.take(answer), Some(42));
    /// assert_eq!(plan.take(answer), None); // until the next run
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the value belongs to another graph, or its task was removed.
    pub fn take<T: Send + Sync + 'static>(&mut self, value: Value<T>) -> Option<T> {
        self.parts.rare.values.slot(value).replace(None)
    }

    /// Calls `f` with the value that a task has produced in the last run.
    ///
    /// ```
    /// use filch::Graph;
    ///
    /// let graph = Graph::new();
    /// let words = graph.value("words", || vec!["a", "b"]);
    /// let mut plan = graph.plan()?;
    /// assert_eq!(plan.peek(words, |words| words.len()), None);
    /// plan.run()?;
    /// assert_eq!(plan.peek(words, |words| words.len()), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the value belongs to another graph, or its task was removed.
    pub fn peek<T: Send + Sync + 'static, R>(
        &self,
        value: Value<T>,
        f: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        self.parts.rare.values.slot(value).peek(f)
    }
}
