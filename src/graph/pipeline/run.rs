//! One run of a pipeline.
//!
//! # The protocol
//!
//! A *line* is the place of one token on its way: a room for its value. The tokens take the lines in turn, in the order
//! in which they leave the source; so a token's neighbours are always on the next lines.
//!
//! A *strand* is a job of the pool that carries one token: from the entrance of a serial stage,
//! where the token and its turn have met (see [`Station`]), through that stage and all that follow,
//! until it comes to an entrance whose turn has not come, or to the end. Parallel stages have no
//! entrance: the strand goes on. When it leaves a serial stage it gives the turn to the next line;
//! if that completes somebody, a strand is queued for it. At the end the line is free, which is
//! what the source's entrance of that line waits for. No strand waits for anything. Between two
//! stages a strand gives way to urgent work: it is queued with the token where that is.
//!
//! Who holds a token holds its room; who is in a serial stage holds its closure. Both are handed on by
//! [`Station::arrive`] and by the pool's queues.
//!
//! The run is over when all strands have ended, which [`Pending`] counts. A strand that ends with something to queue
//! leaves its count to that.
//!
//! When a token panics, or when the run is cancelled, every strand ends before its next stage, and the values that are
//! left in the rooms are dropped when all have ended.
#![expect(
    unsafe_code,
    reason = "jobs that point to the stations of a run in the frame of `run`"
)]

use super::{
    Halt, PipelineReport,
    error::{Kind, PipelineError, StagePanic},
    link::{Link, Rooms, Source},
    source::{Fed, Trouble},
    station::Station,
};
use crate::{
    base::unwind::{self, Payload},
    graph::remote::{Aside, Remote},
    pool::{
        Inner,
        context::WorkerContext,
        job::Job,
        latch::Awaited,
        pending::{self, Pending},
    },
};
use std::{
    cell::Cell,
    ptr,
    sync::{Mutex, PoisonError},
};

/// What a pipeline consists of.
pub(super) struct Parts<'p, 'env> {
    pub(super) source: &'p mut Box<dyn Source + 'env>,
    pub(super) links: &'p [Box<dyn Link + 'env>],
    pub(super) names: &'p [Option<String>],
    pub(super) halt: &'p Halt,
}

/// A run: what its strands share. It lives in the frame of [`run`], which outlives them.
struct Run<'p, 'env> {
    pool: *const Inner,
    /// The worker that waits.
    owner: usize,
    /// The strands run isolated, wherever they run.
    isolated: bool,
    source: &'p (dyn Source + 'env),
    links: &'p [Box<dyn Link + 'env>],
    rooms: Rooms,
    lines: Box<[Line]>,
    /// Those of the first line, then those of the second, and so on; one for each stage.
    stations: Box<[Station]>,
    halt: &'p Halt,
    pending: Pending,
    /// The owner runs only what was queued on its own worker while it waits.
    alone: bool,
    /// What guests have for such an owner: it does not look where their queue goes when they leave.
    aside: Aside,
    failures: Mutex<Failures>,
}

/// The place of a token. Used by whoever holds the token.
#[repr(align(64))]
struct Line {
    /// The number of the token.
    token: Cell<u64>,
    /// The stage whose output is in the room.
    holds: Cell<Option<usize>>,
}

#[derive(Default)]
struct Failures {
    panics: Vec<(usize, u64, Payload)>,
    trouble: Option<Trouble>,
}

// SAFETY: `pending`'s owner side is used by the thread that is worker `owner` of the pool, which `is_owner` checks; `pool`
// points to a pool that lives as long as its worker is in `run`; a `Line` and a room are used by whoever holds the
// token, one at a time; source and links are `Sync`, as are the values `Send` that they put into the rooms.
unsafe impl Sync for Run<'_, '_> {}

/// Runs a pipeline on `lines` lines as a worker of a pool.
pub(super) fn run(
    parts: Parts<'_, '_>,
    lines: usize,
    context: &WorkerContext<'_, '_>,
) -> Result<PipelineReport, PipelineError> {
    let run = Run::new(&parts, lines, context)?;
    let began = context.mark();
    // The strands point into this frame.
    unwind::or_abort(|| {
        for station in &run.stations {
            station.lead_to(ptr::from_ref(&run).cast());
        }
        run.pending.add_here();
        // SAFETY: it was counted above, and the run is in this frame.
        unsafe { Run::as_job(ptr::from_ref(&run), context, &run.stations[0]) };
        context.wait(&run, began);
    });
    let in_flight = run.sweep(context);
    let failures = run.failures.into_inner();
    let failures = failures.unwrap_or_else(PoisonError::into_inner);
    let cancelled = parts.halt.is_cancelled();
    let ended = parts.source.end();
    for payload in ended.panics {
        context.pool().panicked(payload);
    }
    let dropped = in_flight + ended.aside + failures.panics.len() as u64;
    let finished = ended.tokens - dropped;
    let panics = failures.panics.into_iter();
    let panics: Vec<_> = panics
        .map(|(stage, token, payload)| StagePanic {
            stage,
            name: parts.names[stage].clone(),
            token,
            payload,
        })
        .collect();
    let kind = if !panics.is_empty() {
        Kind::Panics(panics)
    } else if let Some(trouble) = failures.trouble {
        Kind::Deferred(trouble)
    } else if cancelled && !(ended.all && dropped == 0) {
        Kind::Cancelled
    } else {
        return Ok(PipelineReport { tokens: finished });
    };
    Err(PipelineError {
        kind,
        finished,
        dropped,
    })
}

/// A strand that begins at a station.
///
/// # Safety
/// `data` points to a station of a run that is not over, where a token and its turn have met.
unsafe fn run_strand(data: *const (), context: &WorkerContext<'_, '_>) {
    // SAFETY: the caller's duty.
    let station = unsafe { &*data.cast::<Station>() };
    // SAFETY: it leads to the run, which lives until its strands have ended.
    let run = unsafe { &*station.leads_to().cast::<Run<'_, '_>>() };
    // SAFETY: as above.
    unsafe { Run::as_job(ptr::from_ref(run), context, station) };
}

impl<'p, 'env> Run<'p, 'env> {
    fn new(
        parts: &'p Parts<'_, 'env>,
        lines: usize,
        context: &WorkerContext<'_, '_>,
    ) -> Result<Self, PipelineError> {
        let wrong = |kind| PipelineError {
            kind,
            finished: 0,
            dropped: 0,
        };
        let stages = parts.links.len() + 1;
        let number = match u32::try_from(lines) {
            Ok(0) => return Err(wrong(Kind::NoLines)),
            Ok(number) if lines.checked_mul(stages).is_some() => number,
            _ => return Err(wrong(Kind::TooManyLines)),
        };
        let links = parts.links.iter().map(|link| link.output());
        let outputs = links.chain([parts.source.output()]);
        let rooms = Rooms::new(lines, outputs).ok_or_else(|| wrong(Kind::TooManyLines))?;
        let stations = (0..number).flat_map(|line| {
            // The first token begins at once, and finds all turns waiting for it. All other lines are free.
            (0..stages as u32)
                .map(move |stage| Station::new(line, stage, (line == 0) != (stage == 0)))
        });
        let line = || Line {
            token: Cell::new(0),
            holds: Cell::new(None),
        };
        Ok(Self {
            pool: context.pool(),
            owner: context.worker(),
            isolated: context.is_isolated(),
            source: &**parts.source,
            links: parts.links,
            rooms,
            lines: (0..lines).map(|_| line()).collect(),
            stations: stations.collect(),
            halt: parts.halt,
            pending: Pending::new(),
            alone: context.may_isolate_waits(),
            aside: Aside::default(),
            failures: Mutex::default(),
        })
    }

    fn stages(&self) -> usize {
        self.links.len() + 1
    }

    #[inline(always)]
    fn station(&self, line: usize, stage: usize) -> &Station {
        &self.stations[line * self.stages() + stage]
    }

    #[inline(always)]
    fn is_owner(&self, context: &WorkerContext<'_, '_>) -> bool {
        context.worker() == self.owner && ptr::eq(context.pool(), self.pool)
    }

    /// Runs a strand as a job of the pool.
    ///
    /// # Safety
    /// The job is pending, so that `this` lives. When it is done the run may be gone, so it comes as a pointer.
    unsafe fn as_job(this: *const Self, context: &WorkerContext<'_, '_>, station: &Station) {
        // SAFETY: the caller's duty.
        let run = unsafe { &*this };
        let last = if run.isolated {
            context.isolate(|| run.strand(context, station))
        } else {
            run.strand(context, station)
        };
        if let Some(next) = last {
            if !run.is_left_behind(context) {
                // It takes over the count of this one. The run is not touched after this.
                context.push(run.job(next));
                return;
            }
            run.queue(context, next);
        }
        // SAFETY: as above.
        unsafe { Self::done(this, context) };
    }

    /// A job is done: the last touch of the run by whoever ran it.
    ///
    /// # Safety
    /// It was counted, so that `this` lives; see `as_job`.
    unsafe fn done(this: *const Self, context: &WorkerContext<'_, '_>) {
        // SAFETY: the caller's duty.
        let run = unsafe { &*this };
        if run.is_owner(context) {
            run.pending.done_here();
            return;
        }
        let (owner, word) = (run.owner, run.pending.elsewhere());
        pending::done_elsewhere(word, || context.pool().unpark(owner));
    }

    fn job(&self, station: &Station) -> Job {
        debug_assert!(
            self.stations
                .as_ptr_range()
                .contains(&ptr::from_ref(station))
        );
        // SAFETY: the job is counted, so the run is not over before it has run; stations may be shared.
        unsafe { Job::new(ptr::from_ref(station), run_strand) }
    }

    /// Queues a strand.
    fn queue(&self, context: &WorkerContext<'_, '_>, station: &Station) {
        if self.is_owner(context) {
            self.pending.add_here();
            context.push(self.job(station));
            return;
        }
        self.pending.add_elsewhere();
        if self.is_left_behind(context) {
            self.aside
                .send(context.pool(), self.owner, self.job(station));
        } else {
            context.push(self.job(station));
        }
    }

    /// Whether the owner would not run what this guest leaves in its queue when it goes: that goes
    /// to the injector.
    fn is_left_behind(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.alone && context.is_guest() && !self.is_owner(context)
    }

    /// Carries a token from a station to where it has to wait. Returns the last one of those to be queued.
    fn strand<'a>(
        &'a self,
        context: &WorkerContext<'_, '_>,
        station: &Station,
    ) -> Option<&'a Station> {
        let line = station.line as usize;
        let at = Cell::new(station.stage as usize);
        match unwind::contain(|| self.carry(context, line, &at)) {
            Ok(last) => last,
            Err(payload) => {
                let stage = at.get();
                let token = match stage {
                    // SAFETY: the turn has not been given to anybody else.
                    0 => unsafe { self.source.newest() },
                    _ => self.lines[line].token.get(),
                };
                self.fail(|failures| failures.panics.push((stage, token, payload)));
                self.halt.fail();
                None
            }
        }
    }

    fn fail(&self, note: impl FnOnce(&mut Failures)) {
        note(&mut self.failures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// `at` is the stage that it is in.
    #[inline(always)]
    fn carry(
        &self,
        context: &WorkerContext<'_, '_>,
        number: usize,
        at: &Cell<usize>,
    ) -> Option<&Station> {
        let line = &self.lines[number];
        let room = self.rooms.get(number);
        let next_line = if number + 1 == self.lines.len() {
            0
        } else {
            number + 1
        };
        let (last, press) = (self.links.len(), context.urgency());
        loop {
            if self.halt.is_set() {
                return None;
            }
            let stage = at.get();
            let mut serial = true;
            if stage == 0 {
                // SAFETY: the line is free, so its room is empty and ours; the turn of the source is ours.
                match unsafe { self.source.feed(room) } {
                    Fed::Token(token) => line.token.set(token),
                    Fed::End => return None,
                    Fed::Trouble(trouble) => {
                        self.fail(|failures| failures.trouble = Some(trouble));
                        return None;
                    }
                }
            } else {
                let link = &self.links[stage - 1];
                serial = link.is_serial();
                line.holds.set(None);
                // SAFETY: the token is ours, and so is the turn if the stage is serial. The room holds the output
                // of the stage before.
                unsafe { link.carry(room) };
            }
            line.holds.set(Some(stage));
            if stage == last {
                return self.finish(context, number, serial.then_some(next_line));
            }
            if serial {
                let follower = self.station(next_line, stage);
                if follower.arrive() {
                    self.queue(context, follower);
                }
            }
            at.set(stage + 1);
            if self.links[stage].is_serial() && !self.station(number, stage + 1).arrive() {
                return None;
            }
            if press.is_raised() && context.should_give_way() {
                // The token is at the next stage, and has its turn there.
                return Some(self.station(number, stage + 1));
            }
        }
    }

    /// A token is at its end. `next_line` gets the turn of the last stage.
    #[inline(always)]
    fn finish(
        &self,
        context: &WorkerContext<'_, '_>,
        number: usize,
        next_line: Option<usize>,
    ) -> Option<&Station> {
        let last = self.links.len();
        self.lines[number].holds.set(None);
        // SAFETY: the token is ours, and the room holds the output of the last stage.
        unsafe { self.discard(number, last) };
        // The source first, so that it is the older one, which thieves take: there is more to do behind it. A source
        // that is the last stage as well gives its line free before it gives its turn.
        let source = Some(self.station(number, 0)).filter(|source| source.arrive());
        let follower = next_line.map(|line| self.station(line, last));
        let follower = follower.filter(|follower| follower.arrive());
        if let (Some(source), Some(_)) = (source, follower) {
            self.queue(context, source);
        }
        follower.or(source)
    }

    /// Drops what is in the room of a line.
    ///
    /// # Safety
    /// The line's token is the caller's, and its room holds the output of `stage`.
    unsafe fn discard(&self, line: usize, stage: usize) {
        let room = self.rooms.get(line);
        match stage {
            // SAFETY: the caller's duty.
            0 => unsafe { self.source.discard(room) },
            // SAFETY: as above.
            _ => unsafe { self.links[stage - 1].discard(room) },
        }
    }

    /// Drops the tokens that a halted run has left in their rooms. Says how many.
    fn sweep(&self, context: &WorkerContext<'_, '_>) -> u64 {
        let mut swept = 0;
        for (number, line) in self.lines.iter().enumerate() {
            let Some(stage) = line.holds.take() else {
                continue;
            };
            swept += 1;
            // SAFETY: all strands have ended, so everything is the owner's; `holds` says what is in the room.
            if let Err(payload) = unwind::contain(|| unsafe { self.discard(number, stage) }) {
                context.pool().panicked(payload);
            }
        }
        swept
    }
}

impl Awaited for Run<'_, '_> {
    fn happened(&self) -> bool {
        self.pending.happened()
    }

    fn sleep(&self, worker: usize) -> bool {
        self.pending.sleep(worker)
    }

    fn awake(&self) {
        self.pending.awake();
    }

    fn take_job(&self) -> Option<Job> {
        self.aside.get()?.take_job()
    }

    fn has_job(&self) -> bool {
        self.aside.get().is_some_and(Remote::has_job)
    }
}
