//! The list of known causes. The comment in front of each says how it is known: "measured" is an answer of the driver
//! that this project was tried on, "manual" a passage of the CUDA Driver API 13.x, by chapter.

use super::{Hint, hint};
use cuhold_driver_sys::CUresult;

const LAUNCH: &[&str] = &["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"];
const LOAD: &[&str] =
    &["cuLibraryLoadData", "cuLibraryLoadFromFile", "cuModuleLoadData", "cuModuleLoadDataEx"];
const NEW_CONTEXT: &[&str] = &["cuDevicePrimaryCtxRetain", "cuCtxCreate"];
const EVENT: &[&str] = &["cuEventQuery", "cuEventSynchronize"];
const POOLED: &[&str] = &["cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemPoolCreate"];
const PINNED: &[&str] = &["cuMemHostAlloc", "cuMemAllocHost", "cuMemHostRegister"];

const NEW_ARRAY: &[&str] = &["cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"];

pub(super) const HINTS: &[Hint] = &[
    // -- Beginning --
    // Manual, Initialization: cuInit answers the stub's status.
    hint(
        &["cuInit"],
        CUresult::STUB_LIBRARY,
        "the toolkit's stub libcuda was loaded instead of the driver's",
        "take the toolkit's folder of stubs off the library path",
    ),
    // Manual, CUresult: no CUDA-capable device was detected; the variable is the programming guide's.
    hint(
        &["cuInit"],
        CUresult::NO_DEVICE,
        "there is a driver, and no GPU that this process may see",
        "look at CUDA_VISIBLE_DEVICES, and at which devices a container was given",
    ),
    // Manual, CUresult: display driver and CUDA driver versions mismatch.
    hint(
        &["cuInit"],
        CUresult::SYSTEM_DRIVER_MISMATCH,
        "the kernel module and libcuda are of different versions, often after an update without a reboot",
        "reboot, or load the kernel module again",
    ),
    // Manual, CUresult: forward compatibility on a device that doesn't support it.
    hint(
        &["cuInit"],
        CUresult::COMPAT_NOT_SUPPORTED_ON_DEVICE,
        "a libcuda for forward compatibility was loaded, which this device doesn't take",
        "take the folder of the compatibility package off the library path",
    ),
    // Manual, CUresult: required driver daemons must run.
    hint(
        &["cuInit"],
        CUresult::SYSTEM_NOT_READY,
        "a service that this system's GPUs need isn't running yet, such as the fabric manager",
        "start it, see that it came up, and try again",
    ),
    // Manual, CUresult: the MPS client failed to connect.
    hint(
        &["cuInit"],
        CUresult::MPS_CONNECTION_FAILED,
        "the environment asks for MPS, and its control daemon doesn't answer",
        "start the daemon, and see that CUDA_MPS_PIPE_DIRECTORY is the same here and there",
    ),
    // Manual, Device Management: ordinals are in [0, cuDeviceGetCount() - 1].
    hint(
        &["cuDeviceGet"],
        CUresult::INVALID_DEVICE,
        "device ordinals count from 0 to one less than the device count",
        "ask the driver for its device count first",
    ),
    // Manual, CUresult: exclusive mode, or unavailable.
    hint(
        NEW_CONTEXT,
        CUresult::DEVICE_UNAVAILABLE,
        "the device is in exclusive mode, and another process has it",
        "see in nvidia-smi which one, or set the default compute mode",
    ),
    // Manual, Context Management: creating one allocates on the device.
    hint(
        NEW_CONTEXT,
        CUresult::OUT_OF_MEMORY,
        "a context needs memory of its device, which others have taken",
        "see in nvidia-smi who has it, or use another device",
    ),
    // Measured: a child of a fork; manual: cuInit comes before every other call.
    hint(
        &[],
        CUresult::NOT_INITIALIZED,
        "a child of a fork can't use CUDA, and no call works before the first device",
        "make a device first; start workers as new programs, or fork them before CUDA is used",
    ),
    // Measured at exit; manual, CUresult.
    hint(
        &[],
        CUresult::DEINITIALIZED,
        "the process is ending, and the driver with it",
        "close objects before main returns where their end matters",
    ),
    // -- Contexts --
    // Measured: a context destroyed, or a primary one reset, while it is current.
    hint(
        &[],
        CUresult::CONTEXT_IS_DESTROYED,
        "somebody ended or reset the context under this object",
        "find who does, and make the object again in a context that is alive",
    ),
    // Measured with none current, and with a destroyed one pushed.
    hint(
        &[],
        CUresult::INVALID_CONTEXT,
        "no context is current on this thread, or the one that was given ended",
        "see that raw and borrowed contexts outlive what is made in them",
    ),
    // Manual, Green Contexts: streams of a destroyed green context are detached.
    hint(
        &[],
        CUresult::STREAM_DETACHED,
        "the green context that the stream was made in is gone",
        "keep the green context as long as its streams",
    ),
    // Manual, Peer Context Memory Access.
    hint(
        &["cuCtxEnablePeerAccess"],
        CUresult::PEER_ACCESS_ALREADY_ENABLED,
        "somebody in this process enabled it before",
        "go on, and leave it enabled for whoever that was",
    ),
    // Measured of a device and itself; manual, Peer Context Memory Access.
    hint(
        &["cuCtxEnablePeerAccess"],
        CUresult::PEER_ACCESS_UNSUPPORTED,
        "these two devices have no path to each other's memory, or are one",
        "ask cuDeviceCanAccessPeer first, and copy through the host where it says no",
    ),
    // -- Events --
    // Measured.
    hint(
        &["cuEventRecord"],
        CUresult::INVALID_HANDLE,
        "an event is recorded only on streams of the context that it was made in",
        "make the event in the stream's context",
    ),
    // Measured: each of the three.
    hint(
        &["cuEventElapsedTime"],
        CUresult::INVALID_HANDLE,
        "both events must be made with timing, be recorded, and belong to one context",
        "make both with timing, and record both before the time is asked for",
    ),
    // Measured: during the capture.
    hint(
        EVENT,
        CUresult::CAPTURED_EVENT,
        "the event marks work of a capture, which nobody can wait for; that capture is invalid now",
        "mark other work with another event, and this work by an event after the graph's launch",
    ),
    // Measured: after the capture, before and after its graph is destroyed.
    hint(
        &["cuEventQuery", "cuEventSynchronize", "cuStreamWaitEvent"],
        CUresult::INVALID_VALUE,
        "the event was last recorded inside a capture that has ended",
        "record it again outside of a capture",
    ),
    // -- Captures --
    // Measured.
    hint(
        &["cuStreamBeginCapture"],
        CUresult::STREAM_CAPTURE_UNSUPPORTED,
        "the legacy default stream can't be captured",
        "capture a stream that was created",
    ),
    // Measured.
    hint(
        &["cuStreamEndCapture"],
        CUresult::ILLEGAL_STATE,
        "the stream isn't being captured, or its capture is over already",
        "end each capture once, on the stream on which it began",
    ),
    // Measured: by calls of this thread and of others.
    hint(
        &["cuStreamEndCapture"],
        CUresult::STREAM_CAPTURE_INVALIDATED,
        "a call that the capture forbids was made meanwhile, on this thread or on another one",
        "look for the call that failed before this one, or capture in relaxed mode",
    ),
    // Measured.
    hint(
        &["cuStreamEndCapture"],
        CUresult::STREAM_CAPTURE_UNJOINED,
        "work of a stream that was forked into the capture isn't joined to the first stream",
        "let the first stream wait for an event behind the last work of each forked one",
    ),
    // Measured.
    hint(
        &["cuStreamEndCapture"],
        CUresult::STREAM_CAPTURE_UNMATCHED,
        "the stream was forked into the capture, which began on another one",
        "end the capture on the stream on which it began",
    ),
    // Measured: the capture is over, and its graph is gone.
    hint(
        &["cuStreamEndCapture"],
        CUresult::STREAM_CAPTURE_WRONG_THREAD,
        "only a relaxed capture may end on another thread than it began on; this one is over, without a graph",
        "end it where it began, or begin it in relaxed mode",
    ),
    // Measured.
    hint(
        &["cuStreamWaitEvent"],
        CUresult::STREAM_CAPTURE_MERGE,
        "the event belongs to one capture and the stream to another one; both are invalid now",
        "let one of the captures end first, or capture both streams as one",
    ),
    // Measured: the capture is invalid afterwards.
    hint(
        &["cuStreamWaitEvent"],
        CUresult::STREAM_CAPTURE_ISOLATION,
        "a captured stream can't wait for work outside its capture, which is invalid now",
        "wait before the capture begins, or record the event inside of it",
    ),
    // Measured: frees, plain copies and fills, in every mode.
    hint(
        &[],
        CUresult::STREAM_CAPTURE_IMPLICIT,
        "the legacy default stream is ordered with blocking streams, one of which is being captured",
        "capture a stream that isn't blocking, or keep off the default stream meanwhile",
    ),
    // Measured: loads, unloads, allocations, waits and questions, and the failing call invalidates.
    hint(
        &[],
        CUresult::STREAM_CAPTURE_UNSUPPORTED,
        "a stream of this process is being captured in a mode that forbids the call, and that capture is invalid now",
        "make the call before or after the capture, or capture in relaxed mode",
    ),
    // Manual, CUresult: an earlier error invalidated the capture sequence.
    hint(
        &[],
        CUresult::STREAM_CAPTURE_INVALIDATED,
        "an earlier call has invalidated the capture of this stream",
        "end the capture and begin it again; the call that failed first has the cause",
    ),
    // -- Code --
    // Manual, CUresult: no kernel image that suits the device.
    hint(
        LOAD,
        CUresult::NO_BINARY_FOR_GPU,
        "the image was compiled for another architecture",
        "compile it for this device's compute capability, or put PTX into it",
    ),
    // Manual, CUresult: the PTX is newer than the driver's compiler.
    hint(
        LOAD,
        CUresult::UNSUPPORTED_PTX_VERSION,
        "the compiler that made the PTX is newer than the driver",
        "update the driver, or compile with a toolkit that isn't newer than it",
    ),
    // Measured: a syntax error, and a newer target.
    hint(
        LOAD,
        CUresult::INVALID_PTX,
        "the PTX has an error, or is for a newer architecture than this device's",
        "compile it for this device, or give it to ptxas, which names the line",
    ),
    // Measured: garbage.
    hint(
        LOAD,
        CUresult::INVALID_IMAGE,
        "the image is neither PTX nor a cubin nor a fat binary, or isn't whole",
        "see that the whole file was read, and text with its NUL byte",
    ),
    // Manual, CUresult.
    hint(
        LOAD,
        CUresult::JIT_COMPILER_NOT_FOUND,
        "the driver's PTX compiler is a library of its own, which isn't installed",
        "install the whole driver, or ship binary code for this device",
    ),
    // Manual, CUresult; the variable is the programming guide's.
    hint(
        LOAD,
        CUresult::JIT_COMPILATION_DISABLED,
        "the environment switches the compilation of PTX off",
        "unset CUDA_DISABLE_PTX_JIT, or ship binary code for this device",
    ),
    // Measured.
    hint(
        &["cuLibraryGetKernel"],
        CUresult::NOT_FOUND,
        "the library has no kernel of this name; C++ names are mangled unless declared extern \"C\"",
        "declare the kernel extern \"C\", or ask for the mangled name",
    ),
    // Measured.
    hint(
        &["cuModuleGetFunction"],
        CUresult::NOT_FOUND,
        "the module has no kernel of this name; C++ names are mangled unless declared extern \"C\"",
        "declare the kernel extern \"C\", or ask for the mangled name",
    ),
    // -- Launches --
    // Measured: no blocks, 2048 threads, a megabyte of shared memory, no parameters.
    hint(
        LAUNCH,
        CUresult::INVALID_VALUE,
        "the grid, the block or the shared memory is outside the device's limits, or parameters are missing",
        "compare the launch with the device's attributes and with the kernel's parameters",
    ),
    // Measured: a function of another context.
    hint(
        LAUNCH,
        CUresult::INVALID_HANDLE,
        "the function belongs to another context than the stream, or its code was unloaded",
        "launch on a stream of the module's context, or load the code as a library",
    ),
    // Manual, CUresult: too many threads for the kernel's registers.
    hint(
        LAUNCH,
        CUresult::LAUNCH_OUT_OF_RESOURCES,
        "a block of this kernel needs more registers or shared memory than there are",
        "launch smaller blocks, or compile for fewer registers a thread",
    ),
    // Measured: a grid that doesn't fit.
    hint(
        LAUNCH,
        CUresult::COOPERATIVE_LAUNCH_TOO_LARGE,
        "all blocks of a cooperative launch must be on the device at once",
        "launch no more blocks than the occupancy allows on all multiprocessors",
    ),
    // Manual, Execution Control: the cluster divides the grid.
    hint(
        LAUNCH,
        CUresult::INVALID_CLUSTER_SIZE,
        "the cluster doesn't divide the grid, or is larger than the device allows",
        "make the grid a multiple of the cluster, and the cluster smaller",
    ),
    // Manual, CUresult; code of a library is looked for when it is first needed.
    hint(
        LAUNCH,
        CUresult::NO_BINARY_FOR_GPU,
        "the library holds no code for this device",
        "compile it for this device's compute capability, or put PTX into it",
    ),
    // -- Memory --
    // Measured: an uncapped pool too many.
    hint(
        &["cuMemPoolCreate"],
        CUresult::OUT_OF_MEMORY,
        "each pool reserves address space; a smaller maximum size per pool leaves room for more of them",
        "make pools with a smaller maximum, or fewer of them",
    ),
    // Measured: above the pool's maximum.
    hint(
        &["cuMemAllocFromPoolAsync"],
        CUresult::OUT_OF_MEMORY,
        "the pool is at its maximum, or the device has no more",
        "make the pool larger, trim other pools, or drop buffers and wait for their streams",
    ),
    // Measured: more than there is. Manual, Stream Ordered Memory Allocator: pools hold memory back.
    hint(
        &["cuMemAllocAsync", "cuMemAlloc", "cuMemCreate"],
        CUresult::OUT_OF_MEMORY,
        "the device's memory is in use, or held back by pools",
        "drop buffers, trim pools after their streams are done, or use another device",
    ),
    // Manual, Memory Management: page-locked memory reduces what the system has.
    hint(
        PINNED,
        CUresult::OUT_OF_MEMORY,
        "page-locked memory is the machine's, which has no more to lock",
        "lock less at once, or raise the limit of the container",
    ),
    // Manual, Device Management: an attribute says whether a device has pools.
    hint(
        POOLED,
        CUresult::NOT_SUPPORTED,
        "this device has no stream-ordered memory",
        "take memory from another resource on this device",
    ),
    // Measured: freed before, allocated otherwise, on a captured stream.
    hint(
        &["cuMemFreeAsync"],
        CUresult::INVALID_VALUE,
        "the memory isn't stream-ordered or is freed already, or the stream is being captured",
        "free memory by the call that goes with its allocation, and off captured streams",
    ),
    // Measured: beyond the end; memory of a pool with another device current.
    hint(
        &["cuMemcpy*"],
        CUresult::INVALID_VALUE,
        "a range lies outside its allocation, or memory of a pool is copied with another device's context current",
        "compare offset and length with both allocations",
    ),
    // Measured: also where ranges overlap.
    hint(
        &["cuMemHostRegister"],
        CUresult::HOST_MEMORY_ALREADY_REGISTERED,
        "a part of the range is registered already",
        "register ranges that don't overlap, or the whole of it once",
    ),
    // Measured.
    hint(
        &["cuMemHostUnregister"],
        CUresult::HOST_MEMORY_NOT_REGISTERED,
        "no range that is registered begins at this address",
        "unregister each range once, by the address with which it was registered",
    ),
    // Measured: revoking the owner's access.
    hint(
        &["cuMemPoolSetAccess"],
        CUresult::INVALID_DEVICE,
        "a pool's own device always has access to it",
        "leave the pool's own device out of the list",
    ),
    // Measured: memory of pinned host pools.
    hint(
        &["cuMemPoolImportPointer"],
        CUresult::ALREADY_MAPPED,
        "this process has imported the same memory before",
        "use the import that is there",
    ),
    // -- Arrays --
    // Measured: sizes beyond the device's, flags that don't fit the shape.
    hint(
        NEW_ARRAY,
        CUresult::INVALID_VALUE,
        "a size, or a number of layers, is beyond what the device allows for an array of this shape",
        "compare it with the device's attributes MAXIMUM_TEXTURE1D_WIDTH and its like",
    ),
    // -- Graphs --
    // Measured.
    hint(
        &["cuGraphInstantiate"],
        CUresult::NOT_SUPPORTED,
        "a graph that allocates memory has one executable at a time",
        "end the executable that there is first",
    ),
    // Manual, Graph Management: what an update may change.
    hint(
        &["cuGraphExecUpdate"],
        CUresult::GRAPH_EXEC_UPDATE_FAILURE,
        "the graph isn't built like the one that the executable was made from",
        "instantiate the new graph, and keep the old executable until that worked",
    ),
    // -- Everywhere --
    // Measured of a library's module, and in callbacks.
    hint(
        &["cuModuleUnload"],
        CUresult::NOT_PERMITTED,
        "the module belongs to a library, or the thread runs a callback of the driver",
        "unload the library instead, and outside of callbacks",
    ),
    // Measured: every call inside a host function or a user object's destructor.
    hint(
        &[],
        CUresult::NOT_PERMITTED,
        "the thread most likely runs a callback of the driver, where no call may be made",
        "leave the work to another thread",
    ),
    // Measured: a stream after its primary context was reset.
    hint(
        &[],
        CUresult::INVALID_HANDLE,
        "the object ended, by somebody else's call or with its context, or is of another context",
        "see who else ends what was shared by its raw handle",
    ),
    // -- Fatal codes: measured with 700 and 719; manual, CUresult, for the others --
    hint(
        &[],
        CUresult::ILLEGAL_ADDRESS,
        "queued work used an address that it may not, and no CUDA work can be done in this process now",
        "find the failing kernel with compute-sanitizer, and go on in a new process",
    ),
    // Manual, CUresult.
    hint(
        &[],
        CUresult::ASSERT,
        "a kernel's assert failed, and no CUDA work can be done in this process now",
        "read what the kernel printed on standard error, and go on in a new process",
    ),
    // Manual, CUresult.
    hint(
        &[],
        CUresult::MISALIGNED_ADDRESS,
        "queued work used an address that isn't a multiple of the access's size",
        "see that offsets into buffers are multiples of the element, and go on in a new process",
    ),
    // Manual, CUresult: only where the device also drives a display.
    hint(
        &[],
        CUresult::LAUNCH_TIMEOUT,
        "a kernel ran longer than a device that also drives a display allows",
        "launch shorter kernels, or use a device without a display; go on in a new process",
    ),
    // Manual, CUresult.
    hint(
        &[],
        CUresult::ILLEGAL_INSTRUCTION,
        "queued work met an instruction that this device doesn't have",
        "compile for this device's architecture, and go on in a new process",
    ),
    // Manual, CUresult.
    hint(
        &[],
        CUresult::HARDWARE_STACK_ERROR,
        "a kernel overran its stack or corrupted it",
        "raise the context's stack size or call less deeply, and go on in a new process",
    ),
    // Manual, CUresult.
    hint(
        &[],
        CUresult::ECC_UNCORRECTABLE,
        "memory of the device failed beyond correction",
        "drain the device, reset it, and have it looked at if it happens again",
    ),
    // Manual, CUresult.
    hint(
        &[],
        CUresult::NVLINK_UNCORRECTABLE,
        "a link between devices failed beyond correction",
        "drain the devices, reset them, and have the link looked at if it happens again",
    ),
];
