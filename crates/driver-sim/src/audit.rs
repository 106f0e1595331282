//! What the simulated driver notices about its caller: misuse as named violations, and what was never ended.

use std::{fmt, thread::ThreadId};

use cuhold_driver_sys::Call;

use crate::order::Operation;

/// A call that the simulated driver answered: which one, the how-manieth of this driver, and on which thread.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSite {
    /// Counted from 1 over all calls that reached the simulated driver.
    pub number: u64,
    /// The call.
    pub call: Call,
    /// The thread that made it.
    pub thread: ThreadId,
}

impl CallSite {
    pub(crate) fn new(number: u64, call: Call, thread: ThreadId) -> Self {
        Self { number, call, thread }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} ({:?})", self.number, self.call)
    }
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} on {:?}", self.thread)
    }
}

macro_rules! object_kinds {
    ($($name:ident $text:literal;)*) => {
        /// What an object of the driver is.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum ObjectKind {
            $(#[doc = concat!("A ", $text, ".")] $name,)*
        }

        impl fmt::Display for ObjectKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

object_kinds! {
    Context "context";
    PrimaryRetain "retained primary context";
    PushedContext "context on a thread's stack";
    Stream "stream";
    Event "event";
    Graph "graph";
    GraphNode "graph node";
    UserObject "user object";
    Pool "memory pool";
    DeviceMemory "device allocation";
    HostMemory "page-locked host allocation";
    HostRegistration "registered host range";
    PhysicalAllocation "physical allocation";
    Reservation "reserved range of addresses";
    Mapping "mapping of physical memory";
    ImportedMemory "allocation of another process";
    Module "module";
    Function "function";
    Library "library";
    Kernel "kernel";
    LogCallback "log callback";
    GraphExec "executable graph";
    GreenContext "green context";
    ResourceDesc "description of device resources";
    LinkState "link state";
    Array "array";
    MipmappedArray "mipmapped array";
    Texture "texture";
    Surface "surface";
    GraphicsResource "graphics resource";
    ExternalMemory "piece of external memory";
    ExternalSemaphore "external semaphore";
    Condition "condition of a graph";
}

/// A rule that the caller broke. On a real driver most of these crash, or are undefined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum ViolationKind {
    /// An object was destroyed that had been destroyed before.
    DoubleDestroy,
    /// An object was used that had been destroyed.
    UseAfterDestroy,
    /// An object was used or destroyed that had ended with its context.
    UseAfterContext,
    /// A handle was passed that this driver never gave out.
    UnknownHandle,
    /// Objects of different contexts met in a call that needs one.
    WrongContext,
    /// Memory outside an allocation was named.
    OutOfBounds,
    /// A kernel used an address that isn't a multiple of the value's size.
    Misaligned,
    /// A kernel asked for a parameter that it doesn't have, or that has another size.
    WrongParameter,
    /// A kernel used memory of another device that its context, or its device, wasn't given access to.
    NoAccess,
    /// Memory was freed, unmapped or closed that is in use elsewhere, or that work uses which isn't surely over.
    EarlyFree,
    /// Two pieces of work touched the same bytes, one of them to write, and nothing says which comes first.
    Unordered,
    /// The same, of a default stream and of a non-blocking one, which isn't ordered with it.
    ImplicitOrder,
    /// The host used its memory again, in a call, while a copy of it wasn't surely over.
    HostTooEarly,
    /// Access to memory was taken away while work that uses it wasn't surely over.
    EarlyRevoke,
    /// More references were released than were held.
    OverRelease,
    /// A host function or a destructor called the driver.
    CallInsideCallback,
    /// A green context was ended while work was in flight there.
    EndedBusy,
    /// A stream was waited for on which memory of a pool had been freed behind work that was pending still when the pool
    /// was destroyed.
    PoolEndedBusy,
    /// Code of the caller that ran as device work panicked.
    Panicked,
    /// The call crashes a real driver (measured).
    Crash,
    /// This simulator broke a rule of its own: a bug of it, not of the caller.
    Internal,
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DoubleDestroy => "double destroy",
            Self::UseAfterDestroy => "use after destroy",
            Self::UseAfterContext => "use after the context's end",
            Self::UnknownHandle => "unknown handle",
            Self::WrongContext => "wrong context",
            Self::OutOfBounds => "out of bounds",
            Self::Misaligned => "misaligned address",
            Self::WrongParameter => "wrong kernel parameter",
            Self::NoAccess => "memory without access",
            Self::EarlyFree => "early free",
            Self::Unordered => "unordered accesses",
            Self::ImplicitOrder => "order with the default stream taken for granted",
            Self::HostTooEarly => "host memory used before its copy was over",
            Self::EarlyRevoke => "access taken away too early",
            Self::OverRelease => "release of references that aren't held",
            Self::CallInsideCallback => "driver call inside a callback",
            Self::EndedBusy => "end of a green context with work in flight",
            Self::PoolEndedBusy => "wait for a stream that a pool ended too early for",
            Self::Panicked => "panic in device work",
            Self::Crash => "crash of a real driver",
            Self::Internal => "broken invariant of the simulator",
        })
    }
}

/// A violation, with the calls that led to it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// Which rule.
    pub kind: ViolationKind,
    /// The object and its raw value, where there is one.
    pub object: Option<(ObjectKind, u64)>,
    /// The calls that led to it, oldest first: the one that made the object, the one that ended it, the offending one.
    pub calls: Vec<CallSite>,
    /// What exactly happened, where the kind doesn't say it; may be empty.
    pub note: &'static str,
    /// Of a finding about order: the two operations that it is about.
    pub operations: Vec<Operation>,
}

impl Violation {
    pub(crate) fn new(
        kind: ViolationKind,
        object: Option<(ObjectKind, u64)>,
        calls: Vec<CallSite>,
        note: &'static str,
    ) -> Self {
        Self { kind, object, calls, note, operations: Vec::new() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some((kind, raw)) = self.object {
            write!(f, " of {kind} {raw:#x}")?;
        }
        if let [first, second] = self.operations.as_slice() {
            write!(f, ": first, {first}; second, {second}")?;
            if first.process != second.process {
                write!(f, " (of processes {} and {})", first.process, second.process)?;
            }
            return write!(f, "; {}", self.note);
        }
        if !self.note.is_empty() {
            write!(f, " ({})", self.note)?;
        }
        for (index, call) in self.calls.iter().enumerate() {
            write!(f, "{}{call}", if index == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// Something that was made and not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Leak {
    /// What it is.
    pub kind: ObjectKind,
    /// Its raw value: a handle, an address.
    pub raw: u64,
    /// The call that made it. For a retained primary context the last retain; for a pushed context the call that put
    /// it on the stack.
    pub made: CallSite,
}

impl Leak {
    pub(crate) fn new(kind: ObjectKind, raw: u64, made: CallSite) -> Self {
        Self { kind, raw, made }
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#x}, made by {}", self.kind, self.raw, self.made)
    }
}
