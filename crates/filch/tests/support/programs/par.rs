//! Random loops, cut in random ways.

use super::{in_a_task, percent};
use crate::support::{panic_of, quiet_panic};
use filch::{
    CancelToken, Pool, Rng,
    par::{ChunkingStrategy, Loop, LoopCancelled, over},
    prelude::*,
    rehearse::{self, Rehearsal},
};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// What is done with the items.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    ForEach,
    Map,
    MapVector,
    Filter,
    Reduce,
    Inclusive,
    Exclusive,
    First,
    Any,
    Sort,
    /// Several lazy steps.
    Chain,
    TryForEach,
    TryCollect,
    TryReduce,
    /// A scratch value for each worker.
    Scratch,
    /// Items of an iterator, at whose calls others may go on.
    Bridge,
}

const OPERATIONS: [Operation; 10] = [
    Operation::ForEach,
    Operation::Map,
    Operation::MapVector,
    Operation::Filter,
    Operation::Reduce,
    Operation::Inclusive,
    Operation::Exclusive,
    Operation::First,
    Operation::Any,
    Operation::Sort,
];

/// Those of lazy chains: on their own, so that the seeds of the others keep their loops.
const CHAINS: [Operation; 6] = [
    Operation::Chain,
    Operation::TryForEach,
    Operation::TryCollect,
    Operation::Scratch,
    Operation::Bridge,
    Operation::TryReduce,
];

/// How the items are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    Default,
    Eager,
    AtMost(usize),
    AtLeast(usize),
    Chunks(usize),
}

impl Cut {
    fn random(rng: &mut Rng) -> Self {
        let items = 1 + rng.below(9);
        let cuts = [
            Self::Default,
            Self::Eager,
            Self::AtMost(items),
            Self::AtLeast(items),
            Self::Chunks(items),
        ];
        cuts[rng.below(cuts.len())]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Eager => "eager",
            Self::AtMost(_) => "at most",
            Self::AtLeast(_) => "at least",
            Self::Chunks(_) => "chunks",
        }
    }

    fn of<P, S, M>(self, items: Loop<'_, P, S, M>) -> Loop<'_, P, S, M> {
        match self {
            Self::Default => items,
            Self::Eager => items.eager(),
            Self::AtMost(most) => items.eager().max_chunk(most),
            Self::AtLeast(least) => items.eager().min_chunk(least),
            Self::Chunks(size) => items.chunking(ChunkingStrategy::exactly(size)),
        }
    }
}

/// What happens in the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Panic,
    Cancel,
}

/// From where the loop is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Here,
    Installed,
    InTask,
    /// Two at the same time, from two threads.
    Twice,
}

const HOWS: [How; 4] = [How::Here, How::Installed, How::InTask, How::Twice];

/// What is sorted: equal keys many times over, with their places.
fn pairs(len: usize) -> Vec<(usize, usize)> {
    let key = |n: usize| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..len).map(|n| (key(n), n)).collect()
}

/// How many comparisons sorting them takes, about: four runs, of which two and two are merged, and
/// then both.
fn comparisons(len: usize) -> usize {
    let mut count = 0;
    pairs(len / 4).sort_by(|a, b| {
        count += 1;
        a.0.cmp(&b.0)
    });
    4 * count + 2 * len
}

#[derive(Debug)]
struct Plan {
    operation: Operation,
    cut: Cut,
    len: usize,
    /// Where others may go on, in each call.
    points: Vec<usize>,
    /// What happens at which call.
    trouble: Option<(Trouble, usize)>,
    /// The call that runs a loop itself.
    nested: Option<usize>,
    /// The step and the first of the items that are searched for.
    wanted: (usize, usize),
}

impl Plan {
    fn random(rng: &mut Rng, operations: &[Operation]) -> Self {
        let operation = operations[rng.below(operations.len())];
        let sorts = operation == Operation::Sort;
        let len = if sorts {
            // From where it is done by several on; and from where merges are.
            [2_000, 9_000, 12_000][rng.below(3)] + rng.below(200)
        } else {
            [0, 2, 12, 40, 70][rng.below(5)] + rng.below(8)
        };
        let calls = match (sorts, rng.one_in(2)) {
            (false, _) => 0..len.max(1),
            (true, false) => 0..comparisons(len),
            // The last merge.
            (true, true) => comparisons(len) - len..comparisons(len),
        };
        let any_call = |rng: &mut Rng| calls.start + rng.below(calls.len());
        let busy = rng.below(3);
        let points = (0..97).map(|_| match (sorts, busy) {
            (true, _) => usize::from(rng.one_in(97)),
            (_, 0) => 0,
            (_, 1) => [0, 1, 2, 4][rng.below(4)],
            _ => [0, 0, 0, 30][rng.below(4)],
        });
        let points = points.collect();
        let troubles = [Trouble::Panic, Trouble::Cancel];
        Self {
            operation,
            cut: Cut::random(rng),
            len,
            points,
            trouble: percent(rng, 50).then(|| (troubles[rng.below(2)], any_call(rng))),
            nested: rng.one_in(4).then(|| any_call(rng)),
            wanted: (1 + rng.below(len.max(1)), rng.below(len.max(1))),
        }
    }

    /// The largest number of calls after a panic with `workers` threads: a block of each other
    /// thread, or a run or a merge, and a block in which a loop waits. `None` where the clock
    /// decides on the length of a block.
    fn most_late(&self, workers: usize) -> Option<usize> {
        match (self.operation, self.cut) {
            (Operation::Sort, _) => {
                let run = self.len / 4;
                Some(workers * (run * run.ilog2() as usize).max(8_192))
            }
            (Operation::Inclusive | Operation::Exclusive, _) => None,
            (_, Cut::AtMost(items) | Cut::Chunks(items)) => Some(workers * items),
            _ => None,
        }
    }

    /// The number of items that is reported to the caller.
    fn total(&self) -> usize {
        match self.operation {
            Operation::Bridge => usize::MAX,
            Operation::Chain => self.len.div_ceil(2),
            _ => self.len,
        }
    }

    fn is_wanted(&self, n: usize) -> bool {
        n >= self.wanted.1 && (n - self.wanted.1).is_multiple_of(self.wanted.0)
    }
}

/// What one loop leaves behind.
struct Traces<'p> {
    plan: &'p Plan,
    pool: &'p Pool,
    token: CancelToken,
    calls: AtomicUsize,
    panicked: AtomicBool,
    /// Calls that began after the panic.
    late: AtomicUsize,
    /// Calls by a thread that was not on the pool.
    strays: AtomicUsize,
    made: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    workers: Mutex<BTreeSet<Option<usize>>>,
}

/// Numbers in an order, whose end is counted.
struct Value {
    numbers: Vec<usize>,
    made: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Value {
    fn new(numbers: Vec<usize>, made: &Arc<AtomicUsize>, dropped: &Arc<AtomicUsize>) -> Self {
        made.fetch_add(1, Ordering::SeqCst);
        Self {
            numbers,
            made: made.clone(),
            dropped: dropped.clone(),
        }
    }

    /// These numbers and the others: associative and not commutative.
    fn and(&self, next: &Self) -> Self {
        let numbers = [&self.numbers[..], &next.numbers[..]].concat();
        Self::new(numbers, &self.made, &self.dropped)
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Self::new(self.numbers.clone(), &self.made, &self.dropped)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// The items of a loop's result, or that it was cancelled.
type Outcome = Result<Vec<Vec<usize>>, LoopCancelled>;

impl<'p> Traces<'p> {
    fn new(plan: &'p Plan, pool: &'p Pool) -> Self {
        Self {
            plan,
            pool,
            token: CancelToken::new(),
            calls: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            late: AtomicUsize::new(0),
            strays: AtomicUsize::new(0),
            made: Arc::default(),
            dropped: Arc::default(),
            workers: Mutex::default(),
        }
    }

    /// What every closure of the loop does first.
    fn call(&self) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.panicked.load(Ordering::SeqCst) {
            self.late.fetch_add(1, Ordering::SeqCst);
        }
        // A sort has a hundred thousand calls, and a few of them are enough.
        if self.plan.operation != Operation::Sort || call.is_multiple_of(64) {
            if Pool::current().is_none() {
                self.strays.fetch_add(1, Ordering::SeqCst);
            }
            self.workers.lock().unwrap().insert(filch::current_worker());
        }
        let points = self.plan.points[call % self.plan.points.len()];
        (0..points).for_each(|_| rehearse::point());
        if self.plan.nested == Some(call) {
            let squares = over(0..6_u32).eager().max_chunk(1).map(|n| {
                rehearse::point();
                n * n
            });
            assert_eq!(squares.to_vec(), [0, 1, 4, 9, 16, 25]);
        }
        match self.plan.trouble {
            Some((Trouble::Panic, at)) if at == call => {
                self.panicked.store(true, Ordering::SeqCst);
                quiet_panic("planned");
            }
            Some((Trouble::Cancel, at)) if at == call => {
                self.token.cancel();
            }
            _ => {}
        }
    }

    fn value(&self, n: usize) -> Value {
        Value::new(vec![n], &self.made, &self.dropped)
    }

    fn values(&self) -> Vec<Value> {
        (0..self.plan.len).map(|n| self.value(n)).collect()
    }

    /// Puts two together.
    fn and(&self, a: &Value, b: &Value) -> Value {
        self.call();
        a.and(b)
    }

    fn run(&self) -> Outcome {
        let Plan { len, cut, .. } = *self.plan;
        let items = || cut.of(self.pool.over(0..len)).cancel(&self.token);
        let values = || cut.of(self.pool.over(self.values())).cancel(&self.token);
        let all = |values: Vec<Value>| values.iter().map(|value| value.numbers.clone()).collect();
        let some = |found: Option<usize>| found.map(|n| vec![n]).into_iter().collect();
        let wanted = |n: &usize| {
            self.call();
            self.plan.is_wanted(*n)
        };
        match self.plan.operation {
            Operation::ForEach => {
                let times: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
                items().for_each(|n| {
                    self.call();
                    times[n].fetch_add(1, Ordering::SeqCst);
                })?;
                Ok(times.into_iter().map(|n| vec![n.into_inner()]).collect())
            }
            Operation::Map => {
                let made = |n| {
                    self.call();
                    self.value(n)
                };
                items().map(made).to_vec().map(all)
            }
            Operation::MapVector => {
                let passed = |value: Value| {
                    self.call();
                    value
                };
                values().map(passed).to_vec().map(all)
            }
            Operation::Filter => {
                let wanted = |value: &Value| wanted(&value.numbers[0]);
                values().filter(wanted).to_vec().map(all)
            }
            Operation::Reduce => values()
                .reduce(|a, b| self.and(&a, &b))
                .map(|value| all(value.into_iter().collect())),
            Operation::Inclusive => values().inclusive_scan(|a, b| self.and(a, b)).map(all),
            Operation::Exclusive => {
                let nothing = Value::new(Vec::new(), &self.made, &self.dropped);
                let scanned = values().exclusive_scan(nothing, |a, b| self.and(a, b));
                scanned.map(|(mut totals, total)| {
                    totals.push(total);
                    all(totals)
                })
            }
            Operation::First => items().find_first(wanted).map(some),
            Operation::Any => items().find_any(wanted).map(some),
            Operation::Sort => self.sort(),
            Operation::Chain => {
                let places = values().rev().step_by(2).enumerate();
                let wanted = places.filter(|(_, value)| wanted(&value.numbers[0]));
                let both = wanted.flat_map(|(place, value)| [self.value(place), value]);
                both.to_vec().map(all)
            }
            Operation::TryForEach => {
                let checked = items().try_for_each(|n| if wanted(&n) { Err(n) } else { Ok(()) });
                checked.map(|checked| some(checked.err()))
            }
            Operation::TryCollect => {
                let check = |value: Value| match wanted(&value.numbers[0]) {
                    true => Err(value),
                    false => Ok(value),
                };
                let checked = values().map(check).collect::<Result<Vec<_>, _>>();
                checked.map(|checked| all(checked.unwrap_or_else(|value| vec![value])))
            }
            Operation::TryReduce => {
                // One call for each item.
                let check = |value: Value| match self.plan.is_wanted(value.numbers[0]) {
                    true => Err(value),
                    false => Ok(value),
                };
                let reduced = values().map(check).try_reduce(|a, b| Ok(self.and(&a, &b)));
                reduced.map(|reduced| match reduced {
                    Ok(value) => all(value.into_iter().collect()),
                    Err(value) => all(vec![value]),
                })
            }
            Operation::Scratch => self.scratch(),
            Operation::Bridge => {
                let items = self.values().into_iter().inspect(|_| rehearse::point());
                let items = cut.of(items.par_bridge().on(self.pool)).cancel(&self.token);
                let passed = items.map(|value| {
                    self.call();
                    value
                });
                let mut passed = passed.to_vec()?;
                passed.sort_by_key(|value| value.numbers[0]);
                Ok(all(passed))
            }
        }
    }

    /// No two calls have the same scratch value at the same time.
    fn scratch(&self) -> Outcome {
        let values = self.plan.cut.of(self.pool.over(self.values()));
        let init = || (false, self.value(0));
        let numbers = values.map_init(init, |(busy, _), value| {
            assert!(!std::mem::replace(busy, true), "a value in use");
            self.call();
            *busy = false;
            value.numbers.clone()
        });
        numbers.cancel(&self.token).to_vec()
    }

    /// Every item must be there, whatever happens.
    fn sort(&self) -> Outcome {
        let len = self.plan.len;
        let all = pairs(len);
        let mut items = all.clone();
        let sorting = self.pool.over(&mut items).cancel(&self.token);
        let sorted = catch_unwind(AssertUnwindSafe(|| {
            sorting.sort_by(|a, b| {
                self.call();
                a.0.cmp(&b.0)
            })
        }));
        let mut there = items.clone();
        there.sort_unstable_by_key(|item| item.1);
        assert!(there == all, "a sort has lost items");
        match sorted {
            Ok(outcome) => outcome?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(items.iter().map(|item| vec![item.1]).collect())
    }

    /// The same in sequence. Of a search for any, all that may be found.
    fn expected(&self) -> Vec<Vec<usize>> {
        let all = 0..self.plan.len;
        let wanted = all.clone().filter(|n| self.plan.is_wanted(*n));
        match self.plan.operation {
            Operation::ForEach => all.map(|_| vec![1]).collect(),
            Operation::Map | Operation::MapVector | Operation::Scratch | Operation::Bridge => {
                all.map(|n| vec![n]).collect()
            }
            Operation::Chain => {
                let places = all.rev().step_by(2).enumerate();
                let wanted = places.filter(|(_, n)| self.plan.is_wanted(*n));
                wanted
                    .flat_map(|(place, n)| [vec![place], vec![n]])
                    .collect()
            }
            Operation::TryCollect => match { wanted }.next() {
                Some(first) => vec![vec![first]],
                None => all.map(|n| vec![n]).collect(),
            },
            Operation::TryReduce => match { wanted }.next() {
                Some(first) => vec![vec![first]],
                None if all.is_empty() => Vec::new(),
                None => vec![all.collect()],
            },
            Operation::Filter | Operation::Any => wanted.map(|n| vec![n]).collect(),
            Operation::First | Operation::TryForEach => wanted.take(1).map(|n| vec![n]).collect(),
            Operation::Reduce if all.is_empty() => Vec::new(),
            Operation::Reduce => vec![all.collect()],
            Operation::Inclusive => all.map(|n| (0..=n).collect()).collect(),
            Operation::Exclusive => (0..=self.plan.len).map(|n| (0..n).collect()).collect(),
            Operation::Sort => {
                let mut sorted = pairs(self.plan.len);
                sorted.sort();
                sorted.iter().map(|item| vec![item.1]).collect()
            }
        }
    }

    fn is_right(&self, came: &Vec<Vec<usize>>) -> bool {
        let expected = self.expected();
        if self.plan.operation == Operation::Any {
            return came.len() == expected.len().min(1)
                && came.iter().all(|n| expected.contains(n));
        }
        *came == expected
    }
}

/// What a rehearsal of a loop was like.
#[derive(Debug, PartialEq)]
pub(crate) struct Performed {
    features: Vec<String>,
    fingerprint: u64,
    wrong: Vec<String>,
}

impl Performed {
    pub(crate) fn features(&self) -> &[String] {
        &self.features
    }

    fn judge(&self, seed: u64) -> Result<(), String> {
        match self.wrong.first() {
            None => Ok(()),
            Some(wrong) => Err(format!("seed {seed}: {wrong}")),
        }
    }
}

/// The result of one loop, and what is wrong with it.
#[derive(Debug)]
struct Came {
    ending: &'static str,
    shared: bool,
    wrong: Vec<String>,
}

fn loop_once(pool: &Pool, plan: &Plan) -> Came {
    // And two from outside, at most.
    let workers = pool.workers() + 2;
    let traces = Traces::new(plan, pool);
    let mut wrong = Vec::new();
    let came = catch_unwind(AssertUnwindSafe(|| traces.run()));
    let panicked = traces.panicked.load(Ordering::SeqCst);
    let ending = match came {
        Ok(Ok(came)) => {
            if panicked {
                wrong.push("the caller got a result, and no panic".into());
            } else if !traces.is_right(&came) {
                wrong.push(format!("the result is {came:?}"));
            }
            "done"
        }
        Ok(Err(cancelled)) => {
            let total = cancelled.total();
            if !traces.token.is_cancelled() || panicked || total != plan.total() {
                wrong.push(format!("the caller got: {cancelled}"));
            }
            "cancelled"
        }
        Err(panic) => {
            let said = panic_of(|| std::panic::resume_unwind(panic));
            if !panicked || said != "planned" {
                wrong.push(format!("the caller got {said:?}"));
            }
            "panic"
        }
    };
    let (made, dropped) = (&traces.made, &traces.dropped);
    let (made, dropped) = (made.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst));
    if made != dropped {
        wrong.push(format!("of {made} values {dropped} were dropped"));
    }
    let shared = traces.workers.lock().unwrap().len() > 1;
    let late = traces.late.load(Ordering::SeqCst);
    if plan.most_late(workers).is_some_and(|most| late > most) {
        wrong.push(format!("{late} calls after the panic"));
    }
    let strays = traces.strays.load(Ordering::SeqCst);
    if strays > 0 {
        wrong.push(format!("{strays} calls outside of the pool"));
    }
    Came {
        ending,
        shared,
        wrong,
    }
}

pub(crate) fn perform(seed: u64) -> Result<Performed, String> {
    perform_one_of(&OPERATIONS, seed)
}

fn perform_one_of(operations: &[Operation], seed: u64) -> Result<Performed, String> {
    let mut rng = Rng::new(seed);
    let plan = Arc::new(Plan::random(&mut rng, operations));
    let how = HOWS[rng.below(HOWS.len())];
    let workers = 1 + rng.below(3);
    let about = format!("{how:?} with {workers} workers: {plan:?}");
    let mut features = vec![
        format!("{:?}", plan.operation),
        format!("{how:?}"),
        plan.cut.name().to_owned(),
    ];
    let rehearsed = Rehearsal::new(workers, seed).try_run(move |pool| {
        let once = |pool: &Pool| loop_once(pool, &plan);
        match how {
            How::Here => once(pool),
            How::Installed => pool.install(|| once(pool)),
            How::InTask => in_a_task(pool, once),
            How::Twice => {
                let (other_pool, other_plan) = (pool.clone(), plan.clone());
                let other = rehearse::spawn_outside(move || loop_once(&other_pool, &other_plan));
                let mut came = once(pool);
                came.wrong.extend(other.join().wrong);
                came
            }
        }
    });
    let rehearsed = rehearsed.map_err(|failure| format!("{failure}\n{about}"))?;
    let Came {
        ending,
        shared,
        wrong,
    } = rehearsed.value;
    features.push(ending.to_owned());
    features.extend(shared.then(|| "shared".to_owned()));
    Ok(Performed {
        features,
        fingerprint: rehearsed.fingerprint,
        wrong: wrong
            .into_iter()
            .map(|wrong| format!("{wrong}\n{about}"))
            .collect(),
    })
}

pub(crate) fn perform_chains(seed: u64) -> Result<Performed, String> {
    perform_one_of(&CHAINS, seed)
}

/// The same for lazy chains.
pub(crate) fn check_chains(seed: u64) -> Result<(), String> {
    perform_chains(seed)?.judge(seed)
}

pub(crate) fn check(seed: u64) -> Result<(), String> {
    perform(seed)?.judge(seed)
}

/// The same for sorts alone, of which `check` has few.
pub(crate) fn check_sort(seed: u64) -> Result<(), String> {
    perform_one_of(&[Operation::Sort], seed)?.judge(seed)
}

/// A loop with a limited number of workers, which wait for one another at inner loops.
pub(crate) fn check_limits(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let (workers, limit) = (1 + rng.below(4), 1 + rng.below(4));
    let (len, cut) = (1 + rng.below(40), Cut::random(&mut rng));
    let points = (0..len).map(|_| rng.below(6)).collect::<Vec<_>>();
    let inner = rng.one_in(2);
    let about = format!("{limit} of {workers} workers, {cut:?}, {points:?}, inner: {inner}");
    let rehearsed = Rehearsal::new(workers, seed).try_run(move |pool| {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let done = AtomicUsize::new(0);
        let items = pool.over(&points[..]).at_most(limit);
        cut.of(items).for_each(|&points| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            (0..points).for_each(|_| rehearse::point());
            running.fetch_sub(1, Ordering::SeqCst);
            if inner {
                // Its wait may run pieces of the outer loop.
                let numbers = over(0..3).eager().max_chunk(1);
                numbers.for_each(|_| rehearse::point());
            }
            done.fetch_add(1, Ordering::SeqCst);
        });
        (most.into_inner(), done.into_inner())
    });
    let rehearsed = rehearsed.map_err(|failure| format!("{failure}\n{about}"))?;
    match rehearsed.value {
        (most, done) if most <= limit && done == len => Ok(()),
        result => Err(format!(
            "seed {seed}: most and done are {result:?}\n{about}"
        )),
    }
}
