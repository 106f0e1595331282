//! Memory of a context: allocated, freed, asked about.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use cuhold_driver_sys::ffi::*;

use super::space::{Freed, Misplaced, Origin, Request};
use crate::{
    context::Context,
    world::{Answer, Ending, Key, Out, Turn},
};

/// Rows of pitched memory begin at multiples of this, in bytes.
const PITCH_BYTES: usize = 512;

impl Turn<'_> {
    /// What every allocation needs first: the current context and its device.
    pub(super) fn allocating_context(&mut self) -> Result<(Key<Context>, usize), CUresult> {
        let context = self.current()?;
        self.not_lost()?;
        self.check_capture()?;
        let device = self.context_data(context)?.device;
        Ok((context, self.state.device_index(device)?))
    }

    /// Refuses with `INVALID_VALUE` an address that a call can't use, as the violation that it is.
    pub(super) fn refuse_misplaced(&mut self, misplaced: Misplaced) -> CUresult {
        let site = self.site;
        self.state.violate_misplaced(misplaced, site);
        CUresult::INVALID_VALUE
    }

    /// What frees refuse that isn't the beginning of an allocation: an address inside one, one that was freed, any
    /// other.
    pub(super) fn refuse_free(&mut self, address: u64) -> CUresult {
        let freed = self.state.memory.space.freed_base(address);
        self.refuse_misplaced(freed.map_or(Misplaced::Wild { address }, Misplaced::Freed))
    }

    /// The number and origin of what begins at an address and wasn't freed.
    pub(super) fn freeable(&mut self, address: u64) -> Result<(u64, Origin), CUresult> {
        let Some(found) = self.state.memory.space.at(address) else {
            return Err(self.refuse_free(address));
        };
        let (id, origin) = (found.id, found.origin);
        match found.free_enqueued.map(|by| Freed::enqueued(found, by)) {
            Some(freed) => Err(self.refuse_misplaced(Misplaced::Freed(freed))),
            None => Ok((id, origin)),
        }
    }
}

pub(crate) fn allocate(turn: &mut Turn<'_>, out: Out<CUdeviceptr>, size: usize) -> Answer {
    let out = out.required()?;
    let (context, device) = turn.allocating_context()?;
    if size == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let (size_bytes, made) = (size as u64, turn.site);
    let origin = Origin::Device(context);
    let request = Request { size_bytes, origin, device, made };
    out.write(turn.state.memory.add_device(request)?);
    Ok(())
}

pub(crate) fn allocate_pitch(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    pitch_out: Out<usize>,
    width: usize,
    height: usize,
    element: c_uint,
) -> Answer {
    let (out, pitch_out) = (out.required()?, pitch_out.required()?);
    let (context, device) = turn.allocating_context()?;
    if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return Err(CUresult::INVALID_VALUE);
    }
    let pitch = width.checked_next_multiple_of(PITCH_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
    let size = pitch.checked_mul(height).ok_or(CUresult::OUT_OF_MEMORY)?;
    let (size_bytes, made) = (size as u64, turn.site);
    let origin = Origin::Device(context);
    let base = turn.state.memory.add_device(Request { size_bytes, origin, device, made })?;
    out.write(base);
    pitch_out.write(pitch);
    Ok(())
}

/// Managed memory lies on the host, where both sides reach it at the same address.
pub(crate) fn allocate_managed(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size: usize,
    flags: c_uint,
) -> Answer {
    const GLOBAL: c_uint = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
    const HOST: c_uint = CUmemAttach_flags::CU_MEM_ATTACH_HOST.0;
    let out = out.required()?;
    let (context, device) = turn.allocating_context()?;
    if size == 0 || (flags != GLOBAL && flags != HOST) {
        return Err(CUresult::INVALID_VALUE);
    }
    let (size_bytes, made) = (size as u64, turn.site);
    let origin = Origin::Managed(context);
    let request = Request { size_bytes, origin, device, made };
    out.write(turn.state.memory.space.add_host(request).ok_or(CUresult::OUT_OF_MEMORY)?);
    Ok(())
}

/// Waits for the work of the context that owns the memory, whichever is current; for pool memory it doesn't wait
/// (measured).
pub(crate) fn free(turn: &mut Turn<'_>, address: CUdeviceptr) -> Answer {
    turn.not_lost()?;
    if address == 0 {
        return Ok(());
    }
    turn.check_capture()?;
    let (id, origin) = turn.freeable(address)?;
    match origin {
        Origin::Device(owner) | Origin::Managed(owner) => {
            turn.complete_context(owner)?;
            // While code of the caller ran, another thread may have freed it.
            if turn.freeable(address)?.0 != id {
                return Err(turn.refuse_free(address));
            }
            let by = turn.site;
            turn.state.host_ends_memory(address, by);
            drop(turn.state.memory.remove(address, by, Ending::Destroyed));
            Ok(())
        }
        Origin::Pool(_) => {
            turn.begin_free(address, 0)?;
            let by = turn.site;
            turn.state.host_ends_memory(address, by);
            turn.state.memory.execute_free(address, 0, by);
            Ok(())
        }
        Origin::Graph(_) => turn.free_graph_memory(address),
        Origin::Host(..)
        | Origin::Registered(_)
        | Origin::Module(..)
        | Origin::Behind(_)
        | Origin::Mapped
        | Origin::Imported(_) => Err(CUresult::INVALID_VALUE),
    }
}

pub(crate) fn info(turn: &mut Turn<'_>, free: Out<usize>, total: Out<usize>) -> Answer {
    let (free, total) = (free.required()?, total.required()?);
    let context = turn.current()?;
    turn.not_lost()?;
    let device = turn.context_data(context)?.device;
    let index = turn.state.device_index(device)?;
    let left = turn.state.memory.free_bytes(index);
    free.write(usize::try_from(left).unwrap_or(usize::MAX));
    total.write(turn.state.device(device)?.options.memory_bytes);
    Ok(())
}

/// Either answer may be left out. Memory whose free was enqueued is still found.
pub(crate) fn address_range(
    turn: &mut Turn<'_>,
    base: Out<CUdeviceptr>,
    size: Out<usize>,
    address: CUdeviceptr,
) -> Answer {
    turn.current()?;
    let found = turn.state.memory.space.containing(address).ok_or(CUresult::NOT_FOUND)?;
    let bytes = usize::try_from(found.size_bytes).unwrap_or(usize::MAX);
    base.write(found.base);
    size.write(bytes);
    Ok(())
}
