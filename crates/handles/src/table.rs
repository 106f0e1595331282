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

/// How an object comes to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Made {
    /// By a call of this project.
    Created,
    /// On the simulated driver only by taking over a raw one, for this reason.
    FromRaw(&'static str),
}

/// One type of driver object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Row {
    /// The type.
    pub kind: ObjectKind,
    /// The driver calls that the end of the last handle makes, in order, by their documented names; the thread's
    /// context and capture mode included. Where they ask what is current (`cuCtxGetCurrent`) and it isn't the object's
    /// context, `cuCtxPushCurrent` and `cuCtxPopCurrent` stand around the destroy.
    pub calls: &'static [&'static str],
    /// Where they are made.
    pub ends_on: EndsOn,
    /// How the object comes to be.
    pub made: Made,
}

const fn row(kind: ObjectKind, ends_on: EndsOn, calls: &'static [&'static str]) -> Row {
    Row { kind, calls, ends_on, made: Made::Created }
}

/// An object of another API, which the simulated driver doesn't have.
const fn foreign(kind: ObjectKind, calls: &'static [&'static str], why: &'static str) -> Row {
    Row { kind, calls, ends_on: EndsOn::DroppingThread, made: Made::FromRaw(why) }
}

const RELAX: &str = "cuThreadExchangeStreamCaptureMode";
const CURRENT: &str = "cuCtxGetCurrent";

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
    row(ObjectKind::InterprocessEvent, EndsOn::DroppingThread, &["cuEventDestroy"]),
    row(ObjectKind::ImportedEvent, EndsOn::DroppingThread, &["cuEventDestroy"]),
    row(ObjectKind::Pool, EndsOn::DroppingThread, &[RELAX, "cuMemPoolDestroy", RELAX]),
    row(ObjectKind::DefaultPool, EndsOn::Nowhere, &[]),
    row(ObjectKind::ImportedPool, EndsOn::DroppingThread, &[RELAX, "cuMemPoolDestroy", RELAX]),
    row(ObjectKind::PoolMemory, EndsOn::DroppingThread, &[RELAX, "cuMemFreeAsync", RELAX]),
    row(ObjectKind::AsyncMemory, EndsOn::DroppingThread, &[RELAX, "cuMemFreeAsync", RELAX]),
    row(ObjectKind::DeviceMemory, EndsOn::Reclaimer, &[RELAX, "cuMemFree", RELAX]),
    row(ObjectKind::HostMemory, EndsOn::Reclaimer, &[RELAX, "cuMemFreeHost", RELAX]),
    row(
        ObjectKind::RegisteredMemory,
        EndsOn::Reclaimer,
        &[RELAX, CURRENT, "cuMemHostUnregister", RELAX],
    ),
    row(ObjectKind::ManagedMemory, EndsOn::Reclaimer, &[RELAX, "cuMemFree", RELAX]),
    row(ObjectKind::MappedMemory, EndsOn::Nowhere, &[]),
    row(ObjectKind::ImportedMemory, EndsOn::DroppingThread, &[CURRENT, "cuIpcCloseMemHandle"]),
    row(ObjectKind::BorrowedMemory, EndsOn::Nowhere, &[]),
    row(ObjectKind::PhysicalAllocation, EndsOn::DroppingThread, &["cuMemRelease"]),
    row(ObjectKind::Reservation, EndsOn::DroppingThread, &["cuMemAddressFree"]),
    row(ObjectKind::Mapping, EndsOn::DroppingThread, &["cuMemUnmap"]),
    row(ObjectKind::Module, EndsOn::Reclaimer, &[RELAX, "cuModuleUnload", RELAX]),
    row(ObjectKind::Library, EndsOn::Reclaimer, &[RELAX, "cuLibraryUnload", RELAX]),
    row(ObjectKind::Kernel, EndsOn::Nowhere, &[]),
    row(ObjectKind::Function, EndsOn::Nowhere, &[]),
    row(ObjectKind::GreenContext, EndsOn::Reclaimer, &["cuCtxSynchronize", "cuGreenCtxDestroy"]),
    row(ObjectKind::Graph, EndsOn::DroppingThread, &["cuGraphDestroy"]),
    row(ObjectKind::GraphExec, EndsOn::DroppingThread, &[RELAX, "cuGraphExecDestroy", RELAX]),
    row(ObjectKind::UserObject, EndsOn::DroppingThread, &["cuUserObjectRelease"]),
    row(ObjectKind::LinkState, EndsOn::DroppingThread, &[CURRENT, "cuLinkDestroy"]),
    row(ObjectKind::Array, EndsOn::Reclaimer, &[RELAX, "cuArrayDestroy", RELAX]),
    row(ObjectKind::MipmappedArray, EndsOn::Reclaimer, &[RELAX, "cuMipmappedArrayDestroy", RELAX]),
    row(ObjectKind::ArrayLevel, EndsOn::Nowhere, &[]),
    row(
        ObjectKind::Texture,
        EndsOn::DroppingThread,
        &[RELAX, CURRENT, "cuTexObjectDestroy", RELAX],
    ),
    row(
        ObjectKind::Surface,
        EndsOn::DroppingThread,
        &[RELAX, CURRENT, "cuSurfObjectDestroy", RELAX],
    ),
    foreign(
        ObjectKind::GraphicsResource,
        &[RELAX, CURRENT, "cuGraphicsUnregisterResource", RELAX],
        "a graphics API registers it",
    ),
    foreign(
        ObjectKind::ExternalMemory,
        &[RELAX, "cuDestroyExternalMemory", RELAX],
        "another API, or another object of this one, exports it",
    ),
    foreign(
        ObjectKind::ExternalSemaphore,
        &[RELAX, CURRENT, "cuDestroyExternalSemaphore", RELAX],
        "another API exports it",
    ),
    // The compilers aren't simulated: a hand-made one stands in, which makes handles and ends them.
    row(ObjectKind::NvrtcProgram, EndsOn::DroppingThread, &["nvrtcDestroyProgram"]),
    row(ObjectKind::NvvmProgram, EndsOn::DroppingThread, &["nvvmDestroyProgram"]),
    row(ObjectKind::NvJitLink, EndsOn::DroppingThread, &["nvJitLinkDestroy"]),
    // Closed with the system's own call.
    row(ObjectKind::FileDescriptor, EndsOn::DroppingThread, &[]),
];
