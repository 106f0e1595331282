//! Known causes: one sentence for a call that answered a status, where the cause is known from a measurement or the
//! manual. Adds to the driver's answer, never replaces it.

use cuhold_driver_sys::{CUresult, Call};

/// The known cause, in the grammar of errors.
pub(crate) fn cause(call: Call, status: CUresult) -> Option<&'static str> {
    Some(match (call.name(), status) {
        (_, CUresult::NOT_INITIALIZED) => {
            "a child of a fork can't use CUDA, and no call works before the first device"
        }
        ("cuInit", CUresult::STUB_LIBRARY) => {
            "the toolkit's stub libcuda was loaded instead of the driver's"
        }
        ("cuInit", CUresult::SYSTEM_DRIVER_MISMATCH) => {
            "the kernel module and libcuda are of different versions, often after an update without a reboot"
        }
        ("cuDeviceGet", CUresult::INVALID_DEVICE) => {
            "device ordinals count from 0 to one less than the device count"
        }
        ("cuEventRecord", CUresult::INVALID_HANDLE) => {
            "an event is recorded only on streams of the context that it was made in"
        }
        ("cuEventElapsedTime", CUresult::INVALID_HANDLE) => {
            "both events must be made with timing, be recorded, and belong to one context"
        }
        ("cuLaunchKernel" | "cuLaunchKernelEx", CUresult::INVALID_VALUE) => {
            "the grid, the block or the shared memory is outside the device's limits, or parameters are missing"
        }
        ("cuLibraryLoadData" | "cuModuleLoadData", CUresult::NO_BINARY_FOR_GPU) => {
            "the image was compiled for another architecture"
        }
        ("cuLibraryLoadData" | "cuModuleLoadData", CUresult::UNSUPPORTED_PTX_VERSION) => {
            "the compiler that made the PTX is newer than the driver"
        }
        ("cuLibraryGetKernel", CUresult::NOT_FOUND) => {
            "the library has no kernel of this name; C++ names are mangled unless declared extern \"C\""
        }
        ("cuMemPoolCreate", CUresult::OUT_OF_MEMORY) => {
            "each pool reserves address space; a smaller maximum size per pool leaves room for more of them"
        }
        (name, CUresult::INVALID_VALUE) if name.starts_with("cuMemcpy") => {
            "a range lies outside its allocation, or memory of a pool is copied with another device's context current"
        }
        (_, CUresult::STREAM_CAPTURE_UNSUPPORTED) => {
            "a stream of this process is being captured in a mode that forbids the call, and that capture is invalid now"
        }
        (_, status) if status.is_fatal() => {
            "queued work failed earlier, and no CUDA work can be done in this process now"
        }
        _ => return None,
    })
}
