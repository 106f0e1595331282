//! Memory of another process's pools, and what is left of what a process exported when it has ended.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator", "Memory Management".

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    export::Export,
    host::{self, HostMemory},
    probe::Probe,
    probes::ipc::{LAZY, event_of_another, memory_of_another},
    setup::{Made, location},
};

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

pub(super) const PROBES: &[Probe] = &[
    Probe::case(
        Call::cuMemPoolImportPointer,
        "memory of another process's pool is imported and freed",
        |c| {
            let (stream, pool, data) = another_s(c, Export::Pool)?;
            let (one, two) = (import(c, "import", pool, data), import(c, "again", pool, data));
            c.holds("same", one == two);
            read(c, one, stream)?;
            ask!(c.cuMemFreeAsync(one, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            let three = import(c, "once_more", pool, data);
            read(c, three, stream)?;
            ask!(c.cuMemFree_v2(three), "free");
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolImportPointer,
        "memory of another process's pool of the host is imported once",
        |c| {
            let (stream, pool, data) = another_s(c, Export::HostPool)?;
            let one = import(c, "import", pool, data);
            c.holds("same", HostMemory::at(one, 1024).first() == Export::WORD);
            import(c, "again", pool, data);
            ask!(c.cuMemFreeAsync(one, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            let two = import(c, "once_more", pool, data);
            c.holds("same", HostMemory::at(two, 1024).first() == Export::WORD);
            ask!(c.cuMemFree_v2(two), "free");
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "an imported pool is destroyed before its memory is freed",
        |c| {
            let (stream, pool, data) = another_s(c, Export::Pool)?;
            let memory = import(c, "import", pool, data);
            ask!(c.cuMemPoolDestroy(pool));
            read(c, memory, stream)?;
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemPoolDestroy(pool), "again");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "an imported pool of the host is destroyed before its memory is freed",
        |c| {
            let (stream, pool, data) = another_s(c, Export::HostPool)?;
            let memory = import(c, "import", pool, data);
            ask!(c.cuMemPoolDestroy(pool));
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemPoolDestroy(pool), "again");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "an imported pool is destroyed behind a free that isn't done yet",
        |c| {
            let (stream, pool, data) = another_s(c, Export::Pool)?;
            let memory = import(c, "import", pool, data);
            let gate = c.busy(stream)?;
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuMemPoolDestroy(pool));
            gate.open();
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemPoolDestroy(pool), "again");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "an imported pool is destroyed behind a free that nothing is in front of",
        |c| {
            let (stream, pool, data) = another_s(c, Export::Pool)?;
            let memory = import(c, "import", pool, data);
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuMemPoolDestroy(pool));
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolDestroy,
        "a pool that was imported twice is destroyed while its memory is imported",
        |c| {
            c.current()?;
            let exported = c.exported(Export::Pool)?;
            let (mut one, mut two) = (CUmemoryPool::NULL, CUmemoryPool::NULL);
            let from = as_handle(exported.file);
            must!(c.cuMemPoolImportFromShareableHandle(&raw mut one, from, FILE, 0));
            must!(c.cuMemPoolImportFromShareableHandle(&raw mut two, from, FILE, 0));
            host::close_file(exported.file);
            let data = CUmemPoolPtrExportData { reserved: exported.handle.map(i8::cast_unsigned) };
            let memory = import(c, "import", one, data);
            ask!(c.cuMemPoolDestroy(one));
            ask!(c.cuMemPoolDestroy(one), "again");
            ask!(c.cuMemFree_v2(memory), "free");
            ask!(c.cuMemPoolDestroy(one), "freed");
            ask!(c.cuMemPoolDestroy(one), "freed_again");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolSetAccess,
        "an imported pool has its device's access and takes its own",
        |c| {
            for what in [Export::Pool, Export::HostPool] {
                let (_, pool, _) = another_s(c, what)?;
                access(c, pool)?;
                let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                let entry = CUmemAccessDesc { location: location(0), flags };
                ask!(c.cuMemPoolSetAccess(pool, &raw const entry, 1));
                access(c, pool)?;
            }
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemFreeAsync,
        "memory of another process's pool in use is freed on an idle stream",
        |c| {
            let (stream, pool, data) = another_s(c, Export::Pool)?;
            let idle = c.stream()?;
            let memory = import(c, "import", pool, data);
            let gate = c.busy(stream)?;
            c.store(stream, memory)?;
            ask!(c.cuMemFreeAsync(memory, idle), "free");
            ask!(c.cuStreamSynchronize(idle), "idle");
            gate.open();
            ask!(c.cuStreamSynchronize(stream), "busy");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolImportPointer,
        "memory of a pool whose process has ended stays where it is imported",
        |c| {
            let (stream, pool, data) = another_s(c, Export::Pool)?;
            let memory = import(c, "import", pool, data);
            c.end_others();
            read(c, memory, stream)?;
            ask!(c.cuMemsetD8Async(memory, 0, 64, stream), "fill");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuMemFreeAsync(memory, stream), "free");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            import(c, "again", pool, data);
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPoolImportFromShareableHandle,
        "a pool whose process has ended is imported",
        |c| {
            c.current()?;
            let exported = c.exported(Export::Pool)?;
            c.end_others();
            let mut pool = CUmemoryPool::NULL;
            let from = as_handle(exported.file);
            ask!(c.cuMemPoolImportFromShareableHandle(&raw mut pool, from, FILE, 0));
            host::close_file(exported.file);
            let data = CUmemPoolPtrExportData { reserved: exported.handle.map(i8::cast_unsigned) };
            import(c, "memory", pool, data);
            ask!(c.cuMemPoolDestroy(pool), "destroy");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuIpcOpenMemHandle_v2,
        "memory of a process that has ended stays where it is open",
        |c| {
            c.current()?;
            let (handle, stream, mut memory) = (memory_of_another(c)?, c.stream()?, 0);
            must!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
            c.end_others();
            read(c, memory, stream)?;
            ask!(c.cuMemsetD8Async(memory, 0, 64, stream), "fill");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuIpcCloseMemHandle(memory), "close");
            ask!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY), "open_again");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuIpcOpenMemHandle_v2,
        "memory of a process that has ended isn't opened",
        |c| {
            c.current()?;
            let (handle, mut memory) = (memory_of_another(c)?, 0);
            c.end_others();
            ask!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
            Ok(())
        },
    ),
    Probe::case(
        Call::cuIpcOpenEventHandle,
        "an event of a process that has ended is an event",
        |c| {
            c.current()?;
            let (handle, stream) = (event_of_another(c)?, c.stream()?);
            let mut event = CUevent::NULL;
            must!(c.cuIpcOpenEventHandle(&raw mut event, handle));
            c.end_others();
            ask!(c.cuEventQuery(event), "query");
            ask!(c.cuEventSynchronize(event), "synchronize");
            ask!(c.cuStreamWaitEvent(stream, event, 0), "wait");
            ask!(c.cuEventRecord(event, stream), "record");
            ask!(c.cuStreamSynchronize(stream), "synchronize");
            ask!(c.cuEventQuery(event), "query");
            ask!(c.cuEventDestroy_v2(event), "destroy");
            ask!(c.cuIpcOpenEventHandle(&raw mut event, handle), "open_again");
            Ok(())
        },
    ),
];

/// A pool of another process, imported; what its memory is imported by; and a stream.
fn another_s(c: &Ctx, what: Export) -> Made<(CUstream, CUmemoryPool, CUmemPoolPtrExportData)> {
    c.current()?;
    let exported = c.exported(what)?;
    let mut pool = CUmemoryPool::NULL;
    let from = as_handle(exported.file);
    must!(c.cuMemPoolImportFromShareableHandle(&raw mut pool, from, FILE, 0));
    host::close_file(exported.file);
    let data = CUmemPoolPtrExportData { reserved: exported.handle.map(i8::cast_unsigned) };
    Ok((c.stream()?, pool, data))
}

fn import(
    c: &mut Ctx,
    label: &str,
    pool: CUmemoryPool,
    data: CUmemPoolPtrExportData,
) -> CUdeviceptr {
    let (mut memory, mut data) = (0, data);
    ask!(c.cuMemPoolImportPointer(&raw mut memory, pool, &raw mut data), label);
    memory
}

/// Reads the first page, and says whether it is what was exported.
fn read(c: &mut Ctx, memory: CUdeviceptr, stream: CUstream) -> Made<()> {
    let to = HostMemory::filled(16, 0);
    ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), memory, to.bytes(), stream), "read");
    c.wait_for(stream)?;
    c.holds("same", to.first() == Export::WORD);
    Ok(())
}

fn access(c: &mut Ctx, pool: CUmemoryPool) -> Made<()> {
    let (mut flags, mut here) = (CUmemAccess_flags(9), c.here()?);
    ask!(c.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut here), "access");
    c.note("flags", flags.0);
    Ok(())
}

/// A file's number, as the driver takes it.
fn as_handle(file: c_int) -> *mut c_void {
    core::ptr::without_provenance_mut(usize::try_from(file).unwrap_or(usize::MAX))
}
