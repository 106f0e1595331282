//! Copies of rectangles and boxes, and several copies at once.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

#![expect(unsafe_code, reason = "reads arrays of the caller")]

use cuhold_driver_sys::ffi::*;

use std::sync::Arc;

use super::{
    copy::{Asker, Expect, Extent, Side},
    page_locked::address_of,
    transfer::{Form, Request, enqueue, plan, plan_for, transfer},
};
use crate::{
    array::Part,
    queue::Work,
    world::{Answer, In, Out, Turn},
};

/// A pitch is never larger, in bytes (an attribute of the device).
const PITCH_MAX: usize = c_int::MAX as usize;

/// One side of a copy, as the caller describes it.
struct Plane {
    kind: CUmemorytype,
    host: u64,
    device: u64,
    array: CUarray,
    /// Where the box begins: bytes, rows, slices.
    at: [usize; 3],
    pitch: usize,
    /// Rows from one slice to the next.
    height: usize,
}

impl Plane {
    /// The pitch doesn't matter for a single row, nor the height for a single slice; else they must hold what is copied.
    fn side(
        &self,
        turn: &mut Turn<'_>,
        [width, rows, slices]: [usize; 3],
    ) -> Result<(Side, Expect), CUresult> {
        let (base, expect) = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => (self.host, Expect::Any),
            CUmemorytype::CU_MEMORYTYPE_DEVICE => (self.device, Expect::Device),
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => (self.device, Expect::Any),
            CUmemorytype::CU_MEMORYTYPE_ARRAY => {
                return array_side(turn, self.array, self.at, [width, rows, slices]);
            }
            _ => return Err(CUresult::INVALID_VALUE),
        };
        let [x, y, z] = self.at;
        let holds = |part: usize, begin: usize, size: usize| {
            begin.checked_add(size).is_some_and(|end| part >= end)
        };
        let has_slices = slices > 1 || z > 0;
        let has_rows = rows > 1 || y > 0 || has_slices;
        if self.pitch > PITCH_MAX
            || (has_rows && !holds(self.pitch, x, width))
            || (has_slices && !holds(self.height, y, rows))
        {
            return Err(CUresult::INVALID_VALUE);
        }
        let (pitch_bytes, height) = (self.pitch as u64, self.height as u64);
        let offset = || {
            let slice_bytes = pitch_bytes.checked_mul(height)?;
            let before = (z as u64).checked_mul(slice_bytes)?;
            let before = before.checked_add((y as u64).checked_mul(pitch_bytes)?)?;
            let address = base.checked_add(before)?.checked_add(x as u64)?;
            Some(Side { address, pitch_bytes, slice_bytes })
        };
        Ok((offset().ok_or(CUresult::INVALID_VALUE)?, expect))
    }
}

/// A part of an array. The array's own rows say how far apart they are.
fn array_side(
    turn: &mut Turn<'_>,
    array: CUarray,
    at: [usize; 3],
    size: [usize; 3],
) -> Result<(Side, Expect), CUresult> {
    let placed = turn.array_part(array, Part { at, size })?;
    let (pitch_bytes, slice_bytes) = (placed.pitch_bytes, placed.slice_bytes);
    Ok((Side { address: placed.address, pitch_bytes, slice_bytes }, Expect::Device))
}

/// A part of an array's first row.
fn line_side(
    turn: &mut Turn<'_>,
    array: CUarray,
    offset: usize,
    count: usize,
) -> Result<(Side, Expect), CUresult> {
    array_side(turn, array, [offset, 0, 0], [count, 1, 1])
}

pub(crate) fn host_to_array(
    turn: &mut Turn<'_>,
    array: CUarray,
    offset: usize,
    source: In<c_void>,
    count: usize,
    stream: CUstream,
) -> Answer {
    let request = Request {
        extent: Extent::row(count as u64),
        source: (Side::linear(address_of(source.as_ptr())), Expect::Any),
        destination: line_side(turn, array, offset, count)?,
        names_contexts: false,
    };
    transfer(turn, stream, request, Form::Async)
}

pub(crate) fn array_to_host(
    turn: &mut Turn<'_>,
    destination: Out<c_void>,
    array: CUarray,
    offset: usize,
    count: usize,
    stream: CUstream,
) -> Answer {
    let request = Request {
        extent: Extent::row(count as u64),
        source: line_side(turn, array, offset, count)?,
        destination: (Side::linear(address_of(destination.as_ptr())), Expect::Any),
        names_contexts: false,
    };
    transfer(turn, stream, request, Form::Async)
}

pub(crate) fn copy_2d_async(
    turn: &mut Turn<'_>,
    copy: In<CUDA_MEMCPY2D>,
    stream: CUstream,
) -> Answer {
    let c = copy.read().ok_or(CUresult::INVALID_VALUE)?;
    let source = Plane {
        kind: c.srcMemoryType,
        host: address_of(c.srcHost),
        device: c.srcDevice,
        array: c.srcArray,
        at: [c.srcXInBytes, c.srcY, 0],
        pitch: c.srcPitch,
        height: 0,
    };
    let destination = Plane {
        kind: c.dstMemoryType,
        host: address_of(c.dstHost),
        device: c.dstDevice,
        array: c.dstArray,
        at: [c.dstXInBytes, c.dstY, 0],
        pitch: c.dstPitch,
        height: 0,
    };
    transfer_box(turn, [source, destination], [c.WidthInBytes, c.Height, 1], stream)
}

pub(crate) fn copy_3d_async(
    turn: &mut Turn<'_>,
    copy: In<CUDA_MEMCPY3D>,
    stream: CUstream,
) -> Answer {
    let c = copy.read().ok_or(CUresult::INVALID_VALUE)?;
    transfer_box(turn, planes(&c), [c.WidthInBytes, c.Height, c.Depth], stream)
}

/// As [`copy_3d_async`], with the context that each side belongs to; both are looked at whatever the sides are (a choice, as
/// for rows without a pitch).
pub(crate) fn copy_3d_peer_async(
    turn: &mut Turn<'_>,
    copy: In<CUDA_MEMCPY3D_PEER>,
    stream: CUstream,
) -> Answer {
    let c = copy.read().ok_or(CUresult::INVALID_VALUE)?;
    turn.context(c.dstContext)?;
    turn.context(c.srcContext)?;
    let c = CUDA_MEMCPY3D {
        srcXInBytes: c.srcXInBytes,
        srcY: c.srcY,
        srcZ: c.srcZ,
        srcMemoryType: c.srcMemoryType,
        srcHost: c.srcHost,
        srcDevice: c.srcDevice,
        srcArray: c.srcArray,
        srcPitch: c.srcPitch,
        srcHeight: c.srcHeight,
        dstXInBytes: c.dstXInBytes,
        dstY: c.dstY,
        dstZ: c.dstZ,
        dstMemoryType: c.dstMemoryType,
        dstHost: c.dstHost,
        dstDevice: c.dstDevice,
        dstArray: c.dstArray,
        dstPitch: c.dstPitch,
        dstHeight: c.dstHeight,
        WidthInBytes: c.WidthInBytes,
        Height: c.Height,
        Depth: c.Depth,
        ..CUDA_MEMCPY3D::default()
    };
    let mut request = request(turn, planes(&c), [c.WidthInBytes, c.Height, c.Depth])?;
    request.names_contexts = true;
    transfer(turn, stream, request, Form::Async)
}

/// Checks a copy that is to be a node: at least one byte of it (a choice). Which context is current doesn't matter.
pub(crate) fn node_copy(turn: &mut Turn<'_>, c: &CUDA_MEMCPY3D) -> Result<Work, CUresult> {
    let request = request(turn, planes(c), [c.WidthInBytes, c.Height, c.Depth])?;
    if request.extent.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    let (current_device, working_device) = (None, None);
    let asker = Asker { current_device, working_device, captured: true, by: turn.site };
    let copy = plan_for(turn, asker, request)?;
    Ok(Work::OnState(Arc::new(move |state| copy.run(state))))
}

/// Both sides of a copy of boxes.
fn planes(c: &CUDA_MEMCPY3D) -> [Plane; 2] {
    let source = Plane {
        kind: c.srcMemoryType,
        host: address_of(c.srcHost),
        device: c.srcDevice,
        array: c.srcArray,
        at: [c.srcXInBytes, c.srcY, c.srcZ],
        pitch: c.srcPitch,
        height: c.srcHeight,
    };
    let destination = Plane {
        kind: c.dstMemoryType,
        host: address_of(c.dstHost),
        device: c.dstDevice,
        array: c.dstArray,
        at: [c.dstXInBytes, c.dstY, c.dstZ],
        pitch: c.dstPitch,
        height: c.dstHeight,
    };
    [source, destination]
}

fn transfer_box(
    turn: &mut Turn<'_>,
    planes: [Plane; 2],
    size: [usize; 3],
    stream: CUstream,
) -> Answer {
    let request = request(turn, planes, size)?;
    transfer(turn, stream, request, Form::Async)
}

fn request(
    turn: &mut Turn<'_>,
    [source, destination]: [Plane; 2],
    size: [usize; 3],
) -> Result<Request, CUresult> {
    let [width, rows, slices] = size;
    Ok(Request {
        extent: Extent { width_bytes: width as u64, rows: rows as u64, slices: slices as u64 },
        source: source.side(turn, size)?,
        destination: destination.side(turn, size)?,
        names_contexts: false,
    })
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn copy_batch(
    turn: &mut Turn<'_>,
    destinations: Out<CUdeviceptr>,
    sources: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    indices: Out<usize>,
    attributes_count: usize,
    fail_index: Out<usize>,
    stream: CUstream,
) -> Answer {
    let (data, orders) = ((destinations, sources, sizes), (attributes, indices, attributes_count));
    let answer = batch(turn, data, count, orders, stream);
    if answer.is_err() {
        // Which one of the copies it was isn't told.
        fail_index.write(usize::MAX);
    }
    answer
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn copy_batch_v2(
    turn: &mut Turn<'_>,
    destinations: Out<CUdeviceptr>,
    sources: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    indices: Out<usize>,
    attributes_count: usize,
    stream: CUstream,
) -> Answer {
    let (data, orders) = ((destinations, sources, sizes), (attributes, indices, attributes_count));
    batch(turn, data, count, orders, stream)
}

type Data = (Out<CUdeviceptr>, Out<CUdeviceptr>, Out<usize>);
type Orders = (Out<CUmemcpyAttributes>, Out<usize>, usize);

/// All of the copies or none. Needs a context, without which it answers `INVALID_VALUE`, and a stream of its own
/// (measured).
fn batch(
    turn: &mut Turn<'_>,
    data: Data,
    count: usize,
    orders: Orders,
    stream: CUstream,
) -> Answer {
    if stream.addr() <= CU_STREAM_LEGACY.addr() || turn.current().is_err() || count == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.capture_usable(target)?;
    // SAFETY: *pointers*: the caller's arrays have `count` entries.
    let destinations = unsafe { data.0.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    // SAFETY: as above.
    let sources = unsafe { data.1.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    // SAFETY: as above.
    let sizes = unsafe { data.2.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    check_orders(orders, count)?;
    let mut copies = Vec::with_capacity(count);
    for ((destination, source), size) in destinations.into_iter().zip(sources).zip(sizes) {
        let request = Request::linear((destination, Expect::Any), (source, Expect::Any), size);
        if request.extent.is_empty() {
            return Err(CUresult::INVALID_VALUE);
        }
        copies.push((plan(turn, target, request)?, request));
    }
    for copy in copies {
        enqueue(turn, target, copy, Form::Async)?;
    }
    Ok(())
}

/// Each copy has an order in which its source is read: the first index is 0, each larger than the one before, the last
/// that of a copy. Here all sources are read in the stream's order, or before, which every order allows.
fn check_orders((attributes, indices, count): Orders, copies: usize) -> Answer {
    // SAFETY: *pointers*: the caller's arrays have as many entries as it says.
    let attributes =
        unsafe { attributes.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    // SAFETY: as above.
    let indices = unsafe { indices.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    let known = CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM.0
        ..=CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_ANY.0;
    let fits = indices.first() == Some(&0)
        && indices.is_sorted_by(|a, b| a < b)
        && indices.last().is_some_and(|last| *last < copies)
        && attributes.iter().all(|attribute| known.contains(&attribute.srcAccessOrder.0));
    if fits { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}
