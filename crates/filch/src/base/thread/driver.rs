//! The interface of what a worker may wait in, instead of its parker.

use std::{sync::Arc, task::Waker, time::Duration};

/// A source of events, such as a reactor over `epoll`, that the workers of a pool wait in.
///
/// A pool with a driver ([`PoolBuilder::driver`](crate::PoolBuilder::driver)) needs no thread for
/// I/O. A worker without work waits in [`park`](Self::park) instead of on its parker, one worker at
/// a time. Busy workers poll the driver too: between two tasks, and at
/// [checkpoints](crate::checkpoint). The events that a worker finds wake futures on that worker, so
/// an event is not handed from one thread to another.
///
/// The driver returns the wakers instead of calling them. The pool calls them when the worker has
/// left the driver, where they may do anything.
///
/// ```
/// use filch::{Driver, Pool};
/// use std::{
///     future::poll_fn,
///     sync::{Condvar, Mutex},
///     task::{Poll, Waker},
///     time::Duration,
/// };
///
/// /// Its only event: there is a waker.
/// #[derive(Default)]
/// struct Channel(Mutex<(bool, Vec<Waker>)>, Condvar);
///
/// impl Driver for Channel {
///     fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
///         let is_quiet = |state: &mut (bool, Vec<Waker>)| !state.0 && state.1.is_empty();
///         let timeout = timeout.unwrap_or(Duration::from_secs(3600));
///         let state = self.0.lock().unwrap();
///         let (mut state, _) = self.1.wait_timeout_while(state, timeout, is_quiet).unwrap();
///         state.0 = false;
///         ready.append(&mut state.1);
///     }
///
///     fn notify(&self) {
///         self.0.lock().unwrap().0 = true;
///         self.1.notify_one();
///     }
/// }
///
/// let channel = std::sync::Arc::new(Channel::default());
/// let pool = Pool::builder().workers(2).driver(channel.clone()).build()?;
/// let mut polls = 0;
/// let future = poll_fn(move |cx| {
///     polls += 1;
///     if polls == 1 {
///         channel.0.lock().unwrap().1.push(cx.waker().clone());
///         channel.1.notify_one();
///         return Poll::Pending;
///     }
///     Poll::Ready(polls)
/// });
/// assert_eq!(pool.spawn_future(future).join().unwrap(), 2);
/// # Ok::<(), filch::BuildError>(())
/// ```
pub trait Driver: Send + Sync + 'static {
    /// Waits until there is an event, until it is [notified](Self::notify), or until `timeout` has
    /// passed; `None` is no limit, and zero does not wait. Appends the wakers of the events to
    /// `ready`.
    ///
    /// It may return early, and without an event. A pool calls this from one worker at a time. A
    /// driver that several pools share is called from one worker of each pool.
    ///
    /// It must not panic: a panic aborts the process.
    fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>);

    /// Makes the present call of [`park`](Self::park) return, or the next one if there is none.
    /// Called from any thread. Several notifications may count as one.
    fn notify(&self);
}

impl<D: Driver + ?Sized> Driver for Arc<D> {
    fn park(&self, timeout: Option<Duration>, ready: &mut Vec<Waker>) {
        (**self).park(timeout, ready);
    }

    fn notify(&self) {
        (**self).notify();
    }
}
