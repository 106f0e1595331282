//! Memory and events between processes.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", "Event Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    export::{Export, SHARED},
    host,
    probe::{Probe, step},
    setup::Made,
};

const BYTES: usize = 1 << 20;
/// The one flag that opening memory takes.
pub(super) const LAZY: u32 = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.0;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuIpcGetMemHandle, "memory is exported to other processes", |c| {
        c.current()?;
        let memory = c.memory(BYTES)?;
        step(move |c| {
            let mut handle = CUipcMemHandle::default();
            ask!(c.cuIpcGetMemHandle(&raw mut handle, memory));
            if c.observes() {
                let mut again = CUipcMemHandle::default();
                ask!(c.cuIpcGetMemHandle(&raw mut again, memory), "again");
                c.holds("same", again == handle);
                ask!(c.cuIpcGetMemHandle(&raw mut again, memory + 64), "inside");
                c.holds("same", again == handle);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuIpcGetMemHandle, "only a context's memory is exported", |c| {
        c.current()?;
        let stream = c.stream()?;
        let pool = c.pool()?;
        let memory = c.pool_memory(BYTES, pool, stream)?;
        let mut handle = CUipcMemHandle::default();
        ask!(c.cuIpcGetMemHandle(&raw mut handle, memory), "pool");
        let managed = c.managed(BYTES)?;
        ask!(c.cuIpcGetMemHandle(&raw mut handle, managed), "managed");
        let pinned = c.pinned(16)?.ptr().expose_provenance() as CUdeviceptr;
        ask!(c.cuIpcGetMemHandle(&raw mut handle, pinned), "pinned");
        ask!(c.cuIpcGetMemHandle(&raw mut handle, 0), "null");
        let memory = c.memory(BYTES)?;
        ask!(c.cuIpcGetMemHandle(null_mut(), memory), "nowhere");
        must!(c.cuMemFree_v2(memory));
        ask!(c.cuIpcGetMemHandle(&raw mut handle, memory), "freed");
        Ok(())
    }),
    Probe::works(Call::cuIpcOpenMemHandle_v2, "memory of another process is opened", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        step(move |c| {
            let mut memory = 0;
            ask!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
            if c.observes() {
                c.holds("null", memory == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuIpcOpenMemHandle_v2, "a process's own memory isn't opened", |c| {
        c.current()?;
        let memory = c.memory(BYTES)?;
        let (mut handle, mut opened) = (CUipcMemHandle::default(), 0);
        must!(c.cuIpcGetMemHandle(&raw mut handle, memory));
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut opened, handle, LAZY));
        c.context()?;
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut opened, handle, LAZY), "other_context");
        Ok(())
    }),
    Probe::case(Call::cuIpcOpenMemHandle_v2, "memory is opened with its flag and handle", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        let mut memory = 0;
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, 0), "no_flag");
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, 3), "flags");
        ask!(c.cuIpcOpenMemHandle_v2(null_mut(), handle, LAZY), "nowhere");
        let garbage = CUipcMemHandle::default();
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut memory, garbage, LAZY), "garbage");
        Ok(())
    }),
    Probe::case(Call::cuIpcOpenMemHandle_v2, "memory of another process is opened twice", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        let (mut one, mut two) = (0, 0);
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut one, handle, LAZY));
        ask!(c.cuIpcOpenMemHandle_v2(&raw mut two, handle, LAZY), "again");
        c.holds("same", one == two);
        ask!(c.cuIpcCloseMemHandle(one), "close");
        ask!(c.cuIpcCloseMemHandle(one), "close_again");
        ask!(c.cuIpcCloseMemHandle(one), "once_more");
        Ok(())
    }),
    Probe::case(
        Call::cuIpcOpenMemHandle_v2,
        "memory of another process is opened in a second context",
        |c| {
            c.current()?;
            let handle = memory_of_another(c)?;
            let (mut one, mut two) = (0, 0);
            ask!(c.cuIpcOpenMemHandle_v2(&raw mut one, handle, LAZY));
            c.context()?;
            ask!(c.cuIpcOpenMemHandle_v2(&raw mut two, handle, LAZY), "other_context");
            Ok(())
        },
    ),
    Probe::case(Call::cuIpcOpenMemHandle_v2, "memory of another process holds its bytes", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        let stream = c.stream()?;
        let mut memory = 0;
        must!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
        let to = host::HostMemory::filled(16, 0);
        ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), memory, to.bytes(), stream), "read");
        c.wait_for(stream)?;
        c.holds("same", to.first() == Export::WORD);
        ask!(c.cuMemFree_v2(memory), "free");
        let mut kind = 99_u32;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        ask!(c.cuPointerGetAttribute((&raw mut kind).cast(), attribute, memory), "kind");
        c.note("is", kind);
        let mut again = CUipcMemHandle::default();
        ask!(c.cuIpcGetMemHandle(&raw mut again, memory), "export_again");
        ask!(c.cuIpcCloseMemHandle(memory), "close");
        ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), memory, to.bytes(), stream), "after");
        Ok(())
    }),
    Probe::case(Call::cuIpcCloseMemHandle, "memory in use is closed without waiting", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        let stream = c.stream()?;
        let mut memory = 0;
        must!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
        let gate = c.busy(stream)?;
        ask!(c.cuMemsetD32Async(memory, 7, 16, stream), "fill");
        ask!(c.cuIpcCloseMemHandle(memory), "close");
        gate.open();
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuIpcCloseMemHandle, "memory of another process is closed", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        let mut memory = 0;
        must!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
        step(move |c| {
            ask!(c.cuIpcCloseMemHandle(memory));
            Ok(())
        })
    }),
    Probe::fails(Call::cuIpcCloseMemHandle, "what wasn't opened isn't closed", |c| {
        c.current()?;
        let memory = c.memory(BYTES)?;
        ask!(c.cuIpcCloseMemHandle(memory));
        ask!(c.cuIpcCloseMemHandle(0), "null");
        Ok(())
    }),
    Probe::case(Call::cuIpcCloseMemHandle, "opened memory is closed whatever is current", |c| {
        c.current()?;
        let handle = memory_of_another(c)?;
        let mut memory = 0;
        must!(c.cuIpcOpenMemHandle_v2(&raw mut memory, handle, LAZY));
        ask!(c.cuIpcCloseMemHandle(memory + 64), "inside");
        c.context()?;
        ask!(c.cuIpcCloseMemHandle(memory), "other_context");
        Ok(())
    }),
    Probe::works(Call::cuIpcGetEventHandle, "an event is exported to other processes", |c| {
        c.current()?;
        let event = c.event_with(SHARED)?;
        step(move |c| {
            let mut handle = CUipcEventHandle::default();
            ask!(c.cuIpcGetEventHandle(&raw mut handle, event));
            if c.observes() {
                let mut again = CUipcEventHandle::default();
                ask!(c.cuIpcGetEventHandle(&raw mut again, event), "again");
                c.holds("same", again == handle);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuIpcGetEventHandle, "a plain event isn't exported", |c| {
        c.current()?;
        let event = c.event()?;
        let mut handle = CUipcEventHandle::default();
        ask!(c.cuIpcGetEventHandle(&raw mut handle, event));
        let event = c.event_with(SHARED)?;
        ask!(c.cuIpcGetEventHandle(null_mut(), event), "nowhere");
        ask!(c.cuIpcGetEventHandle(&raw mut handle, CUevent::NULL), "null");
        Ok(())
    }),
    Probe::works(Call::cuIpcOpenEventHandle, "an event of another process is opened", |c| {
        c.current()?;
        let handle = event_of_another(c)?;
        step(move |c| {
            let mut event = CUevent::NULL;
            ask!(c.cuIpcOpenEventHandle(&raw mut event, handle));
            if c.observes() {
                c.holds("null", event.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuIpcOpenEventHandle, "a process's own event isn't opened", |c| {
        c.current()?;
        let event = c.event_with(SHARED)?;
        let (mut handle, mut opened) = (CUipcEventHandle::default(), CUevent::NULL);
        must!(c.cuIpcGetEventHandle(&raw mut handle, event));
        ask!(c.cuIpcOpenEventHandle(&raw mut opened, handle));
        ask!(c.cuIpcOpenEventHandle(null_mut(), handle), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuIpcOpenEventHandle, "garbage opens no event", |c| {
        c.current()?;
        let mut opened = CUevent::NULL;
        let garbage = CUipcEventHandle::default();
        ask!(c.cuIpcOpenEventHandle(&raw mut opened, garbage));
        Ok(())
    }),
    Probe::case(Call::cuIpcOpenEventHandle, "an event of another process is an event", |c| {
        c.current()?;
        let handle = event_of_another(c)?;
        let stream = c.stream()?;
        let (mut one, mut two) = (CUevent::NULL, CUevent::NULL);
        must!(c.cuIpcOpenEventHandle(&raw mut one, handle));
        ask!(c.cuIpcOpenEventHandle(&raw mut two, handle), "again");
        c.holds("same", one == two);
        ask!(c.cuEventQuery(one), "query");
        ask!(c.cuEventSynchronize(one), "synchronize");
        ask!(c.cuStreamWaitEvent(stream, one, 0), "wait");
        ask!(c.cuEventRecord(one, stream), "record");
        c.wait_for(stream)?;
        ask!(c.cuEventQuery(one), "query_after");
        let mut ms = 0.0;
        ask!(c.cuEventElapsedTime_v2(&raw mut ms, one, one), "elapsed");
        let mut exported = CUipcEventHandle::default();
        ask!(c.cuIpcGetEventHandle(&raw mut exported, one), "export");
        ask!(c.cuEventDestroy_v2(one), "destroy");
        ask!(c.cuEventDestroy_v2(two), "destroy_again");
        Ok(())
    }),
];

pub(super) fn memory_of_another(c: &Ctx) -> Made<CUipcMemHandle> {
    Ok(CUipcMemHandle { reserved: c.exported(Export::Memory)?.handle })
}

pub(super) fn event_of_another(c: &Ctx) -> Made<CUipcEventHandle> {
    Ok(CUipcEventHandle { reserved: c.exported(Export::Event)?.handle })
}
