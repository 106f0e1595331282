//! Graphs, as far as captures and user objects need them; the memory that graphs keep.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGraphCreate, "a graph is made", |c| {
        c.device()?;
        step(|c| {
            let mut graph = CUgraph::NULL;
            ask!(c.cuGraphCreate(&raw mut graph, 0));
            if c.observes() {
                c.holds("null", graph.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphCreate, "a graph takes no flags", |c| {
        c.device()?;
        let mut graph = CUgraph::NULL;
        ask!(c.cuGraphCreate(&raw mut graph, 1));
        ask!(c.cuGraphCreate(null_mut(), 0), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuGraphDestroy, "a graph is destroyed", |c| {
        c.device()?;
        let graph = c.graph()?;
        step(move |c| {
            ask!(c.cuGraphDestroy(graph));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphDestroy, "no graph is null", |c| {
        c.device()?;
        ask!(c.cuGraphDestroy(CUgraph::NULL));
        Ok(())
    }),
    Probe::case(Call::cuGraphDestroy, "a graph isn't destroyed twice", |c| {
        c.device()?;
        let graph = c.graph()?;
        ask!(c.cuGraphDestroy(graph));
        ask!(c.cuGraphDestroy(graph), "again");
        Ok(())
    }),
    Probe::works(Call::cuGraphClone, "a graph is cloned", |c| {
        c.device()?;
        let graph = c.graph()?;
        c.node(graph)?;
        step(move |c| {
            let mut clone = CUgraph::NULL;
            ask!(c.cuGraphClone(&raw mut clone, graph));
            if c.observes() {
                c.holds("same", clone == graph);
                let mut nodes = 9;
                ask!(c.cuGraphGetNodes(clone, null_mut(), &raw mut nodes), "nodes");
                c.note("count", nodes);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphClone, "null isn't cloned", |c| {
        c.device()?;
        let mut clone = CUgraph::NULL;
        ask!(c.cuGraphClone(&raw mut clone, CUgraph::NULL));
        Ok(())
    }),
    Probe::works(Call::cuGraphAddEmptyNode, "a graph has an empty node", |c| {
        c.device()?;
        let graph = c.graph()?;
        step(move |c| {
            let mut node = CUgraphNode::NULL;
            ask!(c.cuGraphAddEmptyNode(&raw mut node, graph, null(), 0));
            if c.observes() {
                c.holds("null", node.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddEmptyNode, "null has no empty node", |c| {
        c.device()?;
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddEmptyNode(&raw mut node, CUgraph::NULL, null(), 0));
        Ok(())
    }),
    Probe::case(Call::cuGraphAddEmptyNode, "a node stands behind each node once", |c| {
        c.device()?;
        let (graph, other) = (c.graph()?, c.graph()?);
        let (first, foreign) = (c.node(graph)?, c.node(other)?);
        let mut node = CUgraphNode::NULL;
        ask!(c.cuGraphAddEmptyNode(&raw mut node, graph, [first].as_ptr(), 1), "one");
        ask!(c.cuGraphAddEmptyNode(&raw mut node, graph, [first, first].as_ptr(), 2), "twice");
        ask!(c.cuGraphAddEmptyNode(&raw mut node, graph, [foreign].as_ptr(), 1), "foreign");
        Ok(())
    }),
    Probe::works(Call::cuGraphGetNodes, "a graph counts its nodes", |c| {
        let graph = graph_of_one(c)?;
        step(move |c| {
            let mut count = 9;
            ask!(c.cuGraphGetNodes(graph, null_mut(), &raw mut count));
            if c.observes() {
                c.note("count", count);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphGetNodes, "null counts no nodes", |c| {
        c.device()?;
        let mut count = 9;
        ask!(c.cuGraphGetNodes(CUgraph::NULL, null_mut(), &raw mut count));
        Ok(())
    }),
    Probe::case(Call::cuGraphGetNodes, "a list with room to spare is told its length", |c| {
        let graph = graph_of_one(c)?;
        let mut nodes = [CUgraphNode::from_addr(8); 4];
        let mut count = 4;
        ask!(c.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count));
        c.note("count", count);
        c.note("null", nodes.iter().filter(|node| node.is_null()).count());
        Ok(())
    }),
    Probe::works(Call::cuGraphGetRootNodes, "a graph counts its first nodes", |c| {
        let graph = graph_of_one(c)?;
        step(move |c| {
            let mut count = 9;
            ask!(c.cuGraphGetRootNodes(graph, null_mut(), &raw mut count));
            if c.observes() {
                c.note("count", count);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphGetRootNodes, "null counts no first nodes", |c| {
        c.device()?;
        let mut count = 9;
        ask!(c.cuGraphGetRootNodes(CUgraph::NULL, null_mut(), &raw mut count));
        Ok(())
    }),
    Probe::works(Call::cuGraphNodeGetType, "a node has a type", |c| {
        c.device()?;
        let graph = c.graph()?;
        let node = c.node(graph)?;
        step(move |c| {
            let mut kind = CUgraphNodeType(99);
            ask!(c.cuGraphNodeGetType(node, &raw mut kind));
            if c.observes() {
                c.note("type", kind.0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeGetType, "null has no type", |c| {
        c.device()?;
        let mut kind = CUgraphNodeType(99);
        ask!(c.cuGraphNodeGetType(CUgraphNode::NULL, &raw mut kind));
        Ok(())
    }),
    Probe::case(Call::cuStreamEndCapture, "a captured graph holds what was captured", |c| {
        c.current()?;
        let (stream, function) = (c.stream()?, c.function(c"nop")?);
        let memory = c.memory(64)?;
        c.capture_globally(stream)?;
        c.launch(function, stream)?;
        must!(c.cuMemsetD8Async(memory, 0, 64, stream));
        let mut graph = CUgraph::NULL;
        ask!(c.cuStreamEndCapture(stream, &raw mut graph));
        let (mut nodes, mut roots) = (9, 9);
        ask!(c.cuGraphGetNodes(graph, null_mut(), &raw mut nodes), "nodes");
        ask!(c.cuGraphGetRootNodes(graph, null_mut(), &raw mut roots), "roots");
        c.note("count", nodes);
        c.note("first", roots);
        Ok(())
    }),
    Probe::works(Call::cuDeviceGraphMemTrim, "memory that graphs keep is given back", |c| {
        let device = c.device()?;
        step(move |c| {
            ask!(c.cuDeviceGraphMemTrim(device));
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGraphMemTrim, "a missing device's graphs keep no memory", |c| {
        c.device()?;
        ask!(c.cuDeviceGraphMemTrim(99));
        Ok(())
    }),
    Probe::works(Call::cuDeviceGetGraphMemAttribute, "graphs keep no memory at first", |c| {
        let device = c.device()?;
        step(move |c| graph_memory(c, device, CUgraphMem_attribute(0)))
    }),
    Probe::fails(Call::cuDeviceGetGraphMemAttribute, "graphs' memory has no unknown count", |c| {
        let device = c.device()?;
        graph_memory(c, device, CUgraphMem_attribute(99))
    }),
    Probe::works(Call::cuDeviceSetGraphMemAttribute, "a highest count begins anew", |c| {
        let device = c.device()?;
        let high = CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
        step(move |c| {
            let mut value = 0_u64;
            ask!(c.cuDeviceSetGraphMemAttribute(device, high, (&raw mut value).cast()));
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceSetGraphMemAttribute, "a current count isn't set", |c| {
        let device = c.device()?;
        let current = CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT;
        let mut value = 0_u64;
        ask!(c.cuDeviceSetGraphMemAttribute(device, current, (&raw mut value).cast()));
        Ok(())
    }),
];

fn graph_of_one(c: &Ctx) -> Made<CUgraph> {
    c.device()?;
    let graph = c.graph()?;
    c.node(graph)?;
    Ok(graph)
}

fn graph_memory(c: &mut Ctx, device: CUdevice, kind: CUgraphMem_attribute) -> Made<()> {
    let mut value = 99_u64;
    ask!(c.cuDeviceGetGraphMemAttribute(device, kind, (&raw mut value).cast()));
    if c.observes() {
        c.note("value", value);
    }
    Ok(())
}
