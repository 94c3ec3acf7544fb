//! The rectangles of the tasks in a lane.

use super::{
    LANE_HEIGHT, LETTER_WIDTH, Svg,
    text::{Escaped, shortened},
};
use filch::graph::{TaskEnding, TaskTime, Timeline};
use std::{fmt::Write, time::Duration};

/// The height of a rectangle.
const TASK_HEIGHT: f64 = 26.0;
/// How much smaller a rectangle is for each level of nesting.
const NESTED_SHRINK: f64 = 5.0;
/// Minimum width of a rectangle. Narrower ones are merged with their neighbours: they would be
/// invisible, and there may be a million.
const MIN_WIDTH: f64 = 0.4;
/// The shortest line of a task that is not done.
const MIN_SUSPENSION: f64 = 2.0;

/// Rectangles of a lane that are too narrow to be drawn one by one.
struct MergedTasks {
    from: Duration,
    to: Duration,
    tasks: usize,
    work: Duration,
}

impl Svg {
    /// Draws the tasks of a worker.
    pub(super) fn tasks(&mut self, timeline: &Timeline, worker: usize, top: f64) {
        let tasks = timeline.tasks().iter();
        let tasks = || tasks.clone().filter(|task| task.worker() == worker);
        // Below the rectangles: other tasks may run on the worker at that time.
        tasks().for_each(|task| self.suspension(task, top));
        let mut merged: Option<MergedTasks> = None;
        // The ends of the tasks that contain the current one.
        let mut around: Vec<Duration> = Vec::new();
        for task in tasks() {
            while around.last().is_some_and(|end| *end <= task.start()) {
                around.pop();
            }
            let depth = around.len();
            around.push(task.end());
            let thin = task.duration().as_secs_f64() * self.scale < MIN_WIDTH;
            if thin && !task.is_critical() && task.ending() == TaskEnding::Done {
                self.merge(&mut merged, task, top);
                continue;
            }
            self.draw_merged(merged.take(), top);
            self.task(task, top, depth);
        }
        self.draw_merged(merged, top);
    }

    /// Draws the time after the closure of a task has returned until the task is done.
    fn suspension(&mut self, task: &TaskTime, top: f64) {
        let (end, completed) = (self.x(task.end()), self.x(task.completed()));
        if completed - end < MIN_SUSPENSION {
            return;
        }
        self.line(format_args!(
            "<rect class=\"suspended\" x=\"{end:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"3\">\
             <title>{}\nnot done until {:.1?}</title></rect>",
            top + LANE_HEIGHT / 2.0 - 1.5,
            completed - end,
            Escaped(task.name()),
            task.completed()
        ));
    }

    fn merge(&mut self, merged: &mut Option<MergedTasks>, task: &TaskTime, top: f64) {
        if let Some(merged) = merged
            && (task.start().saturating_sub(merged.to)).as_secs_f64() * self.scale < MIN_WIDTH
        {
            merged.to = merged.to.max(task.end());
            merged.tasks += 1;
            merged.work += task.duration();
            return;
        }
        let new = MergedTasks {
            from: task.start(),
            to: task.end(),
            tasks: 1,
            work: task.duration(),
        };
        self.draw_merged(merged.replace(new), top);
    }

    fn draw_merged(&mut self, merged: Option<MergedTasks>, top: f64) {
        let Some(merged) = merged else { return };
        let (x, end) = (self.x(merged.from), self.x(merged.to));
        self.line(format_args!(
            "<rect class=\"many\" x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{TASK_HEIGHT}\" stroke-width=\"0.3\">\
             <title>{} short tasks, {:.1?}</title></rect>",
            top + (LANE_HEIGHT - TASK_HEIGHT) / 2.0,
            (end - x).max(MIN_WIDTH),
            merged.tasks,
            merged.work,
        ));
    }

    fn task(&mut self, task: &TaskTime, top: f64, depth: usize) {
        // Below the third level of nesting it gets no smaller.
        let inset = NESTED_SHRINK * depth.min(3) as f64 / 2.0;
        let (x, y) = (
            self.x(task.start()),
            top + (LANE_HEIGHT - TASK_HEIGHT) / 2.0 + inset,
        );
        let height = TASK_HEIGHT - 2.0 * inset;
        let width = (task.duration().as_secs_f64() * self.scale).max(MIN_WIDTH);
        let stroke = if width < 3.0 { 0.3 } else { 1.0 };
        self.line(format_args!(
            "<rect class=\"{}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" rx=\"{}\" \
             stroke-width=\"{stroke}\"><title>{}</title></rect>",
            class(task),
            if width < 8.0 { 0 } else { 2 },
            Escaped(&tooltip(task)),
        ));
        for wait in task.waits() {
            let (from, to) = (self.x(wait.start), self.x(wait.end));
            if to - from >= MIN_WIDTH {
                self.line(format_args!(
                    "<rect class=\"wait\" x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{height:.1}\" \
                     pointer-events=\"none\"/>",
                    to - from
                ));
            }
        }
        self.label(task, x, width, top);
    }

    fn label(&mut self, task: &TaskTime, x: f64, width: f64, top: f64) {
        let room = ((width - 6.0) / LETTER_WIDTH).max(0.0) as usize;
        let failed = task.ending() == TaskEnding::Failed;
        if room < 3 {
            return;
        }
        let mut label = match failed {
            true => shortened(&format!("× {}", task.name()), room),
            false => shortened(task.name(), room),
        };
        let time = format!(" {:.0?}", task.duration());
        if label.chars().count() + time.chars().count() <= room {
            label += &time;
        }
        // Hatched parts are light.
        let ink = match (task.waits().is_empty(), failed) {
            (false, _) => "halo",
            (true, true) => "light",
            (true, false) => "ink",
        };
        let _ = writeln!(
            self.labels,
            "<text class=\"{ink}\" x=\"{:.1}\" y=\"{:.1}\" pointer-events=\"none\">{}</text>",
            x + 4.0,
            top + LANE_HEIGHT / 2.0 + 4.0,
            Escaped(&label)
        );
    }
}

/// Returns the class of a task's rectangle.
fn class(task: &TaskTime) -> &'static str {
    match (task.ending(), task.is_critical(), task.index() % 2) {
        (TaskEnding::Failed, ..) => "failed",
        (TaskEnding::Cancelled, ..) => "cancelled",
        (_, true, _) => "critical",
        (_, false, 0) => "a",
        (_, false, _) => "b",
    }
}

/// Returns the text that is shown when the pointer is on a task.
fn tooltip(task: &TaskTime) -> String {
    let (duration, start) = (task.duration(), task.start());
    let mut text = format!("{}\n{duration:.1?}, from {start:.1?} on", task.name());
    if task.ending() != TaskEnding::Done {
        let _ = write!(text, ", {}", task.ending());
    }
    if task.is_critical() {
        text += ", on the critical path";
    }
    if !task.delay().is_zero() {
        let _ = write!(text, "\nstarted {:.1?} after it was ready", task.delay());
    }
    let waited: Duration = task.waits().iter().map(|wait| wait.end - wait.start).sum();
    if !waited.is_zero() {
        let _ = write!(text, "\nwaited {waited:.1?} of the time");
    }
    text
}
