//! Statistics of a list of readings.

/// The median of some readings and their spread.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    /// NaN without readings.
    pub(crate) median: f64,
    /// The interquartile range relative to the median: `(p75 - p25) / median`. Zero if the median
    /// is.
    pub(crate) spread: f64,
    /// `None`, like `p99`, with fewer than [`ENOUGH_FOR_P99`](Self::ENOUGH_FOR_P99) readings.
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Summary {
    /// The number of readings below which p90 and p99 are not computed.
    const ENOUGH_FOR_P99: usize = 100;

    pub(crate) fn of(mut readings: Vec<f64>) -> Self {
        readings.sort_by(f64::total_cmp);
        let median = quantile(&readings, 0.5);
        let width = quantile(&readings, 0.75) - quantile(&readings, 0.25);
        Self {
            samples: readings.len(),
            median,
            spread: if median > 0.0 { width / median } else { 0.0 },
            p90: (readings.len() >= Self::ENOUGH_FOR_P99).then(|| quantile(&readings, 0.9)),
            p99: (readings.len() >= Self::ENOUGH_FOR_P99).then(|| quantile(&readings, 0.99)),
        }
    }

    /// Replaces the 99th percentile by `p99`, if that is given.
    pub(crate) fn with_p99(mut self, p99: Option<f64>) -> Self {
        self.p99 = p99.or(self.p99);
        self
    }
}

/// The `q`-quantile of the sorted readings, interpolated linearly.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = q * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn the_order_of_readings_does_not_matter() {
        let summary = Summary::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((summary.samples, summary.median), (5, 3.0));
        assert!((summary.spread - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(summary.p99, None);
    }

    #[test]
    fn many_readings_have_a_99th_percentile() {
        let summary = Summary::of((0..=100).map(f64::from).collect());
        assert_eq!((summary.p90, summary.p99), (Some(90.0), Some(99.0)));
    }

    #[test]
    fn no_reading_has_no_median() {
        let summary = Summary::of(Vec::new());
        assert!(summary.median.is_nan());
        assert_eq!((summary.samples, summary.spread), (0, 0.0));
    }

    #[test]
    fn readings_of_zero_have_no_spread() {
        assert_eq!(Summary::of(vec![0.0, 0.0]).spread, 0.0);
    }
}
