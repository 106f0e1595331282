//! Graphs by capture.

#![expect(unsafe_code, reason = "adds kernels, and clears away by raw calls")]

use cuhold_driver_sim::ObjectKind;
use cuhold_graph::{
    CaptureMode, ConditionalKind, Graph, GraphBuilder, SharedHost, capture,
    handles::{
        LaunchConfig, Result,
        driver_sys::ffi::{CUgraph, CUstream, CUstreamCaptureStatus},
    },
};
use cuhold_memory::{Buffer, Grid, GridViewMut, HostBuffer, bytemuck::Pod};
use cuhold_testkit::{Run, StreamKind};

const MODE: CaptureMode = CaptureMode::Relaxed;

fn builder(run: &Run<'_>) -> GraphBuilder {
    GraphBuilder::begin(&run.new_stream(), MODE).unwrap()
}

fn buffer(run: &Run<'_>) -> Buffer<u32> {
    Buffer::zeroed(&run.new_stream(), 16).unwrap()
}

/// A box of two rows of two.
const CORNER: Grid = Grid::rect([2, 2]).pitch(4);

fn corner_of<T: Pod>(buffer: &mut Buffer<T>) -> Result<GridViewMut<'_, T>> {
    buffer.as_view_mut().into_grid(CORNER)
}

/// A graph of one node, which a body may hold.
fn step(run: &Run<'_>) -> Graph {
    let mut step = Graph::new(run.context()).unwrap();
    step.empty(&[]).unwrap();
    step
}

fn shared(run: &Run<'_>, len: usize) -> SharedHost<u32> {
    SharedHost::new(HostBuffer::zeroed(run.context(), len).unwrap())
}

/// Ends what a failed end left, with which the driver value would live on: captures that go on, graphs with all that they
/// hold, then references to user objects that are nobody's any more.
fn sweep(run: &Run<'_>) {
    let left = |kind| run.live().into_iter().filter(move |leak| leak.kind == kind);
    let calls = run.driver().calls();
    for leak in left(ObjectKind::Stream) {
        let raw = CUstream::from_addr(usize::try_from(leak.raw).unwrap());
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut graph = CUgraph::NULL;
        run.finish(|| {
            // SAFETY: *handles*: live; *pointers*: a live local.
            unsafe { calls.cuStreamIsCapturing(raw, &raw mut status) }?;
            if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
                // SAFETY: as above. An invalidated one gives none.
                let _ = unsafe { calls.cuStreamEndCapture(raw, &raw mut graph) };
            }
            Ok(())
        });
    }
    super::sweep(run);
}

cuhold_testkit::enrol! {
    GraphBuilder::begin |run| {
        let stream = run.stream().clone();
        if run.stream_kind() == StreamKind::Legacy {
            assert!(GraphBuilder::begin(&stream, MODE).is_err());
        }
        let stream = if run.stream_kind() == StreamKind::Legacy { run.new_stream() } else { stream };
        let builder = run.keep(run.op(|| GraphBuilder::begin(&stream, MODE)));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::on_own_stream |run| {
        let builder = run.keep(run.op(|| GraphBuilder::on_own_stream(run.context(), MODE)));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::begin_again |run| {
        let mut builder = builder(run);
        drop(builder.end().unwrap());
        run.keep(run.op(|| builder.begin_again(MODE)));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::status |run| {
        let builder = builder(run);
        run.repeat(|| builder.status());
    }

    GraphBuilder::end |run| {
        let mut builder = builder(run);
        let mut fork = builder.fork().unwrap();
        fork.host(|| {}).unwrap();
        builder.join([fork]).unwrap();
        drop(builder.fork().unwrap());
        builder.host(|| {}).unwrap();
        builder.condition(None).unwrap();
        let graph = run.keep(run.op(|| builder.end()));
        drop((graph, builder));
        sweep(run);
    }

    GraphBuilder::launch |run| {
        let (mut builder, nop) = (builder(run), run.kernel("nop"));
        let config = LaunchConfig::for_len(1);
        // SAFETY: the kernel takes nothing and does nothing.
        run.repeat(|| unsafe { builder.launch(&nop, config, ()) });
        drop((builder, nop));
        sweep(run);
    }

    GraphBuilder::copy |run| {
        let (mut target, source) = (buffer(run), buffer(run));
        let mut builder = builder(run);
        run.repeat(|| {
            builder.copy(&mut target, &source)?;
            builder.copy(corner_of(&mut target)?, source.as_view().grid(CORNER)?)
        });
        drop((builder, target, source));
        sweep(run);
    }

    GraphBuilder::copy_raw |run| {
        let (target, source) = (buffer(run), buffer(run));
        let mut builder = builder(run);
        // SAFETY: the graph is never launched.
        run.repeat(|| unsafe { builder.copy_raw(target.device_ptr(), source.device_ptr(), 16) });
        drop(builder);
        sweep(run);
    }

    GraphBuilder::fill |run| {
        let (mut bytes, mut shorts, mut words) = (
            Buffer::<u8>::zeroed(&run.new_stream(), 16).unwrap(),
            Buffer::<u16>::zeroed(&run.new_stream(), 16).unwrap(),
            buffer(run),
        );
        let mut builder = builder(run);
        run.repeat(|| {
            builder.fill(&mut bytes, 1)?;
            builder.fill(&mut shorts, 0x102)?;
            builder.fill(&mut words, 0x0102_0304)?;
            builder.fill(corner_of(&mut bytes)?, 1)?;
            builder.fill(corner_of(&mut shorts)?, 0x102)?;
            builder.fill(corner_of(&mut words)?, 0x0102_0304)
        });
        drop((builder, bytes, shorts, words));
        sweep(run);
    }

    GraphBuilder::fill_raw |run| {
        let target = buffer(run);
        let mut builder = builder(run);
        // SAFETY: the graph is never launched.
        run.repeat(|| unsafe { builder.fill_raw(target.device_ptr(), 1, 16) });
        drop(builder);
        sweep(run);
    }

    GraphBuilder::host |run| {
        let mut builder = builder(run);
        run.repeat(|| builder.host(|| {}));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::record |run| {
        let (mut builder, event) = (builder(run), run.new_event());
        run.repeat(|| builder.record(&event));
        drop((builder, event));
        sweep(run);
    }

    GraphBuilder::wait |run| {
        let (mut builder, event) = (builder(run), run.new_event());
        run.repeat(|| builder.wait(&event));
        drop((builder, event));
        sweep(run);
    }

    GraphBuilder::child |run| {
        let mut child = Graph::new(run.context()).unwrap();
        let mut builder = builder(run);
        run.keep(run.op(|| builder.child(&mut child)));
        drop((builder, child));
        sweep(run);
    }

    GraphBuilder::copy_from_host |run| {
        let mut target = buffer(run);
        let mut builder = builder(run);
        run.repeat(|| {
            builder.copy_from_host(&mut target, vec![0; 16])?;
            builder.copy_from_host(corner_of(&mut target)?, vec![0; 4])
        });
        drop((builder, target));
        sweep(run);
    }

    GraphBuilder::copy_from_shared |run| {
        let (mut target, host, small) = (buffer(run), shared(run, 16), shared(run, 4));
        let mut builder = builder(run);
        run.repeat(|| {
            builder.copy_from_shared(&mut target, &host)?;
            builder.copy_from_shared(corner_of(&mut target)?, &small)
        });
        drop((builder, target, host, small));
        sweep(run);
    }

    GraphBuilder::copy_to_shared |run| {
        let (source, host, small) = (buffer(run), shared(run, 16), shared(run, 4));
        let mut builder = builder(run);
        run.repeat(|| {
            builder.copy_to_shared(&host, &source)?;
            builder.copy_to_shared(&small, source.as_view().grid(CORNER)?)
        });
        drop((builder, source, host, small));
        sweep(run);
    }

    GraphBuilder::allocate |run| {
        let mut builder = builder(run);
        run.repeat(|| builder.allocate::<u8>(16));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::free |run| {
        let mut builder = builder(run);
        let memory = builder.allocate::<u8>(16).unwrap();
        drop(run.keep_or(run.op(|| builder.free(memory))));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::fork |run| {
        let mut builder = builder(run);
        let fork = run.keep(run.op(|| builder.fork()));
        drop((fork, builder));
        sweep(run);
    }

    GraphBuilder::join |run| {
        let mut builder = builder(run);
        let forks = [builder.fork().unwrap(), builder.fork().unwrap()];
        run.keep(run.op(|| builder.join(forks)));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::follow |run| {
        let mut builder = builder(run);
        let mut fork = builder.fork().unwrap();
        run.repeat(|| fork.follow(&builder));
        drop((fork, builder));
        sweep(run);
    }

    GraphBuilder::condition |run| {
        let mut builder = builder(run);
        run.repeat(|| builder.condition(Some(1)));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::if_then |run| {
        let mut step = step(run);
        let mut builder = builder(run);
        let condition = builder.condition(Some(1)).unwrap();
        run.keep(run.op(|| builder.if_then(condition, |body| body.child(&mut step))));
        drop((builder, step));
        sweep(run);
    }

    GraphBuilder::if_else |run| {
        let mut step = step(run);
        let mut builder = builder(run);
        let condition = builder.condition(Some(1)).unwrap();
        run.keep(run.op(|| builder.if_else(condition, |body| body.child(&mut step), |_| Ok(()))));
        drop((builder, step));
        sweep(run);
    }

    GraphBuilder::while_loop |run| {
        let mut step = step(run);
        let mut builder = builder(run);
        let [outer, inner] = [(); 2].map(|()| builder.condition(Some(1)).unwrap());
        run.keep(run.op(|| builder.while_loop(outer, |body| {
            body.child(&mut step)?;
            body.if_then(inner, |_| Ok(()))
        })));
        drop((builder, step));
        sweep(run);
    }

    GraphBuilder::switch |run| {
        let mut step = step(run);
        let mut builder = builder(run);
        let condition = builder.condition(Some(1)).unwrap();
        run.keep(run.op(|| builder.switch(condition, 2, |body, _| body.child(&mut step))));
        drop((builder, step));
        sweep(run);
    }

    GraphBuilder::conditional_direct |run| {
        let mut builder = builder(run);
        let condition = builder.condition(Some(1)).unwrap();
        let kind = ConditionalKind::While;
        run.keep(run.op(|| builder.conditional_direct(condition, kind, 1, |_, _| Ok(()))));
        drop(builder);
        sweep(run);
    }

    GraphBuilder::drop |run| {
        let mut builder = builder(run);
        let fork = builder.fork().unwrap();
        builder.host(|| {}).unwrap();
        run.op(|| drop(builder));
        drop(fork);
        sweep(run);
    }

    capture |run| {
        let stream = run.new_stream();
        let graph = run.op(|| capture(&stream, MODE, |_| Ok(())));
        drop(run.keep(graph));
        sweep(run);
    }
}
