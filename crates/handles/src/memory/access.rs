//! Who may do what with a mapping: access rights, and locations as the driver names them.

use crate::{
    device::Device,
    driver::Driver,
    error::{Error, Result},
};
use cuhold_driver_sys::ffi::*;

/// What a device may do with a mapping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

impl Access {
    pub(super) fn raw(self) -> CUmemAccess_flags {
        match self {
            Self::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            Self::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            Self::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }
    }

    /// The driver's answer, of which a newer one may know more.
    pub(super) fn of(flags: u64) -> Self {
        match flags {
            0 => Self::None,
            1 => Self::Read,
            _ => Self::ReadWrite,
        }
    }
}

/// Who uses a mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Accessor {
    /// A device.
    Device(Device),
    /// The host, of memory that lies [there](crate::PhysicalLocation::Host).
    Host,
    /// A NUMA node of the host, of memory that lies on it.
    HostNuma(i32),
}

impl Accessor {
    fn location(&self) -> CUmemLocation {
        match self {
            Self::Device(device) => location(device),
            Self::Host => host(),
            Self::HostNuma(node) => host_numa(*node),
        }
    }

    /// Refuses a device of another driver.
    fn check(&self, driver: &Driver) -> Result<()> {
        match self {
            Self::Device(device) => driver.check_same(device.driver(), "device"),
            Self::Host | Self::HostNuma(_) => Ok(()),
        }
    }
}

/// A list of who may do what, as the driver takes it: not empty, nobody twice, all of one driver.
pub(super) fn list(driver: &Driver, given: &[(Accessor, Access)]) -> Result<Vec<CUmemAccessDesc>> {
    if given.is_empty() {
        return Err(Error::argument("list: it is empty, and at least one entry is needed"));
    }
    for (place, (accessor, _)) in given.iter().enumerate() {
        accessor.check(driver)?;
        if given.iter().take(place).any(|(other, _)| other == accessor) {
            return Err(Error::argument(format!("list: {accessor:?} stands in it twice")));
        }
    }
    let entry = |(accessor, access): &(Accessor, Access)| CUmemAccessDesc {
        location: accessor.location(),
        flags: access.raw(),
    };
    Ok(given.iter().map(entry).collect())
}

/// A device as a location.
pub(super) fn location(device: &Device) -> CUmemLocation {
    CUmemLocation::device(device.as_raw())
}

/// The host as a location.
pub(super) fn host() -> CUmemLocation {
    CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0)
}

/// A NUMA node as a location.
pub(super) fn host_numa(node: i32) -> CUmemLocation {
    CUmemLocation::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node)
}
