//! Executables: launched, changed, drained, ended.

#![expect(unsafe_code, reason = "changes kernels")]

use super::{graph, sweep};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    ExecOptions, Graph, GraphExec, Node,
    handles::{LaunchConfig, PerThreadStream, Stream},
};
use cuhold_testkit::Run;

/// An executable that has been launched on two streams and changed after each, so that something is replaced that launches
/// may use: behind a mark on the first stream, and without one on the thread's own, where none can be put.
pub(super) struct Changed {
    pub(super) exec: GraphExec,
    pub(super) graph: Graph,
    node: Node,
    stream: Stream,
}

impl Changed {
    fn new(run: &Run<'_>) -> Self {
        let mut graph = graph(run);
        let node = graph.host(&[], || {}).unwrap();
        let mut changed = Self::of(run, graph, node);
        let Self { exec, graph, node, stream } = &mut changed;
        exec.set_host(graph, *node, || {}).unwrap();
        exec.launch(stream).unwrap();
        exec.set_host(graph, *node, || {}).unwrap();
        exec.launch(&PerThreadStream::new(run.context())).unwrap();
        exec.set_host(graph, *node, || {}).unwrap();
        assert_eq!(exec.retired(), 2);
        changed
    }

    pub(super) fn of(run: &Run<'_>, mut graph: Graph, node: Node) -> Self {
        let exec = graph.instantiate().unwrap();
        Self { exec, graph, node, stream: run.new_stream() }
    }

    /// Launches on the stream that the operation is about: once with a mark, and once without, so that a change has something
    /// to mark.
    fn launched(mut self, run: &Run<'_>) -> Self {
        self.exec.launch(run.stream()).unwrap();
        self.exec.launch(run.stream()).unwrap();
        self
    }

    /// Ends all of it once its launches are over.
    pub(super) fn end(self, run: &Run<'_>) {
        let Self { exec, graph, .. } = self;
        run.finish(|| run.context().synchronize());
        drop((exec, graph));
        sweep(run);
    }
}

cuhold_testkit::enrol! {
    Graph::instantiate |run| {
        let mut graph = graph(run);
        let exec = run.keep(run.op(|| graph.instantiate()));
        drop((exec, graph));
        sweep(run);
    }

    Graph::instantiate_with |run| {
        let mut graph = graph(run);
        let options = ExecOptions::default().node_priority();
        let exec = run.keep(run.op(|| graph.instantiate_with(options, Some(run.stream()))));
        drop((exec, graph));
        sweep(run);
    }

    GraphExec::launch |run| {
        let mut changed = Changed::new(run);
        run.repeat(|| changed.exec.launch(run.stream()));
        changed.end(run);
    }

    GraphExec::upload |run| {
        let mut changed = Changed::new(run);
        run.repeat(|| changed.exec.upload(run.stream()));
        changed.end(run);
    }

    GraphExec::drain |run| {
        let mut changed = Changed::new(run).launched(run);
        let Changed { exec, graph, node, .. } = &mut changed;
        // The mark behind the last launch failed.
        run.faults().arm(Fault::refused(CUresult::UNKNOWN).on(Call::cuEventRecord));
        exec.set_host(graph, *node, || {}).unwrap_err();
        run.faults().disarm();
        run.repeat(|| changed.exec.drain());
        changed.end(run);
    }

    GraphExec::update |run| {
        let mut changed = Changed::new(run).launched(run);
        let mut other = graph(run);
        other.host(&[], || {}).unwrap();
        run.repeat(|| changed.exec.update(&mut other));
        drop(other);
        changed.end(run);
    }

    GraphExec::set_kernel |run| {
        let (mut graph, nop) = (graph(run), run.kernel("nop"));
        let config = LaunchConfig::for_len(1);
        // SAFETY: the kernel takes nothing and does nothing.
        let node = unsafe { graph.kernel(&[], &nop, config, ()) }.unwrap();
        let mut changed = Changed::of(run, graph, node);
        let Changed { exec, graph, .. } = &mut changed;
        // SAFETY: as above.
        unsafe { exec.set_kernel(graph, node, &nop, config, ()) }.unwrap();
        exec.launch(run.stream()).unwrap();
        // SAFETY: as above.
        unsafe { exec.set_kernel(graph, node, &nop, config, ()) }.unwrap();
        exec.launch(run.stream()).unwrap();
        // SAFETY: as above.
        run.repeat(|| unsafe { exec.set_kernel(graph, node, &nop, config, ()) });
        drop(nop);
        changed.end(run);
    }

    GraphExec::set_host |run| {
        let mut changed = Changed::new(run).launched(run);
        let Changed { exec, graph, node, .. } = &mut changed;
        run.repeat(|| exec.set_host(graph, *node, || {}));
        changed.end(run);
    }

    GraphExec::set_record |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        let node = graph.record(&[], &event).unwrap();
        let mut changed = Changed::of(run, graph, node);
        let Changed { exec, graph, .. } = &mut changed;
        exec.set_record(graph, node, &event).unwrap();
        exec.launch(run.stream()).unwrap();
        exec.set_record(graph, node, &event).unwrap();
        exec.launch(run.stream()).unwrap();
        run.repeat(|| exec.set_record(graph, node, &event));
        drop(event);
        changed.end(run);
    }

    GraphExec::set_wait |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        let node = graph.wait(&[], &event).unwrap();
        let mut changed = Changed::of(run, graph, node);
        let Changed { exec, graph, .. } = &mut changed;
        exec.set_wait(graph, node, &event).unwrap();
        exec.launch(run.stream()).unwrap();
        exec.set_wait(graph, node, &event).unwrap();
        exec.launch(run.stream()).unwrap();
        run.repeat(|| exec.set_wait(graph, node, &event));
        drop(event);
        changed.end(run);
    }

    GraphExec::set_child |run| {
        let (mut parent, mut child) = (graph(run), graph(run));
        child.host(&[], || {}).unwrap();
        let node = parent.child(&[], &mut child).unwrap();
        let mut changed = Changed::of(run, parent, node);
        let Changed { exec, graph, .. } = &mut changed;
        exec.set_child(graph, node, &mut child).unwrap();
        exec.launch(run.stream()).unwrap();
        exec.set_child(graph, node, &mut child).unwrap();
        exec.launch(run.stream()).unwrap();
        run.repeat(|| exec.set_child(graph, node, &mut child));
        drop(child);
        changed.end(run);
    }

    GraphExec::set_enabled |run| {
        let (mut graph, nop) = (graph(run), run.kernel("nop"));
        // SAFETY: the kernel takes nothing and does nothing.
        let node = unsafe { graph.kernel(&[], &nop, LaunchConfig::for_len(1), ()) }.unwrap();
        let mut changed = Changed::of(run, graph, node);
        let Changed { exec, graph, .. } = &mut changed;
        run.repeat(|| exec.set_enabled(graph, node, false));
        drop(nop);
        changed.end(run);
    }

    GraphExec::is_enabled |run| {
        let (mut graph, nop) = (graph(run), run.kernel("nop"));
        // SAFETY: the kernel takes nothing and does nothing.
        let node = unsafe { graph.kernel(&[], &nop, LaunchConfig::for_len(1), ()) }.unwrap();
        let changed = Changed::of(run, graph, node);
        run.repeat(|| changed.exec.is_enabled(&changed.graph, node));
        drop(nop);
        changed.end(run);
    }

    GraphExec::close |run| {
        let Changed { exec, graph, stream, .. } = Changed::new(run);
        stream.synchronize().unwrap();
        PerThreadStream::new(run.context()).synchronize().unwrap();
        drop(run.keep_or(run.op(|| exec.close())));
        drop(graph);
        sweep(run);
    }

    GraphExec::drop |run| {
        let Changed { exec, graph, stream, .. } = Changed::new(run);
        stream.synchronize().unwrap();
        PerThreadStream::new(run.context()).synchronize().unwrap();
        run.op(|| drop(exec));
        drop(graph);
        sweep(run);
    }
}
