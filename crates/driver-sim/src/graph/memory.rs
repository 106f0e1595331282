//! Memory that graphs allocate: nodes for it, and what a device keeps for it.
//!
//! An allocation node fixes the address when it is added. The memory is there for nodes of graphs at once; for the
//! world outside once a launch allocated it, until it is freed: by a node of the same graph or of another, or by
//! `cuMemFree` and its like. A graph whose memory is out isn't launched again, unless it was made executable so that
//! each launch frees it first.
//!
//! Source: CUDA Driver API 13.x, "Graph Management"; CUDA Programming Guide, "Graph Memory Nodes".

#![expect(unsafe_code, reason = "an attribute's type depends on the attribute")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    Deed, Graph, Inside, NodeKind, Params, Task,
    node::{Place, add},
    params::{Allocated, alloc_to_c},
};
use crate::{
    audit::ViolationKind,
    memory::graph_place,
    world::{Answer, In, Key, Out, State, Turn},
};

type Attribute = CUgraphMem_attribute;

impl Turn<'_> {
    /// Whether memory nodes may be added: not inside of a child node (documented; the status is a choice).
    fn takes_memory(&self, graph: Key<Graph>) -> Answer {
        match self.graph_data(graph)?.owner.map(|owner| owner.inside) {
            Some(Inside::Copied | Inside::Moved) => Err(CUresult::NOT_SUPPORTED),
            Some(Inside::Body) | None => Ok(()),
        }
    }
}

pub(super) fn alloc(
    turn: &mut Turn<'_>,
    graph: Key<Graph>,
    given: CUDA_MEM_ALLOC_NODE_PARAMS_v2,
) -> Result<Task, CUresult> {
    turn.takes_memory(graph)?;
    let place = graph_place(turn, &given.poolProps)?;
    let access = match given.accessDescCount {
        0 => Vec::new(),
        _ if given.accessDescs.is_null() => {
            turn.violate(
                ViolationKind::Crash,
                None,
                "access of an allocation node, and no list of it",
            );
            return Err(CUresult::INVALID_VALUE);
        }
        // SAFETY: *pointers*: the caller's array has as many entries as it says.
        count => unsafe { std::slice::from_raw_parts(given.accessDescs, count) }.to_vec(),
    };
    if given.bytesize == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let made = turn.site;
    let address = turn.state.memory.add_graph_memory(graph, given.bytesize as u64, place, made)?;
    let params = CUDA_MEM_ALLOC_NODE_PARAMS_v2 { dptr: address, ..given };
    let params = Params::Alloc(Arc::new(Allocated { params, access }));
    Ok(Task::new(NodeKind::MemAlloc, params, Deed::Alloc(address, made)).fixed_at(address))
}

/// Each address once in a graph, and none of a graph that was made executable (measured).
pub(super) fn free(
    turn: &mut Turn<'_>,
    graph: Key<Graph>,
    address: CUdeviceptr,
) -> Result<Task, CUresult> {
    turn.takes_memory(graph)?;
    let owner = turn.state.memory.graph_of(address).ok_or(CUresult::INVALID_VALUE)?;
    let used = owner == graph && turn.graph_data(graph)?.was_executable;
    if used || turn.state.is_freed_in(graph, address) {
        return Err(CUresult::INVALID_VALUE);
    }
    let task = Task::new(NodeKind::MemFree, Params::Free(address), Deed::Free(address, turn.site));
    Ok(task.fixed_at(address))
}

impl State {
    /// Whether a node of a graph frees this address.
    pub(crate) fn is_freed_in(&self, graph: Key<Graph>, address: u64) -> bool {
        self.nodes_in(graph)
            .any(|(_, node)| matches!(node.task.deed, Deed::Free(freed, _) if freed == address))
    }
}

pub(crate) fn add_alloc(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    let given = params.read().ok_or(CUresult::INVALID_VALUE)?;
    let CUDA_MEM_ALLOC_NODE_PARAMS { poolProps, accessDescs, accessDescCount, bytesize, dptr } =
        given;
    let wide =
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 { poolProps, accessDescs, accessDescCount, bytesize, dptr };
    let place = Place { graph, dependencies, data: In::null(), count };
    let task = add(turn, out, place, |turn, graph| alloc(turn, graph, wide))?;
    if let Params::Alloc(made) = &task.params {
        params.write(CUDA_MEM_ALLOC_NODE_PARAMS { dptr: made.params.dptr, ..given });
    }
    Ok(())
}

pub(crate) fn alloc_params(
    turn: &mut Turn<'_>,
    node: CUgraphNode,
    out: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> Answer {
    let out = out.required()?;
    let key = turn.node(node)?;
    let task = &turn.node_data(key)?.task;
    let made = match &task.params {
        Params::Alloc(made) => made,
        Params::Unknown if task.kind == NodeKind::MemAlloc => return Err(CUresult::MISSING),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let CUDA_MEM_ALLOC_NODE_PARAMS_v2 { poolProps, accessDescs, accessDescCount, bytesize, dptr } =
        alloc_to_c(made);
    out.write(CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps,
        accessDescs,
        accessDescCount,
        bytesize,
        dptr,
    });
    Ok(())
}

pub(crate) fn add_free(
    turn: &mut Turn<'_>,
    out: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    address: CUdeviceptr,
) -> Answer {
    let place = Place { graph, dependencies, data: In::null(), count };
    add(turn, out, place, |turn, graph| free(turn, graph, address)).map(|_task| ())
}

pub(crate) fn free_params(turn: &mut Turn<'_>, node: CUgraphNode, out: Out<CUdeviceptr>) -> Answer {
    let out = out.required()?;
    let key = turn.node(node)?;
    match turn.node_data(key)?.task.params {
        Params::Free(address) => out.write(address),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}

/// Gives back what no graph uses now.
pub(crate) fn device_trim(turn: &mut Turn<'_>, device: CUdevice) -> Answer {
    let device = turn.state.device_index(device)?;
    turn.state.memory.graph_count(device).trim();
    Ok(())
}

pub(crate) fn device_memory(
    turn: &mut Turn<'_>,
    device: CUdevice,
    attribute: Attribute,
    value: Out<c_void>,
) -> Answer {
    let value = value.required()?;
    let device = turn.state.device_index(device)?;
    let count = turn.state.memory.graph_count(device);
    let bytes = match attribute {
        Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => count.used,
        Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => count.used_high,
        Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => count.reserved,
        Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => count.reserved_high,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    // SAFETY: *pointers*: the caller gave room for this attribute, which is of 64 bits.
    unsafe { value.as_ptr().cast::<cuuint64_t>().write_unaligned(bytes) };
    Ok(())
}

/// The highest counts can be set, to 0 alone (documented): they begin anew.
pub(crate) fn device_set_memory(
    turn: &mut Turn<'_>,
    device: CUdevice,
    attribute: Attribute,
    value: Out<c_void>,
) -> Answer {
    let value = value.required()?;
    let device = turn.state.device_index(device)?;
    let count = turn.state.memory.graph_count(device);
    let (high, now) = match attribute {
        Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => (&mut count.used_high, count.used),
        Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => {
            (&mut count.reserved_high, count.reserved)
        }
        _ => return Err(CUresult::INVALID_VALUE),
    };
    // SAFETY: *pointers*: the caller gave a value of this attribute's 64 bits.
    let bytes = unsafe { value.as_ptr().cast::<cuuint64_t>().read_unaligned() };
    if bytes != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    *high = now;
    Ok(())
}
