//! Which imports are mapped: the state of the cache, without any driver call.
//!
//! The driver maps memory once however often it is imported, and the first free unmaps it for all (measured). So a
//! mapping is shared: its entry counts the imports, and the one that leaves last frees it.
//!
//! ```text
//!            hit: count + 1, unless it is dead            the last leaves
//!   (none) ──miss, under the mutex──► n imports ──────────► 0 ──under the mutex──► dead, freed, gone
//!                                        ▲                  │
//!                                        └──── adopted ─────┘   a look-up comes first, and takes it over
//! ```
//!
//! | step | lock |
//! |---|---|
//! | a look-up that hits | that of its thread's slot |
//! | a miss; the last that leaves | the one mutex, under which both look again |
//! | the driver's import and its free | made under that mutex, so that no import meets a free |
//!
//! Between the count's fall to 0 and the mutex another import may adopt the entry; then it isn't freed. Of several that
//! brought the count to 0 the first that has the mutex frees, and the others find it dead. An entry whose free failed is
//! gone as well: whether the address is still mapped isn't known, so it is never used again.
//!
//! What many threads do at once costs what they have in common. So each looks up in a slot of its own, and what it finds
//! there is a share that belongs to the slot: of all that a hit and its end write, only the count of imports is any other
//! thread's as well. It has a cache line to itself, and is added to without trying twice.
//!
//! `tests/model.rs` runs this file under loom, in all orders of its steps.

use super::sync::{Arc, AtomicUsize, Mutex, Ordering, mutant};
use std::{collections::BTreeMap, iter, mem};

/// The mapping was freed, or its free was tried: nobody may use it, nor free it again.
const DEAD: usize = 1 << (usize::BITS - 1);

/// The most slots that a cache can have: an entry knows by a bit which of them have a share of it.
pub(crate) const SLOTS_MAX: usize = 64;

/// Nothing else is on its cache lines, of which processors fetch two at a time.
#[derive(Debug)]
#[repr(align(128))]
struct Alone<T>(T);

/// A mapping with its number of imports.
#[derive(Debug)]
pub(crate) struct Entry<K, M> {
    imports: Alone<AtomicUsize>,
    /// Only read and written under the one mutex.
    known: Mutex<Known<K>>,
    mapping: M,
}

/// By what an entry is found.
#[derive(Debug)]
struct Known<K> {
    /// Every key that names it.
    keys: Vec<K>,
    /// The slots that have a share of it, a bit each.
    slots: u64,
}

impl<K, M> Entry<K, M> {
    /// One more import, unless the mapping is dead.
    fn acquire(&self) -> bool {
        self.imports.0.fetch_add(1, Ordering::AcqRel) & DEAD == 0 || self.take_back()
    }

    /// Takes back what was added to a dead entry. If its free wasn't made, and it is alive again, it stays.
    #[cold]
    fn take_back(&self) -> bool {
        let one_less = |imports: usize| (imports & DEAD != 0).then(|| imports.wrapping_sub(1));
        self.imports.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_err()
    }
}

/// An entry as a slot has it. Imports hold it, each counted by the entry.
#[derive(Debug)]
pub(crate) struct Share<K, M> {
    entry: Arc<Entry<K, M>>,
}

impl<K, M> Share<K, M> {
    /// What is mapped.
    pub(crate) fn mapping(&self) -> &M {
        &self.entry.mapping
    }

    /// An import leaves. Whether it was the last, which has to [end](Cache::end) the mapping.
    pub(crate) fn fall(&self) -> bool {
        self.entry.imports.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// What became of a mapping whose last import left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// It is gone, or may be, or stays mapped for good: it is never used again.
    Gone,
    /// The driver wasn't asked, and the one that left comes again: it counts as an import.
    Again,
}

/// What the threads of a slot look up.
type Slot<K, M> = Alone<Mutex<BTreeMap<K, Arc<Share<K, M>>>>>;

/// All that is mapped, under the one mutex. Memory that was exported twice may have two keys.
#[derive(Debug)]
struct Mapped<K, M> {
    by_key: BTreeMap<K, Arc<Entry<K, M>>>,
    by_address: BTreeMap<u64, Arc<Entry<K, M>>>,
}

/// The mappings of a pool.
#[derive(Debug)]
pub(crate) struct Cache<K, M> {
    slots: Vec<Slot<K, M>>,
    mapped: Mutex<Mapped<K, M>>,
}

impl<K: Ord + Clone, M> Cache<K, M> {
    /// An empty cache with so many slots, at least one and at most [`SLOTS_MAX`].
    pub(crate) fn new(slots: usize) -> Self {
        let slot = || Alone(Mutex::new(BTreeMap::new()));
        let slots = iter::repeat_with(slot).take(slots.clamp(1, SLOTS_MAX)).collect();
        let mapped = Mapped { by_key: BTreeMap::new(), by_address: BTreeMap::new() };
        Self { slots, mapped: Mutex::new(mapped) }
    }

    /// One more import of what is mapped already, and known in this slot.
    fn hit(&self, slot: usize, key: &K) -> Option<Arc<Share<K, M>>> {
        let shares = self.slots.get(slot)?.0.lock();
        shares.get(key).filter(|share| share.entry.acquire()).cloned()
    }

    /// One more import of what the key names, by a thread of this slot (of all numbers those that differ by the number of
    /// slots are one); where it isn't mapped, `map` maps it and says at which address.
    ///
    /// `map` runs under the one mutex, and may find that the driver gave a mapping that is here under another key: what it
    /// returned is then dropped, and the other taken.
    ///
    /// # Errors
    /// Those of `map`.
    pub(crate) fn enter<E>(
        &self,
        slot: usize,
        key: &K,
        map: impl FnOnce() -> Result<(u64, M), E>,
    ) -> Result<Arc<Share<K, M>>, E> {
        let slot = slot.checked_rem(self.slots.len()).unwrap_or(0);
        if let Some(share) = self.hit(slot, key) {
            return Ok(share);
        }
        // What is no longer needed goes once the locks are released: it may be a last handle.
        let (mut unused, mut replaced) = (None, [None, None]);
        let mut mapped = self.mapped.lock();
        let known = mapped.by_key.get(key).filter(|entry| entry.acquire()).cloned();
        let entry = if let Some(known) = known {
            known
        } else {
            let (address, mapping) = map()?;
            let known = mapped.by_address.get(&address).filter(|entry| entry.acquire()).cloned();
            let entry = if let Some(known) = known {
                unused = Some(mapping);
                known
            } else {
                let known = Mutex::new(Known { keys: Vec::new(), slots: 0 });
                let new = Entry { imports: Alone(AtomicUsize::new(1)), known, mapping };
                let new = Arc::new(new);
                replaced[0] = mapped.by_address.insert(address, Arc::clone(&new));
                new
            };
            entry.known.lock().keys.push(key.clone());
            replaced[1] = mapped.by_key.insert(key.clone(), Arc::clone(&entry));
            entry
        };
        entry.known.lock().slots |= 1 << slot;
        let share = Arc::new(Share { entry });
        let shadowed = self
            .slots
            .get(slot)
            .and_then(|slot| slot.0.lock().insert(key.clone(), Arc::clone(&share)));
        drop(mapped);
        drop((unused, replaced, shadowed));
        Ok(share)
    }

    /// An import leaves: [falls](Share::fall) and, if it is the last, [ends](Self::end) the mapping; else `None`.
    pub(crate) fn leave<R>(
        &self,
        share: &Share<K, M>,
        address: u64,
        free: impl FnOnce(&M) -> (Freed, R),
    ) -> Option<R> {
        if share.fall() { self.end(share, address, free) } else { None }
    }

    /// Frees a mapping whose count fell to 0 by `free`, under the one mutex. `None`: another import adopted it meanwhile, or
    /// another one that left has ended it.
    pub(crate) fn end<R>(
        &self,
        share: &Share<K, M>,
        address: u64,
        free: impl FnOnce(&M) -> (Freed, R),
    ) -> Option<R> {
        let entry = &*share.entry;
        let mut mapped = self.mapped.lock();
        let dead = entry.imports.0.compare_exchange(0, DEAD, Ordering::AcqRel, Ordering::Acquire);
        if dead.is_err() && !mutant::is_out("import-adoption") {
            return None;
        }
        let (freed, result) = free(&entry.mapping);
        match freed {
            Freed::Gone => self.forget(entry, address, &mut mapped),
            // Alive, with one import more than there are look-ups that have added to it meanwhile.
            Freed::Again => {
                entry.imports.0.fetch_sub(DEAD - 1, Ordering::AcqRel);
            }
        }
        Some(result)
    }

    /// Takes an entry out from under its address and all its keys. The caller holds it, so that it doesn't end here.
    fn forget(&self, entry: &Entry<K, M>, address: u64, mapped: &mut Mapped<K, M>) {
        let is_it = |found: &Arc<Entry<K, M>>| std::ptr::eq(&raw const **found, entry);
        if mapped.by_address.get(&address).is_some_and(is_it) {
            mapped.by_address.remove(&address);
        }
        let Known { keys, slots } =
            mem::replace(&mut *entry.known.lock(), Known { keys: Vec::new(), slots: 0 });
        for key in &keys {
            if mapped.by_key.get(key).is_some_and(is_it) {
                mapped.by_key.remove(key);
            }
        }
        for (number, slot) in self.slots.iter().enumerate() {
            if slots & (1 << number) == 0 {
                continue;
            }
            let mut shares = slot.0.lock();
            for key in &keys {
                if shares.get(key).is_some_and(|share| is_it(&share.entry)) {
                    shares.remove(key);
                }
            }
        }
    }

    /// How many are mapped.
    pub(crate) fn mapped(&self) -> usize {
        self.mapped.lock().by_address.len()
    }
}
