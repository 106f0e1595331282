//! What a failure is about: an object's kind, its raw value, and its 64-bit id, in the words that people read.
//!
//! Raw values are reused by the driver at once (measured), so the id is what tells two objects apart.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $words:literal;)*) => {
        /// Which type of object a warning or an error is about.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum ObjectKind {
            $($(#[$doc])* $name,)*
        }

        impl ObjectKind {
            /// Every kind, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kind in plain words, such as `stream`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }
        }
    };
}

kinds! {
    /// A device's primary context, retained.
    PrimaryContext "primary context";
    /// A context that was created.
    Context "context";
    /// A green context.
    GreenContext "green context";
    /// A stream that was created.
    Stream "stream";
    /// A stream that somebody else owns.
    BorrowedStream "borrowed stream";
    /// The token of the legacy default stream.
    LegacyStream "legacy default stream";
    /// The token of a thread's own default stream.
    PerThreadStream "per-thread default stream";
    /// An event, with timing or without.
    Event "event";
    /// An event whose wait blocks the thread instead of spinning.
    BlockingEvent "blocking event";
    /// An event that other processes may import.
    InterprocessEvent "interprocess event";
    /// An event of another process.
    ImportedEvent "imported event";
    /// A memory pool that was created.
    Pool "memory pool";
    /// A device's default or current pool.
    DefaultPool "default memory pool";
    /// A pool of another process.
    ImportedPool "imported memory pool";
    /// Device memory out of a pool that was named.
    PoolMemory "pool memory";
    /// Device memory out of the stream's current pool.
    AsyncMemory "stream-ordered memory";
    /// Device memory that isn't stream-ordered.
    DeviceMemory "device memory";
    /// Pinned host memory that the driver allocated.
    HostMemory "host memory";
    /// Host memory that was registered.
    RegisteredMemory "registered host memory";
    /// Managed memory.
    ManagedMemory "managed memory";
    /// Device memory that is a mapping of a virtual range.
    MappedMemory "mapped memory";
    /// Device memory of another process.
    ImportedMemory "imported memory";
    /// Device memory that somebody else owns.
    BorrowedMemory "borrowed memory";
    /// A physical allocation without an address.
    PhysicalAllocation "physical allocation";
    /// A range of addresses without memory.
    Reservation "address reservation";
    /// A physical allocation mapped into a reservation.
    Mapping "mapping";
    /// A module.
    Module "module";
    /// A library.
    Library "library";
    /// A kernel of a library.
    Kernel "kernel";
    /// A function of a module.
    Function "function";
    /// A graph.
    Graph "graph";
    /// An executable graph.
    GraphExec "executable graph";
    /// A user object, which keeps a graph's operands.
    UserObject "user object";
    /// An array.
    Array "array";
    /// A mipmapped array.
    MipmappedArray "mipmapped array";
    /// One level of a mipmapped array.
    ArrayLevel "level of a mipmapped array";
    /// A texture.
    Texture "texture";
    /// A surface.
    Surface "surface";
    /// A registered resource of a graphics API.
    GraphicsResource "graphics resource";
    /// Imported external memory.
    ExternalMemory "external memory";
    /// An imported external semaphore.
    ExternalSemaphore "external semaphore";
    /// A link in progress.
    LinkState "link state";
    /// An NVRTC program.
    NvrtcProgram "NVRTC program";
    /// An NVVM program.
    NvvmProgram "NVVM program";
    /// A handle of nvJitLink.
    NvJitLink "nvJitLink handle";
    /// A file descriptor; its raw value is its number.
    FileDescriptor "file descriptor";
    /// A value of the user's that a borrowed object keeps alive.
    Owner "owner";
    /// A closure of the user's that the driver calls.
    Callback "callback";
    /// A sink or an escalation hook of the report channel.
    Sink "sink";
    /// The reclaimer.
    Reclaimer "reclaimer";
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One object, named as warnings and errors name it: `stream 0x7f31a0 (#12)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::exhaustive_structs, reason = "plain values that every layer puts together")]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// The driver's value for it: a handle, an address, a number; 0 where it has none.
    pub raw: u64,
    /// The id, which no other object of the driver ever has; 0 where it has none.
    pub id: u64,
}

impl Object {
    /// An object that has neither a raw value nor an id, such as the reclaimer.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn nameless(kind: ObjectKind) -> Self {
        Self { kind, raw: 0, id: 0 }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match (self.kind, self.raw) {
            (ObjectKind::FileDescriptor, number) => write!(f, " {number}")?,
            (_, 0) => {}
            (_, raw) => write!(f, " {raw:#x}")?,
        }
        match self.id {
            0 => Ok(()),
            id => write!(f, " (#{id})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_object_is_its_kind_its_raw_value_and_its_id() {
        let stream = Object { kind: ObjectKind::Stream, raw: 0x7f31a0, id: 12 };
        assert_eq!(stream.to_string(), "stream 0x7f31a0 (#12)");
    }

    #[test]
    fn what_an_object_has_not_is_left_out() {
        assert_eq!(Object::nameless(ObjectKind::Reclaimer).to_string(), "reclaimer");
        let owner = Object { kind: ObjectKind::Owner, raw: 0, id: 3 };
        assert_eq!(owner.to_string(), "owner (#3)");
        let graph = Object { kind: ObjectKind::Graph, raw: 16, id: 0 };
        assert_eq!(graph.to_string(), "graph 0x10");
    }

    #[test]
    fn a_file_descriptor_shows_its_number() {
        let descriptor = Object { kind: ObjectKind::FileDescriptor, raw: 10, id: 2 };
        assert_eq!(descriptor.to_string(), "file descriptor 10 (#2)");
    }

    #[test]
    fn no_two_kinds_share_their_words() {
        let words: BTreeSet<_> = ObjectKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(words.len(), ObjectKind::ALL.len());
    }
}
