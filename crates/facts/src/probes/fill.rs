//! Fills, with and without a stream, of rows and of boxes.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host::HostMemory,
    probe::{Probe, step},
    setup::Made,
};

const WORDS: usize = 16;
const BYTES: usize = WORDS * 4;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuMemsetD8_v2, "bytes are set", |c| {
        let (memory, _) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD8_v2(memory, 7, BYTES));
            note_words(c, memory)
        })
    }),
    Probe::fails(Call::cuMemsetD8_v2, "bytes aren't set at null", |c| {
        zeros(c)?;
        ask!(c.cuMemsetD8_v2(0, 7, BYTES));
        Ok(())
    }),
    Probe::works(Call::cuMemsetD32_v2, "words are set", |c| {
        let (memory, _) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD32_v2(memory, 0x0102_0304, WORDS));
            note_words(c, memory)
        })
    }),
    Probe::fails(Call::cuMemsetD32_v2, "words aren't set at a byte", |c| {
        let (memory, _) = zeros(c)?;
        ask!(c.cuMemsetD32_v2(memory + 1, 7, 4));
        Ok(())
    }),
    Probe::case(Call::cuMemsetD32_v2, "a plain fill needs a context", |c| {
        let (memory, _) = zeros(c)?;
        c.empty_stack();
        ask!(c.cuMemsetD32_v2(memory, 7, 4));
        Ok(())
    }),
    Probe::works(Call::cuMemsetD8Async, "a stream sets bytes", |c| {
        let (memory, stream) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD8Async(memory, 7, BYTES, stream));
            note_words_by(c, memory, stream)
        })
    }),
    Probe::fails(Call::cuMemsetD8Async, "a stream doesn't set bytes at null", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD8Async(0, 7, BYTES, stream));
        ask!(c.cuMemsetD8Async(memory, 7, 0, stream), "nothing");
        Ok(())
    }),
    Probe::case(Call::cuMemsetD8Async, "a stream doesn't set bytes beyond their memory", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD8Async(memory, 7, 1 << 30, stream));
        Ok(())
    }),
    Probe::case(Call::cuMemsetD8Async, "a stream sets another context's bytes", |c| {
        let (_, stream) = zeros(c)?;
        c.context()?;
        let memory = c.memory(BYTES)?;
        ask!(c.cuMemsetD8Async(memory, 7, BYTES, stream));
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::works(Call::cuMemsetD16Async, "a stream sets half words", |c| {
        let (memory, stream) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD16Async(memory, 0x0102, WORDS * 2, stream));
            note_words_by(c, memory, stream)
        })
    }),
    Probe::fails(Call::cuMemsetD16Async, "a stream doesn't set half words at a byte", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD16Async(memory + 1, 7, 4, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemsetD32Async, "a stream sets words", |c| {
        let (memory, stream) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD32Async(memory, 0x0102_0304, WORDS, stream));
            note_words_by(c, memory, stream)
        })
    }),
    Probe::fails(Call::cuMemsetD32Async, "a stream doesn't set words at a byte", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD32Async(memory + 2, 7, 4, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemsetD2D8Async, "a stream sets rows of bytes", |c| {
        let (memory, stream) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD2D8Async(memory, 32, 7, 32, 2, stream));
            note_words_by(c, memory, stream)
        })
    }),
    Probe::fails(Call::cuMemsetD2D8Async, "rows of bytes aren't wider than their pitch", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD2D8Async(memory, 16, 7, 32, 2, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemsetD2D16Async, "a stream sets rows of half words", |c| {
        let (memory, stream) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD2D16Async(memory, 32, 0x0102, 16, 2, stream));
            note_words_by(c, memory, stream)
        })
    }),
    Probe::fails(Call::cuMemsetD2D16Async, "rows of half words don't begin at a byte", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD2D16Async(memory + 1, 32, 7, 4, 2, stream));
        Ok(())
    }),
    Probe::works(Call::cuMemsetD2D32Async, "a stream sets rows of words", |c| {
        let (memory, stream) = zeros(c)?;
        step(move |c| {
            ask!(c.cuMemsetD2D32Async(memory, 32, 0x0102_0304, 8, 2, stream));
            note_words_by(c, memory, stream)
        })
    }),
    Probe::fails(Call::cuMemsetD2D32Async, "rows of words don't begin at a half word", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD2D32Async(memory + 2, 32, 7, 4, 2, stream));
        Ok(())
    }),
    Probe::case(Call::cuMemsetD2D8Async, "bytes between rows stay as they are", |c| {
        let (memory, stream) = zeros(c)?;
        ask!(c.cuMemsetD2D8Async(memory, 32, 7, 4, 2, stream));
        note_words_by(c, memory, stream)
    }),
];

/// Memory of zeros, and a stream.
fn zeros(c: &Ctx) -> Made<(CUdeviceptr, CUstream)> {
    c.current()?;
    let (memory, stream) = (c.memory(BYTES)?, c.stream()?);
    must!(c.cuMemsetD8Async(memory, 0, BYTES, stream));
    c.wait_for(stream)?;
    Ok((memory, stream))
}

fn note_words(c: &mut Ctx, memory: CUdeviceptr) -> Made<()> {
    if c.observes() {
        let back = HostMemory::filled(WORDS, 0);
        must!(c.cuMemcpyDtoH_v2(back.ptr(), memory, BYTES));
        c.note("first", format_args!("{:#x}", back.first()));
        c.note("last", format_args!("{:#x}", back.last()));
    }
    Ok(())
}

fn note_words_by(c: &mut Ctx, memory: CUdeviceptr, stream: CUstream) -> Made<()> {
    if c.observes() {
        c.wait_for(stream)?;
    }
    note_words(c, memory)
}
