//! Stream-ordered memory: allocated from a pool, and freed in a stream's order.
//!
//! An allocation is there at once. A free takes effect for the caller when it is enqueued (the address can't be used in
//! a new call, the pool's used bytes fall), and for queued work when the stream comes to it.
//!
//! On a stream that is captured both become nodes, and the memory is the graph's.
//!
//! Source: CUDA Driver API 13.x, "Stream Ordered Memory Allocator".

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    pool::{Kind, Location, Pool},
    pool_end::Freed,
    space::{Origin, Request},
};
use crate::{
    graph::{Deed, Graph, NodeKind, Params, Task},
    order::Touch,
    queue::Work,
    stream::Target,
    world::{Answer, Key, Out, Turn},
};

pub(crate) fn allocate_async(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size: usize,
    stream: CUstream,
) -> Answer {
    let out = out.required()?;
    let target = turn.stream(stream)?;
    let device = turn.device_of(target)?;
    let device = turn.state.memory.devices.get(device).ok_or(CUresult::INVALID_DEVICE)?;
    let pool = device.current_pool;
    allocate(turn, out, size, pool, target)
}

pub(crate) fn allocate_from_pool(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> Answer {
    let out = out.required()?;
    let pool = turn.pool(pool)?;
    let target = turn.stream(stream)?;
    allocate(turn, out, size, pool, target)
}

/// No bytes are a success with a null pointer (measured).
fn allocate(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size: usize,
    pool: Key<Pool>,
    target: Target,
) -> Answer {
    turn.not_lost()?;
    let capturing = turn.capture_usable(target)?;
    if capturing.is_none() {
        turn.check_capture()?;
    }
    if size == 0 {
        out.write(0);
        return Ok(());
    }
    let found = turn.state.memory.pool(pool).filter(|pool| pool.imported.is_none());
    let found = found.ok_or(CUresult::INVALID_VALUE)?;
    let (location, kind) = (found.location, found.kind);
    let device = match location {
        Location::Device(device) => device,
        Location::Host | Location::HostNuma(_) | Location::Anywhere => turn.device_of(target)?,
    };
    let (size_bytes, made) = (size as u64, turn.site);
    if let Some(capture) = capturing {
        // A graph's memory is a device's (measured).
        match (kind, location) {
            (Kind::Managed, _) => return Err(CUresult::INVALID_VALUE),
            (Kind::Pinned, Location::Device(_)) => {}
            (Kind::Pinned, _) => return Err(CUresult::NOT_SUPPORTED),
        }
        let graph = turn.graph_of_capture(capture)?;
        let place = (device, false);
        let address = turn.state.memory.add_graph_memory(graph, size_bytes, place, made)?;
        turn.capture_memory(target, NodeKind::MemAlloc, Deed::Alloc(address, made), address)?;
        out.write(address);
        return Ok(());
    }
    let request = Request { size_bytes, origin: Origin::Pool(pool), device, made };
    let stream = target.queue.number();
    let base = turn.state.memory.add_pooled(pool, stream, request)?;
    turn.state.begin_memory(base, target.queue, made);
    out.write(base);
    Ok(())
}

/// Takes pool memory, and what `cuMemAlloc` gave (measured), which is then freed in the stream's order too.
pub(crate) fn free_async(turn: &mut Turn<'_>, address: CUdeviceptr, stream: CUstream) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    if address == 0 {
        return Ok(());
    }
    if let Some(capture) = turn.capture_usable(target)? {
        // Only memory of the same graph; anything else is refused, and the capture goes on (measured).
        let graph = turn.graph_of_capture(capture)?;
        let its = turn.state.memory.graph_of(address) == Some(graph);
        if !its || turn.state.is_freed_in(graph, address) {
            return Err(CUresult::INVALID_VALUE);
        }
        let deed = Deed::Free(address, turn.site);
        return turn.capture_memory(target, NodeKind::MemFree, deed, address);
    }
    turn.check_capture()?;
    let (_, origin) = turn.freeable(address)?;
    if matches!(origin, Origin::Graph(_)) {
        turn.free_graph_memory(address)?;
        let by = turn.site;
        turn.submit_note(target, address, Touch::End, by);
        return Ok(());
    }
    if !matches!(origin, Origin::Pool(_) | Origin::Device(_)) {
        return Err(CUresult::INVALID_VALUE);
    }
    let number = target.queue.number();
    let freed = turn.begin_free(address, number)?;
    let by = turn.site;
    let work = Work::Free(Arc::new(move |state| {
        if let Some(op) = state.op(by) {
            state.end_memory(&op, address);
        }
        state.memory.execute_free(address, number, by);
        Ok(())
    }));
    let point = turn.enqueue_told(target, NodeKind::MemFree, work, || Params::Unknown)?;
    if let (Origin::Pool(pool), Some(at)) = (origin, point) {
        turn.state.freed_on(pool, at, freed);
    }
    Ok(())
}

impl Turn<'_> {
    /// A memory node of a capture.
    fn capture_memory(
        &mut self,
        target: Target,
        kind: NodeKind,
        deed: Deed<Key<Graph>>,
        address: u64,
    ) -> Answer {
        let place = self.captured_place(target)?.ok_or(CUresult::ILLEGAL_STATE)?;
        let params = match kind {
            NodeKind::MemFree => Params::Free(address),
            _ => Params::Unknown,
        };
        self.add_captured(target, place, Task::new(kind, params, deed).fixed_at(address))
    }

    /// Frees memory that a launch of a graph allocated, for the next launch; memory that none did isn't there to be
    /// freed (measured).
    pub(super) fn free_graph_memory(&mut self, address: u64) -> Answer {
        let by = self.site;
        match self.state.memory.free_graph_memory(address, by) {
            true => Ok(()),
            false => Err(CUresult::INVALID_VALUE),
        }
    }

    /// The index of the device that a stream works on.
    pub(super) fn device_of(&mut self, target: Target) -> Result<usize, CUresult> {
        let device = self.context_data(target.context)?.device;
        self.state.device_index(device)
    }

    /// Ends new uses of an allocation, as the enqueuing of its free does.
    pub(super) fn begin_free(&mut self, address: u64, stream: u64) -> Result<Freed, CUresult> {
        let by = self.site;
        let memory = &mut self.state.memory;
        let found = memory.space.at_mut(address).ok_or(CUresult::INVALID_VALUE)?;
        found.free_enqueued = Some(by);
        let (origin, size_bytes, freed) = (found.origin, found.size_bytes, Freed::new(found, by));
        if let Origin::Pool(pool) = origin
            && let Some(pool) = memory.pool_mut(pool)
        {
            pool.enqueue_free(size_bytes, stream);
        }
        Ok(freed)
    }
}
