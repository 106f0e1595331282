//! Physical memory: an allocation without an address. Its way to other processes is in `shared.rs`.

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use crate::{
    device::Device,
    driver::Driver,
    error::{Error, Refused, Result},
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

pub(super) const FABRIC: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;

/// The resource behind [`PhysicalAllocation`].
#[derive(Debug)]
pub(crate) struct PhysicalRes;

/// What physical memory refers to.
#[derive(Debug)]
pub(crate) struct PhysicalDeps {
    driver: Driver,
    bytes: usize,
}

// SAFETY: *ends*: `cuMemRelease`. *Dependencies*: none but the driver.
unsafe impl Resource for PhysicalRes {
    type Raw = CUmemGenericAllocationHandle;
    type Deps = PhysicalDeps;
    const KIND: ObjectKind = ObjectKind::PhysicalAllocation;
    const DESTROY: Option<Call> = Some(Call::cuMemRelease);

    fn driver(deps: &PhysicalDeps) -> &Driver {
        &deps.driver
    }
    fn context(_: &PhysicalDeps) -> CUcontext {
        CUcontext::NULL
    }
    unsafe fn destroy(calls: Calls<'_>, raw: Self::Raw, _: &PhysicalDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuMemRelease(raw) }
    }
}

/// Where physical memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum PhysicalLocation {
    /// On the device that it is asked of.
    #[default]
    Device,
    /// On the host, wherever the driver puts it. Such memory isn't [shareable](PhysicalOptions::handle).
    Host,
    /// On this NUMA node of the host.
    HostNuma(i32),
}

/// By what other processes import physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum ShareableHandle {
    /// Not at all.
    #[default]
    None,
    /// By a file, on the same machine.
    File,
    /// By 64 bytes, also from other machines of one fabric. Without the fabric's service the driver refuses to make such
    /// memory.
    Fabric,
}

/// How physical memory is made. By default it lies on the device, and can't be exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PhysicalOptions {
    /// Where it lies.
    pub location: PhysicalLocation,
    /// By what other processes import it.
    pub handle: ShareableHandle,
    /// Whether other devices on the bus, such as network cards, may reach it directly (RDMA).
    pub gpu_direct_rdma: bool,
}

impl PhysicalOptions {
    /// Can be exported as a file.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn shareable() -> Self {
        Self { handle: ShareableHandle::File, ..Self::default() }
    }

    /// Lies there.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn location(mut self, location: PhysicalLocation) -> Self {
        self.location = location;
        self
    }

    /// Can be exported by this.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn handle(mut self, handle: ShareableHandle) -> Self {
        self.handle = handle;
        self
    }

    /// Can be reached by other devices on the bus (RDMA).
    ///
    /// Calls nothing.
    #[must_use]
    pub fn gpu_direct_rdma(mut self) -> Self {
        self.gpu_direct_rdma = true;
        self
    }

    fn properties(self, device: &Device) -> CUmemAllocationProp {
        CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: match self.handle {
                ShareableHandle::None => CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
                ShareableHandle::File => {
                    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                }
                ShareableHandle::Fabric => FABRIC,
            },
            location: match self.location {
                PhysicalLocation::Device => super::access::location(device),
                PhysicalLocation::Host => super::access::host(),
                PhysicalLocation::HostNuma(node) => super::access::host_numa(node),
            },
            allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
                gpuDirectRDMACapable: u8::from(self.gpu_direct_rdma),
                ..CUmemAllocationProp_st__bindgen_ty_1::default()
            },
            ..CUmemAllocationProp::default()
        }
    }
}

/// What names physical memory to another process of a fabric: 64 bytes to send as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FabricHandle([u8; 64]);

impl FabricHandle {
    /// The bytes to send.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0
    }

    /// The handle that was received as these bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }
}

/// Physical memory, of a device or of the host. It has no address until it is mapped ([`Mapping`](crate::Mapping)), once or several
/// times; it belongs to no context, and lives as long as any handle of it or any mapping.
///
/// Clones are the same handle. Its drop calls `cuMemRelease`, with the last of them.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, PhysicalAllocation, PhysicalOptions};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let options = PhysicalOptions::default();
/// let bytes = PhysicalAllocation::granularity_bytes(&device, options)?;
/// let memory = PhysicalAllocation::new(&device, bytes, options)?;
/// assert_eq!(memory.bytes(), bytes);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PhysicalAllocation(Handle<PhysicalRes>);

impl PhysicalAllocation {
    pub(super) fn of(handle: Handle<PhysicalRes>) -> Self {
        Self(handle)
    }

    /// What sizes of such memory, and addresses of its mappings, are multiples of, in bytes.
    ///
    /// Calls `cuMemGetAllocationGranularity`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuMemGetAllocationGranularity")]
    pub fn granularity_bytes(device: &Device, options: PhysicalOptions) -> Result<usize> {
        granularity(
            device,
            options,
            CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
        )
    }

    /// What sizes of such memory had best be multiples of, in bytes: a multiple of
    /// [`granularity_bytes`](Self::granularity_bytes).
    ///
    /// Calls `cuMemGetAllocationGranularity`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuMemGetAllocationGranularity")]
    pub fn recommended_granularity_bytes(
        device: &Device,
        options: PhysicalOptions,
    ) -> Result<usize> {
        granularity(
            device,
            options,
            CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
        )
    }

    /// Allocates that many bytes, a multiple of the granularity and not 0.
    ///
    /// Calls `cuMemGetAllocationGranularity`, `cuMemCreate`.
    ///
    /// # Errors
    /// Another size is refused, with the granularity; `OUT_OF_MEMORY`, or another failure of the calls.
    #[doc(alias = "cuMemCreate")]
    pub fn new(device: &Device, bytes: usize, options: PhysicalOptions) -> Result<Self> {
        whole(device, bytes, options)?;
        Self::of_granules(device, bytes, options)
    }

    /// As [`new`](Self::new), of bytes that are known to be a multiple of the granularity.
    #[doc(hidden)]
    pub fn of_granules(device: &Device, bytes: usize, options: PhysicalOptions) -> Result<Self> {
        let properties = options.properties(device);
        let make = |calls: Calls<'_>, _: &PhysicalDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: two live locals.
            unsafe { calls.cuMemCreate(&raw mut raw, bytes, &raw const properties, 0) }?;
            Ok(raw)
        };
        Ok(Self(Handle::create(Call::cuMemCreate, deps(device, bytes)?, make)?))
    }

    /// One more handle of the physical memory that is mapped at an address of the driver's; `bytes` is its size, which the
    /// driver doesn't tell.
    ///
    /// Calls `cuMemRetainAllocationHandle`.
    ///
    /// # Errors
    /// No bytes are refused; the call's failure, `INVALID_VALUE` where nothing is mapped.
    #[doc(alias = "cuMemRetainAllocationHandle")]
    pub fn mapped_at(device: &Device, address: CUdeviceptr, bytes: usize) -> Result<Self> {
        let place = std::ptr::without_provenance_mut(usize::try_from(address).unwrap_or_default());
        let make = |calls: Calls<'_>, _: &PhysicalDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: a live local; the address is only looked up.
            unsafe { calls.cuMemRetainAllocationHandle(&raw mut raw, place) }?;
            Ok(raw)
        };
        let deps = deps(device, super::some(bytes)?)?;
        Ok(Self(Handle::create(Call::cuMemRetainAllocationHandle, deps, make)?))
    }

    /// Its size in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.deps().bytes
    }

    /// Releases this handle here and now, if it is its last clone. Memory that is mapped goes with its last mapping.
    ///
    /// Calls `cuMemRelease`.
    ///
    /// # Errors
    /// [`Refused`], with the handle where the driver wasn't asked.
    #[doc(alias = "cuMemRelease")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value }| Refused::new(error, value.map(Self)))
    }
}

fn granularity(
    device: &Device,
    options: PhysicalOptions,
    option: CUmemAllocationGranularity_flags,
) -> Result<usize> {
    let (mut bytes, properties) = (0, options.properties(device));
    let calls = device.driver().callable()?;
    // SAFETY: *pointers*: two live locals.
    unsafe { calls.cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, option) }
        .map_err(|failure| device.driver().error(failure))?;
    Ok(bytes)
}

/// Refuses a size that isn't a multiple of the granularity.
pub(super) fn whole(device: &Device, bytes: usize, options: PhysicalOptions) -> Result<()> {
    let granularity = PhysicalAllocation::granularity_bytes(device, options)?;
    if bytes != 0 && granularity != 0 && bytes.is_multiple_of(granularity) {
        return Ok(());
    }
    Err(Error::argument(format!(
        "bytes: {bytes}, and it must be a multiple of {granularity} that isn't 0"
    )))
}

pub(super) fn deps(device: &Device, bytes: usize) -> Result<PhysicalDeps> {
    Ok(PhysicalDeps { driver: device.driver().clone(), bytes: super::some(bytes)? })
}

forms! {
    PhysicalAllocation(Handle<PhysicalRes>): CUmemGenericAllocationHandle, "allocation handle",
    (device: &Device, bytes: usize) => deps(device, bytes)?
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<PhysicalAllocation>();
};
