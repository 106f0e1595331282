//! Copies to and from arrays.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host::HostMemory,
    picture::{SIDE, flat, solid},
    probe::{Probe, step},
    setup::Made,
};

const ROW: usize = 4 * SIDE;
const VALUE: u32 = 0x3f80_0000;
const TO_HOST: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_HOST;
const TO_DEVICE: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_DEVICE;
const TO_ARRAY: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_ARRAY;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemcpyHtoAAsync_v2, "a stream copies pinned bytes to an array", |c| {
        c.current()?;
        let (array, from, stream) = (line(c)?, c.pinned(SIDE)?, c.stream()?);
        from.fill(VALUE);
        step(move |c| {
            ask!(c.cuMemcpyHtoAAsync_v2(array, 0, from.ptr(), ROW, stream));
            if c.observes() {
                let to = c.pinned(SIDE)?;
                must!(c.cuMemcpyAtoHAsync_v2(to.ptr(), array, 0, ROW, stream));
                note_copied(c, to, stream)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemcpyHtoAAsync_v2, "a stream doesn't copy beyond an array's end", |c| {
        c.current()?;
        let (array, from, stream) = (line(c)?, c.pinned(2 * SIDE)?, c.stream()?);
        ask!(c.cuMemcpyHtoAAsync_v2(array, 0, from.ptr(), 2 * ROW, stream));
        ask!(c.cuMemcpyHtoAAsync_v2(array, 8, from.ptr(), ROW, stream), "moved");
        ask!(c.cuMemcpyHtoAAsync_v2(array, 2, from.ptr(), 4, stream), "inside_an_element");
        ask!(c.cuMemcpyHtoAAsync_v2(array, 0, null(), ROW, stream), "from_null");
        ask!(c.cuMemcpyHtoAAsync_v2(CUarray::NULL, 0, from.ptr(), ROW, stream), "to_null");
        ask!(c.cuMemcpyHtoAAsync_v2(array, 0, from.ptr(), 0, stream), "no_bytes");
        Ok(())
    }),
    Probe::works(Call::cuMemcpyAtoHAsync_v2, "a stream copies bytes from an array", |c| {
        c.current()?;
        let (array, from, stream) = (line(c)?, c.pinned(SIDE)?, c.stream()?);
        from.fill(VALUE);
        must!(c.cuMemcpyHtoAAsync_v2(array, 0, from.ptr(), ROW, stream));
        let to = c.pinned(SIDE)?;
        to.fill(0);
        c.wait_for(stream)?;
        step(move |c| {
            ask!(c.cuMemcpyAtoHAsync_v2(to.ptr(), array, 0, ROW, stream));
            if c.observes() {
                note_copied(c, to, stream)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuMemcpyAtoHAsync_v2, "a stream doesn't copy what an array hasn't", |c| {
        c.current()?;
        let (array, to, stream) = (line(c)?, c.pinned(2 * SIDE)?, c.stream()?);
        ask!(c.cuMemcpyAtoHAsync_v2(to.ptr(), array, 0, 2 * ROW, stream));
        ask!(c.cuMemcpyAtoHAsync_v2(null_mut(), array, 0, ROW, stream), "to_null");
        ask!(c.cuMemcpyAtoHAsync_v2(to.ptr(), CUarray::NULL, 0, ROW, stream), "from_null");
        Ok(())
    }),
    Probe::case(Call::cuMemcpyHtoAAsync_v2, "a flat array isn't copied to as one line", |c| {
        c.current()?;
        let (array, from, stream) = (c.array()?, c.pinned(2 * SIDE)?, c.stream()?);
        ask!(c.cuMemcpyHtoAAsync_v2(array, 0, from.ptr(), ROW, stream), "one_row");
        ask!(c.cuMemcpyHtoAAsync_v2(array, 0, from.ptr(), 2 * ROW, stream), "two_rows");
        Ok(())
    }),
    Probe::case(Call::cuMemcpy2DAsync_v2, "a stream copies rows to an array and back", |c| {
        c.current()?;
        let (array, stream) = (c.array()?, c.stream()?);
        let (from, to) = (c.pinned(SIDE * SIDE)?, c.pinned(SIDE * SIDE)?);
        from.fill(VALUE);
        to.fill(0);
        let there = there(from, array);
        ask!(c.cuMemcpy2DAsync_v2(&raw const there, stream), "there");
        let back = back(array, to);
        ask!(c.cuMemcpy2DAsync_v2(&raw const back, stream), "back");
        note_copied(c, to, stream)
    }),
    Probe::case(Call::cuMemcpy2DAsync_v2, "a stream copies rows between device and array", |c| {
        c.current()?;
        let (array, stream, memory) = (c.array()?, c.stream()?, c.memory(ROW * SIDE)?);
        must!(c.cuMemsetD32Async(memory, VALUE, SIDE * SIDE, stream));
        let there = CUDA_MEMCPY2D {
            srcMemoryType: TO_DEVICE,
            srcDevice: memory,
            ..there(HostMemory::filled(1, 0), array)
        };
        ask!(c.cuMemcpy2DAsync_v2(&raw const there, stream), "there");
        let to = c.pinned(SIDE * SIDE)?;
        to.fill(0);
        let back = back(array, to);
        ask!(c.cuMemcpy2DAsync_v2(&raw const back, stream), "back");
        note_copied(c, to, stream)
    }),
    Probe::case(Call::cuMemcpy2DAsync_v2, "rows of a copy are inside the array", |c| {
        c.current()?;
        let (array, stream) = (c.array()?, c.stream()?);
        let from = c.pinned(4 * SIDE * SIDE)?;
        let fits = there(from, array);
        for (label, copy) in [
            ("wide", CUDA_MEMCPY2D { WidthInBytes: ROW + 4, srcPitch: 2 * ROW, ..fits }),
            ("moved", CUDA_MEMCPY2D { dstXInBytes: 4, ..fits }),
            ("high", CUDA_MEMCPY2D { Height: SIDE + 1, ..fits }),
            ("down", CUDA_MEMCPY2D { dstY: 1, ..fits }),
            ("inside_an_element", CUDA_MEMCPY2D { dstXInBytes: 2, WidthInBytes: 4, ..fits }),
            ("null", CUDA_MEMCPY2D { dstArray: CUarray::NULL, ..fits }),
            (
                "one_element",
                CUDA_MEMCPY2D { dstXInBytes: 4, dstY: 3, WidthInBytes: 4, Height: 1, ..fits },
            ),
            ("part_of_an_element", CUDA_MEMCPY2D { WidthInBytes: 2, Height: 1, ..fits }),
        ] {
            ask!(c.cuMemcpy2DAsync_v2(&raw const copy, stream), label);
        }
        c.wait_for(stream)
    }),
    Probe::case(Call::cuMemcpy2DAsync_v2, "rows are copied to another context's array", |c| {
        c.current()?;
        let array = c.array()?;
        c.context()?;
        let (stream, from) = (c.stream()?, c.pinned(SIDE * SIDE)?);
        let there = there(from, array);
        ask!(c.cuMemcpy2DAsync_v2(&raw const there, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuArrayDestroy, "an array is destroyed under another context's copy", |c| {
        let own = c.current()?;
        let array = c.array()?;
        c.context()?;
        let stream = c.at_work()?;
        let from = c.pinned(SIDE * SIDE)?;
        let there = there(from, array);
        ask!(c.cuMemcpy2DAsync_v2(&raw const there, stream), "copy");
        must!(c.cuCtxSetCurrent(own));
        ask!(c.cuArrayDestroy(array), "destroy");
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuMemcpy2DAsync_v2, "rows are copied to an array with none current", |c| {
        c.current()?;
        let (array, stream, from) = (c.array()?, c.stream()?, c.pinned(SIDE * SIDE)?);
        c.empty_stack();
        let there = there(from, array);
        ask!(c.cuMemcpy2DAsync_v2(&raw const there, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuMemcpy3DAsync_v2, "a stream copies a box to an array and back", |c| {
        c.current()?;
        let (array, stream) = (c.array_of(solid(SIDE, 4, 2, 0))?, c.stream()?);
        let (from, to) = (c.pinned(SIDE * 8)?, c.pinned(SIDE * 8)?);
        from.fill(VALUE);
        to.fill(0);
        let there = CUDA_MEMCPY3D {
            srcMemoryType: TO_HOST,
            srcHost: from.ptr(),
            srcPitch: ROW,
            srcHeight: 4,
            dstMemoryType: TO_ARRAY,
            dstArray: array,
            WidthInBytes: ROW,
            Height: 4,
            Depth: 2,
            ..CUDA_MEMCPY3D::default()
        };
        ask!(c.cuMemcpy3DAsync_v2(&raw const there, stream), "there");
        let back = CUDA_MEMCPY3D {
            srcMemoryType: TO_ARRAY,
            srcHost: null(),
            srcArray: array,
            dstMemoryType: TO_HOST,
            dstHost: to.ptr(),
            dstArray: CUarray::NULL,
            dstPitch: ROW,
            dstHeight: 4,
            ..there
        };
        ask!(c.cuMemcpy3DAsync_v2(&raw const back, stream), "back");
        note_copied(c, to, stream)?;
        let deep = CUDA_MEMCPY3D { Depth: 3, ..back };
        ask!(c.cuMemcpy3DAsync_v2(&raw const deep, stream), "deep");
        let moved = CUDA_MEMCPY3D { srcZ: 1, ..back };
        ask!(c.cuMemcpy3DAsync_v2(&raw const moved, stream), "moved");
        Ok(())
    }),
    Probe::case(Call::cuMemcpy2DAsync_v2, "a level is copied to by itself", |c| {
        c.current()?;
        let (mipmapped, stream) = (c.mipmapped()?, c.stream()?);
        let level = c.level(mipmapped, 1)?;
        let (from, to) = (c.pinned(SIDE * SIDE)?, c.pinned(SIDE * SIDE)?);
        from.fill(VALUE);
        to.fill(0);
        let half = (ROW / 2, SIDE / 2);
        let there = CUDA_MEMCPY2D { WidthInBytes: half.0, Height: half.1, ..there(from, level) };
        ask!(c.cuMemcpy2DAsync_v2(&raw const there, stream), "there");
        let back = CUDA_MEMCPY2D { WidthInBytes: half.0, Height: half.1, ..back(level, to) };
        ask!(c.cuMemcpy2DAsync_v2(&raw const back, stream), "back");
        c.wait_for(stream)?;
        c.note("first", to.first());
        let beyond = CUDA_MEMCPY2D { Height: half.1 + 1, ..there };
        ask!(c.cuMemcpy2DAsync_v2(&raw const beyond, stream), "beyond");
        Ok(())
    }),
];

/// An array of one row.
fn line(c: &Ctx) -> Made<CUarray> {
    let desc = flat(SIDE, 0);
    let mut array = CUarray::NULL;
    must!(c.cuArrayCreate_v2(&raw mut array, &raw const desc));
    Ok(array)
}

fn there(from: HostMemory, array: CUarray) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcMemoryType: TO_HOST,
        srcHost: from.ptr(),
        srcPitch: ROW,
        dstMemoryType: TO_ARRAY,
        dstArray: array,
        WidthInBytes: ROW,
        Height: SIDE,
        ..CUDA_MEMCPY2D::default()
    }
}

fn back(array: CUarray, to: HostMemory) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcMemoryType: TO_ARRAY,
        srcArray: array,
        dstMemoryType: TO_HOST,
        dstHost: to.ptr(),
        dstPitch: ROW,
        WidthInBytes: ROW,
        Height: SIDE,
        ..CUDA_MEMCPY2D::default()
    }
}

fn note_copied(c: &mut Ctx, to: HostMemory, stream: CUstream) -> Made<()> {
    c.wait_for(stream)?;
    c.holds("first", to.first() == VALUE);
    c.holds("last", to.last() == VALUE);
    Ok(())
}
