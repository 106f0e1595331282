//! A fixed table of what was delivered before: allocated once, full means "not seen".

/// A key; never both words 0.
pub(super) type Key = [u64; 2];

const FREE: Key = [0; 2];

/// How many places a key is looked for in. Bounds the time that a look-up takes.
const PROBES: usize = 32;

pub(super) struct Seen {
    table: Box<[Key]>,
}

impl Seen {
    pub(super) fn with_capacity(keys: usize) -> Self {
        Self { table: vec![FREE; keys].into_boxed_slice() }
    }

    /// Whether `key` was here before. Remembers it if there is room; allocates nothing.
    pub(super) fn replace(&mut self, key: Key) -> bool {
        let start = Self::hash(key) % self.table.len().max(1);
        let (before, from) = self.table.split_at_mut(start);
        for place in from.iter_mut().chain(before).take(PROBES) {
            if *place == key {
                return true;
            }
            if *place == FREE {
                *place = key;
                return false;
            }
        }
        false
    }

    fn hash([a, b]: Key) -> usize {
        // Spreads neighbouring ids; the constants are odd and otherwise arbitrary.
        let mixed = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from(mixed >> 33).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_seen_from_its_second_time_on() {
        let mut seen = Seen::with_capacity(64);
        assert!(!seen.replace([1, 0]));
        assert!(!seen.replace([0, 1]));
        assert!(seen.replace([1, 0]));
        assert!(seen.replace([1, 0]));
    }

    #[test]
    fn a_full_table_has_not_seen_what_is_new_and_still_knows_what_is_old() {
        let mut seen = Seen::with_capacity(PROBES);
        for id in 1..=32 {
            assert!(!seen.replace([id, 0]));
        }
        for _ in 0..2 {
            assert!(!seen.replace([33, 0]));
        }
        for id in 1..=32 {
            assert!(seen.replace([id, 0]));
        }
    }

    #[test]
    fn a_table_without_places_has_seen_nothing() {
        let mut seen = Seen::with_capacity(0);
        assert!(!seen.replace([1, 0]));
        assert!(!seen.replace([1, 0]));
    }

    #[test]
    fn neighbouring_ids_find_room_in_a_table_that_is_half_full() {
        let mut seen = Seen::with_capacity(1024);
        for id in 1..=512 {
            seen.replace([id, 0]);
        }
        assert!((1..=512).all(|id| seen.replace([id, 0])));
    }
}
