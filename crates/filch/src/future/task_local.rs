//! Values that travel with a future from thread to thread.

use crate::pool::current_task;
use std::{cell::RefCell, fmt, future::poll_fn, pin::pin, rc::Rc, thread::LocalKey};

/// A value that is visible to a future, and to what it awaits, on every thread that polls it:
/// declared with [`task_local!`](crate::task_local), set with [`scope`](Self::scope).
///
/// Spawned futures do not inherit it, and tasks that a worker runs while the future waits within a
/// poll do not see it.
///
/// ```
/// filch::task_local! {
///     /// Who asked.
///     static REQUEST: u64;
/// }
///
/// async fn answer() -> u64 {
///     filch::future::yield_now().await;
///     REQUEST.with(|request| request * 2)
/// }
///
/// let handle = filch::spawn_future(REQUEST.scope(21, answer()));
/// assert_eq!(handle.join().unwrap(), 42);
/// assert!(REQUEST.try_with(|_| ()).is_none());
/// ```
#[doc(alias = "task_local")]
pub struct TaskLocal<T: 'static> {
    key: LocalKey<TaskLocalStack<T>>,
}

/// The values that are set on a thread, the innermost last. Borrowed only while it is changed: a
/// worker that waits while it reads a value may run another task that sets one.
#[doc(hidden)]
#[derive(Debug)]
pub struct TaskLocalStack<T>(RefCell<Vec<Rc<ScopedValue<T>>>>);

#[derive(Debug)]
struct ScopedValue<T> {
    /// The nesting depth of tasks on the thread when the value was set: a task that a worker runs
    /// nested in this one is deeper, and does not see it.
    depth: usize,
    /// Present until `ValueGuard` takes it back.
    value: RefCell<Option<T>>,
}

impl<T> TaskLocalStack<T> {
    /// For the macro.
    #[expect(clippy::new_without_default, reason = "for use in a constant")]
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

/// Keeps a value on the stack; moves it back to its owner when dropped.
struct ValueGuard<'a, T: 'static> {
    local: &'static TaskLocal<T>,
    back: &'a mut Option<T>,
}

impl<T> Drop for ValueGuard<'_, T> {
    fn drop(&mut self) {
        let last = self.local.key.with(|stack| stack.0.borrow_mut().pop());
        // All readers are further up on the stack, and have returned.
        *self.back = last.and_then(|last| last.value.take());
    }
}

impl<T: 'static> TaskLocal<T> {
    /// For the macro.
    #[doc(hidden)]
    pub const fn new(key: LocalKey<TaskLocalStack<T>>) -> Self {
        Self { key }
    }

    /// Sets the value that is in `value`.
    fn set<'a>(&'static self, value: &'a mut Option<T>) -> ValueGuard<'a, T> {
        let set = Rc::new(ScopedValue {
            depth: current_task::depth(),
            value: RefCell::new(value.take()),
        });
        self.key.with(|stack| stack.0.borrow_mut().push(set));
        ValueGuard {
            local: self,
            back: value,
        }
    }

    /// Wraps `future` so that the value is set to `value` whenever it is polled.
    ///
    /// ```
    /// filch::task_local! { static USER: &'static str; }
    ///
    /// let greet = async { format!("hello {}", USER.get()) };
    /// let handle = filch::spawn_future(USER.scope("ann", greet));
    /// assert_eq!(handle.join().unwrap(), "hello ann");
    /// ```
    pub fn scope<F: Future>(
        &'static self,
        value: T,
        future: F,
    ) -> impl Future<Output = F::Output> + use<T, F> {
        let mut value = Some(value);
        async move {
            let mut future = pin!(future);
            poll_fn(|cx| {
                let _set = self.set(&mut value);
                future.as_mut().poll(cx)
            })
            .await
        }
    }

    /// Calls `f` with the value set to `value`.
    ///
    /// ```
    /// filch::task_local! { static DEPTH: u32; }
    /// assert_eq!(DEPTH.sync_scope(3, || DEPTH.get()), 3);
    /// ```
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let mut value = Some(value);
        let _set = self.set(&mut value);
        f()
    }

    /// Calls `f` with the value.
    ///
    /// ```
    /// filch::task_local! { static PATH: String; }
    ///
    /// let length = PATH.sync_scope("/tmp".into(), || PATH.with(|path| path.len()));
    /// assert_eq!(length, 4);
    /// ```
    ///
    /// # Panics
    /// When it is not set here.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Some(result) => result,
            None => panic!("this task-local value is not set here; wrap the future in its `scope`"),
        }
    }

    /// Calls `f` with the value, if it is set here.
    ///
    /// ```
    /// filch::task_local! { static DEPTH: u32; }
    ///
    /// assert_eq!(DEPTH.try_with(|depth| depth + 1), None);
    /// assert_eq!(DEPTH.sync_scope(1, || DEPTH.try_with(|depth| depth + 1)), Some(2));
    /// ```
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let last = self.key.with(|stack| stack.0.borrow().last().cloned())?;
        if last.depth != current_task::depth() {
            return None;
        }
        last.value.borrow().as_ref().map(f)
    }

    /// Returns a clone of the value.
    ///
    /// ```
    /// filch::task_local! { static ROUND: u32; }
    ///
    /// assert_eq!(filch::block_on(ROUND.scope(3, async { ROUND.get() })), 3);
    /// ```
    ///
    /// # Panics
    /// When it is not set here.
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }
}

impl<T> fmt::Debug for TaskLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskLocal")
    }
}

/// Declares values that travel with futures: [`TaskLocal`](crate::future::TaskLocal).
///
/// ```
/// filch::task_local! {
///     static USER: String;
///     pub static ROUND: u32;
/// }
/// assert_eq!(filch::block_on(ROUND.scope(1, async { ROUND.get() })), 1);
/// # assert!(USER.try_with(|_| ()).is_none());
/// ```
#[macro_export]
macro_rules! task_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty);+ $(;)?) => {
        $(
            $(#[$attribute])*
            $visibility static $name: $crate::future::TaskLocal<$type> = {
                ::std::thread_local! {
                    static KEY: $crate::future::TaskLocalStack<$type> = const { $crate::future::TaskLocalStack::new() };
                }
                $crate::future::TaskLocal::new(KEY)
            };
        )+
    };
}
