//! Draws a timeline as SVG.

use filch::graph::{TaskTime, Timeline};
use std::{
    fmt::{self, Write},
    time::Duration,
};

/// All sizes are in pixels. This is the whole width; the next four are margins.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 20.0;
/// The height of a lane, and of the rectangle of a task in it.
const LANE_HEIGHT: f64 = 34.0;
const TASK_HEIGHT: f64 = 26.0;
/// How much smaller a rectangle is for each level of nesting.
const NESTED_SHRINK: f64 = 5.0;
/// The average width of a letter.
const LETTER_WIDTH: f64 = 6.3;
/// Minimum width of a rectangle. Narrower ones are merged with their neighbours: they would be
/// invisible, and there may be a million.
const MIN_WIDTH: f64 = 0.4;

/// Draws a timeline as SVG: a lane for each worker, a rectangle for each task, the critical path in
/// another colour. Rectangles show their name and times as tooltips.
///
/// ```
/// let graph = filch::Graph::new();
/// graph.linearize([graph.task("first", || ()), graph.task("second", || ())]);
/// let mut plan = graph.plan()?;
/// plan.record(true);
/// plan.run()?;
/// let picture = filch_draw::svg(&plan.timeline());
/// assert!(picture.starts_with("<svg") && picture.contains("first"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn svg(timeline: &Timeline) -> String {
    let workers = timeline.workers();
    let height = TOP + LANE_HEIGHT * workers.len() as f64 + BOTTOM;
    let mut svg = Svg {
        text: String::new(),
        scale: (WIDTH - LEFT - RIGHT) / timeline.wall().as_secs_f64().max(1e-9),
    };
    svg.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">"
    ));
    svg.line(format_args!("{STYLE}"));
    svg.line(format_args!(
        "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"
    ));
    svg.head(timeline);
    let lanes = || {
        (0..)
            .zip(&workers)
            .map(|(lane, worker)| (*worker, TOP + LANE_HEIGHT * f64::from(lane)))
    };
    lanes().for_each(|(worker, top)| svg.lane(timeline, worker, top));
    svg.axis(timeline.wall(), height);
    lanes().for_each(|(worker, top)| svg.tasks(timeline, worker, top));
    svg.path(timeline, &workers);
    svg.text.push_str("</svg>\n");
    svg.text
}

const STYLE: &str = "<style>\
    .paper{fill:#fff}.lane{fill:#f4f5f7}.tick{stroke:#dcdfe4}.dim{fill:#667}.ink{fill:#223}\
    .a{fill:#a9c7e8;stroke:#6f97c4}.b{fill:#bcd9c0;stroke:#7fae86}.many{fill:#c9cdd6;stroke:#9aa1af}\
    .critical{fill:#f6b26b;stroke:#c2410c}.link{fill:none;stroke:#c2410c;stroke-width:1.5;stroke-dasharray:4 2}\
    </style>";

struct Svg {
    text: String,
    /// Pixels per second.
    scale: f64,
}

/// Rectangles of a lane that are too narrow to be drawn one by one.
struct MergedTasks {
    from: Duration,
    to: Duration,
    tasks: usize,
    work: Duration,
}

impl Svg {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }

    fn x(&self, time: Duration) -> f64 {
        LEFT + time.as_secs_f64() * self.scale
    }

    fn head(&mut self, timeline: &Timeline) {
        let summary = timeline.to_string();
        let (first, second) = summary.split_once('\n').unwrap_or((&summary, ""));
        // Only as much of it as fits.
        let second = shortened(second, ((WIDTH - 2.0 * RIGHT) / LETTER_WIDTH) as usize);
        self.line(format_args!(
            "<text class=\"ink\" x=\"{RIGHT}\" y=\"18\" font-size=\"13\">{}</text>",
            Escaped(first)
        ));
        self.line(format_args!(
            "<rect class=\"critical\" x=\"{RIGHT}\" y=\"26\" width=\"9\" height=\"9\"/>\
             <text class=\"dim\" x=\"{}\" y=\"35\">{}</text>",
            RIGHT + 14.0,
            Escaped(&second)
        ));
    }

    fn axis(&mut self, wall: Duration, height: f64) {
        let step = step(wall);
        let mut time = Duration::ZERO;
        while time <= wall {
            let x = self.x(time);
            self.line(format_args!(
                "<line class=\"tick\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\"/>\
                 <text class=\"dim\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{time:?}</text>",
                TOP - 8.0,
                height - BOTTOM,
                TOP - 12.0,
            ));
            if step.is_zero() {
                return;
            }
            time += step;
        }
    }

    fn lane(&mut self, timeline: &Timeline, worker: usize, top: f64) {
        let share = timeline.busy(worker).as_secs_f64() / timeline.wall().as_secs_f64().max(1e-12);
        let middle = top + LANE_HEIGHT / 2.0;
        self.line(format_args!(
            "<rect class=\"lane\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{}\" height=\"{}\"/>\
             <text class=\"ink\" x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\
             <text class=\"dim\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"9\">{:.0} % busy</text>",
            top + 1.0,
            WIDTH - LEFT - RIGHT,
            LANE_HEIGHT - 2.0,
            LEFT - 8.0,
            lane_name(timeline, worker),
            LEFT - 8.0,
            middle + 11.0,
            share * 100.0
        ));
    }

    fn tasks(&mut self, timeline: &Timeline, worker: usize, top: f64) {
        let mut merged: Option<MergedTasks> = None;
        // The ends of the tasks that contain the current one.
        let mut around: Vec<Duration> = Vec::new();
        for task in timeline
            .tasks()
            .iter()
            .filter(|task| task.worker() == worker)
        {
            while around.last().is_some_and(|end| *end <= task.start()) {
                around.pop();
            }
            let depth = around.len();
            around.push(task.end());
            let thin = task.duration().as_secs_f64() * self.scale < MIN_WIDTH;
            if thin && !task.is_critical() {
                self.merge(&mut merged, task, top);
                continue;
            }
            self.draw_merged(merged.take(), top);
            self.task(task, top, depth);
        }
        self.draw_merged(merged, top);
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
        let width = (task.duration().as_secs_f64() * self.scale).max(MIN_WIDTH);
        let class = match (task.is_critical(), task.index() % 2) {
            (true, _) => "critical",
            (false, 0) => "a",
            (false, _) => "b",
        };
        let stroke = if width < 3.0 { 0.3 } else { 1.0 };
        self.line(format_args!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{:.1}\" rx=\"{}\" \
             stroke-width=\"{stroke}\"><title>{}\n{:.1?}, from {:.1?} on{}</title></rect>",
            TASK_HEIGHT - 2.0 * inset,
            if width < 8.0 { 0 } else { 2 },
            Escaped(task.name()),
            task.duration(),
            task.start(),
            if task.is_critical() {
                ", on the critical path"
            } else {
                ""
            },
        ));
        let room = ((width - 6.0) / LETTER_WIDTH).max(0.0) as usize;
        if room >= 3 {
            let mut label = shortened(task.name(), room);
            let time = format!(" {:.0?}", task.duration());
            if label.chars().count() + time.chars().count() <= room {
                label += &time;
            }
            self.line(format_args!(
                "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" pointer-events=\"none\">{}</text>",
                x + 4.0,
                top + LANE_HEIGHT / 2.0 + 4.0,
                Escaped(&label)
            ));
        }
    }

    /// Connects the rectangles of the critical path.
    fn path(&mut self, timeline: &Timeline, workers: &[usize]) {
        let middle = |task: &TaskTime| {
            let lane = workers.binary_search(&task.worker()).unwrap_or(0);
            TOP + LANE_HEIGHT * lane as f64 + LANE_HEIGHT / 2.0
        };
        let mut from: Option<(f64, f64)> = None;
        for task in timeline.critical_path() {
            let (start, end, y) = (self.x(task.start()), self.x(task.end()), middle(task));
            if let Some((x, before)) = from
                && (start - x >= 1.0 || (before - y).abs() >= 1.0)
            {
                self.line(format_args!(
                    "<path class=\"link\" d=\"M{x:.1} {before:.1}L{start:.1} {y:.1}\"/>"
                ));
            }
            from = Some((end, y));
        }
    }
}

/// Returns the display name of a worker.
fn lane_name(timeline: &Timeline, worker: usize) -> String {
    match worker.checked_sub(timeline.threads()) {
        None => format!("worker {worker}"),
        Some(caller) => format!("caller {caller}"),
    }
}

/// Returns the distance between two ticks of the axis: about ten of them, at round times.
fn step(wall: Duration) -> Duration {
    let wanted = wall.as_nanos() / 10;
    let mut step = 1_u128;
    while step < wanted {
        let leading = step / 10_u128.pow(step.ilog10());
        // 1, 2, 5, 10, …
        step = if leading == 2 { step / 2 * 5 } else { step * 2 };
    }
    if wall.is_zero() {
        return Duration::ZERO;
    }
    Duration::from_nanos(u64::try_from(step).unwrap_or(u64::MAX))
}

/// Returns `text`, cut to at most `most` characters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Writes text escaped for XML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // Characters that XML cannot represent.
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                other if other.is_control() => f.write_char(' ')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of a task, in milliseconds.
    fn task(number: u32, worker: usize, start: u64, end: u64) -> TaskTime {
        let at = Duration::from_millis;
        TaskTime::new(number, format!("task {number}"), worker, at(start)..at(end))
    }

    #[test]
    fn an_empty_timeline_can_be_drawn() {
        let nothing = Timeline::new(0, [], [(1, 2)]);
        assert!(svg(&nothing).ends_with("</svg>\n"));
    }

    #[test]
    fn calling_threads_have_lanes_of_their_own() {
        let timeline = Timeline::new(2, [task(1, 1, 0, 3), task(2, 2, 1, 2)], []);
        assert_eq!(lane_name(&timeline, 1), "worker 1");
        assert_eq!(lane_name(&timeline, 2), "caller 0");
        assert_eq!(svg(&timeline).matches("class=\"lane\"").count(), 2);
    }

    #[test]
    fn narrow_rectangles_are_merged() {
        let tasks = (0..20_000).map(|n| task(n + 1, 0, u64::from(n), u64::from(n) + 1));
        let picture = svg(&Timeline::new(1, tasks, []));
        assert!(picture.len() < 20_000, "{} bytes", picture.len());
        assert!(picture.contains("short tasks"));
    }

    #[test]
    fn the_axis_has_round_marks() {
        let step = |micros| step(Duration::from_micros(micros));
        assert_eq!(step(0), Duration::ZERO);
        assert_eq!(step(10), Duration::from_micros(1));
        assert_eq!(step(11), Duration::from_micros(2));
        assert_eq!(step(35), Duration::from_micros(5));
        assert_eq!(step(9_000), Duration::from_millis(1));
        assert_eq!(step(12_345_678), Duration::from_secs(2));
    }

    #[test]
    fn names_are_text_and_nothing_else() {
        let text = Escaped("<a href=\"b\">&\u{0}\u{1b}é").to_string();
        assert_eq!(text, "&lt;a href=&quot;b&quot;&gt;&amp;  é");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
