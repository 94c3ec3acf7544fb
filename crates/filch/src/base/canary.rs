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
    /// The ring grows without publishing the new buffer.
    GrowPublish = 4,
    /// A ring is freed while a thief may be reading it.
    RingFree = 27,
    /// A task is admitted with a check of the gate and a separate write.
    GateSplit = 5,
    /// A worker rests without flushing its private count.
    GateFlush = 6,
    /// The last searcher parks without the final check for work.
    LastCheck = 7,
    /// A push does not check the sleep word.
    PushWake = 8,
    /// No barrier between announcing sleep and the final check.
    SleepFence = 9,
    /// A searcher that found work does not pass the search on.
    PassOn = 10,
    /// The latch is set without waking its waiter.
    LatchWake = 11,
    /// A batch steal loses one of the tasks it took.
    LoseTask = 12,
    /// A worker that leaves discards the tasks of its queue.
    LeaveDrop = 13,
    /// A thief that guards a deque opens it without the heavy barrier.
    KnockBarrier = 14,
    /// The owner stops guarding without changing the tag of the thieves' word.
    CalmTag = 15,
    /// The latch of a stolen job is set without waking the worker that waits for it.
    PoolLatchWake = 16,
    /// A part of a join is taken back by its place alone, although a wait may have run it.
    PartPlace = 28,
    /// The last task of a scope does not wake the worker that waits for the scope.
    ScopeWake = 17,
    /// The bit of the sleep word that makes pushes wake a worker is not kept up to date.
    WakeBit = 21,
    /// The last searcher that found work checks for more without a barrier.
    PassOnFence = 22,
    /// A worker in standby leaves without ending its standby and passing the search on.
    StandbyLeaves = 23,
    /// A worker that stops searching assumes that all pushes are visible although other workers are
    /// busy.
    PushBarrier = 24,
    /// A worker that becomes busy executes no fence.
    BusyFence = 25,
    /// A task is pushed to a lane whose flag stays lowered.
    LaneFlag = 80,
    /// The flag of an empty lane is lowered after the lane can be filled again.
    LaneLower = 81,
    /// The final check before sleep does not include the lanes.
    LaneLastCheck = 82,
    /// The final check before sleep does not include the mailboxes of affine tasks.
    AffineLastCheck = 83,
    /// A worker that is woken for a task of its mailbox while it gives up falling asleep does not
    /// notice.
    CallBack = 84,
    /// A worker checks the lanes only when it has nothing else to do.
    LaneOrder = 85,
    /// Queues that were passed over never get a turn out of order.
    LaneTurns = 86,
    /// An affine task is taken from the mailbox of a sleeping worker.
    AffineTake = 87,
    /// The last worker of a node leaves, and the mailbox of the node stays open.
    NodeLeaves = 89,
    /// A push while all workers are busy does not request attention.
    Attention = 200,
    /// A worker clears the attention bit without checking the queues again.
    AttentionRecheck = 201,
    /// A worker that requests attention for a task that it leaves takes a stale entry for a
    /// sleeper.
    AttentionStale = 203,
    /// A waker that finds only stale entries takes back that it counted one as searching, and does
    /// not request attention for tasks whose pushes have relied on the count.
    AttentionTakeBack = 204,
    /// A push into an empty shard of the injector does not set the bit of the shard.
    InjectorFlag = 30,
    /// The injector counts its tasks before it refuses others.
    InjectorClose = 31,
    /// A thread that closes the gate does not count as busy while it adds the injector's count.
    CloseNotBusy = 32,
    /// A worker clears the bit of a shard of the injector without the lock of the producers.
    InjectorLower = 33,
    /// A worker clears the bit of a shard of the injector before it has moved the tasks.
    InjectorEarly = 34,
    /// A worker takes from the inbox of a shard while older tasks are in the outbox.
    InjectorOrder = 35,
    /// A worker takes only from the shards of the injector that belong to its own node.
    InjectorFar = 36,
    /// A worker that was woken and sees more tasks passes its search on without waking another.
    WakeInTurn = 37,
    /// `CancelToken::child` checks the parent before it has the lock, and not under it.
    CancelMissesChild = 40,
    /// `CancelToken::on_cancel` checks the token before it has the lock, and not under it.
    CancelMissesListener = 41,
    /// A cancel that finds the token cancelled returns, although another thread is still marking
    /// its descendants.
    CancelLeavesMarking = 42,
    /// Whether a callback was removed is decided by the state of the token, not by whether the
    /// callback was registered.
    RemoveByState = 43,
    /// A cancel wakes none of the threads that wait for it.
    CancelSkipsNotify = 44,
    /// A token is cancelled without publishing what was done before.
    CancelUnordered = 45,
    /// A cancel notifies a batch of tasks that it has only copied, and removes them later.
    CancelKeepsBatch = 46,
    /// A request joins the queue for units without checking the free ones again.
    SemaphoreHandover = 18,
    /// A request that is dropped after it was served keeps its units.
    SemaphoreCancel = 19,
    /// A request leaves the head of the queue and does not serve the one behind it.
    SemaphoreMoveUp = 20,
    /// A request for several semaphores is granted, and only the queue in which it was found is
    /// served further.
    SemaphoreServeOthers = 26,
    /// A ticket claims its task in two steps: a check, then a write.
    TaskClaim = 60,
    /// The thread that finishes a task or a future checks for a handle before the step that hands
    /// the outcome over.
    TaskOrphan = 61,
    /// A handle sleeps without checking whether its task or future is done.
    TaskWatch = 62,
    /// The thread that finishes a task or a future wakes no waiter.
    TaskWake = 63,
    /// A task that changes its priority is queued at the new one before its state says so.
    TaskMove = 64,
    /// A task that gets a token checks whether it was cancelled without publishing the token to
    /// later cancels.
    TaskToken = 65,
    /// A task that is to follow another one joins its list without checking whether that one has
    /// ended.
    TaskFollow = 66,
    /// The predecessors of a task are counted down without publishing what they did.
    TaskArrive = 67,
    /// A thread that requests a held task checks whether it is held before it has the lock, and not
    /// under it.
    TaskInboxLock = 68,
    /// A worker that takes a batch without having announced a search notifies no other worker.
    BatchNotify = 88,
    /// The predecessors of a task in a graph are counted down without publishing what they did.
    GraphArrive = 90,
    /// A token and its turn arrive with a check and a separate write.
    PipelineArrive = 93,
    /// A future, of a pool, a graph or a local set, that is woken while it is polled is not polled
    /// again.
    FutureRest = 110,
    /// A wake that finds the future woken already does not publish what was done before it.
    FutureWakeAgain = 111,
    /// A pool that ends checks whether a future waits, and then takes it in a separate step.
    FutureEvict = 112,
    /// A predecessor of a task in a graph is counted down, and then checks separately whether it
    /// was the last one.
    GraphLast = 100,
    /// The count of predecessors of a task in a graph is not reset when the task runs.
    GraphRearm = 101,
    /// A task in a graph that panics keeps its permits.
    GraphPermits = 102,
    /// The owner of a run counts without atomics although another worker has joined.
    GraphBias = 103,
    /// A thief takes sources that their holder may have claimed meanwhile.
    GraphBlock = 104,
    /// A worker that holds sources of a graph queues no feeder, so that thieves do not find them.
    GraphFeeder = 105,
    /// A sleep that is polled with another waker keeps the first one.
    SleepRenew = 120,
    /// A sleep that is dropped stays registered at its clock.
    SleepLeaves = 121,
    /// A paused clock that is advanced wakes all waiters at the time of the first.
    SleepEarly = 122,
    /// An interval that skips ticks counts from when it was late.
    TickSkip = 123,
    /// A waiter for a group registers its waker without checking again for finished members.
    GroupWatch = 130,
    /// A driver of a local set registers its waker without checking again for woken futures.
    LocalWatch = 131,
    /// A paused clock that is advanced to a time wakes only the first of those that wait for it.
    ClockForgets = 132,
    /// A dedicated worker parks without checking whether the event count was notified meanwhile.
    EventCountRecheck = 133,
    /// A dedicated worker takes a job, and does not notify that there are more.
    EventCountPassOn = 134,
    /// A dedicated worker takes a notification without acquiring what was done before it.
    EventCountOrder = 135,
    /// A thread enters the driver without checking whether it has been notified.
    DriverEnter = 136,
    /// A thread that waits in the driver is not notified there.
    DriverNotify = 137,
    /// A worker that releases the driver wakes no worker that waits for it.
    DriverHandOver = 138,
    /// A substitute for a worker in a blocking call does not wake another one for a second call.
    SubstitutePassOn = 139,
    /// A substitute that takes a task which was handed off does not notify the giver.
    HandoffNotify = 202,
    /// A worker that is asked to leave checks that, and then leaves in a separate step.
    DepartCheck = 210,
    /// A leaving worker hands on jobs that an isolated wait may depend on.
    LeaveHandsOn = 211,
    /// A shutdown takes the threads to join while a resize adds one.
    ShutdownLock = 212,
    /// The children of a fold store their results without publishing them.
    FoldArrive = 140,
    /// A run of a fold waits for a piece that is done.
    FoldPark = 141,
    /// A fold consumes a child's result before those of preceding children.
    FoldOrder = 142,
    /// The result of a child that finished early is never consumed.
    FoldEarly = 143,
    /// A run of a fold keeps the results of its piece alive until after it was counted as done.
    FoldLate = 144,
    /// A help job of a fold takes the request without ordering what was queued before it.
    FoldHelp = 148,
    /// A worker that takes pieces of a fold in a bundle keeps them alive until after they were
    /// counted as done.
    FoldBundle = 145,
    /// A loop puts the results of a thief before those of its owner.
    LoopOrder = 150,
    /// The second pass of a scan uses only the segment before, and none before that.
    LoopScan = 151,
    /// A search for the first item stops when any other one has been found.
    LoopFirst = 152,
    /// A merge that other workers have left unfinished counts as finished.
    LoopRestore = 153,
    /// A panic in a loop does not stop the other workers.
    LoopAlarm = 154,
    /// A scan combines the totals of its segments on a thread that is not on the pool.
    LoopStray = 155,
    /// The block of a task, future or job is read after it was freed.
    BlockUse = 160,
    /// A wait is checked for cycles before it is listed, in two steps.
    WaitCheckFirst = 170,
    /// A wait is listed and not checked for cycles.
    WaitUnchecked = 171,
    /// The check for cycles treats tasks that have ended as running.
    WaitStale = 172,
    /// The check for cycles treats every wait of a thread as one above the task in question.
    WaitDepth = 173,
    /// A cycle that is closed by a wait which cannot return an error is reported to no other wait.
    WaitVerdict = 178,
    /// A wait is listed without the groups of jobs and the locks that it holds up.
    WaitHoldsUp = 179,
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
        // SeqCst: for tests; the strongest ordering.
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
