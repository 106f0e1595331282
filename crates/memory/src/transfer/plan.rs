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

#[cfg(test)]
mod tests {
    use super::*;
    use cuhold_driver_sim::Sim;
    use cuhold_handles::{Device, Driver};

    const MIB: usize = 1 << 20;
    const GIB: usize = 1 << 30;
    const AT: u64 = 0x7F00_0000_0000;

    fn stream() -> Stream {
        let device = Device::with_driver(&Driver::from_api(Sim::new()), 0).unwrap();
        device.new_stream().unwrap()
    }

    fn first_byte(piece: Piece<'_>) -> u64 {
        match piece.device {
            Plan::Linear(span) => span.ptr,
            Plan::Box(span) => span.ptr,
        }
    }

    #[test]
    fn a_range_of_more_than_4_gib_is_cut_where_32_bits_would_not_reach() {
        let home = stream();
        let bytes = 10 * GIB + 5;
        let span = Span { home: &home, ptr: AT, bytes, is_host: false, memory: None };
        let plan = Plan::Linear(span);
        assert_eq!((plan.bytes(), plan.pieces(MIB)), (bytes, 10 * 1024 + 1));
        let last = plan.piece(10 * 1024, MIB);
        assert_eq!((last.offset, last.bytes), (10 * GIB, 5));
        assert_eq!(first_byte(last), AT + 10 * GIB as u64);
        let total: usize = (0..plan.pieces(MIB)).map(|step| plan.piece(step, MIB).bytes).sum();
        assert_eq!(total, bytes);
    }

    #[test]
    fn a_box_of_more_than_4_gib_with_wider_gaps_is_cut_row_by_row_and_slice_by_slice() {
        let home = stream();
        // Rows of two and a half chunks.
        let width_bytes = 5 * MIB / 2;
        let span = BoxSpan {
            home: &home,
            ptr: AT,
            is_host: false,
            memory: None,
            width_bytes,
            height: 3,
            depth: 1000,
            pitch_bytes: GIB,
            slice_rows: 4,
        };
        let plan = span.plan();
        assert_eq!(plan.bytes(), 7500 * MIB);
        assert_eq!(plan.pieces(MIB), 3 * 3 * 1000);
        let last = plan.piece(8999, MIB);
        assert_eq!((last.offset, last.bytes), (7500 * MIB - MIB / 2, MIB / 2));
        let rows = 999 * 4 + 2;
        assert_eq!(first_byte(last), AT + (rows * GIB + 2 * MIB) as u64);
        let mut offset = 0;
        for step in 0..9000 {
            let piece = plan.piece(step, MIB);
            assert_eq!(piece.offset, offset);
            offset += piece.bytes;
        }
        assert_eq!(offset, plan.bytes());
    }
}
