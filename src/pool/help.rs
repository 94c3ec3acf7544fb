//! A worker runs other jobs in the middle of a task that does not wait for any of them in particular.

use super::{job::Job, site::Site, task};
use crate::{
    crew::timer::Timer,
    engine::{Core, Mark, PerWorker, Step},
    observe::Counters,
};
use std::cell::Cell;

/// How many jobs run at most where one gives way: some tens of microseconds, if they are as short as futures are meant to be.
const AT_ONCE: usize = 16;

thread_local! {
    /// This thread gives way: those who run meanwhile don't.
    static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
}

/// It goes on.
struct GoOn;

impl Drop for GoOn {
    fn drop(&mut self) {
        GIVES_WAY.set(false);
    }
}

/// Where to see whether it is time to give way.
pub(crate) struct Press<'a>(&'a Core<Job, PerWorker, Counters>);

impl Press<'_> {
    /// Whether it may be.
    #[inline(always)]
    pub(crate) fn is_felt(&self) -> bool {
        let timer = Timer::global();
        self.0.is_pressed() || timer.is_waited_for() && timer.glance()
    }
}

impl Site<'_, '_> {
    /// Runs one job, if there is one that this worker may run now.
    pub(crate) fn help_once(&self) -> bool {
        self.help(1) == 1
    }

    /// Runs at most so many jobs, as long as there are any that this worker may run now; says how many.
    pub(crate) fn help(&self, most: usize) -> usize {
        if self.waits_alone() {
            return 0;
        }
        let _aside = task::set_aside();
        self.poll_is_long();
        let ran = (0..most)
            .take_while(|_| matches!(self.step(), Step::Ran))
            .count();
        self.active().settle();
        ran
    }

    /// [`help`](Self::help) by a task that waits for something, and does not get on before the jobs have run that it has
    /// queued: where nothing else is run, those are, and mail.
    pub(crate) fn help_in_wait(&self, most: usize) -> usize {
        if !self.waits_alone() {
            return self.help(most);
        }
        let _aside = task::set_aside();
        self.poll_is_long();
        let floor = self.floor(self.began());
        let mut ran = 0;
        while ran < most
            && let Some(job) = self.pop_above(floor)
        {
            self.run(job);
            ran += 1;
        }
        self.active().settle();
        ran
    }

    /// Runs one job that is in this worker's own queue, or its mail, if it may run it now.
    pub(crate) fn help_itself(&self) -> bool {
        let job = match self.isolated.get() {
            Some(mark) => self.pop_above(mark),
            None if self.waits_alone() => self.active().take_mail(),
            None => self.pop().or_else(|| self.active().take_mail()),
        };
        let Some(job) = job else {
            return false;
        };
        let _aside = task::set_aside();
        self.poll_is_long();
        self.run(job);
        // The task goes on, for who knows how long.
        self.active().settle();
        true
    }

    /// Whether there is anything in this worker's own queue.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.active().queue().owner().is_empty()
    }

    /// Whether a job should end here that can go on later, so that something urgent comes first.
    pub(crate) fn should_give_way(&self) -> bool {
        if Timer::global().is_due() {
            self.wake_due();
        }
        self.pool().core().is_pressed() && !self.waits_alone()
    }

    /// [`give_way`](Self::give_way) in what may be the poll of a future, and is long then.
    #[inline(always)]
    pub(crate) fn checkpoint(&self) -> bool {
        if self.poll_is_long() {
            self.speak_up();
        }
        self.give_way()
    }

    /// For those who have to ask more often than every few nanoseconds.
    #[inline(always)]
    pub(crate) fn press(&self) -> Press<'_> {
        Press(self.pool().core())
    }

    /// A place in a long task where urgent work may come in between, or futures whose time has come. Says whether there was
    /// any.
    #[inline(always)]
    pub(crate) fn give_way(&self) -> bool {
        let pressed = self.is_pressed();
        if pressed {
            self.give_way_once();
        }
        pressed
    }

    #[cold]
    fn give_way_once(&self) {
        if GIVES_WAY.replace(true) {
            return;
        }
        let _go_on = GoOn;
        self.relieve(AT_ONCE);
    }

    /// Runs urgent jobs, and what they queue here, in the middle of this task: at most `most`, and none where a wait
    /// would run none of others.
    fn relieve(&self, most: usize) {
        if self.waits_alone() {
            return;
        }
        let _aside = task::set_aside();
        self.poll_is_long();
        // No aim of others: jobs that run here do not go on with more of their kind.
        self.aiming_at(self, || self.relieve_with(most));
        // The task goes on, for who knows how long.
        self.speak_up();
    }

    fn relieve_with(&self, most: usize) {
        let mark = self.mark();
        for _ in 0..most {
            if let Some(job) = self.active().take_urgent() {
                self.nest(job);
            } else if self.active().queue().owner().is_above(mark)
                && let Some(job) = self.pop()
            {
                self.run(job);
            } else {
                break;
            }
        }
    }

    /// Nothing can be run here. True when a clock that moves by itself has moved for that: the clock of this pool, or of
    /// another one that this thread is in the middle of.
    pub(crate) fn skip_time(&self) -> bool {
        let skip = |site: &Site<'_, '_>| {
            site.pool().threads() == 0 && site.pool().skip_time(site.waits_alone())
        };
        skip(self) || self.below().any(skip)
    }

    /// Takes the newest job of this worker that was queued since `mark`, or one that came by mail.
    pub(super) fn pop_above(&self, mark: Mark) -> Option<Job> {
        if self.active().serves_older() {
            self.active().serve_above(mark);
            // Jobs that come again and again would keep the mail waiting too.
            if let mail @ Some(_) = self.active().take_mail() {
                return mail;
            }
        }
        if self.active().queue().owner().is_above(mark)
            && let Some(job) = self.pop()
        {
            return Some(job);
        }
        self.active().take_mail()
    }
}
