//! What a list of readings comes to.

/// The middle of some readings, and how far they are apart.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    /// No number where there is no reading.
    pub(crate) median: f64,
    /// The middle half of the readings lies within this share of the median: `(p75 - p25) / median`.
    /// Zero when the median is.
    pub(crate) spread: f64,
    /// `None`, as the next, where there are too few readings for it to mean anything.
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Summary {
    /// Fewer readings than this have no 99th percentile.
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

    /// The same with this 99th percentile, if there is one.
    pub(crate) fn with_p99(mut self, p99: Option<f64>) -> Self {
        self.p99 = p99.or(self.p99);
        self
    }
}

/// The value below which a share of `q` of the sorted readings lies, between two of them if need be.
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
