//! Work on streams that isn't a copy, a fill or a kernel: waits, host functions, values in memory.
//!
//! Source: CUDA Driver API 13.x, "Stream Management", "Stream Memory Operations".

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::{Ctx, word},
    host::{self, HostMemory, Inside},
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuStreamWaitEvent, "a stream waits for an event", |c| {
        c.current()?;
        let (a, b, event) = (c.stream()?, c.stream()?, c.event()?);
        must!(c.cuEventRecord(event, a));
        step(move |c| {
            ask!(c.cuStreamWaitEvent(b, event, 0));
            if c.observes() {
                ask!(c.cuStreamSynchronize(b), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamWaitEvent, "a stream doesn't wait for null", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuStreamWaitEvent(stream, CUevent::NULL, 0));
        Ok(())
    }),
    Probe::case(Call::cuStreamWaitEvent, "an event that was never recorded holds nobody up", |c| {
        c.current()?;
        let (stream, event) = (c.stream()?, c.event()?);
        ask!(c.cuStreamWaitEvent(stream, event, 0));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuStreamWaitEvent(stream, event, 0x8000), "flags");
        Ok(())
    }),
    Probe::case(Call::cuStreamWaitEvent, "a stream waits for another context's event", |c| {
        c.current()?;
        let (a, event) = (c.stream()?, c.event()?);
        must!(c.cuEventRecord(event, a));
        c.context()?;
        let b = c.stream()?;
        ask!(c.cuStreamWaitEvent(b, event, 0));
        ask!(c.cuStreamSynchronize(b), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuStreamWaitEvent, "what waits for a busy stream isn't ready", |c| {
        c.current()?;
        let (a, b, event) = (c.stream()?, c.stream()?, c.event()?);
        let gate = c.busy(a)?;
        must!(c.cuEventRecord(event, a));
        ask!(c.cuStreamWaitEvent(b, event, 0));
        ask!(c.cuStreamQuery(b), "query");
        gate.open();
        ask!(c.cuStreamSynchronize(b), "synchronize");
        ask!(c.cuStreamQuery(a), "first");
        Ok(())
    }),
    Probe::works(Call::cuLaunchHostFunc, "a host function runs once", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let count = host::leak(AtomicU32::new(0));
            ask!(c.cuLaunchHostFunc(stream, Some(host::count), host::user(count)));
            if c.observes() {
                c.wait_for(stream)?;
                c.note("ran", count.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLaunchHostFunc, "no host function is null", |c| {
        c.current()?;
        let stream = c.stream()?;
        ask!(c.cuLaunchHostFunc(stream, None, null_mut()));
        Ok(())
    }),
    Probe::case(Call::cuLaunchHostFunc, "a host function may not call the driver", |c| {
        c.current()?;
        let stream = c.stream()?;
        let inside = host::leak(Inside::new(c.driver_arc()));
        let data = host::user(inside);
        ask!(c.cuLaunchHostFunc(stream, Some(host::create_stream_inside), data));
        c.wait_for(stream)?;
        c.note("inside", inside.heard().map_or_else(|| "not_run".to_owned(), word));
        Ok(())
    }),
    Probe::works(Call::cuStreamAddCallback, "a callback runs once", |c| {
        c.current()?;
        let stream = c.stream()?;
        step(move |c| {
            let count = host::leak(AtomicU32::new(0));
            let data = host::user(count);
            ask!(c.cuStreamAddCallback(stream, Some(host::count_callback), data, 0));
            if c.observes() {
                c.wait_for(stream)?;
                c.note("ran", count.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamAddCallback, "a callback takes no flags", |c| {
        c.current()?;
        let stream = c.stream()?;
        let data = host::user(host::leak(AtomicU32::new(0)));
        ask!(c.cuStreamAddCallback(stream, Some(host::count_callback), data, 1));
        ask!(c.cuStreamAddCallback(stream, None, data, 0), "null");
        Ok(())
    }),
    Probe::case(Call::cuStreamAddCallback, "a callback can't be captured", |c| {
        c.current()?;
        let stream = c.stream()?;
        c.capture_relaxed(stream)?;
        let data = host::user(host::leak(AtomicU32::new(0)));
        ask!(c.cuStreamAddCallback(stream, Some(host::count_callback), data, 0));
        c.note_capturing(stream)?;
        c.end(stream)
    }),
    Probe::works(Call::cuStreamAttachMemAsync, "managed memory is attached to a stream", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.managed(4096)?;
        let flags = CUmemAttach_flags::CU_MEM_ATTACH_SINGLE.0;
        step(move |c| {
            ask!(c.cuStreamAttachMemAsync(stream, memory, 0, flags));
            Ok(())
        })
    }),
    Probe::fails(Call::cuStreamAttachMemAsync, "memory isn't attached with unknown flags", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.managed(4096)?;
        ask!(c.cuStreamAttachMemAsync(stream, memory, 0, 0x8000));
        Ok(())
    }),
    Probe::works(Call::cuStreamWriteValue32_v2, "a stream writes 32 bits", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        step(move |c| {
            ask!(c.cuStreamWriteValue32_v2(stream, memory, 5, 0));
            note_value(c, stream, memory)
        })
    }),
    Probe::fails(Call::cuStreamWriteValue32_v2, "32 bits aren't written nowhere", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        ask!(c.cuStreamWriteValue32_v2(stream, memory + 1, 5, 0), "unaligned");
        ask!(c.cuStreamWriteValue32_v2(stream, 0, 5, 0), "null");
        Ok(())
    }),
    Probe::works(Call::cuStreamWaitValue32_v2, "a stream waits for 32 bits that are there", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = zeros(c, stream)?;
        step(move |c| {
            ask!(c.cuStreamWaitValue32_v2(stream, memory, 0, EQUAL));
            wait_observed(c, stream)
        })
    }),
    Probe::fails(Call::cuStreamWaitValue32_v2, "32 bits aren't awaited in an unknown way", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = zeros(c, stream)?;
        ask!(c.cuStreamWaitValue32_v2(stream, memory, 0, 0x8000));
        ask!(c.cuStreamWaitValue32_v2(stream, memory + 1, 0, EQUAL), "unaligned");
        Ok(())
    }),
    Probe::works(Call::cuStreamWriteValue64_v2, "a stream writes 64 bits", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        step(move |c| {
            ask!(c.cuStreamWriteValue64_v2(stream, memory, 5, 0));
            note_value(c, stream, memory)
        })
    }),
    Probe::fails(Call::cuStreamWriteValue64_v2, "64 bits aren't written unaligned", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        ask!(c.cuStreamWriteValue64_v2(stream, memory + 4, 5, 0));
        Ok(())
    }),
    Probe::works(Call::cuStreamWaitValue64_v2, "a stream waits for 64 bits that are there", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = zeros(c, stream)?;
        step(move |c| {
            ask!(c.cuStreamWaitValue64_v2(stream, memory, 0, EQUAL));
            wait_observed(c, stream)
        })
    }),
    Probe::fails(Call::cuStreamWaitValue64_v2, "64 bits aren't awaited unaligned", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = zeros(c, stream)?;
        ask!(c.cuStreamWaitValue64_v2(stream, memory + 4, 0, EQUAL));
        Ok(())
    }),
    Probe::works(Call::cuStreamBatchMemOp_v2, "several values are written at once", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        step(move |c| {
            let mut operations = [write(memory), write(memory + 4)];
            ask!(c.cuStreamBatchMemOp_v2(stream, 2, operations.as_mut_ptr(), 0));
            note_value(c, stream, memory)
        })
    }),
    Probe::fails(Call::cuStreamBatchMemOp_v2, "at most 256 values are written at once", |c| {
        c.current()?;
        let stream = c.stream()?;
        let memory = c.memory(64)?;
        let mut operations = vec![write(memory); 300];
        ask!(c.cuStreamBatchMemOp_v2(stream, 300, operations.as_mut_ptr(), 0));
        ask!(c.cuStreamBatchMemOp_v2(stream, 1, operations.as_mut_ptr(), 1), "flags");
        Ok(())
    }),
];

const EQUAL: u32 = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ.0;

fn zeros(c: &Ctx, stream: CUstream) -> Made<CUdeviceptr> {
    let memory = c.memory(64)?;
    must!(c.cuMemsetD8Async(memory, 0, 64, stream));
    c.wait_for(stream)?;
    Ok(memory)
}

fn write(address: CUdeviceptr) -> CUstreamBatchMemOpParams {
    let mut operation = CUstreamBatchMemOpParams::default();
    operation.writeValue = CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st {
        operation: CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32,
        address,
        ..Default::default()
    };
    operation.writeValue.__bindgen_anon_1.value = 5;
    operation
}

fn wait_observed(c: &mut Ctx, stream: CUstream) -> Made<()> {
    if c.observes() {
        ask!(c.cuStreamSynchronize(stream), "synchronize");
    }
    Ok(())
}

fn note_value(c: &mut Ctx, stream: CUstream, memory: CUdeviceptr) -> Made<()> {
    if c.observes() {
        let back = HostMemory::filled(1, 0);
        must!(c.cuMemcpyDtoHAsync_v2(back.ptr(), memory, 4, stream));
        c.wait_for(stream)?;
        c.note("value", back.first());
    }
    Ok(())
}
