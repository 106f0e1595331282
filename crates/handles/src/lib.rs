//! Every CUDA driver object as an owned handle, under one written failure policy.
//!
//! ```text
//!   Device ─► Context ─► Stream, Event, Module, Array   Library ─► Kernel
//!      │         │                                         │
//!      └─────────┴────────────► Driver ◄───────────────────┘
//!                     functions │ report channel │ reclaimer │ primary contexts
//! ```
//!
//! The policy in short: a failure that can be returned is returned, with its original status; one that can't (in a
//! `Drop`, in a callback) is reported once, through the driver's one channel; the caller's context is always as it was;
//! what might still be in use is leaked rather than freed; nothing here panics out of a `Drop` or ends the process.
//!
//! Start reading at `stream/mod.rs` (the usual object), then `resource.rs` (how objects end), `scope/mod.rs` (how
//! contexts are switched) and `report/mod.rs` (where failures go that can't be returned).
//!
//! What this crate does not do: it allocates no stream-ordered memory and copies none (`cuhold-memory`), builds no graphs
//! node by node (`cuhold-graph`), compiles nothing (`cuhold`).

// In front, so that the modules behind it see the macro.
#[macro_use]
mod forms;

mod alone;
mod array;
#[doc(hidden)]
pub mod callback;
mod compiler;
mod context;
mod current;
#[cfg(unix)]
mod descriptor;
mod device;
mod driver;
mod errno;
mod error;
mod event;
mod external;
#[doc(hidden)]
pub mod extra;
mod graph;
mod green;
mod hint;
mod image;
mod interprocess;
mod keep;
mod kernel;
mod launch;
mod library;
mod link;
mod make;
mod mark;
mod memory;
mod module;
mod object;
mod raw;
#[doc(hidden)]
pub mod reclaim;
mod refused;
mod report;
#[doc(hidden)]
pub mod resource;
#[doc(hidden)]
pub mod scope;
mod status;
mod stream;
#[doc(hidden)]
pub mod table;
mod texture;

pub use array::{AnyArray, Array, ArrayDesc, ArrayFormat, ArrayLevel, MipmappedArray};
pub use compiler::{NvJitLink, NvJitLinkInput, NvrtcProgram, NvvmProgram};
pub use context::{Context, ContextFlags};
pub use cuhold_driver_sys as driver_sys;
pub use current::Current;
#[cfg(unix)]
pub use descriptor::FileDescriptor;
#[cfg(unix)]
#[doc(hidden)]
pub use descriptor::file_pointer;
pub use device::{Device, Retention};
pub use driver::{Driver, Verified};
pub use errno::Errno;
pub use error::{Error, ErrorKind, Note, Refused, Result};
pub use event::{Event, EventOptions};
pub use external::{
    ExternalBuffer, ExternalMemory, ExternalMemoryKind, ExternalMemoryOptions, ExternalSemaphore,
    ExternalSemaphoreKind, GraphicsPlace, GraphicsResource, MappedGraphics,
};
pub use graph::{Graph, GraphExec, UserObject};
pub use green::{GreenContext, SmResource, SmSplit};
pub use image::Image;
pub use interprocess::{EventHandle, ExportedEvent};
pub use keep::KeepAlive;
pub use kernel::Kernel;
pub use launch::{KernelArg, KernelArgs, LaunchConfig, Parameter, Parameters};
pub use library::Library;
pub use link::{LinkInput, LinkOptions, LinkState};
pub use mark::Mark;
#[doc(hidden)]
pub use memory::Users;
pub use memory::{
    Access, Accessor, Attach, BorrowedMemory, DeviceMemory, FabricHandle, ImportedMemory,
    ManagedMemory, MappedMemory, Mapping, MemoryHandle, PhysicalAllocation, PhysicalLocation,
    PhysicalOptions, RegisterOptions, RegisteredMemory, Reservation, ReservationOptions,
    ShareableHandle,
};
pub use module::{Function, Module};
pub use object::{Object, ObjectKind};
pub use reclaim::{ByHand, Reclaim};
#[doc(hidden)]
pub use report::foreign;
pub use report::{
    Action, Capture, Counts, CudaWarning, Deny, Fate, Filter, Reports, Rule, Sink, UnknownAction,
    WarningKind,
};
pub use resource::{Closed, Owner};
pub use status::{AnyCall, CompilerFailure, Status};
pub use stream::{AsStream, PerThreadStream, Stream, StreamOptions, StreamRef};
#[doc(hidden)]
pub use stream::{InsideStream, StreamWatch};
pub use texture::{
    AddressMode, FilterMode, LinearMemory, PitchedMemory, Surface, Texture, TextureOptions,
    TextureSource, TextureView,
};
