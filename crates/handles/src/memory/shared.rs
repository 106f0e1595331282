//! Physical memory between processes: exported as a file or as bytes, and imported.
//!
//! An import is counted by the driver like a handle that was made here: it is released by itself, whatever becomes of the
//! exporter's (measured).
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

#![expect(unsafe_code, reason = "calls the driver's memory functions")]

use super::{
    FabricHandle, PhysicalAllocation,
    physical::{FABRIC, PhysicalDeps, deps},
};
use crate::{device::Device, error::Result, resource::Handle};
use cuhold_driver_sys::{Call, Calls, ffi::*};
#[cfg(unix)]
use {
    crate::{descriptor::file_pointer, error::Error},
    std::os::fd::{AsFd, FromRawFd as _, OwnedFd},
};

#[cfg(unix)]
const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

impl PhysicalAllocation {
    /// A file that other processes import it from. The memory lives as long as the file is open.
    ///
    /// Calls `cuMemExportToShareableHandle`.
    ///
    /// # Errors
    /// The call's failure, `INVALID_VALUE` for memory that wasn't made [`shareable`](crate::PhysicalOptions::shareable).
    #[cfg(unix)]
    #[doc(alias = "cuMemExportToShareableHandle")]
    pub fn export(&self) -> Result<OwnedFd> {
        let mut file: c_int = -1;
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: a live local, of the type that this kind of handle is written as; *handles*: this value's.
        unsafe {
            calls.cuMemExportToShareableHandle((&raw mut file).cast(), self.as_raw(), FILE, 0)
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
    /// No bytes are refused; the call's failure, `UNKNOWN` where the file is something else (measured).
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
        Self::imported(device, file_pointer(file.as_fd()), FILE, bytes)
    }

    /// What other processes of the fabric import it by. The memory lives as long as somebody holds it.
    ///
    /// Calls `cuMemExportToShareableHandle`.
    ///
    /// # Errors
    /// The call's failure: `INVALID_VALUE` for memory that wasn't made for it ([`Fabric`](crate::ShareableHandle::Fabric)).
    #[doc(alias = "cuMemExportToShareableHandle")]
    pub fn export_fabric(&self) -> Result<FabricHandle> {
        let mut handle = CUmemFabricHandle { data: [0; 64] };
        let calls = self.driver().callable()?;
        let to = (&raw mut handle).cast();
        // SAFETY: *pointers*: a live local, of the type that this kind of handle is written as; *handles*: this value's.
        unsafe { calls.cuMemExportToShareableHandle(to, self.as_raw(), FABRIC, 0) }
            .map_err(|failure| self.driver().error(failure))?;
        Ok(FabricHandle::from_bytes(handle.data))
    }

    /// The physical memory that another process of the fabric exported; `bytes` is its size, at least 1.
    ///
    /// Calls `cuMemImportFromShareableHandle`.
    ///
    /// # Errors
    /// No bytes are refused; the call's failure: where this process may not use the fabric, `NOT_PERMITTED`.
    #[doc(alias = "cuMemImportFromShareableHandle")]
    pub fn import_fabric(device: &Device, handle: FabricHandle, bytes: usize) -> Result<Self> {
        let mut handle = CUmemFabricHandle { data: handle.to_bytes() };
        Self::imported(device, (&raw mut handle).cast(), FABRIC, bytes)
    }

    /// `from` is what this kind of handle is given as.
    fn imported(
        device: &Device,
        from: *mut c_void,
        kind: CUmemAllocationHandleType,
        bytes: usize,
    ) -> Result<Self> {
        let make = |calls: Calls<'_>, _: &PhysicalDeps| {
            let mut raw = 0;
            // SAFETY: *pointers*: a live local; the other is an open file's number or leads to a handle's bytes, as this
            // kind is given.
            unsafe { calls.cuMemImportFromShareableHandle(&raw mut raw, from, kind) }?;
            Ok(raw)
        };
        let deps = deps(device, bytes)?;
        Handle::create(Call::cuMemImportFromShareableHandle, deps, make).map(Self::of)
    }
}
