//! Draws a timeline as SVG.

mod legend;
mod ready;
mod tasks;
mod text;

use filch::graph::{TaskTime, Timeline};
use legend::NotRunRows;
use ready::ReadyCurve;
use std::{
    fmt::{self, Write},
    time::Duration,
};
pub(crate) use text::Escaped;
use text::step;

/// All sizes are in pixels. This is the whole width; the next four are margins.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 20.0;
/// The height of a lane.
const LANE_HEIGHT: f64 = 34.0;
/// The average width of a letter.
const LETTER_WIDTH: f64 = 6.7;

/// Draws a timeline as SVG: a lane for each worker, a rectangle for each task, the critical path in
/// another colour, and a legend. Rectangles show their name and times as tooltips.
///
/// - Tasks that failed are red, and those that were cancelled after they had started are grey. The
///   tasks that did not run are listed below the lanes.
/// - [Declared waits](filch::graph::waiting()) are hatched: the worker was not busy. A task that is
///   done later than its closure returns (a future, a module) has a thin line until then.
/// - A chart shows how many tasks were ready and had not started. The tooltip of a task has its own
///   delay, and dashed lines show the delays on the critical path.
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
    let (ready, not_run) = (ReadyCurve::new(timeline), NotRunRows::new(timeline));
    let lanes_end = TOP + LANE_HEIGHT * workers.len() as f64;
    let (ready_top, chart_end) = (lanes_end + 8.0, lanes_end + ready.height());
    let height = chart_end + not_run.height() + BOTTOM;
    let mut svg = Svg {
        text: String::new(),
        labels: String::new(),
        scale: (WIDTH - LEFT - RIGHT) / timeline.wall().as_secs_f64().max(1e-9),
    };
    svg.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">"
    ));
    svg.line(format_args!("{STYLE}"));
    svg.line(format_args!("{HATCH}"));
    svg.line(format_args!(
        "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"
    ));
    legend::head(&mut svg, timeline);
    legend::legend(&mut svg, timeline);
    let lanes = || {
        (0..)
            .zip(&workers)
            .map(|(lane, worker)| (*worker, TOP + LANE_HEIGHT * f64::from(lane)))
    };
    lanes().for_each(|(worker, top)| svg.lane(timeline, worker, top));
    ready.draw(&mut svg, ready_top);
    svg.axis(timeline.wall(), chart_end);
    lanes().for_each(|(worker, top)| svg.tasks(timeline, worker, top));
    svg.path(timeline, &workers);
    let labels = std::mem::take(&mut svg.labels);
    svg.text.push_str(&labels);
    not_run.draw(&mut svg, chart_end + 8.0);
    svg.text.push_str("</svg>\n");
    svg.text
}

const STYLE: &str = "<style>\
    .paper{fill:#fff}.lane,.back{fill:#f4f5f7}.tick{stroke:#dcdfe4}.dim{fill:#667}.ink{fill:#223}.light{fill:#fff}\
    .a{fill:#a9c7e8;stroke:#6f97c4}.b{fill:#bcd9c0;stroke:#7fae86}.many{fill:#c9cdd6;stroke:#9aa1af}\
    .critical{fill:#f6b26b;stroke:#c2410c}.link{fill:none;stroke:#c2410c;stroke-width:1.5;stroke-dasharray:4 2;opacity:.8}\
    .failed{fill:#c62828;stroke:#7f1d1d}.cancelled{fill:#e3e5ea;stroke:#778;stroke-dasharray:3 2}\
    .unrun{fill:#fff;stroke:#99a;stroke-dasharray:3 2}.wait{fill:url(#hatch);stroke:#99a;stroke-width:.4}\
    .suspended{fill:#8b7fd0}.ready{fill:#d8c9ee;stroke:#8e6bbf;stroke-width:.6}\
    .halo{fill:#223;paint-order:stroke;stroke:#fff;stroke-width:3;stroke-opacity:.85;stroke-linejoin:round}\
    </style>";

/// The pattern of waits.
const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#fff\" opacity=\"0.75\"/>\
    <rect width=\"1\" height=\"5\" fill=\"#aab\"/></pattern></defs>";

struct Svg {
    text: String,
    /// The names of tasks, which are drawn over everything else.
    labels: String,
    /// Pixels per second.
    scale: f64,
}

impl Svg {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }

    fn x(&self, time: Duration) -> f64 {
        LEFT + time.as_secs_f64() * self.scale
    }

    fn axis(&mut self, wall: Duration, bottom: f64) {
        let step = step(wall);
        let mut time = Duration::ZERO;
        while time <= wall {
            let x = self.x(time);
            self.line(format_args!(
                "<line class=\"tick\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\"/>\
                 <text class=\"dim\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{time:?}</text>",
                TOP - 8.0,
                bottom,
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
}
