//! A place for memory, as hints name it.

use cuhold_handles::driver_sys::ffi::{CU_DEVICE_CPU, CUdevice, CUmemLocation, CUmemLocationType};
use std::fmt;

/// A place for memory: where pages of managed memory should be, or where a copy's end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Location {
    /// A device, by its driver's number: [`Device::as_raw`](cuhold_handles::Device::as_raw).
    Device(CUdevice),
    /// The host.
    Host,
    /// This NUMA node of the host.
    HostNuma(i32),
    /// The NUMA node of the host that is nearest to the calling thread.
    HostNumaCurrent,
}

impl Location {
    /// As the driver takes it.
    pub(crate) fn raw(self) -> CUmemLocation {
        let (type_, id) = match self {
            Self::Device(id) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id),
            Self::Host => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
            Self::HostNuma(node) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node),
            Self::HostNumaCurrent => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0),
        };
        CUmemLocation::new(type_, id)
    }

    /// As a driver before 12.2 takes it, which knows devices and the host.
    pub(crate) fn as_device(self) -> Option<CUdevice> {
        match self {
            Self::Device(id) => Some(id),
            Self::Host => Some(CU_DEVICE_CPU),
            Self::HostNuma(_) | Self::HostNumaCurrent => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(id) => write!(f, "device {id}"),
            Self::Host => f.write_str("the host"),
            Self::HostNuma(node) => write!(f, "NUMA node {node} of the host"),
            Self::HostNumaCurrent => f.write_str("the nearest NUMA node of the host"),
        }
    }
}
