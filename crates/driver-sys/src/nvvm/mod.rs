//! NVVM, the compiler of LLVM's code to PTX: a list of its own, with a trait, named calls, hooks and a loader, built like
//! NVRTC's.
//!
//! It needs no driver and no GPU. It is looked for only when it is asked for, as [`nvrtc`](crate::nvrtc) is: what
//! `CUHOLD_NVVM` names, else by name, else in the known folders; below an installation's folder in `nvvm/lib64`, `lib64`,
//! `lib`, `nvidia/cu13/lib`, `nvidia/cuda_nvcc/nvvm/lib64`.
//!
//! Source: `nvvm.h` of CUDA 13.5.

mod api;
mod list;
mod load;
mod status;

pub use api::{NvvmApi, NvvmCalls, NvvmFailure};
pub use list::{NvvmCall, nvvmProgram};
pub use load::Libnvvm;
pub use status::nvvmResult;
