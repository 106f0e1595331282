//! What a simulated driver is like: its devices, its version, and how work proceeds.

use cuhold_driver_sys::{Call, Version, ffi::c_void};

/// One simulated device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// What `cuDeviceGetName` answers.
    pub name: String,
    /// The device's memory, in bytes.
    pub memory_bytes: usize,
    /// The compute capability: major and minor.
    pub compute_capability: (i32, i32),
    /// The number of multiprocessors.
    pub multiprocessors: i32,
}

impl Default for DeviceOptions {
    /// Modelled on the device that the facts were measured on, with 16 GiB.
    fn default() -> Self {
        Self {
            name: "cuhold simulated device".to_owned(),
            memory_bytes: 16 << 30,
            compute_capability: (9, 0),
            multiprocessors: 132,
        }
    }
}

/// When the destructor of a user object runs whose last reference was given back. A real driver does the first inside
/// the call that gave it back, or, where a launch held it, on a thread of its own once that is over; a process that ends
/// runs none (measured). Programs may rely on none of the three (documented).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Destructors {
    /// Before the call returns, or the work is over, that gave it back, on its thread.
    #[default]
    AtOnce,
    /// Not before [`Sim::run_all`](crate::Sim::run_all) or [`Sim::run_destructors`](crate::Sim::run_destructors), on
    /// whatever thread makes that call.
    Later,
    /// Never, as for what is left when a process ends.
    Never,
}

/// How a simulated driver is set up.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "settings that have nothing to do with each other"
)]
#[non_exhaustive]
pub struct SimOptions {
    /// The devices. None is possible: then `cuInit` answers `NO_DEVICE`.
    pub devices: Vec<DeviceOptions>,
    /// What `cuDriverGetVersion` answers. Forms that a driver of this version lacks answer *missing*.
    pub driver_version: Version,
    /// Whether every two devices can reach each other's memory.
    pub peer_access: bool,
    /// Whether physical memory can be named on a fabric, for which a real machine needs a service of its own.
    pub fabric: bool,
    /// Whether the value of a destroyed handle is given again, to the next object of its kind, and the address of freed
    /// device memory to the next allocation that fits.
    pub reuse_handles: bool,
    /// Whether a query that answers `NOT_READY` lets one piece of queued work complete after it. Off, work completes
    /// only at a wait or when it is stepped, and a loop around a query doesn't end.
    pub queries_advance: bool,
    /// Whether a copy into pageable host memory is done before its call returns, in its asynchronous forms as well. It
    /// is documented that it may be so, and programs have come to count on it. Off, the memory is written when the
    /// stream's work is waited for, so that a program that looks too early is found.
    pub pageable_copies_wait: bool,
    /// Draws the order in which independent streams, and independent nodes of a graph, proceed, where more than one
    /// could.
    pub seed: u64,
    /// Whether the order of work on memory is checked: accesses to the same bytes that nothing orders, memory that ends
    /// before its last use is over, are then violations. What is seen and what isn't stands with [the crate](crate).
    pub check_order: bool,
    /// When destructors of user objects run.
    pub destructors: Destructors,
    /// What `cuGetProcAddress` answers with for a form that is simulated. Without it no symbol is found, since the
    /// simulated driver itself has no C functions.
    pub symbols: Option<fn(Call) -> *mut c_void>,
}

impl Default for SimOptions {
    /// One device, driver 13.0, handles never reused.
    fn default() -> Self {
        Self {
            devices: vec![DeviceOptions::default()],
            driver_version: Version(13_000),
            peer_access: true,
            fabric: true,
            reuse_handles: false,
            queries_advance: false,
            pageable_copies_wait: false,
            seed: 1,
            check_order: true,
            destructors: Destructors::AtOnce,
            symbols: None,
        }
    }
}

impl SimOptions {
    /// The default with `count` devices alike.
    #[must_use]
    pub fn with_devices(count: usize) -> Self {
        Self { devices: vec![DeviceOptions::default(); count], ..Self::default() }
    }
}
