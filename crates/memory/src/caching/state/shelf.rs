//! A lane's shelf: the blocks of one stream that no thread's bin has, and the account of all of them.
//!
//! Always behind the lane's lock. Whatever a `Drop` may need is made where blocks are: a stack has room for all blocks of its
//! class, and there is a bin and a place for blocks to spare for a thread that only gives back.

use super::{
    bin::{Bin, MOST},
    bound::Bound,
    gate::{Gate, Way},
    sync::{Arc, SMALL, bytes_of},
};

/// Up to this many bytes of a class a thread keeps as [`MOST`] blocks, beyond that as fewer.
const MAGAZINE_BYTES: usize = 64 << 20;
/// How many blocks a magazine holds at first.
const FIRST: usize = 4;
/// How many places for blocks are spare.
const PLACES: usize = 4;

/// Blocks that are to go back to where they came from, in one go: as many as a magazine spills, and one.
#[derive(Debug)]
pub(crate) struct Over {
    blocks: [(usize, u64); MOST / 2 + 1],
    len: usize,
}

impl Over {
    pub(crate) fn new() -> Self {
        Self { blocks: [(0, 0); MOST / 2 + 1], len: 0 }
    }

    /// `false`: there is no room.
    fn push(&mut self, class: usize, block: u64) -> bool {
        let Some(place) = self.blocks.get_mut(self.len) else { return false };
        *place = (class, block);
        self.len += 1;
        true
    }

    fn is_full(&self) -> bool {
        self.len == self.blocks.len()
    }

    /// Each class and block.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.blocks.iter().take(self.len).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Blocks of one class.
#[derive(Debug, Default)]
struct Stack {
    blocks: Vec<u64>,
    /// How many blocks of the class the lane has, in use and cached. Invariant: `blocks` has room for as many.
    made: usize,
}

/// What came of asking for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    Block(u64),
    /// There is none.
    Nothing,
    /// The lane gives out none any more.
    Closed,
}

/// What came of giving a block back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    Kept,
    /// The lane keeps none any more: the block is still the caller's.
    Closed,
}

/// What is counted of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Bytes of all blocks, in use and cached.
    pub(crate) made_bytes: usize,
    /// How many blocks that are.
    pub(crate) made: usize,
    pub(crate) cached_bytes: usize,
    pub(crate) cached: usize,
    /// Blocks given out by bins alone.
    pub(crate) quick: u64,
    /// Blocks given out by the shelf.
    pub(crate) slow: u64,
    /// Blocks that came from other streams.
    pub(crate) crossed: u64,
    /// Blocks that had to be made.
    pub(crate) missed: u64,
}

/// The blocks of one stream.
#[derive(Debug)]
pub(crate) struct Shelf {
    way: Way,
    number: u64,
    bound: Arc<Bound>,
    open: bool,
    stacks: Vec<Stack>,
    made: usize,
    made_bytes: usize,
    /// Bytes in the stacks.
    laid_bytes: usize,
    bins: Vec<Arc<Bin>>,
    spares: Vec<Arc<Bin>>,
    places: Vec<Box<[u64]>>,
    /// What bins counted that are gone.
    quick: u64,
    slow: u64,
    crossed: u64,
    missed: u64,
}

impl Shelf {
    pub(crate) fn new(way: Way, number: u64, bound: Arc<Bound>) -> Self {
        Self {
            way,
            number,
            bound,
            open: true,
            stacks: Vec::new(),
            made: 0,
            made_bytes: 0,
            laid_bytes: 0,
            bins: Vec::new(),
            spares: Vec::new(),
            places: Vec::new(),
            quick: 0,
            slow: 0,
            crossed: 0,
            missed: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Gives out and keeps blocks again.
    pub(crate) fn reopen(&mut self) {
        self.open = true;
    }

    /// Whether there is no block of it any more, in use or cached.
    pub(crate) fn is_empty(&self) -> bool {
        self.made == 0
    }

    /// Bytes that no bin has.
    pub(crate) fn laid_bytes(&self) -> usize {
        self.laid_bytes
    }

    /// A bin for the calling thread. `None`: the lane is closed, or nothing may be allocated and none is spare.
    pub(crate) fn new_bin(&mut self, may_allocate: bool) -> Option<Arc<Bin>> {
        if !self.open || (!may_allocate && self.bins.len() == self.bins.capacity()) {
            return None;
        }
        let spare = self.spares.pop();
        if spare.is_none() && !may_allocate {
            return None;
        }
        let bin = spare.unwrap_or_else(|| Arc::new(Bin::new(self.way, self.number)));
        self.bins.push(Arc::clone(&bin));
        Some(bin)
    }

    /// Takes a block of the class, out of the owner's bin or off the stack, with which the bin is filled up. Allocates.
    pub(crate) fn take(&mut self, bin: Option<&Bin>, class: usize) -> Taken {
        if !self.open {
            return Taken::Closed;
        }
        let block = match bin.filter(|_| class < SMALL) {
            None => self.lift(class),
            Some(bin) => {
                self.provide();
                match bin.pop(class) {
                    0 => self.refill(bin, class),
                    block => block,
                }
            }
        };
        if block == 0 {
            return Taken::Nothing;
        }
        self.slow = self.slow.wrapping_add(1);
        Taken::Block(block)
    }

    /// Fills the empty magazine half, and gives one more.
    fn refill(&mut self, bin: &Bin, class: usize) -> u64 {
        if !bin.has_items(class) {
            bin.set_items(class, place());
        }
        self.grow(bin, class);
        let (_, room) = bin.fill(class);
        for _ in 0..room / 2 {
            let block = self.lift(class);
            if block == 0 {
                break;
            }
            if !bin.push(class, block) {
                self.lay_back(class, block);
                break;
            }
        }
        match self.lift(class) {
            0 => bin.pop(class),
            block => block,
        }
    }

    /// Gives a magazine more room, as far as there is some.
    fn grow(&self, bin: &Bin, class: usize) -> bool {
        let (_, room) = bin.fill(class);
        let most = (MAGAZINE_BYTES / bytes_of(class)).clamp(FIRST, MOST);
        let more = room.saturating_mul(2).clamp(FIRST, most).saturating_sub(room);
        let grows = more > 0 && bin.has_items(class) && self.bound.take(more * bytes_of(class));
        if grows {
            bin.set_room(class, room + more);
        }
        grows
    }

    /// What is made beforehand for a thread that only gives back.
    fn provide(&mut self) {
        if self.spares.is_empty() {
            self.spares.push(Arc::new(Bin::new(self.way, self.number)));
        }
        while self.places.len() < PLACES {
            self.places.push(place());
        }
        self.bins.reserve(1);
    }

    /// Puts a block back: in the owner's bin, else on the stack. What there is no room for goes to `over`. Allocates nothing.
    pub(crate) fn put(
        &mut self,
        bin: Option<&Bin>,
        class: usize,
        block: u64,
        over: &mut Over,
    ) -> Put {
        if !self.open {
            return Put::Closed;
        }
        let Some(bin) = bin.filter(|_| class < SMALL) else {
            self.lay(class, block, over);
            return Put::Kept;
        };
        if bin.push(class, block) {
            return Put::Kept;
        }
        if !bin.has_items(class)
            && let Some(place) = self.places.pop()
        {
            bin.set_items(class, place);
        }
        if !self.grow(bin, class) {
            let (len, _) = bin.fill(class);
            for _ in 0..len.div_ceil(2) {
                let spilt = bin.pop(class);
                self.lay(class, spilt, over);
            }
        }
        if !bin.push(class, block) {
            self.lay(class, block, over);
        }
        Put::Kept
    }

    /// Lays a block on its stack if there is room, else it goes.
    fn lay(&mut self, class: usize, block: u64, over: &mut Over) {
        if self.bound.take(bytes_of(class)) {
            self.lay_counted(class, block);
        } else if !over.push(class, block) {
            self.lay_back(class, block);
        }
    }

    /// Lays a block on its stack that was on its way elsewhere, whatever the bound.
    pub(crate) fn lay_back(&mut self, class: usize, block: u64) {
        self.bound.move_in(bytes_of(class));
        self.lay_counted(class, block);
    }

    fn lay_counted(&mut self, class: usize, block: u64) {
        if let Some(stack) = self.stacks.get_mut(class) {
            // By the invariant of `made` there is room.
            stack.blocks.push(block);
            self.laid_bytes += bytes_of(class);
        }
    }

    /// Takes a block off its stack; 0 where there is none.
    fn lift(&mut self, class: usize) -> u64 {
        let Some(block) = self.stacks.get_mut(class).and_then(|stack| stack.blocks.pop()) else {
            return 0;
        };
        self.laid_bytes -= bytes_of(class);
        self.bound.give(bytes_of(class));
        block
    }

    /// Makes room for one more block of the class, which counts from here on. Allocates.
    pub(crate) fn expect(&mut self, class: usize, has_crossed: bool) {
        if self.stacks.len() <= class {
            self.stacks.resize_with(class + 1, Stack::default);
        }
        if let Some(stack) = self.stacks.get_mut(class) {
            stack.made += 1;
            stack.blocks.reserve(stack.made.saturating_sub(stack.blocks.len()));
        }
        self.made += 1;
        self.made_bytes += bytes_of(class);
        let count = if has_crossed { &mut self.crossed } else { &mut self.missed };
        *count = count.wrapping_add(1);
    }

    /// Counts one more block of the class if there is room for it without allocating.
    pub(crate) fn adopt(&mut self, class: usize) -> bool {
        let Some(stack) = self.stacks.get_mut(class).filter(|_| self.open) else { return false };
        if stack.blocks.capacity() <= stack.made {
            return false;
        }
        stack.made += 1;
        self.made += 1;
        self.made_bytes += bytes_of(class);
        true
    }

    /// A block of the class isn't this lane's any more.
    pub(crate) fn part(&mut self, class: usize) {
        if let Some(stack) = self.stacks.get_mut(class) {
            stack.made = stack.made.saturating_sub(1);
        }
        self.made = self.made.saturating_sub(1);
        self.made_bytes = self.made_bytes.saturating_sub(bytes_of(class));
    }

    /// Takes up to `most` blocks of a class for another lane; they part from this one when they are there.
    pub(crate) fn donate(&mut self, class: usize, most: usize, over: &mut Over) {
        for _ in 0..most {
            if over.is_full() {
                return;
            }
            match self.lift(class) {
                0 => return,
                block => _ = over.push(class, block),
            }
        }
    }

    /// Lays all blocks of all bins on the stacks, whatever their threads do meanwhile. `for_good`: the lane gives out and
    /// keeps nothing from here on. `false`: the system refused the barrier, so that the bins were left as they were.
    pub(crate) fn steal(&mut self, for_good: bool) -> bool {
        self.open &= !for_good;
        let bins = std::mem::take(&mut self.bins);
        for bin in &bins {
            bin.gate().ask(for_good);
        }
        let is_past = bins.is_empty() || Gate::barrier(self.way);
        for bin in &bins {
            if is_past {
                bin.gate().wait();
                self.empty(bin, for_good);
            }
            bin.gate().open();
        }
        if for_good && is_past {
            self.spares = Vec::new();
            self.places = Vec::new();
        } else {
            self.bins = bins;
        }
        is_past
    }

    /// Lays what a bin has on the stacks. For who has the bin.
    fn empty(&mut self, bin: &Bin, for_good: bool) {
        for class in 0..SMALL {
            let (_, room) = bin.fill(class);
            if room == 0 {
                continue;
            }
            loop {
                match bin.pop(class) {
                    0 => break,
                    block => self.lay_back(class, block),
                }
            }
            bin.set_room(class, 0);
            self.bound.give(room * bytes_of(class));
            if for_good {
                drop(bin.take_items(class));
            }
        }
        self.quick = self.quick.wrapping_add(bin.fold());
    }

    /// The calling thread, which owns the bin, has no use for it any more.
    pub(crate) fn leave(&mut self, bin: &Arc<Bin>) {
        let Some(at) = self.bins.iter().position(|other| Arc::ptr_eq(other, bin)) else { return };
        let bin = self.bins.swap_remove(at);
        self.empty(&bin, false);
        if self.spares.len() < self.spares.capacity() {
            self.spares.push(bin);
        }
    }

    /// Takes blocks off the stacks that are to go back to where they came from, the largest first, until no more than `keep`
    /// bytes lie there or `over` is full.
    pub(crate) fn clear(&mut self, keep: usize, over: &mut Over) {
        for class in (0..self.stacks.len()).rev() {
            while self.laid_bytes > keep && !over.is_full() {
                match self.lift(class) {
                    0 => break,
                    block => _ = over.push(class, block),
                }
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts {
            made_bytes: self.made_bytes,
            made: self.made,
            cached_bytes: self.laid_bytes,
            cached: self.stacks.iter().map(|stack| stack.blocks.len()).sum(),
            quick: self.quick,
            slow: self.slow,
            crossed: self.crossed,
            missed: self.missed,
        };
        for bin in &self.bins {
            counts.quick = counts.quick.wrapping_add(bin.taken());
            for class in 0..SMALL {
                let (len, _) = bin.fill(class);
                counts.cached += len;
                counts.cached_bytes += len * bytes_of(class);
            }
        }
        counts
    }
}

/// A place for the blocks of a magazine.
fn place() -> Box<[u64]> {
    vec![0; MOST].into_boxed_slice()
}
