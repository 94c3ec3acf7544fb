//! A channel for futures: a lock, a queue, and the wakers of pending senders and of the receiver.
//! All systems use the same one, so they differ only in how they schedule the futures.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// A bounded queue of messages for one receiver.
pub(crate) struct Mailbox {
    capacity: usize,
    state: Mutex<State>,
}

struct State {
    messages: VecDeque<u64>,
    receiver: Option<Waker>,
    senders: VecDeque<Waker>,
}

impl Mailbox {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::new(State {
                messages: VecDeque::with_capacity(capacity),
                receiver: None,
                senders: VecDeque::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for capacity and enqueues a message.
    pub(crate) async fn send(&self, message: u64) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.messages.len() >= self.capacity {
                // A pending sender is polled again only after its waker was taken, so it is in the
                // list once.
                state.senders.push_back(cx.waker().clone());
                return Poll::Pending;
            }
            state.messages.push_back(message);
            let receiver = state.receiver.take();
            drop(state);
            wake(receiver);
            Poll::Ready(())
        })
        .await;
    }

    /// Waits for a message.
    pub(crate) async fn receive(&self) -> u64 {
        poll_fn(|cx| {
            let mut state = self.lock();
            let Some(message) = state.messages.pop_front() else {
                state.receiver = Some(cx.waker().clone());
                return Poll::Pending;
            };
            let sender = state.senders.pop_front();
            drop(state);
            wake(sender);
            Poll::Ready(message)
        })
        .await
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
