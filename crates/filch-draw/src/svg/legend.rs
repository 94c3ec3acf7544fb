//! What stands around the lanes: the summary, the legend, and the tasks that did not run.

use super::{LEFT, LETTER_WIDTH, RIGHT, Svg, WIDTH, text::Escaped, text::shortened};
use filch::graph::{NotRun, TaskEnding, Timeline};

/// The height of a row of tasks that did not run, and of the rectangles in it.
const ROW: f64 = 20.0;
const CHIP: f64 = 16.0;
/// Maximum number of rows; then the rest is counted.
const MAX_ROWS: usize = 4;
/// The longest name of a task that did not run, in letters.
const MAX_NAME: usize = 24;

/// Writes the summary of a run, in two lines.
pub(super) fn head(svg: &mut Svg, timeline: &Timeline) {
    let summary = timeline.to_string();
    let (first, second) = summary.split_once('\n').unwrap_or((&summary, ""));
    // Only as much of it as fits.
    let second = shortened(second, ((WIDTH - 2.0 * RIGHT) / LETTER_WIDTH) as usize);
    svg.line(format_args!(
        "<text class=\"ink\" x=\"{RIGHT}\" y=\"18\" font-size=\"13\">{}</text>",
        Escaped(first)
    ));
    svg.line(format_args!(
        "<rect class=\"critical\" x=\"{RIGHT}\" y=\"26\" width=\"9\" height=\"9\"/>\
         <text class=\"dim\" x=\"{}\" y=\"35\">{}</text>",
        RIGHT + 14.0,
        Escaped(&second)
    ));
}

/// Writes what the colours mean, those that occur.
pub(super) fn legend(svg: &mut Svg, timeline: &Timeline) {
    let tasks = timeline.tasks();
    let ran = |ending| tasks.iter().any(|task| task.ending() == ending);
    let not_run = |ending| {
        timeline
            .not_run()
            .iter()
            .any(|task| task.ending() == ending)
    };
    let entries = [
        (true, "a", "task (two colours, to distinguish neighbours)"),
        (true, "many", "short tasks, merged"),
        (ran(TaskEnding::Failed), "failed", "failed"),
        (
            ran(TaskEnding::Cancelled),
            "cancelled",
            "started, then cancelled",
        ),
        (
            tasks.iter().any(|task| !task.waits().is_empty()),
            "wait",
            "waiting, not busy",
        ),
        (
            tasks.iter().any(|task| task.completed() > task.end()),
            "suspended",
            "not done, on no worker",
        ),
        (
            tasks.iter().any(|task| !task.delay().is_zero()),
            "ready",
            "ready, not started",
        ),
        (
            not_run(TaskEnding::Skipped) || not_run(TaskEnding::Cancelled),
            "unrun",
            "did not run",
        ),
    ];
    let mut x = RIGHT;
    for (_, class, text) in entries.iter().filter(|(occurs, ..)| *occurs) {
        if *class == "a" {
            svg.line(format_args!(
                "<rect class=\"b\" x=\"{:.1}\" y=\"43\" width=\"9\" height=\"9\"/>",
                x + 11.0
            ));
        }
        svg.line(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"43\" width=\"9\" height=\"9\"/>"
        ));
        let left = x + if *class == "a" { 25.0 } else { 14.0 };
        svg.line(format_args!(
            "<text class=\"dim\" x=\"{left:.1}\" y=\"52\">{text}</text>"
        ));
        x = left + text.chars().count() as f64 * LETTER_WIDTH * 0.92 + 18.0;
    }
}

/// The tasks that did not run, in rows.
pub(super) struct NotRunRows<'a> {
    rows: Vec<Vec<(&'a NotRun, String)>>,
    /// How many had no room.
    left_out: usize,
}

/// Returns the width of the rectangle with this label.
fn chip_width(label: &str) -> f64 {
    label.chars().count() as f64 * LETTER_WIDTH + 10.0
}

impl<'a> NotRunRows<'a> {
    pub(super) fn new(timeline: &'a Timeline) -> Self {
        // The text about what was left out needs room in the last row.
        let room = WIDTH - LEFT - RIGHT;
        let mut rows: Vec<Vec<_>> = Vec::new();
        let (mut used, mut left_out) = (room, 0);
        for task in timeline.not_run() {
            let label = shortened(task.name(), MAX_NAME);
            let label = match task.ending() {
                TaskEnding::Failed => format!("× {label}"),
                _ => label,
            };
            let width = chip_width(&label) + 6.0;
            let keep = if rows.len() == MAX_ROWS { 90.0 } else { 0.0 };
            if left_out > 0 || rows.len() == MAX_ROWS && used + width > room - keep {
                left_out += 1;
                continue;
            }
            if used + width > room {
                rows.push(Vec::new());
                used = 0.0;
            }
            used += width;
            if let Some(row) = rows.last_mut() {
                row.push((task, label));
            }
        }
        Self { rows, left_out }
    }

    pub(super) fn height(&self) -> f64 {
        match self.rows.len() {
            0 => 0.0,
            rows => rows as f64 * ROW + 8.0,
        }
    }

    pub(super) fn draw(&self, svg: &mut Svg, top: f64) {
        let Some(last) = self.rows.len().checked_sub(1) else {
            return;
        };
        svg.line(format_args!(
            "<text class=\"ink\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">did not run</text>",
            LEFT - 8.0,
            top + 12.0
        ));
        for (number, row) in self.rows.iter().enumerate() {
            let (mut x, y) = (LEFT, top + ROW * number as f64);
            for (task, label) in row {
                let width = chip_width(label);
                let (class, ink) = match task.ending() {
                    TaskEnding::Failed => ("failed", "light"),
                    _ => ("unrun", "dim"),
                };
                svg.line(format_args!(
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{CHIP}\" rx=\"2\">\
                     <title>{}\n{}</title></rect>\
                     <text class=\"{ink}\" x=\"{:.1}\" y=\"{:.1}\" pointer-events=\"none\">{}</text>",
                    Escaped(task.name()),
                    task.ending(),
                    x + 5.0,
                    y + 12.0,
                    Escaped(label)
                ));
                x += width + 6.0;
            }
            if number == last && self.left_out > 0 {
                svg.line(format_args!(
                    "<text class=\"dim\" x=\"{x:.1}\" y=\"{:.1}\">… {} more</text>",
                    y + 12.0,
                    self.left_out
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_tasks_that_did_not_run_are_counted() {
        let unrun = |n| NotRun::new(n, format!("object {n}"), TaskEnding::Skipped);
        let timeline = Timeline::new(1, [], []).with_not_run((1..=5_000).map(unrun));
        let rows = NotRunRows::new(&timeline);
        assert_eq!(rows.rows.len(), MAX_ROWS);
        let shown: usize = rows.rows.iter().map(Vec::len).sum();
        assert_eq!(shown + rows.left_out, 5_000);
        assert_eq!(NotRunRows::new(&Timeline::new(1, [], [])).height(), 0.0);
    }
}
