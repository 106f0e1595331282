//! The resource table: every type of driver object that the project holds, what its last handle's end costs in driver
//! calls, and where they are made. A test walks the table and compares each row with the call log.
//!
//! Data only: the types themselves stand in the crates that own them.

use crate::object::ObjectKind;

/// Where the calls of an object's end are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum EndsOn {
    /// On the thread that dropped the last handle.
    DroppingThread,
    /// On the reclaimer, since they may wait for the GPU.
    Reclaimer,
    /// With its driver.
    Driver,
    /// Nowhere: it ends with the object it belongs to, or is somebody else's.
    Nowhere,
}

/// One type of driver object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The type.
    pub kind: ObjectKind,
    /// The driver calls that the end of the last handle makes, in order, by their documented names; the thread's
    /// context and capture mode included.
    pub calls: &'static [&'static str],
    /// Where they are made.
    pub ends_on: EndsOn,
}

const fn row(kind: ObjectKind, ends_on: EndsOn, calls: &'static [&'static str]) -> Row {
    Row { kind, calls, ends_on }
}

const RELAX: &str = "cuThreadExchangeStreamCaptureMode";

/// The table. `cargo xtask figures` counts its rows.
pub const RESOURCES: &[Row] = &[
    row(ObjectKind::PrimaryContext, EndsOn::Driver, &["cuDevicePrimaryCtxRelease"]),
    row(ObjectKind::Context, EndsOn::Reclaimer, &["cuCtxDestroy"]),
    row(ObjectKind::Stream, EndsOn::DroppingThread, &["cuStreamDestroy"]),
    row(ObjectKind::BorrowedStream, EndsOn::Nowhere, &[]),
    row(ObjectKind::LegacyStream, EndsOn::Nowhere, &[]),
    row(ObjectKind::PerThreadStream, EndsOn::Nowhere, &[]),
    row(ObjectKind::Event, EndsOn::DroppingThread, &["cuEventDestroy"]),
    row(ObjectKind::BlockingEvent, EndsOn::DroppingThread, &["cuEventDestroy"]),
    row(ObjectKind::Pool, EndsOn::DroppingThread, &[RELAX, "cuMemPoolDestroy", RELAX]),
    row(ObjectKind::DefaultPool, EndsOn::Nowhere, &[]),
    row(ObjectKind::PoolMemory, EndsOn::DroppingThread, &[RELAX, "cuMemFreeAsync", RELAX]),
    row(ObjectKind::AsyncMemory, EndsOn::DroppingThread, &[RELAX, "cuMemFreeAsync", RELAX]),
    row(ObjectKind::HostMemory, EndsOn::Reclaimer, &[RELAX, "cuMemFreeHost", RELAX]),
    row(ObjectKind::Module, EndsOn::Reclaimer, &[RELAX, "cuModuleUnload", RELAX]),
    row(ObjectKind::Library, EndsOn::Reclaimer, &[RELAX, "cuLibraryUnload", RELAX]),
    row(ObjectKind::Kernel, EndsOn::Nowhere, &[]),
    row(ObjectKind::Function, EndsOn::Nowhere, &[]),
    row(ObjectKind::GreenContext, EndsOn::Reclaimer, &["cuCtxSynchronize", "cuGreenCtxDestroy"]),
    row(ObjectKind::Graph, EndsOn::DroppingThread, &["cuGraphDestroy"]),
    row(ObjectKind::GraphExec, EndsOn::DroppingThread, &[RELAX, "cuGraphExecDestroy", RELAX]),
    row(ObjectKind::UserObject, EndsOn::DroppingThread, &["cuUserObjectRelease"]),
    row(ObjectKind::LinkState, EndsOn::DroppingThread, &["cuLinkDestroy"]),
];
