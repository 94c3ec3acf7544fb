//! The check for cycles of waits. `waits.md` describes what it searches for, and why what it finds
//! is certain.

use super::{
    entries::{Entries, Key, Needs, Subject},
    report::Cycle,
};
use crate::{
    base::canary::{Canary, broken},
    pool::current_task::StackPosition,
};
use std::collections::BTreeMap;

/// The maximum number of waits and subjects that one check visits: some microseconds, with the lock
/// held.
const MAX_NODES: usize = 512;

/// A wait or a subject in a check.
enum Item {
    Wait(Key),
    /// A subject of a listed wait.
    Listed(Key, usize),
    /// A subject that another one needs.
    Found(usize),
}

/// A node is stuck if each of `all` is and, unless `any` is `None`, one of `any`. (With an empty
/// `any` it is never stuck.)
struct WaitNode {
    item: Item,
    any: Option<Vec<usize>>,
    all: Vec<usize>,
}

/// One check.
#[derive(Default)]
pub(super) struct CycleSearch {
    nodes: Vec<WaitNode>,
    waits: BTreeMap<Key, usize>,
    /// Subjects that other subjects need.
    found: Vec<Box<dyn Subject>>,
}

impl CycleSearch {
    /// Checks the wait at `root`.
    pub(super) fn run(&mut self, entries: &Entries, root: Key) -> Option<Cycle> {
        self.wait(root);
        let mut at = 0;
        while at < self.nodes.len() {
            self.expand(entries, at);
            at += 1;
        }
        let stuck = self.find_stuck();
        stuck[0].then(|| self.cycle(entries, &stuck))
    }

    fn add(&mut self, item: Item) -> usize {
        // Until it is expanded it counts as not stuck.
        self.nodes.push(WaitNode {
            item,
            any: Some(Vec::new()),
            all: Vec::new(),
        });
        self.nodes.len() - 1
    }

    fn wait(&mut self, key: Key) -> usize {
        if let Some(&known) = self.waits.get(&key) {
            return known;
        }
        let node = self.add(Item::Wait(key));
        self.waits.insert(key, node);
        node
    }

    fn add_found(&mut self, subjects: Vec<Box<dyn Subject>>) -> Vec<usize> {
        let add = |subject| {
            self.found.push(subject);
            self.add(Item::Found(self.found.len() - 1))
        };
        subjects.into_iter().map(add).collect()
    }

    /// Determines what the wait or subject depends on.
    fn expand(&mut self, entries: &Entries, at: usize) {
        if at >= MAX_NODES {
            return;
        }
        let needs = match self.nodes[at].item {
            Item::Wait(key) => return self.expand_wait(entries, at, key),
            Item::Listed(key, number) => match entries.by_position.get(&key) {
                Some(listed) => listed.subjects[number].needs(),
                None => Needs::Unknown,
            },
            Item::Found(number) => self.found[number].needs(),
        };
        let (any, all) = match needs {
            Needs::Unknown => (Some(Vec::new()), Vec::new()),
            Needs::Never => (None, Vec::new()),
            Needs::Return(position) => (Some(self.waits_above(entries, position)), Vec::new()),
            Needs::Poll(future) => {
                let inside = entries.by_poll.get(&future).map(|&key| self.wait(key));
                (Some(inside.into_iter().collect()), Vec::new())
            }
            Needs::Others { any, all } => (Some(self.add_found(any)), self.add_found(all)),
        };
        self.nodes[at].any = any;
        self.nodes[at].all = all;
    }

    fn expand_wait(&mut self, entries: &Entries, at: usize, key: Key) {
        let Some(listed) = entries
            .by_position
            .get(&key)
            .filter(|listed| !listed.is_open)
        else {
            return;
        };
        let subjects = 0..listed.subjects.len();
        self.nodes[at].all = subjects
            .map(|number| self.add(Item::Listed(key, number)))
            .collect();
        self.nodes[at].any = None;
    }

    /// The listed waits that must end before the call at `position` returns.
    fn waits_above(&mut self, entries: &Entries, position: StackPosition) -> Vec<usize> {
        let top = position.topmost();
        if position == top {
            // Too deep to be compared.
            return Vec::new();
        }
        let from = match broken(Canary::WaitDepth) {
            true => position.bottom(),
            false => position,
        };
        let above = entries.by_position.range((from, 0)..=(top, u64::MAX));
        above.map(|(&key, _)| self.wait(key)).collect()
    }

    /// Returns which nodes are stuck: the greatest set of nodes that satisfies the condition of
    /// [`WaitNode`].
    fn find_stuck(&self) -> Vec<bool> {
        let mut stuck = vec![true; self.nodes.len()];
        loop {
            let mut changed = false;
            for (at, node) in self.nodes.iter().enumerate() {
                let any = node.any.as_ref();
                let holds = any.is_none_or(|any| any.iter().any(|&other| stuck[other]))
                    && node.all.iter().all(|&other| stuck[other]);
                if stuck[at] && !holds {
                    stuck[at] = false;
                    changed = true;
                }
            }
            if !changed {
                return stuck;
            }
        }
    }

    /// Returns one cycle among the nodes that are stuck.
    fn cycle(&self, entries: &Entries, stuck: &[bool]) -> Cycle {
        let mut parties = Vec::new();
        // The waits on the path, and the number of parties before each of them.
        let mut seen = BTreeMap::new();
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            match node.item {
                Item::Wait(_) => {
                    if let Some(from) = seen.insert(at, parties.len()) {
                        parties.drain(..from);
                        break;
                    }
                }
                Item::Listed(key, number) => {
                    let listed = entries.by_position.get(&key);
                    parties.extend(listed.map(|listed| listed.subjects[number].party()));
                }
                Item::Found(number) => parties.push(self.found[number].party()),
            }
            let next = node.any.as_ref().unwrap_or(&node.all);
            match next.iter().find(|&&other| stuck[other]) {
                Some(&next) => at = next,
                None => break,
            }
        }
        Cycle::new(parties)
    }
}
