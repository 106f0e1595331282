//! Pools and their memory between processes.
//!
//! An imported pool allocates nothing, tells of itself only who has access, and gives memory by the exporter's word.
//! Importing the same memory twice gives one mapping, which the first free takes away; the host's memory isn't imported
//! twice (measured).
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use std::sync::{Arc, atomic::Ordering};

use cuhold_driver_sys::ffi::*;

use super::{
    pool::{Location, Pool},
    share::{Content, Filed, HandleOf, SharedPool, handle, named},
    space::{Origin, Request},
};
use crate::world::{Answer, Out, Turn};

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

pub(crate) fn pool_export(
    turn: &mut Turn<'_>,
    out: Out<c_void>,
    pool: CUmemoryPool,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let process = turn.state.memory.process;
    let found = turn.pool_data(key)?;
    if flags != 0 || kind != FILE || !found.is_shareable || found.imported.is_some() {
        return Err(CUresult::INVALID_VALUE);
    }
    found.is_exported = true;
    let shared = SharedPool { location: found.location, of: (process, key.id()) };
    turn.export_file(out, Filed::Pool(Arc::new(shared)))
}

/// Once more gives the same pool, which is destroyed as often. What isn't a pool's file answers `UNKNOWN` (measured).
pub(crate) fn pool_import(
    turn: &mut Turn<'_>,
    out: Out<CUmemoryPool>,
    file: Out<c_void>,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    if flags != 0 || kind != FILE {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.check_capture()?;
    let Some(Filed::Pool(shared)) = turn.filed(file) else { return Err(CUresult::UNKNOWN) };
    let pools = &mut turn.state.memory.pools;
    let known = pools.keys(|pool| pool.imported == Some(shared.of)).first().copied();
    if let Some(known) = known
        && let Some(pool) = pools.get_mut(known)
    {
        pool.imports += 1;
        out.write(CUmemoryPool::from_addr(known.raw()));
        return Ok(());
    }
    let mut pool = Pool::new(shared.location, 0);
    pool.imported = Some(shared.of);
    let made = turn.site;
    // It takes none of the pools' addresses: those are the exporter's.
    let key = turn.state.memory.pools.insert(made, pool);
    out.write(CUmemoryPool::from_addr(key.raw()));
    Ok(())
}

pub(crate) fn pool_export_pointer(
    turn: &mut Turn<'_>,
    out: Out<CUmemPoolPtrExportData>,
    address: CUdeviceptr,
) -> Answer {
    let out = out.required()?;
    turn.check_capture()?;
    let found = turn.state.memory.space.containing(address);
    let found = found.filter(|found| found.free_enqueued.is_none());
    let Some((base, Origin::Pool(pool))) = found.map(|found| (found.base, found.origin)) else {
        return Err(CUresult::INVALID_VALUE);
    };
    // That it may be exported isn't enough: it must have been (measured).
    let is_exported = turn.state.memory.pool(pool).is_some_and(|pool| pool.is_exported);
    if !is_exported {
        return Err(CUresult::INVALID_VALUE);
    }
    let number = turn.state.memory.export(base, Some(pool.id()))?;
    out.write(CUmemPoolPtrExportData { reserved: handle(HandleOf::PoolMemory, number) });
    Ok(())
}

pub(crate) fn pool_import_pointer(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    pool: CUmemoryPool,
    data: Out<CUmemPoolPtrExportData>,
) -> Answer {
    let out = out.required()?;
    let key = turn.pool(pool)?;
    turn.check_capture()?;
    let data = data.read().ok_or(CUresult::INVALID_VALUE)?;
    let imported = turn.pool_data(key)?.imported.ok_or(CUresult::INVALID_VALUE)?;
    let number = named(HandleOf::PoolMemory, &data.reserved).ok_or(CUresult::INVALID_VALUE)?;
    let made = turn.site;
    let memory = &mut turn.state.memory;
    let exported = memory.exchange.memory(number).ok_or(CUresult::INVALID_VALUE)?;
    if (exported.process, exported.pool) != (imported.0, Some(imported.1)) {
        return Err(CUresult::INVALID_VALUE);
    }
    let here = memory.space.iter().find(|found| {
        found.import.as_ref().is_some_and(|(of, _)| *of == number) && found.free_enqueued.is_none()
    });
    match (here, &exported.content) {
        (Some(_), Content::Host(_)) => return Err(CUresult::ALREADY_MAPPED),
        (Some(found), Content::Device(_)) => {
            out.write(found.base);
            return Ok(());
        }
        (None, _) => {}
    }
    let device = match memory.pool(key).map(|pool| pool.location) {
        Some(Location::Device(device)) => device,
        // As good as any: the host's memory is no device's.
        _ => 0,
    };
    let size_bytes = exported.size_bytes;
    let request = Request { size_bytes, origin: Origin::Pool(key), device, made };
    let base = memory.space.add_content(request, &exported.content);
    let base = base.ok_or(CUresult::OUT_OF_MEMORY)?;
    exported.opens.fetch_add(1, Ordering::Relaxed);
    if let Some(found) = memory.space.at_mut(base) {
        found.import = Some((number, exported));
    }
    if let Some(pool) = memory.pool_mut(key) {
        pool.import_memory();
    }
    out.write(base);
    Ok(())
}
