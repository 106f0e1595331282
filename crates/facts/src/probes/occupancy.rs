//! How much of a device a kernel would use.
//!
//! Source: CUDA Driver API 13.x, "Occupancy".

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(
        Call::cuOccupancyMaxActiveBlocksPerMultiprocessor,
        "so many blocks run on a multiprocessor",
        |c| {
            let function = nop(c)?;
            step(move |c| blocks(c, function, 128))
        },
    ),
    Probe::fails(
        Call::cuOccupancyMaxActiveBlocksPerMultiprocessor,
        "blocks of no threads run on no multiprocessor",
        |c| {
            let function = nop(c)?;
            blocks(c, function, 0)?;
            blocks(c, CUfunction::NULL, 128)
        },
    ),
    Probe::works(
        Call::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        "so many blocks run on a multiprocessor, flags or not",
        |c| {
            let function = nop(c)?;
            step(move |c| blocks_with_flags(c, function, 0))
        },
    ),
    Probe::fails(
        Call::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        "blocks aren't counted with unknown flags",
        |c| {
            let function = nop(c)?;
            blocks_with_flags(c, function, 0x8000)
        },
    ),
    Probe::works(Call::cuOccupancyMaxPotentialBlockSize, "there is a best size of block", |c| {
        let function = nop(c)?;
        step(move |c| best(c, function))
    }),
    Probe::fails(Call::cuOccupancyMaxPotentialBlockSize, "null has no best size of block", |c| {
        nop(c)?;
        best(c, CUfunction::NULL)
    }),
    Probe::works(
        Call::cuOccupancyMaxPotentialBlockSizeWithFlags,
        "there is a best size of block, flags or not",
        |c| {
            let function = nop(c)?;
            step(move |c| best_with_flags(c, function, 0))
        },
    ),
    Probe::fails(
        Call::cuOccupancyMaxPotentialBlockSizeWithFlags,
        "no size of block is best with unknown flags",
        |c| {
            let function = nop(c)?;
            best_with_flags(c, function, 0x8000)
        },
    ),
    Probe::works(
        Call::cuOccupancyAvailableDynamicSMemPerBlock,
        "so much shared memory is left to a block",
        |c| {
            let function = nop(c)?;
            step(move |c| shared(c, function, 1))
        },
    ),
    Probe::fails(
        Call::cuOccupancyAvailableDynamicSMemPerBlock,
        "no blocks are left no shared memory",
        |c| {
            let function = nop(c)?;
            shared(c, function, 0)
        },
    ),
];

fn nop(c: &Ctx) -> Made<CUfunction> {
    c.current()?;
    c.function(c"nop")
}

fn blocks(c: &mut Ctx, function: CUfunction, size: i32) -> Made<()> {
    let mut count = -9;
    ask!(c.cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut count, function, size, 0));
    if c.observes() {
        c.note("blocks", count);
    }
    Ok(())
}

fn blocks_with_flags(c: &mut Ctx, function: CUfunction, flags: u32) -> Made<()> {
    let mut count = -9;
    ask!(c.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &raw mut count,
        function,
        128,
        0,
        flags
    ));
    if c.observes() {
        c.note("blocks", count);
    }
    Ok(())
}

fn best(c: &mut Ctx, function: CUfunction) -> Made<()> {
    let (mut grid, mut block) = (-9, -9);
    let shared: CUoccupancyB2DSize = Some(host::no_shared_memory);
    ask!(c.cuOccupancyMaxPotentialBlockSize(&raw mut grid, &raw mut block, function, shared, 0, 0));
    if c.observes() {
        c.note("block", block);
    }
    Ok(())
}

fn best_with_flags(c: &mut Ctx, function: CUfunction, flags: u32) -> Made<()> {
    let (mut grid, mut block) = (-9, -9);
    ask!(c.cuOccupancyMaxPotentialBlockSizeWithFlags(
        &raw mut grid,
        &raw mut block,
        function,
        None,
        0,
        0,
        flags
    ));
    if c.observes() {
        c.note("block", block);
    }
    Ok(())
}

fn shared(c: &mut Ctx, function: CUfunction, blocks: i32) -> Made<()> {
    let mut bytes = 0;
    ask!(c.cuOccupancyAvailableDynamicSMemPerBlock(&raw mut bytes, function, blocks, 128));
    if c.observes() {
        c.note("bytes", bytes);
    }
    Ok(())
}
