//! The check for cycles of waits. `waits.md` describes what it searches for, and why what it finds
//! is certain.

use super::{
    entries::{Entries, Key, Needs, Subject},
    report::{Cycle, Party},
};
use crate::{
    base::canary::{Canary, broken},
    pool::current_task::StackPosition,
};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of waits and subjects that one check visits: some microseconds, with the lock
/// held.
const MAX_NODES: usize = 512;

/// The same for a check of all waits, which a program requests: some milliseconds.
const MAX_NODES_OF_ALL: usize = 1 << 16;

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
    /// Subjects that other subjects need. None of them may be dropped with the list locked.
    found: Vec<Box<dyn Subject>>,
    /// The nodes of those that several others may need, by their identity.
    known: BTreeMap<usize, usize>,
    /// Which nodes are stuck, once all are known.
    stuck: Vec<bool>,
}

/// A cycle, and the waits in it.
pub(super) struct FoundCycle {
    pub(super) cycle: Cycle,
    pub(super) waits: Vec<Key>,
}

impl CycleSearch {
    /// Checks the wait at `root`.
    pub(super) fn run(&mut self, entries: &Entries, root: Key) -> Option<FoundCycle> {
        self.wait(root);
        self.expand_all(entries, MAX_NODES);
        self.stuck = self.find_stuck();
        self.stuck[0].then(|| self.cycle(entries, 0))
    }

    /// Returns the cycle that a wait is in, beginning with what that wait is for.
    pub(super) fn cycle_of(&self, entries: &Entries, wait: Key) -> Option<Cycle> {
        let &root = self.waits.get(&wait)?;
        self.stuck[root].then(|| self.cycle(entries, root).cycle)
    }

    /// Returns the cycles among all waits, each of them once.
    pub(super) fn run_for_all(&mut self, entries: &Entries) -> Vec<Cycle> {
        let roots = entries.by_position.keys().map(|&key| self.wait(key));
        let roots: Vec<_> = roots.collect();
        self.expand_all(entries, MAX_NODES_OF_ALL);
        self.stuck = self.find_stuck();
        let (mut cycles, mut seen) = (Vec::new(), BTreeSet::new());
        for root in roots.into_iter().filter(|&root| self.stuck[root]) {
            let found = self.cycle(entries, root);
            // Each wait leads to one cycle, and two cycles that share a wait are the same.
            if found.waits.iter().all(|&wait| seen.insert(wait)) {
                cycles.push(found.cycle);
            }
        }
        cycles
    }

    /// Expands all nodes, those that are found on the way included, up to this number.
    fn expand_all(&mut self, entries: &Entries, max_nodes: usize) {
        let mut at = 0;
        while at < self.nodes.len().min(max_nodes) {
            self.expand(entries, at);
            at += 1;
        }
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
        let add = |subject| self.add_one_found(subject);
        subjects.into_iter().map(add).collect()
    }

    fn add_one_found(&mut self, subject: Box<dyn Subject>) -> usize {
        let identity = subject.identity();
        self.found.push(subject);
        if let Some(known) = identity.and_then(|identity| self.known.get(&identity)) {
            return *known;
        }
        let node = self.add(Item::Found(self.found.len() - 1));
        self.known.extend(identity.map(|identity| (identity, node)));
        node
    }

    /// Determines what the wait or subject depends on.
    fn expand(&mut self, entries: &Entries, at: usize) {
        let needs = match self.nodes[at].item {
            Item::Wait(key) => return self.expand_wait(entries, at, key),
            Item::Listed(key, number) => {
                subject(entries, key, number).map_or(Needs::Unknown, Subject::needs)
            }
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
            Needs::Event(event) => {
                let waits = entries.holding_up(event).map(|key| self.wait(key));
                (Some(waits.collect()), Vec::new())
            }
            Needs::Others {
                stuck_if_any: any,
                and_if_all: all,
            } => (Some(self.add_found(any)), self.add_found(all)),
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
        let subjects = 0..listed.subjects.count();
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
            // What a node needs comes after it in most cases, so one round is enough for most.
            for (at, node) in self.nodes.iter().enumerate().rev() {
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

    /// Returns the cycle that the stuck node `root` leads to.
    fn cycle(&self, entries: &Entries, root: usize) -> FoundCycle {
        let (mut parties, mut waits) = (Vec::new(), Vec::new());
        // The waits on the path, and the number of parties and waits before each of them.
        let mut seen = BTreeMap::new();
        let mut at = root;
        loop {
            let node = &self.nodes[at];
            // Of the waits of one thread the topmost: those beneath it cannot return before it.
            let mut any = node.any.iter().flatten().rev();
            let next = match any.find(|&&other| self.stuck[other]) {
                None => node.all.iter().find(|&&other| self.stuck[other]),
                next => next,
            };
            let next = next.copied();
            let above = next.and_then(|next| self.waiter(entries, next));
            match node.item {
                Item::Wait(key) => {
                    if let Some((party, wait)) = seen.insert(at, (parties.len(), waits.len())) {
                        parties.drain(..party);
                        waits.drain(..wait);
                        break;
                    }
                    waits.push(key);
                }
                Item::Listed(key, number) => {
                    let party = subject(entries, key, number).map(Subject::party);
                    parties.extend(party.map(|party| party.held_up_by(above)));
                }
                Item::Found(number) => parties.push(self.found[number].party().held_up_by(above)),
            }
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        let cycle = Cycle::new(parties);
        FoundCycle { cycle, waits }
    }

    /// The waiter of the wait that a node stands for.
    fn waiter<'e>(&self, entries: &'e Entries, node: usize) -> Option<&'e Party> {
        match self.nodes[node].item {
            Item::Wait(key) => entries.by_position.get(&key).map(|listed| &listed.waiter),
            _ => None,
        }
    }
}

/// The subject with this number of a listed wait.
fn subject(entries: &Entries, key: Key, number: usize) -> Option<&dyn Subject> {
    entries.by_position.get(&key)?.subjects.get(number)
}
