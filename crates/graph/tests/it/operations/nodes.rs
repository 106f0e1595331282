//! Nodes of every kind, added.

#![expect(unsafe_code, reason = "adds kernels, and takes over planted semaphores")]

use super::{graph, sweep};
use cuhold_graph::{
    AllocateOptions, BatchOperation, SharedHost,
    handles::{ExternalSemaphore, LaunchConfig, driver_sys::ffi::*},
    memory::{Buffer, HostBuffer},
};
use cuhold_testkit::Run;
use std::sync::Arc;

pub(super) fn buffer(run: &Run<'_>) -> Buffer<u32> {
    Buffer::uninit(&run.new_stream(), 4).unwrap()
}

/// A semaphore, where the simulated driver plants one.
pub(super) fn semaphore(run: &Run<'_>) -> Option<Arc<ExternalSemaphore>> {
    let raw = run.sim()?.plant_external_semaphore(run.context().as_raw());
    // SAFETY: planted above, and nobody else's.
    Some(Arc::new(unsafe { ExternalSemaphore::from_raw(run.context(), raw) }.unwrap()))
}

cuhold_testkit::enrol! {
    Graph::empty |run| {
        let mut graph = graph(run);
        run.repeat(|| graph.empty(&[]));
    }

    Graph::host |run| {
        let mut graph = graph(run);
        run.repeat(|| graph.host(&[], || {}));
        drop(graph);
        sweep(run);
    }

    Graph::record |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        run.repeat(|| graph.record(&[], &event));
        drop((graph, event));
        sweep(run);
    }

    Graph::wait |run| {
        let (mut graph, event) = (graph(run), run.new_event());
        run.repeat(|| graph.wait(&[], &event));
        drop((graph, event));
        sweep(run);
    }

    Graph::kernel |run| {
        let (mut graph, nop) = (graph(run), run.kernel("nop"));
        let config = LaunchConfig::for_len(1).cooperative();
        // SAFETY: the kernel takes nothing and does nothing.
        run.repeat(|| unsafe { graph.kernel(&[], &nop, config, ()) });
        drop((graph, nop));
        sweep(run);
    }

    Graph::child |run| {
        let (mut graph, mut child) = (graph(run), graph(run));
        run.repeat(|| graph.child(&[], &mut child));
    }

    Graph::child_moved |run| {
        let (mut graph, mut child) = (graph(run), graph(run));
        child.host(&[], || {}).unwrap();
        drop(run.keep_or(run.op(|| graph.child_moved(&[], child))));
        drop(graph);
        sweep(run);
    }

    Graph::copy |run| {
        let (mut graph, from, mut to) = (graph(run), buffer(run), buffer(run));
        run.repeat(|| graph.copy(&[], &mut to, &from));
        drop((graph, from, to));
        sweep(run);
    }

    Graph::copy_from_host |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        run.repeat(|| graph.copy_from_host(&[], &mut to, vec![1, 2, 3, 4]));
        drop((graph, to));
        sweep(run);
    }

    Graph::copy_from_shared |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let host = SharedHost::new(HostBuffer::zeroed(run.context(), 4).unwrap());
        run.repeat(|| graph.copy_from_shared(&[], &mut to, &host));
        drop((graph, to, host));
        sweep(run);
    }

    Graph::copy_to_shared |run| {
        let (mut graph, from) = (graph(run), buffer(run));
        let host = SharedHost::new(HostBuffer::zeroed(run.context(), 4).unwrap());
        run.repeat(|| graph.copy_to_shared(&[], &host, &from));
        drop((graph, from, host));
        sweep(run);
    }

    Graph::copy_raw |run| {
        let (mut graph, from, to) = (graph(run), buffer(run), buffer(run));
        let copy = CUDA_MEMCPY3D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: from.device_ptr(),
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: to.device_ptr(),
            WidthInBytes: 16,
            Height: 1,
            Depth: 1,
            ..CUDA_MEMCPY3D::default()
        };
        // SAFETY: both buffers hold 16 bytes, and are kept.
        run.repeat(|| unsafe { graph.copy_raw(&[], &copy, [from.keep(), to.keep()]) });
        drop((graph, from, to));
        sweep(run);
    }

    Graph::fill |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        run.repeat(|| graph.fill(&[], &mut to, 7));
        drop((graph, to));
        sweep(run);
    }

    Graph::allocate |run| {
        let mut graph = graph(run);
        run.repeat(|| graph.allocate::<u32>(&[], 10));
    }

    Graph::allocate_with |run| {
        let mut graph = graph(run);
        let options = AllocateOptions::default().on(run.device());
        run.repeat(|| graph.allocate_with::<u32>(&[], 10, &options));
    }

    Graph::free |run| {
        let mut graph = graph(run);
        let memory = graph.allocate::<u32>(&[], 10).unwrap();
        run.keep(run.op(|| graph.free(memory.node(), memory)));
    }

    Graph::signal |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let mut graph = graph(run);
        run.repeat(|| graph.signal(&[], &[(semaphore.clone(), 7)]));
        drop((graph, semaphore));
        sweep(run);
    }

    Graph::await_signals |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let mut graph = graph(run);
        run.repeat(|| graph.await_signals(&[], &[(semaphore.clone(), 7)]));
        drop((graph, semaphore));
        sweep(run);
    }

    Graph::batch |run| {
        let (mut graph, mut to) = (graph(run), buffer(run));
        let write = BatchOperation::write(to.as_view_mut(), 7).unwrap();
        run.repeat(|| graph.batch(&[], std::slice::from_ref(&write)));
        drop((graph, to, write));
        sweep(run);
    }

    Graph::condition |run| {
        let mut graph = graph(run);
        run.repeat(|| graph.condition(Some(1)));
    }

    Graph::if_then |run| {
        let mut graph = graph(run);
        let condition = graph.condition(Some(1)).unwrap();
        run.keep(run.op(|| graph.if_then(&[], condition)));
    }

    Graph::if_else |run| {
        let mut graph = graph(run);
        let condition = graph.condition(Some(1)).unwrap();
        run.keep(run.op(|| graph.if_else(&[], condition)));
    }

    Graph::while_loop |run| {
        let mut graph = graph(run);
        let condition = graph.condition(Some(1)).unwrap();
        run.keep(run.op(|| graph.while_loop(&[], condition)));
    }

    Graph::switch |run| {
        let mut graph = graph(run);
        let condition = graph.condition(Some(1)).unwrap();
        run.keep(run.op(|| graph.switch(&[], condition, 3)));
    }
}
