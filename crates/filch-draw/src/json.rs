//! Exports a timeline as JSON.

use filch::graph::Timeline;
use std::{
    fmt::{self, Write},
    time::Duration,
};

/// Returns a timeline as JSON, for other programs. All times are whole nanoseconds since the start
/// of the first task.
///
/// ```json
/// {
///   "version": 1,               // of this shape; members may be added to it
///   "threads": 2,               // of the pool; workers with larger numbers are calling threads
///   "wall_ns": 9000000,         // from the first start to the last end
///   "work_ns": 7000000,         // how long the workers were busy, together
///   "critical_ns": 9000000,     // how long the tasks of the critical path took
///   "tasks": [                  // what ran, sorted by start
///     {
///       "task": 2,              // the number of the task in its graph, from 1
///       "name": "parse",
///       "run": 0,               // the number of the run, from 0
///       "worker": 1,
///       "ready_ns": 2000000,    // when the task could have started
///       "start_ns": 2500000,
///       "end_ns": 9000000,      // when its closure returned
///       "completed_ns": 9000000, // when it was done; later than the end for futures and modules
///       "ending": "done",       // or "failed", "cancelled"
///       "critical": true,       // whether it is on the critical path
///       "waits_ns": [[3000000, 5000000]] // declared waits: start and end of each
///     }
///   ],
///   "not_run": [                // what did not run in a run that failed or was cancelled
///     { "task": 3, "name": "link", "run": 0, "ending": "skipped" } // or "cancelled", "failed"
///   ]
/// }
/// ```
///
/// (JSON has no comments; the text that this returns has none.)
///
/// ```
/// let graph = filch::Graph::new();
/// graph.task("work", || ());
/// let mut plan = graph.plan()?;
/// plan.record(true);
/// plan.run()?;
/// let json = filch_draw::json(&plan.timeline());
/// assert!(json.starts_with("{\"version\":1,") && json.contains("\"name\":\"work\""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn json(timeline: &Timeline) -> String {
    let mut text = String::new();
    let _ = write_json(&mut text, timeline);
    text
}

fn write_json(to: &mut String, timeline: &Timeline) -> fmt::Result {
    write!(
        to,
        "{{\"version\":1,\"threads\":{},\"wall_ns\":{},\"work_ns\":{},\"critical_ns\":{},\"tasks\":[",
        timeline.threads(),
        Nanos(timeline.wall()),
        Nanos(timeline.work()),
        Nanos(timeline.critical_time()),
    )?;
    for (number, task) in timeline.tasks().iter().enumerate() {
        write!(
            to,
            "{}\n{{\"task\":{},\"name\":{},\"run\":{},\"worker\":{},\"ready_ns\":{},\"start_ns\":{},\
             \"end_ns\":{},\"completed_ns\":{},\"ending\":\"{}\",\"critical\":{},\"waits_ns\":[",
            if number > 0 { "," } else { "" },
            task.index(),
            Quoted(task.name()),
            task.run(),
            task.worker(),
            Nanos(task.ready()),
            Nanos(task.start()),
            Nanos(task.end()),
            Nanos(task.completed()),
            task.ending(),
            task.is_critical(),
        )?;
        for (number, wait) in task.waits().iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(to, "{comma}[{},{}]", Nanos(wait.start), Nanos(wait.end))?;
        }
        to.push_str("]}");
    }
    to.push_str("],\"not_run\":[");
    for (number, task) in timeline.not_run().iter().enumerate() {
        write!(
            to,
            "{}\n{{\"task\":{},\"name\":{},\"run\":{},\"ending\":\"{}\"}}",
            if number > 0 { "," } else { "" },
            task.index(),
            Quoted(task.name()),
            task.run(),
            task.ending(),
        )?;
    }
    to.push_str("]}\n");
    Ok(())
}

/// Writes a time in nanoseconds.
struct Nanos(Duration);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_nanos())
    }
}

/// Writes a string of JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                control if (control as u32) < 0x20 => write!(f, "\\u{:04x}", control as u32)?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}
