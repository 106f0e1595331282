//! The nodes of a graph, and the graphs inside of them, as keys, and the tables that they lead to. Nothing here calls the
//! driver.
//!
//! ```text
//!   reserve ──► the driver makes the node ──► insert (can't fail) ──► a key
//!                                             remove ──► the place's generation grows: old keys lead nowhere
//! ```
//!
//! CUDA ends its process where it is handed a node that was removed (measured), so a key is looked up first and what
//! isn't found is an `Err`.

use cuhold_handles::{Error, Result};
use std::{fmt, marker::PhantomData, mem};

/// What leads to something in a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    graph: u64,
    index: u32,
    generation: u32,
}

impl Key {
    /// The number of its graph.
    pub(crate) fn graph(self) -> u64 {
        self.graph
    }

    /// Its place in the table.
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index)?;
        if self.generation > 0 { write!(f, ".{}", self.generation) } else { Ok(()) }
    }
}

/// What there are keys of.
pub(crate) trait Keyed: Copy + fmt::Debug {
    fn of(key: Key) -> Self;
    fn key(self) -> Key;
    /// Why it isn't there any more.
    const GONE: &'static str;
}

/// A node of a graph: a key, which can be copied and kept. That of a node that was removed, or of another graph, is refused
/// with an error wherever it is used.
///
/// # Examples
/// ```
/// # use cuhold_graph::Graph;
/// # use cuhold_handles::{Device, Driver};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let mut graph = Graph::new(device.context())?;
/// let first = graph.empty(&[])?;
/// let second = graph.empty(first)?;
/// graph.remove(first)?;
/// assert!(graph.empty(first).is_err());
/// assert!(graph.contains(second));
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(Key);

impl Keyed for Node {
    fn of(key: Key) -> Self {
        Self(key)
    }
    fn key(self) -> Key {
        self.0
    }
    const GONE: &'static str = "it was removed from the graph";
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {:?}", self.0)
    }
}

/// A graph inside of a node: a body of a conditional node, or the graph of a child node. A key like [`Node`], which leads
/// nowhere once the node was removed. Handed to a function that adds a node in the place of predecessors, it says that the
/// node goes in there, without any.
///
/// # Examples
/// ```
/// # use cuhold_graph::Graph;
/// # use cuhold_handles::{Device, Driver};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let mut graph = Graph::new(device.context())?;
/// let condition = graph.condition(Some(1))?;
/// let node = graph.if_then(&[], condition)?;
/// let body = graph.body(node, 0)?;
/// let first = graph.empty(body)?;
/// let second = graph.empty(first)?;
/// assert_eq!(graph.nodes_in(body)?, [first, second]);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Body(Key);

impl Keyed for Body {
    fn of(key: Key) -> Self {
        Self(key)
    }
    fn key(self) -> Key {
        self.0
    }
    const GONE: &'static str = "the node that it was inside of was removed, or changed";
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "body {:?}", self.0)
    }
}

/// Where a new node goes: behind a node, behind several that are all in one graph (`&[a, b]`), behind none (`&[]`: first in
/// the graph itself), or first in a [`Body`].
///
/// Implemented for [`Node`], for references to arrays, slices and vectors of nodes, and for [`Body`].
pub trait After {
    /// That place.
    #[doc(hidden)]
    fn place(&self) -> Place<'_>;
}

/// Where a new node goes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Place<'a> {
    /// Behind this node.
    One([Node; 1]),
    /// Behind these, which are in one graph; without any, first in the graph itself.
    All(&'a [Node]),
    /// First in this one.
    In(Body),
}

impl Place<'_> {
    /// The nodes that it is behind.
    pub(crate) fn nodes(&self) -> &[Node] {
        match self {
            Self::One(node) => node,
            Self::All(nodes) => nodes,
            Self::In(_) => &[],
        }
    }
}

impl After for Node {
    fn place(&self) -> Place<'_> {
        Place::One([*self])
    }
}

impl After for Body {
    fn place(&self) -> Place<'_> {
        Place::In(*self)
    }
}

impl After for &[Node] {
    fn place(&self) -> Place<'_> {
        Place::All(self)
    }
}

impl<const N: usize> After for &[Node; N] {
    fn place(&self) -> Place<'_> {
        Place::All(*self)
    }
}

impl After for &Vec<Node> {
    fn place(&self) -> Place<'_> {
        Place::All(self)
    }
}

/// What is kept of nodes, or of the graphs inside of them.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    graph: u64,
    slots: Vec<Slot<V>>,
    /// The first slot that is free.
    free: Option<u32>,
    len: usize,
    keys: PhantomData<fn() -> K>,
}

#[derive(Clone, Debug)]
enum Slot<V> {
    Taken {
        generation: u32,
        value: V,
    },
    Free {
        generation: u32,
        next: Option<u32>,
    },
    /// Used as often as generations can tell apart.
    Worn,
}

impl<K: Keyed, V> Table<K, V> {
    /// Empty, of the graph of this number.
    pub(crate) fn new(graph: u64) -> Self {
        Self { graph, slots: Vec::new(), free: None, len: 0, keys: PhantomData }
    }

    /// The graph's number.
    pub(crate) fn graph(&self) -> u64 {
        self.graph
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for `more`, so that as many `insert`s can't fail.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<()> {
        let fits = self.slots.len().checked_add(more).is_some_and(|len| u32::try_from(len).is_ok());
        if fits && self.slots.try_reserve(more).is_ok() {
            return Ok(());
        }
        Err(Error::state(format!("no room for {more} nodes beside {}", self.len)))
    }

    /// Puts a value in, for which `reserve` made room.
    pub(crate) fn insert(&mut self, value: V) -> K {
        self.len += 1;
        let graph = self.graph;
        if let Some(index) = self.free
            && let Some(slot) = self.slots.get_mut(index as usize)
            && let &mut Slot::Free { generation, next } = slot
        {
            self.free = next;
            *slot = Slot::Taken { generation, value };
            return K::of(Key { graph, index, generation });
        }
        // `reserve` has seen that it fits.
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot::Taken { generation: 0, value });
        K::of(Key { graph, index, generation: 0 })
    }

    /// The value.
    ///
    /// # Errors
    /// A key of another graph, or of what was removed.
    pub(crate) fn get(&self, key: K) -> Result<&V> {
        match self.slots.get(key.key().index()) {
            Some(Slot::Taken { generation, value }) if self.is_own(key, *generation) => Ok(value),
            _ => Err(self.unknown(key)),
        }
    }

    /// The value, to be changed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn get_mut(&mut self, key: K) -> Result<&mut V> {
        self.get(key)?;
        let unknown = self.unknown_if(key);
        match self.slots.get_mut(key.key().index()) {
            Some(Slot::Taken { value, .. }) => Ok(value),
            _ => Err(unknown()),
        }
    }

    /// Takes a value out; its key leads nowhere from then on.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn remove(&mut self, key: K) -> Result<V> {
        self.get(key)?;
        let (unknown, free) = (self.unknown_if(key), self.free);
        let Key { index, generation, .. } = key.key();
        let Some(slot) = self.slots.get_mut(index as usize) else { return Err(unknown()) };
        let (after, free) = match generation.checked_add(1) {
            Some(generation) => (Slot::Free { generation, next: free }, Some(index)),
            None => (Slot::Worn, free),
        };
        match mem::replace(slot, after) {
            Slot::Taken { value, .. } => {
                self.free = free;
                self.len -= 1;
                Ok(value)
            }
            Slot::Free { .. } | Slot::Worn => Err(unknown()),
        }
    }

    /// All of them, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.slots.iter().zip(0_u32..).filter_map(|(slot, index)| match slot {
            Slot::Taken { generation, value } => {
                Some((K::of(Key { graph: self.graph, index, generation: *generation }), value))
            }
            Slot::Free { .. } | Slot::Worn => None,
        })
    }

    /// The key of what is in a place.
    pub(crate) fn at(&self, index: usize) -> Option<K> {
        match self.slots.get(index) {
            Some(Slot::Taken { generation, .. }) => {
                let index = u32::try_from(index).ok()?;
                Some(K::of(Key { graph: self.graph, index, generation: *generation }))
            }
            _ => None,
        }
    }

    /// A table of another graph with copies of these values, each in the place of its original; of those for which `copy` gives
    /// nothing the place is free.
    ///
    /// # Errors
    /// The first of `copy`.
    pub(crate) fn try_copy<W>(
        &self,
        graph: u64,
        mut copy: impl FnMut(&V) -> Result<Option<W>>,
    ) -> Result<Table<K, W>> {
        let mut copies = Table { graph, slots: Vec::new(), free: None, len: 0, keys: PhantomData };
        copies.slots.reserve(self.slots.len());
        for (slot, index) in self.slots.iter().zip(0_u32..) {
            let next = match slot {
                Slot::Taken { generation, value } => match copy(value)? {
                    Some(value) => {
                        copies.len += 1;
                        copies.slots.push(Slot::Taken { generation: *generation, value });
                        continue;
                    }
                    None => generation.checked_add(1),
                },
                Slot::Free { generation, .. } => Some(*generation),
                Slot::Worn => None,
            };
            copies.slots.push(match next {
                Some(generation) => Slot::Free { generation, next: copies.free.replace(index) },
                None => Slot::Worn,
            });
        }
        Ok(copies)
    }

    /// Changes every value.
    pub(crate) fn for_each(&mut self, mut change: impl FnMut(&mut V)) {
        for slot in &mut self.slots {
            if let Slot::Taken { value, .. } = slot {
                change(value);
            }
        }
    }

    /// The places in which nothing is.
    pub(crate) fn free_places(&self) -> impl Iterator<Item = usize> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| !matches!(slot, Slot::Taken { .. })).map(|(index, _)| index)
    }

    /// The key in this table for one of the table that this is a copy of.
    pub(crate) fn own(&self, original: K) -> K {
        K::of(Key { graph: self.graph, ..original.key() })
    }

    fn is_own(&self, key: K, generation: u32) -> bool {
        self.graph == key.key().graph && generation == key.key().generation
    }

    #[cold]
    fn unknown(&self, key: K) -> Error {
        self.unknown_if(key)()
    }

    fn unknown_if(&self, key: K) -> impl FnOnce() -> Error + use<K, V> {
        let is_own = self.graph == key.key().graph;
        move || {
            let why = if is_own { K::GONE } else { "it is of another graph" };
            Error::argument(format!("{key:?}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_removed_node_is_not_found_even_where_its_place_is_taken_again() {
        let mut nodes = Table::<Node, _>::new(7);
        nodes.reserve(2).unwrap();
        let first = nodes.insert("first");
        assert_eq!(nodes.remove(first).unwrap(), "first");
        let second = nodes.insert("second");
        assert_eq!(second.key().index, first.key().index);
        let error = nodes.get(first).unwrap_err().to_string();
        assert!(error.contains("node 0: it was removed from the graph"), "{error}");
        assert_eq!(nodes.get(second).unwrap(), &"second");
        assert!(nodes.remove(first).is_err());
        assert_eq!(format!("{second:?}"), "node 0.1");
    }

    #[test]
    fn a_node_of_another_graph_is_not_found_and_the_error_says_so() {
        let (mut one, mut other) = (Table::<Node, _>::new(1), Table::<Node, _>::new(2));
        let node = one.insert(());
        other.insert(());
        let error = other.get(node).unwrap_err().to_string();
        assert!(error.contains("it is of another graph"), "{error}");
    }

    #[test]
    fn a_place_whose_generations_are_used_up_is_not_taken_again() {
        let mut nodes = Table::<Node, _>::new(1);
        nodes.slots.push(Slot::Free { generation: u32::MAX, next: None });
        nodes.free = Some(0);
        let last = nodes.insert('a');
        nodes.remove(last).unwrap();
        assert_eq!(nodes.insert('b').key().index, 1);
        assert!(nodes.get(last).is_err());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8),
        /// The n-th of all keys that were ever given out.
        Remove(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![any::<u8>().prop_map(Step::Insert), any::<usize>().prop_map(Step::Remove)]
    }

    proptest! {
        #[test]
        fn keys_lead_to_what_was_inserted_until_it_is_removed(steps in prop::collection::vec(step(), 1..60)) {
            let (mut nodes, mut model, mut given) = (Table::<Node, _>::new(3), BTreeMap::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Insert(value) => {
                        nodes.reserve(1).unwrap();
                        let node = nodes.insert(value);
                        prop_assert!(!given.contains(&node));
                        given.push(node);
                        model.insert(node, value);
                    }
                    Step::Remove(nth) if !given.is_empty() => {
                        let node = given[nth % given.len()];
                        prop_assert_eq!(nodes.remove(node).ok(), model.remove(&node));
                    }
                    Step::Remove(_) => {}
                }
                prop_assert_eq!(nodes.len(), model.len());
                let found: BTreeMap<_, _> = nodes.iter().map(|(node, value)| (node, *value)).collect();
                prop_assert_eq!(&found, &model);
                for node in &given {
                    prop_assert_eq!(nodes.get(*node).ok(), model.get(node));
                }
            }
        }
    }
}
