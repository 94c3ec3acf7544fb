//! What a worker does when it has found nothing.

use std::time::Duration;

/// What to do before looking again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleAction {
    /// Pause as many times (a spin-loop hint each) and look again.
    Spin(u32),
    /// Poll the source of events that the threads have, if they have one, and look again.
    Poll,
    /// Give the core to another thread and look again.
    Yield,
    /// Sleep until woken, or at most as long.
    Park(Option<Duration>),
}

/// Decides what a worker does after so many looks in vain.
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
    /// `rounds` is how many times in a row the worker has looked everywhere and found nothing,
    /// counting from one; or [`u32::MAX`] if the policy adapts and looking on is not worth while.
    fn idle(&self, rounds: u32) -> IdleAction;

    /// Whether a worker that is known to sleep long, as a rule, asks for the last round sooner
    /// ([`Worker::resume_after`](super::Worker::resume_after)).
    fn adapts(&self) -> bool {
        true
    }
}

/// The pause after the first look in vain, in spin-loop hints. A worker that looks again at once is in the way of
/// the one that is about to give it something: with a pause of 1 a spawn from outside cost twice as much
/// (`filch-bench executor`, case `outside`).
const FIRST_PAUSE: u32 = 8;

/// Spin, yield, park: seed 003's policy, with growing pauses.
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
    /// The most looks in vain before parking. A worker whose sleeps are long takes fewer; see
    /// `docs/decisions/0005-idle.md`.
    pub spin_rounds: u32,
    /// Every so many rounds, yield instead of spinning; zero never yields. Lets the thread run
    /// that has the work when there are more threads than cores.
    pub yield_every: u32,
    /// The longest pause between two looks, in spin-loop hints. Pauses double up to it, so that
    /// many thieves don't keep the lines of few victims busy.
    pub longest_pause: u32,
    /// Wake after this time even without work. Nothing here needs it; it is for those who want a
    /// second net under their own code.
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

/// When a push by a worker looks whether somebody should be woken for it.
///
/// A look is a load of a word that is in the worker's cache, so [`EveryPush`](Self::EveryPush) costs
/// next to nothing and keeps every task visible; the others save the look, and the wake, where tasks
/// are so small that being woken for one of them is not worth it. The tasks are never lost: the
/// worker that has them is awake.
///
/// ```
/// use filch::engine::WakePolicy;
/// assert_eq!(WakePolicy::default(), WakePolicy::EveryPush);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "simulate", derive(serde::Serialize, serde::Deserialize))]
pub enum WakePolicy {
    /// At every push.
    #[default]
    EveryPush,
    /// At the first push of each task that the worker runs.
    OncePerBatch,
    /// At every `k`-th push.
    EveryKth(u32),
    /// When the worker has pushed as many tasks in a row without popping one (seed 003: 32).
    OnHoard(u32),
}

impl WakePolicy {
    /// Seed 003's threshold for [`OnHoard`](Self::OnHoard).
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

    /// Whether this push looks.
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

    /// A task is about to run.
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

    fn looks(policy: WakePolicy, pushes_a_task: usize, tasks: usize) -> usize {
        let mut counter = WakeCounter::new(policy);
        let mut looks = 0;
        for _ in 0..tasks {
            counter.pop();
            looks += (0..pushes_a_task).filter(|_| counter.push()).count();
        }
        looks
    }

    #[test]
    fn policies_look_as_often_as_they_say() {
        assert_eq!(looks(WakePolicy::EveryPush, 10, 3), 30);
        assert_eq!(looks(WakePolicy::OncePerBatch, 10, 3), 3);
        assert_eq!(looks(WakePolicy::EveryKth(4), 10, 2), 5);
        assert_eq!(looks(WakePolicy::OnHoard(32), 31, 5), 0);
        assert_eq!(looks(WakePolicy::OnHoard(32), 64, 1), 2);
    }
}
