//! Output as tables or as JSON lines.

use crate::{
    driver,
    harness::{Case, Row, ToSeq, Unit},
};
use std::{collections::HashMap, io::Write};

/// The system that all others are compared with.
const REFERENCE: &str = "filch";

/// The system without a scheduler.
const BASE: &str = "seq";

/// The system that only runs the jobs, without timers beside them.
const WORKHORSE: &str = "rayon";

/// The system whose workers share one queue, a traditional pool without stealing.
const SHARED: &str = "single-queue";

/// Prints the results of one suite, case by case.
pub(crate) struct Report<W> {
    out: W,
    suite: &'static str,
    json: bool,
    /// The medians with one worker, by case and system.
    alone: HashMap<(&'static str, &'static str), f64>,
}

impl<W: Write> Report<W> {
    pub(crate) fn new(out: W, suite: &'static str, json: bool) -> Self {
        Self {
            out,
            suite,
            json,
            alone: HashMap::new(),
        }
    }

    /// Prints the heading. With `--json` there is none, since every line names the suite.
    pub(crate) fn begin(&mut self) {
        if !self.json {
            self.line(&format!("suite {}", self.suite));
        }
    }

    /// Prints one case.
    pub(crate) fn case(&mut self, case: &Case, rows: &[Row]) {
        let lines = self.lines(case, rows);
        if self.json {
            for line in &lines {
                let line = json(self.suite, case, line);
                self.line(&line);
            }
        } else {
            let table = table(self.suite, case, &lines);
            self.line(&table);
        }
    }

    /// Compares the rows with each other and with those of earlier cases.
    fn lines<'r>(&mut self, case: &Case, rows: &'r [Row]) -> Vec<Line<'r>> {
        let median = |system| {
            let row = rows.iter().find(|row| row.system == system)?;
            Some(row.summary.median)
        };
        let sequential = median(BASE);
        let base = sequential.filter(|_| case.is_over_seq());
        let reference = median(REFERENCE);
        let shared = median(SHARED);
        let horse = rows.iter().find(|row| row.system == WORKHORSE);
        let horse = horse.and_then(|row| row.cores);
        let lines = rows.iter().map(|row| {
            let own = row.summary.median;
            let key = (case.name(), row.system);
            if case.workers() == 1 {
                self.alone.insert(key, own);
            }
            let alone = self.alone.get(&key).filter(|_| case.workers() > 1);
            let overhead = base.filter(|_| row.system != BASE).map(|base| own - base);
            Line {
                row,
                ratio: reference.and_then(|reference| ratio(own, reference)),
                speed_up: alone.and_then(|&alone| ratio(alone, own)),
                overhead,
                overhead_ratio: overhead.and_then(|own| ratio(own, reference? - base?)),
                to_shared: shared.and_then(|shared| ratio(own, shared)),
                to_horse: row.cores.and_then(|own| ratio(own, horse?)),
                to_own_core: driver::on_own_core(row.system)
                    .and_then(|system| ratio(own, median(system)?)),
                to_seq: sequential.and_then(|base| match case.compared_to_seq()? {
                    ToSeq::Time => ratio(own, base),
                    ToSeq::Speed => ratio(base, own),
                }),
            }
        });
        lines.collect()
    }

    fn line(&mut self, text: &str) {
        // The reader may have closed the pipe (`| head`); then there is nothing to report to.
        if writeln!(self.out, "{text}")
            .and_then(|()| self.out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }
}

/// A row and its comparisons.
struct Line<'r> {
    row: &'r Row,
    /// Relative to [`REFERENCE`].
    ratio: Option<f64>,
    /// The speed relative to one worker.
    speed_up: Option<f64>,
    /// The time in excess of [`BASE`].
    overhead: Option<f64>,
    /// The overhead divided by that of [`REFERENCE`].
    overhead_ratio: Option<f64>,
    /// Relative to [`SHARED`].
    to_shared: Option<f64>,
    /// Relative to [`BASE`], if the case requests it.
    to_seq: Option<f64>,
    /// Useful cores, relative to those of [`WORKHORSE`].
    to_horse: Option<f64>,
    /// The time on filch's workers divided by that of the same system on rayon's.
    to_own_core: Option<f64>,
}

/// Returns `a / b`, if it is defined.
fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0 && !a.is_nan()).then_some(a / b)
}

/// One JSON object. All names are plain words, so nothing needs escaping.
fn json(suite: &str, case: &Case, line: &Line<'_>) -> String {
    let Line {
        row,
        speed_up,
        overhead,
        to_shared,
        to_seq,
        to_horse,
        to_own_core,
        ..
    } = line;
    let summary = &row.summary;
    let mut line = format!(
        "{{\"suite\":\"{suite}\",\"case\":\"{}\",\"system\":\"{}\",\"workers\":{},\
         \"samples\":{},\"spread\":{:.4},\"pinned\":{}",
        case.name(),
        row.system,
        case.workers(),
        summary.samples,
        summary.spread,
        case.placed().is_pinned(),
    );
    if summary.samples > 0 {
        line += &format!(",\"ns_per_op\":{:.4}", summary.median);
    }
    if let Some(max) = row.max {
        line += &format!(",\"max\":{max:.4}");
    }
    if let Some(cores) = row.cores {
        line += &format!(",\"cores\":{cores:.4}");
    }
    if let Some(per_second) = row.per_second {
        line += &format!(",\"per_second\":{per_second:.1}");
    }
    if let Some(to_horse) = to_horse {
        line += &format!(",\"cores_to_rayon\":{to_horse:.4}");
    }
    if let Some(p90) = summary.p90 {
        line += &format!(",\"p90\":{p90:.4}");
    }
    if let Some(p99) = summary.p99 {
        line += &format!(",\"p99\":{p99:.4}");
    }
    if let Some(allocs) = row.allocs_per_op {
        line += &format!(",\"allocs_per_op\":{allocs:.6}");
    }
    if let Some(bytes) = row.bytes_per_op {
        line += &format!(",\"bytes_per_op\":{bytes:.4}");
    }
    if let Some(speed_up) = speed_up {
        line += &format!(",\"speed_up\":{speed_up:.4}");
    }
    if let Some(overhead) = overhead {
        line += &format!(",\"overhead_ns\":{overhead:.4}");
    }
    if let Some(to_shared) = to_shared {
        line += &format!(",\"to_single_queue\":{to_shared:.4}");
    }
    if let Some((to_seq, how)) = to_seq.zip(case.compared_to_seq()) {
        let key = match how {
            ToSeq::Time => "to_seq",
            ToSeq::Speed => "speed_over_seq",
        };
        line += &format!(",\"{key}\":{to_seq:.4}");
    }
    if let Some(to_own_core) = to_own_core {
        line += &format!(",\"to_rayon\":{to_own_core:.4}");
    }
    if let Some(ideal) = case.ideal_nanos() {
        line += &format!(",\"ideal_ns\":{ideal:.4}");
    }
    line + "}"
}

fn table(suite: &str, case: &Case, lines: &[Line<'_>]) -> String {
    let (unit, scale) = match case.shown_in() {
        Unit::NanosPerOp => ("ns/op", 1.0),
        Unit::Micros => ("us", 1e-3),
        Unit::Millis => ("ms", 1e-6),
    };
    let workers = match case.workers() {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    let mut table = format!(
        "\n{suite} / {}, {workers}; {}",
        case.name(),
        case.placed().describe()
    );
    if let Some(ideal) = case.ideal_nanos() {
        table += &format!("; ideal {} {unit}", number(ideal * scale));
    }
    let p90 = |line: &Line<'_>| line.row.summary.p90.map(|p90| number(p90 * scale));
    let p99 = |line: &Line<'_>| line.row.summary.p99.map(|p99| number(p99 * scale));
    let allocs = |line: &Line<'_>| line.row.allocs_per_op.map(|n| format!("{n:.4}"));
    let bytes = |line: &Line<'_>| line.row.bytes_per_op.map(|n| format!("{n:.1}"));
    let to_seq = match case.compared_to_seq() {
        Some(ToSeq::Speed) => "x seq",
        _ => "to seq",
    };
    let times = |ratio: Option<f64>| ratio.map(|ratio| format!("{ratio:.2}"));
    // Columns without any entry are omitted.
    type Entry<'a> = &'a dyn Fn(&Line<'_>) -> Option<String>;
    let optional: [(&str, usize, Entry<'_>); 14] = [
        ("p90", 10, &p90),
        ("p99", 14, &p99),
        ("max", 10, &|line| {
            line.row.max.map(|max| number(max * scale))
        }),
        ("per second", 10, &|line| line.row.per_second.map(number)),
        ("cores", 6, &|line| times(line.row.cores)),
        ("to rayon", 8, &|line| times(line.to_horse)),
        ("allocs/op", 10, &allocs),
        ("bytes/op", 8, &bytes),
        ("speed-up", 8, &|line| times(line.speed_up)),
        ("overhead", 10, &|line| {
            line.overhead.map(|overhead| number(overhead * scale))
        }),
        ("ratio", 7, &|line| times(line.overhead_ratio)),
        ("to queue", 8, &|line| times(line.to_shared)),
        (to_seq, 7, &|line| times(line.to_seq)),
        ("to rayon", 8, &|line| times(line.to_own_core)),
    ];
    let shown = optional.iter();
    let shown: Vec<_> = shown
        .filter(|(_, _, entry)| lines.iter().any(|line| entry(line).is_some()))
        .collect();
    table += &format!(
        "\n{:<14} {:>7} {:>14} {:>8} {:>7}",
        "system",
        "workers",
        format!("median {unit}"),
        "spread",
        "ratio",
    );
    for (head, width, _) in &shown {
        table += &format!(" {head:>width$}");
    }
    let dash = || "-".to_owned();
    for line in lines {
        table += &format!(
            "\n{:<14} {:>7} {:>14} {:>7.1}% {:>7}",
            line.row.system,
            case.workers(),
            number(line.row.summary.median * scale),
            line.row.summary.spread * 100.0,
            times(line.ratio).unwrap_or_else(dash),
        );
        for (_, width, entry) in &shown {
            table += &format!(" {:>width$}", entry(line).unwrap_or_else(dash));
        }
    }
    table
}

/// Prints two decimals for small numbers and none for large ones; a dash if it is not a number.
fn number(value: f64) -> String {
    if value.is_nan() {
        "-".to_owned()
    } else if value < 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::{
        harness::{Case, Config, Readings, ToSeq},
        stopwatch::Sample,
    };
    use std::time::Duration;

    /// A case with two or three systems.
    fn case(workers: usize, filch: u64, rayon: u64) -> Case {
        let sample = |nanos| move || Sample::new(Duration::from_nanos(nanos), 10);
        Case::new("demo", workers, &Config::default())
            .rounds(1, 2)
            .system("filch", sample(filch))
            .system("rayon", sample(rayon))
    }

    fn reported(json: bool, cases: impl IntoIterator<Item = Case>) -> String {
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, "queue", json);
        for mut case in cases {
            let rows = case.run();
            report.case(&case, &rows);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_all_keys() {
        let lines = reported(true, [case(2, 20, 50)]);
        let line = lines.lines().last().unwrap();
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
        assert!(!line.contains("speed_up"), "{line}");
    }

    #[test]
    fn a_table_compares_with_filch() {
        let table = reported(false, [case(2, 20, 50)]);
        assert!(table.lines().last().unwrap().contains("2.50"), "{table}");
        assert!(!table.contains("speed-up"), "{table}");
    }

    #[test]
    fn more_workers_are_compared_with_one() {
        let cases = || [case(1, 40, 50), case(2, 20, 80)];
        let lines = reported(true, cases());
        assert!(
            lines
                .lines()
                .nth(2)
                .unwrap()
                .contains("\"speed_up\":2.0000")
        );
        assert!(
            lines
                .lines()
                .nth(3)
                .unwrap()
                .contains("\"speed_up\":0.6250")
        );
        let table = reported(false, cases());
        assert!(table.lines().last().unwrap().ends_with("0.62"), "{table}");
    }

    #[test]
    fn what_comes_on_top_of_seq_is_shown_where_it_is_asked_for() {
        let case = || case(1, 40, 70).system("seq", || Sample::new(Duration::from_nanos(30), 10));
        let line = |json, case| {
            reported(json, [case])
                .lines()
                .rev()
                .nth(1)
                .unwrap()
                .to_owned()
        };
        assert!(!line(true, case()).contains("overhead"));
        assert!(line(true, case().over_seq()).contains("\"overhead_ns\":4.0000"));
        let row = line(false, case().over_seq().ideal(1.0));
        assert!(row.ends_with("4.00    4.00"), "{row}");
    }

    #[test]
    fn where_there_is_a_single_queue_all_are_compared_with_it() {
        let case =
            || case(2, 20, 60).system("single-queue", || Sample::new(Duration::from_nanos(40), 10));
        let lines = reported(true, [case()]);
        let first = lines.lines().next().unwrap();
        assert!(first.contains("\"to_single_queue\":0.5000"), "{first}");
        let table = reported(false, [case()]);
        let rayon = table.lines().rev().nth(1).unwrap();
        assert!(rayon.ends_with("1.50"), "{table}");
    }

    #[test]
    fn systems_are_compared_with_seq_where_that_is_asked_for() {
        let case = |how| {
            let case = case(2, 20, 60).system("seq", || Sample::new(Duration::from_nanos(30), 10));
            match how {
                Some(how) => case.beside_seq(how),
                None => case,
            }
        };
        let rayon = |json, how| {
            reported(json, [case(how)])
                .lines()
                .rev()
                .nth(1)
                .unwrap()
                .to_owned()
        };
        assert!(!rayon(true, None).contains("seq"));
        assert!(rayon(true, Some(ToSeq::Time)).contains("\"to_seq\":2.0000"));
        assert!(rayon(true, Some(ToSeq::Speed)).contains("\"speed_over_seq\":0.5000"));
        assert!(rayon(false, Some(ToSeq::Time)).ends_with(" 2.00"));
        assert!(rayon(false, Some(ToSeq::Speed)).ends_with(" 0.50"));
    }

    #[test]
    fn bytes_that_are_left_are_printed_where_somebody_looked() {
        let sample = || Sample::new(Duration::from_nanos(10), 10);
        let case = || {
            Case::new("demo", 1, &Config::default())
                .rounds(1, 1)
                .system("filch", move || sample().leaving(640))
                .system("rayon", sample)
        };
        let lines = reported(true, [case()]);
        let first = lines.lines().next().unwrap();
        assert!(first.contains("\"bytes_per_op\":64.0000"), "{first}");
        let last = lines.lines().last().unwrap();
        assert!(!last.contains("bytes"), "{last}");
        let table = reported(false, [case()]);
        assert!(
            table.contains(" bytes/op\n") && table.contains(" 64.0\n"),
            "{table}"
        );
    }

    #[test]
    fn useful_cores_are_compared_with_those_of_rayon() {
        let system = |nanos: Vec<f64>, cores| {
            move || Readings {
                nanos: nanos.clone(),
                cores: Some(cores),
                ..Readings::default()
            }
        };
        let case = || {
            Case::new("demo", 2, &Config::default())
                .rounds(0, 2)
                .system_of_many("filch", system(vec![10.0, 70.0], 1.5))
                .system_of_many("rayon", system(vec![], 2.0))
        };
        let lines = reported(true, [case()]);
        let first = lines.lines().next().unwrap();
        let parts = [
            "\"ns_per_op\":40.0000",
            "\"max\":70.0000",
            "\"cores\":1.5000",
            "\"cores_to_rayon\":0.7500",
        ];
        assert!(parts.iter().all(|part| first.contains(part)), "{first}");
        assert!(!lines.lines().last().unwrap().contains("ns_per_op"));
        let table = reported(false, [case()]);
        let filch = table.lines().rev().nth(1).unwrap();
        assert!(filch.ends_with("70.00   1.50     0.75"), "{table}");
    }

    #[test]
    fn rayon_on_our_core_is_compared_with_rayon_on_its_own() {
        let case =
            || case(2, 20, 50).system("rayon-filch", || Sample::new(Duration::from_nanos(40), 10));
        let lines = reported(true, [case()]);
        assert!(
            lines
                .lines()
                .last()
                .unwrap()
                .contains("\"to_rayon\":0.8000"),
            "{lines}"
        );
        assert!(
            !lines.lines().next().unwrap().contains("to_rayon"),
            "{lines}"
        );
        assert!(reported(false, [case()]).ends_with(" 0.80\n"));
    }

    #[test]
    fn an_ideal_is_printed() {
        assert!(reported(true, [case(1, 20, 50).ideal(1.5)]).contains("\"ideal_ns\":1.5000"));
        assert!(reported(false, [case(1, 20, 50).ideal(1.5)]).contains("; ideal 1.50 ns/op"));
    }
}
