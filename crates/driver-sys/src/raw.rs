//! The driver's handles as newtypes, and the few constants of `cuda.h` that bindgen can't read.
//!
//! A handle is a word that only the driver may follow. It is `Send` and `Sync` like an integer: whether two threads
//! may *use* it at once is decided by the types of the layers above.

#![expect(unsafe_code, reason = "handles are pointers in C and must be declared Send and Sync")]

use crate::generated::types::{
    CUdevice, CUmemLocation, CUmemLocation_st__bindgen_ty_1, CUmemLocationType,
};
use core::{ffi::c_void, fmt};

macro_rules! handles {
    ($($name:ident: $what:literal;)*) => { $(
        #[doc = concat!("The driver's handle of ", $what, ".")]
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(clippy::exhaustive_structs, reason = "the layout is C's")]
        pub struct $name(pub *mut c_void);

        // SAFETY: the word is never followed on this side; sending it is sending an integer.
        unsafe impl Send for $name {}
        // SAFETY: as above; sharing it is sharing an integer.
        unsafe impl Sync for $name {}

        impl $name {
            /// The null handle.
            pub const NULL: Self = Self(core::ptr::null_mut());

            /// Whether this is the null handle.
            #[must_use]
            #[inline]
            pub const fn is_null(self) -> bool {
                self.0.is_null()
            }

            /// A handle with this value, for special values such as the default streams and for simulated ones.
            #[must_use]
            #[inline]
            pub const fn from_addr(addr: usize) -> Self {
                Self(core::ptr::without_provenance_mut(addr))
            }

            /// The handle's value as an integer.
            #[must_use]
            #[inline]
            pub fn addr(self) -> usize {
                self.0.addr()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NULL
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.addr())
            }
        }
    )* };
}

handles! {
    CUcontext: "a context";
    CUmodule: "a module";
    CUfunction: "a function of a module";
    CUlibrary: "a library, loaded without a context";
    CUkernel: "a kernel of a library";
    CUarray: "an array";
    CUmipmappedArray: "a mipmapped array";
    CUtexref: "a texture reference";
    CUsurfref: "a surface reference";
    CUevent: "an event";
    CUstream: "a stream";
    CUgraphicsResource: "a registered graphics resource";
    CUexternalMemory: "imported external memory";
    CUexternalSemaphore: "an imported external semaphore";
    CUgraph: "a graph";
    CUgraphNode: "a node of a graph";
    CUgraphExec: "an executable graph";
    CUmemoryPool: "a memory pool";
    CUuserObject: "a user object";
    CUgraphDeviceNode: "a node that device code may update";
    CUasyncCallbackHandle: "a registered asynchronous notification";
    CUgreenCtx: "a green context";
    CUlinkState: "a link in progress";
    CUcheckpointOperationHandle: "a checkpoint operation";
    CUcoredumpCallbackHandle: "a registered core-dump callback";
    CUdevResourceDesc: "a description of device resources";
    CUlogsCallbackHandle: "a registered log callback";
}

/// The legacy default stream, whatever the default-stream mode of the caller is compiled for.
pub const CU_STREAM_LEGACY: CUstream = CUstream::from_addr(1);
/// The calling thread's own default stream.
pub const CU_STREAM_PER_THREAD: CUstream = CUstream::from_addr(2);
/// Ends the `extra` list of a launch.
pub const CU_LAUNCH_PARAM_END: *mut c_void = core::ptr::null_mut();
/// In the `extra` list of a launch: the next entry is the packed parameters' address.
pub const CU_LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = core::ptr::without_provenance_mut(1);
/// In the `extra` list of a launch: the next entry is the address of the packed parameters' size.
pub const CU_LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = core::ptr::without_provenance_mut(2);
/// The host, where a device is asked for.
pub const CU_DEVICE_CPU: core::ffi::c_int = -1;
/// No device.
pub const CU_DEVICE_INVALID: core::ffi::c_int = -2;

impl CUmemLocation {
    /// A place of this kind with this number, which some kinds make no use of.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub const fn new(type_: CUmemLocationType, id: core::ffi::c_int) -> Self {
        Self { type_, __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id } }
    }

    /// A device.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub const fn device(id: CUdevice) -> Self {
        Self::new(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id)
    }
}
