//! Copies and fills: each an asynchronous driver call on the home stream.
//!
//! | | who owns the host side while the device reaches it |
//! |---|---|
//! | `blocking.rs`: slices | staging memory of ours (`staging.rs`); the slice is touched by the calling thread alone |
//! | `../pending.rs`: owned memory | a [`Pending`](crate::Pending) |
//! | here: device to device, fills; `boxed.rs`: the same of boxes; `batch.rs`: several at once | there is none |
//!
//! The plain, non-`Async` calls aren't used at all: they need a context, and kill captures on blocking streams.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

#![expect(unsafe_code, reason = "calls the driver's copies and fills")]

mod batch;
pub(crate) mod blocking;
pub(crate) mod boxed;
mod chunk;
mod options;
mod plan;
mod staging;
mod stream_copy;

pub(crate) use batch::copy_with;
pub use batch::{CopyBatch, CopyOptions, SourceOrder};
pub(crate) use boxed::BoxSpan;
pub use boxed::{copy_2d, copy_3d};
pub use options::StagingOptions;
pub(crate) use plan::Plan;
pub(crate) use staging::Staging;

use crate::{
    buffer::Shareable,
    order::{self, Minds},
};
use cuhold_handles::{
    Error, Result, Stream,
    driver_sys::{Calls, ffi::c_void},
};

/// A range of memory that the device reaches, with the stream that everything on it is queued on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) home: &'a Stream,
    pub(crate) ptr: u64,
    pub(crate) bytes: usize,
    /// Memory of the host, which the copies that say that a side is the device's refuse where it is a pool's (measured).
    pub(crate) is_host: bool,
    /// Where it can be kept from, if it is a buffer's.
    pub(crate) memory: Option<Shareable<'a>>,
}

/// Queues a copy between two ranges of the same size and home.
#[inline]
pub(crate) fn copy(dst: Span<'_>, src: Span<'_>) -> Result<()> {
    if dst.bytes == 0 {
        return Ok(());
    }
    order::enqueue(dst.home, Minds::Device, |calls: Calls<'_>| {
        if dst.is_host || src.is_host {
            // SAFETY: as below.
            return unsafe { calls.cuMemcpyAsync(dst.ptr, src.ptr, dst.bytes, dst.home.raw()) };
        }
        // SAFETY: *pointers*: both ranges lie within live buffers of this stream, and are as large; *handles*: the stream
        // is borrowed.
        unsafe { calls.cuMemcpyDtoDAsync_v2(dst.ptr, src.ptr, dst.bytes, dst.home.raw()) }
    })
}

/// Queues a copy from host memory.
///
/// # Safety
/// `src` leads to as many bytes as the span has, which nobody writes or frees before the copy is done; where this returns
/// an error that names a call, that may be so all the same.
pub(crate) unsafe fn copy_in(dst: Span<'_>, src: *const c_void) -> Result<()> {
    order::enqueue(dst.home, Minds::Device, |calls: Calls<'_>| {
        if dst.is_host {
            let src = src.addr() as u64;
            // SAFETY: as below.
            return unsafe { calls.cuMemcpyAsync(dst.ptr, src, dst.bytes, dst.home.raw()) };
        }
        // SAFETY: *pointers*: the span lies within a live buffer of this stream, the host side is the caller's promise;
        // *handles*: the stream is borrowed.
        unsafe { calls.cuMemcpyHtoDAsync_v2(dst.ptr, src, dst.bytes, dst.home.raw()) }
    })
}

/// Queues a copy into host memory.
///
/// # Safety
/// `dst` leads to as many bytes as the span has, which nobody reads, writes or frees before the copy is done; where this
/// returns an error that names a call, that may be so all the same.
pub(crate) unsafe fn copy_out(src: Span<'_>, dst: *mut c_void) -> Result<()> {
    order::enqueue(src.home, Minds::Device, |calls: Calls<'_>| {
        if src.is_host {
            let dst = dst.addr() as u64;
            // SAFETY: as below.
            return unsafe { calls.cuMemcpyAsync(dst, src.ptr, src.bytes, src.home.raw()) };
        }
        // SAFETY: *pointers*: the span lies within a live buffer of this stream, the host side is the caller's promise;
        // *handles*: the stream is borrowed.
        unsafe { calls.cuMemcpyDtoHAsync_v2(dst, src.ptr, src.bytes, src.home.raw()) }
    })
}

/// Queues a copy between two ranges of the same size and driver, of different homes, on one of them.
pub(crate) fn copy_across(on: &Stream, dst: Span<'_>, src: Span<'_>) -> Result<()> {
    let (to, from) = (dst.home.context(), src.home.context());
    let is_near = to.device() == from.device();
    let (to, from) = (to.as_raw(), from.as_raw());
    order::enqueue(on, Minds::Device, |calls: Calls<'_>| {
        let stream = on.raw();
        if dst.is_host || src.is_host {
            // SAFETY: as below.
            return unsafe { calls.cuMemcpyAsync(dst.ptr, src.ptr, dst.bytes, stream) };
        }
        if is_near {
            // SAFETY: *pointers*: both ranges lie within live buffers, and are as large; *handles*: the stream is borrowed.
            return unsafe { calls.cuMemcpyDtoDAsync_v2(dst.ptr, src.ptr, dst.bytes, stream) };
        }
        // SAFETY: as above; the homes keep their contexts.
        unsafe { calls.cuMemcpyPeerAsync(dst.ptr, to, src.ptr, from, dst.bytes, stream) }
    })
}

#[cold]
pub(crate) fn other_home() -> Error {
    Error::argument(
        "src: its home stream is another one than the destination's; `move_to` makes them the same, and `copy_across` orders them",
    )
}

/// What the driver can fill with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    One(u8),
    Two(u16),
    Four(u32),
}

impl Pattern {
    /// The pattern that repeated gives these bytes. The wider one where several do, as far as the address allows it: the driver
    /// takes a multiple of the pattern's width alone.
    fn of(bytes: &[u8], ptr: u64) -> Option<Self> {
        let four = repeated(bytes).map(|four| Self::Four(u32::from_ne_bytes(four)));
        let two = repeated(bytes).map(|two| Self::Two(u16::from_ne_bytes(two)));
        let one = repeated(bytes).map(|[one]: [u8; 1]| Self::One(one));
        let fits = |pattern: &Self| ptr.is_multiple_of(pattern.width() as u64);
        four.filter(fits).or_else(|| two.filter(fits)).or(one)
    }

    fn width(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Four(_) => 4,
        }
    }
}

/// The first `N` bytes, if the others repeat them.
fn repeated<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let (groups, rest) = bytes.as_chunks::<N>();
    let first = groups.first()?;
    (rest.is_empty() && groups.iter().all(|group| group == first)).then_some(*first)
}

/// Queues a fill with a value's bytes over and over; the span is a multiple of them.
#[inline]
pub(crate) fn fill(span: Span<'_>, value: &[u8]) -> Result<()> {
    if span.bytes == 0 {
        return Ok(());
    }
    let pattern = Pattern::of(value, span.ptr).ok_or_else(|| no_pattern(value.len(), span.ptr))?;
    let count = span.bytes / pattern.width();
    let (ptr, stream) = (span.ptr, span.home.raw());
    order::enqueue(span.home, Minds::Nothing, |calls: Calls<'_>| match pattern {
        // SAFETY: *pointers*: the span lies within a live buffer of this stream, aligned to the value's width;
        // *handles*: the stream is borrowed.
        Pattern::One(value) => unsafe { calls.cuMemsetD8Async(ptr, value, count, stream) },
        // SAFETY: as above.
        Pattern::Two(value) => unsafe { calls.cuMemsetD16Async(ptr, value, count, stream) },
        // SAFETY: as above.
        Pattern::Four(value) => unsafe { calls.cuMemsetD32Async(ptr, value, count, stream) },
    })
}

#[cold]
fn no_pattern(bytes: usize, ptr: u64) -> Error {
    Error::argument(format!(
        "value: the driver fills with 1, 2 or 4 bytes over and over, aligned to as many, which these {bytes} bytes at {ptr:#x} aren't"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_filled_with_the_widest_pattern_that_it_repeats() {
        let of = |bytes: &[u8]| Pattern::of(bytes, 0x700);
        assert_eq!(of(&[7]), Some(Pattern::One(7)));
        assert_eq!(of(&[7, 7, 7]), Some(Pattern::One(7)));
        assert_eq!(of(&[1, 2]), Some(Pattern::Two(u16::from_ne_bytes([1, 2]))));
        assert_eq!(of(&[1, 2, 1, 2, 1, 2]), Some(Pattern::Two(u16::from_ne_bytes([1, 2]))));
        let four = Pattern::Four(u32::from_ne_bytes([1, 2, 3, 4]));
        assert_eq!(of(&[1, 2, 3, 4]), Some(four));
        assert_eq!(of(&[1, 2, 3, 4, 1, 2, 3, 4]), Some(four));
        assert_eq!(of(&[0; 16]), Some(Pattern::Four(0)));
    }

    #[test]
    fn at_an_odd_address_a_narrower_pattern_is_used_where_there_is_one() {
        let two = Pattern::Two(u16::from_ne_bytes([1, 2]));
        assert_eq!(Pattern::of(&[1, 2, 1, 2], 0x702), Some(two));
        assert_eq!(Pattern::of(&[7; 4], 0x702), Some(Pattern::Two(0x0707)));
        assert_eq!(Pattern::of(&[7; 4], 0x701), Some(Pattern::One(7)));
        assert_eq!(Pattern::of(&[1, 2, 1, 2], 0x701), None);
        assert_eq!(Pattern::of(&[1, 2, 3, 4], 0x702), None);
    }

    #[test]
    fn a_value_that_repeats_nothing_has_no_pattern() {
        for bytes in [&[1, 2, 3][..], &[1, 2, 3, 4, 5, 6, 7, 8], &[1, 2, 3, 4, 1, 2]] {
            assert_eq!(Pattern::of(bytes, 0x700), None);
        }
    }
}
