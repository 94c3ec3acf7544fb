//! Tables for people, JSON lines for programs.

use crate::{
    harness::{Case, Row, Unit},
    pin::Placement,
};
use std::io::Write;

/// The system that all others are compared with.
const REFERENCE: &str = "filch";

/// Prints the results of one suite as they come.
pub(crate) struct Report<W> {
    out: W,
    suite: &'static str,
    json: bool,
}

impl<W: Write> Report<W> {
    pub(crate) fn new(out: W, suite: &'static str, json: bool) -> Self {
        Self { out, suite, json }
    }

    /// Says what is about to come. With `--json` there is nothing to say: every line has it.
    pub(crate) fn begin(&mut self) {
        if !self.json {
            self.line(&format!("suite {}", self.suite));
        }
    }

    /// Prints one case.
    pub(crate) fn case(&mut self, case: &Case, rows: &[Row]) {
        if self.json {
            for row in rows {
                let line = json(self.suite, case, row);
                self.line(&line);
            }
        } else {
            let table = table(self.suite, case, rows);
            self.line(&table);
        }
    }

    fn line(&mut self, text: &str) {
        // Whoever reads us may have gone (`| head`); then there is nobody to tell.
        if writeln!(self.out, "{text}")
            .and_then(|()| self.out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }
}

/// One object. All names are plain words, so nothing needs escaping.
fn json(suite: &str, case: &Case, row: &Row) -> String {
    let summary = &row.summary;
    let mut line = format!(
        "{{\"suite\":\"{suite}\",\"case\":\"{}\",\"system\":\"{}\",\"workers\":{},\
         \"ns_per_op\":{:.4},\"samples\":{},\"spread\":{:.4},\"pinned\":{}",
        case.name(),
        row.system,
        case.workers(),
        summary.median,
        summary.samples,
        summary.spread,
        case.placed() == Placement::Pinned && Placement::works(),
    );
    if let Some(p99) = summary.p99 {
        line += &format!(",\"p99\":{p99:.4}");
    }
    if let Some(allocs) = row.allocs_per_op {
        line += &format!(",\"allocs_per_op\":{allocs:.6}");
    }
    line + "}"
}

fn table(suite: &str, case: &Case, rows: &[Row]) -> String {
    let (head, scale) = match case.shown_in() {
        Unit::NanosPerOp => ("median ns/op", 1.0),
        Unit::Millis => ("median ms", 1e-6),
    };
    let p99 = rows.iter().any(|row| row.summary.p99.is_some());
    let allocs = rows.iter().any(|row| row.allocs_per_op.is_some());
    let workers = match case.workers() {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    let mut table = format!(
        "\n{suite} / {}, {workers}; {}\n{:<14} {:>7} {:>14} {:>8} {:>7}",
        case.name(),
        case.placed().describe(),
        "system",
        "workers",
        head,
        "spread",
        "ratio",
    );
    if p99 {
        table += &format!(" {:>14}", "p99");
    }
    if allocs {
        table += &format!(" {:>10}", "allocs/op");
    }
    let reference = rows.iter().find(|row| row.system == REFERENCE);
    for row in rows {
        let ratio = match reference {
            Some(reference) if reference.summary.median > 0.0 => {
                format!("{:.2}", row.summary.median / reference.summary.median)
            }
            _ => "-".to_owned(),
        };
        table += &format!(
            "\n{:<14} {:>7} {:>14} {:>7.1}% {ratio:>7}",
            row.system,
            case.workers(),
            number(row.summary.median * scale),
            row.summary.spread * 100.0,
        );
        if p99 {
            let p99 = row
                .summary
                .p99
                .map_or("-".to_owned(), |p99| number(p99 * scale));
            table += &format!(" {p99:>14}");
        }
        if let Some(allocs) = row.allocs_per_op {
            table += &format!(" {allocs:>10.4}");
        }
    }
    table
}

/// Two digits after the point while they can mean something, none when they cannot.
fn number(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, json, table};
    use crate::{
        harness::{Case, Config},
        stopwatch::Sample,
    };
    use std::time::Duration;

    fn case() -> Case {
        Case::new("demo", 2, &Config::default())
            .rounds(1, 2)
            .system("filch", || Sample::new(Duration::from_nanos(20), 10))
            .system("rayon", || Sample::new(Duration::from_nanos(50), 10))
    }

    #[test]
    fn a_line_has_all_keys() {
        let mut case = case();
        let rows = case.run();
        let line = json("queue", &case, &rows[1]);
        for part in [
            "\"suite\":\"queue\"",
            "\"case\":\"demo\"",
            "\"system\":\"rayon\"",
            "\"workers\":2",
            "\"ns_per_op\":5.0000",
            "\"samples\":2",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_table_compares_with_filch() {
        let mut case = case();
        let rows = case.run();
        let table = table("queue", &case, &rows);
        assert!(table.lines().last().unwrap().contains("2.50"), "{table}");
        let mut out = Vec::new();
        Report::new(&mut out, "queue", false).case(&case, &rows);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{table}\n"));
    }
}
