//! Promises of JavaScript as futures.

use crate::bytes::take_bytes;
use std::{
    collections::HashMap,
    error::Error,
    fmt,
    pin::Pin,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A promise of JavaScript: a future of the bytes that it is fulfilled with, or of the text of its
/// rejection.
///
/// It is `Send`, because it holds a number and no value of JavaScript; so it can be awaited in any
/// future of a pool.
///
/// ```
/// use filch_web::{Promise, settle};
///
/// // The closure passes the token to JavaScript, which calls `app.settle(token, promise)`.
/// let promise = Promise::new(|token| settle(token, Ok(b"text".to_vec())));
/// assert_eq!(filch::block_on(promise).unwrap(), b"text");
/// ```
///
/// JavaScript passes a string as UTF-8, an `ArrayBuffer` or `Uint8Array` as it is, `undefined` as
/// no bytes, and other values as JSON. Dropping the future does not stop the promise; its result is
/// discarded.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Promise {
    token: u32,
}

impl Promise {
    /// Calls `start` with the token of a new promise, which JavaScript has to settle.
    ///
    /// ```
    /// use filch_web::{Promise, settle};
    ///
    /// let promise = Promise::new(|token| settle(token, Err("no such file".to_owned())));
    /// assert_eq!(filch::block_on(promise).unwrap_err().to_string(), "no such file");
    /// ```
    pub fn new(start: impl FnOnce(u32)) -> Self {
        let promise = Self {
            token: lock().insert(),
        };
        start(promise.token);
        promise
    }
}

impl Future for Promise {
    type Output = Result<Vec<u8>, PromiseError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut open = lock();
        let state = open.states.get_mut(&self.token);
        match state.expect("it is there until the future is dropped") {
            PromiseState::Settled(result) => match result.take() {
                Some(result) => Poll::Ready(result.map_err(|message| PromiseError { message })),
                None => panic!("a promise was polled after it had returned its result"),
            },
            PromiseState::Waiting(waker) => {
                let before = waker.replace(cx.waker().clone());
                // A waker's destructor may be user code.
                drop(open);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let state = lock().states.remove(&self.token);
        drop(state);
    }
}

/// Settles the promise of this token, with the bytes of its value or the text of its rejection. A
/// promise that was dropped or settled before is left alone. JavaScript does this by
/// `app.settle(token, promise)`; in tests Rust may do so.
///
/// ```
/// use filch_web::{Promise, settle};
///
/// let (mut first, mut second) = (0, 0);
/// let dropped = Promise::new(|token| first = token);
/// let kept = Promise::new(|token| second = token);
/// drop(dropped);
/// settle(first, Ok(Vec::new())); // without effect
/// settle(second, Ok(vec![1, 2]));
/// assert_eq!(filch::block_on(kept).unwrap(), [1, 2]);
/// ```
pub fn settle(token: u32, result: Result<Vec<u8>, String>) {
    let mut open = lock();
    if let Some(state @ PromiseState::Waiting(_)) = open.states.get_mut(&token) {
        let before = std::mem::replace(state, PromiseState::Settled(Some(result)));
        drop(open);
        if let PromiseState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// Called by JavaScript: settles a promise with bytes from `filch_allocate`.
///
/// # Safety
/// As [`take_bytes`].
#[unsafe(no_mangle)]
unsafe extern "C" fn filch_settle(token: u32, fulfilled: u32, address: *mut u8, length: usize) {
    // SAFETY: `filch.js` passes a block that it has just allocated and filled, once.
    let bytes = unsafe { take_bytes(address, length) };
    let result = match fulfilled {
        0 => Err(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Ok(bytes),
    };
    settle(token, result);
}

/// A promise was rejected; displays as the text of the reason.
///
/// ```
/// use filch_web::{Promise, settle};
///
/// let rejected = Promise::new(|token| settle(token, Err("offline".to_owned())));
/// assert_eq!(filch::block_on(rejected).unwrap_err().to_string(), "offline");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromiseError {
    message: String,
}

impl fmt::Display for PromiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for PromiseError {}

#[derive(Debug)]
enum PromiseState {
    Waiting(Option<Waker>),
    /// `None` when the future has returned it.
    Settled(Option<Result<Vec<u8>, String>>),
}

/// The promises whose futures exist.
#[derive(Default)]
struct OpenPromises {
    states: HashMap<u32, PromiseState>,
    last: u32,
}

impl OpenPromises {
    /// Adds one. Returns its token, which no other open one has.
    fn insert(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.states.contains_key(&self.last) {
                self.states.insert(self.last, PromiseState::Waiting(None));
                return self.last;
            }
        }
    }
}

static OPEN: LazyLock<Mutex<OpenPromises>> = LazyLock::new(Mutex::default);

/// The open promises. The lock is never held where user code runs.
fn lock() -> MutexGuard<'static, OpenPromises> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
