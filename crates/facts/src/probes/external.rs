//! Memory, semaphores and resources of other APIs.
//!
//! Without a graphics API there is little to import. What is asked here: which answers mean that there is nothing, and
//! memory of this driver that was exported as a file descriptor and comes back as external memory.
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability", "Graphics Interoperability".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    picture::{LEVELS, SIDE, solid},
    probe::{Probe, step},
    setup::{Made, location},
};

const FD: CUexternalMemoryHandleType =
    CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
const SEMAPHORE_FD: CUexternalSemaphoreHandleType =
    CUexternalSemaphoreHandleType::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
const BYTES: usize = 2 << 20;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuImportExternalMemory, "exported memory is imported as external", |c| {
        c.current()?;
        let fd = exported(c)?;
        step(move |c| {
            let mut memory = CUexternalMemory::NULL;
            let desc = memory_of(fd, BYTES as u64);
            ask!(c.cuImportExternalMemory(&raw mut memory, &raw const desc));
            if c.observes() {
                c.holds("null", memory.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuImportExternalMemory,
        "a descriptor that isn't open isn't imported",
        |c| {
            c.current()?;
            let mut memory = CUexternalMemory::NULL;
            let desc = memory_of(-1, BYTES as u64);
            ask!(c.cuImportExternalMemory(&raw mut memory, &raw const desc));
            let empty = memory_of(0, 0);
            ask!(c.cuImportExternalMemory(&raw mut memory, &raw const empty), "no_bytes");
            let unknown =
                CUDA_EXTERNAL_MEMORY_HANDLE_DESC { type_: CUexternalMemoryHandleType(99), ..desc };
            ask!(c.cuImportExternalMemory(&raw mut memory, &raw const unknown), "type");
            ask!(c.cuImportExternalMemory(&raw mut memory, null()), "no_description");
            Ok(())
        },
    ),
    Probe::works(Call::cuDestroyExternalMemory, "external memory is destroyed", |c| {
        c.current()?;
        let memory = imported(c)?;
        step(move |c| {
            ask!(c.cuDestroyExternalMemory(memory));
            Ok(())
        })
    }),
    Probe::fails(Call::cuDestroyExternalMemory, "null isn't destroyed as external memory", |c| {
        c.current()?;
        ask!(c.cuDestroyExternalMemory(CUexternalMemory::NULL));
        Ok(())
    }),
    Probe::case(
        Call::cuDestroyExternalMemory,
        "external memory is destroyed where it's from",
        |c| {
            c.current()?;
            let memory = imported(c)?;
            c.context()?;
            ask!(c.cuDestroyExternalMemory(memory), "other");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuDestroyExternalMemory,
        "destroying external memory waits for nothing",
        |c| {
            c.current()?;
            let memory = imported(c)?;
            let stream = c.at_work()?;
            ask!(c.cuDestroyExternalMemory(memory));
            c.note_waited(stream)
        },
    ),
    Probe::works(Call::cuExternalMemoryGetMappedBuffer, "external memory is mapped", |c| {
        c.current()?;
        let memory = imported(c)?;
        step(move |c| {
            let mut mapped = 0;
            let desc = buffer(0, BYTES as u64);
            ask!(c.cuExternalMemoryGetMappedBuffer(&raw mut mapped, memory, &raw const desc));
            if c.observes() {
                c.holds("null", mapped == 0);
                must!(c.cuMemsetD8_v2(mapped, 1, BYTES));
                ask!(c.cuDestroyExternalMemory(memory), "destroy");
                ask!(c.cuMemFree_v2(mapped), "free");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuExternalMemoryGetMappedBuffer, "external memory has an end", |c| {
        c.current()?;
        let memory = imported(c)?;
        let mut mapped = 0;
        let desc = buffer(BYTES as u64, 1 << 16);
        ask!(c.cuExternalMemoryGetMappedBuffer(&raw mut mapped, memory, &raw const desc));
        Ok(())
    }),
    Probe::works(
        Call::cuExternalMemoryGetMappedMipmappedArray,
        "external memory is an array",
        |c| {
            c.current()?;
            let memory = imported(c)?;
            step(move |c| {
                let mut mapped = CUmipmappedArray::NULL;
                let desc = levels(1);
                let array = &raw mut mapped;
                ask!(c.cuExternalMemoryGetMappedMipmappedArray(array, memory, &raw const desc));
                if c.observes() {
                    c.holds("null", mapped.is_null());
                }
                Ok(())
            })
        },
    ),
    Probe::fails(
        Call::cuExternalMemoryGetMappedMipmappedArray,
        "external memory isn't an array without a width",
        |c| {
            c.current()?;
            let memory = imported(c)?;
            let mut mapped = CUmipmappedArray::NULL;
            let desc = CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
                arrayDesc: solid(0, SIDE, 0, 0),
                ..levels(LEVELS)
            };
            let array = &raw mut mapped;
            ask!(c.cuExternalMemoryGetMappedMipmappedArray(array, memory, &raw const desc));
            Ok(())
        },
    ),
    Probe::case(Call::cuImportExternalSemaphore, "what is no semaphore isn't imported", |c| {
        c.current()?;
        let mut semaphore = CUexternalSemaphore::NULL;
        let mut desc =
            CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC { type_: SEMAPHORE_FD, ..Default::default() };
        desc.handle.fd = -1;
        ask!(c.cuImportExternalSemaphore(&raw mut semaphore, &raw const desc));
        desc.type_ = CUexternalSemaphoreHandleType(99);
        ask!(c.cuImportExternalSemaphore(&raw mut semaphore, &raw const desc), "type");
        Ok(())
    }),
    Probe::case(Call::cuDestroyExternalSemaphore, "null isn't destroyed as a semaphore", |c| {
        c.current()?;
        ask!(c.cuDestroyExternalSemaphore(CUexternalSemaphore::NULL));
        c.empty_stack();
        ask!(c.cuDestroyExternalSemaphore(CUexternalSemaphore::NULL), "without_context");
        Ok(())
    }),
    Probe::case(Call::cuSignalExternalSemaphoresAsync, "no semaphores aren't signalled", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuSignalExternalSemaphoresAsync(null(), null(), 0, stream), "signal");
        ask!(c.cuWaitExternalSemaphoresAsync(null(), null(), 0, stream), "wait");
        Ok(())
    }),
    Probe::case(Call::cuGraphicsUnregisterResource, "null isn't unregistered", |c| {
        c.current()?;
        ask!(c.cuGraphicsUnregisterResource(CUgraphicsResource::NULL));
        c.empty_stack();
        ask!(c.cuGraphicsUnregisterResource(CUgraphicsResource::NULL), "without_context");
        Ok(())
    }),
    Probe::case(Call::cuGraphicsMapResources, "null isn't mapped", |c| {
        c.current()?;
        let stream = c.stream()?;
        let mut null = CUgraphicsResource::NULL;
        ask!(c.cuGraphicsMapResources(1, &raw mut null, stream), "map");
        ask!(c.cuGraphicsUnmapResources(1, &raw mut null, stream), "unmap");
        ask!(c.cuGraphicsMapResources(0, null_mut(), stream), "map_none");
        Ok(())
    }),
    Probe::case(Call::cuGraphicsResourceGetMappedPointer_v2, "null has no mapped pointer", |c| {
        c.current()?;
        let (mut pointer, mut bytes, mut array) = (0, 0, CUarray::NULL);
        let null = CUgraphicsResource::NULL;
        let (at, size) = (&raw mut pointer, &raw mut bytes);
        ask!(c.cuGraphicsResourceGetMappedPointer_v2(at, size, null), "pointer");
        ask!(c.cuGraphicsSubResourceGetMappedArray(&raw mut array, null, 0, 0), "array");
        Ok(())
    }),
    Probe::case(Call::cuGraphicsGLRegisterBuffer, "without OpenGL nothing is registered", |c| {
        c.current()?;
        let mut resource = CUgraphicsResource::NULL;
        ask!(c.cuGraphicsGLRegisterBuffer(&raw mut resource, 1, 0));
        Ok(())
    }),
];

fn memory_of(fd: i32, bytes: u64) -> CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
    let mut desc =
        CUDA_EXTERNAL_MEMORY_HANDLE_DESC { type_: FD, size: bytes, ..Default::default() };
    desc.handle.fd = fd;
    desc
}

/// Memory of this driver as a file descriptor, which the import takes.
fn exported(c: &Ctx) -> Made<i32> {
    let kind = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let props = CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: kind,
        location: location(c.device()?),
        ..Default::default()
    };
    let (mut memory, mut fd) = (0, -1_i32);
    must!(c.cuMemCreate(&raw mut memory, BYTES, &raw const props, 0));
    must!(c.cuMemExportToShareableHandle((&raw mut fd).cast(), memory, kind, 0));
    Ok(fd)
}

fn imported(c: &Ctx) -> Made<CUexternalMemory> {
    let desc = memory_of(exported(c)?, BYTES as u64);
    let mut memory = CUexternalMemory::NULL;
    must!(c.cuImportExternalMemory(&raw mut memory, &raw const desc));
    Ok(memory)
}

fn buffer(offset_bytes: u64, bytes: u64) -> CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC { offset: offset_bytes, size: bytes, ..Default::default() }
}

fn levels(number: u32) -> CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC {
        arrayDesc: solid(SIDE, SIDE, 0, 0),
        numLevels: number,
        ..Default::default()
    }
}
