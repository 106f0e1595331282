//! Which nodes run after which, and an order of them that every edge agrees with. Nothing here calls the driver.
//!
//! Each node has a *rank*, and every edge leads from a lower rank to a higher one. A new node is given the highest rank, so
//! that edges to it are always right. An edge against the ranks is right where its end doesn't lead back to its beginning:
//! only nodes between the two ranks are looked at for that, and only those are ranked anew.
//!
//! Source: Pearce and Kelly, "A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs" (2007).

use cuhold_handles::{Error, Result};
use std::{collections::BTreeSet, mem};

/// No edge.
const NONE: u32 = u32::MAX;

/// How an edge leaves its first node and enters its second, as the driver has it; all zero for most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ports {
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) kind: u8,
}

/// The nodes by their places, and the edges between them.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    nodes: Vec<NodeLinks>,
    edges: Vec<EdgeLinks>,
    /// The first edge that is free; the next one is its `next_out`.
    free: u32,
    count: usize,
    next_rank: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self { nodes: Vec::new(), edges: Vec::new(), free: NONE, count: 0, next_rank: 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct NodeLinks {
    rank: u64,
    /// The edge that was added last, of those that lead from it, and of those that lead to it.
    out: u32,
    into: u32,
}

#[derive(Clone, Copy, Debug)]
struct EdgeLinks {
    from: u32,
    to: u32,
    ports: Ports,
    next_out: u32,
    before_out: u32,
    next_into: u32,
    before_into: u32,
}

/// The way round that an edge would close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cycle;

impl Order {
    /// Makes room for a node in this place and so many edges.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn reserve(&mut self, nodes: usize, edges: usize) -> Result<()> {
        let fits = |len: usize, more: usize| {
            len.checked_add(more).is_some_and(|all| u32::try_from(all).is_ok_and(|all| all < NONE))
        };
        if fits(self.nodes.len(), nodes)
            && fits(self.edges.len(), edges)
            && self.nodes.try_reserve(nodes).is_ok()
            && self.edges.try_reserve(edges).is_ok()
        {
            return Ok(());
        }
        Err(Error::state(format!("no room for {edges} edges beside {}", self.count)))
    }

    /// A node came to this place, behind all that are there.
    pub(crate) fn add_node(&mut self, place: usize) {
        let links = NodeLinks { rank: self.next_rank, out: NONE, into: NONE };
        self.next_rank += 1;
        match self.nodes.get_mut(place) {
            Some(node) => *node = links,
            None => self.nodes.resize(place + 1, links),
        }
    }

    /// The node in this place went, with its edges.
    pub(crate) fn remove_node(&mut self, place: usize) {
        while let Some(edge) = self.nodes.get(place).map(|node| node.out).filter(|e| *e != NONE) {
            self.unlink(edge);
        }
        while let Some(edge) = self.nodes.get(place).map(|node| node.into).filter(|e| *e != NONE) {
            self.unlink(edge);
        }
    }

    /// Adds an edge; ranks nodes anew where it needs that. One that is there already is added a second time: the driver
    /// refuses those.
    ///
    /// # Errors
    /// It would close a cycle: nothing was changed.
    pub(crate) fn add_edge(&mut self, from: usize, to: usize, ports: Ports) -> Result<(), Cycle> {
        let (Some(low), Some(high)) = (self.rank(to), self.rank(from)) else { return Ok(()) };
        if low <= high {
            self.make_way(from, to, low, high)?;
        }
        self.link(from, to, ports);
        Ok(())
    }

    /// Takes an edge out. Whether there was one.
    pub(crate) fn remove_edge(&mut self, from: usize, to: usize) -> bool {
        match self.find(from, to) {
            Some(edge) => {
                self.unlink(edge);
                true
            }
            None => false,
        }
    }

    /// Forgets the edges between these nodes.
    pub(crate) fn clear_edges(&mut self, of: impl Iterator<Item = usize>) {
        for place in of {
            self.remove_node(place);
        }
    }

    /// How many edges there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.count
    }

    /// How an edge is, if it is there.
    pub(crate) fn ports(&self, from: usize, to: usize) -> Option<Ports> {
        self.find(from, to).and_then(|edge| self.edges.get(edge as usize)).map(|edge| edge.ports)
    }

    /// The places of the nodes that a node runs after, that of the newest edge first.
    pub(crate) fn before(&self, place: usize) -> impl Iterator<Item = (usize, Ports)> {
        let mut edge = self.nodes.get(place).map_or(NONE, |node| node.into);
        std::iter::from_fn(move || {
            let links = self.edges.get(edge as usize)?;
            edge = links.next_into;
            Some((links.from as usize, links.ports))
        })
    }

    /// The places of the nodes that run after a node, that of the newest edge first.
    pub(crate) fn after(&self, place: usize) -> impl Iterator<Item = (usize, Ports)> {
        let mut edge = self.nodes.get(place).map_or(NONE, |node| node.out);
        std::iter::from_fn(move || {
            let links = self.edges.get(edge as usize)?;
            edge = links.next_out;
            Some((links.to as usize, links.ports))
        })
    }

    /// Whether nothing leads to a node.
    pub(crate) fn is_root(&self, place: usize) -> bool {
        self.nodes.get(place).is_none_or(|node| node.into == NONE)
    }

    fn rank(&self, place: usize) -> Option<u64> {
        self.nodes.get(place).map(|node| node.rank)
    }

    fn find(&self, from: usize, to: usize) -> Option<u32> {
        let mut out = self.nodes.get(from)?.out;
        let mut into = self.nodes.get(to)?.into;
        // Both lists at once: one of them may be long.
        loop {
            let (a, b) = (self.edges.get(out as usize)?, self.edges.get(into as usize)?);
            if a.to as usize == to {
                return Some(out);
            }
            if b.from as usize == from {
                return Some(into);
            }
            (out, into) = (a.next_out, b.next_into);
        }
    }

    fn link(&mut self, from: usize, to: usize, ports: Ports) {
        let (Ok(from_place), Ok(to_place)) = (u32::try_from(from), u32::try_from(to)) else {
            return;
        };
        let edge = match self.edges.get(self.free as usize) {
            Some(links) => mem::replace(&mut self.free, links.next_out),
            // `reserve` has seen that it fits.
            None => u32::try_from(self.edges.len()).unwrap_or(NONE),
        };
        let next_out = self.nodes.get_mut(from).map_or(NONE, |n| mem::replace(&mut n.out, edge));
        let next_into = self.nodes.get_mut(to).map_or(NONE, |n| mem::replace(&mut n.into, edge));
        if let Some(next) = self.edges.get_mut(next_out as usize) {
            next.before_out = edge;
        }
        if let Some(next) = self.edges.get_mut(next_into as usize) {
            next.before_into = edge;
        }
        let links = EdgeLinks {
            from: from_place,
            to: to_place,
            ports,
            next_out,
            before_out: NONE,
            next_into,
            before_into: NONE,
        };
        match self.edges.get_mut(edge as usize) {
            Some(free) => *free = links,
            None => self.edges.push(links),
        }
        self.count += 1;
    }

    fn unlink(&mut self, edge: u32) {
        let Some(links) = self.edges.get(edge as usize).copied() else { return };
        match self.edges.get_mut(links.before_out as usize) {
            Some(before) => before.next_out = links.next_out,
            None => {
                if let Some(node) = self.nodes.get_mut(links.from as usize) {
                    node.out = links.next_out;
                }
            }
        }
        match self.edges.get_mut(links.before_into as usize) {
            Some(before) => before.next_into = links.next_into,
            None => {
                if let Some(node) = self.nodes.get_mut(links.to as usize) {
                    node.into = links.next_into;
                }
            }
        }
        if let Some(next) = self.edges.get_mut(links.next_out as usize) {
            next.before_out = links.before_out;
        }
        if let Some(next) = self.edges.get_mut(links.next_into as usize) {
            next.before_into = links.before_into;
        }
        if let Some(free) = self.edges.get_mut(edge as usize) {
            free.next_out = mem::replace(&mut self.free, edge);
        }
        self.count -= 1;
    }

    /// Ranks nodes anew so that `from` comes in front of `to`, whose ranks are `high` and `low`.
    fn make_way(&mut self, from: usize, to: usize, low: u64, high: u64) -> Result<(), Cycle> {
        let mut ahead = BTreeSet::new();
        let mut open = vec![to];
        while let Some(place) = open.pop() {
            if place == from {
                return Err(Cycle);
            }
            if ahead.insert((self.rank(place).unwrap_or(0), place)) {
                let next = self.after(place).map(|(next, _)| next);
                open.extend(next.filter(|next| self.rank(*next).is_some_and(|rank| rank <= high)));
            }
        }
        let mut behind = BTreeSet::new();
        open.push(from);
        while let Some(place) = open.pop() {
            if behind.insert((self.rank(place).unwrap_or(0), place)) {
                let next = self.before(place).map(|(next, _)| next);
                open.extend(next.filter(|next| self.rank(*next).is_some_and(|rank| rank >= low)));
            }
        }
        // Those that lead to `from` get the lowest of all these ranks, those that `to` leads to the rest.
        let ranks: BTreeSet<u64> = ahead.iter().chain(&behind).map(|(rank, _)| *rank).collect();
        for ((_, place), rank) in behind.iter().chain(&ahead).zip(ranks) {
            if let Some(node) = self.nodes.get_mut(*place) {
                node.rank = rank;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Ports = Ports { from: 0, to: 0, kind: 0 };

    fn of(nodes: usize) -> Order {
        let mut order = Order::default();
        order.reserve(nodes, 0).unwrap();
        (0..nodes).for_each(|place| order.add_node(place));
        order
    }

    fn before(order: &Order, place: usize) -> Vec<usize> {
        let mut places: Vec<_> = order.before(place).map(|(place, _)| place).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn an_edge_against_the_ranks_is_right_unless_its_end_leads_back() {
        let mut order = of(4);
        order.add_edge(0, 1, PLAIN).unwrap();
        order.add_edge(3, 0, PLAIN).unwrap();
        order.add_edge(2, 3, PLAIN).unwrap();
        assert_eq!(order.add_edge(1, 2, PLAIN), Err(Cycle));
        assert_eq!(order.add_edge(1, 3, PLAIN), Err(Cycle));
        assert_eq!(order.len(), 3);
        order.add_edge(2, 1, PLAIN).unwrap();
        assert!(order.remove_edge(2, 3));
        assert!(!order.remove_edge(2, 3));
        order.add_edge(1, 2, PLAIN).unwrap_err();
        assert!(order.remove_edge(2, 1));
        order.add_edge(1, 2, PLAIN).unwrap();
    }

    #[test]
    fn a_node_to_itself_is_a_cycle() {
        assert_eq!(of(1).add_edge(0, 0, PLAIN), Err(Cycle));
    }

    #[test]
    fn an_edge_s_ports_are_kept() {
        let mut order = of(2);
        let ports = Ports { from: 1, to: 0, kind: 1 };
        order.add_edge(0, 1, ports).unwrap();
        assert_eq!(order.ports(0, 1), Some(ports));
        assert_eq!(order.ports(1, 0), None);
    }

    #[test]
    fn a_node_that_goes_takes_its_edges_and_its_place_can_be_had_again() {
        let mut order = of(3);
        order.add_edge(0, 1, PLAIN).unwrap();
        order.add_edge(1, 2, PLAIN).unwrap();
        order.remove_node(1);
        assert!(order.is_root(2));
        order.add_node(1);
        assert_eq!((order.len(), before(&order, 1)), (0, vec![]));
        order.add_edge(2, 1, PLAIN).unwrap();
        order.add_edge(0, 2, PLAIN).unwrap();
        assert_eq!(order.edges.len(), 2, "the edges' places are used again");
    }

    #[test]
    fn a_hundred_thousand_edges_in_the_order_of_the_nodes_rank_nothing_anew() {
        let mut order = of(100_001);
        for place in 0..100_000 {
            order.add_edge(place, place + 1, PLAIN).unwrap();
        }
        assert_eq!(order.next_rank, 100_001);
        assert_eq!(order.add_edge(100_000, 0, PLAIN), Err(Cycle));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(usize, usize),
        Remove(usize, usize),
        Renew(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = 0_usize..9;
        prop_oneof![
            8 => (place.clone(), place.clone()).prop_map(|(a, b)| Step::Add(a, b)),
            2 => (place.clone(), place.clone()).prop_map(|(a, b)| Step::Remove(a, b)),
            1 => place.prop_map(Step::Renew),
        ]
    }

    /// Whether `to` leads to `from`, found the long way.
    fn leads(edges: &BTreeSet<(usize, usize)>, to: usize, from: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![to];
        while let Some(place) = open.pop() {
            if place == from {
                return true;
            }
            if seen.insert(place) {
                open.extend(edges.iter().filter(|edge| edge.0 == place).map(|edge| edge.1));
            }
        }
        false
    }

    proptest! {
        #[test]
        fn exactly_the_edges_that_close_no_cycle_are_taken(steps in prop::collection::vec(step(), 1..120)) {
            let (mut order, mut model) = (of(9), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Add(from, to) if !model.contains(&(from, to)) => {
                        let fits = !leads(&model, to, from);
                        prop_assert_eq!(order.add_edge(from, to, PLAIN).is_ok(), fits);
                        if fits {
                            model.insert((from, to));
                        }
                    }
                    Step::Add(..) => {}
                    Step::Remove(from, to) => {
                        prop_assert_eq!(order.remove_edge(from, to), model.remove(&(from, to)));
                    }
                    Step::Renew(place) => {
                        order.remove_node(place);
                        order.add_node(place);
                        model.retain(|(from, to)| *from != place && *to != place);
                    }
                }
                prop_assert_eq!(order.len(), model.len());
                for place in 0..9 {
                    let expected: Vec<_> =
                        model.iter().filter(|edge| edge.1 == place).map(|edge| edge.0).collect();
                    prop_assert_eq!(before(&order, place), expected);
                    let mut after: Vec<_> = order.after(place).map(|(place, _)| place).collect();
                    after.sort_unstable();
                    let expected: Vec<_> =
                        model.iter().filter(|edge| edge.0 == place).map(|edge| edge.1).collect();
                    prop_assert_eq!(after, expected);
                }
                for (from, to) in &model {
                    prop_assert!(order.rank(*from) < order.rank(*to));
                }
            }
        }
    }
}
