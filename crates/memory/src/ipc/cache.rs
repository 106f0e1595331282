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
//! | a look-up that hits | its shard's, for reading |
//! | a miss; the last that leaves | the one mutex, under which both look again |
//! | the driver's import and its free | made under that mutex, so that no import meets a free |
//!
//! Between the count's fall to 0 and the mutex another import may adopt the entry; then it isn't freed. Of several that
//! brought the count to 0 the first that has the mutex frees, and the others find it dead. An entry whose free failed is
//! gone as well: whether the address is still mapped isn't known, so it is never used again.
//!
//! `tests/model.rs` runs this file under loom, in all orders of its steps.

use super::sync::{Arc, AtomicUsize, Mutex, Ordering, RwLock};
use std::collections::BTreeMap;

/// The mapping was freed, or its free was tried: nobody may use it, nor free it again.
const DEAD: usize = 1 << (usize::BITS - 1);

/// A mapping with its number of imports.
#[derive(Debug)]
pub(crate) struct Entry<K, M> {
    imports: AtomicUsize,
    /// Every key that names it. Only read and written under the one mutex.
    keys: Mutex<Vec<K>>,
    mapping: M,
}

impl<K, M> Entry<K, M> {
    /// What is mapped.
    pub(crate) fn mapping(&self) -> &M {
        &self.mapping
    }

    /// One more import, unless the mapping is dead.
    fn acquire(&self) -> bool {
        let one_more = |imports| (imports & DEAD == 0).then_some(imports + 1);
        self.imports.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
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

/// A shard: what hits read.
type Shard<K, M> = RwLock<BTreeMap<K, Arc<Entry<K, M>>>>;

/// The mappings of a pool.
#[derive(Debug)]
pub(crate) struct Cache<K, M> {
    shards: Vec<Shard<K, M>>,
    spread: fn(&K) -> usize,
    /// The one mutex, with the mappings by their addresses: memory that was exported twice may have two keys.
    by_address: Mutex<BTreeMap<u64, Arc<Entry<K, M>>>>,
}

impl<K: Ord + Clone, M> Cache<K, M> {
    /// An empty cache with so many shards; `spread` says which of them a key is in.
    pub(crate) fn new(shards: usize, spread: fn(&K) -> usize) -> Self {
        let shards = (0..shards.max(1)).map(|_| RwLock::new(BTreeMap::new())).collect();
        Self { shards, spread, by_address: Mutex::new(BTreeMap::new()) }
    }

    fn shard(&self, key: &K) -> Option<&Shard<K, M>> {
        self.shards.get((self.spread)(key) % self.shards.len())
    }

    /// One more import of what is mapped already.
    fn hit(&self, key: &K) -> Option<Arc<Entry<K, M>>> {
        let shard = self.shard(key)?.read();
        shard.get(key).filter(|entry| entry.acquire()).cloned()
    }

    /// One more import of what the key names; where it isn't mapped, `map` maps it and says at which address.
    ///
    /// `map` runs under the one mutex, and may find that the driver gave a mapping that is here under another key: what it
    /// returned is then dropped, and the other taken.
    ///
    /// # Errors
    /// Those of `map`.
    pub(crate) fn enter<E>(
        &self,
        key: &K,
        map: impl FnOnce() -> Result<(u64, M), E>,
    ) -> Result<Arc<Entry<K, M>>, E> {
        if let Some(entry) = self.hit(key) {
            return Ok(entry);
        }
        // What is no longer needed goes once the locks are released: it may be a last handle.
        let (mut unused, mut replaced) = (None, None);
        let mut by_address = self.by_address.lock();
        if let Some(entry) = self.hit(key) {
            return Ok(entry);
        }
        let (address, mapping) = map()?;
        let known = by_address.get(&address).filter(|entry| entry.acquire()).cloned();
        let entry = if let Some(known) = known {
            known.keys.lock().push(key.clone());
            unused = Some(mapping);
            known
        } else {
            let keys = Mutex::new(vec![key.clone()]);
            let new = Arc::new(Entry { imports: AtomicUsize::new(1), keys, mapping });
            replaced = by_address.insert(address, Arc::clone(&new));
            new
        };
        let shadowed =
            self.shard(key).and_then(|shard| shard.write().insert(key.clone(), Arc::clone(&entry)));
        drop(by_address);
        drop((unused, replaced, shadowed));
        Ok(entry)
    }

    /// An import leaves. The last one frees the mapping by `free`, under the one mutex, unless it was adopted meanwhile;
    /// then, and if others are left, `None`.
    pub(crate) fn leave<R>(
        &self,
        entry: &Entry<K, M>,
        address: u64,
        free: impl FnOnce(&M) -> (Freed, R),
    ) -> Option<R> {
        if entry.imports.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        let mut by_address = self.by_address.lock();
        let dead = entry.imports.compare_exchange(0, DEAD, Ordering::AcqRel, Ordering::Acquire);
        if dead.is_err() {
            return None;
        }
        let (freed, result) = free(&entry.mapping);
        match freed {
            Freed::Gone => self.forget(entry, address, &mut by_address),
            // Nobody but this thread changes the count of a dead entry.
            Freed::Again => entry.imports.store(1, Ordering::Release),
        }
        Some(result)
    }

    /// Takes an entry out from under its address and all its keys. The caller holds it, so that it doesn't end here.
    fn forget(
        &self,
        entry: &Entry<K, M>,
        address: u64,
        by_address: &mut BTreeMap<u64, Arc<Entry<K, M>>>,
    ) {
        let is_it = |found: &Arc<Entry<K, M>>| std::ptr::eq(&raw const **found, entry);
        if by_address.get(&address).is_some_and(is_it) {
            by_address.remove(&address);
        }
        for key in entry.keys.lock().drain(..) {
            let Some(shard) = self.shard(&key) else { continue };
            let mut shard = shard.write();
            if shard.get(&key).is_some_and(is_it) {
                shard.remove(&key);
            }
        }
    }

    /// How many are mapped.
    pub(crate) fn mapped(&self) -> usize {
        self.by_address.lock().len()
    }
}
