//! Nodes of executables that copy, fill, signal, and wait, changed.

use super::{
    exec::Changed,
    graph,
    nodes::{buffer, semaphore},
};
use cuhold_graph::{
    BatchOperation, Graph, GraphExec, Node, SharedHost, handles::Result, memory::HostBuffer,
};
use cuhold_testkit::Run;
use std::slice;

/// Changes a node so that something has to be marked, with a mark before.
fn change(
    run: &Run<'_>,
    graph: Graph,
    node: Node,
    mut change: impl FnMut(&mut GraphExec, &Graph, Node) -> Result<()>,
) {
    let mut changed = Changed::of(run, graph, node);
    let Changed { exec, graph, .. } = &mut changed;
    for _ in 0..2 {
        change(exec, graph, node).unwrap();
        exec.launch(run.stream()).unwrap();
    }
    run.repeat(|| change(exec, graph, node));
    drop(change);
    changed.end(run);
}

fn host(run: &Run<'_>) -> SharedHost<u32> {
    SharedHost::new(HostBuffer::zeroed(run.context(), 4).unwrap())
}

cuhold_testkit::enrol! {
    GraphExec::set_fill |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let node = graph.fill(&[], &mut to, 7).unwrap();
        change(run, graph, node, |exec, graph, node| exec.set_fill(graph, node, &mut to, 8));
    }

    GraphExec::set_copy |run| {
        let (mut graph, from, mut to) = (graph(run), buffer(run), buffer(run));
        let node = graph.copy(&[], &mut to, &from).unwrap();
        change(run, graph, node, move |exec, graph, node| exec.set_copy(graph, node, &mut to, &from));
    }

    GraphExec::set_copy_from_host |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let node = graph.copy_from_host(&[], &mut to, vec![1, 2, 3, 4]).unwrap();
        change(run, graph, node, move |exec, graph, node| {
            exec.set_copy_from_host(graph, node, &mut to, vec![5, 6, 7, 8])
        });
    }

    GraphExec::set_copy_from_shared |run| {
        let (mut graph, mut to, host) = (graph(run), buffer(run), host(run));
        let node = graph.copy_from_shared(&[], &mut to, &host).unwrap();
        change(run, graph, node, move |exec, graph, node| {
            exec.set_copy_from_shared(graph, node, &mut to, &host)
        });
    }

    GraphExec::set_copy_to_shared |run| {
        let (mut graph, from, host) = (graph(run), buffer(run), host(run));
        let node = graph.copy_to_shared(&[], &host, &from).unwrap();
        change(run, graph, node, move |exec, graph, node| {
            exec.set_copy_to_shared(graph, node, &host, &from)
        });
    }

    GraphExec::set_signal |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let mut graph = graph(run);
        let node = graph.signal(&[], &[(semaphore.clone(), 1)]).unwrap();
        change(run, graph, node, move |exec, graph, node| {
            exec.set_signal(graph, node, &[(semaphore.clone(), 2)])
        });
    }

    GraphExec::set_await |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let mut graph = graph(run);
        let node = graph.await_signals(&[], &[(semaphore.clone(), 0)]).unwrap();
        change(run, graph, node, move |exec, graph, node| {
            exec.set_await(graph, node, &[(semaphore.clone(), 0)])
        });
    }

    GraphExec::set_batch |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let write = BatchOperation::write(to.as_view_mut(), 1).unwrap();
        let node = graph.batch(&[], slice::from_ref(&write)).unwrap();
        drop(to);
        change(run, graph, node, move |exec, graph, node| exec.set_batch(graph, node, slice::from_ref(&write)));
    }
}
