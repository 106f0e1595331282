//! Which bytes a piece of work touches: a range, or a box of rows.

/// A box of rows of at least one byte; a plain range is one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Strip {
    pub(crate) start: u64,
    /// Bytes of a row.
    pub(crate) width: u64,
    /// From one row to the next, and how many there are.
    pub(crate) pitch: u64,
    pub(crate) rows: u64,
    /// From one slice of rows to the next, and how many there are.
    pub(crate) slice: u64,
    pub(crate) slices: u64,
}

/// Two boxes are compared row by row up to so many rows; of larger ones nothing is said.
const ROWS_MAX: u64 = 1 << 14;

impl Strip {
    pub(crate) const fn range(start: u64, bytes: u64) -> Self {
        Self { start, width: bytes, pitch: 0, rows: 1, slice: 0, slices: 1 }
    }

    /// The same bytes, as one row where they are side by side.
    pub(crate) const fn simple(self) -> Self {
        let is_row = self.rows == 1 || self.pitch == self.width;
        if self.slices == 1 && is_row {
            return Self::range(self.start, self.width.saturating_mul(self.rows));
        }
        self
    }

    pub(crate) const fn is_range(&self) -> bool {
        self.rows == 1 && self.slices == 1
    }

    /// Behind the last byte.
    pub(crate) const fn end(&self) -> u64 {
        let slices = self.slice.saturating_mul(self.slices.saturating_sub(1));
        let rows = self.pitch.saturating_mul(self.rows.saturating_sub(1));
        self.start.saturating_add(slices).saturating_add(rows).saturating_add(self.width)
    }

    /// The same, begun elsewhere.
    pub(crate) const fn at(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// Where its rows begin.
    pub(crate) fn row_starts(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { start, pitch, rows, slice, slices, .. } = *self;
        (0..slices).flat_map(move |z| {
            (0..rows).map(move |y| {
                start
                    .saturating_add(z.saturating_mul(slice))
                    .saturating_add(y.saturating_mul(pitch))
            })
        })
    }

    /// Whether a range has one of the bytes.
    fn meets_range(&self, begin: u64, end: u64) -> bool {
        (0..self.slices).any(|z| {
            let base = self.start.saturating_add(z.saturating_mul(self.slice));
            // The first row that ends behind the range's beginning.
            let first = match begin.checked_sub(base.saturating_add(self.width)) {
                None => 0,
                Some(left) => match left.checked_div(self.pitch) {
                    Some(rows) => rows + 1,
                    None => return false,
                },
            };
            first < self.rows && base.saturating_add(first.saturating_mul(self.pitch)) < end
        })
    }

    /// Whether both have a byte in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        if self.start >= other.end() || other.start >= self.end() {
            return false;
        }
        if self.is_range() {
            return other.meets_range(self.start, self.end());
        }
        if other.is_range() {
            return self.meets_range(other.start, other.end());
        }
        self.rows.saturating_mul(self.slices) <= ROWS_MAX
            && self.row_starts().any(|row| other.meets_range(row, row.saturating_add(self.width)))
    }

    /// Whether all bytes of another one are surely among these.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self == other || self.is_range() && self.start <= other.start && other.end() <= self.end()
    }

    /// Takes in a range that begins where this one ends, or lies in it. Says whether it did.
    pub(crate) fn extend(&mut self, other: &Self) -> bool {
        let fits = self.is_range()
            && other.is_range()
            && self.start <= other.start
            && other.start <= self.end();
        if fits {
            self.width = other.end().max(self.end()) - self.start;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn columns(start: u64) -> Strip {
        Strip { start, width: 4, pitch: 16, rows: 5, slice: 0, slices: 1 }
    }

    #[test]
    fn columns_side_by_side_have_no_byte_in_common() {
        assert!(!columns(0).meets(&columns(4)) && !columns(4).meets(&columns(0)));
        assert!(columns(0).meets(&columns(3)) && columns(3).meets(&columns(0)));
    }

    #[test]
    fn a_range_between_rows_meets_none_of_them() {
        let meets = |start, bytes| columns(100).meets(&Strip::range(start, bytes));
        assert!(!meets(104, 12) && !meets(152, 12) && !meets(168, 50) && !meets(0, 100));
        assert!(meets(103, 1) && meets(104, 13) && meets(167, 1) && meets(0, 101));
    }

    #[test]
    fn slices_are_looked_at_one_by_one() {
        let boxed = Strip { slice: 1000, slices: 3, ..columns(0) };
        assert!(boxed.meets(&Strip::range(2016, 1)) && !boxed.meets(&Strip::range(1500, 500)));
        assert!(!boxed.meets(&Strip { start: 8, ..boxed }) && boxed.meets(&boxed));
    }

    #[test]
    fn rows_without_a_gap_are_a_range() {
        let whole = Strip { pitch: 4, ..columns(8) };
        assert_eq!(whole.simple(), Strip::range(8, 20));
        assert_eq!(columns(8).simple(), columns(8));
    }

    #[test]
    fn only_what_is_side_by_side_is_put_together() {
        let mut range = Strip::range(8, 8);
        assert!(range.extend(&Strip::range(16, 4)) && range.extend(&Strip::range(10, 2)));
        assert_eq!(range, Strip::range(8, 12));
        assert!(!range.extend(&Strip::range(21, 4)) && !range.extend(&Strip::range(7, 4)));
    }
}
