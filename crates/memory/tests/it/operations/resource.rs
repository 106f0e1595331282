//! Resources beside the pools.

#![expect(unsafe_code, reason = "gives memory back to a resource by hand")]

use crate::raw;
use cuhold_handles::Stream;
use cuhold_memory::{
    Block, GraphMemory, GraphResource, ManagedResource, MemoryResource, SynchronousResource,
};
use cuhold_testkit::Run;

/// A stream of another device, which others may use.
fn foreign(run: &Run<'_>) -> Stream {
    let stream = run.second_device().new_stream().unwrap();
    let _: cuhold_handles::driver_sys::ffi::CUstream = stream.as_raw();
    stream
}

/// Allocates, and gives what came of it back.
fn allocate(run: &Run<'_>, resource: &impl MemoryResource) {
    let stream = run.device().new_stream().unwrap();
    let block = run.keep(run.op(|| resource.allocate(100, &stream)));
    if let Some(block) = block {
        // SAFETY: allocated above, and nothing uses it.
        run.finish(|| unsafe { resource.deallocate(block, &stream) });
    }
}

/// Gives memory back behind a stream of another context.
fn deallocate(run: &Run<'_>, resource: &impl MemoryResource) {
    let stream = run.device().new_stream().unwrap();
    let block = resource.allocate(100, &stream).unwrap();
    let foreign = foreign(run);
    // SAFETY: allocated above, and nothing uses it.
    run.keep(run.op(|| unsafe { resource.deallocate(block, &foreign) }));
}

/// Does something with graph memory on a stream that is being captured.
fn captured(run: &Run<'_>, work: impl FnOnce(&GraphResource, &Stream)) {
    let stream = run.device().new_stream().unwrap();
    // SAFETY: what is allocated isn't used.
    let resource = unsafe { GraphMemory::new(run.device()).resource() };
    raw::begin(&stream, raw::RELAXED);
    work(&resource, &stream);
    run.finish(|| {
        raw::end(&stream);
        Ok(())
    });
}

cuhold_testkit::enrol! {
    SynchronousResource::allocate |run| {
        allocate(run, &SynchronousResource::new(run.device()));
    }

    SynchronousResource::deallocate |run| {
        deallocate(run, &SynchronousResource::new(run.device()));
    }

    ManagedResource::allocate |run| {
        allocate(run, &ManagedResource::new(run.device()));
    }

    ManagedResource::deallocate |run| {
        deallocate(run, &ManagedResource::new(run.device()));
    }

    GraphResource::allocate |run| {
        captured(run, |resource, stream| {
            run.keep(run.op(|| resource.allocate(100, stream)));
        });
    }

    GraphResource::deallocate |run| {
        captured(run, |resource, stream| {
            let block: Block = resource.allocate(100, stream).unwrap();
            // SAFETY: allocated above, and nothing uses it.
            run.keep(run.op(|| unsafe { resource.deallocate(block, stream) }));
        });
    }

    GraphResource::free_launched |run| {
        let stream = run.device().new_stream().unwrap();
        // SAFETY: nothing is allocated.
        let resource = unsafe { GraphMemory::new(run.device()).resource() };
        // SAFETY: null is no memory of anybody's.
        run.repeat(|| unsafe { resource.free_launched(0, &stream) });
    }

    GraphMemory::usage |run| {
        let memory = GraphMemory::new(run.device());
        run.repeat(|| memory.usage());
    }

    GraphMemory::reset_used_high |run| {
        let memory = GraphMemory::new(run.device());
        run.repeat(|| memory.reset_used_high());
    }

    GraphMemory::reset_reserved_high |run| {
        let memory = GraphMemory::new(run.device());
        run.repeat(|| memory.reset_reserved_high());
    }

    GraphMemory::trim |run| {
        let memory = GraphMemory::new(run.device());
        run.repeat(|| memory.trim());
    }
}
