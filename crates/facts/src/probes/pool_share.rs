//! Pools between processes.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const BYTES: usize = 1 << 20;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemPoolExportToShareableHandle, "a pool is exported", |c| {
        let pool = shared_pool(c)?;
        step(move |c| {
            let mut file: c_int = -9;
            ask!(c.cuMemPoolExportToShareableHandle((&raw mut file).cast(), pool, FILE, 0));
            if c.observes() {
                c.holds("file", file >= 0);
            }
            host::close_file(file);
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuMemPoolExportToShareableHandle,
        "a pool that wasn't made for it isn't exported",
        |c| {
            let (plain, pool) = (c.pool()?, shared_pool(c)?);
            let mut file: c_int = -9;
            let to = (&raw mut file).cast();
            ask!(c.cuMemPoolExportToShareableHandle(to, plain, FILE, 0));
            c.holds("file", file >= 0);
            ask!(c.cuMemPoolExportToShareableHandle(to, pool, FILE, 1), "flags");
            ask!(c.cuMemPoolExportToShareableHandle(null_mut(), pool, FILE, 0), "nowhere");
            ask!(c.cuMemPoolExportToShareableHandle(to, CUmemoryPool::NULL, FILE, 0), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemPoolImportFromShareableHandle, "a pool is imported", |c| {
        let pool = shared_pool(c)?;
        let file = export(c, pool)?;
        step(move |c| {
            let mut imported = CUmemoryPool::NULL;
            let from = as_handle(file);
            ask!(c.cuMemPoolImportFromShareableHandle(&raw mut imported, from, FILE, 0));
            if c.observes() {
                c.holds("same", imported == pool);
                let mut again = CUmemoryPool::NULL;
                ask!(c.cuMemPoolImportFromShareableHandle(&raw mut again, from, FILE, 0), "again");
                c.holds("same", imported == again);
                ask!(c.cuMemPoolDestroy(imported), "destroy");
                ask!(c.cuMemPoolDestroy(again), "destroy_again");
                ask!(c.cuMemPoolDestroy(pool), "destroy_exported");
            }
            host::close_file(file);
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolImportFromShareableHandle, "other files are no pools", |c| {
        c.device()?;
        let mut imported = CUmemoryPool::NULL;
        let to = &raw mut imported;
        let other = host::other_file();
        ask!(c.cuMemPoolImportFromShareableHandle(to, as_handle(other), FILE, 0), "other");
        host::close_file(other);
        ask!(c.cuMemPoolImportFromShareableHandle(to, as_handle(other), FILE, 0), "closed");
        ask!(c.cuMemPoolImportFromShareableHandle(to, as_handle(-1), FILE, 0), "minus_1");
        Ok(())
    }),
    Probe::case(
        Call::cuMemPoolImportFromShareableHandle,
        "an imported pool allocates nothing and tells little",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let (_, imported) = imported_pool(c)?;
            let mut memory = 0;
            ask!(c.cuMemAllocFromPoolAsync(&raw mut memory, BYTES, imported, stream), "allocate");
            let mut value = 0_u64;
            let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let to = (&raw mut value).cast();
            ask!(c.cuMemPoolGetAttribute(imported, attribute, to), "attribute");
            ask!(c.cuMemPoolSetAttribute(imported, attribute, to), "set_attribute");
            ask!(c.cuMemPoolTrimTo(imported, 0), "trim");
            let (mut flags, mut here) = (CUmemAccess_flags(9), c.here()?);
            ask!(c.cuMemPoolGetAccess(&raw mut flags, imported, &raw mut here), "access");
            c.note("flags", flags.0);
            let device = c.device()?;
            ask!(c.cuDeviceSetMemPool(device, imported), "make_current");
            let mut file: c_int = -9;
            let to = (&raw mut file).cast();
            ask!(c.cuMemPoolExportToShareableHandle(to, imported, FILE, 0), "export");
            host::close_file(file);
            Ok(())
        },
    ),
    Probe::works_here(
        Call::cuMemPoolExportPointer,
        "memory of a pool that was exported is exported",
        |c| {
            c.current()?;
            let (pool, memory) = shared_memory(c)?;
            host::close_file(export(c, pool)?);
            let mut data = CUmemPoolPtrExportData::default();
            ask!(c.cuMemPoolExportPointer(&raw mut data, memory));
            ask!(c.cuMemPoolExportPointer(&raw mut data, memory + 64), "inside");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemPoolExportPointer, "memory of a pool is exported", |c| {
        c.current()?;
        let (_, memory) = shared_memory(c)?;
        step(move |c| {
            let mut data = CUmemPoolPtrExportData::default();
            ask!(c.cuMemPoolExportPointer(&raw mut data, memory));
            if c.observes() {
                ask!(c.cuMemPoolExportPointer(&raw mut data, memory + 64), "inside");
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuMemPoolExportPointer,
        "memory of a pool that isn't shared isn't exported",
        |c| {
            c.current()?;
            let stream = c.stream()?;
            let pool = c.pool()?;
            let pooled = c.pool_memory(BYTES, pool, stream)?;
            let plain = c.memory(BYTES)?;
            let mut data = CUmemPoolPtrExportData::default();
            ask!(c.cuMemPoolExportPointer(&raw mut data, pooled), "pool");
            ask!(c.cuMemPoolExportPointer(&raw mut data, plain), "context_s");
            ask!(c.cuMemPoolExportPointer(&raw mut data, 0), "null");
            let (_, memory) = shared_memory(c)?;
            ask!(c.cuMemPoolExportPointer(null_mut(), memory), "nowhere");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemPoolImportPointer, "memory of a pool is imported", |c| {
        c.current()?;
        let (pool, memory) = shared_memory(c)?;
        let imported = import(c, pool)?;
        let mut data = CUmemPoolPtrExportData::default();
        must!(c.cuMemPoolExportPointer(&raw mut data, memory));
        step(move |c| {
            let (mut data, mut here) = (data, 0);
            ask!(c.cuMemPoolImportPointer(&raw mut here, imported, &raw mut data));
            if c.observes() {
                c.holds("same", here == memory);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemPoolImportPointer, "garbage is no memory of a pool", |c| {
        c.current()?;
        let (pool, memory) = shared_memory(c)?;
        let imported = import(c, pool)?;
        let (mut data, mut here) = (CUmemPoolPtrExportData::default(), 0);
        let garbage = &raw mut data;
        ask!(c.cuMemPoolImportPointer(&raw mut here, imported, garbage), "garbage");
        let mut good = CUmemPoolPtrExportData::default();
        must!(c.cuMemPoolExportPointer(&raw mut good, memory));
        let good = &raw mut good;
        ask!(c.cuMemPoolImportPointer(null_mut(), imported, good), "nowhere");
        ask!(c.cuMemPoolImportPointer(&raw mut here, CUmemoryPool::NULL, good), "null");
        ask!(c.cuMemPoolImportPointer(&raw mut here, pool, good), "exporting_pool");
        Ok(())
    }),
    Probe::case(Call::cuMemPoolImportPointer, "memory of a pool is imported twice", |c| {
        c.current()?;
        let stream = c.stream()?;
        let (pool, memory) = shared_memory(c)?;
        let imported = import(c, pool)?;
        let mut data = CUmemPoolPtrExportData::default();
        must!(c.cuMemPoolExportPointer(&raw mut data, memory));
        let (mut one, mut two) = (0, 0);
        ask!(c.cuMemPoolImportPointer(&raw mut one, imported, &raw mut data));
        ask!(c.cuMemPoolImportPointer(&raw mut two, imported, &raw mut data), "again");
        c.holds("same", one == two);
        ask!(c.cuMemFreeAsync(one, stream), "free");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemFreeAsync(two, stream), "free_again");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuMemPoolDestroy(imported), "destroy");
        Ok(())
    }),
];

/// A pool that may be exported as a file.
fn shared_pool(c: &Ctx) -> Made<CUmemoryPool> {
    let props = CUmemPoolProps { handleTypes: FILE, ..c.pool_props()? };
    let mut pool = CUmemoryPool::NULL;
    must!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
    Ok(pool)
}

/// Such a pool, and memory of it.
fn shared_memory(c: &Ctx) -> Made<(CUmemoryPool, CUdeviceptr)> {
    let (pool, stream) = (shared_pool(c)?, c.stream()?);
    Ok((pool, c.pool_memory(BYTES, pool, stream)?))
}

fn export(c: &Ctx, pool: CUmemoryPool) -> Made<c_int> {
    let mut file: c_int = -9;
    must!(c.cuMemPoolExportToShareableHandle((&raw mut file).cast(), pool, FILE, 0));
    Ok(file)
}

fn import(c: &Ctx, pool: CUmemoryPool) -> Made<CUmemoryPool> {
    let file = export(c, pool)?;
    let mut imported = CUmemoryPool::NULL;
    must!(c.cuMemPoolImportFromShareableHandle(&raw mut imported, as_handle(file), FILE, 0));
    host::close_file(file);
    Ok(imported)
}

/// An exported pool, and the same one imported.
fn imported_pool(c: &Ctx) -> Made<(CUmemoryPool, CUmemoryPool)> {
    let pool = shared_pool(c)?;
    Ok((pool, import(c, pool)?))
}

/// A file's number, as the driver takes it.
fn as_handle(file: c_int) -> *mut c_void {
    core::ptr::without_provenance_mut(usize::try_from(file).unwrap_or(usize::MAX))
}
