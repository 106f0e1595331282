//! Which places of which chunk are taken: the bookkeeping of [`super::Operands`], without driver and without values.
//!
//! Each place has a link: to the next place of the same node where it is taken, to the next free place where it is free.

use cuhold_handles::{Error, Result};

/// Places in a chunk.
pub(super) const CHUNK: usize = 256;

/// No place.
const NONE: u32 = u32::MAX;

/// How often a graph was copied: what was attached before the last time may be used by a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Copies(u64);

/// Places that are free, for as many operands.
#[derive(Debug)]
#[must_use = "a reservation is what a commit takes"]
pub(crate) struct Reserved(usize);

impl Reserved {
    pub(super) fn of(count: usize) -> Self {
        Self(count)
    }
}

/// The places of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attached {
    first: u32,
    made: Copies,
}

impl Default for Attached {
    fn default() -> Self {
        Self { first: NONE, made: Copies::default() }
    }
}

#[derive(Debug)]
pub(super) struct Places {
    links: Vec<u32>,
    free: u32,
    /// How many are free.
    count: usize,
    copies: Copies,
}

impl Default for Places {
    fn default() -> Self {
        Self { links: Vec::new(), free: NONE, count: 0, copies: Copies::default() }
    }
}

impl Places {
    /// Whether so many are free.
    pub(super) fn have(&self, count: usize) -> bool {
        self.count >= count
    }

    /// Makes room for a chunk's links, so that adding it can't fail.
    pub(super) fn reserve_chunk(&mut self) -> Result<()> {
        let fits =
            u32::try_from(self.links.len().saturating_add(CHUNK)).is_ok_and(|end| end < NONE);
        if fits && self.links.try_reserve(CHUNK).is_ok() {
            return Ok(());
        }
        Err(Error::state(format!("no room to keep more than {} operands", self.links.len())))
    }

    /// A chunk's places are free from now on.
    pub(super) fn add_chunk(&mut self) {
        let end = self.links.len() + CHUNK;
        // The first of the chunk is taken first.
        let first = u32::try_from(self.links.len()).unwrap_or(NONE);
        for place in self.links.len()..end {
            let next =
                if place + 1 == end { self.free } else { u32::try_from(place + 1).unwrap_or(NONE) };
            self.links.push(next);
        }
        self.free = first;
        self.count += CHUNK;
    }

    /// Takes a place for each operand, and hands both to `store`, which gives back what was there: nothing. `None` where
    /// there were more operands than places; those that had one stay taken.
    pub(super) fn take<T>(
        &mut self,
        Reserved(most): Reserved,
        operands: impl IntoIterator<Item = T>,
        mut store: impl FnMut(usize, T) -> Option<T>,
    ) -> Option<Attached> {
        let mut attached = Attached { first: NONE, made: self.copies };
        let mut enough = true;
        for (nth, operand) in operands.into_iter().enumerate() {
            let place = self.free;
            let Some(link) = self.links.get_mut(place as usize).filter(|_| nth < most) else {
                enough = false;
                break;
            };
            self.free = std::mem::replace(link, attached.first);
            self.count -= 1;
            attached.first = place;
            let former = store(place as usize, operand);
            debug_assert!(former.is_none(), "a free place held something");
        }
        enough.then_some(attached)
    }

    /// Frees the places of a node, unless a copy may have what they hold. `empty` lets go of what is there.
    pub(super) fn give_back(&mut self, attached: Attached, mut empty: impl FnMut(usize)) {
        if attached.made < self.copies {
            return;
        }
        let mut place = attached.first;
        while let Some(link) = self.links.get_mut(place as usize) {
            let next = std::mem::replace(link, self.free);
            self.free = place;
            self.count += 1;
            empty(place as usize);
            place = next;
        }
    }

    /// What is attached by now stays.
    pub(super) fn copied(&mut self) {
        self.copies = Copies(self.copies.0 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Places with values beside them, as chunks have.
    #[derive(Default)]
    struct Stored {
        places: Places,
        values: BTreeMap<usize, u32>,
    }

    impl Stored {
        fn attach(&mut self, values: &[u32]) -> Attached {
            while !self.places.have(values.len()) {
                self.places.reserve_chunk().unwrap();
                self.places.add_chunk();
            }
            let Self { places, values: stored } = self;
            let reserved = Reserved::of(values.len());
            places
                .take(reserved, values.iter().copied(), |place, value| stored.insert(place, value))
                .unwrap()
        }

        fn release(&mut self, attached: Attached) {
            let Self { places, values } = self;
            places.give_back(attached, |place| {
                values.remove(&place);
            });
        }

        fn sorted(&self) -> Vec<u32> {
            let mut values: Vec<_> = self.values.values().copied().collect();
            values.sort_unstable();
            values
        }
    }

    #[test]
    fn a_chunk_is_needed_every_256th_operand() {
        let mut stored = Stored::default();
        for value in 0..512 {
            stored.attach(&[value]);
        }
        assert_eq!((stored.places.links.len(), stored.places.count), (512, 0));
    }

    #[test]
    fn places_that_were_given_back_are_taken_again() {
        let mut stored = Stored::default();
        for round in 0..10_000 {
            let attached = stored.attach(&[round, round, round]);
            stored.release(attached);
        }
        assert_eq!(stored.places.links.len(), CHUNK);
        assert_eq!(stored.sorted(), []);
    }

    #[test]
    fn what_a_copy_may_use_stays_although_its_node_was_removed() {
        let mut stored = Stored::default();
        let before = stored.attach(&[1]);
        stored.places.copied();
        let after = stored.attach(&[2]);
        stored.release(before);
        stored.release(after);
        assert_eq!(stored.sorted(), [1]);
    }

    #[test]
    fn more_operands_than_were_prepared_for_are_not_taken() {
        let mut places = Places::default();
        places.reserve_chunk().unwrap();
        places.add_chunk();
        assert_eq!(places.take(Reserved::of(1), [1, 2], |_, _| None), None);
    }

    #[test]
    fn a_node_without_operands_takes_no_place() {
        let mut stored = Stored::default();
        let attached = stored.attach(&[]);
        stored.release(attached);
        assert_eq!(stored.places.links.len(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Attach(usize),
        Release(usize),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0_usize..400).prop_map(Step::Attach),
            6 => any::<usize>().prop_map(Step::Release),
            1 => Just(Step::Copy),
        ]
    }

    proptest! {
        #[test]
        fn a_value_is_held_until_its_node_goes_before_any_copy(steps in prop::collection::vec(step(), 1..40)) {
            let (mut stored, mut live, mut held, mut next) = (Stored::default(), Vec::new(), Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Attach(count) => {
                        let values: Vec<u32> = (next..).take(count).collect();
                        next += u32::try_from(count).unwrap();
                        held.extend_from_slice(&values);
                        live.push((stored.attach(&values), values, false));
                    }
                    Step::Release(nth) if !live.is_empty() => {
                        let (attached, values, copied) = live.swap_remove(nth % live.len());
                        stored.release(attached);
                        if !copied {
                            held.retain(|value| !values.contains(value));
                        }
                    }
                    Step::Release(_) => {}
                    Step::Copy => {
                        stored.places.copied();
                        live.iter_mut().for_each(|(_, _, copied)| *copied = true);
                    }
                }
                prop_assert_eq!(stored.sorted(), held.clone());
                prop_assert_eq!(stored.places.count + held.len(), stored.places.links.len());
            }
        }
    }
}
