//! Tokens: what is registered during a cancel is cancelled too, and notified exactly once.

use super::{CancelReason, CancelToken, OnCancel, TaskBatch};
use crate::{
    base::canary::Canary,
    loom_tests::{caught, model},
};
use loom::thread;
use std::{
    future::Future,
    pin::pin,
    // Counters only, which are not part of the protocol. loom runs one thread at a time.
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// A count of calls.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn callback(&self) -> impl FnOnce() + Send + 'static {
        let count = self.clone();
        move || count.add()
    }
}

/// Cancels `token` on another thread.
fn canceller(token: &CancelToken) -> thread::JoinHandle<bool> {
    let token = token.clone();
    thread::spawn(move || token.cancel())
}

/// A callback is registered during a cancel: it runs once, on one of the two threads.
fn cancel_against_register() {
    let (token, ran) = (CancelToken::new(), Count::default());
    let other = canceller(&token);
    let registration = token.on_cancel(ran.callback());
    assert!(other.join().unwrap());
    assert_eq!(ran.get(), 1, "the callback ran {} times", ran.get());
    assert!(!registration.remove());
}

#[test]
fn a_callback_registered_during_a_cancel_runs_once() {
    model(None, cancel_against_register);
}

#[test]
fn canary_register_that_checks_too_early() {
    caught(Canary::CancelMissesListener, None, cancel_against_register);
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.add();
    }
}

/// A future is polled `polls` times during a cancel: it is ready, or it is woken and ready then.
fn cancel_against_poll(polls: usize) {
    let (token, woken) = (CancelToken::new(), Count::default());
    let waker = Waker::from(Arc::new(woken.clone()));
    let mut cx = Context::from_waker(&waker);
    let other = canceller(&token);
    let mut future = pin!(token.cancelled());
    let ready = (0..polls).any(|_| future.as_mut().poll(&mut cx).is_ready());
    other.join().unwrap();
    assert!(ready || woken.get() == 1, "it is neither ready nor woken");
    assert!(future.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn a_future_polled_during_a_cancel_is_ready_or_woken() {
    model(None, || cancel_against_poll(1));
    model(None, || cancel_against_poll(2));
}

#[test]
fn canary_poll_that_checks_too_early() {
    caught(Canary::CancelMissesListener, None, || {
        cancel_against_poll(1);
    });
}

/// A child and a grandchild are created during a cancel: both are cancelled.
fn cancel_against_child() {
    let (token, ran) = (CancelToken::new(), Count::default());
    let other = canceller(&token);
    let child = token.child();
    let registration = child.on_cancel(ran.callback());
    let below = child.child();
    other.join().unwrap();
    assert!(
        child.is_cancelled() && below.is_cancelled(),
        "a child was missed"
    );
    assert_eq!(ran.get(), 1);
    drop(registration);
}

#[test]
fn a_child_created_during_a_cancel_is_cancelled() {
    model(None, cancel_against_child);
}

#[test]
fn canary_child_that_checks_too_early() {
    caught(Canary::CancelMissesChild, None, cancel_against_child);
}

/// A callback is removed during a cancel: the result says whether it runs, and if not, it is
/// dropped.
fn cancel_against_remove() {
    let (token, ran, dropped) = (CancelToken::new(), Count::default(), Count::default());
    struct Dropped(Count);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add();
        }
    }
    let (value, callback) = (Dropped(dropped.clone()), ran.callback());
    let registration = token.on_cancel(move || {
        let _value = value;
        callback();
    });
    let other = canceller(&token);
    let removed = registration.remove();
    assert!(!removed || ran.get() == 0 && dropped.get() == 1);
    other.join().unwrap();
    assert_eq!(ran.get(), usize::from(!removed), "removed: {removed}");
    assert_eq!(dropped.get(), 1);
}

#[test]
fn a_callback_removed_during_a_cancel_runs_once_or_never() {
    model(None, cancel_against_remove);
}

#[test]
fn canary_remove_that_decides_by_the_state() {
    caught(Canary::RemoveByState, None, cancel_against_remove);
}

/// A task that counts its calls.
struct WatchingTask(Count);

impl OnCancel for WatchingTask {
    fn on_cancel(self: Arc<Self>, _: CancelReason, _: &mut TaskBatch) {
        self.0.add();
    }
}

/// Tasks that watch a token are notified in one batch. One of them leaves during the cancel: the
/// result says whether it is called, also while its batch is being notified.
fn cancel_against_unwatch() {
    let (token, calls) = (CancelToken::new(), [(); 3].map(|()| Count::default()));
    let tasks = calls.clone().map(|calls| Arc::new(WatchingTask(calls)));
    let mut watches = tasks.each_ref().map(|task| {
        let task: Weak<WatchingTask> = Arc::downgrade(task);
        Some(token.watch(task).unwrap())
    });
    let other = canceller(&token);
    let left = token.unwatch(watches[1].take().unwrap());
    let before = calls[1].get();
    other.join().unwrap();
    let calls = calls.map(|calls| calls.get());
    assert!(!left || before == 0);
    assert_eq!(calls, [1, usize::from(!left), 1], "left: {left}");
}

#[test]
fn a_task_that_leaves_during_a_cancel_is_called_once_or_never() {
    model(None, cancel_against_unwatch);
}

#[test]
fn canary_batch_that_is_removed_too_late() {
    caught(Canary::CancelKeepsBatch, None, cancel_against_unwatch);
}

/// Two threads cancel the same token: when either call returns, everything below is cancelled.
///
/// loom does not explore a load before a store of another thread that has loaded the same word in
/// between. So this checks through the locks: a registration before the cancel, and one after it,
/// which must run at once.
fn cancel_against_cancel() {
    let (root, ran) = (CancelToken::new(), Count::default());
    let child = root.child();
    let other = canceller(&root);
    drop(root.on_cancel(|| ()));
    let won = root.cancel();
    drop(child.on_cancel(ran.callback()));
    assert_eq!(ran.get(), 1, "it returned too early");
    assert!(won ^ other.join().unwrap(), "one of the calls was first");
}

#[test]
fn the_second_cancel_returns_after_everything_below_is_cancelled() {
    model(Some(3), cancel_against_cancel);
}

#[test]
fn canary_second_cancel_that_does_not_mark() {
    caught(Canary::CancelLeavesMarking, Some(3), cancel_against_cancel);
}

/// A token is cancelled while another thread cancels its parent: each callback runs once.
#[test]
fn cancels_in_one_tree_share_the_callbacks() {
    model(Some(3), || {
        let (root, ran) = (CancelToken::new(), Count::default());
        let middle = root.child();
        let below = middle.child();
        let registration = below.on_cancel(ran.callback());
        let other = canceller(&middle);
        assert!(root.cancel());
        assert!(below.is_cancelled());
        other.join().unwrap();
        assert_eq!(ran.get(), 1);
        drop(registration);
    });
}

/// A thread that finds the token cancelled sees what was done before the cancel. The turns order
/// nothing: they make loom explore the other thread before this one, which a load alone does not.
fn cancel_against_check() {
    let token = CancelToken::new();
    let [data, turns] = [(); 2].map(|()| Arc::new(loom::sync::atomic::AtomicUsize::new(0)));
    let other = {
        let (token, data, turns) = (token.clone(), data.clone(), turns.clone());
        thread::spawn(move || {
            data.store(1, Ordering::Relaxed);
            token.cancel();
            turns.fetch_add(1, Ordering::Relaxed);
        })
    };
    turns.fetch_add(1, Ordering::Relaxed);
    if token.is_cancelled() {
        assert_eq!(data.load(Ordering::Relaxed), 1, "the past is not visible");
    }
    other.join().unwrap();
}

#[test]
fn what_was_done_before_a_cancel_is_visible() {
    model(None, cancel_against_check);
}

#[test]
fn canary_cancel_that_publishes_nothing() {
    caught(Canary::CancelUnordered, None, cancel_against_check);
}

/// A thread waits during a cancel.
fn cancel_against_wait() {
    let token = CancelToken::new();
    let other = canceller(&token.clone());
    assert_eq!(token.child().wait(), CancelReason::Requested);
    other.join().unwrap();
}

#[test]
fn a_thread_that_waits_is_woken() {
    model(None, cancel_against_wait);
}

#[test]
fn canary_cancel_without_a_wake() {
    caught(Canary::CancelSkipsNotify, None, cancel_against_wait);
}

/// The last token of a child is dropped while its parent is cancelled.
#[test]
fn a_child_may_be_dropped_during_a_cancel() {
    model(None, || {
        let root = CancelToken::new();
        let child = root.child();
        let below = child.child();
        let other = canceller(&root);
        drop(child);
        drop(below);
        assert!(other.join().unwrap());
        assert!(root.child().is_cancelled());
    });
}
