//! What a copy between packed host memory and a device is made of: pieces, each of one driver call, one behind the other
//! on the host.

#![expect(unsafe_code, reason = "passes on what the copies ask of raw host memory")]

use super::{BoxSpan, Span, boxed, copy_in, copy_out};
use cuhold_handles::{Result, Stream, driver_sys::ffi::c_void};

/// The device's side of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan<'a> {
    Linear(Span<'a>),
    /// With gaps between its rows or slices.
    Box(BoxSpan<'a>),
}

/// A piece of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// Where it begins in the host's packed bytes.
    pub(super) offset: usize,
    pub(super) bytes: usize,
    device: Plan<'a>,
}

impl<'a> Plan<'a> {
    pub(super) fn home(self) -> &'a Stream {
        match self {
            Self::Linear(span) => span.home,
            Self::Box(span) => span.home,
        }
    }

    /// How many bytes it moves.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Linear(span) => span.bytes,
            Self::Box(span) => span.packed_bytes(),
        }
    }

    /// How many pieces there are of at most so many bytes.
    pub(super) fn pieces(self, chunk_bytes: usize) -> usize {
        match self {
            Self::Linear(span) => span.bytes.div_ceil(chunk_bytes.max(1)),
            Self::Box(span) => {
                let (rows, columns) = steps(span, chunk_bytes);
                span.depth.saturating_mul(rows).saturating_mul(columns)
            }
        }
    }

    /// One of the pieces. Their places on the host ascend.
    pub(super) fn piece(self, step: usize, chunk_bytes: usize) -> Piece<'a> {
        match self {
            Self::Linear(span) => {
                let offset = step.saturating_mul(chunk_bytes);
                let bytes = span.bytes.saturating_sub(offset).min(chunk_bytes);
                let part = Span { ptr: span.ptr.saturating_add(offset as u64), bytes, ..span };
                Piece { offset, bytes, device: Self::Linear(part) }
            }
            Self::Box(span) => box_piece(span, step, chunk_bytes),
        }
    }
}

/// In how many pieces a slice's rows are, and in how many a row is.
fn steps(span: BoxSpan<'_>, chunk_bytes: usize) -> (usize, usize) {
    if span.width_bytes > chunk_bytes {
        return (span.height, span.width_bytes.div_ceil(chunk_bytes.max(1)));
    }
    (span.height.div_ceil(rows_at_once(span, chunk_bytes)), 1)
}

/// How many rows a chunk holds.
fn rows_at_once(span: BoxSpan<'_>, chunk_bytes: usize) -> usize {
    chunk_bytes.checked_div(span.width_bytes).unwrap_or(1).max(1)
}

fn box_piece(span: BoxSpan<'_>, step: usize, chunk_bytes: usize) -> Piece<'_> {
    let (rows, columns) = steps(span, chunk_bytes);
    let column = step.checked_rem(columns).unwrap_or(0);
    let line = step.checked_div(columns).unwrap_or(0);
    let (slice, line) = (line.checked_div(rows).unwrap_or(0), line.checked_rem(rows).unwrap_or(0));
    let at_once = if columns > 1 { 1 } else { rows_at_once(span, chunk_bytes) };
    let first_row = line.saturating_mul(at_once);
    let row_count = span.height.saturating_sub(first_row).min(at_once);
    let in_row = column.saturating_mul(chunk_bytes);
    let width_bytes = span.width_bytes.saturating_sub(in_row).min(if columns > 1 {
        chunk_bytes
    } else {
        span.width_bytes
    });
    let packed_row = slice.saturating_mul(span.height).saturating_add(first_row);
    let offset = packed_row.saturating_mul(span.width_bytes).saturating_add(in_row);
    let ptr = span.ptr.saturating_add(span.offset([in_row, first_row, slice]));
    let part = BoxSpan { ptr, width_bytes, height: row_count, depth: 1, ..span };
    Piece { offset, bytes: part.packed_bytes(), device: part.plan() }
}

impl Piece<'_> {
    /// Queues its copy from host memory.
    ///
    /// # Safety
    /// As [`copy_in`].
    pub(super) unsafe fn copy_in(self, src: *const c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.copy_in(src) }
    }

    /// Queues its copy into host memory.
    ///
    /// # Safety
    /// As [`copy_out`].
    pub(super) unsafe fn copy_out(self, dst: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.device.copy_out(dst) }
    }
}

impl Plan<'_> {
    /// Queues all of it as one copy from packed host memory.
    ///
    /// # Safety
    /// As [`copy_in`].
    pub(crate) unsafe fn copy_in(self, src: *const c_void) -> Result<()> {
        match self {
            // SAFETY: the caller's promise.
            Plan::Linear(span) => unsafe { copy_in(span, src) },
            // SAFETY: the caller's promise.
            Plan::Box(span) => unsafe { boxed::copy_in(span, src) },
        }
    }

    /// Queues all of it as one copy into packed host memory.
    ///
    /// # Safety
    /// As [`copy_out`].
    pub(crate) unsafe fn copy_out(self, dst: *mut c_void) -> Result<()> {
        match self {
            // SAFETY: the caller's promise.
            Plan::Linear(span) => unsafe { copy_out(span, dst) },
            // SAFETY: the caller's promise.
            Plan::Box(span) => unsafe { boxed::copy_out(span, dst) },
        }
    }
}
