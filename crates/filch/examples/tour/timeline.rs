//! Draws what every worker did, as a line of text for each.

use filch::engine::{Event, Observer, Source};
use std::{
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Columns of the drawing.
const WIDTH: usize = 72;

/// An observer that writes down when each worker was busy, and when it stole.
pub(crate) struct Timeline {
    /// A list for each worker, which only that worker writes: its lock is never contended.
    workers: Vec<Mutex<Vec<(Instant, Mark)>>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Busy,
    Idle,
    Stole,
}

impl Timeline {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// One line a worker for the time from `start` on.
    pub(crate) fn draw(&self, start: Instant, length: Duration) -> String {
        let mut picture = String::new();
        for (id, marks) in self.workers.iter().enumerate() {
            let marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
            let column = |at: Instant| {
                let share =
                    at.saturating_duration_since(start).as_secs_f64() / length.as_secs_f64();
                ((share * WIDTH as f64) as usize).min(WIDTH - 1)
            };
            let mut line = ['·'; WIDTH];
            let mut busy_from = None;
            for &(at, mark) in marks.iter() {
                match mark {
                    Mark::Busy => busy_from = Some(column(at)),
                    Mark::Idle => {
                        if let Some(from) = busy_from.take() {
                            line[from..=column(at)].fill('█');
                        }
                    }
                    Mark::Stole => {}
                }
            }
            if let Some(from) = busy_from {
                line[from..].fill('█');
            }
            for &(at, mark) in marks.iter() {
                if mark == Mark::Stole {
                    line[column(at)] = '↯';
                }
            }
            let line: String = line.iter().collect();
            writeln!(picture, "   worker {id} {line}").expect("a string takes everything");
        }
        picture.push_str("            █ has tasks   · searches or sleeps   ↯ stole\n");
        picture
    }
}

impl Observer for Timeline {
    fn event(&self, worker: usize, event: Event) {
        let mark = match event {
            Event::Busy => Mark::Busy,
            Event::Idle => Mark::Idle,
            Event::Started {
                source: Source::Steal { .. },
            } => Mark::Stole,
            _ => return,
        };
        if let Some(marks) = self.workers.get(worker) {
            marks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((Instant::now(), mark));
        }
    }
}
