//! The list of nvJitLink's functions, kept by hand, and what follows from it alone: the calls' identities.
//!
//! An entry reads `name kind version (arguments);`, the version being the one that brought the function. All answer an
//! [`nvJitLinkResult`].

#![expect(unsafe_code, reason = "a handle is a pointer in C and must be declared Send and Sync")]

use super::nvJitLinkResult;
use crate::Bits;
use core::ffi::c_uint;

/// Hands every entry of nvJitLink's list to the macro `$generator`, after `$head`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_nvjitlink_function {
    ($generator:path, $head:tt) => { $generator! { $head
        nvJitLinkVersion Query 12030 (major: *mut c_uint, minor: *mut c_uint);

        // Links
        nvJitLinkCreate Create 12000 (handle: *mut nvJitLinkHandle, num_options: c_uint, options: *const *const c_char);
        nvJitLinkDestroy Destroy 12000 (handle: *mut nvJitLinkHandle);
        nvJitLinkAddData Mutate 12000 (handle: nvJitLinkHandle, input_type: nvJitLinkInputType, data: *const c_void, size: usize,
            name: *const c_char);
        nvJitLinkAddFile Mutate 12000 (handle: nvJitLinkHandle, input_type: nvJitLinkInputType, file_name: *const c_char);
        nvJitLinkComplete Mutate 12000 (handle: nvJitLinkHandle);

        // What a link gave
        nvJitLinkGetLinkedCubinSize Query 12000 (handle: nvJitLinkHandle, size: *mut usize);
        nvJitLinkGetLinkedCubin Query 12000 (handle: nvJitLinkHandle, cubin: *mut c_void);
        nvJitLinkGetLinkedPtxSize Query 12000 (handle: nvJitLinkHandle, size: *mut usize);
        nvJitLinkGetLinkedPtx Query 12000 (handle: nvJitLinkHandle, ptx: *mut c_char);
        nvJitLinkGetLinkedLTOIRSize Query 13000 (handle: nvJitLinkHandle, size: *mut usize);
        nvJitLinkGetLinkedLTOIR Query 13000 (handle: nvJitLinkHandle, ltoir: *mut c_void);
        nvJitLinkGetErrorLogSize Query 12000 (handle: nvJitLinkHandle, size: *mut usize);
        nvJitLinkGetErrorLog Query 12000 (handle: nvJitLinkHandle, log: *mut c_char);
        nvJitLinkGetInfoLogSize Query 12000 (handle: nvJitLinkHandle, size: *mut usize);
        nvJitLinkGetInfoLog Query 12000 (handle: nvJitLinkHandle, log: *mut c_char);
    } };
}

crate::compiler::handle! {
    /// nvJitLink's handle of a link.
    nvJitLinkHandle
}

/// What an input of a link is.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(non_camel_case_types, reason = "nvJitLink's own name")]
#[expect(clippy::exhaustive_structs, reason = "the layout is C's")]
pub struct nvJitLinkInputType(pub c_uint);

impl nvJitLinkInputType {
    /// Code for one architecture.
    pub const CUBIN: Self = Self(1);
    /// PTX text.
    pub const PTX: Self = Self(2);
    /// Code for link-time optimization.
    pub const LTOIR: Self = Self(3);
    /// Several of these in one.
    pub const FATBIN: Self = Self(4);
    /// A host object with device code in it.
    pub const OBJECT: Self = Self(5);
    /// An archive of such objects.
    pub const LIBRARY: Self = Self(6);
    /// An index file.
    pub const INDEX: Self = Self(7);
    /// Whatever it is found to be.
    pub const ANY: Self = Self(10);
}

impl Bits for nvJitLinkInputType {
    fn bits(&self) -> u64 {
        self.0.into()
    }
}

crate::for_each_nvjitlink_function! { crate::compiler::calls, { NvJitLinkCall nvJitLinkResult "nvJitLink" } }
