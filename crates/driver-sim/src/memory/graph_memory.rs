//! Memory of graphs: by address, whether a launch has it out, and who may still name it.
//!
//! ```text
//!   added ─► idle ──a launch allocates it──► live ──freed──► idle ─► …
//!              └── gone, once its graph, the graph's executables and their launches are, and it isn't live
//! ```

use cuhold_driver_sys::ffi::*;

use super::{Memory, pool::Location, pools::location_of, space::Origin};
use crate::{
    audit::CallSite,
    graph::Graph,
    world::{Ending, Key, Turn},
};

/// What a device reserves for graphs comes in multiples of this, in bytes (a choice).
const GRANULE_BYTES: u64 = 2 << 20;

/// An allocation of a graph.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    graph: Key<Graph>,
    device: usize,
    size_bytes: u64,
    /// A launch allocated it, and nobody freed it.
    live: bool,
    /// The graph, executables and launches that may name it.
    holders: u32,
}

/// What graphs take of a device, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GraphCount {
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
}

impl GraphCount {
    fn uses(&mut self, used: u64) {
        self.used_high = self.used_high.max(used);
        self.reserved = self.reserved.max(used.next_multiple_of(GRANULE_BYTES));
        self.reserved_high = self.reserved_high.max(self.reserved);
    }

    pub(crate) fn trim(&mut self) {
        self.reserved = self.used.next_multiple_of(GRANULE_BYTES);
    }
}

/// Where an allocation node's memory is to lie: the index of the device, and whether on the host beside it.
pub(crate) fn graph_place(
    turn: &mut Turn<'_>,
    properties: &CUmemPoolProps,
) -> Result<(usize, bool), CUresult> {
    if properties.allocType == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED {
        return Err(CUresult::MISSING);
    }
    let pinned = properties.allocType == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    if !pinned {
        return Err(CUresult::INVALID_VALUE);
    }
    let place = match location_of(properties.location) {
        Some(Location::Device(device)) if device < turn.state.devices.len() => (device, false),
        Some(Location::Host | Location::HostNuma(0)) => (0, true),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    // No graph's memory is shared (measured).
    if properties.handleTypes.0 == 0 { Ok(place) } else { Err(CUresult::NOT_SUPPORTED) }
}

impl Memory {
    /// Memory of a graph, idle.
    pub(crate) fn add_graph_memory(
        &mut self,
        graph: Key<Graph>,
        size_bytes: u64,
        place: (usize, bool),
        made: CallSite,
    ) -> Result<u64, CUresult> {
        let base = self.add_uncounted(size_bytes, Origin::Graph(graph), place, made)?;
        let device = place.0;
        self.graphs
            .insert(base, GraphMemory { graph, device, size_bytes, live: false, holders: 1 });
        Ok(base)
    }

    /// The graph that allocates this address.
    pub(crate) fn graph_of(&self, address: u64) -> Option<Key<Graph>> {
        self.graphs.get(&address).map(|memory| memory.graph)
    }

    /// Whether a launch has it out.
    pub(crate) fn graph_memory_is_live(&self, base: u64) -> bool {
        self.graphs.get(&base).is_some_and(|memory| memory.live)
    }

    /// What graphs take of a device.
    pub(crate) fn graph_count(&mut self, device: usize) -> &mut GraphCount {
        self.graph_counts.entry(device).or_default()
    }

    /// A launch that begins takes memory out for `live`, and uses more while it runs.
    pub(crate) fn begin_graph_memory(&mut self, all: &[u64], live: &[u64]) {
        for base in all {
            let Some(memory) = self.graphs.get(base) else { continue };
            let (device, size) = (memory.device, memory.size_bytes);
            let count = self.graph_count(device);
            count.uses(count.used + size);
        }
        for base in live {
            let Some(memory) = self.graphs.get_mut(base).filter(|memory| !memory.live) else {
                continue;
            };
            memory.live = true;
            let (device, size) = (memory.device, memory.size_bytes);
            let count = self.graph_count(device);
            count.used += size;
            count.uses(count.used);
        }
    }

    /// Frees memory that a launch has out. Says whether there was any.
    pub(crate) fn free_graph_memory(&mut self, base: u64, by: CallSite) -> bool {
        let Some(memory) = self.graphs.get_mut(&base).filter(|memory| memory.live) else {
            return false;
        };
        memory.live = false;
        let (device, size) = (memory.device, memory.size_bytes);
        let count = self.graph_count(device);
        count.used = count.used.saturating_sub(size);
        self.end_unheld(base, by);
        true
    }

    /// One more may name it.
    pub(crate) fn hold_graph_memory(&mut self, bases: &[u64]) {
        for base in bases {
            if let Some(memory) = self.graphs.get_mut(base) {
                memory.holders += 1;
            }
        }
    }

    /// One less may name it.
    pub(crate) fn let_graph_memory_go(&mut self, bases: &[u64], by: CallSite) {
        for base in bases {
            if let Some(memory) = self.graphs.get_mut(base) {
                memory.holders = memory.holders.saturating_sub(1);
            }
            self.end_unheld(*base, by);
        }
    }

    fn end_unheld(&mut self, base: u64, by: CallSite) {
        let over = self.graphs.get(&base).is_some_and(|m| m.holders == 0 && !m.live);
        if over {
            self.graphs.remove(&base);
            drop(self.remove(base, by, Ending::Destroyed));
        }
    }

    /// A graph ends: its memory stays while an executable of it, or a launch, may name it.
    pub(crate) fn end_graph(&mut self, graph: Key<Graph>, by: CallSite) {
        if self.graphs.is_empty() {
            return;
        }
        let its = self.graphs.iter().filter(|(_, memory)| memory.graph == graph);
        let bases: Vec<u64> = its.map(|(base, _)| *base).collect();
        self.let_graph_memory_go(&bases, by);
    }
}
