//! Tasks that wait for the end of other tasks. `cell.md` has the protocol.

use super::{Claim, Ref, Ticket, state::TaskStatus, ticket::wake};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicUsize, Mutex, MutexGuard, Ordering},
        thread, unwind,
    },
    submit::FailedTask,
};
use std::{
    fmt, mem,
    sync::{Arc, OnceLock, PoisonError, Weak},
    task::Waker,
};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of what is between a task and one that it waits for: the other one.
#[derive(Clone)]
pub(in crate::submit) struct Link {
    pub(in crate::submit) cell: Ref,
    /// It does not matter how the first one ends.
    pub(in crate::submit) any_outcome: bool,
}

/// The tasks that wait for one, which is not done.
#[derive(Default)]
pub(in crate::submit) struct Followers(Mutex<Vec<Link>>);

impl Followers {
    /// Adds one. Gives those who do not wait any more, to be dropped without the lock.
    fn push(list: &mut Vec<Link>, follower: Link) -> Vec<Link> {
        let (full, mut weeds) = (list.capacity(), Vec::new());
        if full > 0 && list.len() == full {
            // A task that goes on for long may get and lose many.
            weeds.extend(list.extract_if(.., |link| !link.cell.snapshot().is_held()));
            if list.len() > full / 2 {
                list.reserve(full);
            }
        }
        list.push(follower);
        weeds
    }
}

/// What a task waits for.
pub(in crate::submit) struct After {
    /// How many of them have not ended; and one more, until all of them know.
    pending: AtomicUsize,
    /// The one that failed first, if that matters.
    failed: OnceLock<Arc<FailedTask>>,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    /// Empty when the task does not wait any more.
    predecessors: Vec<Link>,
    /// Those who want the task, or one that waits for it, and run it when it is ready.
    wanted_by: Vec<Weak<Inbox>>,
    /// The same for the owner of this task's handle.
    inbox: Option<Arc<Inbox>>,
}

/// What came of the news that a task which is waited for has ended.
#[must_use]
pub(in crate::submit) enum Arrived {
    /// The follower waits for others, or has not waited any more.
    Waits,
    /// It is queued from now on, and this is its ticket. Then those who want it are to be told.
    Ready(Ticket, Wanted),
    /// It will not run.
    Failed(Claim),
}

/// Those who want a task that is ready now.
pub(in crate::submit) struct Wanted(Vec<Weak<Inbox>>);

impl After {
    pub(in crate::submit) fn new(predecessors: Vec<Link>) -> Self {
        Self {
            pending: AtomicUsize::new(predecessors.len() + 1),
            failed: OnceLock::new(),
            waits: Mutex::new(Waits {
                predecessors,
                ..Waits::default()
            }),
        }
    }

    /// Why the task did not run.
    pub(in crate::submit) fn failed(&self) -> Option<&Arc<FailedTask>> {
        self.failed.get()
    }

    /// The task does not wait any more.
    pub(in crate::submit) fn forget(&self) {
        // Dropped without the lock, since a waker is the user's.
        let waits = mem::take(&mut *lock(&self.waits));
        unwind::discard(waits);
    }

    /// The inbox of whoever waits for this very task.
    pub(in crate::submit) fn inbox(&self) -> Option<Arc<Inbox>> {
        lock(&self.waits).inbox.clone()
    }

    /// Those that it waits for, and those that it has waited for, unless it does not wait any more.
    pub(in crate::submit) fn predecessors(&self) -> Vec<Link> {
        lock(&self.waits).predecessors.clone()
    }

    /// One of those that it waits for.
    fn predecessor(&self, at: usize) -> Option<Link> {
        lock(&self.waits).predecessors.get(at).cloned()
    }
}

impl Link {
    /// What this one follows has ended: well, or as `failed` says.
    pub(in crate::submit) fn arrive(self, failed: Option<&Arc<FailedTask>>) -> Arrived {
        let Self { cell, any_outcome } = self;
        let Some(after) = cell.about().after() else {
            return Arrived::Waits;
        };
        if let Some(failed) = failed
            && !any_outcome
        {
            return cell.fail(failed.clone());
        }
        let order = match broken(Canary::TaskArrive) {
            // Relaxed: the defect.
            true => Ordering::Relaxed,
            // AcqRel, with the other arrivals: what each of them did before its end is visible to the last one, which hands all of it on to
            // whoever claims the follower, in `State::make_ready`.
            false => Ordering::AcqRel,
        };
        match after.pending.fetch_sub(1, order) {
            1 => cell.make_ready(),
            _ => Arrived::Waits,
        }
    }
}

impl Ref {
    /// A task that nobody knows yet will wait for others.
    pub(in crate::submit) fn hold_back(&self) {
        self.state.hold_back();
    }

    /// Makes the task known to those that it waits for.
    pub(in crate::submit) fn enlist(&self) -> Arrived {
        let Some(after) = self.about.after() else {
            return Arrived::Waits;
        };
        let follower = |any_outcome| Link {
            cell: self.clone(),
            any_outcome,
        };
        // Until there are no more of them, or the task has been cancelled and has forgotten them.
        for at in 0.. {
            let Some(link) = after.predecessor(at) else {
                break;
            };
            let follower = follower(link.any_outcome);
            if let Err(follower) = link.cell.follow(follower) {
                match follower.arrive(link.cell.failure().as_ref()) {
                    Arrived::Waits => {}
                    arrived => return arrived,
                }
            }
        }
        follower(true).arrive(None)
    }

    /// Has `follower` told when this task ends. It comes back if that has happened.
    fn follow(&self, follower: Link) -> Result<(), Link> {
        if self.snapshot().is_done() && !broken(Canary::TaskFollow) {
            return Err(follower);
        }
        let followers = &self.about.extras_or_new().followers;
        thread::point();
        let mut list = lock(&followers.0);
        if !self.state.follow() {
            return Err(follower);
        }
        let weeds = Followers::push(&mut list, follower);
        drop(list);
        drop(weeds);
        Ok(())
    }

    /// Those who are to be told that this task has ended, and what they have to know.
    pub(in crate::submit) fn take_followers(&self) -> (Vec<Link>, Option<Arc<FailedTask>>) {
        let followers = match self.about.extras() {
            Some(extras) => mem::take(&mut *lock(&extras.followers.0)),
            None => Vec::new(),
        };
        (followers, self.failure())
    }

    /// Why those who wait for this task cannot run, if it has ended so.
    fn failure(&self) -> Option<Arc<FailedTask>> {
        match self.snapshot().fate()? {
            TaskStatus::Fine => None,
            // The first one of all, since that tells more than the last one before.
            TaskStatus::Followed => self.about.after()?.failed().cloned(),
            fate => Some(Arc::new(FailedTask::new(&self.about, fate))),
        }
    }

    fn fail(self, failed: Arc<FailedTask>) -> Arrived {
        if let Some(after) = self.about.after() {
            // The first one counts. Before the task is claimed, so that whoever sees its end finds the reason.
            let _ = after.failed.set(failed);
        }
        match self.state.claim_held() {
            true => Arrived::Failed(Claim { cell: self }),
            false => Arrived::Waits,
        }
    }

    fn make_ready(self) -> Arrived {
        let Some(level) = self.state.make_ready() else {
            return Arrived::Waits;
        };
        thread::point();
        // Who wants it from now on sees that it does not wait any more.
        let wanted_by = match self.about.after() {
            Some(after) => mem::take(&mut lock(&after.waits).wanted_by),
            None => Vec::new(),
        };
        let ticket = Ticket { cell: self, level };
        Arrived::Ready(ticket, Wanted(wanted_by))
    }

    /// ClockSampler whether everything that the task waits for has ended. Then whoever wants it need not wait until it is told.
    pub(in crate::submit) fn look_again(&self) -> Arrived {
        let Some(after) = self.about.after() else {
            return Arrived::Waits;
        };
        let mut failed = None;
        for link in &lock(&after.waits).predecessors {
            match link.cell.snapshot().fate() {
                None => return Arrived::Waits,
                Some(TaskStatus::Fine) => {}
                Some(_) if link.any_outcome => {}
                Some(_) => failed = Some(link.cell.clone()),
            }
        }
        match failed.and_then(|cell| cell.failure()) {
            Some(failed) => self.clone().fail(failed),
            None => self.clone().make_ready(),
        }
    }

    /// The tasks that this one waits for and that are not done, if it waits; whoever has `inbox` is told when it does not.
    pub(in crate::submit) fn want(&self, inbox: &Arc<Inbox>) -> Option<Vec<Ref>> {
        let looked = broken(Canary::TaskWant).then(|| self.snapshot().is_held());
        thread::point();
        let mut waits = lock(&self.about.after()?.waits);
        // With the lock: whoever makes it ready looks there after that.
        if !looked.unwrap_or_else(|| self.snapshot().is_held()) {
            return None;
        }
        waits.wanted_by.retain(|other| other.strong_count() > 0);
        waits.wanted_by.push(Arc::downgrade(inbox));
        let unfinished = waits.predecessors.iter().map(|link| &link.cell);
        let unfinished = unfinished.filter(|cell| !cell.snapshot().is_done());
        Some(unfinished.cloned().collect())
    }

    /// A new inbox for whoever waits for this very task.
    pub(in crate::submit) fn open_inbox(&self) -> Arc<Inbox> {
        let inbox = Arc::<Inbox>::default();
        if let Some(after) = self.about.after() {
            let before = lock(&after.waits).inbox.replace(inbox.clone());
            unwind::discard(before);
        }
        inbox
    }
}

impl Wanted {
    /// Tells them that `cell` is ready.
    pub(in crate::submit) fn tell(self, cell: &Ref) {
        for inbox in self.0 {
            if let Some(inbox) = inbox.upgrade() {
                let waker = {
                    let mut mail = lock(&inbox.0);
                    mail.ready.push(cell.clone());
                    mail.waker.take()
                };
                wake(waker);
                unwind::discard(inbox);
            }
        }
    }
}

/// For one who waits for a task that waits for others: those of them, near and far, that have become ready meanwhile.
///
/// Whoever joins a task runs it if nobody else does. So it has to hear of what must run before.
#[derive(Default)]
pub(in crate::submit) struct Inbox(Mutex<Mail>);

#[derive(Default)]
struct Mail {
    ready: Vec<Ref>,
    waker: Option<Waker>,
}

impl Inbox {
    pub(in crate::submit) fn take(&self) -> Option<Ref> {
        lock(&self.0).ready.pop()
    }

    pub(in crate::submit) fn is_empty(&self) -> bool {
        lock(&self.0).ready.is_empty()
    }

    /// Has `waker` called when something comes in. False when there is something.
    pub(in crate::submit) fn arm(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut mail = lock(&self.0);
        if !mail.ready.is_empty() {
            return false;
        }
        let before = mail.waker.replace(waker);
        drop(mail);
        super::hold::drop_waker(before);
        true
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.cell.about().id)
    }
}
