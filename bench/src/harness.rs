//! Cases, systems, and the order in which they are measured.
//!
//! A suite is a list of [`Case`]s; a case has a list of systems, each a closure that takes one
//! [`Sample`]. Samples are interleaved: a round takes one of every system, so that other load on
//! the machine affects all of them.

use crate::{alloc, pin::Placement, stats::Summary, stopwatch::Sample};
use std::fmt;

/// How much to measure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) quick: bool,
    /// Also measure with more workers than cores.
    pub(crate) oversubscribed: bool,
    /// The numbers of workers requested on the command line.
    pub(crate) workers: Option<Vec<usize>>,
    /// The number of rounds requested on the command line.
    pub(crate) rounds: Option<usize>,
}

impl Config {
    /// The numbers of workers to measure, for a suite that does not fix them.
    pub(crate) fn workers(&self, default: &[usize]) -> Vec<usize> {
        self.workers.clone().unwrap_or_else(|| default.to_vec())
    }

    /// The numbers of workers for suites of the fork-join pool.
    pub(crate) fn fork_workers(&self) -> Vec<usize> {
        let default: &[usize] = if self.oversubscribed {
            &[1, 2, 8, 32]
        } else {
            &[1, 2]
        };
        self.workers(default)
    }

    /// The numbers of workers for cases that oversubscription must not slow down.
    pub(crate) fn crowd_workers(&self) -> Vec<usize> {
        self.workers(&[1, 2, 4, 8, 32])
    }

    /// `quick` with `--quick`, or else `full`.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// The unit of a case in tables. JSON always has nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    NanosPerOp,
    Micros,
    Millis,
}

/// One workload at one number of workers, with the systems to compare.
pub(crate) struct Case {
    name: &'static str,
    workers: usize,
    rounds: usize,
    warm_up: usize,
    unit: Unit,
    placement: Placement,
    ideal: Option<f64>,
    over_seq: bool,
    to_seq: Option<ToSeq>,
    systems: Vec<System>,
}

/// How the systems of a case are compared with `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToSeq {
    /// Their time divided by that of `seq`.
    Time,
    /// Their speed divided by that of `seq`.
    Speed,
}

struct System {
    name: &'static str,
    sample: Box<dyn FnMut() -> Readings>,
}

/// The readings of one system in one round.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    /// One reading in most suites.
    pub(crate) nanos: Vec<f64>,
    /// The number of cores that did useful work meanwhile.
    pub(crate) cores: Option<f64>,
    /// Operations per second, where several run at the same time.
    pub(crate) per_second: Option<f64>,
    pub(crate) allocs_per_op: Option<f64>,
    pub(crate) bytes_per_op: Option<f64>,
}

impl From<Sample> for Readings {
    fn from(sample: Sample) -> Self {
        let ops = sample.ops as f64;
        Self {
            nanos: vec![sample.nanos_per_op()],
            cores: None,
            per_second: None,
            allocs_per_op: sample.allocations.map(|n| n as f64 / ops),
            bytes_per_op: sample.bytes.map(|bytes| bytes as f64 / ops),
        }
    }
}

/// The results of one system in a case.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) system: &'static str,
    pub(crate) summary: Summary,
    /// Allocations per operation, counted in a warm-up round; `None` if they were not counted.
    pub(crate) allocs_per_op: Option<f64>,
    /// Bytes of the heap that an operation leaves in use, counted in a warm-up round.
    pub(crate) bytes_per_op: Option<f64>,
    /// The largest reading, if rounds have many.
    pub(crate) max: Option<f64>,
    /// The median over the rounds of useful cores, if they were counted.
    pub(crate) cores: Option<f64>,
    /// The median over the rounds of operations per second, if they were counted.
    pub(crate) per_second: Option<f64>,
}

impl Case {
    /// Creates a case without systems, for `workers` workers, pinned.
    pub(crate) fn new(name: &'static str, workers: usize, config: &Config) -> Self {
        Self {
            name,
            workers,
            rounds: config.pick(5, 15),
            warm_up: 1,
            unit: Unit::NanosPerOp,
            placement: Placement::Pinned,
            ideal: None,
            over_seq: false,
            to_seq: None,
            systems: Vec::new(),
        }
    }

    /// Takes `rounds` samples of each system after `warm_up` rounds that do not count.
    pub(crate) fn rounds(mut self, warm_up: usize, rounds: usize) -> Self {
        (self.warm_up, self.rounds) = (warm_up, rounds);
        self
    }

    /// Applies the number of rounds of the command line.
    pub(crate) fn set_rounds(&mut self, rounds: usize) {
        self.rounds = rounds;
    }

    pub(crate) fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets where the main thread runs during the case. Systems place their own workers.
    pub(crate) fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the time per operation, in nanoseconds, with free scheduling and no idle core.
    pub(crate) fn ideal(mut self, nanos: f64) -> Self {
        self.ideal = Some(nanos);
        self
    }

    /// Shows the time of each system in excess of `seq`.
    pub(crate) fn over_seq(mut self) -> Self {
        self.over_seq = true;
        self
    }

    /// Shows each system's figure compared with that of `seq`.
    pub(crate) fn beside_seq(mut self, how: ToSeq) -> Self {
        self.to_seq = Some(how);
        self
    }

    /// Adds a system.
    pub(crate) fn system(
        self,
        name: &'static str,
        mut sample: impl FnMut() -> Sample + 'static,
    ) -> Self {
        self.system_of_many(name, move || sample().into())
    }

    /// Adds a system after the one named `of`, if that exists.
    pub(crate) fn add_after(
        &mut self,
        of: &str,
        name: &'static str,
        sample: impl FnMut() -> Readings + 'static,
    ) {
        if let Some(place) = self.systems.iter().position(|system| system.name == of) {
            let sample = Box::new(sample);
            self.systems.insert(place + 1, System { name, sample });
        }
    }

    /// Adds a system with many readings per round.
    pub(crate) fn system_of_many(
        mut self,
        name: &'static str,
        sample: impl FnMut() -> Readings + 'static,
    ) -> Self {
        self.systems.push(System {
            name,
            sample: Box::new(sample),
        });
        self
    }

    pub(crate) fn keep_systems(&mut self, keep: impl Fn(&str) -> bool) {
        self.systems.retain(|system| keep(system.name));
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    pub(crate) fn shown_in(&self) -> Unit {
        self.unit
    }

    pub(crate) fn placed(&self) -> Placement {
        self.placement
    }

    pub(crate) fn ideal_nanos(&self) -> Option<f64> {
        self.ideal
    }

    pub(crate) fn is_over_seq(&self) -> bool {
        self.over_seq
    }

    pub(crate) fn compared_to_seq(&self) -> Option<ToSeq> {
        self.to_seq
    }

    pub(crate) fn system_names(&self) -> Vec<&'static str> {
        self.systems.iter().map(|system| system.name).collect()
    }

    /// Takes one sample of the system `name`, if it exists.
    pub(crate) fn sample(&mut self, system: &str) -> Option<Readings> {
        let mut systems = self.systems.iter_mut();
        let system = systems.find(|known| known.name == system)?;
        self.placement.place_main();
        Some((system.sample)())
    }

    /// Measures all systems.
    pub(crate) fn run(&mut self) -> Vec<Row> {
        self.placement.place_main();
        let mut counted = vec![(None, None); self.systems.len()];
        for _ in 0..self.warm_up {
            for (system, counted) in self.systems.iter_mut().zip(&mut counted) {
                let readings = alloc::counting(|| (system.sample)());
                *counted = (readings.allocs_per_op, readings.bytes_per_op);
            }
        }
        let mut taken: Vec<_> = self.systems.iter().map(|_| Taken::default()).collect();
        for _ in 0..self.rounds {
            for (system, taken) in self.systems.iter_mut().zip(&mut taken) {
                taken.add((system.sample)());
            }
        }
        let names = self.systems.iter().map(|system| system.name);
        let rows = names.zip(taken).zip(counted);
        rows.map(|((system, taken), (allocs_per_op, bytes_per_op))| {
            let (cores, per_second) = (middle(taken.cores), middle(taken.per_second));
            Row {
                system,
                max: (taken.nanos.len() > self.rounds)
                    .then(|| taken.nanos.iter().copied().fold(0.0, f64::max)),
                summary: Summary::of(taken.nanos).with_p99(middle(taken.p99s)),
                allocs_per_op,
                bytes_per_op,
                cores,
                per_second,
            }
        })
        .collect()
    }
}

/// The readings of a system in all rounds.
#[derive(Default)]
struct Taken {
    nanos: Vec<f64>,
    cores: Vec<f64>,
    per_second: Vec<f64>,
    /// One p99 per round with many readings. If the machine stalls for some milliseconds, all
    /// readings of that time are late; the median of the rounds' p99 hides one such round.
    p99s: Vec<f64>,
}

impl Taken {
    fn add(&mut self, readings: Readings) {
        self.cores.extend(readings.cores);
        self.per_second.extend(readings.per_second);
        let round = readings.nanos.len();
        self.nanos.extend(readings.nanos);
        let round = self.nanos[self.nanos.len() - round..].to_vec();
        self.p99s.extend(Summary::of(round).p99);
    }
}

/// Returns the median, if there are readings.
fn middle(readings: Vec<f64>) -> Option<f64> {
    (!readings.is_empty()).then(|| Summary::of(readings).median)
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("workers", &self.workers)
            .field("systems", &self.system_names())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, Config};
    use crate::stopwatch::Sample;
    use std::{cell::RefCell, rc::Rc, time::Duration};

    #[test]
    fn systems_take_turns_and_the_warm_up_does_not_count() {
        let order = Rc::new(RefCell::new(String::new()));
        let system = |name: char, nanos: u64| {
            let order = order.clone();
            let mut first = true;
            move || {
                order.borrow_mut().push(name);
                let cold = if std::mem::take(&mut first) { 1000 } else { 0 };
                Sample::new(Duration::from_nanos(nanos + cold), 10)
            }
        };
        let mut case = Case::new("turns", 1, &Config::default())
            .rounds(1, 3)
            .system("a", system('a', 20))
            .system("b", system('b', 40));
        let rows = case.run();
        assert_eq!(*order.borrow(), "abababab");
        let medians: Vec<_> = rows.iter().map(|row| row.summary.median).collect();
        assert_eq!(medians, [2.0, 4.0]);
        assert_eq!(rows[0].summary.samples, 3);
        case.set_rounds(5);
        assert_eq!(case.run()[1].summary.samples, 5);
    }
}
