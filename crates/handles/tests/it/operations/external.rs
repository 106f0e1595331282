//! Memory, semaphores and resources of other APIs, planted in the simulated driver.

#![expect(unsafe_code, reason = "takes over what was planted")]

use super::memory::{foreign, per_thread};
use cuhold_handles::{
    ArrayDesc, ArrayFormat, ExternalMemory, ExternalSemaphore, GraphicsPlace, GraphicsResource,
    Stream,
};
use cuhold_testkit::{NowCurrent, Run};
use std::sync::Arc;

fn memory(run: &Run<'_>) -> Option<ExternalMemory> {
    let raw = run.sim()?.plant_external_memory(run.context().as_raw(), 1 << 16);
    // SAFETY: planted for this handle alone, in this context.
    Some(unsafe { ExternalMemory::from_raw(run.context(), raw) }.unwrap())
}

fn semaphore(run: &Run<'_>) -> Option<ExternalSemaphore> {
    let raw = run.sim()?.plant_external_semaphore(run.context().as_raw());
    // SAFETY: as above.
    Some(unsafe { ExternalSemaphore::from_raw(run.context(), raw) }.unwrap())
}

/// A stream that can't be asked later.
fn borrowed(run: &Run<'_>, lent: &Stream) -> Stream {
    // SAFETY: the stream outlives what refers to it.
    unsafe { Stream::borrow_raw(run.context(), lent.as_raw(), None) }.unwrap()
}

fn graphics(run: &Run<'_>) -> Option<GraphicsResource> {
    let raw = run.sim()?.plant_graphics_buffer(run.context().as_raw(), 64);
    // SAFETY: as above.
    Some(unsafe { GraphicsResource::from_raw(run.context(), raw) }.unwrap())
}

cuhold_testkit::enrol! {
    ExternalMemory::map_buffer |run| {
        let Some(memory) = memory(run).map(Arc::new) else { return };
        run.create(|| memory.map_buffer(0..4096));
    }

    ExternalMemory::map_mipmapped |run| {
        let Some(memory) = memory(run).map(Arc::new) else { return };
        let desc = ArrayDesc::flat(16, 8, ArrayFormat::F32, 1).unwrap();
        run.create(|| memory.map_mipmapped(0, &desc, 2));
    }

    ExternalMemory::close |run| {
        let Some(memory) = memory(run) else { return };
        drop(run.keep_or(run.op(|| memory.close())));
    }

    ExternalMemory::drop |run| {
        let Some(memory) = memory(run) else { return };
        run.op(|| drop(memory));
    }

    ExternalBuffer::used_on |run| {
        let Some(memory) = memory(run).map(Arc::new) else { return };
        let (buffer, stream) = (memory.map_buffer(0..4096).unwrap(), per_thread(run));
        run.repeat(|| buffer.used_on(&stream));
    }

    ExternalBuffer::close |run| {
        let Some(memory) = memory(run).map(Arc::new) else { return };
        let (buffer, stream) = (memory.map_buffer(0..4096).unwrap(), foreign(run));
        buffer.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| buffer.close())));
        drop(memory);
    }

    ExternalBuffer::drop |run| {
        let Some(memory) = memory(run).map(Arc::new) else { return };
        let (buffer, stream) = (memory.map_buffer(0..4096).unwrap(), foreign(run));
        buffer.used_on(&stream).unwrap();
        run.op(|| drop(buffer));
        drop(memory);
    }

    ExternalSemaphore::signal |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let lent = run.new_stream();
        let borrowed = borrowed(run, &lent);
        let nothing = run.now_current() == NowCurrent::Nothing;
        let stream = if nothing { &borrowed } else { run.stream() };
        run.repeat(|| semaphore.signal(stream, 1));
        run.finish(|| stream.synchronize());
    }

    ExternalSemaphore::await_signal |run| {
        let (Some(semaphore), Some(sim)) = (semaphore(run), run.sim()) else { return };
        sim.signal_external_semaphore(semaphore.as_raw(), 1);
        let lent = run.new_stream();
        let borrowed = borrowed(run, &lent);
        let nothing = run.now_current() == NowCurrent::Nothing;
        let stream = if nothing { &borrowed } else { run.stream() };
        run.repeat(|| semaphore.await_signal(stream, 1));
        run.finish(|| stream.synchronize());
    }

    ExternalSemaphore::close |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let stream = run.new_stream();
        let _others_may_capture_it = stream.as_raw();
        semaphore.signal(&stream, 1).unwrap();
        drop(run.keep_or(run.op(|| semaphore.close())));
    }

    ExternalSemaphore::drop |run| {
        let Some(semaphore) = semaphore(run) else { return };
        let stream = run.new_stream();
        let _others_may_capture_it = stream.as_raw();
        semaphore.signal(&stream, 1).unwrap();
        run.op(|| drop(semaphore));
    }

    GraphicsResource::map |run| {
        let Some(mut resource) = graphics(run) else { return };
        if let Some(mapped) = run.keep(run.op(|| resource.map(run.stream()))) {
            drop(mapped);
        }
    }

    MappedGraphics::pointer |run| {
        let Some(mut resource) = graphics(run) else { return };
        let mapped = resource.map(run.stream()).unwrap();
        run.repeat(|| mapped.pointer());
    }

    MappedGraphics::array |run| {
        let Some(mut resource) = graphics(run) else { return };
        let mapped = resource.map(run.stream()).unwrap();
        // A buffer has no array.
        assert!(run.keep(run.op(|| mapped.array(GraphicsPlace::default()))).is_none());
    }

    MappedGraphics::close |run| {
        let Some(mut resource) = graphics(run) else { return };
        let mapped = resource.map(run.stream()).unwrap();
        run.keep(run.op(|| mapped.close()));
    }

    MappedGraphics::drop |run| {
        let Some(mut resource) = graphics(run) else { return };
        let mapped = resource.map(run.stream()).unwrap();
        run.op(|| drop(mapped));
    }

    GraphicsResource::close |run| {
        let Some(resource) = graphics(run) else { return };
        drop(run.keep_or(run.op(|| resource.close())));
    }

    GraphicsResource::drop |run| {
        let Some(resource) = graphics(run) else { return };
        run.op(|| drop(resource));
    }
}
