//! Memory between processes, through handles of 64 bytes.
//!
//! Memory is opened in another process of the machine ([`Sim::other_process`](crate::Sim::other_process)); the process
//! that exported it can't open it (measured). Freeing what is open elsewhere is a violation: there it still is used.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cuhold_driver_sys::ffi::*;

use super::{
    Memory,
    share::{ExportedMemory, HandleOf, Number, from_c, handle, named, to_c},
    space::{Origin, Request},
};
use crate::{
    context::Context,
    world::{Answer, Ending, Key, Out, Turn},
};

/// The flag that must be given when memory is opened; others are let pass (measured).
const LAZY: c_uint = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.0;

/// Memory of another process, open in one context.
#[derive(Debug)]
pub(super) struct Opened {
    number: Number,
    of: Arc<ExportedMemory>,
    context: Key<Context>,
    /// How often it was opened.
    times: u64,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.of.opens.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Memory {
    /// The process is gone: what it has open it has no longer.
    pub(crate) fn end_process(&mut self) {
        self.opened.clear();
        for found in self.space.iter() {
            if let Some((_, of)) = &found.import {
                of.opens.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.exchange.end_process(self.process);
    }

    /// Exports the allocation at `base`; once more gives the same.
    pub(super) fn export(&mut self, base: u64, pool: Option<u64>) -> Result<Number, CUresult> {
        let process = self.process;
        let content = self.space.share(base).ok_or(CUresult::INVALID_VALUE)?;
        let found = self.space.at_mut(base).ok_or(CUresult::INVALID_VALUE)?;
        let number = (process, found.id);
        if found.exported.is_none() {
            let (size_bytes, opens) = (found.size_bytes, AtomicU64::new(0));
            let exported = Arc::new(ExportedMemory { content, size_bytes, process, opens, pool });
            found.exported = Some(Arc::clone(&exported));
            self.exchange.export_memory(number, exported);
        }
        Ok(number)
    }
}

/// The handle of an allocation, also from an address inside it (measured).
pub(crate) fn ipc_handle(
    turn: &mut Turn<'_>,
    out: Out<CUipcMemHandle>,
    address: CUdeviceptr,
) -> Answer {
    let out = out.required()?;
    turn.current()?;
    turn.not_lost()?;
    let found = turn.state.memory.space.containing(address);
    let found = found.filter(|found| matches!(found.origin, Origin::Device(_)));
    let base = found.filter(|found| found.free_enqueued.is_none()).map(|found| found.base);
    let number = turn.state.memory.export(base.ok_or(CUresult::INVALID_VALUE)?, None)?;
    out.write(CUipcMemHandle { reserved: to_c(handle(HandleOf::Memory, number)) });
    Ok(())
}

pub(crate) fn ipc_open(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    handle: CUipcMemHandle,
    flags: c_uint,
) -> Answer {
    let out = out.required()?;
    let (context, device) = turn.allocating_context()?;
    if flags & LAZY == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let number = named(HandleOf::Memory, &from_c(handle.reserved));
    let number = number.ok_or(CUresult::INVALID_VALUE)?;
    let made = turn.site;
    let memory = &mut turn.state.memory;
    let Some(exported) = memory.exchange.memory(number) else {
        // Measured of a process that has ended.
        return match memory.exchange.has_ended(number.0) {
            true => Err(CUresult::INVALID_HANDLE),
            false => Err(CUresult::INVALID_VALUE),
        };
    };
    if exported.process == memory.process {
        return Err(CUresult::INVALID_CONTEXT);
    }
    if let Some((base, opened)) = memory.opened.iter_mut().find(|(_, o)| o.number == number) {
        if opened.context != context {
            // One context of a device opens it (measured).
            return Err(CUresult::INVALID_HANDLE);
        }
        opened.times += 1;
        out.write(*base);
        return Ok(());
    }
    let size_bytes = exported.size_bytes;
    let origin = Origin::Imported(context);
    let request = Request { size_bytes, origin, device, made };
    let base = memory.space.add_content(request, &exported.content);
    let base = base.ok_or(CUresult::OUT_OF_MEMORY)?;
    exported.opens.fetch_add(1, Ordering::Relaxed);
    memory.opened.insert(base, Opened { number, of: exported, context, times: 1 });
    out.write(base);
    Ok(())
}

/// Closes what was opened, with any context current: it goes with the last close.
pub(crate) fn ipc_close(turn: &mut Turn<'_>, address: CUdeviceptr) -> Answer {
    turn.current()?;
    turn.not_lost()?;
    let by = turn.site;
    let memory = &mut turn.state.memory;
    let Some(opened) = memory.opened.get_mut(&address) else {
        return match memory.space.freed_base(address) {
            Some(freed) if matches!(freed.origin, Origin::Imported(_)) => {
                Err(turn.refuse_free(address))
            }
            _ => Err(CUresult::INVALID_VALUE),
        };
    };
    opened.times -= 1;
    if opened.times == 0 {
        turn.state.host_ends_memory(address, by);
        drop(turn.state.memory.remove(address, by, Ending::Destroyed));
    }
    Ok(())
}
