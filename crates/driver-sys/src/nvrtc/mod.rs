//! NVRTC, the run-time compiler of CUDA C++: a list of its own, with a trait, named calls, hooks and a loader, built like
//! the driver's.
//!
//! ```text
//!   list ──► NvrtcApi (trait) ──► Libnvrtc (loaded)   your own
//!        ├─► NvrtcCalls (by name)     │
//!        └─► Hooked (count, log, inject)   stackable over either
//! ```
//!
//! NVRTC needs no driver and no GPU. It is looked for only when it is asked for:
//!
//! | asked by | tried, in this order |
//! |---|---|
//! | [`Libnvrtc::load`], with `CUHOLD_NVRTC` set | the file it names, or the folder, nothing else |
//! | [`Libnvrtc::load`] | by name, then the known folders |
//! | [`Libnvrtc::load_from`] | that file or folder, nothing else |
//!
//! *By name* is `libnvrtc.so.13`, `libnvrtc.so.12`, `libnvrtc.so`, through the dynamic linker's search path
//! (`nvrtc64_130_0.dll`, `nvrtc64_120_0.dll` on Windows). *In a folder* it is the same names, in the folder itself and
//! where the toolkit and the Python wheels have it below: `lib64`, `lib`, `nvidia/cu13/lib`, `nvidia/cuda_nvrtc/lib`.
//! The *known folders* are those of `CUDA_PATH`, `CUDA_HOME`, `CONDA_PREFIX`, `VIRTUAL_ENV`, then `/usr/local/cuda`, then
//! the Python packages of the user and of the system. The first that works is taken; a newer one further on isn't
//! looked for.
//!
//! NVRTC opens a second library, `libnvrtc-builtins`, at the first compilation; it must lie beside the first or on the
//! search path. If it doesn't, the compilation answers
//! [`BUILTIN_OPERATION_FAILURE`](nvrtcResult::BUILTIN_OPERATION_FAILURE), and [`NvrtcApi::explain`] names the file that
//! is missing.
//!
//! Source: `nvrtc.h` of CUDA 12.9 and 13.5; versions from the headers of 11.8, 12.0, 12.6 and 12.8.

mod api;
mod list;
mod load;
mod status;

pub use api::{NvrtcApi, NvrtcCalls, NvrtcFailure};
pub use list::{NvrtcCall, nvrtcFlowCallback, nvrtcProgram};
pub use load::Libnvrtc;
pub use status::nvrtcResult;
