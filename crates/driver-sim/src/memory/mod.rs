//! Memory of every kind: where it lies, who owns it, how much of a device is taken.
//!
//! ```text
//!   space.rs    every allocation by address, with its bytes        bytes.rs, host.rs   the bytes themselves
//!   pool.rs     a pool's counters and settings                     copy.rs             what a copy or fill will do
//!   advice.rs   what managed pages were advised                   share.rs, file.rs   what processes share
//!   pool_end.rs   pools that end too early for a stream that frees
//!   graph_memory.rs   what graphs allocate               touched.rs          what the checker of order sees
//!   alloc.rs, page_locked.rs, ordered.rs, pools.rs, transfer.rs, copy_with.rs, boxed.rs, fill.rs, managed.rs,
//!   managed_batch.rs, range.rs, value.rs, attribute.rs, physical.rs, mapping.rs, ipc.rs, pool_share.rs          the driver's functions
//! ```
//!
//! This file joins them: [`Memory`] is the one place where an allocation, its pool and its device meet.

mod advice;
mod alloc;
mod attribute;
mod boxed;
mod bytes;
mod copy;
mod copy_with;
mod dump;
mod file;
mod fill;
mod graph_memory;
mod host;
mod ipc;
mod kernel;
mod managed;
mod managed_batch;
mod mapping;
mod ordered;
mod page_locked;
mod physical;
mod pool;
mod pool_end;
mod pool_place;
mod pool_share;
mod pools;
mod range;
mod share;
mod shared_block;
mod space;
mod touched;
mod transfer;
mod value;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cuhold_driver_sys::{CUresult, Call};

pub(crate) use self::{
    alloc::{address_range, allocate, allocate_managed, allocate_pitch, free, info},
    attribute::{attribute, attributes, set_attribute},
    boxed::{
        array_to_host, copy_2d_async, copy_3d_async, copy_3d_peer_async, copy_batch, copy_batch_v2,
        host_to_array, node_copy,
    },
    copy_with::copy_with_attributes,
    fill::{
        fill_2d_d8, fill_2d_d16, fill_2d_d32, fill_async_d8, fill_async_d16, fill_async_d32,
        fill_d8, fill_d32, node_fill,
    },
    graph_memory::{GraphCount, GraphMemory, graph_place},
    ipc::{ipc_close, ipc_handle, ipc_open},
    kernel::KernelAccess,
    managed::{advise, advise_v2, attach, prefetch, prefetch_v2},
    managed_batch::{discard_and_prefetch_batch, discard_batch, prefetch_batch},
    mapping::{access, map, reservation_free, reserve, set_access, unmap},
    ordered::{allocate_async, allocate_from_pool, free_async},
    page_locked::{
        allocate_host, device_pointer, free_host, host_alloc, host_flags, register, unregister,
    },
    physical::{
        granularity, physical_create, physical_export, physical_import, physical_properties,
        physical_release, physical_retain,
    },
    pool_place::{location_default_pool, location_pool, location_set_pool},
    pool_share::{pool_export, pool_export_pointer, pool_import, pool_import_pointer},
    pools::{
        device_default_pool, device_pool, device_set_pool, pool_access, pool_attribute,
        pool_create, pool_destroy, pool_set_access, pool_set_attribute, pool_trim,
    },
    range::{range_attribute, range_attributes},
    share::{Exchange, HandleOf, SharedEvent, from_c, handle, named, to_c},
    space::{Misplaced, Origin},
    touched::Piece,
    transfer::{
        copy, copy_async, copy_peer_async, device_to_device, device_to_device_async,
        device_to_host, device_to_host_async, host_to_device, host_to_device_async,
    },
    value::{Await, batch, node_batch, wait_32, wait_64, write_32, write_64},
};
use self::{
    ipc::Opened,
    mapping::Reservation,
    physical::Physical,
    pool::{Access, Location, Pool},
    pool_end::Danger,
    pool_place::{Place, PlacePools},
    space::{Allocation, Request, Space},
};
use crate::{
    audit::{CallSite, Leak, ObjectKind, Violation, ViolationKind},
    context::Context,
    options::SimOptions,
    queue::QueueId,
    world::{Absent, Ending, Key, State, Table, Values},
};

/// The addresses that pools share, in bytes: what a host's 47 bits leave. A pool takes twice its limit of it, or, without
/// one, twice its device's memory, which is why the 467th or 468th such pool of an H200 was refused (measured, in two
/// readings; of half as much the 936th, of a quarter the 1873rd; a pool of the host's memory takes as much).
const POOL_ADDRESS_BYTES: u64 = (1 << 47) - (3 << 37);

/// A device's memory is taken in multiples of this, in bytes.
const GRANULE_BYTES: u64 = 512;

/// A device's memory.
#[derive(Debug)]
struct DeviceMemory {
    total_bytes: u64,
    /// What allocations outside of pools take.
    taken_bytes: u64,
    /// What physical memory takes.
    physical_bytes: Arc<AtomicU64>,
    default_pool: Key<Pool>,
    current_pool: Key<Pool>,
}

/// The state of all memory.
#[derive(Debug)]
pub(crate) struct Memory {
    space: Space,
    pools: Table<Pool>,
    /// Pools that were destroyed and still have allocations, by the number of their key.
    dying: BTreeMap<u64, Pool>,
    devices: Vec<DeviceMemory>,
    /// The pools of the places that were asked for theirs.
    places: BTreeMap<Place, PlacePools>,
    /// The access that destroyed pools had granted, by their handles' values: a pool that gets the value again begins with
    /// it, as a public report says of real drivers.
    left_access: BTreeMap<usize, BTreeMap<Location, Access>>,
    /// Page-locked memory of contexts that ended: the program may still hold its address, so it stays.
    kept: Vec<Allocation>,
    physical: Table<Physical>,
    /// Reserved addresses, by their beginning.
    reservations: BTreeMap<u64, Reservation>,
    /// Memory of graphs, by its address, and what of it each device has out.
    graphs: BTreeMap<u64, GraphMemory>,
    graph_counts: BTreeMap<usize, GraphCount>,
    /// Memory of other processes, by its address here.
    opened: BTreeMap<u64, Opened>,
    /// The streams that may not be waited for any more.
    dangers: BTreeMap<QueueId, Danger>,
    /// What was freed although it was in use elsewhere, until the violations are read.
    pub(crate) freed_early: Vec<Violation>,
    /// What is shared with other processes, and this one's number among them.
    pub(crate) exchange: Exchange,
    pub(crate) process: u64,
}

impl Memory {
    pub(crate) fn new(options: &SimOptions, exchange: Exchange, values: Values) -> Self {
        let made = CallSite::new(0, Call::cuInit, std::thread::current().id());
        let mut pools = Table::new(ObjectKind::Pool, values);
        let devices = options.devices.iter().enumerate().map(|(index, device)| {
            let mut pool = Pool::new(Location::Device(index), 0);
            pool.is_default = true;
            let default_pool = pools.insert(made, pool);
            DeviceMemory {
                total_bytes: device.memory_bytes as u64,
                taken_bytes: 0,
                physical_bytes: Arc::default(),
                default_pool,
                current_pool: default_pool,
            }
        });
        let devices = devices.collect();
        let space = Space::new(values);
        Self {
            space,
            pools,
            dying: BTreeMap::new(),
            devices,
            places: BTreeMap::new(),
            left_access: BTreeMap::new(),
            kept: Vec::new(),
            physical: Table::new(ObjectKind::PhysicalAllocation, values),
            reservations: BTreeMap::new(),
            graphs: BTreeMap::new(),
            graph_counts: BTreeMap::new(),
            opened: BTreeMap::new(),
            dangers: BTreeMap::new(),
            freed_early: Vec::new(),
            process: values.process,
            exchange,
        }
    }

    /// What is allocated and wasn't freed. Memory whose free was enqueued was, and a module's or a graph's isn't the
    /// caller's to free.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        let allocations = self
            .space
            .iter()
            .filter(|a| {
                !matches!(a.origin, Origin::Module(..) | Origin::Graph(_) | Origin::Behind(_))
            })
            .filter(|a| a.free_enqueued.is_none())
            .map(|a| Leak::new(a.origin.kind(), a.base, a.made));
        let pools = self.pools.leaks().filter(|leak| {
            let key = usize::try_from(leak.raw).ok().and_then(|raw| self.pools.find(raw));
            key.and_then(|key| self.pools.get(key)).is_some_and(|pool| !pool.is_default)
        });
        let reservations = self
            .reservations
            .iter()
            .map(|(base, found)| Leak::new(ObjectKind::Reservation, *base, found.made));
        allocations.chain(pools).chain(self.physical.leaks()).chain(reservations)
    }

    /// What was allocated and not freed when its context ended and took it along.
    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        let freed = self.space.freed();
        freed
            .filter(|freed| matches!(freed.grave.ending, Ending::GoneWithContext(_)))
            .filter(|freed| !matches!(freed.origin, Origin::Module(..) | Origin::Behind(_)))
            .map(|freed| Leak::new(freed.origin.kind(), freed.base, freed.grave.made))
    }

    /// How many bytes a device has left.
    fn free_bytes(&self, device: usize) -> u64 {
        let Some(memory) = self.devices.get(device) else { return 0 };
        let pools: u64 = self
            .all_pools()
            .filter(|pool| pool.location == Location::Device(device) && !pool.is_managed())
            .map(Pool::reserved_bytes)
            .sum();
        let physical = memory.physical_bytes.load(Ordering::Relaxed);
        let free = memory.total_bytes.saturating_sub(memory.taken_bytes).saturating_sub(pools);
        free.saturating_sub(physical)
    }

    /// Whether the driver moves what is allocated so.
    fn is_managed(&self, origin: Origin) -> bool {
        match origin {
            Origin::Managed(_) => true,
            Origin::Pool(key) => self.pool(key).is_some_and(Pool::is_managed),
            _ => false,
        }
    }

    fn all_pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().map(|(_, pool)| pool).chain(self.dying.values())
    }

    fn pool(&self, key: Key<Pool>) -> Option<&Pool> {
        self.pools.get(key).or_else(|| self.dying.get(&key.id()))
    }

    fn pool_mut(&mut self, key: Key<Pool>) -> Option<&mut Pool> {
        self.pools.get_mut(key).or_else(|| self.dying.get_mut(&key.id()))
    }

    /// How many of the pools' addresses a pool takes, in bytes.
    fn window_bytes(&self, pool: &Pool) -> u64 {
        match pool.location {
            // Those are the exporter's.
            _ if pool.imported.is_some() || pool.is_managed() => 0,
            _ if pool.size_max_bytes != 0 => pool.size_max_bytes.saturating_mul(2),
            Location::Device(device) => {
                self.devices.get(device).map_or(0, |d| d.total_bytes.saturating_mul(2))
            }
            Location::Host | Location::HostNuma(_) | Location::Anywhere => 0,
        }
    }

    /// Adds a pool; `OUT_OF_MEMORY` if the pools' addresses are used up.
    fn add_pool(&mut self, pool: Pool, made: CallSite) -> Result<Key<Pool>, CUresult> {
        let windows = self.all_pools().map(|pool| self.window_bytes(pool));
        let taken = windows.fold(self.window_bytes(&pool), u64::saturating_add);
        if taken > POOL_ADDRESS_BYTES {
            return Err(CUresult::OUT_OF_MEMORY);
        }
        let key = self.pools.insert(made, pool);
        if let Some(pool) = self.pools.get_mut(key) {
            pool.inherit(self.left_access.remove(&key.raw()).unwrap_or_default());
        }
        Ok(key)
    }

    /// Ends a pool: at once if nothing of it is out, else with the last free.
    fn end_pool(&mut self, key: Key<Pool>, by: CallSite) {
        for device in self.devices.iter_mut().filter(|device| device.current_pool == key) {
            device.current_pool = device.default_pool;
        }
        for place in self.places.values_mut().filter(|place| place.current == key) {
            place.current = place.default;
        }
        let ended = self.pools.remove(key, by, Ending::Destroyed);
        if let Some(access) = ended.as_ref().map(Pool::left_access)
            && self.pools.is_reusing()
            && !access.is_empty()
        {
            self.left_access.insert(key.raw(), access);
        }
        if let Some(pool) = ended.filter(|pool| !pool.is_unused()) {
            self.dying.insert(key.id(), pool);
        }
    }

    /// The host saw work complete: pools give idle memory back.
    pub(crate) fn synchronized(&mut self) {
        for key in self.pools.keys(Pool::has_idle_memory) {
            if let Some(pool) = self.pools.get_mut(key) {
                pool.synchronize();
            }
        }
        self.dying.values_mut().for_each(Pool::synchronize);
    }

    /// Allocates device memory outside of pools.
    fn add_device(&mut self, request: Request) -> Result<u64, CUresult> {
        let span = request.size_bytes.checked_next_multiple_of(GRANULE_BYTES);
        let free = self.free_bytes(request.device);
        let span = span.filter(|span| *span <= free).ok_or(CUresult::OUT_OF_MEMORY)?;
        let base = self.space.add_device(request).ok_or(CUresult::OUT_OF_MEMORY)?;
        if let Some(device) = self.devices.get_mut(request.device) {
            device.taken_bytes += span;
        }
        Ok(base)
    }

    /// Allocates what lies behind an array or an object of another API.
    pub(crate) fn add_behind(
        &mut self,
        context: Key<Context>,
        device: usize,
        size_bytes: u64,
        made: CallSite,
    ) -> Result<u64, CUresult> {
        self.add_device(Request { size_bytes, origin: Origin::Behind(context), device, made })
    }

    /// Ends what lies behind an object that ends.
    pub(crate) fn remove_behind(&mut self, base: u64, by: CallSite) {
        drop(self.remove(base, by, Ending::Destroyed));
    }

    /// Maps memory of another API: an allocation of the context, to be freed as any.
    pub(crate) fn add_mapped(
        &mut self,
        context: Key<Context>,
        device: usize,
        size_bytes: u64,
        made: CallSite,
    ) -> Result<u64, CUresult> {
        self.add_device(Request { size_bytes, origin: Origin::Device(context), device, made })
    }

    /// Allocates from a pool for work of a stream, which `stream` is the number of.
    fn add_pooled(
        &mut self,
        key: Key<Pool>,
        stream: u64,
        request: Request,
    ) -> Result<u64, CUresult> {
        let free = self.free_bytes(request.device);
        let pool = self.pools.get_mut(key).ok_or(CUresult::INVALID_VALUE)?;
        let (on_host, is_shareable) = (pool.is_on_host(), pool.is_shareable);
        pool.allocate(request.size_bytes, stream, if on_host { u64::MAX } else { free })?;
        let base = match (on_host, is_shareable) {
            (true, true) => self.space.add_shareable_host(request),
            (true, false) => self.space.add_host(request),
            (false, _) => self.space.add_device(request),
        };
        if base.is_none() {
            pool.enqueue_free(request.size_bytes, stream);
            pool.execute_free(request.size_bytes, stream);
        }
        base.ok_or(CUresult::OUT_OF_MEMORY)
    }

    /// A variable's or a graph's memory, which isn't counted: on this device, or on the host beside it.
    pub(crate) fn add_uncounted(
        &mut self,
        size_bytes: u64,
        origin: Origin,
        (device, on_host): (usize, bool),
        made: CallSite,
    ) -> Result<u64, CUresult> {
        let request = Request { size_bytes, origin, device, made };
        let base = match on_host {
            true => self.space.add_host(request),
            false => self.space.add_device(request),
        };
        base.ok_or(CUresult::OUT_OF_MEMORY)
    }

    /// Writes to an allocation, whoever may reach it.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Misplaced> {
        self.space.write(address, bytes)
    }

    /// Takes an allocation out and gives its device or its pool what it held.
    fn remove(&mut self, base: u64, by: CallSite, ending: Ending) -> Option<Allocation> {
        let removed = self.space.remove(base, by, ending)?;
        if let (Origin::Device(_) | Origin::Behind(_), Some(device)) =
            (removed.origin, self.devices.get_mut(removed.device))
        {
            let span = removed.size_bytes.checked_next_multiple_of(GRANULE_BYTES).unwrap_or(0);
            device.taken_bytes = device.taken_bytes.saturating_sub(span);
        }
        if let Some(exported) = &removed.exported {
            self.exchange.withdraw_memory((self.process, removed.id));
            if exported.opens.load(Ordering::Relaxed) > 0 {
                self.freed_early.push(Violation {
                    kind: ViolationKind::EarlyFree,
                    object: Some((removed.origin.kind(), base)),
                    calls: vec![removed.made, by],
                    note: "another process has it open",
                    operations: Vec::new(),
                });
            }
        }
        if let Some((_, of)) = &removed.import {
            of.opens.fetch_sub(1, Ordering::Relaxed);
        }
        // Memory of another process is no longer open here.
        drop(self.opened.remove(&base));
        Some(removed)
    }

    /// A stream-ordered free, enqueued on the stream with this number, happens now.
    fn execute_free(&mut self, base: u64, stream: u64, by: CallSite) {
        let Some(removed) = self.remove(base, by, Ending::Destroyed) else { return };
        let Origin::Pool(key) = removed.origin else { return };
        if let Some(pool) = self.pool_mut(key) {
            pool.execute_free(removed.size_bytes, stream);
        }
        if self.dying.get(&key.id()).is_some_and(Pool::is_unused) {
            self.dying.remove(&key.id());
        }
    }

    /// Ends the memory that belongs to a module or a graph.
    pub(crate) fn remove_all(&mut self, which: impl Fn(Origin) -> bool, by: CallSite) {
        let bases: Vec<_> = self.space.iter().filter(|a| which(a.origin)).map(|a| a.base).collect();
        for base in bases {
            self.remove(base, by, Ending::Destroyed);
        }
    }
}

impl State {
    /// Ends what belongs to a context that ends.
    pub(crate) fn end_context_in_memory(&mut self, context: Key<Context>, by: CallSite) {
        let memory = &mut self.memory;
        let owned = memory.space.iter().filter(|a| a.origin.owner() == Some(context));
        for base in owned.map(|a| a.base).collect::<Vec<_>>() {
            let ended = memory.remove(base, by, Ending::GoneWithContext(context.raw()));
            memory.kept.extend(ended.filter(Allocation::is_on_host));
        }
    }

    /// Remembers that a call, or the work that it enqueued, named memory that it may not.
    #[cold]
    pub(crate) fn violate_misplaced(&mut self, misplaced: Misplaced, by: CallSite) {
        match misplaced {
            Misplaced::OutOfBounds { base, origin, made } => self.violate(Violation {
                kind: ViolationKind::OutOfBounds,
                object: Some((origin.kind(), base)),
                calls: vec![made, by],
                note: "",
                operations: Vec::new(),
            }),
            Misplaced::Freed(freed) => {
                let absent = Absent::Ended(Some(freed.grave));
                self.violate_absent(freed.origin.kind(), freed.base, absent, by);
            }
            Misplaced::Wild { address } => {
                let kind = ObjectKind::DeviceMemory;
                self.violate_absent(kind, address, Absent::NeverGiven, by);
            }
        }
    }
}
