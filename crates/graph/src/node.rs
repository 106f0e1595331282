//! The nodes of a graph as keys, and the table that they lead to. Nothing here calls the driver.
//!
//! ```text
//!   reserve ──► the driver makes the node ──► insert (can't fail) ──► a key
//!                                             remove ──► the place's generation grows: old keys lead nowhere
//! ```
//!
//! CUDA ends its process where it is handed a node that was removed (measured), so a key is looked up first and what
//! isn't found is an `Err`.

use cuhold_handles::{Error, Result};
use std::{fmt, mem};

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
/// let second = graph.empty(&[first])?;
/// graph.remove(first)?;
/// assert!(graph.empty(&[first]).is_err());
/// assert!(graph.contains(second));
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    graph: u64,
    index: u32,
    generation: u32,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.index)?;
        if self.generation > 0 { write!(f, ".{}", self.generation) } else { Ok(()) }
    }
}

/// A graph's nodes.
#[derive(Debug)]
pub(crate) struct Nodes<V> {
    graph: u64,
    places: Vec<Place<V>>,
    /// The first place that is free.
    free: Option<u32>,
    len: usize,
}

#[derive(Debug)]
enum Place<V> {
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

impl<V> Nodes<V> {
    /// No nodes, of the graph of this number.
    pub(crate) fn new(graph: u64) -> Self {
        Self { graph, places: Vec::new(), free: None, len: 0 }
    }

    /// The number of the graph.
    pub(crate) fn graph(&self) -> u64 {
        self.graph
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for `more` nodes, so that as many `insert`s can't fail.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<()> {
        let fits =
            self.places.len().checked_add(more).is_some_and(|len| u32::try_from(len).is_ok());
        if fits && self.places.try_reserve(more).is_ok() {
            return Ok(());
        }
        Err(Error::state(format!("no room for {more} nodes beside {}", self.len)))
    }

    /// Puts a node in, for which `reserve` made room.
    pub(crate) fn insert(&mut self, value: V) -> Node {
        self.len += 1;
        let graph = self.graph;
        if let Some(index) = self.free
            && let Some(place) = self.places.get_mut(index as usize)
            && let &mut Place::Free { generation, next } = place
        {
            self.free = next;
            *place = Place::Taken { generation, value };
            return Node { graph, index, generation };
        }
        // `reserve` has seen that it fits.
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Place::Taken { generation: 0, value });
        Node { graph, index, generation: 0 }
    }

    /// The node's value.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed.
    pub(crate) fn get(&self, node: Node) -> Result<&V> {
        match self.places.get(node.index as usize) {
            Some(Place::Taken { generation, value }) if self.is_own(node, *generation) => Ok(value),
            _ => Err(self.unknown(node)),
        }
    }

    /// Takes a node out; its key leads nowhere from then on.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn remove(&mut self, node: Node) -> Result<V> {
        self.get(node)?;
        let (unknown, free) = (self.unknown(node), self.free);
        let Some(place) = self.places.get_mut(node.index as usize) else { return Err(unknown) };
        let (after, free) = match node.generation.checked_add(1) {
            Some(generation) => (Place::Free { generation, next: free }, Some(node.index)),
            None => (Place::Worn, free),
        };
        match mem::replace(place, after) {
            Place::Taken { value, .. } => {
                self.free = free;
                self.len -= 1;
                Ok(value)
            }
            Place::Free { .. } | Place::Worn => Err(unknown),
        }
    }

    /// All nodes, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Node, &V)> {
        self.places.iter().zip(0_u32..).filter_map(|(place, index)| match place {
            Place::Taken { generation, value } => {
                Some((Node { graph: self.graph, index, generation: *generation }, value))
            }
            Place::Free { .. } | Place::Worn => None,
        })
    }

    fn is_own(&self, node: Node, generation: u32) -> bool {
        self.graph == node.graph && generation == node.generation
    }

    #[cold]
    fn unknown(&self, node: Node) -> Error {
        Error::argument(if self.graph == node.graph {
            format!("{node:?}: it was removed from the graph")
        } else {
            format!("{node:?}: it is of another graph")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_removed_node_is_not_found_even_where_its_place_is_taken_again() {
        let mut nodes = Nodes::new(7);
        nodes.reserve(2).unwrap();
        let first = nodes.insert("first");
        assert_eq!(nodes.remove(first).unwrap(), "first");
        let second = nodes.insert("second");
        assert_eq!(second.index, first.index);
        let error = nodes.get(first).unwrap_err().to_string();
        assert!(error.contains("node 0: it was removed from the graph"), "{error}");
        assert_eq!(nodes.get(second).unwrap(), &"second");
        assert!(nodes.remove(first).is_err());
        assert_eq!(format!("{second:?}"), "node 0.1");
    }

    #[test]
    fn a_node_of_another_graph_is_not_found_and_the_error_says_so() {
        let (mut one, mut other) = (Nodes::new(1), Nodes::new(2));
        let node = one.insert(());
        other.insert(());
        let error = other.get(node).unwrap_err().to_string();
        assert!(error.contains("it is of another graph"), "{error}");
    }

    #[test]
    fn a_place_whose_generations_are_used_up_is_not_taken_again() {
        let mut nodes = Nodes::new(1);
        nodes.places.push(Place::Free { generation: u32::MAX, next: None });
        nodes.free = Some(0);
        let last = nodes.insert('a');
        nodes.remove(last).unwrap();
        assert_eq!(nodes.insert('b').index, 1);
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
            let (mut nodes, mut model, mut given) = (Nodes::new(3), BTreeMap::new(), Vec::new());
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
