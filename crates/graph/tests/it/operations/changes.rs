//! Nodes changed, and told of.

#![expect(unsafe_code, reason = "adds kernels")]

use super::{
    graph,
    nodes::{buffer, semaphore},
    sweep,
};
use cuhold_graph::{
    BatchOperation, Graph, Node, SharedHost,
    handles::{LaunchConfig, Result},
    memory::HostBuffer,
};
use cuhold_testkit::Run;

cuhold_testkit::enrol! {
    Graph::set_host |run| {
        let mut graph = graph(run);
        let node = graph.host(&[], || {}).unwrap();
        fill_chunk(&mut graph, 1);
        run.repeat(|| graph.set_host(node, || {}));
        drop(graph);
        sweep(run);
    }

    Graph::set_event |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        let (record, wait) = (graph.record(&[], &event).unwrap(), graph.wait(&[], &event).unwrap());
        fill_chunk(&mut graph, 2);
        run.repeat(|| graph.set_event(record, &event).and_then(|()| graph.set_event(wait, &event)));
        drop((graph, event));
        sweep(run);
    }

    Graph::set_kernel |run| {
        let (mut graph, nop) = (graph(run), run.kernel("nop"));
        let config = LaunchConfig::for_len(1);
        // SAFETY: the kernel takes nothing and does nothing.
        let node = unsafe { graph.kernel(&[], &nop, config, ()) }.unwrap();
        fill_chunk(&mut graph, 1);
        // SAFETY: as above.
        run.repeat(|| unsafe { graph.set_kernel(node, &nop, config.cooperative(), ()) });
        drop((graph, nop));
        sweep(run);
    }

    Graph::set_copy |run| {
        let (mut graph, from, mut to) = (graph(run), buffer(run), buffer(run));
        let node = graph.copy(&[], &mut to, &from).unwrap();
        fill_chunk(&mut graph, 2);
        run.repeat(|| graph.set_copy(node, &mut to, &from));
        drop((graph, from, to));
        sweep(run);
    }

    Graph::set_fill |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let node = graph.fill(&[], &mut to, 7).unwrap();
        fill_chunk(&mut graph, 1);
        run.repeat(|| graph.set_fill(node, &mut to, 8));
        drop((graph, to));
        sweep(run);
    }

    Graph::set_copy_from_host |run| {
        let (mut graph, from, mut to) = (graph(run), buffer(run), buffer(run));
        let node = graph.copy(&[], &mut to, &from).unwrap();
        fill_chunk(&mut graph, 2);
        run.repeat(|| graph.set_copy_from_host(node, &mut to, vec![1, 2, 3, 4]));
        drop((graph, from, to));
        sweep(run);
    }

    Graph::set_copy_from_shared |run| {
        let (mut graph, from, mut to) = (graph(run), buffer(run), buffer(run));
        let host = SharedHost::new(HostBuffer::zeroed(run.context(), 4).unwrap());
        let node = graph.copy(&[], &mut to, &from).unwrap();
        fill_chunk(&mut graph, 2);
        run.repeat(|| graph.set_copy_from_shared(node, &mut to, &host));
        drop((graph, from, to, host));
        sweep(run);
    }

    Graph::set_copy_to_shared |run| {
        let (mut graph, from, mut to) = (graph(run), buffer(run), buffer(run));
        let host = SharedHost::new(HostBuffer::zeroed(run.context(), 4).unwrap());
        let node = graph.copy(&[], &mut to, &from).unwrap();
        fill_chunk(&mut graph, 2);
        run.repeat(|| graph.set_copy_to_shared(node, &host, &from));
        drop((graph, from, to, host));
        sweep(run);
    }

    Graph::set_batch |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let write = BatchOperation::write(to.as_view_mut(), 7).unwrap();
        let writes = std::slice::from_ref(&write);
        let node = graph.batch(&[], writes).unwrap();
        fill_chunk(&mut graph, 1);
        run.repeat(|| graph.set_batch(node, writes));
        drop((graph, to, write));
        sweep(run);
    }

    Graph::set_signal |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let mut graph = graph(run);
        let node = graph.signal(&[], &[(semaphore.clone(), 7)]).unwrap();
        fill_chunk(&mut graph, 1);
        run.repeat(|| graph.set_signal(node, &[(semaphore.clone(), 8)]));
        drop((graph, semaphore));
        sweep(run);
    }

    Graph::set_await |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let mut graph = graph(run);
        let node = graph.await_signals(&[], &[(semaphore.clone(), 7)]).unwrap();
        fill_chunk(&mut graph, 1);
        run.repeat(|| graph.set_await(node, &[(semaphore.clone(), 8)]));
        drop((graph, semaphore));
        sweep(run);
    }

    Graph::params |run| {
        let Some((graph, nodes)) = of_every_kind(run) else { return };
        run.repeat(|| nodes.iter().try_for_each(|node| graph.params(*node).map(drop)));
        drop(graph);
        sweep(run);
    }

    Graph::to_dot |run| {
        let Some((mut graph, _)) = of_every_kind(run) else { return };
        run.repeat(|| graph.to_dot());
        drop(graph);
        sweep(run);
    }

    Graph::to_svg |run| {
        let Some((mut graph, _)) = of_every_kind(run) else { return };
        run.repeat(|| graph.to_svg());
        drop(graph);
        sweep(run);
    }
}

/// A graph with nodes of every kind of which something is told.
fn of_every_kind(run: &Run<'_>) -> Option<(Graph, Vec<Node>)> {
    let semaphore = semaphore(run)?;
    let (mut graph, event, nop) = (graph(run), run.new_event(), run.kernel("nop"));
    let (from, mut to) = (buffer(run), buffer(run));
    let write = BatchOperation::write(to.as_view_mut(), 7).unwrap();
    let memory = graph.allocate::<u32>(&[], 10).unwrap();
    // SAFETY: the kernel takes nothing and does nothing.
    let kernel = unsafe { graph.kernel(&[], &nop, LaunchConfig::for_len(1), ()) }.unwrap();
    let mut step = Graph::new(run.context()).unwrap();
    let first = step.empty(&[]).unwrap();
    step.empty(first).unwrap();
    let nodes: [Result<Node>; 9] = [
        graph.copy(kernel, &mut to, &from),
        graph.fill(kernel, &mut to, 7),
        graph.record(kernel, &event),
        graph.wait(kernel, &event),
        graph.free(memory.node(), memory),
        graph.signal(kernel, &[(semaphore.clone(), 1)]),
        graph.await_signals(kernel, &[(semaphore, 1)]),
        graph.batch(kernel, &[write]),
        graph.child(kernel, &mut step),
    ];
    let mut nodes: Vec<Node> = nodes.into_iter().collect::<Result<_>>().unwrap();
    nodes.extend([kernel, memory.node()]);
    Some((graph, nodes))
}

/// Adds nodes that keep something each until the next thing needs another chunk, where so many are kept.
fn fill_chunk(graph: &mut Graph, kept: usize) {
    for _ in kept..256 {
        graph.host(&[], || {}).unwrap();
    }
}
