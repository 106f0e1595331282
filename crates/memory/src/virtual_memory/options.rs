//! How virtual memory is made, and what is checked of that before anything is.

#![expect(unsafe_code, reason = "asks the driver whether two devices reach each other")]

use super::range::Grants;
use cuhold_handles::{
    Access, Accessor, Device, Error, PhysicalAllocation, PhysicalLocation, PhysicalOptions, Result,
    ShareableHandle, Stream,
};

/// What sizes of virtual memory are rounded up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum Granularity {
    /// The smallest size that the driver maps.
    #[default]
    Minimum,
    /// The size that it maps best.
    Recommended,
}

/// How virtual memory is made. By default it lies on its device, which may read and write it, and can't be exported.
///
/// # Examples
/// ```
/// # use cuhold_memory::{VirtualMemory, VirtualMemoryOptions, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// // Buffers that may grow to 1 GiB without moving, and that other processes can import.
/// let options = VirtualMemoryOptions::default().reserve_bytes(1 << 30).shareable();
/// let memory = VirtualMemory::new(&device, options)?;
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct VirtualMemoryOptions {
    /// Where the memory lies, by what other processes import it, and whether network cards may reach it directly (RDMA).
    pub physical: PhysicalOptions,
    /// What sizes are rounded up to.
    pub granularity: Granularity,
    /// What the device itself may do with the memory.
    pub access: Access,
    /// What other devices may do with it.
    pub peers: Vec<(Device, Access)>,
    /// Where the addresses of the first buffer had best begin; 0 is anywhere. The driver may give others.
    pub address: u64,
    /// What the address of a buffer is a multiple of: a power of two, in bytes; 0 is the driver's choice.
    pub alignment_bytes: usize,
    /// How many bytes of addresses each buffer reserves, if it doesn't need more itself: room to grow without moving.
    /// Addresses take no memory.
    pub reserve_bytes: usize,
    /// The most that one physical allocation has, in bytes, rounded up to the granularity; 0 makes each buffer, and each
    /// growth, of one. What a buffer shrinks by goes back in whole allocations.
    pub part_bytes: usize,
}

impl Default for VirtualMemoryOptions {
    fn default() -> Self {
        Self {
            physical: PhysicalOptions::default(),
            granularity: Granularity::default(),
            access: Access::ReadWrite,
            peers: Vec::new(),
            address: 0,
            alignment_bytes: 0,
            reserve_bytes: 0,
            part_bytes: 0,
        }
    }
}

impl VirtualMemoryOptions {
    /// Lying there. The host reads and writes memory of its own.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn location(mut self, location: PhysicalLocation) -> Self {
        self.physical.location = location;
        self
    }

    /// Exportable by this.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn handle(mut self, handle: ShareableHandle) -> Self {
        self.physical.handle = handle;
        self
    }

    /// Exportable as files.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn shareable(self) -> Self {
        self.handle(ShareableHandle::File)
    }

    /// Within direct reach of other devices on the bus (RDMA).
    ///
    /// Calls nothing.
    #[must_use]
    pub fn gpu_direct_rdma(mut self) -> Self {
        self.physical.gpu_direct_rdma = true;
        self
    }

    /// With sizes rounded up to this.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn granularity(mut self, granularity: Granularity) -> Self {
        self.granularity = granularity;
        self
    }

    /// With this access for the device itself.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// With this access for another device as well.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn peer(mut self, device: &Device, access: Access) -> Self {
        self.peers.push((device.clone(), access));
        self
    }

    /// Beginning at this address, if the driver can.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn address(mut self, address: u64) -> Self {
        self.address = address;
        self
    }

    /// Beginning at a multiple of this, a power of two, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn alignment_bytes(mut self, bytes: usize) -> Self {
        self.alignment_bytes = bytes;
        self
    }

    /// Reserving this many bytes of addresses for each buffer.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn reserve_bytes(mut self, bytes: usize) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// Made of physical allocations of at most this, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn part_bytes(mut self, bytes: usize) -> Self {
        self.part_bytes = bytes;
        self
    }
}

/// What virtual memory is made of, checked.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) device: Device,
    pub(super) options: VirtualMemoryOptions,
    pub(super) granularity_bytes: usize,
    /// Who may do what with what is made.
    pub(super) grants: Grants,
}

impl Spec {
    /// Calls `cuDeviceCanAccessPeer` for each peer, `cuMemGetAllocationGranularity`.
    pub(super) fn new(device: &Device, options: VirtualMemoryOptions) -> Result<Self> {
        device.driver().check_callable()?;
        let physical = options.physical;
        if physical.location == PhysicalLocation::Host && physical.handle != ShareableHandle::None {
            return Err(Error::argument(
                "handle: memory of the host that lies on no node in particular can't be exported",
            ));
        }
        check_alignment(options.alignment_bytes)?;
        let grants = grants(device, &options)?;
        check_peers(device, &options.peers)?;
        let granularity_bytes = match options.granularity {
            Granularity::Minimum => PhysicalAllocation::granularity_bytes(device, physical),
            Granularity::Recommended => {
                PhysicalAllocation::recommended_granularity_bytes(device, physical)
            }
        }?;
        if granularity_bytes == 0 {
            return Err(Error::state("the driver reported success and a granularity of 0 bytes"));
        }
        Ok(Self { device: device.clone(), options, granularity_bytes, grants })
    }

    /// That many bytes, rounded up to the granularity.
    pub(super) fn rounded(&self, bytes: usize) -> Result<usize> {
        bytes.checked_next_multiple_of(self.granularity_bytes).ok_or_else(|| {
            Error::argument(format!(
                "bytes: {bytes} can't be rounded up to a multiple of {}",
                self.granularity_bytes
            ))
        })
    }

    /// How many bytes of addresses a range of `mapped` bytes reserves.
    pub(super) fn reserved(&self, mapped: usize) -> Result<usize> {
        Ok(self.rounded(self.options.reserve_bytes)?.max(mapped))
    }

    /// How many bytes the next physical allocation has, where `missing` are.
    pub(super) fn part(&self, missing: usize) -> Result<usize> {
        match self.rounded(self.options.part_bytes)? {
            0 => Ok(missing),
            part => Ok(part.min(missing)),
        }
    }

    /// Refuses a stream of another driver, or of a device without access.
    pub(super) fn check_stream(&self, stream: &Stream) -> Result<()> {
        self.device.driver().check_same(stream.driver(), "stream")?;
        let id = stream.context().device();
        let reaches = |(accessor, access): &(Accessor, Access)| {
            *access != Access::None
                && matches!(accessor, Accessor::Device(device) if device.as_raw() == id)
        };
        if self.grants.iter().any(reaches) {
            return Ok(());
        }
        Err(Error::argument(format!(
            "stream: it is of device {id}, which has no access to the memory"
        )))
    }
}

fn check_alignment(bytes: usize) -> Result<()> {
    if bytes == 0 || bytes.is_power_of_two() {
        return Ok(());
    }
    Err(Error::argument(format!("alignment_bytes: {bytes}, and it must be a power of two, or 0")))
}

/// The whole list of who may do what: no device twice, somebody at all, all of one driver.
fn grants(device: &Device, options: &VirtualMemoryOptions) -> Result<Grants> {
    let mut list: Grants = vec![(Accessor::Device(device.clone()), options.access)];
    for (peer, access) in &options.peers {
        device.driver().check_same(peer.driver(), "peers")?;
        let entry = Accessor::Device(peer.clone());
        if list.iter().any(|(known, _)| *known == entry) {
            return Err(Error::argument(format!(
                "peers: device {} stands in the list twice, or is the device itself",
                peer.ordinal()
            )));
        }
        list.push((entry, *access));
    }
    if list.iter().all(|(_, access)| *access == Access::None) {
        return Err(Error::argument("access: no device would have any"));
    }
    match options.physical.location {
        PhysicalLocation::Host => list.push((Accessor::Host, Access::ReadWrite)),
        PhysicalLocation::HostNuma(node) => {
            list.push((Accessor::HostNuma(node), Access::ReadWrite));
        }
        _ => {}
    }
    Ok(list)
}

/// Refuses a peer that can't reach the memory of the device.
pub(super) fn check_peers(device: &Device, peers: &[(Device, Access)]) -> Result<()> {
    for (peer, _) in peers.iter().filter(|(peer, _)| peer != device) {
        let mut can = 0;
        let calls = device.driver().callable()?;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuDeviceCanAccessPeer(&raw mut can, peer.as_raw(), device.as_raw()) }
            .map_err(|failure| device.driver().error(failure))?;
        if can == 0 {
            return Err(Error::argument(format!(
                "peers: device {} can't reach memory of device {}",
                peer.ordinal(),
                device.ordinal()
            )));
        }
    }
    Ok(())
}
