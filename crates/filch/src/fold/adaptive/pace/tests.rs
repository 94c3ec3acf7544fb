//! What a thread remembers of the folds that it began, and what the first checks do with it.

use super::{CheckTimer, HEAVY_NODE_NS, LIGHT_NODE_NS, NodePace};
use crate::base::thread;

/// The number of pieces that the first check of a fold by this code wants to offer.
fn first_offers(code: usize) -> usize {
    CheckTimer::new().check(&NodePace::recall(code), 0, 0, 0)
}

fn fold_once(code: usize, nanos: u32) {
    let pace = NodePace::recall(code);
    pace.set(nanos);
    pace.remember(code);
}

#[test]
fn offers_wait_for_a_measurement_after_a_light_fold() {
    const CODE: usize = 0x1000;
    assert_eq!(first_offers(CODE), usize::MAX, "it is unknown");
    fold_once(CODE, LIGHT_NODE_NS - 1);
    assert_eq!(first_offers(CODE), 0);
    assert_eq!(first_offers(CODE + 16), usize::MAX, "of another type");
    // Too small to be measured.
    fold_once(CODE, 0);
    assert_eq!(first_offers(CODE), 0);
    fold_once(CODE, LIGHT_NODE_NS);
    assert_eq!(first_offers(CODE), usize::MAX);
}

#[test]
fn a_type_replaces_another_one_at_its_place() {
    const ONE: usize = 0x1000;
    const OTHER: usize = 0x9000;
    fold_once(ONE, 1);
    fold_once(OTHER, HEAVY_NODE_NS);
    assert_eq!(first_offers(ONE), 0, "it has kept its place");
    fold_once(OTHER, 1);
    assert_eq!(first_offers(OTHER), 0);
    assert_eq!(first_offers(ONE), usize::MAX);
}

#[test]
fn a_heavy_node_is_seen_at_once_after_a_light_fold() {
    const CODE: usize = 0x2000;
    fold_once(CODE, 1);
    let (pace, mut timer) = (NodePace::recall(CODE), CheckTimer::new());
    assert_eq!(timer.check(&pace, 0, 0, 0), 0);
    assert_eq!(timer.left(), 1, "the next node is measured alone");
    let began = thread::nanos();
    while thread::nanos() - began < u64::from(2 * HEAVY_NODE_NS) {}
    assert_eq!(timer.check(&pace, 0, 0, 0), usize::MAX);
}
