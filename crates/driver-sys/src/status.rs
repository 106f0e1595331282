//! The driver's status codes: an integer with names, so that a code newer than this crate stays the number it is.
//!
//! Names and descriptions are this crate's own table. The driver isn't asked: it doesn't answer before a library is
//! loaded nor after process exit began (measured).
//!
//! Source: CUDA Driver API 13.x, "Data types used by CUDA driver", `CUresult`.

use core::{ffi::c_uint, fmt};

/// What a driver call answered.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "the layout is C's")]
pub struct CUresult(pub c_uint);

macro_rules! statuses {
    ($($name:ident $code:literal $text:literal;)*) => {
        impl CUresult {
            $(
                #[doc = concat!("`CUDA_ERROR_", stringify!($name), "` (", stringify!($code), "): ", $text, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every code that this crate knows, [`SUCCESS`](Self::SUCCESS) and [`MISSING`](Self::MISSING) aside.
            pub const KNOWN: &[Self] = &[$(Self::$name),*];

            const fn entry(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    0 => Some(("CUDA_SUCCESS", "no error")),
                    $($code => Some((concat!("CUDA_ERROR_", stringify!($name)), $text)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    INVALID_VALUE 1 "an argument is outside its range, or the handle isn't known";
    OUT_OF_MEMORY 2 "not enough memory, or not enough address space, for the request";
    NOT_INITIALIZED 3 "the driver isn't initialized in this process";
    DEINITIALIZED 4 "the driver is shutting down with the process";
    PROFILER_DISABLED 5 "the profiler isn't active in this run";
    PROFILER_NOT_INITIALIZED 6 "the profiler wasn't initialized (no longer used)";
    PROFILER_ALREADY_STARTED 7 "the profiler runs already (no longer used)";
    PROFILER_ALREADY_STOPPED 8 "the profiler was stopped already (no longer used)";
    STUB_LIBRARY 34 "the loaded library is the toolkit's stub, not a driver";
    CALL_REQUIRES_NEWER_DRIVER 36 "this call needs a newer driver";
    DEVICE_UNAVAILABLE 46 "the device can't be used now, often because another process has it exclusively";
    MULTICAST_RESOURCE_FULL 47 "no multicast resource is left";
    NO_DEVICE 100 "no CUDA device was found";
    INVALID_DEVICE 101 "there is no device of that number, or it can't do what was asked";
    DEVICE_NOT_LICENSED 102 "the device has no licence";
    INVALID_IMAGE 200 "the module image isn't one";
    INVALID_CONTEXT 201 "no context is current, or the context isn't valid here";
    CONTEXT_ALREADY_CURRENT 202 "the context is current already (no longer used)";
    MAP_FAILED 205 "mapping failed";
    UNMAP_FAILED 206 "unmapping failed";
    ARRAY_IS_MAPPED 207 "the array is mapped and can't be destroyed";
    ALREADY_MAPPED 208 "the resource is mapped already";
    NO_BINARY_FOR_GPU 209 "the image holds no code for this device";
    ALREADY_ACQUIRED 210 "the resource was acquired already";
    NOT_MAPPED 211 "the resource isn't mapped";
    NOT_MAPPED_AS_ARRAY 212 "the resource isn't mapped as an array";
    NOT_MAPPED_AS_POINTER 213 "the resource isn't mapped as a pointer";
    ECC_UNCORRECTABLE 214 "memory on the device failed and couldn't be corrected";
    UNSUPPORTED_LIMIT 215 "the device doesn't have this limit";
    CONTEXT_ALREADY_IN_USE 216 "the context is in use by another thread";
    PEER_ACCESS_UNSUPPORTED 217 "the devices can't reach each other's memory";
    INVALID_PTX 218 "compiling the PTX failed";
    INVALID_GRAPHICS_CONTEXT 219 "the graphics context isn't valid";
    NVLINK_UNCORRECTABLE 220 "NVLink failed and couldn't be corrected";
    JIT_COMPILER_NOT_FOUND 221 "the library that compiles PTX wasn't found";
    UNSUPPORTED_PTX_VERSION 222 "the PTX is newer than the driver's compiler";
    JIT_COMPILATION_DISABLED 223 "compiling PTX is switched off";
    UNSUPPORTED_EXEC_AFFINITY 224 "the device doesn't have this execution affinity";
    UNSUPPORTED_DEVSIDE_SYNC 225 "the code synchronizes on the device in a way that is no longer supported";
    CONTAINED 226 "the device had an error that was contained; this process must end";
    INSUFFICIENT_LOADER_VERSION 227 "the driver's loader is too old";
    INVALID_SOURCE 300 "the kernel's source isn't valid";
    FILE_NOT_FOUND 301 "the file wasn't found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND 302 "a symbol of a shared object wasn't found";
    SHARED_OBJECT_INIT_FAILED 303 "a shared object couldn't be initialized";
    OPERATING_SYSTEM 304 "a call to the operating system failed";
    INVALID_HANDLE 400 "the handle isn't one, or is another context's";
    ILLEGAL_STATE 401 "the object isn't in a state that allows this";
    LOSSY_QUERY 402 "the answer would leave something out";
    NOT_FOUND 500 "the name wasn't found";
    NOT_READY 600 "the work isn't done yet";
    ILLEGAL_ADDRESS 700 "device code used an address that it may not; this process's CUDA work is over";
    LAUNCH_OUT_OF_RESOURCES 701 "the launch needs more registers or memory than the device has";
    LAUNCH_TIMEOUT 702 "the kernel ran longer than the device allows";
    LAUNCH_INCOMPATIBLE_TEXTURING 703 "the kernel's texturing mode doesn't fit";
    PEER_ACCESS_ALREADY_ENABLED 704 "peer access is enabled already";
    PEER_ACCESS_NOT_ENABLED 705 "peer access isn't enabled";
    PRIMARY_CONTEXT_ACTIVE 708 "the primary context is active";
    CONTEXT_IS_DESTROYED 709 "the context was destroyed, or isn't initialized";
    ASSERT 710 "a device-side assertion failed; the context can't be used any more";
    TOO_MANY_PEERS 711 "no more peers can be enabled";
    HOST_MEMORY_ALREADY_REGISTERED 712 "the host memory is registered already";
    HOST_MEMORY_NOT_REGISTERED 713 "the host memory isn't registered";
    HARDWARE_STACK_ERROR 714 "device code overran its stack";
    ILLEGAL_INSTRUCTION 715 "device code met an instruction that isn't one";
    MISALIGNED_ADDRESS 716 "device code used an address that isn't aligned";
    INVALID_ADDRESS_SPACE 717 "device code used an address of another memory space";
    INVALID_PC 718 "device code jumped out of its program";
    LAUNCH_FAILED 719 "a kernel failed while it ran";
    COOPERATIVE_LAUNCH_TOO_LARGE 720 "the cooperative grid doesn't fit on the device at once";
    TENSOR_MEMORY_LEAK 721 "a kernel ended without giving its tensor memory back";
    NOT_PERMITTED 800 "the operation isn't permitted here";
    NOT_SUPPORTED 801 "this device or driver doesn't support the operation";
    SYSTEM_NOT_READY 802 "the system isn't ready for CUDA work";
    SYSTEM_DRIVER_MISMATCH 803 "the kernel driver and the user library don't fit together";
    COMPAT_NOT_SUPPORTED_ON_DEVICE 804 "forward compatibility isn't supported on this device";
    MPS_CONNECTION_FAILED 805 "the MPS server can't be reached";
    MPS_RPC_FAILURE 806 "a call to the MPS server failed";
    MPS_SERVER_NOT_READY 807 "the MPS server isn't ready";
    MPS_MAX_CLIENTS_REACHED 808 "the MPS server takes no more clients";
    MPS_MAX_CONNECTIONS_REACHED 809 "the MPS server takes no more connections";
    MPS_CLIENT_TERMINATED 810 "the MPS server ended this client";
    CDP_NOT_SUPPORTED 811 "launching from the device isn't supported";
    CDP_VERSION_MISMATCH 812 "code with different versions of device-side launch was mixed";
    STREAM_CAPTURE_UNSUPPORTED 900 "the operation isn't allowed while a stream is captured";
    STREAM_CAPTURE_INVALIDATED 901 "the capture was invalidated by an earlier call";
    STREAM_CAPTURE_MERGE 902 "two captures would be merged";
    STREAM_CAPTURE_UNMATCHED 903 "the capture wasn't begun on this stream";
    STREAM_CAPTURE_UNJOINED 904 "a forked stream wasn't joined before the capture ended";
    STREAM_CAPTURE_ISOLATION 905 "the captured work would depend on work outside the capture";
    STREAM_CAPTURE_IMPLICIT 906 "the default stream would depend on a stream that is captured";
    CAPTURED_EVENT 907 "the event was recorded in a capture";
    STREAM_CAPTURE_WRONG_THREAD 908 "the capture was begun by another thread";
    TIMEOUT 909 "the time allowed ran out";
    GRAPH_EXEC_UPDATE_FAILURE 910 "the executable graph can't take this update";
    EXTERNAL_DEVICE 911 "a device outside CUDA reported an error";
    INVALID_CLUSTER_SIZE 912 "the cluster size isn't possible";
    FUNCTION_NOT_LOADED 913 "the function isn't loaded";
    INVALID_RESOURCE_TYPE 914 "the kind of resource doesn't fit";
    INVALID_RESOURCE_CONFIGURATION 915 "the resources asked for don't fit together";
    KEY_ROTATION 916 "a key was being rotated";
    STREAM_DETACHED 917 "the stream's green context was destroyed";
    GRAPH_RECAPTURE_FAILURE 918 "the recaptured work doesn't fit the graph";
    FABRIC_NOT_READY 919 "the fabric isn't ready";
    UNKNOWN 999 "the driver doesn't say what failed";
}

impl CUresult {
    /// The call succeeded, and its out-parameters are written.
    pub const SUCCESS: Self = Self(0);

    /// The implementation behind [`DriverApi`](crate::DriverApi) lacks the function. No driver uses this value, and it
    /// never leaves the layers of this project as a status: above the trait it is an error kind of its own.
    pub const MISSING: Self = Self(c_uint::MAX);

    /// Whether the call succeeded.
    #[must_use]
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// CUDA's name of the code, such as `CUDA_ERROR_INVALID_VALUE`; `None` for a code newer than this crate.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self.entry() {
            Some((name, _)) => Some(name),
            None => None,
        }
    }

    /// What the code means, in one clause without a full stop; `None` for a code newer than this crate.
    #[must_use]
    pub const fn description(self) -> Option<&'static str> {
        match self.entry() {
            Some((_, text)) => Some(text),
            None => None,
        }
    }

    /// Whether the code says that a context, or all CUDA work of this process, is over.
    ///
    /// Source: the descriptions of `CUresult`; on a real driver each of these made every later call of every context
    /// of the process answer the same code (measured with 700 and 719).
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        matches!(
            self,
            Self::ECC_UNCORRECTABLE
                | Self::NVLINK_UNCORRECTABLE
                | Self::CONTAINED
                | Self::ILLEGAL_ADDRESS
                | Self::LAUNCH_TIMEOUT
                | Self::ASSERT
                | Self::HARDWARE_STACK_ERROR
                | Self::ILLEGAL_INSTRUCTION
                | Self::MISALIGNED_ADDRESS
                | Self::INVALID_ADDRESS_SPACE
                | Self::INVALID_PC
                | Self::LAUNCH_FAILED
                | Self::TENSOR_MEMORY_LEAK
                | Self::MPS_CLIENT_TERMINATED
                | Self::EXTERNAL_DEVICE
        )
    }
}

impl fmt::Display for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), *self) {
            (Some(name), Self(code)) => write!(f, "{name} ({code})"),
            (None, Self::MISSING) => f.write_str("missing function"),
            (None, Self(code)) => write!(f, "status {code}"),
        }
    }
}

impl fmt::Debug for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_this_crate_does_not_know_prints_as_its_number() {
        assert_eq!(CUresult(9999).to_string(), "status 9999");
        assert_eq!(CUresult(9999).name(), None);
    }

    #[test]
    fn known_codes_are_in_order_and_have_both_texts() {
        assert!(CUresult::KNOWN.is_sorted());
        for code in CUresult::KNOWN {
            assert!(code.name().is_some_and(|n| n.starts_with("CUDA_ERROR_")));
            assert!(code.description().is_some_and(|d| !d.is_empty() && !d.ends_with('.')));
        }
    }

    #[test]
    fn missing_is_no_driver_code() {
        assert!(!CUresult::KNOWN.contains(&CUresult::MISSING));
        assert_eq!(CUresult::MISSING.to_string(), "missing function");
    }
}
