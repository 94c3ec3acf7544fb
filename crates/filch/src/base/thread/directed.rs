//! Threads that may be actors in a rehearsal.

use super::{blocking, parker::forget_parker};
use crate::base::Instant;
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    thread::{self, JoinHandle, ThreadId},
    time::Duration,
};

/// Why an actor reaches a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// During an operation.
    Event,
    /// In a loop that waits for other actors.
    Spin,
    /// It has nothing to do before other actors have run.
    Yield,
}

/// Decides which of its actors runs: one at a time.
pub(crate) trait Director: Send + Sync {
    /// Called when `actor` reaches a point; returns when it may continue.
    fn point(&self, actor: usize, how: Point);

    /// Parks `actor` until it is unparked, or until `deadline`.
    fn park(&self, actor: usize, deadline: Option<Instant>);

    /// Unparks `actor`: its present park returns, or else the next one.
    fn unpark(&self, actor: usize);

    /// Makes `actor` wait until `ready`, which other actors cause, or until `deadline`.
    fn wait_until(&self, actor: usize, deadline: Option<Instant>, ready: &dyn Fn() -> bool);

    /// Reports that `actor` depends on threads that are not actors: `what` names them. Does not
    /// return.
    fn fail_undirected(&self, actor: usize, what: &str);

    /// The time of the rehearsal's clock, in nanoseconds.
    fn nanos(&self) -> u64;

    /// Makes `actor` wait until `other`, if it is an actor, has left.
    fn join(&self, actor: usize, other: ThreadId);
}

#[derive(Clone)]
struct Actor {
    director: Arc<dyn Director>,
    number: usize,
}

thread_local! {
    /// Whether `ACTOR` has a value: can be read at any time, also when the thread ends.
    static DIRECTED: Cell<bool> = const { Cell::new(false) };
    static ACTOR: RefCell<Option<Actor>> = const { RefCell::new(None) };
}

/// Makes this thread actor `number` of `director` from now on.
pub(crate) fn enter(director: Arc<dyn Director>, number: usize) {
    ACTOR.set(Some(Actor { director, number }));
    DIRECTED.set(true);
    forget_parker();
}

/// Ends the direction of this thread.
pub(crate) fn leave() {
    DIRECTED.set(false);
    ACTOR.set(None);
    forget_parker();
}

/// Whether this thread takes part in a rehearsal.
pub(crate) fn is_directed() -> bool {
    DIRECTED.get()
}

/// Ends the rehearsal that this thread takes part in, if there is one: it depends on the threads of
/// `what`, which no director controls.
pub(crate) fn reject_undirected(what: &str) {
    if let Some(actor) = actor() {
        actor.director.fail_undirected(actor.number, what);
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
fn reach_point(how: Point) -> bool {
    DIRECTED.get() && {
        let actor = actor();
        if let Some(actor) = &actor {
            actor.director.point(actor.number, how);
        }
        actor.is_some()
    }
}

/// A point at which the director may let another thread run, if there is a rehearsal.
#[inline(always)]
pub(crate) fn point() {
    reach_point(Point::Event);
}

/// [`hint::spin_loop`](std::hint::spin_loop).
#[inline(always)]
pub(crate) fn spin() {
    reach_point(Point::Spin);
    std::hint::spin_loop();
}

/// [`thread::yield_now`].
pub(crate) fn yield_now() {
    if !reach_point(Point::Yield) {
        thread::yield_now();
    }
}

/// [`thread::sleep`]. In a rehearsal other actors run, and no time passes.
pub(crate) fn sleep(time: Duration) {
    if !reach_point(Point::Yield) {
        blocking::sleep(time);
    }
}

/// [`thread::park`].
pub(crate) fn park() {
    match actor() {
        Some(actor) => actor.director.park(actor.number, None),
        None => blocking::park(),
    }
}

/// [`thread::park_timeout`].
pub(crate) fn park_timeout(timeout: Duration) {
    match actor() {
        Some(actor) => actor
            .director
            .park(actor.number, Instant::now().checked_add(timeout)),
        None => blocking::park_timeout(timeout),
    }
}

/// The number of checks before a wait parks: `rounds`, or 1 in a rehearsal, where spinning is
/// useless.
pub(crate) fn spin_limit(rounds: u32) -> u32 {
    match DIRECTED.get() {
        true => 1,
        false => blocking::spin_limit(rounds),
    }
}

/// Waits until `ready` or until `deadline`, if there is a rehearsal, or only one thread. Returns
/// false when there is neither, and the caller has to wait itself.
pub(crate) fn wait_until(deadline: Option<Instant>, ready: impl Fn() -> bool) -> bool {
    let Some(actor) = actor() else {
        return blocking::wait_until(deadline, ready);
    };
    actor.director.wait_until(actor.number, deadline, &ready);
    true
}

/// Nanoseconds since some time in the past. In a rehearsal it depends only on the events so far.
pub(crate) fn nanos() -> u64 {
    match actor() {
        Some(actor) => actor.director.nanos(),
        None => super::clock(),
    }
}

/// A small number for this thread, to choose one of several shards. In a rehearsal that of the
/// actor, so that a replay chooses the same shards.
pub(crate) fn number() -> usize {
    match actor() {
        Some(actor) => actor.number,
        None => super::own_number(),
    }
}

/// The core that this thread runs on. In a rehearsal there are two, and actors alternate.
pub(crate) fn core() -> Option<u32> {
    match actor() {
        Some(actor) => u32::try_from(actor.number % 2).ok(),
        None => crate::base::sys::cores::current(),
    }
}

/// Whether this thread is bound to one core. In a rehearsal all are.
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
