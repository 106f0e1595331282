//! Launches.
//!
//! Source: CUDA Driver API 13.x, "Execution Control".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host::HostMemory,
    probe::{Probe, step},
    setup::Made,
};

/// A launch of one block, and what is wrong with it.
struct Shape {
    grid: u32,
    block: u32,
    shared: u32,
}

const ONE: Shape = Shape { grid: 1, block: 1, shared: 0 };

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuLaunchKernel, "a kernel without parameters runs", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"nop")?, c.stream()?);
        step(move |c| {
            plain(c, "", function, &ONE, stream);
            if c.observes() {
                ask!(c.cuStreamSynchronize(stream), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLaunchKernel, "no grid is empty", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"nop")?, c.stream()?);
        plain(c, "", function, &Shape { grid: 0, ..ONE }, stream);
        plain(c, "block", function, &Shape { block: 0, ..ONE }, stream);
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "a launch has limits", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"nop")?, c.stream()?);
        plain(c, "block", function, &Shape { block: 2048, ..ONE }, stream);
        plain(c, "shared", function, &Shape { shared: 1 << 20, ..ONE }, stream);
        plain(c, "null", CUfunction::NULL, &ONE, stream);
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "a kernel with parameters isn't launched without", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"fill")?, c.stream()?);
        plain(c, "", function, &ONE, stream);
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "a kernel writes what it was told", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"fill")?, c.stream()?);
        let memory = c.memory(400)?;
        must!(c.cuMemsetD8Async(memory, 0, 400, stream));
        fill(c, function, memory, stream)?;
        note_words(c, memory, stream)
    }),
    Probe::case(Call::cuLaunchKernel, "a kernel reads and writes several memories", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"axpy")?, c.stream()?);
        let (mut x, mut y) = (c.memory(400)?, c.memory(400)?);
        must!(c.cuMemsetD32Async(x, 2.0_f32.to_bits(), 100, stream));
        must!(c.cuMemsetD32Async(y, 1.0_f32.to_bits(), 100, stream));
        let (mut a, mut n) = (3.0_f32, 100_u32);
        let mut parameters: [*mut c_void; 4] =
            [(&raw mut a).cast(), (&raw mut x).cast(), (&raw mut y).cast(), (&raw mut n).cast()];
        let list = parameters.as_mut_ptr();
        ask!(c.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream, list, null_mut()));
        let back = HostMemory::filled(100, 0);
        must!(c.cuMemcpyDtoHAsync_v2(back.ptr(), y, 400, stream));
        c.wait_for(stream)?;
        c.note("first", f32::from_bits(back.first()));
        c.note("last", f32::from_bits(back.last()));
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "parameters may be handed over packed", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"fill")?, c.stream()?);
        let memory = c.memory(400)?;
        let mut packed = [memory, 5 | (100 << 32)];
        let mut bytes = 16_usize;
        let mut extra = [
            CU_LAUNCH_PARAM_BUFFER_POINTER,
            packed.as_mut_ptr().cast(),
            CU_LAUNCH_PARAM_BUFFER_SIZE,
            (&raw mut bytes).cast(),
            CU_LAUNCH_PARAM_END,
        ];
        let list = extra.as_mut_ptr();
        ask!(c.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream, null_mut(), list));
        note_words(c, memory, stream)
    }),
    Probe::case(Call::cuLaunchKernel, "a kernel of a library is launched as a function", |c| {
        c.current()?;
        let (kernel, stream) = (c.kernel(c"nop")?, c.stream()?);
        c.empty_stack();
        plain(c, "", CUfunction(kernel.0), &ONE, stream);
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        Ok(())
    }),
    Probe::case(
        Call::cuLaunchKernel,
        "a function isn't launched on another context's stream",
        |c| {
            c.current()?;
            let function = c.function(c"nop")?;
            c.context()?;
            let stream = c.stream()?;
            plain(c, "", function, &ONE, stream);
            Ok(())
        },
    ),
    Probe::case(Call::cuLaunchKernel, "a launch on a default stream needs a context", |c| {
        c.current()?;
        let function = c.function(c"nop")?;
        plain(c, "with", function, &ONE, CUstream::NULL);
        c.empty_stack();
        plain(c, "without", function, &ONE, CUstream::NULL);
        Ok(())
    }),
    Probe::case(Call::cuLaunchKernel, "a captured launch is made by the graph alone", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"fill")?, c.stream()?);
        let memory = c.memory(400)?;
        must!(c.cuMemsetD8Async(memory, 0, 400, stream));
        c.wait_for(stream)?;
        c.capture_globally(stream)?;
        fill(c, function, memory, stream)?;
        c.note_capturing(stream)?;
        c.end(stream)?;
        note_words(c, memory, stream)
    }),
    Probe::works(Call::cuLaunchKernelEx, "a kernel runs by its configuration", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"nop")?, c.stream()?);
        step(move |c| {
            let config = config(&ONE, stream);
            ask!(c.cuLaunchKernelEx(&raw const config, function, null_mut(), null_mut()));
            if c.observes() {
                ask!(c.cuStreamSynchronize(stream), "synchronize");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLaunchKernelEx, "no configuration is empty", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"nop")?, c.stream()?);
        let config = config(&Shape { grid: 0, ..ONE }, stream);
        ask!(c.cuLaunchKernelEx(&raw const config, function, null_mut(), null_mut()));
        let none = core::ptr::null();
        ask!(c.cuLaunchKernelEx(none, function, null_mut(), null_mut()), "null");
        Ok(())
    }),
    Probe::works(Call::cuLaunchCooperativeKernel, "a grid that fits runs together", |c| {
        c.current()?;
        let (function, stream) = (c.function(c"nop")?, c.stream()?);
        step(move |c| {
            ask!(c.cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, null_mut()));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuLaunchCooperativeKernel,
        "a grid that doesn't fit isn't run together",
        |c| {
            c.current()?;
            let (function, stream) = (c.function(c"nop")?, c.stream()?);
            let grid = 1 << 20;
            ask!(c.cuLaunchCooperativeKernel(
                function,
                grid,
                1,
                1,
                1024,
                1,
                1,
                0,
                stream,
                null_mut()
            ));
            Ok(())
        },
    ),
];

fn plain(c: &mut Ctx, label: &str, function: CUfunction, shape: &Shape, stream: CUstream) {
    let (grid, block, shared) = (shape.grid, shape.block, shape.shared);
    let none = null_mut();
    ask!(c.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, none, none), label);
}

fn config(shape: &Shape, stream: CUstream) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: shape.grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: shape.block,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shape.shared,
        hStream: stream,
        ..CUlaunchConfig::default()
    }
}

/// Launches `fill` with the value 5 over 100 words.
fn fill(c: &mut Ctx, function: CUfunction, memory: CUdeviceptr, stream: CUstream) -> Made<()> {
    let (mut memory, mut value, mut n) = (memory, 5_u32, 100_u32);
    let mut parameters: [*mut c_void; 3] =
        [(&raw mut memory).cast(), (&raw mut value).cast(), (&raw mut n).cast()];
    let list = parameters.as_mut_ptr();
    ask!(c.cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, stream, list, null_mut()));
    Ok(())
}

fn note_words(c: &mut Ctx, memory: CUdeviceptr, stream: CUstream) -> Made<()> {
    let back = HostMemory::filled(100, 0);
    must!(c.cuMemcpyDtoHAsync_v2(back.ptr(), memory, 400, stream));
    c.wait_for(stream)?;
    c.note("first", back.first());
    c.note("last", back.last());
    Ok(())
}
