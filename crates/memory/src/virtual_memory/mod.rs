//! Virtual memory: physical memory that is mapped into reserved addresses, and so can grow, be mapped twice, and be shared.
//!
//! ```text
//!   VirtualMemory ─► VirtualBuffer ── grow ─► VirtualBuffer: the same bytes, and more behind them
//!        │                └─ export ─► files ─ import ─► VirtualBuffer of another process
//!        └ MemoryResource ─► Buffer
//! ```
//!
//! It isn't stream-ordered. Memory is there when the call that made it returns, and is unmapped once the work that uses it
//! is done: that of the home stream, and of each stream that was told to it. The driver itself would unmap it under a
//! running kernel, which then faults (measured). So the end of a buffer is left to the reclaimer.
//!
//! `options.rs`: what is asked for, and checked first. `range.rs`: what is mapped, with each step's undo. `buffer.rs`: the
//! buffer. `access.rs`: who may use it. `share.rs`: other processes.
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

mod access;
mod buffer;
mod options;
mod range;
mod share;

pub use buffer::VirtualBuffer;
pub use options::{Granularity, VirtualMemoryOptions};
#[cfg(unix)]
pub use share::ExportedPart;

use crate::{
    resource::Residence,
    source::{Block, MemoryResource},
};
use cuhold_handles::{Device, Driver, Error, ObjectKind, PhysicalLocation, Result, Stream};
use options::Spec;
use parking_lot::Mutex;
use range::Range;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Where virtual memory comes from: a device, or the host, and what is to be done with it.
///
/// [`VirtualBuffer`] makes buffers of it that can grow; behind an [`Arc`] it is also a [`MemoryResource`], for plain
/// [`Buffer`](crate::Buffer)s of fixed size. Either way a size is rounded up to the
/// [granularity](Self::granularity_bytes), and memory comes from the device at once: an allocation costs four driver calls
/// that take long, so this is for few and large buffers.
///
/// A buffer keeps what it needs of it. Its drop calls nothing.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, VirtualMemory, VirtualMemoryOptions, handles::{Device, Driver}};
/// # use std::sync::Arc;
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let memory = Arc::new(VirtualMemory::new(&device, VirtualMemoryOptions::default())?);
/// let buffer = Buffer::from_slice_in(&memory, &stream, &[3, 1, 4])?;
/// assert_eq!(buffer.to_vec()?, [3, 1, 4]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub struct VirtualMemory {
    spec: Arc<Spec>,
    /// What plain buffers hold, by the tag of their blocks.
    live: Mutex<BTreeMap<u64, Range>>,
    next_tag: AtomicU64,
}

impl VirtualMemory {
    /// Checks what is asked for, as a whole.
    ///
    /// Calls `cuMemGetAllocationGranularity`; for each peer `cuDeviceCanAccessPeer`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a peer of another driver, one that stands in the list
    ///   twice, is the device itself, or can't reach its memory; nobody with access; an alignment that isn't a power of
    ///   two; memory of the host on no node in particular that is to be exported;
    /// - the calls' failures.
    #[doc(alias = "cuMemGetAllocationGranularity")]
    pub fn new(device: &Device, options: VirtualMemoryOptions) -> Result<Self> {
        let spec = Arc::new(Spec::new(device, options)?);
        Ok(Self { spec, live: Mutex::default(), next_tag: AtomicU64::new(1) })
    }

    /// The device.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.spec.device
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.spec.device.driver()
    }

    /// How it was made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn options(&self) -> &VirtualMemoryOptions {
        &self.spec.options
    }

    /// What sizes are rounded up to, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn granularity_bytes(&self) -> usize {
        self.spec.granularity_bytes
    }
}

/// Where memory of these options lies.
fn residence(spec: &Spec) -> Residence {
    match spec.options.physical.location {
        PhysicalLocation::Host => Residence::Host,
        PhysicalLocation::HostNuma(node) => Residence::HostNuma(node),
        _ => Residence::Device,
    }
}

// SAFETY: *memory*: reserved addresses are no other allocation's, begin at a multiple of the granularity, and are mapped
// when this returns. *Given back*: a range is unmapped after the work that is queued on the stream.
#[expect(unsafe_code, reason = "promises what a source of memory promises")]
unsafe impl MemoryResource for VirtualMemory {
    /// Calls `cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`, `cuMemSetAccess`; where they are undone `cuMemUnmap`,
    /// `cuMemRelease`, `cuMemAddressFree`.
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        if bytes == 0 {
            return Ok(Block::EMPTY);
        }
        self.spec.check_stream(stream)?;
        let range = Range::new(&self.spec, bytes)?;
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        let block = Block { ptr: range.start(), bytes, tag };
        self.live.lock().insert(tag, range);
        Ok(block)
    }

    /// Calls `cuMemUnmap`, `cuMemRelease`, `cuMemAddressFree`, and before them, to wait for the stream, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize`, `cuEventDestroy`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// Where the stream can't be waited for, the memory stays mapped for good, and the error names its addresses.
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        if block.ptr == 0 {
            return Ok(());
        }
        let range = self.live.lock().remove(&block.tag);
        let Some(range) = range else {
            return Err(Error::argument("block: it isn't one of this memory's, or was given back"));
        };
        range.close(Some(stream))
    }

    fn deallocate_waits(&self) -> bool {
        true
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::MappedMemory
    }

    fn residence(&self) -> Residence {
        residence(&self.spec)
    }
}

impl fmt::Debug for VirtualMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualMemory")
            .field("device", &self.spec.device.ordinal())
            .field("granularity_bytes", &self.spec.granularity_bytes)
            .field("buffers", &self.live.lock().len())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<VirtualMemory>();
};
