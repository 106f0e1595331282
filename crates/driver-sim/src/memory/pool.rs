//! A memory pool's state: what it was made with, its attributes, its counters, who may reach its memory.
//!
//! ```text
//!   allocate ──► used + size            reserved grows in chunks of 32 MiB where the idle part doesn't suffice
//!   free enqueued ──► used - size       the memory is idle for later work of the same stream only
//!   free executed ──► idle for all
//!   synchronize, trim ──► idle chunks above the threshold go back to the device
//! ```
//!
//! Measured (`pool-counters`, `pool`, `pool-access`): what counts as used is the size asked for, and it falls when
//! the free is enqueued; what is reserved falls at a synchronize; a high-water mark is reset to the value of the
//! moment, by writing 0 and nothing else.

use cuhold_driver_sys::ffi::{CUmemPool_attribute, CUresult};
use std::collections::BTreeMap;

use super::pool_end::HeldFrees;
use crate::audit::CallSite;

/// What a pool takes from its device at a time, in bytes.
pub(crate) const CHUNK_BYTES: u64 = 32 << 20;

/// A pool's memory is handed out in multiples of this, in bytes.
const GRANULE_BYTES: u64 = 512;

/// Where a pool's memory lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Location {
    Device(usize),
    Host,
    HostNuma(i32),
    /// Nowhere in particular: managed memory that no place is preferred for.
    Anywhere,
}

/// What kind of memory a pool has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Pinned,
    /// Moved to where it is used; the pool's location is the preferred one.
    Managed,
}

/// What a device may do with a pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Access {
    None,
    Read,
    ReadWrite,
}

/// A counter and the highest value it had since the mark was reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Gauge {
    current: u64,
    high: u64,
}

impl Gauge {
    fn set(&mut self, value: u64) {
        self.current = value;
        self.high = self.high.max(value);
    }
}

/// What a stream's enqueued frees have left for the stream's own later allocations.
type StreamKey = u64;

/// A pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) location: Location,
    /// The most it may take from its device, in bytes; 0 is no limit of its own.
    pub(crate) size_max_bytes: u64,
    pub(crate) kind: Kind,
    /// A device's default pool can't be destroyed.
    pub(crate) is_default: bool,
    /// Whether it may be exported as a file.
    pub(crate) is_shareable: bool,
    /// Whether it was.
    pub(crate) is_exported: bool,
    /// Of a pool that was imported: how often beyond the first time.
    pub(crate) imports: u64,
    /// Of a pool that was imported: the exporting process, and the number of the pool's key there.
    pub(crate) imported: Option<(u64, u64)>,
    threshold: u64,
    /// The three reuse settings, as set.
    reuse: [i32; 3],
    used: Gauge,
    reserved: Gauge,
    /// Handed out, or freed by work that wasn't executed yet.
    occupied: u64,
    /// Of `occupied`: freed in this stream's order, so that the same stream may have it again at once.
    freed_in: BTreeMap<StreamKey, u64>,
    /// Allocations whose free wasn't executed.
    outstanding: u64,
    /// Of those: whose free was enqueued.
    freed: u64,
    access: BTreeMap<Location, Access>,
    /// The calls that took devices' access away.
    taken: BTreeMap<Location, CallSite>,
    /// What was freed of it behind pending work.
    pub(super) held_frees: HeldFrees,
}

/// What a pool counts, for a picture of it; the first four in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
    /// Allocations whose free wasn't executed.
    pub(crate) allocations: u64,
    /// Of those: whose free was enqueued.
    pub(crate) freed: u64,
}

/// An attribute's value, in its C type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Int(i32),
    U64(u64),
}

impl Pool {
    /// A pool of page-locked memory.
    pub(crate) fn new(location: Location, size_max_bytes: u64) -> Self {
        Self::of(location, Kind::Pinned, size_max_bytes)
    }

    /// A pool of either kind. Managed memory tells at first of nobody's access, not even its own place's (measured).
    pub(crate) fn of(location: Location, kind: Kind, size_max_bytes: u64) -> Self {
        let access = match kind {
            Kind::Pinned => BTreeMap::from([(location, Access::ReadWrite)]),
            Kind::Managed => BTreeMap::new(),
        };
        Self {
            location,
            size_max_bytes,
            kind,
            is_default: false,
            is_shareable: false,
            is_exported: false,
            imports: 0,
            imported: None,
            threshold: 0,
            reuse: [1; 3],
            used: Gauge::default(),
            reserved: Gauge::default(),
            occupied: 0,
            freed_in: BTreeMap::new(),
            outstanding: 0,
            freed: 0,
            access,
            taken: BTreeMap::new(),
            held_frees: HeldFrees::default(),
        }
    }

    /// What it counts.
    pub(crate) const fn counters(&self) -> Counters {
        Counters {
            used: self.used.current,
            used_high: self.used.high,
            reserved: self.reserved.current,
            reserved_high: self.reserved.high,
            allocations: self.outstanding,
            freed: self.freed,
        }
    }

    /// How many bytes of its device the pool holds.
    pub(crate) const fn reserved_bytes(&self) -> u64 {
        self.reserved.current
    }

    /// Whether every allocation was freed and every free executed.
    pub(crate) const fn is_unused(&self) -> bool {
        self.outstanding == 0
    }

    /// Whether every allocation was freed, though a free may not have been executed.
    pub(crate) const fn is_freed(&self) -> bool {
        self.outstanding == self.freed
    }

    /// Whether more is reserved than is handed out.
    pub(crate) const fn has_idle_memory(&self) -> bool {
        self.reserved.current > self.occupied
    }

    /// Takes `size_bytes` for work of `stream`. `device_free_bytes` is what the device still has to give.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`, with nothing changed, where the pool's limit or the device doesn't allow it.
    pub(crate) fn allocate(
        &mut self,
        size_bytes: u64,
        stream: StreamKey,
        device_free_bytes: u64,
    ) -> Result<(), CUresult> {
        let span = round_up(size_bytes, GRANULE_BYTES)?;
        let own = self.freed_in.get(&stream).copied().unwrap_or(0).min(span);
        let occupied = self.occupied + (span - own);
        let missing = occupied.saturating_sub(self.reserved.current);
        let growth = round_up(missing, CHUNK_BYTES)?;
        let reserved = self.reserved.current + growth;
        let limit = match self.size_max_bytes {
            0 => u64::MAX,
            limit => round_up(limit, CHUNK_BYTES)?,
        };
        if growth > device_free_bytes || reserved > limit {
            return Err(CUresult::OUT_OF_MEMORY);
        }
        self.take_own(stream, own);
        self.occupied = occupied;
        self.reserved.set(reserved);
        self.used.set(self.used.current + size_bytes);
        self.outstanding += 1;
        Ok(())
    }

    /// Memory of the pool was imported: the exporter counts it, here it only keeps the pool.
    pub(crate) const fn import_memory(&mut self) {
        self.outstanding += 1;
    }

    /// A free was enqueued on `stream`.
    pub(crate) fn enqueue_free(&mut self, size_bytes: u64, stream: StreamKey) {
        self.used.set(self.used.current.saturating_sub(size_bytes));
        self.freed += 1;
        *self.freed_in.entry(stream).or_insert(0) += granules(size_bytes);
    }

    /// The free that was enqueued on `stream` was executed.
    pub(crate) fn execute_free(&mut self, size_bytes: u64, stream: StreamKey) {
        let own = self.freed_in.get(&stream).copied().unwrap_or(0).min(granules(size_bytes));
        self.take_own(stream, own);
        self.occupied = self.occupied.saturating_sub(own);
        self.outstanding = self.outstanding.saturating_sub(1);
        self.freed = self.freed.saturating_sub(1);
    }

    fn take_own(&mut self, stream: StreamKey, bytes: u64) {
        if let Some(own) = self.freed_in.get_mut(&stream) {
            *own -= bytes;
            if *own == 0 {
                self.freed_in.remove(&stream);
            }
        }
    }

    /// Gives idle memory above the release threshold back, as a synchronize does.
    pub(crate) fn synchronize(&mut self) {
        self.give_back(self.threshold / CHUNK_BYTES * CHUNK_BYTES);
    }

    /// Gives idle memory back, but keeps at least `keep_bytes` reserved.
    pub(crate) fn trim_to(&mut self, keep_bytes: u64) {
        self.give_back(round_up(keep_bytes, CHUNK_BYTES).unwrap_or(u64::MAX));
    }

    fn give_back(&mut self, keep_bytes: u64) {
        let needed = round_up(self.occupied, CHUNK_BYTES).unwrap_or(u64::MAX);
        self.reserved.current = self.reserved.current.min(needed.max(keep_bytes));
    }

    /// Whether its memory is managed.
    pub(crate) const fn is_managed(&self) -> bool {
        matches!(self.kind, Kind::Managed)
    }

    /// Whether its memory lies on the host.
    pub(crate) const fn is_on_host(&self) -> bool {
        self.is_managed() || !matches!(self.location, Location::Device(_))
    }

    /// Whether a device reaches the pool's memory. Managed memory goes to whoever uses it, whatever the pool tells (measured).
    pub(crate) fn is_open_to(&self, device: usize) -> bool {
        self.is_managed() || self.access(Location::Device(device)) == Access::ReadWrite
    }

    /// What a pool tells that may be done with its memory from a place. The host's memory is one for all of its nodes.
    pub(crate) fn access(&self, location: Location) -> Access {
        let is_host = |place| matches!(place, Location::Host | Location::HostNuma(_));
        if !self.is_managed() && is_host(location) && is_host(self.location) {
            return Access::ReadWrite;
        }
        self.access.get(&location).copied().unwrap_or(Access::None)
    }

    /// Remembers which call took access away.
    pub(crate) fn note_taken(&mut self, list: &[(Location, Access)], by: CallSite) {
        let taken = list.iter().filter(|(_, access)| *access == Access::None);
        self.taken.extend(taken.map(|(location, _)| (*location, by)));
    }

    /// The call that took a device's access away, if one did.
    pub(crate) fn taken_from(&self, device: usize) -> Option<CallSite> {
        self.taken.get(&Location::Device(device)).copied()
    }

    /// What it granted beyond the access that a pool has of itself.
    pub(crate) fn left_access(&self) -> BTreeMap<Location, Access> {
        let granted = self.access.iter().map(|(location, access)| (*location, *access));
        granted
            .filter(|(location, access)| *location != self.location && *access != Access::None)
            .collect()
    }

    /// Begins with access that another pool left.
    pub(crate) fn inherit(&mut self, access: BTreeMap<Location, Access>) {
        for (location, access) in access {
            self.access.entry(location).or_insert(access);
        }
    }

    /// Grants and takes access, all of the list or nothing. A pool on the host, and any of managed memory, takes places on
    /// the host as well; of managed memory any access may be taken away (measured).
    ///
    /// # Errors
    /// `INVALID_DEVICE` for a location that isn't one of `devices` devices, and for taking the owner's access away;
    /// `NOT_SUPPORTED` for reading alone.
    pub(crate) fn set_access(
        &mut self,
        list: &[(Location, Access)],
        devices: usize,
    ) -> Result<(), CUresult> {
        for (location, access) in list {
            let exists = *location == self.location
                || match location {
                    Location::Device(device) => *device < devices,
                    Location::Host | Location::HostNuma(0) => self.is_on_host(),
                    Location::HostNuma(_) | Location::Anywhere => false,
                };
            let is_owner = *location == self.location && !self.is_managed();
            match access {
                _ if !exists => return Err(CUresult::INVALID_DEVICE),
                Access::None if is_owner => return Err(CUresult::INVALID_DEVICE),
                Access::Read => return Err(CUresult::NOT_SUPPORTED),
                Access::None | Access::ReadWrite => {}
            }
        }
        self.access.extend(list.iter().copied());
        Ok(())
    }

    /// An attribute's value.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an attribute that a 13.0 driver doesn't know.
    pub(crate) fn attribute(&self, attribute: CUmemPool_attribute) -> Result<Value, CUresult> {
        Ok(match attribute {
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => Value::U64(self.threshold),
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => {
                Value::U64(self.reserved.current)
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => {
                Value::U64(self.reserved.high)
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => Value::U64(self.used.current),
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => Value::U64(self.used.high),
            _ => {
                let setting = reuse_index(attribute).and_then(|i| self.reuse.get(i));
                Value::Int(*setting.ok_or(CUresult::INVALID_VALUE)?)
            }
        })
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a counter, for a high-water mark that isn't set to 0, and for an unknown attribute.
    pub(crate) fn set_attribute(
        &mut self,
        attribute: CUmemPool_attribute,
        value: Value,
    ) -> Result<(), CUresult> {
        match (attribute, value) {
            (CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, Value::U64(threshold)) => {
                self.threshold = threshold;
            }
            (CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, Value::U64(0)) => {
                self.reserved.high = self.reserved.current;
            }
            (CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, Value::U64(0)) => {
                self.used.high = self.used.current;
            }
            (_, Value::Int(setting)) => {
                let place = reuse_index(attribute).and_then(|i| self.reuse.get_mut(i));
                *place.ok_or(CUresult::INVALID_VALUE)? = setting;
            }
            (_, Value::U64(_)) => return Err(CUresult::INVALID_VALUE),
        }
        Ok(())
    }
}

/// Whether the attribute's C type is `int`; the others are 64-bit.
pub(crate) fn is_int(attribute: CUmemPool_attribute) -> bool {
    reuse_index(attribute).is_some()
}

fn reuse_index(attribute: CUmemPool_attribute) -> Option<usize> {
    [
        CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
    ]
    .into_iter()
    .position(|a| a == attribute)
}

fn round_up(bytes: u64, unit: u64) -> Result<u64, CUresult> {
    bytes.checked_next_multiple_of(unit).ok_or(CUresult::OUT_OF_MEMORY)
}

/// The span of an allocation that was accepted, and so can be rounded up.
fn granules(size_bytes: u64) -> u64 {
    size_bytes.checked_next_multiple_of(GRANULE_BYTES).unwrap_or(size_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    const USED_HIGH: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    const RESERVED: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    const RESERVED_HIGH: CUmemPool_attribute =
        CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    const THRESHOLD: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

    fn counters(pool: &Pool) -> [u64; 4] {
        [USED, RESERVED, USED_HIGH, RESERVED_HIGH].map(|a| match pool.attribute(a) {
            Ok(Value::U64(value)) => value,
            other => panic!("{other:?}"),
        })
    }

    fn pool() -> Pool {
        Pool::new(Location::Device(0), 0)
    }

    #[test]
    fn the_counters_move_as_they_were_measured() {
        let mut pool = pool();
        assert_eq!(counters(&pool), [0, 0, 0, 0]);
        pool.allocate(1000, 1, 1 << 40).unwrap();
        assert_eq!(counters(&pool), [1000, 33_554_432, 1000, 33_554_432]);
        pool.enqueue_free(1000, 1);
        assert_eq!(counters(&pool), [0, 33_554_432, 1000, 33_554_432]);
        pool.execute_free(1000, 1);
        pool.synchronize();
        assert_eq!(counters(&pool), [0, 0, 1000, 33_554_432]);
        pool.trim_to(0);
        assert_eq!(counters(&pool), [0, 0, 1000, 33_554_432]);
        pool.set_attribute(USED_HIGH, Value::U64(0)).unwrap();
        assert_eq!(counters(&pool), [0, 0, 0, 33_554_432]);
        assert_eq!(pool.set_attribute(USED_HIGH, Value::U64(5)), Err(CUresult::INVALID_VALUE));
        assert_eq!(pool.set_attribute(USED, Value::U64(0)), Err(CUresult::INVALID_VALUE));
    }

    #[test]
    fn a_free_that_was_not_executed_keeps_its_memory_reserved() {
        let mut pool = pool();
        pool.allocate(1000, 1, 1 << 40).unwrap();
        pool.enqueue_free(1000, 1);
        pool.synchronize();
        pool.trim_to(0);
        assert_eq!(pool.reserved_bytes(), CHUNK_BYTES);
        assert!(!pool.is_unused());
    }

    #[test]
    fn memory_freed_in_a_stream_is_had_again_by_the_same_stream_at_once() {
        let mut pool = pool();
        for _ in 0..100 {
            pool.allocate(CHUNK_BYTES, 1, 1 << 40).unwrap();
            pool.enqueue_free(CHUNK_BYTES, 1);
        }
        assert_eq!(pool.reserved_bytes(), CHUNK_BYTES);
        pool.allocate(CHUNK_BYTES, 2, 1 << 40).unwrap();
        assert_eq!(pool.reserved_bytes(), 2 * CHUNK_BYTES);
        for _ in 0..100 {
            pool.execute_free(CHUNK_BYTES, 1);
        }
        pool.synchronize();
        assert_eq!(pool.reserved_bytes(), CHUNK_BYTES);
    }

    #[test]
    fn the_threshold_keeps_idle_chunks() {
        let mut pool = pool();
        pool.set_attribute(THRESHOLD, Value::U64(2 * CHUNK_BYTES + 5)).unwrap();
        pool.allocate(3 * CHUNK_BYTES, 1, 1 << 40).unwrap();
        pool.enqueue_free(3 * CHUNK_BYTES, 1);
        pool.execute_free(3 * CHUNK_BYTES, 1);
        pool.synchronize();
        assert_eq!(pool.reserved_bytes(), 2 * CHUNK_BYTES);
        pool.trim_to(1);
        assert_eq!(pool.reserved_bytes(), CHUNK_BYTES);
    }

    #[test]
    fn a_refused_allocation_changes_nothing() {
        let mut capped = Pool::new(Location::Device(0), CHUNK_BYTES);
        capped.allocate(CHUNK_BYTES, 1, 1 << 40).unwrap();
        let before = counters(&capped);
        assert_eq!(capped.allocate(1, 1, 1 << 40), Err(CUresult::OUT_OF_MEMORY));
        assert_eq!(capped.allocate(u64::MAX, 1, 1 << 40), Err(CUresult::OUT_OF_MEMORY));
        assert_eq!(counters(&capped), before);
        assert_eq!(pool().allocate(1, 1, CHUNK_BYTES - 1), Err(CUresult::OUT_OF_MEMORY));
    }

    #[test]
    fn an_access_list_is_taken_as_a_whole_or_not_at_all() {
        let mut pool = pool();
        let grant = (Location::Device(1), Access::ReadWrite);
        let refused = [
            ((Location::Device(0), Access::None), CUresult::INVALID_DEVICE),
            ((Location::Device(0), Access::Read), CUresult::NOT_SUPPORTED),
            ((Location::Device(9), Access::ReadWrite), CUresult::INVALID_DEVICE),
        ];
        for (bad, status) in refused {
            assert_eq!(pool.set_access(&[grant, bad], 2), Err(status));
            assert_eq!(pool.access(Location::Device(1)), Access::None);
        }
        pool.set_access(&[grant, (Location::Device(0), Access::ReadWrite)], 2).unwrap();
        assert_eq!(pool.access(Location::Device(1)), Access::ReadWrite);
        pool.set_access(&[], 2).unwrap();
        pool.set_access(&[(Location::Device(1), Access::None)], 2).unwrap();
        assert_eq!(pool.access(Location::Device(1)), Access::None);
    }

    #[test]
    fn reuse_settings_are_ints_and_on_at_first() {
        let mut pool = pool();
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
        assert!(is_int(attribute) && !is_int(THRESHOLD));
        assert_eq!(pool.attribute(attribute), Ok(Value::Int(1)));
        pool.set_attribute(attribute, Value::Int(0)).unwrap();
        assert_eq!(pool.attribute(attribute), Ok(Value::Int(0)));
        assert_eq!(pool.attribute(CUmemPool_attribute(99)), Err(CUresult::INVALID_VALUE));
    }
}
