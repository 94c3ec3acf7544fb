//! How a loop is run: in blocks, and shared when somebody is hungry.
//!
//! A worker goes through its piece block by block. Between two blocks it looks whether there is anything in its queue
//! that others could take. If not, it puts the far half of what is left there, and goes on with the near half. When it
//! is done with that and nobody has taken the far half, it takes it back and goes on as if nothing had been, with what
//! it has gathered so far: so a loop that runs alone is a loop in sequence, but for a handful of pushes. A piece that
//! has been stolen gathers by itself, and what it has gathered is joined to what comes before it.
//!
//! Pieces are halved, so frames lie on the stack no deeper than the length has binary digits.

use super::{checkpoint::leaf_checkpoint, over::Settings, pace::Pace, pieces::Pieces};
use crate::{
    base::{
        canary::{Canary, broken},
        sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread,
    },
    fork::join_on,
    pool::context::WorkerContext,
};

/// What a loop does with its items.
pub(super) trait Sink<P: Pieces>: Sync {
    /// What is gathered on the way through a piece.
    type Acc: Send;

    /// Nothing gathered yet, before `piece`.
    fn start(&self, piece: &P) -> Self::Acc;

    /// Goes through a block.
    fn feed(&self, acc: Self::Acc, block: Piece<P>) -> Self::Acc;

    /// Puts together what neighbours have gathered.
    fn join(&self, left: Self::Acc, right: Self::Acc) -> Self::Acc;

    /// Whether items from `at` on do not matter any more.
    #[inline]
    fn is_enough(&self, _at: usize) -> bool {
        false
    }
}

/// A sink of closures: how to start, what to do with a block, how to join.
pub(super) struct Steps<S, F, J> {
    pub(super) start: S,
    pub(super) feed: F,
    pub(super) join: J,
}

impl<P, A, S, F, J> Sink<P> for Steps<S, F, J>
where
    P: Pieces,
    A: Send,
    S: Fn() -> A + Sync,
    F: Fn(A, Piece<P>) -> A + Sync,
    J: Fn(A, A) -> A + Sync,
{
    type Acc = A;

    #[inline]
    fn start(&self, _piece: &P) -> A {
        (self.start)()
    }

    #[inline]
    fn feed(&self, acc: A, block: Piece<P>) -> A {
        (self.feed)(acc, block)
    }

    #[inline]
    fn join(&self, left: A, right: A) -> A {
        (self.join)(left, right)
    }
}

/// How far a loop has got when it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// It was cancelled, and items are left.
    pub(super) cancelled: bool,
    /// How many items were done; counted only when it can be cancelled or tells of its progress.
    pub(super) done: usize,
    /// How many there were.
    pub(super) total: usize,
}

/// Runs a loop over `pieces` as `settings` say, and gathers with `sink`.
///
/// The closures of the user run on the pool of the loop, so that loops and joins in them use the same pool. Only a loop
/// without items does not enter the pool.
pub(super) fn run<P, K>(settings: &Settings<'_>, pieces: P, sink: &K) -> (K::Acc, End)
where
    P: Pieces,
    K: Sink<P>,
{
    let len = pieces.size();
    if len == 0 {
        return (sink.start(&pieces), run_empty(settings));
    }
    settings.enter_worker(|context| run_on(context, settings, pieces, len, sink))
}

/// The end of a loop without items.
pub(super) fn run_empty(settings: &Settings<'_>) -> End {
    Shared::new(settings, &()).end(0)
}

/// [`run`] by a caller that is on the pool of the loop. `len` is the size of `pieces`.
pub(super) fn run_on<P, K>(
    context: &WorkerContext<'_, '_>,
    settings: &Settings<'_>,
    pieces: P,
    len: usize,
    sink: &K,
) -> (K::Acc, End)
where
    P: Pieces,
    K: Sink<P>,
{
    let acc = sink.start(&pieces);
    let shared = Shared::new(settings, sink);
    let pace = Pace::new(settings.pacing, len, context, settings.counts());
    let piece = Piece { pieces, at: 0, len };
    let (acc, _) = shared.walk(context, piece, acc, pace);
    (acc, shared.end(len))
}

/// How often the caller is told of the progress, at most, in nanoseconds.
const TELL: u64 = 10_000_000;

/// What the workers of one loop share.
struct Shared<'l, 's, K> {
    settings: &'l Settings<'s>,
    sink: &'l K,
    /// Somebody has panicked: nobody will ask for the result.
    stop: AtomicBool,
    /// Somebody has left items undone because the loop is cancelled.
    cancelled: AtomicBool,
    /// Items done, if anybody wants to know.
    done: AtomicUsize,
    /// When the caller was last told of the progress: how many times `TELL` after the beginning.
    told: AtomicU64,
    began: Option<u64>,
}

/// A part of the loop.
///
/// Its length is ours: the source is asked for it once, before the loop. So however a source of the user's own lies
/// afterwards, pieces get shorter with every cut and every block, and the loop comes to its end.
pub(super) struct Piece<P> {
    pub(super) pieces: P,
    /// The place of its first item in the loop.
    pub(super) at: usize,
    /// How many items it has, if the source tells the truth.
    pub(super) len: usize,
}

impl<P: Pieces> Piece<P> {
    #[inline]
    pub(super) fn items(self) -> P::Iter {
        self.pieces.items()
    }

    /// `index` is at most its length.
    #[inline]
    pub(super) fn split_at(self, index: usize) -> (Self, Self) {
        let (near, far) = self.pieces.split_at(index);
        let part = |pieces, at, len| Self { pieces, at, len };
        (
            part(near, self.at, index),
            part(far, self.at + index, self.len - index),
        )
    }
}

/// What became of the far half.
enum Far<P, A> {
    /// Nobody has taken it.
    Back(Piece<P>),
    /// Somebody has, and has gathered this.
    Done(A),
}

/// Tells the others that they need not go on, unless it is forgotten.
pub(super) struct Alarm<'a>(pub(super) &'a AtomicBool);

impl Drop for Alarm<'_> {
    #[cold]
    fn drop(&mut self) {
        if broken(Canary::LoopAlarm) {
            return;
        }
        // Relaxed: it only saves work.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'l, 's, K> Shared<'l, 's, K> {
    fn new(settings: &'l Settings<'s>, sink: &'l K) -> Self {
        Self {
            settings,
            sink,
            stop: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            told: AtomicU64::new(0),
            began: settings.progress.as_ref().map(|_| thread::nanos()),
        }
    }

    /// Goes through a piece, and gives back what has been gathered, with the pace that fits.
    fn walk<P>(
        &self,
        context: &WorkerContext<'_, '_>,
        mut piece: Piece<P>,
        mut acc: K::Acc,
        mut pace: Pace,
    ) -> (K::Acc, Pace)
    where
        P: Pieces,
        K: Sink<P>,
    {
        let alarm = Alarm(&self.stop);
        loop {
            let len = piece.len;
            if len == 0 || self.is_over::<P>(piece.at) {
                break;
            }
            if let Some(middle) = pace.share(context, piece.at, len) {
                let (near, far) = piece.split_at(middle);
                let (gathered, rest) = join_on(
                    context,
                    |_| self.walk(context, near, acc, pace),
                    |cx| {
                        if cx.migrated() {
                            Far::Done(self.walk_stolen(far, pace))
                        } else {
                            Far::Back(far)
                        }
                    },
                );
                (acc, pace) = gathered;
                let mut back = None;
                match rest {
                    Far::Back(far) => back = Some(far),
                    // After a panic nobody asks for it.
                    // Relaxed: it only saves work; as in `Alarm`.
                    Far::Done(right) if self.stop.load(Ordering::Relaxed) => drop(right),
                    Far::Done(right) if broken(Canary::LoopOrder) => {
                        acc = self.sink.join(right, acc);
                    }
                    Far::Done(right) => acc = self.sink.join(acc, right),
                }
                if let Some(back) = back {
                    piece = back;
                    // The near half may have been a single block, which has not.
                    if leaf_checkpoint() {
                        pace.go_on();
                    }
                    continue;
                }
                std::mem::forget(alarm);
                return (acc, pace);
            }
            let items = pace.block(piece.at, len);
            let (block, rest) = piece.split_at(items);
            acc = self.sink.feed(acc, block);
            self.count(items);
            piece = rest;
            if items == len {
                break;
            }
            pace.adapt(items);
            if leaf_checkpoint() {
                pace.go_on();
            }
        }
        // Items that are left are dropped while what has been gathered is still here: a destructor that panics loses nothing.
        drop(piece);
        std::mem::forget(alarm);
        (acc, pace)
    }

    #[cold]
    fn walk_stolen<P>(&self, piece: Piece<P>, pace: Pace) -> K::Acc
    where
        P: Pieces,
        K: Sink<P>,
    {
        WorkerContext::with(|context| {
            let context = context.expect("whoever runs a job stands in its pool");
            // The user's code may be in it.
            let alarm = Alarm(&self.stop);
            let acc = self.sink.start(&piece.pieces);
            std::mem::forget(alarm);
            self.walk(context, piece, acc, pace.stolen()).0
        })
    }

    /// Whether the items from `at` on should be left alone.
    #[inline]
    fn is_over<P>(&self, at: usize) -> bool
    where
        P: Pieces,
        K: Sink<P>,
    {
        // Relaxed: it only saves work.
        if self.stop.load(Ordering::Relaxed) || self.sink.is_enough(at) {
            return true;
        }
        let cancelled = self.settings.is_cancelled();
        if cancelled {
            // Relaxed: read when everybody is done, after the joins.
            self.cancelled.store(true, Ordering::Relaxed);
        }
        cancelled
    }

    /// So many items more are done.
    #[inline]
    fn count(&self, items: usize) {
        if self.settings.counts() {
            self.count_and_tell(items);
        }
    }

    #[cold]
    fn count_and_tell(&self, items: usize) {
        // Relaxed: a number for people; the last one is read after the joins.
        let done = self.done.fetch_add(items, Ordering::Relaxed) + items;
        let (Some(progress), Some(began)) = (&self.settings.progress, self.began) else {
            return;
        };
        let now = thread::nanos().saturating_sub(began) / TELL;
        // Relaxed: whoever moves the number on tells; nothing else hangs on it.
        if self.told.fetch_max(now, Ordering::Relaxed) < now {
            progress(done);
        }
    }

    fn end(&self, total: usize) -> End {
        // Relaxed: everybody is done, and the joins have ordered what they did before this.
        let done = self.done.load(Ordering::Relaxed);
        // Relaxed: as above.
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        if let Some(progress) = &self.settings.progress {
            progress(done);
        }
        End {
            cancelled,
            done,
            total,
        }
    }
}
