//! The size of the property tests in this crate.

use proptest::prelude::ProptestConfig;

/// The default configuration. Miri runs few cases and cannot store those that fail.
pub(crate) fn config() -> ProptestConfig {
    if cfg!(miri) {
        ProptestConfig {
            cases: 4,
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    } else {
        ProptestConfig::default()
    }
}

/// The limit of the length of a generated list: fewer under Miri.
pub(crate) const fn len(limit: usize) -> usize {
    if cfg!(miri) { limit / 10 } else { limit }
}
