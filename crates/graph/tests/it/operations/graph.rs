//! Graphs by definition.

#![expect(unsafe_code, reason = "adds kernels, and clears away by raw calls")]

use cuhold_driver_sim::ObjectKind;
use cuhold_graph::{
    Graph,
    handles::{
        LaunchConfig,
        driver_sys::ffi::{CUgraph, CUuserObject},
    },
};
use cuhold_testkit::Run;

fn graph(run: &Run<'_>) -> Graph {
    Graph::new(run.context()).unwrap()
}

/// Ends what a failed end left, with which the driver value would live on: a graph with all that it holds, then references
/// to user objects that are nobody's any more.
fn sweep(run: &Run<'_>) {
    let left = |kind| run.live().into_iter().filter(move |leak| leak.kind == kind);
    let calls = run.driver().calls();
    for leak in left(ObjectKind::Graph) {
        let raw = CUgraph::from_addr(usize::try_from(leak.raw).unwrap());
        // SAFETY: *handles*: live, and lost by its owner.
        run.finish(|| Ok(unsafe { calls.cuGraphDestroy(raw) }?));
    }
    for leak in left(ObjectKind::UserObject) {
        let raw = CUuserObject::from_addr(usize::try_from(leak.raw).unwrap());
        // SAFETY: *handles*: live, and its reference is nobody's any more.
        run.finish(|| Ok(unsafe { calls.cuUserObjectRelease(raw, 1) }?));
    }
    while run.driver().reclaim().run_by_hand().step() {}
}

cuhold_testkit::enrol! {
    Graph::new |run| {
        run.create(|| Graph::new(run.context()));
    }

    Graph::empty |run| {
        let mut graph = graph(run);
        run.keep(run.op(|| graph.empty(&[])));
    }

    Graph::host |run| {
        let mut graph = graph(run);
        run.keep(run.op(|| graph.host(&[], || {})));
        drop(graph);
        sweep(run);
    }

    Graph::record |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        run.keep(run.op(|| graph.record(&[], &event)));
        drop((graph, event));
        sweep(run);
    }

    Graph::wait |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        run.keep(run.op(|| graph.wait(&[], &event)));
        drop((graph, event));
        sweep(run);
    }

    Graph::kernel |run| {
        let (mut graph, nop) = (graph(run), run.kernel("nop"));
        let config = LaunchConfig::for_len(1).cooperative();
        // SAFETY: the kernel takes nothing and does nothing.
        run.keep(run.op(|| unsafe { graph.kernel(&[], &nop, config, ()) }));
        drop((graph, nop));
        sweep(run);
    }

    Graph::child |run| {
        let (mut graph, mut child) = (graph(run), graph(run));
        run.keep(run.op(|| graph.child(&[], &mut child)));
    }

    Graph::add_edge |run| {
        let mut graph = graph(run);
        let (a, b) = (graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap());
        run.keep(run.op(|| graph.add_edge(a, b)));
    }

    Graph::add_edges |run| {
        let mut graph = graph(run);
        let (a, b) = (graph.empty(&[]).unwrap(), graph.empty(&[]).unwrap());
        run.keep(run.op(|| graph.add_edges(&[(a, b)])));
    }

    Graph::remove_edge |run| {
        let mut graph = graph(run);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(&[a]).unwrap();
        run.keep(run.op(|| graph.remove_edge(a, b)));
    }

    Graph::remove_edges |run| {
        let mut graph = graph(run);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(&[a]).unwrap();
        run.keep(run.op(|| graph.remove_edges(&[(a, b)])));
    }

    Graph::predecessors |run| {
        let mut graph = graph(run);
        let a = graph.empty(&[]).unwrap();
        let b = graph.empty(&[a]).unwrap();
        run.repeat(|| graph.predecessors(b));
    }

    Graph::successors |run| {
        let mut graph = graph(run);
        let a = graph.empty(&[]).unwrap();
        graph.empty(&[a]).unwrap();
        run.repeat(|| graph.successors(a));
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
