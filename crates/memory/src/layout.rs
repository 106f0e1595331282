//! Sizes and ranges, computed without overflow and checked against their bounds.

#![deny(clippy::arithmetic_side_effects)]

use cuhold_handles::{Error, Result};
use std::ops::{Bound, RangeBounds};

/// No allocation of the host is larger, in bytes; the same bound holds for memory of a device.
const BYTES_MAX: usize = isize::MAX.unsigned_abs();

/// The size of `len` elements in bytes.
pub(crate) fn bytes_of<T>(len: usize) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .filter(|bytes| *bytes <= BYTES_MAX)
        .ok_or_else(|| too_long::<T>(len))
}

#[cold]
fn too_long<T>(len: usize) -> Error {
    Error::argument(format!(
        "len: {len} elements of {} bytes are more than the {BYTES_MAX} bytes that an allocation can have",
        size_of::<T>()
    ))
}

/// A range within `len` elements, as its start and its length.
pub(crate) fn range_within(range: &impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    let start = match range.start_bound() {
        Bound::Included(start) => Some(*start),
        Bound::Excluded(before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.checked_add(1),
        Bound::Excluded(end) => Some(*end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if end <= len => {
            end.checked_sub(start).map(|count| (start, count))
        }
        _ => None,
    }
    .ok_or_else(|| outside(range, len))
}

#[cold]
fn outside(range: &impl RangeBounds<usize>, len: usize) -> Error {
    let bounds = (range.start_bound(), range.end_bound());
    Error::argument(format!("range: {bounds:?} isn't within the {len} elements"))
}

/// Refuses two ends of a copy that differ in length.
pub(crate) fn same_len(what: &'static str, len: usize, expected: usize) -> Result<()> {
    if len == expected {
        return Ok(());
    }
    Err(Error::argument(format!("{what}: {len} elements where the device memory has {expected}")))
}

/// The size in bytes of so many elements, which are known to be within the bound.
pub(crate) const fn known_bytes<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>())
}

/// How many elements lie from the first to the last one of a box of this width, height and depth, with so many elements from
/// row to row, and so many rows from slice to slice; [`usize::MAX`] where no memory has that many.
pub(crate) fn grid_span(size: [usize; 3], pitch: usize, slice_rows: usize) -> usize {
    let [width, height, depth] = size;
    let (Some(rows), Some(slices)) = (height.checked_sub(1), depth.checked_sub(1)) else {
        return 0;
    };
    if width == 0 {
        return 0;
    }
    let before_last = slices.checked_mul(slice_rows).and_then(|before| before.checked_add(rows));
    let begin = before_last.and_then(|row| row.checked_mul(pitch));
    begin.and_then(|begin| begin.checked_add(width)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_overflows_names_the_bound() {
        assert_eq!(bytes_of::<u32>(3).unwrap(), 12);
        assert_eq!(bytes_of::<()>(usize::MAX).unwrap(), 0);
        assert_eq!(bytes_of::<u8>(BYTES_MAX).unwrap(), BYTES_MAX);
        for error in [bytes_of::<u8>(BYTES_MAX + 1), bytes_of::<u64>(usize::MAX)] {
            let text = error.unwrap_err().to_string();
            assert!(text.contains("9223372036854775807 bytes"), "{text}");
        }
    }

    #[test]
    fn a_box_spans_its_gaps_but_for_the_last_ones_and_never_overflows() {
        assert_eq!(grid_span([3, 1, 1], 9, 9), 3);
        assert_eq!(grid_span([3, 4, 1], 5, 9), 3 * 5 + 3);
        assert_eq!(grid_span([3, 4, 2], 5, 6), (6 + 3) * 5 + 3);
        for size in [[0, 4, 2], [3, 0, 2], [3, 4, 0]] {
            assert_eq!(grid_span(size, 5, 6), 0);
        }
        assert_eq!(grid_span([1, 3, 1], usize::MAX, 3), usize::MAX);
        assert_eq!(grid_span([1, 1, usize::MAX], 1, usize::MAX), usize::MAX);
    }

    #[test]
    fn every_kind_of_range_within_the_length_is_a_start_and_a_count() {
        assert_eq!(range_within(&(1..3), 5).unwrap(), (1, 2));
        assert_eq!(range_within(&(1..=3), 5).unwrap(), (1, 3));
        assert_eq!(range_within(&(2..), 5).unwrap(), (2, 3));
        assert_eq!(range_within(&(..), 5).unwrap(), (0, 5));
        assert_eq!(range_within(&(5..5), 5).unwrap(), (5, 0));
        let from_two = (Bound::Excluded(1), Bound::Unbounded);
        assert_eq!(range_within(&from_two, 5).unwrap(), (2, 3));
    }

    #[test]
    fn a_range_beyond_the_length_or_backwards_is_refused() {
        let backwards = (Bound::Included(3), Bound::Excluded(2));
        assert!(range_within(&backwards, 5).is_err());
        assert!(range_within(&(0..6), 5).is_err());
        assert!(range_within(&(6..), 5).is_err());
        assert!(range_within(&(0..=usize::MAX), 5).is_err());
        let error = range_within(&(2..9), 5).unwrap_err().to_string();
        assert_eq!(error, "range: (Included(2), Excluded(9)) isn't within the 5 elements");
    }
}
