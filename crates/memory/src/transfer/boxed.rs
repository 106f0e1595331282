//! Copies and fills of boxes: rows with gaps between them, slices of rows with gaps between those.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", `cuMemcpy2DAsync`, `cuMemcpy3DAsync`, `cuMemcpy3DPeerAsync`,
//! `cuMemsetD2D8Async`.

#![expect(unsafe_code, reason = "calls the driver's copies and fills")]

use super::{Pattern, Plan, Span, fill, no_pattern};
use crate::{
    buffer::Shareable,
    order::{self, Minds},
};
use cuhold_handles::{
    Result, Stream,
    driver_sys::{Calls, Failure, ffi::*},
};
use std::ptr;

const DEVICE: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_DEVICE;
const HOST: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_HOST;
const UNIFIED: CUmemorytype = CUmemorytype::CU_MEMORYTYPE_UNIFIED;

/// A box of device memory, with the stream that everything on it is queued on. None of its sizes is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxSpan<'a> {
    pub(crate) home: &'a Stream,
    pub(crate) ptr: u64,
    pub(crate) is_host: bool,
    /// As a [`Span`]'s.
    pub(crate) memory: Option<Shareable<'a>>,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    /// From one row to the next.
    pub(crate) pitch_bytes: usize,
    /// From one slice to the next, in rows.
    pub(crate) slice_rows: usize,
}

impl<'a> BoxSpan<'a> {
    /// Its bytes without the gaps.
    pub(crate) fn packed_bytes(self) -> usize {
        self.width_bytes.saturating_mul(self.height).saturating_mul(self.depth)
    }

    /// Where a byte of it is, from its first one.
    pub(crate) fn offset(self, [byte, row, slice]: [usize; 3]) -> u64 {
        let rows = slice.saturating_mul(self.slice_rows).saturating_add(row);
        rows.saturating_mul(self.pitch_bytes).saturating_add(byte) as u64
    }

    fn has_gaps(self) -> bool {
        let between_rows = self.pitch_bytes != self.width_bytes;
        let between_slices = between_rows || self.slice_rows != self.height;
        if self.depth > 1 { between_slices } else { self.height > 1 && between_rows }
    }

    /// As one range, if there are no gaps.
    fn as_span(self) -> Option<Span<'a>> {
        let Self { home, ptr, is_host, memory, .. } = self;
        let span = Span { home, ptr, bytes: self.packed_bytes(), is_host, memory };
        (!self.has_gaps()).then_some(span)
    }

    pub(crate) fn plan(self) -> Plan<'a> {
        self.as_span().map_or(Plan::Box(self), Plan::Linear)
    }
}

/// One end of a copy.
#[derive(Clone, Copy)]
enum End {
    Device {
        kind: CUmemorytype,
        ptr: u64,
        pitch_bytes: usize,
        slice_rows: usize,
    },
    /// Packed.
    Host(*mut c_void),
}

impl From<BoxSpan<'_>> for End {
    fn from(span: BoxSpan<'_>) -> Self {
        let kind = if span.is_host { UNIFIED } else { DEVICE };
        let BoxSpan { ptr, pitch_bytes, slice_rows, .. } = span;
        Self::Device { kind, ptr, pitch_bytes, slice_rows }
    }
}

/// Queues a copy between two boxes of the same size and home.
pub(crate) fn copy(dst: BoxSpan<'_>, src: BoxSpan<'_>) -> Result<()> {
    if let (Some(dst), Some(src)) = (dst.as_span(), src.as_span()) {
        return super::copy(dst, src);
    }
    // SAFETY: no end is the host's.
    unsafe { copy_box(dst.home, dst, src.into(), dst.into()) }
}

/// Queues a copy between two boxes of the same size and driver, of different homes, on one of them.
pub(crate) fn copy_across(on: &Stream, dst: BoxSpan<'_>, src: BoxSpan<'_>) -> Result<()> {
    if let (Some(dst), Some(src)) = (dst.as_span(), src.as_span()) {
        return super::copy_across(on, dst, src);
    }
    let (to, from) = (dst.home.context(), src.home.context());
    if to.device() == from.device() || dst.is_host || src.is_host {
        // SAFETY: no end is the host's.
        return unsafe { copy_box(on, dst, src.into(), dst.into()) };
    }
    let copy = between(&parameters(dst, src.into(), dst.into()), to.as_raw(), from.as_raw());
    order::enqueue(on, Minds::Device, |calls: Calls<'_>| {
        // SAFETY: *pointers*: a live local; the boxes lie within live buffers; *handles*: the stream is borrowed, and the
        // homes keep their contexts.
        unsafe { calls.cuMemcpy3DPeerAsync(&raw const copy, on.raw()) }
    })
}

/// Queues a copy from packed host memory.
///
/// # Safety
/// As [`super::copy_in`], of as many bytes as the box has without its gaps.
pub(crate) unsafe fn copy_in(dst: BoxSpan<'_>, src: *const c_void) -> Result<()> {
    // SAFETY: the caller's promise; what is at `src` is only read.
    unsafe { copy_box(dst.home, dst, End::Host(src.cast_mut()), dst.into()) }
}

/// Queues a copy into packed host memory.
///
/// # Safety
/// As [`super::copy_out`], of as many bytes as the box has without its gaps.
pub(crate) unsafe fn copy_out(src: BoxSpan<'_>, dst: *mut c_void) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { copy_box(src.home, src, src.into(), End::Host(dst)) }
}

/// Queues a copy of a box of this size.
///
/// # Safety
/// A host end leads to as many bytes, which nobody uses in conflict before the copy is done; also after an error.
unsafe fn copy_box(stream: &Stream, size: BoxSpan<'_>, src: End, dst: End) -> Result<()> {
    let copy = parameters(size, src, dst);
    if size.depth > 1 {
        // SAFETY: *pointers*: the boxes lie within live buffers, a host end is the caller's promise.
        return unsafe { copy_3d(stream, &copy) };
    }
    let copy = rows_of(&copy);
    // SAFETY: as above.
    unsafe { copy_2d(stream, &copy) }
}

fn parameters(size: BoxSpan<'_>, src: End, dst: End) -> CUDA_MEMCPY3D {
    let mut copy = CUDA_MEMCPY3D {
        WidthInBytes: size.width_bytes,
        Height: size.height,
        Depth: size.depth,
        ..CUDA_MEMCPY3D::default()
    };
    match src {
        End::Device { kind, ptr, pitch_bytes, slice_rows } => {
            copy.srcMemoryType = kind;
            copy.srcDevice = ptr;
            (copy.srcPitch, copy.srcHeight) = (pitch_bytes, slice_rows);
        }
        End::Host(memory) => {
            copy.srcMemoryType = HOST;
            copy.srcHost = memory.cast_const();
            (copy.srcPitch, copy.srcHeight) = (size.width_bytes, size.height);
        }
    }
    match dst {
        End::Device { kind, ptr, pitch_bytes, slice_rows } => {
            copy.dstMemoryType = kind;
            copy.dstDevice = ptr;
            (copy.dstPitch, copy.dstHeight) = (pitch_bytes, slice_rows);
        }
        End::Host(memory) => {
            copy.dstMemoryType = HOST;
            copy.dstHost = memory;
            (copy.dstPitch, copy.dstHeight) = (size.width_bytes, size.height);
        }
    }
    copy
}

/// The same between memory of two contexts.
fn between(copy: &CUDA_MEMCPY3D, to: CUcontext, from: CUcontext) -> CUDA_MEMCPY3D_PEER {
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

/// The same of one slice.
fn rows_of(copy: &CUDA_MEMCPY3D) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcMemoryType: copy.srcMemoryType,
        srcHost: copy.srcHost,
        srcDevice: copy.srcDevice,
        srcPitch: copy.srcPitch,
        dstMemoryType: copy.dstMemoryType,
        dstHost: copy.dstHost,
        dstDevice: copy.dstDevice,
        dstPitch: copy.dstPitch,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        ..CUDA_MEMCPY2D::default()
    }
}

/// Queues a copy of rows, as CUDA describes it.
///
/// Calls `cuMemcpy2DAsync`; for an exposed stream also `cuStreamIsCapturing`.
///
/// # Errors
/// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) while somebody captures the stream; the call's failure, after
/// which the copy may be queued all the same.
///
/// # Safety
/// What `copy` names is there and isn't used in conflict before the copy is done, also after an error that names this call.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, copy_2d, handles::{driver_sys::ffi::*, Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let from = Buffer::from_slice(&stream, &[1_u8, 2, 3, 4, 5, 6])?;
/// let to = Buffer::<u8>::zeroed(&stream, 4)?;
/// let copy = CUDA_MEMCPY2D {
///     srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
///     srcDevice: from.device_ptr(),
///     srcPitch: 3,
///     dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
///     dstDevice: to.device_ptr(),
///     dstPitch: 2,
///     WidthInBytes: 2,
///     Height: 2,
///     ..CUDA_MEMCPY2D::default()
/// };
/// // SAFETY: both buffers hold the rows that are named, and are used on this stream alone.
/// unsafe { copy_2d(&stream, &copy)? };
/// assert_eq!(to.to_vec()?, [1, 2, 4, 5]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[doc(alias = "cuMemcpy2DAsync")]
pub unsafe fn copy_2d(stream: &Stream, copy: &CUDA_MEMCPY2D) -> Result<()> {
    order::enqueue(stream, Minds::Device, |calls: Calls<'_>| {
        // SAFETY: *pointers*: the caller's promise; *handles*: the stream is borrowed.
        unsafe { calls.cuMemcpy2DAsync_v2(ptr::from_ref(copy), stream.raw()) }
    })
}

/// Queues a copy of a box, as CUDA describes it.
///
/// Calls `cuMemcpy3DAsync`; for an exposed stream also `cuStreamIsCapturing`.
///
/// # Errors
/// As [`copy_2d`].
///
/// # Safety
/// As [`copy_2d`].
#[doc(alias = "cuMemcpy3DAsync")]
pub unsafe fn copy_3d(stream: &Stream, copy: &CUDA_MEMCPY3D) -> Result<()> {
    order::enqueue(stream, Minds::Device, |calls: Calls<'_>| {
        // SAFETY: *pointers*: the caller's promise; *handles*: the stream is borrowed.
        unsafe { calls.cuMemcpy3DAsync_v2(ptr::from_ref(copy), stream.raw()) }
    })
}

/// Queues fills of a box with a value's bytes over and over; its width and its pitch are multiples of them. Slices with
/// gaps between them are filled one after the other.
pub(crate) fn fill_box(span: BoxSpan<'_>, value: &[u8]) -> Result<()> {
    if let Some(span) = span.as_span() {
        return fill(span, value);
    }
    let pattern = Pattern::of(value, span.ptr).ok_or_else(|| no_pattern(value.len(), span.ptr))?;
    let whole = span.depth > 1 && span.slice_rows == span.height;
    let (fills, rows) =
        if whole { (1, span.height.saturating_mul(span.depth)) } else { (span.depth, span.height) };
    for slice in 0..fills {
        let ptr = span.ptr.saturating_add(span.offset([0, 0, slice]));
        fill_rows(BoxSpan { ptr, height: rows, depth: 1, ..span }, pattern).map_err(|error| {
            let done = u32::try_from(slice).unwrap_or(u32::MAX);
            let all = done.saturating_add(error.completed().unwrap_or(0));
            if all == 0 { error } else { error.with_completed(all) }
        })?;
    }
    Ok(())
}

fn fill_rows(span: BoxSpan<'_>, pattern: Pattern) -> Result<()> {
    let width = span.width_bytes / pattern.width();
    order::enqueue(span.home, Minds::Nothing, |calls: Calls<'_>| {
        fill_2d(calls, span, pattern, width)
    })
}

fn fill_2d(
    calls: Calls<'_>,
    span: BoxSpan<'_>,
    pattern: Pattern,
    width: usize,
) -> Result<(), Failure> {
    let BoxSpan { ptr, pitch_bytes: pitch, height, .. } = span;
    let stream = span.home.raw();
    match pattern {
        // SAFETY: *pointers*: the rows lie within a live buffer of this stream, aligned to the value's width; *handles*:
        // the stream is borrowed.
        Pattern::One(v) => unsafe { calls.cuMemsetD2D8Async(ptr, pitch, v, width, height, stream) },
        // SAFETY: as above.
        Pattern::Two(v) => unsafe {
            calls.cuMemsetD2D16Async(ptr, pitch, v, width, height, stream)
        },
        // SAFETY: as above.
        Pattern::Four(v) => unsafe {
            calls.cuMemsetD2D32Async(ptr, pitch, v, width, height, stream)
        },
    }
}
