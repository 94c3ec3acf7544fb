//! Deliberate defects, so that every checker can be seen to fail.
//!
//! In normal builds `broken` is a constant `false` and disappears. With `--cfg filch_loom` or
//! `--cfg filch_canary` a test may switch one defect on and must then see the checker report it.

/// One deliberate defect in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Canary {
    /// `Owner::pop` without its fence.
    PopFence = 1,
    /// A thief checks its claim against `bottom` without a fence.
    ClaimFence = 2,
    /// The owner takes a claimed task without sealing the claim.
    Seal = 3,
    /// Grow the ring without publishing the new one.
    GrowPublish = 4,
    /// Close the gate with a check and a separate write.
    GateSplit = 5,
    /// A worker rests without flushing its private count.
    GateFlush = 6,
    /// The last searcher falls asleep without looking once more.
    LastLook = 7,
    /// A push does not look at the sleep word.
    PushWake = 8,
    /// No barrier between announcing sleep and the last look.
    SleepFence = 9,
    /// A searcher that found work does not pass the search on.
    PassOn = 10,
    /// The latch is set without waking its waiter.
    LatchWake = 11,
    /// A batch steal forgets one of the tasks it took.
    LoseTask = 12,
    /// A worker that leaves drops its queue's tasks on the floor.
    LeaveDrop = 13,
    /// A thief that knocks does not wait for the barrier.
    KnockBarrier = 14,
    /// The owner stops guarding without making the thieves' word a new one.
    CalmTag = 15,
    /// The latch of a stolen job is set without waking the worker that waits for it.
    PoolLatchWake = 16,
    /// The last task of a scope does not wake the worker that waits for the scope.
    ScopeWake = 17,
    /// The bit of the sleep word that tells pushes to wake is not kept up to date.
    WakeBit = 21,
    /// The last searcher that found work looks for more without a barrier.
    PassOnFence = 22,
    /// A worker that stands by leaves without a word.
    StandbyLeaves = 23,
    /// A worker that stops searching takes all pushes for visible though others are busy.
    PushBarrier = 24,
    /// A worker that becomes busy passes no fence.
    BusyFence = 25,
    /// A task goes into a lane whose flag stays down.
    LaneFlag = 80,
    /// The flag of an empty lane is lowered when the lane can be filled again.
    LaneLower = 81,
    /// The last look before sleep does not see the lanes.
    LaneLastLook = 82,
    /// The last look before sleep does not see the boxes.
    AffineLastLook = 83,
    /// A worker that is called while it gives up falling asleep does not notice.
    CallBack = 84,
    /// A worker looks at the lanes when it has nothing else to do.
    LaneOrder = 85,
    /// Nobody gets a turn out of order.
    LaneTurns = 86,
    /// A task is taken from the box of a worker that sleeps.
    AffineTake = 87,
    /// A push while all workers are busy does not ask for attention.
    Attention = 200,
    /// A worker clears the attention bit without another look at the queues.
    AttentionLook = 201,
    /// A push into an empty shard of the injector does not set the bit of the shard.
    InjectorFlag = 30,
    /// The injector counts its tasks before it refuses others.
    InjectorClose = 31,
    /// A thread that closes the gate does not count as busy while it carries the injector's count.
    CloseAtRest = 32,
    /// A worker clears the bit of a shard of the injector without the lock of the producers.
    InjectorLower = 33,
    /// A worker clears the bit of a shard of the injector before it has moved the tasks.
    InjectorEarly = 34,
    /// A worker takes from the inbox of a shard while older tasks are in the outbox.
    InjectorOrder = 35,
    /// `CancelToken::child` looks at the parent before it has the lock, and not under it.
    CancelMissesChild = 40,
    /// `CancelToken::on_cancel` looks at the token before it has the lock, and not under it.
    CancelMissesListener = 41,
    /// A cancel that finds the token cancelled returns, though another thread is still on the way down.
    CancelLeavesMarking = 42,
    /// Whether a callback was removed is told by the token, not by whether the callback was there.
    RemoveByState = 43,
    /// A cancel wakes none of the threads that wait for it.
    CancelWakesNobody = 44,
    /// A token is cancelled without publishing what was done before.
    CancelUnordered = 45,
    /// A request queues up for units without a second look at the free ones.
    BudgetHandover = 18,
    /// A request that is dropped after it was served keeps its units.
    BudgetCancel = 19,
    /// A request leaves the head of the queue and does not serve the one behind it.
    BudgetMoveUp = 20,
    /// A ticket claims its task in two steps: it looks, then it takes.
    TaskClaim = 60,
    /// Whoever finishes a task looks for a handle before the step that hands the outcome over.
    TaskOrphan = 61,
    /// A handle goes to sleep without looking whether its task is done.
    TaskWatch = 62,
    /// Whoever finishes a task wakes nobody.
    TaskWake = 63,
    /// A task that changes its priority is queued at the new one before it waits there.
    TaskMove = 64,
    /// A task that gets a token looks whether it was cancelled without a mark for whoever cancels it next.
    TaskToken = 65,
    /// A task that is to follow another one joins its list without looking whether that has ended.
    TaskFollow = 66,
    /// What a task waits for is counted down without handing over what was done.
    TaskArrive = 67,
    /// Whoever wants a task that waits for others looks whether it does before it has the lock, and not under it.
    TaskWant = 68,
    /// A worker that takes a batch without having announced a search tells nobody.
    Glance = 88,
    /// The predecessors of a task in a graph leave without handing over what they did.
    GraphArrive = 90,
    /// A future in a graph that is woken while it is polled falls asleep all the same.
    GraphWake = 91,
    /// A wake that finds the future woken already does not hand over what was done before it.
    GraphWakeAgain = 92,
    /// A token and its turn arrive with a look and a separate write.
    PipelineArrive = 93,
    /// A future that is woken while it is polled falls asleep all the same.
    FutureRest = 110,
    /// A wake that finds the future woken already does not hand over what was done before it.
    FutureWakeAgain = 111,
    /// A pool that ends looks whether a future waits, and then takes it.
    FutureEvict = 112,
    /// Whoever ends a future looks for a handle before the step that hands the outcome over.
    FutureOrphan = 113,
    /// A handle goes to sleep without looking whether its future is done.
    FutureWatch = 114,
    /// Whoever ends a future wakes nobody.
    FutureTell = 115,
    /// A predecessor of a task in a graph leaves, and then looks whether it was the last one.
    GraphLast = 100,
    /// A task in a graph does not wait for its predecessors again.
    GraphRearm = 101,
    /// A task in a graph that panics keeps its permits.
    GraphPermits = 102,
    /// The owner of a run counts as if it were alone when another worker has come.
    GraphBias = 103,
    /// A thief takes sources that their holder may have claimed meanwhile.
    GraphBlock = 104,
    /// A worker that holds sources of a graph queues no feeder, so that thieves do not find them.
    GraphFeeder = 105,
    /// A sleep that is polled with another waker keeps the first one.
    SleepRenew = 120,
    /// A sleep that is dropped stays at its clock.
    SleepLeaves = 121,
    /// A paused clock that is moved tells everybody at the time of the first.
    SleepEarly = 122,
    /// An interval that skips ticks counts from when it was late.
    TickSkip = 123,
    /// Whoever waits for a group leaves its waker without looking once more who is gone.
    GroupWatch = 130,
    /// A driver of a local set leaves its waker without looking once more who was woken.
    LocalWatch = 131,
    /// A paused clock that is moved to a time tells only the first of those that wait for it.
    ClockForgets = 132,
    /// A worker that is kept for futures falls asleep without looking whether the bell has rung meanwhile.
    EventCountLook = 133,
    /// A worker that is kept for futures takes a job, and tells nobody that there are more.
    EventCountPassOn = 134,
    /// A worker that is kept for futures takes a ring without seeing what was done before it.
    EventCountOrder = 135,
    /// A thread enters the driver without looking whether it has been notified.
    DriverEnter = 136,
    /// A thread that waits in the driver is not notified there.
    DriverNotify = 137,
    /// A worker that releases the driver wakes no worker that waits for it.
    DriverHandOver = 138,
    /// The children of a fold leave their results without handing them over.
    FoldArrive = 140,
    /// A run of a fold waits for a piece that is done.
    FoldPark = 141,
    /// A fold takes in a child's result before those of children before it.
    FoldOrder = 142,
    /// Nobody looks again for the result of a child that was early.
    FoldEarly = 143,
    /// A run of a fold keeps the results of its piece until after it was counted as done.
    FoldLate = 144,
    /// A worker that takes pieces of a fold in a bundle has a hold on them until after they were counted as done.
    FoldBundle = 145,
    /// A loop puts what a thief has gathered before what its owner has.
    LoopOrder = 150,
    /// The second pass of a scan knows of the segment before, and of none before that.
    LoopScan = 151,
    /// Whoever looks for the first item stops when another one has been found.
    LoopFirst = 152,
    /// A merge that others have left unfinished counts as finished.
    LoopRestore = 153,
    /// A panic in a loop tells the others nothing.
    LoopAlarm = 154,
    /// A scan combines the totals of its segments on a thread that is not on the pool.
    LoopStray = 155,
    /// The block of a task, future or job is read after it was freed.
    BlockUse = 160,
    /// A wait is checked for cycles before it is listed, in two steps.
    WaitCheckFirst = 170,
    /// A wait is listed and not checked for cycles.
    WaitUnchecked = 171,
    /// The check for cycles takes tasks that have ended for running.
    WaitStale = 172,
    /// The check for cycles takes every wait of a thread for one above the task in question.
    WaitDepth = 173,
    /// The guard of a lock does not isolate waits.
    GuardIsolates = 174,
}

#[cfg(any(filch_loom, filch_canary))]
mod switch {
    use super::Canary;
    use std::sync::atomic::{AtomicU8, Ordering};

    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    #[doc(hidden)]
    pub fn set(canary: Option<Canary>) {
        // SeqCst: for tests; as strong as can be.
        ACTIVE.store(canary.map_or(0, |c| c as u8), Ordering::SeqCst);
    }

    pub(crate) fn broken(canary: Canary) -> bool {
        // Relaxed: set before the threads of a test start.
        ACTIVE.load(Ordering::Relaxed) == canary as u8
    }
}

#[cfg(any(filch_loom, filch_canary))]
pub use switch::*;

#[cfg(not(any(filch_loom, filch_canary)))]
#[inline(always)]
pub(crate) const fn broken(_canary: Canary) -> bool {
    false
}
