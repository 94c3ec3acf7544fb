//! Draws curves as SVG: several small charts with the same series side by side.

use crate::svg::Escaped;
use std::fmt::{self, Write};

/// All sizes are in pixels. These are of one chart, with its margins.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 40.0;
/// The space above the first row, for the title, the note and the legend.
const HEAD: f64 = 74.0;
/// The average width of a letter of the legend.
const LETTER_WIDTH: f64 = 6.7;

/// Colours that people with any kind of colour vision can distinguish (Okabe and Ito), and dashes.
const STYLES: [(&str, &str); 6] = [
    ("#0072b2", ""),
    ("#d55e00", ""),
    ("#009e73", "6 3"),
    ("#888", "2 3"),
    ("#cc79a7", ""),
    ("#e69f00", "6 3"),
];

/// How values are placed on an axis.
///
/// ```
/// use filch_draw::Axis;
/// assert_ne!(Axis::Linear, Axis::Log(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Axis {
    /// In proportion to the value, from zero.
    Linear,
    /// In proportion to the logarithm, with ticks at the powers of this base. Values of zero and
    /// below are not drawn.
    Log(u32),
}

impl Axis {
    /// Returns the position of a value, in an arbitrary unit.
    fn place(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => Some(value),
            Self::Log(_) => (value > 0.0).then(|| value.ln()),
        }
        .filter(|place| place.is_finite())
    }

    /// Returns the ticks of a range that includes all `values`, at least two.
    fn ticks(self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|&value| self.place(value).is_some()) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = (1.0, 1.0);
        }
        match self {
            Self::Linear => {
                let step = step(most.max(0.0));
                let count = (most.max(0.0) / step).ceil().max(1.0) as usize;
                (0..=count).map(|i| i as f64 * step).collect()
            }
            Self::Log(base) => {
                let base = f64::from(base.max(2));
                // Within an error of rounding, a power is its own tick.
                let first = (least.ln() / base.ln() + 1e-9).floor() as i32;
                let last = (most.ln() / base.ln() - 1e-9).ceil() as i32;
                let every = (last - first) / 6 + 1;
                let end = last.max(first + 1);
                let mut ticks: Vec<_> = (first..=end).step_by(every as usize).collect();
                if let Some(&highest) = ticks.last()
                    && highest < end
                {
                    ticks.push(highest + every);
                }
                ticks.into_iter().map(|n| base.powi(n)).collect()
            }
        }
    }
}

/// Returns a round distance between about four ticks up to `most`.
fn step(most: f64) -> f64 {
    let wanted = (most / 4.0).max(f64::MIN_POSITIVE);
    let unit = 10_f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|n| n * unit)
        .find(|&step| step >= wanted)
        .unwrap_or(unit)
}

/// A curve: its name, and its points in the order of the first coordinate.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// A chart of some curves.
///
/// ```
/// use filch_draw::{Axis, Chart, charts};
///
/// let chart = Chart::new("squares", Axis::Linear, Axis::Log(10))
///     .label("n", "n²")
///     .series("all", (1..=20).map(|n| (f64::from(n), f64::from(n * n))));
/// let svg = charts("Numbers", "an example", 2, &[chart]);
/// assert!(svg.starts_with("<svg") && svg.contains("squares"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    title: String,
    axes: (Axis, Axis),
    labels: (String, String),
    series: Vec<Series>,
}

impl Chart {
    /// Creates a chart without curves.
    ///
    /// ```
    /// use filch_draw::{Axis, Chart, charts};
    ///
    /// let chart = Chart::new("empty", Axis::Linear, Axis::Linear);
    /// assert!(charts("Charts", "", 1, &[chart]).contains("empty"));
    /// ```
    #[must_use]
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Self {
            title: title.to_owned(),
            axes: (x, y),
            labels: Default::default(),
            series: Vec::new(),
        }
    }

    /// Sets what the axes show.
    ///
    /// ```
    /// use filch_draw::{Axis, Chart, charts};
    ///
    /// let chart = Chart::new("speed-up", Axis::Log(2), Axis::Log(2))
    ///     .label("workers", "times as fast")
    ///     .series("ideal", [(1.0, 1.0), (64.0, 64.0)]);
    /// assert!(charts("Charts", "", 1, &[chart]).contains("times as fast"));
    /// ```
    #[must_use]
    pub fn label(mut self, x: &str, y: &str) -> Self {
        self.labels = (x.to_owned(), y.to_owned());
        self
    }

    /// Adds a curve. Charts that are drawn together have the same curves in the same order, since
    /// they share a legend.
    ///
    /// ```
    /// use filch_draw::{Axis, Chart, charts};
    ///
    /// let chart = Chart::new("speed-up", Axis::Log(2), Axis::Log(2))
    ///     .series("ideal", [(1.0, 1.0), (64.0, 64.0)])
    ///     .series("measured", [(1.0, 1.0), (64.0, 50.0)]);
    /// assert!(charts("Charts", "", 1, &[chart]).contains("measured"));
    /// ```
    #[must_use]
    pub fn series(mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.series.push(Series {
            name: name.to_owned(),
            points: points.into_iter().collect(),
        });
        self
    }
}

/// Draws charts side by side, `columns` in a row, with a title, a note and one legend.
///
/// ```
/// use filch_draw::{Axis, Chart, charts};
/// let none: [Chart; 0] = [];
/// assert!(charts("Nothing", "", 4, &none).ends_with("</svg>\n"));
/// # let _ = Axis::Linear;
/// ```
#[must_use]
pub fn charts(title: &str, note: &str, columns: usize, charts: &[Chart]) -> String {
    let columns = columns.clamp(1, charts.len().max(1));
    let rows = charts.len().div_ceil(columns).max(1);
    let (width, height) = (WIDTH * columns as f64, HEAD + HEIGHT * rows as f64);
    let mut svg = Canvas(String::new());
    svg.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">"
    ));
    svg.line(format_args!("{STYLE}"));
    svg.line(format_args!(
        "<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\
         <text class=\"ink\" x=\"12\" y=\"22\" font-size=\"15\">{}</text>\
         <text class=\"dim\" x=\"12\" y=\"40\">{}</text>",
        Escaped(title),
        Escaped(note)
    ));
    svg.legend(charts.first());
    for (index, chart) in charts.iter().enumerate() {
        let left = WIDTH * (index % columns) as f64;
        let top = HEAD + HEIGHT * (index / columns) as f64;
        svg.chart(chart, left, top);
    }
    svg.0.push_str("</svg>\n");
    svg.0
}

const STYLE: &str = "<style>\
    .paper{fill:#fff}.back{fill:#f7f8fa}.tick{stroke:#dcdfe4}.dim{fill:#667}.ink{fill:#223}\
    .curve{fill:none;stroke-width:1.8;stroke-linejoin:round}\
    </style>";

struct Canvas(String);

impl Canvas {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }

    fn legend(&mut self, chart: Option<&Chart>) {
        let mut x = 12.0;
        for (index, series) in chart.iter().flat_map(|c| c.series.iter().enumerate()) {
            let (colour, dashes) = STYLES[index % STYLES.len()];
            self.line(format_args!(
                "<path class=\"curve\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" \
                 d=\"M{x} 57h24\"/><text class=\"ink\" x=\"{}\" y=\"61\">{}</text>",
                x + 30.0,
                Escaped(&series.name)
            ));
            x += 30.0 + LETTER_WIDTH * series.name.chars().count() as f64 + 24.0;
        }
    }

    fn chart(&mut self, chart: &Chart, left: f64, top: f64) {
        let points = || chart.series.iter().flat_map(|s| s.points.iter().copied());
        let (x, y) = chart.axes;
        let across = Scale {
            axis: x,
            ticks: x.ticks(points().map(|(x, _)| x)),
            from: left + LEFT,
            to: left + WIDTH - RIGHT,
        };
        let up = Scale {
            axis: y,
            ticks: y.ticks(points().map(|(_, y)| y)),
            from: top + HEIGHT - BOTTOM,
            to: top + TOP,
        };
        self.frame(chart, &across, &up);
        for (index, series) in chart.series.iter().enumerate() {
            let (colour, dashes) = STYLES[index % STYLES.len()];
            let places = series
                .points
                .iter()
                .filter_map(|&(x, y)| Some((across.at(x)?, up.at(y)?)));
            let mut path = String::new();
            for (x, y) in places {
                let command = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{command}{x:.1} {y:.1}");
            }
            self.line(format_args!(
                "<path class=\"curve\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" \
                 d=\"{path}\"><title>{}</title></path>",
                Escaped(&series.name)
            ));
        }
    }

    /// Draws everything but the curves.
    fn frame(&mut self, chart: &Chart, across: &Scale, up: &Scale) {
        let (width, height) = (across.to - across.from, up.from - up.to);
        let (left, bottom) = (across.from, up.from);
        self.line(format_args!(
            "<rect class=\"back\" x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{height}\"/>\
             <text class=\"ink\" x=\"{left}\" y=\"{}\" font-size=\"12\">{}</text>\
             <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            up.to,
            up.to - 8.0,
            Escaped(&chart.title),
            across.to,
            up.to - 8.0,
            Escaped(&chart.labels.1),
            left + width / 2.0,
            bottom + 30.0,
            Escaped(&chart.labels.0),
        ));
        for &tick in &across.ticks {
            let Some(x) = across.at(tick) else { continue };
            self.line(format_args!(
                "<path class=\"tick\" d=\"M{x:.1} {bottom}v{}\"/><text class=\"dim\" x=\"{x:.1}\" \
                 y=\"{}\" text-anchor=\"middle\">{}</text>",
                -height,
                bottom + 14.0,
                Number(tick)
            ));
        }
        for &tick in &up.ticks {
            let Some(y) = up.at(tick) else { continue };
            self.line(format_args!(
                "<path class=\"tick\" d=\"M{left} {y:.1}h{width}\"/><text class=\"dim\" x=\"{}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                y + 4.0,
                Number(tick)
            ));
        }
    }
}

/// An axis with its ticks, from one pixel to another.
struct Scale {
    axis: Axis,
    ticks: Vec<f64>,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> Option<f64> {
        let first = self.axis.place(*self.ticks.first()?)?;
        let last = self.axis.place(*self.ticks.last()?)?;
        let share = (self.axis.place(value)? - first) / (last - first);
        Some(self.from + share * (self.to - self.from))
    }
}

/// A number on an axis.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n.abs() >= 1e6 => write!(f, "{}M", n / 1e6),
            n if n.abs() >= 1e4 => write!(f, "{}k", n / 1e3),
            n => write!(f, "{}", (n * 1e4).round() / 1e4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_include_all_values() {
        let log = Axis::Log(4).ticks([1.0, 1_024.0].into_iter());
        assert_eq!(log, [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0]);
        let linear = Axis::Linear.ticks([3.0, 37.0].into_iter());
        assert_eq!(linear, [0.0, 10.0, 20.0, 30.0, 40.0]);
        let many = Axis::Log(2).ticks([1.0, 1e9].into_iter());
        assert!(many.len() < 9 && *many.last().unwrap() >= 1e9, "{many:?}");
        for axis in [Axis::Linear, Axis::Log(10)] {
            assert!(axis.ticks([0.0, f64::NAN].into_iter()).len() >= 2);
            assert!(axis.ticks(std::iter::empty()).len() >= 2);
        }
    }

    #[test]
    fn values_that_have_no_place_are_left_out() {
        let chart = Chart::new("a & b", Axis::Log(2), Axis::Log(10)).series(
            "one",
            [(1.0, 0.0), (2.0, 10.0), (4.0, f64::INFINITY), (8.0, 100.0)],
        );
        let svg = charts("<t>", "", 1, &[chart]);
        assert!(svg.contains("&lt;t&gt;") && svg.contains("a &amp; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
