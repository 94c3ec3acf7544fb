//! Threads that may be actors in a rehearsal.

use super::parker::forget_parker;
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    thread::{self, JoinHandle, ThreadId},
    time::{Duration, Instant},
};

/// How an actor comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// In the middle of something.
    Event,
    /// In a loop that waits for others.
    Spin,
    /// It has nothing to do before others have gone on.
    Yield,
}

/// Decides which of its actors goes on: one at a time.
pub(crate) trait Director: Send + Sync {
    /// `actor` has come to a point; returns when it may go on.
    fn point(&self, actor: usize, how: Point);

    /// `actor` sleeps until it is unparked, or until `deadline`.
    fn park(&self, actor: usize, deadline: Option<Instant>);

    /// `actor` has no reason to sleep, now or the next time.
    fn unpark(&self, actor: usize);

    /// `actor` waits until `ready`, which others bring about, or until `deadline`.
    fn wait_until(&self, actor: usize, deadline: Option<Instant>, ready: &dyn Fn() -> bool);

    /// `actor` depends on threads that are not actors: `what` names them. Does not return.
    fn stray(&self, actor: usize, what: &str);

    /// What the clock says.
    fn nanos(&self) -> u64;

    /// `actor` waits until `other`, if it is an actor, has left.
    fn join(&self, actor: usize, other: ThreadId);
}

#[derive(Clone)]
struct Actor {
    director: Arc<dyn Director>,
    number: usize,
}

thread_local! {
    /// Whether `ACTOR` has one: to be asked at any time, also when the thread ends.
    static DIRECTED: Cell<bool> = const { Cell::new(false) };
    static ACTOR: RefCell<Option<Actor>> = const { RefCell::new(None) };
}

/// From now on this thread is actor `number` of `director`.
pub(crate) fn enter(director: Arc<dyn Director>, number: usize) {
    ACTOR.set(Some(Actor { director, number }));
    DIRECTED.set(true);
    forget_parker();
}

/// From now on nobody directs this thread.
pub(crate) fn leave() {
    DIRECTED.set(false);
    ACTOR.set(None);
    forget_parker();
}

/// Whether this thread takes part in a rehearsal.
pub(crate) fn is_directed() -> bool {
    DIRECTED.get()
}

/// Ends the rehearsal that this thread takes part in, if there is one: it depends on the threads of `what`, which nobody
/// directs.
pub(crate) fn reject_undirected(what: &str) {
    if let Some(actor) = actor() {
        actor.director.stray(actor.number, what);
    }
}

#[inline]
fn actor() -> Option<Actor> {
    if !DIRECTED.get() {
        return None;
    }
    ACTOR.try_with(|actor| actor.borrow().clone()).ok()?
}

#[inline]
fn come_to(how: Point) -> bool {
    DIRECTED.get() && {
        let actor = actor();
        if let Some(actor) = &actor {
            actor.director.point(actor.number, how);
        }
        actor.is_some()
    }
}

/// Here another thread may go on, if there is a rehearsal.
#[inline(always)]
pub(crate) fn point() {
    come_to(Point::Event);
}

/// [`hint::spin_loop`](std::hint::spin_loop).
#[inline(always)]
pub(crate) fn spin() {
    come_to(Point::Spin);
    std::hint::spin_loop();
}

/// [`thread::yield_now`].
pub(crate) fn yield_now() {
    if !come_to(Point::Yield) {
        thread::yield_now();
    }
}

/// [`thread::sleep`]. In a rehearsal the others go on, and no time passes.
pub(crate) fn sleep(time: Duration) {
    if !come_to(Point::Yield) {
        thread::sleep(time);
    }
}

/// [`thread::park`].
pub(crate) fn park() {
    match actor() {
        Some(actor) => actor.director.park(actor.number, None),
        None => thread::park(),
    }
}

/// [`thread::park_timeout`].
pub(crate) fn park_timeout(timeout: Duration) {
    match actor() {
        Some(actor) => actor
            .director
            .park(actor.number, Instant::now().checked_add(timeout)),
        None => thread::park_timeout(timeout),
    }
}

/// How often to look before going to sleep: `rounds`, but in a rehearsal waiting is for nothing.
pub(crate) fn patience(rounds: u32) -> u32 {
    if DIRECTED.get() { 1 } else { rounds }
}

/// Waits until `ready` or until `deadline`, if there is a rehearsal. False when there is none, and the caller has to wait
/// itself.
pub(crate) fn wait_until(deadline: Option<Instant>, ready: impl Fn() -> bool) -> bool {
    let actor = actor();
    if let Some(actor) = &actor {
        actor.director.wait_until(actor.number, deadline, &ready);
    }
    actor.is_some()
}

/// Nanoseconds since some time in the past. In a rehearsal time is what has happened.
pub(crate) fn nanos() -> u64 {
    match actor() {
        Some(actor) => actor.director.nanos(),
        None => super::clock(),
    }
}

/// A small number for this thread, to choose one of several shards: in a rehearsal that of the actor,
/// so that a replay chooses the same shards.
pub(crate) fn number() -> usize {
    match actor() {
        Some(actor) => actor.number,
        None => super::own_number(),
    }
}

/// The core that this thread runs on. In a rehearsal there are two, and actors take turns.
pub(crate) fn core() -> Option<u32> {
    match actor() {
        Some(actor) => u32::try_from(actor.number % 2).ok(),
        None => crate::base::sys::cores::current(),
    }
}

/// Whether this thread cannot leave its core. In a rehearsal none can.
pub(crate) fn is_pinned() -> bool {
    DIRECTED.get() || crate::base::sys::cores::is_pinned()
}

/// Waits for the end of a thread.
pub(crate) fn join<T>(handle: JoinHandle<T>) -> thread::Result<T> {
    if let Some(actor) = actor() {
        actor.director.join(actor.number, handle.thread().id());
    }
    handle.join()
}

/// [`thread::Thread`].
#[derive(Clone)]
pub(crate) struct Thread {
    thread: thread::Thread,
    actor: Option<Actor>,
}

/// [`thread::current`].
pub(crate) fn current() -> Thread {
    Thread {
        thread: thread::current(),
        actor: actor(),
    }
}

impl Thread {
    pub(crate) fn name(&self) -> Option<&str> {
        self.thread.name()
    }

    pub(crate) fn unpark(&self) {
        match &self.actor {
            Some(actor) => actor.director.unpark(actor.number),
            None => self.thread.unpark(),
        }
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.thread.fmt(f)
    }
}
