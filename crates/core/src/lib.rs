//! CUDA resources that a program can hold for weeks: owned handles, every failure returned or reported, the caller's
//! context as it was.
//!
//! This is the facade: one path per type, from the crates below.
//!
//! ```text
//!   cuhold            this crate: re-exports, Program (NVRTC)
//!   cuhold-graph      graphs
//!   cuhold-memory     pools, buffers, host buffers, copies
//!   cuhold-handles    Driver, Error, report channel, contexts, streams, events, libraries, kernels, launch
//!   cuhold-driver-sim the driver without a GPU          cuhold-driver-sys  every driver function in one list
//! ```
//!
//! # The policy in short
//! - A failure that can be returned is an [`Error`] with the driver's own status; one that can't, in a `Drop` or a
//!   callback, is one [`CudaWarning`] through the driver's [channel](Reports).
//! - The calling thread's current context is what it was, whatever failed.
//! - What the GPU may still use is leaked, with a warning, rather than freed on a guess.
//! - Nothing panics out of a `Drop`, nothing ends the process.
//!
//! [`failure_policy`] is the whole of it, with examples. [`memory_resources`] says where to take memory from, [`caching`] how to
//! do that often, [`graphs`] how work is defined once and launched often.
//!
//! # Testing without a GPU
//! With the feature `sim`, [`Driver::from_api`]`(cuhold::sim::Sim::new())` is a driver whose kernels are host closures;
//! `CUHOLD_DRIVER=sim` makes [`Device::new`] use one. [`simulated_driver`] is the guide to it.
//!
//! # What it doesn't do
//! Kernels written in Rust, math libraries, Python.

mod compile;

#[doc = include_str!("../caching.md")]
pub mod caching {}

#[doc = include_str!("../failure-policy.md")]
pub mod failure_policy {}

#[doc = include_str!("../graphs.md")]
pub mod graphs {}

#[doc = include_str!("../memory-resources.md")]
pub mod memory_resources {}

#[doc = include_str!("../simulated-driver.md")]
pub mod simulated_driver {}

pub use compile::{CompileOptions, Compiler, Output, Program};
#[cfg(feature = "sim")]
pub use cuhold_driver_sim as sim;
pub use cuhold_driver_sys as driver_sys;
#[doc(inline)]
pub use cuhold_graph::{
    AllocateOptions, BatchOperation, Body, CaptureMode, CaptureStatus, CapturedMemory, Condition,
    ConditionalKind, CopySource, CopyTarget, Edge, EdgeKind, ExecOptions, Graph, GraphAllocation,
    GraphBuilder, GraphExec, Node, NodeKind, NodeParams, SharedHost, UpdateReason, UpdateRefused,
    Word, capture,
};
#[cfg(unix)]
#[doc(inline)]
pub use cuhold_handles::FileDescriptor;
#[doc(inline)]
pub use cuhold_handles::{
    Access, Accessor, Action, AddressMode, AnyArray, AnyCall, Array, ArrayDesc, ArrayFormat,
    ArrayLevel, AsStream, Attach, BorrowedMemory, ByHand, Capture, Closed, CompilerFailure,
    Context, ContextFlags, Counts, CudaWarning, Current, Deny, Device, DeviceMemory, Driver, Errno,
    Error, ErrorKind, Event, EventHandle, EventOptions, ExportedEvent, ExternalBuffer,
    ExternalMemory, ExternalMemoryKind, ExternalMemoryOptions, ExternalSemaphore,
    ExternalSemaphoreKind, FabricHandle, Fate, Filter, FilterMode, Function, GraphicsPlace,
    GraphicsResource, GreenContext, Image, ImportedMemory, Kernel, KernelArg, KernelArgs,
    LaunchConfig, Library, LinearMemory, LinkInput, LinkOptions, LinkState, ManagedMemory,
    MappedGraphics, MappedMemory, Mapping, Mark, MemoryHandle, MipmappedArray, Module, Note,
    NvJitLink, NvJitLinkInput, NvrtcProgram, NvvmProgram, Object, ObjectKind, Owner, Parameter,
    Parameters, PerThreadStream, PhysicalAllocation, PhysicalLocation, PhysicalOptions,
    PitchedMemory, Reclaim, Refused, RegisterOptions, RegisteredMemory, Reports, Reservation,
    ReservationOptions, Result, Retention, Rule, ShareableHandle, Sink, SmResource, SmSplit,
    Status, Stream, StreamOptions, StreamRef, Surface, Texture, TextureOptions, TextureSource,
    TextureView, UnknownAction, UserObject, Verified, WarningKind,
};

#[cfg(unix)]
#[doc(inline)]
pub use cuhold_memory::ExportedPart;
#[doc(inline)]
pub use cuhold_memory::{
    Advice, After, AsSource, Block, Buffer, BufferView, BufferViewMut, CachingOptions,
    CachingResource, CachingStatistics, CachingWay, CopyBatch, CopyOptions, Granularity,
    GraphMemory, GraphResource, Grid, GridView, GridViewMut, HostBuffer, HostSource, HostTarget,
    Location, ManagedResource, MemoryResource, MemoryUsage, Origin, Pending, Pool, PoolOptions,
    PoolPlace, Residence, Reuse, SourceOrder, SourceRef, StagingOptions, StreamStatistics,
    SynchronousResource, VirtualBuffer, VirtualMemory, VirtualMemoryOptions, bytemuck, copy_2d,
    copy_3d, discard_and_prefetch_batch, discard_batch, prefetch_batch,
};
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use cuhold_memory::{
    BufferDescriptor, ExportedBuffer, ExportedPool, ImportedPool, IpcChannel, Message, PeerWatch,
    PoolDescriptor, PoolIdentity,
};

/// The first program, as it stands in the README: compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
