//! Every argument of a driver call as one word, for hooks.

use crate::ffi::*;

/// An argument as a word: a handle's value, an integer, an address. What is larger than a word shows its first word.
pub trait Bits {
    /// The word.
    fn bits(&self) -> u64;
}

impl<T> Bits for *mut T {
    fn bits(&self) -> u64 {
        self.addr() as u64
    }
}

impl<T> Bits for *const T {
    fn bits(&self) -> u64 {
        self.addr() as u64
    }
}

macro_rules! bits {
    (handles: $($handle:ident)*) => { $(impl Bits for $handle {
        fn bits(&self) -> u64 {
            self.0.bits()
        }
    })* };
    (enums: $($name:ident)*) => { $(impl Bits for $name {
        fn bits(&self) -> u64 {
            self.0.into()
        }
    })* };
    (integers: $($integer:ty)*) => { $(
        #[allow(trivial_numeric_casts, clippy::cast_lossless, clippy::cast_sign_loss, clippy::allow_attributes, reason = "the word shows the argument's bits; not each integer needs each")]
        impl Bits for $integer {
            fn bits(&self) -> u64 {
                *self as u64
            }
        }
    )* };
    (functions: $($function:ident)*) => { $(impl Bits for $function {
        fn bits(&self) -> u64 {
            self.map_or(0, |function| (function as *const ()).addr() as u64)
        }
    })* };
}

bits! { integers: i32 u32 u64 u16 u8 usize }
bits! { functions: CUhostFn CUstreamCallback CUasyncCallback CUlogsCallback CUoccupancyB2DSize CUgraphRecaptureCallback }
bits! { handles:
    CUcontext CUmodule CUfunction CUlibrary CUkernel CUarray CUmipmappedArray CUevent CUstream CUgraphicsResource
    CUexternalMemory CUexternalSemaphore CUgraph CUgraphNode CUgraphExec CUmemoryPool CUuserObject CUgreenCtx
    CUlinkState CUasyncCallbackHandle CUlogsCallbackHandle CUdevResourceDesc
}
bits! { enums:
    CUresult CUarray_format CUdevResourceType CUdevice_P2PAttribute CUdevice_attribute CUexecAffinityType
    CUflushGPUDirectRDMAWritesScope CUflushGPUDirectRDMAWritesTarget CUfunc_cache CUfunction_attribute
    CUgraphMem_attribute CUjitInputType CUlaunchAttributeID CUlimit CUmemAllocationGranularity_flags
    CUmemAllocationHandleType CUmemAllocationType CUmemPool_attribute CUmemRangeHandleType CUmem_advise
    CUmem_range_attribute CUmulticastGranularity_flags CUpointer_attribute CUstreamCaptureMode CUtensorMapDataType
    CUtensorMapFloatOOBfill CUtensorMapIm2ColWideMode CUtensorMapInterleave CUtensorMapL2promotion CUtensorMapSwizzle
}

impl Bits for CUmemLocation {
    fn bits(&self) -> u64 {
        self.type_.0.into()
    }
}

impl Bits for CUipcMemHandle {
    fn bits(&self) -> u64 {
        first_word(&self.reserved)
    }
}

impl Bits for CUipcEventHandle {
    fn bits(&self) -> u64 {
        first_word(&self.reserved)
    }
}

fn first_word(bytes: &[c_char]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = from.to_ne_bytes()[0];
    }
    u64::from_ne_bytes(word)
}
