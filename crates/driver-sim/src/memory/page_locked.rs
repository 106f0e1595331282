//! Page-locked host memory: allocated, registered, given back, asked about.
//!
//! Under unified addressing its device pointer is its host address. (For write-combined memory CUDA says that the two
//! differ; here they don't.)
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

#![expect(unsafe_code, reason = "takes in memory of the caller")]

use cuhold_driver_sys::ffi::*;

use super::space::{FIRST_DEVICE_ADDRESS, Misplaced, Origin, Request};
use crate::world::{Answer, Ending, Out, Turn};

const ALLOC_FLAGS: c_uint =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
const REGISTER_FLAGS: c_uint = CU_MEMHOSTREGISTER_PORTABLE
    | CU_MEMHOSTREGISTER_DEVICEMAP
    | CU_MEMHOSTREGISTER_IOMEMORY
    | CU_MEMHOSTREGISTER_READ_ONLY;

/// The address of a caller's pointer, as the driver keeps it; what lies there may be reached through it later.
pub(super) fn address_of<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

pub(crate) fn allocate_host(turn: &mut Turn<'_>, out: Out<*mut c_void>, size: usize) -> Answer {
    host_alloc(turn, out, size, 0)
}

/// No bytes are a success with a null pointer.
pub(crate) fn host_alloc(
    turn: &mut Turn<'_>,
    out: Out<*mut c_void>,
    size: usize,
    flags: c_uint,
) -> Answer {
    let out = out.required()?;
    let (context, device) = turn.allocating_context()?;
    if flags & !ALLOC_FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if size == 0 {
        out.write(std::ptr::null_mut());
        return Ok(());
    }
    let (size_bytes, made) = (size as u64, turn.site);
    let origin = Origin::Host(context, flags);
    let request = Request { size_bytes, origin, device, made };
    let base = turn.state.memory.space.add_host(request).ok_or(CUresult::OUT_OF_MEMORY)?;
    out.write(host_pointer(base));
    Ok(())
}

/// A page-locked block's address as the pointer to it.
fn host_pointer(base: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(base).unwrap_or_default())
}

/// Waits for the work of the context that owns the memory, and of no other (measured).
pub(crate) fn free_host(turn: &mut Turn<'_>, pointer: Out<c_void>) -> Answer {
    turn.not_lost()?;
    if pointer.is_null() {
        return Ok(());
    }
    turn.check_capture()?;
    let address = address_of(pointer.as_ptr());
    end_host(turn, address, |origin| matches!(origin, Origin::Host(..)))
}

/// Ends the host memory that begins at an address, if it is what `fits` says, after the work of its owner.
fn end_host(turn: &mut Turn<'_>, address: u64, fits: impl Fn(Origin) -> bool) -> Answer {
    let (id, origin) = turn.freeable(address)?;
    let Some(owner) = origin.owner().filter(|_| fits(origin)) else {
        return Err(CUresult::INVALID_VALUE);
    };
    turn.complete_context(owner)?;
    // While code of the caller ran, another thread may have ended it.
    if turn.freeable(address)?.0 != id {
        return Err(turn.refuse_free(address));
    }
    let by = turn.site;
    turn.state.host_ends_memory(address, by);
    drop(turn.state.memory.remove(address, by, Ending::Destroyed));
    Ok(())
}

pub(crate) fn register(
    turn: &mut Turn<'_>,
    pointer: Out<c_void>,
    size: usize,
    flags: c_uint,
) -> Answer {
    let (context, device) = turn.allocating_context()?;
    let address = address_of(pointer.as_ptr());
    let is_host = address.checked_add(size as u64).is_some_and(|end| end <= FIRST_DEVICE_ADDRESS);
    if pointer.is_null() || size == 0 || flags & !REGISTER_FLAGS != 0 || !is_host {
        return Err(CUresult::INVALID_VALUE);
    }
    if flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY) != 0 {
        return Err(CUresult::NOT_SUPPORTED);
    }
    if turn.state.memory.space.overlaps(address, size as u64) {
        return Err(CUresult::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let (size_bytes, made) = (size as u64, turn.site);
    let origin = Origin::Registered(context);
    let request = Request { size_bytes, origin, device, made };
    // SAFETY: *pointers*: the caller of `cuMemHostRegister` promised the range, until it is unregistered; and CUDA's
    // rule is that the host leaves alone what queued work uses.
    unsafe { turn.state.memory.space.add_registered(address, request) };
    Ok(())
}

/// An address inside a registered range is told from one that isn't registered (measured).
pub(crate) fn unregister(turn: &mut Turn<'_>, pointer: Out<c_void>) -> Answer {
    turn.not_lost()?;
    turn.check_capture()?;
    let address = address_of(pointer.as_ptr());
    if turn.state.memory.space.containing(address).is_some() {
        return end_host(turn, address, |origin| matches!(origin, Origin::Registered(_)));
    }
    if let Some(freed) = turn.state.memory.space.freed_base(address) {
        turn.refuse_misplaced(Misplaced::Freed(freed));
    }
    Err(CUresult::HOST_MEMORY_NOT_REGISTERED)
}

pub(crate) fn device_pointer(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    pointer: Out<c_void>,
    flags: c_uint,
) -> Answer {
    let out = out.required()?;
    turn.current()?;
    turn.not_lost()?;
    let address = address_of(pointer.as_ptr());
    let found = turn.state.memory.space.containing(address);
    let is_mapped =
        found.is_some_and(|a| matches!(a.origin, Origin::Host(..) | Origin::Registered(_)));
    if flags != 0 || !is_mapped {
        return Err(CUresult::INVALID_VALUE);
    }
    out.write(address);
    Ok(())
}

pub(crate) fn host_flags(turn: &mut Turn<'_>, out: Out<c_uint>, pointer: Out<c_void>) -> Answer {
    let out = out.required()?;
    turn.current()?;
    let address = address_of(pointer.as_ptr());
    match turn.state.memory.space.containing(address).map(|a| a.origin) {
        Some(Origin::Host(_, flags)) => {
            // Under unified addressing everything is mapped, asked for or not (measured).
            out.write(flags | CU_MEMHOSTALLOC_DEVICEMAP);
            Ok(())
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}
