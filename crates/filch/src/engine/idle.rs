//! What a worker does when it has found no task.

use std::time::Duration;

/// What to do before checking for tasks again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleAction {
    /// Execute this number of spin-loop hints and check again.
    Spin(u32),
    /// Poll the threads' source of events, if they have one, and check again.
    Poll,
    /// Yield the core to another thread and check again.
    Yield,
    /// Park until woken, or at most for this time.
    Park(Option<Duration>),
}

/// Decides what a worker does after a number of failed searches.
///
/// ```
/// use filch::engine::{IdleAction, IdlePolicy};
///
/// /// Sleeps at once: for machines that run on a battery.
/// #[derive(Clone)]
/// struct Lazy;
///
/// impl IdlePolicy for Lazy {
///     fn idle(&self, _rounds: u32) -> IdleAction {
///         IdleAction::Park(None)
///     }
/// }
/// ```
pub trait IdlePolicy: Send + Sync + 'static {
    /// Returns the next action. `rounds` is the number of consecutive complete searches that found
    /// nothing, counting from one; or [`u32::MAX`] if the policy is adaptive and further searching
    /// is not worth while.
    ///
    /// ```
    /// use filch::engine::{IdleAction, IdlePolicy, Tiered};
    ///
    /// let policy = Tiered { spin_rounds: 2, ..Tiered::default() };
    /// assert!(matches!(policy.idle(1), IdleAction::Spin(_)));
    /// assert_eq!(policy.idle(3), IdleAction::Park(None));
    /// ```
    fn idle(&self, rounds: u32) -> IdleAction;

    /// Whether a worker whose sleeps have been long passes `u32::MAX` as `rounds` early
    /// ([`Worker::resume_after`](super::Worker::resume_after)).
    ///
    /// ```
    /// use filch::engine::{IdleAction, IdlePolicy};
    ///
    /// /// Searches for ever, for a machine that has nothing else to do.
    /// struct Eager;
    ///
    /// impl IdlePolicy for Eager {
    ///     fn idle(&self, _rounds: u32) -> IdleAction {
    ///         IdleAction::Spin(1)
    ///     }
    ///     fn is_adaptive(&self) -> bool {
    ///         false // not even after long sleeps
    ///     }
    /// }
    /// assert!(!Eager.is_adaptive());
    /// ```
    fn is_adaptive(&self) -> bool {
        true
    }
}

/// The pause after the first failed search, in spin-loop hints. A worker that searches again at
/// once contends with the thread that is about to push a task: with a pause of 1 a spawn from
/// outside cost twice as much (`filch-bench executor`, case `outside`).
const FIRST_PAUSE: u32 = 8;

/// Spins with growing pauses, yields now and then, and finally parks.
///
/// ```
/// use filch::engine::{IdleAction, IdlePolicy, Tiered};
///
/// let policy = Tiered::default();
/// assert_eq!(policy.idle(1), IdleAction::Spin(8));
/// assert_eq!(policy.idle(16), IdleAction::Yield);
/// assert_eq!(policy.idle(10_000), IdleAction::Park(None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiered {
    /// The maximum number of failed searches before parking. A worker whose sleeps are long takes
    /// fewer; see `docs/decisions/0005-idle.md`.
    pub spin_rounds: u32,
    /// The interval of rounds at which the worker yields instead of spinning; zero never yields.
    /// With more threads than cores, a yield lets a thread run that has tasks. The default, 16, is
    /// once in some 16 µs.
    pub yield_every: u32,
    /// The longest pause between two searches, in spin-loop hints. Pauses double up to it, so that
    /// many thieves don't contend for the cache lines of few victims. With the default, 32, a round
    /// takes about 1 µs.
    pub longest_pause: u32,
    /// Wake after this time even without work. The engine does not need it; it is a safety net for
    /// drivers with wakes of their own.
    pub park_timeout: Option<Duration>,
}

impl Default for Tiered {
    fn default() -> Self {
        Self {
            spin_rounds: 200,
            yield_every: 16,
            longest_pause: 32,
            park_timeout: None,
        }
    }
}

impl IdlePolicy for Tiered {
    #[inline]
    fn idle(&self, rounds: u32) -> IdleAction {
        if rounds > self.spin_rounds {
            return IdleAction::Park(self.park_timeout);
        }
        if self.yield_every != 0 && rounds.is_multiple_of(self.yield_every) {
            return IdleAction::Yield;
        }
        let pause = FIRST_PAUSE
            .checked_shl(rounds.saturating_sub(1))
            .unwrap_or(u32::MAX);
        IdleAction::Spin(pause.clamp(1, self.longest_pause.max(1)))
    }
}

/// When a push by a worker checks whether a sleeper must be woken for it.
///
/// The check is a load of a word that is in the worker's cache, so [`EveryPush`](Self::EveryPush)
/// costs next to nothing and makes every task visible to sleepers. The other policies save the
/// check, and the wake, where tasks are so small that a wake costs more than it gains. No task is
/// lost: the worker that has it is awake.
///
/// ```
/// use filch::engine::WakePolicy;
/// assert_eq!(WakePolicy::default(), WakePolicy::EveryPush);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakePolicy {
    /// At every push.
    #[default]
    EveryPush,
    /// At the first push of each task that the worker runs.
    OncePerBatch,
    /// At every `k`-th push.
    EveryKth(u32),
    /// When the worker has pushed this number of tasks in a row without popping one.
    OnHoard(u32),
}

impl WakePolicy {
    /// The usual threshold for [`OnHoard`](Self::OnHoard): 32 pushes without a pop are a backlog
    /// that is worth a wake.
    pub const HOARD: u32 = 32;
}

/// Counts pushes for a [`WakePolicy`].
#[derive(Clone, Debug)]
pub(crate) struct WakeCounter {
    policy: WakePolicy,
    pushes: u32,
}

impl WakeCounter {
    pub(crate) fn new(policy: WakePolicy) -> Self {
        Self { policy, pushes: 0 }
    }

    /// Counts a push. Returns whether it checks for sleepers.
    #[inline(always)]
    pub(crate) fn push(&mut self) -> bool {
        if self.policy == WakePolicy::EveryPush {
            return true;
        }
        self.pushes += 1;
        let due = match self.policy {
            WakePolicy::EveryPush => true,
            WakePolicy::OncePerBatch => return self.pushes == 1,
            WakePolicy::EveryKth(k) | WakePolicy::OnHoard(k) => self.pushes >= k,
        };
        if due {
            self.pushes = 0;
        }
        due
    }

    /// Records that a task is about to run.
    #[inline(always)]
    pub(crate) fn pop(&mut self) {
        if matches!(
            self.policy,
            WakePolicy::OncePerBatch | WakePolicy::OnHoard(_)
        ) {
            self.pushes = 0;
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    fn checks(policy: WakePolicy, pushes_a_task: usize, tasks: usize) -> usize {
        let mut counter = WakeCounter::new(policy);
        let mut checks = 0;
        for _ in 0..tasks {
            counter.pop();
            checks += (0..pushes_a_task).filter(|_| counter.push()).count();
        }
        checks
    }

    #[test]
    fn policies_check_at_their_intervals() {
        assert_eq!(checks(WakePolicy::EveryPush, 10, 3), 30);
        assert_eq!(checks(WakePolicy::OncePerBatch, 10, 3), 3);
        assert_eq!(checks(WakePolicy::EveryKth(4), 10, 2), 5);
        assert_eq!(checks(WakePolicy::OnHoard(32), 31, 5), 0);
        assert_eq!(checks(WakePolicy::OnHoard(32), 64, 1), 2);
    }
}
