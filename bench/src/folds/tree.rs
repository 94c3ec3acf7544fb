//! The trees to fold, and the work at each node.

use crate::busy::Busy;
use filch::Rng;
use std::time::Duration;

/// A node and its children.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: u64,
    pub(crate) children: Vec<Node>,
}

/// The work at each node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Only the addition.
    Empty,
    Even(Busy),
    /// One node in [`SKEW`] does all the work.
    Skewed(Busy),
}

/// Nodes per node that works, in [`Work::Skewed`].
const SKEW: u64 = 64;

impl Work {
    pub(crate) fn even(time: Duration) -> Self {
        Self::Even(Busy::of(time))
    }

    /// On average a microsecond per node.
    pub(crate) fn skewed() -> Self {
        Self::Skewed(Busy::of(Duration::from_micros(SKEW)))
    }

    /// The work before the children are visited.
    #[inline(always)]
    pub(crate) fn enter(self, node: &Node) -> u64 {
        match self {
            Self::Empty => {}
            Self::Even(busy) => busy.run(),
            Self::Skewed(busy) => {
                if node.value.is_multiple_of(SKEW) {
                    busy.run();
                }
            }
        }
        node.value
    }
}

/// The shape of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A full tree with `fan` children per node.
    Full { fan: usize, levels: u32 },
    /// Four to eight children per node, level by level, up to this number of nodes.
    Balanced(usize),
    /// A root with this number of leaves.
    Star(usize),
    /// This number of nodes, each the only child of the previous one.
    Chain(usize),
    /// A chain with a leaf beside each node, as the later child.
    Spine(usize),
}

impl Shape {
    pub(crate) fn build(self) -> Node {
        let mut rng = Rng::new(7);
        match self {
            Self::Full { fan, levels } => full(fan, levels, &mut rng),
            Self::Balanced(nodes) => balanced(nodes, &mut rng),
            Self::Star(leaves) => Node {
                value: rng.next_u64(),
                children: (0..leaves).map(|_| leaf(&mut rng)).collect(),
            },
            Self::Chain(nodes) => chain(nodes, &mut rng, |_| None),
            Self::Spine(nodes) => chain(nodes / 2, &mut rng, |rng| Some(leaf(rng))),
        }
    }
}

fn leaf(rng: &mut Rng) -> Node {
    Node {
        value: rng.next_u64(),
        children: Vec::new(),
    }
}

fn full(fan: usize, levels: u32, rng: &mut Rng) -> Node {
    let value = rng.next_u64();
    let below = if levels == 0 { 0 } else { fan };
    let children = (0..below).map(|_| full(fan, levels - 1, rng)).collect();
    Node { value, children }
}

fn balanced(nodes: usize, rng: &mut Rng) -> Node {
    // The number of children of each node, level by level.
    let (mut fans, mut count) = (Vec::new(), 1);
    while count < nodes {
        let fan = (4 + rng.below(5)).min(nodes - count);
        fans.push(fan);
        count += fan;
    }
    let mut firsts = Vec::with_capacity(fans.len());
    let mut first = 1;
    for &fan in &fans {
        firsts.push(first);
        first += fan;
    }
    below(0, &fans, &firsts, rng)
}

fn below(number: usize, fans: &[usize], firsts: &[usize], rng: &mut Rng) -> Node {
    let value = rng.next_u64();
    let children = match fans.get(number) {
        None => Vec::new(),
        Some(&fan) => (firsts[number]..firsts[number] + fan)
            .map(|child| below(child, fans, firsts, rng))
            .collect(),
    };
    Node { value, children }
}

fn chain(nodes: usize, rng: &mut Rng, beside: impl Fn(&mut Rng) -> Option<Node>) -> Node {
    (1..nodes).fold(leaf(rng), |below, _| {
        let mut children = vec![below];
        children.extend(beside(rng));
        Node {
            value: rng.next_u64(),
            children,
        }
    })
}

/// The number of nodes in the tree.
pub(crate) fn count(root: &Node) -> u64 {
    1 + root.children.iter().map(count).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::{Shape, count};

    #[test]
    fn shapes_have_as_many_nodes_as_they_say() {
        let full = |fan, levels| Shape::Full { fan, levels };
        assert_eq!(count(&full(20, 2).build()), 421);
        assert_eq!(count(&full(2, 9).build()), 1023);
        assert_eq!(count(&Shape::Balanced(1000).build()), 1000);
        assert_eq!(count(&Shape::Star(30).build()), 31);
        assert_eq!(count(&Shape::Chain(30).build()), 30);
        assert_eq!(count(&Shape::Spine(30).build()), 29);
    }
}
