//! Virtual memory: made, grown, given access to, shared, ended.

use cuhold_handles::{Access, FabricHandle, PerThreadStream, ShareableHandle, Stream};
use cuhold_memory::{
    Buffer, ExportedPart, Granularity, VirtualBuffer, VirtualMemory, VirtualMemoryOptions,
};
use cuhold_testkit::Run;
use std::sync::Arc;

const BYTES: usize = 2 << 20;

fn memory_with(run: &Run<'_>, options: VirtualMemoryOptions) -> VirtualMemory {
    VirtualMemory::new(run.device(), options).unwrap()
}

fn memory(run: &Run<'_>) -> VirtualMemory {
    memory_with(run, VirtualMemoryOptions::default())
}

/// Two parts of the smallest size.
fn parts(run: &Run<'_>) -> VirtualMemory {
    memory_with(run, VirtualMemoryOptions::default().part_bytes(BYTES).shareable())
}

fn buffer(memory: &VirtualMemory, stream: &Stream) -> VirtualBuffer {
    VirtualBuffer::uninit(memory, stream, 2 * BYTES).unwrap()
}

fn per_thread(run: &Run<'_>) -> PerThreadStream {
    PerThreadStream::new(run.context())
}

fn duplicates(exported: &[ExportedPart]) -> Vec<ExportedPart> {
    let again = |part: &ExportedPart| ExportedPart {
        file: part.file.try_clone().unwrap(),
        bytes: part.bytes,
    };
    exported.iter().map(again).collect()
}

/// The memory, what its buffer was exported by, and the buffer.
type OnFabric = (VirtualMemory, Vec<(FabricHandle, usize)>, VirtualBuffer);

/// A buffer that can be exported on a fabric, where there is one.
fn on_fabric(run: &Run<'_>) -> Option<OnFabric> {
    run.sim()?;
    let options = VirtualMemoryOptions::default().handle(ShareableHandle::Fabric);
    let memory = memory_with(run, options.part_bytes(BYTES));
    let buffer = buffer(&memory, &run.new_stream());
    let handles = buffer.export_fabric().unwrap();
    Some((memory, handles, buffer))
}

cuhold_testkit::enrol! {
    VirtualMemory::new |run| {
        let options = VirtualMemoryOptions::default()
            .granularity(Granularity::Recommended)
            .peer(run.second_device(), Access::Read);
        run.create(|| VirtualMemory::new(run.device(), options.clone()));
    }

    VirtualMemory::allocate |run| {
        let memory = Arc::new(memory(run));
        run.create(|| Buffer::<u8>::uninit_in(&memory, run.stream(), BYTES));
    }

    VirtualMemory::deallocate |run| {
        let memory = Arc::new(memory(run));
        let buffer = Buffer::<u8>::uninit_in(&memory, run.stream(), BYTES).unwrap();
        drop(run.keep_or(run.op(|| buffer.close())));
    }

    VirtualBuffer::uninit |run| {
        let memory = parts(run);
        run.create(|| VirtualBuffer::<u8>::uninit(&memory, run.stream(), 2 * BYTES));
    }

    VirtualBuffer::zeroed |run| {
        let memory = memory(run);
        run.create(|| VirtualBuffer::<u32>::zeroed(&memory, run.stream(), 16));
    }

    // Their context keeps the staging memory, so the buffer alone is gone after a failure.
    VirtualBuffer::from_slice |run| {
        let memory = memory(run);
        run.repeat(|| VirtualBuffer::from_slice(&memory, run.stream(), &[3, 1, 4]));
    }

    VirtualBuffer::grow |run| {
        let memory = parts(run);
        let buffer = buffer(&memory, run.stream());
        // Somebody has the addresses behind, so that it is mapped again.
        let _neighbor = buffer.grow(3 * BYTES).unwrap();
        run.create(|| buffer.grow(4 * BYTES));
    }

    VirtualBuffer::to_vec |run| {
        let memory = memory(run);
        let buffer = VirtualBuffer::<u8>::zeroed(&memory, run.stream(), 3).unwrap();
        run.repeat(|| buffer.to_vec());
    }

    VirtualBuffer::move_to |run| {
        let memory = memory(run);
        let (mut buffer, other) = (buffer(&memory, run.stream()), run.new_stream());
        let home = run.stream();
        run.repeat(|| {
            let next = if buffer.stream() == home { &other } else { home };
            buffer.move_to(next)
        });
    }

    VirtualBuffer::used_on |run| {
        let memory = memory(run);
        let (buffer, stream) = (buffer(&memory, &run.new_stream()), per_thread(run));
        run.repeat(|| buffer.used_on(&stream));
    }

    VirtualBuffer::set_access |run| {
        let memory = parts(run);
        let mut buffer = buffer(&memory, run.stream());
        let other = run.second_device();
        buffer.set_access(&[(other, Access::ReadWrite)]).unwrap();
        let less = std::cell::Cell::new(true);
        run.repeat(|| {
            let access = if less.get() { Access::Read } else { Access::None };
            buffer.set_access(&[(other, access)]).inspect(|()| less.set(false))
        });
    }

    VirtualBuffer::access |run| {
        let memory = memory(run);
        let buffer = buffer(&memory, &run.new_stream());
        run.repeat(|| buffer.access(run.device()));
    }

    VirtualBuffer::export |run| {
        let memory = parts(run);
        let buffer = buffer(&memory, &run.new_stream());
        run.create(|| buffer.export());
    }

    VirtualBuffer::import |run| {
        let memory = parts(run);
        let buffer = buffer(&memory, &run.new_stream());
        let exported = buffer.export().unwrap();
        run.create(|| {
            let parts = duplicates(&exported);
            VirtualBuffer::<u8>::import(&memory, run.stream(), parts, 2 * BYTES)
        });
    }

    VirtualBuffer::export_fabric |run| {
        let Some((_memory, _, buffer)) = on_fabric(run) else { return };
        run.create(|| buffer.export_fabric());
    }

    VirtualBuffer::import_fabric |run| {
        let Some((memory, handles, _buffer)) = on_fabric(run) else { return };
        run.create(|| {
            VirtualBuffer::<u8>::import_fabric(&memory, run.stream(), &handles, 2 * BYTES)
        });
    }

    VirtualBuffer::close |run| {
        let memory = parts(run);
        let buffer = buffer(&memory, run.stream());
        drop(run.keep_or(run.op(|| buffer.close())));
    }

    VirtualBuffer::drop |run| {
        let memory = parts(run);
        let buffer = buffer(&memory, run.stream());
        run.op(|| drop(buffer));
    }
}
