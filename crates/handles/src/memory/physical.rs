//! Physical memory of a device: an allocation without an address.

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use crate::{
    device::Device,
    driver::Driver,
    error::{Error, Refused, Result},
    object::ObjectKind,
    resource::{Closed, Handle, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
#[cfg(unix)]
use {
    crate::descriptor::file_pointer,
    std::os::fd::{AsFd, FromRawFd as _, OwnedFd},
};

#[cfg(unix)]
const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

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

/// How physical memory is made. By default it can't be exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PhysicalOptions {
    /// Whether it can be exported as a file.
    pub shareable: bool,
}

impl PhysicalOptions {
    /// Can be exported as a file.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn shareable() -> Self {
        Self { shareable: true }
    }

    fn properties(self, device: &Device) -> CUmemAllocationProp {
        CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: if self.shareable {
                CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
            } else {
                CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE
            },
            location: super::mapping::location(device),
            ..CUmemAllocationProp::default()
        }
    }
}

/// Physical memory of a device. It has no address until it is mapped ([`Mapping`](crate::Mapping)), once or several
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
    /// What sizes of such memory, and addresses of its mappings, are multiples of, in bytes.
    ///
    /// Calls `cuMemGetAllocationGranularity`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuMemGetAllocationGranularity")]
    pub fn granularity_bytes(device: &Device, options: PhysicalOptions) -> Result<usize> {
        let (mut bytes, properties) = (0, options.properties(device));
        let minimum = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let calls = device.driver().callable()?;
        // SAFETY: *pointers*: two live locals.
        unsafe {
            calls.cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, minimum)
        }
        .map_err(|failure| device.driver().error(failure))?;
        Ok(bytes)
    }

    /// Allocates that many bytes, a multiple of the granularity and not 0.
    ///
    /// Calls `cuMemGetAllocationGranularity`, `cuMemCreate`.
    ///
    /// # Errors
    /// Another size is refused, with the granularity; `OUT_OF_MEMORY`, or another failure of the calls.
    #[doc(alias = "cuMemCreate")]
    pub fn new(device: &Device, bytes: usize, options: PhysicalOptions) -> Result<Self> {
        whole(device, bytes)?;
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

    /// A file that other processes import it from. The memory lives as long as the file is open.
    ///
    /// Calls `cuMemExportToShareableHandle`.
    ///
    /// # Errors
    /// The call's failure, `INVALID_VALUE` for memory that wasn't made [`shareable`](PhysicalOptions::shareable).
    #[cfg(unix)]
    #[doc(alias = "cuMemExportToShareableHandle")]
    pub fn export(&self) -> Result<OwnedFd> {
        let mut file: c_int = -1;
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: a live local, of the type that this kind of handle is written as; *handles*: this value's.
        unsafe {
            calls.cuMemExportToShareableHandle((&raw mut file).cast(), self.0.raw(), FILE, 0)
        }
        .map_err(|failure| self.driver().error(failure))?;
        if file < 0 {
            return Err(Error::state("the driver reported success and gave no file"));
        }
        // SAFETY: the driver gave out a new file, which is the caller's to close.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// The physical memory that another process exported into this file, which stays the caller's: the driver keeps no
    /// claim on it. `bytes` is its size, at least 1, which the driver doesn't tell.
    ///
    /// Calls `cuMemImportFromShareableHandle`.
    ///
    /// # Errors
    /// No bytes are refused; the call's failure, where the file is something else.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver, PhysicalAllocation, PhysicalOptions};
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let memory = PhysicalAllocation::new(&device, 2 << 20, PhysicalOptions::shareable())?;
    /// let file = memory.export()?;
    /// let imported = PhysicalAllocation::import(&device, &file, memory.bytes())?;
    /// # drop(imported);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[cfg(unix)]
    #[doc(alias = "cuMemImportFromShareableHandle")]
    pub fn import(device: &Device, file: impl AsFd, bytes: usize) -> Result<Self> {
        let place = file_pointer(file.as_fd());
        let make = |calls: Calls<'_>, _: &PhysicalDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: a live local; the other is an open file's number, as this kind of handle is given.
            unsafe { calls.cuMemImportFromShareableHandle(&raw mut raw, place, FILE) }?;
            Ok(raw)
        };
        let deps = deps(device, super::some(bytes)?)?;
        Ok(Self(Handle::create(Call::cuMemImportFromShareableHandle, deps, make)?))
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

/// Refuses a size that isn't a multiple of the granularity.
pub(super) fn whole(device: &Device, bytes: usize) -> Result<()> {
    let granularity = PhysicalAllocation::granularity_bytes(device, PhysicalOptions::default())?;
    if bytes != 0 && granularity != 0 && bytes.is_multiple_of(granularity) {
        return Ok(());
    }
    Err(Error::argument(format!(
        "bytes: {bytes}, and it must be a multiple of {granularity} that isn't 0"
    )))
}

fn deps(device: &Device, bytes: usize) -> Result<PhysicalDeps> {
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
