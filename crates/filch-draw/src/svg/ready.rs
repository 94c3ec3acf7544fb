//! The chart below the lanes: how many tasks were ready and had not started.

use super::{LEFT, RIGHT, Svg, WIDTH};
use filch::graph::Timeline;
use std::time::Duration;

/// The height of the chart.
const HEIGHT: f64 = 40.0;

/// Steps of the curve that are closer than this are drawn as one, with the larger number.
const MIN_STEP: f64 = 0.5;

/// How many tasks were ready and had not started, from each time on.
pub(super) struct ReadyCurve {
    steps: Vec<(Duration, usize)>,
    most: usize,
}

impl ReadyCurve {
    pub(super) fn new(timeline: &Timeline) -> Self {
        let tasks = timeline.tasks().iter();
        let waiting = tasks.filter(|task| !task.delay().is_zero());
        let mut changes: Vec<_> = waiting
            .flat_map(|task| [(task.ready(), 1_i64), (task.start(), -1)])
            .collect();
        changes.sort_unstable();
        let (mut steps, mut now): (Vec<(Duration, usize)>, i64) = (Vec::new(), 0);
        for (when, change) in changes {
            now += change;
            match steps.last_mut() {
                Some((last, number)) if *last == when => *number = now.max(0) as usize,
                _ => steps.push((when, now.max(0) as usize)),
            }
        }
        let most = steps.iter().map(|&(_, number)| number).max().unwrap_or(0);
        Self { steps, most }
    }

    /// Returns the height of the chart; zero if no task had to wait.
    pub(super) fn height(&self) -> f64 {
        if self.most == 0 { 0.0 } else { HEIGHT + 8.0 }
    }

    pub(super) fn draw(&self, svg: &mut Svg, top: f64) {
        if self.most == 0 {
            return;
        }
        let (bottom, width) = (top + HEIGHT, WIDTH - LEFT - RIGHT);
        let middle = top + HEIGHT / 2.0;
        svg.line(format_args!(
            "<rect class=\"back\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width}\" height=\"{HEIGHT}\"/>\
             <text class=\"ink\" x=\"{0}\" y=\"{middle:.1}\" text-anchor=\"end\">ready</text>\
             <text class=\"dim\" x=\"{0}\" y=\"{1:.1}\" text-anchor=\"end\" font-size=\"9\">at most {2}</text>",
            LEFT - 8.0,
            middle + 11.0,
            self.most
        ));
        let y = |number: usize| bottom - number as f64 / self.most as f64 * (HEIGHT - 4.0);
        let mut path = format!("M{LEFT:.1} {bottom:.1}");
        let mut at = (LEFT, 0);
        for &(when, number) in &self.steps {
            let x = svg.x(when);
            if x - at.0 < MIN_STEP && number <= at.1 && number > 0 {
                continue;
            }
            path += &format!("L{x:.1} {:.1}L{x:.1} {:.1}", y(at.1), y(number));
            at = (x, number);
        }
        path += &format!("L{:.1} {bottom:.1}Z", at.0);
        svg.line(format_args!(
            "<path class=\"ready\" d=\"{path}\">\
             <title>tasks that were ready and had not started</title></path>"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filch::graph::TaskTime;

    #[test]
    fn the_curve_counts_tasks_between_ready_and_start() {
        let at = Duration::from_millis;
        let task = |number, ready, start, end| {
            TaskTime::new(number, "", 0, at(start)..at(end)).with_ready(at(ready))
        };
        let tasks = [task(1, 0, 0, 2), task(2, 0, 2, 4), task(3, 1, 4, 5)];
        let curve = ReadyCurve::new(&Timeline::new(1, tasks, []));
        assert_eq!(
            curve.steps,
            [(at(0), 1), (at(1), 2), (at(2), 1), (at(4), 0)]
        );
        assert_eq!(curve.most, 2);
    }
}
