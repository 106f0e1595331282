//! What the end of an object's last handle does, type by type: where it fails, where it happens, and in what process.

#![expect(unsafe_code, reason = "ends by raw calls what a test left on purpose")]

mod callback;
pub(crate) mod capture;
mod fails;
mod process;
mod waits;
mod wherever;

use cuhold_driver_sim::ObjectKind as SimKind;
use cuhold_driver_sys::{
    Call, Calls, Failure,
    ffi::{CUcontext, CUevent, CUgraph, CUgraphExec, CUgreenCtx, CUlibrary, CUmodule, CUstream},
};
use cuhold_handles::{
    Context, ContextFlags, Device, EventOptions, Graph, GreenContext, Module, ObjectKind,
    Retention, SmResource,
};
use cuhold_testkit::{Kit, PTX};
use std::{any::Any, fmt, time::Duration};

/// A type of object that has an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Thing {
    /// A created context.
    Context,
    /// A primary context with a retain of its own.
    Retained,
    Stream,
    Event,
    Library,
    Module,
    Graph,
    GraphExec,
    Green,
}

/// An object: its only handle, and its raw value.
pub(crate) struct Made {
    pub(crate) handle: Box<dyn Any + Send>,
    pub(crate) raw: u64,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.raw)
    }
}

impl Thing {
    pub(crate) const ALL: [Self; 9] = [
        Self::Context,
        Self::Retained,
        Self::Stream,
        Self::Event,
        Self::Library,
        Self::Module,
        Self::Graph,
        Self::GraphExec,
        Self::Green,
    ];

    pub(crate) fn make(self, t: &Kit) -> Made {
        self.make_on(t.device())
    }

    pub(crate) fn make_on(self, device: &Device) -> Made {
        let made = |handle: Box<dyn Any + Send>, raw: usize| Made { handle, raw: raw as u64 };
        match self {
            Self::Context => {
                let context = Context::new(device, ContextFlags::default()).unwrap();
                let raw = context.as_raw().addr();
                made(Box::new(context), raw)
            }
            Self::Retained => {
                let device =
                    Device::with_retention(device.driver(), 0, Retention::UntilLast).unwrap();
                let raw = device.context().as_raw().addr();
                made(Box::new(device), raw)
            }
            Self::Stream => {
                let stream = device.new_stream().unwrap();
                let raw = stream.raw().addr();
                made(Box::new(stream), raw)
            }
            Self::Event => {
                let event = device.new_event(EventOptions::default()).unwrap();
                let raw = event.raw().addr();
                made(Box::new(event), raw)
            }
            Self::Library => {
                let library = device.load(PTX).unwrap();
                let raw = library.as_raw().addr();
                made(Box::new(library), raw)
            }
            Self::Module => {
                let module = Module::load(device.context(), PTX).unwrap();
                let raw = module.as_raw().addr();
                made(Box::new(module), raw)
            }
            Self::Graph => {
                let graph = Graph::new(device.context()).unwrap();
                let raw = graph.as_raw().addr();
                made(Box::new(graph), raw)
            }
            Self::GraphExec => {
                let exec = Graph::new(device.context()).unwrap().instantiate().unwrap();
                let raw = exec.as_raw().addr();
                made(Box::new(exec), raw)
            }
            Self::Green => {
                let all = SmResource::of_device(device).unwrap();
                let green = GreenContext::new(&[all]).unwrap();
                let raw = green.as_raw().addr();
                made(Box::new(green), raw)
            }
        }
    }

    /// The call that ends it.
    pub(crate) fn end(self) -> Call {
        match self {
            Self::Context => Call::cuCtxDestroy_v2,
            Self::Retained => Call::cuDevicePrimaryCtxRelease_v2,
            Self::Stream => Call::cuStreamDestroy_v2,
            Self::Event => Call::cuEventDestroy_v2,
            Self::Library => Call::cuLibraryUnload,
            Self::Module => Call::cuModuleUnload,
            Self::Graph => Call::cuGraphDestroy,
            Self::GraphExec => Call::cuGraphExecDestroy,
            Self::Green => Call::cuGreenCtxDestroy,
        }
    }

    /// Whether its end may wait for the GPU, and so goes to the reclaimer.
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Self::Stream | Self::Event | Self::Graph | Self::GraphExec)
    }

    /// What warnings call it.
    pub(crate) fn kind(self) -> ObjectKind {
        match self {
            Self::Context | Self::Retained => ObjectKind::Context,
            Self::Stream => ObjectKind::Stream,
            Self::Event => ObjectKind::Event,
            Self::Library => ObjectKind::Library,
            Self::Module => ObjectKind::Module,
            Self::Graph => ObjectKind::Graph,
            Self::GraphExec => ObjectKind::GraphExec,
            Self::Green => ObjectKind::GreenContext,
        }
    }

    /// How many there are on the simulated driver.
    pub(crate) fn live(self, t: &Kit) -> Option<usize> {
        let kind = match self {
            Self::Context => SimKind::Context,
            Self::Retained => SimKind::PrimaryRetain,
            Self::Stream => SimKind::Stream,
            Self::Event => SimKind::Event,
            Self::Library => SimKind::Library,
            Self::Module => SimKind::Module,
            Self::Graph => SimKind::Graph,
            Self::GraphExec => SimKind::GraphExec,
            Self::Green => SimKind::GreenContext,
        };
        t.sim().map(|sim| sim.live(kind))
    }

    /// Ends by a raw call what a test left.
    pub(crate) fn sweep(self, t: &Kit, raw: u64) {
        t.faults().disarm();
        end_raw(self, t.driver().calls(), usize::try_from(raw).unwrap(), t.context().device())
            .unwrap();
    }
}

fn end_raw(thing: Thing, calls: Calls<'_>, raw: usize, device: i32) -> Result<(), Failure> {
    match thing {
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Context => unsafe { calls.cuCtxDestroy_v2(CUcontext::from_addr(raw)) },
        // SAFETY: a retain that nobody else gives back.
        Thing::Retained => unsafe { calls.cuDevicePrimaryCtxRelease_v2(device) },
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Stream => unsafe { calls.cuStreamDestroy_v2(CUstream::from_addr(raw)) },
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Event => unsafe { calls.cuEventDestroy_v2(CUevent::from_addr(raw)) },
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Library => unsafe { calls.cuLibraryUnload(CUlibrary::from_addr(raw)) },
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Module => unsafe { calls.cuModuleUnload(CUmodule::from_addr(raw)) },
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Graph => unsafe { calls.cuGraphDestroy(CUgraph::from_addr(raw)) },
        // SAFETY: *handles*: live, and nobody else's.
        Thing::GraphExec => unsafe { calls.cuGraphExecDestroy(CUgraphExec::from_addr(raw)) },
        // SAFETY: *handles*: live, and nobody else's.
        // SAFETY: *handles*: live, and nobody else's.
        Thing::Green => unsafe { calls.cuGreenCtxDestroy(CUgreenCtx::from_addr(raw)) },
    }
}

/// How long a test waits for the reclaimer before it takes it for stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the body for each type.
pub(crate) fn each(body: impl Fn(Thing)) {
    for thing in Thing::ALL {
        let label = format!("{thing:?}");
        let failed = crate::scope::Labelled(&label);
        body(thing);
        drop(failed);
    }
}
