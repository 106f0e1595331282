//! What an executable's nodes were given since it was made, and how long each of it is held. Nothing here calls the
//! driver.
//!
//! An executable has what its graph keeps, through the driver. What a node is given later is held here: as long as the node
//! has it, and then until each launch that could use it is known to be over. Launches of one executable run one after the
//! other, whatever their streams (documented), so to know of the last that could use it is to know of all.
//!
//! | event | what the node holds | what is retired | what is let go |
//! |---|---|---|---|
//! | `give` | what it had, and the new | | |
//! | `accept`: the driver has made the change | the new | what it had, behind the newest launch | of what it had, what no launch can use: none was begun since it was given, or all are over |
//! | `withdraw`: the driver wasn't asked | what it had | | the new |
//! | neither: the change may have been made | both, until the next that is accepted | | |
//! | `accept_all`: all nodes were changed at once | nothing | what all had, behind the newest launch | as above |
//! | `launch` | | | |
//! | `over(n)`: launch `n` is known to be over | | what only later launches could use | the rest |
//! | the executable ends | | | all, once its last launch is over: the driver holds this until then |
//!
//! A *mark* is what a launch's end is known by, an event on its stream; `marked(n)` says that one stands behind launch
//! `n`. [`Kept::unmarked`] tells whether something waits for a launch behind which none stands.

use cuhold_handles::driver_sys::mutant;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// The number of a launch, counted from 1.
pub(super) type Launch = u64;

/// What a node holds.
#[derive(Debug)]
struct Held<T> {
    value: T,
    /// The newest launch that was begun when it was given: that one doesn't use it.
    since: Launch,
}

/// What is held. Shared with the driver, which keeps it until the executable and its last launch are over.
#[derive(Debug)]
pub(super) struct Holds<K, T> {
    nodes: BTreeMap<K, Vec<Held<T>>>,
    /// What nodes don't have any more, with the newest launch that could use it. In the order of launches.
    retired: VecDeque<(Launch, T)>,
}

/// The books of an executable.
#[derive(Debug)]
pub(super) struct Kept<K, T> {
    holds: Arc<Mutex<Holds<K, T>>>,
    /// The newest that was begun.
    launches: Launch,
    /// The newest behind which a mark stands.
    marked: Launch,
    /// The newest that something retired waits for.
    awaited: Launch,
    /// The newest that is known to be over.
    over: Launch,
}

/// What a node was given, until it is known what became of the change.
#[derive(Debug)]
#[must_use = "what isn't accepted or withdrawn is held beside what the node had"]
pub(super) struct Given<K> {
    node: K,
    /// How many values of the node are older.
    older: usize,
}

impl<K: Ord + Copy, T> Kept<K, T> {
    pub(super) fn new() -> Self {
        let holds = Holds { nodes: BTreeMap::new(), retired: VecDeque::new() };
        Self { holds: Arc::new(Mutex::new(holds)), launches: 0, marked: 0, awaited: 0, over: 0 }
    }

    /// What is held, for the driver to keep.
    pub(super) fn shared(&self) -> Arc<Mutex<Holds<K, T>>> {
        Arc::clone(&self.holds)
    }

    /// The newest launch that was begun.
    pub(super) fn newest(&self) -> Launch {
        self.launches
    }

    /// How many values nodes don't have any more and are held all the same.
    pub(super) fn retired(&self) -> usize {
        self.holds.lock().retired.len()
    }

    /// A launch begins.
    pub(super) fn launch(&mut self) {
        self.launches += 1;
    }

    /// Holds what a node is about to be given, beside what it has.
    pub(super) fn give(&mut self, node: K, values: impl IntoIterator<Item = T>) -> Given<K> {
        let since = self.launches;
        let mut holds = self.holds.lock();
        let held = holds.nodes.entry(node).or_default();
        let older = held.len();
        held.extend(values.into_iter().map(|value| Held { value, since }));
        Given { node, older }
    }

    /// The node has what it was given. Gives what nothing can use.
    pub(super) fn accept(&mut self, given: Given<K>) -> Vec<T> {
        let holds = Arc::clone(&self.holds);
        let mut holds = holds.lock();
        let Holds { nodes, retired } = &mut *holds;
        let Some(held) = nodes.get_mut(&given.node) else { return Vec::new() };
        let older = given.older.min(held.len());
        let free = self.retire(held.drain(..older), retired);
        if held.is_empty() {
            nodes.remove(&given.node);
        }
        free
    }

    /// The driver wasn't asked to change the node. Gives what that was to be given.
    pub(super) fn withdraw(&mut self, given: Given<K>) -> Vec<T> {
        let mut holds = self.holds.lock();
        let Some(held) = holds.nodes.get_mut(&given.node) else { return Vec::new() };
        let older = given.older.min(held.len());
        let back = held.drain(older..).map(|held| held.value).collect();
        if held.is_empty() {
            holds.nodes.remove(&given.node);
        }
        back
    }

    /// All nodes have something else, which isn't held here. Gives what nothing can use.
    pub(super) fn accept_all(&mut self) -> Vec<T> {
        let holds = Arc::clone(&self.holds);
        let mut holds = holds.lock();
        let Holds { nodes, retired } = &mut *holds;
        let all = std::mem::take(nodes).into_values().flatten();
        self.retire(all, retired)
    }

    /// Holds values until the newest launch is over; gives those that no launch can use that isn't.
    fn retire(
        &mut self,
        values: impl Iterator<Item = Held<T>>,
        retired: &mut VecDeque<(Launch, T)>,
    ) -> Vec<T> {
        let mut free = Vec::new();
        for Held { value, since } in values {
            let over = since == self.launches || self.over == self.launches;
            if over || mutant::is_out("exec-retired") {
                free.push(value);
            } else {
                retired.push_back((self.launches, value));
                self.awaited = self.launches;
            }
        }
        free
    }

    /// Whether something retired waits for a launch behind which no mark stands.
    pub(super) fn unmarked(&self) -> bool {
        self.awaited > self.marked
    }

    /// A mark stands behind this launch, and so behind those before it.
    pub(super) fn marked(&mut self, launch: Launch) {
        self.marked = self.marked.max(launch);
    }

    /// This launch is over, and so are those before it. Gives what only they could use.
    pub(super) fn over(&mut self, launch: Launch) -> Vec<T> {
        if mutant::is_out("exec-release") {
            return Vec::new();
        }
        self.over = self.over.max(launch);
        let mut holds = self.holds.lock();
        let count = holds.retired.partition_point(|(awaited, _)| *awaited <= launch);
        holds.retired.drain(..count).map(|(_, value)| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Node = u8;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        Launch,
        /// A change that the driver makes.
        Change(Node),
        /// A change that the driver isn't asked for.
        Withdrawn(Node),
        /// A change that fails, and may have been made.
        Unknown(Node),
        ChangeAll,
        /// A mark is put behind the newest launch.
        Mark,
        /// The oldest mark is found done.
        Over,
    }

    /// One value, as simply as it can be said.
    #[derive(Debug)]
    struct Value {
        node: Node,
        /// Whether a launch that begins now may use it.
        may_be_used: bool,
        /// The launches that may use it.
        launches: BTreeSet<Launch>,
        /// Nothing knows of it any more.
        gone: bool,
    }

    /// The rule alone: a value is held while a launch that begins now may use it, or one that isn't known to be over.
    #[derive(Default)]
    struct Model {
        values: Vec<Value>,
        launches: Launch,
        over: Launch,
        marks: VecDeque<Launch>,
        marked: Launch,
    }

    impl Model {
        fn settle(&mut self) {
            for value in &mut self.values {
                let over = self.over;
                value.launches.retain(|launch| *launch > over);
                value.gone |= !value.may_be_used && value.launches.is_empty();
            }
        }

        fn held(&self) -> Vec<usize> {
            let held = self.values.iter().enumerate().filter(|(_, value)| !value.gone);
            held.map(|(nth, _)| nth).collect()
        }

        /// Whether something that no new launch uses waits for a launch without a mark.
        fn unmarked(&self) -> bool {
            let waits = |value: &&Value| !value.may_be_used && !value.gone;
            let last = |value: &Value| value.launches.last().copied().unwrap_or(0);
            self.values.iter().filter(waits).any(|value| last(value) > self.marked)
        }
    }

    /// Both, side by side.
    struct Pair {
        kept: Kept<Node, usize>,
        model: Model,
    }

    impl Pair {
        fn new() -> Self {
            Self { kept: Kept::new(), model: Model::default() }
        }

        fn give(&mut self, node: Node) -> (Given<Node>, usize) {
            let nth = self.model.values.len();
            let launches = BTreeSet::new();
            self.model.values.push(Value { node, may_be_used: true, launches, gone: false });
            (self.kept.give(node, [nth]), nth)
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Launch => {
                    self.kept.launch();
                    self.model.launches += 1;
                    let launch = self.model.launches;
                    for value in self.model.values.iter_mut().filter(|value| value.may_be_used) {
                        value.launches.insert(launch);
                    }
                }
                Step::Change(node) => {
                    let (given, nth) = self.give(node);
                    self.kept.accept(given);
                    for (other, value) in self.model.values.iter_mut().enumerate() {
                        value.may_be_used &= value.node != node || other == nth;
                    }
                }
                Step::Withdrawn(node) => {
                    let (given, nth) = self.give(node);
                    assert_eq!(self.kept.withdraw(given), [nth]);
                    self.model.values[nth].may_be_used = false;
                }
                Step::Unknown(node) => {
                    let (given, _) = self.give(node);
                    drop(given);
                }
                Step::ChangeAll => {
                    self.kept.accept_all();
                    for value in &mut self.model.values {
                        value.may_be_used = false;
                    }
                }
                Step::Mark => {
                    let newest = self.kept.newest();
                    self.kept.marked(newest);
                    self.model.marks.push_back(newest);
                    self.model.marked = self.model.launches;
                }
                Step::Over => {
                    if let Some(launch) = self.model.marks.pop_front() {
                        self.kept.over(launch);
                        self.model.over = self.model.over.max(launch);
                    }
                }
            }
            self.model.settle();
            self.compare();
        }

        fn compare(&self) {
            let holds = self.kept.holds.lock();
            let of_nodes = holds.nodes.values().flatten().map(|held| held.value);
            let retired = holds.retired.iter().map(|(_, value)| *value);
            let mut held: Vec<usize> = of_nodes.chain(retired).collect();
            held.sort_unstable();
            drop(holds);
            assert_eq!(held, self.model.held());
            assert_eq!(self.kept.unmarked(), self.model.unmarked());
        }

        /// Once a mark behind the newest launch is over, nothing is left but what nodes have.
        fn end(mut self) {
            self.step(Step::Mark);
            while !self.model.marks.is_empty() {
                self.step(Step::Over);
            }
            assert_eq!(self.kept.retired(), 0);
            assert!(!self.kept.unmarked());
            self.step(Step::ChangeAll);
            self.step(Step::Mark);
            self.step(Step::Over);
            assert_eq!(self.model.held(), [0; 0]);
        }
    }

    const STEPS: [Step; 9] = [
        Step::Launch,
        Step::Change(0),
        Step::Change(1),
        Step::Withdrawn(0),
        Step::Unknown(0),
        Step::Unknown(1),
        Step::ChangeAll,
        Step::Mark,
        Step::Over,
    ];

    #[test]
    fn in_all_short_sequences_a_value_is_held_as_long_as_a_launch_may_use_it_and_no_longer() {
        let mut sequences: Vec<Vec<Step>> = vec![Vec::new()];
        for _ in 0..5 {
            sequences = sequences
                .iter()
                .flat_map(|before| STEPS.map(|step| [before.as_slice(), &[step]].concat()))
                .collect();
        }
        for sequence in sequences {
            let mut pair = Pair::new();
            for step in sequence {
                pair.step(step);
            }
            pair.end();
        }
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Launch),
            4 => (0..4_u8).prop_map(Step::Change),
            1 => (0..4_u8).prop_map(Step::Withdrawn),
            1 => (0..4_u8).prop_map(Step::Unknown),
            1 => Just(Step::ChangeAll),
            3 => Just(Step::Mark),
            3 => Just(Step::Over),
        ]
    }

    proptest! {
        #[test]
        fn a_value_is_held_as_long_as_a_launch_may_use_it_and_no_longer(
            steps in prop::collection::vec(any_step(), 0..80)
        ) {
            let mut pair = Pair::new();
            for step in steps {
                pair.step(step);
            }
            pair.end();
        }
    }

    #[test]
    fn what_no_launch_could_use_is_let_go_at_once() {
        let mut kept = Kept::new();
        let first = kept.give('a', [1]);
        assert_eq!(kept.accept(first), [0; 0]);
        let second = kept.give('a', [2]);
        assert_eq!(kept.accept(second), [1]);
        kept.launch();
        let third = kept.give('a', [3]);
        assert_eq!((kept.accept(third), kept.retired(), kept.unmarked()), (vec![], 1, true));
    }
}
