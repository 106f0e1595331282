//! Fills. The blocking forms work on the legacy default stream, and wait only where the target is the host's.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", "API synchronization behavior".

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::copy::{Asker, Extent, Fill, Side};
use crate::{
    graph::{NodeKind, Params},
    queue::Work,
    world::{Answer, Turn},
};

/// What is written, over and over.
#[derive(Clone, Copy)]
struct Value {
    /// The value's bytes, repeated to four.
    pattern: [u8; 4],
    size: u64,
}

impl From<u8> for Value {
    fn from(value: u8) -> Self {
        Self { pattern: [value; 4], size: 1 }
    }
}

impl From<u16> for Value {
    fn from(value: u16) -> Self {
        let [low, high] = value.to_le_bytes();
        Self { pattern: [low, high, low, high], size: 2 }
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self { pattern: value.to_le_bytes(), size: 4 }
    }
}

/// How many elements, and how far rows are apart in bytes.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    height: usize,
    pitch: usize,
}

impl Shape {
    const fn row(width: usize) -> Self {
        Self { width, height: 1, pitch: 0 }
    }
}

fn fill(
    turn: &mut Turn<'_>,
    address: CUdeviceptr,
    value: Value,
    shape: Shape,
    stream: CUstream,
    blocking: bool,
) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.capture_usable(target)?;
    let mut asker = turn.asker(target);
    // Fills don't depend on what is current (measured).
    asker.current_device = None;
    let Some(fill) = plan(turn, asker, address, value, shape)? else { return Ok(()) };
    let waits = blocking && fill.blocks(&turn.state.memory);
    let work = Work::OnState(Arc::new(move |state| fill.run(state)));
    let params = || Params::Memset(told(address, value, shape));
    let point = turn.enqueue_told(target, NodeKind::Memset, work, params)?;
    if waits { turn.complete_point(point) } else { Ok(()) }
}

/// Checks a fill; none of no bytes.
fn plan(
    turn: &mut Turn<'_>,
    asker: Asker,
    address: CUdeviceptr,
    value: Value,
    shape: Shape,
) -> Result<Option<Fill>, CUresult> {
    let width = (shape.width as u64).checked_mul(value.size).ok_or(CUresult::INVALID_VALUE)?;
    let pitch_bytes = shape.pitch as u64;
    let fits =
        shape.height <= 1 || (pitch_bytes >= width && pitch_bytes.is_multiple_of(value.size));
    if !address.is_multiple_of(value.size) || !fits {
        return Err(CUresult::INVALID_VALUE);
    }
    let extent = Extent { width_bytes: width, rows: shape.height as u64, slices: 1 };
    if extent.is_empty() {
        return Ok(None);
    }
    let side = Side { address, pitch_bytes, slice_bytes: 0 };
    let planned = turn.state.memory.plan_fill(extent, side, value.pattern, asker);
    planned.map(Some).map_err(|refusal| turn.refuse_plan(refusal))
}

/// A captured fill, as its node tells it.
fn told(address: CUdeviceptr, value: Value, shape: Shape) -> CUDA_MEMSET_NODE_PARAMS_v2 {
    let [a, b, c, d] = value.pattern;
    let (bits, element) = match value.size {
        1 => (c_uint::from(a), 1),
        2 => (c_uint::from(u16::from_le_bytes([a, b])), 2),
        _ => (u32::from_le_bytes([a, b, c, d]), 4),
    };
    CUDA_MEMSET_NODE_PARAMS_v2 {
        dst: address,
        pitch: shape.pitch,
        value: bits,
        elementSize: element,
        width: shape.width,
        height: shape.height,
        ctx: CUcontext::NULL,
    }
}

/// Checks a fill that is to be a node: at least one byte of it (a choice).
pub(crate) fn node_fill(
    turn: &mut Turn<'_>,
    fill: &CUDA_MEMSET_NODE_PARAMS_v2,
) -> Result<Work, CUresult> {
    let [a, b, ..] = fill.value.to_le_bytes();
    let value = match fill.elementSize {
        // What doesn't fit is left out (measured).
        1 => Value::from(a),
        2 => Value::from(u16::from_le_bytes([a, b])),
        4 => Value::from(fill.value),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let shape = Shape { width: fill.width, height: fill.height, pitch: fill.pitch };
    let (current_device, working_device) = (None, None);
    let asker = Asker { current_device, working_device, captured: true, by: turn.site };
    let planned = plan(turn, asker, fill.dst, value, shape)?;
    let planned = planned.ok_or(CUresult::INVALID_VALUE)?;
    Ok(Work::OnState(Arc::new(move |state| planned.run(state))))
}

macro_rules! fills {
    ($($blocking:ident $queued:ident $rows:ident $type:ty;)*) => { $(
        fills! { @blocking $blocking $type }

        pub(crate) fn $queued(
            turn: &mut Turn<'_>,
            address: CUdeviceptr,
            value: $type,
            count: usize,
            stream: CUstream,
        ) -> Answer {
            fill(turn, address, value.into(), Shape::row(count), stream, false)
        }

        #[expect(clippy::too_many_arguments, reason = "C's arguments")]
        pub(crate) fn $rows(
            turn: &mut Turn<'_>,
            address: CUdeviceptr,
            pitch: usize,
            value: $type,
            width: usize,
            height: usize,
            stream: CUstream,
        ) -> Answer {
            fill(turn, address, value.into(), Shape { width, height, pitch }, stream, false)
        }
    )* };
    // The list has no blocking form of 16 bits.
    (@blocking none $type:ty) => {};
    (@blocking $name:ident $type:ty) => {
        pub(crate) fn $name(
            turn: &mut Turn<'_>,
            address: CUdeviceptr,
            value: $type,
            count: usize,
        ) -> Answer {
            fill(turn, address, value.into(), Shape::row(count), CU_STREAM_LEGACY, true)
        }
    };
}

fills! {
    fill_d8 fill_async_d8 fill_2d_d8 c_uchar;
    none fill_async_d16 fill_2d_d16 c_ushort;
    fill_d32 fill_async_d32 fill_2d_d32 c_uint;
}
