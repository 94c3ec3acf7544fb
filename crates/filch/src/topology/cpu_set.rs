//! Sets of CPUs.

use std::fmt;

/// One more than the highest number of a CPU. Linux has at most 8,192 of them; a list with higher
/// numbers is nonsense, and must not take memory by the size of its numbers.
pub(super) const MAX_CPUS: usize = 1 << 16;

/// A set of CPUs, by the numbers that the system gives them.
///
/// ```
/// use filch::topology::CpuSet;
///
/// let cpus: CpuSet = [8, 2, 1, 0, 2].into_iter().collect();
/// assert_eq!(cpus.to_string(), "0-2,8"); // as Linux writes lists of CPUs
/// assert!(cpus.contains(8) && !cpus.contains(7));
/// assert_eq!(cpus.iter().sum::<usize>(), 11);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// In ascending order, each once.
    numbers: Vec<usize>,
}

impl CpuSet {
    /// Reads a list in the format of Linux: `0-3,8`. Returns `None` if it is none.
    pub(super) fn parse(list: &str) -> Option<Self> {
        let list = list.trim();
        if list.is_empty() {
            return Some(Self::default());
        }
        let mut numbers = Vec::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            // Many copies of the longest range are as much nonsense as a longer one.
            if first > last || numbers.len() > MAX_CPUS {
                return None;
            }
            numbers.extend(first..=last);
        }
        Some(numbers.into_iter().collect())
    }

    /// Whether the CPU with this number is in the set.
    ///
    /// ```
    /// use filch::topology::{CpuSet, Topology};
    ///
    /// assert!(Topology::flat(4).allowed().contains(3));
    /// assert!(!CpuSet::default().contains(0));
    /// ```
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.numbers.binary_search(&cpu).is_ok()
    }

    /// The number of CPUs in the set.
    ///
    /// ```
    /// assert_eq!(filch::topology::Topology::flat(4).allowed().len(), 4);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is no CPU in the set.
    ///
    /// ```
    /// assert!(filch::topology::CpuSet::default().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers of the CPUs, in ascending order.
    ///
    /// ```
    /// let topology = filch::topology::Topology::flat(3);
    /// assert!(topology.allowed().iter().eq(0..3));
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.numbers.iter().copied()
    }

    /// The lowest number.
    pub(super) fn first(&self) -> Option<usize> {
        self.numbers.first().copied()
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let numbers = self.iter().filter(|&cpu| other.contains(cpu)).collect();
        Self { numbers }
    }
}

/// Reads the number of a CPU.
fn number(text: &str) -> Option<usize> {
    // `parse` also takes a sign.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok()?;
    (is_number && number < MAX_CPUS).then_some(number)
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut numbers: Vec<usize> = cpus.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self { numbers }
    }
}

/// Prints the list as Linux does: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        // The numbers of a range minus their positions are equal.
        let ranges = self.numbers.chunk_by(|a, b| a + 1 == *b);
        for (i, range) in ranges.enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match range {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [first] => write!(f, "{comma}{first}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::{CpuSet, MAX_CPUS};

    #[test]
    fn lists_are_read_and_printed() {
        for list in ["0", "0-3", "0-3,8", "1,3,5,7-9"] {
            assert_eq!(CpuSet::parse(list).unwrap().to_string(), list);
        }
        assert_eq!(CpuSet::parse("3,1-2\n").unwrap().to_string(), "1-3");
        assert_eq!(CpuSet::parse("\n").unwrap().to_string(), "none");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let too_high = MAX_CPUS.to_string();
        let all = format!("0-{},", MAX_CPUS - 1).repeat(1_000) + "0";
        for bad in ["a", "-1", "+1", "3-1", "1,,2", "1-", "0-3:1/2", "9e9"] {
            assert_eq!(CpuSet::parse(bad), None, "{bad}");
        }
        assert_eq!(CpuSet::parse(&too_high), None);
        assert_eq!(CpuSet::parse("0-18446744073709551615"), None);
        assert_eq!(CpuSet::parse(&all), None, "it takes no memory for copies");
    }
}
