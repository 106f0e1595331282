//! Graphs as a whole, their edges, and what is told of them.

#![expect(unsafe_code, reason = "makes graphs by raw calls")]

use super::{graph, sweep};
use cuhold_graph::{
    Edge, Graph,
    handles::{self, driver_sys::ffi::*},
};
use cuhold_testkit::Run;
use std::ptr;

/// A graph that somebody else made, of two nodes and an edge.
fn raw_graph(run: &Run<'_>) -> handles::Graph {
    let graph = handles::Graph::new(run.context()).unwrap();
    let calls = run.driver().calls();
    let (mut first, mut second) = (CUgraphNode::NULL, CUgraphNode::NULL);
    // SAFETY: *pointers*: live locals; *handles*: the graph made above.
    unsafe { calls.cuGraphAddEmptyNode(&raw mut first, graph.as_raw(), ptr::null(), 0) }.unwrap();
    let after = &raw const first;
    // SAFETY: as above.
    unsafe { calls.cuGraphAddEmptyNode(&raw mut second, graph.as_raw(), after, 1) }.unwrap();
    graph
}

cuhold_testkit::enrol! {
    Graph::new |run| {
        run.create(|| Graph::new(run.context()));
    }

    Graph::adopt |run| {
        let raw = raw_graph(run);
        drop(run.keep_or(run.op(|| Graph::adopt(raw))));
    }

    Graph::try_clone |run| {
        let mut graph = graph(run);
        let node = graph.empty(&[]).unwrap();
        graph.empty(node).unwrap();
        run.repeat(|| graph.try_clone());
        drop(graph);
        sweep(run);
    }

    Graph::body |run| {
        let mut step = graph(run);
        let first = step.empty(&[]).unwrap();
        step.empty(first).unwrap();
        let mut graph = graph(run);
        let child = graph.child(&[], &mut step).unwrap();
        run.repeat(|| graph.body(child, 0));
    }

    Graph::add_edge |run| {
        let mut graph = graph(run);
        let (a, b) = (graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap());
        run.keep(run.op(|| graph.add_edge(a, b)));
    }

    Graph::add_edges |run| {
        let mut graph = graph(run);
        let (a, b, c) = (graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap());
        run.keep(run.op(|| graph.add_edges(&[Edge::new(a, b), Edge::new(a, c)])));
    }

    Graph::remove_edge |run| {
        let mut graph = graph(run);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(a).unwrap();
        run.keep(run.op(|| graph.remove_edge(a, b)));
    }

    Graph::remove_edges |run| {
        let mut graph = graph(run);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(a).unwrap();
        run.keep(run.op(|| graph.remove_edges(&[(a, b)])));
    }

    Graph::remove |run| {
        let mut graph = graph(run);
        let node = graph.empty(&[]).unwrap();
        run.keep(run.op(|| graph.remove(node)));
    }

    Graph::close |run| {
        let mut graph = graph(run);
        graph.host(&[], || {}).unwrap();
        drop(run.keep_or(run.op(|| graph.close())));
        sweep(run);
    }

    Graph::drop |run| {
        let mut graph = graph(run);
        graph.host(&[], || {}).unwrap();
        run.op(|| drop(graph));
        sweep(run);
    }
}
