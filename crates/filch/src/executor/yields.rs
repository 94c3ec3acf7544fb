//! Policies for when a long task should let others run.
//!
//! A policy counts the units of work that a task does (bytes scanned, nodes visited) and decides
//! when it should yield. The task then calls [`Context::yield_now`](super::Context::yield_now) with
//! the rest of itself. Policies count units instead of reading a clock, so that runs are
//! reproducible.
//!
//! ```
//! use filch::Executor;
//! use filch::executor::{EveryN, YieldPolicy};
//!
//! struct Scan { from: usize, to: usize }
//!
//! let executor = Executor::builder()
//!     .workers(1)
//!     .build(|_| 0_usize, |mut scan: Scan, cx| {
//!         let mut policy = EveryN::new(100);
//!         while scan.from < scan.to {
//!             *cx.scratch() += 1; // one unit of work
//!             scan.from += 1;
//!             if policy.record_work(1) {
//!                 return cx.yield_now(scan);
//!             }
//!         }
//!     })
//!     .unwrap();
//! executor.spawn(Scan { from: 0, to: 1000 }).unwrap();
//! let summary = executor.finish();
//! assert_eq!(summary.scratch, [1000]);
//! assert_eq!(summary.metrics.total().executed, 11); // ten times 100, and an empty rest
//! ```

/// Decides when a task should yield.
pub trait YieldPolicy {
    /// Counts `units` more as done. Returns whether the task should yield; the count starts over
    /// then.
    ///
    /// ```
    /// use filch::executor::{EveryN, YieldPolicy};
    ///
    /// let mut policy = EveryN::new(100);
    /// assert!(!policy.record_work(60));
    /// assert!(policy.record_work(60));
    /// ```
    #[must_use]
    fn record_work(&mut self, units: u64) -> bool;

    /// Called when the task continues after a yield; `alone` if no other task was waiting.
    ///
    /// Only adaptive policies use it.
    ///
    /// ```
    /// use filch::executor::{AdaptiveYield, YieldPolicy};
    ///
    /// let mut policy = AdaptiveYield::new(2, 8);
    /// policy.resumed(true); // no task was waiting: yields less often
    /// assert!(!policy.record_work(2) && policy.record_work(2));
    /// ```
    fn resumed(&mut self, alone: bool) {
        let _ = alone;
    }
}

/// Yields after every `n` units.
///
/// ```
/// use filch::executor::{EveryN, YieldPolicy};
///
/// let mut policy = EveryN::new(3);
/// let yields: Vec<_> = (0..6).map(|_| policy.record_work(1)).collect();
/// assert_eq!(yields, [false, false, true, false, false, true]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EveryN {
    n: u64,
    done: u64,
}

impl EveryN {
    /// Every `n` units; zero is treated as one.
    ///
    /// ```
    /// use filch::executor::{EveryN, YieldPolicy};
    ///
    /// assert!(EveryN::new(3).record_work(3));
    /// assert_eq!(EveryN::new(0), EveryN::new(1));
    /// ```
    #[must_use]
    pub const fn new(n: u64) -> Self {
        let n = if n == 0 { 1 } else { n };
        Self { n, done: 0 }
    }
}

impl YieldPolicy for EveryN {
    fn record_work(&mut self, units: u64) -> bool {
        self.done = self.done.saturating_add(units);
        let due = self.done >= self.n;
        if due {
            self.done = 0;
        }
        due
    }
}

/// Never yields.
///
/// ```
/// use filch::executor::{Never, YieldPolicy};
/// assert!(!Never.record_work(u64::MAX));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Never;

impl YieldPolicy for Never {
    fn record_work(&mut self, _units: u64) -> bool {
        false
    }
}

/// Yields at every call.
///
/// ```
/// use filch::executor::{Always, YieldPolicy};
/// assert!(Always.record_work(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Always;

impl YieldPolicy for Always {
    fn record_work(&mut self, _units: u64) -> bool {
        true
    }
}

/// Yields less often while no other task waits, and more often when one does.
///
/// The interval doubles after a yield without a waiting task and halves after one with a waiting
/// task, between `least` and `most`.
///
/// ```
/// use filch::executor::{AdaptiveYield, YieldPolicy};
///
/// let mut policy = AdaptiveYield::new(2, 8);
/// assert!(policy.record_work(2));
/// policy.resumed(true); // no task was waiting
/// assert!(!policy.record_work(2) && policy.record_work(2));
/// policy.resumed(false); // a task was waiting
/// assert!(policy.record_work(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveYield {
    least: u64,
    most: u64,
    every: EveryN,
}

impl AdaptiveYield {
    /// Starts at `least` units; the interval stays between `least` and `most`.
    ///
    /// ```
    /// assert_eq!(filch::executor::AdaptiveYield::new(2, 8).interval(), 2);
    /// ```
    #[must_use]
    pub const fn new(least: u64, most: u64) -> Self {
        let every = EveryN::new(least);
        let least = every.n;
        let most = if most < least { least } else { most };
        Self { least, most, every }
    }

    /// The current interval.
    ///
    /// ```
    /// use filch::executor::{AdaptiveYield, YieldPolicy};
    ///
    /// let mut policy = AdaptiveYield::new(2, 8);
    /// policy.resumed(true); // no task was waiting
    /// assert_eq!(policy.interval(), 4);
    /// ```
    #[must_use]
    pub const fn interval(&self) -> u64 {
        self.every.n
    }
}

impl YieldPolicy for AdaptiveYield {
    fn record_work(&mut self, units: u64) -> bool {
        self.every.record_work(units)
    }

    fn resumed(&mut self, alone: bool) {
        self.every.n = if alone {
            self.every.n.saturating_mul(2).min(self.most)
        } else {
            (self.every.n / 2).max(self.least)
        };
    }
}

/// A policy for each phase of a task: read in large pieces, parse in small ones.
///
/// ```
/// use filch::executor::{EveryN, Never, PerPhase, YieldPolicy};
///
/// #[derive(PartialEq)]
/// enum Phase { Read, Parse }
///
/// let mut policy = PerPhase::new(Phase::Read, |phase: &Phase| -> Box<dyn YieldPolicy + Send> {
///     match phase {
///         Phase::Read => Box::new(Never),
///         Phase::Parse => Box::new(EveryN::new(2)),
///     }
/// });
/// assert!(!policy.record_work(1_000_000));
/// policy.enter(Phase::Parse);
/// assert!(!policy.record_work(1) && policy.record_work(1));
/// ```
pub struct PerPhase<P> {
    phase: P,
    policy: AnyPolicy,
    choose: Box<dyn Fn(&P) -> AnyPolicy + Send>,
}

type AnyPolicy = Box<dyn YieldPolicy + Send>;

impl<P: PartialEq> PerPhase<P> {
    /// Starts in `phase`; `choose` creates the policy of each phase.
    ///
    /// ```
    /// use filch::executor::{EveryN, PerPhase, YieldPolicy};
    ///
    /// let mut policy = PerPhase::new(1, |units: &u64| -> Box<dyn YieldPolicy + Send> {
    ///     Box::new(EveryN::new(*units))
    /// });
    /// assert!(policy.record_work(1));
    /// ```
    pub fn new(
        phase: P,
        choose: impl Fn(&P) -> Box<dyn YieldPolicy + Send> + Send + 'static,
    ) -> Self {
        Self {
            policy: choose(&phase),
            phase,
            choose: Box::new(choose),
        }
    }

    /// Changes to another phase, whose policy starts afresh. With the current phase it has no
    /// effect.
    ///
    /// ```
    /// use filch::executor::{EveryN, PerPhase, YieldPolicy};
    ///
    /// let mut policy = PerPhase::new(1, |units: &u64| -> Box<dyn YieldPolicy + Send> {
    ///     Box::new(EveryN::new(*units))
    /// });
    /// policy.enter(2);
    /// assert!(!policy.record_work(1) && policy.record_work(1));
    /// ```
    pub fn enter(&mut self, phase: P) {
        if phase != self.phase {
            self.policy = (self.choose)(&phase);
            self.phase = phase;
        }
    }
}

impl<P> YieldPolicy for PerPhase<P> {
    fn record_work(&mut self, units: u64) -> bool {
        self.policy.record_work(units)
    }

    fn resumed(&mut self, alone: bool) {
        self.policy.resumed(alone);
    }
}

impl<P: std::fmt::Debug> std::fmt::Debug for PerPhase<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerPhase")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
