//! Which bins the calling thread has: a table of its own, found by a thread-local pointer without a destructor.
//!
//! A bin is found by where the stream's block and the resource lie. Both may be freed and their place used again: then the
//! bin that was there is dead, and found to be so when it is entered.
//!
//! The thread's end is noticed by a key of the C library, whose destructors run after all of Rust's thread-locals are
//! dropped (measured with glibc): the buffers in them still find their bins. What comes later goes to the lanes' shelves. Where
//! there are no such keys no thread has bins, and everything goes to the shelves.
//!
//! A library with this code in it that is closed by `dlclose` while threads with bins live must be linked with
//! `-z nodelete`: the key doesn't keep it.

#![expect(unsafe_code, reason = "the table is a raw pointer of the thread's own")]

use super::{lane::Lane, state::Bin};
use cuhold_handles::driver_sys::process::ForkWord;
use parking_lot::Mutex;
use std::{
    cell::Cell,
    ptr,
    sync::{Arc, Weak},
};

/// What a bin is found by: where the stream's block lies, and where the resource does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) stream: usize,
    pub(super) cache: usize,
}

impl Key {
    const NONE: Self = Self { stream: 0, cache: 0 };

    /// Where the search begins. Blocks lie 64 bytes apart at least.
    #[inline]
    fn start(self) -> usize {
        let mixed = (self.stream >> 6) ^ (self.cache >> 3);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }
}

#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    bin: Shown,
}

/// A bin, kept by the entry at the same index; or null.
#[derive(Clone, Copy)]
struct Shown(*const Bin);

// SAFETY: bins are `Send` and `Sync`, and the pointer is only followed beside the entry that keeps the bin.
unsafe impl Send for Shown {}

struct Entry {
    bin: Arc<Bin>,
    lane: Weak<Lane>,
}

/// A thread's bins: open addressing, at most half full.
struct Table {
    fork: ForkWord,
    used: usize,
    /// As many as a power of two.
    slots: Box<[Slot]>,
    entries: Box<[Option<Entry>]>,
}

thread_local! {
    /// Null: there is none yet, or none any more. Without a destructor, so that it can be read at any time.
    static TABLE: Cell<*mut Table> = const { Cell::new(ptr::null_mut()) };
    static GONE: Cell<bool> = const { Cell::new(false) };
}

/// How many slots a table has at first.
const SLOTS: usize = 64;

/// Empty tables, for threads that need one where nothing may be allocated.
#[expect(clippy::vec_box, reason = "a table is taken out where nothing may be allocated")]
static SPARES: Mutex<Vec<Box<Table>>> = Mutex::new(Vec::new());
/// How many are spare.
const SPARE: usize = 2;

impl Table {
    fn new(slots: usize) -> Self {
        Self {
            fork: ForkWord::new(),
            used: 0,
            slots: vec![Slot { key: Key::NONE, bin: Shown(ptr::null()) }; slots].into_boxed_slice(),
            entries: (0..slots).map(|_| None).collect(),
        }
    }

    /// The index of the key, or of the free slot where it belongs.
    fn index(&self, key: Key) -> usize {
        let mask = self.slots.len().wrapping_sub(1);
        let mut index = key.start() & mask;
        while let Some(slot) = self.slots.get(index) {
            if slot.key == key || slot.key == Key::NONE {
                break;
            }
            index = index.wrapping_add(1) & mask;
        }
        index
    }

    /// The entry's bin; null where there is none.
    #[inline]
    fn bin(&self, key: Key) -> *const Bin {
        match self.slots.get(key.start() & self.slots.len().wrapping_sub(1)) {
            Some(slot) if slot.key == key => slot.bin.0,
            _ => self.bin_beyond(key),
        }
    }

    /// The same, of one that isn't where the search begins.
    fn bin_beyond(&self, key: Key) -> *const Bin {
        self.slots.get(self.index(key)).map_or(ptr::null(), |slot| slot.bin.0)
    }

    fn put(&mut self, key: Key, entry: Entry) {
        let index = self.index(key);
        let (Some(slot), Some(place)) = (self.slots.get_mut(index), self.entries.get_mut(index))
        else {
            return;
        };
        self.used += usize::from(slot.key == Key::NONE);
        *slot = Slot { key, bin: Shown(Arc::as_ptr(&entry.bin)) };
        *place = Some(entry);
    }

    fn is_full(&self) -> bool {
        self.used.saturating_mul(2) >= self.slots.len()
    }

    /// Without the bins of lanes that are closed, and with room for more. Allocates.
    fn make_room(&mut self) {
        let live =
            |entry: &&Option<Entry>| entry.as_ref().is_some_and(|entry| !entry.bin.is_dead());
        let count = self.entries.iter().filter(live).count();
        let slots = (count + 1).saturating_mul(4).next_power_of_two().max(SLOTS);
        let former = std::mem::replace(self, Self::new(slots));
        for (slot, entry) in former.slots.into_iter().zip(former.entries) {
            if let Some(entry) = entry.filter(|entry| !entry.bin.is_dead()) {
                self.put(slot.key, entry);
            }
        }
    }
}

/// Does something with the calling thread's bin for the key, if it has one. It owns the bin.
#[inline]
pub(super) fn with<T>(key: Key, work: impl FnOnce(&Bin) -> T) -> Option<T> {
    let table = TABLE.get();
    // SAFETY: null, or this thread's own table, which nobody else is at; nothing below changes it.
    let table = unsafe { table.as_ref() }?;
    // SAFETY: null, or the bin of the entry beside, which stays as long as nothing changes the table: what is done with a bin
    // here comes back to no function of this file.
    let bin = unsafe { table.bin(key).as_ref() }?;
    Some(work(bin))
}

/// The calling thread's bin for the key, unless it is dead, and its lane.
pub(super) fn own(key: Key) -> Option<(Arc<Bin>, Arc<Lane>)> {
    // SAFETY: null, or this thread's own table; the reference ends with the function, which doesn't change it.
    let table = unsafe { TABLE.get().as_ref() }?;
    let entry = table.entries.get(table.index(key))?.as_ref()?;
    let lane = entry.lane.upgrade().filter(|_| !entry.bin.is_dead())?;
    Some((Arc::clone(&entry.bin), lane))
}

/// Whether the calling thread can have one more bin; makes room for it where that is allowed.
pub(super) fn has_room(may_allocate: bool) -> bool {
    if GONE.get() {
        return false;
    }
    if may_allocate {
        let mut spares = SPARES.lock();
        while spares.len() < SPARE {
            spares.push(Box::new(Table::new(SLOTS)));
        }
    }
    let table = TABLE.get();
    if table.is_null() {
        let Some(spare) = SPARES.lock().pop() else { return false };
        return set(spare);
    }
    // SAFETY: this thread's own table; nothing else refers to it now.
    let table = unsafe { &mut *table };
    if table.is_full() && may_allocate {
        table.make_room();
    }
    !table.is_full()
}

/// From here on this is the calling thread's bin for the key. There is [room](has_room).
pub(super) fn insert(key: Key, bin: Arc<Bin>, lane: Weak<Lane>) {
    // SAFETY: null, or this thread's own table; nothing else refers to it now.
    if let Some(table) = unsafe { TABLE.get().as_mut() } {
        table.put(key, Entry { bin, lane });
    }
}

/// Makes it the calling thread's table, if the thread's end will be noticed.
fn set(table: Box<Table>) -> bool {
    let raw = Box::into_raw(table);
    if exit::watch(raw) {
        TABLE.set(raw);
        return true;
    }
    // SAFETY: made above, and given to nobody.
    drop(unsafe { Box::from_raw(raw) });
    false
}

/// The thread ends: what its bins have goes to the shelves. Makes no driver call, but where a lane ends with it.
fn end(table: Box<Table>) {
    TABLE.set(ptr::null_mut());
    GONE.set(true);
    if table.fork.forked() {
        // The locks may be the parent's.
        let _: &mut Table = Box::leak(table);
        return;
    }
    for entry in table.entries.into_iter().flatten() {
        if let Some(lane) = entry.lane.upgrade() {
            lane.shelf().leave(&entry.bin);
        }
    }
}

#[cfg(unix)]
mod exit {
    //! The key of the C library.

    use super::{Table, end};
    use cuhold_handles::foreign;
    use std::{ffi::c_void, sync::OnceLock};

    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

    /// Watches the calling thread's end, at which the table is ended. `false`: the system has no key or no memory for that.
    pub(super) fn watch(table: *mut Table) -> bool {
        let Some(key) = *KEY.get_or_init(make) else { return false };
        // SAFETY: the key was made, and is never deleted.
        unsafe { libc::pthread_setspecific(key, table.cast_const().cast()) == 0 }
    }

    fn make() -> Option<libc::pthread_key_t> {
        let mut key = 0;
        // SAFETY: a live local, and a function that doesn't unwind.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) };
        (made == 0).then_some(key)
    }

    extern "C" fn at_exit(table: *mut c_void) {
        // SAFETY: what `watch` set for this thread: a box that nobody else ends.
        let table = unsafe { Box::from_raw(table.cast::<Table>()) };
        // A lane that ends here ends its stream, whose driver may be a user's.
        drop(foreign::call(|| end(table)));
    }
}

#[cfg(not(unix))]
mod exit {
    //! There is no such key: no thread has bins.

    use super::{Table, end};

    pub(super) fn watch(table: *mut Table) -> bool {
        let _: (*mut Table, fn(Box<Table>)) = (table, end);
        false
    }
}
