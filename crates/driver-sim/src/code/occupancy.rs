//! Occupancy: how many blocks of a function run at once, and how large they had best be.
//!
//! Source: CUDA Driver API 13.x, "Occupancy".

#![expect(unsafe_code, reason = "asks a function of the caller")]

use cuhold_driver_sys::ffi::*;

use super::{Function, setting::limit};
use crate::world::{Answer, Key, Out, Turn};

/// The only flag: caching in L1 doesn't count against a block. On the simulated devices it never does.
const FLAGS: c_uint = CUoccupancy_flags::CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE.0;

impl Turn<'_> {
    /// What every question about occupancy needs first.
    fn occupied(&mut self, function: CUfunction) -> Result<Key<Function>, CUresult> {
        self.current()?;
        let key = self.function_or_kernel(function, None)?;
        self.not_lost()?;
        Ok(key)
    }
}

pub(crate) fn max_active_blocks(
    turn: &mut Turn<'_>,
    blocks: Out<c_int>,
    function: CUfunction,
    block_size: c_int,
    dynamic_shared: usize,
) -> Answer {
    max_active_blocks_with_flags(turn, blocks, function, block_size, dynamic_shared, 0)
}

pub(crate) fn max_active_blocks_with_flags(
    turn: &mut Turn<'_>,
    blocks: Out<c_int>,
    function: CUfunction,
    block_size: c_int,
    dynamic_shared: usize,
    flags: c_uint,
) -> Answer {
    let blocks = blocks.required()?;
    let key = turn.occupied(function)?;
    let threads = u32::try_from(block_size).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or(CUresult::INVALID_VALUE)?;
    if flags & !FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let active = turn.attributes_of(key)?.active_blocks(threads, dynamic_shared as u64);
    blocks.write(c_int::try_from(active).unwrap_or(c_int::MAX));
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn max_potential_block_size(
    turn: &mut Turn<'_>,
    grid: Out<c_int>,
    block: Out<c_int>,
    function: CUfunction,
    shared_of_block: CUoccupancyB2DSize,
    dynamic_shared: usize,
    block_limit: c_int,
) -> Answer {
    let (one, sizes) = (shared_of_block, (dynamic_shared, block_limit));
    max_potential_block_size_with_flags(turn, grid, block, function, one, sizes.0, sizes.1, 0)
}

/// The block size with the most threads at once, the largest of several; and the smallest grid that fills the device.
/// The caller's function says how much shared memory a block of a size takes; it is called with nothing locked.
#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn max_potential_block_size_with_flags(
    turn: &mut Turn<'_>,
    grid: Out<c_int>,
    block: Out<c_int>,
    function: CUfunction,
    shared_of_block: CUoccupancyB2DSize,
    dynamic_shared: usize,
    block_limit: c_int,
    flags: c_uint,
) -> Answer {
    let (grid, block) = (grid.required()?, block.required()?);
    let key = turn.occupied(function)?;
    let limit = u32::try_from(block_limit).map_err(|_negative| CUresult::INVALID_VALUE)?;
    if flags & !FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let most = turn.attributes_of(key)?.block_threads_max();
    let most = if limit == 0 { most } else { most.min(limit) };
    let sizes = (1..=most.div_ceil(limit::WARP)).map(|warps| (warps * limit::WARP).min(most));
    let mut best = (0, 0);
    for threads in sizes {
        let shared = match shared_of_block {
            None => dynamic_shared,
            Some(ask) => {
                let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
                // SAFETY: *calls back*: the caller promised that the function may be called so.
                turn.unlocked(|| unsafe { ask(threads) })
            }
        };
        let active = turn.attributes_of(key)?.active_blocks(threads, shared as u64);
        if active > 0 && active * threads >= best.0 * best.1 {
            best = (active, threads);
        }
    }
    let context = turn.function_data(key)?.context;
    let device = turn.context_data(context)?.device;
    let multiprocessors = turn.state.device(device)?.options.multiprocessors;
    let active = c_int::try_from(best.0).unwrap_or(c_int::MAX);
    grid.write(active.saturating_mul(multiprocessors));
    block.write(c_int::try_from(best.1).unwrap_or(c_int::MAX));
    Ok(())
}

/// How much dynamic shared memory each block may have if so many are to run at once on a multiprocessor.
pub(crate) fn available_dynamic_shared(
    turn: &mut Turn<'_>,
    bytes: Out<usize>,
    function: CUfunction,
    blocks: c_int,
    block_size: c_int,
) -> Answer {
    let bytes = bytes.required()?;
    let key = turn.occupied(function)?;
    let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0);
    let threads = u32::try_from(block_size).ok().filter(|threads| *threads > 0);
    let (Some(blocks), Some(threads)) = (blocks, threads) else {
        return Err(CUresult::INVALID_VALUE);
    };
    let attributes = turn.attributes_of(key)?;
    if attributes.active_blocks(threads, 0) < blocks {
        return Err(CUresult::INVALID_VALUE);
    }
    let static_bytes = attributes.kernel.static_shared_bytes + limit::SHARED_RESERVED;
    let each = (limit::SHARED / blocks).saturating_sub(static_bytes);
    bytes.write(each.min(attributes.dynamic_shared_max()) as usize);
    Ok(())
}
