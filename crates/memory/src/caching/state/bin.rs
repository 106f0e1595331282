//! A bin: the blocks that one thread keeps of one stream, as a magazine for each class.

use super::{
    gate::{Gate, Way},
    sync::{AtomicU32, AtomicU64, Ordering, Room, SMALL},
};
use std::mem;

/// How many blocks a magazine holds at most.
pub(super) const MOST: usize = 256;

/// Blocks of one class; a block is its address.
#[derive(Debug)]
struct Magazine {
    /// How many there are. Written by who has the bin; read by anybody, for statistics.
    len: AtomicU32,
    /// How many there may be: room that was taken from the bound.
    room: AtomicU32,
    /// Where they are; empty until there is room.
    items: Room<Box<[u64]>>,
}

/// One thread's blocks of one lane.
#[derive(Debug)]
pub(crate) struct Bin {
    gate: Gate,
    /// The lane's number.
    lane: u64,
    /// How many blocks its owner took out.
    taken: AtomicU64,
    magazines: [Magazine; SMALL],
}

// SAFETY: what isn't atomic is `items`, which only who has the bin is at: its owner inside the gate, or who holds the lane's
// lock and is its owner or has shut the gate.
unsafe impl Send for Bin {}
// SAFETY: as above.
unsafe impl Sync for Bin {}

impl Bin {
    pub(super) fn new(way: Way, lane: u64) -> Self {
        let magazine = |_| Magazine {
            len: AtomicU32::new(0),
            room: AtomicU32::new(0),
            items: Room::new(Box::default()),
        };
        Self {
            gate: Gate::new(way),
            lane,
            taken: AtomicU64::new(0),
            magazines: std::array::from_fn(magazine),
        }
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The lane's number.
    #[inline]
    pub(crate) fn lane(&self) -> u64 {
        self.lane
    }

    /// Whether its lane is closed.
    pub(crate) fn is_dead(&self) -> bool {
        self.gate.is_dead()
    }

    /// Takes a block of the class out; 0 where there is none, or where somebody has the bin.
    ///
    /// # Safety
    /// The calling thread owns the bin.
    #[inline]
    pub(crate) unsafe fn take(&self, class: usize) -> u64 {
        let Some(magazine) = self.magazines.get(class) else { return 0 };
        if !self.gate.enter() {
            return 0;
        }
        let block = magazine.pop();
        if block != 0 {
            self.count();
        }
        self.gate.leave();
        block
    }

    /// Puts a block of the class in. `false`: there is no room, or somebody has the bin.
    ///
    /// # Safety
    /// The calling thread owns the bin.
    #[inline]
    pub(crate) unsafe fn put(&self, class: usize, block: u64) -> bool {
        let Some(magazine) = self.magazines.get(class) else { return false };
        if !self.gate.enter() {
            return false;
        }
        let is_in = magazine.push(block);
        self.gate.leave();
        is_in
    }

    /// Plain, since its owner alone writes it.
    #[inline]
    fn count(&self) {
        let taken = self.taken.load(Ordering::Relaxed).wrapping_add(1);
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// How many blocks its owner took out.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The count starts again; gives what it was.
    pub(super) fn fold(&self) -> u64 {
        let taken = self.taken();
        self.taken.store(0, Ordering::Relaxed);
        taken
    }

    /// How many blocks of a class it has, and how many it may have.
    pub(super) fn fill(&self, class: usize) -> (usize, usize) {
        self.magazines.get(class).map_or((0, 0), |magazine| {
            let read = |count: &AtomicU32| count.load(Ordering::Relaxed) as usize;
            (read(&magazine.len), read(&magazine.room))
        })
    }

    /// Whether a class has a place for its blocks. For who has the bin.
    pub(super) fn has_items(&self, class: usize) -> bool {
        self.magazines.get(class).is_some_and(|magazine| magazine.at(|items| !items.is_empty()))
    }

    /// Gives a class a place for its blocks. For who has the bin.
    pub(super) fn set_items(&self, class: usize, place: Box<[u64]>) {
        if let Some(magazine) = self.magazines.get(class) {
            magazine.at(|items| *items = place);
        }
    }

    /// Takes the empty place of a class out. For who has the bin.
    pub(super) fn take_items(&self, class: usize) -> Box<[u64]> {
        self.magazines.get(class).map_or_else(Box::default, |magazine| magazine.at(mem::take))
    }

    /// Sets how many blocks of a class there may be. For who has the bin.
    pub(super) fn set_room(&self, class: usize, room: usize) {
        if let Some(magazine) = self.magazines.get(class) {
            magazine.room.store(u32::try_from(room.min(MOST)).unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// As [`take`](Self::take), for who has the bin.
    pub(super) fn pop(&self, class: usize) -> u64 {
        self.magazines.get(class).map_or(0, Magazine::pop)
    }

    /// As [`put`](Self::put), for who has the bin.
    pub(super) fn push(&self, class: usize, block: u64) -> bool {
        self.magazines.get(class).is_some_and(|magazine| magazine.push(block))
    }
}

impl Magazine {
    /// What is done with the place of the blocks. For who has the bin.
    #[inline]
    fn at<T>(&self, work: impl FnOnce(&mut Box<[u64]>) -> T) -> T {
        self.items.with(|items| {
            // SAFETY: nobody else is at it: the caller has the bin, as `Bin`'s argument says.
            work(unsafe { &mut *items })
        })
    }

    #[inline]
    fn pop(&self) -> u64 {
        let Some(last) = self.len.load(Ordering::Relaxed).checked_sub(1) else { return 0 };
        let block = self.at(|items| items.get(last as usize).copied().unwrap_or(0));
        self.len.store(last, Ordering::Relaxed);
        block
    }

    #[inline]
    fn push(&self, block: u64) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        if len >= self.room.load(Ordering::Relaxed) {
            return false;
        }
        let is_in = self.at(|items| match items.get_mut(len as usize) {
            Some(place) => {
                *place = block;
                true
            }
            None => false,
        });
        if is_in {
            self.len.store(len.wrapping_add(1), Ordering::Relaxed);
        }
        is_in
    }
}
