//! What stands behind what in a graph.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use super::graph_kit::*;
use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuGraphAddDependencies, "an edge is added", |c| {
        let (graph, [a, b, _]) = three(c)?;
        step(move |c| {
            ask!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
            if c.observes() {
                ask!(c.cuGraphAddDependencies(graph, null(), null(), 0), "none");
                note_edges(c, graph)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphAddDependencies, "an edge isn't added twice, nor to itself", |c| {
        let (graph, [a, b, _]) = three(c)?;
        must!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
        ask!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1), "twice");
        ask!(c.cuGraphAddDependencies(graph, &raw const a, &raw const a, 1), "itself");
        let (_, [foreign, _, _]) = three(c)?;
        ask!(c.cuGraphAddDependencies(graph, &raw const a, &raw const foreign, 1), "foreign");
        ask!(c.cuGraphAddDependencies(graph, null(), null(), 1), "null");
        note_edges(c, graph)
    }),
    Probe::case(Call::cuGraphAddDependencies, "edges before a refused one stay", |c| {
        let (graph, [a, b, d]) = three(c)?;
        let (from, to) = ([a, b, b], [b, b, d]);
        ask!(c.cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 3));
        note_edges(c, graph)
    }),
    Probe::case(
        Call::cuGraphAddDependencies_v2,
        "edges with data before a refused one stay",
        |c| {
            let (graph, [a, b, d]) = three(c)?;
            let (from, to) = ([a, b, b], [b, b, d]);
            let data = [CUgraphEdgeData::default(); 3];
            let (from, to, data) = (from.as_ptr(), to.as_ptr(), data.as_ptr());
            ask!(c.cuGraphAddDependencies_v2(graph, from, to, data, 3));
            note_edges(c, graph)
        },
    ),
    Probe::case(Call::cuGraphAddDependencies_v2, "data of an edge fits its nodes", |c| {
        c.current()?;
        let graph = c.graph()?;
        let ((a, _), (b, _)) = (kernel_node(c, graph)?, kernel_node(c, graph)?);
        let e = c.node(graph)?;
        let data = CUgraphEdgeData { from_port: 1, type_: 1, ..CUgraphEdgeData::default() };
        edge(c, graph, (e, b), data, "from_empty");
        edge(c, graph, (a, e), data, "to_empty");
        edge(c, graph, (a, b), CUgraphEdgeData { from_port: 3, ..data }, "port");
        edge(c, graph, (a, b), CUgraphEdgeData { to_port: 1, ..data }, "to_port");
        edge(c, graph, (a, b), CUgraphEdgeData { reserved: [1; 5], ..data }, "reserved");
        edge(c, graph, (a, b), CUgraphEdgeData { from_port: 0, ..data }, "no_port");
        edge(c, graph, (a, b), data, "programmatic");
        let (mut from, mut to, mut count) = (CUgraphNode::NULL, CUgraphNode::NULL, 1);
        let (from, to, count) = (&raw mut from, &raw mut to, &raw mut count);
        ask!(c.cuGraphGetEdges(graph, from, to, count), "lossy");
        let mut nodes = CUgraphNode::NULL;
        ask!(c.cuGraphNodeGetDependencies(b, &raw mut nodes, count), "lossy_node");
        ask!(c.cuGraphRemoveDependencies(graph, &raw const a, &raw const b, 1), "remove_plain");
        let data = &raw const data;
        let (a, b) = (&raw const a, &raw const b);
        ask!(c.cuGraphRemoveDependencies_v2(graph, a, b, data, 1), "remove");
        Ok(())
    }),
    Probe::works(Call::cuGraphRemoveDependencies, "an edge is removed", |c| {
        let (graph, [a, b, _]) = three(c)?;
        must!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
        step(move |c| {
            ask!(c.cuGraphRemoveDependencies(graph, &raw const a, &raw const b, 1));
            if c.observes() {
                note_edges(c, graph)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphRemoveDependencies, "no edge isn't removed", |c| {
        let (graph, [a, b, _]) = three(c)?;
        ask!(c.cuGraphRemoveDependencies(graph, &raw const a, &raw const b, 1));
        Ok(())
    }),
    Probe::works(Call::cuGraphGetEdges, "a graph tells its edges", |c| {
        let (graph, [a, b, d]) = three(c)?;
        let (from, to) = ([b, a, a], [d, d, b]);
        must!(c.cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 3));
        step(move |c| {
            let (mut from, mut to) = ([CUgraphNode::NULL; 4], [CUgraphNode::NULL; 4]);
            let mut count = 4;
            let (at, to_at) = (from.as_mut_ptr(), to.as_mut_ptr());
            ask!(c.cuGraphGetEdges(graph, at, to_at, &raw mut count));
            if c.observes() {
                c.note("count", count);
                let name = |node| match node {
                    node if node == a => 'a',
                    node if node == b => 'b',
                    node if node == d => 'd',
                    _ => '-',
                };
                let pairs = from.iter().zip(&to).map(|(f, t)| format!("{}{}", name(*f), name(*t)));
                let order: Vec<String> = pairs.collect();
                c.note("order", order.join(","));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphGetEdges, "null tells no edges", |c| {
        let (graph, _) = three(c)?;
        let mut count = 0;
        let none = null_mut();
        ask!(c.cuGraphGetEdges(CUgraph::NULL, none, none, &raw mut count));
        ask!(c.cuGraphGetEdges(graph, none, none, null_mut()), "nowhere");
        let mut one = CUgraphNode::NULL;
        count = 1;
        ask!(c.cuGraphGetEdges(graph, &raw mut one, none, &raw mut count), "half");
        Ok(())
    }),
    Probe::works(Call::cuGraphNodeGetDependencies, "a node tells what it stands behind", |c| {
        let (graph, [a, b, _]) = three(c)?;
        must!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
        step(move |c| {
            let mut count = 9;
            ask!(c.cuGraphNodeGetDependencies(b, null_mut(), &raw mut count));
            if c.observes() {
                c.note("count", count);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeGetDependencies, "null stands behind nothing", |c| {
        c.device()?;
        let mut count = 9;
        ask!(c.cuGraphNodeGetDependencies(CUgraphNode::NULL, null_mut(), &raw mut count));
        Ok(())
    }),
    Probe::works(Call::cuGraphNodeGetDependentNodes, "a node tells what stands behind it", |c| {
        let (graph, [a, b, _]) = three(c)?;
        must!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
        step(move |c| {
            let (mut nodes, mut count) = ([CUgraphNode::from_addr(8); 3], 3);
            ask!(c.cuGraphNodeGetDependentNodes(a, nodes.as_mut_ptr(), &raw mut count));
            if c.observes() {
                c.note("count", count);
                c.note("null", nodes.iter().filter(|node| node.is_null()).count());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphNodeGetDependentNodes, "nothing stands behind null", |c| {
        c.device()?;
        let mut count = 9;
        ask!(c.cuGraphNodeGetDependentNodes(CUgraphNode::NULL, null_mut(), &raw mut count));
        Ok(())
    }),
    Probe::case(Call::cuGraphInstantiateWithParams, "a cycle is found in the end", |c| {
        c.current()?;
        let (graph, [a, b, _]) = three(c)?;
        must!(c.cuGraphAddDependencies(graph, &raw const a, &raw const b, 1));
        ask!(c.cuGraphAddDependencies(graph, &raw const b, &raw const a, 1), "edge");
        let node = ask_to_instantiate(c, graph, "instantiate");
        c.holds("first", node == a);
        c.holds("second", node == b);
        Ok(())
    }),
    Probe::crashes(Call::cuGraphDestroyNode, "a node isn't taken out twice", |c| {
        let (_, [a, _, _]) = three(c)?;
        must!(c.cuGraphDestroyNode(a));
        crash!(c.cuGraphDestroyNode(a));
        Ok(())
    }),
];

fn three(c: &Ctx) -> Made<(CUgraph, [CUgraphNode; 3])> {
    c.device()?;
    let graph = c.graph()?;
    Ok((graph, [c.node(graph)?, c.node(graph)?, c.node(graph)?]))
}

fn edge(
    c: &mut Ctx,
    graph: CUgraph,
    (from, to): (CUgraphNode, CUgraphNode),
    data: CUgraphEdgeData,
    label: &str,
) {
    let (from, to, data) = (&raw const from, &raw const to, &raw const data);
    ask!(c.cuGraphAddDependencies_v2(graph, from, to, data, 1), label);
}

fn note_edges(c: &mut Ctx, graph: CUgraph) -> Made<()> {
    let mut count = 0;
    must!(c.cuGraphGetEdges(graph, null_mut(), null_mut(), &raw mut count));
    c.note("edges", count);
    Ok(())
}
