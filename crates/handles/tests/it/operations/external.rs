//! Memory, semaphores and resources of other APIs, planted in the simulated driver.

#![expect(unsafe_code, reason = "takes over what was planted")]

use cuhold_handles::{
    ArrayDesc, ArrayFormat, ExternalMemory, ExternalSemaphore, GraphicsPlace, GraphicsResource,
};
use cuhold_testkit::Run;
use std::sync::Arc;

fn memory(run: &Run<'_>) -> ExternalMemory {
    let raw = run.sim().plant_external_memory(run.context().as_raw(), 1 << 16);
    // SAFETY: planted for this handle alone, in this context.
    unsafe { ExternalMemory::from_raw(run.context(), raw) }.unwrap()
}

fn semaphore(run: &Run<'_>) -> ExternalSemaphore {
    let raw = run.sim().plant_external_semaphore(run.context().as_raw());
    // SAFETY: as above.
    unsafe { ExternalSemaphore::from_raw(run.context(), raw) }.unwrap()
}

fn graphics(run: &Run<'_>) -> GraphicsResource {
    let raw = run.sim().plant_graphics_buffer(run.context().as_raw(), 64);
    // SAFETY: as above.
    unsafe { GraphicsResource::from_raw(run.context(), raw) }.unwrap()
}

cuhold_testkit::enrol! {
    ExternalMemory::map_buffer |run| {
        let memory = Arc::new(memory(run));
        run.create(|| memory.map_buffer(0..4096));
    }

    ExternalMemory::map_mipmapped |run| {
        let memory = Arc::new(memory(run));
        let desc = ArrayDesc::flat(16, 8, ArrayFormat::F32, 1).unwrap();
        run.create(|| memory.map_mipmapped(0, &desc, 2));
    }

    ExternalMemory::close |run| {
        let memory = memory(run);
        drop(run.keep_or(run.op(|| memory.close())));
    }

    ExternalMemory::drop |run| {
        let memory = memory(run);
        run.op(|| drop(memory));
    }

    ExternalBuffer::close |run| {
        let buffer = Arc::new(memory(run)).map_buffer(0..4096).unwrap();
        let memory = Arc::clone(buffer.memory());
        drop(run.keep_or(run.op(|| buffer.close())));
        drop(memory);
    }

    ExternalBuffer::drop |run| {
        let buffer = Arc::new(memory(run)).map_buffer(0..4096).unwrap();
        let memory = Arc::clone(buffer.memory());
        run.op(|| drop(buffer));
        drop(memory);
    }

    ExternalSemaphore::signal |run| {
        let semaphore = semaphore(run);
        run.repeat(|| semaphore.signal(run.stream(), 1));
        run.finish(|| run.stream().synchronize());
    }

    ExternalSemaphore::await_signal |run| {
        let semaphore = semaphore(run);
        run.sim().signal_external_semaphore(semaphore.as_raw(), 1);
        run.repeat(|| semaphore.await_signal(run.stream(), 1));
        run.finish(|| run.stream().synchronize());
    }

    ExternalSemaphore::close |run| {
        let semaphore = semaphore(run);
        drop(run.keep_or(run.op(|| semaphore.close())));
    }

    ExternalSemaphore::drop |run| {
        let semaphore = semaphore(run);
        run.op(|| drop(semaphore));
    }

    GraphicsResource::map |run| {
        let mut resource = graphics(run);
        if let Some(mapped) = run.keep(run.op(|| resource.map(run.stream()))) {
            drop(mapped);
        }
    }

    MappedGraphics::pointer |run| {
        let mut resource = graphics(run);
        let mapped = resource.map(run.stream()).unwrap();
        run.repeat(|| mapped.pointer());
    }

    MappedGraphics::array |run| {
        let mut resource = graphics(run);
        let mapped = resource.map(run.stream()).unwrap();
        // A buffer has no array.
        assert!(run.keep(run.op(|| mapped.array(GraphicsPlace::default()))).is_none());
    }

    MappedGraphics::close |run| {
        let mut resource = graphics(run);
        let mapped = resource.map(run.stream()).unwrap();
        run.keep(run.op(|| mapped.close()));
    }

    MappedGraphics::drop |run| {
        let mut resource = graphics(run);
        let mapped = resource.map(run.stream()).unwrap();
        run.op(|| drop(mapped));
    }

    GraphicsResource::close |run| {
        let resource = graphics(run);
        drop(run.keep_or(run.op(|| resource.close())));
    }

    GraphicsResource::drop |run| {
        let resource = graphics(run);
        run.op(|| drop(resource));
    }
}
