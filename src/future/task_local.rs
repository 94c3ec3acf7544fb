//! Values that go with a future from thread to thread.

use crate::pool::task;
use std::{cell::RefCell, fmt, future::poll_fn, mem, pin::pin, thread::LocalKey};

/// A value that a future, and what it awaits, can see wherever it is polled: declared with
/// [`task_local!`](crate::task_local), set with [`scope`](Self::scope).
///
/// What is spawned inside does not inherit it, and what a worker runs while the future waits in the middle of a poll does
/// not see it.
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
pub struct TaskLocal<T: 'static> {
    key: LocalKey<Place<T>>,
}

/// A value, and how deep in tasks the thread was when it was set: a worker that waits runs other tasks in the middle of
/// this one, and those are deeper and do not see it.
type Place<T> = RefCell<Option<(usize, T)>>;

impl<T: 'static> TaskLocal<T> {
    /// For the macro.
    #[doc(hidden)]
    pub const fn new(key: LocalKey<Place<T>>) -> Self {
        Self { key }
    }

    /// Exchanges the value in place with `value`.
    fn swap(&'static self, value: &mut Option<(usize, T)>) {
        self.key.with(|place| {
            let mut place = place
                .try_borrow_mut()
                .expect("a task-local value cannot change while it is looked at");
            mem::swap(&mut *place, value);
        });
    }

    /// `future` with the value set to `value` whenever it is polled.
    pub fn scope<F: Future>(
        &'static self,
        value: T,
        future: F,
    ) -> impl Future<Output = F::Output> + use<T, F> {
        struct Set<'a, T: 'static>(&'static TaskLocal<T>, &'a mut Option<(usize, T)>);
        impl<T> Drop for Set<'_, T> {
            fn drop(&mut self) {
                self.0.swap(self.1);
            }
        }
        let mut value = Some((0, value));
        async move {
            let mut future = pin!(future);
            poll_fn(|cx| {
                if let Some((depth, _)) = &mut value {
                    *depth = task::depth();
                }
                self.swap(&mut value);
                let _back = Set(self, &mut value);
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
        struct Set<T: 'static>(&'static TaskLocal<T>, Option<(usize, T)>);
        impl<T> Drop for Set<T> {
            fn drop(&mut self) {
                self.0.swap(&mut self.1);
            }
        }
        let mut set = Set(self, Some((task::depth(), value)));
        self.swap(&mut set.1);
        f()
    }

    /// Calls `f` with the value.
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
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.key.with(|place| match &*place.borrow() {
            Some((depth, value)) if *depth == task::depth() => Some(f(value)),
            _ => None,
        })
    }

    /// A clone of the value.
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

/// Declares values that go with futures: [`TaskLocal`](crate::future::TaskLocal).
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
                    static KEY: ::std::cell::RefCell<::std::option::Option<(usize, $type)>> =
                        const { ::std::cell::RefCell::new(::std::option::Option::None) };
                }
                $crate::future::TaskLocal::new(KEY)
            };
        )+
    };
}
