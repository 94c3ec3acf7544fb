//! Futures in random trees: spawned from inside and from outside, woken by foreign threads,
//! cancelled, in groups, scopes and local sets, asleep on a paused clock, and with the end of the
//! pool in the middle.
//!
//! What is checked: one poll at a time, none without a wake and none after the end; every future
//! ends once, by itself unless it is cancelled or the pool ends; none outlives the pool; every
//! handle is right; sleeps are never early, and where no task blocks a worker they are on time, to
//! the millisecond; nothing is left at the clock. A wake that gets lost is a deadlock, which the
//! rehearsal reports.

use super::percent;
use crate::support::quiet_panic;
use filch::{
    FutureHandle, Pool, Rng,
    future::{self, FutureError, FutureGroup, LocalSet},
    rehearse::{self, Rehearsal},
    time::{self, PausedClock},
};
use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Milliseconds of the clock.
type Time = u64;

type Steps = Vec<Step>;

/// What a future does, one after the other.
#[derive(Debug)]
enum Step {
    Points(usize),
    Yield(usize),
    Sleep(Time),
    /// Begun and dropped.
    Leave(Time),
    Timeout(Time, Steps),
    /// Waits for a letter.
    Receive(usize),
    Send(usize),
    Spawn(Arc<Spec>, Then),
    Group(Vec<Arc<Spec>>, After),
    /// A closure on the same workers.
    Submit(usize),
    /// Blocks the worker.
    Block(Steps),
    /// Blocks the worker, too.
    Scope(Vec<Arc<Spec>>),
}

/// What is done with the handle of a future.
#[derive(Clone, Copy, Debug)]
enum Then {
    Join,
    Detach,
    Cancel,
    CancelAndJoin,
}

/// What is done with a group.
#[derive(Clone, Copy, Debug)]
enum After {
    All,
    First,
    CancelAll,
    Detach,
}

#[derive(Debug)]
struct Spec {
    id: usize,
    steps: Steps,
    panics: bool,
}

/// What became of one future.
#[derive(Debug, Default)]
struct FutureRecord {
    polling: AtomicBool,
    polls: AtomicUsize,
    wakes: AtomicUsize,
    made: AtomicUsize,
    gone: AtomicUsize,
    done: AtomicBool,
    cancelled: AtomicBool,
}

#[derive(Default)]
struct Letter {
    sent: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// What all can reach.
struct World {
    clock: PausedClock,
    /// Sleeps are on time.
    exact: bool,
    /// Wakes are counted, by a waker around each.
    counted: bool,
    ending: AtomicBool,
    records: Vec<FutureRecord>,
    letters: Vec<Letter>,
    /// Wakers that are kept beyond the end.
    old: Mutex<Vec<Waker>>,
    /// How many futures there are, and the wakers that wait until there are none.
    left: AtomicUsize,
    waits: Mutex<Option<Waker>>,
    order: Mutex<Vec<usize>>,
    wrong: Mutex<Vec<String>>,
}

/// A thread outside of the pool.
#[derive(Debug)]
enum Actor {
    /// Spawns futures, and does something with each.
    Spawns(Vec<(Arc<Spec>, Then)>),
    /// Sends letters.
    Sends(Vec<usize>),
    /// Polls futures that stay on its thread, with two drivers.
    Local(Steps, Steps, Steps),
    /// Moves the clock.
    AdvancesClock(Vec<Time>),
    /// Ends the pool after that many points; from inside if true.
    Ends(usize, bool),
}

struct Case {
    workers: usize,
    /// The number of further workers that are dedicated to futures.
    dedicated: usize,
    counted: bool,
    blocking: bool,
    futures: usize,
    letters: usize,
    actors: Vec<Actor>,
    features: BTreeSet<&'static str>,
}

/// Makes cases.
struct Author {
    rng: Rng,
    blocking: bool,
    futures: usize,
    letters: usize,
    features: BTreeSet<&'static str>,
}

impl Author {
    fn time(&mut self) -> Time {
        [0, 1, 1, 2, 3, 5, 10][self.rng.below(7)]
    }

    fn saw(&mut self, feature: &'static str) {
        self.features.insert(feature);
    }

    fn spec(&mut self, depth: usize) -> Arc<Spec> {
        let id = self.futures;
        self.futures += 1;
        let panics = percent(&mut self.rng, 10);
        if panics {
            self.saw("panic");
        }
        let steps = self.steps(depth);
        Arc::new(Spec { id, steps, panics })
    }

    fn specs(&mut self, depth: usize) -> Vec<Arc<Spec>> {
        let count = 1 + self.rng.below(3);
        (0..count).map(|_| self.spec(depth)).collect()
    }

    fn then(&mut self) -> Then {
        let then = [Then::Join, Then::Join, Then::Detach];
        match self.rng.below(5) {
            3 => Then::Cancel,
            4 => Then::CancelAndJoin,
            n => then[n],
        }
    }

    fn steps(&mut self, depth: usize) -> Steps {
        let count = self.rng.below(4);
        (0..count).map(|_| self.step(depth)).collect()
    }

    fn step(&mut self, depth: usize) -> Step {
        let kinds = match (depth, self.blocking) {
            (0, _) => 9,
            (_, false) => 15,
            (_, true) => 18,
        };
        match self.rng.below(kinds) {
            0 => Step::Points(1 + self.rng.below(4)),
            1 => Step::Yield(1 + self.rng.below(3)),
            2..4 => Step::Sleep(self.time()),
            4 => Step::Leave(self.time()),
            5..7 => {
                self.letters += 1;
                Step::Receive(self.letters - 1)
            }
            7 if self.letters > 0 => Step::Send(self.rng.below(self.letters)),
            7 | 8 => Step::Submit(self.rng.below(4)),
            9 | 10 => {
                self.saw("timeout");
                Step::Timeout(self.time(), self.steps(depth - 1))
            }
            11 | 12 => Step::Spawn(self.spec(depth - 1), self.then()),
            13 | 14 => {
                self.saw("group");
                let after = [After::All, After::First, After::CancelAll, After::Detach];
                Step::Group(self.specs(depth - 1), after[self.rng.below(4)])
            }
            15 | 16 => {
                self.saw("block_on");
                Step::Block(self.steps(depth - 1))
            }
            _ => {
                self.saw("scope");
                Step::Scope(self.specs(depth - 1))
            }
        }
    }

    fn actors(&mut self) -> Vec<Actor> {
        let mut actors = Vec::new();
        for _ in 0..1 + self.rng.below(2) {
            let specs = self.specs(2);
            actors.push(Actor::Spawns(
                specs.into_iter().map(|spec| (spec, self.then())).collect(),
            ));
        }
        if percent(&mut self.rng, 40) {
            self.saw("local");
            let [a, b, c] = [0; 3].map(|depth| self.steps(depth));
            actors.push(Actor::Local(a, b, c));
        }
        if self.blocking && percent(&mut self.rng, 40) {
            self.saw("clock advanced");
            let times = (0..3).map(|_| self.time()).collect();
            actors.push(Actor::AdvancesClock(times));
        }
        if percent(&mut self.rng, 30) {
            self.saw("end");
            actors.push(Actor::Ends(self.rng.below(60), percent(&mut self.rng, 50)));
        }
        // Every letter is sent in the end, perhaps by several threads.
        let mut bags = [Vec::new(), Vec::new()];
        (0..self.letters).for_each(|letter| bags[self.rng.below(2)].push(letter));
        actors.extend(bags.map(Actor::Sends));
        actors
    }
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut author = Author {
            rng: Rng::for_worker(seed, 5),
            blocking: false,
            futures: 0,
            letters: 0,
            features: BTreeSet::new(),
        };
        author.blocking = percent(&mut author.rng, 40);
        let counted = percent(&mut author.rng, 50);
        let workers = [0, 1, 1, 2, 2, 3][author.rng.below(6)];
        let actors = author.actors();
        // By a separate generator, so that the rest stays the same.
        let dedicated = match Rng::for_worker(seed, 6).below(9) {
            dedicated @ 1..=2 if workers > 0 => dedicated,
            _ => 0,
        };
        if dedicated > 0 {
            author.saw("kept");
        }
        Self {
            workers,
            dedicated,
            counted,
            blocking: author.blocking,
            futures: author.futures,
            letters: author.letters,
            actors,
            features: author.features,
        }
    }
}

/// Counts the wakes of one future.
struct Counting {
    world: Arc<World>,
    id: usize,
    waker: Waker,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.world.records[self.id].wakes.fetch_add(1, SeqCst);
        self.waker.wake_by_ref();
    }
}

/// A future that notes what happens to it.
struct Watched<F> {
    world: Arc<World>,
    id: usize,
    /// Nothing when it is gone.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Watched<F> {
    fn new(world: &Arc<World>, id: usize, future: F) -> Self {
        world.records[id].made.fetch_add(1, SeqCst);
        world.left.fetch_add(1, SeqCst);
        Self {
            world: world.clone(),
            id,
            future: Some(Box::pin(future)),
        }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        /// Also when it panics.
        struct Polling<'a>(&'a FutureRecord, bool);
        impl Drop for Polling<'_> {
            fn drop(&mut self) {
                self.0.done.store(self.1, SeqCst);
                self.0.polling.store(false, SeqCst);
            }
        }
        let (world, id) = (self.world.clone(), self.id);
        let record = &world.records[id];
        world.order.lock().unwrap().push(id);
        let wakes = record.wakes.load(SeqCst);
        let polls = record.polls.fetch_add(1, SeqCst);
        if record.polling.swap(true, SeqCst) {
            world.wrong(format!("future {id} is polled twice at a time"));
        }
        if record.done.load(SeqCst) {
            world.wrong(format!("future {id} is polled after its end"));
        }
        if world.counted && polls > wakes {
            world.wrong(format!("future {id} is polled without a wake"));
        }
        let mut polling = Polling(record, true);
        let future = self.future.as_mut().unwrap().as_mut();
        let polled = if world.counted {
            let waker = Waker::from(Arc::new(Counting {
                world: world.clone(),
                id,
                waker: cx.waker().clone(),
            }));
            future.poll(&mut Context::from_waker(&waker))
        } else {
            future.poll(cx)
        };
        polling.1 = polled.is_ready();
        polled
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        let record = &self.world.records[self.id];
        if record.polling.load(SeqCst) {
            self.world
                .wrong(format!("future {} is dropped while it is polled", self.id));
        }
        let allowed = self.world.ending.load(SeqCst) || record.cancelled.load(SeqCst);
        if !record.done.load(SeqCst) && !allowed {
            self.world
                .wrong(format!("future {} is dropped for no reason", self.id));
        }
        drop(self.future.take());
        record.gone.fetch_add(1, SeqCst);
        if self.world.left.fetch_sub(1, SeqCst) == 1 {
            let waker = self.world.waits.lock().unwrap().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Notes that a group cancels its futures.
struct Cancels<'a>(&'a World, &'a [Arc<Spec>]);

impl Drop for Cancels<'_> {
    fn drop(&mut self) {
        for spec in self.1 {
            self.0.records[spec.id].cancelled.store(true, SeqCst);
        }
    }
}

/// The future that a spec describes.
fn live(
    world: &Arc<World>,
    spec: &Arc<Spec>,
) -> Watched<impl Future<Output = usize> + Send + use<>> {
    let (shared, spec) = (world.clone(), spec.clone());
    Watched::new(world, spec.id, async move {
        run(&shared, &spec.steps).await;
        if spec.panics {
            quiet_panic("planned");
        }
        spec.id
    })
}

fn run<'a>(
    world: &'a Arc<World>,
    steps: &'a [Step],
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        for step in steps {
            world.perform(step).await;
        }
    })
}

fn points(count: usize) {
    (0..count).for_each(|_| rehearse::point());
}

async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let mut done = [false; 2];
    poll_fn(|cx| {
        done[0] = done[0] || a.as_mut().poll(cx).is_ready();
        done[1] = done[1] || b.as_mut().poll(cx).is_ready();
        match done {
            [true, true] => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
}

impl World {
    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    fn now(&self) -> Time {
        self.clock.elapsed().as_millis() as Time
    }

    /// Something that should have happened at `due` has happened now.
    fn check_time(&self, what: &str, due: Time) {
        let now = self.now();
        if now < due || self.exact && now != due {
            self.wrong(format!("{what} is over at {now}, not at {due}"));
        }
    }

    fn check(&self, spec: &Spec, result: Result<usize, FutureError>) {
        let record = &self.records[spec.id];
        let (done, cancelled) = (record.done.load(SeqCst), record.cancelled.load(SeqCst));
        let right = match &result {
            Ok(id) => *id == spec.id && !spec.panics && done,
            Err(error) if error.is_panic() => spec.panics && done,
            Err(_) => !done && (cancelled || self.ending.load(SeqCst)),
        };
        if !right {
            self.wrong(format!(
                "future {} (panics: {}, cancelled: {cancelled}, done: {done}) ended with {result:?}",
                spec.id, spec.panics
            ));
        }
    }

    fn cancel(&self, spec: &Spec, cancel: impl FnOnce()) {
        self.records[spec.id].cancelled.store(true, SeqCst);
        cancel();
    }

    fn send(&self, letter: usize) {
        let letter = &self.letters[letter];
        letter.sent.store(true, SeqCst);
        rehearse::point();
        let waker = letter.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake_by_ref();
            rehearse::point();
            waker.wake_by_ref();
            self.old.lock().unwrap().push(waker);
        }
    }

    fn poll_letter(&self, letter: usize, cx: &mut Context<'_>) -> Poll<()> {
        let letter = &self.letters[letter];
        let waker = cx.waker().clone();
        let before = letter.waker.lock().unwrap().replace(waker);
        drop(before);
        rehearse::point();
        match letter.sent.load(SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    async fn perform(self: &Arc<Self>, step: &Step) {
        match step {
            Step::Points(count) => points(*count),
            Step::Yield(times) => {
                for _ in 0..*times {
                    future::yield_now().await;
                }
            }
            Step::Sleep(time) => {
                let due = self.now() + time;
                time::sleep(Duration::from_millis(*time)).await;
                self.check_time("a sleep", due);
            }
            Step::Leave(time) => {
                let mut sleep = pin!(time::sleep(Duration::from_millis(*time)));
                poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await;
            }
            Step::Timeout(time, steps) => {
                let due = self.now() + time;
                let timeout = time::timeout(Duration::from_millis(*time), run(self, steps));
                match timeout.await {
                    Err(_) => self.check_time("a timeout", due),
                    Ok(()) if self.exact && self.now() > due => {
                        self.wrong(format!("in time for {due} at {}", self.now()));
                    }
                    Ok(()) => {}
                }
            }
            Step::Receive(letter) => poll_fn(|cx| self.poll_letter(*letter, cx)).await,
            Step::Send(letter) => self.send(*letter),
            Step::Spawn(spec, then) => {
                let handle = filch::spawn_future(live(self, spec));
                rehearse::point();
                match then {
                    Then::Join => self.check(spec, handle.await),
                    Then::Detach => drop(handle),
                    Then::Cancel => self.cancel(spec, || handle.cancel()),
                    Then::CancelAndJoin => {
                        self.cancel(spec, || handle.cancel());
                        self.check(spec, handle.await);
                    }
                }
            }
            Step::Group(specs, after) => self.group(specs, *after).await,
            Step::Submit(count) => {
                let count = *count;
                let closure = filch::submit(move || {
                    for _ in 0..count {
                        rehearse::point();
                        filch::checkpoint();
                    }
                });
                if closure.await.is_err() && !self.ending.load(SeqCst) {
                    self.wrong("a closure was cancelled".into());
                }
            }
            Step::Block(steps) => filch::block_on(run(self, steps)),
            Step::Scope(specs) => self.scope(specs),
        }
    }

    async fn group(self: &Arc<Self>, specs: &[Arc<Spec>], after: After) {
        let mut group = FutureGroup::new();
        for spec in specs {
            group.spawn(live(self, spec));
        }
        // Dropped before the group, which may happen at any await.
        let mut cancels = Cancels(self, specs);
        let mut ended = 0;
        match after {
            After::Detach => {
                cancels.1 = &[];
                group.detach_all();
            }
            After::First => ended += usize::from(group.join_next().await.is_some()),
            After::CancelAll => {
                drop(cancels);
                group.cancel_all();
                ended += group.join_all().await.len();
            }
            After::All => {
                while let Some(result) = group.join_next().await {
                    ended += 1;
                    if let Ok(id) = result {
                        let spec = specs.iter().find(|spec| spec.id == id).unwrap();
                        self.check(spec, Ok(id));
                    }
                }
            }
        }
        let expected = match after {
            After::Detach => 0,
            After::First => 1,
            _ => specs.len(),
        };
        if ended != expected {
            self.wrong(format!("{ended} of a group have ended, not {expected}"));
        }
    }

    fn scope(self: &Arc<Self>, specs: &[Arc<Spec>]) {
        let borrowed = AtomicUsize::new(0);
        future::scope(|s| {
            for (n, spec) in specs.iter().enumerate() {
                let borrowed = &borrowed;
                let future = live(self, spec);
                let handle = s.spawn(async move {
                    let id = future.await;
                    borrowed.fetch_add(1, SeqCst);
                    id
                });
                if n % 2 == 0 {
                    self.check(spec, handle.join());
                }
            }
        });
        for spec in specs {
            if self.records[spec.id].gone.load(SeqCst) != 1 {
                self.wrong(format!("future {} outlives its scope", spec.id));
            }
        }
    }

    /// The steps of a thread outside.
    fn act(self: &Arc<Self>, pool: &Pool, actor: Actor) {
        match actor {
            Actor::Spawns(specs) => {
                let handles: Vec<_> = specs
                    .into_iter()
                    .map(|(spec, then)| (pool.spawn_future(live(self, &spec)), spec, then))
                    .collect();
                for (handle, spec, then) in handles {
                    self.await_outside(pool, handle, &spec, then);
                }
            }
            Actor::Sends(letters) => {
                for letter in letters {
                    points(3);
                    self.send(letter);
                }
            }
            Actor::Local(own, other, spawned) => {
                let set = LocalSet::new();
                let world = self.clone();
                let local = set.spawn_local(async move { run(&world, &spawned).await });
                pool.block_on(both(
                    set.run_until(run(self, &own)),
                    set.run_until(async {
                        run(self, &other).await;
                        local.await.unwrap();
                    }),
                ));
            }
            Actor::AdvancesClock(times) => {
                for time in times {
                    points(10);
                    self.clock.advance(Duration::from_millis(time));
                }
            }
            Actor::Ends(after, inside) => {
                points(after);
                self.ending.store(true, SeqCst);
                match inside {
                    true => {
                        let handle = pool.clone();
                        pool.spawn(move || handle.shutdown());
                    }
                    false => {
                        pool.clone().shutdown();
                        self.check_gone();
                    }
                }
            }
        }
    }

    fn await_outside(
        self: &Arc<Self>,
        pool: &Pool,
        handle: FutureHandle<usize>,
        spec: &Spec,
        then: Then,
    ) {
        rehearse::point();
        match then {
            Then::Detach => drop(handle),
            Then::Join if spec.id.is_multiple_of(2) => self.check(spec, handle.join()),
            Then::Join => self.check(spec, pool.block_on(handle)),
            Then::Cancel => self.cancel(spec, || handle.cancel()),
            Then::CancelAndJoin => {
                self.cancel(spec, || handle.cancel());
                self.check(spec, handle.join());
            }
        }
    }

    /// Waits until there is no future.
    fn until_gone(&self, pool: &Pool) {
        pool.block_on(poll_fn(|cx| {
            let before = self.waits.lock().unwrap().replace(cx.waker().clone());
            drop(before);
            match self.left.load(SeqCst) {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
    }

    /// The pool has ended: all futures that it has polled are dropped. (Later ones are dropped by
    /// the thread that spawns them.)
    fn check_gone(&self) {
        for (id, record) in self.records.iter().enumerate() {
            if record.polls.load(SeqCst) > 0 && record.gone.load(SeqCst) == 0 {
                self.wrong(format!("future {id} outlives the pool"));
            }
        }
    }

    /// The actors that are there when none can run.
    fn scene(&self) -> String {
        let there = |record: &FutureRecord| record.made.load(SeqCst) > record.gone.load(SeqCst);
        let records = self.records.iter().enumerate();
        let lines = records.filter(|(_, record)| there(record));
        lines
            .map(|(id, record)| format!("future {id} is there: {record:?}\n"))
            .collect()
    }

    /// What must be true when the pool is gone.
    fn check_end(&self) -> Result<(), String> {
        for waker in self.old.lock().unwrap().drain(..) {
            waker.wake();
        }
        for (id, record) in self.records.iter().enumerate() {
            let (made, gone) = (record.made.load(SeqCst), record.gone.load(SeqCst));
            if made > 1 || made != gone {
                return Err(format!("future {id} was made {made}, dropped {gone} times"));
            }
        }
        match (self.wrong.lock().unwrap().first(), self.clock.pending()) {
            (Some(wrong), _) => Err(wrong.clone()),
            (None, 0) => Ok(()),
            (None, left) => Err(format!("{left} entries are left at the clock")),
        }
    }
}

/// What a rehearsal was like.
#[derive(Debug, PartialEq)]
pub(crate) struct Story {
    /// In which order futures were polled.
    pub(crate) order: Vec<usize>,
    pub(crate) features: BTreeSet<&'static str>,
    pub(crate) fingerprint: u64,
}

/// Rehearses the futures of `seed`.
pub(crate) fn perform(seed: u64) -> Result<Story, String> {
    let case = Case::new(seed);
    let (workers, dedicated, features) = (case.workers, case.dedicated, case.features.clone());
    let clock = PausedClock::new();
    let world = Arc::new(World {
        clock: clock.clone(),
        exact: !case.blocking,
        counted: case.counted,
        ending: AtomicBool::new(false),
        records: (0..case.futures).map(|_| FutureRecord::default()).collect(),
        letters: (0..case.letters).map(|_| Letter::default()).collect(),
        old: Mutex::default(),
        left: AtomicUsize::new(0),
        waits: Mutex::default(),
        order: Mutex::default(),
        wrong: Mutex::default(),
    });
    let rehearsal = Rehearsal::new(workers, seed)
        .clock(&clock)
        .pool(move |builder| builder.future_workers(dedicated))
        .max_points(500_000);
    let (program, shared) = (format!("{:?}", case.actors), world.clone());
    let rehearsed = rehearsal.try_run(move |pool| {
        let start = |actor| {
            let (pool, world) = (pool.clone(), world.clone());
            rehearse::spawn_outside(move || world.act(&pool, actor))
        };
        let threads: Vec<_> = case.actors.into_iter().map(start).collect();
        threads.into_iter().for_each(|thread| thread.join());
        world.until_gone(pool);
        world.ending.store(true, SeqCst);
        pool.clone().shutdown();
        world.check_end()?;
        let order = std::mem::take(&mut *world.order.lock().unwrap());
        Ok(order)
    });
    let rehearsed =
        rehearsed.map_err(|failure| format!("{failure}\n{program}\n{}", shared.scene()))?;
    let order = rehearsed.value;
    Ok(Story {
        order: order.map_err(|wrong: String| format!("seed {seed}: {wrong}\n{program}"))?,
        features,
        fingerprint: rehearsed.fingerprint,
    })
}

/// Rehearses the futures of `seed`, and says what is wrong.
pub(crate) fn check(seed: u64) -> Result<(), String> {
    perform(seed).map(drop)
}
