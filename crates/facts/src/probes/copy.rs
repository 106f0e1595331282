//! Copies, with and without a stream, of one, two and three dimensions.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host::HostMemory,
    probe::{Probe, step},
    setup::Made,
};

/// Words in each memory that is copied.
const WORDS: usize = 16;
const BYTES: usize = WORDS * 4;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemcpy, "bytes are copied between any two addresses", |c| {
        let (from, to) = two(c)?;
        step(move |c| {
            ask!(c.cuMemcpy(to, from, BYTES));
            note_copied(c, to)
        })
    }),
    Probe::fails(Call::cuMemcpy, "bytes aren't copied from beyond their memory", |c| {
        let (from, to) = two(c)?;
        ask!(c.cuMemcpy(to, from, 1 << 30));
        ask!(c.cuMemcpy(to, 0, BYTES), "null");
        ask!(c.cuMemcpy(0, 0, 0), "nothing");
        Ok(())
    }),
    Probe::works(Call::cuMemcpyHtoD_v2, "bytes are copied to the device", |c| {
        let (_, to) = two(c)?;
        let from = HostMemory::filled(WORDS, VALUE);
        step(move |c| {
            ask!(c.cuMemcpyHtoD_v2(to, from.ptr(), BYTES));
            note_copied(c, to)
        })
    }),
    Probe::fails(Call::cuMemcpyHtoD_v2, "bytes aren't copied to the device from null", |c| {
        let (_, to) = two(c)?;
        ask!(c.cuMemcpyHtoD_v2(to, core::ptr::null(), BYTES));
        ask!(c.cuMemcpyHtoD_v2(0, core::ptr::null(), 0), "nothing");
        Ok(())
    }),
    Probe::case(Call::cuMemcpyHtoD_v2, "a plain copy needs a context", |c| {
        let (_, to) = two(c)?;
        let host = HostMemory::filled(WORDS, VALUE);
        c.empty_stack();
        ask!(c.cuMemcpyHtoD_v2(to, host.ptr(), BYTES), "to_device");
        ask!(c.cuMemcpyDtoH_v2(host.ptr(), to, BYTES), "to_host");
        Ok(())
    }),
    Probe::works(Call::cuMemcpyDtoH_v2, "bytes are copied from the device", |c| {
        let (from, _) = two(c)?;
        let to = HostMemory::filled(WORDS, 0);
        step(move |c| {
            ask!(c.cuMemcpyDtoH_v2(to.ptr(), from, BYTES));
            if c.observes() {
                c.note("first", to.first());
                c.note("last", to.last());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemcpyDtoH_v2, "bytes aren't copied from the device to null", |c| {
        let (from, _) = two(c)?;
        ask!(c.cuMemcpyDtoH_v2(null_mut(), from, BYTES));
        Ok(())
    }),
    Probe::case(
        Call::cuMemcpyDtoH_v2,
        "bytes aren't copied from beyond the device's memory",
        |c| {
            let (from, _) = two(c)?;
            let to = HostMemory::filled(1 << 20, 0);
            ask!(c.cuMemcpyDtoH_v2(to.ptr(), from, 1 << 22));
            ask!(c.cuMemcpyDtoH_v2(to.ptr(), 0, BYTES), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuMemcpyDtoD_v2, "bytes are copied on the device", |c| {
        let (from, to) = two(c)?;
        step(move |c| {
            ask!(c.cuMemcpyDtoD_v2(to, from, BYTES));
            note_copied(c, to)
        })
    }),
    Probe::fails(Call::cuMemcpyDtoD_v2, "bytes aren't copied on the device from null", |c| {
        let (_, to) = two(c)?;
        ask!(c.cuMemcpyDtoD_v2(to, 0, BYTES));
        ask!(c.cuMemcpyDtoD_v2(0, 0, 0), "nothing");
        Ok(())
    }),
    Probe::works(Call::cuMemcpyAsync, "a stream copies between any two addresses", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuMemcpyAsync(to, from, BYTES, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(Call::cuMemcpyAsync, "a stream doesn't copy from null", |c| {
        let (_, to) = two(c)?;
        let stream = c.stream()?;
        ask!(c.cuMemcpyAsync(to, 0, BYTES, stream));
        ask!(c.cuMemcpyAsync(to, to, 1 << 30, stream), "beyond");
        Ok(())
    }),
    Probe::works(Call::cuMemcpyHtoDAsync_v2, "a stream copies pinned bytes to the device", |c| {
        let (_, to) = two(c)?;
        let (stream, from) = (c.stream()?, c.pinned(WORDS)?);
        from.fill(VALUE);
        step(move |c| {
            ask!(c.cuMemcpyHtoDAsync_v2(to, from.ptr(), BYTES, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(
        Call::cuMemcpyHtoDAsync_v2,
        "a stream doesn't copy to the device from null",
        |c| {
            let (_, to) = two(c)?;
            let stream = c.stream()?;
            ask!(c.cuMemcpyHtoDAsync_v2(to, core::ptr::null(), BYTES, stream));
            Ok(())
        },
    ),
    Probe::case(Call::cuMemcpyHtoDAsync_v2, "a stream copies plain bytes to the device", |c| {
        let (_, to) = two(c)?;
        let (stream, from) = (c.stream()?, HostMemory::filled(WORDS, VALUE));
        ask!(c.cuMemcpyHtoDAsync_v2(to, from.ptr(), BYTES, stream));
        note_copied_by(c, to, stream)
    }),
    Probe::works(Call::cuMemcpyDtoHAsync_v2, "a stream copies bytes from the device", |c| {
        let (from, _) = two(c)?;
        let (stream, to) = (c.stream()?, c.pinned(WORDS)?);
        to.fill(0);
        step(move |c| {
            ask!(c.cuMemcpyDtoHAsync_v2(to.ptr(), from, BYTES, stream));
            if c.observes() {
                c.wait_for(stream)?;
                c.note("first", to.first());
                c.note("last", to.last());
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuMemcpyDtoHAsync_v2,
        "a stream doesn't copy from the device to null",
        |c| {
            let (from, _) = two(c)?;
            let stream = c.stream()?;
            ask!(c.cuMemcpyDtoHAsync_v2(null_mut(), from, BYTES, stream));
            Ok(())
        },
    ),
    Probe::works(Call::cuMemcpyDtoDAsync_v2, "a stream copies bytes on the device", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuMemcpyDtoDAsync_v2(to, from, BYTES, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(
        Call::cuMemcpyDtoDAsync_v2,
        "a stream doesn't copy on the device from null",
        |c| {
            let (_, to) = two(c)?;
            let stream = c.stream()?;
            ask!(c.cuMemcpyDtoDAsync_v2(to, 0, BYTES, stream));
            Ok(())
        },
    ),
    Probe::case(Call::cuMemcpyAsync, "a stream copies a pool's memory without a context", |c| {
        let (from, _) = two(c)?;
        let (stream, pool) = (c.stream()?, c.pool()?);
        let to = c.pool_memory(BYTES, pool, stream)?;
        c.empty_stack();
        ask!(c.cuMemcpyAsync(to, from, BYTES, stream), "any");
        ask!(c.cuMemcpyDtoDAsync_v2(to, from, BYTES, stream), "on_device");
        let host = HostMemory::filled(WORDS, 0);
        ask!(c.cuMemcpyDtoHAsync_v2(host.ptr(), to, BYTES, stream), "to_host");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        c.note("first", host.first());
        Ok(())
    }),
    Probe::works(Call::cuMemcpyPeerAsync, "a stream copies between two contexts", |c| {
        let (from, to) = two(c)?;
        let here = c.what_is_current()?;
        let stream = c.stream()?;
        step(move |c| {
            ask!(c.cuMemcpyPeerAsync(to, here, from, here, BYTES, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(Call::cuMemcpyPeerAsync, "a stream doesn't copy to null of a context", |c| {
        let (from, _) = two(c)?;
        let here = c.what_is_current()?;
        let stream = c.stream()?;
        ask!(c.cuMemcpyPeerAsync(0, here, from, here, BYTES, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemcpy2DAsync_v2, "a stream copies rows", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        step(move |c| {
            let copy = rows(from, to, 32);
            ask!(c.cuMemcpy2DAsync_v2(&raw const copy, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(Call::cuMemcpy2DAsync_v2, "rows aren't wider than their pitch", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        let copy = rows(from, to, 8);
        ask!(c.cuMemcpy2DAsync_v2(&raw const copy, stream));
        ask!(c.cuMemcpy2DAsync_v2(core::ptr::null(), stream), "null");
        Ok(())
    }),
    Probe::works(Call::cuMemcpy3DAsync_v2, "a stream copies a box", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        step(move |c| {
            let copy = slices(from, to, 16);
            ask!(c.cuMemcpy3DAsync_v2(&raw const copy, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(Call::cuMemcpy3DAsync_v2, "a box isn't wider than its pitch", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        let copy = slices(from, to, 8);
        ask!(c.cuMemcpy3DAsync_v2(&raw const copy, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemcpy3DPeerAsync, "a stream copies a box between two contexts", |c| {
        let (from, to) = two(c)?;
        let here = c.what_is_current()?;
        let stream = c.stream()?;
        step(move |c| {
            let copy = between(slices(from, to, 16), here, here);
            ask!(c.cuMemcpy3DPeerAsync(&raw const copy, stream));
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(Call::cuMemcpy3DPeerAsync, "a box of a context isn't wider than its pitch", |c| {
        let (from, to) = two(c)?;
        let here = c.what_is_current()?;
        let stream = c.stream()?;
        let copy = between(slices(from, to, 8), here, here);
        ask!(c.cuMemcpy3DPeerAsync(&raw const copy, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemcpyBatchAsync_v2, "a stream makes several copies", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        step(move |c| {
            batch(c, from, to, CUmemcpySrcAccessOrder(1), stream);
            note_copied_by(c, to, stream)
        })
    }),
    Probe::fails(Call::cuMemcpyBatchAsync_v2, "several copies aren't made in no order", |c| {
        let (from, to) = two(c)?;
        let stream = c.stream()?;
        batch(c, from, to, CUmemcpySrcAccessOrder(0), stream);
        batch(c, from, to, CUmemcpySrcAccessOrder(1), CUstream::NULL);
        Ok(())
    }),
    Probe::case(Call::cuMemcpyHtoDAsync_v2, "a captured copy is made by the graph alone", |c| {
        let (_, to) = two(c)?;
        let (stream, from) = (c.stream()?, c.pinned(WORDS)?);
        from.fill(VALUE);
        c.capture_globally(stream)?;
        ask!(c.cuMemcpyHtoDAsync_v2(to, from.ptr(), BYTES, stream));
        c.note_capturing(stream)?;
        c.end(stream)?;
        note_copied_by(c, to, stream)
    }),
];

const VALUE: u32 = 0x0A0B_0C0D;

/// Two memories of the current primary context: the first holds `VALUE`, the second 0.
fn two(c: &Ctx) -> Made<(CUdeviceptr, CUdeviceptr)> {
    c.current()?;
    let (from, to) = (c.memory(BYTES)?, c.memory(BYTES)?);
    must!(c.cuMemsetD32_v2(from, VALUE, WORDS));
    must!(c.cuMemsetD32_v2(to, 0, WORDS));
    must!(c.cuCtxSynchronize());
    Ok((from, to))
}

fn note_copied(c: &mut Ctx, memory: CUdeviceptr) -> Made<()> {
    if c.observes() {
        let back = HostMemory::filled(WORDS, 0);
        must!(c.cuMemcpyDtoH_v2(back.ptr(), memory, BYTES));
        c.holds("first", back.first() == VALUE);
        c.holds("last", back.last() == VALUE);
    }
    Ok(())
}

fn note_copied_by(c: &mut Ctx, memory: CUdeviceptr, stream: CUstream) -> Made<()> {
    if c.observes() {
        c.wait_for(stream)?;
    }
    note_copied(c, memory)
}

/// Two rows of 32 bytes.
fn rows(from: CUdeviceptr, to: CUdeviceptr, pitch: usize) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: from,
        srcPitch: pitch,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: to,
        dstPitch: pitch,
        WidthInBytes: 32,
        Height: 2,
        ..CUDA_MEMCPY2D::default()
    }
}

/// Two slices of two rows of 16 bytes.
fn slices(from: CUdeviceptr, to: CUdeviceptr, pitch: usize) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcDevice: from,
        srcPitch: pitch,
        srcHeight: 2,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstDevice: to,
        dstPitch: pitch,
        dstHeight: 2,
        WidthInBytes: 16,
        Height: 2,
        Depth: 2,
        ..CUDA_MEMCPY3D::default()
    }
}

/// The same with the contexts of both sides.
fn between(copy: CUDA_MEMCPY3D, to: CUcontext, from: CUcontext) -> CUDA_MEMCPY3D_PEER {
    CUDA_MEMCPY3D_PEER {
        srcMemoryType: copy.srcMemoryType,
        srcDevice: copy.srcDevice,
        srcContext: from,
        srcPitch: copy.srcPitch,
        srcHeight: copy.srcHeight,
        dstMemoryType: copy.dstMemoryType,
        dstDevice: copy.dstDevice,
        dstContext: to,
        dstPitch: copy.dstPitch,
        dstHeight: copy.dstHeight,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: copy.Depth,
        ..CUDA_MEMCPY3D_PEER::default()
    }
}

/// Two copies of half the bytes each.
fn batch(
    c: &mut Ctx,
    from: CUdeviceptr,
    to: CUdeviceptr,
    order: CUmemcpySrcAccessOrder,
    stream: CUstream,
) {
    let half = BYTES / 2;
    let step = half as CUdeviceptr;
    let (mut to, mut from, mut sizes) = ([to, to + step], [from, from + step], [half, half]);
    let mut attributes =
        [CUmemcpyAttributes { srcAccessOrder: order, ..CUmemcpyAttributes::default() }];
    let mut indices = [0_usize];
    ask!(c.cuMemcpyBatchAsync_v2(
        to.as_mut_ptr(),
        from.as_mut_ptr(),
        sizes.as_mut_ptr(),
        2,
        attributes.as_mut_ptr(),
        indices.as_mut_ptr(),
        1,
        stream
    ));
}
