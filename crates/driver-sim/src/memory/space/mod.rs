//! The address space: every allocation by address, with its bounds, its owner and its bytes.
//!
//! One map for all devices and for page-locked host memory, as under CUDA's unified addressing. Device memory has
//! addresses that no host mapping can have ([`FIRST_DEVICE_ADDRESS`] and up), so that a device pointer that is
//! followed on the host is found at once; page-locked and managed memory has its real host address.
//!
//! By default addresses of device memory aren't used twice; with reuse on, the address that was freed last is given
//! again first, as real drivers do. Allocations are [`GUARD_BYTES`] apart: an overrun pointer meets nothing that lives.

#![expect(unsafe_code, reason = "page-locked memory is reached at its host address")]

use std::{collections::BTreeMap, sync::Arc};

use super::{
    advice::Advised,
    bytes::{Bytes, SharedBytes},
    host::{self, HostBlock},
    physical::PhysicalData,
    pool::{Access, Location, Pool},
    share::{Content, ExportedMemory, Number},
    shared_block::{SharedBlock, SharedFile},
};
use crate::{
    audit::{CallSite, ObjectKind},
    code::Module,
    context::Context,
    graph::Graph,
    order::Shadow,
    world::{Ending, Grave, Key, Values},
};

/// Beyond what a 57-bit host address space can map.
pub(crate) const FIRST_DEVICE_ADDRESS: u64 = 0x0d00_0000_0000_0000;

const GUARD_BYTES: u64 = 2 << 20;

/// How many freed allocations are remembered; older ones are addresses that were never given out.
const GRAVES_MAX: usize = 1 << 14;

/// What made an allocation, which decides what may free it and with what it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// `cuMemAlloc`, `cuMemAllocPitch`.
    Device(Key<Context>),
    /// `cuMemAllocManaged`.
    Managed(Key<Context>),
    /// `cuMemAllocHost`, `cuMemHostAlloc`, with its flags.
    Host(Key<Context>, u32),
    /// `cuMemHostRegister`.
    Registered(Key<Context>),
    /// A stream-ordered allocation.
    Pool(Key<Pool>),
    /// A stream-ordered allocation that was captured: memory of the graph, which is there while the graph runs.
    Graph(Key<Graph>),
    /// What lies behind an array, or behind an object of another API: freed by no address.
    Behind(Key<Context>),
    /// A variable of a loaded module.
    Module(Key<Context>, Key<Module>),
    /// Physical memory, mapped.
    Mapped,
    /// Memory of another process, opened in this context.
    Imported(Key<Context>),
}

impl Origin {
    /// The context that the memory ends with.
    pub(crate) const fn owner(self) -> Option<Key<Context>> {
        match self {
            Self::Device(owner)
            | Self::Managed(owner)
            | Self::Host(owner, _)
            | Self::Registered(owner)
            | Self::Behind(owner)
            | Self::Module(owner, _)
            | Self::Imported(owner) => Some(owner),
            Self::Pool(_) | Self::Graph(_) | Self::Mapped => None,
        }
    }

    /// What it is called in an audit.
    pub(crate) const fn kind(self) -> ObjectKind {
        match self {
            Self::Host(..) => ObjectKind::HostMemory,
            Self::Registered(_) => ObjectKind::HostRegistration,
            Self::Mapped => ObjectKind::Mapping,
            Self::Imported(_) => ObjectKind::ImportedMemory,
            _ => ObjectKind::DeviceMemory,
        }
    }
}

#[derive(Debug)]
enum Storage {
    Device(Bytes),
    /// Device memory that other allocations, or another process, are as well.
    Shared(Arc<SharedBytes>),
    /// Owned host memory at the allocation's own address; kept for its `Drop`.
    Host(#[expect(dead_code, reason = "given back when the allocation goes")] HostBlock),
    /// Host memory that other processes may have as well.
    SharedHost(SharedBlock),
    /// The caller's own host memory, registered.
    Foreign,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) size_bytes: u64,
    pub(crate) origin: Origin,
    /// Unique among all allocations of this space, never used again.
    pub(crate) id: u64,
    /// The index of the device.
    pub(crate) device: usize,
    pub(crate) made: CallSite,
    pub(crate) sync_memops: bool,
    /// What was said about pages of managed memory.
    pub(crate) advised: Advised,
    /// The call that enqueued a stream-ordered free: the memory may still be in use, but new uses are over.
    pub(crate) free_enqueued: Option<CallSite>,
    /// Of a mapping: what is mapped, and the handle's value that it was mapped by.
    pub(crate) physical: Option<(usize, Arc<PhysicalData>)>,
    /// Of a mapping: what which device, or the host, may do.
    pub(crate) access: BTreeMap<Location, Access>,
    /// What other processes open.
    pub(crate) exported: Option<Arc<ExportedMemory>>,
    /// Of another process's pool: whose memory it is.
    pub(crate) import: Option<(Number, Arc<ExportedMemory>)>,
    /// What touched the bytes.
    pub(crate) shadow: Arc<Shadow>,
    storage: Storage,
}

impl Allocation {
    /// Whether the host may follow the address.
    pub(crate) const fn is_on_host(&self) -> bool {
        matches!(self.storage, Storage::Host(_) | Storage::SharedHost(_) | Storage::Foreign)
    }
}

/// What is remembered of an allocation that was freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub(crate) base: u64,
    size_bytes: u64,
    pub(crate) origin: Origin,
    pub(crate) grave: Grave,
}

impl Freed {
    /// An allocation that is there until `by`, an enqueued free, is executed.
    pub(crate) const fn enqueued(allocation: &Allocation, by: CallSite) -> Self {
        let Allocation { base, size_bytes, origin, made, .. } = *allocation;
        let grave = Grave { made, ended: by, ending: Ending::Destroyed };
        Self { base, size_bytes, origin, grave }
    }
}

/// Where an address lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In a live allocation of this id, at this base.
    Known { id: u64, base: u64 },
    /// In memory that isn't CUDA's: the host's own.
    Pageable,
}

/// Why a range can't be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Misplaced {
    /// It begins in a live allocation and ends behind it.
    OutOfBounds { base: u64, origin: Origin, made: CallSite },
    /// It begins in an allocation that was freed, or whose free was enqueued.
    Freed(Freed),
    /// No device allocation was ever there.
    Wild { address: u64 },
}

/// A new allocation, before it has an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) size_bytes: u64,
    pub(crate) origin: Origin,
    pub(crate) device: usize,
    pub(crate) made: CallSite,
}

/// Every allocation, by address.
#[derive(Debug)]
pub(crate) struct Space {
    live: BTreeMap<u64, Allocation>,
    /// What was freed, by base.
    freed: BTreeMap<u64, Freed>,
    /// Whether addresses are used again, and those that can be, by how much room there is.
    reuse: bool,
    idle: BTreeMap<u64, Vec<u64>>,
    next_address: u64,
    next_id: u64,
}

impl Space {
    pub(crate) const fn new(values: Values) -> Self {
        Self {
            live: BTreeMap::new(),
            freed: BTreeMap::new(),
            reuse: values.reuse,
            idle: BTreeMap::new(),
            next_address: FIRST_DEVICE_ADDRESS | values.mark(48),
            next_id: 1,
        }
    }

    /// Allocates device memory and returns its address; `None` if the address space is full.
    pub(crate) fn add_device(&mut self, request: Request) -> Option<u64> {
        let span = span(request.size_bytes)?;
        let size_bytes = usize::try_from(request.size_bytes).ok()?;
        let base = match self.idle.get_mut(&span).and_then(Vec::pop) {
            Some(base) => base,
            None => self.take_addresses(span, 0)?,
        };
        self.insert(base, request, Storage::Device(Bytes::new(size_bytes)));
        Some(base)
    }

    /// Takes addresses that were never given out, at a multiple of `alignment`, a power of two or 0; `None` if the
    /// address space is full.
    pub(crate) fn take_addresses(&mut self, size_bytes: u64, alignment: u64) -> Option<u64> {
        let base = self.next_address.checked_next_multiple_of(alignment.max(GUARD_BYTES))?;
        self.next_address = base.checked_add(span(size_bytes)?)?.checked_add(GUARD_BYTES)?;
        Some(base)
    }

    /// Puts memory at addresses that were taken before, and where nothing is.
    pub(crate) fn add_shared(&mut self, base: u64, request: Request, bytes: Arc<SharedBytes>) {
        self.insert(base, request, Storage::Shared(bytes));
    }

    /// The bytes of the memory at `base`, to be those of other allocations as well; `None` for memory that can't be.
    pub(crate) fn share(&mut self, base: u64) -> Option<Content> {
        let found = self.live.get_mut(&base)?;
        if let Storage::Device(bytes) = &mut found.storage {
            let bytes = std::mem::replace(bytes, Bytes::new(0));
            let shadow = Arc::clone(&found.shadow);
            found.storage = Storage::Shared(Arc::new(SharedBytes::of(bytes, shadow)));
        }
        match &found.storage {
            Storage::Shared(bytes) => Some(Content::Device(Arc::clone(bytes))),
            Storage::SharedHost(block) => Some(Content::Host(block.file().clone())),
            Storage::Device(_) | Storage::Host(_) | Storage::Foreign => None,
        }
    }

    /// Puts memory of another allocation in once more, at an address of its own, and returns that; `None` where there is
    /// none to give.
    pub(crate) fn add_content(&mut self, request: Request, content: &Content) -> Option<u64> {
        match content {
            Content::Device(bytes) => {
                let base = self.take_addresses(request.size_bytes, 0)?;
                self.add_shared(base, request, Arc::clone(bytes));
                Some(base)
            }
            Content::Host(file) => {
                let block = file.map()?;
                let base = block.address() as u64;
                self.insert(base, request, Storage::SharedHost(block));
                Some(base)
            }
        }
    }

    /// Allocates page-locked or managed host memory and returns its address; `None` if the host has none to give.
    pub(crate) fn add_host(&mut self, request: Request) -> Option<u64> {
        let block = HostBlock::new(usize::try_from(request.size_bytes).ok()?)?;
        let base = block.address() as u64;
        self.insert(base, request, Storage::Host(block));
        Some(base)
    }

    /// Allocates host memory that other processes may import, and returns its address; `None` as above.
    pub(crate) fn add_shareable_host(&mut self, request: Request) -> Option<u64> {
        let file = SharedFile::new(usize::try_from(request.size_bytes).ok()?)?;
        self.add_content(request, &Content::Host(file))
    }

    /// Takes in the caller's host memory at `base`.
    ///
    /// # Safety
    /// Until it is removed, the range is readable and writable, and nobody else touches what a call or queued work
    /// of this driver reads or writes, while it does.
    pub(crate) unsafe fn add_registered(&mut self, base: u64, request: Request) {
        self.insert(base, request, Storage::Foreign);
    }

    fn insert(&mut self, base: u64, request: Request, storage: Storage) {
        let Request { size_bytes, origin, device, made } = request;
        let id = self.next_id;
        self.next_id += 1;
        self.freed.remove(&base);
        let shadow = match &storage {
            Storage::Shared(bytes) => Arc::clone(bytes.shadow()),
            Storage::SharedHost(block) => Arc::clone(block.file().shadow()),
            Storage::Device(_) | Storage::Host(_) | Storage::Foreign => Arc::default(),
        };
        self.live.insert(
            base,
            Allocation {
                base,
                size_bytes,
                origin,
                id,
                device,
                made,
                sync_memops: false,
                advised: Advised::default(),
                free_enqueued: None,
                physical: None,
                access: BTreeMap::new(),
                exported: None,
                import: None,
                shadow,
                storage,
            },
        );
    }

    /// Ends the allocation at `base`. Its host memory, if it has any, is given back when the result is dropped.
    pub(crate) fn remove(
        &mut self,
        base: u64,
        ended: CallSite,
        ending: Ending,
    ) -> Option<Allocation> {
        let allocation = self.live.remove(&base)?;
        if self.freed.len() >= GRAVES_MAX {
            self.freed.pop_first();
        }
        if let (Storage::Device(_), true, Some(span)) =
            (&allocation.storage, self.reuse, span(allocation.size_bytes))
        {
            self.idle.entry(span).or_default().push(base);
        }
        let Allocation { size_bytes, origin, made, .. } = allocation;
        let grave = Grave { made, ended, ending };
        self.freed.insert(base, Freed { base, size_bytes, origin, grave });
        Some(allocation)
    }

    /// The allocation that begins at `base`.
    pub(crate) fn at(&self, base: u64) -> Option<&Allocation> {
        self.live.get(&base)
    }

    /// The allocation that begins at `base`, to change it.
    pub(crate) fn at_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.live.get_mut(&base)
    }

    /// The allocation that contains `address`.
    pub(crate) fn containing(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        (address - allocation.base < allocation.size_bytes).then_some(allocation)
    }

    /// Whether any allocation has a byte in the range.
    pub(crate) fn overlaps(&self, address: u64, size_bytes: u64) -> bool {
        let end = address.saturating_add(size_bytes);
        self.live
            .range(..end)
            .next_back()
            .is_some_and(|(base, allocation)| base + allocation.size_bytes > address)
    }

    /// Every live allocation, by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values()
    }

    /// Everything that was freed, as far as it is remembered.
    pub(crate) fn freed(&self) -> impl Iterator<Item = &Freed> {
        self.freed.values()
    }

    /// What was freed at exactly this address.
    pub(crate) fn freed_base(&self, base: u64) -> Option<Freed> {
        self.freed.get(&base).copied()
    }

    /// What lay last at an address that work was given when something did: of the host's memory as well.
    pub(crate) fn freed_at(&self, address: u64) -> Option<Freed> {
        let (_, freed) = self.freed.range(..=address).next_back()?;
        (address - freed.base < freed.size_bytes).then_some(*freed)
    }

    /// What device memory once was at an address. Host addresses aren't asked about: the host uses them again.
    fn freed_around(&self, address: u64) -> Option<Freed> {
        if address < FIRST_DEVICE_ADDRESS {
            return None;
        }
        let (_, freed) = self.freed.range(FIRST_DEVICE_ADDRESS..=address).next_back()?;
        (address - freed.base < freed.size_bytes).then_some(*freed)
    }

    /// Where a range of at least one byte lies.
    pub(crate) fn locate(&self, address: u64, size_bytes: u64) -> Result<Place, Misplaced> {
        if let Some(allocation) = self.containing(address) {
            let Allocation { base, size_bytes: whole, id, origin, made, free_enqueued, .. } =
                *allocation;
            return if let Some(by) = free_enqueued {
                Err(Misplaced::Freed(Freed::enqueued(allocation, by)))
            } else if size_bytes > whole - (address - base)
                && !self.is_mapped_through(address, size_bytes)
            {
                Err(Misplaced::OutOfBounds { base, origin, made })
            } else {
                Ok(Place::Known { id, base })
            };
        }
        if address < FIRST_DEVICE_ADDRESS {
            return Ok(Place::Pageable);
        }
        Err(self.freed_around(address).map_or(Misplaced::Wild { address }, Misplaced::Freed))
    }

    /// Reads from a live allocation, in which an enqueued free doesn't matter, or from mappings side by side.
    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Misplaced> {
        if let Some(head) = self.head_of_run(address, out.len()) {
            let (out, rest) = out.split_at_mut(head);
            self.read(address, out)?;
            return self.read(address + head as u64, rest);
        }
        let allocation = self.usable(address, out.len())?;
        match &allocation.storage {
            Storage::Device(bytes) => bytes.read(offset(allocation, address), out),
            Storage::Shared(bytes) => bytes.read(offset(allocation, address), out),
            // SAFETY: the range lies in a live host allocation (`usable`): a block of our own, or what
            // `add_registered` was promised. That the program doesn't touch it meanwhile is CUDA's rule for memory
            // that queued work uses, promised to each `DriverApi` call.
            Storage::Host(_) | Storage::SharedHost(_) | Storage::Foreign => unsafe {
                host::read(host_address(address), out);
            },
        }
        Ok(())
    }

    /// Writes to a live allocation, in which an enqueued free doesn't matter, or to mappings side by side.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Misplaced> {
        if let Some(head) = self.head_of_run(address, bytes.len()) {
            let (bytes, rest) = bytes.split_at(head);
            self.write(address, bytes)?;
            return self.write(address + head as u64, rest);
        }
        let base = self.usable(address, bytes.len())?.base;
        let Some(allocation) = self.live.get_mut(&base) else {
            return Err(Misplaced::Wild { address });
        };
        let at = offset(allocation, address);
        match &mut allocation.storage {
            Storage::Device(stored) => stored.write(at, bytes),
            Storage::Shared(stored) => stored.write(at, bytes),
            // SAFETY: as in `read`.
            Storage::Host(_) | Storage::SharedHost(_) | Storage::Foreign => unsafe {
                host::write(host_address(address), bytes);
            },
        }
        Ok(())
    }

    fn usable(&self, address: u64, len: usize) -> Result<&Allocation, Misplaced> {
        let Some(allocation) = self.containing(address) else {
            let freed = self.freed_around(address);
            return Err(freed.map_or(Misplaced::Wild { address }, Misplaced::Freed));
        };
        let Allocation { base, size_bytes, origin, made, .. } = *allocation;
        if len as u64 > size_bytes - (address - base) {
            return Err(Misplaced::OutOfBounds { base, origin, made });
        }
        Ok(allocation)
    }
}

/// How much room an allocation has in front of the next one's guard.
fn span(size_bytes: u64) -> Option<u64> {
    size_bytes.max(1).checked_next_multiple_of(GUARD_BYTES)
}

/// How far into its allocation an address lies; a device allocation's size fits a `usize`.
fn offset(allocation: &Allocation, address: u64) -> usize {
    usize::try_from(address - allocation.base).unwrap_or(usize::MAX)
}

/// A device address that is a host address; those come from this host's pointers, so they fit.
fn host_address(address: u64) -> usize {
    usize::try_from(address).unwrap_or(usize::MAX)
}

mod mapped;
#[cfg(test)]
mod tests;
